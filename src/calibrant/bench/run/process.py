"""The caller's side of a working process: start it, give it calls, stop it when one takes too long.

Nothing that a method does may hang or break the run: a process that was stopped is not waited for through its pipe,
which a child of it may hold open, and on Linux everything that it started is found by a mark in the environment and
ended with it, also what has left its session.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from calibrant.bench.run.calls import Answer, Call
from calibrant.bench.run.worker import HEAD

IMPORT_SECONDS = 120.0
"""What preparing a call may take beyond its time limit before it counts as hanging."""
MARK = "CALIBRANT_WORKER"
"""Environment variable by which what a process started is found again."""
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA")} | {
    "VECLIB_MAXIMUM_THREADS": "1"
}
"""Environment of a process whose libraries use one thread: fits side by side do not get in each other's way."""
_LOOK_SECONDS = 0.5


class WorkerProcess:
    """A process that makes calls, one after another.

    It is started with the first call, and again after it was stopped or died. It ends with the thread that started it.

    Parameters
    ----------
    time_limit : float or None
        Seconds that a call may take.
    """

    def __init__(self, time_limit: float | None = None) -> None:
        self._time_limit = time_limit
        self._channel: _Channel | None = None
        self._shut = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Number of the process while there is one."""
        return None if self._channel is None else self._channel.process.pid

    def run(self, calls: Sequence[Call]) -> Iterator[Answer]:
        """Make calls one after another; gives an answer for each, whatever happens to the process.

        The process gets the whole list and never waits for us between two calls. When it dies or is stopped,
        another one goes on with the next call.
        """
        limit = self._time_limit
        done = 0
        while done < len(calls):
            try:
                channel = self._ready()
                channel.send(list(calls[done:]))
                for _ in calls[done:]:
                    channel.receive(None if limit is None else limit + IMPORT_SECONDS)
                    fine, value = channel.receive(limit)
                    done += 1
                    yield Answer("ok", value) if fine else Answer("failed", message=value)
            except _EndedError as error:
                self.close()
                done += 1
                yield Answer("timeout" if isinstance(error, _LateError) else "failed", message=str(error))
            except GeneratorExit:
                # Answers that nobody took would be taken for those to the next calls.
                self.close()
                raise

    def close(self) -> None:
        """Stop the process, at once and with everything it started."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def shut(self) -> None:
        """Stop the process for good, also while another thread waits for its answer."""
        self._shut = True
        self.close()

    def _ready(self) -> _Channel:
        with self._lock:
            if self._shut:
                raise _EndedError("the run is being stopped")
            if self._channel is None:
                self._channel = _Channel()
            return self._channel


class _EndedError(Exception):
    """The process ended instead of answering."""


class _LateError(_EndedError):
    """The process was stopped by its time limit."""


class _Channel:
    """A running process with pickled lists of calls going in and framed answers coming out."""

    def __init__(self) -> None:
        self._mark, marker = secrets.token_hex(16), secrets.token_bytes(16)
        # Modules are found where the caller finds them: with `-c` alone the working folder would come first.
        path = [str(entry) for entry in sys.path]
        start = f"import sys; sys.path[:] = {path!r}; from calibrant.bench.run.worker import main; main({os.getpid()})"
        self.process = subprocess.Popen(
            [sys.executable, "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **ONE_THREAD, MARK: self._mark},
            # A session of its own: the terminal's interrupt reaches the caller alone, who then stops its processes.
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._orders, self._pipe = self.process.stdin, self.process.stdout
        self._frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=_read_frames, args=(self._pipe, marker, self._frames), daemon=True)
        self._reader.start()
        self.send(marker)

    def send(self, order: Any) -> None:
        try:
            pickle.dump(order, self._orders)
            self._orders.flush()
        except (OSError, ValueError) as error:
            raise self._ended() from error

    def receive(self, seconds: float | None) -> Any:
        """The next answer; the process is stopped when there is none after `seconds`."""
        end = time.monotonic() + (float("inf") if seconds is None else seconds)
        while True:
            # Looked at first: an answer that was sent before the process ended counts.
            ended = self.process.poll() is not None
            left = end - time.monotonic()
            try:
                frame = self._frames.get(timeout=max(0.0, min(_LOOK_SECONDS, left)))
            except queue.Empty:
                if left <= 0:
                    self.kill()
                    raise _LateError(f"stopped after {seconds:g} s") from None
                if ended:
                    raise self._ended() from None
                continue
            if frame is None:
                raise self._ended()
            return pickle.loads(frame)

    def _ended(self) -> _EndedError:
        try:
            code = self.process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            # It closed its descriptors and lives on.
            return _EndedError("the process stopped answering")
        by = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return _EndedError(f"the process {by}")

    def kill(self) -> None:
        """End the process and whatever it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (AttributeError, OSError):
            self.process.kill()
        for _ in range(10):
            if not (found := _marked(self._mark)):
                break
            for pid in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.kill()
        with contextlib.suppress(OSError):
            self._orders.close()
        self._reader.join(timeout=1.0)
        if not self._reader.is_alive():
            # Else something that was not found holds the other end: the thread is left to wait for it.
            self._pipe.close()


def _marked(mark: str) -> list[int]:
    """Processes whose environment carries the mark, where the system shows environments."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def _read_frames(pipe: IO[bytes], marker: bytes, frames: queue.SimpleQueue[bytes | None]) -> None:
    """Cut what comes through a pipe into answers, leaving out whatever else was written to it."""
    seen = bytearray()
    with contextlib.suppress(OSError, ValueError):
        while chunk := pipe.raw.read(1 << 16):  # type: ignore[attr-defined]
            seen += chunk
            while (start := seen.find(marker)) >= 0:
                del seen[:start]
                body = len(marker) + HEAD.size
                if len(seen) < body:
                    break
                size, checksum = HEAD.unpack_from(seen, len(marker))
                if len(seen) < body + size:
                    break
                frame = bytes(seen[body : body + size])
                del seen[: body + size]
                if zlib.crc32(frame) == checksum:
                    frames.put(frame)
            else:
                del seen[: -len(marker)]
    frames.put(None)
