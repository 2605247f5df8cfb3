"""What is handed to a working process, and what comes back: calls, batches of them, answers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol


@dataclass(frozen=True)
class Call:
    """One function call for a process.

    Attributes
    ----------
    function : callable
        A function of a module, so that another process can find it.
    arguments : tuple
        Its arguments; what several calls of a batch share is sent once.
    prepare : callable or None
        Called first, outside of the time limit: imports.
    home : str
        Calls of different homes are never made by the same process.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    prepare: Callable[[], Any] | None = None
    home: str = ""


@dataclass(frozen=True)
class Answer:
    """What became of a call: its value, or why there is none."""

    status: Literal["ok", "failed", "timeout"]
    value: Any = None
    message: str = ""


@dataclass(frozen=True)
class Batch:
    """Calls that one process makes one after the other; `about` says what they are for and stays with the caller."""

    about: Any
    calls: tuple[Call, ...]


Answered = tuple[Batch, int, Answer]


class Pool(Protocol):
    """Processes on this machine or on a cluster."""

    @property
    def n_workers(self) -> int:
        """Number of calls that are made at the same time."""

    def sees(self, path: Path) -> bool:
        """Whether every process can read the file."""

    def run(self, batches: Iterable[Batch]) -> Generator[Answered, None, None]:
        """Answers as they come, each with its batch and its place in the batch; batches are taken when needed."""

    def close(self) -> None:
        """End the processes, also those at work."""
