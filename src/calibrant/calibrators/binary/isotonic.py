"""Isotonic regression, its centred variant, and Venn-Abers prediction.

- Isotonic regression fits the non-decreasing step function of least squared error (pool adjacent violators) and
  interpolates linearly between its steps.
- Centred isotonic regression shrinks each step to one point, at the mean prediction of its rows, so that the
  interpolated map increases strictly wherever it lies between 0 and 1.
- Venn-Abers prediction is isotonic regression with the new object itself, once with each label. A prediction s gets two
  probabilities: p0 is its isotonic value when (s, 0) joins the calibration rows, p1 when (s, 1) does. They are merged
  into ``p1 / (1 - p0 + p1)``, which minimises the worst-case log loss. Both are step functions of s, computed for all s
  together in O(n log n).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize
from sklearn.isotonic import isotonic_regression

from calibrant.calibrators.binary.binning import Grouped, group_scores
from calibrant.calibrators.lifting import POSITIVE, BinaryMethod, positive_probability
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.steps import Complement, Line, Step, StepFunction
from calibrant.typing import AnyArray, FloatArray, IntArray


class IsotonicCalibrator(BinaryMethod):
    """Isotonic regression, as scikit-learn computes it.

    Attributes
    ----------
    thresholds_, values_ : ndarray
        Predictions and their calibrated probabilities, interpolated linearly between (two classes).

    References
    ----------
    B. Zadrozny and C. Elkan. Transforming classifier scores into accurate multiclass probability estimates.
    KDD 2002.

    Examples
    --------
    >>> from calibrant.calibrators import IsotonicCalibrator
    >>> calibrator = IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> calibrator.predict_proba([0.1, 0.5, 0.9])[:, 1]
    array([0. , 0.5, 1. ])
    """

    def _fit_binary(self, sample: Sample) -> None:
        grouped = group_scores(positive_probability(sample.x), sample.y, sample.counts)
        value, starts = isotonic_steps(grouped)
        self.thresholds_, self.values_ = self._knots(grouped, value, starts)

    def _knots(self, grouped: Grouped, value: FloatArray, starts: IntArray) -> tuple[FloatArray, FloatArray]:
        ends = np.append(starts[1:], len(grouped.score)) - 1
        index = np.unique(np.concatenate([starts, ends]))
        return grouped.score[index], value[index]

    def _check_binary_state(self, state: StateCheck) -> None:
        thresholds = state.array("thresholds_", None, increasing=True)
        state.require(len(thresholds), "thresholds_ is empty")
        state.array("values_", len(thresholds), low=0.0, high=1.0)

    def _binary_steps(self) -> list[Step]:
        return [POSITIVE, Line(self.thresholds_, self.values_), Complement()]


class CenteredIsotonicCalibrator(IsotonicCalibrator):
    """Centred isotonic regression: strictly increasing between 0 and 1.

    References
    ----------
    A. P. Oron and N. Flournoy. Centered isotonic regression: point and interval estimation for dose-response
    studies. Statistics in Biopharmaceutical Research, 2017.

    Examples
    --------
    >>> from calibrant.calibrators import CenteredIsotonicCalibrator
    >>> P = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    >>> calibrator = CenteredIsotonicCalibrator().fit(P, [0, 1, 0, 0, 1, 0, 1, 1])
    >>> calibrator.thresholds_
    array([0.1 , 0.3 , 0.55, 0.7 , 0.8 ])
    >>> calibrator.values_.round(3)
    array([0.   , 0.333, 0.5  , 1.   , 1.   ])
    """

    def _knots(self, grouped: Grouped, value: FloatArray, starts: IntArray) -> tuple[FloatArray, FloatArray]:
        ends = np.append(starts[1:], len(grouped.score)) - 1
        step = value[starts]
        mass = np.add.reduceat(grouped.weight, starts)
        center = np.add.reduceat(grouped.weight * grouped.score, starts) / mass
        first, last = grouped.score[starts], grouped.score[ends]
        # Steps at 0 and at 1 keep their width, and the outer steps reach the ends of the data.
        wide = (step <= 0.0) | (step >= 1.0)
        left = np.where(wide | (np.arange(len(step)) == 0), first, center)
        right = np.where(wide | (np.arange(len(step)) == len(step) - 1), last, center)
        middle = np.where(wide, first, center)
        knots = np.column_stack([left, middle, right]).ravel()
        values = np.repeat(step, 3)
        knots, index = np.unique(np.maximum.accumulate(knots), return_index=True)
        return knots, values[index]


def _increasing(value: FloatArray, weight: FloatArray) -> FloatArray:
    """The increasing numbers nearest to `value`."""
    # What scikit-learn asks SciPy for, too, after checks that take ten times as long; since SciPy 1.12.
    if hasattr(optimize, "isotonic_regression"):
        return optimize.isotonic_regression(value, weights=weight).x
    return isotonic_regression(value, sample_weight=weight)


def isotonic_steps(grouped: Grouped) -> tuple[FloatArray, IntArray]:
    """The isotonic fit of each group, and the first group of each constant step."""
    value = np.clip(_increasing(grouped.positive / grouped.weight, grouped.weight), 0.0, 1.0)
    starts = np.flatnonzero(np.concatenate([[True], value[1:] != value[:-1]]))
    return value, starts


#: A prediction this close to a threshold, relative to it, is at the threshold.
_ROUNDING = 1e-13


class VennAbersCalibrator(BinaryMethod):
    """Inductive Venn-Abers predictor.

    Attributes
    ----------
    thresholds_ : ndarray of shape (m,)
        The distinct predictions seen (two classes).
    p0_, p1_ : ndarray of shape (m + 1,)
        The two isotonic values of a prediction between two thresholds (two classes).

    References
    ----------
    V. Vovk, I. Petej and V. Fedorova. Large-scale probabilistic predictors with and without guarantees of
    validity. NeurIPS 2015.

    Examples
    --------
    >>> from calibrant.calibrators import VennAbersCalibrator
    >>> calibrator = VennAbersCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> calibrator.predict_interval([0.5])[:, 1]
    array([[0.33333333, 0.66666667]])
    >>> calibrator.predict_proba([0.5])
    array([[0.5, 0.5]])
    """

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> AnyArray:
        """The two probabilities p0 and p1 of the second class, one of which is valid; for two classes.

        For more classes, and for an interval that covers at a `level`, call `fit_intervals` first.

        Parameters
        ----------
        X : array-like of shape (n, 2) or (n,)
            Predictions.
        level : float, default=0.9
            Used after `fit_intervals` only: the two probabilities have no level.

        Returns
        -------
        interval : ndarray of shape (n, k, 2)
            Lower and upper probability of each class.
        """
        x = self._log_probabilities(X)
        if len(self.classes_) != 2 or "uncertainty_" in vars(self):
            return super().predict_interval(X, level)
        low, high = self._interval(x)
        return np.stack([np.column_stack([1.0 - high, 1.0 - low]), np.column_stack([low, high])], axis=1)

    def _fit_binary(self, sample: Sample) -> None:
        from calibrant.calibrators.binary.binary_kernels import bridge_slopes

        grouped = group_scores(positive_probability(sample.x), sample.y, sample.counts)
        self.thresholds_ = grouped.score
        self.p1_ = np.clip(bridge_slopes(grouped.weight, grouped.positive), 0.0, 1.0)  # sums round
        # Turned round, with the labels exchanged, p0 is the same problem.
        negative = grouped.weight - grouped.positive
        self.p0_ = np.clip(1.0 - bridge_slopes(grouped.weight[::-1].copy(), negative[::-1].copy())[::-1], 0.0, 1.0)
        # p0 never exceeds p1, between thresholds and at them, but in sums of weights of very different size.
        np.maximum(self.p1_, self.p0_, out=self.p1_)
        np.maximum(self.p1_[:-1], self.p0_[1:], out=self.p1_[:-1])

    def _interval(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        s = positive_probability(x)
        left = np.searchsorted(self.thresholds_, s, side="left")
        at_threshold = self.thresholds_[np.minimum(left, len(self.thresholds_) - 1)] == s
        return self.p0_[left + at_threshold], self.p1_[left]

    def _check_binary_state(self, state: StateCheck) -> None:
        thresholds = state.array("thresholds_", None, increasing=True)
        state.require(len(thresholds), "thresholds_ is empty")
        p0, p1 = (state.array(name, len(thresholds) + 1, low=0.0, high=1.0) for name in ("p0_", "p1_"))
        state.require(np.all(p0 <= p1 + 1e-9) and np.all(p0[1:] - p1[:-1] < 1.0), "p0_ exceeds p1_")

    def _binary_steps(self) -> list[Step]:
        # At a threshold p0 has left it behind and p1 has not: one more step, as wide as rounding.
        p0, p1 = np.repeat(self.p0_, 2)[:-1], np.repeat(self.p1_, 2)[:-1]
        p0[1::2] = self.p0_[1:]
        edges = np.repeat(self.thresholds_, 2)
        edges[::2] *= 1.0 - _ROUNDING
        edges[1::2] *= 1.0 + _ROUNDING
        # Neighbours that are closer than that meet half-way.
        np.minimum(edges[1:-1:2], 0.5 * (self.thresholds_[1:] + self.thresholds_[:-1]), out=edges[1:-1:2])
        # Each edge lies at least one floating-point number above the last; those of positive numbers count them.
        places = np.arange(len(edges))
        edges = (np.maximum.accumulate(edges.view(np.int64) - places) + places).view(np.float64)
        return [POSITIVE, StepFunction(edges, p1 / (1.0 - p0 + p1)), Complement()]
