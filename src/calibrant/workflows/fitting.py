"""Fit a calibrator, made by the name of its method, to a table of predictions, and store it."""

from __future__ import annotations

import difflib
import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.calibrators.batch_fitting import rows_in_memory
from calibrant.calibrators.registry import calibrator_info
from calibrant.deployment import SegmentedCalibrator
from calibrant.deployment.segments.columns import BINS
from calibrant.files.stored.audit import RowAudit
from calibrant.files.stored.persistence import stored_text
from calibrant.files.tables.table_rows import LabelledBatches, RowReader, read_all
from calibrant.files.tables.writers import atomic_output
from calibrant.inputs.probability_columns import ProbabilityColumns
from calibrant.inputs.segments import numbers_if_all_are
from calibrant.inputs.words import CalibrationWarning, ClassOrderWarning, RequestError
from calibrant.typing import Label

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Values of parameters that Python writes in other words than JSON.
_PYTHON_WORDS = {"True": True, "False": False, "None": None}


def make_calibrator(
    method: str, parameters: Sequence[str] = (), *, input: str = "probabilities", renormalize: bool = False
) -> tuple[object, str]:
    """An unfitted calibrator that can be stored as JSON, and the name of its method.

    Parameters are `name=value` pairs, whose values are read as JSON or Python's True, False and None, else as text.
    """
    settings = dict(_parsed(pair) for pair in parameters)
    if input != "probabilities":
        settings["input"] = input
    if renormalize:
        settings["renormalize"] = True
    try:
        info = calibrator_info(method)
    except ValueError as error:
        raise RequestError(str(error)) from error
    if not info.stores:
        raise RequestError(f"the method {info.name!r} cannot be stored; choose another: `calibrant methods` lists them")
    known = info.get_params()
    if unknown := [name for name in settings if name not in known]:
        close = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"did you mean {close[0]!r}? Its" if close else "its"
        raise RequestError(
            f"the method {info.name!r} has no parameter {unknown[0]!r}: {hint} parameters are {', '.join(known)}"
        )
    return info.make(**settings), info.name


def _parsed(pair: str) -> tuple[str, object]:
    name, sign, text = pair.partition("=")
    if not sign or not name:
        raise RequestError(f"parameters are given as name=value, not as {pair!r}")
    if text in _PYTHON_WORDS:
        return name, _PYTHON_WORDS[text]
    try:
        return name, json.loads(text)
    except json.JSONDecodeError:
        return name, text


@dataclass(frozen=True)
class FitResult:
    """A fitted calibrator, and the columns it was fitted to with the class of each."""

    calibrator: BaseEstimator
    columns: tuple[str, ...]
    classes: tuple[Label, ...]
    seconds: float

    @property
    def counts(self) -> dict[str, int]:
        """Rows of the table, rows used and passes over the table."""
        counts: dict[str, int] = self.calibrator.batches_
        return counts


def fit(
    calibrator: BaseEstimator, reader: RowReader, memory_mb: float = 512.0, *, intervals: bool = False
) -> FitResult:
    """Fit to the rows of a table, which need not fit into memory.

    With segments the calibrator is corrected in each of them. Segments, groups and intervals need their rows in memory,
    and so do methods that need more than sums over rows: they take a uniform sample, of whole groups if rows belong
    together.
    """
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Columns of a file have names, by which `evaluate` and `apply` find their classes whatever their order is.
        warnings.simplefilter("ignore", ClassOrderWarning)
        # The reader says it of the column by its name.
        warnings.filterwarnings("ignore", message="X holds no negative number", category=CalibrationWarning)
        if intervals or reader.layout.segments or reader.layout.grouped or reader.layout.scores:
            calibrator, found = _fit_in_memory(calibrator, reader, memory_mb, intervals)
        else:
            batches = LabelledBatches(reader)
            found = batches.found
            calibrator = _with_classes(calibrator, found.classes).fit_batches(batches, memory_mb=memory_mb)
        if found.style.whole == 100.0:
            # Remembered, so that a later file whose numbers are all small is read as percentages, too.
            calibrator.percentages_ = True
        seconds = time.perf_counter() - start
        calibrator.audit_ = _audit(calibrator, reader, found)
    return FitResult(calibrator, found.names, found.classes, seconds)


def _fit_in_memory(
    calibrator: BaseEstimator, reader: RowReader, memory_mb: float, intervals: bool
) -> tuple[object, ProbabilityColumns]:
    found = reader.find()
    rows = read_all(reader, partial(rows_in_memory, memory_mb), columns=found)
    beside: dict[str, object] = {} if rows.groups is None else {"groups": rows.groups}
    if rows.segments is not None:
        beside["segments"] = {
            name: numbers_if_all_are(column, BINS) for name, column in zip(reader.layout.segments, rows.segments.T)
        }
        calibrator = SegmentedCalibrator(
            calibrator,
            input=calibrator.input,
            renormalize=reader.layout.renormalize,
        )
    calibrator = _with_classes(calibrator, rows.classes)
    given = rows.predictions, rows.labels, rows.weight
    calibrator.fit(*given, **beside)
    if intervals:
        calibrator.fit_intervals(*given, groups=rows.groups)
    calibrator.batches_ = {"rows": rows.n_usable, "rows_used": len(rows.values), "passes": 1}
    return calibrator, found


def _audit(calibrator: BaseEstimator, reader: RowReader, found: ProbabilityColumns) -> dict[str, object]:
    """The audit record of a fit to all rows of a table, which are read once more."""
    audit = RowAudit(calibrator)
    for rows in filter(lambda rows: len(rows.values), reader.read(found)):
        beside = None if rows.segments is None else dict(zip(reader.layout.segments, rows.segments.T))
        audit.add(rows.predictions, rows.labels, rows.weight, beside, rows.dates)
    return audit.record()


def _with_classes(calibrator: BaseEstimator, classes: Sequence[Label]) -> Any:
    takes_classes = "classes" in calibrator.get_params(deep=False)
    return calibrator.set_params(classes=np.array(classes)) if takes_classes else calibrator


def store(calibrator: object, output: str | Path, *, force: bool = False) -> None:
    """Store a fitted calibrator as JSON."""
    with atomic_output(output, force=force) as stream:
        stream.write(stored_text(calibrator).encode())
