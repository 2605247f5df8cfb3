"""Binary methods on more than two classes: one-vs-rest and one-vs-one.

One-vs-rest calibrates each ``p_j`` against ``1 - p_j`` and divides by the row sum. One-vs-one calibrates each pair
``p_i / (p_i + p_j)`` on the rows of these two classes and couples the pairs r_ij by ``1 / (Σ_j 1/r_ij - (k - 2))``
(Price et al., 1995), then divides by the row sum.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator, clone

from calibrant.calibrators.base import Calibrator, steps_of
from calibrant.calibrators.identity import NoCalibrator
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.sklearn_private import HasMethods
from calibrant.steps import Columns, Normalize, OneVsOne, OneVsRest, Step
from calibrant.steps.branches import pair, rest
from calibrant.typing import FloatArray


def log_rest(x: FloatArray) -> FloatArray:
    """``log(1 - p_j)`` for every column, without cancellation next to ``p_j = 1``."""
    return np.log(rest(np.exp(x)))


def fit_columns(prototype: BaseEstimator, sample: Sample) -> BaseEstimator:
    """A clone of `prototype` fitted to validated predictions whose labels are called by their column numbers."""
    estimator = clone(prototype)
    if isinstance(estimator, Calibrator):
        estimator.fit_sample(replace(sample, classes=None))
    elif sample.counts is None:
        estimator.fit(sample.proba, sample.y)
    else:
        estimator.fit(sample.proba, sample.y, sample_weight=sample.counts)
    return estimator


def against_rest(sample: Sample, which: Iterable[int]) -> Iterator[Sample]:
    """Each of the classes `which` against the rest, as samples of two classes."""
    x, rest = sample.x, log_rest(sample.x)
    for j in which:
        two = np.column_stack([rest[:, j], x[:, j]])
        yield sample.with_values(two, logs=True, y=(sample.y == j).astype(np.int64))


def fit_one_vs_rest(prototype: BaseEstimator, sample: Sample) -> list[BaseEstimator]:
    """One clone of `prototype` for each class against the rest."""
    return [fit_columns(prototype, two) for two in against_rest(sample, range(sample.n_classes))]


def fit_one_vs_one(prototype: BaseEstimator, sample: Sample) -> list[BaseEstimator]:
    """One clone of `prototype` for each pair of classes, fitted to the rows of these two."""
    estimators = []
    for i, j in itertools.combinations(range(sample.n_classes), 2):
        some = sample.take(np.flatnonzero((sample.y == i) | (sample.y == j)))
        two = some.with_values(np.log(pair(np.exp(some.x), i, j)), logs=True, y=(some.y == j).astype(np.int64))
        estimators.append(fit_columns(prototype if two.n_rows else NoCalibrator(), two))
    return estimators


@dataclass(frozen=True)
class Lift:
    """A way to lift a binary method: how its calibrators are fitted, how many they are, how they are put together."""

    fit: Callable[[BaseEstimator, Sample], list[BaseEstimator]]
    count: Callable[[int], int]
    assembly: Callable[[tuple[list[Step], ...]], Step]

    def steps(self, estimators: list[BaseEstimator]) -> list[Step]:
        return [self.assembly(tuple(steps_of(estimator) for estimator in estimators)), Normalize()]

    def check(self, state: StateCheck) -> None:
        state.calibrators("estimators_", self.count(state.k), n_classes=2)


LIFTS = {
    "ovr": Lift(fit_one_vs_rest, lambda k: k, OneVsRest),
    "ovo": Lift(fit_one_vs_one, lambda k: k * (k - 1) // 2, OneVsOne),
}


class BinaryMethod(Calibrator):
    """Base of the methods that are defined for two classes.

    A subclass writes `_fit_binary` and `_binary_steps`; `multiclass` says how it is lifted to more classes.

    Attributes
    ----------
    estimators_ : list
        The binary calibrators (more than two classes).
    """

    multiclass: Literal["ovr", "ovo"] = "ovr"

    estimators_: list[BaseEstimator]

    def _fit(self, sample: Sample) -> None:
        if sample.n_classes == 2:
            self.__dict__.pop("estimators_", None)
            self._fit_binary(sample)
        else:
            self.estimators_ = LIFTS[self.multiclass].fit(self, sample)

    def steps(self) -> list[Step]:
        return self._binary_steps() if len(self.classes_) == 2 else LIFTS[self.multiclass].steps(self.estimators_)

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        if state.k == 2:
            self._check_binary_state(state)
        else:
            LIFTS[self.multiclass].check(state)

    @abstractmethod
    def _check_binary_state(self, state: StateCheck) -> None:
        """Check what `_fit_binary` leaves behind."""

    @abstractmethod
    def _fit_binary(self, sample: Sample) -> None:
        """Fit to log-probabilities `sample.x` (n, 2) and labels 0 or 1."""

    @abstractmethod
    def _binary_steps(self) -> list[Step]:
        """The steps of the map of two classes."""


class _Lifted(Calibrator, kw_only=False):
    """Base of the two wrappers: a binary calibrator and how it is lifted.

    Parameters
    ----------
    method : estimator
        A binary calibrator: any estimator with `fit(P, y)` and `predict_proba(P)` for two columns.
    """

    _lift: ClassVar[Lift]

    method: Annotated[BaseEstimator, HasMethods(["fit", "predict_proba"])]

    def _fit(self, sample: Sample) -> None:
        single = sample.n_classes == 2
        self.estimators_ = [fit_columns(self.method, sample)] if single else self._lift.fit(self.method, sample)

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        if state.k == 2:
            state.calibrators("estimators_", 1, n_classes=2)
        else:
            self._lift.check(state)

    def steps(self) -> list[Step]:
        return steps_of(self.estimators_[0]) if len(self.classes_) == 2 else self._lift.steps(self.estimators_)


class OneVsRestCalibrator(_Lifted):
    """Lift a binary calibrator to any number of classes, one class against the rest.

    Attributes
    ----------
    estimators_ : list
        The fitted binary calibrators, one per class (a single one for two classes).

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.calibrators import IsotonicCalibrator
    >>> from calibrant import OneVsRestCalibrator
    >>> P = np.random.default_rng(0).dirichlet(np.ones(3), size=200)
    >>> calibrator = OneVsRestCalibrator(IsotonicCalibrator()).fit(P, P.argmax(axis=1))
    >>> calibrator.predict_proba([[0.1, 0.1, 0.8]])
    array([[0., 0., 1.]])
    """

    _lift = LIFTS["ovr"]


class OneVsOneCalibrator(_Lifted):
    """Lift a binary calibrator to any number of classes, one pair of classes at a time.

    Attributes
    ----------
    estimators_ : list
        The fitted binary calibrators of the pairs (0, 1), (0, 2), ..., (k-2, k-1). A pair of which no row was seen
        keeps its predictions.

    Examples
    --------
    >>> from calibrant import OneVsOneCalibrator
    >>> from calibrant.calibrators import IsotonicCalibrator
    >>> p = [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6]] * 10
    >>> len(OneVsOneCalibrator(IsotonicCalibrator()).fit(p, [0, 1, 2] * 10).estimators_)
    3
    """

    _lift = LIFTS["ovo"]


def positive_probability(x: FloatArray) -> FloatArray:
    """The probability of the second class, from log-probabilities (n, 2)."""
    return np.exp(x[:, 1])


#: The first step of a map of the second class's probability.
POSITIVE = Columns(np.array([1]))
