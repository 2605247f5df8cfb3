"""Columns whose order the labels contradict are doubted, with or without names; honest predictions never are."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax

from calibrant import CalibrationWarning, get_calibrator, metrics
from calibrant.inputs.samples import better_order
from calibrant.sample import Sample

LABELS = np.array(["bird", "cat", "dog"])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def drawn(p, rng):
    return (p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1)


def three(rng, n=300):
    p = softmax(1.5 * rng.normal(size=(n, 3)), axis=1)
    return p, LABELS[drawn(p, rng)]


@pytest.mark.parametrize("frame", [False, True])
def test_permuted_columns_are_warned_of_and_the_advice_is_right(rng, frame):
    p, y = three(rng)
    given = pd.DataFrame(p[:, [2, 0, 1]]) if frame else p[:, [2, 0, 1]]
    said = "as the classes 'bird', 'cat', 'dog', but .* far better as 'dog', 'bird', 'cat'. Pass classes="
    with pytest.warns(CalibrationWarning, match=f"columns of X are read {said}"):
        get_calibrator("ts").fit(given, y)
    with pytest.warns(CalibrationWarning, match=f"columns of y_prob are read {said}"):
        metrics.log_loss(y, given)
    right = ["dog", "bird", "cat"]
    assert metrics.log_loss(y, given, classes=right) == pytest.approx(metrics.log_loss(y, p))
    with pytest.warns(CalibrationWarning, match="order 'dog', 'bird', 'cat'"):  # of the classes that it returns
        followed = get_calibrator("ts", classes=right).fit(given, y)
    assert metrics.log_loss(y, followed.predict_proba(given), classes=right) == pytest.approx(
        metrics.log_loss(y, get_calibrator("ts").fit(p, y).predict_proba(p))
    )


def test_a_single_column_of_the_other_class_is_warned_of(rng):
    p = expit(1.5 * rng.normal(size=300))
    y = np.where(rng.random(300) < p, "defaulted", "paid")
    with pytest.warns(
        CalibrationWarning, match="far better as 'paid', 'defaulted' .a single column is that of the sec"
    ):
        wrong = metrics.log_loss(y, p)
    assert metrics.log_loss(y, p, classes=["paid", "defaulted"]) < wrong - 0.5


def test_outputs_in_another_order_than_the_sorted_one_are_warned_of(rng):
    p = expit(1.5 * rng.normal(size=300))
    y = np.where(rng.random(300) < p, "defaulted", "paid")
    with pytest.warns(CalibrationWarning, match="Metrics assume sorted order"):
        calibrator = get_calibrator("ts", classes=["paid", "defaulted"]).fit(p, y)
    with pytest.warns(CalibrationWarning, match="columns of y_prob are read as the classes 'defaulted', 'paid'"):
        metrics.log_loss(y, calibrator.predict_proba(p))


def test_an_order_that_was_named_is_not_doubted(rng):
    p, y = three(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics.log_loss(y, p[:, [2, 0, 1]], classes=LABELS)
        get_calibrator("ts", classes=LABELS).fit(p[:, [2, 0, 1]], y)


def calibrated(rng, n, k):
    p = rng.dirichlet(np.full(k, 0.5), n)
    return p, drawn(p, rng)


def noise(rng, n, k):
    return rng.dirichlet(np.full(k, 0.2), n), rng.integers(0, k, n)


def rare(rng, n, k):
    """A model of balanced classes, where one of them has most rows."""
    z = rng.normal(size=(n, k))
    first = np.arange(k) == 0
    return softmax(z - first, axis=1), drawn(softmax(z + np.log(20) * first, axis=1), rng)


def over_confident(rng, n, k):
    z = rng.normal(size=(n, k))
    return softmax(5 * z, axis=1), drawn(softmax(0.3 * z, axis=1), rng)


@pytest.mark.parametrize("honest", [calibrated, noise, rare, over_confident])
@pytest.mark.parametrize(("n", "k"), [(20, 2), (1000, 2), (20, 3), (20, 10), (300, 10), (50, 50)])
def test_honest_predictions_are_never_doubted(rng, honest, n, k):
    assert not any(better_order(Sample(*honest(rng, n, k))) for _ in range(40))


def test_copies_are_one_group_and_counts_are_copies():
    y = np.tile([0, 1], 12)
    first = np.where(y == 0, 0.4, 0.6) + np.repeat([-0.35, 0.35], 12)
    p = np.column_stack([first, 1 - first])
    rows = np.repeat(np.arange(24), 40)
    assert better_order(Sample(p, y)) is None
    assert better_order(Sample(p[rows], y[rows])) == [1, 0] == better_order(Sample(p, y, np.full(24, 40.0)))
    assert better_order(Sample(p[rows], y[rows], groups=rows)) is None


def test_swapped_pairs_are_found_and_few_rows_are_not_judged(rng):
    p, y = calibrated(rng, 400, 4)
    assert better_order(Sample(p[:, [1, 0, 3, 2]], y)) == [1, 0, 3, 2]
    assert better_order(Sample(p[:19, [1, 0, 3, 2]], y[:19])) is None
