"""The caller's side of a fitting process: start it, give it orders, stop it when a fit takes too long."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from calibrant.bench.run.evaluate import Outcome, unfinished
from calibrant.bench.run.method_spec import MethodSpec
from calibrant.bench.run.threads import one_thread_variables
from calibrant.files.predictions.source import Experiment, Predictions

# What importing a method may take beyond its time limit before it counts as hanging.
IMPORT_SECONDS = 120.0


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

    def fit(self, specs: Sequence[MethodSpec]) -> Iterator[Outcome]:
        """Fit methods one after another; gives an outcome for each, whatever happens to the process.

        The process gets the whole list and never waits for us between two fits. When it dies or is stopped,
        another one goes on with the next method.
        """
        done = 0
        while done < len(specs):
            try:
                channel = self._ready()
                channel.send(("fit", specs[done:]))
                for _ in specs[done:]:
                    outcome = self._outcome(channel)
                    done += 1
                    yield outcome
                    if channel.stopped:
                        # The answer and the limit came at the same moment: the answer counts, the process is gone.
                        self.close()
                        break
            except (_EndedError, ValueError) as error:
                self.close()
                done += 1
                yield unfinished("timeout" if isinstance(error, _LateError) else "failed", str(error))

    def _outcome(self, channel: _Channel) -> Outcome:
        # First the process says that it has imported the method, which is not part of the time limit.
        limit = self._time_limit
        with _stopped_after(channel, None if limit is None else limit + IMPORT_SECONDS):
            channel.receive()
        with _stopped_after(channel, limit):
            outcome: Outcome = channel.receive()
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
            channel.send(("load", self._experiment))
            if message := channel.receive():
                raise ValueError(f"cannot read the predictions: {message}")
            self._loaded = True
        return channel


class _EndedError(Exception):
    """The process ended instead of answering."""


class _LateError(_EndedError):
    """The process was stopped by its time limit."""


@contextlib.contextmanager
def _stopped_after(channel: _Channel, seconds: float | None) -> Iterator[None]:
    """Stop the process unless the block ends in time."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, channel.stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    except _EndedError as error:
        if channel.stopped:
            raise _LateError(f"stopped after {seconds:g} s") from error
        raise
    finally:
        timer.cancel()


class _Channel:
    """A running process with pickled orders going in and answers coming out."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "calibrant.bench.run.worker"],
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
        self.stopped = False
        self._orders, self._answers = self._process.stdin, self._process.stdout

    def send(self, order: Any) -> None:
        try:
            pickle.dump(order, self._orders)
            self._orders.flush()
        except (OSError, ValueError) as error:
            raise self._ended() from error

    def receive(self) -> Any:
        try:
            return pickle.load(self._answers)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError) as error:
            raise self._ended() from error

    def _ended(self) -> _EndedError:
        code = self._process.wait()
        by = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return _EndedError(f"the process {by}")

    def stop(self) -> None:
        self.stopped = True
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
