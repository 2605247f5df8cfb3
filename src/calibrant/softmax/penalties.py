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

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.typing import FloatArray


class Penalty:
    """A sum over coefficients of ``slope |t| + curvature t² / 2`` up to ``|t| = reach``, constant beyond."""

    smooth: ClassVar[bool] = False
    convex: ClassVar[bool] = True

    def __init__(
        self,
        strength: ArrayLike,
        slope: FloatArray | None = None,
        curvature: FloatArray | None = None,
        reach: FloatArray | None = None,
    ) -> None:
        self.strength: FloatArray = np.asarray(strength, dtype=np.float64)
        shape = self.strength.shape
        self.slope = np.zeros(shape) if slope is None else slope
        self.curvature = np.zeros(shape) if curvature is None else curvature
        self.reach = np.full(shape, np.inf) if reach is None else reach
        self.groups: NDArray[np.int64] = np.zeros(shape, dtype=np.int64)
        self.group_strength: FloatArray = np.zeros(0)
        #: Whether every coefficient is penalised by a convex penalty, so that there is a duality gap.
        self.certifies = self.convex and bool(np.all(self.strength > 0.0))

    def value(self, theta: FloatArray) -> float:
        size = np.minimum(np.abs(theta), self.reach)
        return float(np.sum(size * (self.slope + self.curvature * size / 2.0)))

    def prox(self, theta: FloatArray, step: float) -> FloatArray:
        """The minimiser of ``‖t − theta‖² / 2 + step · penalty(t)``."""
        from calibrant.softmax.proximal import prox_in_place

        out = np.array(theta)
        prox_in_place(np.atleast_2d(out), step, *self.description)
        return out

    @property
    def description(self) -> tuple[Any, ...]:
        """What compiled code asks of a penalty: the arguments of `calibrant.softmax.proximal.prox_in_place`."""
        parts = (self.slope, self.curvature, self.reach, self.groups)
        return (*(np.atleast_2d(part) for part in parts), self.group_strength)


class Ridge(Penalty):
    """Sum of squares."""

    smooth = True

    def __init__(self, strength: ArrayLike) -> None:
        super().__init__(strength, curvature=2.0 * np.asarray(strength, dtype=np.float64))

    def value(self, theta: FloatArray) -> float:
        return float(np.vdot(self.strength * theta, theta))

    def gradient(self, theta: FloatArray) -> FloatArray:
        return self.curvature * theta

    def conjugate(self, u: FloatArray) -> float:
        """The convex conjugate ``Σ u² / 4s``."""
        return float(np.vdot(u, u / (2.0 * self.curvature)))


class NoPenalty(Ridge):
    """No penalty: ridge of strength zero."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(np.zeros(shape))


class Lasso(Penalty):
    """Sum of absolute values."""

    def __init__(self, strength: ArrayLike) -> None:
        super().__init__(strength, slope=np.asarray(strength, dtype=np.float64))

    def dual_scale(self, u: FloatArray) -> float:
        """The largest factor in [0, 1] that makes `u` dual-feasible, ``|u| ≤ s`` in every entry."""
        worst = float(np.max(np.abs(u) / self.strength))
        return 1.0 if worst <= 1.0 else 1.0 / worst


class GroupLasso(Penalty):
    """Sum over groups of the Euclidean norm; all entries of a group have the same strength."""

    def __init__(self, strength: ArrayLike, groups: NDArray[np.int64]) -> None:
        super().__init__(strength)
        self.groups = np.unique(groups, return_inverse=True)[1].reshape(groups.shape).astype(np.int64)
        self.group_strength = np.zeros(self.groups.max(initial=-1) + 1)
        np.maximum.at(self.group_strength, self.groups, self.strength)

    def sums(self, values: FloatArray) -> FloatArray:
        """Sums over the entries of each group."""
        sums = np.bincount(self.groups.ravel(), values.ravel(), minlength=len(self.group_strength))
        return sums.astype(np.float64, copy=False)

    def norms(self, theta: FloatArray) -> FloatArray:
        """The Euclidean norm of each group."""
        return np.sqrt(self.sums(theta * theta))

    def value(self, theta: FloatArray) -> float:
        return float(self.group_strength @ self.norms(theta))

    def dual_scale(self, u: FloatArray) -> float:
        """The largest factor in [0, 1] that makes `u` dual-feasible, ``‖u_group‖ ≤ s`` in every group."""
        worst = float(np.max(self.norms(u) / self.group_strength))
        return 1.0 if worst <= 1.0 else 1.0 / worst


class MCP(Penalty):
    """Minimax concave penalty: like the lasso near zero, constant for coefficients beyond ``gamma · s``."""

    convex = False

    def __init__(self, strength: ArrayLike, gamma: float = 3.0) -> None:
        s = np.asarray(strength, dtype=np.float64)
        super().__init__(s, slope=s, curvature=np.full(s.shape, -1.0 / gamma), reach=gamma * s)
