"""What the state of a monitor may hold: a file may come from a stranger, or from a disk that was full."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.deployment.monitoring.label_free import METRICS

#: No count or sum is larger: beyond it, the share of the capital that begins with the next row is lost in rounding.
_LARGE = 1e12


def check_state(state: dict[str, Any], k: int) -> None:
    """Hold a state of k classes to its names, types, shapes and ranges; `ValueError` names what is wrong.

    The bettors' capital is looked at when it is read: how many bettors there are only they know.
    """
    rows = _count(state["rows"], "rows")
    _require(isinstance(state["alarm"], bool), "alarm is neither true nor false")
    columns = [] if state["segment_columns"] is None else state["segment_columns"]
    _require(isinstance(columns, list) and _texts(columns), "segment_columns are not a list of texts")
    names = [name for name, _ in state["bets"]]
    _require(None in names and len(set(names)) == len(names), "bets do not name every segment once")
    _require(all(name is None or isinstance(name, str) for name in names), "a segment is not a text")
    _require(columns or len(names) == 1, "bets on segments without columns of segments")
    for _, bets in state["bets"]:
        _require(_count(bets["rows"], "bets") <= rows, "bets on more rows than there are")
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
    _require(len(recent["segment"]) == n, "recent segments are not one list for each row")
    fit = (isinstance(names, list) and len(names) == len(columns) and _texts(names) for names in recent["segment"])
    _require(all(fit), "recent segments are not a text for each column")
    seen = state["performance"]
    _count(seen["rows"], "performance rows")
    _numbers(seen["mean"], "performance mean", (len(METRICS),), -_LARGE, _LARGE)
    _numbers(seen["variance"], "performance variance", (len(METRICS),), -_LARGE, _LARGE)
    _numbers(seen["confusion"], "performance confusion", (k, k), 0.0, _LARGE)
    if state["drift"] is not None:
        _check_drift(state["drift"], k)
    for record in state["history"]:
        _require(_count(record["rows"], "history") + _count(record["labelled"], "history"), "history of no rows")
        known = [record[name] for name in ("log_evidence", "expected_accuracy")]
        known += [record[name] for name in ("expected_labelled", "accuracy") if record[name] is not None]
        _numbers(known, "history", (None,), -_LARGE, _LARGE)


def _check_drift(drift: dict[str, Any], k: int) -> None:
    edges = _numbers(drift["edges"], "drift edges", (None,), 0.0, 1.0 + 1e-9)
    _require(np.all(np.diff(edges) > 0.0), "drift edges do not increase")
    for name in ("reference", "latest"):
        if name == "reference" or drift[name]:
            classes, confidence = drift[name]
            _numbers(classes, f"drift {name}", (k,), 0.0, _LARGE)
            _numbers(confidence, f"drift {name}", (len(edges) + 1,), 0.0, _LARGE)
    _require(sum(drift["reference"][0]) > 0.0, "drift reference is empty")
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
    _require(0 <= _integer(value, name) <= _LARGE, f"{name} is not a number of rows")
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
