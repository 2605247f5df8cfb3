"""The runner: what it writes, what it survives, what it does not do twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from calibrant.bench.runs.drawn_rows import Draw, subsampled
from calibrant.bench.runs.method_spec import MethodSpec, make_spec
from calibrant.bench.runs.one_fit import Options, evaluate, fit_method, unfinished
from calibrant.bench.runs.runner import plan, result_row, run_benchmark
from calibrant.bench.runs.store import COLUMNS, ResultFolder, merge_results, row_key
from calibrant.files.prediction_sets.experiments import MemorySource, SplitPredictions
from calibrant.files.prediction_sets.hdf5 import write_hdf5
from tests.bench.here import work_here
from tests.bench.odd_methods import fits
from tests.needs import needs
from tests.samples import draw_labels

pd = needs("pandas")
needs("pyarrow")
pytestmark = pytest.mark.bench


def predictions(n_classes: int, seed: int) -> SplitPredictions:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(n_classes, 0.7), 240).astype(np.float32)
    y = draw_labels(p.astype(float), rng)
    return SplitPredictions.checked(p[:200], y[:200], p[200:], y[200:])


@pytest.fixture(scope="module")
def source() -> MemorySource:
    keys = [("iris", "LR", 0), ("iris", "LR", 1), ("iris", "RF", 0), ("coins", "LR", 0)]
    return MemorySource({key: predictions(2 if key[0] == "coins" else 3, i) for i, key in enumerate(keys)}, "tiny")


@pytest.fixture(scope="module")
def file(source: MemorySource, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("predictions") / "tiny.h5"
    write_hdf5(path, [(e, source.load(e)) for e in source.experiments()])
    return path


def shrink(tmp_path: Path, **params: float) -> tuple[str, Path]:
    count = tmp_path / "count"
    arguments = ", ".join(f"{k}={v!r}" for k, v in {"count": str(count), **params}.items())
    return f"shrink=tests.bench.odd_methods:Shrink({arguments})", count


def test_results_are_tidy_and_right(
    source: MemorySource, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sklearn.metrics import accuracy_score, log_loss

    work_here(monkeypatch)
    run_benchmark(file, ["tests.bench.odd_methods:Shrink(weight=0.25)"], tmp_path, n_jobs=1)
    table = pd.read_parquet(tmp_path / "results.parquet")
    assert list(table.columns) == list(COLUMNS)
    assert len(table) == 8
    assert set(table["method"]) == {"none", "tests.bench.odd_methods:Shrink(weight=0.25)"}
    assert (table["status"] == "ok").all()
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "results.csv", keep_default_na=False, na_values={"draw": [""]}), table, check_dtype=False
    )
    for e in source.experiments():
        p = source.load(e)
        for method, weight in (("none", 0.0), ("tests.bench.odd_methods:Shrink(weight=0.25)", 0.25)):
            q = (1 - weight) * p.probas_test + weight / e.n_classes
            rows = table[(table.dataset == e.dataset) & (table.model == e.model) & (table.fold == e.fold)]
            row = rows[rows.method == method].iloc[0]
            one_hot = np.eye(e.n_classes)[p.labels_test]
            assert row.logloss == pytest.approx(log_loss(p.labels_test, q, labels=range(e.n_classes)), abs=1e-6)
            assert row.brier == pytest.approx(((q - one_hot) ** 2).sum(axis=1).mean(), abs=1e-6)
            assert row.accuracy == accuracy_score(p.labels_test, q.argmax(axis=1))
            assert (row.n_cal, row.n_test, row.n_classes) == (200, 40, e.n_classes)
    run = json.loads((tmp_path / "run.json").read_text())["runs"][0]
    assert {"python", "numpy", "calibrant"} <= set(run["versions"])
    assert run["command"] == sys.argv


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
def test_a_bad_method_leaves_its_row_and_the_run_goes_on(source: MemorySource, tmp_path: Path) -> None:
    names = ["Failing", "Hanging", "Crashing", "Narrow", "Undefined", "Talkative", "Shrink"]
    one = source.experiments()[:1]
    methods = [f"{n}=tests.bench.odd_methods:{n}" for n in names]
    run_benchmark(source, methods, tmp_path, experiments=one, options=Options(time_limit=1.5), n_jobs=1)
    table = pd.read_csv(tmp_path / "results.csv", keep_default_na=False).set_index("method")
    assert table["status"].to_dict() == {
        "none": "ok",
        "Failing": "failed",
        "Hanging": "timeout",
        "Crashing": "failed",
        "Narrow": "failed",
        "Undefined": "failed",
        "Talkative": "ok",
        "Shrink": "ok",
    }
    assert table.loc["Failing", "message"] == "ArithmeticError: this method always fails"
    assert table.loc["Hanging", "message"] == "stopped after 1.5 s"
    assert "SIGSEGV" in table.loc["Crashing", "message"]
    assert "shape (40, 2)" in table.loc["Narrow", "message"]
    assert table.loc["Failing", "logloss"] == ""


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
def test_what_is_done_is_not_done_again(file: Path, tmp_path: Path) -> None:
    method, count = shrink(tmp_path)
    out = tmp_path / "out"
    run_benchmark(file, [method], out, n_jobs=1)
    assert fits(count) == 4
    before = (out / "results.csv").read_bytes()
    run_benchmark(file, [method], out, n_jobs=1)
    assert fits(count) == 4
    assert (out / "results.csv").read_bytes() == before
    # A new method is run alone; new parameters run their method again.
    run_benchmark(file, [method, "tests.bench.odd_methods:Shrink"], out, n_jobs=1)
    assert fits(count) == 4
    run_benchmark(file, [shrink(tmp_path, weight=0.5)[0]], out, n_jobs=1)
    assert fits(count) == 8
    table = pd.read_parquet(out / "results.parquet")
    assert len(table) == 12
    assert not table.duplicated(["dataset", "model", "fold", "method"]).any()


def test_failed_rows_are_kept_unless_asked(source: MemorySource, tmp_path: Path) -> None:
    experiment, spec = source.experiments()[0], make_spec("tests.bench.odd_methods:Failing")
    done = {}
    for status in ("ok", "failed", "timeout"):
        row = result_row("tiny", experiment, spec, Options(), unfinished(status, ""))
        done[row_key(row)] = row
        assert plan("tiny", [experiment], [spec], Options(), done) == []
        expected = [] if status == "ok" else [(experiment, [spec])]
        assert plan("tiny", [experiment], [spec], Options(), done, retry=True) == expected


def test_methods_skip_experiments_they_are_not_made_for(source: MemorySource) -> None:
    spec = MethodSpec("affine", "affine", multiclass=False)
    todo = plan("tiny", source.experiments(), [spec], Options(), {})
    assert [e.dataset for e, _ in todo] == ["coins"]


def test_a_new_version_runs_again(source: MemorySource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[1] / "odd_methods.py").read_text()
    module = tmp_path / "changing_methods.py"
    module.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    first = make_spec("changing_methods:Shrink")
    assert first.fingerprint == make_spec("changing_methods:Shrink").fingerprint
    module.write_text(text + "\n")
    assert first.fingerprint != make_spec("changing_methods:Shrink").fingerprint
    assert first.fingerprint != make_spec("changing_methods:Shrink", {"weight": 0.5}).fingerprint


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
def test_a_torn_line_is_ignored(file: Path, tmp_path: Path) -> None:
    method, count = shrink(tmp_path)
    out = tmp_path / "out"
    run_benchmark(file, [method], out, n_jobs=1)
    log = out / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    torn = next(i for i, line in enumerate(lines) if '"shrink"' in line)
    log.write_text("".join(lines[:torn] + lines[torn + 1 :]) + lines[torn][:40])
    run_benchmark(file, [method], out, n_jobs=1)
    assert fits(count) == 5
    assert len(pd.read_csv(out / "results.csv")) == 8


@pytest.mark.slow
def test_killed_without_warning_it_continues(file: Path, tmp_path: Path) -> None:
    method, count = shrink(tmp_path, seconds=0.5)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "calibrant", "bench", "run", "--predictions", str(file)]
    command += ["--methods", method, "--out", str(out), "--jobs", "1"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.Popen(command, env=env, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while fits(count) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    assert 2 <= fits(count) < 4
    under_way = fits(count) - sum('"shrink"' in line for line in (out / "log.jsonl").read_text().splitlines())
    assert under_way <= 1
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""  # nobody watches: no progress bar
    assert "8 rows" in done.stdout
    assert fits(count) == 4 + under_way
    assert (pd.read_parquet(out / "results.parquet")["status"] == "ok").all()


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
def test_merged_folders_continue_like_any_other(source: MemorySource, tmp_path: Path) -> None:
    two = source.experiments()[:2]
    for name, experiment in zip("ab", two):
        run_benchmark(source, [], tmp_path / name, experiments=[experiment], n_jobs=1)
    merge_results([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    lines = (tmp_path / "c" / "log.jsonl").read_text()
    run_benchmark(source, [], tmp_path / "c", experiments=two, n_jobs=1)
    assert (tmp_path / "c" / "log.jsonl").read_text() == lines
    assert len(pd.read_csv(tmp_path / "c" / "results.csv")) == 2
    assert [run["folder"] for run in json.loads((tmp_path / "c" / "run.json").read_text())["runs"][:2]]
    with pytest.raises(FileNotFoundError, match="no results"):
        merge_results([tmp_path], tmp_path / "d")


def test_merging_keeps_what_finished(tmp_path: Path) -> None:
    row = {"benchmark": "b", "dataset": "d", "model": "m", "fold": 0, "method": "ts", "n_cal": 1}
    for name, status, loss in (("a", "ok", 0.5), ("b", "timeout", float("nan")), ("c", "ok", 0.25)):
        with ResultFolder(tmp_path / name).appending() as write:
            write({**row, "status": status, "logloss": loss})
    for order, expected in (("ab", 0.5), ("ba", 0.5), ("acb", 0.25), ("bca", 0.5)):
        out = merge_results([tmp_path / name for name in order], tmp_path / f"out-{order}")
        assert pd.read_csv(out / "results.csv")["logloss"].tolist() == [expected]


def test_subsampling_is_seeded_and_counts_as_other_data(
    source: MemorySource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_here(monkeypatch)
    e = source.experiments()[0]
    p = source.load(e)
    a, b = (subsampled(p, e, 150, seed=1) for _ in range(2))
    np.testing.assert_array_equal(a.probas_cal, b.probas_cal)
    assert a.probas_cal.shape == (150, 3)
    assert not np.array_equal(a.probas_cal, subsampled(p, e, 150, seed=2).probas_cal)
    pairs = {tuple(row) for row in np.column_stack([p.probas_cal, p.labels_cal])}
    assert {tuple(row) for row in np.column_stack([a.probas_cal, a.labels_cal])} <= pairs
    assert subsampled(p, e, 200, seed=1) is p
    method, count = shrink(tmp_path)
    for options in (Options(), Options(max_cal_rows=150), Options(max_cal_rows=150)):
        run_benchmark(source, [method], tmp_path / "out", experiments=[e], options=options, n_jobs=1)
    assert fits(count) == 2
    assert pd.read_csv(tmp_path / "out" / "results.csv")["n_cal"].tolist() == [150, 150]


def test_one_run_a_folder(file: Path, tmp_path: Path) -> None:
    with ResultFolder(tmp_path).locked(), pytest.raises(RuntimeError, match="another process is using"):
        run_benchmark(file, [], tmp_path, n_jobs=1)


def test_what_goes_wrong_in_a_fit_is_its_outcome(source: MemorySource) -> None:
    p = source.load(source.experiments()[0])
    for name, message in (
        ("Failing", "ArithmeticError: this method always fails"),
        ("Narrow", "ValueError: predict_proba returned shape (40, 2), expected (40, 3)"),
        ("Undefined", "predict_proba's result"),
    ):
        outcome = evaluate(p, make_spec(f"tests.bench.odd_methods:{name}"))
        assert outcome["status"] == "failed"
        assert message in outcome["message"]
        assert np.isnan([outcome["logloss"], outcome["brier"], outcome["fit_seconds"]]).all()
    assert len(unfinished("failed", "long " * 200)["message"]) == 500
    with pytest.raises(ValueError, match="cannot read the predictions: FileNotFoundError"):
        fit_method(source.experiments()[0], "absent.npz", Options(), make_spec("none"))


def test_what_is_done_and_what_was_drawn_is_not_done_again(
    source: MemorySource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_here(monkeypatch)
    monkeypatch.setattr("calibrant.bench.runs.drawn_rows.MIN_OTHERS", 50)
    method, count = shrink(tmp_path)
    options = Options(draw=Draw((120,), repeats=2, labels="drawn"))
    for _ in range(2):
        run_benchmark(source, [method], tmp_path / "out", experiments=source.experiments()[:1], options=options)
    assert fits(count) == 2
    table = pd.read_csv(tmp_path / "out" / "results.csv")
    assert table["fold"].unique().tolist() == ["0-n120-r0", "0-n120-r1"]
    assert (set(table["labels"]), set(table["draw"])) == ({"drawn"}, {120})
    # Expected losses of true probabilities are the smallest.
    none, shrunk = (table[table["method"] == name]["logloss"].to_numpy() for name in ("none", "shrink"))
    assert (shrunk > none).all()
    with pytest.raises(ValueError, match="leave out the limit of calibration rows"):
        Options(max_cal_rows=10, draw=Draw((30,)))
