"""What the state of a monitor may hold: a file may come from a stranger, or from a disk that was full."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.deployment.monitoring.history import GROUP_BITS
from calibrant.deployment.monitoring.label_free import METRICS

#: No count or sum is larger: beyond it, the share of the capital that begins with the next row is lost in rounding.
LARGE = 1e12
#: Sums of squares and cubes over groups may be larger.
_LARGEST_SUM = LARGE**3


def upgraded(state: dict[str, Any], k: int) -> dict[str, Any]:
    """A state of version 1, which knew neither counts nor groups and did not halve the Brier score of two classes."""
    if state["version"] != 1:
        return state
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


def _plain_size(rows: int) -> dict[str, Any]:
    return {"rows": rows, "observations": float(rows), "groups": rows}


def check_state(state: dict[str, Any], k: int) -> None:
    """Hold a state of k classes to its names, types, shapes and ranges; `ValueError` names what is wrong.

    The bettors' capital is looked at when it is read: how many bettors there are only they know.
    """
    rows = _check_size(state["labelled"], "labelled")
    marks = _numbers(state["latest_groups"], "latest_groups", (None,), 0, 2**GROUP_BITS - 1)
    _require(marks.dtype.kind == "i" or not len(marks), "latest_groups are not whole numbers")
    _require(isinstance(state["alarm"], bool), "alarm is neither true nor false")
    columns = [] if state["segment_columns"] is None else state["segment_columns"]
    _require(isinstance(columns, list) and _texts(columns), "segment_columns are not a list of texts")
    names = [name for name, _ in state["bets"]]
    _require(None in names and len(set(names)) == len(names), "bets do not name every segment once")
    _require(all(name is None or isinstance(name, str) for name in names), "a segment is not a text")
    _require(columns or len(names) == 1, "bets on segments without columns of segments")
    for _, bets in state["bets"]:
        _numbers([bets["observations"]], "bets", (1,), 0.0, state["labelled"]["observations"] * (1.0 + 1e-9))
        _numbers(bets["since"], "since", (None,), 0, rows)
    _require(state["alarm"] == (state["blame"] is not None), "alarm and blame contradict each other")
    if not state["alarm"]:
        _require(state["alarm_row"] is None, "alarm_row has no alarm")
    else:
        _require(_count(state["alarm_row"], "alarm_row") <= rows, "alarm_row is beyond the last row")
        kind, column, segment, since = state["blame"]
        _require(kind in ("class", "slope"), "blame names no kind of change")
        _require(kind == "slope" or 0 <= _integer(column, "blame") < k, "blame names no class")
        _require(segment in names, "blame names no segment")
        _require(_count(since, "blame") <= rows, "blame is beyond the last row")
    recent = state["recent"]
    p = _numbers(recent["p"], "recent p", (None, k), 0.0, 1.0 + 1e-9)
    _require(np.all(np.abs(p.sum(axis=1) - 1.0) <= 1e-6), "recent p has rows that do not sum to 1")
    n = len(p)
    labels = _numbers(recent["y"], "recent y", (n,), 0, k - 1)
    _require(np.all(labels == np.floor(labels)), "recent y holds fractions")
    if recent["counts"] is not None:
        counts = _numbers(recent["counts"], "recent counts", (n,), 0.0, LARGE)
        _require(counts.all(), "a recent row counts for nothing")
    if recent["groups"] is not None:
        groups = _numbers(recent["groups"], "recent groups", (n,), 0, LARGE)
        _require(groups.dtype.kind == "i" or not n, "recent groups are not whole numbers")
    _require(len(recent["segment"]) == n, "recent segments are not one list for each row")
    fit = (isinstance(names, list) and len(names) == len(columns) and _texts(names) for names in recent["segment"])
    _require(all(fit), "recent segments are not a text for each column")
    seen = state["performance"]
    _check_size(seen["seen"], "performance")
    _numbers(seen["mean"], "performance mean", (len(METRICS),), -_LARGEST_SUM, _LARGEST_SUM)
    _numbers(seen["variance"], "performance variance", (len(METRICS),), -_LARGEST_SUM, _LARGEST_SUM)
    _numbers(seen["third"], "performance third", (len(METRICS),), -_LARGEST_SUM, _LARGEST_SUM)
    _numbers(seen["confusion"], "performance confusion", (k, k), 0.0, LARGE)
    if state["drift"] is not None:
        _check_drift(state["drift"], k)
    for record in state["history"]:
        _require(_count(record["rows"], "history") + _count(record["labelled"], "history"), "history of no rows")
        known = [record[name] for name in ("log_evidence", "expected_accuracy")]
        known += [record["observations"], record["labelled_observations"]]
        known += [record[name] for name in ("expected_labelled", "accuracy") if record[name] is not None]
        _numbers(known, "history", (None,), -LARGE, LARGE)


def _check_size(size: dict[str, Any], name: str) -> int:
    rows, groups = _count(size["rows"], f"{name} rows"), _count(size["groups"], f"{name} groups")
    _numbers([size["observations"]], f"{name} observations", (1,), 0.0, LARGE)
    _require(groups <= rows, f"{name} has more groups than rows")
    return rows


def _check_drift(drift: dict[str, Any], k: int) -> None:
    edges = _numbers(drift["edges"], "drift edges", (None,), 0.0, 1.0 + 1e-9)
    _require(np.all(np.diff(edges) > 0.0), "drift edges do not increase")
    for name in ("reference", "latest"):
        if name == "reference" or drift[name]:
            classes, confidence = drift[name]
            _numbers(classes, f"drift {name}", (k,), 0.0, LARGE)
            _numbers(confidence, f"drift {name}", (len(edges) + 1,), 0.0, LARGE)
    _require(sum(drift["reference"][0]) > 0.0, "drift reference is empty")
    _numbers([drift["units"]], "drift units", (1,), 0.0, LARGE)
    for block in filter(None, drift["waiting"]):
        classes, confidence, units, first_row = block
        _numbers(classes, "drift waiting", (k,), 0.0, LARGE)
        _numbers(confidence, "drift waiting", (len(edges) + 1,), 0.0, LARGE)
        _require(sum(classes) > 0.0 and sum(confidence) > 0.0, "drift waiting is empty")
        _numbers([units], "drift waiting", (1,), 0.0, LARGE)
        _count(first_row, "drift waiting")
    _count(drift["batches"], "drift batches")
    _require(isinstance(drift["found"], bool), "drift found is neither true nor false")
    _numbers([drift["p_value"]], "drift p_value", (1,), 0.0, 1.0)
    _require(drift["since"] is None if not drift["found"] else True, "drift since has no drift")
    if drift["found"]:
        _count(drift["since"], "drift since")


def _texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _require(condition: Any, what: str) -> None:
    if not condition:
        raise ValueError(what)


def _integer(value: Any, name: str) -> int:
    _require(isinstance(value, int) and not isinstance(value, bool), f"{name} is not a whole number")
    return int(value)


def _count(value: Any, name: str) -> int:
    _require(0 <= _integer(value, name) <= LARGE, f"{name} is not a number of rows")
    return int(value)


def _numbers(value: Any, name: str, shape: tuple[int | None, ...], low: float, high: float) -> NDArray[Any]:
    """A list of numbers of this shape (`None`: any size) and range."""
    array = np.asarray(value)
    if array.size == 0:
        array = array.reshape(tuple(0 if size is None else size for size in shape))
    _require(array.dtype.kind in "if", f"{name} holds something other than numbers")
    fits = array.ndim == len(shape) and all(size in (None, found) for size, found in zip(shape, array.shape))
    _require(fits, f"{name} has shape {array.shape}")
    _require(np.all((array >= low) & (array <= high)), f"{name} is outside of [{low:g}, {high:g}]")
    return array
