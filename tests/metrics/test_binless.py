"""Calibration errors without bins: smooth ECE, Kolmogorov-Smirnov, Kuiper."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from calibrant.metrics import kolmogorov_smirnov, kuiper, smooth_ece
from calibrant.metrics.smooth import Grid, reflected_kernel
from tests.needs import needs

Data = tuple[np.ndarray, np.ndarray]


def smooth_by_quadrature(y: np.ndarray, s: np.ndarray) -> float:
    """The definition, with images of each score behind both ends and a fine midpoint rule."""
    t = (np.arange(2000) + 0.5) / 2000
    images = np.stack([sign * s + 2 * shift for shift in range(-2, 3) for sign in (1, -1)])

    def error(sigma: float) -> float:
        kernel = np.zeros((len(s), len(t)))
        for image in images:
            kernel += np.exp(-0.5 * ((t - image[:, None]) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
        return float(np.abs((y - s) @ kernel / len(s)).mean())

    return brentq(lambda sigma: error(sigma) - sigma, 2e-3, 0.5)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("power", [1, 2])
def test_smooth_ece_by_quadrature(seed: int, power: int) -> None:
    rng = np.random.default_rng(seed)
    s = rng.beta(0.5, 0.5, size=40)
    # Of calibrated scores the differences change their sign everywhere, and the kernel's width decides what is left.
    y = (rng.random(40) < s**power).astype(int)
    assert smooth_ece(y, s) == pytest.approx(smooth_by_quadrature(y, s), abs=2e-5)


def test_grid_keeps_mass_and_place() -> None:
    rng = np.random.default_rng(0)
    s = rng.uniform(0.01, 0.99, size=50)
    values = rng.normal(size=50)
    cells = Grid(s, 200).sums(values)
    middle = (np.arange(200) + 0.5) / 200
    assert cells.sum() == pytest.approx(values.sum(), abs=1e-12)
    assert cells @ middle == pytest.approx(values @ s, abs=1e-12)
    ends = Grid(np.array([0.0, 1.0]), 4).sums(np.array([1.0, 2.0]))
    np.testing.assert_allclose(ends, [1, 0, 0, 2])


def test_smooth_ece_of_one_score() -> None:
    # All mass at one score: smoothing moves it about but keeps its integral.
    y = np.repeat([0, 1], [70, 30])
    assert smooth_ece(y, np.full(100, 0.5)) == pytest.approx(0.2, abs=1e-6)
    assert smooth_ece(y, np.full(100, 0.3)) == pytest.approx(0, abs=1e-6)
    assert smooth_ece([1, 1], [1.0, 1.0]) == 0.0
    assert smooth_ece([0, 0], [1.0, 1.0]) == pytest.approx(1.0)
    assert smooth_ece([1, 1], [0.0, 0.0]) == pytest.approx(1.0)
    # An error that is smaller than the smallest kernel.
    assert smooth_ece([0, 1], [0.5, 0.5], sample_weight=[1, 1 + 2e-7]) == pytest.approx(5e-8, rel=1e-6)


def test_smooth_ece_hardly_moves_when_scores_move_a_little(binary: Data) -> None:
    y, s = binary
    moved = np.clip(s + np.random.default_rng(0).uniform(-1e-4, 1e-4, len(s)), 0, 1)
    assert smooth_ece(y, moved) == pytest.approx(smooth_ece(y, s), abs=1e-3)


def cumulated_by_hand(y: np.ndarray, s: np.ndarray) -> np.ndarray:
    return np.array([0.0, *((y - s)[s <= t].sum() / len(s) for t in np.unique(s))])


def test_cumulative_errors_by_hand(binary: Data) -> None:
    y, s = binary
    path = cumulated_by_hand(y, s)
    assert kolmogorov_smirnov(y, s) == pytest.approx(np.abs(path).max(), abs=1e-12)
    assert kuiper(y, s) == pytest.approx(path.max() - path.min(), abs=1e-12)


def test_paths_that_stay_on_one_side_of_zero() -> None:
    for y, s, off in (([1, 1], [0.2, 0.4], 0.7), ([0, 0], [0.2, 0.4], 0.3)):
        for error in (kolmogorov_smirnov, kuiper):
            assert error(y, s, classes=[0, 1]) == pytest.approx(off, abs=1e-12)


@pytest.mark.parametrize("error", [kolmogorov_smirnov, kuiper, smooth_ece])
def test_views(multiclass: Data, error) -> None:
    y, p = multiclass
    assert error(y, p) == error((p.argmax(axis=1) == y).astype(int), p.max(axis=1))
    each = [error((y == j).astype(int), p[:, j]) for j in range(4)]
    assert error(y, p, kind="class-wise") == pytest.approx(np.mean(each), abs=1e-12)


def test_class_wise_of_tables_too_large_to_keep(multiclass: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    y, p = multiclass
    kept = kuiper(y, p, kind="class-wise")
    monkeypatch.setattr("calibrant.metrics.views.CACHED_ENTRIES", 0)
    assert kuiper(y, p, kind="class-wise") == kept


@pytest.mark.peer
@pytest.mark.torch
def test_like_probmetrics() -> None:
    torch = needs("torch")
    theirs = needs("probmetrics.metrics")
    rng = np.random.default_rng(1)
    p = rng.random(900)
    y = (rng.random(900) < p**1.3).astype(int)
    both = torch.tensor(np.column_stack([1 - p, p]))
    for ours, metric in (
        (kuiper, theirs.KuiperCalibrationMetric()),
        (kolmogorov_smirnov, theirs.KolmogorovSmirnovCalibrationMetric()),
    ):
        value = float(metric.compute_from_labels_probs(torch.tensor(y), both))
        assert ours(y, p) == pytest.approx(value, abs=1e-5)


def test_the_kernel_keeps_its_mass_at_the_ends() -> None:
    at = (np.arange(1000) + 0.5) / 1000
    np.testing.assert_allclose(reflected_kernel(np.array([0.01]), at, 0.2).mean(), 1.0, atol=1e-6)
