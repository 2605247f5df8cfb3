"""Expected losses against closed forms and against means over all labels."""

import numpy as np
import pytest

from calibrant.metrics import evaluate
from calibrant.metrics.losses import expected_losses


def test_excess_is_the_divergence_and_the_squared_distance():
    rng = np.random.default_rng(1)
    q, p = rng.dirichlet(np.ones(4), size=50), rng.dirichlet(np.ones(4), size=50)
    best, found = expected_losses(q, q), expected_losses(q, p)
    assert found["logloss"] - best["logloss"] == pytest.approx((q * np.log(q / p)).sum(axis=1).mean(), rel=1e-12)
    assert found["brier"] - best["brier"] == pytest.approx(((p - q) ** 2).sum(axis=1).mean(), rel=1e-12)


def test_mean_over_all_labels():
    rng = np.random.default_rng(2)
    q, p = rng.dirichlet(np.ones(3), size=40), rng.dirichlet(np.ones(3), size=40)
    names = ["log_loss", "brier", "accuracy"]
    options = {"classes": range(3), "options": {"brier": {"scale_by_half": False}}}
    # Each row with every label, weighed by the label's probability.
    y, rows = np.repeat(np.arange(3), 40), np.tile(p, (3, 1))
    weighed = evaluate(y, rows, names, sample_weight=q.T.ravel(), **options)
    assert list(weighed.values()) == pytest.approx(list(expected_losses(q, p).values()), rel=1e-12)


def test_impossible_classes():
    q = np.array([[1.0, 0.0]])
    assert expected_losses(q, q) == {"logloss": 0.0, "brier": 0.0, "accuracy": 1.0}
    assert expected_losses(q, q[:, ::-1])["logloss"] == pytest.approx(-np.log(1e-15))
    assert expected_losses(q, q[:, ::-1], floor=0.0)["logloss"] == np.inf
    assert expected_losses(q, q, floor=0.0)["logloss"] == 0.0


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"truth has shape \(1, 2\), proba \(2, 2\)"):
        expected_losses(np.full((1, 2), 0.5), np.full((2, 2), 0.5))
