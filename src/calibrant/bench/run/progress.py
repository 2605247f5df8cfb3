"""A progress bar with time left and failures so far, silent where nobody watches."""

from __future__ import annotations

import sys
from typing import Any

from calibrant.optional import require


class ProgressBar:
    """Bar over `total` steps.

    Parameters
    ----------
    total : int
        Number of steps.
    what : str
        Word before the bar.
    show : bool, optional
        Whether to show it; by default when standard error is a terminal.

    Examples
    --------
    >>> with ProgressBar(2, "fits", show=False) as bar:
    ...     bar.advance(failed=True)
    >>> bar.failed
    1
    """

    def __init__(self, total: int, what: str, show: bool | None = None) -> None:
        visible = sys.stderr.isatty() if show is None else show
        tqdm = require("tqdm", extra="bench")
        self._bar = tqdm.tqdm(total=total, desc=what, file=sys.stderr, disable=not visible, dynamic_ncols=True)
        self.failed = 0

    def advance(self, failed: bool = False) -> None:
        """Count one more as done."""
        self.failed += failed
        if self.failed:
            self._bar.set_postfix(failed=self.failed, refresh=False)
        self._bar.update()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.close()
