"""The commands on files: what they write, what they pass through, how they answer mistakes."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner, Result

import calibrant
from calibrant.cli import app
from calibrant.files.tables import table as tables
from calibrant.files.tables import text as table_csv
from calibrant.metrics import log_loss
from calibrant.workflows import evaluating
from tests.needs import needs

CLASSES = ["bird", "cat", "dog"]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def ok(*arguments: object) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output + result.stderr
    return result


def predictions(n_rows: int = 400, seed: int = 0) -> pa.Table:
    """Over-confident predictions among other columns, in an order of their own."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n_rows, 3))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    q = np.exp(2 * z) / np.exp(2 * z).sum(axis=1, keepdims=True)
    return pa.table(
        {
            "id": [f"{i:04d}" for i in range(n_rows)],
            "p_dog": q[:, 2],
            "note": ["a, b" if i % 2 else 'say "x"' for i in range(n_rows)],
            "p_bird": q[:, 0],
            "p_cat": q[:, 1],
            "animal": [CLASSES[code] for code in y],
            "site": ["north", "south"] * (n_rows // 2),
            "w": rng.integers(1, 4, n_rows),
        }
    )


def write(path: Path, table: pa.Table) -> Path:
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(table, path)
    else:
        pyarrow.csv.write_csv(table, path)
    return path


def read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path)
    if path.suffix == ".feather":
        return pyarrow.feather.read_table(path)
    text = pyarrow.csv.ConvertOptions(column_types={"id": pa.string()})
    return pyarrow.csv.read_csv(path, convert_options=text)


def matrix(table: pa.Table, suffix: str = "") -> np.ndarray:
    return np.column_stack([table[f"p_{name}{suffix}"].to_numpy() for name in CLASSES])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "data.csv", predictions())


@pytest.fixture
def stored(tmp_path: Path, data: Path) -> Path:
    ok("fit", data, "--label", "animal", "--method", "ts", "-o", tmp_path / "cal.json")
    return tmp_path / "cal.json"


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_fit_and_apply_equal_the_library(
    tmp_path: Path, suffix: str, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CHUNK_ROWS", 64)
    monkeypatch.setattr(table_csv, "CSV_BLOCK", 4096)
    train, new = predictions(), predictions(300, seed=1)
    source, target = write(tmp_path / f"new{suffix}", new), tmp_path / f"out{suffix}"
    ok("apply", stored, source, "-o", target)
    expected = calibrant.get_calibrator("ts").fit(matrix(train), train["animal"].to_numpy()).predict_proba(matrix(new))
    found = read(target)
    np.testing.assert_allclose(matrix(found), expected, rtol=1e-12)
    assert found.column_names == new.column_names
    for name in set(new.column_names) - {"p_bird", "p_cat", "p_dog"}:
        assert found[name].to_pylist() == new[name].to_pylist(), name


def test_suffix_keeps_both(tmp_path: Path, stored: Path, data: Path) -> None:
    ok("apply", stored, data, "-o", tmp_path / "both.csv", "--suffix", "_cal")
    found = read(tmp_path / "both.csv")
    assert found.column_names == [*predictions().column_names, "p_dog_cal", "p_bird_cal", "p_cat_cal"]
    np.testing.assert_allclose(matrix(found), matrix(predictions()), rtol=1e-15)
    np.testing.assert_allclose(matrix(found, "_cal").sum(axis=1), 1, rtol=1e-12)
    again = run("apply", stored, tmp_path / "both.csv", "-o", tmp_path / "x.csv", "--suffix", "_cal")
    assert again.exit_code == 2
    assert "'p_dog_cal' exists already" in again.stderr


def test_apply_finds_columns_of_a_calibrator_without_names(tmp_path: Path, data: Path) -> None:
    table = predictions()
    fitted = calibrant.get_calibrator("svs").fit(matrix(table), table["animal"].to_numpy())
    calibrant.save(fitted, tmp_path / "svs.json")
    ok("apply", tmp_path / "svs.json", data, "-o", tmp_path / "out.csv")
    np.testing.assert_allclose(matrix(read(tmp_path / "out.csv")), fitted.predict_proba(matrix(table)), rtol=1e-12)


@pytest.mark.parametrize("name", ["p_yes", "p_no"])
def test_a_single_column_stands_for_the_class_it_names(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = np.where(rng.random(500) < p**2, "yes", "no")
    table = pa.table({"y": y, name: p if name == "p_yes" else 1 - p})
    source = write(tmp_path / "t.parquet", table)
    ok("fit", source, "-y", "y", "-m", "quadratic", "-o", tmp_path / "c.json")
    ok("apply", tmp_path / "c.json", source, "-o", tmp_path / "out.parquet")
    expected = calibrant.get_calibrator("quadratic").fit(p, y).predict_proba(p)[:, 1]
    found = read(tmp_path / "out.parquet")[name].to_numpy()
    np.testing.assert_allclose(found if name == "p_yes" else 1 - found, expected, atol=1e-7)


@pytest.mark.parametrize("positive", ["fraud", "ok"])
def test_the_positive_class_is_that_of_a_single_column_of_any_name(tmp_path: Path, positive: str) -> None:
    rng = np.random.default_rng(0)
    p = rng.random(300).round(3)
    y = np.where(rng.random(300) < p, positive, {"fraud": "ok", "ok": "fraud"}[positive])
    source, cal, page = (tmp_path / name for name in ("t.csv", "c.json", "r.html"))
    pa.csv.write_csv(pa.table({"score": p, "y": y}), source)
    more = ["-y", "y", "--cost", "fp=1,fn=20", "--positive", positive]
    done = ok("fit", source, "-m", "none", "-o", cal, *more)
    assert f"Columns: score = {positive} (the other class is" in done.stdout
    assert "sorted order" not in done.stderr
    assert calibrant.load(cal).classes_[1] == positive
    told = ok("report", source, "--methods", "none", "-o", page, *more)
    assert f"Columns: score = {positive} (the other class is" in told.stdout
    assert f"--label y --positive {positive}" in page.read_text()  # so that other commands read the column as it does
    judged = ok("evaluate", source, "-y", "y", "--positive", positive)
    assert f"Columns: score = {positive} (the other class is" in judged.stdout
    assert "sorted order" not in judged.stderr
    # A name that tells the class is believed.
    pa.csv.write_csv(pa.table({f"p_{positive}": p, "y": y}), source)
    given = ["--cost", "fp=1,fn=20", "--positive", {"fraud": "ok", "ok": "fraud"}[positive]]
    assert f"p_{positive} = {positive} (" in ok("fit", source, "-y", "y", "-m", "none", "-f", "-o", cal, *given).stdout


def test_float32_stays_float32(tmp_path: Path, stored: Path) -> None:
    table = predictions()
    narrow = table.set_column(1, "p_dog", table["p_dog"].cast(pa.float32()))
    for place, name in ((3, "p_bird"), (4, "p_cat")):
        narrow = narrow.set_column(place, name, table[name].cast(pa.float32()))
    ok("apply", stored, write(tmp_path / "f.parquet", narrow), "-o", tmp_path / "g.parquet")
    assert read(tmp_path / "g.parquet").schema.field("p_dog").type == pa.float32()


def test_logits(tmp_path: Path) -> None:
    table = predictions()
    logits = table
    for place, name in ((1, "p_dog"), (3, "p_bird"), (4, "p_cat")):
        logits = logits.set_column(place, name, pa.array(np.log(table[name].to_numpy()) + 5))
    source = write(tmp_path / "z.parquet", logits)
    assert run("evaluate", source, "-y", "animal").exit_code == 1
    found = json.loads(ok("evaluate", source, "-y", "animal", "--logits", "--json").stdout)
    assert list(found["metrics"]["log_loss"]) == ["value"]  # intervals only where they are asked for
    codes = [CLASSES.index(name) for name in table["animal"].to_pylist()]
    assert found["metrics"]["log_loss"]["value"] == pytest.approx(log_loss(codes, matrix(table)))
    ok("fit", source, "-y", "animal", "--logits", "-m", "ts", "-o", tmp_path / "z.json")
    ok("apply", tmp_path / "z.json", source, "-o", tmp_path / "out.parquet")
    np.testing.assert_allclose(matrix(read(tmp_path / "out.parquet")).sum(axis=1), 1)


def test_logits_of_the_other_class_are_turned_around(tmp_path: Path) -> None:
    z = np.random.default_rng(0).normal(size=200)
    y = np.where(np.random.default_rng(1).random(200) < 1 / (1 + np.exp(-z / 2)), "yes", "no")
    found = {}
    for name, values in (("yes", z), ("no", -z)):
        source, target = tmp_path / f"{name}.csv", tmp_path / f"{name}-out.csv"
        pa.csv.write_csv(pa.table({f"p_{name}": values, "y": y}), source)
        if name == "yes":
            ok("fit", source, "-y", "y", "--logits", "-m", "affine", "-o", tmp_path / "c.json")
        ok("apply", tmp_path / "c.json", source, "-o", target)
        found[name] = pa.csv.read_csv(target)[f"p_{name}"].to_numpy()
    np.testing.assert_allclose(found["no"], 1 - found["yes"], atol=1e-12)
    assert np.ptp(found["yes"]) > 0.1


def test_numpy_files(tmp_path: Path) -> None:
    table = predictions()
    p, y = matrix(table), table["animal"].to_numpy().astype(str)
    np.savez(tmp_path / "t.npz", p=p, y=y)
    np.save(tmp_path / "p.npy", p)
    np.save(tmp_path / "y.npy", y)
    ok("fit", tmp_path / "t.npz", "-y", "y", "-m", "ts", "-o", tmp_path / "a.json")
    ok("fit", tmp_path / "p.npy", "-y", tmp_path / "y.npy", "-m", "ts", "-o", tmp_path / "b.json")
    ok("apply", tmp_path / "a.json", tmp_path / "t.npz", "-o", tmp_path / "out.npz")
    ok("apply", tmp_path / "b.json", tmp_path / "p.npy", "-o", tmp_path / "out.npy")
    with np.load(tmp_path / "out.npz") as stored_arrays:
        out = dict(stored_arrays)
    np.testing.assert_array_equal(out["y"], y)
    np.testing.assert_allclose(out["p"], np.load(tmp_path / "out.npy"))
    assert np.abs(out["p"] - p).max() > 0.01


@pytest.mark.parametrize("limit", [10, 10**9])
def test_evaluate_in_memory_and_in_chunks(data: Path, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "MEMORY_CELLS", limit)
    monkeypatch.setattr(evaluating, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(table_csv, "CSV_BLOCK", 4096)
    arguments = ("evaluate", data, "--label", "animal", "--weight", "w", "--segments", "site", "--ci", "--json")
    found = json.loads(ok(*arguments).stdout)
    table = predictions()
    codes = np.array([CLASSES.index(name) for name in table["animal"].to_pylist()])
    weight = table["w"].to_numpy()
    metric = found["metrics"]["log_loss"]
    assert metric["value"] == pytest.approx(log_loss(codes, matrix(table), sample_weight=weight))
    assert metric["low"] < metric["value"] < metric["high"]
    assert found["in_chunks"] is (limit == 10)
    assert 0 <= found["calibration_test"]["p_value"] <= 1
    exact = roc_auc_score(codes, matrix(table), sample_weight=weight, multi_class="ovr", average="macro")
    assert found["metrics"]["auroc"]["value"] == pytest.approx(exact, abs=1e-9 if limit > 10 else 0.1)
    assert ("sampled" in found) is (limit == 10)
    north = table["site"].to_numpy() == "north"
    expected = log_loss(codes[north], matrix(table)[north], sample_weight=weight[north])
    assert found["segments"]["north"]["metrics"]["log_loss"]["value"] == pytest.approx(expected)
    shown = ok(*arguments[:-1]).stdout
    assert "log_loss" in shown
    assert ("auroc and the test use a uniform sample of 100 rows" in shown) is (limit == 10)


def test_standard_input_and_output(tmp_path: Path, stored: Path, data: Path) -> None:
    """In a process whose working folder has files with the names of packages, where `python -m` looks first.

    Another folder, on the path, has a scikit-learn that cannot be imported: applying a stored map needs none.
    """
    planted, broken = tmp_path / "planted", tmp_path / "broken"
    for folder, names in ((planted, ("pyarrow", "typer", "numpy")), (broken, ("sklearn",))):
        folder.mkdir()
        for name in names:
            (folder / f"{name}.py").write_text(f"raise SystemExit('{folder.name} {name} was imported')")
    path = os.pathsep.join([str(broken), *filter(None, [os.environ.get("PYTHONPATH")])])
    applied = subprocess.run(
        [sys.executable, "-m", "calibrant", "apply", str(stored), "-", "-o", "-"],
        cwd=planted,
        env={**os.environ, "PYTHONPATH": path},
        input=data.read_bytes(),
        capture_output=True,
    )
    ok("apply", stored, data, "-o", tmp_path / "file.csv")
    assert (applied.returncode, applied.stderr) == (0, b"")
    assert applied.stdout == (tmp_path / "file.csv").read_bytes()
    parquet = write(tmp_path / "p.parquet", predictions())
    words = ["evaluate", "-", "-y", "animal", "--json"]
    shown = CliRunner().invoke(app, words, input=parquet.read_bytes())
    assert json.loads(shown.stdout)["rows"] == 400


def test_mistakes_end_in_a_line_and_exit_code_two(tmp_path: Path, data: Path, stored: Path) -> None:
    (tmp_path / "old.csv").write_text("precious")
    for arguments, message in [
        (("evaluate", data, "-y", "species"), "no column 'species'; its columns are 'id', 'p_dog'"),
        (("evaluate", data, "-y", "animal", "--probs", "q_*"), "no column is called 'q_*'"),
        (("evaluate", data, "-y", "animal", "--weight", "ww"), "no column 'ww'"),
        (("evaluate", tmp_path / "none.csv", "-y", "animal"), "there is no file"),
        (("fit", data, "-y", "animal", "-o", tmp_path / "old.csv"), "exists already. --force overwrites it"),
        (("fit", data, "-y", "animal", "-m", "smss", "-o", tmp_path / "n.json"), "did you mean 'sms'"),
        (("fit", data, "-y", "animal", "-m", "ts", "--set", "x=1", "-o", tmp_path / "n.json"), "parameter"),
        (("apply", stored, data, "-o", tmp_path / "old.csv"), "exists already. --force overwrites it"),
        (("apply", stored, data, "-o", tmp_path / "no" / "x.csv"), "there is no folder"),
        (("apply", tmp_path / "no.json", data, "-o", tmp_path / "n.csv"), "there is no file"),
        (("report", data, "-y", "animal", "--methods", "nope", "-o", tmp_path / "n.html"), "No calibrator is called"),
        (("evaluate", data), "give either --label"),
        (("evaluate", data, "-y", "animal", "--level", "0.9995"), "Invalid value for '--level'"),
        (("evaluate", data, "-y", "animal", "--level", "0.45"), "Invalid value for '--level'"),
        (("evaluate", data, "-y", "animal", "--frobnicate"), "No such option"),
    ]:
        result = run(*arguments)
        assert result.exit_code == 2, (arguments, result.stderr)
        assert message in result.stderr
        assert "Traceback" not in result.stderr
    assert (tmp_path / "old.csv").read_text() == "precious"
    assert not (tmp_path / "n.json").exists()


def test_unusable_data_is_exit_code_one(tmp_path: Path, data: Path, stored: Path) -> None:
    lines = data.read_text().splitlines()
    cells = next(csv.reader([lines[5]]))
    cells[1] = "oops"
    lines[5] = ",".join(f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in cells)
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join(lines) + "\n")
    for command in (("evaluate", bad, "-y", "animal"), ("apply", stored, bad, "-o", tmp_path / "out.csv")):
        result = run(*command)
        assert result.exit_code == 1
        assert "line 6: 'p_dog' is 'oops', not a number" in result.stderr
    assert not (tmp_path / "out.csv").exists()
    assert not list(tmp_path.glob(".out*"))
    result = ok("apply", stored, bad, "-o", tmp_path / "out.csv", "--on-error", "skip", "--json")
    assert json.loads(result.stdout) == {
        "output": str(tmp_path / "out.csv"),
        "rows": 399,
        "rows_skipped": 1,
        "columns": {"p_dog": "dog", "p_bird": "bird", "p_cat": "cat"},
    }
    assert "Skipped 1 row; the first is line 6" in result.stderr
    assert len(read(tmp_path / "out.csv")) == 399
    (tmp_path / "junk.json").write_text('{"not": "a calibrator"}')
    assert run("apply", tmp_path / "junk.json", data, "-o", tmp_path / "x.csv").exit_code == 1


def test_rounded_rows_are_renormalised_on_request(tmp_path: Path, stored: Path) -> None:
    table = predictions()
    rounded = table
    for place, name in ((1, "p_dog"), (3, "p_bird"), (4, "p_cat")):
        rounded = rounded.set_column(place, name, pa.array(np.round(table[name].to_numpy(), 1)))
    source = write(tmp_path / "r.csv", rounded)
    result = run("apply", stored, source, "-o", tmp_path / "o.csv")
    assert result.exit_code == 1
    assert "--renormalize" in result.stderr
    ok("apply", stored, source, "-o", tmp_path / "o.csv", "--renormalize")
    np.testing.assert_allclose(matrix(read(tmp_path / "o.csv")).sum(axis=1), 1)


@pytest.mark.trees
def test_a_method_that_cannot_be_stored_is_refused_before_the_data_are_read(tmp_path: Path) -> None:
    needs("lightgbm")
    (tmp_path / "broken.csv").write_text("not,even\na table")
    result = run("fit", tmp_path / "broken.csv", "-y", "y", "-m", "lightgbm", "-o", tmp_path / "c.json")
    assert result.exit_code == 2
    assert "'lightgbm' cannot be stored" in result.stderr


def test_methods_lists_the_registry() -> None:
    names = [info.name for info in calibrant.list_calibrators()]
    assert [row["name"] for row in json.loads(ok("methods", "--json").stdout)] == names
    shown = ok("methods").stdout
    assert all(name in shown for name in names)
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines()[1:] if line.strip()}
    infos = {info.name: info for info in calibrant.list_calibrators()}
    for name in ("ts", "platt", "affine", "isotonic", "auto"):
        assert (
            rows[name][0]
            == {(True, True): "any", (True, False): "2", (False, True): "3+"}[
                infos[name].binary, infos[name].multiclass
            ]
        )
        assert rows[name][1] == ("all" if infos[name].streams else "sample")


def test_report_writes_a_page_and_tells_the_verdict(tmp_path: Path, data: Path) -> None:
    target = tmp_path / "report.html"
    arguments = ("report", data, "-y", "animal", "--methods", "ts,svs", "--segments", "site", "-o", target)
    result = ok(*arguments)
    assert "over-confident by" in result.stdout
    page = target.read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert f"calibrant fit {data} --label animal --method" in page
    assert run(*arguments).exit_code == 2
    found = json.loads(ok(*arguments, "--force", "--json").stdout)
    assert found["verdict"]["tone"] == "bad"
    assert set(found["methods"]) == {"ts", "svs", "none"}
    # The command it recommends works as it stands.
    words = found["next"][0].replace("calibrator.json", str(tmp_path / "recommended.json")).split()
    ok(*words[1:])
    assert calibrant.load(tmp_path / "recommended.json").classes_.tolist() == ["dog", "bird", "cat"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("calibrant ev", "evaluate"),
        ("calibrant fit --metho", "--method"),
        ("calibrant fit --method quadr", "quadratic"),
    ],
)
def test_shell_completion(words: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("_CALIBRANT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    monkeypatch.setattr(sys, "argv", ["calibrant"])
    with pytest.raises(SystemExit):
        app(prog_name="calibrant")
    assert expected in capsys.readouterr().out


def test_fit_reads_large_files_in_batches_and_says_what_it_took(tmp_path: Path) -> None:
    table = predictions(20_000)
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    common = (tmp_path / "p.parquet", "--label", "animal", "--weight", "w", "--memory", 1)
    found = json.loads(ok("fit", *common, "-o", tmp_path / "sms.json", "--method", "sms", "--json").output)
    assert found["rows"] == found["rows_used"] == 20_000
    assert found["passes"] > 2
    p = np.column_stack([table["p_bird"], table["p_cat"], table["p_dog"]])
    whole = calibrant.SMSCalibrator().fit(p, table["animal"].to_pylist(), sample_weight=table["w"].to_numpy())
    stored = calibrant.load(tmp_path / "sms.json")
    assert stored.objective_ == pytest.approx(whole.objective_, abs=1e-8)
    said = ok("fit", *common, "-o", tmp_path / "iso.json", "--method", "isotonic").output
    assert "isotonic fitted to 1,820 rows" in said
    assert "a uniform sample of 20,000 rows" in said


def test_open_batches_is_the_library_s_way_to_a_large_file(tmp_path: Path) -> None:
    table = predictions(3000)
    pyarrow.csv.write_csv(table, tmp_path / "p.csv")
    one = calibrant.get_calibrator("ts").fit_batches(
        calibrant.open_batches(tmp_path / "p.csv", "animal"), memory_mb=0.1
    )
    p = np.column_stack([table["p_bird"], table["p_cat"], table["p_dog"]])
    other = calibrant.get_calibrator("ts").fit(p, table["animal"].to_pylist())
    assert one.classes_.tolist() == CLASSES
    assert one.inverse_temperature_ == pytest.approx(other.inverse_temperature_, rel=1e-9)


def test_report_with_costs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(1, 5, 300)
    file, target = tmp_path / "p.csv", tmp_path / "r.html"
    pa.csv.write_csv(pa.table({"p_yes": p, "y": np.where(rng.random(300) < p, "yes", "no")}), file)
    arguments = ("report", file, "-y", "y", "--methods", "ts", "-o", target)
    found = json.loads(ok(*arguments, "--cost", "fp=1,fn=20", "--log-odds", "--json").stdout)
    assert found["decisions"]["total"] == 300
    assert found["decisions"]["ratios"][0]["ratio"] == 0.1
    page = target.read_text()
    assert "Choose &#39;no&#39; where the probability of &#39;yes&#39; is below 4.8%" in page
    assert "log-odds scale" in page
    # The page names the command that makes it again.
    assert "--cost fp=1,fn=20 --log-odds" in page
    wrong = run(*arguments, "--force", "--cost", "fp=1")
    assert wrong.exit_code == 2
    assert "fp and fn go together" in wrong.stderr
    wrong = run(*arguments, "--force", "--cost", "fp=1,fn=amount")
    assert wrong.exit_code == 2
    assert "a report needs costs that are numbers" in wrong.stderr


def test_report_on_a_large_file_is_about_a_sample_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "MEMORY_CELLS", 900)
    monkeypatch.setattr(evaluating, "SAMPLE_ROWS", 10)
    table = predictions(2000)
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    page = tmp_path / "r.html"
    arguments = ("--label", "animal", "--weight", "w", "--segments", "site", "-o", page, "--methods", "ts", "--json")
    said = ok("report", tmp_path / "p.parquet", *arguments)
    assert "a uniform sample, 300 rows, 606 observations of 2,000 rows, 4,016 observations" in said.stderr
    assert (
        "300 rows, 606 observations, 3 classes, a uniform sample of 2,000 rows, 4,016 observations" in page.read_text()
    )

    # What is a sum is that of all rows, not of the sample.
    found = json.loads(said.stdout)
    codes = np.array([CLASSES.index(name) for name in table["animal"].to_pylist()])
    weight = table["w"].to_numpy()
    assert found["metrics"]["log_loss"]["before"]["value"] == pytest.approx(
        log_loss(codes, matrix(table), sample_weight=weight)
    )
    counted = found["classes_counted"]
    expected = weight @ matrix(table)
    for column, name in enumerate(CLASSES):
        assert counted[name]["observed"] == pytest.approx(weight[codes == column].sum())
        assert counted[name]["expected_before"] == pytest.approx(expected[column])
        assert counted[name]["expected_after"] == pytest.approx(counted[name]["observed"], rel=0.15)  # of all rows
    north = table["site"].to_numpy() == "north"
    assert found["segments"]["north"]["rows"] == north.sum()
    assert found["segments"]["north"]["log_loss_before"]["value"] == pytest.approx(
        log_loss(codes[north], matrix(table)[north], sample_weight=weight[north])
    )


@pytest.mark.parametrize(
    ("labels", "note"),
    [
        ([0, 1] * 3, "too little data"),
        ([0, 1] * 200, None),
        ([1] * 200, "only one class is present, which is too little"),
    ],
)
def test_fit_says_when_there_is_too_little_to_tell(tmp_path: Path, labels: list[int], note: str | None) -> None:
    p = np.random.default_rng(0).random(len(labels)).round(3)
    lines = [f"{1 - q:.3f},{q},{y}" for q, y in zip(p, labels)]
    (tmp_path / "p.csv").write_text("p_0,p_1,y\n" + "\n".join(lines) + "\n")
    said = ok("fit", tmp_path / "p.csv", "--label", "y", "-o", tmp_path / "c.json", "--method", "ts").output
    assert ("Note: " in said) == (note is not None)
    assert note is None or f"Note: {note} to tell whether this helps" in said


@pytest.mark.usefixtures("every_resample")
def test_a_p_value_at_its_floor_is_said_to_be_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=2000)
    y = rng.random(2000) < 1 / (1 + np.exp(-z))
    lines = [f"{p:.4f},{label}" for p, label in zip(1 / (1 + np.exp(-3 * z)), y.astype(int))]
    (tmp_path / "sharp.csv").write_text("\n".join(["p,y", *lines]))
    result = CliRunner().invoke(app, ["evaluate", str(tmp_path / "sharp.csv"), "--label", "y", "--ci"])
    assert "p ≤ 0.001, as small as 999 draws can tell: not calibrated" in result.output
