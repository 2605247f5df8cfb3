"""What a calibrator is fitted to: labelled log-probabilities, wherever they are.

A calibrator defines its features of a block of log-probabilities once; the rows turn them into a problem. The same code
fits rows in memory, in batches and on a cluster.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from calibrant.sample import Sample
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.steps import Steps
from calibrant.typing import FloatArray


class Features(NamedTuple):
    """The features of some rows, class-major as the kernels need them.

    Attributes
    ----------
    offset : ndarray of shape (k, n), the logits at zero coefficients.
    shared : ndarray of shape (d, n) or None, what every class weighs by its own coefficients.
    own : ndarray of shape (m, k, n) or None, of which class j sees only ``own[:, j]``.
    """

    offset: FloatArray
    shared: FloatArray | None = None
    own: FloatArray | None = None


#: Features of log-probabilities (n, k), row by row; where rows are tensors, so are `x` and the features.
FeatureMap = Callable[[FloatArray], Features]


#: Numbers and arrays, each summed over rows.
RowSums = Sequence[Any]
#: What a pass computes of some of the rows, a block of log-probabilities, to be added up over all blocks.
BlockFunction = Callable[[Sample], RowSums]


def namespace(x: Any) -> Any:
    """The library of an array: NumPy, or torch for a tensor, which has the functions that features need."""
    return np if isinstance(x, np.ndarray) else sys.modules["torch"]


def with_ones(x: FloatArray) -> FloatArray:
    """Log-probabilities (n, k) as shared features, class-major, followed by a row of ones.

    Examples
    --------
    >>> with_ones(np.array([[-1.0, -2.0]])).tolist()
    [[-1.0], [-2.0], [1.0]]
    """
    n, k = x.shape
    if not isinstance(x, np.ndarray):  # kept row-major, as the torch home wants it
        torch = namespace(x)
        ones: FloatArray = torch.cat([x, torch.ones_like(x[:, :1])], 1).T
        return ones
    shared = np.empty((k + 1, n))
    shared[:k] = x.T
    shared[k] = 1.0
    return shared


class Extent(NamedTuple):
    """How much there is.

    Attributes
    ----------
    n_rows : int
    total_weight : float, the number of observations: rows, or the sum of their weights.
    class_weights : ndarray of shape (k,), the weight of the rows with each label.
    """

    n_rows: int
    total_weight: float
    class_weights: FloatArray


class Rows(ABC):
    """Labelled, weighted log-probabilities.

    Attributes
    ----------
    n_classes : int
    n_rows, total_weight, class_weights
        See `Extent`.
    """

    n_classes: int
    n_rows: int
    total_weight: float
    class_weights: FloatArray

    @abstractmethod
    def mapped(self, steps: Steps) -> Rows:
        """The same rows after `steps` from probabilities to other log-probabilities."""

    @abstractmethod
    def sums(self, function: BlockFunction) -> RowSums:
        """The sums over all blocks of what `function` returns for each, one pass over the rows."""

    @abstractmethod
    def problem(self, features: FeatureMap, *, first_free: int = 0) -> SoftmaxProblem:
        """The softmax problem of these features; classes before `first_free` have no coefficients."""

    @abstractmethod
    def inverse_temperatures(self, mixtures: Sequence[float], prior: float = 0.0) -> list[tuple[float, float]]:
        """The best inverse temperature, and its mean log loss, for each weight of the uniform distribution.

        The weights are those of `calibrant.simplex.mix_log_probabilities`; the `prior` is that of
        `calibrant.softmax.inverse_temperature.fit_inverse_temperature`.
        """

    @abstractmethod
    def sample(self) -> Rows:
        """Rows in memory, all or a uniform sample: for starting points and for curvature."""
