from decimal import Decimal, getcontext
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_softmax as scipy_log_softmax
from scipy.special import logit

from calibrant import simplex


def test_log_odds_is_exact_next_to_zero_and_one() -> None:
    getcontext().prec = 60
    for p in (1e-300, 1e-30, 1e-8, 0.3, 0.5, 1 - 1e-8, 1 - 2**-53):
        q = Decimal(p)
        exact = float((q / (1 - q)).ln())
        assert simplex.log_odds(p) == pytest.approx(np.clip(exact, simplex.LOG_FLOOR, -simplex.LOG_FLOOR), rel=1e-13)
    p = np.linspace(1e-6, 1 - 1e-6, 101)
    np.testing.assert_allclose(simplex.log_odds(p), logit(p), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("p", [0.0, 5e-324, 1e-310])
def test_zero_and_denormal_probabilities_meet_the_floor(p: float) -> None:
    assert simplex.log_probabilities([[p, 1.0]])[0].tolist() == [simplex.LOG_FLOOR, 0.0]
    assert simplex.log_odds(p) == simplex.LOG_FLOOR
    assert np.float32(np.log(np.longdouble(np.finfo(np.float32).tiny))) == simplex.LOG_FLOOR
    assert pytest.approx(np.exp(simplex.LOG_FLOOR), rel=1e-15) == simplex.FLOOR
    page = (Path(__file__).parents[1] / "docs" / "format.md").read_text(encoding="utf-8")
    assert repr(simplex.FLOOR) in page
    assert repr(simplex.LOG_FLOOR) in page


def test_centred_logarithms_invert_the_softmax() -> None:
    z = np.random.default_rng(0).normal(size=(20, 5))
    z -= z.mean(axis=1, keepdims=True)
    x = simplex.log_probabilities(simplex.softmax(z))
    np.testing.assert_allclose(x - x.mean(axis=-1, keepdims=True), z, atol=1e-13)


def test_softmax_agrees_with_scipy_and_ignores_a_constant() -> None:
    z = np.random.default_rng(1).normal(scale=50, size=(20, 5))
    np.testing.assert_allclose(simplex.log_softmax(z), scipy_log_softmax(z, axis=1), atol=1e-12)
    np.testing.assert_allclose(simplex.softmax(z + 1e4), simplex.softmax(z), atol=1e-11)
    assert simplex.softmax([0.0, 0.0, -np.inf]).tolist() == [0.5, 0.5, 0.0]  # an impossible class


def test_laplace_smoothing_counts_one_observation_spread_over_all_classes() -> None:
    p = np.array([[1.0, 0.0, 0.0, 0.0]])
    n = 9
    smoothed = simplex.mix_with_uniform(p, simplex.laplace_weight(n))
    np.testing.assert_allclose(smoothed, (n * p + 1 / 4) / (n + 1))
