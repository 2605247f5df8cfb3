"""CSV files as people have them: quotes, blank lines, odd line ends; every row keeps the number of its line."""

from __future__ import annotations

import csv
import gzip
import io
import random
from pathlib import Path

import numpy as np
import pytest

from calibrant.files.tables import text as table_csv
from calibrant.files.tables.cells import NumberStyle, label_codes, measured, read_number, segment_texts, to_dates
from calibrant.files.tables.opening import open_table
from calibrant.files.tables.row_checks import Layout
from calibrant.files.tables.table import TableError
from calibrant.files.tables.table_rows import RowReader, read_all


def read(path: Path, *, skip_errors: bool = False) -> tuple[list[int], list[list[str]], list[tuple[int, str]]]:
    """Line numbers and cells of all rows, and what was left out."""
    table = open_table(path)
    batches = list(table.batches(skip_errors=skip_errors))
    numbers = [number for batch in batches for number in batch.rows.tolist()]
    rows = [list(row.values()) for batch in batches for row in batch.data.to_pylist()]
    return numbers, rows, table.skipped


def stray(lines: int = 120, at: int = 20) -> str:
    rows = [f"{i},0.5,0.5,{'ab'[i % 2]}" for i in range(lines)]
    rows[at] = rows[at].replace(",", ',"', 1)
    return "id,p_a,p_b,y\n" + "\n".join(rows) + "\n"


@pytest.mark.parametrize("block", [16, 100, 1 << 20])
@pytest.mark.parametrize("seed", range(6))
def test_rows_and_line_numbers_equal_those_of_the_csv_module(
    tmp_path: Path, seed: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_csv, "CSV_BLOCK", block)
    rng = random.Random(seed)
    buffer = io.StringIO()
    end = rng.choice(["\n", "\r\n"])
    delimiter = rng.choice(",;\t")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=end)
    writer.writerow(["a", "b b", 'c "c"'])
    for _ in range(60):
        if rng.random() < 0.2:
            buffer.write(end)
        writer.writerow([rng.choice(["", "x", "ü", ", ;", f"two{end}lines", 'q"q', "007"]) for _ in range(2)] + ["1"])
    (tmp_path / "t.csv").write_bytes(buffer.getvalue().encode())
    reader = csv.reader(io.StringIO(buffer.getvalue(), newline=""), delimiter=delimiter)
    expected, numbers, line = [], [], 1
    for row in reader:
        if row:
            expected.append(row)
            numbers.append(line)
        line = reader.line_num + 1
    found_numbers, found, skipped = read(tmp_path / "t.csv")
    assert open_table(tmp_path / "t.csv").columns == expected[0]
    assert found == expected[1:]
    assert found_numbers == numbers[1:]
    assert skipped == []


@pytest.mark.parametrize("block", [64, 1 << 20])
def test_a_stray_quote_costs_its_own_line(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_csv, "CSV_BLOCK", block)
    path = tmp_path / "t.csv"
    for text in (stray(), stray() + '120,0.5,0.5,"a"\n', stray(at=20).replace("\n", "\r\n")):
        path.write_text(text, newline="")
        reader = RowReader(open_table(path), Layout(label="y"), skip_errors=True)
        assert len(read_all(reader).codes) == 119 + ("120," in text)
        assert reader.skipped.count == 1
        assert "line 22" in reader.skipped.first
        with pytest.raises(TableError, match=r"t\.csv, line 22: .*quote"):
            read(path)


def test_line_numbers_after_blank_lines_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n\np_a,p_b,y\n0.5,0.5,a\n\n  \n0.5,0.5,b\n\n0.5,x,b\n")
    assert read(path)[0] == [4, 7, 9]
    with pytest.raises(TableError, match="line 9: 'p_b' is 'x', not a number"):
        read_all(RowReader(open_table(path), Layout(label="y")))


@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbfp_a,p_b\n1,0\n",
        b"p_a,p_b\r1,0\r",
        b"p_a,p_b\r\n1,0",
        b"sep=;\np_a;p_b\n1;0\n",
        b'"p_a" , "p_b"\n1,0\n'.replace(b" ", b""),
        gzip.compress(b"p_a\tp_b\n1\t0\n"),
    ],
    ids=["bom", "old mac", "no last newline", "sep", "quoted names", "gzip"],
)
def test_headers_and_line_ends(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "t.csv").write_bytes(raw)
    assert open_table(tmp_path / "t.csv").columns == ["p_a", "p_b"]
    assert read(tmp_path / "t.csv")[1] == [["1", "0"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("x" * 3000, "has a line of more than"),
        ("a,b\n" + "x" * 3000, "line 2 is longer than"),
        ('a,"b\n1,2\n', "the names of the columns: a quote that is never closed"),
        ("a,b,a\n1,2,3\n", "more than one column 'a'"),
        ("a,,\n1,2,3\n", "columns without a name"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_csv, "CSV_BLOCK", 512)
    monkeypatch.setattr(table_csv, "LONGEST_LINE", 2000)
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TableError, match=rf"t\.csv.*{message}"):
        read(tmp_path / "t.csv")


def test_thousands_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_csv, "CSV_BLOCK", 4096)  # a line is far longer
    names = [f"a_rather_long_name_{i}" for i in range(2000)]
    (tmp_path / "t.csv").write_text(",".join(names) + "\n" + 3 * (",".join(["0.0002"] * 2000) + "\n"))
    numbers, rows, _ = read(tmp_path / "t.csv")
    assert numbers == [2, 3, 4]
    assert rows == 3 * [["0.0002"] * 2000]


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_other_encodings_are_named_as_the_problem(tmp_path: Path, encoding: str) -> None:
    for text in ("p_a,p_b,müde\n1,0,x\n", 'p_a,p_b,y\n1,0,"müde"\n', "p_a,p_b,y\n1,0,müde\n"):
        (tmp_path / "t.csv").write_text(text, encoding=encoding)
        with pytest.raises(TableError, match=r"t\.csv is not UTF-8 text"):
            read(tmp_path / "t.csv")


@pytest.mark.parametrize("start", ["", "\n\n", "sep=;\n", "sep=,\n", " \r\n"])
def test_the_separator_is_that_of_the_names_wherever_they_begin(tmp_path: Path, start: str) -> None:
    (tmp_path / "t.csv").write_bytes(f"{start}a;b;c,d\n1;2;3\n".encode())
    table = open_table(tmp_path / "t.csv")
    assert (table.columns, table.delimiter) == (["a", "b", "c,d"], ";")
    (batch,) = table.batches()
    assert (batch.rows.tolist(), batch.data.to_pylist()) == (
        [2 + start.count("\n")],
        [{"a": "1", "b": "2", "c,d": "3"}],
    )


def test_columns_of_which_more_than_half_are_no_numbers_are_none() -> None:
    pa = pytest.importorskip("pyarrow")
    half, fewer = pa.array(["0.5", "x"]), pa.array(["0.5", "x", "y"])
    style, numbers = measured([half], None, logits=False)
    assert style == NumberStyle()
    np.testing.assert_array_equal(numbers, [[0.5], [np.nan]])
    assert measured([fewer], None, logits=False)[1] is None
    assert measured([], None, logits=False)[1] is None


@pytest.mark.parametrize(
    ("decimal", "sign", "written"), [(",", False, "12,5"), (".", True, "12.5%"), (",", True, "12,5%")]
)
def test_numbers_are_written_in_the_style_of_their_file(decimal: str, sign: bool, written: str) -> None:
    pa = pytest.importorskip("pyarrow")
    assert NumberStyle(decimal, 100.0, sign).text(pa.array([12.5])).to_pylist() == [written]


@pytest.mark.parametrize(
    ("block", "plain"),
    [
        (b"a,b\n1,2\n", True),
        (b'a,"b"\n"1",2\n', True),
        (b'a,"b\n"1,2\n', False),  # a row of two lines
        (b'a,"b\n1,2\n', False),
        (b'a,b\n1,2"', False),
        (b"a\n\nb\n", False),
        (b"\na\n", False),
        (b"a\r\n\r\nb", False),
        (b"\r\na", False),
    ],
)
def test_arrow_reads_blocks_whose_lines_are_rows(block: bytes, plain: bool) -> None:
    assert table_csv._rows_are_lines(block) is plain


def test_labels_that_are_none_of_the_classes_have_one_code() -> None:
    pa = pytest.importorskip("pyarrow")
    column = pa.array(["b", " a ", "x", "", None])
    assert label_codes(column, ["a", "b"]).tolist() == [1, 0, -1, -1, -1]
    assert label_codes(pa.array([1.0, 2.0, None]), [2, 1]).tolist() == [1, 0, -1]
    assert label_codes(pa.array(["1.0", "01"]), [1]).tolist() == [0, 0]
    assert label_codes(pa.array([], pa.string()), ["a"]).tolist() == []


@pytest.mark.parametrize(("renormalize", "hints"), [(False, ("renormalize", "skip_errors")), (True, ("skip_errors",))])
def test_only_what_may_help_is_hinted_at(tmp_path: Path, renormalize: bool, hints: tuple[str, ...]) -> None:
    (tmp_path / "t.csv").write_text("p_a,p_b,y\n" + "0.5,0.5,a\n0.2,0.8,b\n" * 9 + "0,0,a\n")
    with pytest.raises(TableError, match="line 20: the probabilities sum to 0, not to 1") as error:
        read_all(RowReader(open_table(tmp_path / "t.csv"), Layout(label="y", renormalize=renormalize)))
    assert error.value.hints == hints


def test_segments_of_several_columns_are_one_text() -> None:
    cells = np.array([["north", 1.0], ["", None], [float("nan"), 2.5]], dtype=object)
    assert segment_texts(cells).tolist() == ["north, 1", "(none), (none)", "(none), 2.5"]


def test_numbers_are_read_as_other_programs_read_them() -> None:
    assert read_number("-2.5e3") == -2500.0
    with pytest.raises(ValueError, match=r"'0\.5_0' is not a number"):
        read_number("0.5_0")


def test_days_of_texts_that_begin_with_a_date() -> None:
    pa = pytest.importorskip("pyarrow")
    days = to_dates(pa.array(["2026-03-14 10:30", "2026-03", "14 March"]))
    np.testing.assert_array_equal(days, np.array(["2026-03-14", "2026-03-01", "NaT"], dtype="datetime64[D]"))
