"""JSON Lines and Excel files: the same rows as in other formats, and damaged files of any format."""

from __future__ import annotations

import gzip
import io
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from calibrant.files.tables import formats
from calibrant.files.tables.opening import open_table, opened_table
from calibrant.files.tables.row_checks import Layout
from calibrant.files.tables.table import TableError
from calibrant.files.tables.table_rows import RowReader, read_all
from calibrant.files.tables.writers import JsonLinesWriter, open_writer
from tests.needs import needs

ROWS: list[dict[str, Any]] = [
    {"id": "007", "p_cat": 0.25, "p_dog": 0.75, "n": 1, "y": "dog"},
    {"id": "=1+1", "p_cat": 0.5, "p_dog": 0.5, "n": None, "y": "cat"},
    {"id": "ü\n", "p_cat": 1.0, "p_dog": 0.0, "n": 3, "y": "cat"},
]


def write_jsonl(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_xlsx(path: Path, rows: list[list[Any]]) -> Path:
    book = needs("openpyxl").Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def content(path: Path) -> list[dict[str, Any]]:
    return [row for batch in open_table(path).batches() for row in batch.data.to_pylist()]


@pytest.mark.parametrize("chunk", [2, 100])
@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.ndjson", "t.xlsx"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "CHUNK_ROWS", chunk)
    if name.endswith("xlsx"):
        needs("openpyxl")
    pa.parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "t.parquet")
    source = open_table(tmp_path / "t.parquet")
    with open_writer(tmp_path / name, source) as writer:
        for batch in source.batches():
            writer.write(batch.data)
    assert content(tmp_path / name) == ROWS
    rows = read_all(RowReader(open_table(tmp_path / name), Layout(label="y")))
    np.testing.assert_array_equal(rows.values, [[0.25, 0.75], [0.5, 0.5], [1, 0]])
    assert rows.labels.tolist() == ["dog", "cat", "cat"]


def test_lists_and_objects_become_columns(tmp_path: Path) -> None:
    rows = [{"p": [0.1, 0.9], "q": {"cat": 0.2, "dog": 0.8}, "y": 1}]
    path = write_jsonl(tmp_path / "t.jsonl", rows)
    assert content(path) == [{"p_0": 0.1, "p_1": 0.9, "q_cat": 0.2, "q_dog": 0.8, "y": 1}]


def test_bad_lines_of_json_are_named_or_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "CHUNK_ROWS", 2)
    good = {"p_a": 0.5, "p_b": 0.5, "y": "a"}
    path = write_jsonl(tmp_path / "t.jsonl", [good, {**good, "y": "b"}, {**good, "new": 1}, [1], good])
    with path.open("a") as stream:
        stream.write("\n{broken\n")
    with pytest.raises(TableError, match=r"t\.jsonl, line 3: the key 'new'"):
        content(path)
    reader = RowReader(open_table(path), Layout(label="y"), skip_errors=True)
    assert read_all(reader).labels.tolist() == ["a", "b", "a"]
    assert reader.skipped.count == 3
    assert "line 3" in reader.skipped.first
    assert [line for line, _ in reader.table.skipped] == [3, 4, 7]


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.xlsx"])
@pytest.mark.parametrize("raw", [b"", b"\x1f\x8b garbage", b"PK\x03\x04 garbage", b"\xff\xfe\n"])
def test_broken_files_give_a_clear_error(tmp_path: Path, name: str, raw: bytes) -> None:
    if name.endswith("xlsx"):
        needs("openpyxl")
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(TableError, match=r"t\.(jsonl|xlsx)"):
        content(tmp_path / name)
    if name.endswith("gz"):
        (tmp_path / name).write_bytes(gzip.compress(b'{"a": 1}\n' * 5000)[:60])
        with pytest.raises(TableError, match=r"t\.jsonl\.gz is damaged"):
            content(tmp_path / name)


def test_excel_sheets_as_people_make_them(tmp_path: Path) -> None:
    when = datetime(2026, 1, 2)
    rows = [[], ["p_a", " p_b ", "y", "when", None], [0.5, 0.5, "a", when], [], ["=1/4", 0.75, "b", when]]
    path = write_xlsx(tmp_path / "t.xlsx", rows)
    table = open_table(path)
    assert table.columns == ["p_a", "p_b", "y", "when"]
    with pytest.raises(TableError, match="row 5: 'p_a' is missing"):  # a formula that was never computed
        read_all(RowReader(table, Layout(label="y")))
    reader = RowReader(table, Layout(label="y", classes=("a", "b")), skip_errors=True)
    assert read_all(reader).values.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("name", ["t.csv.gz", "t.jsonl", "t.xlsx", "t.parquet", "t.feather", "t.npz"])
def test_damaged_files_are_named(tmp_path: Path, name: str) -> None:
    if name.endswith("xlsx"):
        needs("openpyxl")
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 300)
    columns = {f"p_{label}": p[:, j] for j, label in enumerate("abc")}
    pa.parquet.write_table(
        pa.table({**columns, "y": [["a", "b", "c"][j] for j in rng.integers(0, 3, 300)]}), tmp_path / "s.parquet"
    )
    source = open_table(tmp_path / "s.parquet")
    with open_writer(tmp_path / name, source) as writer:
        for batch in source.batches():
            writer.write(batch.data)
    whole = np.frombuffer((tmp_path / name).read_bytes(), np.uint8)
    refused = []
    for case in range(12):
        damaged = whole[: rng.integers(len(whole))].copy() if case % 2 else whole.copy()
        if len(damaged) == len(whole):
            damaged[rng.integers(len(whole), size=20)] = rng.integers(256, size=20)
        (tmp_path / name).write_bytes(damaged.tobytes())
        try:
            read_all(RowReader(open_table(tmp_path / name), Layout(label="y")))
        except TableError as error:
            refused.append(str(error))
    assert len(refused) >= 6
    assert [text for text in refused if name not in text and "columns look like" not in text] == []


def standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "feather", "npz", "npy", "xlsx"])
def test_standard_input_is_known_by_its_first_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    if kind == "xlsx":
        needs("openpyxl")
    path = tmp_path / f"t.{kind}"
    if kind == "npy":
        np.save(path, np.array([[0.5, 0.25]]))
    else:
        (tmp_path / "given.csv").write_text("p_0,p_1\n0.5,0.25\n")
        with open_writer(path, open_table(tmp_path / "given.csv")) as writer:
            writer.write(pa.record_batch({"p_0": [0.5], "p_1": [0.25]}))
    with opened_table(path) as (table, _):
        assert (table.format, table.name) == (kind, str(path))
    standard_input(monkeypatch, path.read_bytes())
    with opened_table("-", ["p_1", None]) as (table, names):
        assert (table.format, table.name, table.columns, names) == (
            kind,
            "standard input",
            ["p_0", "p_1"],
            ["p_1", None],
        )
        assert [len(batch) for batch in table.batches()] == [1]


def test_what_only_begins_like_an_archive_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    standard_input(monkeypatch, b"PK and nothing else")
    with pytest.raises(TableError, match="cannot be read as a NumPy archive"), opened_table("-"):
        pass  # pragma: no cover


def test_labels_in_another_npy_file_are_a_column(tmp_path: Path) -> None:
    for name, array in (("p", np.full((4, 2), 0.5)), ("y", np.arange(4)), ("w", np.ones((4, 1))), ("x", np.ones(3))):
        np.save(tmp_path / f"{name}.npy", array)
    given = [str(tmp_path / "y.npy"), None, "p_1", str(tmp_path / "w.npy")]
    with opened_table(tmp_path / "p.npy", given) as (table, names):
        assert names == given
        assert table.columns == ["p_0", "p_1", given[0], given[3]]
        (batch,) = table.batches([given[0], "p_1"])
    assert batch.data.to_pydict() == {given[0]: [0, 1, 2, 3], "p_1": [0.5] * 4}
    with (
        pytest.raises(TableError, match=r"x\.npy has the shape \(3,\); .*p\.npy has 4 rows"),
        opened_table(tmp_path / "p.npy", [str(tmp_path / "x.npy")]),
    ):
        pass  # pragma: no cover


def test_json_lines_hold_no_nan_inside_of_lists_and_objects() -> None:
    stream = io.BytesIO()
    cells = {"scores": [[1.0, float("nan")]], "more": [{"largest": float("inf")}]}
    JsonLinesWriter(stream).write(pa.RecordBatch.from_pydict(cells))
    found = json.loads(stream.getvalue(), parse_constant=pytest.fail)
    assert found == {"scores": [1.0, None], "more": {"largest": None}}
