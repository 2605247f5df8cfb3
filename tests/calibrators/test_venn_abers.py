"""Venn-Abers against its definition and beside the package venn-abers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from calibrant.calibrators.binary.isotonic import VennAbersCalibrator
from calibrant.steps import check_steps
from tests.needs import needs
from tests.samples import binary_sample, columns, quiet, sharpened

ROWS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 1), st.integers(1, 3)), min_size=2, max_size=25)


@settings(max_examples=50, deadline=None)
@given(rows=ROWS, test=st.lists(st.integers(1, 19), min_size=1, max_size=6))
def test_interval_is_isotonic_regression_with_the_new_object(rows, test):
    # Powers of two survive logarithm and exponential, so that ties are ties.
    score, y, weight = (np.array(column) for column in zip(*rows))
    p = 2.0 ** -(10.0 - score)
    if len(set(y.tolist())) < 2 or len(set(p.tolist())) < 2:
        return
    calibrator = VennAbersCalibrator().fit(p, y, weight.astype(float))
    points = 2.0 ** -(10.0 - np.array(test) / 2)
    for point, interval in zip(points, calibrator.predict_interval(points)[:, 1]):
        for label in (0, 1):
            x, t, w = np.append(p, point), np.append(y, label), np.append(weight, 1)
            expected = IsotonicRegression().fit(x, t, sample_weight=w).predict([point])[0]
            assert interval[label] == pytest.approx(expected, abs=1e-12)


def test_probability_lies_between_the_two():
    p, y = binary_sample(500)
    calibrator = VennAbersCalibrator().fit(p, y)
    interval = calibrator.predict_interval(p)[:, 1]
    q = calibrator.predict_proba(p)[:, 1]
    assert np.all(interval[:, 0] <= q)
    assert np.all(q <= interval[:, 1])


def test_interval_of_the_first_class_is_turned_round():
    p, y = binary_sample(100)
    interval = VennAbersCalibrator().fit(p, y).predict_interval(p)
    np.testing.assert_array_equal(interval[:, 0], 1.0 - interval[:, 1, ::-1])


def test_own_interval_is_for_two_classes():
    p, y = sharpened(100, 3)
    calibrator = VennAbersCalibrator().fit(p, y)
    with pytest.raises(ValueError, match="fit_intervals"):
        calibrator.predict_interval(p)
    assert calibrator.fit_intervals(p, y, n_resamples=3).predict_interval(p).shape == (100, 3, 2)


@pytest.mark.peer
@pytest.mark.parametrize("decimals", [16, 2])
def test_binary_beside_venn_abers(decimals):
    package = needs("venn_abers.venn_abers")
    p, y = binary_sample(2000)
    p = np.round(p, decimals)
    with quiet():
        peer = package.VennAbers()
        peer.fit(columns(p), y)
        expected, interval = peer.predict_proba(columns(p))
    ours = VennAbersCalibrator().fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(p), expected, atol=1e-9)
    np.testing.assert_allclose(ours.predict_interval(p)[:, 1], interval, atol=1e-9)


@pytest.mark.peer
@pytest.mark.parametrize(("multiclass", "kind"), [("ovr", "one_vs_all"), ("ovo", "one_vs_one")])
def test_more_classes_beside_venn_abers(multiclass, kind):
    package = needs("venn_abers.venn_abers")
    p, y = sharpened(1000, 4)
    with quiet():
        expected, _ = package.predict_proba_prefitted_va(p, y, p, va_tpe=kind)
    ours = VennAbersCalibrator(multiclass=multiclass).fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(p), expected, atol=1e-9)


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_an_absent_class_keeps_a_probability_between_zero_and_one(multiclass):
    p, y = sharpened(60, 5)
    for absent in range(5):
        present = y != absent
        calibrator = VennAbersCalibrator(multiclass=multiclass, classes=list(range(5))).fit(p[present], y[present])
        q = calibrator.predict_proba(p)
        assert q.min() > 0.0
        np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)


def test_scores_next_to_each_other_have_edges_in_order():
    """Five neighbouring floating-point numbers leave no room for two edges each."""
    scores = [0.3]
    for _ in range(4):
        scores.append(float(np.nextafter(scores[-1], 1.0)))
    calibrator = VennAbersCalibrator().fit(scores, [0, 1, 0, 1, 1])
    edges = calibrator.steps()[1].edges
    assert np.all(np.diff(edges) > 0)
    assert np.ptp(edges) < 1e-12
    check_steps(calibrator.steps(), 2)
