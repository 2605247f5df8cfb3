"""Methods of bins: histogram binning, scaling-binning, and Bayesian binning into quantiles (BBQ).

Bins are those of `calibrant.bins`: equal in width or in mass, closed on the right. Everything here is a function of
the sorted distinct predictions with their weights, so that weights equal repetition for the edges too.

- Histogram binning: a prediction becomes the share of positive labels in its bin.
- Scaling-binning: a logistic fit of the log-odds, then equal-mass bins of its output, each replaced by its mean. Bins
  make the calibration error of the result estimable, which that of a continuous map is not; they average fitted
  probabilities instead of labels, so they cost less accuracy than histogram binning.
- BBQ: an average of histogram binnings of many sizes. With ``criterion="bic"`` or ``"aic"`` a binning weighs
  ``exp(-½ ΔIC)``; with ``"bayes"`` by the marginal likelihood of its labels under a beta prior in each bin, as first
  published. The average of step functions is one step function, which is what is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from calibrant.bins import EDGE_DECIMALS, edge_index, equal_mass_edges, quantiles, uniform_edges, uniform_index
from calibrant.calibrators.binary.logistic_fit import fit_logistic, sigmoid
from calibrant.calibrators.lifting import POSITIVE, BinaryMethod, positive_probability
from calibrant.calibrators.parameters import PositiveInt
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.steps import Clip, Complement, Log, LogOdds, Scale, Sigmoid, Step, StepFunction
from calibrant.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Grouped:
    """Distinct scores in ascending order, with the weight and the positive weight of each."""

    score: FloatArray
    weight: FloatArray
    positive: FloatArray


def group_scores(score: FloatArray, y: IntArray, weight: FloatArray | None) -> Grouped:
    """Merge rows of equal score.

    Weights of equal scores are added in an order of their own, so that sums of fractions, on whose last digit it may
    depend whether two steps are one, do not depend on the order of the rows.
    """
    order = np.argsort(score) if weight is None else np.lexsort((weight, y, score))
    s = score[order]
    first = np.flatnonzero(np.concatenate([[True], s[1:] != s[:-1]]))
    w = np.ones(len(s)) if weight is None else weight[order]
    positive = np.where(y[order] == 1, w, 0.0)
    if len(first) == len(s):
        return Grouped(s, w, positive)
    return Grouped(s[first], np.add.reduceat(w, first), np.add.reduceat(positive, first))


def rounded_positive(x: FloatArray) -> FloatArray:
    """Probabilities of the second class, rounded as bin edges are."""
    return np.round(positive_probability(x), EDGE_DECIMALS)


def bin_totals(grouped: Grouped, inner_edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weight and positive weight of the bins that `inner_edges` separate."""
    cut = np.concatenate([[0], np.searchsorted(grouped.score, inner_edges, side="right"), [len(grouped.score)]])
    weight = np.concatenate([[0.0], np.cumsum(grouped.weight)])[cut]
    positive = np.concatenate([[0.0], np.cumsum(grouped.positive)])[cut]
    return np.diff(weight), np.diff(positive)


def binned(inner_edges: FloatArray, values: FloatArray, closed: str) -> list[Step]:
    """The steps of bins of the second class's probability.

    Scores meet edges with `EDGE_DECIMALS` decimals: an edge stands half a unit of the last one beyond its place, where
    no rounding of a score decides.
    """
    half = 0.5 * 10.0**-EDGE_DECIMALS
    edges = np.round(inner_edges, EDGE_DECIMALS) + (half if closed == "right" else -half)
    return [POSITIVE, StepFunction(edges, values), Complement()]


class HistogramCalibrator(BinaryMethod):
    """Histogram binning.

    Parameters
    ----------
    n_bins : int, default=10
        Number of bins; equal-mass bins that would be empty because of ties are merged.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width or of equal mass.
    empty : {"prior", "midpoint"}, default="prior"
        The value of a bin without calibration rows: the share of positive labels, or the middle of the bin.

    Attributes
    ----------
    edges_ : ndarray of shape (bins + 1,)
        Bin edges (two classes).
    values_ : ndarray of shape (bins,)
        Calibrated probability of each bin (two classes).
    closed_ : {"right", "left"}
        The side on which bins hold their edge: left in calibrators stored by version 0.1.0.

    References
    ----------
    B. Zadrozny and C. Elkan. Obtaining calibrated probability estimates from decision trees and naive Bayesian
    classifiers. ICML 2001.

    Examples
    --------
    >>> from calibrant.calibrators import HistogramCalibrator
    >>> calibrator = HistogramCalibrator(n_bins=2).fit([0.1, 0.2, 0.6, 0.9], [0, 0, 0, 1])
    >>> calibrator.predict_proba([0.5, 0.6])
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    closed_: str = "left"

    n_bins: PositiveInt = 10
    strategy: Literal["uniform", "quantile"] = "uniform"
    empty: Literal["prior", "midpoint"] = "prior"

    def _fit_binary(self, sample: Sample) -> None:
        p = rounded_positive(sample.x)
        self.closed_ = "right"
        levels = uniform_edges(self.n_bins)
        if self.strategy == "uniform":
            self.edges_ = levels
        else:
            self.edges_ = np.unique(np.round(quantiles(p, sample.counts, levels), EDGE_DECIMALS))
            if len(self.edges_) == 1:
                self.edges_ = np.array([0.0, 1.0])
        n_bins = len(self.edges_) - 1
        index = self._index(p)
        total = np.bincount(index, sample.counts, minlength=n_bins).astype(np.float64)
        positive = np.bincount(index, sample.y * sample.each, minlength=n_bins)
        if self.empty == "prior":
            fallback = np.full(n_bins, positive.sum() / total.sum())
        else:
            fallback = 0.5 * (self.edges_[1:] + self.edges_[:-1])
        self.values_ = np.clip(np.divide(positive, total, out=fallback, where=total > 0.0), 0.0, 1.0)

    def _index(self, p: FloatArray) -> NDArray[np.intp]:
        """The bin of each probability."""
        if self.strategy == "uniform" and self.closed_ == "right":
            return uniform_index(p, len(self.edges_) - 1)
        return edge_index(p, np.round(self.edges_[1:-1], EDGE_DECIMALS), self.closed_)

    def _check_binary_state(self, state: StateCheck) -> None:
        edges = state.array("edges_", None, low=0.0, high=1.0, increasing=True)
        state.require(len(edges) >= 2, "edges_ should be at least two")
        state.array("values_", len(edges) - 1, low=0.0, high=1.0)
        state.choice("closed_", "left", "right")

    def _binary_steps(self) -> list[Step]:
        return binned(self.edges_[1:-1], self.values_, self.closed_)


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


#: Of binnings sorted by weight, those from the first gap below this share of the weights' variance are dropped.
_ELBOW = 1e-3

#: No binning has more bins: a million rows reach it, and weights may sum to any number.
_MOST_BINS = 1000

#: Equivalent sample size of the beta priors.
_PRIOR_SIZE = 2.0


class BBQCalibrator(BinaryMethod):
    """Bayesian binning into quantiles.

    Parameters
    ----------
    criterion : {"bic", "aic", "bayes"}, default="bic"
        How binnings are weighed: by an information criterion, or by their marginal likelihood.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width or of equal mass.

    Attributes
    ----------
    n_bins_ : ndarray
        Sizes of the binnings that are averaged (two classes).
    weights_ : ndarray
        Their weights (two classes).
    edges_, values_ : ndarray
        The averaged step function (two classes).
    closed_ : {"right", "left"}
        The side on which bins hold their edge: left in calibrators stored by version 0.1.0.

    References
    ----------
    M. P. Naeini, G. Cooper and M. Hauskrecht. Obtaining well calibrated probabilities using Bayesian binning.
    AAAI 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.calibrators import BBQCalibrator
    >>> rng = np.random.default_rng(0)
    >>> P = rng.random(1000)
    >>> calibrator = BBQCalibrator().fit(P, rng.random(1000) < P**2)
    >>> calibrator.predict_proba([0.45])[:, 1].round(1)
    array([0.2])
    """

    closed_: str = "left"

    criterion: Literal["bic", "aic", "bayes"] = "bic"
    strategy: Literal["uniform", "quantile"] = "uniform"

    def _fit_binary(self, sample: Sample) -> None:
        self.closed_ = "right"
        grouped = group_scores(rounded_positive(sample.x), sample.y, sample.counts)
        total = float(grouped.weight.sum())
        root = total ** (1.0 / 3.0)
        largest = max(1, int(min(np.ceil(total / 5.0), np.ceil(10.0 * root), _MOST_BINS)))
        sizes = np.arange(max(1, int(min(root / 10.0, largest))), largest + 1)
        binnings = [self._binning(grouped, int(size)) for size in sizes]
        log_weight = np.array([binning[2] for binning in binnings])
        weights = np.exp(log_weight - log_weight.max())
        kept = np.arange(len(weights)) if self.criterion == "bayes" else _elbow(weights)
        self.n_bins_ = sizes[kept]
        self.weights_ = weights[kept] / weights[kept].sum()
        self.edges_, self.values_ = _average([binnings[i][:2] for i in kept], self.weights_)

    def _binning(self, grouped: Grouped, size: int) -> tuple[FloatArray, FloatArray, float]:
        """Inner edges, bin values and log-weight of one binning."""
        levels = uniform_edges(size)
        if self.strategy == "quantile":
            levels = np.concatenate([[0.0], quantiles(grouped.score, grouped.weight, levels[1:-1]), [1.0]])
        edges = np.unique(np.round(levels, EDGE_DECIMALS))
        total, positive = bin_totals(grouped, edges[1:-1])
        middle = 0.5 * (edges[1:] + edges[:-1])
        if self.criterion == "bayes":
            return edges[1:-1], *_beta_binomial(total, positive, middle)
        values = np.clip(np.divide(positive, total, out=middle, where=total > 0.0), 0.0, 1.0)
        log_likelihood = float(_x_log_y(positive, values).sum() + _x_log_y(total - positive, 1.0 - values).sum())
        cost = 2.0 if self.criterion == "aic" else float(np.log(grouped.weight.sum()))
        return edges[1:-1], values, log_likelihood - 0.5 * cost * size

    def _check_binary_state(self, state: StateCheck) -> None:
        edges = state.array("edges_", None, increasing=True)
        state.array("values_", len(edges) + 1, low=0.0, high=1.0)
        state.information("n_bins_", "weights_")
        state.choice("closed_", "left", "right")

    def _binary_steps(self) -> list[Step]:
        return binned(self.edges_, self.values_, self.closed_)


def _beta_binomial(total: FloatArray, positive: FloatArray, middle: FloatArray) -> tuple[FloatArray, float]:
    """Posterior means and log marginal likelihood under a beta prior centred in each bin."""
    size = _PRIOR_SIZE / len(middle)
    alpha, beta = size * middle, size * (1.0 - middle)
    evidence = gammaln(size) - gammaln(total + size)
    evidence += gammaln(positive + alpha) - gammaln(alpha)
    evidence += gammaln(total - positive + beta) - gammaln(beta)
    return (positive + alpha) / (total + size), float(evidence.sum())


def _x_log_y(x: FloatArray, y: FloatArray) -> FloatArray:
    """``x log y`` with ``0 log 0 = 0``."""
    return np.asarray(x * np.log(np.where(x > 0.0, y, 1.0)), dtype=np.float64)


def _elbow(weights: FloatArray) -> IntArray:
    """Positions of the binnings that are kept, heaviest first."""
    order = np.argsort(-weights, kind="stable")
    gap = -np.diff(weights[order])
    variance = float(np.var(weights))
    kept = 0
    while kept < len(gap) and gap[kept] == 0.0:
        kept += 1
    while kept < len(gap) and gap[kept] > _ELBOW * variance:
        kept += 1
    return np.asarray(order[: kept + 1], dtype=np.int64)


def _average(binnings: list[tuple[FloatArray, FloatArray]], weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The weighted average of step functions, by adding up their jumps from left to right."""
    edges = np.concatenate([edges for edges, _ in binnings])
    jumps = np.concatenate([w * np.diff(values) for w, (_, values) in zip(weights, binnings)])
    merged, position = np.unique(edges, return_inverse=True)
    start = float(sum(w * values[0] for w, (_, values) in zip(weights, binnings)))
    total = np.bincount(position, weights=jumps, minlength=len(merged))
    return merged, np.clip(start + np.concatenate([[0.0], np.cumsum(total)]), 0.0, 1.0)
