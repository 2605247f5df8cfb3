"""The caller's side of a fitting process: start it, give it orders, stop it when a fit takes too long."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from typing import Any

from calibrant.bench.evaluate import Outcome, unfinished
from calibrant.bench.method_spec import MethodSpec
from calibrant.bench.threads import one_thread_variables
from calibrant.io.predictions import Experiment, Predictions


class FitProcess:
    """A process that fits methods to one experiment after another.

    It is started with the first order, and again after it was stopped or died.

    Parameters
    ----------
    time_limit : float or None
        Seconds that a fit with its predictions may take.
    """

    def __init__(self, time_limit: float | None = None) -> None:
        self._time_limit = time_limit
        self._channel: _Channel | None = None
        self._experiment: dict[str, Any] | None = None
        self._loaded = False
        self._shut = False
        self._lock = threading.Lock()

    def use(
        self,
        experiment: Experiment,
        path: str | None,
        predictions: Predictions | None = None,
        max_cal_rows: int | None = None,
        seed: int = 0,
    ) -> None:
        """Name the experiment of the fits to come: by the file to read, or with its arrays."""
        self._experiment = {
            "experiment": experiment,
            "path": path,
            "predictions": predictions,
            "max_cal_rows": max_cal_rows,
            "seed": seed,
        }
        self._loaded = False

    def fit(self, spec: MethodSpec) -> Outcome:
        """Fit one method; always returns an outcome, whatever happens to the process."""
        try:
            channel = self._ready()
            channel.ask(("import", spec))
        except (_EndedError, ValueError) as error:
            self.close()
            return unfinished("failed", str(error))
        late = threading.Event()
        timer = threading.Timer(self._time_limit or 0.0, channel.stop, [late])
        timer.daemon = True
        if self._time_limit is not None:
            timer.start()
        try:
            outcome: Outcome = channel.ask(("fit", spec))
        except _EndedError as error:
            self.close()
            if late.is_set():
                return unfinished("timeout", f"stopped after {self._time_limit:g} s")
            return unfinished("failed", str(error))
        finally:
            timer.cancel()
        if late.is_set():
            # The answer and the limit came at the same moment: the answer counts, the process is gone.
            self.close()
        return outcome

    def close(self) -> None:
        """Stop the process, at once and with everything it started."""
        with self._lock:
            channel, self._channel, self._loaded = self._channel, None, False
        if channel is not None:
            channel.close()

    def shut(self) -> None:
        """Stop the process for good, also while another thread waits for its answer."""
        self._shut = True
        self.close()

    def _ready(self) -> _Channel:
        with self._lock:
            if self._shut:
                raise ValueError("the run is being stopped")
            if self._channel is None:
                self._channel = _Channel()
            channel = self._channel
        if not self._loaded:
            if message := channel.ask(("load", self._experiment)):
                raise ValueError(f"cannot read the predictions: {message}")
            self._loaded = True
        return channel


class _EndedError(Exception):
    """The process ended instead of answering."""

    def __init__(self, code: int) -> None:
        by = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        super().__init__(f"the process {by}")


class _Channel:
    """A running process with pickled orders going in and answers coming out."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "calibrant.bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Modules are found as the caller finds them, also those beside its script.
            env={**os.environ, **one_thread_variables(), "PYTHONPATH": os.pathsep.join(sys.path)},
            # A session of its own: the terminal's interrupt reaches the caller alone, who then stops its processes.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout
        self._started = False

    def ask(self, order: Any) -> Any:
        try:
            if not self._started:
                pickle.load(self._answers)
                self._started = True
            pickle.dump(order, self._orders)
            self._orders.flush()
            return pickle.load(self._answers)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError) as error:
            raise _EndedError(self._process.wait()) from error

    def stop(self, late: threading.Event) -> None:
        late.set()
        self._kill()

    def close(self) -> None:
        self._kill()
        self._process.wait()
        for pipe in (self._orders, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()

    def _kill(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (AttributeError, OSError):
            self._process.kill()
