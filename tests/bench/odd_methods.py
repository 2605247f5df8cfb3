"""Methods as a runner meets them: good ones, failing, hanging, crashing, talkative ones."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np


class Shrink:
    """Mixes with the uniform distribution; counts its fits in a file, one byte each."""

    def __init__(self, weight: float = 0.1, count: str | None = None, seconds: float = 0.0) -> None:
        self.weight = weight
        self.count = count
        self.seconds = seconds

    def fit(self, p: np.ndarray, y: np.ndarray) -> Shrink:
        if self.count is not None and len(y) != 100:  # 100 rows are those of a warm-up
            with open(self.count, "ab") as file:
                file.write(b".")
            time.sleep(self.seconds)
        return self

    def predict_proba(self, p: np.ndarray) -> np.ndarray:
        return (1 - self.weight) * p + self.weight / p.shape[1]


class Failing(Shrink):
    def fit(self, p: np.ndarray, y: np.ndarray) -> Failing:
        raise ArithmeticError("this method\nalways fails")


class Hanging(Shrink):
    def fit(self, p: np.ndarray, y: np.ndarray) -> Hanging:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        while True:
            time.sleep(0.01)


class Crashing(Shrink):
    def fit(self, p: np.ndarray, y: np.ndarray) -> Crashing:
        os.kill(os.getpid(), signal.SIGSEGV)
        return self


class Narrow(Shrink):
    def predict_proba(self, p: np.ndarray) -> np.ndarray:
        return p[:, 1:]


class Undefined(Shrink):
    def predict_proba(self, p: np.ndarray) -> np.ndarray:
        return np.full_like(p, np.nan)


class Talkative(Shrink):
    def fit(self, p: np.ndarray, y: np.ndarray) -> Talkative:
        sys.stdout.write("x" * 100_000)
        sys.stdout.flush()
        os.write(1, b"straight to the file descriptor")
        return self


class Overwriting(Shrink):
    """Changes its input in place, whatever its flags say."""

    def fit(self, p: np.ndarray, y: np.ndarray) -> Overwriting:
        p.setflags(write=True)
        p[:] = 1 / p.shape[1]
        y[:] = 0
        return self

    def predict_proba(self, p: np.ndarray) -> np.ndarray:
        p[:] = 1 / p.shape[1]
        return p


class Spoiling(Shrink):
    """Leaves NumPy without logarithms."""

    def fit(self, p: np.ndarray, y: np.ndarray) -> Spoiling:
        np.log = None
        return self


def logarithm(value: float) -> float:
    return float(np.log(value))


class Scribbling(Shrink):
    """Writes to every descriptor it finds, and reads what it can from standard input."""

    def fit(self, p: np.ndarray, y: np.ndarray) -> Scribbling:
        for descriptor in range(3, 64):
            with contextlib.suppress(OSError):
                os.write(descriptor, b"scribble")
        sys.stdin.read()
        return self


class Forking(Shrink):
    """Returns twice."""

    def fit(self, p: np.ndarray, y: np.ndarray) -> Forking:
        os.fork()
        return self


class Leaving(Shrink):
    """Hangs, and leaves a child in a session of its own that holds everything open and hangs as well."""

    def __init__(self, pids: str = "", raw: bool = False) -> None:
        super().__init__()
        self.pids = pids
        self.raw = raw

    def fit(self, p: np.ndarray, y: np.ndarray) -> Leaving:
        # libc's fork runs none of Python's hooks, as a library written in C would not.
        child = ctypes.CDLL(None).fork() if self.raw else os.fork()
        if child == 0:
            os.setsid()
            while True:
                time.sleep(0.1)
        with open(self.pids, "a") as file:
            file.write(f"{child}\n")
        while True:
            time.sleep(0.1)


class Undecodable(Shrink):
    def fit(self, p: np.ndarray, y: np.ndarray) -> Undecodable:
        raise ValueError("no such file: \udce9t\udce9.csv")


class Selfish(Shrink):
    """Computes for ever in C without giving up the interpreter's lock."""

    def fit(self, p: np.ndarray, y: np.ndarray) -> Selfish:
        sum(itertools.repeat(0))
        return self


def ended(pid: int) -> bool:
    """Whether a process ends within seconds; one that only waits to be collected has ended."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def fits(count: Path) -> int:
    return len(count.read_bytes()) if count.exists() else 0
