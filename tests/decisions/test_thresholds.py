"""Thresholds that promise something: what a precision rests on, and what is proven with the selection accounted for."""

import numpy as np
import pytest
from scipy.stats import binomtest

from calibrant.decisions import choose_threshold

Y, P = [0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.6, 0.7, 0.9]


def binary(n, seed):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 0.5, n)
    return (rng.random(n) < p).astype(int), p


def test_a_precision_of_few_alarms_says_so():
    found = choose_threshold(Y, P, precision=0.9)
    assert (found.n_alarms, found.precision.value) == (2, 1)
    low = binomtest(2, 2).proportion_ci(0.9, "exact").low  # its lower end alone has 95 %
    assert found.at_least == pytest.approx(low)
    assert str(found).endswith("The precision rests on 2 alarms: with 95% confidence it is at least 22.4%.")
    assert "rests on 1 alarm: with" in str(choose_threshold(Y, P, alarms=1, per=6))
    assert "rests on" not in str(choose_threshold(*binary(400, 0), precision=0.9))


def test_what_a_proven_threshold_says():
    y, p = binary(2000, 0)
    for constraint in ("precision", "recall"):
        proven = choose_threshold(y, p, **{constraint: 0.9}, proven=True)
        plain = choose_threshold(y, p, **{constraint: 0.9})
        assert str(proven).endswith(f"The {constraint} asked for holds on new rows like these with 95% confidence.")
        # Proof leaves room on the safe side.
        assert (proven.threshold > plain.threshold) == (constraint == "precision")
        assert getattr(proven, constraint).value > 0.9
    assert proven.recall.value == pytest.approx(y[p >= proven.threshold].sum() / y.sum())


@pytest.mark.parametrize("constraint", [{"precision": 0.9}, {"precision": 1.0}, {"recall": 0.9}, {"recall": 1.0}])
def test_six_rows_prove_nothing(constraint):
    found = choose_threshold(Y, P, **constraint, proven=True)
    assert np.isinf(found.threshold)
    assert found.n_alarms == 0
    assert (
        str(found) == f"No threshold is proven to keep the {next(iter(constraint))}: ask for less, or give more rows."
    )


def test_proof_is_for_shares_of_labels():
    with pytest.raises(ValueError, match="proven is for precision and recall"):
        choose_threshold(Y, P, alarms=1, per=6, proven=True)


@pytest.mark.parametrize("constraint", ["precision", "recall"])
def test_proven_thresholds_keep_their_promise_and_plain_ones_do_not(constraint):
    """Scores are the true probabilities, of which precision and recall at a threshold are known integrals."""
    grid = np.linspace(0, 1, 50_001)[1:-1]
    density = grid**-0.5 * (1 - grid) ** -0.5
    hits, alarms = (np.cumsum((density * part)[::-1])[::-1] for part in (grid, 1.0))
    truth = hits / alarms if constraint == "precision" else hits / hits[0]
    kept, runs = {True: 0, False: 0}, 120
    for seed in range(runs):
        y, p = binary(300, seed)
        for proven in kept:
            found = choose_threshold(y, p, **{constraint: 0.8}, proven=proven, n_resamples=2)
            place = np.searchsorted(grid, found.threshold)
            kept[proven] += np.isinf(found.threshold) or truth[min(place, len(grid) - 1)] >= 0.8
    assert kept[True] >= 0.95 * runs - 3 * np.sqrt(0.05 * 0.95 * runs)
    assert kept[False] < 0.75 * runs


def test_rows_of_a_group_prove_no_more_than_the_group():
    y, p = binary(400, 3)
    groups = np.repeat(np.arange(400), 5)
    alone = choose_threshold(y, p, precision=0.8, proven=True)
    copied = choose_threshold(np.repeat(y, 5), np.repeat(p, 5), precision=0.8, proven=True, groups=groups)
    assert copied.threshold >= alone.threshold * (1 - 1e-12)
    assert copied.at_least == pytest.approx(alone.at_least, abs=0.02)


def test_weights_are_copies():
    y, p = binary(150, 4)
    weight = np.random.default_rng(2).integers(1, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    counted = choose_threshold(y, p, precision=0.7, proven=True, sample_weight=weight)
    copied = choose_threshold(y[rows], p[rows], precision=0.7, proven=True)
    assert counted.threshold == copied.threshold
    assert counted.at_least == pytest.approx(copied.at_least)
    assert counted.n_alarms == copied.n_alarms
