"""Fits and predictions of Dask collections: those of arrays, in partitions that stay where they are."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pandas as pd
import pytest

from calibrant import get_calibrator
from calibrant.inputs.words import CalibrationWarning
from tests.calibrators.homes import CASES, TIGHT, assert_same, predictions
from tests.needs import needs

dask = needs("dask")
da = needs("dask.array")
pytestmark = [
    pytest.mark.dask,
    pytest.mark.filterwarnings("ignore::calibrant.inputs.words.ClassOrderWarning"),
]

#: Sizes of partitions, one of them empty; the labels are in order of class, so that some hold one class only.
CHUNKS = (100, 0, 250, 50, 300)


@pytest.fixture(autouse=True)
def in_this_thread(monkeypatch: pytest.MonkeyPatch):
    """Without a cluster, and with a sample that is not all rows, so that sums over partitions are needed."""
    monkeypatch.setattr("calibrant.calibrators.partitions._LEAST_ROWS", 300)
    with dask.config.set(scheduler="synchronous"):
        yield


def parted(values: np.ndarray) -> da.Array:
    return da.from_array(values, chunks=(CHUNKS, *values.shape[1:]))


#: One of each way to be fitted by sums: a temperature, a matrix, curves, bounds, closed forms, smoothed input.
OFTEN = {("ts", 4), ("sms", 4), ("logistic", 2), ("beta", 4), ("gaussian", 4), ("platt", 2), ("svs-laplace", 4)}


@pytest.mark.parametrize(
    ("name", "k"), [pytest.param(*case, marks=[] if case in OFTEN else pytest.mark.slow) for case in CASES]
)
def test_fits_are_those_of_arrays(name: str, k: int) -> None:
    p, y, weight = predictions(700, k)
    labels = np.array(["d", "b", "c", "a"])[:k]
    options = {"classes": labels, **TIGHT.get(name, {})}
    expected = get_calibrator(name, **options).fit(p, labels[y], weight)
    found = get_calibrator(name, **options).fit(parted(p), parted(labels[y]), parted(weight))
    assert_same(found, expected)
    lazy = found.predict_proba(parted(p))
    assert isinstance(lazy, da.Array)
    assert lazy.shape == (700, k)
    np.testing.assert_allclose(lazy.compute(), found.predict_proba(p), rtol=1e-12)
    assert found.predict(parted(p)).compute().tolist() == found.predict(p).tolist()


@pytest.mark.parametrize("name", ["ts", "sms", "auto"])
def test_data_frames_absent_classes_and_labels_in_memory(name: str) -> None:
    dd = needs("dask.dataframe")
    p, y, _ = predictions(700, 4)
    y = np.where(y == 2, 1, y)
    frame = pd.DataFrame(p, columns=["w", "x", "y", "z"]).assign(label=np.array(["w", "x", "y", "z"])[y])
    parts = dd.from_pandas(frame, npartitions=5, sort=False)
    expected = get_calibrator(name).fit(frame[["z", "w", "y", "x"]], frame["label"])
    for labels in (parts["label"], frame["label"]):
        found = get_calibrator(name).fit(parts[["z", "w", "y", "x"]], labels)
        np.testing.assert_allclose(
            found.predict_proba(parts[["z", "w", "y", "x"]]).compute(),
            expected.predict_proba(frame[["z", "w", "y", "x"]]),
            atol=1e-4,
        )


def test_errors_name_the_partition() -> None:
    p, y, _ = predictions(700, 3)
    p[420] = [0.5, 0.6, 0.7]
    with pytest.raises(ValueError, match=r"Row 20 of X \(partition 4\) sums to 1.8"):
        get_calibrator("ts").fit(parted(p), parted(y))
    with pytest.raises(ValueError, match="y has 600 rows, X has 700"):
        get_calibrator("ts").fit(parted(p), y[:600])
    with pytest.raises(ValueError, match="No partition holds a row"):
        get_calibrator("ts").fit(parted(np.full((700, 3), 1 / 3)), parted(y), parted(np.zeros(700)))


def test_partitions_that_are_not_alike_are_named() -> None:
    p, y, _ = predictions(700, 3)
    with pytest.raises(ValueError, match=r"sample_weight \(partition 2\) holds -1.0 at row 3"):
        get_calibrator("ts").fit(parted(p), parted(y), parted(np.where(np.arange(700) == 103, -1.0, 1.0)))
    with pytest.raises(ValueError, match="last label to appear was 9, in partition 4"):
        get_calibrator("ts").fit(parted(p), parted(np.where(np.arange(700) == 600, 9, y)))
    other = [dask.delayed(np.full)((100, k), 1.0 / k) for k in (3, 4)]
    X = da.concatenate([da.from_delayed(part, (100, 3), float) for part in other])
    with pytest.raises(ValueError, match="Partition 1 has 4 columns, the first one 3"):
        get_calibrator("ts").fit(X, y[:200] % 3)


def test_partitions_that_are_made_anew_and_differ_are_named() -> None:
    p, y, _ = predictions(700, 3)
    rng = np.random.default_rng(0)
    shuffled = parted(p).map_blocks(lambda block: rng.permutation(block), dtype=float)
    with pytest.raises(ValueError, match=r"Partition \d has changed since it was first computed"):
        get_calibrator("sms").fit(shuffled, parted(y))
    texts = np.array(["x", "y", "z"], dtype=object)[y]
    assert get_calibrator("ts").fit(parted(p), parted(texts)).classes_.tolist() == ["x", "y", "z"]


@pytest.mark.parametrize("name", ["ts", "sms", "isotonic"])
def test_soft_labels_are_those_of_arrays(name: str) -> None:
    p, y, weight = predictions(700, 3)
    votes = np.random.default_rng(1).integers(0, 3, p.shape) + 2.0 * np.eye(3)[y]
    options = {"tol": 1e-13} if name == "sms" else {}
    expected = get_calibrator(name, **options).fit(p, votes, weight)
    for labels in (votes, da.from_array(votes, chunks=(200, 2))):
        found = get_calibrator(name, **options).fit(parted(p), labels, parted(weight))
        np.testing.assert_allclose(found.predict_proba(p), expected.predict_proba(p), rtol=1e-6)


def test_a_summary_says_how_many_rows_a_sample_was_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.calibrators.partitions._MEMORY_NUMBERS", 900)
    p, y, _ = predictions(700, 3)
    isotonic = get_calibrator("isotonic").fit(parted(p), parted(y))
    assert isotonic.class_counts_.sum() == 300
    assert "fitted to 300 rows (a uniform sample of 700)" in isotonic.summary()


def test_one_class_alone_is_warned_of() -> None:
    p, _, _ = predictions(700, 2)
    with pytest.warns(CalibrationWarning, match="All 700 calibration rows have the label 1"):
        get_calibrator("ts", classes=[0, 1]).fit(parted(p), parted(np.ones(700, dtype=int)))


@pytest.mark.slow
def test_a_killed_worker_costs_its_partitions_not_the_fit() -> None:
    distributed = needs("distributed")
    p, y, _ = predictions(60_000, 6)
    X, labels = da.from_array(p, chunks=(5000, -1)), da.from_array(y, chunks=5000)
    expected = get_calibrator("sms").fit(X, labels)
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": "CRITICAL"}
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster) as client,
        dask.config.set(scheduler="distributed"),
    ):
        from calibrant.calibrators.partitions import DaskRows

        passes, victim = [], next(iter(client.run(os.getpid).values()))
        plain = DaskRows.sums

        def sums(self: DaskRows, function: object) -> list[object]:
            passes.append(1)
            if len(passes) == 3:
                threading.Timer(0.05, os.kill, (victim, signal.SIGKILL)).start()
            return plain(self, function)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DaskRows, "sums", sums)
            found = get_calibrator("sms").fit(X, labels)
    assert len(passes) > 3
    assert_same(found, expected, rtol=1e-12)
