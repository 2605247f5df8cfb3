"""Fitted maps with NumPy alone: no scikit-learn, no SciPy, no numba.

``runtime.load("cal.json").predict_proba(P)`` gives what the calibrator gave that `calibrant.save` stored: a file holds
the map as a list of steps, which is all that prediction needs.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.inputs.class_columns import (
    NamedColumns,
    check_second_class,
    columns_of_classes,
    fitted_columns,
    order_of_columns,
)
from calibrant.inputs.predictions import (
    as_matrix,
    label_predictions,
    output_dtype,
    rounding_of,
    to_log_probabilities,
    to_numpy,
)
from calibrant.inputs.rows import SHORT
from calibrant.inputs.segments import SeenLevels, SegmentInputs, read_segments, segment_numbers
from calibrant.inputs.words import CalibrationWarning
from calibrant.simplex import FLOOR
from calibrant.steps import Scale, Steps, encode, run, run_from_logs, widest
from calibrant.steps.actions import CostTable, cheapest
from calibrant.steps.map_documents import (
    FORMAT,
    FileError,
    canonical,
    checksum,
    map_parts,
    read_rule,
    refuse_constant,
    version_fault,
)
from calibrant.typing import AnyArray, FloatArray, IntArray, Label, TableLike

__all__ = ["FileError", "Map", "load"]

#: Numbers handled at a time in prediction: small enough for the processor's cache.
BLOCK_ELEMENTS = 1 << 16
#: Numbers that may also be held between two steps.
_WIDER = 32

#: How far from one the rows of a map may sum: more than float32 rounds a thousand classes by.
_OFF = 1e-3


def predict(
    steps: Steps,
    array: AnyArray,
    order: NDArray[np.intp] | None,
    *,
    k: int,
    logits: bool = False,
    renormalize: bool = False,
    rounding: float,
    beside: FloatArray | None = None,
    scaling: Scale | None = None,
) -> AnyArray:
    """Validate predictions and run `steps` on them, block by block, so that temporaries stay small.

    `order` is the column of each class, and `rounding` how far from one rows may sum. Numbers (n, c) in `beside`
    are given to the first step after the probabilities. `scaling` turns scores into logits.
    """
    out = np.empty((len(array), k), dtype=output_dtype(array))
    rows = max(1, BLOCK_ELEMENTS // max(k, widest(steps) // _WIDER)) if len(array) > 1 else 1
    start_from = run_from_logs if logits else run
    for start in range(0, len(array), rows):
        block = to_log_probabilities(
            array[start : start + rows],
            logits=logits,
            renormalize=renormalize,
            first_row=start,
            rounding=rounding,
            log=None,
            scale=None if scaling is None else scaling.apply,
        )
        block = block if order is None else np.ascontiguousarray(block[:, order])
        if beside is None:
            out[start : start + rows] = start_from(steps, block)
        else:
            p = np.exp(block) if logits else block
            out[start : start + rows] = run(steps, np.hstack([p, beside[start : start + rows]]))
    return out


@dataclass(frozen=True)
class Map:
    """A fitted map: what it takes, its steps, and the classes it gives probabilities of.

    Attributes
    ----------
    classes : list
        The labels, in the order of the columns that `predict_proba` returns: texts or numbers.
    steps : sequence of Step
        What is done to probabilities, in this order.
    logits : bool
        Whether predictions are logits instead of probabilities.
    renormalize : bool
        Whether rows are rescaled that do not sum to one.
    columns : ndarray of shape (k,) or None
        The column of the predictions that belongs to each class; `None` is their order.
    method : str
        The class of the calibrator.
    segments : dict
        The columns that tell the segment of a row, if the map needs any: the texts of their levels, or None for a
        column of numbers. The first step gets a number for each of them behind the probabilities.
    names : list or None
        The names of the columns in `fit`, texts or whole numbers, in their order; of a single column without a name
        that of the second class. `None`: the columns had no names.
    scaling : Scale or None
        What makes logits of scores, column by column as they are given; a single score stands behind a zero.
    rule : CostTable or None
        The costs of actions, if the map decides; a file holds them beside the map.
    independent : bool
        Whether classes are independent labels, any number of which may be true: rows of predictions and results need
        not sum to one. The first step gets the probabilities that labels are not true, and then that they are true.
    interval : sequence of Step or None
        Steps to the lower ends of intervals of all classes, then the upper ends, for exports; a file has none.

    Examples
    --------
    >>> from calibrant.steps import Log, Scale, Softmax
    >>> Map(["no", "yes"], [Log(), Scale(0.5), Softmax()]).predict_proba([0.1, 0.5]).round(2)
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    """

    classes: list[Any]
    steps: Steps
    logits: bool = False
    renormalize: bool = False
    columns: IntArray | None = None
    method: str = ""
    segments: SegmentInputs = field(default_factory=dict)
    names: list[Any] | None = None
    scaling: Scale | None = None
    rule: CostTable | None = None
    independent: bool = False
    interval: Steps | None = None

    @property
    def width(self) -> int:
        """The number of columns that the first step gets."""
        return 2 * self.k if self.independent else self.k + len(self.segments)

    @property
    def k(self) -> int:
        """The number of classes."""
        return len(self.classes)

    @property
    def input(self) -> str:
        """What predictions are: "probabilities", "logits" or "scores"."""
        return "scores" if self.scaling is not None else "logits" if self.logits else "probabilities"

    @property
    def column_names(self) -> list[str]:
        """What the columns of the predictions are called: as in `fit`, or as the classes if they had no names.

        Examples
        --------
        >>> Map(["no", "yes"], [], columns=np.array([1, 0])).column_names
        ['yes', 'no']
        """
        if self.names is not None:
            return [str(name) for name in self.names]
        order = range(self.k) if self.columns is None else np.argsort(self.columns)
        return [str(self.classes[j]) for j in order]

    def predict_proba(self, X: TableLike, *, segments: TableLike | None = None) -> AnyArray:
        """Calibrated probabilities, float32 for float32 or narrower input, else float64.

        Parameters
        ----------
        X : array-like of shape (n, k), or (n,) or (n, 1) for two classes, data frame, or mapping of columns
            Predictions, columns in the order of the calibration data; a single column is that of the second class.
            Columns that have names are matched with those of `fit`, in any order; others, such as an id, are left out.
        segments : data frame, mapping of columns, or array-like of shape (n,) or (n, c), default=None
            The columns that tell the segment of each row, for a map that has `segments`.
        """
        known = self.names if self.names is not None and len(self.names) == self.k else None
        if isinstance(X, Mapping):
            taken = list(X) if known is None or not set(X) >= set(known) else known
            given: object = NamedColumns(taken, np.column_stack([to_numpy(X[name]) for name in taken]))
        else:
            given = fitted_columns(X, known)
        if self.independent:
            return self._predict_labels(given)
        array, names = as_matrix(given)
        columns = 1 if array.ndim == 1 else array.shape[1]
        if columns != self.k and not (columns == 1 and self.k == 2):
            raise ValueError(f"X has {columns} columns; this map was fitted to {self.k} classes, one column per class.")
        if columns == 1 and names is not None and names != self.names:
            check_second_class(names[0], self.classes)
        p = predict(
            self.steps,
            array,
            None if columns == 1 else self._order(names),
            k=self.k,
            logits=self.logits,
            renormalize=self.renormalize,
            rounding=rounding_of(given),
            beside=self.numbers(segments, len(array)),
            scaling=self.scaling,
        )
        # Steps that are valid one by one can still make a map that gives no probabilities.
        if not _are_probabilities(p):
            raise FileError("This map does not give probabilities: its file was changed.")
        return p

    def _predict_labels(self, X: object) -> FloatArray:
        """Calibrated probabilities of independent labels."""
        off, on, names = label_predictions(X, logits=self.logits)
        if on.shape[1] != self.k:
            raise ValueError(
                f"X has {on.shape[1]} columns; this map was fitted to {self.k} labels, one column per label."
            )
        order = self._order(names)
        off, on = (off, on) if order is None else (off[:, order], on[:, order])
        out = np.empty_like(on)
        rows = max(1, BLOCK_ELEMENTS // self.k)
        for start in range(0, len(on), rows):
            block = slice(start, start + rows)
            out[block] = run(self.steps, np.hstack([off[block], on[block]]))
        if not (out.min() >= 0.0 and out.max() <= 1.0 + _OFF):
            raise FileError("This map does not give probabilities: its file was changed.")
        return np.minimum(out, 1.0)

    def _order(self, names: Sequence[Label] | None) -> NDArray[np.intp] | None:
        """The column of each class in predictions whose columns have these names."""
        if names is None:
            return self.columns
        if self.names is None or len(self.names) < len(names):
            order = columns_of_classes(np.asarray(self.classes), names)
            return self.columns if order is None else order
        return order_of_columns(names, self.names, self.columns)

    def numbers(self, segments: object, n: int) -> FloatArray | None:
        """What the first step gets for the segments of `n` rows, (n, c); None if the map needs none."""
        if not self.segments:
            if segments is not None:
                raise ValueError("This map takes no segments: leave segments= out.")
            return None
        if segments is None:
            raise ValueError(f"This map needs segments=, a frame with the columns {', '.join(self.segments)}.")
        frame, seen = read_segments(segments, n), SeenLevels(self.segments)
        numbers = segment_numbers(frame, self.segments)
        seen.add(frame, numbers)
        for note in seen.notes():
            warnings.warn(note, CalibrationWarning, stacklevel=3)
        return numbers

    def predict(self, X: TableLike, *, segments: TableLike | None = None) -> list[Any]:
        """The most probable label of each row after calibration."""
        return [self.classes[j] for j in self.predict_proba(X, segments=segments).argmax(axis=1)]

    def predict_interval(self, X: TableLike) -> AnyArray:
        """Intervals of the calibrated probabilities (n, k, 2), of a map that has steps to them."""
        if self.interval is None:
            raise ValueError("This map has no intervals.")
        rows = Map(self.classes, [], self.logits, self.renormalize, self.columns, scaling=self.scaling)
        ends = run(self.interval, np.maximum(rows.predict_proba(X), FLOOR).astype(np.float64))
        return ends.reshape(len(ends), 2, self.k).transpose(0, 2, 1)

    def decide(
        self, X: ArrayLike, amounts: Mapping[str, Any] | None = None, *, segments: TableLike | None = None
    ) -> list[Any]:
        """The cheapest action for each row after calibration, of a map that has a rule.

        Parameters
        ----------
        X, segments
            As in `predict_proba`.
        amounts : mapping of str to array-like of shape (n,), default=None
            The amounts of each row that the costs name.
        """
        if self.rule is None:
            raise ValueError("This map has no decision rule: call set_rule on the calibrator, and save it again.")
        p = self.predict_proba(X, segments=segments)
        chosen = cheapest(self.rule.expected(p, self.rule.check_amounts(amounts, len(p))))
        return [self.rule.names[action] for action in chosen.tolist()]

    def to_json(self) -> dict[str, Any]:
        """The map in terms of JSON: see docs/format.md."""
        segments = [{"name": name, "levels": levels} for name, levels in self.segments.items()]
        return {
            "classes": self.classes,
            "input": self.input,
            **({} if self.scaling is None else {"scaling": encode([self.scaling])}),
            "renormalize": bool(self.renormalize),
            "columns": None if self.columns is None else self.columns.tolist(),
            "method": self.method,
            **({"segments": segments} if segments else {}),
            **({"independent": True} if self.independent else {}),
            **({} if self.names is None else {"names": self.names}),
            "steps": encode(self.steps),
        }

    @classmethod
    def from_json(cls, value: object) -> Map:
        """The map that `to_json` wrote; every number is checked, since a file may come from anyone."""
        return cls(**map_parts(value))


def _are_probabilities(p: AnyArray) -> bool:
    if p.size <= SHORT:  # one row of a service: asking number by number is faster
        return all(min(row) >= 0.0 and abs(sum(row) - 1.0) <= _OFF for row in p.tolist())
    return bool(p.min() >= 0.0 and np.abs(p.sum(axis=1) - 1.0).max() <= _OFF)


def load(path: str | os.PathLike[str]) -> Map:
    """The map in a file that `calibrant.save` wrote.

    Parameters
    ----------
    path : str or path-like
        The file.

    Raises
    ------
    FileError
        A `ValueError`: the file is damaged, of another kind, or of version 0.1.0, which stored no steps.

    Examples
    --------
    >>> import os, tempfile
    >>> import calibrant
    >>> from calibrant import runtime
    >>> ts = calibrant.get_calibrator("ts").fit([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], ["no", "yes", "yes"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     calibrant.save(ts, os.path.join(folder, "ts.json"))
    ...     runtime.load(os.path.join(folder, "ts.json")).classes
    ['no', 'yes']
    """
    with open(path, encoding="utf-8") as file:
        try:
            document = json.load(file, parse_constant=refuse_constant)
        except (ValueError, RecursionError) as error:
            raise FileError(f"{os.fspath(path)}: This is not a calibrator file ({error!s:.200}).") from None
    try:
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise FileError("This is not a calibrator file.")
        if fault := version_fault(document):
            raise FileError(fault)
        found = document.get("map")
        if found is None:
            raise FileError(
                "This file holds no steps: it was written by calibrant 0.1.0. Load and save it again with "
                "calibrant.load and calibrant.save of this version."
            )
        try:
            matches = checksum(canonical(found)) == document.get("map_sha256")
        except (ValueError, RecursionError):  # a number that no double holds, such as 1e999; lists without end
            matches = False
        if not matches:
            raise FileError("This file is damaged: its map does not match its checksum.")
        if isinstance(found, list):
            found = [item for item in found if type(item) is not int]  # a number: the same as an earlier fold
            if len(found) != 1:
                raise FileError(
                    f"This file holds the {len(found)} different calibrators of a CalibratedClassifier, each for the "
                    "classifier of one fold. Fit it with ensemble='auto' or ensemble=False for a single calibrator."
                )
            found = found[0]
        fitted = Map.from_json(found)
        return replace(fitted, rule=read_rule(document, fitted.classes))
    except FileError as error:
        raise FileError(f"{os.fspath(path)}: {error}") from None
