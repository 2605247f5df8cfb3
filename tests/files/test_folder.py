"""Several files as one table: the same rows as one file, named by their own file and row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import calibrant
from calibrant.cli import app
from calibrant.files.tables.opening import files_of, open_table
from calibrant.files.tables.table import TableError
from calibrant.inputs.words import RequestError
from tests.needs import needs


def rows(n: int = 60) -> Any:
    rng = np.random.default_rng(0)
    p = rng.random(n).round(3)
    frame = {"id": np.arange(n), "p_no": (1 - p).round(3), "p_yes": p}
    return needs("pandas").DataFrame(frame | {"truth": np.where(rng.random(n) < p, "yes", "no")})


def partitioned(root: Path, kind: str) -> Any:
    """Three months in folders of their own, beside what an engine leaves behind; and all rows in one frame."""
    frame = rows()
    frame["month"] = np.repeat(["2026-01", "2026-02", "2026-03"], 20)
    for month, part in frame.groupby("month"):
        folder = root / f"month={month}"
        folder.mkdir(parents=True)
        part = part.drop(columns="month")
        if kind == "csv":
            part.to_csv(folder / "part-0.csv", index=False)
        else:
            part.to_parquet(folder / "part-0.parquet", index=False)
    (root / "_SUCCESS").write_text("")
    (root / "_tmp").mkdir()
    (root / "_tmp" / "part-9.csv").write_text("nothing\n1\n")
    return frame


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_folder_is_read_as_one_file_would_be(tmp_path: Path, kind: str) -> None:
    whole = partitioned(tmp_path / "data", kind)
    table = open_table(tmp_path / "data")
    assert table.columns == ["id", "p_no", "p_yes", "truth", "month"]
    read = needs("pandas").concat([batch.data.to_pandas() for batch in table.batches()], ignore_index=True)
    assert read.astype(str).equals(whole[table.columns].astype(str))
    months = [batch.data.column("month").to_pylist() for batch in table.batches(["month", "p_yes"])]
    assert [month for part in months for month in part] == whole["month"].tolist()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_fits_to_a_folder_a_pattern_and_a_list_are_those_to_one_file(tmp_path: Path, kind: str) -> None:
    whole = partitioned(tmp_path / "data", kind)
    whole.to_csv(tmp_path / "all.csv", index=False)
    expected = calibrant.get_calibrator("ts").fit_batches(calibrant.open_batches(tmp_path / "all.csv", "truth"))
    files = [path for path, _ in files_of(tmp_path / "data")]
    for source in (tmp_path / "data", str(tmp_path / "data" / "month=*" / f"*.{kind}"), files):
        found = calibrant.get_calibrator("ts").fit_batches(calibrant.open_batches(source, "truth"))
        assert found.inverse_temperature_ == expected.inverse_temperature_


def test_the_commands_take_folders(tmp_path: Path) -> None:
    partitioned(tmp_path / "data", "csv")
    run, cal, out = CliRunner().invoke, str(tmp_path / "c.json"), tmp_path / "out.csv"
    data = str(tmp_path / "data")
    done = run(app, ["fit", data, "--label", "truth", "-m", "ts", "-o", cal])
    assert done.exit_code == 0, done.output
    assert run(app, ["evaluate", data, "--label", "truth"]).output.startswith(f"{data}: 60 rows, 2 classes")
    assert run(app, ["apply", cal, data, "-o", str(out)]).exit_code == 0
    lines = out.read_text().splitlines()
    assert lines[0] == "id,p_no,p_yes,truth,month"
    assert len(lines) == 61
    assert lines[60].endswith(",2026-03")


def test_a_bad_row_is_named_by_its_file(tmp_path: Path) -> None:
    partitioned(tmp_path / "data", "csv")
    bad = tmp_path / "data" / "month=2026-02" / "part-0.csv"
    lines = bad.read_text().splitlines()
    lines[4] = lines[4].replace("0.", "7.", 1)
    bad.write_text("\n".join(lines) + "\n")
    done = CliRunner().invoke(app, ["evaluate", str(tmp_path / "data"), "--label", "truth"])
    assert done.exit_code == 1
    assert f"line 5 of {bad}" in " ".join(done.output.split())
    done = CliRunner().invoke(app, ["evaluate", str(tmp_path / "data"), "--label", "truth", "--on-error", "skip"])
    assert done.exit_code == 0
    assert f"Skipped 1 row; the first is line 5 of {bad}" in " ".join(done.output.split())


def test_what_cannot_be_one_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="without prediction files"):
        open_table(tmp_path)
    with pytest.raises(RequestError, match="no file matches"):
        open_table(str(tmp_path / "*.csv"))
    (tmp_path / "a.csv").write_text("p,y\n0.5,1\n")
    (tmp_path / "b.csv").write_text("p,z\n0.5,1\n")
    with pytest.raises(TableError, match=r"b\.csv lacks the column 'y', which .*a\.csv has"):
        list(open_table(tmp_path).batches())
    (tmp_path / "b.csv").write_text("p,y,z\n0.5,1,2\n")
    with pytest.raises(TableError, match=r"b\.csv has the column 'z', which .*a\.csv lacks"):
        list(open_table(tmp_path).batches())
    (tmp_path / "b.csv").unlink()
    (tmp_path / "c.jsonl").write_text("{}\n")
    with pytest.raises(TableError, match="files of several formats"):
        open_table(tmp_path)
    twice = tmp_path / "hive" / "p=1"
    twice.mkdir(parents=True)
    (twice / "a.csv").write_text("p,y\n0.5,1\n")
    with pytest.raises(TableError, match="has a column 'p' that is also in the name of its folder"):
        open_table(tmp_path / "hive")


def test_partitions_are_read_as_hive_writes_them(tmp_path: Path) -> None:
    for name in ("place=a%20b", "place=__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.csv").write_text("p,y\n0.5,1\n")
    places = [batch.data.column("place").to_pylist() for batch in open_table(tmp_path).batches()]
    assert sorted(places, key=str) == [["a b"], [None]]


def test_labels_written_as_texts_and_as_numbers_are_named(tmp_path: Path) -> None:
    frame = rows()
    number = (frame["truth"] == "yes").astype(int)
    frame.assign(truth=number).to_parquet(tmp_path / "a.parquet", index=False)
    frame.assign(truth=number.astype(str)).to_parquet(tmp_path / "b.parquet", index=False)
    said = r"'truth' holds the text '[01]' in one place and the number [01] in another; write all labels in the same"
    with pytest.raises(TableError, match=said):
        calibrant.open_batches(tmp_path, "truth")


def test_a_folder_that_does_not_exist_is_not_blamed_on_its_ending(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"there is no file .*nowhere"):
        open_table(tmp_path / "nowhere")


def test_rows_are_named_in_every_file_and_in_every_reading(tmp_path: Path) -> None:
    for name, n in (("a", 3), ("b", 5), ("c", 4)):
        (tmp_path / f"{name}.csv").write_text("p,y\n" + "0.5,1\n" * (n - 1) + "torn\n")
    table = open_table(tmp_path)
    for _ in range(2):
        assert sum(len(batch) for batch in table.batches(skip_errors=True)) == 9
        assert [row for row, _ in table.skipped] == [4, 10, 15]
        names = [table.row_name(row) for row, _ in table.skipped]
        assert names == [f"line {line} of {tmp_path / name}.csv" for name, line in (("a", 4), ("b", 6), ("c", 5))]


def test_a_folder_may_hold_one_file(tmp_path: Path) -> None:
    (tmp_path / "month=2026-01").mkdir()
    needs("pandas").DataFrame({"p": [0.5, 0.25]}).to_parquet(tmp_path / "month=2026-01" / "t.parquet")
    table = open_table(tmp_path)
    assert (table.columns, table.n_rows) == (["p", "month"], 2)
    (batch,) = table.batches(["month"])
    assert batch.data.to_pydict() == {"month": ["2026-01"] * 2}
