"""The table of a run, against numbers worked out by hand."""

from __future__ import annotations

import pytest

from calibrant.bench.study.run_summary import findings, render, summarise
from tests.needs import needs

pd = needs("pandas")
pytestmark = pytest.mark.bench

COLUMNS = ["benchmark", "dataset", "model", "fold", "method", "status", "logloss", "brier", "fit_seconds"]


def results() -> pd.DataFrame:
    rows = []
    # dataset, model: losses of none, a, b
    for dataset, model, none, a, b in (("x", "m", 1.0, 0.9, 0.8), ("x", "n", 1.0, 0.7, 0.9), ("y", "m", 0.5, 0.6, 0.4)):
        for method, loss in (("none", none), ("a", a), ("b", b)):
            rows.append(("s", dataset, model, 0, method, "ok", loss, loss / 2, 0.25))
    return pd.DataFrame(rows, columns=COLUMNS)


def test_changes_and_ranks_by_hand() -> None:
    table = summarise(results())[0].set_index("method")
    assert table.loc["a", "logloss"] == pytest.approx((-0.1 - 0.3 + 0.1) / 3)
    assert table.loc["a", "median_logloss"] == pytest.approx(-0.1)
    assert table.loc["b", "brier"] == pytest.approx(-0.4 / 6)
    assert table.loc["a", "better"] == pytest.approx(2 / 3)
    # x: a -0.2, b -0.15, none 0; y: b -0.1, none 0, a +0.1
    assert table["rank"].to_dict() == {"b": 1.5, "a": 2.0, "none": 2.5}
    assert list(table.index) == ["b", "a", "none"]


def test_what_did_not_finish_is_counted_and_its_dataset_not_ranked() -> None:
    frame = results()
    frame.loc[1, ["status", "logloss", "brier", "fit_seconds"]] = ["timeout", None, None, None]
    table = summarise(frame)[0].set_index("method")
    assert table["unfinished"].to_dict() == {"a": 1, "b": 0, "none": 0}
    # x: not all finished; y: b -0.1, none 0, a +0.1
    assert table["rank"].to_dict() == {"a": 3.0, "b": 1.0, "none": 2.0}
    assert "unfinished" in render(summarise(frame)[0])


def test_findings_of_draws_are_sentences():
    row = {"benchmark": "b", "dataset": "d", "model": "m", "n_classes": 2, "status": "ok", "brier": 0.3}
    rows = [
        {**row, "fold": f"0-n{n}", "draw": n, "method": method, "logloss": loss, "labels": "observed"}
        for n, ts in ((100, 0.52), (300, 0.4))
        for method, loss in (("none", 0.5), ("ts", ts), ("auto", 0.45))
    ]
    found = findings([{**row, "fit_seconds": 0.001} for row in rows])
    assert " ".join(found.split()) == (
        "With two classes auto lowers the mean log loss by 0.050 with 100 rows and by 0.050 with 300 rows. No other "
        "method lowers it more with 100 rows; ts does with 300. With 100 rows 1 of 2 methods makes it worse."
    )
