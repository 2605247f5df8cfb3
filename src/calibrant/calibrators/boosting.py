"""Gradient-boosted trees as calibrators, warm-started from the predictions.

Trees on the log-probabilities are added to the logits of the predictions themselves, so that no trees means no
change. Each of a few folds stops early on its held-out rows and keeps the predictions if trees do not help there;
the folds' probabilities are averaged.
"""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from types import ModuleType
from typing import Annotated, Any, ClassVar

import numpy as np

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.parameters import AtLeastTwo, NotNegativeInt, PositiveInt
from calibrant.optional import require
from calibrant.sample import Sample
from calibrant.simplex import laplace_weight, log_probabilities, log_softmax, mix_with_uniform, softmax_inplace
from calibrant.sklearn_private import Interval
from calibrant.typing import FloatArray, IntArray

#: Features, logits to start from, labels and weights of some rows.
_Rows = tuple[FloatArray, FloatArray, IntArray, FloatArray]
#: A fitted model of one of the libraries, which have no class in common.
Booster = Any


class _BoostedCalibrator(Calibrator):
    """Base of the tree calibrators; a subclass trains one booster and computes its logits.

    Parameters
    ----------
    max_rounds : int
        Most boosting rounds.
    learning_rate : float
        Shrinkage of each tree.
    max_depth : int
        Depth of the trees.
    patience : int
        Rounds without improvement on held-out rows after which boosting stops.
    n_folds : int
        Number of folds, stratified by label, and of boosters that are averaged. Folds are made of rows, so a weight
        of two is not quite the same as a repeated row.
    n_jobs : int
        Number of threads.
    random_state : int
        Seed of the folds and of the booster.

    Attributes
    ----------
    models_ : list
        The boosters of the folds; `None` where the predictions were better without trees.
    """

    max_rounds: PositiveInt = 500
    learning_rate: Annotated[float, Interval(Real, 0, 1, closed="right")] = 0.1
    max_depth: PositiveInt = 3
    patience: PositiveInt = 30
    n_folds: AtLeastTwo = 5
    n_jobs: PositiveInt = 1
    random_state: NotNegativeInt = 0

    _package: ClassVar[str]

    def _fit(self, sample: Sample) -> None:
        self._import()
        self._smoothing = laplace_weight(sample.total)
        y, features, logits = sample.y, _features(sample.x), self._logits(sample.x)
        folds = sample.folds(int(self.n_folds), int(self.random_state))
        self.models_: list[Booster] = []
        for fold in range(int(self.n_folds) if sample.groups is None else int(folds.max()) + 1):
            train, test = folds != fold, folds == fold
            informative = len(np.unique(y[train])) > 1 and bool(np.ptp(features[train], axis=0).any())
            if not test.any() or not informative:  # nothing to stop by, or nothing to learn
                self.models_.append(None)
                continue
            parts = [tuple(a[rows] for a in (features, logits, y, sample.each)) for rows in (train, test)]
            model = self._train(parts[0], parts[1], sample.n_classes)
            boosted = self._boosted(model, parts[1][0], parts[1][1])
            better = _log_loss(boosted, *parts[1][2:]) < _log_loss(parts[1][1], *parts[1][2:])
            self.models_.append(model if better else None)

    def _map(self, x: FloatArray) -> FloatArray:
        features, logits = _features(x), self._logits(x)
        out = np.zeros_like(x)
        for model in self.models_:
            z = logits.copy() if model is None else self._boosted(model, features, logits)
            out += softmax_inplace(z)
        return out / len(self.models_)

    def _logits(self, x: FloatArray) -> FloatArray:
        """Logits to start from; a little of the uniform distribution lets trees correct an exact zero."""
        return log_probabilities(mix_with_uniform(np.exp(x), self._smoothing))

    def _import(self) -> ModuleType:
        """The package, or an error that says how to install it."""
        return require(self._package, extra="trees")

    @abstractmethod
    def _train(self, train: _Rows, test: _Rows, k: int) -> Booster:
        """A booster fitted to `train`, stopped early by the log loss on `test`."""

    @abstractmethod
    def _boosted(self, model: Booster, features: FloatArray, logits: FloatArray) -> FloatArray:
        """Logits (n, k) with the trees added."""


def _start(logits: FloatArray) -> FloatArray:
    """What a booster adds to: log-odds (n,) for two classes, logits (n, k) for more."""
    return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits


def _features(x: FloatArray) -> FloatArray:
    return x[:, 1:] - x[:, :1] if x.shape[1] == 2 else x


def _expand(raw: FloatArray) -> FloatArray:
    """Logits (n, k) from log-odds (n,) or logits (n, k)."""
    raw = np.asarray(raw, dtype=np.float64)
    return np.column_stack([np.zeros(len(raw)), raw]) if raw.ndim == 1 else raw.copy()


def _log_loss(logits: FloatArray, y: IntArray, weight: FloatArray) -> float:
    return -float(weight @ log_softmax(logits)[np.arange(len(y)), y])


class LightGBMCalibrator(_BoostedCalibrator):
    """LightGBM as calibrator, warm-started from the predictions.

    References
    ----------
    G. Ke et al. LightGBM: a highly efficient gradient boosting decision tree. NeurIPS 2017.

    Examples
    --------
    >>> from calibrant.calibrators import LightGBMCalibrator
    >>> LightGBMCalibrator(max_rounds=100).get_params()["max_rounds"]
    100
    """

    _package = "lightgbm"

    def _train(self, train: _Rows, test: _Rows, k: int) -> Booster:
        lightgbm = self._import()
        parameters = {
            "objective": "binary" if k == 2 else "multiclass",
            "metric": "binary_logloss" if k == 2 else "multi_logloss",
            "learning_rate": self.learning_rate,
            "max_depth": self.max_depth,
            "num_leaves": 2**self.max_depth,
            # Where predictions are confidently wrong there is much gradient and no curvature: bound the leaves.
            "lambda_l2": 1.0,
            "min_sum_hessian_in_leaf": 1.0,
            "num_threads": self.n_jobs,
            "seed": self.random_state,
            "deterministic": True,
            "force_row_wise": True,
            "verbose": -1,
            **({} if k == 2 else {"num_class": k}),
        }
        data = lightgbm.Dataset(train[0], train[2], weight=train[3], init_score=_start(train[1]))
        held_out = data.create_valid(test[0], test[2], weight=test[3], init_score=_start(test[1]))
        stop = lightgbm.early_stopping(self.patience, verbose=False)
        return lightgbm.train(parameters, data, self.max_rounds, valid_sets=[held_out], callbacks=[stop])

    def _boosted(self, model: Booster, features: FloatArray, logits: FloatArray) -> FloatArray:
        return _expand(_start(logits) + model.predict(features, raw_score=True, num_threads=self.n_jobs))


class XGBoostCalibrator(_BoostedCalibrator):
    """XGBoost as calibrator, warm-started from the predictions.

    References
    ----------
    T. Chen and C. Guestrin. XGBoost: a scalable tree boosting system. KDD 2016.

    Examples
    --------
    >>> from calibrant.calibrators import XGBoostCalibrator
    >>> XGBoostCalibrator(max_rounds=100)
    XGBoostCalibrator(max_rounds=100)
    """

    _package = "xgboost"

    def _train(self, train: _Rows, test: _Rows, k: int) -> Booster:
        xgboost = self._import()
        parameters = {
            "objective": "binary:logistic" if k == 2 else "multi:softprob",
            "eval_metric": "logloss" if k == 2 else "mlogloss",
            "learning_rate": self.learning_rate,
            "max_depth": self.max_depth,
            "nthread": self.n_jobs,
            "seed": self.random_state,
            "verbosity": 0,
            **({} if k == 2 else {"num_class": k}),
        }
        data, held_out = (
            xgboost.DMatrix(f, y, weight=w, base_margin=_start(z), nthread=self.n_jobs) for f, z, y, w in (train, test)
        )
        return xgboost.train(
            parameters,
            data,
            self.max_rounds,
            evals=[(held_out, "heldout")],
            early_stopping_rounds=self.patience,
            verbose_eval=False,
        )

    def _boosted(self, model: Booster, features: FloatArray, logits: FloatArray) -> FloatArray:
        data = self._import().DMatrix(features, base_margin=_start(logits), nthread=self.n_jobs)
        return _expand(model.predict(data, output_margin=True, iteration_range=(0, model.best_iteration + 1)))


class CatBoostCalibrator(_BoostedCalibrator):
    """CatBoost as calibrator, warm-started from the predictions.

    References
    ----------
    L. Prokhorenkova et al. CatBoost: unbiased boosting with categorical features. NeurIPS 2018.

    Examples
    --------
    >>> from calibrant.calibrators import CatBoostCalibrator
    >>> CatBoostCalibrator(max_rounds=100)
    CatBoostCalibrator(max_rounds=100)
    """

    _package = "catboost"

    def _train(self, train: _Rows, test: _Rows, k: int) -> Booster:
        catboost = self._import()
        # CatBoost knows only classes it has seen: the others keep their logits.
        seen = np.unique(train[2])
        known = np.isin(test[2], seen)
        rows: list[Any] = [train, [part[known] for part in test]] if known.any() else [train]
        model = catboost.CatBoost(
            {
                "loss_function": "Logloss" if k == 2 else "MultiClass",
                "iterations": self.max_rounds,
                "learning_rate": self.learning_rate,
                "depth": self.max_depth,
                "early_stopping_rounds": self.patience,
                "thread_count": self.n_jobs,
                "random_seed": self.random_state,
                "allow_writing_files": False,
                "verbose": False,
            }
        )
        pools = [
            catboost.Pool(
                features, np.searchsorted(seen, y), weight=w, baseline=_start(logits) if k == 2 else logits[:, seen]
            )
            for features, logits, y, w in rows
        ]
        return model.fit(pools[0], eval_set=pools[1] if len(pools) > 1 else None), seen

    def _boosted(self, model: Booster, features: FloatArray, logits: FloatArray) -> FloatArray:
        booster, seen = model
        raw = booster.predict(features, prediction_type="RawFormulaVal", thread_count=self.n_jobs)
        if raw.ndim == 1:
            return _expand(_start(logits) + raw)
        out = logits.copy()
        out[:, seen] += raw
        return out
