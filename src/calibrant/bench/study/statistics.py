"""The one ranking of methods, tests over datasets as Demšar (2006) proposes, win rates and Elo ratings.

Losses are averaged over the experiments of a dataset, because experiments on the same data are not independent, and
methods are ranked on every dataset. All methods are ranked on the same datasets, those on which each of them finished
every experiment. A method that finished no dataset would leave none to rank on: it has no rank. The summary of a run,
the tables, the tests and the page all show this ranking; the page's script follows the same rule, and a test compares
the two.

Mean ranks R_j over N datasets and k methods give the Friedman statistic `12/(Nk(k+1)) Σ (N R_j)² - 3N(k+1)`, divided by
its tie correction, and the Nemenyi critical difference `q_α √(k(k+1)/(6N))`; pairwise signed-rank tests with Holm's
correction stand beside it, because Nemenyi's test weakens as methods are added. Infinite losses are worst, and equal to
each other. SciPy's own functions, with which tests compare these, need three methods for Friedman's test, and give nan
where everything ties or two losses are infinite.

On one experiment a method wins against another when its loss is smaller, and half wins when both are equal.
Wins are averaged within a dataset first, so every dataset weighs the same, and whole datasets are drawn with
replacement for the intervals, since experiments of one dataset are not independent. Elo ratings maximise the
Bradley-Terry likelihood `P(i beats j) = 1/(1 + 10^((E_j - E_i)/400))` of these wins.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from calibrant.bench.schema import DATASET
from calibrant.bench.study.results import ten_digits
from calibrant.calibrators.registry import BASELINE
from calibrant.typing import AnyArray

Z95 = float(stats.norm.ppf(0.975))
"""Half width of a 95 % interval in standard errors."""
N_BOOTSTRAP = 2000
"""With 2000 samples the standard error of the tail probability 2.5 % is 0.35 percentage points."""
ELO_SCALE = 400.0 / math.log(10.0)
ELO_ANCHOR = 1000.0
"""Chess players' scale: 400 points are odds of 10 to 1. `none` has 1000."""


@dataclass(frozen=True)
class Ranking:
    means: pd.DataFrame
    """Mean losses, one row per dataset used and one column per ranked method."""
    notes: tuple[str, ...]
    """Methods without a rank and datasets left out, in words."""

    @property
    def ranks(self) -> pd.DataFrame:
        """Rank of every method on every dataset, 1 for the smallest loss; ties share their mean rank."""
        return dataset_ranks(self.means)

    @property
    def mean_ranks(self) -> pd.Series:
        """Mean rank of every ranked method, the best first."""
        return self.ranks.mean().sort_values(kind="stable")


def rank_methods(losses: pd.DataFrame) -> Ranking:
    """Rank methods by losses with one row per experiment and one column per method, nan where one did not finish."""
    finished = losses.notna().groupby(level=DATASET).all()
    ranked = [name for name in losses.columns if finished[name].any()]
    complete = finished[ranked].all(axis=1)
    # Rounded again, since sums of the same losses in another order differ in their last digits.
    means = ten_digits(losses.groupby(level=DATASET).mean()[ranked][complete])
    notes = []
    if lost := [str(name) for name in losses.columns if name not in ranked]:
        notes.append(f"{', '.join(lost)} finished no dataset and {'is' if len(lost) == 1 else 'are'} not ranked")
    if len(means) < len(finished):
        gaps = (~finished[ranked]).sum().sort_values(ascending=False, kind="stable")
        worst = ", ".join(f"{name} ({int(count)})" for name, count in gaps[gaps > 0].items())
        note = f"ranks use {len(means)} of {len(finished)} datasets, where all ranked methods finished"
        note += f"; datasets with gaps by method: {worst}"
        notes.append(note if len(means) else f"{note}; leave some of these methods out of the ranks to get any")
    return Ranking(means, tuple(notes))


def dataset_ranks(losses: pd.DataFrame) -> pd.DataFrame:
    """Rank the methods on every dataset, 1 for the smallest loss; ties share their mean rank."""
    if losses.isna().to_numpy().any():
        raise ValueError("ranks need every method's loss on every dataset: drop incomplete datasets first")
    return losses.rank(axis=1, method="average")


@dataclass(frozen=True)
class FriedmanTest:
    """The Friedman test that all methods have the same mean rank."""

    statistic: float
    p_value: float
    n_datasets: int
    n_methods: int


def friedman(ranks: pd.DataFrame) -> FriedmanTest:
    """Friedman's χ² test with tie correction; nan below two datasets or methods, p-value 1 where all methods tie."""
    n, k = ranks.shape
    if n < 2 or k < 2:
        return FriedmanTest(math.nan, math.nan, n, k)
    correction = np.mean([stats.tiecorrect(row) for row in ranks.to_numpy(float)])
    if correction <= 1e-12:
        return FriedmanTest(0.0, 1.0, n, k)
    uncorrected = 12.0 / (n * k * (k + 1)) * float((ranks.sum() ** 2).sum()) - 3.0 * n * (k + 1)
    statistic = max(uncorrected / correction, 0.0)
    return FriedmanTest(statistic, float(stats.chi2.sf(statistic, k - 1)), n, k)


def critical_difference(n_methods: int, n_datasets: int, alpha: float = 0.05) -> float:
    """Smallest difference of two mean ranks that Nemenyi's test calls significant at level `alpha`."""
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    if n_methods < 2 or n_datasets < 2:
        return math.nan
    quantile = float(stats.studentized_range.ppf(1.0 - alpha, n_methods, np.inf)) / math.sqrt(2.0)
    return quantile * math.sqrt(n_methods * (n_methods + 1) / (6.0 * n_datasets))


def nemenyi(ranks: pd.DataFrame) -> pd.DataFrame:
    """Nemenyi's p-value for every pair of methods, a symmetric matrix with ones on the diagonal."""
    n, k = ranks.shape
    first, second = np.triu_indices(k, 1)
    if n < 2 or k < 2:
        return _symmetric(ranks, np.full(first.size, math.nan))
    mean = ranks.mean().to_numpy(float)
    distance = np.abs(mean[first] - mean[second]) / (math.sqrt(k * (k + 1) / (6.0 * n)) / math.sqrt(2.0))
    distinct, back = np.unique(distance, return_inverse=True)
    # The tail integral is accurate to about 1e-12, where it may also come out negative.
    return _symmetric(ranks, np.clip(stats.studentized_range.sf(distinct, k, np.inf), 0.0, 1.0)[back])


def wilcoxon_holm(losses: pd.DataFrame) -> pd.DataFrame:
    """Signed-rank p-value of every pair of methods, corrected by Holm over all pairs."""
    values = losses.to_numpy(float)
    pairs = zip(*np.triu_indices(values.shape[1], 1))
    raw = [signed_rank_p(values[:, i], values[:, j]) if len(values) > 1 else math.nan for i, j in pairs]
    return _symmetric(losses, holm(np.array(raw)))


def signed_rank_p(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Two-sided Wilcoxon p-value, 1 if no pair differs; infinite pairs tie, an infinite difference ranks highest."""
    with np.errstate(invalid="ignore"):
        difference = np.where(a == b, 0.0, a - b)
    difference = difference[difference != 0.0]
    if difference.size == 0:
        return 1.0
    if not np.isfinite(difference).all():
        # Only signs and the order of magnitudes matter, so any number beyond the others stands for infinity.
        finite = np.abs(difference[np.isfinite(difference)])
        beyond = 2.0 * float(finite.max()) if finite.size else 1.0
        difference = np.nan_to_num(difference, posinf=beyond, neginf=-beyond)
    exact = difference.size <= 25 and np.unique(np.abs(difference)).size == difference.size
    method: Literal["exact", "approx"] = "exact" if exact else "approx"
    return float(stats.wilcoxon(difference, method=method).pvalue)


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Holm's step-down correction."""
    order = np.argsort(p_values)
    adjusted = np.minimum(1.0, np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1)))
    return adjusted[np.argsort(order)]


def _symmetric(like: pd.DataFrame, upper: NDArray[np.float64]) -> pd.DataFrame:
    """A matrix of pairs of methods from its upper triangle, with ones on the diagonal."""
    names = list(like.columns)
    matrix = np.ones((len(names), len(names)))
    rows, columns = np.triu_indices(len(names), 1)
    matrix[rows, columns] = matrix[columns, rows] = upper
    return pd.DataFrame(matrix, index=pd.Index(names, name="method"), columns=names)


def mean_interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean and standard 95 % interval, `mean ± 1.96 s/√n`; no interval (nan) below two values."""
    values = values[~np.isnan(values)]
    mean = float(values.mean()) if values.size else math.nan
    if values.size < 2 or not math.isfinite(mean):
        return mean, math.nan, math.nan
    half = Z95 * float(values.std(ddof=1)) / math.sqrt(values.size)
    return mean, mean - half, mean + half


def quantiles(values: NDArray[np.float64], shares: list[float]) -> list[float]:
    """Quantiles of values that may be infinite; nan without any."""
    if values.size == 0:
        return [math.nan] * len(shares)
    # The nearest data value keeps infinite quantiles infinite, where interpolation makes them nan.
    method: Literal["linear", "nearest"] = "linear" if np.isfinite(values).all() else "nearest"
    return [float(q) for q in np.quantile(values, shares, method=method)]


def equal_mass_groups(values: NDArray[np.float64], n_groups: int) -> NDArray[np.int64]:
    """Group numbers 0, 1, ... in growing value, equal values together, of the smallest sum of squared group sizes."""
    distinct, back, counts = np.unique(values, return_inverse=True, return_counts=True)
    m = distinct.size
    below = np.concatenate([[0], np.cumsum(counts)]).astype(float)
    # What it costs to divide the first values into groups so far, and the group of each value at that cost.
    cost, groups = [0.0, *[np.inf] * m], [np.zeros(m, dtype=np.int64)] * (m + 1)
    for group in range(min(n_groups, m)):
        last = [int(np.argmin(cost[:end] + (below[end] - below[:end]) ** 2)) for end in range(1, m + 1)]
        ends = list(enumerate(last, start=1))
        groups = [groups[0], *(np.append(groups[start][:start], [group] * (end - start)) for end, start in ends)]
        cost = [np.inf, *(cost[start] + (below[end] - below[start]) ** 2 for end, start in ends)]
    return groups[m][back]


def _dataset_wins(losses: pd.DataFrame) -> NDArray[np.float64]:
    """Share of each dataset's experiments on which method i beats j, nan where they never met: (datasets, i, j)."""
    shares = []
    for name, other in losses.items():
        score = losses.lt(other, axis=0) + 0.5 * losses.eq(other, axis=0)
        met = losses.notna().mul(other.notna(), axis=0)
        shares.append(score.where(met).groupby(level=DATASET).mean().assign(**{str(name): math.nan}))
    return np.stack(shares, axis=2)


def win_rates(losses: pd.DataFrame, *, n_bootstrap: int = N_BOOTSTRAP, seed: int = 0) -> pd.DataFrame:
    """Win rate of every method, mean over the others and against `none`, with 95 % intervals (nan with one dataset)."""
    share = _dataset_wins(losses)
    names = list(losses.columns)
    point = _pair_rates(share, np.ones((1, len(share))))
    draws = _pair_rates(share, _draws(len(share), n_bootstrap, seed))
    frame = pd.DataFrame({"method": names, "winrate": _mean_over_others(point)[0]})
    frame["low"], frame["high"] = _interval(_mean_over_others(draws), len(share))
    none = names.index(BASELINE)
    frame["beats_none"] = point[0, :, none]
    frame["beats_none_low"], frame["beats_none_high"] = _interval(draws[:, :, none], len(share))
    frame["n_datasets"] = (~np.isnan(share)).any(axis=2).sum(axis=0)
    return frame


def elo(losses: pd.DataFrame, *, n_bootstrap: int = 500, seed: int = 0) -> pd.DataFrame:
    """Elo rating of every method with 95 % intervals; `none` stands at 1000.

    Half a win in each direction is added to every pair that met, so that a method that always wins keeps a finite
    rating. Fewer samples than for win rates, since each is a fit.
    """
    share = _dataset_wins(losses)
    names = list(losses.columns)
    none = names.index(BASELINE)
    point = _bradley_terry(_pair_sums(share, np.ones((1, len(share)))), none)
    draws = _bradley_terry(_pair_sums(share, _draws(len(share), n_bootstrap, seed)), none)
    frame = pd.DataFrame({"method": names, "elo": point[0]})
    frame["low"], frame["high"] = _interval(draws, len(share))
    return frame


def _draws(n: int, n_bootstrap: int, seed: int) -> NDArray[np.float64]:
    """How often each dataset is drawn, one row per bootstrap sample."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(n, np.full(n, 1.0 / n), size=n_bootstrap).astype(float)


def _pair_sums(share: AnyArray, weights: AnyArray) -> NDArray[np.float64]:
    """Weighted sums over datasets of the wins of every pair: (samples, methods, methods)."""
    n, k, _ = share.shape
    return (weights @ np.nan_to_num(share).reshape(n, k * k)).reshape(-1, k, k)


def _pair_rates(share: AnyArray, weights: AnyArray) -> NDArray[np.float64]:
    met = _pair_sums((~np.isnan(share)).astype(float), weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        return _pair_sums(share, weights) / met


def _mean_over_others(rates: AnyArray) -> NDArray[np.float64]:
    met = ~np.isnan(rates)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(met, rates, 0.0).sum(axis=2) / met.sum(axis=2)


def _interval(draws: AnyArray, n_datasets: int) -> AnyArray:
    """Ends of the 95 % intervals of all methods; nan with one dataset."""
    if n_datasets < 2:
        return np.full((2, draws.shape[1]), math.nan)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="All-NaN slice")  # methods that met nobody
        return np.nanquantile(draws, [0.025, 0.975], axis=0)


def _bradley_terry(wins: AnyArray, anchor: int) -> NDArray[np.float64]:
    """Elo ratings that maximise the Bradley-Terry likelihood, by Newton's method on all samples at once."""
    k = wins.shape[1]
    games = wins + wins.transpose(0, 2, 1)
    met = games > 0
    wins = wins + 0.5 * met
    games = games + met
    theta = np.zeros(wins.shape[:2])
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(theta[:, None, :] - theta[:, :, None]))
        gradient = (wins - games * p).sum(axis=2)
        weight = games * p * (1.0 - p)
        # Ratings are free up to a constant, which the ones matrix fixes; 1e-9 is for methods that met no other.
        hessian = np.eye(k) * (weight.sum(axis=2)[:, :, None] + 1e-9) - weight + 1.0 / k
        step = np.clip(np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0], -2.0, 2.0)
        theta += step
        if float(np.abs(step).max()) < 1e-10:
            break
    return ELO_ANCHOR + ELO_SCALE * (theta - theta[:, [anchor]])
