"""The table of a run, against numbers worked out by hand."""

from __future__ import annotations

import pytest

from calibrant.bench.study.run_summary import describe, failed_everywhere, findings, render, summarise
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


def drawn(losses: dict[int, dict[str, float]], n_classes: int = 2) -> list[dict[str, object]]:
    """Results of one experiment whose calibration rows were drawn: the log loss of each method by number of rows."""
    row = {"benchmark": "b", "dataset": "d", "model": "m", "n_classes": n_classes, "status": "ok", "brier": 0.3}
    return [
        {**row, "fold": f"0-n{n}", "draw": n, "method": method, "logloss": loss, "labels": "real", "fit_seconds": 0.002}
        for n, found in losses.items()
        for method, loss in {"none": 0.5, **found}.items()
    ]


@pytest.mark.parametrize(
    ("losses", "n_classes", "said"),
    [
        (
            {100: {"ts": 0.52, "auto": 0.45}, 300: {"ts": 0.4, "auto": 0.45}},
            2,
            "With two classes auto lowers the mean log loss by 0.050 with 100 rows and by 0.050 with 300 rows. No "
            "other method lowers it more with 100 rows; ts does with 300. With 100 rows 1 of 2 methods makes it worse.",
        ),
        (
            {100: {"ts": 0.45, "auto": 0.45}},
            3,
            "With three and more classes auto lowers the mean log loss by 0.050 with 100 rows. No other method lowers "
            "it more with any number of rows.",
        ),
        (
            {30: {"ts": 0.4, "sms": 0.4, "auto": 0.51, "vs": 0.6}},
            2,
            "With two classes auto lowers the mean log loss by -0.010 with 30 rows. Others lower it more: sms and ts "
            "do with 30. With 30 rows 2 of 4 methods make it worse.",
        ),
        (
            {30: {"ts": 0.4, "sms": 0.45}},
            2,
            "With two classes ts lowers the mean log loss by 0.100 with 30 rows. No other method lowers it more with "
            "any number of rows.",
        ),
    ],
)
def test_findings_of_draws_are_sentences(losses, n_classes, said):
    assert " ".join(findings(drawn(losses, n_classes)).split()) == said


def test_the_table_of_draws_by_hand():
    text = describe(drawn({100: {"ts": 0.51, "auto": 0.45}, 400: {"ts": 0.4, "auto": 0.45}}))
    lines = [line.split() for line in text.splitlines() if line.startswith(("method", "auto", "ts", "none"))]
    # ts makes it worse with 100 rows, and is better in all draws with 400: 95 of 100 lie between.
    needed = f"{float(f'{100 * 4**0.95:.2g}'):.0f}"
    assert lines == [
        ["method", "n=100", "n=400", "rank", "needs", "fit", "ms"],
        ["auto", "-50.0", "-50.0", "1.5", "≤", "100", "2.0"],
        ["ts", "+10.0", "-100.0", "2.0", needed, "2.0"],
        ["none", "0", "0", "2.5", "2.0"],
    ]
    never = describe(drawn({100: {"ts": 0.45, "auto": 0.4}, 400: {"ts": 0.6, "auto": 0.4}}))
    assert "> 400" in never
    assert "≤ 100" in never


def test_the_table_of_a_run_by_hand():
    frame = results()
    lines = [" ".join(line.split()) for line in render(summarise(frame)[0]).splitlines()]
    assert lines == [
        "method log loss Brier median log loss rank better on fit ms",
        "b -133.3 -66.7 -100.0 1.5 100% 250.0",
        "a -100.0 -50.0 -100.0 2.0 67% 250.0",
        "none 0 0 0 2.5 250.0",
    ]


def test_methods_that_never_finished_are_named_with_their_first_reason():
    rows = [("a", "failed", "why"), ("a", "timeout", "late"), ("b", "ok", ""), ("b", "failed", "x"), ("c", "ok", "")]
    found = [dict(zip(("method", "status", "message"), row)) for row in rows]
    said = "FAILED: a finished none of its 2 fits (why); the column `message` of the results has every reason"
    assert failed_everywhere(found, ["a", "b", "c", "absent"]) == said
    assert failed_everywhere(found, ["b", "c"]) == ""
