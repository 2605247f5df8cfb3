"""What a solver is: an algorithm that says what it needs of a penalty and of a problem."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from calibrant.softmax.penalties import Penalty
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.solvers.solution import Solution
from calibrant.typing import FloatArray


class Solver(ABC):
    """An algorithm for the penalised softmax problem.

    Attributes
    ----------
    name : what `solver` calls it.
    tol, max_iter : what `None` means for it, the first unless `default_tol` knows better.
    needs_smooth : whether it asks a penalty for its gradient and curvature, not only for its prox.
    draws_rows : whether it takes a random state.
    needs_arrays : whether it visits single rows, so that they have to be in memory (`ArrayProblem`).
    """

    name: ClassVar[str]
    tol: ClassVar[float] = 1e-8
    max_iter: ClassVar[int] = 100
    needs_smooth: ClassVar[bool] = False
    draws_rows: ClassVar[bool] = False
    needs_arrays: ClassVar[bool] = False

    @abstractmethod
    def minimise(
        self, problem: Any, penalty: Any, *, tol: float, max_iter: int, theta: FloatArray | None = None
    ) -> Solution:
        """Minimise the mean log loss plus the penalty, starting at `theta` (default: zero)."""

    def default_tol(self, problem: SoftmaxProblem, penalty: Penalty) -> float:
        """What `tol=None` means for this problem and penalty."""
        return self.tol
