"""The inverse temperature against a general minimiser, with and without a prior."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from calibrant.softmax.inverse_temperature import (
    Minimum,
    _start_with_prior,
    fit_inverse_temperature,
    inverse_temperature_search,
)
from calibrant.softmax.rows.arrays import ArrayProblem


def draw(n, k, scale, seed=0):
    rng = np.random.default_rng(seed)
    x = log_softmax(rng.normal(size=(k, n)), axis=0)
    return x, (scale * x + rng.gumbel(size=(k, n))).argmax(axis=0)


@pytest.mark.parametrize("prior", [0.0, 0.25, 50.0])
@pytest.mark.parametrize("scale", [0.2, 5.0])
@pytest.mark.parametrize("n", [40, 5000])
def test_minimum_is_that_of_a_general_minimiser(n, scale, prior):
    x, y = draw(n, 4, scale)
    weight = np.random.default_rng(1).integers(1, 4, n).astype(float)

    def objective(s):
        loss = -log_softmax(np.exp(s) * x, axis=0)[y, np.arange(n)]
        return (weight @ loss + prior * s * s / 2.0) / weight.sum()

    alpha, value = fit_inverse_temperature(x, y, weight, prior=prior)
    found = minimize_scalar(objective, bracket=(-1.0, 1.0), tol=1e-10)
    assert alpha == pytest.approx(np.exp(found.x), rel=1e-4)
    assert value == pytest.approx(found.fun, abs=1e-9)
    assert value == pytest.approx(objective(np.log(alpha)), rel=1e-13)  # though no pass was made there


def test_data_without_errors_lead_to_certainty_only_without_a_prior():
    x, _ = draw(500, 3, 1.0)
    y = x.argmax(axis=0)
    free, held = (fit_inverse_temperature(x, y, prior=prior)[0] for prior in (0.0, 0.25))
    assert 1.0 < held < 1e3 < 1e4 < free


@pytest.mark.parametrize("margin", [1e-1, 1e-3])
@pytest.mark.parametrize("errors", [0, 2])
@pytest.mark.parametrize("start", [1.0, 1e3])
def test_nearly_uniform_predictions_have_two_minima_and_the_lower_one_is_found(start, errors, margin):
    n = 40
    x = np.log([[0.5 + margin] * n, [0.5 - margin] * n])
    y = (np.arange(n) < errors).astype(np.int64)
    grid = np.linspace(-3.0, 14.0, 5001)
    of_label = -log_softmax(np.exp(grid) * x[:, :1], axis=0)  # all rows are alike: a loss for each label
    losses = of_label.T @ np.bincount(y, minlength=2) / n
    alpha, value = fit_inverse_temperature(x, y, start=start, prior=0.25)
    objective = losses + 0.25 * grid**2 / 2.0 / n
    assert value <= objective.min() + 1e-9
    assert np.log(alpha) == pytest.approx(grid[objective.argmin()], abs=0.01)


def searched(function, start, *, always_right=False, **options) -> tuple[list[float], Minimum]:
    """The logarithms at which a search asks for ``F(s), F'(s), F''(s)``, and what it finds."""
    asked: list[float] = []
    search = inverse_temperature_search(start, lambda: always_right, **options)
    try:
        alpha = next(search)
        while True:
            s = float(np.log(alpha))
            asked.append(s)
            value, first, second = function(s)
            alpha = search.send((value, first / alpha, (second - first) / alpha**2))
    except StopIteration as end:
        return asked, end.value


def cubic(bend=2.0, third=0.0, at=0.2, least=0.3):
    def function(s):
        t = s - at
        return least + bend * t * t / 2.0 + third * t**3 / 6.0, bend * t + third * t * t / 2.0, bend + third * t

    return function


def test_a_search_ends_where_the_next_step_no_longer_matters():
    """The error left is the square of a step of Newton's, the cube of one with the third derivative."""
    asked, found = searched(cubic(third=1e-3), 1.0)
    assert asked == pytest.approx([0.0, 0.2], abs=1e-4)
    assert (np.log(found.alpha), found.loss) == pytest.approx((0.2, 0.3), rel=1e-12)
    for distance, third, count in ((0.9e-6, np.nan, 1), (1.1e-6, np.nan, 2), (2.9e-4, 0.5, 1), (3.1e-4, 0.5, 2)):
        asked, found = searched(cubic(third=0.5), np.exp(0.2 - distance), third=third)
        assert len(asked) == count
        assert np.log(found.alpha) == pytest.approx(0.2, abs=1e-11)
        assert found.loss == pytest.approx(0.3, abs=1e-15)
    assert len(searched(cubic(third=0.1), np.exp(0.2 - 0.019), third=0.0, small=0.02)[0]) == 1
    assert len(searched(cubic(third=0.1), np.exp(0.2 - 0.019), small=0.02)[0]) == 2


def test_two_curvatures_that_are_near_give_the_third_derivative():
    for distance in (0.299, 0.301):
        asked, _ = searched(lambda s, d=distance: (0.0, -0.2, 2.6) if s else (0.0, -2.0 * d, 2.0), 1.0)
        newton = 0.2 / 2.6
        if distance < 0.3:
            newton *= 1.0 - (0.6 / distance) * newton / (2.0 * 2.6)
        assert asked[:3] == pytest.approx([0.0, distance, distance + newton], abs=1e-12)
    for third, used in ((0.99, True), (1.01, False)):  # a correction beyond a half makes no sense
        asked, _ = searched(cubic(bend=1.0, at=1.0), 1.0, third=third)
        assert asked[1] == pytest.approx(1.0 - 0.5 * third if used else 1.0)


@pytest.mark.parametrize(("slope", "end"), [(-1.0, 16.0), (1.0, np.log(1e-3))])
def test_without_curvature_a_search_moves_by_two_at_most_and_halves_what_is_left(slope, end):
    asked, found = searched(lambda s: (5.0 + slope * s, slope, 0.0), 1.0)
    expected = [0.0]
    while len(expected) < 12:
        expected.append(expected[-1] + np.clip((end - expected[-1]) / 2.0, -2.0, 2.0))
    assert asked[:12] == pytest.approx(expected, abs=1e-9)
    assert np.log(found.alpha) == pytest.approx(end, abs=2e-6)
    assert found.loss == pytest.approx(5.0 + slope * end, abs=3e-6)
    assert searched(cubic(), np.exp(3.0 * end))[0][0] == pytest.approx(end)


def test_a_search_asks_once_whether_every_row_is_right():
    falling = cubic(at=40.0)
    asked, found = searched(falling, 3.99, always_right=True)
    assert asked[0] == pytest.approx(np.log(3.99))
    assert asked[-1] == pytest.approx(16.0)
    assert found.loss == falling(16.0)[0]
    assert len(searched(falling, 4.01, always_right=True)[0]) == 1
    held, _ = searched(cubic(at=2.0), 4.01, always_right=True, pull=1e-9)  # with a prior nothing is at infinity
    assert held[-1] == pytest.approx(2.0)


def test_a_prior_adds_its_square_to_the_loss():
    asked, found = searched(cubic(bend=2.0, at=0.2), 1.0, pull=0.5)
    assert asked == pytest.approx([0.0, 0.16])
    assert np.log(found.alpha) == pytest.approx(0.4 / 2.5)
    assert found.loss == pytest.approx(0.3 + 0.04**2 + 0.25 * 0.16**2)


def test_a_search_that_creeps_ends_after_a_hundred_steps():
    asked, found = searched(lambda s: (7.0 - s, -4e-4 - 0.5 * s, 0.5), 1.0, pull=0.5)
    assert len(asked) == 101
    assert np.log(found.alpha) == pytest.approx(asked[-1]) == pytest.approx(0.04)
    assert found.loss == pytest.approx(7.0 - 0.04 + 0.25 * 0.04**2)


def test_with_a_prior_the_search_starts_at_the_best_point_of_a_grid():
    asked: list[float] = []

    def scaled(alpha):
        asked.append(float(np.log(alpha)))
        return (abs(np.log(alpha) - 1.9), 0.0, 0.0)

    problem = SimpleNamespace(scaled=scaled)
    assert _start_with_prior(problem, np.exp(3.6), 0.0) == pytest.approx(np.exp(1.8))
    assert asked == pytest.approx([0.9, 1.8, 2.7, 3.6])
    assert _start_with_prior(problem, np.exp(3.6), 2.0) == pytest.approx(np.exp(0.9))
    asked.clear()
    assert _start_with_prior(problem, np.exp(-1.5), 0.0) == pytest.approx(np.exp(-0.75))
    asked.clear()
    assert _start_with_prior(problem, np.exp(0.9), 0.0) == np.exp(0.9)
    assert not asked


@pytest.mark.parametrize(("n", "first"), [(2047, 2047), (2048, 512), (5000, 556)])
def test_many_rows_are_searched_from_the_optimum_of_some(n, first, monkeypatch):
    rows: list[int] = []
    scaled = ArrayProblem.scaled
    monkeypatch.setattr(ArrayProblem, "scaled", lambda p, alpha: rows.append(p.n_rows) or scaled(p, alpha))
    fit_inverse_temperature(*draw(n, 3, 1.5), np.ones(n))
    assert rows[0] == first
    assert rows[-1] == n
