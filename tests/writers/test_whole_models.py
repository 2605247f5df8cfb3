"""CalibratedClassifier, alone and in pipelines, becomes one ONNX graph that predicts the same."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from calibrant import CalibratedClassifier, get_calibrator
from calibrant.writers.whole_models import register_with_skl2onnx
from tests.needs import needs

pytestmark = pytest.mark.export


def sample(k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(k)
    X = rng.normal(size=(240, 4)).astype(np.float32)
    y = (X[:, :k] + rng.normal(size=(240, k))).argmax(axis=1)
    return X, y


def compare(model, X, tolerance, **options):
    skl2onnx, onnxruntime = needs("skl2onnx"), needs("onnxruntime")
    register_with_skl2onnx()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        converted = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False}, **options)
    session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["label", "probabilities"]
    label, p = session.run(None, {"X": X})
    assert p.dtype == X.dtype
    expected = model.predict_proba(X)
    np.testing.assert_allclose(p, expected, rtol=0, atol=tolerance)
    clear = np.sort(expected, axis=1)
    clear = clear[:, -1] - clear[:, -2] > 1e-4
    assert (label == model.predict(X))[clear].all()


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("method", ["ts", "sigmoid", "temperature", "sms"])
@pytest.mark.parametrize(
    "classifier",
    [
        LogisticRegression(),
        RandomForestClassifier(10, random_state=0),
        LinearSVC(),
        SVC(),
        GaussianNB(),
        GradientBoostingClassifier(n_estimators=3, random_state=0),
    ],
    ids=lambda classifier: type(classifier).__name__,
)
def test_classifiers_and_methods(classifier, method, k):
    X, y = sample(k)
    compare(CalibratedClassifier(classifier, method=method, cv=2).fit(X, y), X, 2e-6)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("method", ["ts", "sms", "sigmoid"])
def test_boosters(method, k):
    needs("onnxmltools")
    X, y = sample(k)
    for classifier in (
        needs("lightgbm").LGBMClassifier(n_estimators=5, verbose=-1),
        needs("xgboost").XGBClassifier(n_estimators=5),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = CalibratedClassifier(classifier, method=method, cv=2).fit(X, y)
            compare(model, X, 2e-6, target_opset={"": 18, "ai.onnx.ml": 3})


@pytest.mark.parametrize("k", [2, 3])
def test_histogram_boosting_and_missing_values(k):
    X, y = sample(k)
    X[::7, 0] = np.nan
    compare(CalibratedClassifier(HistGradientBoostingClassifier(max_iter=5), method="ts", cv=2).fit(X, y), X, 2e-6)


def test_forests_of_two_classes_whose_probabilities_round_below_zero():
    X, y = sample(2)
    compare(CalibratedClassifier(RandomForestClassifier(20, random_state=0), method="ts", cv=3).fit(X, y), X, 2e-6)


def test_a_forest_in_single_precision_is_not_put_under_a_map_that_decides():
    skl2onnx = needs("skl2onnx")
    register_with_skl2onnx()
    X, y = sample(3)
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0))
    model = CalibratedClassifier(forest, method="isotonic", cv=2).fit(X, y)
    with pytest.raises(ValueError, match="IsotonicCalibrator compares probabilities with thresholds"):
        skl2onnx.to_onnx(model, X[:1])
    compare(CalibratedClassifier(forest, method="sms", cv=2).fit(X[:, :4], y), X, 1e-2)  # the scaler rounds


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pipelines_prefit_classifiers_and_text_labels(dtype):
    X, y = sample(3)
    X, labels = X.astype(dtype), np.array(["a", "b", "ü"])[y]
    tolerance = 2e-6 if dtype == np.float32 else 1e-12
    inner = CalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression()), method="svs", ensemble=False)
    compare(inner.fit(X, labels), X, tolerance)
    compare(make_pipeline(StandardScaler(), inner).fit(X, labels), X, tolerance)
    frozen = FrozenEstimator(LogisticRegression().fit(X[::2], labels[::2]))
    compare(CalibratedClassifier(frozen, method="isotonic").fit(X[1::2], labels[1::2]), X, 1e-4)
    logits = CalibratedClassifier(LogisticRegression(), method=get_calibrator("sms", input="logits"))
    compare(logits.fit(X, labels), X, tolerance)


def test_a_class_that_a_fold_has_not_seen():
    X, y = sample(3)
    y[y == 2] = 1
    y[:2] = 2
    folds = [(np.arange(2, 240), np.arange(100)), (np.arange(120), np.arange(120, 240))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CalibratedClassifier(LogisticRegression(), method="ts", cv=folds).fit(X, y)
    assert len(model.estimators_[0].classes_) == 2
    compare(model, X, 2e-6)
