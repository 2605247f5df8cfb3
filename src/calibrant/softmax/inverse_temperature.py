"""The inverse temperature: the softmax problem restricted to the line ``α x``.

The mean log loss is convex in ``α``; Newton's method in ``log α``, safeguarded by a bracket, finds the root of its
derivative ``mean_i(Σ_j x_ij S(α x_i)_j − x_i,y_i)`` in a handful of passes over the data. The change of the
curvature from step to step gives the third derivative; with it and a start from some of the rows two passes over all
rows are enough. A prior on ``log α`` can add a second minimum near 1, so its search starts from the best of a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.solvers.searches import run
from calibrant.typing import FloatArray

#: When no row is classified wrongly the optimum is at infinity, when none is better than chance at zero.
#: The floor is high enough for the scaled logits to keep the shape of the data.
LARGEST_INVERSE_TEMPERATURE = float(np.exp(16.0))
SMALLEST_INVERSE_TEMPERATURE = 1e-3
#: From this many rows on, the search starts at the optimum of some of them, which saves passes over all.
_MANY_ROWS = 2048
#: Above this inverse temperature the search asks once whether every row is right, so that the optimum is at infinity:
#: rounding would else decide where it stops.
_SUSPICIOUS = 4.0
#: A step in log α below this size is the last: of Newton's method, whose error is the square of the step, of a step
#: with the third derivative, whose error is its cube, and of a search for a start.
_SMALL, _SMALL_CUBIC, _SMALL_START = 1e-6, 3e-4, 2e-2
#: Two curvatures at most this far apart in log α give the third derivative.
_FAR = 0.3


class Minimum(NamedTuple):
    """The inverse temperature, the mean loss there (with the prior), and the third derivative in ``log α``, or NaN."""

    alpha: float
    loss: float
    third: float


def fit_inverse_temperature(
    x: FloatArray, y: NDArray[np.int64], weight: FloatArray | None = None, start: float = 1.0, prior: float = 0.0
) -> tuple[float, float]:
    """The inverse temperature that minimises the mean log loss of ``S(α x)`` for `x` (k, n), and the minimum.

    With a `prior`, ``prior (log α)² / 2`` is added to the sum of the losses, so that data without a single error do
    not lead to certainty.
    """
    n, third = x.shape[1], np.nan
    if n >= _MANY_ROWS:  # a look at some rows brings the start so close that two passes over all remain
        some = slice(None, None, n // (_MANY_ROWS // 4))
        weight_of_some = None if weight is None else weight[some]
        few = ArrayProblem(y[some], np.ascontiguousarray(x[:, some]), weight=weight_of_some)
        rough = inverse_temperature_search(start, few.always_right, small=_SMALL_START)
        start, _, third = run(rough, few.scaled)
    problem = ArrayProblem(y, x, weight=weight)
    pull = prior / problem.total_weight
    if prior > 0.0:
        start, third = _start_with_prior(problem, fit_inverse_temperature(x, y, weight, start)[0], pull), np.nan
    alpha, loss, _ = run(inverse_temperature_search(start, problem.always_right, pull, third), problem.scaled)
    return alpha, loss


def inverse_temperature_search(
    start: float,
    always_right: Callable[[], bool],
    pull: float = 0.0,
    third: float = np.nan,
    *,
    small: float = _SMALL_CUBIC,
) -> Generator[float, tuple[float, float, float], Minimum]:
    """The search for the minimum near `start`: yields inverse temperatures, is sent the mean loss and two derivatives.

    `always_right` says whether every label has the largest logit, so that the optimum is at infinity; `pull` is the
    strength of the prior as a share of the total weight. `third` is a guess at the third derivative in ``log α``; a
    step below `small` that makes use of it is the last.
    """
    low, high = np.log(SMALLEST_INVERSE_TEMPERATURE), np.log(LARGEST_INVERSE_TEMPERATURE)
    s = float(np.clip(np.log(start), low, high))
    before: tuple[float, float] | None = None
    asked = pull > 0.0
    for _ in range(100):
        alpha = np.exp(s)
        if alpha > _SUSPICIOUS and not asked:
            asked = True
            if always_right():
                loss, _, _ = yield LARGEST_INVERSE_TEMPERATURE
                return Minimum(LARGEST_INVERSE_TEMPERATURE, loss, np.nan)
        loss, slope, curvature = yield alpha
        loss += pull * s * s / 2.0
        # Derivatives in s = log α: d/ds = α f', d²/ds² = α f' + α² f''.
        slope = alpha * slope + pull * s
        bend = slope - pull * s + alpha * alpha * curvature + pull
        if before is not None and 0.0 < abs(s - before[0]) < _FAR:
            third = (bend - before[1]) / (s - before[0])
        before = s, bend
        if slope > 0.0:
            high = s
        else:
            low = s
        newton = -slope / bend if bend > 0.0 else np.nan
        # The root of slope + bend t + third t² / 2, to the order that `third` makes sense of.
        correction = third * newton / (2.0 * bend)
        cubic = abs(correction) < 0.5  # false for NaN
        step = newton * (1.0 - correction) if cubic else newton
        if not low < s + step < high:  # outside the bracket: move at most by e², or halve what is left
            toward, cubic = (low if slope > 0.0 else high) - s, False
            step = toward if abs(toward) < 1e-12 else float(np.clip(toward / 2.0, -2.0, 2.0))
        s += step
        if abs(step) <= (small if cubic else min(small, _SMALL)):
            loss += step * (slope + step * (bend / 2.0 + step * (third / 6.0 if cubic else 0.0)))
            return Minimum(float(np.exp(s)), loss, third)
    loss, _, _ = yield float(np.exp(s))
    return Minimum(float(np.exp(s)), loss + pull * s * s / 2.0, third)


def _start_with_prior(problem: ArrayProblem, free: float, pull: float) -> float:
    """The best start between 1 and the optimum `free` without the prior, where the optimum with it lies."""
    steps = np.linspace(0.0, np.log(free), 1 + int(np.ceil(abs(np.log(free)))))[1:]
    if len(steps) < 2:
        return free
    line = (problem.scaled(np.exp(s))[0] + pull * s * s / 2.0 for s in steps)
    return float(np.exp(steps[int(np.argmin(list(line)))]))
