"""Labelled log-probabilities in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from calibrant.sample import Sample
from calibrant.simplex import LOG_FLOOR, log_in_place, mix_log_probabilities
from calibrant.softmax.inverse_temperature import fit_inverse_temperature
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.rows.row_source import BlockFunction, FeatureMap, Rows
from calibrant.steps import Log, Softmax, Steps, run_from_logs
from calibrant.typing import FloatArray

#: From this many numbers on, a compiled logarithm pays for loading it: without AVX-512 NumPy computes one logarithm of
#: float64 at a time.
_MANY = 1 << 15


def log_of_many(p: FloatArray) -> FloatArray:
    """`calibrant.simplex.log_in_place`, several times faster for many numbers; the last digit may differ.

    Examples
    --------
    >>> log_of_many(np.array([[0.5, 0.0]])).round(2)
    array([[ -0.69, -87.34]])
    """
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
    """Rows in arrays, held with contiguous columns: class-major, as kernels and problems need them.

    Parameters
    ----------
    labelled : Sample
        Predictions with column numbers as labels.

    Examples
    --------
    >>> rows = ArrayRows(Sample(np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]]), np.array([0, 0, 0])))
    >>> rows.class_weights
    array([3., 0.])
    """

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
