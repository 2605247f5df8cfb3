"""`calibrant fit --segments` and `calibrant apply` on files."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import calibrant
from calibrant import SegmentedCalibrator, adapt
from calibrant.deployment.segments import segment_correction
from tests.cli.test_commands import ok, run

ROWS = 1200


@pytest.fixture(autouse=True)
def one_strength(monkeypatch):
    """How strength is chosen is tested with the calibrator; here both sides of a comparison take one."""
    monkeypatch.setattr(segment_correction, "STRENGTHS", (10.0,))


@pytest.fixture
def table():
    """The second class is three times as likely in the west; ages matter nothing."""
    rng = np.random.default_rng(0)
    p, region = rng.random(ROWS), rng.choice(["north", "west"], ROWS)
    odds = p / (1 - p) * np.where(region == "west", 3.0, 1.0)
    y = np.where(rng.random(ROWS) < odds / (1 + odds), "yes", "no")
    return pd.DataFrame({"p_no": 1 - p, "p_yes": p, "truth": y, "region": region, "age": rng.integers(18, 80, ROWS)})


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_fit_and_apply_read_the_columns_of_segments(table, kind, tmp_path):
    file, cal, out = (tmp_path / name for name in (f"p.{kind}", "cal.json", f"out.{kind}"))
    write = table.to_csv if kind == "csv" else table.to_parquet
    write(file, index=False)
    done = ok("fit", file, "--label", "truth", "-m", "ts", "--segments", "region,age", "-o", cal)
    assert "region = west" in done.stdout
    ok("apply", cal, file, "-o", out)
    written = pd.read_csv(out) if kind == "csv" else pd.read_parquet(out)
    p, frame = table[["p_no", "p_yes"]], table[["region", "age"]]
    expected = SegmentedCalibrator("ts").fit(p.to_numpy(), table["truth"], segments=frame)
    stored = calibrant.load(cal)
    assert stored.segment_columns_["age"].dtype == np.float64
    np.testing.assert_allclose(written["p_yes"], expected.predict_proba(p.to_numpy(), segments=frame)[:, 1], atol=1e-5)
    np.testing.assert_allclose(written["p_yes"], stored.predict_proba(p, segments=frame)[:, 1], atol=1e-12)


def test_what_is_missing_is_named(table, tmp_path):
    table.to_csv(tmp_path / "p.csv", index=False)
    done = run("fit", tmp_path / "p.csv", "--label", "truth", "--segments", "city", "-o", tmp_path / "cal.json")
    assert done.exit_code == 2
    assert "city" in done.stderr
    fit = ["--label", "truth", "-m", "ts", "--segments", "region", "--json", "-o", tmp_path / "cal.json"]
    found = json.loads(ok("fit", tmp_path / "p.csv", *fit).stdout)
    assert found["rows"] == found["rows_used"] == ROWS
    table.drop(columns="region").to_csv(tmp_path / "new.csv", index=False)
    done = run("apply", tmp_path / "cal.json", tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert done.exit_code == 2
    assert "region" in done.stderr


def test_export_reads_the_columns_of_segments(table, tmp_path):
    table.to_csv(tmp_path / "p.csv", index=False)
    fit = ["--label", "truth", "-m", "ts", "--segments", "region,age", "-o", tmp_path / "cal.json"]
    ok("fit", tmp_path / "p.csv", *fit)
    done = ok("export", tmp_path / "cal.json", "-o", tmp_path / "cal.py")
    assert "largest difference" in done.stdout
    scope = {}
    exec((tmp_path / "cal.py").read_text(), scope)
    p, frame = table[["p_no", "p_yes"]][:20], table[["region", "age"]][:20]
    found = [scope["calibrate"](*item) for item in zip(p.to_numpy(), frame.to_dict("records"))]
    expected = calibrant.load(tmp_path / "cal.json").predict_proba(p, segments=frame)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_the_report_says_what_to_do(table, tmp_path):
    table.to_csv(tmp_path / "p.csv", index=False)
    report = ["--label", "truth", "--segments", "region", "-o", tmp_path / "r.html", "--methods", "ts"]
    ok("report", tmp_path / "p.csv", *report)
    assert "--segments region" in (tmp_path / "r.html").read_text()


def test_adapt_and_watch_take_the_segments_of_the_calibrator(table, tmp_path):
    file, cal, new, state = (tmp_path / name for name in ("p.csv", "cal.json", "new.json", "state.json"))
    table.to_csv(file, index=False)
    ok("fit", file, "--label", "truth", "-m", "ts", "--segments", "region,age", "-o", cal)
    ok("adapt", cal, "--from", file, "--labelled", file, "--label", "truth", "-o", new)
    ok("apply", new, file, "-o", tmp_path / "out.csv")
    p, frame = table[["p_no", "p_yes"]], table[["region", "age"]]
    expected = adapt(calibrant.load(cal), unlabelled=p, labelled=(p, table["truth"], frame), segments=frame)
    found = pd.read_csv(tmp_path / "out.csv")["p_yes"]
    np.testing.assert_allclose(found, expected.predict_proba(p, segments=frame)[:, 1], atol=1e-12)
    watch = ["watch", cal, file, "--state", state, "--label", "truth"]
    assert "No alarm" in ok(*watch, "--reference", file).stdout
    done = run(*watch, "--segments", "region")
    assert done.exit_code == 2
    assert "leave out --segments" in done.stderr
    table.assign(region=table["region"].map({"north": "west", "west": "north"})).to_csv(file, index=False)
    done = run(*watch, "--repair", tmp_path / "repaired.json")
    assert done.exit_code == 3
    assert "In the segment region = " in done.stdout
    ok("apply", tmp_path / "repaired.json", file, "-o", tmp_path / "out2.csv")
    assert "largest difference" in ok("export", new, "-o", tmp_path / "new.py").stdout


@pytest.mark.parametrize("names", ["", ",", "truth", "region,truth"])
def test_segments_are_columns_other_than_the_label(table, names, tmp_path):
    table.to_csv(tmp_path / "p.csv", index=False)
    done = run("fit", tmp_path / "p.csv", "--label", "truth", "--segments", names, "-o", tmp_path / "cal.json")
    assert done.exit_code == 2
    assert "other than the label" in done.stderr


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("levels", [[1, 2, 3], [1e-5, 2.5, 0.0], [True, False, True]])
def test_levels_are_found_however_a_file_spells_them(table, kind, levels, tmp_path):
    """Whole numbers stand as 1.0 beside missing values, Booleans as true, and Arrow writes 0.00001."""
    rng = np.random.default_rng(0)
    table = table[:400].assign(code=np.array(levels)[rng.integers(0, 3, 400)])
    p = table[["p_no", "p_yes"]]
    calibrator = SegmentedCalibrator("ts", strength=1.0, trees=False)
    calibrator.fit(p, table["truth"], segments=table[["code"]])
    calibrant.save(calibrator, tmp_path / "cal.json")
    expected = calibrator.predict_proba(p, segments=table[["code"]])
    assert np.ptp(expected[:, 1] - calibrator.calibrator_.predict_proba(p)[:, 1]) > 0.01
    spelled = table["code"].astype(float) if levels[0] is not True else table["code"]
    if kind == "csv":
        spelled = spelled.map(str).str.lower()
        table.assign(code=spelled).to_csv(tmp_path / "p.csv", index=False)
    else:
        table.assign(code=spelled).to_parquet(tmp_path / "p.parquet")
    ok("apply", tmp_path / "cal.json", tmp_path / f"p.{kind}", "-o", tmp_path / f"out.{kind}")
    found = (pd.read_csv if kind == "csv" else pd.read_parquet)(tmp_path / f"out.{kind}")
    np.testing.assert_allclose(found["p_yes"], expected[:, 1], atol=1e-12)


@pytest.fixture(scope="module")
def by_letters():
    """Rows of three levels whose odds differ, the level of each, and what a fit to letters makes of them."""
    rng = np.random.default_rng(0)
    p, place = rng.random(400), rng.integers(0, 3, 400)
    odds = p / (1 - p) * np.array([5.0, 1.0, 0.2])[place]
    truth = np.where(rng.random(400) < odds / (1 + odds), "yes", "no")
    table = pd.DataFrame({"p_no": 1 - p, "p_yes": p, "truth": truth})
    letters, p = {"code": np.array(list("abc"))[place]}, table[["p_no", "p_yes"]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_correction, "STRENGTHS", (10.0,))
        plain = SegmentedCalibrator("ts").fit(p, truth, segments=letters)
    expected = plain.predict_proba(p, segments=letters)[:, 1]
    assert np.abs(expected - plain.calibrator_.predict_proba(p)[:, 1]).max() > 0.1
    return table, place, expected


DAYS = ["2024-01-31", "2024-02-01", "2024-02-02"]


@pytest.mark.parametrize(
    ("levels", "kind"),
    [
        (["0.00", "3.00", "7.50"], "csv"),
        (["007", "012", "7"], "csv"),
        (["007", "008", "009"], "csv"),
        (["1E5", "2E5", "3E5"], "csv"),
        (DAYS, "csv"),
        ([f"{day} 00:00:00" for day in DAYS], "csv"),
        ([True, False, None], "csv"),
        ([Decimal("0.00"), Decimal("3.00"), Decimal("7.50")], "parquet"),
        (["007", "008", "7"], "parquet"),
        (pd.Categorical(["007", "008", "009"]), "parquet"),
        (pd.Categorical([3, 4, 5]), "parquet"),
        (np.array([0.1, 0.2, 0.3], dtype=np.float32), "parquet"),
        (np.array([1, 2, 3], dtype=np.int8), "parquet"),
        (pd.to_datetime(DAYS), "parquet"),
        (pd.to_datetime([f"{day} 12:30:00.5" for day in DAYS]), "parquet"),
        ([date.fromisoformat(day) for day in DAYS], "parquet"),
    ],
)
def test_levels_of_every_type_are_found_in_the_file_they_were_fitted_to(by_letters, levels, kind, tmp_path):
    """In the rows of the fit, each level has the correction that its own column of indicators gets."""
    table, place, expected = by_letters
    table = table.assign(code=pd.Series(levels).take(place).reset_index(drop=True))
    file, cal, out = (tmp_path / name for name in (f"p.{kind}", "cal.json", f"out.{kind}"))
    (table.to_csv if kind == "csv" else table.to_parquet)(file, index=False)
    ok("fit", file, "--label", "truth", "-m", "ts", "--segments", "code", "-o", cal)
    done = ok("apply", cal, file, "-o", out)
    assert "level" not in done.stderr
    found = (pd.read_csv if kind == "csv" else pd.read_parquet)(out)["p_yes"]
    p = table[["p_no", "p_yes"]]
    assert len(calibrant.load(cal).segment_columns_["code"]) == 3
    np.testing.assert_allclose(found, expected, atol=1e-6)
    stored = calibrant.load(cal).predict_proba(p, segments=table[["code"]])[:, 1]
    np.testing.assert_allclose(stored, expected, atol=1e-6)


def test_apply_says_if_hardly_a_row_has_a_known_level(table, tmp_path):
    file, cal = tmp_path / "p.csv", tmp_path / "cal.json"
    table.to_csv(file, index=False)
    ok("fit", file, "--label", "truth", "-m", "ts", "--segments", "region", "-o", cal)
    table.assign(region=table["region"].str.upper()).to_csv(file, index=False)
    done = ok("apply", cal, file, "-o", tmp_path / "out.csv")
    assert done.stderr.count("None of 1,200 rows has a known level of 'region': the global map is used.") == 1
    assert "Note: " in done.stderr
    assert "Warning: " not in done.stderr
    assert "Found: 'WEST', 'NORTH'." in done.stderr or "Found: 'NORTH', 'WEST'." in done.stderr
    assert "Known: 'north', 'west'." in done.stderr
