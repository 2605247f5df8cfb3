"""Any scikit-learn classifier, calibrated: fit it on folds, calibrate its predictions on rows it was not trained on.

A drop-in for `sklearn.calibration.CalibratedClassifierCV`: the same parameters, attributes, metadata routing and kinds
of errors. Calibrators get log-probabilities, or decision values where a classifier has no probabilities, so that
nothing is lost to rounding next to 0 and 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.svm import LinearSVC
from sklearn.utils import Bunch, Tags, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from calibrant.calibrators.multilabel import MultilabelCalibrator
from calibrant.calibrators.registry import calibrator_info, get_calibrator
from calibrant.classifier.fold_rows import calibration_rows, check_test_parts, label_splits, split_rows
from calibrant.classifier.pair import (
    CalibratedPair,
    LabelPair,
    common_map,
    fit_calibrator,
    fit_fold,
    fit_label_pairs,
    log_scores,
    response_method,
)
from calibrant.inputs.label_matrix import label_matrix
from calibrant.inputs.labels import check_labels, encode, is_matrix
from calibrant.inputs.observations import check_groups, check_sample_weight
from calibrant.inputs.words import CalibrationWarning
from calibrant.runtime import Map
from calibrant.sample import Sample
from calibrant.sklearn_private import (
    Constraints,
    HasMethods,
    Hidden,
    StrOptions,
    check_method_params,
    fit_context,
    num_samples,
)
from calibrant.steps import Scale
from calibrant.typing import AnyArray, FloatArray, IntArray

#: The methods that scikit-learn has, too ("sigmoid", "isotonic", "temperature"): as there, they calibrate decision
#: values rather than log-probabilities where a classifier has both.
_OF_DECISIONS = ("platt-logits", "isotonic", "ts")


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier whose probabilities are calibrated on rows it was not trained on.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier with `predict_proba` or `decision_function`; by default a `LinearSVC`. A fitted one
        inside a `sklearn.frozen.FrozenEstimator` is left as it is, and calibrated on the rows given to `fit`.
    method : str or calibrator, default="auto"
        A name of `list_calibrators`, or an unfitted calibrator; ``"auto"`` is the best one for most data. As
        in scikit-learn, ``"sigmoid"``, ``"isotonic"`` and ``"temperature"`` prefer decision values to probabilities,
        whichever of their names is given, and ``"sigmoid"`` is ``"platt"`` for classifiers without decision values.
    cv : int, splitter or iterable of (train, test) indices, default=None
        An integer makes stratified folds, `None` five, which keep the groups together that `fit` is given. Not used for
        a frozen estimator, unless ``ensemble=True``.
    ensemble : bool or "auto", default="auto"
        ``"auto"`` fits one calibrator to the predictions of all folds and averages the calibrated probabilities of
        the classifiers of the folds, which gives the lowest loss (see the guide). `True` fits a calibrator of its own
        to each fold, as scikit-learn does; `False` keeps a single classifier, fitted to all rows. A frozen estimator
        is calibrated on all rows, unless `True`.
    n_jobs : int, default=None
        Folds fitted at the same time.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
    estimators_ : list
        The fitted classifiers.
    calibrators_ : list
        Their calibrators, which take log-probabilities; all the same one, unless ``ensemble=True``.
    calibrated_classifiers_ : list of CalibratedPair
        The two together, each with `estimator`, `calibrators`, `classes` and `predict_proba`.
    n_features_in_, feature_names_in_
        Those of the classifier, if it has them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from calibrant import CalibratedClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CalibratedClassifier(GaussianNB(), method="ts").fit(X, y)
    >>> model.predict_proba(X[:2]).shape, len(model.calibrators_)
    ((2, 3), 5)
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "estimator": [HasMethods(["fit", "predict_proba"]), HasMethods(["fit", "decision_function"]), None],
        "method": [str, HasMethods(["fit", "predict_proba"])],
        "cv": ["cv_object", Hidden(StrOptions({"prefit"}))],
        "ensemble": ["boolean", StrOptions({"auto"})],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        method: str | BaseEstimator = "auto",
        *,
        cv: Any = None,
        ensemble: bool | str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.ensemble = ensemble
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        **params: object,
    ) -> CalibratedClassifier:
        """Fit the classifier on folds and its calibrators on the rest.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Anything the classifier takes.
        y : array-like of shape (n,), or matrix of shape (n, L)
            Labels; or zeros and ones, dense or sparse, one column for each of many labels, any number of which may be
            true: for classifiers such as `OneVsRestClassifier`, `MultiOutputClassifier`, networks and forests.
        sample_weight : array-like of shape (n,), default=None
            Counts, for the classifier if it takes them, and for the calibrator.
        groups : array-like of shape (n,), default=None
            The group of each row: rows of a group, such as those of one patient, may depend on each other. The folds of
            an integer `cv` keep groups together, a splitter gets them, and so does the calibrator for its own folds.
        **params : dict
            Further parameters of the classifier's `fit`, or with metadata routing also of the splitter's `split`.

        Returns
        -------
        self : the fitted classifier.
        """
        if isinstance(self.cv, str):
            raise ValueError(
                "cv='prefit', which older versions of scikit-learn took for fitted classifiers, is not supported. Use "
                "CalibratedClassifier(sklearn.frozen.FrozenEstimator(classifier))."
            )
        if is_matrix(y) or hasattr(y, "tocsr"):
            return self._fit_labels(X, y, sample_weight, groups, params)
        labels, _ = check_labels(y, num_samples(X))
        X, labels = indexable(X, labels)
        weight = check_sample_weight(sample_weight, len(labels))
        given = None if sample_weight is None else np.ones(len(labels)) if weight is None else weight
        together = check_groups(groups, None, len(labels))
        routed = self._route(given, groups, params)
        calibrator = self._make_calibrator()
        estimator = self._classifier()
        frozen = isinstance(estimator, FrozenEstimator)
        self.classes_ = _frozen_classes(estimator, labels) if frozen else np.unique(labels)
        if len(self.classes_) == 1:
            raise ValueError(
                f"All labels are {self.classes_.tolist()[0]!r}: one class is not enough, at least two are needed."
            )
        if frozen and self.ensemble is not True:
            pair = self._pair(estimator, calibrator)
            scores = log_scores(estimator, X, self.classes_, decisions=pair.decisions)
            fit_calibrator(pair, Sample(scores, encode(labels, self.classes_), weight, together, logs=True))
            pairs = [pair]
        else:
            pairs = self._fit_folds(calibrator, X, labels, weight, together, routed)
        self.estimators_ = [pair.estimator for pair in pairs]
        self.calibrators_ = [pair.calibrators[0] for pair in pairs]
        self._scalings = [pair.scaling for pair in pairs]
        return self._take_features()

    def _take_features(self) -> CalibratedClassifier:
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(self.estimators_[0], name):
                setattr(self, name, getattr(self.estimators_[0], name))
        return self

    def _fit_labels(
        self, X: object, y: Any, sample_weight: object, groups: object, params: Mapping[str, object]
    ) -> CalibratedClassifier:
        """`fit` for a matrix of independent labels."""
        if not (isinstance(self.method, MultilabelCalibrator) or self.method == "auto"):
            raise ValueError(
                f"y is a matrix of labels, which method={self.method!r} cannot calibrate: leave method out, or pass a "
                "MultilabelCalibrator."
            )
        calibrator = MultilabelCalibrator() if isinstance(self.method, str) else self.method
        (X,) = indexable(X)
        data = label_matrix(y, np.full(y.shape, 0.5), labels=calibrator.labels, groups=groups)
        weight = check_sample_weight(sample_weight, num_samples(X))
        routed = self._route(None if sample_weight is None else data.rows.with_counts(weight).each, groups, params)
        self.classes_, self._scalings = np.asarray(data.rows.classes), []
        estimator, calibrator = self._classifier(), clone(calibrator).set_params(input="logits", labels=self.classes_)
        if isinstance(estimator, FrozenEstimator) and self.ensemble is not True:
            splits = None
        elif self.cv is None or isinstance(self.cv, Integral):
            splits = label_splits(data, 5 if self.cv is None else int(self.cv))
        else:
            splits = list(check_cv(self.cv, data.y).split(X, data.y, **routed.splitter.split))
        self.estimators_, self.calibrators_ = fit_label_pairs(
            (estimator, calibrator), X, data, weight, splits, routed.estimator.fit, bool(self.ensemble), self.n_jobs
        )
        return self._take_features()

    @property
    def calibrated_classifiers_(self) -> list[CalibratedPair] | list[LabelPair]:
        """The fitted classifiers with their calibrators, as scikit-learn lists them."""
        check_is_fitted(self)
        if self._has_labels:
            return [LabelPair(one, [calibrator]) for one, calibrator in zip(self.estimators_, self.calibrators_)]
        return [
            self._pair(estimator, calibrator, scaling)
            for estimator, calibrator, scaling in zip(self.estimators_, self.calibrators_, self._scalings)
        ]

    @property
    def _has_labels(self) -> bool:
        return isinstance(self.calibrators_[0], MultilabelCalibrator)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Calibrated probabilities, one column per class or label, averaged over the folds.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        p : ndarray of shape (n, k)
        """
        pairs = self.calibrated_classifiers_
        total = pairs[0].predict_proba(X)
        for pair in pairs[1:]:
            total += pair.predict_proba(X)
        return total / len(pairs)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of the calibrated probabilities, ``-inf`` for an impossible class."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> AnyArray:
        """The most probable label of each row after calibration; of independent labels 1 where it is true, else 0."""
        p = self.predict_proba(X)
        if self._has_labels:
            return (p >= 0.5).astype(np.int64)
        return self.classes_[p.argmax(axis=1)]

    def to_map(self) -> Map:
        """The one map of all folds, for `export`: of a classifier's log-probabilities, else of its decision values.

        `predict_proba` is the mean of what it gives for each of `estimators_`. With ``ensemble=True`` there is none.
        """
        return common_map(self.calibrated_classifiers_)

    def _classifier(self) -> BaseEstimator:
        if self.estimator is not None:
            return self.estimator
        default = LinearSVC(random_state=0)
        return default.set_fit_request(sample_weight=True) if _routing() else default

    def _make_calibrator(self) -> BaseEstimator:
        if not isinstance(self.method, str):
            return clone(self.method)
        if self.method.strip().lower() == "sigmoid":
            decided = response_method(self._classifier(), decisions=True) == "decision_function"
            return get_calibrator("platt-logits" if decided else "platt")
        return get_calibrator(self.method)

    def _pair(
        self, estimator: BaseEstimator, calibrator: BaseEstimator | None, scaling: Scale | None = None
    ) -> CalibratedPair:
        decisions = isinstance(self.method, str) and calibrator_info(self.method).name in _OF_DECISIONS
        return CalibratedPair(estimator, [] if calibrator is None else [calibrator], self.classes_, decisions, scaling)

    def _route(self, sample_weight: FloatArray | None, groups: object, params: Mapping[str, object]) -> Bunch:
        """What `fit` of the classifier and `split` of the splitter get, whether metadata routing is on or off."""
        if _routing():
            return process_routing(self, "fit", sample_weight=sample_weight, groups=groups, **params)
        to_fit = dict(params)
        estimator = self._classifier()
        if sample_weight is not None:
            if has_fit_parameter(estimator, "sample_weight"):
                to_fit["sample_weight"] = sample_weight
            elif not isinstance(estimator, FrozenEstimator):
                warnings.warn(
                    f"{type(estimator).__name__} takes no sample weights: they are used for calibration only.",
                    CalibrationWarning,
                    stacklevel=4,
                )
        to_split = {} if groups is None else {"groups": groups}
        return Bunch(estimator=Bunch(fit=to_fit), splitter=Bunch(split=to_split))

    def _fit_folds(
        self,
        calibrator: BaseEstimator,
        X: object,
        labels: AnyArray,
        weight: FloatArray | None,
        groups: IntArray | None,
        routed: Bunch,
    ) -> list[CalibratedPair]:
        codes = encode(labels, self.classes_)
        splitter, splits = split_rows(self.cv, X, labels, groups, routed.splitter.split)
        if self.ensemble is True:
            check_test_parts(splitter, splits)
        tests = calibration_rows(self.classes_, codes, splits)
        folds = Parallel(n_jobs=self.n_jobs)(
            delayed(fit_fold)(
                self._pair(clone(self._classifier()), clone(calibrator) if self.ensemble is True else None),
                (X, labels, codes, weight, groups),
                train,
                test,
                routed.estimator.fit,
            )
            for (train, _), test in zip(splits, tests)
        )
        pairs = [pair for pair, _ in folds]
        if self.ensemble is True:
            return pairs
        rows = np.concatenate(tests)
        counts = np.bincount(rows, minlength=len(labels))
        # Repeated splits predict a row several times; it is still one observation.
        share = None if weight is None and counts.max() == 1 else (1.0 if weight is None else weight[rows])
        share = None if share is None else share / counts[rows]
        if not self.ensemble:
            everything = check_method_params(X, routed.estimator.fit)
            pairs = [self._pair(clone(self._classifier()).fit(X, labels, **everything), None)]
        scores = np.concatenate([scores for _, scores in folds])
        together = None if groups is None else groups[rows]
        first = pairs[0]
        first.calibrators = [calibrator]
        fit_calibrator(first, Sample(scores, codes[rows], share, together, logs=True))
        for pair in pairs[1:]:
            pair.calibrators, pair.scaling = first.calibrators, first.scaling
        return pairs

    def get_metadata_routing(self) -> MetadataRouter:
        """Where metadata go: see the scikit-learn guide on metadata routing."""
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self._classifier(), method_mapping=MethodMapping().add(caller="fit", callee="fit"))
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._classifier())
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.input_tags.pairwise = inner.input_tags.pairwise
        return tags


def _routing() -> bool:
    return bool(get_config()["enable_metadata_routing"])


def _frozen_classes(estimator: BaseEstimator, labels: AnyArray) -> AnyArray:
    """The classes of a fitted classifier, which must know all labels."""
    classes = np.asarray(estimator.classes_)
    unknown = sorted(set(labels.tolist()) - set(classes.tolist()))
    if unknown:
        raise ValueError(
            f"y holds the label {unknown[0]!r}, which is not a class of the frozen classifier: {classes.tolist()}."
        )
    return classes
