"""What a solver may ask: the weighted mean log loss of a softmax model, and its derivatives, as sums over rows.

The logits of row i and class j are

    Z_ij = X_ij + Σ_d F_id Θ_jd + Σ_m G_ijm Θ_j,d+m

for an offset ``X``, *shared* features ``F`` that every class weighs by its own coefficients, and *own-class* features
``G`` of which a class sees only its own. Temperature, vector and matrix scaling, Dirichlet calibration and the binary
logistic family are all of this form; they differ in their features and penalties.

Where the rows are is up to the problem (`calibrant.softmax.rows`). A solver holds arrays of the size of the
coefficients and asks for the problem *at* some of them; a point answers with sums over rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from calibrant.typing import FloatArray, IntArray

#: Added to every curvature: where the loss has none, steps stay so small that their squares are finite.
FLATTEST = 1e-100


class ClassMoments(NamedTuple):
    """Moments of the features that each class sees, under the weights ``w_i v_ij`` with ``v_ij = p_ij (1 − p_ij)``."""

    #: The curvature ``c_j = Σ_i w_i v_ij`` of each class (r,).
    scale: FloatArray
    #: ``Σ_i w_i v_ij f_ij``, of shape (r, q).
    first: FloatArray
    #: ``Σ_i w_i v_ij f_ij²``, of shape (r, q): the diagonal of the Hessian.
    square: FloatArray


class Point(ABC):
    """The problem at certain coefficients: sums over rows, each computed when it is asked for.

    Weights ``w_i`` are shares of the total weight, so that all sums are means.
    """

    #: The mean log loss.
    loss: float

    @abstractmethod
    def gradient(self) -> FloatArray:
        """Gradient of the loss, shaped like the coefficients."""

    @abstractmethod
    def hessian_vector_product(self, direction: FloatArray) -> FloatArray:
        """``Σ_i w_i f_iᵀ (diag(p_i) − p_i p_iᵀ) f_i`` times a direction."""

    @abstractmethod
    def hessian(self) -> FloatArray:
        """The dense Hessian, for problems with few parameters: square, in the order of ``theta.ravel()``."""

    def rough_hessian(self, every: int | None = None, dtype: DTypeLike | None = None) -> FloatArray:
        """The dense Hessian, or an estimate of it where that is cheaper: for a step from far away.

        It is that of every n-th row, computed in `dtype`; by default of as many rows as the number of parameters needs.
        """
        return self.hessian()

    def hessian_of(self, coefficients: IntArray) -> FloatArray:
        """The rows and columns of the Hessian that belong to these positions in ``theta.ravel()``."""
        columns = np.empty((len(coefficients), len(coefficients)))
        direction = np.zeros_like(self.gradient())
        for column, c in zip(columns, coefficients, strict=True):
            direction.flat[c] = 1.0
            column[:] = self.hessian_vector_product(direction).flat[coefficients]
            direction.flat[c] = 0.0
        return columns

    @abstractmethod
    def class_blocks(self) -> FloatArray:
        """Each class's own block of the Hessian, ``Σ_i w_i p_ij (1 − p_ij) f_ij f_ijᵀ``, of shape (r, q, q)."""

    @abstractmethod
    def class_moments(self) -> ClassMoments:
        """Curvature of each class, and first and second moments of its features: two products, no Gram matrix."""

    @abstractmethod
    def dual_value(self, scale: float) -> float:
        """``Σ_i w_i (H(q_i) + (q_i − onehot(y_i)) · X_i)`` at ``q_i = onehot(y_i) + scale (p_i − onehot(y_i))``."""

    @abstractmethod
    def thinned(self, share: float, rng: np.random.Generator) -> Point:
        """The same point on about this share of the rows, drawn at random: for curvature, not for loss or gradient.

        The sums are unbiased estimates of those over all rows. Rows whose prediction is certain have hardly any
        curvature; where the predictions are known, these rows are drawn less often.
        """


class SoftmaxProblem(ABC):
    """Mean log loss of a linear softmax model, wherever its rows are."""

    #: Number of classes that have coefficients, and number of coefficients of each.
    shape: tuple[int, int]
    n_classes: int
    n_rows: int
    #: Number of shared and of own-class features.
    n_shared: int
    n_own: int
    #: Sum of the row weights as they were given.
    total_weight: float
    #: Relative rounding of the loss.
    precision: float = float(np.finfo(np.float64).eps)
    #: The share of the rows that suffices for curvature; below 1 where passes over all are expensive.
    curvature_share: float = 1.0
    #: Whether the rows are arrays, so that a solver can visit single rows (`ArrayProblem`).
    in_memory: ClassVar[bool] = False

    @property
    def n_parameters(self) -> int:
        return self.shape[0] * self.shape[1]

    @abstractmethod
    def at(self, theta: FloatArray, *, reuse: Point | None = None) -> Point:
        """The problem at coefficients `theta`; the memory of a point that is not needed any more may be reused."""

    def derivatives(self, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Mean log loss at `theta`, its gradient and its dense Hessian: for the smallest problems."""
        point = self.at(theta)
        return point.loss, point.gradient(), point.hessian()

    @property
    @abstractmethod
    def second_moments(self) -> FloatArray:
        """Mean squares of the features that each coefficient multiplies, shaped like the coefficients."""

    @abstractmethod
    def largest_change(self, theta: FloatArray) -> float:
        """The largest change of a logit that coefficients `theta` make, or a bound of it."""

    @property
    def rough(self) -> SoftmaxProblem | None:
        """A problem of some rows in memory, whose optimum is near: where to start if passes over all are expensive."""
        return None

    def single_precision(self) -> SoftmaxProblem | None:
        """The same problem with its matrices in float32, if that is faster and this one is not; its loss is rounded."""
        return None
