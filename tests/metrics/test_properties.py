"""Inequalities that hold between the calibration errors of any predictions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.metrics import (
    accuracy,
    auroc,
    brier,
    evaluate,
    expected_calibration_error,
    kolmogorov_smirnov,
    kuiper,
    maximum_calibration_error,
    rms_calibration_error,
    smooth_ece,
)

# Scores on a coarse grid meet ties and the edges of bins often.
SCORES = st.one_of(st.floats(0, 1), st.integers(0, 20).map(lambda i: i / 20))
PAIRS = st.lists(st.tuples(st.integers(0, 1), SCORES), min_size=1, max_size=60)
TINY = 1e-9


@given(PAIRS, st.sampled_from(["uniform", "quantile"]), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_norms_are_ordered(pairs: list, strategy: str, n_bins: int) -> None:
    y, p = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    options: dict = {"strategy": strategy, "n_bins": n_bins}
    ece = expected_calibration_error(y, p, **options)
    rms = rms_calibration_error(y, p, **options)
    worst = maximum_calibration_error(y, p, **options)
    assert -TINY <= ece <= rms + TINY
    assert rms <= worst + TINY
    assert worst <= 1 + TINY
    assert expected_calibration_error(y, p, debias=True, **options) <= ece + TINY
    assert rms_calibration_error(y, p, debias=True, **options) <= rms + TINY


@given(PAIRS, st.integers(1, 6))
@settings(max_examples=50, deadline=None)
def test_finer_bins_see_more(pairs: list, n_bins: int) -> None:
    y, p = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    coarse = expected_calibration_error(y, p, n_bins=n_bins)
    # Bins of half the width split the others, and the absolute value of a sum is at most the sum of absolute values.
    assert coarse <= expected_calibration_error(y, p, n_bins=2 * n_bins) + TINY
    assert abs(np.mean(y - p)) <= coarse + TINY


@given(PAIRS)
@settings(max_examples=50, deadline=None)
def test_cumulative_errors_are_ordered(pairs: list) -> None:
    y, p = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    largest, spread = kolmogorov_smirnov(y, p), kuiper(y, p)
    assert abs(np.mean(y - p)) <= largest + TINY
    assert largest <= spread + TINY
    assert spread <= 2 * largest + TINY
    assert spread <= np.mean(np.abs(y - p)) + TINY
    # Turning the classes round turns the scores round.
    assert kuiper(1 - y, 1 - p) == pytest.approx(spread, abs=1e-7)
    assert 0 <= smooth_ece(y, p) <= 1


@given(st.integers(2, 6), st.integers(1, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_ranges_of_multiclass_metrics(n_classes: int, n_rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(n_classes, 0.3), size=n_rows)
    y = rng.integers(0, n_classes, n_rows)
    classes = range(n_classes)
    values = evaluate(y, p, classes=classes)
    for name, value in values.items():
        if name not in ("log_loss", "auroc"):
            assert 0 <= value <= 2, name
    area = auroc(y, p, classes=classes)
    assert np.isnan(area) or 0 <= area <= 1
    sure = np.eye(n_classes)[y]
    assert accuracy(y, sure, classes=classes) == 1
    assert brier(y, sure, classes=classes) == 0
