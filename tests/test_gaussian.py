from __future__ import annotations

import numpy as np
import pytest
from scipy.special import rel_entr
from scipy.stats import multivariate_normal, norm

from calibrant import BinaryLogisticCalibrator, SMSCalibrator
from calibrant.gaussian import BinaryGaussianModel, GaussianModel
from calibrant.simplex import softmax

UNEQUAL = BinaryGaussianModel(-0.8, 1.2, 0.7, 1.4, prior_positive=0.3)


def test_binary_posterior_is_bayes_rule() -> None:
    x = np.linspace(-3, 4, 50)
    positive = 0.3 * norm.pdf(x, 1.2, 1.4)
    negative = 0.7 * norm.pdf(x, -0.8, 0.7)
    np.testing.assert_allclose(UNEQUAL.posterior(x), positive / (positive + negative), rtol=1e-12)


def random_model(k: int, equal: bool, seed: int = 0) -> GaussianModel:
    rng = np.random.default_rng(seed)
    centring = np.eye(k) - 1.0 / k
    covariances = []
    for _ in range(k):
        root = centring @ (np.eye(k) + 0.3 * rng.normal(size=(k, k)))
        covariances.append(root @ root.T)
    means = 1.5 * centring + 0.3 * rng.normal(size=(k, k)) @ centring
    chosen = np.stack([covariances[0]] * k if equal else covariances)
    return GaussianModel(means - means.mean(axis=1, keepdims=True), chosen, rng.dirichlet(5 * np.ones(k)))


@pytest.mark.parametrize("equal", [True, False])
def test_multiclass_posterior_is_bayes_rule(equal: bool) -> None:
    model = random_model(4, equal)
    x, _ = model.sample(200, random_state=1)
    np.testing.assert_allclose(x.sum(axis=1), 0.0, atol=1e-6)
    densities = np.column_stack(
        [
            prior * multivariate_normal(mean, covariance, allow_singular=True).pdf(x)
            for prior, mean, covariance in zip(model.priors, model.means, model.covariances)
        ]
    )
    expected = densities / densities.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.posterior(x), expected, atol=1e-6)


def test_quadratic_scaling_recovers_the_exact_coefficients_as_n_grows() -> None:
    exact = np.array(UNEQUAL.coefficients())
    errors = []
    for n in (2_000, 200_000):
        x, y = UNEQUAL.sample(n, random_state=2)
        fitted = BinaryLogisticCalibrator(input="logits").fit(x, y)
        errors.append(np.abs(np.array([fitted.quadratic_, fitted.coef_, fitted.intercept_]) - exact).max())
    assert errors[1] < 0.02
    assert errors[1] < errors[0] / 3


def test_affine_scaling_misses_the_bayes_risk_when_variances_differ_and_quadratic_does_not() -> None:
    x, y = UNEQUAL.sample(200_000, random_state=3)
    x_test, _ = UNEQUAL.sample(200_000, random_state=4)
    truth = UNEQUAL.posterior(x_test)

    def excess(kind: str) -> float:
        q = BinaryLogisticCalibrator(kind, input="logits").fit(x, y).predict_proba(x_test)
        return float(np.mean(rel_entr(truth, q[:, 1]) + rel_entr(1 - truth, q[:, 0])))

    assert 0.0 <= excess("quadratic") < 1e-4
    assert excess("affine") > 1e-2


def test_sms_reaches_the_bayes_risk_with_equal_covariances() -> None:
    model = random_model(4, equal=True)
    x, y = model.sample(100_000, random_state=5)
    x_test, _ = model.sample(50_000, random_state=6)
    truth = model.posterior(x_test)
    q = SMSCalibrator().fit(softmax(x), y).predict_proba(softmax(x_test))
    excess = float(np.mean(np.sum(truth * (np.log(truth) - np.log(q)), axis=1)))
    assert 0.0 <= excess < 5e-4
