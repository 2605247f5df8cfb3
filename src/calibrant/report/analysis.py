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
from calibrant.metrics.inputs import Forecasts
from calibrant.metrics.intervals import Estimate
from calibrant.metrics.losses import row_losses
from calibrant.metrics.running import RunningMetrics, Sums
from calibrant.metrics.slope import Miscalibration, separate
from calibrant.metrics.sums import summed_mean
from calibrant.metrics.views import single_view
from calibrant.report.comparison import choose, compare, cross_validate, default_methods, n_folds, paired_intervals
from calibrant.report.correction import corrections
from calibrant.report.data import GroupRow, MetricRow, Parts, Report
from calibrant.report.evaluation import metrics_in_memory, omnibus_test, split_groups
from calibrant.report.learning import learning
from calibrant.report.reliability import class_rows, views
from calibrant.report.words import class_text, next_steps, steps_in_python, verdict, why_chosen, worth_of_rows
from calibrant.simplex import LOSS_FLOOR
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

    `sampled_from` is the number of rows that those of the report are a sample of, zero if they are all;
    `in_python` tells that they are arrays and no file.
    """

    name: str
    arguments: tuple[str, ...] = ()
    command: str = ""
    rows_skipped: int = 0
    sampled_from: int = 0
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
    metrics = {row.name: row for row in _metric_rows(data, after, names, (found, left), level)}
    p_before, p_after = (omnibus_test(part).p_value for part in (data, after))
    rows = compare(data, held_out, failed, recommended, level)
    gain = next(row for row in rows if row.name == recommended)
    group_rows, left_out = _group_rows(data, after, group, level)
    off = group_name if any(row.gap_after.low > 0.0 or row.gap_after.high < 0.0 for row in group_rows) else ""
    was = views(data, level)
    now = views(after, level, beside=was)
    confidence = metrics["accuracy"].before, _gap(data, level, top_label=True)
    total = metrics["log_loss"].before.value
    judged = verdict(names, found, was.bins, confidence, p_before, total, gain, _ruled_out(data))
    progress("rows needed")
    learned = learning(data, chosen, level)
    if learned is not None and (said := worth_of_rows(learned, total)):
        judged = replace(judged, sentences=(*judged.sentences, said))
    correction, binary_map = corrections(data, recommended)
    return Report(
        source=source.name,
        version=__version__,
        created=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        rows=data.n_rows,
        rows_skipped=source.rows_skipped,
        sampled_from=source.sampled_from,
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


def _ruled_out(data: Forecasts) -> tuple[int, float]:
    """Rows whose class had probability zero, and what they add to log loss."""
    rows = data.true_proba < LOSS_FLOOR
    return int(rows.sum()), float(np.average(np.where(rows, row_losses(data, "log_loss"), 0.0), weights=data.weight))


def _metric_rows(
    before: Forecasts, after: Forecasts, names: Sequence[str], found: Sequence[Miscalibration], level: float
) -> list[MetricRow]:
    shown = dict(METRICS)
    if before.n_classes == 2:
        del shown["confidence_gap"]
    was, now = (metrics_in_memory(data, level, tuple(shown)) for data in (before, after))
    rows = [MetricRow(name, title, better, was[name], now[name]) for name, (title, better) in shown.items()]
    rows.insert(3, counted_row(names, found, level))
    slopes = [part.fitted_slope for part in found]
    rows.insert(3, MetricRow("calibration_slope", "Slope: below 1 too extreme, above too timid", "near 1", *slopes))
    if before.n_classes == 2:
        title = f"Predicted minus observed share of {names[1]}"
        gaps = [_gap(data, level) for data in (before, after)]
        rows.insert(3, MetricRow("positive_gap", title, "near 0", *gaps))
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


def _group_rows(before: Forecasts, after: Forecasts, group: Any, level: float) -> tuple[list[GroupRow], int]:
    if group is None:
        return [], 0
    groups = sorted(split_groups(group), key=lambda item: -len(item[1]))
    rows = []
    for name, members in groups[:MOST_GROUPS]:
        first, second = (
            RunningMetrics(("accuracy", "log_loss")).add(data.take(members)).result(level) for data in (before, after)
        )
        rows.append(
            GroupRow(
                name,
                len(members),
                first["accuracy"],
                _gap(before.take(members), level),
                _gap(after.take(members), level),
                first["log_loss"],
                second["log_loss"],
            )
        )
    return rows, max(len(groups) - MOST_GROUPS, 0)
