"""Scaling-binning: a logistic fit of the log-odds, then equal-mass bins of its output, each replaced by its mean.

The bins make the calibration error of the result estimable, which that of a continuous map is not; they average
fitted probabilities instead of labels, so they cost less accuracy than histogram binning.
"""

from __future__ import annotations

import numpy as np

from calibrant.bins import EDGE_DECIMALS, equal_mass_edges
from calibrant.calibrators.binary.binning import binned, group_scores
from calibrant.calibrators.binary.logistic_fit import fit_logistic, sigmoid
from calibrant.calibrators.lifting import BinaryMethod
from calibrant.calibrators.parameters import PositiveInt
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.steps import Clip, Log, LogOdds, Scale, Sigmoid, Step
from calibrant.typing import FloatArray

#: Log-odds are clipped to those of the probability 1e-12.
_MAX_LOG_ODDS = float(np.log(1e12))

#: Ridge that keeps fits to separable rows finite; too small to change others.
_RIDGE = 1e-10


class ScalingBinningCalibrator(BinaryMethod):
    """Scaling-binning calibrator.

    Parameters
    ----------
    n_bins : int, default=10
        Number of equal-mass bins.

    Attributes
    ----------
    slope_, intercept_ : float
        The logistic fit (two classes).
    edges_ : ndarray
        Upper edges of all bins but the last, in terms of the fitted probabilities (two classes).
    values_ : ndarray
        Calibrated probability of each bin (two classes).
    estimators_ : list
        The binary calibrators (more than two classes).

    References
    ----------
    A. Kumar, P. Liang and T. Ma. Verified uncertainty calibration. NeurIPS 2019.

    Examples
    --------
    >>> from calibrant.calibrators import ScalingBinningCalibrator
    >>> calibrator = ScalingBinningCalibrator(n_bins=2).fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> calibrator.predict_proba([0.1, 0.45, 0.55, 0.9])[:, 1].round(3)
    array([0.257, 0.257, 0.743, 0.743])
    """

    n_bins: PositiveInt = 10

    def _fit_binary(self, sample: Sample) -> None:
        score = _score(sample.x)
        features = np.stack([score, np.ones(len(score))])
        coefficients = fit_logistic(features, sample.y.astype(np.float64), sample.counts, ridge=_RIDGE)
        self.slope_, self.intercept_ = (float(c) for c in coefficients)
        grouped = group_scores(self._scaled(sample.x), sample.y, sample.counts)
        self.edges_ = equal_mass_edges(grouped.score, grouped.weight, self.n_bins)
        cut = np.concatenate([[0], np.searchsorted(grouped.score, self.edges_, side="right")])
        mass = np.add.reduceat(grouped.weight, cut)
        self.values_ = np.add.reduceat(grouped.weight * grouped.score, cut) / mass

    def _scaled(self, x: FloatArray) -> FloatArray:
        return np.round(sigmoid(self.slope_ * _score(x) + self.intercept_), EDGE_DECIMALS)

    def _check_binary_state(self, state: StateCheck) -> None:
        state.number("slope_")
        state.number("intercept_")
        edges = state.array("edges_", None, increasing=True)
        state.array("values_", len(edges) + 1, low=0.0, high=1.0)

    def _binary_steps(self) -> list[Step]:
        scale = Scale(self.slope_, self.intercept_)
        clip = Clip(-_MAX_LOG_ODDS, _MAX_LOG_ODDS)
        return [Log(), LogOdds(), clip, scale, Sigmoid(), *binned(self.edges_, self.values_, "right")]


def _score(x: FloatArray) -> FloatArray:
    return np.clip(x[:, 1] - x[:, 0], -_MAX_LOG_ODDS, _MAX_LOG_ODDS)
