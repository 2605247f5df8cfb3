"""The classifiers whose predictions are calibrated: one function per model, with early stopping where it exists.

Every function takes training and validation rows, a configuration and a seed, uses one thread, and returns the
fitted model's `predict_proba`. Boosted trees and neural nets stop at the best log loss on the validation rows.

The models of `DISTORTED` are miscalibrated as models are in practice. Classes are balanced by weights or by resampling,
so that rare ones are predicted too often; naive Bayes counts evidence twice; nearest neighbours and few bagged trees
vote in large steps and predict exact zeros; scores of a support vector machine are no logits; label smoothing pulls
predictions towards the average; and probabilities are rounded, or stored in eight bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from scipy.special import expit, softmax

from calibrant.optional import require
from calibrant.typing import AnyArray, FloatArray

Config = dict[str, Any]
Predict = Callable[[Any], FloatArray]


@dataclass(frozen=True)
class Model:
    name: str
    features: Literal["codes", "dense"]
    """Categories as integer codes with missing values kept, or one-hot with scaled and imputed numbers."""
    fit: Callable[..., Predict]
    """`fit(X, y, X_val, y_val, n_classes, config, seed) -> predict_proba`."""
    default: Config
    """Configuration used without a search."""
    space: dict[str, tuple[object, ...]]
    """Choices of a random configuration."""
    needs: str | None = None
    """Package that the model comes from, when it is not scikit-learn."""
    after: Callable[[FloatArray], FloatArray] | None = None
    """What is done to the final predictions, as rounding; rows are then scaled to sum to one."""

    def sample(self, rng: np.random.Generator) -> Config:
        """Draw a configuration."""
        return {**self.default, **{key: choices[rng.integers(len(choices))] for key, choices in self.space.items()}}


def _sklearn(target: str, seeded: bool = False, **fixed: object) -> Callable[..., Predict]:
    """The function `fit` of a scikit-learn classifier, named as in "linear_model.LogisticRegression"."""

    def fit(X: Any, y: object, X_val: object, y_val: object, n_classes: int, config: Config, seed: int) -> Predict:
        module, _, name = target.partition(".")
        settings = {**fixed, **({"random_state": seed} if seeded else {}), **config}
        return getattr(import_module(f"sklearn.{module}"), name)(**settings).fit(X, y).predict_proba

    return fit


def _lightgbm(X: object, y: object, X_val: object, y_val: object, n_classes: int, config: Config, seed: int) -> Predict:
    lightgbm = require("lightgbm", extra="trees")
    objective = {"objective": "multiclass", "num_class": n_classes} if n_classes > 2 else {"objective": "binary"}
    settings = {"verbosity": -1, "num_threads": 1, "seed": seed, "deterministic": True, "force_row_wise": True}
    booster = lightgbm.train(
        {**settings, **objective, **config},
        lightgbm.Dataset(X, y, free_raw_data=False),
        num_boost_round=500,
        valid_sets=[lightgbm.Dataset(X_val, y_val)],
        callbacks=[lightgbm.early_stopping(20, verbose=False)],
    )
    return lambda Z: _two_columns(booster.predict(Z, num_iteration=booster.best_iteration))


def _xgboost(X: object, y: object, X_val: object, y_val: object, n_classes: int, config: Config, seed: int) -> Predict:
    xgboost = require("xgboost", extra="trees")
    objective = {"objective": "multi:softprob", "num_class": n_classes} if n_classes > 2 else {}
    objective = objective or {"objective": "binary:logistic", "eval_metric": "logloss"}
    booster = xgboost.train(
        {"nthread": 1, "seed": seed, "tree_method": "hist", "verbosity": 0, **objective, **config},
        xgboost.DMatrix(X, y),
        num_boost_round=500,
        evals=[(xgboost.DMatrix(X_val, y_val), "validation")],
        early_stopping_rounds=20,
        verbose_eval=False,
    )
    best = (0, booster.best_iteration + 1)
    return lambda Z: _two_columns(booster.predict(xgboost.DMatrix(Z), iteration_range=best))


def _catboost(X: object, y: object, X_val: object, y_val: object, n_classes: int, config: Config, seed: int) -> Predict:
    catboost = require("catboost", extra="trees")
    model = catboost.CatBoostClassifier(
        iterations=500,
        thread_count=1,
        random_seed=seed,
        loss_function="MultiClass" if n_classes > 2 else "Logloss",
        early_stopping_rounds=20,
        allow_writing_files=False,
        verbose=False,
        **config,
    )
    return model.fit(X, y, eval_set=(X_val, y_val)).predict_proba


def _neural_net(
    X: object, y: AnyArray, X_val: object, y_val: AnyArray, n_classes: int, config: Config, seed: int
) -> Predict:
    """Epoch by epoch, because scikit-learn's own early stopping looks at accuracy, not at log loss."""
    from sklearn.neural_network import MLPClassifier

    net = MLPClassifier(random_state=seed, batch_size=min(128, len(y)), **config)
    labels, rows = np.arange(n_classes), np.arange(len(y_val))
    best, best_weights, waited = np.inf, None, 0
    for _ in range(200):
        net.partial_fit(X, y, classes=labels)
        loss = -np.log(net.predict_proba(X_val)[rows, y_val] + 1e-15).mean()
        if loss < best - 1e-5:
            best, waited = loss, 0
            best_weights = [w.copy() for w in (*net.coefs_, *net.intercepts_)]
        else:
            waited += 1
            if waited == 12:
                break
    if best_weights is not None:
        depth = len(net.coefs_)
        net.coefs_, net.intercepts_ = best_weights[:depth], best_weights[depth:]
    return net.predict_proba


def _two_columns(p: object) -> FloatArray:
    """Probabilities of both classes, where a model gives those of the second one only."""
    p = np.asarray(p, dtype=np.float64)
    return np.column_stack([1 - p, p]) if p.ndim == 1 else p


def _smoothed_logistic(
    X: AnyArray, y: AnyArray, X_val: object, y_val: object, n_classes: int, config: Config, seed: int
) -> Predict:
    """Fits every row once with each label, weighted by the smoothed label, which gives the same cross-entropy."""
    from sklearn.linear_model import LogisticRegression

    smoothing = config["smoothing"]
    weight = np.full((len(y), n_classes), smoothing / n_classes)
    weight[np.arange(len(y)), y] += 1 - smoothing
    labels = np.tile(np.arange(n_classes), len(y))
    model = LogisticRegression(C=config["C"], max_iter=2000)
    return model.fit(np.repeat(X, n_classes, axis=0), labels, sample_weight=weight.ravel()).predict_proba


def _resampled_forest(
    X: AnyArray, y: AnyArray, X_val: object, y_val: object, n_classes: int, config: Config, seed: int
) -> Predict:
    """Rows drawn with replacement such that all classes are equally frequent."""
    share = 1.0 / np.bincount(y, minlength=n_classes)[y]
    rows = np.random.default_rng(seed).choice(len(y), size=len(y), p=share / share.sum())
    return MODELS["RF"].fit(X[rows], y[rows], X_val, y_val, n_classes, config, seed)


def _weighted_lightgbm(
    X: object, y: AnyArray, X_val: object, y_val: object, n_classes: int, config: Config, seed: int
) -> Predict:
    """`scale_pos_weight` for two classes, weights of rows for more; no early stopping, which would end too soon."""
    lightgbm = require("lightgbm", extra="trees")
    count = np.bincount(y, minlength=n_classes)
    settings = {"n_jobs": 1, "random_state": seed, "verbosity": -1, "deterministic": True, "force_row_wise": True}
    if n_classes == 2:
        model = lightgbm.LGBMClassifier(scale_pos_weight=count[0] / count[1], **settings, **config)
    else:
        model = lightgbm.LGBMClassifier(class_weight="balanced", **settings, **config)
    booster = model.fit(X, y).booster_
    return lambda Z: _two_columns(booster.predict(Z))


def _support_vectors(
    X: object, y: object, X_val: object, y_val: object, n_classes: int, config: Config, seed: int
) -> Predict:
    """Distances from the separating planes, taken for logits."""
    from sklearn.svm import LinearSVC

    score = LinearSVC(random_state=seed, **config).fit(X, y).decision_function
    return lambda Z: _two_columns(expit(score(Z))) if n_classes == 2 else softmax(score(Z), axis=1)


def two_decimals(p: FloatArray) -> FloatArray:
    """Probabilities as a report prints them."""
    return np.round(p, 2)


def eight_bit_logits(p: FloatArray) -> FloatArray:
    """Softmax of centred logits in whole steps of an eighth, which reach from -16 to 15.875."""
    logits = np.log(np.maximum(p, 1e-30))
    logits -= logits.mean(axis=1, keepdims=True)
    return np.asarray(softmax(np.clip(np.round(8 * logits), -128, 127) / 8, axis=1))


def eight_bit_softmax(p: FloatArray) -> FloatArray:
    """Probabilities in 255ths."""
    return np.round(255 * p) / 255


# Choices of random configurations: around the defaults of the libraries (rate 0.3, depth 6, penalty 1e-4).
_RATES, _DEPTHS, _PENALTIES = (0.03, 0.1, 0.3), (4, 6, 8), (1e-5, 1e-3, 1e-1)
# Name, features, function, default, space, package: kept as a table, which the formatter would spread over fifty lines.
# fmt: off
_MODELS = (
    Model("LR", "dense", _sklearn("linear_model.LogisticRegression", max_iter=2000), {"C": 1.0},
          {"C": (0.01, 0.1, 1.0, 10.0, 100.0)}),
    Model("RF", "codes", _sklearn("ensemble.RandomForestClassifier", seeded=True, n_jobs=1), {"n_estimators": 100},
          {"min_samples_leaf": (1, 2, 5, 10), "max_features": ("sqrt", 0.5, 0.8)}),
    Model("LGBM", "codes", _lightgbm, {"learning_rate": 0.1, "num_leaves": 31, "min_data_in_leaf": 10},
          {"learning_rate": (0.03, 0.1), "num_leaves": (7, 15, 31, 63), "min_data_in_leaf": (5, 10, 20, 50)},
          "lightgbm"),
    Model("XGB", "codes", _xgboost, {"eta": 0.1, "max_depth": 6},
          {"eta": _RATES, "max_depth": (3, *_DEPTHS), "min_child_weight": (1, 5, 20)}, "xgboost"),
    Model("CB", "codes", _catboost, {"learning_rate": 0.1, "depth": 6},
          {"learning_rate": _RATES, "depth": _DEPTHS, "l2_leaf_reg": (1, 3, 10)}, "catboost"),
    Model("MLP", "dense", _neural_net, {"hidden_layer_sizes": (128,), "alpha": 1e-4},
          {"hidden_layer_sizes": ((64,), (128,), (256,)), "alpha": _PENALTIES}),
    Model("MLP3", "dense", _neural_net, {"hidden_layer_sizes": (128,) * 3, "alpha": 1e-4},
          {"hidden_layer_sizes": ((64,) * 3, (128,) * 3, (256,) * 3), "alpha": _PENALTIES}),
)
MODELS = {model.name: model for model in _MODELS}
_DISTORTED = (
    Model("LR-balanced", "dense",
          _sklearn("linear_model.LogisticRegression", max_iter=2000, class_weight="balanced"),
          {"C": 1.0}, {"C": (0.01, 1.0, 100.0)}),
    Model("RF-resampled", "codes", _resampled_forest, {"n_estimators": 100}, {"min_samples_leaf": (1, 5)}),
    Model("LGBM-weighted", "codes", _weighted_lightgbm, {"n_estimators": 100, "num_leaves": 7, "learning_rate": 0.05},
          {"num_leaves": (7, 15, 31)}, "lightgbm"),
    Model("NB", "dense", _sklearn("naive_bayes.GaussianNB"), {"var_smoothing": 1e-6},
          {"var_smoothing": (1e-9, 1e-6, 1e-3)}),
    Model("KNN", "dense", _sklearn("neighbors.KNeighborsClassifier"), {"n_neighbors": 10},
          {"n_neighbors": (5, 10, 20)}),
    Model("SVM", "dense", _support_vectors, {"C": 0.1}, {"C": (0.01, 0.1, 1.0)}),
    Model("LR-smoothed", "dense", _smoothed_logistic, {"C": 1.0, "smoothing": 0.1}, {"smoothing": (0.05, 0.1, 0.2)}),
    Model("BAG5", "codes", _sklearn("ensemble.BaggingClassifier", seeded=True), {"n_estimators": 5},
          {"n_estimators": (3, 5, 10)}),
    Model("LR-rounded", "dense", MODELS["LR"].fit, {"C": 1.0}, MODELS["LR"].space, after=two_decimals),
    Model("MLP-logits8", "dense", MODELS["MLP"].fit, MODELS["MLP"].default, MODELS["MLP"].space,
          after=eight_bit_logits),
    Model("LGBM-softmax8", "codes", MODELS["LGBM"].fit, MODELS["LGBM"].default, MODELS["LGBM"].space, "lightgbm",
          after=eight_bit_softmax),
)
# fmt: on
DISTORTED = {model.name: model for model in _DISTORTED}
ALL_MODELS = {**MODELS, **DISTORTED}


def preprocessor(kind: Literal["codes", "dense"], features: Any) -> Any:
    """Scikit-learn transformer from a data frame of features to the input of a model, see `Model.features`."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    numbers = list(features.select_dtypes("number").columns)
    categories = [c for c in features.columns if c not in numbers]
    if kind == "codes":
        codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        return ColumnTransformer([("numbers", "passthrough", numbers), ("codes", codes, categories)])
    scaled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    one_hot = OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=5, max_categories=25, sparse_output=False
    )
    return ColumnTransformer([("numbers", scaled, numbers), ("one_hot", one_hot, categories)])
