"""Random numbers of resampling, kept apart from those a user may have made the data with, and draws of labels."""

from __future__ import annotations

import numpy as np

from calibrant.metrics._inputs import FloatArray, IntArray

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
    """Draws labels from the rows of a table of probabilities."""

    def __init__(self, proba: FloatArray) -> None:
        self._cumulated = np.cumsum(proba, axis=1, dtype=np.float64)
        # Rounding may end a row below one; no draw may fall past the last class of positive probability.
        self._last = proba.shape[1] - 1 - np.argmax(proba[:, ::-1] > 0, axis=1)

    def draw(self, rng: np.random.Generator) -> IntArray:
        uniform = rng.random(len(self._cumulated))
        return np.minimum((self._cumulated <= uniform[:, None]).sum(axis=1), self._last)
