"""Exact zeros and ones, rounded predictions, rows without an error: what is stored is what was certified.

The objective is recomputed in NumPy from the stored coefficients, and must be the stored one.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning

from calibrant import (
    BinaryLogisticCalibrator,
    SMSCalibrator,
    SVSCalibrator,
    TemperatureScalingCalibrator,
    get_calibrator,
)
from calibrant.calibrators.auto.sqs import SQSCalibrator
from calibrant.calibrators.scaling.dirichlet import DirichletCalibrator, DirichletCVCalibrator
from calibrant.inputs.words import CalibrationWarning
from calibrant.softmax.solvers import SOLVERS

FLOOR = float(np.log(np.finfo(np.float32).tiny))
PENALTIES = ("ridge", "lasso", "group_lasso", "mcp", None)


def logarithms(p: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(p), FLOOR)


def size(t: Any, strength: float, penalty: str | None, gamma: float = 3.0) -> float:
    t = np.abs(np.asarray(t, dtype=float)).ravel()
    if penalty == "ridge":
        return strength * float(t @ t)
    if penalty == "lasso":
        return strength * float(t.sum())
    if penalty == "group_lasso":
        return strength * float(np.linalg.norm(t))
    if penalty == "mcp":
        inside = strength * t - t * t / (2 * gamma)
        return float(np.where(t <= gamma * strength, inside, gamma * strength**2 / 2).sum())
    return 0.0


def objective(cal: Any, p: np.ndarray, y: np.ndarray) -> float:
    """Mean log loss plus penalty of the stored coefficients."""
    n, k = p.shape
    x = logarithms(p)
    if getattr(cal, "preprocess", None) == "ts":
        smoothing = 1.0 / (n + 1.0)
        x = np.log((1 - smoothing) * np.exp(log_softmax(cal.inverse_temperature_ * x, axis=1)) + smoothing / k)
    diagonal = cal.coef_ if cal.coef_.ndim == 1 else np.diag(cal.coef_)
    off = np.zeros((k, k)) if cal.coef_.ndim == 1 else cal.coef_ - np.diag(diagonal)
    z = (np.diag(diagonal) + off) @ x.T + cal.intercept_[:, None]
    loss = -float(np.mean(log_softmax(z, axis=0)[y, np.arange(n)]))
    if isinstance(cal, DirichletCalibrator):
        return loss + cal.lambda_coef * float(np.sum(off**2)) + cal.lambda_intercept * float(np.sum(cal.intercept_**2))
    loss += size(cal.intercept_, cal.lambda_intercept * k / n, cal.penalty)
    loss += size(diagonal - 1.0, cal.lambda_diagonal * k / n, cal.penalty)
    return loss + size(off, getattr(cal, "lambda_off_diagonal", 0.0) * k * (k - 1) / n, cal.penalty)


def rows(seed: int, n: int = 60, k: int = 3, decimals: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Over-confident predictions, optionally rounded, of which some are exactly zero and one."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 0.2), size=n)
    if decimals is None:
        p[::3] = np.eye(k)[p[::3].argmax(axis=1)]
    else:
        p = p.round(decimals)
        p[p.sum(axis=1) == 0.0] = 1.0
    p /= p.sum(axis=1, keepdims=True)
    y = np.where(rng.random(n) < 0.8, p.argmax(axis=1), rng.integers(k, size=n))
    return p, y


def fitted(cal: Any, p: np.ndarray, y: np.ndarray, *, quiet: tuple[type[Warning], ...] = ()) -> Any:
    """Fit with every warning an error but that of separable rows and those named."""
    cal.set_params(classes=np.arange(p.shape[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for category in (CalibrationWarning, *quiet):
            warnings.simplefilter("ignore", category)
        return cal.fit(p, y)


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("solver", list(SOLVERS))
@pytest.mark.parametrize("make", [SVSCalibrator, SMSCalibrator])
@pytest.mark.parametrize("preprocess", ["ts", None])
def test_every_solver_stores_what_it_judged(
    make: type, solver: str, penalty: str | None, preprocess: str | None
) -> None:
    if solver in ("newton", "lbfgs") and penalty not in ("ridge", None):
        with pytest.raises(ValueError, match="smooth"):
            make(penalty, solver=solver).fit(*rows(0))
        return
    first_order = solver in ("saga", "fista", "lbfgs")
    for seed, decimals in ((0, None), (1, 1), (2, 2)):
        p, y = rows(seed, decimals=decimals)
        cal = make(penalty, solver=solver, preprocess=preprocess, max_iter=20 if first_order else None)
        fitted(cal, p, y, quiet=(ConvergenceWarning,) if first_order or penalty == "mcp" else ())
        assert cal.objective_ == pytest.approx(objective(cal, p, y), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("decimals", [None, 1, 2, 3])
@pytest.mark.parametrize(
    "make",
    [DirichletCalibrator, lambda: SMSCalibrator(None, preprocess=None), lambda: SVSCalibrator(None, preprocess=None)],
    ids=["dirichlet", "ms", "vs"],
)
def test_rounded_predictions(make: type, decimals: int | None) -> None:
    for seed, k in ((0, 2), (1, 3), (2, 5), (3, 8)):
        p, y = rows(seed, n=150, k=k, decimals=decimals)
        cal = fitted(make(), p, y)
        assert cal.objective_ == pytest.approx(objective(cal, p, y), rel=1e-9)
        q = cal.predict_proba(p)[np.arange(len(y)), y]
        assert -np.log(q).mean() <= cal.objective_ * (1 + 1e-9)


def test_dirichlet_with_a_class_that_one_row_in_four_excludes() -> None:
    p = np.array([[0.0, 0.5, 0.5], [0.0, 0.4, 0.6], [0.0, 0.7, 0.3], [0.2, 0.4, 0.4]] * 10)
    y = np.array([0, 0, 0, 1] * 10)
    cal = fitted(DirichletCalibrator(), p, y)
    q = cal.predict_proba(p)[np.arange(len(y)), y]
    assert -np.log(q).mean() <= cal.objective_ + 1e-15  # probabilities next to one are rounded
    assert cal.objective_ < 1e-5


@pytest.mark.parametrize("make", [SVSCalibrator, SMSCalibrator])
def test_rows_without_an_error_and_without_preprocessing_reach_the_optimum(make: type) -> None:
    """The optimum by another solver from another start; the temperature of such rows is infinite."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        p = rng.dirichlet(np.ones(3), size=int(rng.integers(1, 12)))
        y = p.argmax(axis=1)
        cal = fitted(make(preprocess=None), p, y)
        assert cal.objective_ == pytest.approx(objective(cal, p, y), rel=1e-9)
        other = fitted(make(preprocess=None, solver="lbfgs", tol=1e-9), p, y)
        assert cal.objective_ == pytest.approx(other.objective_, abs=2e-8 * max(1.0, other.objective_))


def test_a_class_that_is_never_predicted_keeps_coefficients_small() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 30))
        p = rng.dirichlet(np.ones(3), size=n)
        p[:, 0] = 0.0
        p /= p.sum(axis=1, keepdims=True)
        y = 1 + (rng.random(n) < p[:, 2])
        for make in (SVSCalibrator, SMSCalibrator):
            cal = fitted(make(None, preprocess=None), p, y)
            assert np.abs(cal.coef_).max() < 1e5
            # The first class is out of the game: what is left is at least as good as the two slopes alone.
            two = fitted(SVSCalibrator(None, preprocess=None), p[:, 1:], y - 1)
            assert objective(cal, p, y) <= two.objective_ + 1e-6


def test_group_lasso_where_the_loss_has_no_curvature() -> None:
    strengths = {"lambda_intercept": 0.1, "lambda_diagonal": 0.1, "lambda_off_diagonal": 0.1}
    p, y = np.array([[0.83, 0.17], [0.246, 0.754], [0.758, 0.242]]), np.array([0, 1, 0])
    cal = fitted(SMSCalibrator("group_lasso", **strengths), p, y)
    assert 0.0 <= cal.duality_gap_ <= 1e-8
    for seed in range(8):
        rng = np.random.default_rng(seed)
        p = rng.dirichlet(np.full(3, 0.3), size=int(rng.integers(1, 6)))
        cal = fitted(SMSCalibrator("group_lasso", **strengths), p, p.argmax(axis=1))
        assert cal.duality_gap_ <= 1e-8
        assert cal.objective_ == pytest.approx(objective(cal, p, p.argmax(axis=1)), rel=1e-9)


@pytest.mark.parametrize("penalty", ["lasso", "group_lasso"])
def test_sparse_penalties_of_one_hot_predictions_are_certified(penalty: str) -> None:
    strengths = {"lambda_intercept": 0.1, "lambda_diagonal": 0.1, "lambda_off_diagonal": 0.1}
    for seed, (n, k) in enumerate([(100, 3), (100, 4), (5, 3), (8, 3)]):
        rng = np.random.default_rng(seed)
        p, y = np.eye(k)[rng.integers(k, size=n)], rng.integers(k, size=n)
        cal = fitted(SMSCalibrator(penalty, preprocess=None, **strengths), p, y)
        assert cal.duality_gap_ <= 1e-8 * max(1.0, cal.objective_)


@pytest.mark.parametrize("n", [10, 300, 3000])
def test_temperature_of_rows_without_an_error_does_not_depend_on_their_order(n: int) -> None:
    rng = np.random.default_rng(n)
    p = rng.dirichlet(np.full(3, 0.5), size=n)
    y = p.argmax(axis=1)
    found = set()
    for _ in range(5):
        order = rng.permutation(n)
        found.add(TemperatureScalingCalibrator().fit(p[order], y[order]).inverse_temperature_)
    assert len(found) == 1


def test_weight_two_is_a_repeated_row_at_the_size_where_folds_begin() -> None:
    rng = np.random.default_rng(0)
    for n in (7, 8, 14, 15):
        p, y = rng.dirichlet(np.ones(3), size=n), rng.integers(3, size=n)
        twice = SQSCalibrator(classes=[0, 1, 2]).fit(np.repeat(p, 2, axis=0), np.repeat(y, 2))
        weighted = SQSCalibrator(classes=[0, 1, 2]).fit(p, y, sample_weight=np.full(n, 2.0))
        np.testing.assert_allclose(weighted.predict_proba(p), twice.predict_proba(p), atol=1e-10)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_parameters_must_be_finite(value: float) -> None:
    p, y = rows(0, k=2)
    for make in (SVSCalibrator, SMSCalibrator, BinaryLogisticCalibrator, DirichletCalibrator, SQSCalibrator):
        real = [name for name, default in make().get_params().items() if isinstance(default, float)]
        assert real
        for name in real:
            with pytest.raises(ValueError, match=name):
                make(**{name: value}).fit(p, y)
    for name in ("lambdas_coef", "lambdas_intercept"):
        with pytest.raises(ValueError, match=name):
            DirichletCVCalibrator(**{name: [1.0, value]}).fit(p, y)


def test_numbers_of_numpy_are_numbers() -> None:
    p, y = rows(0, k=2)
    for name in ("lambda_linear", "lambda_intercept", "lambda_quadratic", "input_smoothing"):
        one, two = (
            BinaryLogisticCalibrator(penalty="ridge", lambda_linear=0.1, lambda_intercept=0.1, lambda_quadratic=0.1)
            .set_params(**{name: value})
            .fit(p, y)
            for value in (0.0625, np.float32(0.0625))
        )
        assert one.coef_ == two.coef_
    with pytest.raises(ValueError, match="mcp_gamma"):
        BinaryLogisticCalibrator(penalty="mcp", mcp_gamma=-3).fit(p, y)


def test_a_group_model_without_curvature_is_damped() -> None:
    """Fewer rows than classes and weights that leave hardly any penalty: the quadratic model has no minimiser."""
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(20, 0.2), size=14)
    p[:, 7] = 0.0
    p /= p.sum(axis=1, keepdims=True)
    sms = SMSCalibrator(penalty="group_lasso", classes=np.arange(20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        sms.fit(p, p.argmax(axis=1), sample_weight=rng.integers(1, 4, size=14) * 1e6)
    assert np.isfinite(sms.coef_).all()
    assert sms.objective_ < 0.1


@pytest.mark.parametrize("name", ["ts", "svs", "sms"])
@pytest.mark.parametrize("weighted", [False, True])
def test_laplace_smoothing_is_the_method_on_mixed_predictions(name, weighted):
    rng = np.random.default_rng(0)
    votes = rng.multinomial(10, rng.dirichlet(np.ones(3), size=400))
    p, y = votes / 10, (votes + 3 * rng.gumbel(size=votes.shape)).argmax(axis=1)
    weight = rng.integers(1, 4, 400) if weighted else None
    u = 1.0 / (1.0 + (400 if weight is None else weight.sum()))
    found = get_calibrator(f"{name}-laplace").fit(p, y, sample_weight=weight)
    plain = get_calibrator(name).fit((1.0 - u) * p + u / 3.0, y, sample_weight=weight)
    assert found.input_smoothing_ == pytest.approx(u)
    np.testing.assert_allclose(found.predict_proba(p), plain.predict_proba((1.0 - u) * p + u / 3.0), atol=1e-6)


def test_laplace_smoothing_does_without_a_temperature():
    p, y = np.array([0.0, 0.2, 0.7, 1.0, 0.4]), np.array([0, 1, 0, 1, 1])
    for found in (
        BinaryLogisticCalibrator("affine", penalty="ridge", lambda_linear=0.1, input_smoothing="laplace"),
        SVSCalibrator(preprocess=None, input_smoothing="laplace"),
    ):
        assert found.fit(p, y).input_smoothing_ == pytest.approx(1.0 / 6.0)
