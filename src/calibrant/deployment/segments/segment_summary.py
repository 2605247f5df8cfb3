"""What a segmented calibrator found, in words: whether segments matter, and the worst of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.deployment.segments.columns import Columns, level_name
from calibrant.metrics.part_metrics import segment_calibration
from calibrant.numerals import count, number, percent
from calibrant.sample import Sample
from calibrant.typing import IntArray

#: Segments that are named.
_WORST = 5


def worst_segments(
    before: Sample,
    after: Sample,
    levels: IntArray,
    columns: Columns,
) -> tuple[list[tuple[str, float]], list[tuple[Any, ...]]]:
    """What the global map gets wrong, with predictions `before` and `after` of rows held out.

    Errors by column, and the surest ones by level: (p-value, level, rows, class, shares).
    """
    found: list[tuple[Any, ...]] = []
    errors = []
    for column, (name, values) in zip(levels.T, columns.items()):
        given: dict[str, Any] = {"sample_weight": before.counts, "groups": before.groups}
        classes = range(before.n_classes)
        then, now = (
            segment_calibration(part.y, part.proba, column, classes=classes, **given) for part in (before, after)
        )
        # The error after the correction is left out: over all folds together held-out means agree too well.
        errors.append((name, then.error))
        for i, code in enumerate(then.segments):
            j = 1 if before.n_classes == 2 else int(np.argmax(np.abs(then.observed[i] - then.predicted[i])))
            shares = [float(share[i, j]) for share in (then.observed, then.predicted, now.predicted)]
            found.append((float(then.p_value[i]), level_name(name, values, code), round(then.rows[i]), j, *shares))
    return errors, sorted(found)[:_WORST]


def segments_in_words(calibrator: Any) -> str:
    """The summary of a fitted `SegmentedCalibrator`."""
    fitted = vars(calibrator)
    what = ", ".join(calibrator.segment_columns_) + (" (crossed)" if calibrator.crossed else "")
    size = fitted.get("fitted_to_", f"{count(float(calibrator.class_counts_.sum()))} rows")  # not stored by version 0.2
    start = f"SegmentedCalibrator, fitted to {size} by {what}"
    parts = []
    if np.isfinite(calibrator.strength_):
        moved = np.any(calibrator.intercept_ != 0.0, axis=1).sum()
        parts.append(f"{moved} levels, ridge of strength {calibrator.strength_:g}")
    if len(calibrator.tree_features_):
        parts.append(f"{len(calibrator.tree_features_)} small trees")
    if not parts:
        return f"{start}: no correction of the global map, {_no_gain(fitted)}."
    lines = [f"{start}: {' and '.join(parts)}."]
    if "gain_" in fitted:
        lines.append(
            f"On rows held out it saves {number(fitted['gain_'])} of log loss, with a standard error of "
            f"{number(fitted['gain_error_'])}."
        )
        lines += [
            f"The global map has a multicalibration error of {number(error)} by {name}."
            for name, error in fitted["errors_"]
        ]
        lines.append("Segments where the global map is most clearly wrong:")
        lines += [
            f"{level} ({rows:,} rows): {calibrator.classes_[j]} {percent(observed)} observed, {percent(before)} by the "
            f"global map, {percent(after)} now"
            for _, level, rows, j, observed, before, after in fitted["worst_"]
        ]
    return "\n".join(lines)


def _no_gain(fitted: dict[str, Any]) -> str:
    if "gain_" not in fitted:
        return "since all rows are of one segment or there are too few of them"
    return "since no correction gains more than chance on rows held out"
