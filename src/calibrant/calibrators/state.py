"""What a fitted calibrator may hold: each class declares it in `_check_state`, and files are checked against it.

A file may come from a stranger, and some maps index arrays in compiled code, which does not check bounds. So nothing
becomes a calibrator until every name, shape, range and order in its state has been checked; a name that its class does
not declare is refused. Numbers are bounded so that no map can overflow: a state that passes predicts probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.typing import AnyArray

#: Fitted numbers beyond this are refused: the product of three is still finite.
LARGE = 1e100


class StateCheck:
    """Checks of one calibrator's fitted state; each raises `ValueError` and marks the name as known.

    There are at least `fewest` classes: one where they are independent labels.
    """

    def __init__(self, state: Mapping[str, Any], fewest: int = 2) -> None:
        self._state = state
        self._known: set[str] = set()
        classes = self._get("classes_")
        plain = (str, int, float, np.generic, type(None))
        if not isinstance(classes, np.ndarray) or classes.ndim != 1 or len(classes) < fewest:
            raise ValueError(f"classes_ should be an array of at least {fewest} labels")
        if not all(isinstance(label, plain) for label in classes) or len(set(classes.tolist())) != len(classes):
            raise ValueError("classes_ should hold different labels: texts, numbers or dates")
        self.k = len(classes)

    def _get(self, name: str) -> Any:
        if name not in self._state:
            raise ValueError(f"{name} is missing")
        self._known.add(name)
        return self._state[name]

    def array(
        self,
        name: str,
        *shape: int | None,
        low: float = -LARGE,
        high: float = LARGE,
        increasing: bool = False,
        integer: bool = False,
    ) -> AnyArray:
        """An array of this shape (`None`: any size) and range; `increasing` ones have a distance between neighbours."""
        value = self._get(name)
        if not isinstance(value, np.ndarray) or not (value.dtype.kind == "i" if integer else value.dtype == np.float64):
            raise ValueError(f"{name} should be an array of {'integers' if integer else 'float64 numbers'}")
        fits = len(value.shape) == len(shape) and all(n in (None, m) for n, m in zip(shape, value.shape))
        if not fits:
            expected = ", ".join("any" if n is None else str(n) for n in shape)
            raise ValueError(f"{name} has shape {value.shape}, expected ({expected})")
        if not np.all((value >= low) & (value <= high)):
            raise ValueError(f"{name} holds numbers outside [{low:g}, {high:g}]")
        if increasing and not np.all(np.diff(value) > 1.0 / LARGE):
            raise ValueError(f"{name} does not increase")
        return value

    def number(self, name: str, low: float = -LARGE, high: float = LARGE) -> float:
        """A number in this range."""
        value = self._get(name)
        # NumPy keeps integers beyond 64 bits as objects, with which nothing can be computed.
        beyond = isinstance(value, int) and abs(value) >= 2**63
        if beyond or not _is_number(value):
            raise ValueError(f"{name} should be a number{' of at most 64 bits' if beyond else ''}")
        if not low <= value <= high:
            raise ValueError(f"{name} is {float(value):.6g}, expected a number in [{low:g}, {high:g}]")
        return float(value)

    def calibrators(self, name: str, count: int, n_classes: int) -> None:
        """A list of fitted calibrators of `n_classes` columns, each checked when it was made."""
        value = self._get(name)
        if not isinstance(value, list) or len(value) != count:
            raise ValueError(f"{name} should be a list of {count} calibrators")
        for item in value:
            self.calibrator(name, n_classes, item)

    def calibrator(self, name: str, n_classes: int, value: object = None, *, segments: bool = False) -> None:
        """One such calibrator; unless its owner hands on `segments`, it takes none."""
        value = self._get(name) if value is None else value
        if not hasattr(value, "_map") or len(getattr(value, "classes_", ())) != n_classes:
            raise ValueError(f"{name} should be fitted to {n_classes} classes")
        if not segments and getattr(value, "segment_columns_", None):
            raise ValueError(f"{name} needs segments, which are not passed on here")

    def information(self, *names: str) -> None:
        """Names that predictions do not depend on; they may be missing and may hold anything."""
        self._known.update(names)

    def said(self, **kinds: type | int) -> None:
        """Names that only summaries use, and may be missing: a text, a number, numbers by name, or so many numbers."""
        for name, kind in kinds.items():
            if name not in self._state:
                continue
            value = self._get(name)
            if isinstance(kind, int):
                self.array(name, kind, low=-np.inf, high=np.inf)
            elif kind is float:
                self.require(_is_number(value) and abs(value) <= LARGE, f"{name} should be a number")
            elif kind is dict and isinstance(value, dict):
                said = all(_is_number(one) and abs(one) <= LARGE for one in value.values())
                self.require(said, f"{name} should hold numbers")
            else:
                self.require(isinstance(value, kind), f"{name} should be a {kind.__name__}")

    def choice(self, name: str, *known: str) -> None:
        """One of some words; it may be missing."""
        self._known.add(name)
        value = self._state.get(name, known[0])
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"{name} should be one of {', '.join(known)}")

    def require(self, condition: object, what: str) -> None:
        """Anything else that has to hold."""
        if not condition:
            raise ValueError(what)

    def names(self) -> None:
        """What all calibrators have: the numbers, order and names of columns."""
        n_columns = self.number("n_features_in_", 1, self.k)
        self.require(n_columns in ((1, 2) if self.k == 2 else (self.k,)), f"n_features_in_ is {n_columns:g}")
        if self._get("_column_order") is not None:
            order = self.array("_column_order", self.k, integer=True)
            self.require(np.array_equal(np.sort(order), np.arange(self.k)), "_column_order is not a permutation")
        names = self._state.get("_column_names")
        self.information("_column_names", "feature_names_in_")
        if "class_counts_" in self._state:  # not in files of version 0.1.0
            self.array("class_counts_", self.k, low=0.0)
        self.require(names is None or (isinstance(names, list) and len(names) == n_columns), "_column_names do not fit")
        if "feature_names_in_" in self._state:
            listed = np.asarray(self._state["feature_names_in_"]).tolist()
            self.require(listed == names and all(isinstance(n, str) for n in listed), "feature_names_in_ do not fit")

    def finish(self, owner: str) -> None:
        """Refuse names that were not declared."""
        unknown = sorted(set(self._state) - self._known)
        self.require(not unknown, f"{owner}._check_state does not declare {', '.join(unknown)[:80]}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
