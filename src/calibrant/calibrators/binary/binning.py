"""Histogram binning: a prediction becomes the share of positive labels in its bin.

Bins are those of `calibrant.bins`: equal in width or in mass, closed on the right. Everything here is a function of
the sorted distinct predictions with their weights, so that weights equal repetition for the edges too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.bins import EDGE_DECIMALS, edge_index, quantiles, uniform_edges, uniform_index
from calibrant.calibrators.lifting import POSITIVE, BinaryMethod, positive_probability
from calibrant.calibrators.parameters import PositiveInt
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.steps import Complement, Step, StepFunction
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
    estimators_ : list
        The binary calibrators (more than two classes).

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
