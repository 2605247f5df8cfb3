"""The process that works: it reads batches of jobs from standard input and answers on standard output.

A process of its own is what makes a time limit hold for any method, hanging or not, in Python or in C. Both pipes are
moved to descriptors that only this module knows, and a method finds nothing where standard input and output were.
Answers start with a random key that the parent chose: other bytes that a method writes to a descriptor are skipped, and
a copy of the process that a method made by forking answers nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import pickle
import queue
import signal
import struct
import sys
import threading
from typing import Any, BinaryIO

HEAD = struct.Struct(">Q")
"""After the key that starts a frame: the size of the answer."""
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>


def main() -> None:
    """Answer jobs until the parent closes standard input or ends."""
    if sys.platform == "linux":
        # The kernel ends this process with its parent, even while compiled code keeps all other threads waiting.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    stream, pipe = io.BufferedReader(io.FileIO(os.dup(0))), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    key, me = pickle.load(stream), os.getpid()
    orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_orders, args=(stream, orders), daemon=True).start()

    def answer(message: Any) -> None:
        if os.getpid() != me:
            os._exit(0)
        payload = pickle.dumps(message)
        rest = memoryview(key + HEAD.pack(len(payload)) + payload)
        while rest:
            rest = rest[os.write(pipe, rest) :]

    while True:
        for job in orders.get():
            if job.prepare is not None:
                # If this fails, the job fails too and reports why.
                with contextlib.suppress(Exception):
                    job.prepare()
            answer("ready")
            try:
                made = (True, job.function(*job.arguments))
            except Exception as error:
                made = (False, f"{type(error).__name__}: {error}")
            answer(made)


def _read_orders(stream: BinaryIO, orders: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            orders.put(pickle.load(stream))
    except (EOFError, OSError, pickle.UnpicklingError):
        os._exit(1)  # the parent is gone, and nobody waits for an answer
