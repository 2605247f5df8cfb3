"""The paper's calibrators: limits, invariances, hard data, and the original package."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression

from calibrant import (
    BinaryLogisticCalibrator,
    CalibrationWarning,
    LogisticCalibrator,
    SMSCalibrator,
    SVSCalibrator,
    TemperatureScalingCalibrator,
)
from calibrant.gaussian import BinaryGaussianModel
from tests.needs import needs
from tests.samples import confused, draw_labels, mean_log_loss

PENALTIES = ["ridge", "lasso", "group_lasso", "mcp"]
MULTICLASS = [TemperatureScalingCalibrator, SVSCalibrator, SMSCalibrator, LogisticCalibrator]


def test_temperature_is_the_minimum_of_the_log_loss() -> None:
    p, y = confused(400, 5)
    ts = TemperatureScalingCalibrator(smoothing=False).fit(p, y)

    def loss(alpha: float) -> float:
        q = p**alpha
        return mean_log_loss(q / q.sum(axis=1, keepdims=True), y)

    best = minimize_scalar(loss, bounds=(0.01, 10), method="bounded", options={"xatol": 1e-12})
    assert ts.inverse_temperature_ == pytest.approx(best.x, abs=1e-6)
    assert ts.objective_ == pytest.approx(best.fun, abs=1e-12)
    assert mean_log_loss(ts.predict_proba(p), y) == pytest.approx(best.fun, abs=1e-12)


def test_smoothing_counts_one_uniform_observation() -> None:
    p, y = confused(99, 4)
    plain = TemperatureScalingCalibrator(smoothing=False).fit(p, y).predict_proba(p)
    smooth = TemperatureScalingCalibrator().fit(p, y).predict_proba(p)
    np.testing.assert_allclose(smooth, (99 * plain + 0.25) / 100, atol=1e-14)


def test_input_smoothing_rescues_exact_zeros() -> None:
    """A forest's exact zeros are leverage points for temperature scaling; mixing the input takes their weight."""
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(4), size=2000)
    y = draw_labels(q, rng)
    votes = np.array([rng.multinomial(10, row) for row in q]) / 10.0
    losses = {
        how: TemperatureScalingCalibrator(input_smoothing=how).fit(votes, y).objective_ for how in (None, 1e-3, "auto")
    }
    assert losses["auto"] < losses[1e-3] < losses[None] - 0.03


def test_sms_with_huge_off_diagonal_penalty_is_svs_and_that_with_huge_penalties_is_ts() -> None:
    p, y = confused(500, 4)
    svs, ts = SVSCalibrator(tol=1e-13).fit(p, y), TemperatureScalingCalibrator().fit(p, y)
    sms = SMSCalibrator(lambda_off_diagonal=1e9, tol=1e-13).fit(p, y)
    np.testing.assert_allclose(sms.predict_proba(p), svs.predict_proba(p), atol=1e-7)
    np.testing.assert_allclose(np.diag(sms.coef_), svs.coef_, atol=1e-6)
    stiff = SVSCalibrator(lambda_intercept=1e9, lambda_diagonal=1e9).fit(p, y)
    np.testing.assert_allclose(stiff.predict_proba(p), ts.predict_proba(p), atol=1e-8)


def test_unpenalised_sms_without_preprocessing_is_softmax_regression_on_log_probabilities() -> None:
    p, y = confused(500, 3)
    ms = SMSCalibrator(penalty=None, preprocess=None, tol=1e-12).fit(p, y)
    reference = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10000).fit(np.log(p), y)
    np.testing.assert_allclose(ms.predict_proba(p), reference.predict_proba(np.log(p)), atol=1e-5)
    np.testing.assert_allclose(ms.coef_.mean(axis=0), 0.0, atol=1e-12)  # the minimum-norm one
    assert np.isnan(ms.duality_gap_)
    vs = SVSCalibrator(penalty=None, preprocess=None).fit(p, y)
    assert ms.objective_ < vs.objective_ < mean_log_loss(p, y)
    zero = SVSCalibrator(preprocess=None, lambda_intercept=0.0, lambda_diagonal=0.0).fit(p, y)
    np.testing.assert_allclose(zero.predict_proba(p), vs.predict_proba(p), atol=1e-12)


def test_dirichlet_is_a_choice_of_strengths() -> None:
    """Off-diagonal and intercept ridge of 1e-3, diagonal free: the minimum of that objective, by scipy."""
    from scipy.optimize import minimize
    from scipy.special import logsumexp

    p, y = confused(300, 3)
    n, k = p.shape
    cal = SMSCalibrator(
        preprocess=None, rho=0, tau=0, lambda_intercept=1e-3, lambda_off_diagonal=1e-3, lambda_diagonal=0, tol=1e-12
    ).fit(p, y)
    x = np.log(p)

    def objective(t: np.ndarray) -> float:
        w, b = t[: k * k].reshape(k, k), t[k * k :]
        z = x @ w.T + b
        off = w - np.diag(np.diag(w))
        return float(np.mean(logsumexp(z, axis=1) - z[np.arange(n), y]) + 1e-3 * (np.sum(off**2) + np.sum(b**2)))

    best = minimize(objective, np.concatenate([np.eye(k).ravel(), np.zeros(k)]), tol=1e-12)
    assert cal.objective_ == pytest.approx(best.fun, abs=1e-8)
    assert cal.objective_ <= best.fun + 1e-10


@pytest.mark.parametrize(
    ("make", "penalty"),
    [
        (TemperatureScalingCalibrator, None),
        (LogisticCalibrator, None),
        *((make, penalty) for make in (SVSCalibrator, SMSCalibrator) for penalty in PENALTIES),
    ],
)
def test_invariances(make: type, penalty: str | None) -> None:
    parameters = {} if penalty is None else {"penalty": penalty, "tol": 1e-10}
    p, y = confused(250, 4)
    base = make(**parameters).fit(p, y).predict_proba(p)
    tolerance = {"atol": 2e-6}

    classes = np.array([2, 0, 3, 1])  # column j of the permuted predictions is class classes[j] of the original
    position = np.argsort(classes)
    permuted = make(**parameters).fit(p[:, classes], position[y]).predict_proba(p[:, classes])
    np.testing.assert_allclose(permuted, base[:, classes], **tolerance)

    rows = np.random.default_rng(1).permutation(len(y))
    np.testing.assert_allclose(make(**parameters).fit(p[rows], y[rows]).predict_proba(p), base, **tolerance)

    names = np.array(["ant", "bee", "cow", "dog"])
    named = make(**parameters).fit(p, names[y])
    assert named.classes_.tolist() == names.tolist()
    np.testing.assert_array_equal(named.predict_proba(p), base)
    assert named.predict(p).tolist() == names[base.argmax(axis=1)].tolist()

    weight = np.random.default_rng(2).integers(0, 3, size=len(y)).astype(float)
    weighted = make(**parameters).fit(p, y, sample_weight=weight).predict_proba(p)
    repeated = make(**parameters).fit(np.repeat(p, weight.astype(int), axis=0), np.repeat(y, weight.astype(int)))
    np.testing.assert_allclose(weighted, repeated.predict_proba(p), **tolerance)

    logits = np.log(p)
    shifted = logits + 10 * np.random.default_rng(3).normal(size=(len(y), 1))
    from_logits = make(**parameters, input="logits").fit(shifted, y).predict_proba(shifted)
    np.testing.assert_allclose(from_logits, base, **tolerance)


@pytest.mark.parametrize("kind", ["linear", "affine", "quadratic"])
def test_binary_family_against_scikit_learn(kind: str) -> None:
    p, y = confused(1000, 2)
    x = np.log(p[:, 1]) - np.log1p(-p[:, 1])
    features = np.column_stack([x, np.ones_like(x), x * x])[:, : {"linear": 1, "affine": 2, "quadratic": 3}[kind]]
    reference = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-12, max_iter=10000).fit(features, y)
    fitted = BinaryLogisticCalibrator(kind, tol=1e-13).fit(p, y)
    mine = np.array([fitted.coef_, fitted.intercept_, fitted.quadratic_])
    np.testing.assert_allclose(mine[: features.shape[1]], reference.coef_[0], atol=1e-4)
    np.testing.assert_allclose(fitted.predict_proba(p), reference.predict_proba(features), atol=1e-5)
    assert np.isnan(fitted.duality_gap_)
    assert fitted.residual_ < 1e-8


@pytest.mark.parametrize("penalty", ["ridge", "lasso", "mcp"])
@pytest.mark.parametrize("solver", ["auto", "saga"])
def test_binary_penalties_shrink_what_they_are_told_to(penalty: str, solver: str) -> None:
    x, y = BinaryGaussianModel(-0.8, 1.2, 0.7, 1.4).sample(400, random_state=0)
    free = BinaryLogisticCalibrator(input="logits").fit(x, y)
    parameters = {"penalty": penalty, "lambda_quadratic": 50.0, "solver": solver, "max_iter": 20000, "tol": 1e-5}
    shrunk = BinaryLogisticCalibrator(**parameters, input="logits").fit(x, y)
    affine = BinaryLogisticCalibrator("affine", input="logits").fit(x, y)
    assert abs(shrunk.quadratic_) < 0.01 * abs(free.quadratic_)
    np.testing.assert_allclose(shrunk.predict_proba(x), affine.predict_proba(x), atol=0.02)


def test_logistic_chooses_by_columns_not_by_labels_seen() -> None:
    p, y = confused(200, 3)
    few = y < 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        cal = LogisticCalibrator().fit(p[few], y[few])
    assert isinstance(cal.calibrator_, SMSCalibrator)
    assert isinstance(
        LogisticCalibrator(classes=[0, 1]).fit(p[few][:, 0], y[few]).calibrator_, BinaryLogisticCalibrator
    )


def test_all_are_classifiers_for_scikit_learn() -> None:
    for make in (*MULTICLASS, BinaryLogisticCalibrator):
        assert is_classifier(make())


def test_binary_calibrator_says_that_it_is_for_two_classes() -> None:
    p, y = confused(50, 3)
    with pytest.raises(ValueError, match="two classes, X has 3 columns"):
        BinaryLogisticCalibrator().fit(p, y)


def test_parameters_are_checked_at_fit() -> None:
    p, y = confused(50, 3)
    for bad in ({"penalty": "l7"}, {"lambda_diagonal": -1}, {"solver": "adam"}, {"tol": 0}, {"input_smoothing": 1.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            SMSCalibrator(**bad).fit(p, y)
    with pytest.raises(ValueError, match=r"solver='newton' needs a smooth penalty.*saga"):
        SMSCalibrator(penalty="lasso", solver="newton").fit(p, y)


HARD = {
    "separated": (np.eye(3)[np.arange(30) % 3] * 0.9 + 1 / 30, np.arange(30) % 3),
    "one class": (confused(40, 3)[0], np.zeros(40, dtype=int)),
    "one row": (np.array([[0.2, 0.3, 0.5]]), np.array([2])),
    "class with one row": (confused(60, 3)[0], np.r_[2, np.arange(59) % 2]),
    "constant": (np.full((50, 3), 1 / 3), np.arange(50) % 3),
    "exact zeros and ones": (np.eye(3)[np.arange(60) % 3], (np.arange(60) // 2) % 3),
    "many classes": (confused(50, 300)[0], np.arange(50) * 6),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, np.float64) for name in HARD), ("exact zeros and ones", np.float32), ("class with one row", np.float16)],
)
@pytest.mark.parametrize("make", [*MULTICLASS, lambda: SMSCalibrator(penalty="lasso"), lambda: SVSCalibrator("mcp")])
def test_hard_data_give_finite_valid_distributions(name: str, dtype: type, make: type) -> None:
    p, y = HARD[name]
    p = p.astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        cal = make()
        cal.set_params(classes=np.arange(p.shape[1]), renormalize=dtype == np.float16)
        q = cal.fit(p, y).predict_proba(p)
    assert np.isfinite(q).all()
    assert q.min() >= 0.0
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12 if dtype == np.float64 else 1e-4)
    assert q.dtype == (np.float64 if dtype == np.float64 else np.float32)


@pytest.mark.parametrize("make", [lambda: SMSCalibrator(penalty=None, preprocess=None), lambda: SVSCalibrator(None)])
def test_separable_data_without_penalty_warn_and_stay_finite(make: type) -> None:
    p, y = HARD["separated"]
    with pytest.warns(CalibrationWarning, match="separable"):
        cal = make().fit(p, y)
    assert np.isfinite(cal.coef_).all()
    assert mean_log_loss(cal.predict_proba(p), y) < 1e-3
    with pytest.warns(CalibrationWarning, match="separable"):
        binary = BinaryLogisticCalibrator().fit([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1])
    assert np.isfinite([binary.coef_, binary.intercept_, binary.quadratic_]).all()


@pytest.mark.parametrize("make", [SVSCalibrator, SMSCalibrator])
def test_unpenalised_models_of_saturated_predictions_reach_the_optimum(make: type) -> None:
    """One-hot predictions, one in four wrong: a free matrix reproduces the share of each label."""
    n, k = 400, 3
    predicted = np.arange(n) % k
    y = np.where(np.arange(n) % 4 == 0, (predicted + 1) % k, predicted)
    p = np.eye(k)[predicted]
    q = make(penalty=None, preprocess=None).fit(p, y).predict_proba(np.eye(k))
    shares = np.array([[np.mean(y[predicted == i] == j) for j in range(k)] for i in range(k)])
    if make is SMSCalibrator:  # shares of zero are reached in the limit only
        np.testing.assert_allclose(q, shares, atol=1e-3)
    else:  # the vector model knows one rate of errors for each class, not where they go
        np.testing.assert_allclose(np.diag(q), np.diag(shares), atol=0.02)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("make", [SVSCalibrator, SMSCalibrator])
def test_training_objective_is_never_above_temperature_scaling(make: type, penalty: str) -> None:
    for seed in range(5):
        p, y = confused(60, 4, seed)
        ts = TemperatureScalingCalibrator().fit(p, y)
        assert make(penalty=penalty).fit(p, y).objective_ <= mean_log_loss(ts.predict_proba(p), y) + 1e-12


@pytest.mark.peer
def test_probmetrics_reaches_the_same_optimum_only_less_exactly() -> None:
    """Its float32 L-BFGS stops early: the same predictions to 1e-2, never a lower objective."""
    reference = needs("probmetrics.calibrators")
    p, y = confused(2000, 5)
    mine, other = SMSCalibrator().fit(p, y), reference.SMSCalibrator(print_init_info=False).fit(p, y)
    np.testing.assert_allclose(other.predict_proba(p), mine.predict_proba(p), atol=1e-2)
    w = np.asarray(other.W_, dtype=float)
    assert np.abs(w[:, :5] - mine.coef_).max() < 0.1


def test_the_logistic_default_has_weak_priors_and_matches_means() -> None:
    """The optimum that a general optimiser finds, finite where no row is wrong; its mean is the frequency."""
    rng = np.random.default_rng(0)
    t = 2.0 * rng.normal(size=60)
    y = (t + rng.logistic(size=60) > 1.5).astype(np.int64)
    cal = LogisticCalibrator(input_smoothing=None).fit(expit(t), y)

    def objective(theta):
        z = theta @ [np.ones(60), t, t * t]
        return np.logaddexp(0.0, z).sum() - z[y == 1].sum() + 0.2 * theta[1] ** 2 + 300.0 * theta[2] ** 2

    inner = cal.calibrator_
    found = np.array([inner.intercept_, inner.coef_, inner.quadratic_])
    np.testing.assert_allclose(found, minimize(objective, np.zeros(3), tol=1e-10).x, atol=1e-4)
    assert cal.predict_proba(expit(t))[:, 1].mean() == pytest.approx(y.mean(), abs=1e-5)
    right = LogisticCalibrator().fit([0.1, 0.2, 0.3, 0.7, 0.8, 0.9], [0, 0, 0, 1, 1, 1])
    assert 1.0 < right.calibrator_.coef_ < 5.0
