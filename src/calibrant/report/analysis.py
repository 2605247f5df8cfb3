"""From predictions and labels to the contents of a report.

Whatever the report says about calibration's effect comes from cross-validation: the calibrated probability of a row
is that of a calibrator fitted to other rows.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant import __version__
from calibrant.bins import sum_by
from calibrant.calibrators.registry import DEFAULT, calibrator_info
from calibrant.decisions.rule import DecisionRule
from calibrant.grades import GradeBacktest, MasterScale
from calibrant.inputs.words import CalibrationWarning
from calibrant.metrics.frequencies import class_frequencies
from calibrant.metrics.losses import row_losses
from calibrant.metrics.result_types import Estimate
from calibrant.metrics.slope import Miscalibration, separate
from calibrant.metrics.views import class_view, single_view
from calibrant.numerals import class_text
from calibrant.report.advice import lacking, next_steps, rarely_seen, why_chosen, worth_of_rows
from calibrant.report.comparison import (
    MANY_UNITS,
    HeldOut,
    choose,
    compare,
    cross_validate,
    default_methods,
    learning,
    n_folds,
    normal_interval,
    paired_intervals,
    share_interval,
)
from calibrant.report.data import TITLES, MetricRow, Parts, Report, SegmentRow, Source
from calibrant.report.report_tables import (
    bands,
    check_rule,
    class_rows,
    corrections,
    decisions,
    judged_pair,
    thresholds,
    views,
)
from calibrant.report.verdict_words import ALPHA, Evidence, verdict
from calibrant.sample import Sample
from calibrant.threads import limited
from calibrant.typing import Label
from calibrant.workflows.evaluating import (
    SizedMetrics,
    Whole,
    metrics_in_memory,
    omnibus_test,
    ruled_out,
    split_segments,
)

#: Metrics, and what is better.
METRICS = {
    "log_loss": "lower",
    "brier": "lower",
    "accuracy": "higher",
    "positive_gap": "near 0",
    "confidence_gap": "near 0",
    "ece": "lower",
}
#: Classes from which on it is told how often the class is among the first few, and how many these are.
MANY_CLASSES = 10
TOP = 5
#: Segments shown, the largest first.
MOST_SEGMENTS = 40


@limited
def analyse(
    data: Sample,
    classes: Sequence[Label],
    source: Source,
    *,
    segments: object = None,
    segment_name: str = "",
    methods: Sequence[str] | None = None,
    method: str | None = None,
    level: float = 0.95,
    progress: Callable[[str], None] = lambda name: None,
    whole: Whole | None = None,
    grades: MasterScale | int | None = None,
    rule: DecisionRule | None = None,
    log_odds: bool = False,
) -> Report:
    """Compute everything a report shows of probabilities and column numbers of labels, with the names of the columns.

    `methods` are compared, by default the usual ones for the number of classes; `method` is recommended, by default
    whichever is chosen. With `whole`, the rows are a sample, and what sums over all rows tell is not estimated from it.
    """
    if grades is not None and data.n_classes != 2:
        raise ValueError(f"grades are for two classes, and there are {data.n_classes}")
    if not data.n_rows:
        raise ValueError("all weights are zero: no row is left")
    names = tuple(str(label) for label in classes)
    numbered = None if rule is None else check_rule(rule, classes)
    method = calibrator_info(method).name if method else None
    wanted = [calibrator_info(name).name for name in methods or default_methods(data.n_classes)]
    compared = list(dict.fromkeys([*wanted, *([method] if method else [])]))
    lack = lacking(data, names)
    # What methods gain on too few rows is not to be shown, unless one was asked for.
    tried = [name for name in compared if name != "none" and (lack is None or name == method)]
    held_out, failed = cross_validate(data, tried, progress)
    recommended = choose(data, held_out, level, method)
    if lack is not None and recommended != method:
        recommended = "none"
    chosen = _shown(held_out, recommended)
    after, shown = (data, "none") if chosen is None else (chosen.data, chosen.name)
    progress("metrics")
    found, left = separate(data, after, level), separate(after, after, level)
    if whole is not None:
        found = replace(found, frequencies=whole.frequencies)
    metrics = {row.name: row for row in _metric_rows(data, after, names, (found, left), level, whole)}
    if lack is not None:
        del metrics["calibration_slope"]  # its interval would be a hundred wide
    # What is left after calibration is told less finely: it is no part of the verdict.
    test_before, test_after = omnibus_test(data), omnibus_test(after, 40_000_000)
    rows = compare(data, held_out, failed, recommended, level)
    gain = next((row for row in rows if row.name == shown and chosen is not None), None)
    segment_rows, left_out = _segment_rows(data, after, segments, level, whole)
    off = segment_name if any(row.off_after for row in segment_rows) else ""
    was = views(data, level, log_odds=log_odds)
    now = views(after, level, beside=was)
    banded = bands(data, None if chosen is None else after, level)
    impossible = ruled_out(data) if whole is None else whole.ruled_out
    gap = metrics["positive_gap" if len(names) == 2 else "confidence_gap"].before
    # Of the rows that methods are compared on: what they gain is a share of it.
    total = next(row for row in rows if row.name == "none").log_loss
    evidence = Evidence(
        names,
        data.size if whole is None else whole.size,
        found,
        banded.before,
        metrics["accuracy"].before,
        gap,
        test_before.p_value,
        total,
        gain,
        recommended,
        impossible,
        segment_rows,
        lack,
        rarely_seen(data),
        test_before.n_resamples,
        bool(np.ptp(single_view(data, "auto").score) == 0),
    )
    judged = verdict(evidence)
    progress("rows needed")
    learned = None if chosen is None or lack is not None else learning(data, chosen, level)
    if learned is not None and (said := worth_of_rows(learned, total, sampled=whole is not None)):
        judged = replace(judged, sentences=(*judged.sentences, said))
    correction, binary_map = (None, None) if chosen is None else corrections(data, shown, level)
    later = None if chosen is None else after
    curves = thresholds(data, later, banded.axis, level) if len(names) == 2 and lack is None else None
    held = [entry.name for entry in held_out]
    return Report(
        source=source.name,
        version=__version__,
        created=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        size=data.size,
        rows_skipped=source.rows_skipped,
        sampled_from=None if whole is None else whole.size,
        classes=names,
        level=level,
        folds=n_folds(data),
        recommended=recommended,
        shown=shown,
        lack=lack,
        choice=why_chosen(recommended, method, held, lack=lack, gains=evidence.saved.low > 0),
        test_before=test_before,
        test_after=test_after,
        verdict=judged,
        metrics=tuple(metrics.values()),
        faults=found,
        parts=tuple(_parts(data, after, level)),
        saved=None if chosen is None or lack is not None else _saved(data, after, level),
        methods=tuple(rows),
        learning=learned,
        reliability_before=was,
        reliability_after=now,
        bands=banded,
        class_rows=tuple(class_rows((data, found.frequencies), (after, left.frequencies), names, level)),
        segment_name=segment_name,
        segment_rows=tuple(segment_rows),
        segments_left_out=left_out,
        correction=correction,
        binary_map=binary_map,
        thresholds=curves,
        rule=rule,
        decisions=None if numbered is None or chosen is None else decisions(data, after, numbered, level),
        steps=tuple(next_steps(judged, recommended, source, segments=off, lack=lack)),
        command=source.command,
        grades=None if grades is None else backtested(data, grades, level),
    )


def backtested(data: Sample, grades: MasterScale | int, level: float) -> GradeBacktest:
    """The grades of two classes, given or made from quantiles."""
    given: dict[str, Any] = {"sample_weight": data.counts, "groups": data.groups, "classes": range(2), "level": level}
    if not isinstance(grades, MasterScale):
        asked, grades = grades, MasterScale.from_quantiles(data.proba, grades, sample_weight=data.counts)
        if (found := len(grades.names)) < asked:
            are = "is 1 grade" if found == 1 else f"are {found} grades"
            warnings.warn(
                f"there {are} instead of {asked}: equal predictions share a grade", CalibrationWarning, stacklevel=2
            )
    return grades.backtest(data.y, data.proba, **given)


def _shown(held_out: Sequence[HeldOut], recommended: str) -> HeldOut | None:
    """The method whose effect is shown: the recommended one; if that is none, the default or the best there is."""
    fitted = {entry.name: entry for entry in held_out}
    best = min(held_out, key=lambda entry: entry.log_loss, default=None)
    return fitted.get(recommended) or fitted.get(DEFAULT) or best


def _metric_rows(
    before: Sample,
    after: Sample,
    names: Sequence[str],
    found: Sequence[Miscalibration],
    level: float,
    whole: Whole | None,
) -> list[MetricRow]:
    two = before.n_classes == 2
    shown = {name: better for name, better in METRICS.items() if name != ("confidence_gap" if two else "positive_gap")}
    now = metrics_in_memory(after, level, tuple(shown))
    was = metrics_in_memory(before, level, tuple(shown)) if whole is None else whole.metrics
    titles = {name: TITLES[name].format(class_text(names[1])) for name in shown}
    rows = [MetricRow(name, titles[name], better, was[name], now[name]) for name, better in shown.items()]
    slopes = [part.fitted_slope for part in found]
    slope_title = "Slope: below 1 too extreme, above 1 too close to the average"
    rows[3 + two : 3 + two] = [
        MetricRow("calibration_slope", slope_title, "near 1", *slopes),
        counted_row(names, found, level),
    ]
    if two:
        rows += _ranking_rows(before, after, level)
    if before.n_classes >= MANY_CLASSES:
        right = [((data.proba > data.true_proba[:, None]).sum(axis=1) < TOP).astype(float) for data in (before, after)]
        shares = paired_intervals(np.column_stack(right), before, level)
        rows.insert(3, MetricRow("top_5_accuracy", "Top-5 accuracy", "higher", *shares))
    return rows


def _ranking_rows(before: Sample, after: Sample, level: float) -> list[MetricRow]:
    """Area under the ROC curve and Gini; none if there is only one class."""
    if before.units >= MANY_UNITS:
        areas = [_area(data, level) for data in (before, after)]
    else:
        areas = [metrics_in_memory(data, level, ("auroc",))["auroc"] for data in (before, after)]
    ginis = [Estimate(2 * e.value - 1, 2 * e.low - 1, 2 * e.high - 1, level) for e in areas]
    if np.isnan(areas[0].value):
        return []
    return [
        MetricRow("auroc", "Area under the ROC curve (AUC)", "higher", *areas),
        MetricRow("gini", "Gini, 2 AUC − 1", "higher", *ginis),
    ]


def _area(data: Sample, level: float) -> Estimate:
    """Area under the ROC curve with DeLong's interval: for each row, how many of the other class are on its right side.

    With the area `A`, a row of the class adds `(V - A) / P` for the share `V` of other rows that are below, and
    another row `(W - A) / N` for the share `W` of the class that is above; half of those that are equal count.
    """
    view, each = class_view(data, 1), data.each
    _, run = np.unique(view.score, return_inverse=True)
    inside = [sum_by(run, each * part, int(run.max()) + 1) for part in (view.hit, 1.0 - view.hit)]
    positive, negative = (float(part.sum()) for part in inside)
    if positive <= 0 or negative <= 0:
        return Estimate(float("nan"), float("nan"), float("nan"), level)
    below = (np.cumsum(inside[1]) - inside[1] / 2) / negative
    above = 1.0 - (np.cumsum(inside[0]) - inside[0] / 2) / positive
    area = float(inside[0] @ below) / positive
    influence = np.where(view.hit > 0, (below[run] - area) / positive, (above[run] - area) / negative)
    return normal_interval(area, influence * data.total, data, level)


def counted_row(names: Sequence[str], found: Sequence[Miscalibration], level: float) -> MetricRow:
    """Expected over observed count: of the second of two classes, or of the class that is off most clearly."""
    first = found[0].frequencies
    column = 1 if len(names) == 2 else int(np.argmin(np.where(first.observed > 0, first.p_value, np.inf)))
    estimates = [
        Estimate(float(counts.ratio[column]), float(counts.low[column]), float(counts.high[column]), level)
        for counts in (part.frequencies for part in found)
    ]
    which = class_text(names[column]) + ("" if len(names) == 2 else ", the worst")
    return MetricRow("expected_over_observed", f"Expected over observed count of {which}", "near 1", *estimates)


def _parts(before: Sample, after: Sample, level: float) -> list[Parts]:
    columns = []
    for loss in ("log_loss", "brier"):
        was, now = row_losses(before, loss), row_losses(after, loss)
        columns += [was, was - now, now]
    found = paired_intervals(np.column_stack(columns), before, level)
    return [Parts("Log loss", *found[:3]), Parts("Brier score", *found[3:])]


def _saved(before: Sample, after: Sample, level: float) -> Estimate:
    was, now = row_losses(before, "log_loss"), row_losses(after, "log_loss")
    return share_interval(was - now, was, before, level)


def _segment_rows(
    before: Sample, after: Sample, segments: object, level: float, whole: Whole | None
) -> tuple[list[SegmentRow], int]:
    if segments is None:
        return [], 0
    members = dict(split_segments(segments))
    parts = {name: before.take(rows) for name, rows in members.items()}
    every = {name: SizedMetrics(part.size, {}) for name, part in parts.items()} if whole is None else whole.segments
    # A segment of which no row is in the sample can be counted, not judged after calibration.
    largest = sorted(members, key=lambda name: -every[name].size.rows)[:MOST_SEGMENTS]
    gap = "positive_gap" if before.n_classes == 2 else "confidence_gap"
    names = ("accuracy", "log_loss", gap)
    found = []
    for name in largest:
        first, second = parts[name], after.take(members[name])
        sums = every[name].metrics or metrics_in_memory(first, level, names)
        now = metrics_in_memory(second, level, names)
        # Off is a gap that calibrated predictions have more rarely than chance allows: the exact test of a count.
        p_values = [class_frequencies(judged_pair(part)).p_value[1] for part in (first, second)]
        off_before, off_after = (bool(p_value < ALPHA / len(every)) for p_value in p_values)
        row = name, every[name].size, sums["accuracy"], sums[gap], now[gap], off_before, off_after
        found.append(SegmentRow(*row, sums["log_loss"], now["log_loss"]))
    return found, len(every) - len(largest)
