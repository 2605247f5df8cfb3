"""Batches of one source are alike: other columns, names or types of labels are refused, with the place of the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from calibrant.inputs.batches import BatchReader, Reservoir, SeenLabels, as_source


def frame(*names: str) -> pd.DataFrame:
    return pd.DataFrame(np.full((3, len(names)), 1 / len(names)), columns=names)


def read(*batches: Any) -> list[Any]:
    return list(BatchReader(lambda: iter(batches)).read())


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ((frame("p_b", "p_a"), [0, 1, 0]), "columns are called 'p_b', 'p_a', those of earlier batches 'p_a', 'p_b'"),
        ((frame("p_a", "p_b").to_numpy(), [0, 1, 0]), "columns are called , those of earlier batches 'p_a', 'p_b'"),
        ((frame("p_a", "p_b", "p_c"), [0, 1, 0]), "predictions have 3 columns, those of earlier batches 2"),
        ((frame("p_a", "p_b"), ["0", "1", "0"]), "labels are str, those of earlier batches integers"),
        ((frame("p_a", "p_b"), [0, 1]), "X has 3 rows, y has 2"),
        ((frame("p_a", "p_b"),), "Batch 1 is a tuple of 1; a batch is"),
        (7, "Batch 1 is of type int; a batch is"),
    ],
)
def test_a_batch_unlike_the_first_is_refused_by_its_place(second: Any, said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said) as error:
        read((frame("p_a", "p_b"), [0, 1, 0]), second)
    assert "Batch 1" in str(error.value)
    if not str(error.value).startswith("Batch"):
        assert str(error.value).endswith("(Batch 1, which starts at row 3.)")


def test_a_single_column_may_change_its_name_and_integers_their_width() -> None:
    narrow, wide = np.array([0, 1, 0], dtype=np.int8), np.array([0, 1, 1])
    parts = read((frame("a")["a"] / 2, narrow), (frame("b")["b"] / 2, wide))
    assert [part.n_rows for part in parts] == [3, 3]


def test_rows_of_no_weight_are_left_out_and_counted() -> None:
    reader = BatchReader(lambda: iter([([0.1, 0.2, 0.3], ["a", "b", "a"], [1.0, 0.0, 2.0]), ([0.4], ["b"], [3.0])]))
    first, second = reader.read()
    assert (first.rows.tolist(), first.counts.tolist(), first.y.tolist()) == ([0, 2], [1.0, 2.0], ["a", "a"])
    assert reader.place_of("b") == "row 3 (batch 1, which starts at row 3)"
    assert second.n_rows == 1
    np.testing.assert_allclose(first.proba[:, 1], [0.1, 0.3])


@pytest.mark.parametrize(
    ("passes", "said"),
    [
        ([[3, 2], [3]], "in batch 1, which starts at row 3: it is missing"),
        ([[3], [3, 2]], "in batch 1, which starts at row 3: it is new: the first pass ended with batch 0"),
        ([[3, 2], [3, 1]], "in batch 1, which starts at row 3: it has 1 rows, in the first pass it had 2"),
        ([[3, 2], []], "in batch 0, which starts at row 0: it is missing"),
    ],
)
def test_a_second_pass_of_other_batches_is_refused(passes: list[list[int]], said: str) -> None:
    again = iter(passes)
    reader = BatchReader(lambda: iter([(np.full(n, 0.25), np.zeros(n, dtype=int)) for n in next(again)]))
    assert sum(part.n_rows for part in reader.read()) == sum(passes[0])
    with pytest.raises(ValueError, match=f"Pass 2 over the source differs from the first {said}"):
        list(reader.read())


def test_a_second_pass_of_other_numbers_hands_none_of_them_over() -> None:
    numbers = iter([0.25, 0.5])
    reader = BatchReader(lambda: iter([([next(numbers)], [1])]))
    assert len(list(reader.read())) == 1
    handed = []
    with pytest.raises(ValueError, match="its 1 rows hold other numbers or labels"):
        handed.extend(reader.read())
    assert handed == []


def test_arrays_are_cut_into_batches_and_must_have_one_length() -> None:
    n = (1 << 16) + 5
    p, y = np.full(n, 0.5), np.zeros(n, dtype=int)
    assert [len(part[0]) for part in as_source((p, y))()] == [1 << 16, 5]
    with pytest.raises(ValueError, match=f"P has {n}, y has {n}, weight has 2"):
        list(as_source((p, y, np.ones(2)))())


def test_labels_are_noted_where_they_first_appear() -> None:
    seen = SeenLabels()
    for place, labels in (("here", ["b"]), ("there", ["a", "b"]), ("elsewhere", ["a"])):
        seen.add(np.array(labels), place)
    assert seen.labels.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"^wrong The last label to appear was 'a', in there\.$"), seen.named():
        raise ValueError("wrong")


def test_a_reservoir_keeps_all_rows_up_to_its_size_and_every_row_as_often() -> None:
    few = Reservoir(10, seed=0)
    few.add([np.arange(4)])
    few.add([np.arange(4, 10)])
    assert few.take()[0].tolist() == list(range(10))
    kept = np.zeros(60)
    for seed in range(300):
        some = Reservoir(20, seed=seed)
        for start in (0, 20, 40):
            some.add([np.arange(start, start + 20)])
        rows = some.take()[0]
        assert len(rows) == 20
        assert rows.tolist() == sorted(rows.tolist())
        kept[rows] += 1
    # Each row is kept with probability 1/3: 100 times, with a standard deviation of 8.
    assert np.abs(kept - 100).max() < 5 * np.sqrt(300 * 2 / 9)
    groups = Reservoir(50, seed=0)
    groups.add([np.arange(100)], groups=np.arange(100) // 10)
    assert np.unique(groups.take()[0] // 10, return_counts=True)[1].tolist() == [10] * 5
    assert (groups.size, groups.seen) == (50, 100)
    group = Reservoir(2, seed=0)
    group.add([np.arange(8)], groups=np.zeros(8))
    assert len(group.take()[0]) == 8  # one group is kept in any case
