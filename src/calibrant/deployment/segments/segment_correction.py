"""The correction of a global map by segment: levels first, trees on top, each shrunk by how sure its gain is.

With log-probabilities z of the global map, the logits of row i and class j are ``z_ij + Σ_l (b_jl + s_jl z_ij)`` over
the levels l that the row belongs to, one of each column. The coefficients minimise the sum of log losses plus
``λ Σ (b² + s²)``: a level moves as far from the global map as its rows support. The trees are the flagship's: one run
for each fold, started from the logits that corrections by level make without that fold, followed on it, and averaged.

Everything is judged on rows held out. A part that saves g of log loss there, with a standard error of e, keeps the
share ``1 - 2 (e / g)²`` of its way from the global map, and nothing if that is negative: the best share of an estimated
step is one less the part of its squared length that is noise, and e² is too little for noise, since g is the best of
several strengths or numbers of trees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.calibrators.auto.trees.ensemble import BoostingOptions, TreeLayer, cross_fit_trees
from calibrant.sample import Sample
from calibrant.simplex import log_softmax
from calibrant.softmax.penalties import Ridge
from calibrant.softmax.rows.levels import LevelProblem
from calibrant.softmax.solvers import solve
from calibrant.softmax.solvers.solver import Solution
from calibrant.typing import FloatArray, IntArray

#: Strengths that are tried, strongest first, each about a third of the one before.
STRENGTHS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
#: The duality gap of the mean loss, and one that is enough to compare strengths by.
_GAP, _ROUGH_GAP = 1e-9, 1e-6
#: Small trees whose leaves move little: a leaf of forty rows at even odds goes half of its way.
_TREES = BoostingOptions(rounds=150, depth=3, rate=0.1, l2=10.0, columns=8, pairs=0, patience=15)


@dataclass(frozen=True)
class SegmentCorrection:
    """What was found, shrunk: intercepts and slopes of each level, `theta` (k, 2 levels), and trees on top of them."""

    theta: FloatArray
    trees: TreeLayer
    #: Of the ridge; infinite if levels are not corrected.
    strength: float
    #: An upper bound of how far the ridge's objective is above its minimum.
    duality_gap: float
    #: Logits of rows (n, k) by corrections that were fitted without them.
    held: FloatArray
    #: Log loss saved on rows held out, and its standard error.
    gain: float
    gain_error: float


def find_correction(
    sample: Sample,
    fold: IntArray,
    places: IntArray,
    n_levels: int,
    asked: FloatArray | None,
    strength: float | None,
    seed: int,
) -> SegmentCorrection:
    """Correct log-probabilities of rows that the global map was not fitted to.

    `places` (n, c) are the levels of each row, `asked` (columns, n) what trees ask about; either may have no columns.
    A `strength` that is given is taken as it is, and so is the correction by level.
    """
    z, y = sample.x, sample.y
    k, used, gap = sample.n_classes, np.inf, 0.0
    theta, starts = np.zeros((k, 2 * n_levels)), [z] * (int(fold.max()) + 1)
    if places.shape[1]:
        strengths = STRENGTHS if strength is None else (float(strength),)
        losses, thetas = cross_validate(sample, places, fold, n_levels, strengths)
        saved = row_losses(z, y) - losses
        best = int(np.argmax(np.average(saved, axis=1, weights=sample.counts)))
        share = 1.0 if strength is not None else kept_share(*mean_and_error(saved[best], sample))
        if share:
            starts = [corrected(z, places, share * of_fold[best]) for of_fold in thetas]
            found = fit_correction(sample, places, strengths[best], theta)
            theta, used, gap = share * found.theta, strengths[best], found.gap
    held = np.empty_like(z)
    for number, start in enumerate(starts):
        held[fold == number] = start[fold == number]
    trees = TreeLayer.empty(k)
    if asked is not None:
        begin = [np.ascontiguousarray(start.T) for start in starts]
        fitted = cross_fit_trees(asked, begin, sample, fold, _TREES, seed)
        after = fitted.held.T
        share = kept_share(*mean_and_error(row_losses(held, y) - row_losses(after, y), sample))
        if share:
            trees, held = fitted.layer.scaled(share), held + share * (after - held)
    gain, error = mean_and_error(row_losses(z, y) - row_losses(held, y), sample)
    return SegmentCorrection(theta, trees, used, gap, held, gain, error)


def kept_share(gain: float, error: float) -> float:
    return 0.0 if gain <= 0.0 else max(0.0, 1.0 - 2.0 * (error / gain) ** 2)


def mean_and_error(values: FloatArray, sample: Sample) -> tuple[float, float]:
    """The mean of a value for each row, and its standard error."""
    mean = float(sample.each @ values) / sample.total
    return mean, float(np.sqrt(sample.sum_variance(values - mean))) / sample.total


def corrected(z: FloatArray, places: IntArray, theta: FloatArray) -> FloatArray:
    """Logits (n, k) after the correction of log-probabilities `z`.

    `places` (n, c) are the levels of each row, -1 for none; `theta` (k, 2 levels) intercepts and slopes of each.
    """
    problem = LevelProblem(np.zeros(len(z), dtype=np.int64), z, places, theta.shape[1] // 2)
    return problem.logits(theta).T


def fit_correction(
    sample: Sample,
    places: IntArray,
    strength: float,
    start: FloatArray,
    tol: float = _GAP,
) -> Solution:
    """The correction of a certain strength, from the coefficients `start`, with a duality gap of at most `tol`."""
    problem = LevelProblem(sample.y, sample.x, places, start.shape[1] // 2, sample.counts)
    penalty = Ridge(np.full(problem.shape, strength / problem.total_weight))
    return solve(problem, penalty, solver="lbfgs", tol=tol, theta=start)


def cross_validate(
    sample: Sample,
    places: IntArray,
    fold: IntArray,
    n_levels: int,
    strengths: tuple[float, ...],
) -> tuple[FloatArray, list[FloatArray]]:
    """Corrections of every strength, fitted without each fold, and judged on it.

    Returns the log losses (strengths, n) of rows by corrections that were fitted to the other folds, and for every fold
    the coefficients of every strength (strengths, k, 2 levels).
    """
    losses, thetas = np.empty((len(strengths), sample.n_rows)), []
    for number in range(int(fold.max()) + 1):
        inside, out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        within, held = sample.take(inside), sample.take(out)
        path, theta = [], np.zeros((sample.n_classes, 2 * n_levels))
        for i, strength in enumerate(strengths):
            theta = fit_correction(within, places[inside], strength, theta, _ROUGH_GAP).theta
            losses[i, out] = row_losses(corrected(held.x, places[out], theta), held.y)
            path.append(theta)
        thetas.append(np.array(path))
    return losses, thetas


def row_losses(logits: FloatArray, y: IntArray) -> FloatArray:
    """The log loss of each row."""
    return np.asarray(-log_softmax(logits)[np.arange(len(y)), y])
