"""What calibration changes about decisions: at any threshold, at given costs, and at other ratios of two costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.decisions.curves import decision_curve
from calibrant.decisions.rule import DecisionRule
from calibrant.decisions.value import DecisionComparison, compare_decisions
from calibrant.metrics.murphy import murphy_diagram
from calibrant.metrics.result_types import Estimate, ScoreAxis
from calibrant.report.data import Decisions, RatioRow, Thresholds
from calibrant.sample import Sample
from calibrant.workflows.evaluating import given

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


def check_rule(rule: DecisionRule, classes: Sequence[Any]) -> DecisionRule:
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
