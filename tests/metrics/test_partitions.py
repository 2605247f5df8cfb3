"""Metrics of Dask collections are those of arrays."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from calibrant.metrics import evaluate
from tests.needs import needs
from tests.samples import sharpened

dask = needs("dask")
da = needs("dask.array")
pytestmark = pytest.mark.dask
NAMES = ["log_loss", "brier", "accuracy", "ece", "smooth_ece"]


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize("level", [None, 0.9])
def test_partitions_give_the_metrics_of_arrays(level: float | None) -> None:
    p, y = sharpened(600, 3, 1.6)
    order = np.argsort(y, kind="stable")  # partitions of one class
    p, y = p[order], np.array(["a", "b", "c"])[y[order]]
    weight = np.where(np.arange(600) < 100, 0.0, 2.0)  # and one without weight
    chunks = (100, 0, 450, 50)
    found = evaluate(
        da.from_array(y, chunks=(chunks,)),
        da.from_array(p, chunks=(chunks, 3)),
        sample_weight=da.from_array(weight, chunks=(chunks,)),
        level=level,
    )
    assert list(found) == NAMES
    expected = evaluate(y, p, NAMES, sample_weight=weight)
    assert {name: float(value) for name, value in found.items()} == pytest.approx(expected, rel=1e-12)


def test_data_frames_and_what_is_no_sum() -> None:
    dd = needs("dask.dataframe")
    p, y = sharpened(300, 2, 1.6)
    frame = pd.DataFrame(p, columns=["no", "yes"]).assign(label=np.array(["no", "yes"])[y])
    parts = dd.from_pandas(frame, npartitions=4, sort=False)
    found = evaluate(parts["label"], parts[["yes", "no"]], ["log_loss"])
    assert found == pytest.approx(evaluate(frame["label"], frame[["yes", "no"]], ["log_loss"]), rel=1e-12)
    with pytest.raises(ValueError, match="auroc needs all rows at once"):
        evaluate(parts["label"], parts[["yes", "no"]], ["auroc"])


def test_errors_name_the_partition() -> None:
    p, y = sharpened(400, 3)
    p[250, 1] = np.nan
    with pytest.raises(ValueError, match=r"y_prob contains NaN.* at row 50, column 1.*\(Partition 2\.\)"):
        evaluate(da.from_array(y, chunks=100), da.from_array(p, chunks=(100, 3)))
    y[333] = 7
    with pytest.raises(ValueError, match="last label to appear was 7, in partition 3"):
        evaluate(da.from_array(y, chunks=100), da.from_array(p, chunks=(100, 3)))


def test_votes_are_counted_in_partitions() -> None:
    p, y = sharpened(400, 3)
    votes = np.random.default_rng(0).integers(0, 3, p.shape) + np.eye(3)[y]
    parts = [da.from_array(array, chunks=(100, 3)) for array in (votes, p)]
    assert evaluate(*parts, ["log_loss"]) == pytest.approx(evaluate(votes, p, ["log_loss"]))


@pytest.mark.parametrize("chunk", [200, 45])
def test_probabilities_of_one_class_in_two_partitions_and_in_nine(chunk: int) -> None:
    p, y = sharpened(400, 2)
    labels = np.array(["no", "yes"])[y]
    expected = evaluate(labels, p, ["log_loss", "accuracy"])
    for scores in (p[:, 1], p[:, 1:]):
        parts = [da.from_array(labels, chunks=chunk), da.from_array(scores, chunks=(chunk, 1)[: scores.ndim])]
        assert evaluate(*parts, ["log_loss", "accuracy"]) == pytest.approx(expected, rel=1e-12)


def test_what_partitions_cannot_have() -> None:
    p, y = sharpened(40, 2)
    parts = [da.from_array(y, chunks=20), da.from_array(p, chunks=(20, 2))]
    for options in ({"groups": np.arange(40) // 2}, {"blocks": 2}):
        with pytest.raises(ValueError, match="groups and blocks work with arrays"):
            evaluate(*parts, **options)
    with pytest.raises(ValueError, match=r"No partition holds a row\."):
        evaluate(*(part[:0] for part in parts))
