"""Calibration in the large: how often each class is predicted, and how often it occurs.

With weights `w_i` the expected count of class `j` is `Σ w_i p_ij`, the observed one `Σ w_i 1[y_i = j]`. Their ratio is
what a reader of rare classes wants to know ("17 times too many"); its interval comes from Wilson's interval of the
observed share, which is honest for a handful of cases and for none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erfc

from calibrant.metrics.inputs import Forecasts
from calibrant.metrics.reliability import wilson_interval
from calibrant.metrics.scalars import Statistic, scalar, table
from calibrant.metrics.sums import Summed, no_spread, summed_mean
from calibrant.metrics.tabular import Tabular
from calibrant.typing import AnyFloatArray, FloatArray


@dataclass(frozen=True)
class ClassFrequencies(Tabular):
    """Expected and observed counts of every class.

    Attributes
    ----------
    classes : tuple
        Labels, in the order of the columns.
    expected : ndarray of shape (k,)
        Sum of the predicted probabilities.
    observed : ndarray of shape (k,)
        Number of rows with this label, or their total weight.
    ratio : ndarray of shape (k,)
        Expected over observed: 2 means predicted twice as often as it occurs; infinite if it never occurs.
    low, high : ndarray of shape (k,)
        Interval of the ratio at `level`.
    p_value : ndarray of shape (k,)
        Probability of a difference this large if the predictions were calibrated (normal approximation).
    level : float
        Confidence level of the interval.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import calibration_in_the_large
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p**2).astype(int)  # predicted too often
    >>> found = calibration_in_the_large(y, p)
    >>> found.observed, found.ratio.round(2)
    (array([633., 367.]), array([0.76, 1.41]))
    """

    classes: tuple[Any, ...]
    expected: AnyFloatArray
    observed: AnyFloatArray
    ratio: AnyFloatArray
    low: AnyFloatArray
    high: AnyFloatArray
    p_value: AnyFloatArray
    level: float

    @property
    def total(self) -> float:
        """Number of rows, or their total weight."""
        return float(self.observed.sum())

    def to_dict(self) -> dict[str, Any]:
        """Columns of the table."""
        columns = ("expected", "observed", "ratio", "low", "high", "p_value")
        return {"class": np.array(self.classes), **{name: getattr(self, name) for name in columns}}


@dataclass(frozen=True)
class FrequencyTable:
    """The table from `Σ w p`, `Σ w 1[y = j]` and `Σ w p²` of every class."""

    labels: tuple[Any, ...]
    level: float

    def value(self, sums: FloatArray) -> ClassFrequencies:
        expected, observed, squares = sums
        total = float(observed.sum())
        low, high = wilson_interval(observed / total, np.full(len(observed), total), self.level)
        # If the predictions are calibrated, a count is a sum of independent coins. Weights count rows: no square.
        spread = np.sqrt(np.maximum(expected - squares, 0.0))
        difference = np.abs(observed - expected)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Certain predictions leave no room for chance: a difference is impossible, none is what was expected.
            z = np.where(difference <= 1e-9 * total, 0.0, difference / spread)
            ratios = [expected / count for count in (observed, high * total, low * total)]
        ratio, smallest, largest = (np.where(np.isnan(part), 1.0, part) for part in ratios)
        p_value = erfc(z / np.sqrt(2))
        return ClassFrequencies(self.labels, expected, observed, ratio, smallest, largest, p_value, self.level)


def _summed_frequencies(data: Forecasts, level: float) -> Summed:
    def sums(weight: AnyFloatArray | None) -> FloatArray:
        weight = np.ones(data.n_rows) if weight is None else weight
        expected = weight @ data.proba.astype(np.float64, copy=False)
        observed = np.bincount(data.y, weights=weight, minlength=data.n_classes)
        return np.stack([expected, observed, weight @ np.square(data.proba, dtype=np.float64)])

    return Summed(FrequencyTable(tuple(data.classes.tolist()), level), sums, no_spread)


def class_frequencies(data: Forecasts, level: float = 0.95) -> ClassFrequencies:
    """The table of validated predictions."""
    found: ClassFrequencies = _summed_frequencies(data, level)(data.weight)
    return found


@table
def calibration_in_the_large(
    data: Forecasts, *, level: float = 0.95
) -> Callable[[AnyFloatArray | None], ClassFrequencies]:
    """Expected and observed count of every class.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights, read as counts.

    Returns
    -------
    ClassFrequencies
        A table with `classes`, `expected`, `observed`, `ratio`, `low`, `high` and `p_value`.

    Examples
    --------
    >>> from calibrant.metrics import calibration_in_the_large
    >>> table = calibration_in_the_large([0] * 95 + [1] * 5, [0.2] * 100)
    >>> table.expected.round(1).tolist(), table.observed.tolist(), table.ratio.round(2).tolist()
    ([80.0, 20.0], [95.0, 5.0], [0.84, 4.0])
    """
    return _summed_frequencies(data, level)


@scalar("positive_gap", lower=-1.0, upper=1.0, of_sums=True)
def positive_gap(data: Forecasts, *, positive: Any = None) -> Statistic:
    """Mean predicted probability of one class minus its frequency: positive if it is predicted too often.

    Parameters
    ----------
    positive : label, optional
        The class in question; by default that of the last column, the second of two.

    Examples
    --------
    >>> from calibrant.metrics import positive_gap
    >>> round(positive_gap([0, 0, 0, 1], [0.6, 0.5, 0.4, 0.5]), 3)
    0.25
    """
    labels = data.classes.tolist()
    if positive is not None and positive not in labels:
        raise ValueError(f"positive={positive!r} is none of the classes {labels}")
    column = len(labels) - 1 if positive is None else labels.index(positive)
    return summed_mean(data.proba[:, column] - (data.y == column))
