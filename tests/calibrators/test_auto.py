"""AutoCalibrator: safe on small and on calibrated data, better on distorted data, order kept on request, storable."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax
from sklearn.exceptions import ConvergenceWarning

from calibrant import CalibrationWarning, TemperatureScalingCalibrator, get_calibrator, load, save
from calibrant.calibrators.auto.blend import blend_weights, likelihood_weights, pool_weight
from calibrant.calibrators.auto.calibrator import AutoCalibrator, prior_weights
from calibrant.calibrators.auto.means import classes_off, matching_intercepts
from calibrant.calibrators.auto.members import DISCRIMINANTS, GAUSSIANS, PROJECTED, RIDGES, Member
from calibrant.calibrators.auto.plan import make_plan, most_rows
from calibrant.calibrators.auto.trees.ensemble import TreeLayer
from calibrant.sample import Sample
from calibrant.steps import run, run_from_logs
from calibrant.steps.branches import keep_most_probable
from tests.samples import curved, mean_log_loss


def calibrated(n, k, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 0.7), size=n)
    return p, np.minimum((p.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1), k - 1)


@pytest.mark.parametrize(("k", "gain"), [(2, 0.0005), (4, 0.005)])
@pytest.mark.parametrize("effort", ["full", "fast", "thorough"])
def test_better_than_temperature_scaling_where_the_distortion_is_curved(k, gain, effort):
    p, y = curved(2000, k)
    test, labels = curved(4000, k, seed=1)
    ts = mean_log_loss(TemperatureScalingCalibrator().fit(p, y).predict_proba(test), labels)
    auto = AutoCalibrator(effort=effort).fit(p, y)
    assert mean_log_loss(auto.predict_proba(test), labels) < ts - gain


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("n", [20, 60, 1000])
def test_calibrated_predictions_lose_little(n, k):
    """A perfectly calibrated model can only be harmed: the harm stays below the cost of two parameters per class."""
    test, labels = calibrated(5000, k, seed=99)
    harm = []
    for seed in range(3):
        p, y = calibrated(n, k, seed)
        auto = AutoCalibrator().fit(p, np.concatenate([np.arange(k), y[k:]]))
        harm.append(mean_log_loss(auto.predict_proba(test), labels) - mean_log_loss(test, labels))
    assert np.mean(harm) < 2.0 * k / n


def test_calibrated_predictions_keep_a_share_of_the_blend():
    p, y = calibrated(3000, 3)
    assert AutoCalibrator().fit(p, y).identity_weight_ > 0.2
    over = p**2 / (p**2).sum(axis=1, keepdims=True)
    assert AutoCalibrator().fit(over, y).identity_weight_ < 0.15


def test_the_predictions_are_pooled_arithmetically():
    p, y = calibrated(800, 3)
    auto = AutoCalibrator().fit(p, y)
    v = auto.identity_weight_
    assert v > 0.2
    blend = np.exp(log_softmax(run(auto._blended(), run_from_logs(auto._scaling(), np.log(p))), axis=1))
    np.testing.assert_allclose(auto.predict_proba(p), (1.0 - v) * blend + v * p, atol=1e-12)


def balanced(n, k, rate, seed=0):
    """A model trained as if classes were equally frequent, where all but the first have the frequency `rate`."""
    rng = np.random.default_rng(seed)
    y = rng.choice(k, size=n, p=[1.0 - (k - 1) * rate] + [rate] * (k - 1))
    z = 2.0 * rng.normal(size=(n, k)) + 2.0 * np.eye(k)[y]
    p = np.exp(z)
    return p / p.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize(("k", "monotone"), [(2, False), (2, True), (3, False)])
def test_mean_predictions_of_rare_classes_match_their_frequencies(k, monotone, tmp_path):
    p, y = balanced(2000, k, 0.015)
    auto = AutoCalibrator(monotone=monotone).fit(p, y)
    assert (auto.input_factors_[1:] < 0.2 * auto.input_factors_[0]).all()
    assert "multiplied" in auto.summary()
    np.testing.assert_allclose(auto.predict_proba(p).mean(axis=0), np.bincount(y) / 2000, rtol=1e-4)
    save(auto, tmp_path / "auto.json")
    np.testing.assert_array_equal(load(tmp_path / "auto.json").predict_proba(p), auto.predict_proba(p))


def test_means_are_matched_only_where_a_difference_is_proven():
    p, y = calibrated(500, 4)
    np.testing.assert_array_equal(AutoCalibrator().fit(p, y).class_factors_, np.ones(4))
    said = np.array([0.5, 0.3, 0.2])
    q = np.tile(said, (400, 1)).T
    y = np.repeat([0, 1, 2], [200, 80, 120])
    intercepts = matching_intercepts(Sample(q.T, y), classes_off(said, np.bincount(y) / 400, 400))
    expected = said * np.exp(intercepts)
    expected /= expected.sum()
    np.testing.assert_allclose(expected[1:], [0.2, 0.3], rtol=1e-6)
    np.testing.assert_allclose(classes_off(said, said, 400), [])
    # Weights are counts: two rows of one kind are one row of weight two.
    weight = np.random.default_rng(0).integers(1, 4, 400)
    weighted, repeated = Sample(q.T, y, weight.astype(float)), Sample(q.T, y).take(np.repeat(np.arange(400), weight))
    one, many = (matching_intercepts(sample, [1, 2]) for sample in (weighted, repeated))
    np.testing.assert_allclose(one, many, atol=1e-8)


@pytest.mark.parametrize("positives", [1, 29])
def test_means_are_not_matched_to_a_handful_of_rows(positives):
    """One row of a class where 4.5 were predicted, as it happens once in 20 draws: neither class is matched."""
    p, y = np.array([0.85, 0.15]), np.repeat([0, 1], [29, 1])
    if positives == 29:
        p, y = p[::-1], 1 - y
    off = classes_off(p, np.bincount(y) / 30, 30)
    assert sorted(off) == [0, 1]
    np.testing.assert_array_equal(matching_intercepts(Sample(np.tile(p, (30, 1)), y), off), [0.0, 0.0])


def test_matched_means_keep_the_most_probable_class_on_request():
    p, y = balanced(2000, 3, 0.02)
    kept = AutoCalibrator(monotone=True).fit(p, y)
    assert (kept.class_factors_ != 1.0).any()
    np.testing.assert_array_equal(kept.predict_proba(p).argmax(axis=1), p.argmax(axis=1))


def test_overwhelming_evidence_leaves_the_original_no_share():
    blended, original = np.full(100, 0.6), np.full(100, 0.6 * np.exp(-0.16))
    assert pool_weight(blended, original, np.ones(len(blended)), (1.0, 2.0), 15.0) == 0.0
    assert pool_weight(blended, original, np.ones(len(blended)), (1.0, 2.0), 17.0) > 0.05


def test_trees_on_log_odds_are_stored_and_predict(tmp_path):
    """Labels that depend on which of two classes leads, beyond what any curve of one class can say."""
    p, _ = calibrated(3000, 3)
    rng = np.random.default_rng(1)
    lead = p[:, 0] > p[:, 1]
    y = np.where(rng.random(3000) < 0.8, np.where(lead, 2, 0), 1)
    auto = AutoCalibrator(classes=[0, 1, 2]).fit(p[:2000], y[:2000])
    assert (auto.tree_subtracted_ >= 0).any()
    found = auto.predict_proba(p[2000:])
    assert mean_log_loss(found, y[2000:]) < 0.62  # the entropy is 0.50, temperature scaling stays above 1
    save(auto, tmp_path / "auto.json")
    np.testing.assert_array_equal(load(tmp_path / "auto.json").predict_proba(p[2000:]), found)
    auto.tree_subtracted_ = np.full_like(auto.tree_subtracted_, -1)
    assert mean_log_loss(auto.predict_proba(p[2000:]), y[2000:]) > mean_log_loss(found, y[2000:]) + 0.1


def test_two_classes_with_trees_are_increasing_on_request():
    p, _ = calibrated(6000, 2)
    score = p[:, 1]
    y = (np.random.default_rng(1).random(6000) < 0.5 + 0.4 * np.sin(12.0 * score)).astype(np.int64)
    free, kept = (AutoCalibrator(monotone=m, classes=[0, 1]).fit(p, y) for m in (False, True))
    assert len(free.tree_features_)
    grid = np.linspace(1e-6, 1.0 - 1e-6, 5001)
    assert (np.diff(free.predict_proba(grid)[:, 1]) < 0.0).any()
    assert (np.diff(kept.predict_proba(grid)[:, 1]) > 0.0).all()
    assert kept.monotone_cost_ > 0.01


def test_trees_that_did_not_grow_leave_their_share_to_the_additive_member():
    p, y = calibrated(600, 3)
    auto = AutoCalibrator().fit(p, y)
    assert "trees" not in auto.member_weights_
    assert auto.member_weights_["additive"] > 3.0 * auto.member_weights_["temperature"]


def test_nearly_uniform_predictions_are_stretched():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1100, 2)) * 4.0
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    flat = np.exp(1e-3 * z)
    flat /= flat.sum(axis=1, keepdims=True)
    auto = AutoCalibrator().fit(flat[:100], y[:100])
    assert mean_log_loss(auto.predict_proba(flat[100:]), y[100:]) < 0.4


def test_forests_with_exact_zeros_are_mended():
    p, y = curved(2000, 3)
    coarse = np.round(p * 10) / 10
    coarse /= coarse.sum(axis=1, keepdims=True)
    auto = AutoCalibrator().fit(coarse[:1000], y[:1000])
    assert auto.input_smoothing_ > 0.0
    assert mean_log_loss(auto.predict_proba(coarse[1000:]), y[1000:]) < mean_log_loss(coarse[1000:], y[1000:]) - 0.1


def test_binary_monotone_map_is_strictly_increasing_and_costs_what_it_says():
    p, y = curved(800, 2)
    auto = AutoCalibrator(monotone=True).fit(p, y)
    grid = np.linspace(1e-6, 1.0 - 1e-6, 5001)
    assert (np.diff(auto.predict_proba(grid)[:, 1]) > 0.0).all()
    after = mean_log_loss(auto.predict_proba(p), y)
    auto.monotone = False  # the same blend, free
    assert auto.monotone_cost_ == pytest.approx(after - mean_log_loss(auto.predict_proba(p), y), abs=1e-9)
    assert AutoCalibrator().fit(p, y).monotone_cost_ == 0.0


def test_a_binary_map_that_rises_by_itself_is_kept():
    rng = np.random.default_rng(0)
    z = 1.5 * rng.normal(size=1000)
    auto = AutoCalibrator(monotone=True).fit(expit(2.0 * z), rng.random(1000) < expit(z))
    grid = np.linspace(0.01, 0.99, 99)
    kept = auto.predict_proba(grid)
    auto.monotone = False
    np.testing.assert_allclose(kept, auto.predict_proba(grid), atol=1e-3)


def test_multiclass_monotone_keeps_the_most_probable_class():
    p, y = curved(800, 3)
    test, _ = curved(3000, 3, seed=2)
    free, kept = AutoCalibrator().fit(p, y), AutoCalibrator(monotone=True).fit(p, y)
    assert (free.predict_proba(test).argmax(axis=1) != test.argmax(axis=1)).any()
    np.testing.assert_array_equal(kept.predict_proba(test).argmax(axis=1), test.argmax(axis=1))


def test_rows_that_keep_their_order_are_left_alone():
    x = np.array([[2.0, 2.0], [1.0, 1.0], [0.0, 0.0]])
    z = np.array([[5.0, 0.0], [1.0, 1.0], [0.0, 3.0]])
    kept = keep_most_probable(x.T, z.T).T
    np.testing.assert_array_equal(kept[:, 0], z[:, 0])
    assert kept[:, 1].argmax() == 0
    assert kept[0, 1] == pytest.approx(kept[2, 1], abs=1e-6)


def test_blend_weights_are_the_optimum_another_optimiser_finds():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=400)
    members = [s * np.eye(3)[y].T + rng.normal(size=(3, 400)) for s in (0.5, 1.0, 1.2)]
    prior = np.array([0.5, 0.3, 0.2])

    def objective(logits):
        w = np.exp(log_softmax(logits))
        z = sum(a * m for a, m in zip(w, members, strict=True))
        return -log_softmax(z, axis=0)[y, np.arange(400)].mean() + 3.0 / 400 * np.sum(w * np.log(w / prior))

    w = blend_weights(members, Sample(np.zeros((400, 3)), y, logs=True), prior, 3.0)
    assert objective(np.log(w)) <= minimize(objective, np.zeros(3), method="BFGS").fun + 1e-5
    assert w.sum() == pytest.approx(1.0)


def test_pool_weight_is_the_optimum_on_a_grid():
    rng = np.random.default_rng(0)
    blended, original, weight = rng.random(50), rng.random(50) * (rng.random(50) < 0.9), rng.integers(1, 4, 50)
    v = np.linspace(1e-4, 1 - 1e-4, 9999)
    grid = weight @ np.log((1 - v) * blended[:, None] + v * original[:, None]) + np.log(1 - v) + 2.0 * np.log(v)
    assert pool_weight(blended, original, weight, (1.0, 2.0)) == pytest.approx(v[grid.argmax()], abs=2e-4)
    repeated = [np.repeat(a, weight) for a in (blended, original)]
    assert pool_weight(*repeated, np.ones(len(repeated[0])), (1.0, 2.0)) == pytest.approx(v[grid.argmax()], abs=2e-4)
    assert pool_weight(blended, original, np.ones(50), (1e12, 1e-12)) == 0.0
    assert pool_weight(blended, original, np.ones(50), (1e-12, 1e12)) == 1.0


def test_likelihood_weights_are_those_of_the_posterior():
    np.testing.assert_allclose(likelihood_weights(np.array([1.0, 1.02]), 100.0), [1 / (1 + np.exp(-1)), 1 / (1 + np.e)])


def test_chosen_scores_and_summary():
    p, y = curved(600, 3)
    names = np.array(["ash", "beech", "oak"])
    auto = AutoCalibrator().fit(p**2 / (p**2).sum(axis=1, keepdims=True), names[y])
    assert sum(auto.member_weights_.values()) == pytest.approx(1.0)
    assert set(auto.scores_) == {"blend", *auto.member_weights_}
    assert min(v for k, v in auto.scores_.items() if k != "blend") > auto.scores_["blend"] - 0.01
    text = auto.summary()
    assert "over-confident" in text
    assert text.splitlines()[-1].startswith("Cross-validated log loss: ")
    assert text.endswith(
        "The blend was chosen on the same rows, so this is a little optimistic; a report leaves rows out of the choice."
    )


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("k", [2, 3, 300])
@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
def test_one_class_alone_changes_nothing(k, monotone, tmp_path):
    p, _ = calibrated(357, k)
    auto = AutoCalibrator(monotone=monotone, classes=range(k)).fit(p, np.ones(357, dtype=int))
    test = np.vstack([np.eye(k), calibrated(40, k, seed=1)[0]])
    np.testing.assert_allclose(auto.predict_proba(test), test, rtol=1e-12, atol=1e-37)
    text = (
        "All labels (357 rows) are class 1: nothing can be learned from one class, so the predictions stay as they are."
    )
    assert auto.summary() == text
    assert auto.member_weights_["none"] == 1.0
    assert (auto.inverse_temperature_, auto.input_smoothing_, auto._output_smoothing) == (1.0, 0.0, 0.0)
    save(auto, tmp_path / "one.json")
    again = load(tmp_path / "one.json")
    np.testing.assert_allclose(again.predict_proba(test), test, rtol=1e-12, atol=1e-37)
    assert again.summary() == text


@pytest.mark.parametrize(("k", "scaling", "other"), [(2, "logistic", "matrix"), (3, "matrix", "logistic")])
def test_the_summary_names_the_members_for_what_they_are(k, scaling, other):
    p, y = curved(400, k)
    text = AutoCalibrator(effort="fast").fit(p, y).summary()
    assert f"{scaling} scaling with curves" in text
    assert f"{other} scaling" not in text


def test_fitted_state_is_plain():
    """Arrays, numbers, strings and dictionaries of them: storable as JSON."""
    p, y = curved(300, 3)
    auto = AutoCalibrator(monotone=True).fit(p, y)

    def plain(value):
        if isinstance(value, np.ndarray):
            return value.tolist()
        assert isinstance(value, (bool, int, float, str, dict, type(None))), type(value)
        return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value

    assert json.loads(json.dumps({name: plain(value) for name, value in vars(auto).items()}))


def test_seeds_matter_a_little_and_repeat_exactly():
    p, y = curved(500, 3)
    a, b = (AutoCalibrator(random_state=s).fit(p, y).predict_proba(p) for s in (1, 1))
    c = AutoCalibrator(random_state=2).fit(p, y).predict_proba(p)
    np.testing.assert_array_equal(a, b)
    assert 0.0 < np.abs(a - c).max() < 0.2


def test_weights_shift_the_class_frequencies():
    p, y = curved(600, 3)
    weight = np.where(y == 0, 3.0, 1.0)
    auto = AutoCalibrator().fit(p, y, sample_weight=weight)
    seen = np.average(y == 0, weights=weight)
    assert np.average(auto.predict_proba(p)[:, 0], weights=weight) == pytest.approx(seen, abs=0.03)
    ones = AutoCalibrator().fit(p, y, sample_weight=np.ones(600))
    np.testing.assert_allclose(ones.predict_proba(p), AutoCalibrator().fit(p, y).predict_proba(p), atol=1e-9)


@pytest.mark.parametrize("k", [2, 10, 77, 1000])
def test_plans_grow_no_faster_than_the_data(k):
    plan = make_plan(5000, k, "full")
    assert all(weight > 0.0 for weight in plan.members.values())
    assert ("additive" in plan.members) == (k <= 40)
    assert most_rows(k) * k <= 1e7


def test_many_classes_are_affordable_and_safe():
    p, y = curved(800, 80)
    test, labels = curved(800, 80, seed=1)
    ts = mean_log_loss(TemperatureScalingCalibrator().fit(p, y).predict_proba(test), labels)
    assert mean_log_loss(AutoCalibrator().fit(p, y).predict_proba(test), labels) < ts + 0.01


def test_classes_that_are_taken_for_each_other_are_told_apart(tmp_path):
    """Labels whose odds are a linear function of all log-probabilities: what Gaussian members are for."""
    rng = np.random.default_rng(0)
    z = 2.0 * rng.normal(size=(5000, 60))
    y = (z @ (np.eye(60) + 0.06 * rng.normal(size=(60, 60))) + rng.gumbel(size=z.shape)).argmax(axis=1)
    p = np.exp(log_softmax(z, axis=1))
    auto = AutoCalibrator(classes=range(60)).fit(p[:2000], y[:2000])
    found = auto.predict_proba(p[2000:])
    ts, sms = (get_calibrator(name, classes=range(60)).fit(p[:2000], y[:2000]) for name in ("ts", "sms"))
    best = min(mean_log_loss(rival.predict_proba(p[2000:]), y[2000:]) for rival in (ts, sms))
    assert mean_log_loss(found, y[2000:]) < best - 0.05
    assert set(auto.member_weights_) == {"temperature", *GAUSSIANS, *DISCRIMINANTS, *RIDGES, "none"}
    assert "Gaussian model" in auto.summary()
    save(auto, tmp_path / "auto.json")
    np.testing.assert_array_equal(load(tmp_path / "auto.json").predict_proba(p[2000:]), found)
    fast = AutoCalibrator(effort="fast", classes=range(60)).fit(p[:2000], y[:2000])
    assert set(auto.member_weights_) - set(fast.member_weights_) == set(RIDGES)


def test_counts_are_copies_with_many_classes():
    p, y = curved(400, 50)
    counts = np.random.default_rng(1).integers(1, 4, 400)
    one = AutoCalibrator(classes=range(50)).fit(p, y, sample_weight=counts)
    other = AutoCalibrator(classes=range(50)).fit(np.repeat(p, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(one.predict_proba(p), other.predict_proba(p), rtol=1e-5, atol=1e-7)


def test_few_errors_prove_no_trees():
    """Where nearly all rows are right, trees take part only if they gain two nats."""
    few, many = (make_plan(300, 10, "full", n_wrong) for n_wrong in (20.0, 80.0))
    assert few.members == many.members
    assert (few.proof_of_trees, many.proof_of_trees) == (2.0, 1.0)
    assert make_plan(600, 10, "full", 20.0).proof_of_trees == 1.0
    assert make_plan(300, 60, "full", 20.0).proof_of_trees == 1.0
    left = [
        Member(name, np.zeros((3, 5)), np.zeros((3, 7)), TreeLayer.empty(3), 0.5)
        for name in ("temperature", "additive")
    ]
    np.testing.assert_allclose(prior_weights(left, few), [0.4, 0.6])
    np.testing.assert_allclose(prior_weights(left, many), [0.05, 0.5])


def test_hundreds_of_classes_have_a_matrix_of_low_rank(tmp_path):
    """Groups of ten classes whose probabilities went to the next class: one direction for each group and more."""
    rng = np.random.default_rng(0)
    z = 3.0 * rng.normal(size=(3000, 25))[:, np.arange(250) // 10] + 1.5 * rng.normal(size=(3000, 250))
    y = (np.roll(z.reshape(3000, 25, 10), 3, axis=1).reshape(z.shape) + rng.gumbel(size=z.shape)).argmax(axis=1)
    p = np.exp(log_softmax(z, axis=1))
    auto, ts = (get_calibrator(name, classes=range(250)).fit(p[:2500], y[:2500]) for name in ("auto", "ts"))
    found = auto.predict_proba(p[2500:])
    assert mean_log_loss(found, y[2500:]) < mean_log_loss(ts.predict_proba(p[2500:]), y[2500:]) - 0.3
    assert set(auto.member_weights_) == {"temperature", "vector", *PROJECTED, "none"}
    assert auto.coef_.shape == (250, 1 + 1 + 100 + 3)
    assert auto.whitening_.shape == (250, 100)
    save(auto, tmp_path / "auto.json")
    stored = load(tmp_path / "auto.json")
    np.testing.assert_array_equal(stored.predict_proba(p[2500:]), found)
    stored.whitening_ = stored.whitening_[1:]
    with pytest.raises(ValueError, match="whitening_ has 249 rows"):
        stored.check_state()


def test_a_vocabulary_needs_no_matrix(tmp_path):
    p, y = curved(150, 220, 0)
    auto = AutoCalibrator(classes=range(220)).fit(p, y)
    assert auto.coef_.shape == (220, 5)
    assert set(auto.member_weights_) == {"temperature", "vector", "none"}
    save(auto, tmp_path / "auto.json")
    stored = load(tmp_path / "auto.json")
    assert np.array_equal(stored.predict_proba(p), auto.predict_proba(p))
    # The same coefficients on the diagonal of a matrix, as versions before stored them.
    slope, intercept, *bends = auto.coef_.T
    stored.coef_ = np.column_stack([np.diag(slope), intercept, *bends])
    stored.check_state()
    assert np.allclose(stored.predict_proba(p), auto.predict_proba(p), rtol=1e-9, atol=0.0)


def test_a_fit_has_memory_for_its_rows_whatever_the_number_of_classes():
    assert most_rows(50_000) == 251
    assert most_rows(1000) == 10_000
    p, y = curved(60, 30, 0)
    auto = AutoCalibrator(classes=range(30)).fit(p, y)
    assert "drawn at random" not in auto.summary()
    auto.fitted_to_ = "6,000 rows"
    assert auto.summary().splitlines()[-1] == "It was fitted to 60 rows, drawn at random from 6,000 rows."
    del auto.fitted_to_  # as in a file of version 0.2
    auto.class_counts_ = auto.class_counts_ * 100.0
    assert auto.summary().splitlines()[-1] == "It was fitted to 60 rows, drawn at random from 6,000."


@pytest.mark.parametrize("method", ["auto", "auto-fast", "sqs"])
@pytest.mark.parametrize("k", [2, 3])
def test_a_single_row_may_count_for_many(method, k):
    """Nothing can be held out of one row: the temperature alone is learned, as from repetitions of that row."""
    p, label = np.full((1, k), 1.0 / k), np.array([0])
    p[0, 0] += 0.1 * (k - 1)
    p[0, 1:] -= 0.1
    for weight in (50.0, 1e4, 1e98):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)  # the gap of 1e98 rows is no small number
            fitted = get_calibrator(method, classes=np.arange(k)).fit(p, label, sample_weight=[weight])
        q = fitted.predict_proba(p)
        assert q[0, 0] >= p[0, 0] - 1e-9
        np.testing.assert_allclose(q.sum(), 1.0)


@pytest.mark.parametrize("method", ["auto", "auto-fast"])
def test_weights_of_all_magnitudes_leak_no_warning(method):
    rng = np.random.default_rng(0)
    for seed in range(2):
        p = rng.dirichlet(np.ones(2), size=20)
        y = (rng.random(20) < p[:, 1]).astype(int)
        weight = 10.0 ** np.random.default_rng(seed).uniform(90, 98, size=20)
        q = get_calibrator(method, classes=[0, 1]).fit(p, y, sample_weight=weight).predict_proba(p)
        assert np.isfinite(q).all()


def test_a_member_that_vanished_from_the_blend_stays_out():
    """The gradient points to a member of weight zero, and every other weight underflows."""
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=12)
    right = np.where(np.arange(2)[:, None] == y, 400.0, -400.0)
    rows = Sample(np.full((12, 2), 0.5), y, 10.0 ** rng.uniform(0, 98, size=12))
    weights = blend_weights([right, -right], rows, np.array([1.0, 1e-300]), 1.0)
    np.testing.assert_allclose(weights.sum(), 1.0)


def test_the_summary_says_how_clear_the_choice_was():
    auto = AutoCalibrator(effort="fast").fit(*curved(100, 3))
    for first, word in ((0.81, "a clear"), (0.8, "a mixed"), (0.51, "a mixed"), (0.5, "an open")):
        auto.member_weights_ = {"temperature": first, "none": 1.0 - first}
        assert f"temperature scaling, {1.0 - first:.0%} the unchanged predictions" in auto.summary()
        assert f": {word} choice." in auto.summary()
