"""The same plan on a dask cluster: the same results, whatever happens to a worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from calibrant.bench.runs.cluster import DaskPool
from calibrant.bench.runs.one_fit import Options
from calibrant.bench.runs.pool import Batch, Job
from calibrant.bench.runs.runner import run_benchmark
from calibrant.files.prediction_sets.experiments import MemorySource, SplitPredictions
from calibrant.files.prediction_sets.hdf5 import write_hdf5
from tests.bench.odd_methods import fits
from tests.needs import needs

pd = needs("pandas")
dask = needs("dask")
distributed = needs("distributed")
pytestmark = [
    pytest.mark.bench,
    pytest.mark.dask,
    pytest.mark.slow,
    # A worker that was killed leaves sockets and loops behind, which is not what is tested here.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def source() -> MemorySource:
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(3), 160), rng.integers(3, size=160)
    arrays = SplitPredictions.checked(p[:120], y[:120], p[120:], y[120:])
    return MemorySource({("iris", "LR", fold): arrays for fold in range(12)}, "cluster")


@pytest.fixture
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL"
    ) as cluster:
        yield cluster


def test_a_killed_worker_costs_only_its_tasks(source: MemorySource, cluster, tmp_path: Path) -> None:
    file = tmp_path / "cluster.h5"
    write_hdf5(file, [(e, source.load(e)) for e in source.experiments()])
    count = tmp_path / "count"
    method = f"slow=tests.bench.odd_methods:Shrink(count={str(count)!r}, seconds=0.3)"

    def kill_one() -> None:
        while fits(count) < 4:
            time.sleep(0.02)
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    run_benchmark(file, [method, "tests.bench.odd_methods:Failing"], tmp_path / "out", dask=cluster.scheduler_address)
    killer.join()
    table = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert len(table) == 36
    assert set(table[table["method"] != "tests.bench.odd_methods:Failing"]["status"]) == {"ok"}
    # Only what the dead worker held is fitted twice; a unit has one or two fits of this method.
    assert 12 <= fits(count) <= 12 + 4


def test_sets_without_a_file_are_sent(source: MemorySource, cluster, tmp_path: Path) -> None:
    with distributed.Client(cluster) as client:
        options = Options(time_limit=1.0)
        methods = ["tests.bench.odd_methods:Shrink", "tests.bench.odd_methods:Hanging"]
        run_benchmark(
            source, methods, tmp_path / "a", experiments=source.experiments()[:2], options=options, dask=client
        )
    run_benchmark(
        source, ["tests.bench.odd_methods:Shrink"], tmp_path / "b", experiments=source.experiments()[:2], n_jobs=1
    )
    there, here = (pd.read_parquet(tmp_path / name / "results.parquet") for name in "ab")
    assert (there[there["method"] == "tests.bench.odd_methods:Hanging"]["status"] == "timeout").all()
    there = there[there["method"] != "tests.bench.odd_methods:Hanging"].reset_index(drop=True)
    losses = ["dataset", "fold", "method", "status", "logloss", "brier", "accuracy", "ece"]
    pd.testing.assert_frame_equal(there[losses], here[losses])


def held(count: int) -> list[Batch]:
    """A quick job, then jobs that take longer than any test."""
    return [("quick", [Job(len, ("abc",))]), *((i, [Job(time.sleep, (600.0,))]) for i in range(count))]


def test_classes_of_the_users_own_files_are_sent(
    source: MemorySource, cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_method.py").write_text(OWN_METHOD)
    # After the cluster was started: its workers do not look here.
    monkeypatch.syspath_prepend(tmp_path)
    few = source.experiments()[:2]
    run_benchmark(source, ["own_method:Mine"], tmp_path / "out", experiments=few, dask=cluster.scheduler_address)
    run_benchmark(source, ["tests.bench.odd_methods:Shrink"], tmp_path / "here", experiments=few, n_jobs=1)
    there, here = (pd.read_parquet(tmp_path / name / "results.parquet") for name in ("out", "here"))
    assert (there["status"] == "ok").all(), there["message"].tolist()
    np.testing.assert_array_equal(sorted(there["logloss"]), sorted(here["logloss"]))


OWN_METHOD = """
WEIGHT = 0.1


class Base:
    def fit(self, p, y):
        return self


class Mine(Base):
    def predict_proba(self, p):
        return (1 - WEIGHT) * p + WEIGHT / p.shape[1]
"""


def test_a_cluster_without_workers_is_told_and_given_up() -> None:
    options = {"dashboard_address": ":0", "silence_logs": "CRITICAL"}
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=True, **options) as cluster:
        pool = DaskPool(cluster.scheduler_address, tell_after=0.5, give_up_after=3.0)
        answers = pool.run(held(2))
        assert next(answers)[1][0].value == 3
        cluster.scale(0)
        with (
            pytest.warns(UserWarning, match="no workers left; waiting up to 3 s"),
            pytest.raises(RuntimeError, match=r"no workers left: .* finished work is kept"),
        ):
            list(answers)
        pool.close()


SCHEDULER = """
import sys, distributed
if __name__ == "__main__":
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, protocol="tcp", dashboard_address=":0"
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


# Whether it is told first depends on when the connection breaks.
@pytest.mark.filterwarnings("ignore:the (connection to the )?dask scheduler")
def test_a_killed_scheduler_ends_the_run_and_keeps_what_is_done(source: MemorySource, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    # Its workers are threads of the same process, so that nothing of the cluster is left.
    with subprocess.Popen([sys.executable, "-c", SCHEDULER], text=True, env=env, **pipes) as scheduler:
        address = scheduler.stdout.readline().strip()
        count = tmp_path / "count"
        method = f"slow=tests.bench.odd_methods:Shrink(count={str(count)!r}, seconds=0.5)"

        def kill() -> None:
            while fits(count) < 4:
                time.sleep(0.02)
            scheduler.kill()

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        with (
            dask.config.set({"distributed.comm.timeouts.connect": "8s"}),
            pytest.raises(RuntimeError, match=r"the dask scheduler .* finished work is kept"),
        ):
            run_benchmark(source, [method], tmp_path / "out", dask=address)
        killer.join()
    assert len(pd.read_parquet(tmp_path / "out" / "results.parquet")) > 0


def test_a_cluster_that_nobody_joins(tmp_path: Path) -> None:
    options = {"n_workers": 0, "dashboard_address": ":0", "silence_logs": "CRITICAL"}
    with (
        distributed.LocalCluster(**options) as cluster,
        pytest.raises(RuntimeError, match="no worker joined the dask cluster within 1 s"),
    ):
        DaskPool(cluster.scheduler_address, give_up_after=1.0)
