"""Murphy diagrams against their definition, model-diagnostics and the Brier score; dominance by brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, t

from calibrant.inputs.words import CalibrationWarning
from calibrant.metrics import MurphyDiagram, brier, murphy_diagram
from tests.needs import needs


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    p = rng.random(400).round(2)
    return (rng.random(400) < p).astype(int), p, np.clip(p + rng.normal(0, 0.2, 400), 0, 1)


def by_hand(y: np.ndarray, p: np.ndarray, at: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    t = at[:, None]
    return np.average(np.where(y == 1, (1 - t) * (p <= t), t * (p > t)), weights=weight, axis=1)


def test_scores_by_their_definition(data: tuple) -> None:
    y, p, q = data
    found = murphy_diagram(y, p, q, thresholds=[0.25, 0.5, 0.505, 0.9], n_resamples=20)
    np.testing.assert_allclose(found.score, by_hand(y, p, found.threshold), atol=1e-14)
    np.testing.assert_allclose(found.other, by_hand(y, q, found.threshold), atol=1e-14)
    np.testing.assert_allclose(found.difference, found.score - found.other)
    weight = np.random.default_rng(1).integers(0, 3, 400)
    weighed = murphy_diagram(y, p, q, sample_weight=weight, n_resamples=20)
    np.testing.assert_allclose(weighed.score, by_hand(y, p, weighed.threshold, weight), atol=1e-14)


@pytest.mark.peer
def test_scores_like_model_diagnostics(data: tuple) -> None:
    score = needs("model_diagnostics.scoring").ElementaryScore
    y, p, _ = data
    at = np.array([0.105, 0.335, 0.505, 0.875])  # at a prediction itself it counts `p ≥ θ` as acting, not `p > θ`
    found = murphy_diagram(y, p, thresholds=at, n_resamples=20).score
    np.testing.assert_allclose(found, [score(eta=t, functional="mean")(y, p) for t in at], atol=1e-12)


def test_twice_the_area_is_the_brier_score(data: tuple) -> None:
    y, p, _ = data
    at = (np.arange(20_000) + 0.5) / 20_000
    assert 2 * murphy_diagram(y, p, thresholds=at, n_resamples=2).score.mean() == pytest.approx(brier(y, p), abs=1e-8)
    rng = np.random.default_rng(0)
    many, labels = rng.dirichlet([1, 1, 2], 100), rng.integers(0, 3, 100)
    found = murphy_diagram(labels, many, thresholds=at, n_resamples=2).score.mean()
    assert 2 * found == pytest.approx(brier(labels, many), abs=1e-5)  # predictions between thresholds
    one = murphy_diagram(labels, many, pos_label=2, n_resamples=20)
    np.testing.assert_allclose(one.score, by_hand(labels == 2, many[:, 2], one.threshold), atol=1e-14)


@pytest.mark.parametrize("seed", range(12))
def test_dominance_by_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.random(8).round(1)
    y = (rng.random(8) < p).astype(int)
    y[:2] = 0, 1
    q = p.copy() if seed == 0 else np.where(y == 1, p - 0.1, p + 0.1).clip(0, 1) if seed < 4 else rng.random(8).round(1)
    at = (np.arange(10_000) + 0.5) / 10_000
    difference = by_hand(y, p, at) - by_hand(y, q, at)
    better, worse = bool((difference < -1e-9).any()), bool((difference > 1e-9).any())
    expected = {(1, 0): "first", (0, 1): "second", (0, 0): "equal", (1, 1): "neither"}[better, worse]
    found = murphy_diagram(y, p, q, n_resamples=20)
    assert found.dominance == expected
    assert found.worse == pytest.approx((difference > 1e-9).mean(), abs=2e-4)


def test_words() -> None:
    y, p = np.repeat([0, 1], 200), np.repeat([0.2, 0.4, 0.6, 0.8], 100)
    better = murphy_diagram(y, p, n_resamples=100)
    assert repr(better).startswith(
        "The predictions dominate the class frequencies: better or equal on these rows at every"
    )
    assert "beyond chance they are better between 20.0% and 79.0%." in repr(better)
    turned = repr(murphy_diagram(y, 1 - p, classes=[0, 1], n_resamples=100))
    high = np.where(np.isin(better.threshold, [0.3, 0.5, 0.6]), -0.1, 0.1)
    holes = repr(replace(better, high=high, low=np.where(better.threshold == 0.9, 0.05, -0.2)))
    assert "they are better at 3 of the 31 thresholds between 30.0% and 60.0% and worse at 90.0%." in holes
    assert turned.startswith("The class frequencies dominate: the predictions are nowhere better")
    assert "beyond chance they are worse between" in turned
    equal = murphy_diagram(y, p, p, n_resamples=20)
    assert (
        repr(equal) == "The predictions and the other predictions have the same scores; no difference is beyond chance."
    )
    half = murphy_diagram([0, 1, 0, 1, 1, 0], [0.3, 0.6, 0.2, 0.4, 0.9, 0.5], [0.4, 0.7, 0.1, 0.4, 0.9, 0.5])
    assert repr(half).startswith("Neither the predictions nor the other predictions dominate: on these rows the pred")
    assert "no difference is beyond chance" in repr(half)


def test_the_band_of_equal_predictions_allows_for_what_was_not_seen() -> None:
    """Nothing varies, but two rows more, on which the predictions decide differently, may just not have been drawn."""
    y, p, at = [0, 1, 1, 0, 1, 0], [0.3, 0.6, 0.2, 0.4, 0.9, 0.5], np.array([0.1, 0.5, 0.8])
    for level, groups, n in ((0.95, None, 6), (0.8, [0, 0, 1, 1, 2, 2], 3)):
        found = murphy_diagram(y, p, p, thresholds=at, level=level, groups=groups, n_resamples=5)
        half = t.ppf((1 + level) / 2, n - 1) * np.sqrt(1 + 2 / (n - 1)) * np.sqrt(2) * np.maximum(at, 1 - at) / n
        np.testing.assert_allclose([-found.low, found.high], [half, half], rtol=1e-9)


def test_the_band_holds_at_all_thresholds_at_once(data: tuple) -> None:
    y, p, q = data
    lost = [np.where(y == 1, 0.6 * (score <= 0.4), 0.4 * (score > 0.4)) for score in (p, q)]
    one = murphy_diagram(y, p, q, thresholds=[0.4], n_resamples=400)
    error = np.hypot(np.std(lost[0] - lost[1]) / 20, np.sqrt(2) * 0.6 / 400)
    np.testing.assert_allclose(one.high - one.difference, norm.ppf(0.975) * error, rtol=0.1)
    many = murphy_diagram(y, p, q, n_resamples=200)
    np.testing.assert_array_equal(many.threshold, np.arange(1, 100) / 100)
    factor = (many.high - many.difference)[39] / error
    assert 2.3 < factor < 4.0  # 99 independent deviations would need 3.5, of normal tails
    np.testing.assert_allclose(many.difference - many.low, many.high - many.difference)


def test_one_row_has_a_diagram_without_a_band() -> None:
    with pytest.warns(CalibrationWarning, match="no interval"):
        found = murphy_diagram([1], [0.3], thresholds=[0.2, 0.4], classes=[0, 1])
    assert found.score == pytest.approx([0, 0.6])
    assert np.isnan([found.low, found.high]).all()


def test_a_band_that_touches_zero_is_no_difference() -> None:
    at, zero = np.array([0.2, 0.5, 0.8]), np.zeros(3)
    low, high = np.array([-0.1, 0.0, 0.1]), np.array([0.0, 0.1, 0.2])
    found = MurphyDiagram(at, zero, zero, zero, low, high, "neither", 0.25, "the others", 0.95)
    assert repr(found).endswith("worse at 25.0% of all thresholds; beyond chance they are worse at 80.0%.")


def test_groups_widen_the_band(data: tuple) -> None:
    y, p, q = data
    copies = np.repeat(np.arange(400), 8)
    plain, grouped = (
        murphy_diagram(y[copies], p[copies], q[copies], groups=groups, n_resamples=100) for groups in (None, copies)
    )
    assert np.mean(grouped.high - grouped.low) > 2 * np.mean(plain.high - plain.low)
    assert sorted(grouped.to_dict()) == ["difference", "high", "low", "other", "score", "threshold"]


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="y_prob has 2 classes and other 3"):
        murphy_diagram([0, 1], [0.1, 0.2], np.full((2, 3), 1 / 3), classes=None)
    for thresholds in ([0.0], [1.0], []):
        with pytest.raises(ValueError, match="thresholds must lie between 0 and 1"):
            murphy_diagram([0, 1], [0.1, 0.2], thresholds=thresholds)
