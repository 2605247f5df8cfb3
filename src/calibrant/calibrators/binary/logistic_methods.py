"""Binary methods that are a logistic regression on features of two log-probabilities: Platt and beta calibration.

One class against the rest is such a problem for each class. Where rows can only be summed over, the problems of all
classes share the passes.

- Platt scaling ``σ(a s + b)`` of a score s: the probability itself, or its log-odds. The labels are replaced by Platt's
  targets ``(N₊ + 1)/(N₊ + 2)`` and ``1/(N₋ + 2)``, which keep the fit finite.
- Beta calibration ``σ(a log p - b log(1 - p) + c)`` with ``a, b ≥ 0``, the map between the posterior of two beta
  distributions and a probability. It contains the identity (a = b = 1, c = 0) and Platt scaling of log-odds (a = b),
  and bends differently next to 0 and next to 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import clone

from calibrant.calibrators.binary.logistic_fit import Known, LogisticSearch, linear_parts, unlabelled
from calibrant.calibrators.lifting import POSITIVE, BinaryMethod, against_rest, positive_probability
from calibrant.calibrators.probability_intervals import LogitModel
from calibrant.calibrators.rows_calibrator import RowsCalibrator
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.simplex import log_in_place
from calibrant.softmax.delta_method import coefficient_covariance
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.rows.row_source import ArrayRows, Features, Rows, RowSums
from calibrant.softmax.rows.summed_rows import SummedRows
from calibrant.softmax.solvers.searches import Answer, run, run_together
from calibrant.steps import Clip, Linear, Log, LogOdds, Scale, Sigmoid, Step
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
            out: list[object] = []
            for part, target, two in zip(parts, targets, _two_classes(block, everyone), strict=True):
                out += linear_parts(part._features(two.x), target[two.y], two.counts)[:2]
            return out

        sums = rows.sums(constants)
        known = [Known(sums[2 * i], sums[2 * i + 1], total, self._ridge * total) for i in range(len(parts))]

        def answer(betas: Mapping[int, FloatArray]) -> dict[int, Answer]:
            def derivatives(block: Sample) -> RowSums:
                out: list[object] = []
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


class PlattCalibrator(LogisticMethod):
    """Platt scaling.

    Parameters
    ----------
    scale : {"probability", "log-odds"}, default="probability"
        What the sigmoid is applied to. On log-odds the identity is among the maps that can be learned.

    Attributes
    ----------
    slope_, intercept_ : float
        The parameters a and b (two classes).

    References
    ----------
    J. Platt. Probabilistic outputs for support vector machines and comparisons to regularized likelihood methods.
    Advances in Large Margin Classifiers, 1999.

    Examples
    --------
    >>> from calibrant.calibrators import PlattCalibrator
    >>> calibrator = PlattCalibrator().fit([0.1, 0.2, 0.6, 0.9], [0, 0, 1, 1])
    >>> calibrator.predict_proba([0.1, 0.9])[:, 1].round(2)
    array([0.24, 0.82])
    """

    scale: Literal["probability", "log-odds"] = "probability"

    #: Where no score is above 1e-10, a slope is rounding divided by scores, and must not decide what a larger one gets.
    _ridge = 1e-20

    def _features(self, x: FloatArray) -> FloatArray:
        score = positive_probability(x) if self.scale == "probability" else x[:, 1] - x[:, 0]
        return np.stack([score, np.ones(len(score))])

    def _targets(self, negative: float, positive: float) -> tuple[float, float]:
        return 1.0 / (negative + 2.0), (positive + 1.0) / (positive + 2.0)

    def _store(self, coefficients: FloatArray) -> None:
        self.slope_, self.intercept_ = (float(c) for c in coefficients)

    def _stored(self) -> list[float]:
        return [self.slope_, self.intercept_]

    def _check_binary_state(self, state: StateCheck) -> None:
        state.number("slope_")
        state.number("intercept_")

    def _binary_steps(self) -> list[Step]:
        score: list[Step] = [POSITIVE] if self.scale == "probability" else [Log(), LogOdds()]
        return [*score, Scale(self.slope_, self.intercept_), Sigmoid()]


#: Logarithms are clipped where a double next to one has its neighbour: log-odds of ±36 at most.
_LOG_EPSILON = float(np.log(np.finfo(np.float64).eps))

_LOG_2 = float(np.log(2.0))


class BetaCalibrator(LogisticMethod):
    """Beta calibration.

    Parameters
    ----------
    parameters : {"abm", "am", "ab"}, default="abm"
        All three parameters, equal slopes (a = b), or no location (a prediction of 0.5 stays).

    Attributes
    ----------
    a_, b_, c_ : float
        The parameters (two classes).

    References
    ----------
    M. Kull, T. Silva Filho and P. Flach. Beta calibration: a well-founded and easily implemented improvement on
    logistic calibration for binary classifiers. AISTATS 2017.

    Examples
    --------
    >>> from calibrant.calibrators import BetaCalibrator
    >>> calibrator = BetaCalibrator().fit([0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1])
    >>> bool(calibrator.a_ >= 0 and calibrator.b_ >= 0)
    True
    """

    parameters: Literal["abm", "am", "ab"] = "abm"

    #: Too small to be seen unless the data are separable.
    _ridge = 1e-11

    def _features(self, x: FloatArray) -> FloatArray:
        log_p, log_rest = np.maximum(x[:, 1], _LOG_EPSILON), np.maximum(x[:, 0], _LOG_EPSILON)
        ones = np.ones(len(x))
        if self.parameters == "am":
            return np.stack([log_p - log_rest, ones])
        if self.parameters == "ab":
            return np.stack([log_p + _LOG_2, -log_rest - _LOG_2])
        return np.stack([log_p, -log_rest, ones])

    def _search(self, known: Known, start: FloatArray | None) -> LogisticSearch:
        """The best coefficients of which the slopes are not negative.

        By convexity a slope that is negative at the free optimum is zero at the constrained one, so dropping the
        negative slopes one at a time finds it.
        """
        n_slopes = 1 if self.parameters == "am" else 2
        columns = list(range(len(known.moments)))
        while columns:
            beta = yield from known.search(start, columns=columns)
            wrong = [c for c in columns if c < n_slopes and beta[c] < 0.0]
            if not wrong:
                return beta
            columns.remove(wrong[0])
        return np.zeros(len(known.moments))

    def _store(self, coefficients: FloatArray) -> None:
        numbers = [float(c) for c in coefficients]
        if self.parameters == "am":
            self.a_, self.c_ = numbers
            self.b_ = self.a_
        elif self.parameters == "ab":
            self.a_, self.b_ = numbers
            self.c_ = (self.a_ - self.b_) * _LOG_2
        else:
            self.a_, self.b_, self.c_ = numbers

    def _stored(self) -> list[float]:
        return {"am": [self.a_, self.c_], "ab": [self.a_, self.b_]}.get(self.parameters, [self.a_, self.b_, self.c_])

    def _check_binary_state(self, state: StateCheck) -> None:
        for name in ("a_", "b_", "c_"):
            state.number(name)

    def _binary_steps(self) -> list[Step]:
        weights = np.array([[-self.b_], [self.a_]])
        return [Log(), Clip(_LOG_EPSILON, 0.0), Linear(weights, np.array([self.c_])), Sigmoid()]
