"""The process that fits: it reads orders from standard input and answers on standard output.

A process of its own is what makes a time limit hold for any method, hanging or not, in Python or in C. It ends
when its parent does, however the parent ends. Orders are pickled tuples: `("load", ...)` names an experiment by
file or brings its arrays, `("fit", specs)` fits methods to it, with two answers for each, when the method is
imported and when it is fitted.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import sys
import threading
import time
from typing import Any, BinaryIO

from calibrant.bench.run.evaluate import evaluate, subsampled, warm_up
from calibrant.bench.run.method_spec import MethodSpec
from calibrant.files.predictions.source import Predictions, PredictionSource, open_predictions


class _Fitter:
    """What the process remembers between orders: open files, the present experiment, methods already warm."""

    def __init__(self) -> None:
        self._sources: dict[str, PredictionSource] = {}
        self._predictions: Predictions | None = None
        self._warm: set[tuple[str, bool]] = set()

    def load(self, order: dict[str, Any]) -> None:
        predictions = order["predictions"]
        if predictions is None:
            path = order["path"]
            if path not in self._sources:
                self._sources[path] = open_predictions(path)
            predictions = self._sources[path].load(order["experiment"])
        self._predictions = subsampled(predictions, order["experiment"], order["max_cal_rows"], order["seed"])

    def import_method(self, spec: MethodSpec) -> None:
        # What is wrong with the method its fit will report.
        with contextlib.suppress(Exception):
            spec.make()

    def fit(self, spec: MethodSpec) -> dict[str, Any]:
        assert self._predictions is not None
        kind = (spec.fingerprint, self._predictions.n_classes == 2)
        start = time.perf_counter()
        if kind not in self._warm:
            warm_up(self._predictions, spec)
            self._warm.add(kind)
        warm = time.perf_counter() - start
        return {**evaluate(self._predictions, spec), "warm_up_seconds": warm}


def _read_orders(stream: BinaryIO, orders: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            orders.put(pickle.load(stream))
    except (EOFError, OSError, pickle.UnpicklingError):
        # The parent is gone: so is the need for whatever is being fitted.
        os._exit(1)


def main() -> None:
    """Answer orders until standard input closes."""
    answers = os.fdopen(os.dup(1), "wb")
    # Whatever a method prints must not end up among the answers.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_orders, args=(sys.stdin.buffer, orders), daemon=True).start()
    fitter = _Fitter()

    def answer(message: Any) -> None:
        pickle.dump(message, answers)
        answers.flush()

    while True:
        what, order = orders.get()
        if what == "load":
            try:
                fitter.load(order)
                answer("")
            except Exception as error:
                answer(f"{type(error).__name__}: {error}")
            continue
        for spec in order:
            fitter.import_method(spec)
            answer("imported")
            answer(fitter.fit(spec))


if __name__ == "__main__":
    main()
