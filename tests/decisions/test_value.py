"""Costs, net benefit and risk of decisions against sums by hand and scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import betainc, expit
from sklearn.metrics import confusion_matrix, make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV

from calibrant import DecisionRule
from calibrant.decisions import (
    best_threshold,
    choose_threshold,
    compare_decisions,
    decision_cost,
    decision_curve,
    risk_coverage,
)
from tests.samples import draw_labels

RULE = DecisionRule(false_positive=1, false_negative=20)


def binary(n=400, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 3, n)
    return (rng.random(n) < p).astype(int), p


def test_cost_is_the_sum_over_the_confusion_matrix():
    y, p = binary()
    (_, fp), (fn, _) = confusion_matrix(y, p > 1 / 21)
    assert decision_cost(y, p, RULE).value == pytest.approx((fp + 20 * fn) / len(y))


def test_cost_of_many_classes_and_actions():
    rng = np.random.default_rng(3)
    costs, p = rng.random((4, 10)), rng.dirichlet(np.ones(10), 150)
    y = draw_labels(p, rng)
    taken = (p @ costs.T).argmin(axis=1)
    found = decision_cost(y, p, DecisionRule(costs))
    assert found.value == pytest.approx(np.mean([costs[a, j] for a, j in zip(taken, y)]))
    assert found.low < found.value < found.high


def test_amounts_belong_to_their_rows():
    y, p = binary()
    amount = np.random.default_rng(1).uniform(1, 100, len(y))
    rule = DecisionRule(false_positive=5, false_negative="amount")
    alarm = p * amount > (1 - p) * 5
    by_hand = np.where(alarm, 5.0 * (y == 0), amount * (y == 1))
    assert decision_cost(y, p, rule, amounts={"amount": amount}).value == pytest.approx(by_hand.mean())
    weight = np.random.default_rng(2).integers(0, 3, len(y))
    found = decision_cost(y, p, rule, amounts={"amount": amount}, sample_weight=weight)
    assert found.value == pytest.approx(np.average(by_hand, weights=weight))


def test_weights_are_copies():
    y, p = binary(120)
    weight = np.random.default_rng(2).integers(1, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    for compute in (
        lambda y, p, **w: decision_cost(y, p, RULE, **w),
        lambda y, p, **w: compare_decisions(y, p, p**0.5, RULE, **w).saved,
        lambda y, p, **w: risk_coverage(y, p, **w).area,
        lambda y, p, **w: choose_threshold(y, p, recall=0.7, **w).precision,
    ):
        counted, copied = compute(y, p, sample_weight=weight), compute(y[rows], p[rows])
        assert counted.value == pytest.approx(copied.value, abs=1e-12)
        width = copied.high - copied.low
        assert [counted.low, counted.high] == pytest.approx([copied.low, copied.high], abs=0.25 * width + 1e-12)


def test_intervals_cover_the_true_cost():
    """The probabilities are Beta(0.5, 3), from 1/21 on an alarm; nominal 0.95, less three standard errors."""
    mean, (all_below, below) = 0.5 / 3.5, (betainc(a, 3, 1 / 21) for a in (0.5, 1.5))
    truth, covered, runs = 20 * mean * below + (1 - all_below) - mean * (1 - below), 0, 100
    for seed in range(runs):
        y, p = binary(150, seed=100 + seed)
        found = decision_cost(y, p, RULE, n_resamples=99)
        covered += found.low <= truth <= found.high
    assert covered / runs > 0.95 - 3 * np.sqrt(0.95 * 0.05 / runs)


def test_calibration_saves_what_the_costs_say():
    y, p = binary(3000)
    squeezed = p**2 / (p**2 + (1 - p) ** 2)  # too extreme: alarms are missed
    found = compare_decisions(y, squeezed, p, RULE)
    before, after = (decision_cost(y, q, RULE).value for q in (squeezed, p))
    assert (found.before.value, found.after.value) == (before, after)
    assert found.saved.value == pytest.approx(before - after)
    assert found.saved.low > 0
    assert found.changed == np.sum((squeezed > 1 / 21) != (p > 1 / 21))


def test_what_a_comparison_says():
    y, p = binary(3000)
    squeezed = p**2 / (p**2 + (1 - p) ** 2)
    said = str(compare_decisions(y, squeezed, p, RULE))
    assert "decisions change" in said
    assert "chance" not in said
    assert str(compare_decisions(y, p, p, RULE)) == "No decision changes, so nothing is saved or lost."
    assert "That may be chance." in str(compare_decisions(y[:60], p[:60] ** 1.1, p[:60], RULE))
    with pytest.warns(UserWarning, match="no interval"):
        one = str(compare_decisions([1], [0.9], [0.01], DecisionRule([[0, 1], [1, 0]]), classes=[0, 1]))
    assert "too few observations to tell whether this is chance" in one


def test_best_threshold_against_all_thresholds():
    y, p = binary(200)
    p = p.round(2)
    found = best_threshold(y, p, RULE)
    costs = {t: np.mean(np.where(p >= t, y == 0, 20 * (y == 1))) for t in [*np.unique(p), np.inf]}
    assert found.cost == pytest.approx(min(costs.values()))
    assert costs[found.threshold] == pytest.approx(found.cost)
    assert found.regret == pytest.approx(decision_cost(y, p, RULE).value - found.cost)


def test_scikit_learn_tunes_to_a_threshold_near_the_rules():
    """On calibrated probabilities the threshold that scikit-learn finds by search is the one that costs imply."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Given(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, X):
            return np.column_stack([1 - X[:, 0], X[:, 0]])

        def predict(self, X):
            return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def cost(y, decided):
        return np.mean(np.where(decided == 1, y == 0, 20 * (y == 1)))

    y, p = binary(20_000)
    tuned = TunedThresholdClassifierCV(Given(), scoring=make_scorer(cost, greater_is_better=False), cv=3)
    tuned.fit(p[:, None], y)
    assert tuned.best_threshold_ == pytest.approx(RULE.threshold, abs=0.03)
    fresh, q = binary(20_000, seed=1)
    ours = decision_cost(fresh, q, RULE, n_resamples=2).value
    assert ours <= cost(fresh, tuned.predict(q[:, None])) + 0.005


def test_net_benefit_by_its_definition():
    y, p = binary(500)
    p = p.round(2)
    curve = decision_curve(y, p, n_resamples=50)
    for t, benefit, everybody in zip(curve.threshold, curve.net_benefit, curve.treat_all):
        act = p >= t
        by_hand = np.mean(act & (y == 1)) - np.mean(act & (y == 0)) * t / (1 - t)
        assert benefit == pytest.approx(by_hand, abs=1e-12)
        assert everybody == pytest.approx(y.mean() - (1 - y.mean()) * t / (1 - t), abs=1e-12)
    assert np.all((curve.low <= curve.net_benefit) & (curve.net_benefit <= curve.high))


def test_net_benefit_of_one_class_of_many():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 200)
    y = np.array(["x", "y", "z"])[draw_labels(p, rng)]
    many = decision_curve(y, p, pos_label="z", n_resamples=2)
    one = decision_curve((y == "z").astype(int), p[:, 2], n_resamples=2)
    np.testing.assert_allclose(many.net_benefit, one.net_benefit, atol=1e-12)
    with pytest.raises(ValueError, match="pos_label is needed for 3 classes"):
        decision_curve(y, p)
    with pytest.raises(ValueError, match="thresholds must lie between 0 and 1"):
        decision_curve(y, p, pos_label="z", thresholds=[0.5, 1.0])


def test_risk_coverage_against_sorting():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 300)
    y = draw_labels(p, rng)
    wrong = (p.argmax(axis=1) != y)[np.argsort(-p.max(axis=1))]
    curve = risk_coverage(y, p, n_resamples=50)
    np.testing.assert_allclose(curve.risk, np.cumsum(wrong) / np.arange(1, 301))
    assert curve.area.value == pytest.approx(np.mean(curve.risk))
    assert curve.at_risk(1.0) == 1.0
    assert curve.at_risk(-1.0) == 0.0


@pytest.mark.parametrize("constraint", ["precision", "recall", "alarms"])
def test_thresholds_meet_their_constraint_and_no_other_finds_more(constraint):
    y, p = binary(500)
    p = p.round(2)
    found = choose_threshold(y, p, **{constraint: 0.4} | ({"alarms": 40, "per": 500} if constraint == "alarms" else {}))
    best = None
    for t in np.unique(p):
        alarm = p >= t
        precision, recall = y[alarm].mean(), y[alarm].sum() / y.sum()
        meets = {"precision": precision >= 0.4, "recall": recall >= 0.4, "alarms": alarm.sum() <= 40}[constraint]
        value = -alarm.sum() if constraint == "recall" else alarm.sum()
        if meets and (best is None or value >= best[0]):
            best = value, precision, recall
    assert (found.precision.value, found.recall.value) == pytest.approx(best[1:])
    assert "Raise an alarm at a probability of" in str(found)


def test_thresholds_that_cannot_be_met_and_bad_constraints():
    y, p = [0, 1, 0, 1], [0.9, 0.8, 0.7, 0.2]
    none = choose_threshold(y, p, precision=0.9)
    assert none.threshold == np.inf
    assert str(none) == "No threshold meets the constraint: raise no alarm, or ask for less."
    for given, message in (
        ({}, "got none"),
        ({"precision": 0.5, "recall": 0.5}, "got precision and recall"),
        ({"precision": 1.5}, "precision must lie between 0 and 1"),
        ({"alarms": 3}, "alarms and per go together"),
        ({"alarms": 3, "per": 2}, "alarms must lie between 0 and per"),
    ):
        with pytest.raises(ValueError, match=message):
            choose_threshold(y, p, **given)
    with pytest.raises(ValueError, match="there is nothing to find"):
        choose_threshold([0, 0, 0], [0.1, 0.2, 0.3], recall=0.5, classes=[0, 1])


def test_a_level_outside_is_named():
    for compute in (decision_cost, risk_coverage):
        with pytest.raises(ValueError, match=r"level must lie between 0 and 1, got 1\.5"):
            compute([0, 1], [0.2, 0.8], RULE, level=1.5)


def test_classes_of_the_rule_name_the_columns():
    y, p = binary()
    labels, proba = np.array(["paid", "defaulted"])[y], np.column_stack([1 - p, p])
    rule = DecisionRule(false_positive=1, false_negative=20, classes=["paid", "defaulted"])
    expected = decision_cost(y, p, RULE, n_resamples=2).value
    frame = pd.DataFrame(proba, columns=["p_paid", "p_defaulted"])
    decided = np.array(["paid", "defaulted"])[(p > 1 / 21).astype(int)]
    for given in (proba, p, frame, frame[["p_defaulted", "p_paid"]], frame["p_defaulted"]):
        assert decision_cost(labels, given, rule, n_resamples=2).value == expected
        np.testing.assert_array_equal(rule.decide(given), decided)
    with pytest.raises(ValueError, match="the probability of 'defaulted' is expected"):
        rule.decide(frame["p_paid"])
    with pytest.raises(ValueError, match="which of 'defaulted', 'paid' is the positive class"):
        decision_cost(labels, frame, RULE)


def test_what_curves_say():
    y, p = [0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8]
    said = "Net benefit of acting on 1 at 2 thresholds: higher than acting on everybody and on nobody"
    assert repr(decision_curve(y, p, thresholds=[0.25, 0.5])) == f"{said} from 25.0% to 50.0%."
    assert repr(decision_curve([1, 0], [0.1, 0.9], thresholds=[0.5, 0.6])) == f"{said} at none of them."
    assert repr(risk_coverage([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.7])).startswith(
        "Mean loss 0 on the most certain half, 0.25 on all rows; area 0.0625 ["
    )


def test_six_rows_and_one_class_promise_nothing_impossible():
    y, p = [0, 1, 0, 0, 1, 0], [0.1, 0.6, 0.2, 0.05, 0.7, 0.3]
    # At 1% the model acts on everybody, too.
    assert "from 6.0% to 70.0%" in repr(decision_curve(y, p))
    for labels, proba in ((y, p), ([0, 0, 0], [0.1, 0.2, 0.3])):
        assert decision_cost(labels, proba, RULE, classes=[0, 1]).low >= 0
        area = risk_coverage(labels, proba, classes=[0, 1]).area
        assert 0 <= area.low <= area.high <= 1


def test_net_benefit_as_dcurves_publishes_it():
    """Its example of 750 patients: 24 of 105 with cancer and 91 of 645 without have it in the family."""
    y = np.repeat([1, 1, 0, 0], [24, 81, 91, 554])
    family = np.repeat([1.0, 0.0, 1.0, 0.0], [24, 81, 91, 554])
    curve = decision_curve(y, family, thresholds=[0.05, 0.1, 0.2, 0.21, 0.5])
    published = [0.025614035087719297, 0.018518518518518517, 0.0016666666666666635, -2.531645569620253e-4]
    np.testing.assert_allclose(curve.net_benefit, [*published, -0.08933333333333335], rtol=1e-12, atol=1e-15)
    everybody = [0.09473684210526317, 0.04444444444444445, -0.07499999999999998, -0.08860759493670883, -0.72]
    np.testing.assert_allclose(curve.treat_all, everybody, rtol=1e-12)


def test_few_changed_decisions_may_lose_as_well():
    """Three actions change for the better; that others would lose 19 is no less possible."""
    y = np.array([0] * 97 + [0, 0, 0])
    before, after = np.full(100, 0.01), np.full(100, 0.01)
    before[97:], after[97:] = 0.06, 0.03
    found = compare_decisions(y, before, after, RULE)
    assert (found.changed, found.saved.value) == (3, 0.03)
    assert found.saved.low < 0


def test_net_benefit_is_uncertain_where_no_row_reaches_the_threshold():
    y, p = binary(200)
    curve = decision_curve(y, np.minimum(p, 0.4), thresholds=[0.6])
    assert curve.net_benefit[0] == 0
    assert curve.low[0] < 0 < curve.high[0]


def test_intervals_hold_where_the_costly_outcome_is_rare():
    """The saving of a calibration of too sure predictions, 3 % positive at 1:20: 100 runs of 400 rows."""
    rng = np.random.default_rng(5)
    limit = np.log(1 / 20)  # where the log-odds raise an alarm

    def lost(alarms):
        """Mean cost of a set of alarms, on a fine grid of log-odds."""
        z = np.linspace(-14, 6, 200_001)
        density = np.exp(-0.5 * ((z + 4) / 1.3) ** 2)
        return np.average(np.where(alarms(z), expit(-z), 20 * expit(z)), weights=density)

    def draw(n):
        z = rng.normal(-4, 1.3, n)
        return (rng.random(n) < expit(z)).astype(int), expit(1.3 * z), expit(z)

    truth = lost(lambda z: 1.3 * z > limit) - lost(lambda z: z > limit)
    found = [compare_decisions(*draw(400), RULE, n_resamples=99).saved for _ in range(100)]
    assert np.mean([one.low <= truth <= one.high for one in found]) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 100)
