"""Bands and steps of CORP curves where draws have a known distribution, and steps that can be counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from calibrant.metrics import classwise_corp_curves, corp_curve
from calibrant.metrics.result_types import ScoreAxis, fitting_axis


def test_steps_by_hand() -> None:
    s = np.array([0.1, 0.2, 0.2, 0.4, 0.5, 0.7, 0.9])
    y = np.array([0, 1, 0, 0, 0, 1, 1])
    each = np.array([2.0, 1.5, 0.5, 1.0, 3.0, 0.5, 1.5])
    curve = corp_curve(y, s, sample_weight=each, n_resamples=0)
    np.testing.assert_allclose(curve.lower, [0.1, 0.2, 0.7])
    np.testing.assert_allclose(curve.upper, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(curve.weight, [2, 6, 2])
    np.testing.assert_allclose(curve.score, [0.1, (2 * 0.2 + 0.4 + 3 * 0.5) / 6, (0.5 * 0.7 + 1.5 * 0.9) / 2])
    np.testing.assert_allclose(curve.frequency, [0, 1.5 / 6, 1])
    fit = np.array([0, 1.5 / 6, 1.5 / 6, 1.5 / 6, 1.5 / 6, 1, 1])
    for name, loss in (
        ("brier", lambda p: (p - y) ** 2),
        ("log_loss", lambda p: -np.log(np.maximum(np.where(y == 1, p, 1 - p), 1e-15))),
    ):
        given, best, nothing = (each @ loss(p) / 10 for p in (s, fit, np.full(7, 0.35)))
        assert curve.parts[name] == pytest.approx((given, given - best, nothing - best, nothing))
    assert curve.error == curve.parts["brier"].miscalibration
    assert len(curve.at) == len(curve.low) == len(curve.high) == 0
    assert curve.axis == fitting_axis(np.unique(s), fit[[0, 1, 3, 4, 5, 6]], np.array([2.0, 2, 1, 3, 0.5, 1.5]))


# A broken number of observations is drawn as the next whole one.
@pytest.mark.parametrize(("weight", "band"), [(18.0, "consistency"), (17.4, "consistency"), (17.4, "confidence")])
def test_bands_are_quantiles_of_binomial_draws(weight: float, band: Any) -> None:
    y, s = [1, 0, 0, 0, 1, 1, 1, 0], np.repeat([0.2, 0.8], 4)
    curve = corp_curve(y, s, sample_weight=np.full(8, weight / 4), level=0.2, band=band, n_resamples=200)
    chance, around = ((0.2, 0.8), "diagonal") if band == "consistency" else ((0.25, 0.75), "curve")
    assert (curve.level, curve.around) == (0.2, around)
    np.testing.assert_allclose(curve.at, [0.2, 0.8])
    np.testing.assert_allclose(curve.low, binom.ppf(0.4, 18, chance) / 18)
    np.testing.assert_allclose(curve.high, binom.ppf(0.6, 18, chance) / 18)


def test_bands_of_groups_are_quantiles_of_signs() -> None:
    y, s = np.array([1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 1]), np.tile(np.repeat([0.2, 0.9], 3), 2)
    groups = np.repeat([0, 1], 6)
    each = 2.0 + groups
    fit = np.array([each[s == t] @ y[s == t] / each[s == t].sum() for t in (0.2, 0.9)])
    residual = each * (y - fit[(s > 0.5).astype(int)])
    sums = np.array([[residual[(groups == g) & (s == t)].sum() for t in (0.2, 0.9)] for g in (0, 1)])
    for band, chance in (("consistency", np.array([0.2, 0.9])), ("confidence", fit)):
        curve = corp_curve(y, s, sample_weight=each, groups=groups, level=0.9, band=band, n_resamples=60)  # type: ignore[arg-type]
        ways = np.array([chance + (a * sums[0] + b * sums[1]) / 15 for a in (-1, 1) for b in (-1, 1)])
        np.testing.assert_allclose(curve.low, ways.min(axis=0))
        np.testing.assert_allclose(curve.high, np.minimum(ways.max(axis=0), 1))


def test_bands_are_given_where_rows_are_and_across_their_range() -> None:
    s = (np.arange(1, 1001) / 1001) ** 3
    curve = corp_curve(np.arange(1000) % 2, s, n_resamples=2)
    # Ten rows at either end are left aside.
    assert (curve.at[0], curve.at[-1]) == (s[9], s[-10])
    rows = np.searchsorted(s, curve.at)
    assert np.diff(rows).max() <= np.ceil(980 / 99)
    widest = (s[-10] - s[9]) / 99
    assert np.diff(curve.at).max() <= widest + np.diff(s).max()
    few = corp_curve([0, 1, 1], [0.2, 0.5, 0.6], n_resamples=2)
    np.testing.assert_allclose(few.at, [0.2, 0.5, 0.6])


def test_options_of_curves() -> None:
    y, s = [0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9]
    axis = ScoreAxis(0.05, 0.95, log_odds=True)
    curve = corp_curve(y, s, axis=axis, n_resamples=1)
    assert curve.axis == axis
    assert curve.histogram.tolist() == axis.histogram(np.array(s), np.ones(4), 25).tolist()
    assert list(classwise_corp_curves(y, s, n_resamples=0)) == [0, 1]
    with pytest.raises(ValueError, match="n_resamples must not be negative, got -1"):
        corp_curve(y, s, n_resamples=-1)
    with pytest.raises(ValueError, match="level"):
        corp_curve(y, s, level=1.0)
