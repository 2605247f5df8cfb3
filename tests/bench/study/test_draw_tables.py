"""Tables of drawn calibration rows, against numbers worked out by hand."""

import math
import re

import pytest

from tests.needs import needs

pd = needs("pandas")
pytestmark = pytest.mark.bench

from calibrant.bench.study import figures, leaderboard  # noqa: E402
from calibrant.bench.study.draw_tables import (  # noqa: E402
    common_sizes,
    curve_table,
    draw_notes,
    draw_tables,
    rows_needed,
    rows_to_match,
)
from calibrant.bench.study.results import check_results, observed  # noqa: E402
from calibrant.bench.study.run_summary import describe  # noqa: E402
from calibrant.bench.study.study_report import make_report  # noqa: E402

METHODS = ["none", "ts", "sms"]


def drawn_results(changes, *, labels="real", n_classes=2):
    """Results whose changes of log loss are given by dataset, size and method; Brier scores change by half of it."""
    rows = []
    for (dataset, size, method), values in changes.items():
        for repeat, value in enumerate(values):
            for name, change in (("none", 0.0), (method, value)):
                rows.append(
                    {
                        "benchmark": "b, draws" + (" with drawn labels" if labels == "drawn" else ""),
                        "dataset": dataset,
                        "model": "LR",
                        "fold": f"0-n{size}-r{repeat}",
                        "method": name,
                        "draw": size,
                        "labels": labels,
                        "n_cal": size,
                        "n_classes": n_classes,
                        "status": "ok",
                        "logloss": 0.5 + change,
                        "brier": 0.25 + change / 2,
                        "fit_seconds": 0.01,
                    }
                )
    keys = ["benchmark", "dataset", "model", "fold", "method"]
    return check_results(pd.DataFrame(rows).drop_duplicates(keys))


@pytest.fixture
def changes():
    """Two datasets of three have the largest size; ts gains at once, sms from 100 rows on."""
    return make_changes()


@pytest.fixture(scope="module")
def tables():
    """The tables of these changes by name."""
    return {table.name: table for table in draw_tables(drawn_results(make_changes()), METHODS, METHODS)}


def make_changes():
    found = {}
    for place, dataset in enumerate(("x", "y", "small")):
        sizes = (30, 100) if dataset == "small" else (30, 100, 300)
        for size in sizes:
            found[dataset, size, "ts"] = [-0.01 * (1 + place), -0.03 * (1 + place)]
            sign = 1 if size == 30 else -1
            found[dataset, size, "sms"] = [sign * 0.05, sign * 0.05]
    return found


@pytest.mark.parametrize(
    ("shares", "rows"),
    [
        ({30: 0.95, 100: 0.95}, 30.0),
        ({30: 0.99, 100: 0.94}, math.inf),
        ({30: 0.10, 100: 0.90, 1000: 1.00}, math.sqrt(100 * 1000)),
        ({30: 0.96, 100: 0.90, 1000: 1.00, 3000: 0.97}, math.sqrt(100 * 1000)),
        ({30: 0.90, 300: 0.95}, 300.0),
        ({}, math.inf),
    ],
)
def test_rows_needed(shares, rows):
    assert rows_needed(shares) == pytest.approx(rows)


def test_curves_rest_on_the_same_datasets(changes, tables):
    assert common_sizes(drawn_results(changes)) == [30, 100, 300]
    curves = tables["draw_curves"].frame.set_index(["metric", "draw", "method"]).sort_index()
    assert set(curves["n_datasets"]) == {2}
    # x: -0.02, y: -0.04 in the mean of their repeats.
    assert curves.loc[("logloss", 30, "ts"), "change"] == pytest.approx(-0.03)
    assert curves.loc[("brier", 30, "ts"), "change"] == pytest.approx(-0.015)
    assert curves.loc[("logloss", 30, "sms"), "better"] == 0.0
    assert curves.loc[("logloss", 300, "sms"), "better"] == 1.0
    assert curves.loc["logloss", 30]["rank"].to_dict() == {"none": 2.0, "ts": 1.0, "sms": 3.0}
    assert curves.loc["logloss", 100]["rank"].to_dict() == {"none": 3.0, "ts": 2.0, "sms": 1.0}


def test_tables(tables):
    # All three datasets have 100 rows: x, y and small change by -0.02, -0.04 and -0.06.
    draws = tables["draws"].frame.set_index(["metric", "draw", "method"])
    assert draws.loc[("logloss", 100, "ts"), "change"] == pytest.approx(-0.04)
    assert draws.loc[("logloss", 100, "ts"), "n_datasets"] == 3
    needed = tables["rows_needed"].frame.set_index("method")["logloss"]
    assert needed["ts"] == 30
    assert needed["sms"] == pytest.approx(30 * (100 / 30) ** 0.95, rel=1e-6)
    assert list(tables["change_by_draw_logloss"].frame.columns) == ["method", "30", "100", "300"]
    decimals = {"change_by_draw_brier": 4, "rank_by_draw_brier": 2, "rows_to_match_brier": 0}
    for name, digits in decimals.items():
        assert set(tables[name].decimals.values()) == {digits}
    assert "3 with 30 rows, 3 with 100 rows, 2 with 300 rows" in tables["rank_by_draw_brier"].caption


def test_rows_to_match(tables):
    # In the mean over x and y ts changes log loss by -0.03 with any number of rows, sms by 0.05 and then by -0.05.
    found = rows_to_match(tables["draw_curves"].frame)
    assert set(found["leader"]) == {"ts"}
    assert set(found["method"]) == {"sms"}
    # From +0.05 with 30 rows to -0.05 with 100: -0.03 is eight tenths of the way.
    assert found["rows"].to_numpy() == pytest.approx(30 * (100 / 30) ** 0.8, rel=1e-6)
    assert list(tables["rows_to_match_brier"].frame.columns) == ["method", "30", "100", "300"]
    assert "as much as ts does" in tables["rows_to_match_logloss"].caption


def test_what_the_leader_gains_may_be_out_of_reach():
    gains = {"ts": (-0.01, -0.02, -0.02), "sms": (-0.02, -0.04, -0.06)}
    changes = {("x", n, name): [at] for name, own in gains.items() for n, at in zip((30, 100, 300), own, strict=True)}
    found = rows_to_match(curve_table(drawn_results(changes), METHODS, METHODS)).set_index(["metric", "draw"])["rows"]
    assert found.loc["logloss"].tolist() == [pytest.approx(100.0), math.inf, math.inf]


def test_calibrated_experiments_do_not_count_as_failures(changes):
    # Nothing gains a per cent of 0.5 here, not even with most rows.
    for size in (30, 100, 300):
        changes["calm", size, "ts"] = [0.004, 0.004]
        changes["calm", size, "sms"] = [-0.004, 0.004]
    tables = {table.name: table for table in draw_tables(drawn_results(changes), METHODS, METHODS)}
    curves = tables["draw_curves"].frame
    assert set(curves["n_datasets"]) == {3}
    assert set(curves["n_gainful"]) == {2}
    assert tables["rows_needed"].frame.set_index("method")["logloss"]["ts"] == 30
    assert "(2 of 3 datasets)" in tables["rows_needed"].caption


def test_sizes_that_few_datasets_have_are_left_out_of_curves(changes):
    for name in ("p", "q", "r", "s"):
        for size in (30, 100):
            changes[name, size, "ts"] = [-0.01]
            changes[name, size, "sms"] = [-0.01]
    assert common_sizes(drawn_results(changes)) == [30, 100]


def test_harm_is_told_apart_from_gains(changes):
    harm = drawn_results({key: [abs(v) for v in values] for key, values in changes.items()}, labels="drawn")
    names = [table.name for table in draw_tables(harm, METHODS, METHODS)]
    assert not {"rows_needed", "rows_to_match"} & set(names)
    both = pd.concat([drawn_results(changes), harm], ignore_index=True)
    assert set(observed(both)["labels"]) == {"real"}
    assert observed(harm) is harm
    text = " ".join(describe(both).split())  # lines are wrapped
    assert text.count("any change is harm") == text.count("better than none in 95 of 100") == 1
    assert "needs" not in text.partition("any change is harm")[2]


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
def test_report_with_draws(changes, tmp_path, monkeypatch):
    needs("matplotlib")
    needs("jinja2")
    for module in (figures, leaderboard):
        monkeypatch.setattr(module, "FIGURES", {name: f for name, f in figures.FIGURES.items() if f.optional})
    harm = drawn_results({key: [abs(v) for v in values] for key, values in changes.items()}, labels="drawn")
    made = make_report(pd.concat([drawn_results(changes), harm], ignore_index=True), tmp_path)
    # Everything together is what was observed.
    assert made.tables["change_by_draw_logloss"].frame.set_index("method")["30"]["ts"] == pytest.approx(-0.03)
    drawn = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    assert drawn == {"draw_curves_logloss", "draw_curves_brier", "rank_by_draw", "rows_needed", "rows_to_match"}
    assert not (tmp_path / "b_draws_with_drawn_labels" / "figures" / "rows_needed.png").exists()
    page = made.page.read_text()
    assert re.search(r'<select id="draw">.*<option value="30">30</option>', page)


def test_rows_needed_are_found_between_sizes():
    assert rows_needed({30: 0.2, 100: 0.9, 400: 1.0}) == 200.0
    assert rows_needed({30: 0.0, 300: 0.04}, enough=0.04) == 300.0


def test_what_curves_leave_out_is_said():
    sizes = {"x": (1, 30, 100, 300), "y": (30, 100), "z": (30,), "u": (30, 100)}
    rows = [("b", name, n) for name, drawn in sizes.items() for n in drawn]
    assert draw_notes(pd.DataFrame(rows, columns=["benchmark", "dataset", "draw"])) == (
        "over 3 of 4 datasets, those that have all of these numbers of rows",
        "draws of 1, 300 rows are not shown, since few datasets have that many; the tables of a report show them",
    )
    assert draw_notes(pd.DataFrame(rows[:1], columns=["benchmark", "dataset", "draw"])) == ()
