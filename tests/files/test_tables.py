"""Tables in files: every format gives the same rows, text stays text, bad rows are known by number."""

from __future__ import annotations

import cProfile
import csv
import gzip
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import calibrant
from calibrant.files.tables import table as tables
from calibrant.files.tables import text as table_csv
from calibrant.files.tables.cells import to_numbers, to_text, unreadable
from calibrant.files.tables.opening import open_table
from calibrant.files.tables.row_checks import Layout
from calibrant.files.tables.table import TableError
from calibrant.files.tables.table_rows import RowReader, read_all
from calibrant.files.tables.writers import atomic_output, open_writer
from calibrant.inputs.probability_columns import find_columns
from calibrant.inputs.rows import complete
from calibrant.inputs.words import RequestError
from calibrant.workflows.applying import apply, calibrator_columns
from calibrant.workflows.loading import load_calibrator

WELL = """\
id,city,p_cat,p_dog,y
007,"Oslo, N",0.25,0.75,dog
008,"say ""hi""\",1e-3,0.999,cat
1e5,"two
lines",0.5,0.50,dog
"""


def frame() -> pa.Table:
    return pa.table(
        {
            "id": pa.array([7, 8, None], pa.int32()),
            "when": pa.array([0, 1, 2], pa.timestamp("s")),
            "p_cat": pa.array([0.25, 0.5, 0.75], pa.float32()),
            "p_dog": pa.array([0.75, 0.5, 0.25], pa.float32()),
            "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
            "y": ["dog", "cat", "cat"],
        }
    )


def write(path: Path, table: pa.Table) -> Path:
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        pyarrow.feather.write_feather(table, path)
    return path


def copy(source: Path, target: Path) -> None:
    table = open_table(source)
    with open_writer(target, table) as writer:
        for batch in table.batches():
            writer.write(batch.data)


@pytest.mark.parametrize("block", [64, 1 << 20])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_csv_passes_through_cell_by_cell(
    tmp_path: Path, name: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_csv, "CSV_BLOCK", block)
    source, target = tmp_path / name, tmp_path / f"copy-{name}"
    source.write_bytes(gzip.compress(WELL.encode()) if name.endswith("gz") else WELL.encode())
    copy(source, target)
    written = gzip.decompress(target.read_bytes()) if name.endswith("gz") else target.read_bytes()
    assert list(csv.reader(io.StringIO(written.decode()))) == list(csv.reader(io.StringIO(WELL)))
    # Quoting is the least that is needed, so here even the bytes are the same.
    assert written.decode() == WELL


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters_are_recognised_and_kept(tmp_path: Path, delimiter: str) -> None:
    text = f"id{delimiter}p_a{delimiter}p_b\n1{delimiter}0.5{delimiter}0.5\n"
    (tmp_path / "t.csv").write_text(text)
    copy(tmp_path / "t.csv", tmp_path / "u.csv")
    assert (tmp_path / "u.csv").read_text() == text


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_arrow_formats_keep_every_type(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CHUNK_ROWS", 2)
    source = write(tmp_path / f"t{suffix}", frame())
    copy(source, tmp_path / f"u{suffix}")
    read = pyarrow.parquet.read_table if suffix == ".parquet" else pyarrow.feather.read_table
    assert read(tmp_path / f"u{suffix}").equals(read(source))


def test_parquet_becomes_csv_and_feather(tmp_path: Path) -> None:
    source = write(tmp_path / "t.parquet", frame())
    copy(source, tmp_path / "t.csv")
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert [row["id"] for row in rows] == ["7", "8", ""]
    assert [float(row["p_cat"]) for row in rows] == [0.25, 0.5, 0.75]
    assert [row["kind"] for row in rows] == ["a", "b", "a"]
    copy(source, tmp_path / "t.feather")
    assert pyarrow.feather.read_table(tmp_path / "t.feather")["kind"].to_pylist() == ["a", "b", "a"]


def test_npz_and_npy_round_trip(tmp_path: Path) -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(3), 5).astype(np.float32)
    names = np.array(["a", "b", "c", "a", "b"])
    np.savez(tmp_path / "t.npz", p=p, y=names)
    assert open_table(tmp_path / "t.npz").columns == ["p_0", "p_1", "p_2", "y"]
    copy(tmp_path / "t.npz", tmp_path / "u.npz")
    stored = np.load(tmp_path / "u.npz")
    assert stored["p"].dtype == np.float32
    np.testing.assert_array_equal(stored["p"], p)
    np.testing.assert_array_equal(stored["y"], names)
    np.save(tmp_path / "t.npy", p)
    copy(tmp_path / "t.npy", tmp_path / "u.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "u.npy"), p)


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    with pytest.raises(TableError, match="pickle"):
        open_table(tmp_path / "t.npy")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.feather", "t.npz", "t.npy", "t.csv.gz"])
@pytest.mark.parametrize("content", [b"", b"\x1f\x8b garbage", b"PAR1 garbage PAR1"])
def test_broken_files_give_a_clear_error(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises((TableError, RequestError), match=r"t\.(csv|parquet|feather|np)"):
        read_all(RowReader(open_table(path), Layout(label="y")))


def test_truncated_gzip_gives_a_clear_error(tmp_path: Path) -> None:
    rows = "".join(f"{i},0.5,0.5,{'ab'[i % 2]}\n" for i in range(5000))
    whole = gzip.compress(("id,p_a,p_b,y\n" + rows).encode())
    (tmp_path / "t.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TableError, match=r"t\.csv\.gz"):
        read_all(RowReader(open_table(tmp_path / "t.csv.gz"), Layout(label="y")))


def test_atomic_output_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    with pytest.raises(RequestError, match="exists already"), atomic_output(target):
        pass

    def interrupted() -> None:
        with atomic_output(target, force=True) as stream:
            stream.write(b"half")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        interrupted()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
    with atomic_output(target, force=True) as stream:
        stream.write(b"new")
    assert target.read_text() == "new"
    # The rights are those of any new file, not the private ones of a temporary file.
    (tmp_path / "plain").write_text("")
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode


def csv_file(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("id,p_a,p_b,w,y\n" + "".join(line + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("3,x,0.5,1,a", "'p_a' is 'x', not a number"),
        ("3,,0.5,1,a", "'p_a' is missing"),
        ("3,nan,0.5,1,a", "'p_a' is missing"),
        ("3,NA,0.5,1,a", "'p_a' is missing"),
        ("3,-0.5,1.5,1,a", "'p_a' is -0.5, not a probability"),
        ("3,0.5,0.4,1,a", "sum to 0.9, not to 1"),
        ("3,0.5,0.5,-1,a", "the weight is -1"),
        ("3,0.5,0.5,1,", "the label is missing"),
        ("3,0.5,0.5", "3 cells, but there are 5 columns"),
        ("3,0.5,0.5,1,a,b", "6 cells, but there are 5 columns"),
    ],
)
@pytest.mark.parametrize("block", [48, 1 << 20])
def test_bad_rows_are_named_or_counted(
    tmp_path: Path, line: str, message: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_csv, "CSV_BLOCK", block)
    path = csv_file(tmp_path, "1,0.5,0.5,1,a", "2,0.2,0.8,1,b", line, "4,0.1,0.9,2,b", line, "6,1,0,1,a")
    layout = Layout(label="y", weight="w")
    with pytest.raises(TableError, match="line 4: ") as found:
        read_all(RowReader(open_table(path), layout))
    assert message in str(found.value)
    reader = RowReader(open_table(path), layout, skip_errors=True)
    rows = read_all(reader)
    assert rows.values.tolist() == [[0.5, 0.5], [0.2, 0.8], [0.1, 0.9], [1.0, 0.0]]
    assert rows.labels.tolist() == ["a", "b", "b", "a"]
    assert rows.weight is not None
    assert rows.weight.tolist() == [1, 1, 2, 1]
    assert reader.skipped.count == 2
    assert "line 4" in reader.skipped.first


def weighted(tmp_path: Path, weights: Sequence[float]) -> RowReader:
    table = pa.table({"p": np.full(len(weights), 0.5), "y": np.arange(len(weights)) % 2, "w": np.array(weights)})
    return RowReader(open_table(write(tmp_path / "t.parquet", table)), Layout(label="y", weight="w"))


def test_weights_of_a_file_may_not_sum_to_more_than_can_be_counted(tmp_path: Path) -> None:
    assert len(read_all(weighted(tmp_path, [5e99, 4e99])).values) == 2
    with pytest.raises(TableError, match=r"t\.parquet: the weights sum to 1\.2e\+100, which is too large"):
        read_all(weighted(tmp_path, [8e99, 4e99]))
    votes = pa.table({"p_a": [0.5], "p_b": [0.5], "n_a": [8e99], "n_b": [4e99]})
    layout = Layout(votes=("n_*",))
    with pytest.raises(TableError, match=r"the weights sum to 1\.2e\+100"):
        read_all(RowReader(open_table(write(tmp_path / "v.parquet", votes)), layout))


@pytest.mark.parametrize(
    ("weights", "noted"),
    [([10.5, 10.5, 10.5, 10.0], True), ([10.5, 10.5, 11.0, 11.0], False), ([9.5, 9.5, 9.5, 11.5], False)],
)
def test_fractions_that_are_hardly_counts_are_noted(tmp_path: Path, weights: list[float], noted: bool) -> None:
    reader = weighted(tmp_path, weights)
    read_all(reader)
    read_all(reader)
    said = [text for text, *_ in reader.notes if "not whole numbers, and a row counts for 10 observations" in text]
    assert len(said) == noted


def test_row_numbers_count_lines_left_out(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "1,0.5,0.5,1,a", "broken", "3,0.5,0.5,1,b", "broken", "5,0.5,0.9,1,a")
    batches = list(open_table(path).batches(skip_errors=True))
    assert np.concatenate([batch.rows for batch in batches]).tolist() == [2, 4, 6]


def test_parquet_bad_row_is_named_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CHUNK_ROWS", 3)
    p = np.full(10, 0.5)
    p[7] = np.nan
    table = pa.table({"p_a": p, "p_b": np.full(10, 0.5), "y": ["a", "b"] * 5})
    path = write(tmp_path / "t.parquet", table)
    with pytest.raises(TableError, match="row 8: 'p_a' is missing"):
        read_all(RowReader(open_table(path), Layout(label="y")))


def test_labels_keep_their_type(tmp_path: Path) -> None:
    for values, expected in [
        ([1.0, 2.0, None, 2.0], [1, 2]),
        ([True, False, None, True], [False, True]),
        (["1", "2", None, "1"], ["1", "2"]),
    ]:
        table = pa.table({"y": values, **{f"p_{c}": [0.5] * 4 for c in expected}})
        path = write(tmp_path / "t.parquet", table)
        rows = read_all(RowReader(open_table(path), Layout(label="y"), skip_errors=True))
        assert list(rows.classes) == expected
        assert [type(c) for c in rows.classes] == [type(c) for c in expected]
    csv_path = tmp_path / "t.csv"
    csv_path.write_text("y,p_0,p_1\n0,0.5,0.5\n1.0,0.5,0.5\n")
    assert read_all(RowReader(open_table(csv_path), Layout(label="y"))).classes == (0, 1)


def test_logits_and_renormalised_probabilities(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("y,z_a,z_b\na,0,0\nb,-1,3\na,-inf,2\n")
    layout = Layout(label="y", logits=True)
    rows = read_all(RowReader(open_table(path), layout))
    p = complete(rows.values, logits=layout.any_numbers)
    np.testing.assert_allclose(p[:, 1], [0.5, 1 / (1 + np.exp(-4)), 1.0])
    path.write_text("y,p_a,p_b\na,1,3\nb,0.4,0.5\n")
    layout = Layout(label="y", renormalize=True, probs=("p_*",))
    rows = read_all(RowReader(open_table(path), layout))
    np.testing.assert_allclose(complete(rows.values, logits=layout.any_numbers), [[0.25, 0.75], [4 / 9, 5 / 9]])


def peek_uniform(names: Any) -> Any:
    return np.full((4, len(names)), 1 / len(names))


@pytest.mark.parametrize(
    ("columns", "labels", "names", "classes"),
    [
        (["id", "cat", "dog"], ["cat", "dog"], ["cat", "dog"], ["cat", "dog"]),
        (["p_dog", "p_cat", "id"], ["cat", "dog"], ["p_dog", "p_cat"], ["dog", "cat"]),
        (["p_cat", "p_cow", "p_dog"], ["cat", "cow"], ["p_cat", "p_cow", "p_dog"], ["cat", "cow", "dog"]),
        (["cat_prob", "dog_prob"], ["cat", "dog"], ["cat_prob", "dog_prob"], ["cat", "dog"]),
        (["p_0", "p_1", "p_2"], [0, 1, 2], ["p_0", "p_1", "p_2"], [0, 1, 2]),
        (["p_0", "p_1", "p_2"], [0, 2], ["p_0", "p_1", "p_2"], [0, 1, 2]),
        (["p1", "p2", "p3"], ["a", "b", "c"], ["p1", "p2", "p3"], ["a", "b", "c"]),
        (["x", "prob"], [0, 1], ["prob"], [0, 1]),
        (["x", "p_yes"], ["no", "yes"], ["p_yes"], ["no", "yes"]),
        (["x", "p_no"], ["no", "yes"], ["p_no"], ["yes", "no"]),
        (["x", "p_fraud"], [0, 1], ["p_fraud"], [0, 1]),
        (["x", "churn_score"], ["False", "True"], ["churn_score"], ["False", "True"]),
    ],
)
def test_columns_are_found(columns: list[str], labels: list[Any], names: list[str], classes: list[Any]) -> None:
    found = find_columns(columns, labels, peek=peek_uniform)
    assert list(found.names) == names
    assert list(found.classes) == classes


def test_features_numbered_like_labels_are_not_taken_for_probabilities() -> None:
    def peek(names: Any) -> Any:
        return np.array([[3.0] * len(names)]) if names[0].startswith("x") else peek_uniform(names)

    found = find_columns(["x_0", "x_1", "p_0", "p_1"], [0, 1], peek=peek)
    assert found.names == ("p_0", "p_1")


def test_what_cannot_be_told_is_an_error_that_lists_what_there_is() -> None:
    with pytest.raises(RequestError, match=r"several groups.*'a_0', 'a_1'.*'b_0', 'b_1'"):
        find_columns(["a_0", "a_1", "b_0", "b_1"], [0, 1], peek=peek_uniform)
    with pytest.raises(RequestError, match=r"no columns look like probabilities.*'age', 'height'"):
        find_columns(["age", "height"], ["a", "b", "c"], peek=peek_uniform)
    with pytest.raises(RequestError, match=r"no columns look like probabilities.*'p_fraud'"):
        find_columns(["p_fraud"], ["bad", "good"], peek=peek_uniform)  # of which label would it be?
    with pytest.raises(RequestError, match="no columns look like probabilities") as refused:
        find_columns(["score"], [0, 1], peek=lambda names: np.array([[-2.0]]))
    assert refused.value.hints == ("probs", "logits")
    with pytest.raises(RequestError, match=r"no column is called 'q_\*'; the columns are 'p_a', 'p_b'"):
        find_columns(["p_a", "p_b"], ["a", "b"], peek=peek_uniform, probs=["q_*"])
    with pytest.raises(RequestError, match="no probability column stands for the label 'c'"):
        find_columns(["p_a", "p_b"], ["a", "b", "c"], peek=peek_uniform, probs=["p_*"])
    with pytest.raises(RequestError, match=r"3 probability columns .* and 2 labels") as refused:
        find_columns(["u", "v", "w"], ["a", "b"], peek=peek_uniform, probs=["u", "v", "w"])
    assert refused.value.hints == ("classes",)
    with pytest.raises(RequestError, match="cannot tell which label each of the columns 'u', 'v' stands for"):
        find_columns(["u", "v"], ["a", "b"], peek=peek_uniform, probs=["u", "v"])
    found = find_columns(["u", "v"], ["a", "b"], peek=peek_uniform, probs=["u", "v"], classes=["b", "a"])
    assert found.classes == ("b", "a")


def test_a_pattern_never_takes_the_label() -> None:
    found = find_columns(["p_a", "p_b", "p_label"], ["a", "b"], peek=peek_uniform, probs=["p_*"], reserved=["p_label"])
    assert found.names == ("p_a", "p_b")


@pytest.mark.parametrize(
    "values", [[[1], [2]], [{"a": 1}, {"a": 2}], [b"\xff", b"\xfe"]], ids=["list", "struct", "bytes"]
)
def test_columns_that_are_no_text_are_refused_by_name(values: list[Any], tmp_path: Path) -> None:
    column = pa.array(values)
    with pytest.raises(RequestError, match=r"cannot hold labels, segments or groups|not UTF-8 text"):
        to_text(column)
    source = write(tmp_path / "table.parquet", pa.table({"p": [0.1, 0.9], "odd": column}))
    target = tmp_path / "out.csv"
    with pytest.raises(TableError, match=r"'odd' of type .* cannot be written as CSV"):
        copy(source, target)
    assert not target.exists()


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".npz"])
def test_altered_bytes_are_named_or_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    if suffix == ".npz":
        np.savez_compressed(path, p=np.random.default_rng(0).random((200, 2)))
    else:
        table = pa.table({"p_0": np.random.default_rng(0).random(200), "label": ["a", "b"] * 100})
        (pa.parquet.write_table if suffix == ".parquet" else pa.feather.write_feather)(table, path)
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(60):
        damaged = bytearray(whole)
        for place in rng.integers(len(whole), size=20):
            damaged[place] = rng.integers(256)
        path.write_bytes(bytes(damaged))
        try:
            for _ in open_table(path).batches():
                pass
        except TableError as error:
            said = str(error)
            assert path.name in said


def test_feather_whose_texts_lie_outside_of_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "table.feather"
    pa.feather.write_feather(pa.table({"label": ["a", "b"] * 100}), path, compression="uncompressed")
    offsets = np.arange(201, dtype="<i4").tobytes()
    whole = path.read_bytes()
    assert whole.count(offsets) == 1
    wrong = np.where(np.arange(201) == 100, 10**9, np.arange(201)).astype("<i4").tobytes()
    path.write_bytes(whole.replace(offsets, wrong))
    with pytest.raises(TableError, match=r"table\.feather is damaged"):
        list(open_table(path).batches())


@pytest.mark.parametrize(
    ("columns", "labels", "stray", "said"),
    [
        (["p_0", "p_1", "p_2"], [0, 1, 2], 77, "no probability column stands for the label '77'"),
        (["p_cat", "p_dog"], ["cat", "dog"], "zebra", "no probability column stands for the label 'zebra'"),
        (["score"], [0, 1], 7, r"the label is '7', but a single probability column \('score'\) is for '0', '1' only"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_label_without_a_column_is_named_with_its_row(
    columns: list[str], labels: list[Any], stray: Any, said: str, name: str, tmp_path: Path
) -> None:
    table = {column: np.full(200, 1 / max(len(columns), 2)) for column in columns}
    truth = (labels * 100)[:200]
    truth[151] = stray
    path, written = tmp_path / name, pa.table({**table, "y": truth})
    pyarrow.csv.write_csv(written, path) if name == "t.csv" else write(path, written)
    line = f"{'line 153' if name.endswith('csv') else 'row 152'}: {said}"
    with pytest.raises(RequestError, match=rf"{re.escape(name)}, {line}"):
        RowReader(open_table(path), Layout(label="y")).find()


def many_columns(path: Path, n: int) -> None:
    """A table with `score` among many columns that look like pairs of classes."""
    cells = np.random.default_rng(0).integers(2, size=(3, n)).astype(str)
    lines = [",".join(["score", *(f"c{i}" for i in range(n))])]
    lines += [",".join([score, *row]) for score, row in zip(("0.25", "0.5", "0.75"), cells)]
    path.write_text("\n".join(lines))


@pytest.fixture
def of_score(tmp_path: Path) -> Any:
    (tmp_path / "fit.csv").write_text("score,y\n" + "0.2,0\n0.3,1\n0.6,0\n0.8,1\n" * 5)
    return calibrant.get_calibrator("ts").fit_batches(calibrant.open_batches(tmp_path / "fit.csv", "y"))


def test_a_calibrator_takes_its_own_column_among_hundreds(tmp_path: Path, of_score: Any) -> None:
    assert of_score.feature_names_in_.tolist() == ["score"]
    calibrant.save(of_score, tmp_path / "cal.json")
    many_columns(tmp_path / "wide.csv", 400)
    fitted, reader = load_calibrator(tmp_path / "cal.json"), RowReader(open_table(tmp_path / "wide.csv"), Layout())
    done = apply(fitted, reader, tmp_path / "out.csv")
    assert (done.columns, done.classes) == (("score",), (0, 1))
    found = [float(line.split(",")[0]) for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    np.testing.assert_allclose(found, of_score.predict_proba([0.25, 0.5, 0.75])[:, 1])
    # Without that column, others are found, or the message about them is short.
    many_columns(tmp_path / "other.csv", 400)
    (tmp_path / "other.csv").write_text((tmp_path / "other.csv").read_text().replace("score", "age", 1))
    with pytest.raises(RequestError, match=r"several groups .* 'c\d+0', 'c\d+1'; or .* more groups") as error:
        calibrator_columns(fitted, RowReader(open_table(tmp_path / "other.csv"), Layout()))
    assert len(str(error.value)) < 500
    (tmp_path / "two.csv").write_text("p_0,p_1\n0.25,0.75\n")
    columns, place = calibrator_columns(fitted, RowReader(open_table(tmp_path / "two.csv"), Layout()))
    assert (columns.names, place) == (("p_0", "p_1"), [0, 1])
    np.testing.assert_allclose(of_score.predict_proba([[0.25, 0.75]]), of_score.predict_proba([0.75]))


def test_work_grows_with_the_number_of_columns_not_with_its_square(tmp_path: Path, of_score: Any) -> None:
    """Calls of Python functions, which no other program on the machine changes, for twice the columns."""
    calls = []
    for n in (500, 1000):
        many_columns(tmp_path / "wide.csv", n)
        profile = cProfile.Profile()
        with profile:
            apply(of_score, RowReader(open_table(tmp_path / "wide.csv"), Layout()), tmp_path / f"{n}.csv")
            with pytest.raises(RequestError):
                find_columns([f"c{i}" for i in range(n)], [0, 1], peek=peek_uniform)
            named = [f"p_{i}" for i in range(n)]
            assert find_columns(named, list(range(n)), peek=peek_uniform).names == tuple(named)
        calls.append(sum(entry.callcount for entry in profile.getstats()))
    assert calls[1] < 2.2 * calls[0]


def test_groups_of_columns_are_looked_at_in_one_reading(tmp_path: Path) -> None:
    many_columns(tmp_path / "wide.csv", 400)
    table, readings = open_table(tmp_path / "wide.csv"), []
    whole = table.batches
    table.batches = lambda *given, **options: (readings.append(given), whole(*given, **options))[1]  # type: ignore[method-assign]
    with pytest.raises(RequestError, match="several groups"):
        RowReader(table, Layout()).find([0, 1])
    assert len(readings) <= 4


@pytest.mark.parametrize("n", [30, 5000])
def test_messages_about_many_names_are_short(tmp_path: Path, n: int) -> None:
    columns = [f"column number {i}" for i in range(n)]
    table = tmp_path / "t.csv"
    table.write_text(",".join(columns) + "\n" + ",".join(["0.5"] * n) + "\n")
    requests = [
        lambda: open_table(table).require(["p"]),
        lambda: find_columns(columns, ["a", "b"], peek=lambda names: None),
        lambda: find_columns(columns, ["a", "b"], peek=lambda names: None, probs=["q_*"]),
        lambda: find_columns(columns, ["a", "b"], peek=peek_uniform, probs=["column*"]),
        lambda: find_columns(["score"], [f"label {i}" for i in range(n)], peek=peek_uniform),
        lambda: calibrant.get_calibrator("ts").fit(np.full((30, 31), 1 / 31), [f"{'x' * n}{i}" for i in range(30)]),
        lambda: calibrant.get_calibrator("ts", classes=list(range(n))).fit([[0.5, 0.5]] * 4, [0, 1, 0, 1]),
    ]
    for request in requests:
        with pytest.raises(ValueError, match=r".") as error:
            request()
        assert len(str(error.value)) < 1500, str(error.value)


@pytest.mark.parametrize("text", ["0.5_0", "1_0", "٠.٥", "０.５", "0x1p-1", "1e", "--1", "."])
def test_only_plain_numbers_are_numbers(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(f"p_a,p_b,y\n0.5,0.5,a\n0.5,{text},b\n0.25,0.75,b\n")
    reader = RowReader(open_table(tmp_path / "t.csv"), Layout(label="y"))
    with pytest.raises(TableError, match=rf"t\.csv, line 3: 'p_b' is '{re.escape(text)}', not a number"):
        read_all(reader)


def test_numbers_as_programs_write_them_are_read() -> None:
    cells = [".5", "1.", "+1e-3", " 2E+5 ", "-inf", "Infinity", "x"]
    found = to_numbers(pa.array(cells))
    assert found[:6].tolist() == [0.5, 1.0, 0.001, 2e5, -np.inf, np.inf]
    assert np.isnan(found[6])
    assert [unreadable(pa.array(cells), row) for row in range(7)] == [None] * 6 + ["x"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_blanks_around_labels_and_groups_do_not_count(tmp_path: Path, kind: str) -> None:
    """As around the names of columns; all other cells pass through as they are."""
    table = pa.table(
        {
            "p_0": ["0.75", "0.25"],
            "p_1": [" 0.25", "0.75 "],
            "y": [" 0", "1 "],
            "site": ["a", "\ta"],
            "note": [" x", "y "],
        }
    )
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        path.write_text(
            "p_0, p_1 , y,site,note\n" + "".join(",".join([*row.values()]) + "\n" for row in table.to_pylist())
        )
    elif kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, table.to_pylist())))
    else:
        pa.parquet.write_table(table, path)
    rows = read_all(RowReader(open_table(path), Layout(label="y", segments=("site",))))
    assert [str(label) for label in rows.classes] == ["0", "1"]
    assert rows.codes.tolist() == [0, 1]
    assert rows.segments is not None
    assert rows.segments[:, 0].tolist() == ["a", "a"]
    (batch,) = open_table(path).batches()
    assert batch.data.column("note").to_pylist() == [" x", "y "]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(3)])
def test_bytes_are_text_or_refused(tmp_path: Path, of_score: Any, kind: Any) -> None:
    def write(*cells: bytes) -> Path:
        columns = {"score": [0.25, 0.75], "y": pa.array([b"no ", b"yes"], kind), "note": pa.array(cells, kind)}
        pa.parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
        return tmp_path / "t.parquet"

    rows = read_all(RowReader(open_table(write(b"abc", b"xyz")), Layout(label="y")))
    assert rows.classes == ("no", "yes")
    for ending in ("jsonl", "xlsx", "csv", "parquet"):
        out = tmp_path / f"out.{ending}"
        apply(of_score, RowReader(open_table(write(b"abc", b"xyz")), Layout()), out)
        (batch,) = open_table(out).batches()
        found = batch.data.column("note").to_pylist()
        assert found == ([b"abc", b"xyz"] if ending == "parquet" else ["abc", "xyz"]), ending
        if ending == "parquet":
            continue
        with pytest.raises(TableError, match=r"the column 'note' of type .* cannot be written as"):
            apply(of_score, RowReader(open_table(write(b"\xff\xfe\x00", b"xyz")), Layout()), out, force=True)
    pa.parquet.write_table(pa.table({"score": [0.25], "y": pa.array([b"\xff\xfe\x00"], kind)}), tmp_path / "t.parquet")
    with pytest.raises(RequestError, match="bytes that are not UTF-8 text"):
        read_all(RowReader(open_table(tmp_path / "t.parquet"), Layout(label="y")))


def test_deeply_nested_json_names_its_line(tmp_path: Path) -> None:
    deep = '{"p": ' + "[" * 200_000 + "]" * 200_000 + "}"
    (tmp_path / "t.jsonl").write_text(f'{{"score": 0.5}}\n{deep}\n{{"score": 0.25}}\n')
    table = open_table(tmp_path / "t.jsonl")
    with pytest.raises(TableError, match=r"t\.jsonl, line 2: no valid JSON object"):
        list(table.batches())
    (batch,) = table.batches(skip_errors=True)
    assert batch.rows.tolist() == [1, 3]


def test_blocks_are_counted_over_all_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CHUNK_ROWS", 3)
    path = write(tmp_path / "t.parquet", pa.table({"p": np.full(8, 0.5), "y": [0, 1] * 4}))
    for blocks, expected in ((2, [0, 0, 1, 1, 2, 2, 3, 3]), (5, [0] * 5 + [1] * 3), (1, None), (None, None)):
        found = read_all(RowReader(open_table(path), Layout(label="y", blocks=blocks))).groups
        assert (None if found is None else found.tolist()) == expected


@pytest.mark.parametrize("name", ["out.parquet", "out.feather"])
def test_whole_numbers_after_fractions_are_written_as_fractions(tmp_path: Path, name: str) -> None:
    (tmp_path / "t.jsonl").write_text('{"x": 0.5}\n')
    source = open_table(tmp_path / "t.jsonl")
    with open_writer(tmp_path / name, source) as writer:
        for values in ([0.5], [1], [0.25]):
            writer.write(pa.record_batch({"x": values}))
    (column,) = pa.concat_tables(pa.Table.from_batches([b.data]) for b in open_table(tmp_path / name).batches()).columns
    assert column.to_pylist() == [0.5, 1.0, 0.25]
