"""From predictions and labels to the contents of a report.

Whatever the report says about calibration's effect comes from cross-validation: the calibrated probability of a row
is that of a calibrator fitted to other rows.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant import __version__
from calibrant.calibrators.registry import calibrator_info
from calibrant.metrics.frequencies import class_frequencies
from calibrant.metrics.inputs import Forecasts
from calibrant.metrics.intervals import Estimate
from calibrant.metrics.losses import row_losses
from calibrant.metrics.running import RunningMetrics, Sums
from calibrant.metrics.slope import Miscalibration, separate
from calibrant.metrics.sums import summed_mean
from calibrant.metrics.views import single_view
from calibrant.numerals import class_text
from calibrant.report.comparison import choose, compare, cross_validate, default_methods, n_folds, paired_intervals
from calibrant.report.correction import corrections
from calibrant.report.data import GroupRow, MetricRow, Parts, Report
from calibrant.report.evaluation import metrics_in_memory, omnibus_test, split_groups
from calibrant.report.learning import learning
from calibrant.report.reliability import class_rows, views
from calibrant.report.whole import GroupSums, Whole, ruled_out
from calibrant.report.words import ALPHA, next_steps, steps_in_python, verdict, why_chosen, worth_of_rows
from calibrant.threads import limited

METRICS = {
    "log_loss": ("Log loss", "lower"),
    "brier": ("Brier score", "lower"),
    "accuracy": ("Accuracy", "higher"),
    "confidence_gap": ("Confidence minus accuracy", "near 0"),
    "ece": ("Expected calibration error", "lower"),
}
#: Segments shown, the largest first.
MOST_GROUPS = 40


@dataclass(frozen=True)
class Source:
    """Where the predictions came from: a name for the title, the command's words after it, skipped rows.

    `in_python` tells that they are arrays and no file.
    """

    name: str
    arguments: tuple[str, ...] = ()
    command: str = ""
    rows_skipped: int = 0
    in_python: bool = False


@limited
def analyse(
    data: Forecasts,
    classes: Sequence[Any],
    source: Source,
    *,
    group: Any = None,
    group_name: str = "",
    methods: Sequence[str] | None = None,
    method: str | None = None,
    level: float = 0.95,
    progress: Callable[[str], None] = lambda name: None,
    whole: Whole | None = None,
) -> Report:
    """Compute everything a report shows.

    Parameters
    ----------
    data : Forecasts
        Probabilities (n, k), column numbers of the labels, weights.
    classes : sequence
        Name of each column.
    source : Source
        Where they came from.
    group : array of shape (n,), optional
        Segment of every row.
    methods : sequence of str, optional
        Methods to compare; by default the usual ones for the number of classes.
    method : str, optional
        Method to recommend; by default chosen.
    level : float, default=0.95
        Confidence level of all intervals.
    whole : Whole, optional
        Sums over all rows, if these are a sample of them; what they tell is not estimated from the sample.
    """
    if not data.n_rows:
        raise ValueError("all weights are zero: no row is left")
    names = tuple(str(label) for label in classes)
    method = calibrator_info(method).name if method else None
    wanted = [calibrator_info(name).name for name in methods or default_methods(data.n_classes)]
    compared = list(dict.fromkeys([*wanted, *([method] if method else [])]))
    held_out, failed = cross_validate(data, [name for name in compared if name != "none"], progress)
    if not held_out:
        raise ValueError(f"no method could be fitted: {next(iter(failed.values()))}")
    recommended = choose(held_out, level, method)
    chosen = next(entry for entry in held_out if entry.name == recommended)
    after = chosen.data
    progress("metrics")
    found, left = separate(data, after, level), separate(after, after, level)
    if whole is not None:
        found = replace(found, frequencies=whole.frequencies)
    metrics = {row.name: row for row in _metric_rows(data, after, names, (found, left), level, whole)}
    p_before, p_after = (omnibus_test(part).p_value for part in (data, after))
    rows = compare(data, held_out, failed, recommended, level)
    gain = next(row for row in rows if row.name == recommended)
    group_rows, left_out = _group_rows(data, after, group, level, whole)
    off = group_name if any(row.off_after for row in group_rows) else ""
    was = views(data, level)
    now = views(after, level, beside=was)
    over_confident, impossible = _gap(data, level, top_label=True), ruled_out(data)
    if whole is not None:
        was = replace(was, bins=whole.bins)
        over_confident, impossible = whole.metrics["confidence_gap"], whole.ruled_out
    confidence = metrics["accuracy"].before, over_confident
    # Of the rows that methods are compared on: what they gain is a share of it.
    total = next(row for row in rows if row.name == "none").log_loss
    judged = verdict(names, found, was.bins, confidence, p_before, total, gain, impossible, group_rows)
    progress("rows needed")
    learned = learning(data, chosen, level)
    if learned is not None and (said := worth_of_rows(learned, total, sampled=whole is not None)):
        judged = replace(judged, sentences=(*judged.sentences, said))
    correction, binary_map = corrections(data, recommended)
    return Report(
        source=source.name,
        version=__version__,
        created=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        rows=data.n_rows,
        rows_skipped=source.rows_skipped,
        sampled_from=0 if whole is None else whole.rows,
        weighted=data.weight is not None,
        classes=names,
        level=level,
        folds=n_folds(data),
        recommended=recommended,
        choice=why_chosen(recommended, method, [entry.name for entry in held_out]),
        p_value_before=p_before,
        p_value_after=p_after,
        verdict=judged,
        metrics=tuple(metrics.values()),
        faults=found,
        parts=tuple(_parts(data, after, level)),
        methods=tuple(rows),
        learning=learned,
        reliability_before=was,
        reliability_after=now,
        class_rows=tuple(class_rows((data, found.frequencies), (after, left.frequencies), names, level)),
        group_name=group_name,
        group_rows=tuple(group_rows),
        groups_left_out=left_out,
        correction=correction,
        binary_map=binary_map,
        steps=tuple(
            steps_in_python(recommended, off)
            if source.in_python
            else next_steps(judged, recommended, source.arguments, off)
        ),
        command=source.command,
    )


def _metric_rows(
    before: Forecasts,
    after: Forecasts,
    names: Sequence[str],
    found: Sequence[Miscalibration],
    level: float,
    whole: Whole | None,
) -> list[MetricRow]:
    shown = dict(METRICS)
    if before.n_classes == 2:
        del shown["confidence_gap"]
    now = metrics_in_memory(after, level, tuple(shown))
    was = metrics_in_memory(before, level, tuple(shown)) if whole is None else whole.metrics
    rows = [MetricRow(name, title, better, was[name], now[name]) for name, (title, better) in shown.items()]
    rows.insert(3, counted_row(names, found, level))
    slopes = [part.fitted_slope for part in found]
    rows.insert(3, MetricRow("calibration_slope", "Slope: below 1 too extreme, above too timid", "near 1", *slopes))
    if before.n_classes == 2:
        title = f"Predicted minus observed share of {class_text(names[1])}"
        gap = _gap(before, level) if whole is None else whole.metrics["positive_gap"]
        rows.insert(3, MetricRow("positive_gap", title, "near 0", gap, _gap(after, level)))
    return rows


def counted_row(names: Sequence[str], found: Sequence[Miscalibration], level: float) -> MetricRow:
    """Expected over observed count: of the second of two classes, or of the class that is off most clearly."""
    first = found[0].frequencies
    column = 1 if len(names) == 2 else int(np.argmin(np.where(first.observed > 0, first.p_value, np.inf)))
    estimates = [
        Estimate(float(counts.ratio[column]), float(counts.low[column]), float(counts.high[column]), level)
        for counts in (part.frequencies for part in found)
    ]
    which = class_text(names[column]) + ("" if len(names) == 2 else ", the farthest off")
    return MetricRow("expected_over_observed", f"Expected over observed count of {which}", "near 1", *estimates)


def _parts(before: Forecasts, after: Forecasts, level: float) -> list[Parts]:
    columns = []
    for loss in ("log_loss", "brier"):
        was, now = row_losses(before, loss), row_losses(after, loss)
        columns += [was, was - now, now]
    found = paired_intervals(np.column_stack(columns), before.weight, level)
    return [Parts("Log loss", *found[:3]), Parts("Brier score", *found[3:])]


def _gap(data: Forecasts, level: float, *, top_label: bool = False) -> Estimate:
    """Mean predicted probability minus frequency: of the second of two classes, else of the predicted class."""
    view = single_view(data, "top-label" if top_label else "auto")
    mean = Sums()
    mean.add(summed_mean(view.score - view.hit), data.weight)
    return mean.estimate(level)


def _group_rows(
    before: Forecasts, after: Forecasts, group: Any, level: float, whole: Whole | None
) -> tuple[list[GroupRow], int]:
    if group is None:
        return [], 0
    members = dict(split_groups(group))
    every = {name: GroupSums(len(rows), {}) for name, rows in members.items()} if whole is None else whole.groups
    # A segment of which no row is in the sample can be counted, not judged after calibration.
    largest = sorted(members, key=lambda name: -every[name].rows)[:MOST_GROUPS]
    found = []
    for name in largest:
        first, second = (part.take(members[name]) for part in (before, after))
        sums = every[name].metrics or _segment(first, level)
        gap = "positive_gap" if before.n_classes == 2 else "confidence_gap"
        now = _segment(second, level)
        off_before, off_after = (_is_off(part, ALPHA / len(every)) for part in (first, second))
        found.append(
            GroupRow(
                name,
                every[name].rows,
                sums["accuracy"],
                sums[gap],
                now[gap],
                off_before,
                off_after,
                sums["log_loss"],
                now["log_loss"],
            )
        )
    return found, len(every) - len(largest)


def _segment(data: Forecasts, level: float) -> dict[str, Estimate]:
    names = ("accuracy", "log_loss", "positive_gap", "confidence_gap")
    return RunningMetrics(names).add(data).result(level)


def _is_off(data: Forecasts, alpha: float) -> bool:
    """Whether the gap is one that calibrated predictions have more rarely than `alpha`.

    The spread is that of labels drawn from the predictions: that of the rows themselves is none if all rows agree.
    """
    score, hit = single_view(data, "auto")
    pair = Forecasts(np.column_stack([1.0 - score, score]), hit.astype(np.intp), data.weight, np.arange(2))
    return bool(class_frequencies(pair).p_value[1] < alpha)
