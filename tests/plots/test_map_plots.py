"""Pictures of calibrators: the curve, the arrows on the triangle, and the heat map."""

from __future__ import annotations

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.quiver import Quiver

from calibrant import LogisticCalibrator, SMSCalibrator, get_calibrator
from calibrant.metrics import CorrectionMatrix, calibration_map, correction_matrix
from calibrant.metrics.maps import simplex_grid
from calibrant.plots import CalibrationMapDisplay, CorrectionMatrixDisplay
from calibrant.plots.map_displays import CORNERS, off_diagonal_limit
from calibrant.plots.style import diverging

from .test_reliability_plots import assert_text_inside

Data = tuple[np.ndarray, np.ndarray]


def test_curve_of_two_classes() -> None:
    p = np.array([0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9])
    fitted = get_calibrator("affine").fit(p, ["no", "yes", "no", "no", "yes", "no", "yes", "yes"])
    display = CalibrationMapDisplay.from_estimator(fitted, n_points=11)
    x, y = display.ax_.lines[1].get_data()
    np.testing.assert_allclose(x, np.linspace(0, 1, 11))
    np.testing.assert_allclose(y, fitted.predict_proba(x)[:, 1])
    assert display.ax_.get_ylabel() == "Calibrated probability of yes"
    assert_text_inside(display.figure_)


def test_arrows_of_three_classes(three: Data) -> None:
    y, p = three
    fitted = get_calibrator("ts").fit(p, y)
    display = CalibrationMapDisplay.from_estimator(fitted, n_points=5)
    (arrows,) = [artist for artist in display.ax_.collections if isinstance(artist, Quiver)]
    before = simplex_grid(5)
    assert arrows.N == len(before) == 15
    ends = np.column_stack([arrows.X + arrows.U, arrows.Y + arrows.V])
    np.testing.assert_allclose(ends, fitted.predict_proba(before) @ CORNERS, atol=1e-12)
    assert {text.get_text() for text in display.ax_.texts} == {"ant", "bee", "cat"}


def test_grid_covers_the_triangle_evenly() -> None:
    grid = simplex_grid(8)
    assert grid.min() > 0
    np.testing.assert_allclose(grid.sum(axis=1), 1)
    np.testing.assert_allclose(grid.mean(axis=0), 1 / 3)


def test_map_of_more_classes_is_refused() -> None:
    rng = np.random.default_rng(0)
    fitted = get_calibrator("ts").fit(rng.dirichlet(np.ones(4), size=60), rng.integers(0, 4, 60))
    with pytest.raises(ValueError, match="two or three classes"):
        calibration_map(fitted)


def test_heat_map_of_sms(three: Data) -> None:
    y, p = three
    sms = SMSCalibrator().fit(p, y)
    display = CorrectionMatrixDisplay.from_estimator(sms)
    np.testing.assert_allclose(display.im_.get_array(), sms.coef_ - np.eye(3))
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == ["ant", "bee", "cat"]
    written = {text.get_text() for text in display.ax_.texts}
    assert f"{sms.coef_[0, 0] - 1:+.2f}" in written
    low, high = display.im_.get_clim()
    assert low == -high == -np.abs(sms.coef_ - np.diag(np.diag(sms.coef_))).max()
    assert_text_inside(display.figure_)
    whole = LogisticCalibrator().fit(p, y)
    np.testing.assert_allclose(correction_matrix(whole).matrix, whole.calibrator_.coef_ - np.eye(3))
    with pytest.raises(ValueError, match="has no matrix"):
        correction_matrix(get_calibrator("ts").fit(p, y))


def test_most_corrected_classes_are_kept() -> None:
    class Fitted:
        classes_ = np.arange(6)
        coef_ = np.eye(6)

    Fitted.coef_[1, 4] = 0.5
    Fitted.coef_[3, 0] = -0.2
    Fitted.coef_[5, 5] = 9.0
    kept = correction_matrix(Fitted(), max_classes=4)
    assert kept.classes == (0, 1, 3, 4)
    assert kept.n_left_out == 2
    assert kept.matrix[1, 3] == 0.5
    display = CorrectionMatrixDisplay(kept).plot()
    assert "2 not shown" in display.ax_.get_title()
    with pytest.raises(ValueError, match="max_classes"):
        correction_matrix(Fitted(), max_classes=0)


def test_numbers_only_where_they_are_legible() -> None:
    correction = CorrectionMatrix(np.arange(100.0).reshape(10, 10) / 100, tuple("abcdefghij"))
    assert len(CorrectionMatrixDisplay(correction).plot().ax_.texts) == 100
    _, ax = plt.subplots(figsize=(2, 2), layout="constrained")
    assert len(CorrectionMatrixDisplay(correction).plot(ax=ax).ax_.texts) == 0
    _, ax = plt.subplots(figsize=(2, 2), layout="constrained")
    assert len(CorrectionMatrixDisplay(correction).plot(ax=ax, values=True).ax_.texts) == 100


@pytest.mark.parametrize(
    ("k", "size"), [*(pytest.param(*few, marks=pytest.mark.slow) for few in [(3, 3), (40, 6)]), (10, 4), (100, 5)]
)
def test_tick_labels_do_not_overlap(k: int, size: float) -> None:
    rng = np.random.default_rng(0)
    names = tuple(f"class {i}" for i in range(k))
    figure, ax = plt.subplots(figsize=(size + 1, size), layout="constrained")
    CorrectionMatrixDisplay(CorrectionMatrix(rng.normal(size=(k, k)), names)).plot(ax=ax)
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    for labels in (ax.get_xticklabels(), ax.get_yticklabels()):
        boxes = [label.get_window_extent(renderer) for label in labels]
        assert not any(first.overlaps(second) for first, second in pairwise(boxes))
    assert_text_inside(figure)


def test_no_change_is_white_and_signs_have_hues() -> None:
    low, zero, high = diverging()([0.0, 0.5, 1.0])
    assert zero[:3].round(2).tolist() == [1.0, 1.0, 1.0]
    assert low[0] > low[2]
    assert high[2] > high[0]


def test_range_of_colours() -> None:
    assert off_diagonal_limit(np.array([[3.0, -0.5], [0.2, 1.0]])) == 0.5
    assert off_diagonal_limit(np.diag([2.0, 1.0])) == 2.0
    assert off_diagonal_limit(np.zeros((2, 2))) == 1.0
