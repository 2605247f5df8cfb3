"""Structured quadratic scaling (SQS): matrix scaling with a quadratic and two further curves of each class's own score.

The Gaussian model of logits makes the exact calibration map quadratic; a full quadratic form has k³ coefficients. SQS
keeps, of the quadratic part, what a class's own score bends, adds ``log(1 − q)`` and ``q`` (which make it a superset
of beta calibration for two classes) and, on request, a smooth remainder in kernel features; ridge strengths shrink each
part towards the simpler model below it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from sklearn.utils import check_random_state

from calibrant.calibrators.auto.additive import FACTORS, STRONGEST, AdditiveCalibrator, KernelFeatures, fit_path
from calibrant.calibrators.auto.members import CrossFit
from calibrant.calibrators.parameters import AnySeed, AtLeastTwo, InputSmoothing, NotNegativeInt, Positive
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.softmax.penalties import Ridge
from calibrant.softmax.rows.row_source import ArrayRows
from calibrant.softmax.solvers import solve
from calibrant.steps import Softmax, Step
from calibrant.typing import FloatArray

_FACTORS = (STRONGEST, *FACTORS)


class SQSCalibrator(AdditiveCalibrator, kw_only=False):
    """Structured quadratic scaling: SMS with curves of each class's own probability.

    ``S(x̃ + W x̃ + b + Σ_m u_m ∘ g_m(x̃) + A φ(x̃))`` on temperature-scaled log-probabilities ``x̃ = log q``, with
    ``g = (x̃²/5, log(1 − q), q)`` and Nyström kernel features ``φ`` (none by default).

    Parameters
    ----------
    strength : float or "auto", default="auto"
        Factor on all ridge strengths. ``"auto"`` averages the fits for 100, 10, 1 and 0.1 by their cross-validated
        likelihood.
    lambda_intercept, lambda_diagonal, lambda_off_diagonal, lambda_curves : float, default=1.0
        Strengths of the groups: times ``k/n``, for the off-diagonal part ``k(k − 1)/n``, as in SMS.
    n_landmarks : int, default=0
        Landmarks of the kernel features; 30 to 60 are useful with fewer than about 20 classes.
    lambda_kernel : float, default=3.0
        Strength of the kernel features, times ``1/n``.
    input_smoothing : float in [0, 1), "auto", "laplace" or None, default="auto"
        Weight of the uniform distribution mixed into the input; see `TemperatureScalingCalibrator`.
    n_folds : int, default=5
        Folds of the cross-validation.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds and landmarks; `None` is a fixed seed.

    Attributes
    ----------
    coef_ : ndarray of shape (k, k + 1 + n_kernel + 3)
        Coefficients of log-probabilities (deviations from the identity), one, kernel features and curves.
    strength_ : float
        The factor, or the geometric mean of the averaged ones.
    scores_ : dict
        Cross-validated log loss at each factor; empty for a given one.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import SQSCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(3), size=300)
    >>> y = [rng.choice(["a", "b", "c"], p=row) for row in p]
    >>> sqs = SQSCalibrator().fit(p, y)
    >>> sqs.coef_.shape
    (3, 7)
    """

    strength: Positive | Literal["auto"] = "auto"
    lambda_intercept: Positive = 1.0
    lambda_diagonal: Positive = 1.0
    lambda_off_diagonal: Positive = 1.0
    lambda_curves: Positive = 1.0
    n_landmarks: NotNegativeInt = 0
    lambda_kernel: Positive = 3.0
    input_smoothing: InputSmoothing = "auto"
    n_folds: AtLeastTwo = 5
    random_state: AnySeed = None

    def _fit(self, sample: Sample) -> None:
        rng = check_random_state(0 if self.random_state is None else self.random_state)
        self._learn_scaling(ArrayRows(sample), self.input_smoothing)
        scaled = self._scaled(sample)
        kernel = KernelFeatures.choose(scaled.x.T, min(self.n_landmarks, sample.n_rows), rng)
        self._store_kernel(kernel)
        fit = CrossFit(scaled, sample.folds(self.n_folds, int(rng.randint(2**31 - 1))), kernel)
        problem = fit.problem(fit.shared, fit.curves, np.arange(sample.n_rows))
        # Without a few observations a fold there is nothing to compare: the paper's strengths.
        if self.strength == "auto" and sample.units >= 3 * self.n_folds and fit.n_folds > 1:
            path = [self._strengths(factor, fit) for factor in _FACTORS]
            fitted = fit.path(fit.shared, fit.curves, path, _FACTORS)
            self.scores_ = {f"{factor:g}": float(loss) for factor, loss in zip(_FACTORS, fitted.losses, strict=True)}
            self.strength_ = fitted.strength
            thetas = np.stack(fit_path(problem, path, tol=1e-8))
            self.coef_ = np.tensordot(fitted.weights, thetas, axes=1)
        else:
            self.scores_ = {}
            self.strength_ = 1.0 if self.strength == "auto" else float(self.strength)
            self.coef_ = solve(problem, Ridge(self._strengths(self.strength_, fit) / sample.total)).theta

    def _strengths(self, factor: float, fit: CrossFit) -> FloatArray:
        lambdas = (self.lambda_intercept, self.lambda_diagonal, self.lambda_off_diagonal, self.lambda_curves)
        return fit.layout.strengths(factor, factor * self.lambda_kernel, lambdas)

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.information("scores_", "strength_")

    def steps(self) -> list[Step]:
        return [*self._scaling(), *self._additive_steps(), Softmax()]
