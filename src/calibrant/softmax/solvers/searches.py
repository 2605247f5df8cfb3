"""Searches that are told derivatives at the points they ask for, and Newton's method for a handful of parameters.

A search is a generator: it yields a point, is sent the derivatives there and returns what it found. Where the rows are
in memory each runs by itself; where passes over them are expensive, one pass answers all searches.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from calibrant.typing import FloatArray

Question = TypeVar("Question")
Reply = TypeVar("Reply")
Found = TypeVar("Found")


def run(search: Generator[Question, Reply, Found], answer: Callable[[Question], Reply]) -> Found:
    """What a search finds by itself; `answer` gets one question at a time."""
    return run_together([search], lambda questions: {i: answer(question) for i, question in questions.items()})[0]


def run_together(
    searches: Sequence[Generator[Question, Reply, Found]],
    answer: Callable[[Mapping[int, Question]], Mapping[int, Reply]],
) -> list[Found]:
    """What each search finds; `answer` gets the questions of all that are not done yet, by their number."""
    found: dict[int, Found] = {}
    questions: dict[int, Question] = {}

    def advance(number: int, reply: Reply | None) -> None:
        try:
            # A generator is started by sending it None.
            questions[number] = searches[number].send(reply)  # type: ignore[arg-type]
        except StopIteration as end:
            found[number] = end.value
            questions.pop(number, None)

    for number in range(len(searches)):
        advance(number, None)
    while questions:
        for number, reply in answer(dict(questions)).items():
            advance(number, reply)
    return [found[number] for number in range(len(searches))]


def cholesky(matrix: FloatArray, *, jitter: float) -> FloatArray:
    """The lower factor of a symmetric matrix; while it has none, its diagonal grows in place, by `jitter` at first."""
    while True:
        factor, failed = dpotrf(matrix, lower=True, clean=False)
        if not failed:
            return np.asarray(factor)
        if not np.isfinite(matrix).all():
            raise np.linalg.LinAlgError("The Hessian is not finite.")
        matrix.flat[:: len(matrix) + 1] += jitter
        jitter *= 100.0


class Factored:
    """The exact Hessian, factored: O(n D² + D³) for D parameters, for small problems."""

    #: More conjugate gradient steps than this mean that the point has moved too far from where this was made.
    patience = 4

    def __init__(self, hessian: FloatArray, curvature: FloatArray) -> None:
        diagonal = np.einsum("ii->i", hessian)
        diagonal += curvature.ravel()
        # Features of very different size (x² beside 1) are brought to one scale, so that one jitter suits all.
        self._scale = 1.0 / np.sqrt(np.maximum(diagonal, np.finfo(np.float64).tiny))
        hessian *= self._scale
        hessian *= self._scale[:, None]
        # Directions without curvature (a constant added to all classes) make the matrix singular.
        diagonal += 1e-14
        self._factor = cholesky(hessian, jitter=1e-12)

    def solve(self, residual: FloatArray) -> FloatArray:
        solved, _ = dpotrs(self._factor, self._scale * residual.ravel(), lower=True)
        return (self._scale * solved).reshape(residual.shape)


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
    """Where the iteration ended: the point, its objective and gradient, and the step that was not taken any more."""

    theta: FloatArray
    objective: float
    gradient: FloatArray
    step: FloatArray
    #: What that step would gain on the quadratic model, half the squared Newton decrement.
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
    """Minimise a convex function from `start` until a point is good `enough`.

    `derivatives` gives value, gradient (shaped like `start`) and square Hessian at a point; `moments`, the second
    moments of the features, scale what is added to the Hessian's diagonal.
    """
    return run(newton_search(start, enough=enough, max_iter=max_iter, moments=moments), derivatives)


def newton_search(
    start: FloatArray,
    *,
    enough: Callable[[NewtonMinimum], bool],
    moments: FloatArray | float,
    max_iter: int = 100,
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
