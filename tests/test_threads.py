"""Limits of BLAS threads: what holds inside, what is found again outside, in several threads and processes.

threadpoolctl tells what is in force, independently of the account that `calibrant.threads` keeps.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import scipy.linalg  # noqa: F401  brings a BLAS library of its own
from threadpoolctl import ThreadpoolController, threadpool_limits

from calibrant import metrics, threads
from calibrant.calibrators.base import Calibrator
from calibrant.metrics.scalars import SCALARS, scalar
from calibrant.softmax import solvers
from calibrant.softmax.penalties import Ridge
from calibrant.softmax.rows.arrays import ArrayProblem
from tests.needs import needs

BLAS = ThreadpoolController().select(user_api="blas")
pytestmark = pytest.mark.skipif(not BLAS.lib_controllers, reason="no BLAS library that threadpoolctl knows")


def in_force() -> set[int]:
    return {library.get_num_threads() for library in BLAS.lib_controllers}


@pytest.fixture(autouse=True)
def three():
    """Three threads outside, whatever the machine has; the tests must leave it so."""
    with threadpool_limits(3, user_api="blas"):
        yield
        assert in_force() == {3}


def test_one_thread_inside_and_what_was_found_outside():
    with threads.limit():
        assert in_force() == {1}
    assert in_force() == {3}


def test_restored_after_an_exception():
    with pytest.raises(RuntimeError, match="inside"), threads.limit():
        raise RuntimeError("inside")
    assert in_force() == {3}


def test_inner_limits_may_ask_for_more_but_nobody_gets_more_than_was_found():
    with threads.limit(1):
        with threads.limit(2):
            assert in_force() == {2}
            with threads.limit(64):
                assert in_force() == {3}
            assert in_force() == {2}
        assert in_force() == {1}


def test_a_limit_of_the_user_is_an_upper_bound():
    with threadpool_limits(1, user_api="blas"):
        with threads.limit(2):
            assert in_force() == {1}
        assert in_force() == {1}


def test_what_somebody_else_sets_meanwhile_stays():
    with threadpool_limits(3, user_api="blas"):
        with threads.limit():
            BLAS.limit(limits=2)
        assert in_force() == {2}


def test_two_python_threads_do_not_restore_each_others_numbers():
    """The first to enter leaves first; the numbers found come back when the second leaves."""
    entered, left = threading.Event(), threading.Event()
    seen = []

    def second():
        with threads.limit(2):
            entered.set()
            assert left.wait(10)
            seen.append(in_force())

    other = threading.Thread(target=second)
    with threads.limit(1):
        other.start()
        assert entered.wait(10)
        assert in_force() == {1}  # the least that anybody asks for
    seen.append(in_force())
    left.set()
    other.join()
    assert seen == [{2}, {2}]


def test_many_python_threads_with_nested_limits():
    def work(seed: int) -> list[bool]:
        rng = np.random.default_rng(seed)
        kept = []
        for _ in range(100):
            outer, inner = rng.integers(1, 4, size=2).tolist()
            with threads.limit(outer):
                kept.append(max(in_force()) <= outer)
                with threads.limit(inner):
                    kept.append(max(in_force()) <= inner)
                kept.append(max(in_force()) <= outer)
        return kept

    with ThreadPoolExecutor(8) as pool:
        assert all(all(kept) for kept in pool.map(work, range(8)))


FORKED = """
import os, threading
import numpy as np, scipy.linalg
from threadpoolctl import ThreadpoolController, threadpool_limits
from calibrant import threads
blas = ThreadpoolController().select(user_api="blas")
numbers = lambda: [library.get_num_threads() for library in blas.lib_controllers]
threadpool_limits(3, user_api="blas")
inside, leave = threading.Event(), threading.Event()
def neighbour():
    with threads.limit():
        inside.set()
        leave.wait(10)
other = threading.Thread(target=neighbour)
other.start()
inside.wait(10)
with threads.limit():
    child = os.fork()
    if not child:
        with threads.limit(2):
            two = numbers()
        found = numbers()
if not child:
    os._exit(0 if set(two) == {2} and set(found) == {3} and set(numbers()) == {3} else 1)
leave.set()
other.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert set(numbers()) == {3}, numbers()
"""


@pytest.mark.skipif(not hasattr(threads.os, "fork"), reason="the system has no fork")
def test_a_forked_process_starts_without_limits():
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], check=True, timeout=60)


class Witness(Calibrator):
    """Notes the threads in force while it fits and predicts."""

    def __init__(self, *, input="probabilities", classes=None, renormalize=False):
        self.input = input
        self.classes = classes
        self.renormalize = renormalize

    def _fit(self, sample):
        self.fitted_with_ = in_force()

    def _map(self, x):
        self.predicted_with_ = in_force()
        return np.exp(x)


def test_calibrators_fit_and_predict_with_one_thread():
    p = np.random.default_rng(0).dirichlet(np.ones(10), size=200)
    witness = Witness().fit(p, np.arange(200) % 10)
    witness.predict_proba(p)
    assert witness.fitted_with_ == witness.predicted_with_ == {1}


def test_metrics_use_one_thread_and_keep_their_names():
    @scalar()
    def threads_in_force(data):
        """The threads."""
        return lambda weight: float(max(in_force()))

    try:
        assert threads_in_force([0, 1], [0.2, 0.8]) == 1.0
        assert threads_in_force.__name__ == "threads_in_force"
    finally:
        del SCALARS["threads_in_force"]


@pytest.mark.parametrize("name", [name for name in metrics.__all__ if name[0].islower() and name != "list_metrics"])
def test_every_public_metric_enters_a_limit(name):
    assert getattr(metrics, name).__code__ is threads.limited(lambda: None).__code__


@pytest.mark.parametrize(("large", "expected"), [(10**9, {1}), (10**4, {2})])
def test_large_products_use_the_free_cores(monkeypatch, large, expected):
    monkeypatch.setattr(threads, "free_cores", lambda: 2)
    monkeypatch.setattr(threads, "LARGE_PRODUCT", large)
    seen = []
    at = ArrayProblem.at
    monkeypatch.setattr(ArrayProblem, "at", lambda *args, **kw: (seen.append(in_force()), at(*args, **kw))[1])
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 1000))
    problem = ArrayProblem(rng.integers(5, size=1000), x, shared=x)
    with threads.limit():
        solvers.solve(problem, Ridge(np.ones(problem.shape)))
    assert set.union(*seen) == expected


def test_tiny_products_are_spared_the_limit():
    with threads.for_products(1, 10, 10):
        assert in_force() == {3}


@pytest.mark.parametrize(
    ("allowed", "cores", "running", "free"),
    [(8, 8, 1, 8), (8, 8, 4, 5), (2, 2, 2, 1), (2, 2, 9, 1), (2, 64, 10, 2), (2, 64, 64, 1), (4, 8, None, 4)],
)
def test_free_cores_are_those_allowed_and_idle(monkeypatch, allowed, cores, running, free):
    monkeypatch.setattr(joblib, "cpu_count", lambda: allowed)
    monkeypatch.setattr(threads.os, "cpu_count", lambda: cores)
    monkeypatch.setattr(threads, "_running_threads", lambda: running)
    assert threads.free_cores() == free


def test_libraries_built_on_openmp_keep_a_number_for_each_python_thread(monkeypatch):
    class Library:
        def __init__(self):
            self.here = threading.local()

        def get_num_threads(self):
            return getattr(self.here, "number", 3)

        def set_num_threads(self, number):
            self.here.number = number

    library = Library()
    monkeypatch.setattr(threads, "_libraries", lambda: ([], [library]))

    def work():
        with threads.limit(2):
            inside = library.get_num_threads()
        return inside, library.get_num_threads()

    with threads.limit(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() == (2, 3)
        assert library.get_num_threads() == 1
    assert library.get_num_threads() == 3


@pytest.mark.torch
def test_torch_is_limited_too_once_it_is_imported() -> None:
    torch = needs("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads.limit():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
