"""Metrics of independent labels: of each label, over all cells (micro) and as means over labels (macro)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.docs import describe_parameters
from calibrant.inputs.label_matrix import LabelMatrix, label_matrix
from calibrant.inputs.words import METRIC
from calibrant.metrics.frequencies import class_frequencies
from calibrant.metrics.intervals import Estimate, estimates
from calibrant.metrics.scalars import SCALARS, Scalar
from calibrant.metrics.tabular import Tabular
from calibrant.numerals import count, number
from calibrant.sample import Size
from calibrant.text_table import aligned, list_names
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray, FloatArray

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
        columns = (*NAMES, "expected", "observed", "p_value")
        return {"label": np.array(self.labels), **{name: getattr(self, name) for name in columns}}

    @property
    def miscounted(self) -> list[Any]:
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
    y_true: Any,
    y_prob: Any,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    blocks: int | None = None,
    labels: Any = None,
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
    n_resamples : int, default=1000
        Resamples of intervals.

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
    chosen: list[tuple[Scalar, dict[str, Any]]] = [(SCALARS[name], {}) for name in NAMES]
    if level is None:
        values = [entry.prepare(pooled)(pooled.each) for entry, _ in chosen]
        micro = [Estimate(value, float("nan"), float("nan"), float("nan")) for value in values]
    else:
        micro = estimates(chosen, pooled, level, n_resamples, 0)
    expected, observed, p_value = (
        np.array([getattr(table, name)[1] for table in counts]) for name in ("expected", "observed", "p_value")
    )
    return LabelMetrics(
        tuple(data.labels),
        **found,
        expected=expected,
        observed=observed,
        p_value=p_value,
        micro=dict(zip(NAMES, micro)),
        macro={name: float(values.mean()) for name, values in found.items()},
        size=data.rows.size,
        order=tuple(np.argsort(-ranked, kind="stable").tolist()),
    )
