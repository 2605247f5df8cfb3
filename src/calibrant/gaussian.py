"""The Gaussian logit model, whose exact recalibration map is known: for theory, tests and examples.

If the logits of each class are Gaussian, the true class probabilities given the logits are the softmax of a quadratic
function of them, whose coefficients follow from means, covariances and priors. Excess risk over Bayes is measurable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.simplex import softmax
from calibrant.typing import FloatArray


@dataclass(frozen=True)
class BinaryGaussianModel:
    """Two classes whose log-odds are Gaussian: ``N(m₊, s₊²)`` and ``N(m₋, s₋²)`` with prior ``π₊``."""

    mean_negative: float
    mean_positive: float
    std_negative: float
    std_positive: float
    prior_positive: float = 0.5

    def coefficients(self) -> tuple[float, float, float]:
        """``(γ, α, β)`` of the exact map ``σ(γ x² + α x + β)``."""
        v_neg, v_pos = self.std_negative**2, self.std_positive**2
        quadratic = 0.5 / v_neg - 0.5 / v_pos
        linear = self.mean_positive / v_pos - self.mean_negative / v_neg
        odds = self.prior_positive * self.std_negative / ((1.0 - self.prior_positive) * self.std_positive)
        constant = np.log(odds) + self.mean_negative**2 / (2 * v_neg) - self.mean_positive**2 / (2 * v_pos)
        return float(quadratic), float(linear), float(constant)

    def sample(self, n: int, random_state: int | None = None) -> tuple[FloatArray, NDArray[np.int64]]:
        """`n` log-odds and labels 0 or 1."""
        rng = np.random.default_rng(random_state)
        y = (rng.random(n) < self.prior_positive).astype(np.int64)
        mean = np.where(y == 1, self.mean_positive, self.mean_negative)
        std = np.where(y == 1, self.std_positive, self.std_negative)
        return mean + std * rng.normal(size=n), y

    def posterior(self, x: ArrayLike) -> FloatArray:
        """True probability of the positive class at log-odds `x`."""
        x = np.asarray(x, dtype=np.float64)
        quadratic, linear, constant = self.coefficients()
        return softmax(np.stack([np.zeros_like(x), quadratic * x * x + linear * x + constant], axis=-1))[..., 1]


@dataclass(frozen=True)
class GaussianModel:
    """`k` classes whose centred logits are Gaussian in the hyperplane of vectors that sum to zero."""

    #: Mean logits of each class (k, k); rows sum to zero.
    means: FloatArray
    #: Covariance of each class (k, k, k), singular along the ones vector and positive definite across.
    covariances: FloatArray
    priors: FloatArray

    def coefficients(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """``A`` (k, k, k), ``B`` (k, k), ``C`` (k,) of the exact map ``S(xᵀA x + B x + C)``."""
        inverses = np.stack([np.linalg.pinv(c, hermitian=True) for c in self.covariances])
        # The pseudo-determinant: the product of all eigenvalues but the one along the ones vector.
        log_dets = np.array([np.log(np.linalg.eigvalsh(c)[1:]).sum() for c in self.covariances])
        linear = np.einsum("jab,jb->ja", inverses, self.means)
        constant = -0.5 * np.einsum("ja,ja->j", linear, self.means) + np.log(self.priors) - 0.5 * log_dets
        return -0.5 * inverses, linear, constant

    def sample(self, n: int, random_state: int | None = None) -> tuple[FloatArray, NDArray[np.int64]]:
        """`n` rows of centred logits and their labels."""
        rng = np.random.default_rng(random_state)
        y = rng.choice(len(self.priors), size=n, p=self.priors)
        x = np.empty((n, len(self.priors)))
        for j, (mean, covariance) in enumerate(zip(self.means, self.covariances)):
            rows = y == j
            x[rows] = rng.multivariate_normal(mean, covariance, size=int(rows.sum()), method="eigh")
        return x, y.astype(np.int64)

    def posterior(self, x: ArrayLike) -> FloatArray:
        """True class probabilities (n, k) at centred logits `x` (n, k)."""
        x = np.asarray(x, dtype=np.float64)
        quadratic, linear, constant = self.coefficients()
        return softmax(np.einsum("na,jab,nb->nj", x, quadratic, x) + x @ linear.T + constant)
