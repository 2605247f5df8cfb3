"""Small files that unpack to large ones: refused with a line that names them, before they take memory."""

from __future__ import annotations

import gzip
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from calibrant.files.tables import formats, text
from calibrant.files.tables.opening import open_table
from calibrant.files.tables.table import TableError


@pytest.mark.parametrize(
    ("kind", "start"), [("csv.gz", b"a,b\n1,"), ("csv.gz", b"a,b"), ("jsonl.gz", b'{"p": 1}\n{"p": 1')]
)
def test_a_line_without_end_is_refused_in_bounded_memory(
    tmp_path: Path, kind: str, start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = 1 << 20
    for module in (text, formats):
        monkeypatch.setattr(module, "LONGEST_LINE", longest)
    monkeypatch.setattr(text, "CSV_BLOCK", longest // 2)
    path = tmp_path / f"bomb.{kind}"
    with gzip.open(path, "wb", 1) as file:
        file.write(start)
        for _ in range(12):
            file.write(bytes(longest))
    assert path.stat().st_size < 2e6
    tracemalloc.start()
    try:
        with pytest.raises(TableError, match=r"bomb\..* 1 MB"):
            list(open_table(path).batches())
        assert tracemalloc.get_traced_memory()[1] < 6 * longest  # of the twelve that it unpacks to
    finally:
        tracemalloc.stop()


def test_an_xlsx_file_is_refused_by_what_it_unpacks_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["score"])
    book.active.append([0.5])
    book.save(tmp_path / "t.xlsx")
    with zipfile.ZipFile(tmp_path / "t.xlsx", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/more.xml", bytes(2_000_000))
    assert [len(batch) for batch in open_table(tmp_path / "t.xlsx").batches()] == [1]
    monkeypatch.setenv("CALIBRANT_MAX_GB", "0.001")
    with pytest.raises(TableError, match=r"t\.xlsx would take 0\.00202 GB of memory; the limit is 0\.001 GB"):
        open_table(tmp_path / "t.xlsx")
