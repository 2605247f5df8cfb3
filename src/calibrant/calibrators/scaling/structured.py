"""Structured vector and matrix scaling (SVS, SMS): softmax regression on temperature-scaled log-probabilities.

``g(x̃) = S((I + diag(v) + offdiag(M)) x̃ + b)`` minimises the mean log loss plus
``λ_b k^ρ/n^τ Ω(b) + λ_v k^ρ/n^τ Ω(v) + λ_M (k(k−1))^ρ/n^τ Ω(M)``, so that the matrix shrinks towards the vector model,
and that towards temperature scaling; SVS has no M. Without preprocessing and with suitable λ the same two models are
vector scaling, matrix scaling and Dirichlet calibration.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from calibrant.calibrators.parameters import AnySeed, Finite, InputSmoothing, NotNegative, PositiveInt, Tolerance
from calibrant.calibrators.probability_intervals import MOST_COEFFICIENTS, LogitModel
from calibrant.calibrators.rows_calibrator import RowsCalibrator
from calibrant.calibrators.scaling.temperature import (
    WEAK_PRIOR,
    ScalesFirst,
    learn_input_weight,
    learn_temperature,
    mixed_logs,
)
from calibrant.calibrators.state import StateCheck
from calibrant.inputs.words import CalibrationWarning
from calibrant.sample import Sample
from calibrant.simplex import laplace_weight
from calibrant.sklearn_private import Interval, StrOptions
from calibrant.softmax.delta_method import coefficient_covariance
from calibrant.softmax.penalties import MCP, GroupLasso, Lasso, NoPenalty, Penalty, Ridge
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.rows.row_source import ArrayRows, Features, Rows, namespace, with_ones
from calibrant.softmax.solvers import OPTIONS, solve
from calibrant.softmax.solvers.solver import Solution
from calibrant.steps import Linear, Scale, Softmax, Step
from calibrant.typing import FloatArray, IntArray

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


class StructuredCalibrator(PenalisedCalibrator, ScalesFirst, kw_only=False):
    """What SVS and SMS share: preprocessing, penalty strengths and the map.

    The strength of a parameter group is ``λ size^ρ / n^τ``, so that one set of λ suits any number of classes and rows.

    Parameters
    ----------
    penalty : {"ridge", "lasso", "group_lasso", "mcp"} or None
        Penalty on the intercepts, on the deviations of slopes, or of the diagonal, from one, and on other weights.
    rho, tau : float
        Exponents of the size of a parameter group and of the number of rows in its strength, ``λ size^ρ / n^τ``.
    lambda_intercept, lambda_diagonal : float
        Strengths λ of intercepts and of the deviations from one.
    lambda_off_diagonal : float
        Strength λ of the off-diagonal weights.
    preprocess : {"ts"} or None
        Temperature scaling with smoothing before the fit, which makes the strengths mean the same for timid and for
        over-confident models. `None` with ``penalty=None`` is vector or matrix scaling; `None` with
        ``lambda_diagonal=0`` is Dirichlet calibration, for a full matrix.

    Attributes
    ----------
    inverse_temperature_ : float
        Of the preprocessing; 1 without.
    intercept_ : ndarray of shape (k,)
        Added to the logits.
    """

    penalty: Literal["ridge", "lasso", "group_lasso", "mcp"] | None = "ridge"
    rho: Finite = 1.0
    tau: Finite = 1.0
    lambda_intercept: NotNegative = 1.0
    lambda_diagonal: NotNegative = 1.0
    lambda_off_diagonal: NotNegative = 1.0
    mcp_gamma: McpGamma = 3.0
    preprocess: Literal["ts"] | None = "ts"

    #: One slope for each class, or one for each pair.
    _coef_dimensions: ClassVar[int]
    #: Which coefficient of a class is its intercept.
    _intercept_column: ClassVar[int]

    def _fit_rows(self, rows: Rows) -> None:
        n, k = rows.total_weight, rows.n_classes
        if self.preprocess == "ts":
            self._learn_scaling(rows, self.input_smoothing)
        else:
            self.inverse_temperature_, self.input_smoothing_ = 1.0, learn_input_weight(rows, self.input_smoothing)
            self._output_smoothing = laplace_weight(n)
        rows = rows.mapped(self._preprocessing())
        problem = rows.problem(self._features)
        penalty = make_penalty(self.penalty, *self._strengths(k, n), self.mcp_gamma)
        start = self._start(rows, problem.shape)
        del rows  # with a thousand classes the memory of this matrix matters
        theta = self._solve(problem, penalty, start)
        # A constant added to all classes' coefficients of a shared feature changes nothing: take those of least norm.
        free = np.flatnonzero(np.all(penalty.strength[:, : problem.n_shared] == 0.0, axis=0))
        if free.size:
            theta = theta.copy()
            theta[:, free] -= theta[:, free].mean(axis=0)
        self._store(theta, free)

    def _coefficient_covariance(self, sample: Sample) -> FloatArray | None:
        k, n = sample.n_classes, sample.total
        problem = ArrayRows(sample).mapped(self._preprocessing()).problem(self._features)
        penalty = make_penalty(self.penalty, *self._strengths(k, n), self.mcp_gamma)
        theta = self._theta()
        slopes = theta.copy()
        slopes[:, self._intercept_column] = 0.0
        self._diagonal(slopes)[:] += 1.0
        # A change of the temperature is one of all slopes in proportion, and no penalty holds it back.
        return delta_covariance(problem, theta, penalty, sample, slopes if self.preprocess == "ts" else None)

    def _logit_model(self) -> LogitModel:
        return LogitModel(len(self._preprocessing()), 0, self._features)

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.array("coef_", *(state.k,) * self._coef_dimensions)
        state.array("intercept_", state.k)

    def _preprocessing(self) -> list[Step]:
        """The steps to log-probabilities after temperature scaling with smoothing, or of the mixed input as it is."""
        return mixed_logs(self.input_smoothing_) if self.preprocess is None else self._scaling()

    def _start(self, rows: Rows, shape: tuple[int, int]) -> FloatArray | None:
        """Where the solver starts: at temperature scaling, also where that is not part of the preprocessing.

        Raw predictions may be so extreme that the loss has no curvature there. So is the optimal temperature of rows
        without a single error, unless a prior keeps it near one.
        """
        if self.preprocess == "ts":
            return None
        start = np.zeros(shape)
        self._diagonal(start)[:] = learn_temperature(rows.sample(), None, WEAK_PRIOR)[0] - 1.0
        return start

    def _strength(self, lam: float, size: float, n: float) -> float:
        if self.penalty is None:
            return 0.0
        try:
            return lam * float(size) ** self.rho / n**self.tau
        except (OverflowError, ZeroDivisionError):
            message = f"Penalty strengths grow as classes**rho / rows**tau; rho={self.rho}, tau={self.tau} overflow."
            raise ValueError(message) from None

    @staticmethod
    @abstractmethod
    def _features(x: FloatArray) -> Features:
        """The features of preprocessed log-probabilities (n, k)."""

    @abstractmethod
    def _strengths(self, k: int, n: float) -> tuple[FloatArray, IntArray]:
        """The strength of every coefficient for `k` classes and `n` observations, and the group each belongs to."""

    @abstractmethod
    def _diagonal(self, theta: FloatArray) -> FloatArray:
        """A view of the coefficients of each class's own log-probability."""

    @abstractmethod
    def _store(self, theta: FloatArray, free: IntArray) -> None:
        """Set `coef_` and `intercept_` from coefficients whose columns `free` are centred."""

    @abstractmethod
    def _theta(self) -> FloatArray:
        """The coefficients that `_store` was given, but for constants that change no probability."""


class SVSCalibrator(StructuredCalibrator, kw_only=False):
    """Structured vector scaling: a slope and an intercept for each class, shrunk towards temperature scaling.

    Attributes
    ----------
    coef_ : ndarray of shape (k,)
        Slopes, which multiply the temperature-scaled log-probabilities.

    References
    ----------
    Berta, Holzmüller, Jordan, Bach: "Structured matrix scaling for multi-class calibration", AISTATS 2026.

    Examples
    --------
    >>> from calibrant import SVSCalibrator
    >>> p = [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6]] * 10
    >>> SVSCalibrator().fit(p, [0, 1, 2] * 10).coef_.round(2)
    array([1.1, 1.1, 1.1])
    """

    lambda_off_diagonal: ClassVar[float]  # type: ignore[misc]
    _coef_dimensions: ClassVar[int] = 1
    _intercept_column: ClassVar[int] = 0

    @staticmethod
    def _features(x: FloatArray) -> Features:
        logits = np.ascontiguousarray(x.T) if isinstance(x, np.ndarray) else x.T
        return Features(logits, shared=namespace(x).ones_like(x[:, :1]).T, own=logits[None])

    def _strengths(self, k: int, n: float) -> tuple[FloatArray, IntArray]:
        strength = np.empty((k, 2))
        strength[:, 0] = self._strength(self.lambda_intercept, k, n)
        strength[:, 1] = self._strength(self.lambda_diagonal, k, n)
        return strength, np.tile([0, 1], (k, 1))

    def _diagonal(self, theta: FloatArray) -> FloatArray:
        return theta[:, 1]

    def _store(self, theta: FloatArray, free: IntArray) -> None:
        self.intercept_ = theta[:, 0].copy()
        self.coef_ = 1.0 + theta[:, 1]

    def _theta(self) -> FloatArray:
        return np.column_stack([self.intercept_, self.coef_ - 1.0])

    def steps(self) -> list[Step]:
        return [*self._preprocessing(), Scale(self.coef_, self.intercept_), Softmax()]


class SMSCalibrator(StructuredCalibrator):
    """Structured matrix scaling: a full weight matrix whose parts shrink towards vector and temperature scaling.

    Attributes
    ----------
    coef_ : ndarray of shape (k, k)
        The matrix that multiplies the temperature-scaled log-probabilities.

    References
    ----------
    Berta, Holzmüller, Jordan, Bach: "Structured matrix scaling for multi-class calibration", AISTATS 2026.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import SMSCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(3), size=300)
    >>> y = [rng.choice(["a", "b", "c"], p=row) for row in p]
    >>> sms = SMSCalibrator(penalty="lasso").fit(p, y)
    >>> sms.coef_.shape, bool(sms.duality_gap_ < 1e-8)
    ((3, 3), True)
    >>> sms.predict_proba([[0.2, 0.3, 0.5]]).shape
    (1, 3)
    """

    _coef_dimensions: ClassVar[int] = 2
    _intercept_column: ClassVar[int] = -1

    @staticmethod
    def _features(x: FloatArray) -> Features:
        shared = with_ones(x)
        return Features(shared[:-1], shared=shared)

    def _strengths(self, k: int, n: float) -> tuple[FloatArray, IntArray]:
        groups = np.full((k, k + 1), 2)
        groups[:, k] = 0
        np.fill_diagonal(groups, 1)
        strengths = np.array(
            [
                self._strength(self.lambda_intercept, k, n),
                self._strength(self.lambda_diagonal, k, n),
                self._strength(self.lambda_off_diagonal, k * (k - 1), n),
            ]
        )
        return strengths[groups], groups

    def _diagonal(self, theta: FloatArray) -> FloatArray:
        return np.einsum("jj->j", theta[:, :-1])

    def _store(self, theta: FloatArray, free: IntArray) -> None:
        k = len(theta)
        self.coef_ = np.eye(k) + theta[:, :k]
        self.coef_[:, free[free < k]] -= 1.0 / k  # the identity, centred like the rest
        self.intercept_ = theta[:, k].copy()

    def _theta(self) -> FloatArray:
        return np.column_stack([self.coef_ - np.eye(len(self.coef_)), self.intercept_])

    def steps(self) -> list[Step]:
        return [*self._preprocessing(), Linear(self.coef_.T, self.intercept_), Softmax()]
