"""scikit-learn's estimator checks on calibrators.

The checks feed arbitrary numbers, which are not probabilities. Each check that therefore cannot pass is listed with its
reason, and what it is about is tested here on valid probabilities. As logits the same numbers are valid, so that
with ``input="logits"`` nearly all checks run as they are.
"""

from __future__ import annotations

import inspect
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import _NotAnArray, check_estimator
from sklearn.utils.validation import check_is_fitted

from calibrant import CalibrationWarning, get_calibrator, list_calibrators
from tests.combinations import each, one_per_class
from tests.samples import calibrated

NATIVE = [info for info in list_calibrators() if info.extra is None and isinstance(info.factory, str)]

#: Methods in which a weight is only roughly a repetition: plans, thresholds and samples of rows for trees count rows.
ROUGHLY_COUNTS = {"auto", "auto-fast"}

NOT_PROBABILITIES = "the check's numbers are no probabilities"
OBJECTS = "arrays of objects are refused, naming the first cell"
MORE_LABELS = "the check has three labels for two columns"


def sample(info, n=60, seed=0):
    return calibrated(n, 3 if info.multiclass else 2, seed)


def same(a, b, p):
    assert_array_equal(a.predict_proba(p), b.predict_proba(p))


# What each check is about, on valid probabilities: functions of a registry entry.


def fit_score_takes_y(info):
    p, y = sample(info)
    calibrator = info.make().fit(p, y)
    assert calibrator.score(p, y) == np.mean(calibrator.predict(p) == y)
    assert list(inspect.signature(calibrator.fit).parameters)[:2] == ["X", "y"]


def estimators_overwrite_params(info):
    calibrator = info.make()
    before = joblib.hash(calibrator.get_params())
    calibrator.fit(*sample(info))
    assert joblib.hash(calibrator.get_params()) == before


def dont_overwrite_parameters(info):
    calibrator = info.make()
    before = dict(vars(calibrator))
    calibrator.fit(*sample(info))
    added = [name for name in vars(calibrator) if name not in before]
    assert all(name.endswith("_") or name.startswith("_") for name in added)
    assert all(vars(calibrator)[name] is before[name] for name in before)


def estimators_fit_returns_self(info):
    calibrator = info.make()
    assert calibrator.fit(*sample(info)) is calibrator


def readonly_memmap_input(info, folder):
    p, y = sample(info)
    for name, array in (("p", p), ("y", y)):
        np.save(folder / f"{name}.npy", array)
    mapped = [np.load(folder / f"{name}.npy", mmap_mode="r") for name in "py"]
    same(info.make().fit(*mapped), info.make().fit(p, y), mapped[0])


def n_features_in_after_fitting(info):
    p, y = sample(info)
    calibrator = info.make().fit(p, y)
    assert calibrator.n_features_in_ == p.shape[1]
    with pytest.raises(ValueError, match=f"X has 5 features, but {type(calibrator).__name__} is expecting"):
        calibrator.predict(np.full((2, 5), 0.2))


def estimators_dtypes(info):
    p, y = sample(info)
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        X = p.round().astype(dtype) if np.dtype(dtype).kind == "i" else p.astype(dtype)
        rows = X.sum(axis=1) > 0.5
        with warnings.catch_warnings():
            # Exact zeros and ones without a penalty: the optimum may be out of reach, but not the dtype.
            warnings.simplefilter("ignore", ConvergenceWarning)
            q = info.make().fit(X[rows], y[rows]).predict_proba(X[rows])
        assert np.isfinite(q).all()
        assert q.dtype == (np.float32 if dtype == np.float32 else np.float64)


def sample_weights_accepted(info, convert):
    p, y = sample(info)
    weight = np.ones(len(y))
    weight[::3] = 2.0
    before = weight.copy()
    a = info.make().fit(p, y, sample_weight=convert(weight))
    same(a, info.make().fit(p, y, sample_weight=weight), p)
    assert_array_equal(weight, before)


def sample_weights_shape(info):
    p, y = sample(info)
    with pytest.raises(ValueError, match="1D array"):
        info.make().fit(p, y, sample_weight=np.ones((len(y), 2)))


def sample_weight_equivalence(info):
    p, y = sample(info, 200)
    weight = np.random.default_rng(1).integers(0, 3, size=200)
    weight[:3] = 1
    repeated = np.repeat(np.arange(200), weight)
    a = info.make().fit(p, y, sample_weight=weight)
    b = info.make().fit(p[repeated], y[repeated])
    if info.name in ROUGHLY_COUNTS:
        assert np.abs(a.predict_proba(p) - b.predict_proba(p)).mean() < 0.02
    else:
        assert_allclose(a.predict_proba(p), b.predict_proba(p), atol=2e-4)


def dtype_object(info):
    p, y = sample(info)
    with pytest.raises(TypeError, match="row 0, column 0"):
        info.make().fit(p.astype(object), y)
    same(info.make().fit(p, y.astype(object)), info.make().fit(p, y), p)
    with pytest.raises(ValueError, match="Unknown label type"):
        info.make().fit(p, np.array([1, "a", *y[2:]], dtype=object))


def pipeline_consistency(info):
    p, y = sample(info)
    calibrator = info.make().fit(p, y)
    pipeline = make_pipeline(info.make()).fit(p, y)
    same(calibrator, pipeline, p)
    assert pipeline.score(p, y) == calibrator.score(p, y)


def estimators_nan_inf(info):
    p, y = sample(info)
    calibrator = info.make().fit(p, y)
    for value in (np.nan, np.inf):
        wrong = p.copy()
        wrong[1, 0] = value
        for call in (calibrator.fit, calibrator.score):
            with pytest.raises(ValueError, match="NaN or infinity"):
                call(wrong, y)


def estimators_pickle(info):
    p, y = sample(info)
    calibrator = info.make().fit(p, y)
    same(pickle.loads(pickle.dumps(calibrator)), calibrator, p)


def f_contiguous_array(info):
    p, y = sample(info)
    same(info.make().fit(np.asfortranarray(p), y), info.make().fit(p, y), p)


def data_not_an_array(info):
    p, y = sample(info)
    same(info.make().fit(_NotAnArray(p), _NotAnArray(y)), info.make().fit(p, y), p)


def classifiers_classes(info):
    p, y = sample(info)
    for labels in (np.array(["one", "three", "two"]), np.array(["one", "three", "two"], dtype=object)):
        calibrator = info.make().fit(p, labels[y])
        assert_array_equal(calibrator.classes_, labels[: p.shape[1]])
        assert set(calibrator.predict(p)) <= set(labels)


def classifiers_train(info):
    p, y = sample(info)
    calibrator = info.make()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        calibrator.fit(p, y[:-1])
    calibrator.fit(p, y)
    q = calibrator.predict_proba(p)
    assert_array_equal(calibrator.predict(p), q.argmax(axis=1))
    assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
    with np.errstate(divide="ignore"):
        assert_array_equal(calibrator.predict_log_proba(p), np.log(q))
    with pytest.raises(ValueError, match=r"Reshape your data|features"):
        calibrator.predict(np.full((3, 7), 1 / 7))


def supervised_y_2d(info):
    p, y = sample(info)
    with pytest.warns(DataConversionWarning, match="column-vector"):
        calibrator = info.make().fit(p, y[:, None])
    same(calibrator, info.make().fit(p, y), p)


def n_iter(info):
    calibrator = info.make().fit(*sample(info))
    if hasattr(calibrator, "n_iter_"):
        assert calibrator.n_iter_ >= 1


def sample_order_invariance(info):
    p, y = sample(info)
    calibrator = info.make().fit(p, y)
    order = np.random.default_rng(0).permutation(len(p))
    assert_allclose(calibrator.predict_proba(p)[order], calibrator.predict_proba(p[order]), atol=1e-12)


def subset_invariance(info):
    p, y = sample(info)
    calibrator = info.make().fit(p, y)
    alone = np.vstack([calibrator.predict_proba(row[None]) for row in p])
    assert_allclose(alone, calibrator.predict_proba(p), atol=1e-12)


def one_sample(info):
    p, y = sample(info)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator = info.make().fit(p[:1], y[:1])
    assert any("The only calibration row has the label" in str(warning.message) for warning in caught)
    assert np.isfinite(calibrator.predict_proba(p)).all()


def one_feature(info):
    p, y = sample(info)
    calibrator = info.make().fit(p[:, :1], y == 0)
    assert calibrator.predict_proba(p[:, :1]).shape == (len(p), 2)


def dict_unchanged(info):
    p, y = sample(info)
    calibrator = info.make().fit(p, y)
    before = joblib.hash(vars(calibrator))
    calibrator.predict(p)
    calibrator.predict_proba(p)
    assert joblib.hash(vars(calibrator)) == before


def fit_idempotent(info):
    p, y = sample(info)
    calibrator = info.make().fit(*sample(info, 40, seed=5)).fit(p, y)
    same(calibrator, clone(calibrator).fit(p, y), p)


def fit_check_is_fitted(info):
    calibrator = info.make()
    assert not hasattr(calibrator, "classes_")
    check_is_fitted(calibrator.fit(*sample(info)))


def n_features_in(info):
    calibrator = info.make()
    assert not hasattr(calibrator, "n_features_in_")
    p, y = sample(info)
    assert calibrator.fit(p, y).n_features_in_ == p.shape[1]


def predict_1d(info):
    p, y = sample(info)
    calibrator = info.make().fit(p, y)
    if info.multiclass:  # for two classes a flat array is a column
        with pytest.raises(ValueError, match="Reshape your data"):
            calibrator.predict(p[0])


MIRRORS = {
    "check_fit_score_takes_y": fit_score_takes_y,
    "check_estimators_overwrite_params": estimators_overwrite_params,
    "check_dont_overwrite_parameters": dont_overwrite_parameters,
    "check_estimators_fit_returns_self": estimators_fit_returns_self,
    "check_readonly_memmap_input": readonly_memmap_input,
    "check_n_features_in_after_fitting": n_features_in_after_fitting,
    "check_estimators_dtypes": estimators_dtypes,
    "check_sample_weights_pandas_series": lambda info: sample_weights_accepted(info, pd.Series),
    "check_sample_weights_not_an_array": lambda info: sample_weights_accepted(info, _NotAnArray),
    "check_sample_weights_list": lambda info: sample_weights_accepted(info, list),
    "check_sample_weights_not_overwritten": lambda info: sample_weights_accepted(info, lambda weight: weight),
    "check_sample_weights_shape": sample_weights_shape,
    "check_sample_weight_equivalence_on_dense_data": sample_weight_equivalence,
    "check_dtype_object": dtype_object,
    "check_pipeline_consistency": pipeline_consistency,
    "check_estimators_nan_inf": estimators_nan_inf,
    "check_estimators_pickle": estimators_pickle,
    "check_f_contiguous_array_estimator": f_contiguous_array,
    "check_classifier_data_not_an_array": data_not_an_array,
    "check_classifiers_classes": classifiers_classes,
    "check_classifiers_train": classifiers_train,
    "check_supervised_y_2d": supervised_y_2d,
    "check_non_transformer_estimators_n_iter": n_iter,
    "check_methods_sample_order_invariance": sample_order_invariance,
    "check_methods_subset_invariance": subset_invariance,
    "check_fit2d_1sample": one_sample,
    "check_fit2d_1feature": one_feature,
    "check_dict_unchanged": dict_unchanged,
    "check_fit_idempotent": fit_idempotent,
    "check_fit_check_is_fitted": fit_check_is_fitted,
    "check_n_features_in": n_features_in,
    "check_fit2d_predict1d": predict_1d,
}
EXPECTED = dict.fromkeys(MIRRORS, NOT_PROBABILITIES) | {"check_dtype_object": OBJECTS}

EXPECTED_WITH_LOGITS = {
    "check_dtype_object": OBJECTS,
    "check_estimators_overwrite_params": MORE_LABELS,
    "check_estimators_fit_returns_self": MORE_LABELS,
    "check_readonly_memmap_input": MORE_LABELS,
    "check_classifiers_classes": MORE_LABELS,
    "check_classifiers_train": MORE_LABELS,
}
KEEPS_ORDER = {"check_classifiers_one_label": "the method never changes which class is most probable"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", each(NATIVE, one_per_class(NATIVE)))
def test_checks(info):
    results = check_estimator(info.make(), on_fail=None, on_skip=None, expected_failed_checks=EXPECTED)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert failed == {}
    assert sum(result["status"] == "passed" for result in results) >= 25


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        *("none", "ts", "sms", "isotonic"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("svs", "logistic", "cir", "venn-abers", "hist-quantile")
        ),
    ],
)
def test_checks_with_logits(name):
    expected = EXPECTED_WITH_LOGITS | (KEEPS_ORDER if name in ("none", "ts") else {})
    calibrator = get_calibrator(name, input="logits")
    results = check_estimator(calibrator, on_fail=None, on_skip=None, expected_failed_checks=expected)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert failed == {}
    # An expected failure that passes is no longer expected.
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == set(expected)


@pytest.mark.parametrize("check", MIRRORS)
@pytest.mark.parametrize("info", each(NATIVE, {"none", "ts", "isotonic", "sms", "auto"}))
def test_mirror(info, check, tmp_path):
    mirror = MIRRORS[check]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        if mirror is readonly_memmap_input:
            mirror(info, tmp_path)
        else:
            mirror(info)
