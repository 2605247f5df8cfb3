"""`--grades` of `calibrant report` and `calibrant watch`: scales in files, sections, periods, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import calibrant
from calibrant import CalibrationReport, MasterScale, metrics
from tests.cli.test_commands import ok, predictions, run
from tests.needs import needs

SCALE = "grade,upper,probability\nA,0.1,0.05\nB,0.4,0.25\nC,1,0.6\n"


@pytest.fixture
def folder(tmp_path):
    """Loans of two months with probabilities of default, of which those of March are too low."""
    rng = np.random.default_rng(0)
    p = rng.beta(1, 3, 1200)
    late = np.arange(1200) >= 600
    y = np.where(rng.random(1200) < np.where(late, np.minimum(1.8 * p, 1), p), "yes", "no")
    day = np.where(late, "2026-03-05", "2026-02-05")
    table = pa.table({"no": 1 - p, "yes": p, "bad": y.tolist(), "day": day.tolist()})
    pa.csv.write_csv(table, tmp_path / "loans.csv")
    (tmp_path / "scale.csv").write_text(SCALE)
    return tmp_path


def test_a_report_has_the_grades_of_a_file(folder):
    given = ["report", folder / "loans.csv", "--label", "bad", "--methods", "ts", "--grades", folder / "scale.csv"]
    told = ok(*given, "-o", folder / "r.html", "--json")
    found = json.loads(told.stdout)["grades"]
    table = pa.csv.read_csv(folder / "loans.csv")
    scale = MasterScale([0.1, 0.4], ["A", "B", "C"], [0.05, 0.25, 0.6])
    y, p = np.array(table["bad"].to_pylist()), table["yes"].to_numpy()
    expected = scale.backtest(y, p)
    assert found["grade"] == ["A", "B", "C"]
    np.testing.assert_allclose(found["binomial"], expected.binomial)
    page = (folder / "r.html").read_text()
    assert 'id="grades"' in page
    assert "By grade" in page
    assert expected.summary().split(" (")[0] in page
    assert "Rates of the grades with intervals" in page
    report = CalibrationReport(y, p, methods=["ts"], grades=4)
    assert len(report.contents.grades.grades) == 4
    assert CalibrationReport(y, p, methods=["ts"]).contents.grades is None


def test_watch_compares_each_period_by_grade(folder):
    ok("fit", folder / "loans.csv", "--label", "bad", "-m", "none", "-o", folder / "cal.json")
    given = ["watch", folder / "cal.json", folder / "loans.csv", "-y", "bad", "--period", "month", "--date", "day"]
    told = run(*given, "--state", folder / "s.json", "--grades", folder / "scale.csv", "--alpha", "1e-9")
    lines = told.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("observed / expected"))
    assert lines[start].split() == ["observed", "/", "expected", "A", "B", "C"]
    assert lines[start + 1].startswith("February 2026")
    assert "red" not in lines[start + 1]
    assert lines[start + 2].startswith("March 2026")
    assert "red" in lines[start + 2]
    again = run(*given, "--state", folder / "s.json", "--grades", folder / "scale.csv", "--json")
    found = json.loads(again.stdout)
    assert found["labelled_rows"] == 1200  # not counted again
    assert found["grades"]["March 2026"]["grade"] == ["A", "B", "C"]
    assert calibrant.load(folder / "cal.json").classes_.tolist() == ["no", "yes"]


def test_what_is_no_scale_is_refused(folder):
    report = ["report", folder / "loans.csv", "--label", "bad", "-o", folder / "r.html", "--grades"]
    (folder / "open.csv").write_text("grade,upper\nA,0.1\nB,0.4\n")
    assert "open.csv: the last grade of a scale must reach up to 1" in run(*report, folder / "open.csv").stderr
    (folder / "text.csv").write_text("grade,upper\nA,low\nB,1\n")
    assert "text.csv: could not convert string to float: 'low'" in run(*report, folder / "text.csv").stderr
    (folder / "none.csv").write_text("grade,end\nA,1\n")
    assert "none.csv: a scale needs a column upper" in run(*report, folder / "none.csv").stderr
    assert "there is no file" in run(*report, folder / "missing.csv").stderr
    pa.csv.write_csv(predictions(200), folder / "animals.csv")
    many = ["report", folder / "animals.csv", "--label", "animal", "-o", folder / "r.html", "--grades", "5"]
    refused = run(*many)
    assert refused.exit_code == 2
    assert "--grades needs two classes" in refused.stderr
    assert not (folder / "r.html").exists()
    ok("fit", folder / "loans.csv", "--label", "bad", "-m", "none", "-o", folder / "cal.json")
    watch = ["watch", folder / "cal.json", folder / "loans.csv", "-y", "bad", "--state", folder / "s.json", "--grades"]
    assert "give a table with the upper end of each grade" in run(*watch, "7").stderr
    assert not (folder / "s.json").exists()


def test_fewer_grades_than_asked_for_are_said(folder):
    """Three different predictions make three grades."""
    rows = [f"{p},{'yes' if i % 10 < 10 * p else 'no'}" for i, p in enumerate([0.1, 0.5, 0.9] * 100)]
    (folder / "coarse.csv").write_text("\n".join(["p_yes,bad", *rows]))
    report = ["report", folder / "coarse.csv", "-y", "bad", "--methods", "none", "-o", folder / "r.html", "--grades"]
    told = ok(*report, "5", "--json")
    assert "there are 3 grades instead of 5: equal predictions share a grade" in told.stderr
    assert len(json.loads(told.stdout)["grades"]["grade"]) == 3
    assert "grades instead of" not in ok(*report, "3", "-f").stderr


@pytest.mark.export
def test_exported_queries_have_a_column_of_grades(folder):
    duckdb = needs("duckdb")
    ok("fit", folder / "loans.csv", "--label", "bad", "-m", "ts", "-o", folder / "cal.json")
    export = ["export", folder / "cal.json", "--table", "loans", "--grades", folder / "scale.csv"]
    told = ok(*export, "-o", folder / "cal.sql", "--dialect", "duckdb")
    assert "largest difference" in told.stdout
    base = duckdb.connect()
    base.execute(f"CREATE TABLE loans AS SELECT * FROM '{folder}/loans.csv'")
    rows = base.execute((folder / "cal.sql").read_text()).fetchall()
    scale = MasterScale([0.1, 0.4], ["A", "B", "C"])
    assert [row[-1] for row in rows] == scale.grade([row[1] for row in rows]).tolist()
    assert len({row[-1] for row in rows}) == 3
    refused = run(*export[:2], "--grades", folder / "scale.csv", "-o", folder / "cal.py")
    assert "--grades is an option of sql, not of python" in refused.stderr


def test_evaluate_says_what_validators_name(folder):
    given = ["evaluate", folder / "loans.csv", "--label", "bad", "--named"]
    told = ok(*given).stdout
    assert "class yes is predicted too rarely" in told
    found = {row["name"]: row for row in json.loads(ok(*given, "--json").stdout)["named"]}
    table = pa.csv.read_csv(folder / "loans.csv")
    expected = metrics.spiegelhalter(table["bad"].to_pylist(), table["yes"].to_numpy())
    assert found["Spiegelhalter z"]["value"] == pytest.approx(expected.statistic)
    assert found["Spiegelhalter z"]["low"] is None
