"""Reading and writing prediction sets: every format gives back the arrays that were put in."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from calibrant.files.prediction_sets.experiments import (
    PARTS,
    Experiment,
    MemorySource,
    PredictionFileError,
    SplitPredictions,
    as_fold,
    select_experiments,
    with_digest,
)
from calibrant.files.prediction_sets.open_set import open_predictions
from tests.files.conftest import make_predictions
from tests.needs import needs

pytestmark = pytest.mark.bench


def assert_same(a: SplitPredictions, b: SplitPredictions) -> None:
    for part in PARTS:
        np.testing.assert_allclose(getattr(a, part), getattr(b, part), atol=2e-7, err_msg=part)


def in_memory(prediction_set: dict) -> list[tuple[Experiment, SplitPredictions]]:
    source = MemorySource(prediction_set)
    return [(e, source.load(e)) for e in source.experiments()]


def test_hdf5_round_trip_with_folds_and_index(prediction_set: dict, tmp_path: Path) -> None:
    from calibrant.files.prediction_sets.hdf5 import write_hdf5

    index = write_hdf5(tmp_path / "set.h5", in_memory(prediction_set))
    source = open_predictions(tmp_path / "set.h5")
    assert source.name == "set"
    assert {e.key for e in source.experiments()} == {(d, m, str(f)) for d, m, f in prediction_set}
    for e in source.experiments():
        assert_same(source.load(e), prediction_set[e.dataset, e.model, e.fold])
    with open(index, newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["dataset", "model", "fold", "cal_size", "test_size", "n_classes"]
    assert [int(r["cal_size"]) for r in rows] == [30, 30, 30, 9]
    assert sorted(os.listdir(tmp_path)) == ["set-experiments.csv", "set.h5"]


def test_hdf5_without_folds_as_published(tmp_path: Path) -> None:
    h5py = needs("h5py")
    rng = np.random.default_rng(0)
    p, y = rng.random(10), rng.integers(2, size=10)
    with h5py.File(tmp_path / "arena.h5", "w") as file:
        # Binary sets may store the probability of the second class alone.
        group = file.create_group("adult/CatBoost_c1")
        for name, value in zip(PARTS, (p[:6], y[:6], p[6:], y[6:].astype(float))):
            group[name] = value
    source = open_predictions(tmp_path / "arena.h5")
    assert source.experiments() == [Experiment("adult", "CatBoost_c1", 0, 6, 4, 2)]
    loaded = source.load(source.experiments()[0])
    np.testing.assert_array_equal(loaded.probas_cal[:, 1], p[:6])
    np.testing.assert_allclose(loaded.probas_cal[:, 0], 1 - p[:6])
    np.testing.assert_array_equal(loaded.labels_test, y[6:])


def test_index_chooses_and_orders_experiments(prediction_set: dict, tmp_path: Path) -> None:
    from calibrant.files.prediction_sets.hdf5 import write_hdf5

    write_hdf5(tmp_path / "set.h5", in_memory(prediction_set))
    index = tmp_path / "index.csv"
    index.write_text("dataset,model,cal_size,test_size,n_classes\niris,RF,30,12,3\ncoins,LR,9,12,2\n")
    chosen = open_predictions(tmp_path / "set.h5", index).experiments()
    assert [str(e) for e in chosen] == ["iris/RF/0", "coins/LR/0"]
    index.write_text("dataset,model\niris,SVM\n")
    with pytest.raises(PredictionFileError, match="line 2: iris/SVM"):
        open_predictions(tmp_path / "set.h5", index)


def test_npz_of_one_and_of_many(prediction_set: dict, tmp_path: Path) -> None:
    one = prediction_set["iris", "LR", 0]
    np.savez(tmp_path / "one.npz", **{part: getattr(one, part) for part in PARTS})
    source = open_predictions(tmp_path / "one.npz")
    assert [e.key for e in source.experiments()] == [("one", "model", "0")]
    assert_same(source.load(source.experiments()[0]), one)
    many = {f"{d}/{m}/{f}/{part}": getattr(p, part) for (d, m, f), p in prediction_set.items() for part in PARTS}
    np.savez_compressed(tmp_path / "many.npz", **many)
    source = open_predictions(tmp_path / "many.npz")
    assert len(source.experiments()) == 4
    for e in source.experiments():
        assert_same(source.load(e), prediction_set[e.dataset, e.model, e.fold])


def test_npz_refuses_pickled_objects(tmp_path: Path) -> None:
    np.savez(tmp_path / "evil.npz", **{part: np.array([1.0, "x"], dtype=object) for part in PARTS})
    with pytest.raises(PredictionFileError, match="Object arrays cannot be loaded"):
        open_predictions(tmp_path / "evil.npz")


@pytest.mark.parametrize("layout", ["list", "wide"])
def test_parquet_with_different_numbers_of_classes(prediction_set: dict, tmp_path: Path, layout: str) -> None:
    pa = needs("pyarrow")
    parquet = needs("pyarrow.parquet")
    rows: list[dict] = []
    for (d, m, f), p in prediction_set.items():
        for split in ("cal", "test"):
            probas, labels = getattr(p, f"probas_{split}"), getattr(p, f"labels_{split}")
            for q, y in zip(probas, labels):
                row = {"dataset": d, "model": m, "fold": f, "split": split, "label": int(y)}
                row |= (
                    {"probas": q.tolist()}
                    if layout == "list"
                    else {f"p_{j}": q[j] if j < len(q) else None for j in range(3)}
                )
                rows.append(row)
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "set.parquet")
    source = open_predictions(tmp_path / "set.parquet")
    assert [e.n_classes for e in source.experiments()] == [3, 3, 3, 2]
    for e in source.experiments():
        assert_same(source.load(e), prediction_set[e.dataset, e.model, e.fold])


def write_parts(group, **parts) -> None:
    p = make_predictions(3)
    for name in PARTS:
        if name not in parts:
            group[name] = getattr(p, name)
        elif parts[name] is not None:
            group[name] = parts[name]


def test_hdf5_reads_no_other_file(tmp_path: Path) -> None:
    h5py = needs("h5py")
    secret = tmp_path / "secret"
    secret.write_bytes(np.full((30, 3), 1 / 3).tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as file:
        write_parts(file.create_group("iris/LR"))
    layout = h5py.VirtualLayout((30, 3), "f8")
    layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "iris/LR/probas_cal", (30, 3))

    def storage(group) -> None:
        write_parts(group, probas_cal=None)
        group.create_dataset("probas_cal", (30, 3), "f8", external=[(str(secret), 0, 720)])

    def virtual(group) -> None:
        write_parts(group, probas_cal=None)
        group.create_virtual_dataset("probas_cal", layout)

    def link(group) -> None:
        write_parts(group, probas_cal=h5py.ExternalLink("other.h5", "/iris/LR/probas_cal"))

    def soft(group) -> None:
        write_parts(group, probas_cal=h5py.SoftLink("/elsewhere"))

    def linked_group(group) -> None:
        group["0"] = h5py.ExternalLink("other.h5", "/iris/LR")

    for number, make in enumerate((storage, virtual, link, soft, linked_group)):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            make(file.create_group("iris/LR"))
        with pytest.raises(PredictionFileError, match=rf"{number}\.h5.*(another file|is a link)"):
            open_predictions(path)


def test_sizes_are_checked_before_arrays_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    h5py = needs("h5py")
    pa, parquet = needs("pyarrow"), needs("pyarrow.parquet")
    with h5py.File(tmp_path / "bomb.h5", "w") as file:
        write_parts(file.create_group("iris/LR"), probas_cal=None)
        file["iris/LR"].create_dataset("probas_cal", (10**7, 10**5), "f8", chunks=True)
    source = open_predictions(tmp_path / "bomb.h5")
    with pytest.raises(PredictionFileError, match=r"bomb\.h5 would take 8e\+03 GB.*CALIBRANT_MAX_GB"):
        source.load(source.experiments()[0])
    monkeypatch.setenv("CALIBRANT_MAX_GB", "0.0002")
    parts = {name: np.zeros(200_000, dtype=np.int8) for name in PARTS}
    np.savez_compressed(tmp_path / "bomb.npz", **parts)
    table = pa.table({"p_0": np.zeros(200_000), "label": np.zeros(200_000), "split": ["cal"] * 200_000})
    parquet.write_table(table, tmp_path / "bomb.parquet")
    for name in ("bomb.npz", "bomb.parquet"):
        assert (tmp_path / name).stat().st_size < 10**5
        with pytest.raises(PredictionFileError, match=rf"{name} would take .* the limit is 0\.0002 GB"):
            open_predictions(tmp_path / name)


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".parquet"])
def test_damaged_files_are_named(prediction_set: dict, tmp_path: Path, suffix: str) -> None:
    from calibrant.files.prediction_sets.hdf5 import write_hdf5

    path = tmp_path / f"set{suffix}"
    if suffix == ".h5":
        write_hdf5(path, in_memory(prediction_set))
    elif suffix == ".npz":
        np.savez_compressed(path, **{part: getattr(make_predictions(3), part) for part in PARTS})
    else:
        pa, parquet = needs("pyarrow"), needs("pyarrow.parquet")
        parquet.write_table(pa.table({"p_0": [0.5], "p_1": [0.5], "label": [0], "split": ["cal"]}), path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for case in range(24):
        damaged = bytearray(whole[: int(rng.integers(len(whole)))] if case % 2 else whole)
        for place in rng.integers(max(len(damaged), 1), size=0 if case % 2 else 8):
            damaged[place] = rng.integers(256)
        path.write_bytes(bytes(damaged))
        try:
            source = open_predictions(path)
            for experiment in source.experiments():
                source.load(experiment)
        except PredictionFileError as error:
            named = str(error)
            assert path.name in named or path.stem in named


def test_folds_of_similar_names_stay_apart(tmp_path: Path) -> None:
    h5py = needs("h5py")
    with h5py.File(tmp_path / "set.h5", "w") as file:
        for fold in ("0", "00", "1"):
            write_parts(file.create_group(f"iris/LR/{fold}"))
    assert [e.fold for e in open_predictions(tmp_path / "set.h5").experiments()] == [0, "00", 1]
    p = make_predictions(3)
    parts = {f"iris/{middle}LR/{part}": getattr(p, part) for middle in ("", "/") for part in PARTS}
    np.savez(tmp_path / "twice.npz", **parts)
    with pytest.raises(PredictionFileError, match="iris/LR/0 appears twice"):
        open_predictions(tmp_path / "twice.npz")


def test_rows_of_a_replaced_file_do_not_count(tmp_path: Path) -> None:
    from calibrant.bench.runs.method_spec import make_spec
    from calibrant.bench.runs.one_fit import Options
    from calibrant.bench.runs.runner import plan, result_row

    spec, options = make_spec("none"), Options()

    def experiments(seed: int) -> list[Experiment]:
        p = make_predictions(3, seed)
        np.savez(tmp_path / "set.npz", **{part: getattr(p, part) for part in PARTS})
        source = open_predictions(tmp_path / "set.npz")
        return [with_digest(source, e) for e in source.experiments()]

    first = experiments(0)
    size = (tmp_path / "set.npz").stat().st_size
    row = result_row("set", first[0], spec, options, {"status": "ok"})
    done = {("set", *first[0].key, "none"): row}
    assert plan("set", experiments(0), [spec], options, done) == []
    assert len(plan("set", experiments(1), [spec], options, done)) == 1
    assert (tmp_path / "set.npz").stat().st_size == size


def test_folder_joins_files_and_refuses_doubles(prediction_set: dict, tmp_path: Path) -> None:
    from calibrant.files.prediction_sets.hdf5 import write_hdf5

    pairs = in_memory(prediction_set)
    write_hdf5(tmp_path / "a.h5", pairs[:2])
    write_hdf5(tmp_path / "b.h5", pairs[2:])
    source = open_predictions(tmp_path)
    assert len(source.experiments()) == 4
    for e in source.experiments():
        assert_same(source.load(e), prediction_set[e.dataset, e.model, e.fold])
    write_hdf5(tmp_path / "c.h5", pairs[:1])
    with pytest.raises(PredictionFileError, match=r"c\.h5 and in"):
        open_predictions(tmp_path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([[0.5, 0.6]], [0], [[0.5, 0.5]], [0]), "Row 0 of probas_cal in predictions sums to 1.1"),
        (([[0.5, 0.5]], [2], [[0.5, 0.5]], [0]), "labels_cal in predictions holds 2 at row 0, which is not in 0..1"),
        (([[0.5, 0.5]], [0], [[0.5, 0.5]], ["a"]), "column numbers"),
        (([[0.5, 0.5]], [0, 1], [[0.5, 0.5]], [0]), r"shape \(2,\), expected \(1,\)"),
        (([[0.5, 0.5]], [0], [[0.5, 0.25, 0.25]], [0]), "2 classes in probas_cal, 3"),
        (
            ([[np.nan, 0.5]], [0], [[0.5, 0.5]], [0]),
            "probas_cal in predictions contains NaN or infinity",
        ),
    ],
)
def test_bad_arrays_are_named(arrays: tuple, message: str) -> None:
    with pytest.raises(PredictionFileError, match=message):
        SplitPredictions.checked(*arrays)


def test_unknown_names_and_files_say_what_there_is(prediction_set: dict, tmp_path: Path) -> None:
    experiments = MemorySource(prediction_set).experiments()
    assert len(select_experiments(experiments, datasets=["iris"], folds=["0"])) == 2
    with pytest.raises(PredictionFileError, match="no model named SVM; there are LR, RF"):
        select_experiments(experiments, models=["SVM"])
    with pytest.raises(PredictionFileError, match="no such file"):
        open_predictions(tmp_path / "none.h5")
    (tmp_path / "bad.h5").write_text("not HDF5")
    with pytest.raises(PredictionFileError, match="not a readable HDF5"):
        open_predictions(tmp_path / "bad.h5")
    (tmp_path / "table.txt").write_text("")
    with pytest.raises(PredictionFileError, match=r"expected \.h5"):
        open_predictions(tmp_path / "table.txt")


class _Repository:
    """The part of TabRepo's repository that is used, with its shapes: one column for binary tasks."""

    def __init__(self, prediction_set: dict) -> None:
        self._set = prediction_set

    def datasets(self) -> list[str]:
        return ["iris", "coins", "boston"]

    def configs(self) -> list[str]:
        return ["LR"]

    def dataset_info(self, dataset: str) -> dict[str, str]:
        return {"problem_type": "regression" if dataset == "boston" else "classification"}

    def _probas(self, part: str, dataset: str, fold: int, config: str) -> np.ndarray:
        p = getattr(self._set[dataset, config, fold], part)
        return p[:, 1] if p.shape[1] == 2 else p

    def predict_val(self, dataset: str, fold: int, config: str) -> np.ndarray:
        return self._probas("probas_cal", dataset, fold, config)

    def predict_test(self, dataset: str, fold: int, config: str) -> np.ndarray:
        return self._probas("probas_test", dataset, fold, config)

    def labels_val(self, dataset: str, fold: int) -> np.ndarray:
        return self._set[dataset, "LR", fold].labels_cal

    def labels_test(self, dataset: str, fold: int) -> np.ndarray:
        return self._set[dataset, "LR", fold].labels_test


def test_repository_object(prediction_set: dict) -> None:
    from calibrant.files.prediction_sets.experiments import RepositorySource

    source = RepositorySource(_Repository(prediction_set))
    assert [str(e) for e in source.experiments()] == ["iris/LR/0", "coins/LR/0"]
    for e in source.experiments():
        assert_same(source.load(e), prediction_set[e.dataset, e.model, e.fold])


@pytest.mark.predictions
def test_real_files_match_their_index(predictions_folder: Path) -> None:
    path = min(predictions_folder.glob("*.h5"), key=lambda path: path.stat().st_size)
    source = open_predictions(path)
    with open(path.with_name(f"{path.stem}-experiments.csv"), newline="") as file:
        rows = {
            (r["dataset"], r["model"], r["fold"], int(r["cal_size"]), int(r["n_classes"])) for r in csv.DictReader(file)
        }
    assert {(*e.key, e.n_cal, e.n_classes) for e in source.experiments()} == rows
    source.load(source.experiments()[0])


def test_folds_written_like_whole_numbers_are_numbers() -> None:
    assert [as_fold(text) for text in ("2", "0", "r0f1", "00", "-1", "")] == [2, 0, "r0f1", "00", "-1", ""]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": [1.0]}, "no array probas_cal; there are x"),
        ({"probas_cal": [0.5], "labels_cal": [0]}, "archive lacks probas_test, labels_test"),
        ({f"a/b/c/d/{part}": [0.5] if "p" in part else [0] for part in PARTS}, "found 4 levels"),
    ],
)
def test_archives_that_are_no_prediction_sets(tmp_path: Path, arrays: dict[str, list], message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(PredictionFileError, match=message):
        open_predictions(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": [0], "p_0": [0.5]}, "no column split; there are label, p_0"),
        ({"label": [0], "split": ["cal"]}, "no probabilities"),
        ({"label": [0], "split": ["train"], "p_0": [0.5], "p_1": [0.5]}, "split is 'train', expected cal or test"),
        ({"label": [0], "split": ["cal"], "p_0": [0.5], "p_1": [0.5]}, "a/model/0 has no rows with split test"),
    ],
)
def test_tables_that_are_no_prediction_sets(tmp_path: Path, columns: dict[str, list], message: str) -> None:
    needs("pyarrow.parquet").write_table(needs("pyarrow").table(columns), tmp_path / "a.parquet")
    with pytest.raises(PredictionFileError, match=message):
        open_predictions(tmp_path / "a.parquet")


def test_an_index_belongs_to_hdf5_and_names_what_is_there(tmp_path: Path) -> None:
    from calibrant.files.prediction_sets.hdf5 import write_hdf5

    p = SplitPredictions.checked([[0.2, 0.8]], [1], [[0.4, 0.6]], [0])
    write_hdf5(tmp_path / "a.h5", [(p.describe("d", "m", fold), p) for fold in (0, 1)])
    index = tmp_path / "index.csv"
    for text, folds in (("dataset,model,fold\nd,m,1\n", ["1"]), ("dataset,model\nd,m\n", ["0", "1"])):
        index.write_text(text)
        assert [e.key[2] for e in open_predictions(tmp_path / "a.h5", index).experiments()] == folds
    for text, message in (
        ("dataset,fold\nd,1\n", "no column model"),
        ("dataset,model,fold\nd,m,0\nd,m,2\n", "line 3: d/m is not in the file"),
    ):
        index.write_text(text)
        with pytest.raises(PredictionFileError, match=message):
            open_predictions(tmp_path / "a.h5", index)
    np.savez(tmp_path / "b.npz", x=[1.0])
    with pytest.raises(PredictionFileError, match=r"an index belongs to an HDF5 file, not to b\.npz"):
        open_predictions(tmp_path / "b.npz", index)
    (tmp_path / "empty").mkdir()
    with pytest.raises(PredictionFileError, match="no prediction files"):
        open_predictions(tmp_path / "empty")
