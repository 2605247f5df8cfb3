"""Rows in memory: what compiled code does to them is what NumPy would have done."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.sample import Sample
from calibrant.simplex import LOG_FLOOR, log_probabilities
from calibrant.softmax.rows.row_source import ArrayRows, log_of_many
from calibrant.steps import Log, Mix, Scale, Softmax, run_from_logs


def probabilities(n: int, k: int) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.full(k, 0.05), size=n)


@pytest.mark.parametrize("order", ["C", "F"])
def test_compiled_logarithms_are_those_of_numpy(order):
    p = np.array(probabilities(5000, 13), order=order)
    p[0, :4] = 0.0, 5e-324, 1e-310, 1.0
    expected = log_probabilities(p)
    x = log_of_many(p)
    assert x is p
    assert x[0, 3] == 0.0
    assert np.all(x[0, :3] == LOG_FLOOR)
    np.testing.assert_allclose(x, expected, rtol=0.0, atol=3e-14)  # two units in the last place of the floor


def test_part_of_an_array_is_overwritten_where_it_is():
    p = probabilities(5000, 13)
    expected = p.copy()
    expected[::2] = log_probabilities(p[::2])
    log_of_many(p[::2])
    np.testing.assert_array_equal(p, expected)


def test_few_logarithms_are_not_worth_compiled_code(monkeypatch):
    taken = []
    monkeypatch.setattr("calibrant.softmax.kernels.take_logs", lambda x, least: taken.append(len(x)))
    for n in (2**14 - 1, 2**14):
        log_of_many(np.full((n, 2), 0.5))
    assert taken == [2**15]


def test_mapped_rows_are_those_of_the_steps():
    x = log_probabilities(probabilities(5000, 13))
    steps = [Log(), Scale(0.7), Softmax(), Mix(1e-4), Log()]
    found = ArrayRows(Sample(x, np.zeros(len(x), dtype=np.int64), logs=True)).mapped(steps).x
    np.testing.assert_allclose(found, run_from_logs(steps, x.copy()), rtol=0.0, atol=1e-13)
