"""What is corrected in each segment: intercepts and slopes on the log-probabilities of a global map, shrunk to none.

With log-probabilities z of the global map, the logits of row i and class j are ``z_ij + Σ_l (b_jl + s_jl z_ij)`` over
the levels l that the row belongs to, one of each column. The coefficients minimise the sum of log losses plus
``λ Σ (b² + s²)``: a level moves as far from the global map as its rows can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibrant.sample import Sample
from calibrant.simplex import log_softmax
from calibrant.softmax.penalties import Ridge
from calibrant.softmax.rows.levels import LevelProblem
from calibrant.softmax.solvers import solve
from calibrant.softmax.solvers.solution import Solution
from calibrant.typing import FloatArray, IntArray

#: Strengths that are tried, strongest first.
STRENGTHS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
#: The duality gap of the mean loss, and one that is enough to compare strengths by.
_GAP, _ROUGH_GAP = 1e-9, 1e-6


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


class HeldOut(NamedTuple):
    """Corrections of every strength, fitted without each fold, and what they lose on its rows.

    Attributes
    ----------
    losses : ndarray of shape (strengths, n), log losses of rows by corrections that were fitted to the other folds.
    thetas : for every fold the coefficients of every strength, (strengths, k, 2 levels).
    """

    losses: FloatArray
    thetas: list[FloatArray]


def cross_validate(
    sample: Sample,
    places: IntArray,
    fold: IntArray,
    n_levels: int,
    strengths: Sequence[float] = STRENGTHS,
) -> HeldOut:
    """Fit corrections of every strength without each fold, and judge them on it."""
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
    return HeldOut(losses, thetas)


def row_losses(logits: FloatArray, y: IntArray) -> FloatArray:
    """The log loss of each row."""
    return np.asarray(-log_softmax(logits)[np.arange(len(y)), y])
