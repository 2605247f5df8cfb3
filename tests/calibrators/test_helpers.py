"""Small functions that calibrators are made of, each by an example that can be checked by hand."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from calibrant.calibrators.auto.blend import likelihood_weights, mean_log_loss, pool_weight
from calibrant.calibrators.auto.means import classes_off, matching_intercepts
from calibrant.calibrators.batch_fitting import rows_in_memory
from calibrant.calibrators.binary.binning import Grouped
from calibrant.calibrators.binary.isotonic import isotonic_steps
from calibrant.calibrators.binary.logistic_fit import fit_logistic
from calibrant.calibrators.dispatch import needs_dispatch
from calibrant.calibrators.parameters import constraints_of
from calibrant.calibrators.scaling.discriminant import change_of_map, class_sums, discriminant_map
from calibrant.calibrators.score_scaling import find_scale
from calibrant.calibrators.state import StateCheck
from calibrant.classifier.pair import in_canonical_order, log_scores, response_method
from calibrant.sample import Sample
from calibrant.sklearn_private import StrOptions


def test_the_mean_log_loss_has_the_floor_of_the_metrics() -> None:
    z, y = np.array([[0.0, 0.0], [0.0, -87.0]]), np.array([0, 1])
    assert mean_log_loss(z, y, None) == pytest.approx((np.log(2.0) - np.log(1e-15)) / 2.0)


def test_equal_losses_share_the_weight_and_equal_predictions_the_pool() -> None:
    np.testing.assert_allclose(likelihood_weights(np.array([0.5, 0.5, 0.9]), 100), [0.5, 0.5, 0.0], atol=1e-8)
    same = np.full(40, 0.6)
    assert pool_weight(same, same, np.ones(40), (1.0, 2.0)) == pytest.approx(2 / 3, abs=1e-5)


def test_classes_are_off_beyond_chance_and_intercepts_match_them() -> None:
    assert classes_off(np.array([0.5, 0.5]), np.array([0.8, 0.2]), 100) == [0, 1]
    assert classes_off(np.array([0.5, 0.5]), np.array([0.55, 0.45]), 100) == []
    p, y = np.full((100, 2), 0.5), np.repeat([0, 1], [80, 20])
    odds = np.exp(matching_intercepts(Sample(p, y), [1]))
    np.testing.assert_allclose(odds / odds.sum(), [0.8, 0.2], atol=1e-6)


def test_a_quarter_of_the_memory_is_for_six_matrices_of_the_sample() -> None:
    assert rows_in_memory(512, 10) == 512 * 2**20 // 4 // (8 * 6 * 10)
    assert rows_in_memory(512, 1) == rows_in_memory(512, 2)
    assert rows_in_memory(0.001, 10) == 256


def test_isotonic_steps_begin_where_the_value_changes() -> None:
    grouped = Grouped(np.array([0.1, 0.2, 0.6, 0.9]), np.ones(4), np.array([0.0, 1.0, 0.0, 1.0]))
    value, starts = isotonic_steps(grouped)
    assert value.tolist() == [0.0, 0.5, 0.5, 1.0]
    assert starts.tolist() == [0, 1, 3]


def test_an_intercept_alone_is_the_log_odds_of_the_labels() -> None:
    assert fit_logistic(np.ones((1, 4)), np.array([0.0, 1.0, 1.0, 1.0])) == pytest.approx(np.log(3.0))


def test_arrays_need_no_dispatch() -> None:
    assert not needs_dispatch(np.zeros((2, 2)))
    assert not needs_dispatch([[0.5, 0.5]])


def test_types_are_read_as_constraints() -> None:
    boolean, options, none = constraints_of(bool | Literal["auto"] | None)
    assert (boolean, none) == ("boolean", None)
    assert isinstance(options, StrOptions)
    assert options.options == {"auto"}


def test_sums_of_classes_weigh_rows_by_their_counts() -> None:
    block = Sample(np.array([[0.8, 0.2], [0.4, 0.6]]), np.array([0, 0]), counts=np.array([1.0, 3.0]))
    found = class_sums(block, np.eye(2), np.zeros(2))
    np.testing.assert_allclose(found.counts, [4.0, 0.0])
    np.testing.assert_allclose(found.expected_counts, [2.0, 2.0])
    x = np.log([[0.8, 0.2], [0.4, 0.6]])
    np.testing.assert_allclose(found.sums, [x[0] + 3 * x[1], [0.0, 0.0]])
    np.testing.assert_allclose(found.expected_sums, [0.8 * x[0] + 1.2 * x[1], 0.2 * x[0] + 1.8 * x[1]])
    np.testing.assert_allclose(found.products, np.outer(x[0], x[0]) + 3 * np.outer(x[1], x[1]))


def test_maps_of_the_gaussian_model_point_the_right_way() -> None:
    x = np.log([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
    sums = class_sums(Sample(x, np.array([0, 0, 1, 1]), logs=True), np.eye(2), np.zeros(2))
    coef, intercept = discriminant_map(sums, 1.0, 0.0)
    assert (x @ coef.T + intercept).argmax(axis=1).tolist() == [0, 0, 1, 1]
    x = np.log([[0.5, 0.5], [0.5, 0.5], [0.2, 0.8], [0.8, 0.2]])
    sums = class_sums(Sample(x, np.array([0, 1, 1, 0]), logs=True), np.eye(2), np.zeros(2))
    coef, _ = change_of_map(sums, 1.0, 20.0)
    assert coef[0, 0] > 0.0 > coef[0, 1]  # the probabilities were too close to the average


def test_scores_that_fall_with_the_risk_have_a_negative_factor() -> None:
    scores, defaulted = np.array([[700.0], [500.0], [650.0], [450.0]]), np.array([0, 1, 0, 1])
    sample = Sample(np.tile(scores, (10, 1)), np.tile(defaulted, 10))
    assert find_scale(sample).factor < 0.0
    assert find_scale(sample, 1).factor > 0.0


def test_a_state_of_another_shape_is_refused() -> None:
    check = StateCheck({"classes_": np.array([0, 1]), "coef_": np.ones((2, 2))})
    with pytest.raises(ValueError, match=r"coef_ has shape \(2, 2\), expected \(2, 3\)"):
        check.array("coef_", check.k, 3)


def test_scores_of_classifiers_are_logarithms_or_decision_values() -> None:
    assert response_method(LogisticRegression()) == "predict_log_proba"
    assert response_method(LogisticRegression(), decisions=True) == "decision_function"
    tree = DecisionTreeClassifier().fit([[0], [1]], ["a", "c"])
    assert log_scores(tree, [[1]], np.array(["a", "b", "c"])).tolist() == [[-np.inf, -np.inf, 0.0]]


def test_whole_counts_become_repetitions_in_an_order_of_their_own() -> None:
    x = np.array([[0.0, 3.0], [2.0, 1.0]])
    ordered = in_canonical_order(Sample(x, np.array([1, 0]), np.array([2.0, 1.0]), logs=True))
    assert ordered.y.tolist() == [0, 1, 1]
    assert ordered.counts is None
    turned = in_canonical_order(Sample(x[::-1], np.array([0, 1]), np.array([1.5, 2.0]), logs=True))
    assert turned.counts.tolist() == [1.5, 2.0]
