"""What the penalised softmax calibrators share: penalties by name, solver options, and the fit itself."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any

from calibrant.calibrators.probability_intervals import MOST_COEFFICIENTS
from calibrant.inputs.words import CalibrationWarning
from calibrant.sample import Sample
from calibrant.sklearn_private import Constraints, Interval, StrOptions
from calibrant.softmax.delta_method import coefficient_covariance
from calibrant.softmax.penalties import MCP, GroupLasso, Lasso, NoPenalty, Penalty, Ridge
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.solvers import OPTIONS, solve
from calibrant.typing import FloatArray

PENALTIES = {"ridge", "lasso", "group_lasso", "mcp"}
NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]
FINITE = [Interval(Real, None, None, closed="neither")]
MCP_GAMMA = [Interval(Real, 1, None, closed="neither")]
SOLVER_CONSTRAINTS: Constraints = {
    "solver": [StrOptions(OPTIONS)],
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
    """Warn that an unpenalised fit has no finite optimum; the returned one is where the loss is zero to rounding."""
    if loss < 1e-6 and not penalty.certifies:
        warnings.warn(
            "The calibration rows are perfectly separable: without a penalty there is no finite optimum, and the "
            "calibrated probabilities are as extreme as the tolerance allows. Use a penalty or more data.",
            CalibrationWarning,
            stacklevel=2,
        )


def fit_coefficients(
    calibrator: Any, problem: SoftmaxProblem, penalty: Penalty, theta: FloatArray | None = None
) -> FloatArray:
    """Solve with a calibrator's options, starting at `theta`; sets its certificate and returns the coefficients."""
    solution = solve(
        problem,
        penalty,
        solver=calibrator.solver,
        tol=calibrator.tol,
        max_iter=calibrator.max_iter,
        random_state=calibrator.random_state,
        theta=theta,
    )
    warn_if_separable(solution.objective, penalty)
    calibrator.n_iter_ = solution.n_iter
    calibrator.objective_ = solution.objective
    calibrator.duality_gap_ = solution.gap
    calibrator.residual_ = solution.residual
    return solution.theta


def delta_covariance(
    problem: ArrayProblem, theta: FloatArray, penalty: Penalty, sample: Sample, unshrunk: FloatArray | None = None
) -> FloatArray | None:
    """Covariance of the coefficients; `None` if there are too many, or the penalty sets some of them to zero."""
    if not isinstance(penalty, Ridge) or theta.size > MOST_COEFFICIENTS:
        return None
    return coefficient_covariance(problem, theta, penalty.curvature, sample, unshrunk)
