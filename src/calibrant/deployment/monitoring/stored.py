"""The state of a monitor in terms of JSON, and what it may hold: one description of it both checks and reads.

A file may come from a stranger, or from a disk that was full: `ValueError` names what is wrong with it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import astuple, fields, is_dataclass
from typing import Any

import numpy as np

from calibrant.deployment.monitoring.bets import Bets
from calibrant.deployment.monitoring.history import NAME_BITS, BatchLog, Entry, History, Recent, Record, Seen
from calibrant.deployment.monitoring.label_free import METRICS, Drift, Performance
from calibrant.sample import Sample
from calibrant.typing import AnyArray, Label

#: Of the states that are written; those of versions before it are read.
VERSION = 3
#: No count or sum is larger: beyond it, the share of the capital that begins with the next row is lost in rounding.
LARGE = 1e12
#: Sums of squares and cubes over groups may be larger.
_LARGEST_SUM = LARGE**3


def as_json(value: object) -> Any:
    """Records, arrays and lists in terms of JSON; the logarithm of nothing is None."""
    if isinstance(value, Recent):
        data = value.data
        rows = {
            "p": packed(data.proba),
            "y": data.y,
            "counts": data.counts,
            "groups": data.groups,
            "segment": value.segment,
        }
        return {name: as_json(part) for name, part in rows.items()}
    if isinstance(value, History):
        # Column by column: the names of the columns would take most of the room.
        return {column.name: [getattr(record, column.name) for record in value.records] for column in fields(Record)}
    if isinstance(value, BatchLog):
        return {"known": as_json([astuple(entry) for entry in value.entries]), "before": value.before}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return as_json(value.tolist())
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    return None if isinstance(value, float) and np.isneginf(value) else value


def packed(values: object) -> str:
    """Numbers in single precision as text: a quarter of the room of their digits."""
    return b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()


def upgraded(state: dict[str, Any], k: int) -> dict[str, Any]:
    """A state of an earlier version: version 2 had no names of batches, and wrote every number of the latest rows."""
    state = _with_counts(state, k) if state["version"] == 1 else state
    if state["version"] == VERSION:
        return state
    columns = {column.name: [record.get(column.name) for record in state["history"]] for column in fields(Record)}
    recent = {**state["recent"], "p": packed(state["recent"]["p"])}
    return {**state, "recent": recent, "history": columns, "known": [], "before": []}


def _with_counts(state: dict[str, Any], k: int) -> dict[str, Any]:
    """A state of version 1, which knew neither counts nor groups and did not halve the Brier score of two classes."""
    seen, drift = state["performance"], state["drift"]
    scale = np.array([1.0, 1.0, 0.5 if k == 2 else 1.0])
    performance = {
        "seen": _plain_size(seen["rows"]),
        "mean": (scale * seen["mean"]).tolist(),
        "variance": (scale**2 * seen["variance"]).tolist(),
        "third": [0.0] * len(METRICS),
        "confusion": seen["confusion"],
    }
    history = [
        {**record, "observations": record["rows"] or record["labelled"], "labelled_observations": record["labelled"]}
        for record in state["history"]
    ]
    return {
        **state,
        "labelled": _plain_size(state["rows"]),
        "latest_groups": [],
        "bets": [[name, {**bets, "observations": bets["rows"]}] for name, bets in state["bets"]],
        "recent": {**state["recent"], "counts": None, "groups": None},
        "performance": performance,
        "drift": None if drift is None else {**drift, "units": sum(drift["reference"][0]), "waiting": []},
        "history": history,
    }


def _plain_size(rows: int) -> dict[str, object]:
    return {"rows": rows, "observations": float(rows), "groups": rows}


#: Reads a part of a state, with its name for messages.
Form = Callable[[Any, str], Any]


def _numbers(*shape: int | None, low: float = 0.0, high: float = LARGE, whole: bool = False) -> Form:
    """An array of this shape (`None`: any size) and range; without a shape a single number."""

    def read(value: object, name: str) -> Any:
        array = np.asarray(value)
        if shape and array.size == 0:
            array = np.zeros([0 if size is None else size for size in shape], dtype=np.int64)
        _require(array.dtype.kind in ("i" if whole else "if"), f"{name} holds something other than numbers")
        fits = array.ndim == len(shape) and all(size in (None, found) for size, found in zip(shape, array.shape))
        _require(fits, f"{name} has shape {array.shape}")
        _require(np.all((array >= low) & (array <= high)), f"{name} is outside of [{low:g}, {high:g}]")
        array = array.astype(np.int64 if whole else np.float64)
        return array if shape else array.item()

    return read


def _packed(width: int) -> Form:
    """What `packed` made of a matrix with so many columns, of numbers from 0 to 1."""

    def read(value: object, name: str) -> Any:
        data = b64decode(_a(str)(value, name), validate=True)
        _require(len(data) % (4 * width) == 0, f"{name} is cut off")
        array = np.frombuffer(data, dtype="<f4").astype(np.float64).reshape(-1, width)
        return _numbers(None, width, high=1.0 + 1e-6)(array, name)

    return read


def _record(make: Callable[..., object], parts: dict[str, Form]) -> Form:
    """What `make` makes of named parts."""
    return lambda value, name: make(**{key: part(value[key], f"{name} {key}") for key, part in parts.items()})


def _maybe(form: Form) -> Form:
    return lambda value, name: None if value is None else form(value, name)


def _a(kind: type) -> Form:
    def read(value: object, name: str) -> Any:
        _require(isinstance(value, kind), f"{name} is not of the type {kind.__name__}")
        return value

    return read


def _list(*forms: Form) -> Form:
    """A list with a part of each form."""

    def read(value: Any, name: str) -> list[Any]:
        _require(len(_a(list)(value, name)) == len(forms), f"{name} has {len(value)} parts instead of {len(forms)}")
        return [form(item, name) for form, item in zip(forms, value)]

    return read


def _lists(form: Form) -> Form:
    """A list of any length, all parts of one form."""
    return lambda value, name: [form(item, name) for item in _a(list)(value, name)]


_COUNT, _AMOUNT, _ANY, _TEXT = _numbers(whole=True), _numbers(), _numbers(low=-LARGE), _a(str)
_SEEN = _record(Seen, {"rows": _COUNT, "observations": _AMOUNT, "groups": _COUNT})


def read_state(state: dict[str, object], classes: AnyArray) -> dict[str, Any]:
    """The parts of a state by name: what `as_json` was given."""
    k = len(classes)
    columns = _maybe(_lists(_TEXT))(state["segment_columns"], "segment_columns")
    recent = {
        "p": _packed(k),
        "y": _numbers(None, high=k - 1, whole=True),
        "counts": _maybe(_numbers(None, low=np.nextafter(0.0, 1.0))),
        "groups": _maybe(_numbers(None, whole=True)),
        "segment": _lists(_list(*[_TEXT] * len(columns or ()))),
    }
    record = {
        **dict.fromkeys(("rows", "labelled"), _COUNT),
        **dict.fromkeys(("log_evidence", "expected_accuracy"), _ANY),
        **dict.fromkeys(("expected_labelled", "accuracy"), _maybe(_ANY)),
        **dict.fromkeys(("observations", "labelled_observations"), _AMOUNT),
        **dict.fromkeys(("expected_count", "observed_count"), _maybe(_AMOUNT)),
        **dict.fromkeys(("first", "last"), _maybe(_TEXT)),
    }
    mark, flag = _numbers(high=2**NAME_BITS - 1, whole=True), _a(bool)
    parts = {
        "latest_groups": _numbers(None, high=2**NAME_BITS - 1, whole=True),
        "recent": _record(lambda **rows: _recent(classes, **rows), recent),
        "history": _record(_history, {name: _lists(form) for name, form in record.items()}),
        "known": _lists(_list(mark, mark, flag, flag)),
        "before": _lists(_a(dict)),
    }
    found = {name: part(state[name], name) for name, part in parts.items()}
    history, before = found["history"].records, found["before"]
    _require(all(part.rows + part.labelled for part in history), "history of no rows")
    _require(len(before) <= min(len(found["known"]), len(history)), "before has no batches")
    for earlier in before:  # kept as it is, and used only to go back
        read_core(earlier, classes)
        _COUNT(earlier["groups_brought"], "groups_brought")
    batches = BatchLog([Entry(*entry) for entry in found["known"]], before)
    return {**read_core(state, classes), **found, "batches": batches}


def read_core(state: dict[str, Any], classes: AnyArray) -> dict[str, Any]:
    """The parts of a state that are kept of the time before each of the latest batches."""
    k, labelled = len(classes), _SEEN(state["labelled"], "labelled")
    last_row = _numbers(high=labelled.rows, whole=True)
    bettors, n_edges = len(Bets.start(k).active), len((state["drift"] or {"edges": ()})["edges"])
    moments = _numbers(len(METRICS), low=-_LARGEST_SUM, high=_LARGEST_SUM)
    cells = _numbers(k), _numbers(n_edges + 1)
    bets = {
        "observations": _numbers(high=labelled.observations * (1.0 + 1e-9)),
        "active": _lists(_maybe(_ANY)),
        "run": _numbers(bettors, low=-LARGE),
        "since": _numbers(bettors, high=labelled.rows, whole=True),
    }
    performance = {**dict.fromkeys(("mean", "variance", "third"), moments), "confusion": _numbers(k, k)}
    drift = {
        "edges": _numbers(n_edges, high=1.0 + 1e-9),
        "reference": _list(*cells),
        "units": _AMOUNT,
        "batches": _COUNT,
        "found": _a(bool),
        "p_value": _numbers(high=1.0),
        "since": _maybe(_COUNT),
        "waiting": _lists(_maybe(_list(*cells, _AMOUNT, _COUNT))),
    }
    parts = {
        "labelled": _SEEN,
        "alarm": _a(bool),
        "alarm_row": _maybe(last_row),
        "blame": _maybe(_list(_TEXT, _numbers(low=-1, high=k - 1, whole=True), _maybe(_TEXT), last_row)),
        "segment_columns": _maybe(_lists(_TEXT)),
        "bets": _lists(_list(_maybe(_TEXT), _record(_bets, bets))),
        "performance": _record(Performance, {"seen": _SEEN, **performance}),
        "drift": _maybe(_record(Drift, drift)),
    }
    found = {name: part(state[name], name) for name, part in parts.items()}
    _check_together(found)
    return found


def _bets(active: list[float | None], **parts: Any) -> Bets:
    """A bettor who has not begun has no capital, of which None is the logarithm."""
    _require(len(active) == len(parts["run"]), "the bets do not match the number of classes")
    return Bets(active=np.array([-np.inf if value is None else value for value in active]), **parts)


def _history(**columns: Sequence[Label]) -> History:
    _require(len({len(column) for column in columns.values()}) == 1, "history has columns of different lengths")
    return History([Record(**dict(zip(columns, row))) for row in zip(*columns.values())])


def _recent(classes: AnyArray, p: Any, y: Any, counts: Any, groups: Any, segment: list[list[str]]) -> Recent:
    n = len(p)
    _require(np.all(np.abs(p.sum(axis=1) - 1.0) <= 1e-6), "recent p has rows that do not sum to 1")
    known = [part for part in (y, counts, groups, segment) if part is not None]
    _require(all(len(part) == n for part in known), "recent rows do not all have the same parts")
    names = np.array(segment, dtype=object).reshape(n, -1 if n and segment[0] else 0)
    return Recent(Sample(p, y, counts, groups, classes), names)


def _check_together(found: dict[str, Any]) -> None:
    """What the parts of a state say of each other."""
    names = [name for name, _ in found["bets"]]
    _require(None in names and len(set(names)) == len(names), "bets do not name every segment once")
    _require(found["segment_columns"] or len(names) == 1, "bets on segments without columns of segments")
    _require(found["alarm"] == (found["blame"] is not None), "alarm and blame contradict each other")
    _require(found["alarm"] == (found["alarm_row"] is not None), "alarm_row has no alarm")
    if found["blame"] is not None:
        kind, column, segment, _ = found["blame"]
        _require(kind == "slope" or (kind == "class" and column >= 0), "blame names no kind of change")
        _require(segment in names, "blame names no segment")
    for seen in (found["labelled"], found["performance"].seen):
        _require(seen.groups <= seen.rows, "there are more groups than rows")
    drift = found["drift"]
    if drift is not None:
        _require(np.all(np.diff(drift.edges) > 0.0), "drift edges do not increase")
        counted = [drift.reference, *(block[:2] for block in drift.waiting if block)]
        _require(all(part.sum() > 0.0 for pair in counted for part in pair), "drift of no rows")
        _require(drift.found == (drift.since is not None), "drift since has no drift")


def _require(condition: object, what: str) -> None:
    if not condition:
        raise ValueError(what)
