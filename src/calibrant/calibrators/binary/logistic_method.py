"""Binary methods that are a logistic regression on features of two log-probabilities: Platt and beta calibration.

One class against the rest is such a problem for each class. Where rows can only be summed over, the problems of all
classes share the passes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from calibrant.calibrators.base import RowsCalibrator
from calibrant.calibrators.binary.logistic_fit import Known, LogisticSearch, linear_parts, unlabelled
from calibrant.calibrators.lifting import BinaryMethod, against_rest
from calibrant.calibrators.probability_intervals import LogitModel
from calibrant.sample import Sample
from calibrant.simplex import log_in_place
from calibrant.softmax.delta_method import coefficient_covariance
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.rows.row_source import ArrayRows, Features, Rows, RowSums
from calibrant.softmax.rows.summed_rows import SummedRows
from calibrant.softmax.solvers.searches import Answer, run, run_together
from calibrant.typing import FloatArray

#: A sample with larger coefficients is separable: its optimum is not a place to start from.
_LARGEST_START = 100.0


class LogisticMethod(BinaryMethod, RowsCalibrator):
    """Base of the binary methods that are logistic regressions: a subclass names features and targets."""

    #: Ridge as a share of the total weight: keeps coefficients finite that the rows leave open.
    _ridge: ClassVar[float]

    @abstractmethod
    def _features(self, x: FloatArray) -> FloatArray:
        """The features (d, n) of two-class log-probabilities (n, 2)."""

    @abstractmethod
    def _store(self, coefficients: FloatArray) -> None:
        """Set the fitted attributes."""

    @abstractmethod
    def _stored(self) -> list[float]:
        """The coefficients that `_store` was given."""

    def _targets(self, negative: float, positive: float) -> tuple[float, float]:
        """What the labels 0 and 1 stand for, given how many there are of each."""
        return 0.0, 1.0

    def _search(self, known: Known, start: FloatArray | None) -> LogisticSearch:
        """The search for the coefficients."""
        return known.search(start)

    def _fit_binary(self, sample: Sample) -> None:
        self._store(self._coefficients(sample))

    def _coefficients(self, sample: Sample) -> FloatArray:
        positive = float(sample.each[sample.y == 1].sum())
        negative = max(sample.total - positive, 0.0)
        features = np.ascontiguousarray(self._features(sample.x))
        target = np.array(self._targets(negative, positive))[sample.y]
        pull, moments, total = linear_parts(features, target, sample.counts)
        known = Known(pull, moments, total, self._ridge * total)
        search = self._search(known, None)
        return run(search, lambda beta: known.penalised(beta, unlabelled(features, beta, sample.counts)))

    def _coefficient_covariance(self, sample: Sample) -> FloatArray | None:
        if sample.n_classes > 2:
            return None
        features, theta = self._logit_features(sample.x), np.array([self._stored()])
        problem = ArrayProblem(sample.y, features.offset, shared=features.shared, weight=sample.counts, first_free=1)
        return coefficient_covariance(problem, theta, np.full(theta.shape, self._ridge), sample)

    def _logit_features(self, x: FloatArray) -> Features:
        return Features(np.zeros_like(x.T), shared=self._features(x))

    def _logit_model(self) -> LogitModel:
        if self.steps()[0].kind == "log":
            return LogitModel(1, 0, self._logit_features)
        return LogitModel(0, 0, lambda p: self._logit_features(log_in_place(p.copy())))

    def _fit_rows(self, rows: Rows) -> None:
        if isinstance(rows, ArrayRows):
            return self._fit(rows.labelled.with_values(np.ascontiguousarray(rows.x), logs=True))
        if not isinstance(rows, SummedRows) or (rows.n_classes > 2 and self.multiclass == "ovo"):
            raise ValueError(
                f"{type(self).__name__} with multiclass='ovo' fits every pair of classes to rows of its own and needs "
                "all rows in memory. Use multiclass='ovr', or a method for many classes such as 'sms'."
            )
        self.__dict__.pop("estimators_", None)
        k = rows.n_classes
        parts = [self] if k == 2 else [clone(self) for _ in range(k)]
        for part, coefficients in zip(parts, self._share_passes(rows, parts), strict=True):
            if k > 2:
                part._name_classes(np.arange(2))
            part._store(coefficients)
        if k > 2:
            self.estimators_ = parts
        return None

    def _share_passes(self, rows: SummedRows, parts: list[Any]) -> list[FloatArray]:
        """The coefficients of every class against the rest (of the second against the first, for two)."""
        k, total = rows.n_classes, rows.total_weight
        counts = rows.class_weights[1:] if k == 2 else rows.class_weights
        targets = [np.array(part._targets(total - c, c)) for part, c in zip(parts, counts, strict=True)]
        everyone = range(len(parts))
        starts = [
            part._coefficients(two)
            for part, two in zip(parts, _two_classes(rows.sample().labelled, everyone), strict=True)
        ]

        def constants(block: Sample) -> RowSums:
            out: list[Any] = []
            for part, target, two in zip(parts, targets, _two_classes(block, everyone), strict=True):
                out += linear_parts(part._features(two.x), target[two.y], two.counts)[:2]
            return out

        sums = rows.sums(constants)
        known = [Known(sums[2 * i], sums[2 * i + 1], total, self._ridge * total) for i in range(len(parts))]

        def answer(betas: Mapping[int, FloatArray]) -> dict[int, Answer]:
            def derivatives(block: Sample) -> RowSums:
                out: list[Any] = []
                for i, two in zip(betas, _two_classes(block, betas), strict=True):
                    out += unlabelled(np.ascontiguousarray(parts[i]._features(two.x)), betas[i], two.counts)
                return out

            found = rows.sums(derivatives)
            return {
                i: known[i].penalised(betas[i], (float(found[3 * j]), found[3 * j + 1], found[3 * j + 2]))
                for j, i in enumerate(betas)
            }

        searches = [
            part._search(constant, start if np.abs(start).max() < _LARGEST_START else None)
            for part, constant, start in zip(parts, known, starts, strict=True)
        ]
        return run_together(searches, answer)


def _two_classes(sample: Sample, which: Iterable[int]) -> Iterator[Sample]:
    """The classes `which` against the rest; two classes are that already."""
    return (sample for _ in which) if sample.n_classes == 2 else against_rest(sample, which)
