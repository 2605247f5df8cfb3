"""What every solver returns, and the stopping rule they share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.softmax.certificate import duality_gap, prox_residual
from calibrant.softmax.penalties import Penalty
from calibrant.softmax.problem import Point, SoftmaxProblem
from calibrant.typing import FloatArray


@dataclass
class Solution:
    """Coefficients with the proof of how good they are.

    Attributes
    ----------
    theta : coefficients, shaped like ``problem.shape``.
    objective : mean loss plus penalty.
    gap : duality gap, an upper bound of the suboptimality; NaN where no feasible dual point is known.
    residual : what the stopping rule looked at where there is no gap: the Newton decrement for smooth problems,
        the prox-gradient residual otherwise; NaN where there is a gap.
    n_iter : iterations.
    converged : whether `gap` or `residual` met the tolerance.
    """

    theta: FloatArray
    objective: float
    gap: float
    residual: float
    n_iter: int
    converged: bool

    @property
    def error(self) -> float:
        """The gap, or the residual where there is none."""
        return self.residual if np.isnan(self.gap) else self.gap


@dataclass
class State:
    """The problem at one point, with gradient of the loss and objective."""

    point: Point
    u: FloatArray
    objective: float


def evaluate(problem: SoftmaxProblem, penalty: Penalty, theta: FloatArray, *, dense: bool = False) -> State:
    """Point, loss gradient and objective at `theta`; `dense` as in `SoftmaxProblem.at`."""
    point = problem.at(theta, dense=dense)
    return State(point, point.gradient(), point.loss + penalty.value(theta))


def judge(penalty: Penalty, theta: FloatArray, state: State, n_iter: int, tol: float) -> Solution:
    """The solution at `theta` with its gap, or its residual where there is none.

    `tol` bounds the gap relative to ``max(1, objective)``, or the residual as it is; an objective below it needs no
    other proof, since neither loss nor penalty can be negative.
    """
    gap = duality_gap(state.point, penalty, theta, state.u, state.objective)
    if not np.isnan(gap):
        return Solution(theta, state.objective, gap, np.nan, n_iter, gap <= tol * max(1.0, state.objective))
    residual = prox_residual(penalty, theta, state.u)
    return Solution(theta, state.objective, gap, residual, n_iter, min(residual, state.objective) <= tol)


def certify(problem: SoftmaxProblem, penalty: Penalty, theta: FloatArray, n_iter: int, tol: float) -> Solution:
    """Evaluate the problem at `theta` and judge it."""
    return judge(penalty, theta, evaluate(problem, penalty, theta), n_iter, tol)
