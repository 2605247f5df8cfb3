"""Binary methods on more than two classes: one-vs-rest and one-vs-one.

One-vs-rest calibrates each ``p_j`` against ``1 - p_j`` and divides by the row sum. One-vs-one calibrates each pair
``p_i / (p_i + p_j)`` on the rows of these two classes and couples the pairs r_ij by ``1 / (Σ_j 1/r_ij - (k - 2))``
(Price et al., 1995), then divides by the row sum.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, StrOptions

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.identity import NoCalibrator
from calibrant.calibrators.state import StateCheck
from calibrant.rowwise import row_sums
from calibrant.simplex import LOG_FLOOR
from calibrant.typing import FloatArray, IntArray


class BinaryMethod(Calibrator):
    """Base of the methods that are defined for two classes.

    A subclass writes `_fit_binary` and `_positive`; `multiclass` says how it is lifted to more classes, in which
    case `estimators_` holds the binary calibrators.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Calibrator._parameter_constraints,
        "multiclass": [StrOptions({"ovr", "ovo"})],
    }

    estimators_: list[Any]

    def __init__(
        self,
        *,
        multiclass: str = "ovr",
        input: str = "probabilities",
        classes: Any = None,
        renormalize: bool = False,
    ) -> None:
        self.multiclass = multiclass
        super().__init__(input=input, classes=classes, renormalize=renormalize)

    def _fit(self, x: FloatArray, y: IntArray, weight: FloatArray | None) -> None:
        if x.shape[1] == 2:
            self.__dict__.pop("estimators_", None)
            self._fit_binary(x, y, weight)
        else:
            fit = fit_one_vs_rest if self.multiclass == "ovr" else fit_one_vs_one
            self.estimators_ = fit(self, x, y, weight)

    def _map(self, x: FloatArray) -> FloatArray:
        if x.shape[1] == 2:
            return from_positive(self._positive(x))
        return (map_one_vs_rest if self.multiclass == "ovr" else map_one_vs_one)(self.estimators_, x)

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        if state.k == 2:
            self._check_binary_state(state)
        else:
            check_estimators(state, state.k if self.multiclass == "ovr" else state.k * (state.k - 1) // 2)

    @abstractmethod
    def _check_binary_state(self, state: StateCheck) -> None:
        """Check what `_fit_binary` leaves behind."""

    @abstractmethod
    def _fit_binary(self, x: FloatArray, y: IntArray, weight: FloatArray | None) -> None:
        """Fit to log-probabilities (n, 2) and labels 0 or 1."""

    @abstractmethod
    def _positive(self, x: FloatArray) -> FloatArray:
        """Calibrated probabilities of the second class, for log-probabilities (m, 2)."""


class _Lifted(Calibrator):
    """Base of the two wrappers: a binary calibrator and how it is lifted."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Calibrator._parameter_constraints,
        "calibrator": [HasMethods(["fit", "predict_proba"])],
    }

    def __init__(
        self, calibrator: Any, *, input: str = "probabilities", classes: Any = None, renormalize: bool = False
    ) -> None:
        self.calibrator = calibrator
        super().__init__(input=input, classes=classes, renormalize=renormalize)


class OneVsRestCalibrator(_Lifted):
    """Lift a binary calibrator to any number of classes, one class against the rest.

    Parameters
    ----------
    calibrator : estimator
        A binary calibrator: any estimator with `fit(P, y)` and `predict_proba(P)` for two columns.

    Attributes
    ----------
    estimators_ : list
        The fitted binary calibrators, one per class (a single one for two classes).

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.calibrators.binary.isotonic import IsotonicCalibrator
    >>> from calibrant.calibrators.lifting import OneVsRestCalibrator
    >>> P = np.random.default_rng(0).dirichlet(np.ones(3), size=200)
    >>> calibrator = OneVsRestCalibrator(IsotonicCalibrator()).fit(P, P.argmax(axis=1))
    >>> calibrator.predict_proba([[0.1, 0.1, 0.8]])
    array([[0., 0., 1.]])
    """

    def _fit(self, x: FloatArray, y: IntArray, weight: FloatArray | None) -> None:
        fit = fit_one_vs_rest if x.shape[1] > 2 else _fit_single
        self.estimators_ = fit(self.calibrator, x, y, weight)

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        check_estimators(state, 1 if state.k == 2 else state.k)

    def _map(self, x: FloatArray) -> FloatArray:
        return map_columns(self.estimators_[0], x) if x.shape[1] == 2 else map_one_vs_rest(self.estimators_, x)


class OneVsOneCalibrator(_Lifted):
    """Lift a binary calibrator to any number of classes, one pair of classes at a time.

    Parameters
    ----------
    calibrator : estimator
        A binary calibrator: any estimator with `fit(P, y)` and `predict_proba(P)` for two columns.

    Attributes
    ----------
    estimators_ : list
        The fitted binary calibrators of the pairs (0, 1), (0, 2), ..., (k-2, k-1). A pair of which no row was seen
        keeps its predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.calibrators.binary.isotonic import IsotonicCalibrator
    >>> from calibrant.calibrators.lifting import OneVsOneCalibrator
    >>> P = np.random.default_rng(0).dirichlet(np.ones(3), size=200)
    >>> calibrator = OneVsOneCalibrator(IsotonicCalibrator()).fit(P, P.argmax(axis=1))
    >>> calibrator.predict_proba([[0.1, 0.1, 0.8]])
    array([[0., 0., 1.]])
    """

    def _fit(self, x: FloatArray, y: IntArray, weight: FloatArray | None) -> None:
        fit = fit_one_vs_one if x.shape[1] > 2 else _fit_single
        self.estimators_ = fit(self.calibrator, x, y, weight)

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        check_estimators(state, state.k * (state.k - 1) // 2)

    def _map(self, x: FloatArray) -> FloatArray:
        return map_columns(self.estimators_[0], x) if x.shape[1] == 2 else map_one_vs_one(self.estimators_, x)


def check_estimators(state: StateCheck, count: int) -> None:
    """Check the binary calibrators of a lifted one."""
    state.calibrators("estimators_", count, n_classes=2)


def fit_columns(prototype: Any, x: FloatArray, y: IntArray, weight: FloatArray | None) -> Any:
    """A clone of `prototype` fitted to log-probabilities and column numbers, without validating them again."""
    estimator = clone(prototype)
    if isinstance(estimator, Calibrator):
        estimator.fit_log_probabilities(x, y, weight, np.arange(x.shape[1]))
    elif weight is None:
        estimator.fit(np.exp(x), y)
    else:
        estimator.fit(np.exp(x), y, sample_weight=weight)
    return estimator


def map_columns(estimator: Any, x: FloatArray) -> FloatArray:
    """Calibrated probabilities of log-probabilities, from an estimator of `fit_columns`."""
    if isinstance(estimator, Calibrator):
        return estimator._map(x)
    return np.asarray(estimator.predict_proba(np.exp(x)), dtype=np.float64)


def _fit_single(prototype: Any, x: FloatArray, y: IntArray, weight: FloatArray | None) -> list[Any]:
    return [fit_columns(prototype, x, y, weight)]


def fit_one_vs_rest(prototype: Any, x: FloatArray, y: IntArray, weight: FloatArray | None) -> list[Any]:
    """One clone of `prototype` for each class against the rest."""
    rest = log_rest(x)
    return [
        fit_columns(prototype, np.column_stack([rest[:, j], x[:, j]]), (y == j).astype(np.int64), weight)
        for j in range(x.shape[1])
    ]


def map_one_vs_rest(estimators: list[Any], x: FloatArray) -> FloatArray:
    """Probabilities of `fit_one_vs_rest`, divided by their sum."""
    rest = log_rest(x)
    q = np.empty_like(x)
    for j, estimator in enumerate(estimators):
        q[:, j] = map_columns(estimator, np.column_stack([rest[:, j], x[:, j]]))[:, 1]
    return normalize_rows(q)


def fit_one_vs_one(prototype: Any, x: FloatArray, y: IntArray, weight: FloatArray | None) -> list[Any]:
    """One clone of `prototype` for each pair of classes, fitted to the rows of these two."""
    estimators = []
    for i, j in itertools.combinations(range(x.shape[1]), 2):
        rows = np.flatnonzero((y == i) | (y == j))
        pair = _pair(x[rows], i, j)
        pair_weight = None if weight is None else weight[rows]
        chosen = prototype if rows.size else NoCalibrator()
        estimators.append(fit_columns(chosen, pair, (y[rows] == j).astype(np.int64), pair_weight))
    return estimators


def map_one_vs_one(estimators: list[Any], x: FloatArray) -> FloatArray:
    """Probabilities of `fit_one_vs_one`, coupled."""
    k = x.shape[1]
    inverse_sum = np.zeros_like(x)
    with np.errstate(divide="ignore"):
        for (i, j), estimator in zip(itertools.combinations(range(k), 2), estimators):
            r = map_columns(estimator, _pair(x, i, j))
            inverse_sum[:, i] += 1.0 / r[:, 0]
            inverse_sum[:, j] += 1.0 / r[:, 1]
        # Each 1/r is at least one, so the denominator is: a class is never given a negative probability.
        return normalize_rows(1.0 / np.maximum(inverse_sum - (k - 2), 1.0))


def _pair(x: FloatArray, i: int, j: int) -> FloatArray:
    """Log-probabilities of classes i and j given that it is one of the two."""
    pair = x[:, [i, j]]
    pair -= np.logaddexp(pair[:, 0], pair[:, 1])[:, None]
    return np.maximum(pair, LOG_FLOOR, out=pair)


def log_rest(x: FloatArray) -> FloatArray:
    """``log(1 - p_j)`` for every column, without cancellation next to ``p_j = 1``."""
    p = np.exp(x)
    rows, top = np.arange(len(x)), x.argmax(axis=1)
    p_top = p[rows, top]
    p[rows, top] = 0.0
    others = row_sums(p)
    rest = (others + p_top)[:, None] - p  # at least p_top, which is at least 1/k: nothing cancels
    rest[rows, top] = others
    with np.errstate(divide="ignore"):
        np.log(rest, out=rest)
    return np.maximum(rest, LOG_FLOOR, out=rest)


def normalize_rows(q: FloatArray) -> FloatArray:
    """Rows divided by their sum; a row of nothing but zeros becomes uniform. Overwrites `q`."""
    total = row_sums(q)[:, None]
    np.divide(q, total, out=q, where=total > 0.0)
    q[total[:, 0] <= 0.0] = 1.0 / q.shape[1]
    return q


def from_positive(q: FloatArray) -> FloatArray:
    """Two columns from the probability of the second class."""
    return np.column_stack([1.0 - q, q])


def positive_probability(x: FloatArray) -> FloatArray:
    """The probability of the second class, from log-probabilities (n, 2)."""
    return np.exp(x[:, 1])
