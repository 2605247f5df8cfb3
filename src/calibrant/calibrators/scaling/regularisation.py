"""What the penalised softmax calibrators share: solver options, the fit itself, and penalties by name."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Annotated, Any

from calibrant.calibrators.base import RowsCalibrator
from calibrant.calibrators.parameters import (
    AnySeed,
    InputSmoothing,
    PositiveInt,
    Tolerance,
)
from calibrant.calibrators.probability_intervals import MOST_COEFFICIENTS
from calibrant.calibrators.state import StateCheck
from calibrant.inputs.words import CalibrationWarning
from calibrant.sample import Sample
from calibrant.sklearn_private import Interval, StrOptions
from calibrant.softmax.delta_method import coefficient_covariance
from calibrant.softmax.penalties import MCP, GroupLasso, Lasso, NoPenalty, Penalty, Ridge
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.solvers import OPTIONS, solve
from calibrant.softmax.solvers.solver import Solution
from calibrant.typing import FloatArray

SolverName = Annotated[str, StrOptions(OPTIONS)]
McpGamma = Annotated[float, Interval(Real, 1, None, closed="neither")]


class PenalisedCalibrator(RowsCalibrator):
    """Base of the penalised softmax calibrators: how input is smoothed, and how coefficients are found.

    Parameters
    ----------
    input_smoothing : float in [0, 1), "auto", "laplace" or None
        Weight of the uniform distribution mixed into the input; see `TemperatureScalingCalibrator`.
    random_state : int, RandomState instance or None
        Seed of SAGA. `None` is a fixed seed too: the same data give the same result.

    Attributes
    ----------
    objective_, duality_gap_ : float
        Mean loss plus penalty, and an upper bound of how far it is above the optimum (NaN where there is no dual).
    residual_ : float
        Newton decrement or prox-gradient residual where there is no gap.
    n_iter_ : int
        Number of iterations.
    """

    input_smoothing: InputSmoothing = None
    solver: SolverName = "auto"
    max_iter: PositiveInt | None = None
    tol: Tolerance = None
    random_state: AnySeed = None

    def _solve(self, problem: SoftmaxProblem, penalty: Penalty, theta: FloatArray | None = None) -> FloatArray:
        """Coefficients of the optimum, from `theta`; sets the certificate."""
        solution = solve(
            problem,
            penalty,
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state,
            theta=theta,
        )
        warn_if_separable(solution.objective, penalty)
        take_certificate(self, solution)
        return solution.theta

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.information(*CERTIFICATE)


#: What a fit says of its solution.
CERTIFICATE = ("n_iter_", "objective_", "duality_gap_", "residual_")


def take_certificate(calibrator: object, solution: Solution) -> None:
    """Set the attributes that say how good a solution is."""
    found = (solution.n_iter, solution.objective, solution.gap, solution.residual)
    for name, value in zip(CERTIFICATE, found):
        setattr(calibrator, name, value)


def make_penalty(name: str | None, strength: FloatArray, groups: Any = None, mcp_gamma: float = 3.0) -> Penalty:
    """The penalty called `name` with a strength for every coefficient."""
    if name == "group_lasso":
        return GroupLasso(strength, groups)
    if name == "mcp":
        return MCP(strength, mcp_gamma)
    return NoPenalty(strength.shape) if name is None else {"ridge": Ridge, "lasso": Lasso}[name](strength)


def warn_if_separable(loss: float, penalty: Penalty) -> None:
    """Warn that an unpenalised fit has no finite optimum; the returned one is where the loss is zero to rounding."""
    if loss < 1e-6 and not penalty.certifies:
        warnings.warn(
            "The calibration rows are perfectly separable: without a penalty there is no finite optimum, and the "
            "calibrated probabilities are as extreme as the tolerance allows. Use a penalty or more data.",
            CalibrationWarning,
            stacklevel=2,
        )


def delta_covariance(
    problem: ArrayProblem, theta: FloatArray, penalty: Penalty, sample: Sample, unshrunk: FloatArray | None = None
) -> FloatArray | None:
    """Covariance of the coefficients; `None` if there are too many, or the penalty sets some of them to zero."""
    if not isinstance(penalty, Ridge) or theta.size > MOST_COEFFICIENTS:
        return None
    return coefficient_covariance(problem, theta, penalty.curvature, sample, unshrunk)
