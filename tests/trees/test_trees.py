"""Boosted trees against brute force, hand computation and what averaging over folds promises."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.calibrators.auto.trees.ensemble import (
    Boosting,
    BoostingOptions,
    TreeLayer,
    UnseenRows,
    choose_pairs,
    concatenate,
    cross_fit_trees,
    quantile_borders,
)
from calibrant.calibrators.auto.trees.tree_kernels import draw, project
from calibrant.sample import Sample
from calibrant.steps import run


def xor_data(n=3000, seed=0):
    """Labels that depend on the product of two features' signs: no additive model sees it."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, n))
    y = ((x[0] > 0) ^ (x[1] > 0)) ^ (rng.random(n) < 0.1)
    return x, y.astype(np.int64)


def one_round(x, y, weight, *, depth=1, l2=1.0, rate=1.0):
    borders, n_bins = quantile_borders(x, 16)
    bins = np.stack([np.searchsorted(b, row) for b, row in zip(borders, x, strict=True)]).astype(np.uint8)
    options = BoostingOptions(rounds=1, depth=depth, rate=rate, l2=l2, columns=9, share=1.0, patience=5)
    run = Boosting(bins, n_bins, np.zeros((2, len(y))), y, weight, options, 0)
    run.grow()
    return borders, run


def test_weights_place_borders_as_repeated_rows_do():
    rng = np.random.default_rng(4)
    x, weight = rng.normal(size=(3, 300)), rng.integers(1, 4, size=300)
    borders, n_bins = quantile_borders(x, 16, weight.astype(float))
    repeated, n_repeated = quantile_borders(np.repeat(x, weight, axis=1), 16)
    np.testing.assert_array_equal(borders, repeated)
    np.testing.assert_array_equal(n_bins, n_repeated)


def test_projected_gradients_are_those_of_the_formula():
    rng = np.random.default_rng(1)
    p, y, weight = rng.dirichlet(np.ones(4), size=6).T.copy(), rng.integers(4, size=6), rng.random(6) + 0.5
    signs, sketch, rows = np.sign(rng.normal(size=(2, 4))), np.zeros((6, 4)), np.zeros((3, 6))
    project.py_func(p, y, weight, signs, rows, sketch)
    gradient = p - (np.arange(4)[:, None] == y)
    np.testing.assert_allclose(sketch[:, :2].T, weight * (signs @ gradient), rtol=1e-12)
    np.testing.assert_allclose(sketch[:, 2], weight * np.mean(p * (1 - p), axis=0), rtol=1e-12)
    assert not rows.any()


def test_first_stump_is_the_best_of_all_splits():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3, 400))
    y = (x[1] > 0.4).astype(np.int64) ^ (rng.random(400) < 0.2)
    weight = rng.integers(1, 4, size=400).astype(float)
    borders, run = one_round(x, y, weight, l2=1.0)
    features, last, values = run.features, run.borders, run.values
    gradient = weight * (0.5 - y)
    best = max(
        (
            sum(gradient[side].sum() ** 2 / (0.25 * weight[side].sum() + 0.5) for side in (x[f] > cut, x[f] <= cut)),
            f,
            cut,
        )
        for f in range(3)
        for cut in borders[f][np.isfinite(borders[f])]
    )
    assert features[0, 0] == best[1]
    assert borders[best[1], last[0, 0]] == best[2]
    above = x[best[1]] > best[2]
    newton = -np.sum(weight[above] * (0.5 - y[above])) / (0.25 * weight[above].sum() + 1.0)
    np.testing.assert_allclose(values[0, 1], [-newton, newton])


def test_weights_are_repetitions():
    x, y = xor_data(300)
    weight = np.random.default_rng(1).integers(1, 4, size=300)
    rows = np.repeat(np.arange(300), weight)
    borders, n_bins = quantile_borders(x, 16)

    def run(rows, weight):
        bins = np.stack([np.searchsorted(b, r) for b, r in zip(borders, x[:, rows], strict=True)]).astype(np.uint8)
        options = BoostingOptions(rounds=10, depth=3, rate=0.3, l2=1.0, columns=2, share=1.0, patience=10)
        grown = Boosting(bins, n_bins, np.zeros((2, len(rows))), y[rows], weight, options, 7)
        for _ in range(10):
            grown.grow()
        return grown.values

    np.testing.assert_allclose(run(np.arange(300), weight.astype(float)), run(rows, np.ones(len(rows))), atol=1e-10)


def added(layer, x):
    """What a layer adds to the logits (k, n) of rows `x` (columns, n)."""
    return run(layer.steps(), x.T.copy()).T


def test_added_steps_are_those_of_the_leaves():
    # x₀ > 0.5, and x₁ − x₀ > −1.5
    layer = TreeLayer(np.array([[0, 1]]), np.array([[-1, 0]]), np.array([[0.5, -1.5]]), np.arange(8.0).reshape(1, 4, 2))
    x = np.array([[0.0, 1.0, 0.0, 1.0], [-2.0, -2.0, 0.0, 0.0]])
    np.testing.assert_array_equal(added(layer, x).T, layer.values[0])
    twice = concatenate([layer, layer.scaled(0.5)], 2)
    np.testing.assert_allclose(added(twice, x), 1.5 * added(layer, x))


@pytest.mark.parametrize("k", [1, 4])
def test_trees_are_followed_row_by_row_to_the_last_bit(k):
    rng = np.random.default_rng(0)
    features = rng.integers(3, size=(300, 6))
    subtracted = np.where(rng.random((300, 6)) < 0.5, (features + 1) % 3, -1)
    layer = TreeLayer(features, subtracted, rng.normal(size=(300, 6)), rng.normal(size=(300, 64, k)))
    x = rng.normal(size=(3, 2000))
    z = added(layer, x)
    for i in (0, 1023, 1024, 1999):
        total = np.zeros(k)
        for feature, other, threshold, values in zip(features, subtracted, layer.thresholds, layer.values, strict=True):
            value = x[feature, i] - np.where(other < 0, 0.0, x[other, i])
            total = total + values[int(((value > threshold) << np.arange(6)).sum())]
        np.testing.assert_array_equal(z[:, i], total)
        np.testing.assert_array_equal(added(layer, x[:, i : i + 1])[:, 0], total)


def labelled(y):
    """Labels of which trees ask nothing but what they are."""
    return Sample(np.zeros((len(y), 1)), y, logs=True)


@pytest.mark.parametrize("depth", [2, 4])
def test_trees_find_an_interaction_and_hold_out_what_they_have_not_seen(depth):
    x, y = xor_data()
    fold = np.arange(len(y)) % 5
    start = [np.zeros((2, len(y)))] * 5
    fitted = cross_fit_trees(x, start, labelled(y), fold, BoostingOptions(depth=depth), 0)
    loss = np.log(np.exp(fitted.held).sum(axis=0)) - fitted.held[y, np.arange(len(y))]
    entropy = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    assert entropy - 0.02 < loss.mean() < entropy + 0.05
    test_x, test_y = xor_data(seed=1)
    z = added(fitted.layer, test_x)
    test_loss = np.log(np.exp(z).sum(axis=0)) - z[test_y, np.arange(len(test_y))]
    assert test_loss.mean() < loss.mean() + 0.02


def test_noise_grows_no_trees_worth_mentioning():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 2000)), rng.integers(3, size=2000)
    fitted = cross_fit_trees(x, [np.zeros((3, 2000))] * 5, labelled(y), np.arange(2000) % 5, BoostingOptions(), 0)
    assert fitted.rounds <= 5


def test_differences_of_columns_are_asked_and_held_out_logits_are_those_of_the_layer():
    """Labels that depend on x₀ > x₁ alone: one question of a difference, many of single columns."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 2000))
    y = (x[0] > x[1]).astype(np.int64)
    fold = np.arange(2000) % 5
    shallow = {pairs: BoostingOptions(depth=1, rounds=3, pairs=pairs) for pairs in (0, 2)}
    fitted = {p: cross_fit_trees(x, [np.zeros((2, 2000))] * 5, labelled(y), fold, o, 0) for p, o in shallow.items()}
    assert (fitted[0].layer.subtracted == -1).all()
    hit = {p: (f.held.argmax(axis=0) == y).mean() for p, f in fitted.items()}
    assert hit[2] > 0.97 > 0.9 > hit[0]


def test_held_out_logits_do_not_depend_on_held_out_labels():
    x, y = xor_data()
    fold = np.arange(len(y)) % 5
    start = [np.zeros((2, len(y)))] * 5
    options = BoostingOptions(depth=3, rounds=4, rate=0.1)
    other = y.copy()
    other[np.flatnonzero(fold == 0)[:40]] ^= 1  # few enough that the number of rounds stays the same
    first, second = (cross_fit_trees(x, start, labelled(labels), fold, options, 0) for labels in (y, other))
    assert first.rounds == second.rounds == 4
    np.testing.assert_array_equal(first.held[:, fold == 0], second.held[:, fold == 0])
    assert np.abs(first.held[:, fold == 1] - second.held[:, fold == 1]).max() > 1e-3


@pytest.mark.parametrize(("most", "trees"), [(1000, 18), (11, 6), (6, 6), (3, 3), (0, 0)])
def test_the_layer_is_three_runs_on_all_rows_and_fewer_trees_where_these_are_too_many(most, trees):
    x, y = xor_data(1000)
    fold = np.arange(len(y)) % 5
    options = BoostingOptions(depth=2, rounds=6, most_trees=most)
    fitted = cross_fit_trees(x, [np.zeros((2, len(y)))] * 5, labelled(y), fold, options, 0)
    assert len(fitted.layer) == trees
    assert fitted.rounds == min(6, most)


def test_runs_on_all_rows_have_half_as_many_rounds_again():
    x, y = xor_data(1000)
    options = BoostingOptions(depth=2, rounds=100, rate=0.5)
    fitted = cross_fit_trees(x, [np.zeros((2, len(y)))] * 5, labelled(y), np.arange(len(y)) % 5, options, 0)
    assert len(fitted.layer) == 3 * fitted.rounds
    assert fitted.rounds in {int(np.ceil(1.5 * rounds)) for rounds in range(1, 66)}


def test_random_shares_of_the_rows_are_of_the_size_asked_for_and_independent():
    sample = np.arange(20_000)
    picks = []
    for seed in (1, 2):
        chosen = np.zeros(20_000)
        chosen[sample[: draw(0.3, seed, sample)]] = 1.0
        picks.append(chosen)
    np.testing.assert_allclose([pick.mean() for pick in picks], 0.3, atol=0.015)
    assert abs(np.corrcoef(picks)[0, 1]) < 0.03
    assert abs(np.corrcoef(picks[0][1:], picks[0][:-1])[0, 1]) < 0.03


def test_pairs_are_all_or_as_many_as_asked_for():
    assert len(choose_pairs(2, 10, 0)) == 0
    assert len(choose_pairs(4, 8, 0)) == 6
    drawn = choose_pairs(30, 60, 0)
    assert len({tuple(pair) for pair in drawn}) == 60
    assert (drawn[:, 0] != drawn[:, 1]).all()


def test_boosting_ends_when_patience_does(monkeypatch):
    """The least held-out loss is that of two rounds; three more are waited for, and half more are grown on all rows."""
    losses, grown = iter(np.repeat([5.0, 4.0, 3.0, 3.5, 3.6, 3.7, 3.8, 3.9], 2)), []
    grow = Boosting.grow
    monkeypatch.setattr(UnseenRows, "loss", lambda rows: next(losses))
    monkeypatch.setattr(Boosting, "grow", lambda run: (grown.append(id(run)), grow(run)))
    x = np.log(np.random.default_rng(0).dirichlet(np.ones(3), size=40)).T
    sample = Sample(x.T.copy(), np.arange(40) % 3, logs=True)
    fitted = cross_fit_trees(
        x, [x.copy(), x.copy()], sample, np.arange(40) % 2, BoostingOptions(patience=3, refits=1), 0
    )
    assert len(grown) == 2 * 5 + 3
    assert fitted.rounds == len(fitted.layer) == 3
