"""How reliable predictions are: in bands, without bins, and class by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.bins import EDGE_DECIMALS, edge_index
from calibrant.metrics import (
    ReliabilityCurve,
    calibration_belt,
    classwise_corp_curves,
    corp_curve,
    hosmer_lemeshow,
    reliability_table,
    smooth_curve,
    spiegelhalter,
)
from calibrant.metrics.frequencies import ClassFrequencies, class_frequencies
from calibrant.metrics.result_types import fitting_axis
from calibrant.metrics.views import single_view
from calibrant.report.data import Bands, ClassRow, Count, Views
from calibrant.report.verdict_words import ALPHA
from calibrant.sample import Sample
from calibrant.workflows.evaluating import given

#: Classes with a diagram of their own, those with the largest miscalibration; the curves of the others have no band.
PANELS = 12
#: Bands of scores at most, and independent observations in each at least.
MOST_BANDS = 10
FEWEST_IN_BAND = 20


def views(data: Sample, level: float, beside: Views | None = None, *, log_odds: bool = False) -> Views:
    """The diagrams of the second of two classes, or of the predicted class, on the axis of those beside them."""
    told = {**given(data), "level": level}
    axis = None if beside is None else beside.corp.axis
    if log_odds and axis is None:
        score, hit = single_view(data, "auto")
        order = np.argsort(score)
        axis = fitting_axis(score[order], hit[order], data.each[order], log_odds=True)
    return Views(
        corp_curve(data.y, data.proba, axis=axis, **told),
        smooth_curve(data.y, data.proba, **told),
        calibration_belt(data.y, data.proba, **told),
    )


def judged_pair(data: Sample) -> Sample:
    """The same rows with two classes: what is judged did not happen, and it did."""
    score, hit = single_view(data, "auto")
    return data.with_values(np.column_stack([1.0 - score, score]), logs=False, y=hit.astype(np.intp))


def bands(before: Sample, after: Sample | None, level: float) -> Bands:
    """Expected against observed in bands; after calibration if a method was fitted."""
    n_bands = int(np.clip(before.units // FEWEST_IN_BAND, 2, MOST_BANDS))
    pairs = [judged_pair(data) for data in (before, after) if data is not None]
    told: dict[str, Any] = {"n_bins": n_bands, "strategy": "quantile"}
    tables = [reliability_table(pair.y, pair.proba, level=level, **told, **given(pair)) for pair in pairs]
    first, table = pairs[0], tables[0]
    band = edge_index(first.proba[:, 1].round(EDGE_DECIMALS), table.upper[:-1].round(EDGE_DECIMALS))
    counts = [class_frequencies(first.take(band == number)).p_value[1] for number in range(len(table))]
    test = hosmer_lemeshow(first.y, first.proba, **told, **given(first))
    return Bands(table, tables[1] if after is not None else None, np.array(counts), test)


def worst_classes(curves: dict[Any, ReliabilityCurve]) -> list[Any]:
    """Labels of the classes with diagrams, the largest miscalibration first."""
    return sorted(curves, key=lambda label: -curves[label].error)[:PANELS]


def _differs(data: Sample, column: int, p_value: float) -> bool:
    """Whether a class is off beyond chance for so many classes: how often it is predicted, or how surely."""
    surely = spiegelhalter(data.y, data.proba, pos_label=column, **given(data)).p_value
    return min(p_value, surely) < ALPHA / (2 * data.n_classes)


def class_rows(
    before: tuple[Sample, ClassFrequencies],
    after: tuple[Sample, ClassFrequencies],
    names: Sequence[str],
    level: float,
) -> list[ClassRow]:
    """A row for every class, with the band of the curve before where it will be drawn."""
    was, now = (
        classwise_corp_curves(data.y, data.proba, n_resamples=0, level=level, **given(data))
        for data, _ in (before, after)
    )
    worst = worst_classes(was) if len(names) > 2 else []
    first = before[0]
    for label in worst:
        was[label] = corp_curve(first.y, first.proba, pos_label=label, level=level, **given(first))
    off = {column for column in worst if _differs(before[0], column, float(before[1].p_value[column]))}
    observed, total = before[1].observed, before[1].total

    def counted(frequencies: ClassFrequencies, column: int) -> Count:
        # Rows that were calibrated may be a sample of those that were counted: how many of its rows have the class is
        # chance, to which the calibrator is fitted as well.
        here = float(frequencies.observed[column])
        rows_for_each = observed[column] / here if here > 0 else total / frequencies.total
        parts = frequencies.expected * rows_for_each, frequencies.ratio, frequencies.p_value
        return Count(*(float(part[column]) for part in parts))

    return [
        ClassRow(
            name,
            float(observed[column]),
            total,
            counted(before[1], column),
            counted(after[1], column),
            was[column],
            now[column],
            column in off,
        )
        for column, name in enumerate(names)
    ]
