"""Isotonic regression and its centred variant.

Isotonic regression fits the non-decreasing step function of least squared error (pool adjacent violators) and
interpolates linearly between its steps. Centred isotonic regression shrinks each step to one point, at the mean
prediction of its rows, so that the interpolated map increases strictly wherever it lies between 0 and 1.
"""

from __future__ import annotations

import numpy as np
from sklearn.isotonic import isotonic_regression

from calibrant.calibrators.binary.binning import Grouped, group_scores
from calibrant.calibrators.lifting import POSITIVE, BinaryMethod, positive_probability
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.steps import Complement, Line, Step
from calibrant.typing import FloatArray, IntArray


class IsotonicCalibrator(BinaryMethod):
    """Isotonic regression, as scikit-learn computes it.

    Attributes
    ----------
    thresholds_, values_ : ndarray
        Predictions and their calibrated probabilities, interpolated linearly between (two classes).
    estimators_ : list
        The binary calibrators (more than two classes).

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

    Attributes
    ----------
    thresholds_, values_ : ndarray
        Predictions and their calibrated probabilities, interpolated linearly between (two classes).
    estimators_ : list
        The binary calibrators (more than two classes).

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


def isotonic_steps(grouped: Grouped) -> tuple[FloatArray, IntArray]:
    """The isotonic fit of each group, and the first group of each constant step.

    Examples
    --------
    >>> one = np.ones(4)
    >>> grouped = Grouped(np.array([0.1, 0.2, 0.6, 0.9]), one, np.array([0.0, 1.0, 0.0, 1.0]))
    >>> isotonic_steps(grouped)
    (array([0. , 0.5, 0.5, 1. ]), array([0, 1, 3]))
    """
    value = isotonic_regression(grouped.positive / grouped.weight, sample_weight=grouped.weight)
    value = np.clip(value, 0.0, 1.0)
    starts = np.flatnonzero(np.concatenate([[True], value[1:] != value[:-1]]))
    return value, starts
