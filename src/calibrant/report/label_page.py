"""The report on many labels as one HTML page: what calibration would save, and every label, worst first."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from calibrant import __version__
from calibrant.calibrators.multilabel import MultilabelCalibrator
from calibrant.inputs.label_matrix import LabelMatrix, label_matrix
from calibrant.metrics.binned import reliability_table
from calibrant.metrics.losses import row_losses
from calibrant.metrics.part_metrics import LabelMetrics, measure
from calibrant.metrics.result_types import UNIT, Estimate
from calibrant.plots.svg_reliability import banded, panel
from calibrant.report.comparison import paired_intervals, share_interval
from calibrant.report.layout import KeyNumber, Opening, Section, drawn, fill, saving

#: Labels in the table, and those with a diagram; folds of the comparison.
_LISTED, _DRAWN, _FOLDS = 200, 9, 5


def render_labels(data: LabelMatrix, source: str, level: float = 0.95) -> str:
    """The page as text; the predictions are those of rows that the model was not trained on."""
    after = cross_calibrated(data)
    before, then = measure(data, level), measure(after, level)
    gain, share = saved(data, after, level)
    section = Section("labels", "Label by label, worst first", before.verdict, _values(data, after, before, then))
    return fill(
        "labels.html.j2",
        [section],
        opening=_opening(data, after, before, gain, share),
        parts=[section],
        prefix="",
        source=source,
        size=before.size,
        before=before,
        level=level,
        version=__version__,
        created=datetime.now().strftime("%Y-%m-%d %H:%M"),
    )


def cross_calibrated(data: LabelMatrix) -> LabelMatrix:
    """The same rows with probabilities of calibrators that were fitted to other rows."""
    folds, out = data.rows.folds(min(_FOLDS, data.rows.n_groups), 0), np.empty(data.on.shape)
    if data.rows.n_groups < 2:
        return data
    for fold in np.unique(folds):
        test = folds == fold
        part = data.take(~test)
        fitted = MultilabelCalibrator().fit(part.on, part.y, part.rows.counts, groups=part.rows.groups)
        out[test] = fitted.predict_proba(data.on[test])
    return label_matrix(data.y, out, data.rows.counts, data.rows.classes, groups=data.rows.groups)


def saved(data: LabelMatrix, after: LabelMatrix, level: float) -> tuple[Estimate, Estimate]:
    """By how much the log loss of a cell falls, also as a share of it; a row, or a group, is one unit of intervals."""
    losses = [row_losses(part.pooled(), "log_loss").reshape(data.on.shape).mean(axis=1) for part in (data, after)]
    fall, rows = losses[0] - losses[1], data.rows
    return paired_intervals(fall[:, None], rows, level)[0], share_interval(fall, losses[0], rows, level)


def _opening(data: LabelMatrix, after: LabelMatrix, before: LabelMetrics, gain: Estimate, share: Estimate) -> Opening:
    rows, helps, off = data.rows.total, gain.low > 0.0, bool(before.miscounted)
    headline = "No evidence against the probabilities of these labels"
    if helps:
        headline = "Calibrate these labels: their probabilities are wrong, and calibration helps"
    elif off:
        headline = "Some labels are predicted too often or too rarely; calibration is not shown to help"
    numbers = (
        KeyNumber("predicted", f"{before.expected.sum() / rows:.2f}", "labels of a row on average"),
        KeyNumber("actually", f"{before.observed.sum() / rows:.2f}", "labels of a row are true"),
        saving(gain, share),
    )
    curves = [
        reliability_table(cells.y, cells.proba, sample_weight=cells.counts, groups=cells.groups, level=gain.level)
        for cells in (data.pooled(), after.pooled())
    ]
    picture = drawn(banded(curves[0], curves[1], UNIT, "Expected against observed: all labels together"))
    caption = (
        "All labels together, in bins of their probability: how many are expected and how many are true, before "
        "(squares) and after calibration by maps fitted to other rows. Calibrated predictions lie on the dashed line."
    )
    return Opening("bad" if helps and off else "fair" if helps or off else "good", headline, numbers, picture, caption)


def _values(data: LabelMatrix, after: LabelMatrix, before: LabelMetrics, then: LabelMetrics) -> dict[str, object]:
    """What the section shows: a row for each label, and diagrams of the worst."""
    bound = 0.05 / len(before.labels)
    rows = [
        {
            "name": str(before.labels[j]),
            "observed": float(before.observed[j]),
            "expected": [float(part.expected[j]) for part in (before, then)],
            "off": [bool(part.p_value[j] < bound) for part in (before, then)],
            "log_loss": [float(part.log_loss[j]) for part in (before, then)],
            "ece": [float(part.ece[j]) for part in (before, then)],
        }
        for j in before.order[:_LISTED]
    ]
    panels = []
    for j in before.order[:_DRAWN]:
        one, other = (
            reliability_table(part.label(j).y, part.label(j).proba, sample_weight=data.rows.counts)
            for part in (data, after)
        )
        panels.append(drawn(panel(str(before.labels[j]), one, other)))
    return {"rows": rows, "panels": panels, "more": len(before.labels) - len(rows)}
