"""Tests and estimates that validators ask for by name: Hosmer-Lemeshow, Spiegelhalter, Cox, and e-tests.

All of them ask whether labels could be draws from the predictions, of rows that the model was not fitted to.

P-values of the first three come from labels drawn from the predictions (`calibrant.metrics.hypothesis`). An e-value is
a likelihood ratio: a map is fitted to one half of the rows, and on the other half the probabilities of the labels after
it are divided by those before it. If the predictions are calibrated it is at most 1 in the mean, so by Markov's
inequality it exceeds 20 in at most 5 % of all samples, whatever their size.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, logsumexp
from sklearn.base import BaseEstimator

from calibrant.bins import Strategy, edge_index
from calibrant.inputs.words import CalibrationWarning
from calibrant.metrics.binned import Binner
from calibrant.metrics.frequencies import ClassFrequencies, class_frequencies
from calibrant.metrics.hypothesis import MOST_DRAWN, CellResiduals, ScoreResiduals, drawn_or_tail, score_statistic
from calibrant.metrics.losses import log_loss_rows
from calibrant.metrics.recalibration import Method, recalibrate, resolve_calibrator
from calibrant.metrics.result_types import CalibrationTest, Estimate
from calibrant.metrics.scalars import public
from calibrant.metrics.slope import LinearRecalibration, slope_interval
from calibrant.metrics.views import View, column_of, one_against_rest
from calibrant.random_numbers import generator
from calibrant.sample import Sample
from calibrant.simplex import LOSS_FLOOR
from calibrant.typing import AnyFloatArray, AnyIntArray, FloatArray, Label

#: Expected counts from which χ² tails are trusted (Cochran's rule).
_ENOUGH = 5.0
#: Observations at the predicted frequencies by which those of a group are pulled towards them in the e-test. A ratio of
#: zero, which a group without a case would have, could never be made good; the evidence of all three is averaged, so
#: that many groups of many classes, whose frequencies are mostly noise, do not drown it.
_PRIORS = (2.0, 20.0, 200.0)
#: Shifts of log-odds beyond this are infinite.
_FARTHEST_SHIFT = 50.0


def _kind(data: Sample) -> str:
    return "binary" if data.n_classes == 2 else "all classes"


def cell_test(data: Sample, index: AnyIntArray, n_cells: int, name: str) -> CalibrationTest:
    """Pearson's test of observed against expected counts of all classes in groups of rows."""
    residuals = CellResiduals(data, index, n_cells)
    expected = residuals.expected
    inverse = np.divide(1.0, expected, out=np.full(expected.shape, np.inf), where=expected > 0)

    def statistic(cells: AnyFloatArray) -> float:
        with np.errstate(invalid="ignore"):
            return float(np.where(cells != 0, cells**2 * inverse, 0.0).sum())

    occupied = expected.sum(axis=1) > 0
    freedom = int(occupied.sum()) * (data.n_classes - 1)
    sparse = bool(expected[occupied].min(initial=np.inf) < _ENOUGH)
    most = np.inf if sparse else MOST_DRAWN
    cells = int(occupied.sum())
    return drawn_or_tail(residuals, statistic, freedom, name=name, kind=_kind(data), most=most, cells=cells)


@public
def hosmer_lemeshow(
    data: Sample,
    *,
    n_bins: int = 10,
    strategy: Strategy = "quantile",
    e_test: bool = False,
    pos_label: Label = None,
    random_state: int | None = 0,
) -> CalibrationTest:
    """Hosmer-Lemeshow test: observed against expected counts in groups of similar predictions.

    The statistic is `Σ_g Σ_j (O_gj - E_gj)² / E_gj` over groups of about as many observations (deciles), or of fixed
    ranges of scores (`strategy="uniform"`). Rows are grouped by `1 - p` of the first class, for two classes the
    probability of the second; for more this is the test of Fagerland, Hosmer and Bofin (2008). The predictions are not
    fitted to these rows, so it has `g (k - 1)` degrees of freedom, not `(g - 2)(k - 1)`.

    It misleads by its groups, whose number and ends change the verdict; with few rows it finds nothing, with many it
    finds differences that do not matter, and it does not say in which direction predictions are off. With counts
    below 5 the χ² distribution is wrong: p-values are then those of drawn labels.

    Parameters
    ----------
    n_bins : int, default=10
        Number of groups.
    e_test : bool, default=False
        Whether the statistic is an e-value: frequencies of the groups are taken from one half of the rows and judged on
        the other, in the spirit of Henzi et al. (2023). It needs more rows to reject, and may be multiplied with that
        of later rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p).astype(int)
    >>> hosmer_lemeshow(y, p).p_value > 0.05, hosmer_lemeshow(y, p**2).p_value
    (True, 0.0025)
    """
    data = one_against_rest(data, pos_label)
    if e_test:
        maps = [_GroupFrequencies(n_bins, strategy, prior) for prior in _PRIORS]
        return _e_test(data, maps, 1, random_state, "hosmer_lemeshow e-test")
    index = Binner(_not_first(data.proba), n_bins, strategy).index(data.each)
    return cell_test(data, index, n_bins, "hosmer_lemeshow")


def _not_first(proba: AnyFloatArray) -> View:
    """What rows are grouped by: the probability of all classes but the first."""
    score = np.asarray(proba[:, 1] if proba.shape[1] == 2 else 1.0 - proba[:, 0], dtype=np.float64)
    return View(score, np.zeros(len(score)))


class _GroupFrequencies(BaseEstimator):
    """Corrects predictions by the frequencies of their group: `p_j (n O_j / E_j + s) / (n + s)`, normalised."""

    def __init__(self, n_bins: int, strategy: str, prior: float) -> None:
        self.n_bins = n_bins
        self.strategy = strategy
        self.prior = prior

    def fit(self, X: AnyFloatArray, y: AnyIntArray, sample_weight: FloatArray | None = None) -> _GroupFrequencies:
        data = Sample(X, y, sample_weight)
        binner = Binner(_not_first(X), self.n_bins, self.strategy)
        self.edges_ = binner.edges(data.each)[1:-1]
        cells = CellResiduals(data, self._index(X), len(self.edges_) + 1)
        n = cells.expected.sum(axis=1, keepdims=True)
        ratio = 1.0 + cells.observed / np.maximum(cells.expected, LOSS_FLOOR)
        self.factors_ = (n * ratio + self.prior) / (n + self.prior)
        return self

    def _index(self, X: AnyFloatArray) -> AnyIntArray:
        return edge_index(_not_first(X).score, self.edges_)

    def predict_proba(self, X: AnyFloatArray) -> FloatArray:
        moved = np.asarray(X, dtype=np.float64) * self.factors_[self._index(X)]
        return np.asarray(moved / moved.sum(axis=1, keepdims=True))


def _e_test(
    data: Sample, calibrators: Sequence[object], n_splits: int, random_state: int | None, name: str
) -> CalibrationTest:
    """Mean of the e-values of all maps on both halves of random splits, with the p-value `min(1, 1 / e)`."""
    rng = generator(random_state)
    before, found = log_loss_rows(data), []
    for _ in range(n_splits):
        # Halves that are alike in their labels would tell each other about them.
        fold = data.folds(2, rng, stratified=False)
        halves = [np.flatnonzero(fold == number) for number in (0, 1)]
        for calibrator in calibrators:
            with warnings.catch_warnings():  # a half without a class gives a map that is of no use, and no evidence
                warnings.simplefilter("ignore", CalibrationWarning)
                after = recalibrate(data, calibrator, [(halves[0], halves[1]), (halves[1], halves[0])])
            gain = before - log_loss_rows(after)
            found += [_log_evidence(data.take(half), gain[half]) for half in halves]
    evidence = float(logsumexp(found) - np.log(len(found)))
    return CalibrationTest(
        float(np.exp(min(evidence, 700.0))), float(np.exp(-max(evidence, 0.0))), name, _kind(data), 0
    )


def _log_evidence(half: Sample, gain: FloatArray) -> float:
    """The logarithm of the product of likelihood ratios; over rows of a group, which may depend, their mean counts."""
    if half.groups is None:
        return float(half.each @ gain)
    order = np.argsort(half.group_numbers, kind="stable")
    starts = np.searchsorted(half.group_numbers[order], np.arange(half.n_groups))
    top = np.maximum.reduceat(gain[order], starts)
    ratio = half.each * np.exp(gain - top[half.group_numbers])
    return float(np.sum(top + np.log(half.group_sums(ratio) / half.group_sums(half.each))))


@public
def split_likelihood_ratio(
    data: Sample,
    *,
    method: Method = None,
    n_splits: int = 5,
    pos_label: Label = None,
    random_state: int | None = 0,
) -> CalibrationTest:
    """Split likelihood-ratio test: how much more probable the labels are after a map fitted to other rows.

    The statistic is an e-value: the likelihood ratio on one half of the rows of predictions recalibrated by a map
    fitted to the other half, averaged over both halves and over `n_splits` random splits (Wasserman, Ramdas and
    Balakrishnan 2020; Delong and Wüthrich 2025, arXiv 2510.23821). The p-value is `min(1, 1 / e)`, valid for every
    number of rows. E-values of independent samples may be multiplied.

    It sees only what the calibrator can correct, and pays for the split: it rejects less often than tests that use all
    rows at once. With groups the ratio of a group is the mean over its rows, which costs more.

    Parameters
    ----------
    n_splits : int, default=5
        How many random splits are averaged.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p).astype(int)
    >>> split_likelihood_ratio(y, p).p_value > 0.05, split_likelihood_ratio(y, p**2).p_value < 1e-9
    (True, True)
    """
    if n_splits < 1:
        raise ValueError(f"n_splits must be positive, got {n_splits}")
    data = one_against_rest(data, pos_label)
    return _e_test(data, [resolve_calibrator(method)], n_splits, random_state, "split_likelihood_ratio")


@public
def spiegelhalter(data: Sample, *, pos_label: Label = None) -> CalibrationTest:
    """Spiegelhalter's z-test: whether the Brier score is what the predictions promise.

    For two classes `z = Σ (y - p)(1 - 2p) / √(Σ (1 - 2p)² p (1 - p))` (Spiegelhalter 1986); for more the same with the
    Brier score of all classes, whose mean and variance follow from the predictions. Positive if the score is worse than
    promised: too extreme. Two-sided.

    It misleads where errors cancel: predictions that are all 0.5 have `z = 0` whatever happens, and too many cases
    among low predictions make up for too few among others.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p).astype(int)
    >>> abs(spiegelhalter(y, p).statistic) < 2, spiegelhalter(y, np.round(p)).p_value < 1e-9
    (True, True)
    """
    data = one_against_rest(data, pos_label)
    # The Brier score of a row is Σ_j p_j² - 2 p_y + 1: a score of the slope of -p, or -2 p, instead of log p.
    residuals = ScoreResiduals(data, -np.asarray(data.proba, dtype=np.float64))
    squared = score_statistic("temperature", residuals)
    found = drawn_or_tail(residuals, squared, 1, name="spiegelhalter", kind=_kind(data))
    return found._replace(statistic=math.copysign(found.statistic**0.5, residuals.observed[-1]))


@dataclass(frozen=True)
class CoxCalibration:
    """Intercept and slope of recalibration, with the test of both.

    Attributes
    ----------
    intercepts : dict
        For two classes, the shift of the log-odds of the second at slope 1; for more, that of each class against the
        rest. Positive for a class that occurs more often than predicted; 0 is right.
    slope : Estimate
        Slope of the log-odds (of the log-probabilities of all classes) with fitted intercepts; 1 is right, below 1 too
        extreme.
    test : CalibrationTest
        Joint score test of intercepts 0 and slope 1.

    Examples
    --------
    >>> from calibrant.metrics import cox_calibration
    >>> found = cox_calibration([0, 0, 0, 1] * 50, [0.5, 0.6, 0.4, 0.6] * 50)
    >>> print(found.intercepts[1])
    -1.228 [-1.548, -0.9076]
    """

    intercepts: dict[Hashable, Estimate]
    slope: Estimate
    test: CalibrationTest


@public
def cox_calibration(data: Sample, *, level: float = 0.95, pos_label: Label = None) -> CoxCalibration:
    """Cox's intercept and slope of recalibration, with intervals and the joint test.

    `logit P(y = 1) = a + b logit p` (Cox 1958; Miller, Hui and Tierney 1991): `a` is estimated at `b = 1`, calibration
    in the large, and `b` with a free intercept. The intercept's interval is that of the expected-to-observed ratio on
    the scale of log-odds, the slope's holds the slopes that the score test does not reject, and the joint test is the
    score test of `calibration_test(statistic="score")`. If all labels are of one class, the slope is NaN.

    It misleads where the curve is not a straight line in log-odds: intercept 0 and slope 1 can hold for predictions
    that are wrong everywhere. Predictions of exactly 0 or 1 dominate the slope.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=5000)
    >>> y = (rng.random(5000) < 1 / (1 + np.exp(-z))).astype(int)
    >>> found = cox_calibration(y, 1 / (1 + np.exp(-2 * z)))
    >>> round(found.slope.value, 1), found.test.p_value < 0.01
    (0.5, True)
    """
    data = one_against_rest(data, pos_label)
    frequencies = class_frequencies(data, level)
    columns = [1] if data.n_classes == 2 else range(data.n_classes)
    model = LinearRecalibration(data)
    scores = model.scores(model.identity)
    joint = score_statistic("score", scores)
    test = drawn_or_tail(scores, joint, data.n_classes, name="cox_calibration", kind=_kind(data))
    # With labels of one class, and a free intercept, every slope explains them equally well.
    known = np.count_nonzero(data.class_counts) > 1
    slope = slope_interval(model, model.fit(), level) if known else Estimate(np.nan, np.nan, np.nan, level)
    return CoxCalibration({data.names[column]: _shift(data, frequencies, column) for column in columns}, slope, test)


def _shift(data: Sample, frequencies: ClassFrequencies, column: int) -> Estimate:
    """The shifts of log-odds at which the expected count is the observed one, and the ends of its interval."""
    p = np.clip(np.asarray(data.proba[:, column], dtype=np.float64), LOSS_FLOOR, 1.0 - LOSS_FLOOR)
    odds, expected = logit(p), float(frequencies.expected[column])
    with np.errstate(divide="ignore", invalid="ignore"):
        counts = expected / np.array([frequencies.ratio[column], frequencies.high[column], frequencies.low[column]])

    def excess(shift: float, count: float) -> float:
        return float(data.each @ expit(odds + shift)) - count

    def solved(count: float) -> float:
        if excess(-_FARTHEST_SHIFT, count) >= 0:
            return -np.inf
        if excess(_FARTHEST_SHIFT, count) <= 0:
            return np.inf
        return float(brentq(excess, -_FARTHEST_SHIFT, _FARTHEST_SHIFT, args=(count,), xtol=1e-12))

    value, low, high = (solved(float(count)) for count in counts)
    return Estimate(value, low, high, frequencies.level)


@public
def expected_observed_ratio(data: Sample, *, level: float = 0.95, pos_label: Label = None) -> Estimate:
    """Expected-to-observed ratio (E:O) with its interval: how many cases were predicted for each that occurred.

    `Σ p / Σ y`; above 1 a class is predicted too often. The interval is Wilson's of the observed share, with the
    variance that the predictions leave and, with groups, the design effect. A ratio of 1 says that the mean is
    right, not that any single prediction is: cases may be too many among low and too few among high predictions.

    Parameters
    ----------
    pos_label : label, optional
        The class in question; by default that of the last column, the second of two.

    Examples
    --------
    >>> print(expected_observed_ratio([0] * 95 + [1] * 5, [0.2] * 100))
    4 [1.79, 9.283]
    """
    table = class_frequencies(data, level)
    column = data.n_classes - 1 if pos_label is None else column_of(data, pos_label)
    return Estimate(float(table.ratio[column]), float(table.low[column]), float(table.high[column]), level)
