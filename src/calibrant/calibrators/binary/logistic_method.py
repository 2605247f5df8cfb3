"""Binary methods that are a logistic regression on features of two log-probabilities: Platt and beta calibration.

One class against the rest is such a problem for each class. Where rows can only be summed over, the problems of all
classes share the passes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from calibrant.calibrators.base import RowsCalibrator
from calibrant.calibrators.binary.logistic_fit import Known, LogisticSearch, linear_parts, unlabelled
from calibrant.calibrators.lifting import BinaryMethod, log_rest
from calibrant.inputs.weights import total_weight
from calibrant.softmax.rows.base import Rows
from calibrant.softmax.rows.memory import ArrayRows
from calibrant.softmax.rows.sums import Block, SummedRows
from calibrant.softmax.solvers.damped_newton import Answer
from calibrant.softmax.together import run, run_together
from calibrant.typing import FloatArray, IntArray

#: A sample with larger coefficients is separable: its optimum is no place to start from.
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

    def _targets(self, negative: float, positive: float) -> tuple[float, float]:
        """What the labels 0 and 1 stand for, given how many there are of each."""
        return 0.0, 1.0

    def _search(self, known: Known, start: FloatArray | None) -> LogisticSearch:
        """The search for the coefficients."""
        return known.search(start)

    def _fit_binary(self, x: FloatArray, y: IntArray, weight: FloatArray | None) -> None:
        self._store(self._coefficients(x, y, weight))

    def _coefficients(self, x: FloatArray, y: IntArray, weight: FloatArray | None) -> FloatArray:
        positive = float(np.count_nonzero(y)) if weight is None else float(weight[y == 1].sum())
        negative = max(total_weight(len(y), weight) - positive, 0.0)
        features = np.ascontiguousarray(self._features(x))
        target = np.array(self._targets(negative, positive))[y]
        pull, moments, total = linear_parts(features, target, weight)
        known = Known(pull, moments, total, self._ridge * total)
        search = self._search(known, None)
        return run(search, lambda beta: known.penalised(beta, unlabelled(features, beta, weight)))

    def _fit_rows(self, rows: Rows) -> None:
        if isinstance(rows, ArrayRows):
            return self._fit(np.ascontiguousarray(rows.x), rows.y, rows.weight)
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
        sample = rows.sample()
        starts = [
            part._coefficients(x, y, sample.weight)
            for part, (x, y) in zip(parts, _against_rest(sample.x, sample.y, range(len(parts))), strict=True)
        ]

        def constants(block: Block) -> list[Any]:
            out: list[Any] = []
            pairs = _against_rest(block.x, block.y, range(len(parts)))
            for part, target, (x, y) in zip(parts, targets, pairs, strict=True):
                out += linear_parts(part._features(x), target[y], block.weight)[:2]
            return out

        sums = rows.sums(constants)
        known = [Known(sums[2 * i], sums[2 * i + 1], total, self._ridge * total) for i in range(len(parts))]

        def answer(betas: Mapping[int, FloatArray]) -> dict[int, Answer]:
            def derivatives(block: Block) -> list[Any]:
                out: list[Any] = []
                for i, (x, _) in zip(betas, _against_rest(block.x, block.y, betas), strict=True):
                    out += unlabelled(np.ascontiguousarray(parts[i]._features(x)), betas[i], block.weight)
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


def _against_rest(x: FloatArray, y: IntArray, which: Any) -> Any:
    """Two-class log-probabilities and labels of the classes `which` against the rest; two classes are that already."""
    if x.shape[1] == 2:
        return ((x, y) for _ in which)
    rest = log_rest(x)
    return ((np.column_stack([rest[:, j], x[:, j]]), (y == j).astype(np.int64)) for j in which)
