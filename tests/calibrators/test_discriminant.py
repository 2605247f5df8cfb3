from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from scipy.special import log_softmax, rel_entr, softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from calibrant import CalibrationWarning, get_calibrator
from calibrant.calibrators import GaussianCalibrator
from calibrant.calibrators.scaling.discriminant import class_sums, discriminant_map
from calibrant.metrics import log_loss
from calibrant.sample import Sample
from calibrant.softmax.rows.row_source import ArrayRows
from tests.test_gaussian import random_model


def drawn(n: int, k: int, seed: int = 0, twisted: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Predictions, and labels drawn from them after a random matrix was added to the logits."""
    rng = np.random.default_rng(seed)
    p = softmax(2.0 * rng.normal(size=(n, k)), axis=1)
    matrix = twisted * np.random.default_rng(99).normal(size=(k, k))
    true = softmax(np.log(p) @ (np.eye(k) + matrix), axis=1)
    return p, (true.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def excess(p: np.ndarray, truth: np.ndarray) -> float:
    return float(rel_entr(truth, p).sum(axis=1).mean())


@pytest.mark.parametrize(("method", "options"), [("lda", {}), ("gaussian", {"n_steps": 30})])
def test_it_converges_to_the_exact_map_of_gaussian_logits(method, options):
    model = random_model(4, equal=True)
    test, _ = model.sample(2000, random_state=1)
    truth, losses = model.posterior(test), []
    for n in (500, 5000, 50_000):
        x, y = model.sample(n, random_state=2)
        calibrator = get_calibrator(method, input="logits", input_smoothing=None, **options).fit(x, y)
        losses.append(excess(calibrator.predict_proba(test), truth))
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < 2e-4


def test_without_shrinkage_it_is_the_discriminant_analysis_of_others():
    p, y = drawn(2000, 4, twisted=0.3)
    x = log_softmax(np.log(p), axis=1)
    sums = class_sums(Sample(x, y, logs=True), np.eye(4), np.zeros(4))
    coef, intercept = discriminant_map(sums, 0.0, 0.0)
    intercept += np.log(np.bincount(y) / len(y)) - np.log((np.bincount(y) + 1.0) / (len(y) + 4.0))
    peer = LinearDiscriminantAnalysis(solver="lsqr").fit(x, y)
    np.testing.assert_allclose(softmax(x @ coef.T + intercept, axis=1), peer.predict_proba(x), atol=1e-6)


def test_steps_end_where_class_sums_are_as_expected():
    p, y = drawn(600, 5, twisted=0.2)
    found = GaussianCalibrator(n_steps=500, input_smoothing=None).fit(p, y)
    scaled = ArrayRows(Sample(p, y)).mapped(found._scaling())
    _, sums, _, expected, _ = class_sums(scaled.labelled, found.coef_, found.intercept_)
    np.testing.assert_allclose(expected, sums, atol=1e-6 * np.abs(sums).max())


@pytest.mark.parametrize("k", [3, 60])
def test_calibrated_predictions_are_hardly_changed(k):
    p, y = drawn(4000, k)
    test, _ = drawn(500, k, seed=1)
    harm = {
        name: excess(get_calibrator(name).fit(p, y).predict_proba(test), test) for name in ("gaussian", "lda", "sms")
    }
    assert harm["gaussian"] < 0.5 * harm["lda"]
    assert harm["gaussian"] < (0.002 if k == 3 else 0.05)


def test_many_classes_that_are_taken_for_each_other_are_found():
    p, y = drawn(2000, 60, twisted=0.05)
    test, labels = drawn(1000, 60, seed=1, twisted=0.05)

    def loss(name: str) -> float:
        found = get_calibrator(name).fit(p, y).predict_proba(test)
        return float(-np.log(found[np.arange(len(labels)), labels]).mean())

    assert loss("gaussian") < min(loss("ts"), loss("svs")) - 0.05


@pytest.mark.parametrize("method", ["gaussian", "lda"])
def test_counts_are_copies_and_groups_make_no_difference(method):
    p, y = drawn(300, 6, twisted=0.2)
    counts = np.random.default_rng(3).integers(1, 4, size=300)
    weighted = get_calibrator(method).fit(p, y, sample_weight=counts, groups=np.arange(300) // 10)
    repeated = get_calibrator(method).fit(np.repeat(p, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-9)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-9)


@pytest.mark.parametrize("method", ["gaussian", "lda"])
@pytest.mark.parametrize("given", ["constant", "one class", "certain", "unseen"])
def test_it_is_finite_where_there_is_nothing_to_divide_by(method, given):
    p, y = drawn(40, 3)
    classes = [0, 1, 2]
    if given == "constant":
        p = np.full_like(p, 1.0 / 3.0)
    elif given == "one class":
        y = np.zeros_like(y)
    elif given == "certain":
        p = np.eye(3)[y]
    else:
        p, y = np.column_stack([p[:, :2] / p[:, :2].sum(axis=1, keepdims=True), np.zeros(40)]), y % 2
    with pytest.warns(CalibrationWarning) if given in {"constant", "one class"} else nullcontext():
        found = get_calibrator(method, classes=classes).fit(p, y).predict_proba(p)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


@pytest.mark.bench
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_the_log_loss_of_the_rows_is_never_above_that_of_temperature_scaling(seed):
    """Classes that are far apart, where small errors of a covariance once changed intercepts by a hundred nats."""
    from calibrant.bench import load_embedded

    found = load_embedded("kershaw", "LGBM")
    p, y = np.vstack([found.probas_cal, found.probas_test]), np.concatenate([found.labels_cal, found.labels_test])
    rows = np.random.default_rng(seed).permutation(len(p))[:300]
    p, y = p[rows], y[rows]
    gaussian = get_calibrator("gaussian").fit(p, y)
    scaled = get_calibrator("ts", input_smoothing=gaussian.input_smoothing_ or None).fit(p, y)
    assert log_loss(y, gaussian.predict_proba(p)) <= log_loss(y, scaled.predict_proba(p)) + 1e-3
