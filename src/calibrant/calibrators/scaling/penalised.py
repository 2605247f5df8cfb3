"""What penalised softmax calibrators share: penalties by name, solver options, preprocessing and strengths.

The strength of a parameter group is ``λ size^ρ / n^τ``, so that one set of λ serves all numbers of classes and rows.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from calibrant.calibrators.base import Calibrator, total_weight
from calibrant.calibrators.scaling.temperature import (
    INPUT_SMOOTHING_CONSTRAINT,
    WEAK_PRIOR,
    InputSmoothing,
    check_temperature,
    learn_temperature,
    mix_log_probabilities,
    temperature_scaled,
)
from calibrant.calibrators.state import StateCheck
from calibrant.inputs.labels import CalibrationWarning
from calibrant.simplex import laplace_weight, log_probabilities
from calibrant.softmax.penalties import MCP, GroupLasso, Lasso, NoPenalty, Penalty, Ridge
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.solvers import OPTIONS, solve
from calibrant.softmax.solvers.solution import Solution
from calibrant.typing import FloatArray, IntArray

PENALTIES = {"ridge", "lasso", "group_lasso", "mcp"}
NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]
FINITE = [Interval(Real, None, None, closed="neither")]
MCP_GAMMA = [Interval(Real, 1, None, closed="neither")]
SOLVER_CONSTRAINTS: dict[str, list[Any]] = {
    "opt": [StrOptions(OPTIONS)],
    "max_iter": [Interval(Integral, 1, None, closed="left"), None],
    "tol": [Interval(Real, 0, None, closed="neither"), None],
    "random_state": ["random_state"],
}


def make_penalty(name: str | None, strength: FloatArray, groups: Any = None, mcp_gamma: float = 3.0) -> Penalty:
    """The penalty called `name` with a strength for every coefficient."""
    if name is None:
        return NoPenalty(strength.shape)
    if name == "ridge":
        return Ridge(strength)
    if name == "lasso":
        return Lasso(strength)
    if name == "group_lasso":
        return GroupLasso(strength, groups)
    return MCP(strength, mcp_gamma)


def warn_if_separable(loss: float, penalty: Penalty) -> None:
    """Say that an unpenalised fit has no finite optimum; the returned one is where the loss is zero to rounding."""
    if loss < 1e-6 and not penalty.certifies:
        warnings.warn(
            "The calibration rows are perfectly separable: without a penalty there is no finite optimum, and the "
            "calibrated probabilities are as extreme as the tolerance allows. Use a penalty or more data.",
            CalibrationWarning,
            stacklevel=2,
        )


class StructuredCalibrator(Calibrator):
    """What SVS and SMS share: preprocessing, penalty strengths, solver and the map."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Calibrator._parameter_constraints,
        **SOLVER_CONSTRAINTS,
        "penalty": [StrOptions(PENALTIES), None],
        "rho": FINITE,
        "tau": FINITE,
        "lambda_intercept": NOT_NEGATIVE,
        "lambda_diagonal": NOT_NEGATIVE,
        "mcp_gamma": MCP_GAMMA,
        "preprocess": [StrOptions({"ts"}), None],
        "input_smoothing": INPUT_SMOOTHING_CONSTRAINT,
    }

    #: One slope for each class, or one for each pair.
    _coef_dimensions: ClassVar[int]
    penalty: str | None
    rho: float
    tau: float
    lambda_intercept: float
    lambda_diagonal: float
    mcp_gamma: float
    preprocess: str | None
    input_smoothing: InputSmoothing
    opt: str
    max_iter: int | None
    tol: float | None
    random_state: Any

    def _fit(self, x: FloatArray, y: IntArray, weight: FloatArray | None) -> None:
        n, k = total_weight(len(x), weight), x.shape[1]
        # Without preprocessing only the mixture of the input is learned with the temperature, if asked for.
        if self.preprocess == "ts" or self.input_smoothing == "auto":
            alpha, self.input_smoothing_, _ = learn_temperature(x, y, weight, self.input_smoothing)
        else:
            alpha, self.input_smoothing_ = 1.0, float(self.input_smoothing or 0.0)
        self.inverse_temperature_ = alpha if self.preprocess == "ts" else 1.0
        self._output_smoothing = laplace_weight(n)
        x = self._preprocessed(x)
        problem, strength, groups = self._problem(x, y, weight, n)
        penalty = make_penalty(self.penalty, strength, groups, self.mcp_gamma)
        solution = solve(
            problem,
            penalty,
            opt=self.opt,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state,
            theta=self._start(x, y, weight, problem.shape),
        )
        warn_if_separable(solution.objective, penalty)
        self._store(solution, np.all(penalty.strength == 0.0, axis=0), k)
        self.n_iter_ = solution.n_iter
        self.objective_ = solution.objective
        self.duality_gap_ = solution.gap
        self.residual_ = solution.residual

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        check_temperature(state)
        state.array("coef_", *(state.k,) * self._coef_dimensions)
        state.array("intercept_", state.k)
        state.information("n_iter_", "objective_", "duality_gap_", "residual_")

    def _preprocessed(self, x: FloatArray) -> FloatArray:
        """Log-probabilities after temperature scaling with smoothing, or the mixed input as it is."""
        if self.preprocess is None:
            return mix_log_probabilities(x, self.input_smoothing_)
        q = temperature_scaled(x, self.inverse_temperature_, self.input_smoothing_, self._output_smoothing)
        return log_probabilities(q, out=q)

    def _start(
        self, x: FloatArray, y: IntArray, weight: FloatArray | None, shape: tuple[int, int]
    ) -> FloatArray | None:
        """Where the solver starts: at temperature scaling, also where that is not part of the preprocessing.

        Raw predictions may be so sure of themselves that the loss has no curvature there, and so would be the optimal
        temperature of rows without a single error: the prior keeps it near one.
        """
        if self.preprocess == "ts":
            return None
        start = np.zeros(shape)
        self._diagonal(start)[:] = learn_temperature(x, y, weight, None, WEAK_PRIOR)[0] - 1.0
        return start

    def _strength(self, lam: float, size: float, n: float) -> float:
        return 0.0 if self.penalty is None else lam * float(size) ** self.rho / n**self.tau

    @abstractmethod
    def _problem(
        self, x: FloatArray, y: IntArray, weight: FloatArray | None, n: float
    ) -> tuple[SoftmaxProblem, FloatArray, Any]:
        """The softmax problem, the strength of every coefficient, and the group each belongs to."""

    @abstractmethod
    def _diagonal(self, theta: FloatArray) -> FloatArray:
        """A view of the coefficients of each class's own log-probability."""

    @abstractmethod
    def _store(self, solution: Solution, unpenalised: Any, k: int) -> None:
        """Set `coef_` and `intercept_` from a solution; of equally good ones the one of least norm."""
