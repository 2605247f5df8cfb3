"""CalibratedClassifier: conformance, folds, absent classes, weights, routing, and life in scikit-learn's tools."""

from __future__ import annotations

import io
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from calibrant import (
    CalibratedClassifier,
    CalibrationWarning,
    SMSCalibrator,
    TemperatureScalingCalibrator,
    get_calibrator,
)
from calibrant.classifier.pair import log_scores
from tests.needs import needs


def data(n=200, k=3, seed=0):
    return make_classification(
        n, 6, n_informative=4, n_classes=k, n_clusters_per_class=1, class_sep=0.6, random_state=seed
    )


def log_loss(p, y):
    return -np.log(p[np.arange(len(y)), y]).mean()


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([CalibratedClassifier(LogisticRegression(), "ts", cv=3)])
def test_conformance(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        CalibratedClassifier(LogisticRegression()),
        CalibratedClassifier(LogisticRegression(), "ts", ensemble=False),
        CalibratedClassifier(LinearSVC(random_state=0), TemperatureScalingCalibrator(), cv=3),
    ]
)
def test_conformance_of_other_forms(estimator, check):
    check(estimator)


CLASSIFIERS = [
    LogisticRegression(),
    GaussianNB(),
    RandomForestClassifier(10, random_state=0),
    GradientBoostingClassifier(n_estimators=5, random_state=0),
    KNeighborsClassifier(),
    LinearSVC(random_state=0),
    RidgeClassifier(),
    SVC(),
    make_pipeline(StandardScaler(), LogisticRegression()),
]


def forms():
    """Every classifier in every form; often: each once, and one with probabilities and one without in all forms."""
    for estimator in CLASSIFIERS:
        for ensemble in ("auto", True, False):
            for k in (2, 3):
                often = (ensemble, k) == ("auto", 3) or isinstance(estimator, GaussianNB | RidgeClassifier)
                marks = [] if often else [pytest.mark.slow]
                name = f"{k}-{type(estimator).__name__}-{ensemble}"
                yield pytest.param(estimator, ensemble, k, marks=marks, id=name)


@pytest.mark.parametrize(("estimator", "ensemble", "k"), list(forms()))
def test_any_classifier(estimator, ensemble, k):
    X, y = data(k=k)
    names = np.array(["ann", "bob", "eve"])
    model = CalibratedClassifier(estimator, ensemble=ensemble, cv=3).fit(X, names[y])
    p = model.predict_proba(X)
    assert p.shape == (200, k)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert model.classes_.tolist() == names[:k].tolist()
    assert model.score(X, names[y]) > 0.6
    assert_array_equal(model.predict(X), names[p.argmax(axis=1)])
    assert len(model.calibrators_) == len(model.estimators_) == (3 if ensemble else 1)


def test_calibration_mends_naive_bayes():
    # Twice the same columns: naive Bayes counts the evidence twice and is far too sure.
    X, y = data(2000)
    X = np.hstack([X, X, X])
    train, test = np.arange(1000), np.arange(1000, 2000)
    raw = GaussianNB().fit(X[train], y[train]).predict_proba(X[test])
    p = CalibratedClassifier(GaussianNB(), "sms").fit(X[train], y[train]).predict_proba(X[test])
    theirs = CalibratedClassifierCV(GaussianNB(), method="isotonic", cv=5).fit(X[train], y[train])
    assert log_loss(p, y[test]) < 0.7 * log_loss(raw, y[test])
    assert log_loss(p, y[test]) < log_loss(theirs.predict_proba(X[test]) * (1 - 1e-9) + 1e-9 / 3, y[test])


def test_ensemble_is_the_mean_of_calibrated_folds():
    X, y = data()
    model = CalibratedClassifier(GaussianNB(), "ts", cv=4, ensemble=True).fit(X, y)
    expected = np.zeros((200, 3))
    for train, test in StratifiedKFold(4).split(X, y):
        fitted = GaussianNB().fit(X[train], y[train])
        ts = get_calibrator("ts").fit(fitted.predict_proba(X[test]), y[test])
        expected += ts.predict_proba(fitted.predict_proba(X)) / 4
    assert_allclose(model.predict_proba(X), expected, atol=1e-6)


class Loud(LinearSVC):
    """Decision values far beyond what logits are."""

    def decision_function(self, X):
        return 1e3 * super().decision_function(X)


def test_by_default_one_calibrator_of_all_folds_serves_the_classifier_of_each():
    X, y = data()
    model = CalibratedClassifier(GaussianNB(), "ts", cv=4).fit(X, y)
    ts = get_calibrator("ts").fit(cross_val_predict(GaussianNB(), X, y, cv=4, method="predict_proba"), y)
    fitted = [GaussianNB().fit(X[train], y[train]) for train, _ in StratifiedKFold(4).split(X, y)]
    expected = np.mean([ts.predict_proba(one.predict_proba(X)) for one in fitted], axis=0)
    assert_allclose(model.predict_proba(X), expected, atol=1e-6)
    assert len({id(calibrator) for calibrator in model.calibrators_}) == 1
    # Decision values that are too large for logits are scaled alike in all folds.
    scaled = CalibratedClassifier(Loud(), "ts", cv=4).fit(X, y).calibrated_classifiers_
    assert scaled[0].scaling is not None
    assert all(pair.scaling is scaled[0].scaling for pair in scaled)


def test_single_calibrator_sees_all_folds():
    X, y = data()
    model = CalibratedClassifier(GaussianNB(), "ts", cv=4, ensemble=False).fit(X, y)
    held_out = cross_val_predict(GaussianNB(), X, y, cv=4, method="predict_proba")
    ts = get_calibrator("ts").fit(held_out, y)
    assert_allclose(model.predict_proba(X), ts.predict_proba(GaussianNB().fit(X, y).predict_proba(X)), atol=1e-6)


def test_repeated_splits_count_a_row_once():
    X, y = data()
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    calibrator = CalibratedClassifier(GaussianNB(), "ts", cv=cv, ensemble=False).fit(X, y).calibrators_[0]
    # Laplace smoothing after n observations mixes in 1 / (n + 1) of the uniform distribution.
    extreme = calibrator.predict_proba([[0.0, -np.inf, -np.inf]])
    assert_allclose(extreme[0, 1], 1 / 201 / 3, rtol=1e-9)


@pytest.mark.parametrize(
    "cv",
    [
        3,
        None,
        StratifiedKFold(3, shuffle=True, random_state=0),
        PredefinedSplit(np.arange(200) % 4),
        "iterable",
        "mask",
    ],
    ids=str,
)
def test_folds(cv):
    X, y = data()
    if cv == "iterable":
        cv = iter([(np.arange(150), np.arange(150, 200))])
    elif cv == "mask":
        cv = [(np.arange(200) < 150, np.arange(200) >= 150)]
    model = CalibratedClassifier(GaussianNB(), "ts", cv=cv).fit(X, y)
    assert len(model.calibrators_) == len(model.estimators_)


def test_frozen_estimator_is_not_fitted_again():
    X, y = data(400)
    fitted = LogisticRegression().fit(X[:200], y[:200])
    model = CalibratedClassifier(FrozenEstimator(fitted), "sms").fit(X[200:], y[200:])
    p = fitted.predict_proba(X)
    expected = SMSCalibrator().fit(p[200:], y[200:]).predict_proba(p)
    assert_allclose(model.predict_proba(X), expected, atol=1e-6)


def test_frozen_estimator_with_an_absent_class():
    X, y = data(400)
    fitted = LogisticRegression().fit(X[:200], y[:200])
    rest, labels = X[200:][y[200:] != 1], y[200:][y[200:] != 1]
    model = CalibratedClassifier(FrozenEstimator(fitted)).fit(rest, labels)
    assert model.classes_.tolist() == [0, 1, 2]
    assert np.isfinite(np.log(model.predict_proba(X))).all()
    with pytest.raises(ValueError, match="label 7, which is not a class of the frozen classifier"):
        model.fit(X[:3], [0, 1, 7])


@pytest.mark.parametrize("ensemble", ["auto", True, False])
def test_a_fold_that_misses_a_class(ensemble):
    X, y = data()
    y = np.where(np.arange(200) == 5, 3, y)  # a single row of a fourth class
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = CalibratedClassifier(DecisionTreeClassifier(random_state=0), ensemble=ensemble).fit(X, y)
    said = [str(warning.message) for warning in caught if warning.category is CalibrationWarning]
    assert any("no row with the label 3" in message for message in said)
    p = model.predict_proba(X)
    assert p.shape == (200, 4)
    assert np.isfinite(np.log(p)).all()
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("labels", [["malignant"] * 5, [1] * 5])
def test_all_labels_of_one_class(labels):
    X, _ = data(5)
    with pytest.raises(ValueError, match=rf"^All labels are {labels[0]!r}: one class is not enough, at least two"):
        CalibratedClassifier(GaussianNB()).fit(X, labels)


@pytest.mark.parametrize("groups", [None, np.arange(22)])
@pytest.mark.parametrize(
    ("least", "said"),
    [
        (
            3,
            "Only 3 rows have the label 'b', and there are 5 folds: some lack this label. Use fewer folds, as in cv=3,",
        ),
        (1, "Only one row has the label 'b', and there are 5 folds: some lack this label. Use more rows."),
    ],
)
def test_fewer_rows_of_a_class_than_folds(least, said, groups):
    X, y = data(200, 2)
    rows = np.concatenate([np.flatnonzero(y == 0)[: 22 - least], np.flatnonzero(y == 1)[:least]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CalibratedClassifier(GaussianNB(), "ts").fit(X[rows], np.array(["a", "b"])[y[rows]], groups=groups)
    assert {warning.category for warning in caught} == {CalibrationWarning}
    assert {warning.filename for warning in caught if "fold" in str(warning.message)} == {__file__}
    assert sum(str(warning.message).startswith(said) for warning in caught) == 1


def test_a_fold_trained_on_one_class():
    X, y = data(40, 2)
    cv = [(np.flatnonzero(y == 0), np.arange(40)), (np.arange(40), np.arange(40))]
    with pytest.warns(CalibrationWarning, match="label"):
        model = CalibratedClassifier(DecisionTreeClassifier(max_depth=2), "ts", cv=cv).fit(X, y)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, atol=1e-12)
    nowhere = [(np.flatnonzero(y == 0), np.flatnonzero(y == 1))]
    with (
        pytest.warns(CalibrationWarning, match="no row with the label 1"),
        pytest.raises(ValueError, match="Fold 0 has no rows to calibrate on"),
    ):
        CalibratedClassifier(DecisionTreeClassifier(), cv=nowhere).fit(X, y)


def test_leave_one_out():
    X, y = data(30, 2)
    model = CalibratedClassifier(GaussianNB(), "ts", cv=LeaveOneOut(), ensemble=False).fit(X, y)
    assert model.predict_proba(X).shape == (30, 2)


@pytest.mark.parametrize(
    ("ensemble", "method"),
    [("auto", "sms"), ("auto", "auto-fast"), ("auto", "dirichlet-cv"), (True, "sms"), (False, "sms")],
)
def test_weights_equal_repetition(ensemble, method):
    X, y = data(120)
    w = np.random.default_rng(0).integers(0, 3, size=120)
    fold = np.arange(120) % 3
    repeated = np.repeat(np.arange(120), w)
    a = CalibratedClassifier(GaussianNB(), method, cv=PredefinedSplit(fold), ensemble=ensemble)
    b = CalibratedClassifier(GaussianNB(), method, cv=PredefinedSplit(fold[repeated]), ensemble=ensemble)
    a.fit(X, y, sample_weight=w)
    b.fit(X[repeated], y[repeated])
    assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-7)


def test_order_of_rows_does_not_matter():
    X, y = data(120)
    fold = np.arange(120) % 3
    order = np.random.default_rng(0).permutation(120)
    a = CalibratedClassifier(GaussianNB(), "auto-fast", cv=PredefinedSplit(fold)).fit(X, y)
    b = CalibratedClassifier(GaussianNB(), "auto-fast", cv=PredefinedSplit(fold[order])).fit(X[order], y[order])
    assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-7)


def test_weights_that_are_not_whole():
    X, y = data(120)
    w = np.random.default_rng(0).uniform(0.5, 2.0, size=120)
    p = [
        CalibratedClassifier(GaussianNB(), "ts", cv=3).fit(X, y, sample_weight=f * w).predict_proba(X) for f in (1, 1.5)
    ]
    assert np.abs(p[0] - p[1]).max() < 0.02  # smoothing alone counts them
    assert np.abs(p[0] - CalibratedClassifier(GaussianNB(), "ts", cv=3).fit(X, y).predict_proba(X)).max() > 1e-4


def test_weights_of_a_classifier_without_them():
    X, y = data()
    with pytest.warns(CalibrationWarning, match="KNeighborsClassifier takes no sample weights"):
        CalibratedClassifier(KNeighborsClassifier(), "ts").fit(X, y, sample_weight=np.full(200, 2.0))


def test_metadata_routing():
    X, y = data()
    groups = np.arange(200) // 10
    weight = np.random.default_rng(0).integers(1, 3, size=200)
    with config_context(enable_metadata_routing=True):
        base = GaussianNB().set_fit_request(sample_weight=True)
        model = CalibratedClassifier(base, "ts", cv=GroupKFold(4)).fit(X, y, sample_weight=weight, groups=groups)
        silent = CalibratedClassifier(GaussianNB(), "ts")
        with pytest.raises(ValueError, match="sample_weight"):
            silent.fit(X, y, sample_weight=weight)
    splits = list(GroupKFold(4).split(X, y, groups))
    plain = CalibratedClassifier(GaussianNB(), "ts", cv=splits).fit(X, y, sample_weight=weight)
    assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


def test_text_pipeline_and_frames():
    texts = ["good film", "bad film", "good good", "bad bad", "fine", "poor", "good fine", "poor bad"] * 5
    y = ["pos", "neg", "pos", "neg", "pos", "neg", "pos", "neg"] * 5
    model = CalibratedClassifier(make_pipeline(CountVectorizer(), MultinomialNB()), "ts").fit(texts, y)
    assert model.predict(["good", "bad"]).tolist() == ["pos", "neg"]
    X, target = data()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = CalibratedClassifier(LogisticRegression(), "ts").fit(frame, pd.Series(target).astype("category"))
    assert model.feature_names_in_.tolist() == list("abcdef")
    assert model.n_features_in_ == 6


def test_in_grid_search_pipeline_and_cross_val_predict():
    X, y = data(90)
    pipeline = make_pipeline(StandardScaler(), CalibratedClassifier(LogisticRegression(), "ts", cv=2))
    grid = {
        "calibratedclassifier__estimator__C": [0.1, 1.0],
        "calibratedclassifier__method": ["ts", SMSCalibrator(), "quadratic"],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the method that is for two classes only
        search = GridSearchCV(pipeline, grid, scoring="neg_log_loss", cv=2).fit(X, y)
    assert np.isfinite(search.best_score_)
    assert np.isnan(search.cv_results_["mean_test_score"]).sum() == 2
    p = cross_val_predict(pipeline, X, y, cv=2, method="predict_proba")
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)


def test_clone_and_set_params():
    model = CalibratedClassifier(LogisticRegression(), SMSCalibrator(penalty="lasso"))
    twin = clone(model).set_params(method__penalty="ridge", estimator__C=3.0)
    assert twin.method.penalty == "ridge"
    assert model.method.penalty == "lasso"
    assert is_classifier(model)
    X, y = data(60)
    fitted = twin.fit(X, y)
    assert fitted.method.input == "probabilities"  # the caller's calibrator is left alone
    assert not hasattr(fitted.method, "classes_")


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"method": "smss"}, "did you mean 'sms'"),
        ({"method": "sigmod"}, "did you mean 'sigmoid'"),
        ({"method": 3}, "'method' parameter"),
        ({"cv": 1}, "cross-validation|'cv' parameter|k-fold"),
        ({"cv": "five"}, "'cv' parameter"),
        ({"ensemble": "yes"}, "'ensemble' parameter"),
        ({"estimator": 3}, "'estimator' parameter"),
        ({"n_jobs": 1.5}, "'n_jobs' parameter"),
        ({"method": SMSCalibrator(penalty="l3")}, "'penalty' parameter"),
    ],
)
def test_bad_parameters_are_rejected_at_fit(parameters, error):
    model = CalibratedClassifier(GaussianNB()).set_params(**parameters)
    with pytest.raises(ValueError, match=error):
        model.fit(*data(60))


def test_parallel_folds_give_the_same():
    X, y = data()
    one = CalibratedClassifier(GaussianNB(), "ts", cv=3).fit(X, y).predict_proba(X)
    with joblib.parallel_backend("threading"):
        two = CalibratedClassifier(GaussianNB(), "ts", cv=3, n_jobs=2).fit(X, y).predict_proba(X)
    assert_array_equal(one, two)


@pytest.mark.parametrize("way", ["pickle", "joblib", "skops"])
def test_travel(way):
    X, y = data()
    model = CalibratedClassifier(GaussianNB(), "logistic", cv=3).fit(X, y)
    if way == "pickle":
        twin = pickle.loads(pickle.dumps(model))
    elif way == "joblib":
        buffer = io.BytesIO()
        joblib.dump(model, buffer)
        buffer.seek(0)
        twin = joblib.load(buffer)
    else:
        sio = needs("skops.io")
        blob = sio.dumps(model)
        unknown = sio.get_untrusted_types(data=blob)
        assert all(name.startswith("calibrant.") for name in unknown)
        twin = sio.loads(blob, trusted=unknown)
    assert_array_equal(twin.predict_proba(X), model.predict_proba(X))


def test_calibrators_from_elsewhere():
    X, y = data(k=3)
    model = CalibratedClassifier(GaussianNB(), LogisticRegression(), cv=3).fit(X, y)  # takes probabilities as features
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, atol=1e-12)


def test_log_scores_are_exact():
    X, y = data(k=2)
    nb = GaussianNB().fit(X, y)
    assert_array_equal(log_scores(nb, 50 * X, nb.classes_), nb.predict_log_proba(50 * X))
    svm = LinearSVC(random_state=0).fit(X, y)
    scores = log_scores(svm, X, svm.classes_)
    assert_array_equal(scores[:, 1] - scores[:, 0], svm.decision_function(X))
    X, y = data(k=4)
    with pytest.raises(ValueError, match="one column per class"):
        log_scores(SVC(decision_function_shape="ovo").fit(X, y), X, np.arange(4))
