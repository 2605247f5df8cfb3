"""The additive model: matrix scaling plus curves of each class's own probability plus kernel features, by ridge.

On temperature-scaled log-probabilities ``x̃ = log q`` the logits are ``x̃ + W x̃ + b + Σ_m u_m ∘ g_m(x̃) + A φ(x̃)``, where
``g = (x̃²/5, log(1 − q), q)`` bends each class's own score, and ``φ`` are Nyström features of a Gaussian kernel on
centred logits and probabilities; for hundreds of classes, without ``W``, the directions in which ``x̃`` varies most.
Every coefficient has a ridge strength, so that each layer shrinks towards the simpler one below it: kernel → curves →
matrix → vector → temperature scaling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.calibrators.scaling.temperature import ScalesFirst
from calibrant.calibrators.state import LARGE, StateCheck
from calibrant.sample import Sample
from calibrant.softmax.penalties import Ridge
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.solvers.newton import Newton
from calibrant.steps import Curves, Kernel, Linear, Scale, Step, Steps, Sum, run, run_from_logs
from calibrant.steps.features import own_curves
from calibrant.typing import FloatArray

#: Number of own-class curves.
N_CURVES = 3
#: Factors on the ridge strengths that are tried, strongest first: each fit starts from the one before.
FACTORS = (10.0, 1.0, 0.1)
#: A further factor, so strong that little more than the temperature is left, where nothing else guards few rows.
STRONGEST = 100.0
#: Relative strengths of intercepts, diagonal, off-diagonal part and curves.
Lambdas = tuple[float, float, float, float]
EVEN: Lambdas = (1.0, 1.0, 1.0, 1.0)
#: How much a difference of probabilities counts beside one of centred logits in the kernel's distance.
_PROBABILITY_SCALE = 3.0
#: Rows that inform the kernel's bandwidth.
_BANDWIDTH_ROWS = 2000


def curves(x: FloatArray) -> FloatArray:
    """Own-class features (3, k, n) of log-probabilities `x` (k, n): ``x²/5``, ``log(1 − q)`` and ``q``."""
    return np.stack(own_curves(x))


@dataclass
class KernelFeatures:
    """Nyström features ``φ(x) = K(x, landmarks) K(landmarks, landmarks)^(-1/2)`` of a Gaussian kernel.

    Without landmarks the features are ``φ(x) = x' whitening``: a projection.
    """

    landmarks: FloatArray
    whitening: FloatArray
    spread: float
    bandwidth: float

    @classmethod
    def choose(cls, x: FloatArray, n_landmarks: int, rng: np.random.RandomState) -> KernelFeatures:
        """Landmarks drawn from the rows of `x` (k, n), bandwidth at the median distance."""
        k, n = x.shape
        if n_landmarks == 0:
            return cls(np.empty((0, 2 * k)), np.empty((0, 0)), 1.0, 1.0)
        sample = x[:, rng.permutation(n)[: max(_BANDWIDTH_ROWS, n_landmarks)]]
        centred = sample - sample.mean(axis=0)
        spread = float(np.sqrt((centred**2).sum(axis=0).mean())) + 1e-9
        points = cls(np.empty((0, 2 * k)), np.empty((0, 0)), spread, 1.0).step.points(sample.T)
        landmarks = points[:n_landmarks]
        distances = cls(landmarks, np.empty((0, 0)), spread, 1.0).step.squared_distances(points)
        positive = distances[distances > 1e-9]
        bandwidth = float(np.median(positive)) if positive.size else 1.0
        values, vectors = np.linalg.eigh(np.exp(-distances[: len(landmarks)] / bandwidth))
        keep = values > 1e-6 * values[-1]
        return cls(landmarks, vectors[:, keep] / np.sqrt(values[keep]), spread, bandwidth)

    @classmethod
    def project(cls, x: FloatArray, n_features: int, seed: int) -> KernelFeatures:
        """The directions in which the rows of log-probabilities `x` (k, n) vary most, less their means."""
        from sklearn.utils.extmath import randomized_svd

        k, n = x.shape
        centred = (x - x.mean(axis=0)).astype(np.float32)
        centred -= centred.mean(axis=1, keepdims=True)
        directions, _, _ = randomized_svd(centred, min(n_features, k - 1, n), n_iter=2, random_state=seed)
        return cls(np.empty((0, 2 * k)), directions.astype(np.float64), 1.0, 1.0)

    @property
    def n_features(self) -> int:
        return int(self.whitening.shape[1])

    @property
    def step(self) -> Kernel:
        return Kernel(self.landmarks, self.spread, _PROBABILITY_SCALE, self.bandwidth)

    def __call__(self, x: FloatArray) -> FloatArray:
        """Features (n_features, n) of log-probabilities `x` (k, n)."""
        if not self.n_features:
            return np.empty((0, x.shape[1]))
        return np.ascontiguousarray(run(self.steps(np.eye(self.n_features)), x.T).T)

    def steps(self, coef: FloatArray) -> list[Step]:
        """The steps from log-probabilities to their features times `coef` (k, n_features)."""
        if len(self.landmarks):
            return [self.step, Linear(self.whitening @ coef.T)]
        return [Linear(self.whitening), Linear(coef.T)]


@dataclass(frozen=True)
class FeatureLayout:
    """Where the additive model's coefficients stand: a row for each class, and columns in the order of the features.

    Log-probabilities (k), one, kernel features or projections (`n_kernel`), and the class's own curves (3). A
    `diagonal` model has one column for the class's own log-probability instead of k: no matrix is made for a
    vocabulary.
    """

    k: int
    n_kernel: int = 0
    diagonal: bool = False

    @property
    def n_logs(self) -> int:
        """Columns of the log-probabilities."""
        return 1 if self.diagonal else self.k

    @property
    def n_shared(self) -> int:
        """Columns before the curves: of what every class weighs by its own coefficients, but for a diagonal model."""
        return self.n_logs + 1 + self.n_kernel

    @property
    def shape(self) -> tuple[int, int]:
        return self.k, self.n_shared + N_CURVES

    def matrix(self, theta: FloatArray) -> FloatArray:
        """The coefficients of the log-probabilities, a view."""
        return theta[:, : self.n_logs]

    def intercepts(self, theta: FloatArray) -> FloatArray:
        """The coefficients of one, a view."""
        return theta[:, self.n_logs]

    def kernel(self, theta: FloatArray) -> FloatArray:
        """The coefficients of the kernel features, a view."""
        return theta[:, self.n_logs + 1 : self.n_shared]

    def curves(self, theta: FloatArray) -> FloatArray:
        """The coefficients of the curves, a view."""
        return theta[:, self.n_shared :]

    def place(
        self,
        intercepts: FloatArray,
        matrix: FloatArray | None = None,
        kernel: FloatArray | None = None,
        curves: FloatArray | None = None,
    ) -> FloatArray:
        """Coefficients of which some are known, and the others zero. A vector as `matrix` is its diagonal."""
        theta = np.zeros(self.shape)
        self.intercepts(theta)[:] = intercepts
        if matrix is not None and matrix.ndim == 1:
            matrix = matrix[:, None] if self.diagonal else np.diag(matrix)
        for part, given in ((self.matrix, matrix), (self.kernel, kernel), (self.curves, curves)):
            if given is not None:
                part(theta)[:] = given
        return theta

    def strengths(self, factor: float, kernel_factor: float = 1.0, lambdas: Lambdas = EVEN) -> FloatArray:
        """Ridge strengths times the number of rows.

        Those of SMS (k for intercepts and the diagonal, k(k − 1) off the diagonal; k for the curves), times `factor`
        and `lambdas` of intercepts, diagonal, off-diagonal and curves; `kernel_factor` for kernel features, whose
        scale does not depend on k.
        """
        k = self.k
        intercept, diagonal, off_diagonal, curve = lambdas
        out = np.empty(self.shape)
        self.matrix(out)[:] = factor * k * (k - 1) * off_diagonal
        np.fill_diagonal(self.matrix(out), factor * k * diagonal)
        self.intercepts(out)[:] = factor * k * intercept
        self.kernel(out)[:] = kernel_factor
        self.curves(out)[:] = factor * k * curve
        return out


def shared_features(x: FloatArray, kernel: KernelFeatures) -> FloatArray:
    """The features every class weighs by its own coefficients: log-probabilities, one, kernel features."""
    return np.concatenate([x, np.ones((1, x.shape[1])), kernel(x)])


def fit_path(problem: SoftmaxProblem, path: list[FloatArray], *, tol: float) -> list[FloatArray]:
    """Coefficients for each matrix of strengths (times rows) in turn, each fit started where the last one ended."""
    out: list[FloatArray] = []
    for strength in path:
        penalty, start = Ridge(strength / problem.total_weight), out[-1] if out else None
        out.append(Newton().minimise(problem, penalty, tol=tol, max_iter=50, theta=start).theta)
    return out


class _AdditiveState:
    """What a fit of the additive model leaves behind."""

    coef_: FloatArray


class AdditiveCalibrator(_AdditiveState, ScalesFirst):
    """What calibrators made of the additive model share: temperature scaling underneath, kernel features, logits."""

    def _scaled(self, sample: Sample) -> Sample:
        """The same rows with temperature-scaled log-probabilities."""
        return sample.with_values(run_from_logs(self._scaling(), sample.x.copy()))

    def _store_kernel(self, kernel: KernelFeatures) -> None:
        self.landmarks_, self.whitening_ = kernel.landmarks, kernel.whitening
        self.kernel_scale_ = np.array([kernel.spread, kernel.bandwidth])

    def _additive_steps(self, trees: Steps = ()) -> list[Step]:
        """The steps from temperature-scaled log-probabilities to logits of the additive model plus `trees`."""
        kernel = KernelFeatures(self.landmarks_, self.whitening_, *map(float, self.kernel_scale_))
        layout = _layout(self.coef_, kernel.n_features)
        matrix, intercepts = layout.matrix(self.coef_), layout.intercepts(self.coef_)
        linear = (
            Scale(1.0 + matrix[:, 0], intercepts)
            if layout.diagonal
            else Linear(matrix.T + np.eye(layout.k), intercepts)
        )
        parts: list[Steps] = [[linear], [Curves(np.ascontiguousarray(layout.curves(self.coef_).T))]]
        if kernel.n_features:
            parts.append(kernel.steps(layout.kernel(self.coef_)))
        return [Sum((*parts, *([trees] if trees else [])))]

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        k = state.k
        landmarks = state.array("landmarks_", None, 2 * k)
        length, n_kernel = state.array("whitening_", None, None).shape
        state.require(length == (len(landmarks) or min(length, 1) * k), f"whitening_ has {length} rows")
        state.require(n_kernel <= length, "whitening_ is wider than long")
        state.array("kernel_scale_", 2, low=1.0 / LARGE)
        coef = state.array("coef_", k, None)
        state.require(coef.shape == _layout(coef, n_kernel).shape, f"coef_ has shape {coef.shape}")


def _layout(coef: FloatArray, n_kernel: int) -> FeatureLayout:
    """The layout of fitted coefficients: no other has as few columns as a diagonal one."""
    diagonal = FeatureLayout(len(coef), n_kernel, diagonal=True)
    return diagonal if coef.shape == diagonal.shape else FeatureLayout(len(coef), n_kernel)
