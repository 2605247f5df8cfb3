"""Metrics of many labels, against scikit-learn and against the metrics of two classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as sklearn_log_loss

from calibrant.metrics import calibration_in_the_large, confidence_interval, ece, multilabel_metrics


def drawn(n: int = 400) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    p = rng.random((n, 3))
    return (rng.random((n, 3)) < p ** [1, 1, 3]).astype(int), p


def test_each_label_is_measured_as_two_classes() -> None:
    y, p = drawn()
    weight = np.random.default_rng(1).exponential(size=len(y))
    found = multilabel_metrics(y, p, sample_weight=weight, labels=["a", "b", "c"])
    table = found.to_dict()
    for j in range(3):
        assert np.isclose(table["log_loss"][j], sklearn_log_loss(y[:, j], p[:, j], sample_weight=weight))
        assert np.isclose(table["brier"][j], brier_score_loss(y[:, j], p[:, j], sample_weight=weight))
        assert np.isclose(table["ece"][j], ece(y[:, j], p[:, j], sample_weight=weight))
        large = calibration_in_the_large(y[:, j], p[:, j], sample_weight=weight)
        assert np.isclose(table["expected"][j], weight @ p[:, j])
        assert np.isclose(table["p_value"][j], large.p_value[1])
        assert np.isclose(table["observed"][j], weight @ y[:, j])
    assert np.isclose(found.macro["ece"], table["ece"].mean())
    assert np.isclose(found.micro["log_loss"].value, found.macro["log_loss"])
    assert np.isclose(found.micro["ece"].value, ece(y.ravel(), p.ravel(), sample_weight=np.repeat(weight, 3)))


def test_cells_of_a_row_are_one_observation_of_intervals() -> None:
    y, p = drawn()
    same, twice = np.repeat(y[:, :1], 5, axis=1), np.repeat(p[:, :1], 5, axis=1)
    found = multilabel_metrics(same, twice, level=0.9).micro["log_loss"]
    single = confidence_interval("log_loss", y[:, 0], p[:, 0], level=0.9)
    assert 0.8 < (found.high - found.low) / (single.high - single.low) < 1.25


def test_the_verdict_names_labels_that_are_miscounted_and_no_others() -> None:
    y, p = drawn()
    found = multilabel_metrics(y, p, labels=["a", "b", "c"])
    assert found.miscounted == ["c"]
    assert found.order[0] == 2
    assert found.verdict == "1 of 3 labels is predicted too often or too rarely: c."
    fine = multilabel_metrics(y[:, :2], p[:, :2])
    assert fine.verdict == "No label of 2 is predicted clearly too often or too rarely."
    both = multilabel_metrics(y[:, [2, 2]], p[:, [2, 2]], labels=["u", "v"])
    assert both.verdict == "2 of 2 labels are predicted too often or too rarely: u, v."
    few = multilabel_metrics(y[:6], p[:6])
    assert few.verdict.startswith("No label of 3")
    assert str(multilabel_metrics(y, p)).count("\n") == 7
    assert "(1 more labels are not shown)" in found.text(most=2)


def test_labels_are_miscounted_at_a_twentieth_of_all_and_the_clearest_comes_first() -> None:
    y, p = drawn(20)
    found = multilabel_metrics(y[:, :2], p[:, :2], labels=["a", "b"])
    for p_value, named in (([0.02, 0.01], ["b", "a"]), ([0.025, 0.0249], ["b"])):
        assert replace(found, p_value=np.array(p_value)).miscounted == named


def test_the_text_shows_twenty_labels() -> None:
    y, p = np.tile(drawn(5)[0], 7), np.tile(drawn(5)[1], 7)
    for n, shown in ((21, True), (20, False)):
        text = str(multilabel_metrics(y[:, :n], p[:, :n]))
        assert text.count("\n") == 24 + ("more labels" in text)
        assert ("more labels" in text) == shown


def test_intervals_over_all_cells_are_those_of_their_rows_as_groups() -> None:
    y, p = drawn(12)
    found = multilabel_metrics(y, p, level=0.8, n_resamples=40).micro["brier"]
    cells = {"groups": np.repeat(np.arange(12), 3), "level": 0.8, "n_resamples": 40}
    assert found == confidence_interval("brier", y.ravel(), p.ravel(), **cells)


def test_miscounts_are_seldom_found_where_there_are_none() -> None:
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(60):
        p = rng.beta(0.5, 4.0, size=(60, 8))
        wrong += bool(multilabel_metrics((rng.random(p.shape) < p).astype(int), p).miscounted)
    assert wrong <= 8  # 0.05 is promised; 3 are expected at most, and more than 8 have a chance of 0.3 %
