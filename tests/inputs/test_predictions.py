"""The log-probabilities of a row do not depend on the rows beside it, on memory order or on strides, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.inputs.predictions import to_log_probabilities

CLASSES = [*range(2, 34), 47, 64, 77, 100, 128, 150, 199, 200]


def layouts(rows: np.ndarray) -> dict[str, np.ndarray]:
    wide = np.zeros((2 * len(rows), 3 * rows.shape[1]), dtype=rows.dtype)
    wide[::2, 1::3] = rows
    shifted = np.empty(rows.size + 1, dtype=rows.dtype)[1:].reshape(rows.shape)
    shifted[:] = rows
    return {
        "fortran": np.asfortranarray(rows),
        "strided": wide[::2, 1::3],
        "reversed": np.ascontiguousarray(rows[::-1])[::-1],
        "shifted": shifted,
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["probabilities", "rounded", "rescaled", "logits"])
def test_a_row_alone_is_the_row_among_others(kind: str, dtype: type) -> None:
    options = {"logits": kind == "logits", "renormalize": kind == "rescaled"}
    for k in CLASSES:
        rng = np.random.default_rng(k)
        values = 3 * rng.normal(size=(101, k))
        if kind != "logits":
            values = np.exp(values) * (rng.random((101, k)) > 0.1)
            values[:, 0] += 1e-3
            if kind != "rescaled":
                values /= values.sum(axis=1, keepdims=True)
            if kind == "rounded":
                values = values.round(6)
        rows = values.astype(dtype)
        together = to_log_probabilities(rows, **options)
        for count in (1, 3, 8, 31):
            for first in (0, 1, 101 - count):
                few = to_log_probabilities(rows[first : first + count], **options)
                assert few.tobytes() == together[first : first + count].tobytes(), (k, count, first)
        many = to_log_probabilities(np.tile(rows, (max(1, 2000 // len(rows)), 1)), **options)
        assert many[-101:].tobytes() == together.tobytes(), k
        for name, moved in layouts(rows).items():
            assert to_log_probabilities(moved, **options).tobytes() == together.tobytes(), (k, name)


def test_a_neighbour_out_of_range_does_not_change_a_row() -> None:
    """Rescaling keeps the sums of enormous rows finite; rows beside them must not notice."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(7), size=50)
    beside = np.vstack([rows, np.full((1, 7), 1e308)])
    alone = to_log_probabilities(rows, logits=False, renormalize=True)
    assert to_log_probabilities(beside, logits=False, renormalize=True)[:50].tobytes() == alone.tobytes()
