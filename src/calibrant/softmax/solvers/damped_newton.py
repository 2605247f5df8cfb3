"""Newton's method for a handful of parameters, where one pass over the data gives all derivatives.

The step is halved until the objective falls; where even a short one does not, the curvature is too small for the
gradient (saturated probabilities), and more is added to the Hessian.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np

from calibrant.softmax.solvers.preconditioners import Factored
from calibrant.softmax.together import run
from calibrant.typing import FloatArray

#: A step is taken if it gains this share of what the slope promises: the usual constant of the Armijo rule.
ARMIJO = 1e-4
#: Steps are shortened by at most this factor. After that, curvature is added to the Hessian (damping), as a share of
#: the features' second moments: at most the second number; the third is too little to matter.
SHORTEST = 1e-4
LARGEST_DAMPING = 1e4
NEGLIGIBLE = 1e-10
#: The gain of a Newton step, or the gap, falls below this share of the one before, unless the curvature is wrong or the
#: optimum still far away.
STALLED = 0.3
#: Damping that is always added in directions without a penalty: where there is no curvature (collinear features, a
#: class that is never predicted) the gradient is only rounding, which must not make a step.
ROUNDING = 1e-13

_EPSILON = float(np.finfo(np.float64).eps)

Answer = tuple[float, FloatArray, FloatArray]
Derivatives = Callable[[FloatArray], Answer]


def more_damping(damping: float) -> float:
    return max(100.0 * damping, 1e-6)


def less_damping(damping: float) -> float:
    return damping / 10.0 if damping > NEGLIGIBLE else 0.0


@dataclass
class NewtonMinimum:
    """Where the iteration ended: the point, its objective and gradient, and the step that was not taken any more.

    `decrement` is what that step would gain on the quadratic model, half the squared Newton decrement.
    """

    theta: FloatArray
    objective: float
    gradient: FloatArray
    step: FloatArray
    decrement: float
    n_iter: int
    converged: bool = False


def damped_newton(
    derivatives: Derivatives,
    start: FloatArray,
    *,
    enough: Callable[[NewtonMinimum], bool],
    max_iter: int = 100,
    moments: FloatArray | float = 1.0,
) -> NewtonMinimum:
    """Minimise a convex function.

    Parameters
    ----------
    derivatives : callable
        Value, gradient (shaped like `start`) and square Hessian at a point.
    start : ndarray
        Where to begin.
    enough : callable
        Whether a point is good enough.
    max_iter : int, default=100
        Most steps.
    moments : ndarray or float, default=1.0
        Second moments of the features, which scale what is added to the Hessian's diagonal.

    Examples
    --------
    >>> def quartic(t):
    ...     return float(t[0] ** 4 - t[0]), 4 * t**3 - 1, np.array([[12 * t[0] ** 2]])
    >>> at = damped_newton(quartic, np.ones(1), enough=lambda at: at.decrement < 1e-12)
    >>> bool(np.isclose(at.theta[0], 0.25 ** (1 / 3)))
    True
    """
    return run(newton_search(start, enough=enough, max_iter=max_iter, moments=moments), derivatives)


def newton_search(
    start: FloatArray,
    *,
    enough: Callable[[NewtonMinimum], bool],
    max_iter: int = 100,
    moments: FloatArray | float = 1.0,
) -> Generator[FloatArray, Answer, NewtonMinimum]:
    """`damped_newton` as a search: it yields points and is sent value, gradient and Hessian there."""
    theta = start
    objective, gradient, hessian = yield theta
    damping, n_iter = 0.0, 0
    moments = np.broadcast_to(moments, start.shape)
    while True:
        step = Factored(hessian.copy(), max(damping, ROUNDING) * moments).solve(-gradient)
        slope = float(np.vdot(gradient, step))
        here = NewtonMinimum(theta, objective, gradient, step, -slope / 2.0, n_iter)
        here.converged = damping <= NEGLIGIBLE and enough(here)
        if here.converged or n_iter == max_iter or damping > LARGEST_DAMPING:
            return here
        n_iter += 1
        t = 1.0
        while t > SHORTEST:
            value, *at = yield theta + t * step
            # Rounding of the objective is forgiven: at the optimum no step decreases it measurably.
            if value <= objective + ARMIJO * t * slope + _EPSILON * abs(objective):
                break
            t /= 2.0
        else:
            damping = more_damping(damping)
            continue
        damping = less_damping(damping)
        theta, objective, (gradient, hessian) = theta + t * step, value, at
