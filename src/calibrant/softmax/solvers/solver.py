"""What a solver is, and what it returns: coefficients with the proof of how good they are.

The proof is a duality gap from a feasible dual point, or a residual where there is no dual. At coefficients θ with loss
gradient ``u`` the dual variables of row i are ``p_i − onehot(y_i)``. For ridge they are feasible as they are, and
primal − dual collapses to ``Σ (u + 2sθ)² / 4s``. For lasso and group lasso they are first scaled by the factor ``c``
that makes ``c·u`` feasible; the dual value is then the mean over rows of ``H(q_i) + (q_i − onehot(y_i)) · x_i`` with
``q_i = onehot(y_i) + c (p_i − onehot(y_i))``, entropy ``H``, offset ``x``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calibrant.softmax.penalties import GroupLasso, Lasso, Penalty, Ridge
from calibrant.softmax.problem import Point, SoftmaxProblem
from calibrant.typing import FloatArray


def duality_gap(point: Point, penalty: Penalty, theta: FloatArray, u: FloatArray, objective: float) -> float:
    """An upper bound of the suboptimality of `theta`, or NaN where no feasible dual point is known.

    `u` is the gradient of the loss at the `point`, and `objective` loss plus penalty.
    """
    if not penalty.certifies:
        return float("nan")
    if isinstance(penalty, Ridge):
        return penalty.conjugate(u + penalty.gradient(theta))
    if isinstance(penalty, (Lasso, GroupLasso)):
        return max(0.0, objective - point.dual_value(penalty.dual_scale(u)))
    return float("nan")


def prox_residual(penalty: Penalty, theta: FloatArray, u: FloatArray) -> float:
    """Largest entry of ``θ − prox(θ − u)``: zero at a stationary point, convex or not."""
    return float(np.max(np.abs(theta - penalty.prox(theta - u, 1.0)), initial=0.0))


@dataclass
class Solution:
    """Coefficients with the proof of how good they are."""

    theta: FloatArray
    #: Mean loss plus penalty.
    objective: float
    #: Duality gap, an upper bound of the suboptimality; NaN where no feasible dual point is known.
    gap: float
    #: What the stopping rule looked at where there is no gap, else NaN: the Newton decrement for smooth problems, the
    #: prox-gradient residual otherwise.
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


def evaluate(problem: SoftmaxProblem, penalty: Penalty, theta: FloatArray) -> State:
    """Point, loss gradient and objective at `theta`."""
    point = problem.at(theta)
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
    return judge(penalty, theta, evaluate(problem, penalty, theta), n_iter, tol)


class Solver(ABC):
    """An algorithm for the penalised softmax problem."""

    name: ClassVar[str]
    #: What `None` means, unless `default_tol` knows better.
    tol: ClassVar[float] = 1e-8
    max_iter: ClassVar[int] = 100
    #: Whether it asks a penalty for its gradient and curvature, not only for its prox.
    needs_smooth: ClassVar[bool] = False
    #: Whether it takes a random state.
    draws_rows: ClassVar[bool] = False
    #: Whether it visits single rows, so that they have to be in memory (`ArrayProblem`).
    needs_arrays: ClassVar[bool] = False

    @abstractmethod
    def minimise(
        self, problem: Any, penalty: Any, *, tol: float, max_iter: int, theta: FloatArray | None = None
    ) -> Solution:
        """Minimise the mean log loss plus the penalty, starting at `theta` (default: zero)."""

    def default_tol(self, problem: SoftmaxProblem, penalty: Penalty) -> float:
        """What `tol=None` means for this problem and penalty."""
        return self.tol
