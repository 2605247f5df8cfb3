"""Structured vector and matrix scaling (SVS, SMS): softmax regression on temperature-scaled log-probabilities.

``g(x̃) = S((I + diag(v) + offdiag(M)) x̃ + b)`` minimises the mean log loss plus
``λ_b k^ρ/n^τ Ω(b) + λ_v k^ρ/n^τ Ω(v) + λ_M (k(k−1))^ρ/n^τ Ω(M)``, so that the matrix shrinks towards the vector model,
and that towards temperature scaling; SVS has no M. Without preprocessing and with suitable λ the same two models are
vector scaling, matrix scaling and Dirichlet calibration.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from calibrant.calibrators.scaling.penalised import NOT_NEGATIVE, StructuredCalibrator
from calibrant.calibrators.scaling.temperature import InputSmoothing
from calibrant.rowwise import row_products
from calibrant.simplex import softmax_inplace
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.solvers.solution import Solution
from calibrant.typing import FloatArray, IntArray


class SVSCalibrator(StructuredCalibrator):
    """Structured vector scaling: a slope and an intercept for each class, shrunk towards temperature scaling.

    Parameters
    ----------
    penalty : {"ridge", "lasso", "group_lasso", "mcp"} or None, default="ridge"
        Penalty on intercepts and on the deviations of the slopes from one.
    rho, tau : float, default=1.0
        Exponents of the size of a parameter group and of the number of rows in its strength, ``λ size^ρ / n^τ``.
    lambda_intercept, lambda_diagonal : float, default=1.0
        Strengths λ of the two groups.
    preprocess : {"ts"} or None, default="ts"
        Temperature scaling with smoothing before the fit, which makes the strengths mean the same for timid and for
        over-confident models. `None` with ``penalty=None`` is vector scaling.
    input_smoothing : float in [0, 1), "auto" or None, default=None
        Weight of the uniform distribution mixed into the input; see `TemperatureScalingCalibrator`.
    random_state : int, RandomState instance or None, default=None
        Seed of SAGA. `None` is a fixed seed too: the same data give the same result.

    Attributes
    ----------
    inverse_temperature_ : float
        Of the preprocessing; 1 without.
    coef_ : ndarray of shape (k,)
        Slopes, which multiply the temperature-scaled log-probabilities.
    intercept_ : ndarray of shape (k,)
    objective_, duality_gap_ : float
        Mean loss plus penalty, and an upper bound of how far it is above the optimum (NaN where there is no dual).
    residual_ : float
        Newton decrement or prox-gradient residual where there is no gap.
    n_iter_ : int

    References
    ----------
    Berta, Holzmüller, Jordan, Bach: "Structured matrix scaling for multi-class calibration", AISTATS 2026.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import SVSCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(3), size=300)
    >>> y = [rng.choice(["a", "b", "c"], p=row) for row in p]
    >>> svs = SVSCalibrator().fit(p, y)
    >>> svs.coef_.shape, bool(svs.duality_gap_ < 1e-8)
    ((3,), True)
    """

    _coef_dimensions: ClassVar[int] = 1

    def __init__(
        self,
        penalty: str | None = "ridge",
        rho: float = 1.0,
        tau: float = 1.0,
        lambda_intercept: float = 1.0,
        lambda_diagonal: float = 1.0,
        mcp_gamma: float = 3.0,
        preprocess: str | None = "ts",
        input_smoothing: InputSmoothing = None,
        opt: str = "auto",
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: Any = None,
        *,
        input: str = "probabilities",
        classes: Any = None,
        renormalize: bool = False,
    ) -> None:
        self.penalty = penalty
        self.rho = rho
        self.tau = tau
        self.lambda_intercept = lambda_intercept
        self.lambda_diagonal = lambda_diagonal
        self.mcp_gamma = mcp_gamma
        self.preprocess = preprocess
        self.input_smoothing = input_smoothing
        self.opt = opt
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        super().__init__(input=input, classes=classes, renormalize=renormalize)

    def _problem(
        self, x: FloatArray, y: IntArray, weight: FloatArray | None, n: float
    ) -> tuple[SoftmaxProblem, FloatArray, Any]:
        k = x.shape[1]
        logits = np.ascontiguousarray(x.T)
        problem = SoftmaxProblem(y, logits, shared=np.ones((1, len(x))), own=logits[None], weight=weight)
        strength = np.empty((k, 2))
        strength[:, 0] = self._strength(self.lambda_intercept, k, n)
        strength[:, 1] = self._strength(self.lambda_diagonal, k, n)
        return problem, strength, np.tile([0, 1], (k, 1))

    def _diagonal(self, theta: FloatArray) -> FloatArray:
        return theta[:, 1]

    def _store(self, solution: Solution, unpenalised: Any, k: int) -> None:
        self.intercept_ = solution.theta[:, 0].copy()
        if unpenalised[0]:  # a constant added to all intercepts changes nothing
            self.intercept_ -= self.intercept_.mean()
        self.coef_ = 1.0 + solution.theta[:, 1]

    def _map(self, x: FloatArray) -> FloatArray:
        return softmax_inplace(self._preprocessed(x) * self.coef_ + self.intercept_)


class SMSCalibrator(StructuredCalibrator):
    """Structured matrix scaling: a full weight matrix whose parts shrink towards vector and temperature scaling.

    Parameters
    ----------
    penalty : {"ridge", "lasso", "group_lasso", "mcp"} or None, default="ridge"
        Penalty on intercepts, on the deviations of the diagonal from one, and on the off-diagonal weights.
    rho, tau : float, default=1.0
        Exponents of the size of a parameter group and of the number of rows in its strength, ``λ size^ρ / n^τ``.
    lambda_intercept, lambda_diagonal, lambda_off_diagonal : float, default=1.0
        Strengths λ of the three groups.
    preprocess : {"ts"} or None, default="ts"
        Temperature scaling with smoothing before the fit. `None` with ``penalty=None`` is matrix scaling; `None` with
        ``lambda_diagonal=0`` is Dirichlet calibration.
    input_smoothing : float in [0, 1), "auto" or None, default=None
        Weight of the uniform distribution mixed into the input; see `TemperatureScalingCalibrator`.
    random_state : int, RandomState instance or None, default=None
        Seed of SAGA. `None` is a fixed seed too: the same data give the same result.

    Attributes
    ----------
    inverse_temperature_ : float
        Of the preprocessing; 1 without.
    coef_ : ndarray of shape (k, k)
        The matrix that multiplies the temperature-scaled log-probabilities.
    intercept_ : ndarray of shape (k,)
    objective_, duality_gap_ : float
        Mean loss plus penalty, and an upper bound of how far it is above the optimum (NaN where there is no dual).
    residual_ : float
        Newton decrement or prox-gradient residual where there is no gap.
    n_iter_ : int

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StructuredCalibrator._parameter_constraints,
        "lambda_off_diagonal": NOT_NEGATIVE,
    }

    _coef_dimensions: ClassVar[int] = 2

    def __init__(
        self,
        penalty: str | None = "ridge",
        rho: float = 1.0,
        tau: float = 1.0,
        lambda_intercept: float = 1.0,
        lambda_diagonal: float = 1.0,
        lambda_off_diagonal: float = 1.0,
        mcp_gamma: float = 3.0,
        preprocess: str | None = "ts",
        input_smoothing: InputSmoothing = None,
        opt: str = "auto",
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: Any = None,
        *,
        input: str = "probabilities",
        classes: Any = None,
        renormalize: bool = False,
    ) -> None:
        self.penalty = penalty
        self.rho = rho
        self.tau = tau
        self.lambda_intercept = lambda_intercept
        self.lambda_diagonal = lambda_diagonal
        self.lambda_off_diagonal = lambda_off_diagonal
        self.mcp_gamma = mcp_gamma
        self.preprocess = preprocess
        self.input_smoothing = input_smoothing
        self.opt = opt
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        super().__init__(input=input, classes=classes, renormalize=renormalize)

    def _problem(
        self, x: FloatArray, y: IntArray, weight: FloatArray | None, n: float
    ) -> tuple[SoftmaxProblem, FloatArray, Any]:
        k = x.shape[1]
        shared = np.empty((k + 1, len(x)))
        shared[:k] = x.T
        shared[k] = 1.0
        problem = SoftmaxProblem(y, shared[:k], shared=shared, weight=weight)
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
        return problem, strengths[groups], groups

    def _diagonal(self, theta: FloatArray) -> FloatArray:
        return np.einsum("jj->j", theta[:, :-1])

    def _store(self, solution: Solution, unpenalised: Any, k: int) -> None:
        weights = solution.theta.copy()
        weights[:, :k] += np.eye(k)
        # A constant added to a column of the matrix, or to all intercepts, changes nothing.
        weights[:, unpenalised] -= weights[:, unpenalised].mean(axis=0)
        self.coef_ = np.ascontiguousarray(weights[:, :k])
        self.intercept_ = weights[:, k].copy()

    def _map(self, x: FloatArray) -> FloatArray:
        z = row_products(self._preprocessed(x), self.coef_.T)
        z += self.intercept_
        return softmax_inplace(z)
