"""Folds: labels spread evenly, copies of a row kept together, equal predictions of a coarse model spread."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import AutoCalibrator
from calibrant.folds import stratified_folds


def test_labels_are_spread_evenly():
    y = np.random.default_rng(0).integers(3, size=500)
    folds = stratified_folds(y, 5, 0)
    counts = np.array([np.bincount(folds[y == j], minlength=5) for j in range(3)])
    assert (counts.max(axis=1) - counts.min(axis=1) <= 1).all()


def test_copies_share_the_fold_of_their_row():
    rng = np.random.default_rng(0)
    x, y, times = rng.normal(size=(200, 3)), rng.integers(3, size=200), rng.integers(1, 4, size=200)
    once = stratified_folds(y, 5, 7, x)
    np.testing.assert_array_equal(once, stratified_folds(y, 5, 7))  # nothing alike: as without predictions
    rows = np.repeat(np.arange(200), times)
    np.testing.assert_array_equal(stratified_folds(y[rows], 5, 7, x[rows]), once[rows])


def test_repeated_rows_have_the_folds_of_weighted_ones():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(60, 2)), rng.integers(2, size=60)
    pairs = np.repeat(np.arange(60), 2)
    weight = rng.integers(1, 3, size=120)
    rows = np.repeat(np.arange(120), weight)
    weighted = stratified_folds(y[pairs], 4, 7, x[pairs], weight)
    np.testing.assert_array_equal(stratified_folds(y[pairs][rows], 4, 7, x[pairs][rows]), weighted[rows])
    # Weights make a crowd, too: two equal rows of weight 300 are predictions of a coarse model.
    apart = stratified_folds(np.zeros(40, dtype=int), 40, 7, np.repeat(x[:20], 2, axis=0), np.full(40, 300.0))
    assert len(set(apart)) == 40


def test_many_equal_predictions_are_spread():
    x = np.zeros((300, 2))
    x[:30] = np.random.default_rng(0).normal(size=(30, 2))
    folds = stratified_folds(np.arange(300) % 2, 5, 0, x)
    assert np.bincount(folds[30:], minlength=5).min() > 40


@pytest.mark.parametrize("times", [1, 3])
def test_repeated_rows_do_not_teach_the_trees_what_they_are_tested_on(times):
    """Labels drawn from the predictions: there is nothing to learn, however often the rows are repeated."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=300)
    y = (p.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1)
    auto = AutoCalibrator().fit(np.repeat(p, times, axis=0), np.repeat(y, times))
    test = rng.dirichlet(np.ones(3), size=4000)
    harm = (test * np.log(test / auto.predict_proba(test))).sum(axis=1).mean()
    assert harm < 0.02
