"""Histogram binning, scaling-binning and BBQ, beside netcal, probmetrics and uncertainty-calibration."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import get_calibrator
from calibrant.calibrators.binary.binning import BBQCalibrator, HistogramCalibrator, ScalingBinningCalibrator
from tests.needs import needs
from tests.samples import binary_sample, columns, quiet, sharpened

GRID = np.random.default_rng(1).random(2000)


def test_bins_hold_the_share_of_positive_labels():
    p, y = binary_sample(500)
    calibrator = HistogramCalibrator(n_bins=7).fit(p, y)
    for j in range(7):
        inside = (p > j / 7) & (p <= (j + 1) / 7)
        np.testing.assert_allclose(calibrator.predict_proba([(j + 0.5) / 7])[0, 1], y[inside].mean(), atol=1e-12)


@pytest.mark.parametrize("n_bins", [2, 3, 7, 10, 29, 100])
def test_an_edge_belongs_to_the_bin_on_its_left_however_it_was_rounded(n_bins):
    edges = np.arange(n_bins + 1) / n_bins
    label = (np.arange(n_bins + 1) % 2).astype(int)
    label[0] = label[1]  # 0.0 belongs to the first bin
    for value in (edges, np.linspace(0, 1, n_bins + 1), 1.0 - edges[::-1]):
        p = np.clip(value, 0.0, 1.0)
        q = HistogramCalibrator(n_bins=n_bins).fit(p, label).predict_proba(p)[:, 1]
        np.testing.assert_array_equal(q, label)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_bins_of_the_first_version_hold_their_left_edge(strategy):
    """Calibrators stored by version 0.1.0 do not say on which side their bins are closed."""
    calibrator = HistogramCalibrator(n_bins=2, strategy=strategy).fit([0.1, 0.5, 0.5, 0.9], [0, 0, 0, 1])
    assert calibrator.edges_[1] == 0.5
    right = calibrator.predict_proba([0.5])[0, 1]
    del calibrator.closed_
    assert calibrator.predict_proba([0.5])[0, 1] == calibrator.values_[1] != right


def test_empty_bins():
    p, y = [0.05, 0.15, 0.95], [0, 1, 1]
    assert HistogramCalibrator().fit(p, y).predict_proba([0.55])[0, 1] == pytest.approx(2 / 3)
    assert HistogramCalibrator(empty="midpoint").fit(p, y).predict_proba([0.55])[0, 1] == pytest.approx(0.55)


@pytest.mark.peer
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n_bins", [10, 60])
def test_histogram_beside_probmetrics(strategy, n_bins):
    peers = needs("probmetrics.calibrators.binning")
    p, y = binary_sample(3000)
    p = p.astype(np.float32).astype(float)  # the peer's precision
    peer = peers.BinaryHistogramBinningCalibrator(n_bins, strategy=strategy).fit(columns(p), y)
    ours = HistogramCalibrator(n_bins=n_bins, strategy=strategy).fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(GRID), peer.predict_proba(columns(GRID)), atol=1e-7)


@pytest.mark.peer
def test_histogram_beside_netcal():
    with quiet():
        netcal = needs("netcal.binning")
        p, y = binary_sample(60)
        peer = netcal.HistogramBinning(bins=20)
        peer.fit(p, y)
        expected = peer.transform(GRID)
    ours = HistogramCalibrator(n_bins=20, empty="midpoint").fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(GRID)[:, 1], expected, atol=1e-12)


@pytest.mark.peer
@pytest.mark.parametrize("score", ["bic", "aic"])
@pytest.mark.parametrize("n", [200, 3000])
def test_bbq_beside_netcal(score, n):
    with quiet():
        netcal = needs("netcal.binning")
        p, y = binary_sample(n)
        peer = netcal.BBQ(score.upper())
        peer.fit(p, y)
        expected = peer.transform(GRID)
    ours = BBQCalibrator(criterion=score).fit(p, y)
    np.testing.assert_allclose(np.sort(ours.weights_), np.sort(peer._model_scores), atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(GRID)[:, 1], expected, atol=1e-5)


def test_bbq_by_marginal_likelihood_is_the_average_of_beta_posteriors():
    from scipy.special import betaln, logsumexp

    p, y = binary_sample(30, seed=3)
    ours = BBQCalibrator(criterion="bayes").fit(p, y)
    sizes = np.arange(1, 7)  # n^(1/3)/10 to n/5
    np.testing.assert_array_equal(ours.n_bins_, sizes)
    evidence, means = [], []
    for size in sizes:
        total, mean = 0.0, np.empty(len(GRID))
        for j in range(size):
            inside = (p >= j / size) & (p < (j + 1) / size)
            a, b = 2 / size * (j + 0.5) / size, 2 / size * (1 - (j + 0.5) / size)
            positive, negative = y[inside].sum(), (1 - y[inside]).sum()
            total += betaln(a + positive, b + negative) - betaln(a, b)
            mean[(j / size <= GRID) & ((j + 1) / size > GRID)] = (a + positive) / (a + b + positive + negative)
        evidence.append(total)
        means.append(mean)
    weights = np.exp(np.array(evidence) - logsumexp(evidence))
    np.testing.assert_allclose(ours.weights_, weights, atol=1e-12)
    np.testing.assert_allclose(ours.predict_proba(GRID)[:, 1], weights @ np.array(means), atol=1e-12)


@pytest.mark.peer
@pytest.mark.parametrize("n", [7, 12, 105, 3000])
def test_scaling_binning_beside_uncertainty_calibration(n):
    with quiet():
        calibration = needs("calibration")
        p, y = binary_sample(n, seed=n)
        peer = calibration.PlattBinnerCalibrator(1, 10)
        peer.train_calibration(p, y)
        expected = peer.calibrate(GRID)
    ours = ScalingBinningCalibrator().fit(p, y).predict_proba(GRID)[:, 1]
    # The peer's logistic fit stops early, so an edge may fall to the other side of a point.
    different = np.abs(ours - expected) > 2e-3
    assert different.mean() < 0.005


@pytest.mark.peer
def test_scaling_binning_of_more_classes_beside_uncertainty_calibration():
    with quiet():
        calibration = needs("calibration")
        p, y = sharpened(2000, 3)
        peer = calibration.PlattBinnerMarginalCalibrator(1, 10)
        peer.train_calibration(p, y)
        expected = peer.calibrate(p)
    expected /= expected.sum(axis=1, keepdims=True)  # the peer's rows do not sum to one
    ours = ScalingBinningCalibrator().fit(p, y).predict_proba(p)
    assert np.mean(np.abs(ours - expected) > 2e-3) < 0.005


@pytest.mark.parametrize("method", ["hist-uniform", "bbq"])
@pytest.mark.parametrize("side", [np.array([1.0, 2.0]), "middle", None])
def test_the_side_of_the_bins_in_a_file_is_checked(method, side):
    fitted = get_calibrator(method).fit(np.linspace(0.05, 0.95, 40), np.arange(40) % 3 == 0)
    fitted.check_state()
    fitted.closed_ = side
    with pytest.raises(ValueError, match="closed_ should be one of left, right"):
        fitted.check_state()
