"""Metrics of parts: of every segment of the rows, and of every independent label.

In segment g with n_g rows, class j is off by ``d_gj``, the mean of ``1[y = j] - p_j``. If labels follow predictions,
``d_gj²`` is still ``v_gj = Σ p_j (1 - p_j) / n_g²`` in the mean. The multicalibration error
``√ Σ_g n_g / n Σ_j (d_gj² - v_gj)`` leaves that noise out: small segments do not look bad because they are small. Where
rows depend on each other inside groups, ``v_gj`` is multiplied by the design effect of its count.

Independent labels have metrics of each label, over all cells (micro) and as means over labels (macro).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.docs import describe_parameters
from calibrant.inputs.label_matrix import LabelMatrix, label_matrix
from calibrant.inputs.predictions import as_matrix, to_numpy
from calibrant.inputs.samples import check_sample
from calibrant.inputs.words import METRIC
from calibrant.metrics.frequencies import class_frequencies, design_effects
from calibrant.metrics.intervals import estimates
from calibrant.metrics.result_types import Estimate, Tabular
from calibrant.metrics.scalars import SCALARS, Scalar
from calibrant.numerals import count, number
from calibrant.sample import Size
from calibrant.text_table import aligned, list_names
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray, FloatArray, Label, Labels


@dataclass(frozen=True)
class SegmentCalibration(Tabular):
    """Calibration in the large of every segment.

    Attributes
    ----------
    segments : tuple
        The segments, largest first.
    classes : tuple
        Labels, in the order of the columns.
    rows : ndarray of shape (m,)
        Observations of each segment.
    predicted, observed : ndarray of shape (m, k)
        Mean probability and frequency of each class in each segment.
    p_value : ndarray of shape (m,)
        Probability of a difference as large as the surest of a segment's classes if the predictions were calibrated
        and rows (or groups, if given) are independent: the exact test of `calibration_in_the_large`, with Bonferroni's
        correction for the classes (not for the segments). Conservative where few cases are expected.
    error : float
        Multicalibration error: root mean square of the differences, less what chance alone makes of it; 0 if that is
        more.

    Examples
    --------
    >>> from calibrant.metrics import segment_calibration
    >>> found = segment_calibration([0, 1, 1, 1], [0.5] * 4, ["north", "north", "south", "south"])
    >>> found.segments, found.to_dict()["observed"]
    (('north', 'south'), array([0.5, 0.5, 0. , 1. ]))
    """

    segments: tuple[Any, ...]
    classes: tuple[Any, ...]
    rows: FloatArray
    predicted: FloatArray
    observed: FloatArray
    p_value: FloatArray
    error: float

    @property
    def worst(self) -> Any:
        """The segment whose differences chance explains least."""
        return self.segments[int(np.argmin(self.p_value))]

    def to_dict(self) -> dict[str, Any]:
        """Columns of the table, one row per segment and class."""
        m, k = self.predicted.shape
        return {
            "segment": np.repeat(np.array(self.segments, dtype=object), k),
            "class": np.tile(np.array(self.classes, dtype=object), m),
            "rows": np.repeat(self.rows, k),
            "predicted": self.predicted.ravel(),
            "observed": self.observed.ravel(),
            "p_value": np.repeat(self.p_value, k),
        }


@limited
@describe_parameters
def segment_calibration(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    segments: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    classes: Sequence[Label] | None = None,
) -> SegmentCalibration:
    """Calibration in the large of every segment, the worst of them, and the multicalibration error.

    P-values hold if rows are independent, or groups if `groups` or `blocks` are given.

    Parameters
    ----------
    segments : array-like of shape (n,)
        The segment of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import segment_calibration
    >>> rng = np.random.default_rng(0)
    >>> p, region = rng.random(6000), rng.choice(["north", "south", "west"], 6000)
    >>> y = rng.random(6000) < np.where(region == "west", 0.8 * p, p)
    >>> found = segment_calibration(y, p, region)
    >>> found.worst, round(found.error, 2)
    ('west', 0.1)
    """
    data = check_sample(y_true, y_prob, sample_weight, classes, groups=groups, blocks=blocks)
    values = to_numpy(segments, "segments")
    n = len(as_matrix(y_prob)[0])
    if values.shape != (n,):
        raise ValueError(f"segments has shape {values.shape}, expected ({n},): one segment per row.")
    values = values if data.rows is None else values[data.rows]
    names, place = np.unique(values.astype(str) if values.dtype.kind == "O" else values, return_inverse=True)
    ends = np.cumsum(np.bincount(place))[:-1]
    parts = [data.take(rows) for rows in np.split(np.argsort(place, kind="stable"), ends)]
    largest_first = np.argsort([-part.total for part in parts], kind="stable")
    parts, names = [parts[place] for place in largest_first], names[largest_first]
    tables = [class_frequencies(part) for part in parts]
    rows, k = np.array([part.total for part in parts]), data.n_classes
    predicted, observed = (
        np.stack([getattr(table, name) for table in tables]) / rows[:, None] for name in ("expected", "observed")
    )
    variance = np.stack([design_effects(part) * (part.each @ (part.proba * (1.0 - part.proba))) for part in parts])
    square = float(rows @ ((observed - predicted) ** 2 - variance / rows[:, None] ** 2).sum(axis=1)) / data.total
    p_value = np.array([table.p_value.min() for table in tables]) * (1 if k == 2 else k)
    error = float(np.sqrt(max(square, 0.0)))
    return SegmentCalibration(
        tuple(names.tolist()), tuple(data.names), rows, predicted, observed, np.minimum(1.0, p_value), error
    )


#: The metrics of a label.
NAMES = ("log_loss", "brier", "ece")
#: Labels whose counts are said to be off are wrong to be so with this probability, over all labels.
_WRONG = 0.05


@dataclass(frozen=True)
class LabelMetrics(Tabular):
    """How well each label is predicted.

    Attributes
    ----------
    labels : tuple
        In the order of the columns.
    log_loss, brier, ece : ndarray of shape (L,)
        Of each label, as of two classes.
    expected, observed : ndarray of shape (L,)
        The sum of a label's probabilities, and how often it was true.
    p_value : ndarray of shape (L,)
        Of the difference between the two, as in `calibration_in_the_large`.
    micro : dict of str to Estimate
        Each metric over all cells, with an interval if a level was given; the cells of a row are one observation.
    macro : dict of str to float
        Each metric as the mean over labels.
    size : Size
        Rows, observations and groups.
    order : tuple of int
        The labels, worst first.

    Examples
    --------
    >>> from calibrant.metrics import multilabel_metrics
    >>> found = multilabel_metrics([[1, 0], [1, 1]], [[0.9, 0.1], [0.6, 0.7]])
    >>> found.log_loss.round(3), round(found.macro["log_loss"], 3), found.observed
    (array([0.308, 0.231]), 0.27, array([2., 1.]))
    """

    labels: tuple[Any, ...]
    log_loss: FloatArray
    brier: FloatArray
    ece: FloatArray
    expected: AnyFloatArray
    observed: AnyFloatArray
    p_value: AnyFloatArray
    micro: dict[str, Estimate]
    macro: dict[str, float]
    size: Size
    order: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Columns of the table."""
        return {"label": np.array(self.labels), **super().to_dict()}

    @property
    def miscounted(self) -> list[object]:
        """Labels predicted too often or too rarely, the clearest first; none is wrong with 95 % confidence."""
        clear = np.flatnonzero(self.p_value * len(self.labels) < _WRONG)
        return [self.labels[j] for j in clear[np.argsort(self.p_value[clear], kind="stable")]]

    @property
    def verdict(self) -> str:
        """What the counts say, in one sentence."""
        off, n = self.miscounted, len(self.labels)
        if not off:
            return f"No label of {n} is predicted clearly too often or too rarely."
        only = f"{len(off)} of {n} labels are" if len(off) > 1 else f"1 of {n} labels is"
        return f"{only} predicted too often or too rarely: {list_names(off, 5, str)}."

    def text(self, most: int = 20) -> str:
        """The table of the labels, worst first, and what it says."""
        head = ["label", "true", "expected", *NAMES]
        lines = [
            [
                str(self.labels[j]),
                count(self.observed[j]),
                f"{self.expected[j]:,.1f}",
                *(number(getattr(self, name)[j]) for name in NAMES),
            ]
            for j in self.order[:most]
        ]
        means = [["all cells", "", "", *(number(self.micro[name].value) for name in NAMES)]]
        means += [["mean of labels", "", "", *(number(self.macro[name]) for name in NAMES)]]
        rest = len(self.order) - most
        more = [f"({rest:,} more labels are not shown)"] if rest > 0 else []
        return "\n".join([aligned([head, *lines, *means]), *more, "", self.verdict])

    def __str__(self) -> str:
        return self.text()


@limited
@describe_parameters
def multilabel_metrics(
    y_true: object,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    labels: Labels | None = None,
    level: float | None = None,
    n_resamples: int = 1000,
) -> LabelMetrics:
    """Log loss, Brier score, ECE and counts of independent labels: of each, over all cells, and as means over labels.

    Parameters
    ----------
    y_true : array-like, data frame or sparse matrix of shape (n, L), or list of lists of labels
        What is true of each row, as in `MultilabelCalibrator.fit`.
    y_prob : array-like or data frame of shape (n, L)
        The probability of each label.
    labels : array-like of shape (L,), default=None
        The label of each column of the probabilities.
    level : float, default=None
        Level of intervals of the metrics over all cells; `None` leaves them out.

    Returns
    -------
    LabelMetrics
        A table; printed, the worst labels come first, by their ECE without what chance adds to it.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import multilabel_metrics
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random((400, 3))
    >>> y = rng.random((400, 3)) < p ** [1, 1, 3]  # the third label is predicted too often
    >>> print(multilabel_metrics(y, p, labels=["news", "sports", "art"]))
    label           true  expected  log_loss   brier     ece
    art              107     198.5    0.5180  0.1736  0.2287
    news             220     206.4    0.5303  0.1775  0.0628
    sports           207     209.3    0.5079  0.1687  0.0578
    all cells                         0.5187  0.1733  0.0713
    mean of labels                    0.5187  0.1733  0.1164
    <BLANKLINE>
    1 of 3 labels is predicted too often or too rarely: art.
    """
    data = label_matrix(y_true, y_prob, sample_weight, labels, groups=groups, blocks=blocks, words=METRIC)
    return measure(data, level, n_resamples)


def measure(data: LabelMatrix, level: float | None = None, n_resamples: int = 1000) -> LabelMetrics:
    """The table of validated predictions."""
    parts = [data.label(j) for j in range(len(data.labels))]
    found = {name: np.array([SCALARS[name].prepare(part)(part.each) for part in parts]) for name in NAMES}
    ranked = np.array([SCALARS["ece"].prepare(part, debias=True)(part.each) for part in parts])
    counts = [class_frequencies(part) for part in parts]
    pooled = data.pooled()
    chosen: list[tuple[Scalar, dict[str, object]]] = [(SCALARS[name], {}) for name in NAMES]
    if level is None:
        values = [entry.prepare(pooled)(pooled.each) for entry, _ in chosen]
        micro = [Estimate(value, float("nan"), float("nan"), float("nan")) for value in values]
    else:
        micro = estimates(chosen, pooled, level, n_resamples, 0)
    of_counts = ("expected", "observed", "p_value")
    return LabelMetrics(
        tuple(data.labels),
        **found,
        **{name: np.array([getattr(table, name)[1] for table in counts]) for name in of_counts},
        micro=dict(zip(NAMES, micro)),
        macro={name: float(values.mean()) for name, values in found.items()},
        size=data.rows.size,
        order=tuple(np.argsort(-ranked, kind="stable").tolist()),
    )
