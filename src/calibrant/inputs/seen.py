"""The labels of rows that come in parts, and where they appeared: for an error about one that no column stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.labels import distinct


class SeenLabels:
    """The distinct labels seen so far.

    >>> seen = SeenLabels()
    >>> seen.add(np.array([0, 1]), "batch 0")
    >>> seen.add(np.array([1, 9]), "batch 1")
    >>> seen.labels
    array([0, 1, 9])
    >>> with seen.named():
    ...     raise ValueError("There is no column 9.")
    Traceback (most recent call last):
    ValueError: There is no column 9. The last label to appear was 9, in batch 1.
    """

    labels: NDArray[Any]

    def __init__(self) -> None:
        self._known: set[Any] = set()

    def add(self, labels: NDArray[Any], place: str | Callable[[Any], str]) -> None:
        """Take in the distinct labels of a part at some place, or with a function that tells where in it a label is."""
        new = [label for label in labels.tolist() if label not in self._known]
        if not new:
            return
        self.labels = distinct(np.concatenate([self.labels, labels])) if self._known else labels
        self._known.update(new)
        self._last = new[-1], place if isinstance(place, str) else place(new[-1])

    @contextmanager
    def named(self) -> Iterator[None]:
        """Say in an error about labels, which is probably about the last one to appear, where that was."""
        try:
            yield
        except ValueError as error:
            label, place = self._last
            raise ValueError(f"{error} The last label to appear was {label!r}, in {place}.") from None
