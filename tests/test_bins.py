"""Bins are closed on the right, for calibrators and metrics alike, and weights equal repetition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from calibrant.bins import edge_index, equal_mass_edges, quantile_index, quantiles, uniform_edges, uniform_index
from calibrant.calibrators.binary.binning import HistogramCalibrator
from calibrant.metrics import reliability_table


def test_edges_belong_to_the_bin_on_their_left() -> None:
    for n_bins in (3, 7, 10, 15, 20, 49):
        edges = np.linspace(0, 1, n_bins + 1)
        np.testing.assert_array_equal(uniform_index(edges[1:], n_bins), np.arange(n_bins))
        beyond = edges[:-1] + 1e-11
        np.testing.assert_array_equal(uniform_index(beyond, n_bins), np.arange(n_bins))
    assert uniform_index(np.array([0.0, 0.3, 0.1 + 0.2, 0.31, 1.0]), 10).tolist() == [0, 2, 2, 3, 9]


@pytest.mark.parametrize("n_edges", [3, 60])
@pytest.mark.parametrize("closed", ["right", "left"])
def test_few_and_many_edges_give_the_bins_of_digitize(n_edges: int, closed: str) -> None:
    edges = np.linspace(0.1, 0.9, n_edges).round(2)
    score = np.concatenate([edges, np.random.default_rng(0).random(500)])
    expected = np.digitize(score, edges, right=closed == "right")
    np.testing.assert_array_equal(edge_index(score, edges, closed), expected)


def test_calibrators_and_metrics_have_the_same_bins() -> None:
    rng = np.random.default_rng(2)
    p = rng.random(400).round(1)  # every score on an edge
    y = (rng.random(400) < p).astype(int)
    table = reliability_table(y, p, n_bins=10)
    fitted = HistogramCalibrator(n_bins=10).fit(p, y)
    np.testing.assert_allclose(fitted.predict_proba(table.score)[:, 1], table.frequency)


def test_quantiles_are_those_of_repeated_values() -> None:
    rng = np.random.default_rng(0)
    score, weight = rng.random(40), rng.integers(1, 5, size=40)
    levels = np.linspace(0, 1, 13)
    expected = np.quantile(np.repeat(score, weight), levels)
    np.testing.assert_allclose(quantiles(score, weight.astype(float), levels), expected, atol=1e-14)


@pytest.mark.parametrize("n_bins", [2, 5, 9])
def test_equal_mass_bins_are_those_of_repeated_values(n_bins: int) -> None:
    rng = np.random.default_rng(1)
    score, weight = np.sort(rng.random(30)), rng.integers(1, 4, size=30)
    rows = np.repeat(np.arange(30), weight)
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    by_weight = quantile_index(np.arange(30), n_bins, weight.astype(float))
    np.testing.assert_array_equal(quantile_index(starts, n_bins, np.ones(len(rows))), by_weight[rows])
    edges = equal_mass_edges(score, weight.astype(float), n_bins)
    parts = np.array_split(score[rows], n_bins)
    ends = np.unique([(a[-1] + b[0]) / 2 for a, b in pairwise(parts)])
    np.testing.assert_allclose(edges, ends)


def test_uniform_edges() -> None:
    np.testing.assert_allclose(uniform_edges(4), [0, 0.25, 0.5, 0.75, 1])
