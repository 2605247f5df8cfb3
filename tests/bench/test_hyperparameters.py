"""The hyperparameter search: groups, objective, resuming, comparison on the control group, files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.needs import needs
from tests.samples import draw_labels

pytestmark = pytest.mark.bench
pd = needs("pandas")
optuna = needs("optuna")

from scipy import stats  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from calibrant import get_calibrator  # noqa: E402
from calibrant.bench import hyperparameters as search_module  # noqa: E402
from calibrant.bench import search_report  # noqa: E402
from calibrant.bench.hyperparameters import (  # noqa: E402
    LAMBDA,
    RHO,
    TAU,
    SearchOptions,
    search_hyperparameters,
    split_datasets,
)
from calibrant.bench.runs.pool import Answer  # noqa: E402
from calibrant.bench.search_report import compare_on_control, redraw_search  # noqa: E402
from calibrant.cli.bench_commands import app  # noqa: E402
from calibrant.files.prediction_sets.experiments import MemorySource, SplitPredictions  # noqa: E402
from tests.bench.here import HerePool, work_here  # noqa: E402


def overconfident(seed, n=100, k=3):
    """Predictions whose logits are too large by a factor and off by a constant."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(2 * n, k))
    labels = draw_labels(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), rng)
    stated = np.exp((1.0 + 0.3 * (seed % 4)) * logits + 0.4 * np.arange(k) * (seed % 3))
    stated /= stated.sum(axis=1, keepdims=True)
    return SplitPredictions.checked(stated[:n], labels[:n], stated[n:], labels[n:])


@pytest.fixture(scope="module")
def source():
    return MemorySource(
        {(f"d{d}", m, 0): overconfident(10 * d + i) for d in range(3) for i, m in enumerate("ab")}, "toy"
    )


@pytest.fixture
def writing(monkeypatch):
    work_here(monkeypatch)


@pytest.fixture
def in_memory(monkeypatch):
    """A study that no database keeps: making one takes longer than a short search."""
    storage = optuna.storages.InMemoryStorage()
    monkeypatch.setattr(optuna.storages, "get_storage", lambda _: storage)


@pytest.fixture
def here(writing, monkeypatch):
    """Without files, since drawing takes longer than searching."""
    monkeypatch.setattr(search_module, "write_search", lambda result, directory: None)


def brier(predictions, calibrator):
    p = calibrator.fit(predictions.probas_cal, predictions.labels_cal).predict_proba(predictions.probas_test)
    return ((p - np.eye(p.shape[1])[predictions.labels_test]) ** 2).sum(axis=1).mean()


def test_split_takes_odd_ranks_for_the_search():
    gains = dict(zip("abcdefg", [3, 9, 1, 7, 5, 2, 8]))
    assert split_datasets(gains) == (["b", "d", "a", "c"], ["g", "e", "f"])


@pytest.mark.usefixtures("here", "in_memory")
@pytest.mark.parametrize("calibrator", ["sms", pytest.param("svs", marks=pytest.mark.slow)])
def test_objective_and_groups_by_hand(tmp_path, source, calibrator):
    result = search_hyperparameters(source, tmp_path, SearchOptions(calibrator, n_trials=2), n_jobs=1)
    by_dataset = {}
    for e in source.experiments():
        p = source.load(e)
        gain = brier(p, get_calibrator("none")) - brier(p, get_calibrator("ts"))
        by_dataset.setdefault(e.dataset, []).append(gain)
    ranked = sorted(by_dataset, key=lambda name: -np.mean(by_dataset[name]))
    assert (result.searched, result.control) == (ranked[::2], ranked[1::2])
    assert result.trials[0]["brier_improvement"] != result.trials[1]["brier_improvement"]
    for trial in result.trials:
        parameters = {name: value for name, value in trial.items() if name in result.defaults}
        gains = [
            brier(source.load(e), get_calibrator("none"))
            - brier(source.load(e), get_calibrator(calibrator, **parameters))
            for e in source.experiments()
            if e.dataset in result.searched
        ]
        assert trial["brier_improvement"] == pytest.approx(np.mean(gains), abs=1e-9)
    assert {name: value for name, value in result.trials[0].items() if name in result.defaults} == result.defaults
    best = max(result.trials, key=lambda trial: trial["brier_improvement"])
    assert result.best == {name: best[name] for name in result.defaults}
    assert ("lambda_off_diagonal" in result.best) == (calibrator == "sms")


@pytest.mark.usefixtures("here", "in_memory")
def test_space_is_the_papers(tmp_path, source, monkeypatch):
    # Fits of another test: which configurations are tried is what matters here.
    rng = np.random.default_rng(0)
    gains = lambda self, experiments, parameters, bar: {e.key: rng.normal() for e in experiments}  # noqa: E731
    monkeypatch.setattr(search_module._Search, "improvements", gains)
    trials = search_hyperparameters(source, tmp_path, SearchOptions("svs", n_trials=9)).trials[1:]
    assert {trial["rho"] for trial in trials} <= set(RHO)
    assert {trial["tau"] for trial in trials} <= set(TAU)
    assert len({trial["rho"] for trial in trials}) > 1
    strengths = [trial["lambda_diagonal"] for trial in trials]
    assert min(strengths) >= LAMBDA[0]
    assert max(strengths) <= LAMBDA[1]
    assert min(strengths) < 1 < max(strengths)


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
@pytest.mark.usefixtures("here")
def test_resumed_and_interrupted_searches_end_as_an_uninterrupted_one(tmp_path, source, monkeypatch):
    whole = search_hyperparameters(source, tmp_path / "whole", SearchOptions("svs", n_trials=12))
    assert len(whole.trials) == 12
    search_hyperparameters(source, tmp_path / "parts", SearchOptions("svs", n_trials=5))
    parts = search_hyperparameters(source, tmp_path / "parts", SearchOptions("svs", n_trials=12))
    assert parts.trials == whole.trials

    class Interrupted(HerePool):
        calls = 0

        def run(self, batches):
            type(self).calls += 1
            if type(self).calls in (3, 9):
                raise KeyboardInterrupt
            yield from super().run(batches)

    monkeypatch.setattr(search_module, "ProcessPool", Interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            search_hyperparameters(source, tmp_path / "torn", SearchOptions("svs", n_trials=12))
    torn = search_hyperparameters(source, tmp_path / "torn", SearchOptions("svs", n_trials=12))
    complete = [{**trial, "trial": 0} for trial in torn.trials if trial["state"] == "complete"]
    assert complete == [{**trial, "trial": 0} for trial in whole.trials]
    assert torn.best == whole.best


@pytest.mark.usefixtures("here", "in_memory")
def test_another_search_in_the_same_folder_is_refused(tmp_path, source):
    search_hyperparameters(source, tmp_path, SearchOptions("svs", n_trials=1))
    with pytest.raises(ValueError, match="seed was 0, is 3"):
        search_hyperparameters(source, tmp_path, SearchOptions("svs", n_trials=2, seed=3))
    with pytest.raises(ValueError, match="holds a search of svs-ridge, not of sms-ridge"):
        search_hyperparameters(source, tmp_path, SearchOptions("sms", n_trials=2))
    fewer = [e for e in source.experiments() if e.model == "a"]
    with pytest.raises(ValueError, match="experiments was"):
        search_hyperparameters(source, tmp_path, SearchOptions("svs", n_trials=2), experiments=fewer)


@pytest.mark.usefixtures("here")
def test_one_dataset_is_too_few(tmp_path, source):
    one = [e for e in source.experiments() if e.dataset == "d0"]
    with pytest.raises(ValueError, match="at least two datasets, found 1"):
        search_hyperparameters(source, tmp_path, experiments=one)


@pytest.mark.usefixtures("writing")
def test_failing_configurations_are_failed_trials(tmp_path, source, monkeypatch):
    class Failing(HerePool):
        def run(self, batches):
            for (experiment, specs), answers in super().run(batches):
                bad = specs[0].params.get("rho", 1) < 1
                yield (experiment, specs), [Answer("failed", message="bad luck")] if bad else answers

    monkeypatch.setattr(search_module, "ProcessPool", Failing)
    monkeypatch.setattr(search_report, "save", lambda figure, directory, name: [])
    result = search_hyperparameters(source, tmp_path, SearchOptions("svs", n_trials=5))
    failed = [trial for trial in result.trials if trial["state"] == "fail"]
    assert failed
    assert all(trial["rho"] < 1 for trial in failed)
    assert len(result.trials) == 5
    assert result.best["rho"] == 1.0
    json.loads((tmp_path / "search.json").read_text())


def test_wrong_options():
    with pytest.raises(ValueError, match="calibrator must be one of svs, sms, got 'ts'"):
        SearchOptions("ts")
    with pytest.raises(ValueError, match="penalty must be one of"):
        SearchOptions(penalty="l1")
    with pytest.raises(ValueError, match="n_trials"):
        SearchOptions(n_trials=0)


def test_comparison_is_a_paired_test_over_datasets():
    rng = np.random.default_rng(0)
    names = [f"d{i}" for i in range(12)]
    default = {(name, model, "0"): rng.normal() for name in names for model in "abc"}
    best = {key: value + 0.3 + 0.5 * rng.normal() for key, value in default.items()}
    found = compare_on_control(default, best, names)
    x, y = (np.array([np.mean([c[name, m, "0"] for m in "abc"]) for name in names]) for c in (default, best))
    assert found.p_value == pytest.approx(stats.wilcoxon(y, x).pvalue)
    assert found.difference == pytest.approx((y - x).mean())
    assert found.low < found.difference < found.high
    assert (found.n_better, found.n_worse) == ((y > x).sum(), (y < x).sum())
    assert compare_on_control(default, default, names).p_value == 1.0
    assert "do the same" in compare_on_control(default, default, names).sentence()
    one = compare_on_control({("d", "a", "0"): 1.0}, {("d", "a", "0"): 2.0}, ["d"])
    assert one.sentence() == "1 control dataset: too few for a paired test."


def test_the_outcome_of_a_search_in_words():
    shared = (["a", "b", "c"], [0.1] * 3, [0.2] * 3)
    for difference, p_value, verdict in (
        (0.01, 0.04, "better"),
        (-0.01, 0.04, "worse"),
        (0.01, 0.05, "no significant"),
    ):
        said = search_report.Comparison(*shared, difference, -0.02, 0.03, p_value, 2, 1).sentence()
        assert said.startswith(
            f"On 3 control datasets the best configuration improves the Brier score by {difference:+.5f} over the "
            "defaults (95 % interval -0.02000 to +0.03000), better on 2 and worse on 1; Wilcoxon p = "
        )
        assert f"{p_value:.3g}: {verdict}" in said


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
@pytest.mark.usefixtures("writing")
def test_files_and_redrawing(tmp_path, source):
    search_hyperparameters(source, tmp_path, SearchOptions("sms", n_trials=3, penalty="lasso"))
    content = json.loads((tmp_path / "search.json").read_text())
    assert content["penalty"] == "lasso"
    assert content["versions"]["optuna"] == optuna.__version__
    assert len(content["comparison"]["datasets"]) == 1
    for name in ("search_trials", "search_best", "search_groups", "search_control"):
        for ending in ("csv", "md", "tex"):
            assert (tmp_path / "tables" / f"{name}.{ending}").is_file()
    groups = pd.read_csv(tmp_path / "tables" / "search_groups.csv")
    assert groups["group"].tolist() == ["search", "control", "search"]
    assert groups["ts_improvement"].is_monotonic_decreasing
    before = (tmp_path / "figures" / "search.png").read_bytes()
    assert [path.suffix for path in redraw_search(tmp_path)] == [".pdf", ".png"]
    assert (tmp_path / "figures" / "search.png").read_bytes() == before


@pytest.mark.slow
def test_command_line_with_processes(tmp_path, source, monkeypatch):
    arrays = {}
    for e in source.experiments():
        p = source.load(e)
        for part in ("probas_cal", "labels_cal", "probas_test", "labels_test"):
            arrays[f"{e.dataset}/{e.model}/{part}"] = getattr(p, part)
    np.savez(tmp_path / "toy.npz", **arrays)
    arguments = ["--predictions", str(tmp_path / "toy.npz"), "-o", str(tmp_path / "out"), "--calibrator", "svs"]
    run = CliRunner().invoke(app, ["search", *arguments, "--trials", "3", "--jobs", "2"])
    assert run.exit_code == 0, run.output
    assert run.output.strip().endswith("search.json")
    trials = pd.read_csv(tmp_path / "out" / "tables" / "search_trials.csv")
    work_here(monkeypatch)
    monkeypatch.setattr(search_module, "write_search", lambda result, directory: None)
    alone = search_hyperparameters(source, tmp_path / "alone", SearchOptions("svs", n_trials=3), n_jobs=1)
    np.testing.assert_allclose(
        trials["brier_improvement"], [trial["brier_improvement"] for trial in alone.trials], atol=1e-12
    )
    run = CliRunner().invoke(app, ["search", "-o", str(tmp_path / "out"), "--redraw"])
    assert "search.png" in run.output
    run = CliRunner().invoke(app, ["search", "-o", str(tmp_path / "out")])
    assert (run.exit_code, "name the predictions" in run.output) == (2, True)
