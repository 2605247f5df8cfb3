"""Any scikit-learn classifier, calibrated: fit it on folds, calibrate its predictions on the rows it has not seen.

Predictions travel as log-probabilities, or as decision values where a classifier has nothing better, so that nothing
is lost to rounding next to 0 and 1. A class that the training part of a fold lacks has the log-probability ``-inf``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch, get_tags, indexable
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, _num_samples, check_is_fitted, has_fit_parameter

from calibrant.calibrators.registry import get_calibrator, list_calibrators
from calibrant.classifier.fold_fitting import calibrated, fit_calibrator, fit_fold, log_scores
from calibrant.inputs.labels import CalibrationWarning, check_labels, check_sample_weight, encode
from calibrant.typing import FloatArray

IntArray = NDArray[np.int64]


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier whose probabilities are calibrated on rows it was not trained on.

    Parameters
    ----------
    estimator : classifier
        Any scikit-learn classifier with `predict_proba` or `decision_function`. A fitted one inside a
        `sklearn.frozen.FrozenEstimator` is left as it is, and calibrated on all rows given to `fit`.
    method : str or calibrator, default="auto"
        A name of `list_calibrators`, or an unfitted calibrator; ``"auto"`` is the best one for most data.
    cv : int, splitter or iterable of (train, test) indices, default=5
        An integer makes stratified folds. Ignored for a frozen estimator.
    ensemble : bool, default=True
        `True` keeps one classifier and one calibrator a fold and averages their probabilities. `False` fits one
        calibrator to the predictions of all folds, and the classifier to all rows.
    n_jobs : int, default=None
        Folds fitted at the same time.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
    estimators_ : list
        The fitted classifiers.
    calibrators_ : list
        Their calibrators, which take log-probabilities.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict_proba"]), HasMethods(["fit", "decision_function"])],
        "method": [str, HasMethods(["fit", "predict_proba"])],
        "cv": ["cv_object"],
        "ensemble": ["boolean"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self, estimator: Any, method: Any = "auto", *, cv: Any = 5, ensemble: bool = True, n_jobs: int | None = None
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.ensemble = ensemble
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> CalibratedClassifier:
        """Fit the classifier on folds and its calibrators on the rest.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Anything the classifier takes.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None
            Counts, for the classifier if it takes them, and for the calibrator.
        **params : dict
            Further parameters of the classifier's `fit`, or with metadata routing also of the splitter's `split`.

        Returns
        -------
        self : the fitted classifier.
        """
        labels, _ = check_labels(y, _num_samples(X))
        X, labels = indexable(X, labels)
        weight = check_sample_weight(sample_weight, len(labels))
        given = None if sample_weight is None else np.ones(len(labels)) if weight is None else weight
        routed = self._route(given, params)
        calibrator = self._make_calibrator()
        if isinstance(self.estimator, FrozenEstimator):
            self._fit_frozen(calibrator, X, labels, weight)
        else:
            self.classes_ = np.unique(labels)
            self.fit_folds(calibrator, X, labels, weight, routed)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(self.estimators_[0], name):
                setattr(self, name, getattr(self.estimators_[0], name))
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Calibrated probabilities, one column a class, averaged over the folds.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        p : ndarray of shape (n, k)
        """
        check_is_fitted(self)
        k = len(self.classes_)
        parts = (
            calibrated(calibrator, log_scores(estimator, X, self.classes_), k)
            for estimator, calibrator in zip(self.estimators_, self.calibrators_)
        )
        total = next(parts)
        for part in parts:
            total += part
        return total / len(self.calibrators_)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of the calibrated probabilities, ``-inf`` for an impossible class."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable label of each row after calibration."""
        p = self.predict_proba(X)
        return self.classes_[p.argmax(axis=1)]

    def _make_calibrator(self) -> Any:
        if not isinstance(self.method, str):
            return clone(self.method)
        if self.method == "auto" and all(info.name != "auto" for info in list_calibrators()):
            return get_calibrator("logistic")
        return get_calibrator(self.method)

    def _route(self, sample_weight: FloatArray | None, params: dict[str, Any]) -> Any:
        """What `fit` of the classifier and `split` of the splitter get, whether metadata routing is on or off."""
        from sklearn import get_config

        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", sample_weight=sample_weight, **params)
        to_fit = dict(params)
        if sample_weight is not None:
            if has_fit_parameter(self.estimator, "sample_weight"):
                to_fit["sample_weight"] = sample_weight
            else:
                warnings.warn(
                    f"{type(self.estimator).__name__} takes no sample weights: they are used for calibration only.",
                    CalibrationWarning,
                    stacklevel=4,
                )
        return Bunch(estimator=Bunch(fit=to_fit), splitter=Bunch(split={}))

    def _fit_frozen(self, calibrator: Any, X: Any, labels: NDArray[Any], weight: FloatArray | None) -> None:
        estimator = self.estimator
        self.classes_ = np.asarray(estimator.classes_)
        unknown = sorted(set(labels.tolist()) - set(self.classes_.tolist()))
        if unknown:
            raise ValueError(
                f"y holds the label {unknown[0]!r}, which the frozen classifier does not know: it knows "
                f"{self.classes_.tolist()}."
            )
        scores = log_scores(estimator, X, self.classes_)
        self.estimators_ = [estimator]
        self.calibrators_ = [fit_calibrator(calibrator, scores, encode(labels, self.classes_), weight, self.classes_)]

    def fit_folds(self, calibrator: Any, X: Any, labels: NDArray[Any], weight: FloatArray | None, routed: Any) -> None:
        codes = encode(labels, self.classes_)
        splitter = check_cv(self.cv, labels, classifier=True)
        splits = [
            (np.arange(len(labels))[train], np.arange(len(labels))[test])
            for train, test in splitter.split(X, labels, **routed.splitter.split)
        ]
        tests = self._calibration_rows(codes, splits)
        folds = Parallel(n_jobs=self.n_jobs)(
            delayed(fit_fold)(
                clone(self.estimator),
                clone(calibrator) if self.ensemble else None,
                (X, labels, codes, weight, self.classes_),
                train,
                test,
                routed.estimator.fit,
            )
            for (train, _), test in zip(splits, tests)
        )
        self.estimators_ = [fitted for fitted, _ in folds]
        self.calibrators_ = [result for _, result in folds]
        if not self.ensemble:
            scores = np.concatenate(self.calibrators_)
            rows = np.concatenate(tests)
            counts = np.bincount(rows, minlength=len(labels))
            # Repeated splits predict a row several times; it is still one observation.
            share = None if weight is None and counts.max() == 1 else (1.0 if weight is None else weight[rows])
            share = None if share is None else share / counts[rows]
            self.calibrators_ = [fit_calibrator(calibrator, scores, codes[rows], share, self.classes_)]
            everything = _check_method_params(X, routed.estimator.fit)
            self.estimators_ = [clone(self.estimator).fit(X, labels, **everything)]

    def _calibration_rows(self, codes: IntArray, splits: Sequence[tuple[IntArray, IntArray]]) -> list[IntArray]:
        """The rows of each fold whose label its training part has; the others no prediction can stand for."""
        rows = []
        for i, (train, test) in enumerate(splits):
            known = np.isin(codes[test], codes[train])
            if not known.all():
                label = self.classes_.tolist()[codes[test][~known][0]]
                warnings.warn(
                    f"The training part of fold {i} has no row with the label {label!r}: rows with such labels are "
                    "left out of its calibration.",
                    CalibrationWarning,
                    stacklevel=6,
                )
            if not known.any():
                raise ValueError(
                    f"Fold {i} has no rows to calibrate on: its training part has no row of the classes of its "
                    f"{len(test)} test rows. Use fewer folds, or stratified ones."
                )
            rows.append(test[known])
        return rows

    def get_metadata_routing(self) -> Any:
        """Where metadata go: see the scikit-learn guide on metadata routing."""
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.input_tags.pairwise = inner.input_tags.pairwise
        return tags
