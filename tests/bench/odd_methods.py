"""Methods as a runner meets them: good ones, failing, hanging, crashing, talkative ones."""

from __future__ import annotations

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


def fits(count: Path) -> int:
    return len(count.read_bytes()) if count.exists() else 0
