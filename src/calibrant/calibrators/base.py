"""The base of all calibrators: scikit-learn estimators whose input contract is the same everywhere.

`fit` validates predictions, labels, weights and groups and gives a subclass a `Sample` of float64 log-probabilities;
`predict_proba` runs the steps of the fitted map on validated probabilities block by block, so that temporaries stay
small. A subclass writes `_fit`, `steps` (or `_map`, if its map is not a list of steps) and, for its fitted attributes
to be stored, `_check_state`; it need not repeat any check made here.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from calibrant.bins import quantiles
from calibrant.calibrators.batch_fitting import BatchFitting
from calibrant.calibrators.columns_of_classes import ClassColumns, for_json
from calibrant.calibrators.dispatch import dispatch_fit, dispatch_predict, needs_dispatch, top_labels
from calibrant.calibrators.inverse_map import InverseMap
from calibrant.calibrators.kept_rule import KeptRule
from calibrant.calibrators.kept_steps import KeptSteps, kept_steps
from calibrant.calibrators.parameters import ColumnLabels, Parameters
from calibrant.calibrators.probability_intervals import ProbabilityIntervals
from calibrant.calibrators.score_scaling import DIRECTIONS, ScoreScale, find_scale, warn_of_direction
from calibrant.calibrators.state import StateCheck
from calibrant.calibrators.summary import Summary
from calibrant.inputs.dense import from_rows, labelled_rows, to_rows
from calibrant.inputs.label_matrix import check_not_labels
from calibrant.inputs.labels import (
    are_positions,
    warn_of_missing_information,
    warn_of_order,
)
from calibrant.inputs.observations import check_groups, check_observations, encoded, observations
from calibrant.inputs.predictions import as_matrix, check_logits, check_scores, rounding_of, to_log_probabilities
from calibrant.inputs.probability_columns import take_columns
from calibrant.inputs.samples import order_in_doubt
from calibrant.inputs.words import CALIBRATOR, CalibrationWarning
from calibrant.rowwise import TILE
from calibrant.runtime import BLOCK_ELEMENTS, Map, predict
from calibrant.sample import Sample
from calibrant.simplex import log_in_place
from calibrant.sklearn_private import StrOptions
from calibrant.steps import Function, Log, Scale, Step, Steps, run_from_logs
from calibrant.threads import for_products, limit
from calibrant.typing import AnyArray, FloatArray, Label

InputKind = Annotated[str, StrOptions({"probabilities", "logits", *DIRECTIONS})]


class Calibrator(
    ClassColumns,
    KeptSteps,
    BatchFitting,
    Summary,
    ProbabilityIntervals,
    InverseMap,
    KeptRule,
    Parameters,
    ClassifierMixin,
    BaseEstimator,
    ABC,
):
    """Base class of all calibrators.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The labels, in the order of the columns that `predict_proba` returns.
    class_counts_ : ndarray of shape (k,)
        How often each label occurred in `fit`, counting weights.
    n_features_in_ : int
        Number of columns of the predictions seen in `fit`.
    feature_names_in_ : ndarray of one name per column
        Column names, if `fit` saw a data frame whose column names are strings.
    score_factor_, score_shift_ : float
        What scores are multiplied by and what is added to make logits of them, with ``input="scores"``.
    """

    _: KW_ONLY
    input: InputKind = "probabilities"
    classes: ColumnLabels | None = None
    renormalize: bool = False

    #: Whether `_fit` itself takes no more than some of the rows, drawn at random.
    _draws_rows: ClassVar[bool] = False
    #: How `_fit` wants log-probabilities to lie in memory.
    _order: ClassVar[Literal["C", "F"]] = "C"
    #: How logarithms are taken of the probabilities that it is fitted to.
    _log = staticmethod(log_in_place)

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        blocks: int | None = None,
        label: str | None = None,
        probs: str | Sequence[str] | None = None,
        axis: int | None = None,
        ignore_index: Label = None,
    ) -> Calibrator:
        """Learn the calibration map from held-out predictions.

        Parameters
        ----------
        X : array-like or data frame of shape (n, k), (n,) or (n, 1)
            Predicted probabilities, or what `input` says. A single column is the probability of ``classes_[1]``. With
            `label` or `probs` a data frame that may hold any other columns.
        y : array-like of shape (n,) or (n, k), default=None
            Labels, unless `label` names their column; or probabilities or votes, one column per class in the order of
            the predictions: a row then counts as if it were there once for each class with these numbers as weights.
        sample_weight : array-like of shape (n,), default=None
            Counts: weight 2 equals a repeated row, weight 0 an absent one. A text is the name of a column of `X`.
        groups : array-like of shape (n,) or str, default=None
            The group of each row, or the column of `X` that says it: rows of a group, such as those of one patient, may
            depend on each other. Methods that cross-validate keep groups together in their folds, and count a group as
            one observation where they weigh evidence; all others ignore groups.
        blocks : int, default=None
            Instead of groups, for rows in order of time: how many consecutive rows belong together.
        label : str, default=None
            The column of the labels in the data frame `X`; of the others those are taken that are named by the classes,
            such as ``p_cat`` and ``p_dog``.
        probs : str or sequence of str, default=None
            Names or patterns (``"p_*"``) of the columns of predictions in the data frame `X`.
        axis : int, default=None
            The axis of the classes in predictions of any shape, 1 for segmentations (images, classes, height, width).
            Labels, weights and groups have the shape of the predictions without it; every place is a row.
        ignore_index : label, default=None
            Places with this label are left out, such as 255 in many segmentation data sets.

        Returns
        -------
        self : the fitted calibrator.
        """
        if label is not None or probs is not None or isinstance(sample_weight, str) or isinstance(groups, str):
            X, y, sample_weight, groups = take_columns(
                X,
                y,
                sample_weight,
                groups,
                label=label,
                probs=probs,
                classes=None if self.classes is None else list(np.asarray(self.classes).tolist()),
                probabilities=not self.takes_logits,
            )
        if axis is not None or ignore_index is not None:
            X, y, sample_weight, groups = labelled_rows(
                X, y, axis, ignore_index, sample_weight=sample_weight, groups=groups
            )
        self._check_parameters()
        for name in ("batches_", "score_factor_", "score_shift_", "scores_seen_", "percentages_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if dispatch_fit(self, X, y, sample_weight, groups, blocks):
            return self
        sample = self._check_labelled(X, y, sample_weight, groups, blocks)
        with limit():
            self._fit(sample)
        return self

    def _check_labelled(
        self, X: object, y: object, sample_weight: object, groups: object, blocks: int | None
    ) -> Sample:
        """The sample that `_fit` gets, made of what `fit` was given."""
        array, names = as_matrix(X)
        check_not_labels(array, y, logits=self.takes_logits)
        if self.input == "logits":
            check_logits(array)
        grouped = groups is not None or blocks is not None
        together = check_groups(groups, blocks, len(array)) if grouped else None
        rows, labels, counts, categories = observations(y, array.shape, sample_weight, self.classes)
        check_observations(len(labels), counts)
        if self.takes_scores:
            scores = check_scores(array)[slice(None) if rows is None else rows]
            self._take_names(labels, max(2, scores.shape[1]), scores.shape[1], names, categories)
            order = None if scores.shape[1] == 1 else self._column_order
            self._take_scale(encoded(Sample(scores, labels, counts), self.classes_, order))
        x = to_log_probabilities(
            array,
            logits=self.takes_logits,
            renormalize=self.renormalize,
            rounding=rounding_of(X),
            log=self._log,
            order=self._order,
            scale=None if self._score_step is None else self._score_step.apply,
        )
        if rows is not None:
            x, together = x[rows], None if together is None else together[rows]
        self._take_names(labels, x.shape[1], 1 if array.ndim == 1 else array.shape[1], names, categories)
        given = encoded(Sample(x, labels, counts, together, logs=True, rows=rows), self.classes_, self._column_order)
        if self.classes is None and (wrong := order_in_doubt(given, names, CALIBRATOR)):
            if names is not None and not are_positions(names):
                raise ValueError(wrong)
            warnings.warn(wrong, CalibrationWarning, stacklevel=3)
        return self._take_sample(given)

    @property
    def _score_step(self) -> Scale | None:
        """What makes logits of scores."""
        if not self.takes_scores:
            return None
        found = ScoreScale(self.score_factor_, self.score_shift_)
        return found.step(self.n_features_in_, len(self.classes_))

    def _take_scale(self, sample: Sample) -> None:
        """Find the direction and the scale of scores."""
        found = find_scale(sample, DIRECTIONS[self.input])
        warn_of_direction(DIRECTIONS[self.input], found.direction)
        self.score_factor_, self.score_shift_ = found.factor, found.shift
        self.scores_seen_ = quantiles(sample.values.ravel(), None, np.array([0.05, 0.25, 0.5, 0.75, 0.95]))

    def _take_sample(self, sample: Sample) -> Sample:
        """Note how many rows and observations there are; warn if nothing can be learned, or of the order of classes."""
        self.class_counts_, self.fitted_to_ = sample.class_counts, str(sample)
        warn_of_order(self.classes_)
        self._warn_of_missing_information(sample)
        return sample

    def fit_sample(self, sample: Sample) -> Calibrator:
        """Fit to what another calibrator has validated already: for calibrators made of calibrators."""
        self._check_parameters()
        self._name_classes(np.arange(sample.n_classes) if sample.classes is None else sample.classes)
        with limit():
            self._fit(sample)
        return self

    def predict_proba(self, X: ArrayLike, *, axis: int | None = None) -> AnyArray:
        """Calibrated probabilities, float32 for float32 or narrower input, else float64.

        Parameters
        ----------
        X : array-like or data frame of shape (n, k), (n,) or (n, 1)
            Predictions with the columns seen in `fit`.
        axis : int, default=None
            The axis of the classes in predictions of any shape, which the result keeps.

        Returns
        -------
        p : ndarray of shape (n, k)
            One column per class, in the order of `classes_`; of a torch tensor a tensor on its device, through which
            gradients flow if it asks for them.
        """
        if axis is not None:
            return cast("AnyArray", from_rows(self.predict_proba(to_rows(X, axis)), X, axis))
        if needs_dispatch(X):
            check_is_fitted(self)
            return cast("AnyArray", dispatch_predict(self, X, partial(kept_steps, make=steps_of)))
        return self._run(X)

    def _run(
        self, X: object, steps: Steps | None = None, *, each: int = 1, beside: FloatArray | None = None
    ) -> AnyArray:
        """Run the steps of the map, or others that give `each` numbers for every class, on predictions.

        `beside` (n, c) holds further numbers of each row, for maps that need them.
        """
        array, order = self._check_predictions(X)
        k = len(self.classes_)
        with for_products(max(min(max(1, BLOCK_ELEMENTS // k), len(array)), TILE), k, k):
            return predict(
                kept_steps(self, steps_of) if steps is None else steps,
                array,
                order,
                k=each * k,
                logits=self.takes_logits,
                renormalize=self.renormalize,
                rounding=rounding_of(X),
                beside=beside,
                scaling=self._score_step,
            )

    def predict_log_proba(self, X: Any, *, axis: int | None = None) -> AnyArray:
        """Logarithms of the calibrated probabilities, ``-inf`` for an impossible class."""
        p: Any = self.predict_proba(X, axis=axis)
        with np.errstate(divide="ignore"):
            return p.log() if hasattr(p, "log") else np.log(p)

    def predict(self, X: Any, *, axis: int | None = None) -> AnyArray:
        """The most probable label of each row, or place, after calibration."""
        if axis is not None:
            return cast("AnyArray", from_rows(self.predict(to_rows(X, axis)), X, axis))
        top: Any = self.predict_proba(X).argmax(1)
        return top_labels(self.classes_, top)

    @abstractmethod
    def _fit(self, sample: Sample) -> None:
        """Fit to log-probabilities `sample.x` (n, k), column numbers `sample.y`, weights and groups."""

    def steps(self) -> list[Step]:
        """What the fitted map does to probabilities, step by step: see `calibrant.steps`.

        Examples
        --------
        >>> from calibrant import get_calibrator
        >>> get_calibrator("ts", smoothing=False).fit([0.1, 0.2, 0.6, 0.9], [0, 1, 0, 1]).steps()
        [Log(), Scale(factor=0.478..., shift=0.0), Softmax()]
        """
        # Methods that run models of other packages define `_map` instead.
        raise TypeError(
            f"The map of {type(self).__name__} is not a list of steps, so it runs only in Python, with this class."
        )

    def to_map(self) -> Map:
        """The fitted map by itself, which needs NumPy alone: see `calibrant.runtime`."""
        check_is_fitted(self, "classes_")
        classes, names = for_json(self.classes_, self._column_names)
        if self._column_names is None and self.n_features_in_ == 1:
            names = [str(classes[1])]
        return Map(
            classes,
            self.steps(),
            self.takes_logits,
            self.renormalize,
            self._column_order,
            type(self).__name__,
            names=names,
            scaling=self._score_step,
            rule=self.rule_.table if "rule_" in vars(self) else None,
        )

    def _runs_by_steps(self) -> bool:
        return type(self)._map is Calibrator._map

    def _prediction_steps(self) -> list[Step]:
        return self.steps() if self._runs_by_steps() else [Log(), Function(self._map)]

    def _map(self, x: FloatArray) -> FloatArray:
        """Calibrated probabilities of log-probabilities `x` (m, k); `x` may be overwritten."""
        return run_from_logs(self.steps(), x)

    def check_state(self) -> None:
        """Raise `ValueError` unless the fitted state is one that `fit` could have left: see `StateCheck`."""
        parameters = self._get_param_names()
        state = StateCheck({name: value for name, value in vars(self).items() if name not in parameters})
        self._check_parameters()
        self._check_state(state)
        self._check_uncertainty(state)
        self._check_rule(state)
        state.information("audit_")  # which files keep beside the calibrator, and check
        state.finish(type(self).__name__)

    def _check_state(self, state: StateCheck) -> None:
        """Declare and check what `fit` leaves behind, so that it may come from a file; a subclass adds its own."""
        state.names()
        state.said(batches_=dict, fitted_to_=str, scores_seen_=5, percentages_=bool)
        batches = vars(self).get("batches_", {"rows": 0, "rows_used": 0})
        state.require({"rows", "rows_used"} <= batches.keys(), "batches_ should hold rows and rows_used")
        if self.takes_scores:
            state.number("score_factor_")
            state.number("score_shift_")

    def _log_probabilities(self, X: object) -> FloatArray:
        """Validated log-probabilities, one column per class: what `_fit` gets, for other kinds of prediction."""
        array, order = self._check_predictions(X)
        x = to_log_probabilities(
            array,
            logits=self.takes_logits,
            renormalize=self.renormalize,
            rounding=rounding_of(X),
            scale=None if self._score_step is None else self._score_step.apply,
        )
        return x if order is None else np.ascontiguousarray(x[:, order])

    def _warn_of_missing_information(self, sample: Sample) -> None:
        # Comparing the first and the last row almost always shows that predictions differ.
        x, codes = sample.values, sample.y
        all_equal = bool((x[0] == x[-1]).all()) and bool((x == x[0]).all())
        only = self.classes_[codes[0]] if bool(np.all(codes == codes[0])) else None
        warn_of_missing_information(len(x), only, all_equal)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.input == "probabilities"
        tags.classifier_tags.poor_score = True
        return tags


def steps_of(estimator: BaseEstimator) -> list[Step]:
    """The steps of any fitted estimator of probabilities; one that has none runs as a function."""
    if not isinstance(estimator, Calibrator):
        return [Function(estimator.predict_proba)]
    return estimator._prediction_steps()


def has_steps(calibrator: Any) -> bool:
    """Whether the map of a calibrator is its list of steps, not a method of its own."""
    return bool(calibrator._runs_by_steps())
