"""Penalties on the coefficients of the softmax problem, one interface for all.

A penalty has a strength for every coefficient (an array like the coefficients), so that groups of parameters,
intercepts, diagonal and off-diagonal weights, are penalised each by its own. With ``s`` the strengths:

============  ==========================================  ========  ========
penalty       value                                       smooth    convex
============  ==========================================  ========  ========
NoPenalty     0                                           yes       yes
Ridge         Σ s t²                                      yes       yes
Lasso         Σ s \\|t\\|                                   no        yes
GroupLasso    Σ over groups of s ‖t_group‖                no        yes
MCP           Σ of s\\|t\\| − t²/2γ up to \\|t\\| = γs, then   no        no
              constant
============  ==========================================  ========  ========
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from calibrant.typing import FloatArray


class Penalty(ABC):
    """A penalty with a strength for every coefficient."""

    smooth: bool
    convex: bool
    #: How compiled solvers call this penalty's prox; see `calibrant.softmax.solvers.compiled_prox`.
    code: int
    gamma: float = np.inf

    def __init__(self, strength: FloatArray) -> None:
        self.strength: FloatArray = np.asarray(strength, dtype=np.float64)
        self.groups: NDArray[np.int64] = np.zeros(self.strength.shape, dtype=np.int64)

    @abstractmethod
    def value(self, theta: FloatArray) -> float:
        """The penalty at coefficients `theta`."""

    @abstractmethod
    def prox(self, theta: FloatArray, step: float) -> FloatArray:
        """The minimiser of ``‖t − theta‖² / 2 + step · penalty(t)``."""

    @property
    def certifies(self) -> bool:
        """Whether a feasible dual point, and with it a duality gap, is to be had: every coefficient is penalised."""
        return self.convex and bool(np.all(self.strength > 0.0))


class Ridge(Penalty):
    """Sum of squares."""

    smooth = True
    convex = True
    code = 0

    def value(self, theta: FloatArray) -> float:
        return float(np.sum(self.strength * theta * theta))

    def gradient(self, theta: FloatArray) -> FloatArray:
        return 2.0 * self.strength * theta

    @property
    def curvature(self) -> FloatArray:
        """The diagonal of the Hessian."""
        return 2.0 * self.strength

    def prox(self, theta: FloatArray, step: float) -> FloatArray:
        return theta / (1.0 + 2.0 * step * self.strength)

    def conjugate(self, u: FloatArray) -> float:
        """The convex conjugate ``Σ u² / 4s``."""
        return float(np.sum(u * u / (4.0 * self.strength)))


class NoPenalty(Ridge):
    """No penalty: ridge of strength zero."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(np.zeros(shape))


class Lasso(Penalty):
    """Sum of absolute values."""

    smooth = False
    convex = True
    code = 1

    def value(self, theta: FloatArray) -> float:
        return float(np.sum(self.strength * np.abs(theta)))

    def prox(self, theta: FloatArray, step: float) -> FloatArray:
        return np.sign(theta) * np.maximum(np.abs(theta) - step * self.strength, 0.0)

    def dual_scale(self, u: FloatArray) -> float:
        """The largest factor in [0, 1] that makes `u` dual-feasible, ``|u| ≤ s`` in every entry."""
        worst = float(np.max(np.abs(u) / self.strength))
        return 1.0 if worst <= 1.0 else 1.0 / worst


class GroupLasso(Penalty):
    """Sum over groups of the Euclidean norm; all entries of a group have the same strength."""

    smooth = False
    convex = True
    code = 2

    def __init__(self, strength: FloatArray, groups: NDArray[np.int64]) -> None:
        super().__init__(strength)
        self.groups = np.unique(groups, return_inverse=True)[1].reshape(groups.shape).astype(np.int64)
        self.masks = [self.groups == g for g in range(self.groups.max(initial=-1) + 1)]
        self.group_strength = [float(self.strength[mask].max()) for mask in self.masks]

    def value(self, theta: FloatArray) -> float:
        norms = (float(np.linalg.norm(theta[mask])) for mask in self.masks)
        return sum(s * norm for s, norm in zip(self.group_strength, norms))

    def prox(self, theta: FloatArray, step: float) -> FloatArray:
        out = np.zeros_like(theta)
        for s, mask in zip(self.group_strength, self.masks):
            norm = float(np.linalg.norm(theta[mask]))
            if norm > step * s:
                out[mask] = theta[mask] * (1.0 - step * s / norm)
        return out

    def dual_scale(self, u: FloatArray) -> float:
        """The largest factor in [0, 1] that makes `u` dual-feasible, ``‖u_group‖ ≤ s`` in every group."""
        worst = max(float(np.linalg.norm(u[mask])) / s for s, mask in zip(self.group_strength, self.masks))
        return 1.0 if worst <= 1.0 else 1.0 / worst


class MCP(Penalty):
    """Minimax concave penalty: like the lasso near zero, constant for coefficients beyond ``gamma · s``."""

    smooth = False
    convex = False
    code = 3

    def __init__(self, strength: FloatArray, gamma: float = 3.0) -> None:
        super().__init__(strength)
        self.gamma = gamma

    def value(self, theta: FloatArray) -> float:
        size, s, gamma = np.abs(theta), self.strength, self.gamma
        inside = s * size - size * size / (2.0 * gamma)
        return float(np.sum(np.where(size <= gamma * s, inside, gamma * s * s / 2.0)))

    def prox(self, theta: FloatArray, step: float) -> FloatArray:
        size, s, gamma = np.abs(theta), self.strength, self.gamma
        if step >= gamma:  # the sum is concave inside ±γs: either zero or the point itself wins
            return np.where(size > np.sqrt(step * gamma) * s, theta, 0.0)
        firm = np.sign(theta) * np.maximum(size - step * s, 0.0) / (1.0 - step / gamma)
        return np.where(size <= gamma * s, firm, theta)
