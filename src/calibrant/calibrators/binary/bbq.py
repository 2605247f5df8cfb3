"""Bayesian binning into quantiles: an average of histogram binnings of many sizes, weighed by how well each fits.

With ``criterion="bic"`` or ``"aic"`` a binning weighs ``exp(-½ ΔIC)``; with ``"bayes"`` by the marginal likelihood of
its labels under a beta prior in each bin, as first published. The average of step functions is one step function,
which is what is stored.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import gammaln

from calibrant.bins import EDGE_DECIMALS, quantiles, uniform_edges
from calibrant.calibrators.binary.binning import Grouped, bin_totals, binned, group_scores, rounded_positive
from calibrant.calibrators.lifting import BinaryMethod
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.steps import Step
from calibrant.typing import FloatArray, IntArray

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
    estimators_ : list
        The binary calibrators (more than two classes).

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
