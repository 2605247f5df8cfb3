"""A scikit-learn classifier whose `predict` is the cheapest action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from calibrant.decisions.rule import DecisionRule
from calibrant.docs import describe_parameters
from calibrant.text_table import list_names
from calibrant.typing import AnyArray, FloatArray, Label


def _has_probabilities(wrapper: CostSensitiveClassifier) -> bool:
    return hasattr(getattr(wrapper, "estimator_", wrapper.estimator), "predict_proba")


class CostSensitiveClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Any classifier with calibrated probabilities, and decisions of the lowest expected cost.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        Usually a `CalibratedClassifier`: costs mean what they say only where probabilities are calibrated.
    costs : DecisionRule, array-like or dict, default=None
        As `DecisionRule` takes them.
    false_positive, false_negative : float, default=None
        Instead of `costs`, for two classes.
    actions : sequence, default=None
        Names of the actions; by default the classes.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    rule_ : DecisionRule
        The rule with the classes in the order of `classes_`.
    classes_ : ndarray of shape (k,)
        The labels.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from calibrant import CalibratedClassifier, CostSensitiveClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CostSensitiveClassifier(CalibratedClassifier(GaussianNB(), "ts"), false_positive=20, false_negative=1)
    >>> model = model.fit(X, y)
    >>> print(model.rule_)
    Choose 0 where the probability of 1 is below 95.2%, 1 above.
    """

    def __init__(
        self,
        estimator: Any,
        costs: object = None,
        *,
        false_positive: float | None = None,
        false_negative: float | None = None,
        actions: Sequence[Label] | None = None,
    ) -> None:
        self.estimator = estimator
        self.costs = costs
        self.false_positive = false_positive
        self.false_negative = false_negative
        self.actions = actions

    def fit(self, X: Any, y: object, **fit_params: object) -> CostSensitiveClassifier:
        """Fit the classifier to features and labels; parameters such as `sample_weight` are passed on to it."""
        rule = self.costs
        if not isinstance(rule, DecisionRule):
            rule = DecisionRule(
                rule, actions=self.actions, false_positive=self.false_positive, false_negative=self.false_negative
            )
        self.estimator_ = clone(self.estimator).fit(X, y, **fit_params)
        self.classes_ = self.estimator_.classes_
        self.rule_ = rule.matched(self.classes_)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    @available_if(_has_probabilities)
    def predict_proba(self, X: object) -> FloatArray:
        """The classifier's probabilities, (n, k)."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @describe_parameters
    def predict(self, X: ArrayLike, amounts: Mapping[str, ArrayLike] | None = None) -> AnyArray:
        """The cheapest action for each row.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        actions : ndarray of shape (n,)
        """
        proba = self.predict_proba(X)
        return self.rule_.decide(proba, amounts)

    @describe_parameters
    def score(self, X: object, y: object, sample_weight: ArrayLike | None = None) -> float:
        """Share of rows whose action is their class, where the actions are the classes."""
        check_is_fitted(self)
        others = [action for action in self.rule_.actions if action not in self.classes_.tolist()]
        if others:
            raise ValueError(
                f"{list_names(others)} is not a class, so actions have no accuracy: calibrant.decisions.decision_cost "
                "computes their cost."
            )
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags = inner.classifier_tags
        return tags
