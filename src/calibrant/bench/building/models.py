"""The classifiers whose predictions are calibrated: one function per model, with early stopping where it exists.

Every function takes training and validation rows, a configuration and a seed, uses one thread, and returns the
fitted model's `predict_proba`. Boosted trees and neural nets stop at the best log loss on the validation rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.optional import require

Config = dict[str, Any]
Predict = Callable[[Any], NDArray[np.float64]]


@dataclass(frozen=True)
class Model:
    """A model of the benchmark.

    Attributes
    ----------
    name : str
        Name in results.
    features : {"codes", "dense"}
        Categories as integer codes with missing values kept, or one-hot with scaled and imputed numbers.
    fit : callable
        `fit(X, y, X_val, y_val, n_classes, config, seed) -> predict_proba`.
    default : dict
        Configuration used without a search.
    space : dict
        Choices of a random configuration.
    needs : str or None
        Package that the model comes from, when it is not scikit-learn.
    after : callable or None
        What is done to the final predictions, as rounding; rows are then scaled to sum to one.
    """

    name: str
    features: str
    fit: Callable[..., Predict]
    default: Config
    space: dict[str, tuple[Any, ...]]
    needs: str | None = None
    after: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None

    def sample(self, rng: np.random.Generator) -> Config:
        """Draw a configuration."""
        return {**self.default, **{key: choices[rng.integers(len(choices))] for key, choices in self.space.items()}}


def sklearn_model(target: str, seeded: bool = False, **fixed: Any) -> Callable[..., Predict]:
    """The function `fit` of a scikit-learn classifier, named as in "linear_model.LogisticRegression"."""

    def fit(X: Any, y: Any, X_val: Any, y_val: Any, n_classes: int, config: Config, seed: int) -> Predict:
        module, _, name = target.partition(".")
        settings = {**fixed, **({"random_state": seed} if seeded else {}), **config}
        return getattr(import_module(f"sklearn.{module}"), name)(**settings).fit(X, y).predict_proba

    return fit


def _lightgbm(X: Any, y: Any, X_val: Any, y_val: Any, n_classes: int, config: Config, seed: int) -> Predict:
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
    return lambda Z: two_columns(booster.predict(Z, num_iteration=booster.best_iteration))


def _xgboost(X: Any, y: Any, X_val: Any, y_val: Any, n_classes: int, config: Config, seed: int) -> Predict:
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
    return lambda Z: two_columns(booster.predict(xgboost.DMatrix(Z), iteration_range=best))


def _catboost(X: Any, y: Any, X_val: Any, y_val: Any, n_classes: int, config: Config, seed: int) -> Predict:
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


def _neural_net(X: Any, y: Any, X_val: Any, y_val: Any, n_classes: int, config: Config, seed: int) -> Predict:
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


def two_columns(p: Any) -> NDArray[np.float64]:
    """Probabilities of both classes, where a model gives those of the second one only."""
    p = np.asarray(p, dtype=np.float64)
    return np.column_stack([1 - p, p]) if p.ndim == 1 else p


_RATES, _DEPTHS, _PENALTIES = (0.03, 0.1, 0.3), (4, 6, 8), (1e-5, 1e-3, 1e-1)
# Name, features, function, default, space, package: kept as a table, which the formatter would spread over fifty lines.
# fmt: off
_MODELS = (
    Model("LR", "dense", sklearn_model("linear_model.LogisticRegression", max_iter=2000), {"C": 1.0},
          {"C": (0.01, 0.1, 1.0, 10.0, 100.0)}),
    Model("RF", "codes", sklearn_model("ensemble.RandomForestClassifier", seeded=True, n_jobs=1), {"n_estimators": 100},
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
# fmt: on
MODELS = {model.name: model for model in _MODELS}


def preprocessor(kind: str, features: Any) -> Any:
    """Scikit-learn transformer from a dataset's data frame to the input of a model.

    Parameters
    ----------
    kind : {"codes", "dense"}
        See `Model.features`.
    features : pandas.DataFrame
        Its column types decide what happens to each column.
    """
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
