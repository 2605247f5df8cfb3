"""The inverse temperature against a general minimiser, with and without a prior."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from calibrant.softmax.inverse_temperature import fit_inverse_temperature


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
