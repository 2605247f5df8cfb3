"""The additive model: matrix scaling plus curves of each class's own probability plus kernel features, by ridge.

On temperature-scaled log-probabilities ``x̃ = log q`` the logits are ``x̃ + W x̃ + b + Σ_m u_m ∘ g_m(x̃) + A φ(x̃)``, where
``g = (x̃²/5, log(1 − q), q)`` bends each class's own score, and ``φ`` are Nyström features of a Gaussian kernel on
centred logits and probabilities. Every coefficient has a ridge strength, so that each layer shrinks towards the simpler
one below it: kernel → curves → matrix → vector → temperature scaling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.calibrators.state import LARGE, StateCheck
from calibrant.rowwise import row_products, row_sums
from calibrant.softmax.penalties import Ridge
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.solvers.newton import Newton
from calibrant.typing import FloatArray

#: Number of own-class curves.
N_CURVES = 3
#: Factors on the ridge strengths that are tried, strongest first: each fit starts from the one before.
FACTORS = (10.0, 3.0, 1.0, 0.3, 0.1)
#: Relative strengths of intercepts, diagonal, off-diagonal part and curves.
Lambdas = tuple[float, float, float, float]
EVEN: Lambdas = (1.0, 1.0, 1.0, 1.0)
#: How much a difference of probabilities counts beside one of centred logits in the kernel's distance.
_PROBABILITY_SCALE = 3.0
#: Rows that inform the kernel's bandwidth.
_BANDWIDTH_ROWS = 2000


def curves(x: FloatArray) -> FloatArray:
    """Own-class features (3, k, n) of log-probabilities `x` (k, n): ``x²/5``, ``log(1 − q)`` and ``q``."""
    q = np.exp(x)
    out = np.empty((N_CURVES, *x.shape))
    np.multiply(x, x / 5.0, out=out[0])
    # A class that is certain to rounding would be a leverage point; beyond e^-20 nothing is learned.
    np.maximum(np.log1p(-np.minimum(q, 1.0 - 1e-12)), -20.0, out=out[1])
    out[2] = q
    return out


@dataclass
class KernelFeatures:
    """Nyström features ``φ(x) = K(x, landmarks) K(landmarks, landmarks)^(-1/2)`` of a Gaussian kernel."""

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
        features = cls(np.empty((0, 2 * k)), np.empty((0, 0)), spread, 1.0)
        points = features._points(sample)
        landmarks = points[:n_landmarks]
        distances = _squared_distances(points, landmarks)
        positive = distances[distances > 1e-9]
        bandwidth = float(np.median(positive)) if positive.size else 1.0
        values, vectors = np.linalg.eigh(np.exp(-distances[: len(landmarks)] / bandwidth))
        keep = values > 1e-6 * values[-1]
        return cls(landmarks, vectors[:, keep] / np.sqrt(values[keep]), spread, bandwidth)

    @property
    def n_features(self) -> int:
        return int(self.whitening.shape[1])

    def _points(self, x: FloatArray) -> FloatArray:
        mean = row_sums(x.T) / len(x)
        return np.concatenate([(x - mean) / self.spread, _PROBABILITY_SCALE * np.exp(x)]).T

    def __call__(self, x: FloatArray) -> FloatArray:
        """Features (n_features, n) of log-probabilities `x` (k, n)."""
        if not self.n_features:
            return np.empty((0, x.shape[1]))
        distances = _squared_distances(self._points(x), self.landmarks)
        return np.ascontiguousarray(row_products(np.exp(-distances / self.bandwidth), self.whitening).T)


def _squared_distances(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.maximum(row_sums(a * a)[:, None] + row_sums(b * b) - 2.0 * row_products(a, b.T), 0.0)


def shared_features(x: FloatArray, kernel: KernelFeatures) -> FloatArray:
    """The features every class weighs by its own coefficients: log-probabilities, one, kernel features."""
    return np.concatenate([x, np.ones((1, x.shape[1])), kernel(x)])


def strengths(
    k: int,
    factor: float,
    kernel_factor: float = 1.0,
    n_kernel: int = 0,
    lambdas: Lambdas = EVEN,
) -> FloatArray:
    """Ridge strengths (k, k + 1 + n_kernel + 3) times the number of rows, in the order of the features.

    Those of SMS (k for intercepts and the diagonal, k(k − 1) off the diagonal; k for the curves), times `factor` and
    `lambdas` of intercepts, diagonal, off-diagonal and curves; `kernel_factor` for kernel features, whose scale does
    not depend on k.
    """
    intercept, diagonal, off_diagonal, curve = lambdas
    out = np.full((k, k + 1 + n_kernel + N_CURVES), factor * k * curve)
    out[:, :k] = factor * k * (k - 1) * off_diagonal
    np.fill_diagonal(out[:, :k], factor * k * diagonal)
    out[:, k] = factor * k * intercept
    out[:, k + 1 : k + 1 + n_kernel] = kernel_factor
    return out


def fit_path(
    problem: SoftmaxProblem, path: list[FloatArray], *, tol: float, theta: FloatArray | None = None
) -> list[FloatArray]:
    """Coefficients for each matrix of strengths (times rows) in turn, each fit started where the last one ended."""
    out = []
    for strength in path:
        penalty = Ridge(strength / problem.total_weight)
        theta = Newton().minimise(problem, penalty, tol=tol, max_iter=50, theta=theta).theta
        out.append(theta)
    return out


def check_additive(state: StateCheck) -> None:
    """Check the coefficients and kernel features in a fitted state."""
    k = state.k
    landmarks = state.array("landmarks_", None, 2 * k)
    n_kernel = state.array("whitening_", len(landmarks), None).shape[1]
    state.require(n_kernel <= len(landmarks), "whitening_ is wider than long")
    state.array("kernel_scale_", 2, low=1.0 / LARGE)
    state.array("coef_", k, k + 1 + n_kernel + N_CURVES)


def additive_logits(x: FloatArray, theta: FloatArray, kernel: KernelFeatures) -> FloatArray:
    """Logits (k, n) at coefficients `theta` for log-probabilities `x` (k, n)."""
    n_shared = theta.shape[1] - N_CURVES
    z = np.ascontiguousarray(row_products(shared_features(x, kernel).T, theta[:, :n_shared].T).T)
    z += x
    for m, feature in enumerate(curves(x)):
        z += theta[:, n_shared + m, None] * feature
    return z
