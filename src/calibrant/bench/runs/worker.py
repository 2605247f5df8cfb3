"""The process that works: it reads jobs from standard input and answers on standard output.

A process of its own is what makes a time limit hold for any method, hanging or not, in Python or in C. Both pipes are
moved to other descriptors, and a method finds nothing where standard input and output were. A copy of the process that
a method made by forking answers nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>


@dataclass(frozen=True)
class Job:
    """One call of a function that another process can import.

    `prepare` is called first, outside of the time limit: imports. Jobs with different `code_from` are never done by the
    same process, so that code from outside cannot change what other methods find.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    prepare: Callable[[], Any] | None = None
    code_from: str = ""


@dataclass(frozen=True)
class Answer:
    """The outcome of a job: its value, or why there is none."""

    status: Literal["ok", "failed", "timeout"]
    value: Any = None
    message: str = ""


def main() -> None:
    """Answer jobs until the parent closes standard input or ends."""
    if sys.platform == "linux":
        # The kernel ends this process with its parent, even while compiled code keeps all other threads waiting.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(incoming, jobs), daemon=True).start()
    me = os.getpid()
    while True:
        for answer in _answers(jobs.get()):
            if os.getpid() != me:
                os._exit(0)
            outgoing.write(answer)
            outgoing.flush()


def _answers(pickled: bytes) -> Any:
    """Two pickled answers to a job: one when it is prepared, and its outcome."""
    try:
        job: Job = pickle.loads(pickled)
        if job.prepare is not None:
            # If this fails, the job fails too and reports why.
            with contextlib.suppress(Exception):
                job.prepare()
        yield pickle.dumps(Answer("ok"))
        yield pickle.dumps(Answer("ok", job.function(*job.arguments)))
    except Exception as error:
        yield pickle.dumps(Answer("failed", message=f"{type(error).__name__}: {error}"))


def _read_jobs(incoming: BinaryIO, jobs: queue.SimpleQueue[bytes]) -> None:
    try:
        while True:
            jobs.put(pickle.load(incoming))
    except (EOFError, OSError, pickle.UnpicklingError):
        os._exit(1)  # the parent is gone, and nobody waits for an answer
