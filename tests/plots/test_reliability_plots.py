"""Reliability diagrams draw their tables, on the axes they are given, without cutting or overlapping text."""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from calibrant.metrics import classwise_corp_curves, classwise_reliability_tables, corp_curve, reliability_table
from calibrant.metrics.result_types import ScoreAxis
from calibrant.plots import BeforeAfterDisplay, ClasswiseReliabilityDisplay, ReliabilityDisplay
from calibrant.plots.reliability_displays import free_corner
from calibrant.plots.style import shorten, trace

Data = tuple[np.ndarray, np.ndarray]


def assert_text_inside(figure) -> None:
    """No text sticks out of the figure, and no two titles or axis labels overlap."""
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    frame = figure.bbox
    boxes = []
    for ax in figure.axes:
        for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
            if text.get_text() and text.get_visible() and ax.axison:
                box = text.get_window_extent(renderer)
                assert box.x0 >= frame.x0 - 1
                assert box.y0 >= frame.y0 - 1
                assert box.x1 <= frame.x1 + 1
                assert box.y1 <= frame.y1 + 1
                boxes.append((text.get_text(), box))
    for i, (one, first) in enumerate(boxes):
        for other, second in boxes[:i]:
            assert not first.overlaps(second), (one, other)


def test_drawn_points_are_the_table(three: Data) -> None:
    y, p = three
    table = reliability_table(y, p, n_bins=8)
    display = ReliabilityDisplay(table, name="model").plot()
    np.testing.assert_allclose(display.line_.get_xydata(), np.column_stack([table.score, table.frequency]))
    corners = display.band_.get_paths()[0].vertices
    for value in (*table.low, *table.high):
        assert np.isclose(corners[:, 1], value).any()
    heights = [bar.get_height() for bar in display.histogram_ax_.patches]
    np.testing.assert_allclose(heights, table.histogram)
    assert sum(heights) == len(y)
    assert display.ax_.get_xlabel() == "Confidence"
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["calibrated", f"model\nECE {table.error:.3f}"]


@pytest.mark.parametrize("curve", ["corp", "kernel", "belt"])
def test_curves_without_bins(three: Data, curve: str) -> None:
    y, p = three
    display = ReliabilityDisplay.from_predictions(y, p, curve=curve, name="model")
    drawn = trace(display.table)
    np.testing.assert_allclose(display.line_.get_xydata(), np.column_stack([drawn.x, drawn.y]))
    assert display.ax_.get_legend().get_texts()[1].get_text() == f"model\n{drawn.note}"
    assert_text_inside(display.figure_)
    assert_text_inside(BeforeAfterDisplay.from_predictions(y, p, p, curve=curve).figure_)
    with pytest.raises(ValueError, match="n_bins can only be given for curve='bins'"):
        ReliabilityDisplay.from_predictions(y, p, curve=curve, n_bins=4)


def test_the_default_is_corp_unless_bins_are_asked_for(three: Data) -> None:
    y, p = three
    assert ReliabilityDisplay.from_predictions(y, p).table.parts == corp_curve(y, p).parts
    assert len(ReliabilityDisplay.from_predictions(y, p, strategy="quantile").table) == 15
    with pytest.raises(ValueError, match="curve must be"):
        ReliabilityDisplay.from_predictions(y, p, curve="spline")


def test_bins_of_one_or_two_rows_are_faint_and_off_the_line() -> None:
    score = np.concatenate([np.full(50, 0.1), [0.5], np.full(50, 0.9)])
    y = np.concatenate([np.arange(50) < 5, [1], np.arange(50) < 44]).astype(int)
    display = ReliabilityDisplay.from_predictions(y, score, n_bins=10)
    assert display.line_.get_xdata().round(6).tolist() == [0.1, 0.9]
    points = display.ax_.collections[0]
    assert dict(zip(points.get_offsets()[:, 0].round(6).tolist(), points.get_alpha().tolist())) == {
        0.1: 1.0,
        0.5: 0.3,
        0.9: 1.0,
    }
    # The legend shows the first point: one that deserves trust.
    assert points.get_alpha()[0] == 1.0


def test_rare_events_are_magnified() -> None:
    rng = np.random.default_rng(0)
    score = rng.beta(1, 60, 4000)
    y = (rng.random(4000) < score).astype(int)
    display = ReliabilityDisplay.from_predictions(y, score)
    highest = display.table.axis.high
    assert np.sort(score)[-10] <= highest < 0.5
    assert display.ax_.get_xticklabels()[-1].get_text() == f"{highest:g}"
    assert display.table.histogram.sum() == 4000
    assert np.count_nonzero(display.table.histogram) > 8
    # A few confident ones do not decide where the axes end; more of them do. Log-odds only for those who ask.
    for sure, end in ((5, highest), (20, 1.0)):
        score[:sure], y[:sure] = 0.97, 1
        spread = ReliabilityDisplay.from_predictions(y, score)
        assert spread.table.axis == (0.0, end, False)
        assert spread.line_.get_xydata()[:, 0].max() <= 1.0
        assert_text_inside(spread.figure_)


def test_log_odds_axes_are_a_choice() -> None:
    rng = np.random.default_rng(0)
    score = rng.beta(1, 60, 4000)
    y = (rng.random(4000) < score).astype(int)
    chosen = corp_curve(y, score, axis=ScoreAxis(0.0001, 0.5, True))
    display = ReliabilityDisplay(chosen).plot()
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["10⁻⁴", "0.001", "0.01", "0.1", "0.5"]
    assert np.isfinite(display.line_.get_xydata()).all()
    assert_text_inside(display.figure_)


def test_scikit_learn_conventions(three: Data) -> None:
    y, p = three
    model = LogisticRegression().fit(np.log(p), y)
    display = ReliabilityDisplay.from_estimator(model, np.log(p), y, n_bins=6)
    assert display.name == "LogisticRegression"
    same = ReliabilityDisplay.from_predictions(y, model.predict_proba(np.log(p)), n_bins=6)
    np.testing.assert_array_equal(display.line_.get_xydata(), same.line_.get_xydata())
    figure, ax = plt.subplots()
    again = display.plot(ax=ax)
    assert again is display
    assert display.ax_ is ax
    assert display.figure_ is figure
    with pytest.raises(TypeError, match="predict_proba"):
        ReliabilityDisplay.from_estimator(object(), p, y)


def test_options_and_one_class(three: Data) -> None:
    y, p = three
    display = ReliabilityDisplay.from_predictions(
        y, p, pos_label="bee", n_bins=9, histogram=False, band=False, legend=False
    )
    assert display.histogram_ax_ is None
    assert display.band_ is None
    assert display.ax_.get_legend() is None
    assert display.ax_.get_xlabel() == "Predicted probability of bee"


@pytest.mark.parametrize("strategy", [pytest.param("uniform", marks=pytest.mark.slow), "quantile"])
def test_several_models_in_one_diagram(three: Data, strategy: str) -> None:
    y, p = three
    first = ReliabilityDisplay.from_predictions(y, p, name="a", strategy=strategy)
    bottom, lines = first.ax_.get_ylim(), [first.line_]
    for name, power in (("b", 0.5), ("c", 2.0)):
        moved = p**power / (p**power).sum(axis=1, keepdims=True)
        model = LogisticRegression().fit(np.log(moved), y)
        more = ReliabilityDisplay.from_estimator(
            model, np.log(moved), y, name=name, ax=first.ax_, strategy=strategy, n_bins=5
        )
        assert more.histogram_ax_ is None
        table = reliability_table(y, model.predict_proba(np.log(moved)), strategy=strategy, n_bins=5)
        np.testing.assert_allclose(more.line_.get_xydata(), np.column_stack([table.score, table.frequency]))
        lines.append(more.line_)
    assert first.ax_.get_ylim() == bottom
    labels = [text.get_text().split("\n")[0] for text in first.ax_.get_legend().get_texts()]
    assert labels == ["calibrated", "a", "b", "c"]
    assert len({line.get_color() for line in lines}) == 3
    assert len({str(line._unscaled_dash_pattern) for line in lines}) == 3
    own = ReliabilityDisplay.from_predictions(y, p, ax=first.ax_, color="red", linestyle=":", histogram=False)
    assert (own.line_.get_color(), own.line_.get_linestyle()) == ("red", ":")


@pytest.mark.parametrize("size", [(4.4, 5.3), (2.6, 3.2), (6, 3)])
def test_text_fits_the_figure(three: Data, size: tuple[float, float]) -> None:
    y, p = three
    _, ax = plt.subplots(figsize=size, layout="constrained")
    assert_text_inside(ReliabilityDisplay.from_predictions(y, p, ax=ax, name="a model of some length").figure_)


def test_class_wise_grid(three: Data) -> None:
    y, p = three
    display = ClasswiseReliabilityDisplay.from_predictions(y, p, n_bins=5)
    tables = classwise_reliability_tables(y, p, n_bins=5)
    for ax, (label, table) in zip(display.axes_, tables.items()):
        assert ax.get_title() == f"{label}\nECE {table.error:.3f}"
        curve = ax.lines[1].get_xydata()
        np.testing.assert_allclose(curve, np.column_stack([table.score, table.frequency]))
    assert_text_inside(display.figure_)
    with pytest.raises(ValueError, match="no tables"):
        ClasswiseReliabilityDisplay({})


def test_class_wise_grid_of_many_classes_shows_the_worst() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(30), size=400)
    y = rng.integers(0, 30, 400)
    display = ClasswiseReliabilityDisplay.from_predictions(y, p, max_classes=5)
    assert len(display.axes_) == 5
    tables = classwise_corp_curves(y, p, n_resamples=0)
    shown = min(tables[label].error for label in display.tables)
    hidden = max(tables[label].error for label in tables if label not in display.tables)
    assert shown >= hidden
    assert "25 more" in display.figure_.get_suptitle()
    assert_text_inside(display.figure_)


def test_before_beside_after(three: Data) -> None:
    y, p = three
    flat = np.sqrt(p) / np.sqrt(p).sum(axis=1, keepdims=True)
    display = BeforeAfterDisplay.from_predictions(y, p, flat, n_bins=6)
    for ax, proba, title in zip(display.axes_, (p, flat), ("Before", "After")):
        table = reliability_table(y, proba, n_bins=6)
        np.testing.assert_allclose(ax.lines[1].get_xydata(), np.column_stack([table.score, table.frequency]))
        assert ax.get_title() == f"{title}\nECE {table.error:.3f}"
    assert_text_inside(display.figure_)
    _, axes = plt.subplots(1, 2, figsize=(5.2, 2.6), layout="constrained")
    assert_text_inside(display.plot(axes).figure_)
    with pytest.raises(ValueError, match="two axes"):
        display.plot(plt.subplots(1, 3)[1])


def test_before_and_after_a_calibrator(three: Data) -> None:
    from calibrant import get_calibrator

    y, p = three
    fitted = get_calibrator("ts").fit(p, y)
    display = BeforeAfterDisplay.from_estimator(fitted, p, y)
    assert display.before.parts == corp_curve(y, p).parts
    assert display.after.parts == corp_curve(y, fitted.predict_proba(p)).parts


def test_hostile_and_long_names() -> None:
    y = np.array(["$\\frac{", "<script>alert(1)</script> of a very long class name"])[[0, 1, 1, 0]]
    display = ReliabilityDisplay.from_predictions(y, [0.1, 0.7, 0.9, 0.2], name="$x_", n_bins=3)
    display.figure_.canvas.draw()
    label = display.ax_.get_xlabel()
    assert "…" in label
    assert len(label) < 50
    assert shorten("short") == "short"
    assert len(shorten("x" * 100, 18)) == 18


def test_histogram_scale_follows_the_counts() -> None:
    rng = np.random.default_rng(0)
    towering = np.concatenate([np.full(5000, 0.01), rng.random(60)])
    y = (rng.random(len(towering)) < towering).astype(int)
    assert ReliabilityDisplay.from_predictions(y, towering).histogram_ax_.get_yscale() == "log"
    even = rng.random(1000)
    y = (rng.random(1000) < even).astype(int)
    assert ReliabilityDisplay.from_predictions(y, even).histogram_ax_.get_yscale() == "linear"


def test_legend_avoids_the_curve() -> None:
    low = reliability_table([0] * 30, np.linspace(0.5, 1, 30), n_bins=5)
    high = reliability_table([1] * 30, np.linspace(0, 0.5, 30), n_bins=5)
    assert free_corner(trace(low)) == "upper left"
    assert free_corner(trace(high)) == "lower right"


def test_legend_lies_within_the_diagram() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(400)
    for shifted in (np.clip(p - 0.2, 0, 1), np.clip(p + 0.2, 0, 1)):
        y = (rng.random(400) < p).astype(int)
        display = ReliabilityDisplay.from_predictions(y, shifted, name="a model")
        display.figure_.draw_without_rendering()
        box = display.ax_.get_legend().get_window_extent()
        low, high = display.ax_.transData.transform([(0, 0), (1, 1)])
        assert low[1] - 1 <= box.y0 < box.y1 <= high[1] + 1
        assert low[0] - 1 <= box.x0 < box.x1 <= high[0] + 1


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"\[plots\]"):
        ReliabilityDisplay.from_predictions([0, 1], [0.2, 0.8])


@pytest.mark.parametrize("curve", ["corp", "kernel", "belt", "bins"])
def test_bands_of_groups_are_those_of_the_metrics(curve):
    rng = np.random.default_rng(0)
    p = np.repeat(rng.random(60), 10)
    y = np.repeat(rng.random(60), 10) < p
    alone = ReliabilityDisplay.from_predictions(y, p, curve=curve).table
    grouped = ReliabilityDisplay.from_predictions(y, p, curve=curve, groups=np.arange(600) // 10).table
    blocks = ReliabilityDisplay.from_predictions(y, p, curve=curve, blocks=10).table
    assert np.mean(grouped.high - grouped.low) > 1.5 * np.mean(alone.high - alone.low)
    np.testing.assert_allclose(blocks.high, grouped.high)
    np.testing.assert_allclose(grouped.frequency, alone.frequency, atol=0.2)
    both = BeforeAfterDisplay.from_predictions(y, p, p, curve=curve, blocks=10)
    np.testing.assert_allclose(both.after.high, grouped.high)


def test_every_class_takes_groups(three):
    y, p = three
    alone = ClasswiseReliabilityDisplay.from_predictions(y, p, n_bins=5)
    grouped = ClasswiseReliabilityDisplay.from_predictions(y, p, n_bins=5, blocks=100)
    for label, table in grouped.tables.items():
        assert np.mean(table.high - table.low) > np.mean(alone.tables[label].high - alone.tables[label].low)
