"""Decision rules against brute force, and what they say."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest

from calibrant import DecisionRule


def test_threshold_of_one_to_twenty():
    rule = DecisionRule(false_positive=1, false_negative=20)
    assert Fraction(rule.threshold).limit_denominator(1000) == Fraction(1, 21)
    np.testing.assert_array_equal(rule.decide([1 / 21 - 1e-9, 1 / 21 + 1e-9]), [0, 1])
    assert str(rule) == "Choose 0 where the probability of the second class is below 4.8%, 1 above."


@pytest.mark.parametrize("seed", range(3))
def test_any_matrix_against_all_actions(seed):
    rng = np.random.default_rng(seed)
    costs, p = rng.random((7, 10)), rng.dirichlet(np.full(10, 0.3), 200)
    found = DecisionRule(costs).decide(p)
    for row, action in zip(p, found):
        expected = [sum(row[j] * costs[a, j] for j in range(10)) for a in range(7)]
        assert expected[action] == pytest.approx(min(expected), abs=1e-12)


def test_zero_one_costs_are_the_most_probable_class():
    p = np.random.default_rng(0).dirichlet(np.ones(5), 300)
    np.testing.assert_array_equal(DecisionRule(1 - np.eye(5)).decide(p), p.argmax(axis=1))


def test_abstention_is_chows_rule():
    p = np.random.default_rng(1).dirichlet(np.ones(4), 300)
    found = DecisionRule.abstention(0.35, list("abcd")).decide(p)
    np.testing.assert_array_equal(found == "abstain", p.max(axis=1) < 0.65)


@pytest.mark.parametrize("seed", range(20))
def test_ranges_are_where_each_action_is_the_cheapest(seed):
    rng = np.random.default_rng(seed)
    rule = DecisionRule(rng.integers(0, 10, (5, 2)))
    grid = (np.arange(2000) + 0.5) / 2000
    decided = rule.decide(grid)
    for action, low, high in rule.ranges:
        inside = (grid > low + 1e-9) & (grid < high - 1e-9)
        assert (decided[inside] == action).all()
    assert rule.ranges[0].low == 0
    assert rule.ranges[-1].high == 1


@pytest.mark.parametrize(
    ("costs", "threshold"),
    [([[0, 20], [1, 0]], 1 / 21), ([[2, 3], [1, 0]], 0.0), ([[0, 1], [5, 2]], np.inf), ([[1, 1], [1, 1]], np.inf)],
)
def test_thresholds_at_the_ends(costs, threshold):
    assert DecisionRule(costs).threshold == pytest.approx(threshold)


def test_amounts_of_rows_move_the_threshold():
    rule = DecisionRule(false_positive=5, false_negative="amount")
    amounts, p = np.array([5.0, 45.0, 495.0]), np.array([0.3, 0.3, 0.3])
    np.testing.assert_array_equal(rule.decide(p, {"amount": amounts}), p > 5 / (5 + amounts))
    assert str(rule) == "Choose the action with the lowest expected cost, given 'amount' of each row."
    named = DecisionRule(false_positive=5, false_negative="amount", classes=["legit", "fraud"])
    assert str(named).removeprefix(f"{rule} ") == (
        "'fraud' costs 5 where 'legit' is true, 'legit' costs amount where 'fraud' is."
    )


def test_a_dictionary_is_matched_by_name():
    rule = DecisionRule({"paid": {"defaulted": 20}, "defaulted": {"paid": 1}})
    assert rule.classes == ["defaulted", "paid"]
    turned = rule.matched(["paid", "defaulted"])
    assert turned.threshold == pytest.approx(1 / 21)
    np.testing.assert_array_equal(turned.decide([[0.9, 0.1], [0.99, 0.01]]), ["defaulted", "paid"])


def test_a_rule_is_plain_values():
    rule = DecisionRule({"pass": {"bad": "amount"}, "stop": {"good": 3}, "ask": 1.5}, classes=["good", "bad"])
    again = DecisionRule(**json.loads(json.dumps(rule.to_dict())))
    assert again.to_dict() == rule.to_dict()
    p, amounts = [[0.9, 0.1], [0.2, 0.8]], {"amount": [100, 100]}
    np.testing.assert_array_equal(again.decide(p, amounts), rule.decide(p, amounts))


WHERE = "where the probability of the second class is below 16.7%"
SAID = [
    (
        DecisionRule([[0, 5], [1, 0]], classes=["a", "b"]),
        "Choose 'a' where the probability of 'b' is below 16.7%, 'b' above.",
    ),
    (
        DecisionRule([[0, 5], [1, 6]]),
        "Always choose 0: it is the cheapest whatever the probability of the second class is.",
    ),
    (DecisionRule([[0, 5], [4, 4], [1, 0]]), f"Choose 0 {WHERE}, 2 above. Never the cheapest: 1."),
    (DecisionRule(1 - np.eye(3)), "Choose the action with the lowest expected cost."),
]


@pytest.mark.parametrize(("rule", "sentence"), SAID)
def test_what_a_rule_says(rule, sentence):
    assert str(rule) == sentence


BAD = [
    ({}, "either costs, or false_positive and false_negative"),
    ({"false_positive": 1}, "false_negative is missing"),
    ({"costs": [1, 2]}, "a row for each action"),
    ({"costs": [[1, 2]]}, "at least two"),
    ({"costs": [[0, 1], [1]]}, "a row for each action"),
    ({"costs": [[0, 1], [1, 0]], "classes": ["a"]}, "2 columns, and there are 1 classes"),
    ({"costs": [[0, 1], [1, 0]], "actions": ["a"]}, "2 rows, and there are 1 actions"),
    ({"costs": [[0, 1], [1, 0]], "classes": ["a", "a"]}, "classes names 'a' twice"),
    ({"costs": [[0, 1], [1, np.nan]], "classes": ["a", "b"]}, "the action 'b' in the class 'b' is not a finite number"),
    ({"costs": [[0, 1], [1, None]]}, "action 1 in class 1 is not a finite number"),
    ({"costs": [[-5, 1], [1, 0]]}, "action 0 in class 0 is -5: costs must not be negative"),
    ({"costs": {"a": {"b": 1}, "b": {"c": 1}}, "classes": ["a", "b"]}, "'b' has a cost for 'c'; the classes are"),
    ({"costs": {"a": {"b": 1}, "b": {}}, "classes": ["a", "b", "c"]}, "'a' has no cost for 'c'"),
    ({"costs": {"a": 1}}, "at least two actions"),
    ({"costs": {"a": 1, "b": 2}}, "fewer than two classes"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_bad_costs_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        DecisionRule(**given)


def test_the_advice_for_negative_costs_leads_to_the_same_decisions():
    gains = np.array([[-5.0, 3.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="so add 5 to all its costs"):
        DecisionRule(gains)
    p = np.linspace(0, 1, 101)
    expected = (np.column_stack([1 - p, p]) @ gains.T).argmin(axis=1)
    np.testing.assert_array_equal(DecisionRule(gains + np.array([5.0, 0.0])).decide(p), expected)


def test_wrong_predictions_amounts_and_classes_are_named():
    rule = DecisionRule(false_positive=5, false_negative="amount")
    with pytest.raises(ValueError, match="amount 'amount', which was not given"):
        rule.decide([0.5])
    with pytest.raises(ValueError, match=r"has shape \(2,\), there are 1 rows"):
        rule.decide([0.5], {"amount": [1, 2]})
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=rf"is {wrong} in row 0: amounts are finite and not negative"):
            rule.decide([0.5], {"amount": [wrong]})
    with pytest.raises(ValueError, match="costs for 2 classes, y_prob has 3"):
        DecisionRule(false_positive=1, false_negative=2).decide([[0.2, 0.3, 0.5]])
    with pytest.raises(ValueError, match="has costs for 'c', but the classes are 'a', 'b'"):
        DecisionRule([[0, 1], [1, 0]], classes=["a", "c"]).matched(["a", "b"])
    with pytest.raises(ValueError, match="`ranges` shows where each is taken"):
        DecisionRule([[0, 5], [4, 4], [1, 0]]).threshold  # noqa: B018
    with pytest.raises(ValueError, match="is for two classes; the rule has costs for 3"):
        DecisionRule(1 - np.eye(3)).threshold  # noqa: B018
    with pytest.raises(ValueError, match="no threshold above which it is taken: swap the actions"):
        DecisionRule([[1, 0], [0, 1]]).threshold  # noqa: B018
    with pytest.raises(ValueError, match="would differ from row to row"):
        rule.threshold  # noqa: B018


def test_abstention_is_said_in_words_and_done_so():
    rule = DecisionRule.abstention(0.2, ["a", "b", "c"])
    assert str(rule) == "Choose the most probable class where its probability is at least 80.0%, 'abstain' below."
    p = np.random.default_rng(0).dirichlet(np.full(3, 0.4), 500)
    expected = np.where(p.max(axis=1) >= 0.8, np.array(["a", "b", "c"])[p.argmax(axis=1)], "abstain")
    assert rule.decide(p).tolist() == expected.tolist()
    # Where asking is dearer than guessing it is never done, and other costs are not this rule.
    assert str(DecisionRule.abstention(0.7, ["a", "b", "c"])) == "Choose the action with the lowest expected cost."
    other = DecisionRule([[0, 1, 2], [1, 0, 1], [1, 1, 0], [0.2] * 3], actions=[*"abc", "ask"], classes=[*"abc"])
    assert str(other) == "Choose the action with the lowest expected cost."


def test_the_threshold_agrees_with_decisions_where_costs_are_equal():
    p = np.linspace(0.0, 1.0, 41)[1:-1]
    for numbers in itertools.product((0, 1, 2), repeat=4):
        rule = DecisionRule(np.reshape(numbers, (2, 2)))
        (a, b), (c, d) = rule.costs
        if c < a and b < d:
            continue  # no threshold: the second action is taken below one
        expected = ((1 - p) * c + p * d < (1 - p) * a + p * b - 1e-12).astype(int)
        assert rule.decide(p).tolist() == expected.tolist()
        assert (p > rule.threshold + 1e-12).astype(int).tolist() == expected.tolist()
