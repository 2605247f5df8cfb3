"""Win rates and Elo ratings from pairwise comparisons, with intervals by bootstrapping datasets.

On one experiment a method wins against another when its loss is smaller, and half wins when both are equal.
Wins are averaged within a dataset first, so every dataset weighs the same, and whole datasets are drawn with
replacement for the intervals, since experiments of one dataset are not independent. Elo ratings maximise the
Bradley-Terry likelihood `P(i beats j) = 1/(1 + 10^((E_j - E_i)/400))` of these wins.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from calibrant.bench.schema import DATASET
from calibrant.calibrators.registry import BASELINE
from calibrant.typing import AnyArray

N_BOOTSTRAP = 2000
"""With 2000 samples the standard error of the tail probability 2.5 % is 0.35 percentage points."""
ELO_SCALE = 400.0 / math.log(10.0)
ELO_ANCHOR = 1000.0
"""Chess players' scale: 400 points are odds of 10 to 1. `none` has 1000."""


def _dataset_wins(losses: pd.DataFrame) -> NDArray[np.float64]:
    """Share of each dataset's experiments on which method i beats j, nan where they never met: (datasets, i, j)."""
    values = losses.to_numpy(float)
    codes = losses.groupby(level=DATASET).ngroup().to_numpy()
    n_datasets, k = int(codes.max()) + 1, values.shape[1]
    wins = np.zeros((n_datasets, k, k))
    met = np.zeros((n_datasets, k, k))
    both = ~np.isnan(values)
    for j in range(k):
        other = values[:, [j]]
        score = (values < other) + 0.5 * (values == other)
        np.add.at(wins[:, :, j], codes, score)
        np.add.at(met[:, :, j], codes, both & both[:, [j]])
    with np.errstate(invalid="ignore", divide="ignore"):
        share = wins / met
    share[:, np.arange(k), np.arange(k)] = math.nan
    return share


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
