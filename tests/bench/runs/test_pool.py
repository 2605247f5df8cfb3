"""A working process: what it answers, and what a call can do to it without harm to the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from calibrant.bench.runs import pool
from calibrant.bench.runs.method_spec import make_spec
from calibrant.bench.runs.one_fit import Options, fit_method
from calibrant.bench.runs.pool import Answer, Job, ProcessPool, Worker
from calibrant.files.prediction_sets.experiments import Experiment, SplitPredictions
from tests.bench.odd_methods import Scribbling, Shrink, ended, logarithm

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and forks")
linux = pytest.mark.skipif(sys.platform != "linux", reason="finds processes under /proc")


@pytest.fixture(scope="module")
def setting() -> tuple[Experiment, SplitPredictions, Options]:
    """An experiment as a job gives it to a process."""
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(3), 120), rng.integers(3, size=120)
    arrays = SplitPredictions.checked(p[:80], y[:80], p[80:], y[80:])
    return arrays.describe("d", "m"), arrays, Options()


def fit(setting: tuple, name: str, **parameters: object) -> Job:
    spec = make_spec(f"tests.bench.odd_methods:{name}", parameters)
    return Job(fit_method, (*setting, spec), spec.make)


def done(worker: Worker, jobs: list[Job]) -> list[Answer]:
    return [worker.do(job) for job in jobs]


@pytest.fixture(scope="module")
def process():
    process = Worker(time_limit=1.5)
    yield process
    process.close()


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
@pytest.mark.parametrize("name", ["Overwriting", pytest.param("Forking", marks=posix), "Talkative"])
def test_a_method_does_not_change_the_next_one(process: Worker, setting: tuple, name: str) -> None:
    alone, odd, after, again = done(
        process,
        [fit(setting, "Shrink"), fit(setting, name), fit(setting, "Shrink"), fit(setting, "Shrink", weight=0.5)],
    )
    assert {answer.status for answer in (alone, odd, after, again)} == {"ok"}
    assert after.value["logloss"] == alone.value["logloss"]
    assert after.value["brier"] == alone.value["brier"]
    assert again.value["logloss"] != alone.value["logloss"]


def test_bytes_in_the_pipe_of_the_answers_fail_their_method_alone(
    process: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_END_SECONDS", 0.1)
    fine = Job(Shrink().predict_proba, (np.eye(3),))
    alone, odd, after = done(process, [fine, Job(Scribbling().fit, (np.eye(3), np.arange(3))), fine])
    assert (odd.status, odd.message) == ("failed", "the process stopped answering")
    np.testing.assert_array_equal(after.value, alone.value)


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
@linux
@pytest.mark.parametrize("raw", [False, True])
def test_what_a_method_left_behind_ends_with_its_time(setting: tuple, tmp_path: Path, raw: bool) -> None:
    process = Worker(time_limit=1.0)
    jobs = [fit(setting, "Leaving", pids=str(tmp_path / "pids"), raw=raw), fit(setting, "Shrink")]
    left, after = done(process, jobs)
    process.close()
    assert (left.status, left.message) == ("timeout", "stopped after 1 s")
    assert after.status == "ok"
    children = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert children
    assert all(ended(pid) for pid in children)


def test_a_class_from_elsewhere_keeps_what_it_spoils_to_itself(process: Worker) -> None:
    spec = make_spec("tests.bench.odd_methods:Spoiling")
    jobs = [Job(logarithm, (2.0,)), Job(spec.make().fit, (None, None), code_from=spec.module)]
    jobs += [Job(logarithm, (2.0,), code_from=spec.module), Job(logarithm, (2.0,))]
    alone, odd, there, after = done(process, jobs)
    assert (odd.status, there.status) == ("ok", "failed")  # of its own doing: it left no logarithms
    assert after.value == alone.value == np.log(2.0)


@posix
def test_errors_and_deaths_are_answers(process: Worker) -> None:
    jobs = [Job(len, (1,)), Job(len, ("abc",)), Job(os._exit, (3,)), Job(os.abort, ()), Job(len, ("a",))]
    answers = done(process, jobs)
    assert [a.status for a in answers] == ["failed", "ok", "failed", "failed", "ok"]
    assert "TypeError" in answers[0].message
    assert answers[2].message == "the process ended with code 3"
    assert "SIGABRT" in answers[3].message


def test_closing_all_descriptors_ends_the_process_alone(process: Worker) -> None:
    first, second = done(process, [Job(os.closerange, (0, 256)), Job(len, ("ab",))])
    assert first.status == "failed"
    assert second.value == 2


def test_modules_are_not_looked_for_in_the_working_folder(
    process: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    found = process.do(Job(__import__, ("planted",)))
    assert "No module named 'planted'" in found.message


@linux
def test_a_process_uses_one_thread(process: Worker) -> None:
    answer = process.do(Job(os.getenv, ("OMP_NUM_THREADS",)))
    assert answer.value == "1"


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
@linux
@pytest.mark.parametrize("name", ["Hanging", "Selfish"])
def test_processes_end_with_their_parent(name: str) -> None:
    code = (
        "from tests.bench.runs.test_pool import *\n"
        "p = Worker(); rng = np.random.default_rng(0); q = rng.dirichlet(np.ones(3), 20)\n"
        "a = SplitPredictions.checked(q, np.arange(20) % 3, q, np.arange(20) % 3)\n"
        "s = a.describe('d', 'm'), a, Options()\n"
        "p.do(fit(s, 'Shrink')); print(p.do(Job(os.getpid, ())).value, flush=True)\n"
        f"p.do(fit(s, {name!r}))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(0.3)
        parent.send_signal(signal.SIGKILL)
    assert ended(child)


def test_a_job_that_cannot_be_found_or_returned_is_an_answer(process: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("only_here")
    exec("def function(): pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    unknown, opened, fine = done(process, [Job(module.function, ()), Job(open, (os.devnull,)), Job(len, ("a",))])
    assert (unknown.status, opened.status, fine.value) == ("failed", "failed", 1)
    assert "No module named 'only_here'" in unknown.message
    assert "TypeError: cannot pickle" in opened.message


def test_a_pool_answers_every_call_once_and_goes_on() -> None:
    with ProcessPool(2) as processes:
        for _ in range(2):
            batches = ((size, [Job(len, ("a" * i,)) for i in range(size)]) for size in range(5))
            answers = {name: [answer.value for answer in answers] for name, answers in processes.run(batches)}
            assert answers == {size: list(range(size)) for size in range(5)}


def test_what_breaks_while_batches_are_made_reaches_the_caller() -> None:
    def batches():
        yield "first", [Job(len, ("a",))]
        raise KeyError("second")

    with ProcessPool(2) as processes, pytest.raises(KeyError, match="second"):
        list(processes.run(batches()))


def test_batches_whose_answers_were_lost_are_done_again() -> None:
    class Forgetful(ProcessPool):
        lost = 0

        def _answers(self, future, jobs):
            self.lost += 1
            return None if self.lost <= 2 else super()._answers(future, jobs)

    with Forgetful(1) as processes:
        batches = [(name, [Job(len, (name,))]) for name in ("a", "bc", "def")]
        assert {name: answers[0].value for name, answers in processes.run(batches)} == {"a": 1, "bc": 2, "def": 3}
    assert processes.lost == 5
