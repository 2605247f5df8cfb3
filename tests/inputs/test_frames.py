"""Columns of frames by name: the same fit as with arrays, whatever else stands in the frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant import get_calibrator
from tests.needs import needs

CLASSES = np.array(["cat", "dog", "owl"])


def table(n: int = 150) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Predictions, and the columns of a table with them."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2.0, 1.0, 1.0], n)
    y = CLASSES[(p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)]
    columns = {"id": np.array([f"r{i}" for i in range(n)]), **dict(zip(("p_cat", "p_dog", "p_owl"), p.T))}
    return p, columns | {"truth": y, "n": rng.integers(1, 4, n), "patient": np.arange(n) // 3}


def frames(columns: dict[str, np.ndarray]) -> list[Any]:
    frame = needs("pandas").DataFrame(columns)
    arrow = needs("pyarrow").table({name: list(values) for name, values in columns.items()})
    return [frame, needs("polars").DataFrame(columns), arrow]


@pytest.mark.parametrize("method", ["sms", "auto", "isotonic"])
def test_columns_by_name_fit_as_arrays_do(method: str) -> None:
    p, columns = table()
    options: dict[str, Any] = {"sample_weight": columns["n"], "groups": columns["patient"]}
    expected = get_calibrator(method).fit(p, columns["truth"], **options).predict_proba(p)
    for frame in frames(columns):
        for named in ({}, {"probs": "p_*"}, {"probs": ["p_owl", "p_dog", "p_cat"]}):
            found = get_calibrator(method).fit(frame, label="truth", sample_weight="n", groups="patient", **named)
            assert found.classes_.tolist() == CLASSES.tolist()
            np.testing.assert_allclose(found.predict_proba(frame), expected, atol=1e-12)


def test_labels_may_be_given_beside_the_frame() -> None:
    p, columns = table()
    frame = frames(columns)[0]
    expected = get_calibrator("ts").fit(p, columns["truth"]).inverse_temperature_
    assert get_calibrator("ts").fit(frame, columns["truth"], probs="p_*").inverse_temperature_ == expected


def test_a_single_column_is_found_by_the_class_it_is_named_after() -> None:
    frame = needs("pandas").DataFrame(
        {"amount": [5.0, 9.0, 2.0, 4.0], "p_bad": [0.1, 0.2, 0.6, 0.9], "y": ["a_ok", "bad", "a_ok", "bad"]}
    )
    found = get_calibrator("ts").fit(frame, label="y")
    assert found.feature_names_in_.tolist() == ["p_bad"]
    assert found.classes_.tolist() == ["a_ok", "bad"]
    assert found.predict_proba(frame)[3, 1] > 0.5


def test_columns_of_logits_are_found() -> None:
    p, columns = table()
    logs = np.log(p)
    frame = needs("pandas").DataFrame({"id": columns["id"], **dict(zip(CLASSES, logs.T)), "truth": columns["truth"]})
    found = get_calibrator("ts", input="logits").fit(frame, label="truth")
    expected = get_calibrator("ts").fit(p, columns["truth"])
    assert found.inverse_temperature_ == pytest.approx(expected.inverse_temperature_, rel=1e-6)


@pytest.mark.dask
def test_a_dask_frame_holds_predictions_and_labels() -> None:
    dd = needs("dask.dataframe")
    p, columns = table()
    frame = dd.from_pandas(frames(columns)[0], npartitions=4)
    found = get_calibrator("ts").fit(frame, label="truth", sample_weight="n")
    expected = get_calibrator("ts").fit(p, columns["truth"], columns["n"])
    assert found.inverse_temperature_ == pytest.approx(expected.inverse_temperature_, rel=1e-6)
    np.testing.assert_allclose(found.predict_proba(frame).compute(), expected.predict_proba(p), atol=1e-6)


@pytest.mark.dask
def test_a_single_column_of_a_dask_frame_is_found_by_its_numbers() -> None:
    dd, pandas = needs("dask.dataframe"), needs("pandas")
    frame = pandas.DataFrame({"age": [30.0, 40.0] * 10, "score": [0.2, 0.9] * 10, "y": [0, 1] * 10})
    found = get_calibrator("ts").fit(dd.from_pandas(frame, npartitions=2), label="y")
    assert found.feature_names_in_.tolist() == ["score"]


def test_arrow_sources_leave_other_columns_out(tmp_path: Any) -> None:
    dataset, parquet = needs("pyarrow.dataset"), needs("pyarrow.parquet")
    p, columns = table(2000)
    arrow = frames(columns)[2]
    parquet.write_table(arrow, tmp_path / "part-0.parquet")
    stored = dataset.dataset(tmp_path)
    expected = get_calibrator("ts").fit(p, columns["truth"], columns["n"]).inverse_temperature_
    for source in (arrow, stored, stored.scanner(batch_size=700)):
        found = get_calibrator("ts").fit_batches(source, label="truth", sample_weight="n", memory_mb=1)
        assert found.inverse_temperature_ == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"label": "answer"}, r"label='answer' is not among the columns 'id', 'p_cat'"),
        ({"label": "truth", "groups": "site"}, r"groups='site' is not among the columns"),
        ({"label": "truth", "probs": "q_*"}, r"In X, no column is called 'q_\*'"),
        ({"label": "id"}, r"no columns look like probabilities .* Name them with probs=, as in probs='p_\*'"),
        ({"sample_weight": "n"}, r"Name the column of labels with label="),
    ],
)
def test_bad_names_are_named(options: dict[str, Any], said: str) -> None:
    frame = frames(table()[1])[0]
    with pytest.raises(ValueError, match=said):
        get_calibrator("ts").fit(frame, **options)


def test_labels_twice_and_arrays_without_names_are_refused() -> None:
    p, columns = table()
    frame = frames(columns)[0]
    with pytest.raises(ValueError, match="given twice, as y and with label="):
        get_calibrator("ts").fit(frame, columns["truth"], label="truth")
    with pytest.raises(TypeError, match="need a data frame as X, not ndarray"):
        get_calibrator("ts").fit(p, label="truth")


def test_the_advice_for_a_frame_with_texts_works() -> None:
    frame = frames(table()[1])[0]
    with pytest.raises(TypeError, match=r"'r0' in row 0 of the column 'id'.*with probs= or label="):
        get_calibrator("ts").fit(frame, frame["truth"])
    get_calibrator("ts").fit(frame, frame["truth"], probs="p_*")
    get_calibrator("ts").fit(frame, label="truth")


def test_names_of_columns_may_be_numbers() -> None:
    p, columns = table()
    y = 7 + np.searchsorted(CLASSES, columns["truth"])
    frame = needs("pandas").DataFrame({0: y, 7: p[:, 0], 8: p[:, 1], 9: p[:, 2]})
    expected = get_calibrator("ts").fit(p, y).inverse_temperature_
    assert get_calibrator("ts").fit(frame, label=0).inverse_temperature_ == expected
    assert get_calibrator("ts").fit(frame, label=0, probs=[7, 8, 9]).inverse_temperature_ == expected
    numbered = needs("pandas").DataFrame({"y": (p[:, 0] < 0.5).astype(int), 0: p[:, 0], 1: 1 - p[:, 0]})
    found = get_calibrator("ts").fit(numbered, label="y")
    assert found.inverse_temperature_ == get_calibrator("ts").fit(p[:, 0], numbered["y"] == 0).inverse_temperature_
    with pytest.raises(ValueError, match="label=3 is not among the columns 0, 7, 8, 9"):
        get_calibrator("ts").fit(frame, label=3)


def test_columns_of_the_same_name_are_refused_only_where_they_are_used() -> None:
    _, columns = table()
    pandas, arrow = needs("pandas"), needs("pyarrow")
    for wrong in ("p_dog", "truth", "n"):
        names = [*columns, wrong]
        twice = [*map(list, columns.values()), list(columns[wrong])]
        for frame in (pandas.concat([pandas.Series(v) for v in twice], axis=1, keys=names), arrow.table(twice, names)):
            with pytest.raises(ValueError, match=f"X has 2 columns that are called '{wrong}': give each a name"):
                get_calibrator("ts").fit(frame, label="truth", sample_weight="n")
    unused = pandas.concat([pandas.DataFrame(columns), pandas.DataFrame({"id": columns["id"]})], axis=1)
    assert get_calibrator("ts").fit(unused, label="truth").feature_names_in_.tolist() == ["p_cat", "p_dog", "p_owl"]


def test_a_lazy_frame_is_told_to_collect() -> None:
    _, columns = table()
    lazy = needs("polars").DataFrame(columns).lazy()
    with pytest.raises(TypeError, match=r"has no rows yet: pass X.collect\(\)"):
        get_calibrator("ts").fit(lazy, label="truth")
