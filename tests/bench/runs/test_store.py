"""Results on disk: what a spreadsheet, a stray byte or a damaged file can do to them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.needs import needs

pytestmark = pytest.mark.bench
pd = needs("pandas")
needs("pyarrow")

from calibrant.bench.runs.one_fit import unfinished  # noqa: E402
from calibrant.bench.runs.store import ResultFolder, merge_results, read_runs  # noqa: E402
from calibrant.bench.study.results import read_results  # noqa: E402

ROW = {"benchmark": "b", "dataset": "d", "model": "m", "fold": 0, "method": "none", "n_cal": 9, "n_classes": 3}
DONE = {"status": "ok", "logloss": 0.5, "brier": 0.3, "message": ""}
NASTY = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\tx", "'=1", "'plain", "''-1", "plain"]


def stored(folder: Path, *rows: dict[str, object]) -> ResultFolder:
    results = ResultFolder(folder)
    with results.appending() as write:
        for row in rows:
            write({**ROW, **DONE, **row})
    results.write_tables()
    return results


def test_no_cell_is_a_formula_and_all_come_back(tmp_path: Path) -> None:
    stored(tmp_path, *({"dataset": name, "model": name, "message": name, "fold": name} for name in NASTY))
    with open(tmp_path / "results.csv", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    for name in ("results.csv", "results.parquet"):
        back = read_results(tmp_path / name)
        for column in ("dataset", "model", "message", "fold"):
            assert sorted(back[column]) == sorted(NASTY)


def test_lone_surrogates_are_written(tmp_path: Path) -> None:
    outcome = unfinished("failed", "no such file: \udce9.csv")
    stored(tmp_path, {}, {**outcome, "method": "x", "model": "\udcff"})
    table = pd.read_parquet(tmp_path / "results.parquet").set_index("method")
    assert table.loc["x", "message"] == "no such file: \\udce9.csv"
    assert table.loc["x", "model"] == "\\udcff"
    pd.read_csv(tmp_path / "results.csv")


def test_damaged_lines_are_told_and_left_out(tmp_path: Path) -> None:
    folder = stored(tmp_path, {}, {"fold": 1})
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "log.jsonl").write_bytes(lines[0] + b"\xff\xfe\0\n[1, 2]\n{}\n" + lines[1])
    with pytest.warns(UserWarning, match=r"log\.jsonl: 3 lines, first line 2, cannot be read"):
        assert len(folder.rows()) == 2
    (tmp_path / "log.jsonl").write_bytes(b"PK\x03\x04\nnothing of ours\n")
    with pytest.raises(ValueError, match=r"log\.jsonl is damaged: none of its lines is a result"):
        folder.rows()


def test_a_torn_line_is_cut_off_without_a_word(tmp_path: Path) -> None:
    folder = stored(tmp_path, {}, {"fold": 1})
    whole = (tmp_path / "log.jsonl").read_bytes()
    (tmp_path / "log.jsonl").write_bytes(whole[:-30])
    assert len(folder.rows()) == 1
    stored(tmp_path, {"fold": 2})
    assert [row["fold"] for row in folder.rows().values()] == [0, 2]


@pytest.mark.parametrize("content", ["{", "[]", '{"runs": 3}', '{"runs": [1]}', "\0"])
def test_a_damaged_description_is_one_line_that_names_it(tmp_path: Path, content: str) -> None:
    stored(tmp_path, {})
    (tmp_path / "run.json").write_text(content)
    for use in (lambda: read_runs(tmp_path), lambda: merge_results([tmp_path], tmp_path / "out")):
        with pytest.raises(ValueError, match=r"run\.json is damaged") as caught:
            use()
        assert "\n" not in str(caught.value)
    (tmp_path / "run.json").unlink()
    stored(tmp_path, {}).describe_run({})
    assert len(json.loads((tmp_path / "run.json").read_text())["runs"]) == 1


@pytest.mark.parametrize("name", ["results.parquet", "results.csv"])
def test_damaged_tables_are_one_line_that_names_them(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b'\xff\xfe"\0\n' * 3)
    with pytest.raises(ValueError, match=name.replace(".", r"\.")) as caught:
        read_results(tmp_path / name)
    assert "\n" not in str(caught.value)
