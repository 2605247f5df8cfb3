"""Grades on files: a scale as the command line takes it, and the backtests of batches by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.deployment.inputs import batch
from calibrant.deployment.monitoring.periods import in_words
from calibrant.files.tables.opening import open_table
from calibrant.files.tables.row_checks import TableRows
from calibrant.grades import GradeBacktest, MasterScale
from calibrant.inputs.words import RequestError
from calibrant.numerals import count


def scale_of(given: str) -> MasterScale | int:
    """A number of grades, or the scale in a table with the columns grade, upper and probability.

    Only `upper`, the upper end of each grade, is needed; the last one is 1.
    """
    if given.isdecimal() and int(given) > 0:
        return int(given)
    columns: dict[str, list[Any]] = {}
    for part in open_table(given).batches():
        for name, values in part.data.to_pydict().items():
            columns.setdefault(name, []).extend(values)
    try:
        return MasterScale.from_dict(columns)
    except (ValueError, TypeError) as error:
        raise RequestError(f"{given}: {error}") from error


def given_scale(given: str, calibrator: Any) -> MasterScale:
    """The scale in a table, for a calibrator of two classes."""
    scale = scale_of(given)
    if isinstance(scale, int):
        raise RequestError("batches are compared by one scale: give a table with the upper end of each grade")
    if len(calibrator.classes_) != 2:
        raise RequestError(f"grades are for two classes, and the calibrator has {len(calibrator.classes_)}")
    return scale


def backtest_batches(
    calibrator: Any, scale: MasterScale, batches: Sequence[tuple[str | None, TableRows]]
) -> dict[str, GradeBacktest]:
    """Backtests of the labelled rows of each batch, with calibrated probabilities."""
    found = {}
    for number, (name, rows) in enumerate(batches, 1):
        if rows.labels is not None:
            given: dict[str, Any] = {"sample_weight": rows.weight, "groups": rows.groups}
            data = batch(calibrator, rows.values, rows.labels, rows.segments, **given)
            data = data.take(np.flatnonzero(data.y >= 0))
            if data.n_rows:
                words = f"batch {number}" if name is None else in_words(name)
                kept: dict[str, Any] = {"sample_weight": data.counts, "groups": data.groups}
                found[words] = scale.backtest(data.y, data.proba, classes=[0, 1], **kept)
    return found


def periods_by_grade(found: dict[str, GradeBacktest]) -> list[list[str]]:
    """Rows of text, a batch in each: the cases of each grade, and lights that are not green."""
    first = next(iter(found.values()))
    table = [["observed / expected", *first.grades]]
    for name, one in found.items():
        cells = [
            f"{count(d)} / {count(e)} {'' if light == 'green' else light}".rstrip() if n else ""
            for n, d, e, light in zip(one.observations, one.observed, one.expected, one.light)
        ]
        table.append([name, *cells])
    return table
