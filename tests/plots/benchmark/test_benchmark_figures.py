"""Figures draw what their tables say, are the same when redrawn from CSV, and survive odd tables."""

from __future__ import annotations

import numpy as np
import pytest

from tests.needs import needs

pytestmark = pytest.mark.bench
pd = needs("pandas")
needs("matplotlib")

from matplotlib.collections import LineCollection, PathCollection  # noqa: E402

from calibrant.bench.study.figures import FIGURES, draw_figures, redraw  # noqa: E402
from calibrant.bench.study.method_order import method_table  # noqa: E402
from calibrant.bench.study.results import check_results  # noqa: E402
from calibrant.bench.study.study_tables import build_tables  # noqa: E402
from calibrant.plots.benchmark.benchmark_style import plain  # noqa: E402
from calibrant.plots.benchmark.critical import cliques, critical_difference_diagram  # noqa: E402
from calibrant.plots.benchmark.method_rows import relative_change, relative_change_by_model  # noqa: E402
from calibrant.plots.benchmark.number_panels import rank_by_group  # noqa: E402

# Figures of results without draws; those of draws are tested with their tables.
ALWAYS = [name for name, spec in FIGURES.items() if not spec.optional]


def tables_of(results):
    tables, _ = build_tables(check_results(results))
    return {name: table.frame for name, table in tables.items()}


def dots(axes):
    found = [c.get_offsets() for c in axes.collections if isinstance(c, PathCollection)]
    return np.concatenate([np.asarray(offsets) for offsets in found])


@pytest.fixture(scope="module")
def tables(make_results):
    """Tables of twelve datasets, three methods and three models."""
    return tables_of(make_results(n_datasets=12, models=("m1", "m2", "m3"), n_folds=1))


def test_one_dot_a_dataset_and_quantile_boxes(tables):
    figure = relative_change(tables["relative_by_dataset"], tables["methods"], "logloss", "log loss")
    axes = figure.axes[0]
    assert len(dots(axes)) == 12 * 3
    rows = [tick.get_text() for tick in axes.get_yticklabels()]
    assert sorted(rows) == ["sms", "svs", "ts"]
    drawn = [c for c in axes.collections if isinstance(c, LineCollection)]
    medians = [segment[0][0] for segment in drawn[-1].get_segments()]
    quantiles = tables["relative_quantiles"].set_index(["metric", "method"]).loc["logloss"]
    np.testing.assert_allclose(medians, quantiles.loc[rows, "q50"])
    assert medians == sorted(medians)  # best first
    assert "logarithmic beyond" in axes.get_xlabel()
    assert axes.get_title()
    ends = {round(float(x), 9) for segment in drawn[-2].get_segments() for x, _ in segment}
    expected = {round(float(v), 9) for q in ("q10", "q25", "q75", "q90") for v in quantiles[q]}
    assert ends == expected


def test_axis_is_symlog_and_ends_at_100_percent():
    methods = method_table(["none", "a"])
    table = pd.DataFrame({"dataset": list("xyz"), "method": "a", "logloss": [-0.5, 7.0, np.inf], "brier": 0.0})
    axes = relative_change(table, methods, "logloss", "log loss").axes[0]
    assert axes.get_xscale() == "symlog"
    assert sorted(dots(axes)[:, 0]) == [-0.5, 1.0, 1.0]
    assert len([c for c in axes.collections if isinstance(c, PathCollection)]) == 2


def test_a_panel_for_every_model(tables):
    figure = relative_change_by_model(tables["relative_by_model"], tables["methods"], "brier", "Brier score")
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == ["m1", "m2", "m3"]
    assert [len(dots(axes)) for axes in shown] == [36, 36, 36]


def test_critical_difference_length_and_bars():
    methods = method_table(["none", "a", "b", "c"])
    ranks = pd.DataFrame({"method": ["a", "b", "c", "none"], "rank": [1.2, 2.0, 3.0, 3.8]})
    friedman = pd.DataFrame({"metric": ["brier"], "n_datasets": [20], "alpha": 0.05, "critical_difference": [1.0]})
    axes = critical_difference_diagram(ranks, friedman, methods, metric="brier", words="Brier score").axes[0]
    spans = [line.get_xdata() for line in axes.lines if line.get_linewidth() == 3.4]
    margin = 0.006 * 3
    np.testing.assert_allclose(
        spans, [[1.2 - margin, 2.0 + margin], [2.0 - margin, 3 + margin], [3 - margin, 3.8 + margin]]
    )
    scale = next(line for line in axes.lines if line.get_linewidth() == 1.6).get_xdata()
    assert scale[1] - scale[0] == pytest.approx(1.0)
    texts = {text.get_text() for text in axes.texts}
    assert {"CD = 1.00", "a (1.20)", "none (3.80)"} <= texts


@pytest.mark.parametrize("k", [2, 5, pytest.param(20, marks=pytest.mark.slow), 40])
def test_labels_of_critical_difference_never_overlap(k):
    names = [f"method-number-{i}" for i in range(k)]
    ranks = pd.DataFrame({"method": names, "rank": np.linspace(k / 2 - 0.1, k / 2 + 0.1, k)})
    friedman = pd.DataFrame({"metric": ["brier"], "n_datasets": [20], "alpha": 0.05, "critical_difference": [0.05]})
    figure = critical_difference_diagram(ranks, friedman, method_table(names), metric="brier", words="Brier score")
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    for i, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[i + 1 :])
        assert one.x0 >= 0
        assert one.x1 <= figure.bbox.width


def test_ranks_in_groups_show_intervals(tables):
    table = tables["rank_by_rows"]
    axes = rank_by_group(table, tables["methods"], "calibration rows", "none").axes[0]
    drawn = {
        tuple(np.round(s[:, 1], 9)) for c in axes.collections if isinstance(c, LineCollection) for s in c.get_segments()
    }
    # What lies beyond the ranks there are is cut off.
    ends = table[["low", "high"]].clip(1, 4).to_numpy(float)
    assert drawn == {tuple(np.round(pair, 9)) for pair in ends}
    assert len(dots(axes)) == 4 * 4


def test_many_methods_get_a_panel_for_each_family_the_best_first(make_results):
    names = ("isotonic", "ts", "guo", "vs", "svs", "ms", "sms", "dirichlet", "mine")
    tables = tables_of(make_results(methods=names, models=("m",), n_folds=1))
    assert tables["methods"]["colour"].is_unique
    figure = rank_by_group(tables["rank_by_rows"], tables["methods"], "calibration rows", "none")
    titles = [axes.get_legend().get_title().get_text() for axes in figure.axes if axes.get_visible()]
    ranks = tables["rank_by_rows"].query("method != 'none'").groupby("method")["rank"].mean()
    family = tables["methods"].set_index("method")["family"]
    assert titles == list(ranks.groupby(family).min().sort_values().index)
    assert set(titles) == {"non-parametric", "TS", "VS", "MS", "other"}


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
def test_redrawn_from_csv_is_identical(tmp_path, results):
    tables, _ = build_tables(check_results(results))
    for table in tables.values():
        table.save(tmp_path / "tables")
    first = draw_figures({name: table.frame for name, table in tables.items()}, tmp_path / "figures")
    assert sorted(path.name for path in first) == sorted(f"{name}.{end}" for name in ALWAYS for end in ("pdf", "png"))
    before = {path: path.read_bytes() for path in first}
    assert all(content[:4] == b"%PDF" for path, content in before.items() if path.suffix == ".pdf")
    assert redraw(tmp_path) == first
    assert before == {path: path.read_bytes() for path in first}


def test_redraw_names_what_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"lacks fit_time\.csv"):
        redraw(tmp_path)


def test_plain_labels():
    assert plain("a$b") == r"a\$b"
    assert len(plain("x" * 100)) <= 26
    assert plain("my_package.calibration.methods:FancyCalibrator") == "my_package.calibr…librator"


def test_cliques_equal_brute_force():
    rng = np.random.default_rng(3)
    for _ in range(50):
        values = pd.Series(rng.uniform(1, 6, size=6), index=list("abcdef"))
        names = list(values.sort_values().index)
        within = [
            names[i:j] for i in range(6) for j in range(i + 2, 7) if values[names[j - 1]] - values[names[i]] <= 1.2
        ]
        maximal = [g for g in within if not any(set(g) < set(other) for other in within)]
        assert cliques(values, 1.2) == maximal
