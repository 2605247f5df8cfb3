"""The tables that a report draws: reliability, decisions, and what calibration changes.

Among the thousands of entries of a large correction matrix the largest are partly chance. The matrix is therefore
fitted to two halves of the rows as well: entries on which the halves disagree in sign show how large chance makes them,
and an entry counts as proven if both halves give it the same sign and more than that (and more than `LEAST`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.registry import get_calibrator
from calibrant.decisions.curves import decision_curve
from calibrant.decisions.rule import DecisionRule
from calibrant.decisions.value import DecisionComparison, compare_decisions
from calibrant.metrics import (
    calibration_belt,
    calibration_map,
    classwise_corp_curves,
    corp_curve,
    hosmer_lemeshow,
    reliability_table,
    smooth_curve,
    spiegelhalter,
)
from calibrant.metrics.binned import Binner
from calibrant.metrics.frequencies import ClassFrequencies, class_frequencies
from calibrant.metrics.murphy import murphy_diagram
from calibrant.metrics.recalibration import fit_clone
from calibrant.metrics.result_types import Estimate, ScoreAxis, fitting_axis
from calibrant.metrics.views import class_view, single_view
from calibrant.random_numbers import generator
from calibrant.report.data import Bands, BinaryMap, ClassRow, Correction, Count, Decisions, RatioRow, Thresholds, Views
from calibrant.report.verdict_words import ALPHA
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, Label
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
    # Edges that are very near to each other would not find the rows of a band again.
    band = Binner(class_view(first, 1), n_bands, "quantile").index(first.each)
    counts = [class_frequencies(first.take(band == number)).p_value[1] for number in np.unique(band)]
    test = hosmer_lemeshow(first.y, first.proba, **told, **given(first))
    return Bands(table, tables[1] if after is not None else None, np.array(counts), test)


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
    worst = sorted(was, key=lambda label: -was[label].error)[:PANELS] if len(names) > 2 else []
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


#: Thresholds of the curves.
POINTS = 60
#: How much a missed case costs in false alarms, on the slider.
RATIOS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1000)
#: Resamples for each ratio of the slider.
FEW_RESAMPLES = 500


def thresholds(before: Sample, after: Sample | None, axis: ScoreAxis, level: float) -> Thresholds:
    """Curves over thresholds of the second of two classes, where its probabilities are."""
    told: dict[str, Any] = {
        "thresholds": np.linspace(axis.low, axis.high, POINTS + 2)[1:-1],
        "level": level,
        "n_resamples": int(np.clip(10_000_000 // before.n_rows, 100, 500)),
        **given(before),
    }
    curves = [None if data is None else decision_curve(data.y, data.proba, **told) for data in (before, after)]
    now = before if after is None else after
    scores = murphy_diagram(before.y, now.proba, None if after is None else before.proba, **told)
    assert curves[0] is not None
    return Thresholds(curves[0], curves[1], scores)


def check_rule(rule: DecisionRule, classes: Sequence[Label]) -> DecisionRule:
    """The rule for column numbers, in the order of the classes; an error if it is for others."""
    matched = rule.matched(list(classes))
    if matched.amounts:
        raise ValueError(
            f"the costs name the amount {matched.amounts[0]!r} of each row; a report needs costs that are numbers, "
            "and calibrant.decisions.compare_decisions takes amounts"
        )
    return DecisionRule(matched.costs, actions=matched.actions)


def decisions(before: Sample, after: Sample, rule: DecisionRule, level: float) -> Decisions:
    """What the rule of `check_rule` costs with the predictions before and after."""
    found = compare_decisions(before.y, before.proba, after.proba, rule, level=level, **given(before))
    costs = rule.costs
    if costs.shape != (2, 2) or not (costs[1, 0] > costs[0, 0] and costs[0, 1] > costs[1, 1]):
        return Decisions(found, (), 0)
    own = float((costs[0, 1] - costs[1, 1]) / (costs[1, 0] - costs[0, 0]))
    ratios = sorted({*(float(ratio) for ratio in RATIOS), own})
    place, rows = ratios.index(own), by_ratio(before, after, ratios, level)
    if not costs.diagonal().any():
        # The same costs in units of a false alarm: the same numbers.
        rows[place] = replace(rows[place], found=_in_units(found, float(costs[1, 0])))
    return Decisions(found, tuple(rows), place)


def _in_units(found: DecisionComparison, unit: float) -> DecisionComparison:
    """The same comparison with costs divided by `unit`."""
    before, after, saved = (
        Estimate(one.value / unit, one.low / unit, one.high / unit, one.level)
        for one in (found.before, found.after, found.saved)
    )
    return replace(found, before=before, after=after, saved=saved)


def by_ratio(before: Sample, after: Sample, ratios: Sequence[float], level: float) -> list[RatioRow]:
    """The comparison at each ratio. Rows on the same sides of all thresholds are counted as one."""
    thresholds = 1.0 / (1.0 + np.sort(np.asarray(ratios))[::-1])
    scores = [data.proba[:, 1].astype(np.float64) for data in (before, after)]
    cells = [np.searchsorted(thresholds, score, side="left") for score in scores]
    key = np.column_stack([*cells, before.y, *([] if before.groups is None else [before.group_numbers])])
    _, first, cell = np.unique(key, axis=0, return_index=True, return_inverse=True)
    cell = cell.ravel()
    weight = np.bincount(cell, before.each)
    was, now = (np.bincount(cell, before.each * score) / weight for score in scores)
    told: dict[str, Any] = {"level": level, "n_resamples": FEW_RESAMPLES, "sample_weight": weight, "classes": [0, 1]}
    if before.groups is not None:
        told["groups"] = before.group_numbers[first]
    rows = []
    for ratio in ratios:
        rule = DecisionRule(false_positive=1, false_negative=ratio)
        found = compare_decisions(before.y[first], was, now, rule, **told)
        rows.append(RatioRow(ratio, 1.0 / (1.0 + ratio), found))
    return rows


#: Classes up to which the correction matrix is fitted.
MATRIX_CLASSES = 120
#: Smaller corrections move log-odds by hundredths, which is not worth a line.
LEAST = 0.01
#: Refits for the band of a map, and rows up to which they are made.
REFITS = 40
MOST_REFITTED = 10_000


def corrections(data: Sample, method: str, level: float = 0.95) -> tuple[Correction | None, BinaryMap | None]:
    """The correction matrix of many classes, or the map of two; nothing where it cannot be fitted."""
    try:
        return _corrections(data, method, level)
    except (ValueError, RuntimeError):
        return None, None


def _corrections(data: Sample, method: str, level: float) -> tuple[Correction | None, BinaryMap | None]:
    if data.n_classes == 2:
        fitted = _fitted(method, data)
        curve = calibration_map(fitted, n_points=101)
        return None, _with_band(BinaryMap(curve.before[:, 1], curve.after[:, 1]), fitted, data, level)
    if data.n_classes > MATRIX_CLASSES:
        return None, None
    fitted = _structured(data)
    half = data.folds(2, generator(0))
    first, second = (_matrix(_structured(data.take(half == number))) for number in (0, 1))
    return Correction(1 / float(fitted.inverse_temperature_), _matrix(fitted), agreed(first, second)), None


def _with_band(curve: BinaryMap, fitted: Any, data: Sample, level: float) -> BinaryMap:
    """The map with intervals: by the delta method, or by refits to resamples of not too many rows."""
    for by in ("delta", "bootstrap") if data.n_rows <= MOST_REFITTED else ("delta",):
        try:
            fitted.fit_intervals(data.proba, data.y, data.counts, groups=data.groups, by=by, n_resamples=REFITS)
        except (ValueError, RuntimeError, AttributeError):
            continue
        ends = fitted.predict_interval(np.column_stack([1 - curve.before, curve.before]), level=level)
        return replace(curve, low=ends[:, 1, 0], high=ends[:, 1, 1], by=by)
    return curve


def agreed(first: AnyFloatArray, second: AnyFloatArray) -> NDArray[np.bool_]:
    """Entries off the diagonal that two independent estimates agree on beyond chance."""
    off = ~np.eye(len(first), dtype=bool)
    same = first * second > 0
    smaller = np.minimum(np.abs(first), np.abs(second))
    chance = float(smaller[off & ~same].max(initial=LEAST))
    return np.asarray(off & same & (smaller > chance))


def _structured(data: Sample) -> Any:
    return _fitted("sms", data, input_smoothing="auto")


def _matrix(fitted: Any) -> AnyFloatArray:
    coefficients = np.asarray(fitted.coef_)
    return coefficients - np.eye(len(coefficients))


def _fitted(name: str, data: Sample, **parameters: object) -> Any:
    with warnings.catch_warnings():
        # Labels are column numbers here, which would mean nothing to a reader.
        warnings.simplefilter("ignore")
        return fit_clone(get_calibrator(name, **parameters), data)
