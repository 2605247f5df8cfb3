"""How many threads matrix products use: one, unless the matrices are so large that more are faster.

BLAS libraries start as many threads as there are cores, and on small products these wait for one another: on two cores
of which one is busy, fits take 2 to 20 times longer than with one thread. Therefore everything public here that
computes enters a limit, which is undone when it leaves. The number of BLAS threads belongs to the process, not to a
Python thread, so there is one account of who asks for how many: the least number asked for holds, the last to leave
restores what was found, and no caller gets more than was found. What a user sets (``OMP_NUM_THREADS``,
`threadpoolctl.threadpool_limits`, the inner limits of joblib and Dask) is an upper bound in this way.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import update_wrapper
from types import FunctionType
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

#: Multiplications of one matrix product from which on a second thread pays: see `benchmarks/defaults.py`.
LARGE_PRODUCT = 2_000_000_000
#: Multiplications up to which BLAS libraries use one thread by themselves.
SMALL_PRODUCT = 8192
#: Looks at the number of busy cores, and seconds between two: a single look would catch a moment.
_LOOKS, _PAUSE = 5, 0.002


class _Account:
    """Who asks for how many threads, and what the libraries had before."""

    def __init__(self, *, per_thread: bool = False) -> None:
        self.per_thread = per_thread
        self.lock = threading.Lock()
        self.asked: dict[int, int] = {}  # by Python thread
        self.found: list[list[Any]] = []  # library, its threads before, its threads now

    def ask(self, thread: int, number: int | None) -> int | None:
        """Let a Python thread have `number` BLAS threads (`None`: it no longer asks); returns what it had before."""
        before = self.asked.get(thread)
        if before == number:  # nested: only this thread changes its entry
            return before
        with self.lock:
            if not self.asked:
                libraries = _libraries()[self.per_thread]
                self.found = [[library, n, n] for library in libraries if (n := library.get_num_threads())]
            if number is None:
                del self.asked[thread]
            else:
                self.asked[thread] = number
            self.apply()
        return before

    def apply(self) -> None:
        """Set what follows from the account; a library that was changed from outside meanwhile is not restored."""
        least = min(self.asked.values(), default=sys.maxsize)
        for entry in self.found:
            library, before, now = entry
            wanted = before if before < least else least
            if wanted != now and (self.asked or library.get_num_threads() == now):
                # threadpoolctl from 3.8 on ignores all Python threads but the first that sets a number. Here the
                # account keeps them apart, and the last to leave, whichever it is, must be able to restore.
                release = getattr(library, "clear_controlling_thread", None)
                if release is not None:
                    release(force=True)
                library.set_num_threads(wanted)
                if release is not None:
                    release()
                entry[2] = wanted


#: The libraries that were found, and how many modules were imported then: -1 before the first look.
_found: tuple[int, tuple[list[Any], list[Any]]] = (-1, ([], []))


def _libraries() -> tuple[list[Any], list[Any]]:
    """The BLAS libraries of the process (NumPy and SciPy bring one each), looked up again after imports.

    Those whose number of threads holds for the whole process, and those built on OpenMP, where it holds for the Python
    thread that sets it; torch, once it is imported, is one of these.
    """
    global _found
    if _found[0] != len(sys.modules):
        import scipy.linalg  # noqa: F401  its library is loaded before the limit, not inside it
        from threadpoolctl import ThreadpoolController

        blas = [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]
        local = [library for library in blas if getattr(library, "threading_layer", None) == "openmp"]
        shared = [library for library in blas if library not in local]
        torch = sys.modules.get("torch")
        if hasattr(torch, "set_num_threads"):  # it has the functions that threadpoolctl gives the others
            local.append(torch)
        _found = (len(sys.modules), (shared, local))
    return _found[1]


_shared = _Account()
_local = threading.local()


def _accounts() -> tuple[_Account, ...]:
    if not _libraries()[1]:
        return (_shared,)
    if not hasattr(_local, "account"):
        _local.account = _Account(per_thread=True)
    return _shared, _local.account


def _forget() -> None:
    """A forked process has none of the other threads that asked: give back what they took and start a new account."""
    global _shared
    for account in _accounts():
        account.asked.clear()
        account.apply()
    _shared = _Account()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class limit(AbstractContextManager[None]):
    """A context in which matrix products use at most `number` threads.

    Entering takes a few microseconds, less inside another limit; it is safe in several Python threads at once and
    restores the number found also after an exception. A limit inside another may ask for more than the outer one, not
    for more than was found outside.
    """

    __slots__ = ("_accounts", "_before", "_number", "_thread")

    def __init__(self, number: int = 1) -> None:
        self._number = number

    def __enter__(self) -> None:
        self._accounts, self._thread = _accounts(), threading.get_ident()
        self._before = [account.ask(self._thread, self._number) for account in self._accounts]

    def __exit__(self, *_: object) -> None:
        if self._accounts[0] is _shared:  # not in a process forked meanwhile
            for account, before in zip(self._accounts, self._before):
                account.ask(self._thread, before)


_NO_LIMIT = nullcontext()


def limited(function: Function) -> Function:
    """Decorator: `function` runs with one thread."""
    context = limit

    def call(*args: object, **kwargs: object) -> Any:
        with context():
            return function(*args, **kwargs)

    # With the globals of the function itself, by which doctest knows whose examples these are.
    wrapped = FunctionType(call.__code__, cast(Any, function).__globals__, function.__name__, None, call.__closure__)
    return cast(Function, update_wrapper(wrapped, function))


def for_products(rows: int, columns: int, features: int) -> AbstractContextManager[None]:
    """A limit for products of (columns, features) and (features, rows) matrices: the free cores if large, else one."""
    size = rows * columns * features
    if size <= SMALL_PRODUCT:
        return _NO_LIMIT
    return limit(free_cores() if size >= LARGE_PRODUCT else 1)


def free_cores() -> int:
    """Cores that this process may use and no other process is using, at least one."""
    from joblib import cpu_count

    allowed = cpu_count()  # of the affinity mask and a container's quota
    looks = []
    for _ in range(_LOOKS if allowed > 1 else 0):
        time.sleep(_PAUSE)
        running = _running_threads()
        if running is None:
            return int(allowed)
        looks.append(running)
    others = sorted(looks)[len(looks) // 2] - 1 if looks else 0
    return int(max(1, min(allowed, (os.cpu_count() or 1) - others)))


def _running_threads() -> int | None:
    """Threads of the whole machine that run or could, this one among them; `None` where the system does not say."""
    try:
        with open("/proc/stat") as stream:
            return next(int(line.split()[1]) for line in stream if line.startswith("procs_running"))
    except (OSError, StopIteration, ValueError):
        return None
