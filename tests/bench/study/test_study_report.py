"""The whole report: files, several benchmarks, odd results, the command line."""

from __future__ import annotations

import json
import sys

import pytest

from tests.needs import needs

pytestmark = pytest.mark.bench
pd = needs("pandas")
needs("matplotlib")
needs("jinja2")

from typer.testing import CliRunner  # noqa: E402

from calibrant.bench.study import figures, leaderboard  # noqa: E402
from calibrant.bench.study import study_report as report_module  # noqa: E402
from calibrant.bench.study.study_report import make_report  # noqa: E402
from calibrant.cli.bench_commands import app  # noqa: E402

PRINTED = ["absolute", "by_dataset_model", "ranks_logloss", "ranks_brier", "winrates", "elo", "fit_time", "friedman"]


@pytest.fixture
def no_figures(monkeypatch):
    """Figures have tests of their own; drawing them takes most of the time of a report."""
    monkeypatch.setattr(report_module, "draw_figures", lambda tables, directory: [])


def test_files_of_a_report_and_redrawing_it(tmp_path, results, monkeypatch):
    # One figure stands for all: drawing takes most of the time of a report.
    for module in (figures, leaderboard):
        monkeypatch.setattr(module, "FIGURES", {"winrates": figures.FIGURES["winrates"]})
    results.to_csv(tmp_path / "results.csv", index=False)
    runs = [{"command": ["calibrant", "bench", "run", "a b"], "started": "2026", "versions": {"numpy": "9.9"}}]
    (tmp_path / "run.json").write_text(json.dumps({"runs": runs}))
    monkeypatch.setattr(sys, "argv", ["calibrant", "bench", "report", "<my results>"])
    report = make_report(tmp_path, tmp_path / "out")
    for name in PRINTED:
        for ending in ("csv", "md", "tex"):
            assert (tmp_path / "out" / "tables" / f"{name}.{ending}").is_file()
    assert len(list((tmp_path / "out" / "figures").glob("*.png"))) == 1
    page = report.page.read_text()
    assert page.count("data:image/webp") == 1
    assert "calibrant bench run &#39;a b&#39;" in page
    assert "calibrant bench report &#39;&lt;my results&gt;&#39;" in page
    assert "numpy&nbsp;9.9" in page
    assert "python&nbsp;" in page
    assert (tmp_path / "out" / "notes.md").read_text() == "Nothing to note.\n"
    # Figures are drawn again from the tables.
    figure = tmp_path / "out" / "figures" / "winrates.png"
    before = figure.read_bytes()
    figure.unlink()
    run = CliRunner().invoke(app, ["report", "-o", str(report.directory), "--redraw"])
    assert run.exit_code == 0, run.output
    assert figure.read_bytes() == before


@pytest.mark.usefixtures("no_figures")
def test_every_benchmark_has_its_own_folder(tmp_path, make_results):
    first, second = make_results(), make_results(seed=1, benchmark="my/set", methods=("ts", "beta"))
    report = make_report(pd.concat([first, second]), tmp_path, unranked=["beta"])
    own = pd.read_csv(tmp_path / "b" / "tables" / "ranks_logloss.csv")
    assert set(own["method"]) == {"none", "ts", "svs", "sms"}
    assert set(pd.read_csv(tmp_path / "my_set" / "tables" / "absolute.csv")["method"]) == {"ts", "beta"}
    assert "svs, sms: no results on my/set, so ranked on the others only" in report.notes
    together = pd.read_csv(tmp_path / "tables" / "ranks_logloss.csv")
    assert set(together["method"]) == {"none", "ts"}


@pytest.mark.usefixtures("no_figures")
def test_binary_and_multiclass_are_ranked_apart(tmp_path, make_results):
    results = make_results(n_datasets=10, methods=("ts", "sms", "quadratic"))
    binary = results["dataset"].isin(["d0", "d1", "d2", "d3"])
    results.loc[binary, "n_classes"] = 2
    results = results[binary | (results["method"] != "quadratic")]
    report = make_report(results, tmp_path)
    for folder, n, names in (
        ("b-binary", 4, {"none", "ts", "sms", "quadratic"}),
        ("b-multiclass", 6, {"none", "ts", "sms"}),
        (".", 10, {"none", "ts", "sms"}),
    ):
        assert pd.read_csv(tmp_path / folder / "tables" / "friedman.csv")["n_datasets"].tolist() == [n, n]
        assert set(pd.read_csv(tmp_path / folder / "tables" / "ranks_brier.csv")["method"]) == names
    assert "quadratic: no results on b, multiclass, so ranked on the others only" in report.notes


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
@pytest.mark.published
def test_published_report_shows_the_paper(tmp_path, published):
    run = CliRunner().invoke(
        app,
        [
            "report",
            str(published / "paper-multiclass.csv.gz"),
            "--out",
            str(tmp_path),
            "--unranked",
            "guo,ts-unsmoothed",
        ],
    )
    assert run.exit_code == 0, run.output
    assert "sms            MS              *-0.0046  *-0.0210           1365" in run.output
    assert (tmp_path / "leaderboard.html").read_text().count("data:image/webp") == 10
    assert len(list((tmp_path / "figures").glob("*.pdf"))) == 10
    ranks = pd.read_csv(tmp_path / "tables" / "ranks_logloss.csv").set_index("method")["rank"].round(1)
    assert ranks["sms"] == 1.9


@pytest.mark.usefixtures("no_figures")
def test_command_line(tmp_path, results):
    results.to_csv(tmp_path / "r.csv", index=False)
    run = CliRunner().invoke(
        app, ["report", str(tmp_path / "r.csv"), "-o", str(tmp_path / "out"), "--methods", "ts,sms"]
    )
    assert run.exit_code == 0, run.output
    assert run.output.strip().endswith("leaderboard.html")
    assert "svs" not in run.output
    for arguments, message in (
        (["-o", str(tmp_path)], "name the results"),
        ([str(tmp_path / "x.csv"), "-o", str(tmp_path)], "x.csv"),
        ([str(tmp_path / "r.csv"), "-o", str(tmp_path), "--methods", "xyz"], "no method 'xyz'"),
        ([str(tmp_path / "r.csv"), "-o", str(tmp_path), "--alpha", "2"], "alpha must lie"),
        (["-o", str(tmp_path / "nothing"), "--redraw"], "lacks"),
        ([str(tmp_path / "r.csv"), "-o", str(tmp_path), "--redraw"], "takes no results"),
    ):
        run = CliRunner().invoke(app, ["report", *arguments])
        assert run.exit_code in (1, 2)
        assert message in run.output
