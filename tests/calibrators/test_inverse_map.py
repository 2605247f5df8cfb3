"""The way back from probabilities to scores: round trips over every method, closed forms, flat pieces, and refusals."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from calibrant import SegmentedCalibrator, get_calibrator, list_calibrators
from calibrant.calibrators.inverse_map import _check_monotone
from calibrant.calibrators.registry import CalibratorInfo
from tests.combinations import each, one_per_class

STORED = [info for info in list_calibrators() if info.stores]
#: Methods whose map of two classes rises wherever rows are.
RISING = ("none", "platt", "platt-logits", "beta", "ts", "affine", "linear", "guo", "vs", "svs", "sms", "dirichlet")


def drawn(n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Log-odds that are too large, and labels."""
    rng = np.random.default_rng(0)
    true = rng.beta(0.6, 2, n)
    return 1.7 * np.log(true / (1 - true)), (rng.random(n) < true).astype(int)


def fitted(method: str, kind: str) -> tuple[Any, np.ndarray]:
    z, y = drawn()
    x = {"probabilities": 1 / (1 + np.exp(-z)), "logits": z, "scores": 700 - 60 * z}[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return get_calibrator(method, input=kind).fit(x, y), x


@pytest.mark.parametrize("kind", ["probabilities", pytest.param("logits", marks=pytest.mark.slow), "scores"])
@pytest.mark.parametrize("info", each(STORED, one_per_class(STORED)))
def test_there_and_back(info: CalibratorInfo, kind: str) -> None:
    calibrator, x = fitted(info.name, kind)
    at = np.quantile(x, np.linspace(0.02, 0.98, 25))
    p = calibrator.predict_proba(at)[:, 1]
    try:
        found = calibrator.inverse(p)
    except ValueError as error:
        assert info.name not in RISING
        # What the message says of two scores is true.
        words = str(error).replace("%", "").split()
        places = [float(words[number + 1]) for number, word in enumerate(words) if word == "of"][:2]
        said = [float(words[number + 1]) for number, word in enumerate(words) if word == "gets"][:2]
        real = 100 * calibrator.predict_proba(np.array(places))[:, 1]
        np.testing.assert_allclose(real, said, rtol=2e-3, atol=1e-6)
        assert said[1] < said[0]
        return
    assert np.all(found.low <= at + 1e-9 * abs(at))
    assert np.all(at <= found.high + 1e-9 * abs(at))
    for ends in found:
        inside = np.isfinite(ends)
        np.testing.assert_allclose(calibrator.predict_proba(ends[inside])[:, 1], p[inside], rtol=1e-9, atol=1e-12)


def test_the_closed_form_of_a_slope_and_an_intercept() -> None:
    calibrator, _ = fitted("affine", "logits")
    model = calibrator.fit(*drawn())
    p = np.array([[0.02, 0.3], [0.6, 0.97]])
    odds = np.log(p / (1 - p))
    expected = (odds - model.intercept_) / model.coef_
    found = model.inverse(p)
    np.testing.assert_allclose(found.low, expected, rtol=1e-9)
    assert found.low.shape == found.high.shape == (2, 2)
    assert isinstance(model.inverse(0.02).low, float)


def test_flat_pieces_are_the_intervals_of_isotonic_regression() -> None:
    z, y = drawn()
    p = 1 / (1 + np.exp(-z))
    calibrator = get_calibrator("isotonic").fit(p, y)
    peer = IsotonicRegression(out_of_bounds="clip").fit(p, y)
    for value in np.unique(peer.y_thresholds_)[1:-1]:
        inside = peer.X_thresholds_[peer.y_thresholds_ == value]
        found = calibrator.inverse(value)
        assert found == pytest.approx((inside.min(), inside.max()), rel=1e-12)


def test_a_jump_over_the_probability_is_a_single_score() -> None:
    calibrator = get_calibrator("hist-uniform", n_bins=2).fit([0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 0, 0, 0, 1, 1])
    low, high = calibrator.predict_proba([0.2, 0.8])[:, 1]
    found = calibrator.inverse((low + high) / 2)
    assert found.low == found.high == pytest.approx(0.5)


def test_falling_scores_and_ends_without_end() -> None:
    calibrator, _ = fitted("ts", "scores")
    assert calibrator.inverse(0.9).low < calibrator.inverse(0.1).low
    flat, x = fitted("isotonic", "logits")
    least = flat.predict_proba(np.array([x.min()]))[0, 1]
    assert flat.inverse(least).low == -np.inf


def test_two_columns_of_scores_give_their_difference() -> None:
    z, y = drawn()
    calibrator = get_calibrator("ts", input="scores").fit(np.column_stack([3 - z, 3 + z]), y)
    score = calibrator.inverse(0.3).low
    assert calibrator.predict_proba([[5.0, 5.0 + score]])[0, 1] == pytest.approx(0.3, rel=1e-9)


def test_what_cannot_be_inverted_is_refused_with_the_reason() -> None:
    z, y = drawn()
    p = 1 / (1 + np.exp(-z))
    isotonic = get_calibrator("isotonic").fit(p[:50], y[:50])
    with pytest.raises(ValueError, match=r"between 0 and 1, got 1\.5"):
        isotonic.inverse([0.2, 1.5])
    with pytest.raises(ValueError, match=r"between 0 and 1, got nan"):
        isotonic.inverse(float("nan"))
    smoothed = get_calibrator("ts-laplace").fit(p[:20], y[:20])
    with pytest.raises(
        ValueError, match=r"no predicted probability gets 99\.99 %: this .* gives class 1 probabilities from "
    ):
        smoothed.inverse(0.9999)
    three = get_calibrator("ts").fit(np.full((6, 3), 1 / 3) + np.eye(3)[[0, 1, 2] * 2] / 3 - 1 / 9, [0, 1, 2] * 2)
    with pytest.raises(ValueError, match="needs two classes; this TemperatureScalingCalibrator has 3"):
        three.inverse(0.5)
    with pytest.raises(ValueError, match=r"the map is constant: every predicted probability gets 50 %"):
        get_calibrator("hist-uniform", n_bins=1).fit([0.1, 0.9], [0, 1]).inverse(0.5)
    segmented = SegmentedCalibrator("ts").fit(p, y, segments={"region": np.where(z > 0, "a", "b")})
    with pytest.raises(ValueError, match="depends on the segment"):
        segmented.inverse(0.5)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([0.0, 1 / 3, 2 / 3, 1.0], r"a score of 0.333333 gets 50 %, and one of 0.666667 gets 30 %"),
        ([0.0, 0.5, 0.5 + 1e-9, 1.0], r"a score of 0.5 gets 50 %, and one of 0.500000001 gets 30 %"),
    ],
)
def test_places_where_a_map_falls_are_written_so_that_they_differ(places: list[float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        _check_monotone(np.array(places), np.array([0.1, 0.5, 0.3, 0.6]), "score")
