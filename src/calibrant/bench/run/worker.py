"""The process that works: it reads batches of calls from standard input and answers on standard output.

A process of its own is what makes a time limit hold for any method, hanging or not, in Python or in C. Both pipes are
moved to descriptors that only this module knows, and a method finds nothing where standard input and output were.
Answers are framed by a number that the parent chose, so that bytes a method writes to a descriptor it happens to find
are no answer, and a copy of the process that a method made by forking answers nothing.
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
import time
import zlib
from functools import partial
from typing import Any, BinaryIO

HEAD = struct.Struct(">QI")
"""After the number that starts a frame: size and checksum of the answer."""
READY = "ready"
"""The answer before a call is made: its time limit starts now."""
_SET_DEATH_SIGNAL = 1


def main(parent: int) -> None:
    """Answer calls until the parent closes standard input or ends."""
    _end_with(parent)
    private = [os.dup(0), os.dup(1)]
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    if hasattr(os, "register_at_fork"):
        # What a method forks must not keep the pipes open when this process ends.
        for descriptor in private:
            os.register_at_fork(after_in_child=partial(os.close, descriptor))
    stream = io.BufferedReader(io.FileIO(private[0], closefd=False))
    marker = pickle.load(stream)
    orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_orders, args=(stream, orders), daemon=True).start()
    me = os.getpid()

    def answer(message: Any) -> None:
        if os.getpid() != me:
            os._exit(0)
        payload = pickle.dumps(message)
        rest = memoryview(marker + HEAD.pack(len(payload), zlib.crc32(payload)) + payload)
        while rest:
            rest = rest[os.write(private[1], rest) :]

    while True:
        for call in orders.get():
            if call.prepare is not None:
                # What is wrong with it the call itself will say.
                with contextlib.suppress(Exception):
                    call.prepare()
            answer(READY)
            try:
                made = (True, call.function(*call.arguments))
            except Exception as error:
                made = (False, f"{type(error).__name__}: {error}")
            answer(made)


def _read_orders(stream: BinaryIO, orders: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            orders.put(pickle.load(stream))
    except (EOFError, OSError, pickle.UnpicklingError):
        # The parent is gone: so is the need for whatever is being done.
        os._exit(1)


def _end_with(parent: int) -> None:
    """End when the parent does, however it ends.

    On Linux the kernel sees to it, which holds for compiled code that never lets another thread run; elsewhere a thread
    looks every second, besides the one that sees standard input close.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
