"""Random numbers of resampling, kept apart from those a user may have made the data with, and draws of labels."""

from __future__ import annotations

import numpy as np

from calibrant.typing import AnyFloatArray, AnyIntArray

# Data simulated with `default_rng(0)` and resampled with `default_rng(0)` would share their random numbers.
OWN_STREAM = 0xCA11B


def generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """Generator of a seed, on a stream of its own; a given generator is used as it is."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng()
    return np.random.default_rng([OWN_STREAM, random_state])


class LabelSampler:
    """Draws labels from the rows of a table of probabilities.

    Row `i` with cumulated probabilities `c_ij` occupies the stretch from `i` to `i + 1` of one long sorted list, in
    which `i + u_i` with uniform `u_i` is looked up: the cost of a draw hardly depends on the number of classes.
    """

    def __init__(self, proba: AnyFloatArray) -> None:
        n_rows, self._n_classes = proba.shape
        self._rows = np.arange(n_rows)
        cumulated = np.minimum(np.cumsum(proba, axis=1, dtype=np.float64), 1.0)
        self._flat = (cumulated + self._rows[:, None]).ravel()
        # Rounding may end a row below one; no draw may fall past the last class of positive probability.
        self._last = self._n_classes - 1 - np.argmax(proba[:, ::-1] > 0, axis=1)
        # Of two classes: where the second begins.
        self._first = np.where(self._last > 0, cumulated[:, 0], np.inf)

    def draw(
        self, rng: np.random.Generator, rows: AnyIntArray | None = None, uniform: AnyFloatArray | None = None
    ) -> AnyIntArray:
        """A label of each of these rows (by default of every row once), by fresh random numbers or by these."""
        every = slice(None) if rows is None else rows
        rows = self._rows if rows is None else rows
        uniform = rng.random(len(rows)) if uniform is None else uniform
        if self._n_classes == 2:  # one comparison instead of a search
            return (uniform >= self._first[every]).astype(np.intp)
        found = np.searchsorted(self._flat, rows + uniform, side="right") - rows * self._n_classes
        return np.clip(found, 0, self._last[rows])
