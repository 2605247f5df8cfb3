"""The inverse temperature: the softmax problem restricted to the line ``α x``.

The mean log loss is convex in ``α``; Newton's method in ``log α``, safeguarded by a bracket, finds the root of its
derivative ``mean_i(Σ_j x_ij S(α x_i)_j − x_i,y_i)`` to machine precision in a handful of passes over the data. A prior
on ``log α`` can add a second minimum near 1, so that its search starts from the best of a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np
from numpy.typing import NDArray

from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.together import run
from calibrant.typing import FloatArray

#: When no row is classified wrongly the optimum is at infinity, when none is better than chance at zero.
#: The floor is high enough for the scaled logits to keep the shape of the data.
LARGEST_INVERSE_TEMPERATURE = float(np.exp(16.0))
SMALLEST_INVERSE_TEMPERATURE = 1e-3
_MANY_ROWS = 2048
#: From here on it is worth asking whether the optimum is at infinity, where rounding would decide when to stop.
_SUSPICIOUS = 4.0


def fit_inverse_temperature(
    x: FloatArray, y: NDArray[np.int64], weight: FloatArray | None = None, start: float = 1.0, prior: float = 0.0
) -> tuple[float, float]:
    """The inverse temperature that minimises the mean log loss of ``S(α x)`` for `x` (k, n), and the minimum.

    With a `prior`, ``prior (log α)² / 2`` is added to the sum of the losses, so that data without a single error do
    not lead to certainty.

    Examples
    --------
    >>> x = np.log([[0.9, 0.9, 0.9, 0.1], [0.1, 0.1, 0.1, 0.9]])  # right three times in four, claiming 0.9
    >>> alpha, loss = fit_inverse_temperature(x, np.array([0, 0, 1, 1]))
    >>> bool(np.isclose(alpha, np.log(3) / np.log(9)))
    True
    """
    n = x.shape[1]
    if n >= _MANY_ROWS:  # a look at some rows brings the start so close that one or two passes over all remain
        some = slice(None, None, n // (_MANY_ROWS // 4))
        weight_of_some = None if weight is None else weight[some]
        start, _ = fit_inverse_temperature(np.ascontiguousarray(x[:, some]), y[some], weight_of_some, start)
    problem = ArrayProblem(y, x, weight=weight)
    pull = prior / problem.total_weight
    if prior > 0.0:
        start = _start_with_prior(problem, fit_inverse_temperature(x, y, weight, start)[0], pull)
    return run(inverse_temperature_search(start, problem.always_right, pull), problem.scaled)


def inverse_temperature_search(
    start: float, always_right: Callable[[], bool], pull: float = 0.0
) -> Generator[float, tuple[float, float, float], tuple[float, float]]:
    """The search for the minimum near `start`: yields inverse temperatures, is sent the mean loss and two derivatives.

    `always_right` says whether every label has the largest logit, so that the optimum is at infinity; `pull` is the
    strength of the prior as a share of the total weight.
    """
    low, high = np.log(SMALLEST_INVERSE_TEMPERATURE), np.log(LARGEST_INVERSE_TEMPERATURE)
    s = float(np.clip(np.log(start), low, high))
    loss, change, asked = np.inf, 0.0, pull > 0.0
    for _ in range(100):
        alpha = np.exp(s)
        if alpha > _SUSPICIOUS and not asked:
            asked = True
            if always_right():
                loss, _, _ = yield LARGEST_INVERSE_TEMPERATURE
                return LARGEST_INVERSE_TEMPERATURE, loss
        loss, slope, curvature = yield alpha
        loss += pull * s * s / 2.0
        # Newton in s = log α: d/ds = α f', d²/ds² = α f' + α² f''.
        slope = alpha * slope + pull * s
        bend = slope - pull * s + alpha * alpha * curvature + pull
        if slope > 0.0:
            high = s
        else:
            low = s
        proposal = s - slope / bend if bend > 0.0 else np.nan
        if not low < proposal < high:  # outside the bracket: move at most by e², or halve what is left
            toward = low if slope > 0.0 else high
            proposal = toward if abs(toward - s) < 1e-12 else s + np.clip((toward - s) / 2.0, -2.0, 2.0)
        done = abs(proposal - s) <= 1e-6  # quadratic convergence: the error that remains is of its square
        change, s = slope * (proposal - s), proposal
        if done:
            break
    alpha = float(np.exp(s))
    if abs(change) > 1e-12 * max(1.0, loss):  # at a bound the last step still counts
        loss, _, _ = yield alpha
        loss += pull * s * s / 2.0
    return alpha, loss


def _start_with_prior(problem: ArrayProblem, free: float, pull: float) -> float:
    """The best start between 1 and the optimum `free` without the prior, where the optimum with it lies."""
    steps = np.linspace(0.0, np.log(free), 1 + int(np.ceil(abs(np.log(free)))))[1:]
    if len(steps) < 2:
        return free
    line = (problem.scaled(np.exp(s))[0] + pull * s * s / 2.0 for s in steps)
    return float(np.exp(steps[int(np.argmin(list(line)))]))
