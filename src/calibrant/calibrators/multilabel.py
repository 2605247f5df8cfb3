"""`MultilabelCalibrator`: independent probabilities of many labels, each with a map that borrows from the others."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.columns_of_classes import for_json
from calibrant.calibrators.identity import NoCalibrator
from calibrant.calibrators.label_shrinkage import fit_labels, own_steps
from calibrant.calibrators.parameters import ColumnLabels, NotNegativeInt, Parameters
from calibrant.calibrators.scaling.logistic import LogisticCalibrator
from calibrant.calibrators.state import StateCheck
from calibrant.inputs.label_matrix import label_matrix
from calibrant.inputs.words import CALIBRATOR, CalibrationWarning
from calibrant.numerals import amount, count, percent
from calibrant.runtime import Map
from calibrant.sample import Sample
from calibrant.steps import Columns, Join, Scale, Step, Sum
from calibrant.text_table import list_names
from calibrant.threads import limit
from calibrant.typing import FloatArray, IntArray

#: Labels that were seen less often are said to lean on the others.
_RARE = 10
#: The prediction whose calibrated value tells which labels are changed most.
_LOOKED_AT = 0.5


class MultilabelCalibrator(Parameters, BaseEstimator, kw_only=False):
    """Calibrates independent probabilities of many labels, any number of which may be true in a row.

    Each label has a map of its own: a quadratic function of the log-odds. All maps are drawn to a common one, by
    strengths that cross-validation finds, so that rare labels borrow from frequent ones; and the result is pooled with
    the common map and with the unchanged predictions.

    Parameters
    ----------
    labels : array-like of shape (L,), default=None
        The label of each column of the predictions. By default the names of the columns of a data frame, or the column
        numbers; of lists of labels, those seen, in sorted order.
    input : {"probabilities", "logits"}, default="probabilities"
        What predictions are; logits are log-odds, one for each label.
    random_state : int, default=0
        Seed of the folds.

    Attributes
    ----------
    classes_ : ndarray of shape (L,)
        The labels, in the order of the columns.
    label_counts_ : ndarray of shape (L,)
        How often each label was true in `fit`, counting weights.
    shared_ : LogisticCalibrator
        The map of all labels together.
    coefficients_ : ndarray of shape (L, 3)
        Of 1, t and t² in the log-odds of each label, for the log-odds t that `shared_` gives.
    weights_ : ndarray of shape (3,)
        Shares of the unchanged predictions, of `shared_` and of the maps of the labels in the result.
    strengths_ : ndarray of shape (2,)
        How strongly intercepts, and slopes and curvatures, are drawn to their common mean.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import MultilabelCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random((300, 4))
    >>> y = (rng.random((300, 4)) < p**2).astype(int)  # all labels are predicted too often
    >>> calibrator = MultilabelCalibrator(labels=["a", "b", "c", "d"]).fit(p, y)
    >>> calibrator.predict_proba(np.full((1, 4), 0.5)).round(2)
    array([[0.29, 0.28, 0.29, 0.31]])
    """

    labels: ColumnLabels | None = None
    _: KW_ONLY
    input: Literal["probabilities", "logits"] = "probabilities"
    random_state: NotNegativeInt = 0

    @property
    def takes_logits(self) -> bool:
        """Whether predictions are log-odds."""
        return self.input == "logits"

    def fit(
        self,
        X: object,
        y: object,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        blocks: int | None = None,
    ) -> MultilabelCalibrator:
        """Learn the maps from held-out predictions.

        Parameters
        ----------
        X : array-like or data frame of shape (n, L), or list of L arrays of shape (n, 2)
            The probability that each label is true of a row, or its log-odds if `input` says so.
        y : array-like, data frame or sparse matrix of shape (n, L), or list of lists of labels
            1 where a label is true, 0 where it is not; or the labels of each row. The columns of a data frame are
            matched with those of `X` by name, with or without a common beginning or end, as in sports and p_sports.
        sample_weight : array-like of shape (n,), default=None
            Counts: weight 2 equals a repeated row, weight 0 an absent one.
        groups : array-like of shape (n,), default=None
            The group of each row: rows of a group may depend on each other, and folds keep them together.
        blocks : int, default=None
            Instead of groups, for rows in order of time: how many consecutive rows belong together.

        Returns
        -------
        self : the fitted calibrator.
        """
        self._check_parameters()
        data = label_matrix(
            y, X, sample_weight, self.labels, groups=groups, blocks=blocks, logits=self.takes_logits, words=CALIBRATOR
        )
        self.classes_, self.n_features_in_ = np.asarray(data.rows.classes), data.on.shape[1]
        self._column_names = list(X.columns) if hasattr(X, "columns") else None
        self.label_counts_, self.fitted_to_ = data.rows.each @ data.y, str(data.rows)
        if not self.label_counts_.any() or not (self.label_counts_ < data.rows.total).any():
            state = "no label is true in any row" if not self.label_counts_.any() else "every label is true in all rows"
            warnings.warn(
                f"In these {data.rows.n_rows} calibration rows {state}: little can be learned from them.",
                CalibrationWarning,
                stacklevel=2,
            )
        with limit():
            found = fit_labels(data, _fit_shared, self.random_state)
        self.shared_, self.coefficients_ = found.shared, found.coefficients
        self.weights_, self.strengths_ = found.weights, found.strengths
        return self

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Calibrated probabilities, one column per label in the order of `classes_`.

        Parameters
        ----------
        X : array-like or data frame of shape (n, L), or list of L arrays of shape (n, 2)
            Predictions as in `fit`; the columns of a data frame may have any order.

        Returns
        -------
        p : ndarray of shape (n, L)
            Rows need not sum to one.
        """
        check_is_fitted(self, "classes_")
        return self.to_map().predict_proba(X)

    def predict(self, X: ArrayLike, *, threshold: object = 0.5) -> IntArray:
        """1 where a label's calibrated probability reaches its threshold, else 0.

        Parameters
        ----------
        X : array-like or data frame of shape (n, L), or list of L arrays of shape (n, 2)
            Predictions as in `fit`.
        threshold : float, DecisionRule, sequence of L of them, or dict from label to one, default=0.5
            A rule brings the threshold that its costs lead to. Labels that a dictionary does not name get 0.5.

        Examples
        --------
        >>> from calibrant import DecisionRule, MultilabelCalibrator
        >>> p, y = [[0.9, 0.2], [0.1, 0.1]] * 20, [[1, 0], [0, 0]] * 20
        >>> calibrator = MultilabelCalibrator(labels=["spam", "fraud"]).fit(p, y)
        >>> missed = DecisionRule(false_positive=1, false_negative=200)
        >>> calibrator.predict([[0.9, 0.2]], threshold={"fraud": missed}).tolist()
        [[1, 1]]
        """
        p = self.predict_proba(X)
        labels = self.classes_.tolist()
        if isinstance(threshold, Mapping):
            if unknown := [label for label in threshold if label not in labels]:
                raise ValueError(
                    f"threshold names {unknown[0]!r}, which is not one of the labels {list_names(labels, 10)}."
                )
            threshold = [threshold.get(label, 0.5) for label in labels]
        given = threshold if isinstance(threshold, (list, tuple, np.ndarray)) else [threshold] * len(labels)
        limits = np.array([getattr(one, "threshold", one) for one in given], dtype=np.float64)
        if limits.shape != (len(labels),) or np.isnan(limits).any():
            raise ValueError(f"threshold should be one number, or one for each of the {len(labels)} labels.")
        return (p >= limits).astype(np.int64)

    def steps(self) -> list[Step]:
        """What the fitted map does to a row of probabilities that labels are not, and are, true: (n, 2L) to (n, L)."""
        check_is_fitted(self, "classes_")
        shared, n_labels = self.shared_.steps(), len(self.classes_)
        as_is, common, own = (Scale(float(weight)) for weight in self.weights_)
        parts = []
        for j, coefficients in enumerate(self.coefficients_):
            pool = Sum(([as_is], [*shared, common], [*shared, *own_steps(coefficients), own]))
            parts.append([Columns(np.array([j, n_labels + j])), pool, Columns(np.array([1]))])
        return [Join(tuple(parts))]

    def to_map(self) -> Map:
        """The fitted map by itself, which needs NumPy alone: see `calibrant.runtime`."""
        steps = self.steps()
        labels, names = for_json(self.classes_, self._column_names)
        return Map(labels, steps, self.takes_logits, method=type(self).__name__, names=names, independent=True)

    def _runs_by_steps(self) -> bool:
        return True

    def summary(self) -> str:
        """What was found, in sentences.

        Examples
        --------
        >>> from calibrant import MultilabelCalibrator
        >>> p, y = [[0.9, 0.2], [0.6, 0.1]] * 20, [[1, 0], [0, 0]] * 20
        >>> print(MultilabelCalibrator(labels=["spam", "fraud"]).fit(p, y).summary())
        MultilabelCalibrator, fitted to 40 rows and 2 labels, true 0 to 20 times.
        A probability of 50.0% becomes 8.1% for the median label.
        The result is 45% the map of each label, 39% the map of all labels and 15% the unchanged prediction.
        1 label was true fewer than 10 times and mostly follows the others: fraud.
        """
        check_is_fitted(self, "classes_")
        return "\n".join(_sentences(self))

    def check_state(self) -> None:
        """Raise `ValueError` unless the fitted state is one that `fit` could have left: see `StateCheck`."""
        parameters = self._get_param_names()
        state = StateCheck({name: value for name, value in vars(self).items() if name not in parameters}, fewest=1)
        self._check_parameters()
        state.require(state.number("n_features_in_") == state.k, "n_features_in_ should be the number of labels")
        state.array("label_counts_", state.k, low=0.0)
        state.calibrator("shared_", 2)
        state.array("coefficients_", state.k, 3)
        state.require(abs(state.array("weights_", 3, low=0.0).sum() - 1.0) < 1e-9, "weights_ should sum to one")
        state.said(fitted_to_=str)
        state.information("strengths_", "_column_names")
        names = self._column_names
        state.require(names is None or (isinstance(names, list) and len(names) == state.k), "_column_names do not fit")
        state.finish(type(self).__name__)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.input == "probabilities"
        tags.target_tags.multi_output = True
        return tags


def _fit_shared(pooled: Sample) -> Calibrator:
    """The map of all labels; nothing is changed where all cells are alike."""
    with warnings.catch_warnings():
        # Few cells may be separable, which the ridge of the labels' maps and the pool with the others make up for.
        warnings.simplefilter("ignore", CalibrationWarning)
        return (LogisticCalibrator() if pooled.class_counts.all() else NoCalibrator()).fit_sample(pooled)


def _sentences(calibrator: MultilabelCalibrator) -> list[str]:
    """How much there was, what is common to all labels, which differ most, and which lean on the others."""
    labels, counts = calibrator.classes_.tolist(), calibrator.label_counts_
    shown = np.full((1, len(labels)), 0.0 if calibrator.takes_logits else _LOOKED_AT)
    p = calibrator.to_map().predict_proba(shown)[0]
    lines = [
        f"MultilabelCalibrator, fitted to {calibrator.fitted_to_} and {amount(len(labels), 'label')}, "
        f"true {count(counts.min())} to {count(counts.max())} times.",
        f"A probability of {percent(_LOOKED_AT)} becomes {percent(float(np.median(p)))} for the median label.",
    ]
    as_is, common, own = calibrator.weights_
    lines.append(
        f"The result is {percent(own, 0)} the map of each label, {percent(common, 0)} the map of all labels and "
        f"{percent(as_is, 0)} the unchanged prediction."
    )
    if len(labels) > 1 and p.max() - p.min() > 0.01:
        low, high = labels[int(p.argmin())], labels[int(p.argmax())]
        lines.append(
            f"It becomes {percent(p.min())} for {low}, the lowest, and {percent(p.max())} for {high}, the highest."
        )
    rare = [label for label, seen in zip(labels, counts) if seen < _RARE]
    if rare and len(labels) > 1:
        many = len(rare) > 1
        lines.append(
            f"{len(rare)} label{'s were' if many else ' was'} true fewer than {_RARE} times and mostly follow"
            f"{'' if many else 's'} the others: {list_names(rare, 5, str)}."
        )
    return lines
