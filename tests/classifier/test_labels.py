"""Classifiers of many labels, calibrated: every kind of output that scikit-learn has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC

import calibrant
from calibrant import CalibratedClassifier, MultilabelCalibrator
from calibrant.metrics import multilabel_metrics

X, Y = make_multilabel_classification(480, n_classes=4, n_labels=2, random_state=0)
TRAIN, TEST = slice(0, 240), slice(240, None)


def loss(p: Any) -> float:
    return multilabel_metrics(Y[TEST], p).macro["log_loss"]


ESTIMATORS = [
    OneVsRestClassifier(GaussianNB()),
    MultiOutputClassifier(GaussianNB()),
    RandomForestClassifier(10, random_state=0),
    MLPClassifier((5,), solver="lbfgs", max_iter=30, alpha=0.1, random_state=0),
    OneVsRestClassifier(LinearSVC()),
]


@pytest.mark.parametrize(
    ("estimator", "ensemble"),
    [
        *((estimator, False) for estimator in ESTIMATORS),
        (ESTIMATORS[0], True),
        *(pytest.param(estimator, True, marks=pytest.mark.slow) for estimator in ESTIMATORS[1:]),
    ],
    ids=lambda value: type(getattr(value, "estimator", value)).__name__,
)
@pytest.mark.filterwarnings("ignore:lbfgs failed")
def test_every_kind_of_output_is_calibrated(estimator: Any, ensemble: bool) -> None:
    model = CalibratedClassifier(estimator, ensemble=ensemble).fit(X[TRAIN], Y[TRAIN])
    p = model.predict_proba(X[TEST])
    assert p.shape == (240, 4)
    assert len(model.calibrators_) == (5 if ensemble else 1)
    assert np.array_equal(model.predict(X[TEST]), p >= 0.5)
    frequency = np.full_like(p, Y[TRAIN].mean(axis=0))
    assert loss(p) < loss(frequency)
    if isinstance(getattr(estimator, "estimator", None), GaussianNB) and isinstance(estimator, OneVsRestClassifier):
        assert loss(p) < loss(estimator.fit(X[TRAIN], Y[TRAIN]).predict_proba(X[TEST]))


def test_a_frozen_classifier_is_calibrated_on_all_rows_as_by_hand() -> None:
    fitted = OneVsRestClassifier(GaussianNB()).fit(X[:160], Y[:160])
    model = CalibratedClassifier(FrozenEstimator(fitted)).fit(X[160:320], csr_matrix(Y[160:320]))
    alone = MultilabelCalibrator().fit(fitted.predict_proba(X[160:320]), Y[160:320])
    p = fitted.predict_proba(X[TEST])
    assert np.allclose(model.predict_proba(X[TEST]), alone.predict_proba(p), atol=1e-6)


def test_names_weights_groups_and_splitters() -> None:
    frame, truth = pd.DataFrame(X[:300]).add_prefix("f"), pd.DataFrame(Y[:300], columns=list("abcd"))
    model = CalibratedClassifier(OneVsRestClassifier(LogisticRegression())).fit(
        frame, truth, groups=np.arange(300) // 3
    )
    assert model.classes_.tolist() == list("abcd")
    assert model.feature_names_in_[0] == "f0"
    assert sum(int(calibrator.fitted_to_.split()[3]) for calibrator in model.calibrators_) == 100
    weighted = CalibratedClassifier(RandomForestClassifier(10, random_state=0), cv=KFold(3))
    weighted.fit(X[:300], Y[:300], sample_weight=np.tile([1.0, 2.0, 0.0], 100))
    assert "observations" in weighted.calibrators_[0].fitted_to_
    with pytest.raises(ValueError, match="All rows belong to one group"):
        model.fit(frame, truth, groups=np.zeros(300))


def test_its_calibrators_are_stored(tmp_path: Path) -> None:
    model = CalibratedClassifier(OneVsRestClassifier(GaussianNB()), cv=2).fit(X, Y)
    calibrant.save(model, tmp_path / "folds.json")
    loaded = calibrant.load(tmp_path / "folds.json")
    z = np.zeros((1, 4))
    assert [item.predict_proba(z).tolist() for item in loaded] == [
        item.predict_proba(z).tolist() for item in model.calibrators_
    ]


def test_methods_of_classes_and_classifiers_of_one_label_are_refused_with_advice() -> None:
    with pytest.raises(ValueError, match=r"method='ts' cannot calibrate: leave method out, or pass a Multilabel"):
        CalibratedClassifier(OneVsRestClassifier(GaussianNB()), method="ts").fit(X, Y)
    own = MultilabelCalibrator(random_state=1)
    model = CalibratedClassifier(OneVsRestClassifier(GaussianNB()), method=own, cv=2).fit(X, Y)
    assert model.calibrators_[0].random_state == 1


def test_a_label_that_a_fold_never_saw_has_low_probabilities() -> None:
    rare = Y.copy()
    rare[:, 3] = 0
    rare[0, 3] = 1
    model = CalibratedClassifier(RandomForestClassifier(10, random_state=0), cv=3).fit(X, rare)
    assert model.predict_proba(X)[:, 3].mean() < 0.1
