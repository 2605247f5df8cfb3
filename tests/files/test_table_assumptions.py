"""Percentages, decimal commas, logits and numbered columns: what is assumed is right, said, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrant.files.tables.opening import open_table
from calibrant.files.tables.row_checks import Layout, TableRows
from calibrant.files.tables.table_rows import RowReader, read_all
from calibrant.inputs.probability_columns import find_columns
from calibrant.inputs.words import RequestError

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), 300)
Y = (P.cumsum(axis=1) > RNG.random((300, 1))).argmax(axis=1)


def text(p: np.ndarray, labels: list[str], style: str = "{:.9f}", sep: str = ",", names: str = "p_{}") -> str:
    head = sep.join([names.format(label) for label in labels[: p.shape[1]]] + ["y"])
    rows = [sep.join([style.format(v) for v in row] + [labels[code]]) for row, code in zip(p.tolist(), Y)]
    return "\n".join([head, *rows]) + "\n"


def read(path: Path, content: str, **layout: object) -> tuple[TableRows, RowReader]:
    path.write_text(content)
    reader = RowReader(open_table(path), Layout(label="y", **layout))  # type: ignore[arg-type]
    return read_all(reader), reader


ABC = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("style", "whole"), [("{:.9f}", 1), ("{:.7f}", 100), ("{:.7f}%", 100), ("{:.7f} %", 100)], ids=str
)
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("sep", [";", "\t"])
def test_every_way_to_write_a_probability_is_the_same(
    tmp_path: Path, style: str, whole: int, decimal: str, sep: str
) -> None:
    content = text(whole * P, ABC, style, sep).replace(".", decimal)
    rows, reader = read(tmp_path / "t.csv", content)
    np.testing.assert_allclose(rows.values, P, atol=1e-8)
    said = " ".join(note for note, *_ in reader.notes)
    assert ("percentages" in said) is (whole == 100)
    assert ("decimal commas" in said) is (decimal == ",")


def test_the_decimal_mark_can_be_given(tmp_path: Path) -> None:
    content = text(P, ABC, sep=";").replace(".", ",")
    rows, reader = read(tmp_path / "t.csv", content, decimal=",")
    np.testing.assert_allclose(rows.values, P, atol=1e-8)
    assert reader.notes == []
    with pytest.raises(ValueError, match=r"no columns look like|not a number"):
        read(tmp_path / "t.csv", content, decimal=".")


def test_a_single_column_of_percentages(tmp_path: Path) -> None:
    y = np.where(Y == 2, "1", "0")
    content = "prob,y\n" + "".join(f"{100 * p:.6f},{label}\n" for p, label in zip(P[:, 2].tolist(), y))
    rows, reader = read(tmp_path / "t.csv", content)
    np.testing.assert_allclose(rows.values[:, 0], P[:, 2], atol=1e-7)
    assert "percentages" in reader.notes[0][0]


def test_bad_rows_of_percentages_are_described_in_their_unit(tmp_path: Path) -> None:
    lines = text(100 * P, ABC).splitlines()
    lines[4] = "50,20,10,a"
    with pytest.raises(ValueError, match="line 5: the probabilities sum to 80, not to 100"):
        read(tmp_path / "t.csv", "\n".join(lines))


@pytest.mark.parametrize("whole", [1, 100])
def test_what_sums_to_one_or_a_hundred_is_no_logits(tmp_path: Path, whole: int) -> None:
    with pytest.raises(RequestError, match=f"sum to {whole} in every row: they are probabilities, not logits"):
        read(tmp_path / "t.csv", text(whole * P, ABC), logits=True)
    rows, reader = read(tmp_path / "t.csv", text(np.log(P), ABC), logits=True)  # log-probabilities are logits
    np.testing.assert_allclose(rows.values, np.log(P), atol=1e-8)
    assert reader.notes == []
    content = "score,y\n" + "".join(f"{p},{int(code == 2)}\n" for p, code in zip((whole * P[:, 2]).tolist(), Y))
    _, reader = read(tmp_path / "t.csv", content, logits=True)
    assert "these may be probabilities" in reader.notes[0][0]


def numbered(labels: list[str]) -> str:
    body = text(P, labels).split("\n", 1)[1]
    return "p_0,p_1,p_2,y\n" + body


def test_numbered_columns_of_text_labels_are_said_and_checked(tmp_path: Path) -> None:
    rows, reader = read(tmp_path / "t.csv", numbered(["cat", "cow", "dog"]))
    assert rows.classes == ("cat", "cow", "dog")
    assert reader.notes[0][0] == "classes are read in sorted order: p_0 = cat, p_1 = cow, p_2 = dog"
    # Sorted, these are high, low, medium, which is not what the columns hold.
    with pytest.raises(RequestError, match=r"p_0 = high.* is far worse than p_0 = low, p_1 = medium, p_2 = high"):
        read(tmp_path / "t.csv", numbered(["low", "medium", "high"]))
    rows, reader = read(tmp_path / "t.csv", numbered(["low", "medium", "high"]), classes=("low", "medium", "high"))
    assert rows.classes == ("low", "medium", "high")
    assert reader.notes == []


def test_a_score_of_the_wrong_class_is_refused(tmp_path: Path) -> None:
    def content(first: str, second: str) -> str:
        return "score,y\n" + "".join(f"{p},{second if code == 2 else first}\n" for p, code in zip(P[:, 2], Y))

    rows, reader = read(tmp_path / "t.csv", content("no", "yes"))
    assert rows.classes == ("no", "yes")
    assert reader.notes[0][0].endswith("score = yes")
    with pytest.raises(RequestError, match="score = yes is far worse than score = no") as refused:
        read(tmp_path / "t.csv", content("yes", "no"))
    assert refused.value.hints == ("two_classes",)


def test_a_rare_event_under_the_wrong_name_is_refused_and_one_name_is_enough(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    odds = np.exp(-4 + 1.5 * rng.normal(size=4000))
    event = rng.random(4000) < odds / (1 + odds)
    score = odds**2 / (1 + odds**2)  # over-confident: at most a few percent for most rows

    def labelled(named: str, other: str) -> str:
        return "score,y\n" + "".join(f"{p},{named if one else other}\n" for p, one in zip(score, event))

    content = labelled("fraud", "legit")
    with pytest.raises(RequestError, match="score = legit is far worse than score = fraud"):
        read(tmp_path / "t.csv", content)
    for classes in (("fraud",), ("legit", "fraud")):
        rows, reader = read(tmp_path / "t.csv", content, classes=classes)
        assert rows.classes == ("legit", "fraud")
        assert reader.notes == []
    with pytest.raises(RequestError, match="1 is given; the labels are 'fraud', 'legit'") as refused:
        read(tmp_path / "t.csv", content, classes=("Fraud",))
    assert refused.value.hints == ("two_classes",)
    # A model that is wrong about how often, but not about where, is not told that its class is another one.
    assert read(tmp_path / "t.csv", labelled("theft", "fine"))[0].classes == ("fine", "theft")


def test_predictions_without_information_are_not_refused(tmp_path: Path) -> None:
    for seed in range(8):
        noise = np.random.default_rng(seed).dirichlet(np.ones(3), 300)
        body = text(noise, ["cat", "cow", "dog"]).split("\n", 1)[1]
        rows, _ = read(tmp_path / "t.csv", "p_0,p_1,p_2,y\n" + body)
        assert rows.classes == ("cat", "cow", "dog")


def test_numbers_in_labels_name_their_columns() -> None:
    def peek(names: object) -> np.ndarray:
        return np.full((4, 12), 1 / 12)

    labels = sorted(f"class_{i}" for i in range(12))  # class_0, class_1, class_10, class_11, class_2, ...
    found = find_columns([f"p_{i}" for i in range(12)], labels, peek=peek)
    assert found.classes == tuple(f"class_{i}" for i in range(12))
    assert not found.by_order
    with pytest.raises(RequestError, match="cannot tell which label"):
        find_columns([f"p_{i}" for i in range(12)], sorted(f"c{i}" for i in range(1, 13)), peek=peek)
