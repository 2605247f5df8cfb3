"""What a calibrator is fitted to: labelled log-probabilities, wherever they are.

A calibrator defines its features of a block of log-probabilities once; the rows turn them into a problem. The same code
fits rows in memory, in batches and on a cluster.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from calibrant.sample import Sample
from calibrant.simplex import LOG_FLOOR, log_in_place, mix_log_probabilities
from calibrant.softmax.inverse_temperature import fit_inverse_temperature
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.steps import Log, Softmax, Steps, run_from_logs
from calibrant.typing import FloatArray


class Features(NamedTuple):
    """The features of some rows, class-major as the kernels need them."""

    #: The logits at zero coefficients (k, n).
    offset: FloatArray
    #: What every class weighs by its own coefficients (d, n).
    shared: FloatArray | None = None
    #: Features (m, k, n), of which class j sees only ``own[:, j]``.
    own: FloatArray | None = None


#: Features of log-probabilities (n, k), row by row; where rows are tensors, so are `x` and the features.
FeatureMap = Callable[[FloatArray], Features]


#: Numbers and arrays, each summed over rows.
RowSums = Sequence[Any]
#: What a pass computes of some of the rows, a block of log-probabilities, to be added up over all blocks.
BlockFunction = Callable[[Sample], RowSums]


def namespace(x: object) -> Any:
    """The library of an array: NumPy, or torch for a tensor, which has the functions that features need."""
    return np if isinstance(x, np.ndarray) else sys.modules["torch"]


def with_ones(x: FloatArray) -> FloatArray:
    """Log-probabilities (n, k) as shared features, class-major, followed by a row of ones."""
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
    """How much there is."""

    n_rows: int
    #: The number of observations: rows, or the sum of their weights.
    total_weight: float
    #: The weight of the rows with each label (k,).
    class_weights: FloatArray


class Rows(ABC):
    """Labelled, weighted log-probabilities, with the numbers of an `Extent`."""

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

        The `prior` is that of `calibrant.softmax.inverse_temperature.fit_inverse_temperature`.
        """

    @abstractmethod
    def sample(self) -> Rows:
        """Rows in memory, all or a uniform sample: for starting points and for curvature."""


#: From this many numbers on, a compiled logarithm pays for loading it: without AVX-512 NumPy computes one logarithm of
#: float64 at a time.
_MANY = 1 << 15


def log_of_many(p: FloatArray) -> FloatArray:
    """`calibrant.simplex.log_in_place`, several times faster for many numbers; the last digit may differ."""
    if p.size < _MANY or not p.flags.forc:
        return log_in_place(p)
    from calibrant.softmax.kernels import take_logs

    take_logs(p.ravel(order="K"), LOG_FLOOR)
    return p


class _FusedLog(Log):
    """Logarithms by `log_of_many`."""

    def apply(self, x: FloatArray) -> FloatArray:
        return log_of_many(x)


class _FusedSoftmax(Softmax):
    """The softmax of rows whose columns are contiguous, by the kernel that problems use."""

    def apply(self, x: FloatArray) -> FloatArray:
        from calibrant.softmax.kernels import softmax_loss

        softmax_loss(x.T, np.zeros(len(x), dtype=np.int64), np.zeros(len(x)))
        return x


_FUSED = {Log: _FusedLog, Softmax: _FusedSoftmax}


class ArrayRows(Rows):
    """Rows in arrays, held with contiguous columns: class-major, as kernels and problems need them."""

    def __init__(self, labelled: Sample) -> None:
        self.labelled = labelled
        self.x, self.y, self.weight = np.asfortranarray(labelled.x), labelled.y, labelled.counts
        self.n_rows, self.n_classes = labelled.n_rows, labelled.n_classes
        self.total_weight = labelled.total

    @cached_property
    def class_weights(self) -> FloatArray:  # type: ignore[override]
        return self.labelled.class_counts

    def mapped(self, steps: Steps) -> ArrayRows:
        fused = [_FUSED[type(step)]() if type(step) in _FUSED else step for step in steps]
        return ArrayRows(self.labelled.with_values(run_from_logs(fused, self.x.copy(order="F")), logs=True))

    def sums(self, function: BlockFunction) -> list[Any]:
        return list(function(self.labelled))

    def problem(self, features: FeatureMap, *, first_free: int = 0) -> ArrayProblem:
        offset, shared, own = features(self.x)
        return ArrayProblem(self.y, offset, shared=shared, own=own, weight=self.weight, first_free=first_free)

    def inverse_temperatures(self, mixtures: Sequence[float], prior: float = 0.0) -> list[tuple[float, float]]:
        found, start = [], 1.0
        for u in mixtures:
            mixed = np.ascontiguousarray(mix_log_probabilities(self.x, u).T)
            start, loss = fit_inverse_temperature(mixed, self.y, self.weight, start, prior)
            found.append((start, loss))
        return found

    def sample(self) -> ArrayRows:
        return self
