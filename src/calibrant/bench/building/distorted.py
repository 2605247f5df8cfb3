"""Models that are miscalibrated as models are in practice.

Classes are balanced by weights or by resampling, so that rare ones are predicted too often; naive Bayes counts evidence
twice; nearest neighbours and few bagged trees vote in large steps and predict exact zeros; scores of a support vector
machine are no logits; label smoothing pulls predictions towards the average; and probabilities are rounded, or stored
in eight bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax

from calibrant.bench.building.models import MODELS, Config, Model, Predict, sklearn_model, two_columns
from calibrant.optional import require
from calibrant.typing import FloatArray

_LOGIT_STEP = 0.125
"""Step of logits in eight bits: they reach from -16 to 15.875."""


def _smoothed_logistic(X: Any, y: Any, X_val: Any, y_val: Any, n_classes: int, config: Config, seed: int) -> Predict:
    """Fits every row once with each label, weighted by the smoothed label, which gives the same cross-entropy."""
    from sklearn.linear_model import LogisticRegression

    smoothing = config["smoothing"]
    weight = np.full((len(y), n_classes), smoothing / n_classes)
    weight[np.arange(len(y)), y] += 1 - smoothing
    labels = np.tile(np.arange(n_classes), len(y))
    model = LogisticRegression(C=config["C"], max_iter=2000)
    return model.fit(np.repeat(X, n_classes, axis=0), labels, sample_weight=weight.ravel()).predict_proba


def _resampled_forest(X: Any, y: Any, X_val: Any, y_val: Any, n_classes: int, config: Config, seed: int) -> Predict:
    """Rows drawn with replacement such that all classes are equally frequent."""
    share = 1.0 / np.bincount(y, minlength=n_classes)[y]
    rows = np.random.default_rng(seed).choice(len(y), size=len(y), p=share / share.sum())
    return MODELS["RF"].fit(X[rows], y[rows], X_val, y_val, n_classes, config, seed)


def _weighted_lightgbm(X: Any, y: Any, X_val: Any, y_val: Any, n_classes: int, config: Config, seed: int) -> Predict:
    """`scale_pos_weight` for two classes, weights of rows for more; no early stopping, which would end too soon."""
    lightgbm = require("lightgbm", extra="trees")
    count = np.bincount(y, minlength=n_classes)
    settings = {"n_jobs": 1, "random_state": seed, "verbosity": -1, "deterministic": True, "force_row_wise": True}
    if n_classes == 2:
        model = lightgbm.LGBMClassifier(scale_pos_weight=count[0] / count[1], **settings, **config)
    else:
        model = lightgbm.LGBMClassifier(class_weight="balanced", **settings, **config)
    booster = model.fit(X, y).booster_
    return lambda Z: two_columns(booster.predict(Z))


def _support_vectors(X: Any, y: Any, X_val: Any, y_val: Any, n_classes: int, config: Config, seed: int) -> Predict:
    """Distances from the separating planes, taken for logits."""
    from sklearn.svm import LinearSVC

    score = LinearSVC(random_state=seed, **config).fit(X, y).decision_function
    return lambda Z: two_columns(expit(score(Z))) if n_classes == 2 else softmax(score(Z), axis=1)


def two_decimals(p: FloatArray) -> FloatArray:
    """Probabilities as a report prints them.

    Examples
    --------
    >>> two_decimals(np.array([[0.004, 0.996]]))
    array([[0., 1.]])
    """
    return np.round(p, 2)


def eight_bit_logits(p: FloatArray) -> FloatArray:
    """Softmax of centred logits in whole steps of an eighth.

    Examples
    --------
    >>> eight_bit_logits(np.array([[0.3, 0.7]])).round(3)
    array([[0.321, 0.679]])
    """
    logits = np.log(np.maximum(p, 1e-30))
    logits -= logits.mean(axis=1, keepdims=True)
    return np.asarray(softmax(np.clip(np.round(logits / _LOGIT_STEP), -128, 127) * _LOGIT_STEP, axis=1))


def eight_bit_softmax(p: FloatArray) -> FloatArray:
    """Probabilities in 255ths.

    Examples
    --------
    >>> eight_bit_softmax(np.array([[0.001, 0.999]])).tolist()
    [[0.0, 1.0]]
    """
    return np.round(255 * p) / 255


# Kept as a table: the formatter would spread it over fifty lines.
# fmt: off
_DISTORTED = (
    Model("LR-balanced", "dense",
          sklearn_model("linear_model.LogisticRegression", max_iter=2000, class_weight="balanced"),
          {"C": 1.0}, {"C": (0.01, 1.0, 100.0)}),
    Model("RF-resampled", "codes", _resampled_forest, {"n_estimators": 100}, {"min_samples_leaf": (1, 5)}),
    Model("LGBM-weighted", "codes", _weighted_lightgbm, {"n_estimators": 100, "num_leaves": 7, "learning_rate": 0.05},
          {"num_leaves": (7, 15, 31)}, "lightgbm"),
    Model("NB", "dense", sklearn_model("naive_bayes.GaussianNB"), {"var_smoothing": 1e-6},
          {"var_smoothing": (1e-9, 1e-6, 1e-3)}),
    Model("KNN", "dense", sklearn_model("neighbors.KNeighborsClassifier"), {"n_neighbors": 10},
          {"n_neighbors": (5, 10, 20)}),
    Model("SVM", "dense", _support_vectors, {"C": 0.1}, {"C": (0.01, 0.1, 1.0)}),
    Model("LR-smoothed", "dense", _smoothed_logistic, {"C": 1.0, "smoothing": 0.1}, {"smoothing": (0.05, 0.1, 0.2)}),
    Model("BAG5", "codes", sklearn_model("ensemble.BaggingClassifier", seeded=True), {"n_estimators": 5},
          {"n_estimators": (3, 5, 10)}),
    Model("LR-rounded", "dense", MODELS["LR"].fit, {"C": 1.0}, MODELS["LR"].space, after=two_decimals),
    Model("MLP-logits8", "dense", MODELS["MLP"].fit, MODELS["MLP"].default, MODELS["MLP"].space,
          after=eight_bit_logits),
    Model("LGBM-softmax8", "codes", MODELS["LGBM"].fit, MODELS["LGBM"].default, MODELS["LGBM"].space, "lightgbm",
          after=eight_bit_softmax),
)
# fmt: on
DISTORTED = {model.name: model for model in _DISTORTED}
