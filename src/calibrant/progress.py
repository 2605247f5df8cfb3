"""The progress bar of long work, on standard error; nothing is shown unless that is a terminal.

The bar is drawn by rich, which the extra `cli` installs; without it the work is done in silence.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

#: Share of the work after which the time left is shown: the first steps compile and import, and would promise hours.
TELLING = 0.05


class ProgressBar:
    """A bar with the time spent and left, and failures so far; `total` is a number of steps, or 1.0 for a share."""

    def __init__(self, total: float, what: str, show: bool | None = None) -> None:
        self._bar: Any = None
        self.failed = 0
        wanted = sys.stderr.isatty() if show is None else show
        if wanted and find_spec("rich") is not None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.text import Text

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))

            class TimeLeft(TimeRemainingColumn):
                def render(self, task: Task) -> Text:
                    return super().render(task) if task.completed >= TELLING * (task.total or 0) else Text("-:--:--")

            times = (TimeElapsedColumn(), TextColumn("left"), TimeLeft())
            self._bar = Progress(*columns, *times, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(what, total=total, text="")
        self._total, self._done = total, 0

    def advance(self, failed: bool = False) -> None:
        self._done += 1
        self.failed += failed
        self.move(self._done, f"{self._done}/{self._total}" + (f", {self.failed} failed" if self.failed else ""))

    def move(self, done: float, text: str = "") -> None:
        """Fill the bar up to `done` of the total, with a few words next to it."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, text=text)

    def __enter__(self) -> ProgressBar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
