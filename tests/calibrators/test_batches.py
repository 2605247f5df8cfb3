"""A row's prediction is the same bits alone, in pairs, in any order and in any layout of memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from calibrant import get_calibrator, list_calibrators
from tests.combinations import MEMORY_LAYOUTS, in_layout, one_per_class, with_classes
from tests.samples import draw_labels

#: Rows that are predicted one by one.
ALONE = 40

#: Parameters that make a fit fast, where nothing else depends on them.
QUICK = {
    "dirichlet-cv": {"lambdas_coef": [0.01], "lambdas_intercept": [0.01]},
    "ms": {"max_iter": 20},
    "catboost": {"max_rounds": 5},
}


def ties(k):
    """Averages of ten votes: few distinct values, rows that sum to one up to rounding, many exact ties."""
    rng = np.random.default_rng(k)
    share = rng.dirichlet(np.full(k, 0.3), size=400)
    p = sum(rng.multinomial(1, share) / 10.0 for _ in range(10))
    y = draw_labels(share, rng)
    return p, y


def check(calibrator, p, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator.fit(p[::2], y[::2])
    together = calibrator.predict_proba(p)
    order = np.random.default_rng(0).permutation(len(p))
    np.testing.assert_array_equal(calibrator.predict_proba(p[order]), together[order])
    for size in (1, 2, 7):
        parts = [calibrator.predict_proba(p[i : i + size]) for i in range(0, ALONE - size, size)]
        np.testing.assert_array_equal(np.concatenate(parts), together[: size * len(parts)])
    for layout in MEMORY_LAYOUTS:
        np.testing.assert_array_equal(calibrator.predict_proba(in_layout(p, layout)), together)


@pytest.mark.parametrize(
    ("name", "k"), with_classes(list_calibrators(), 2, 20, often=one_per_class(list_calibrators()))
)
def test_predictions_do_not_depend_on_the_batch(name, k):
    check(get_calibrator(name, **QUICK.get(name, {})), *ties(k))


@pytest.fixture(scope="module")
def forest():
    """Predictions of a small forest with many classes, and labels."""
    X, labels = make_classification(1500, 12, n_informative=10, n_classes=20, n_clusters_per_class=1, random_state=0)
    fitted = RandomForestClassifier(10, max_leaf_nodes=60, random_state=0).fit(X[:700], labels[:700])
    return fitted.predict_proba(X[700:]), labels[700:]


@pytest.mark.parametrize("name", ["isotonic", "cir", "venn-abers", "cdf-spline", "sms", "hist-quantile"])
def test_a_small_forest_with_many_classes(name, forest):
    check(get_calibrator(name), *forest)


def test_a_row_to_rescale_does_not_touch_the_others():
    p = np.random.default_rng(0).dirichlet(np.ones(5), size=60)
    y = p.argmax(axis=1)
    calibrator = get_calibrator("isotonic", renormalize=True).fit(p, y)
    mixed = np.vstack([p, 300.0 * p[:1]])
    np.testing.assert_array_equal(calibrator.predict_proba(mixed)[:-1], calibrator.predict_proba(p))
