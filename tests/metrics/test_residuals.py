"""Residuals and their null distributions against loops over rows, and p-values against counting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from calibrant.metrics import (
    calibration_test,
    ece,
    hypothesis,
    kolmogorov_smirnov,
    kuiper,
    smooth_ece,
)
from calibrant.metrics.hypothesis import (
    CellResiduals,
    Residuals,
    ScoreResiduals,
    ViewResiduals,
    drawn_or_tail,
    few_groups,
    null_p_value,
    score_covariance,
    score_statistic,
)
from calibrant.metrics.sorted_scores import excursion
from calibrant.metrics.views import View, class_view
from calibrant.random_numbers import generator
from calibrant.sample import Sample

CELLS = np.array([2, 0, 1, 1, 2, 0, 1, 2])


def sample(counts: Any = None, groups: Any = None) -> Sample:
    p = 0.1 + 0.7 * np.random.default_rng(0).dirichlet(np.ones(3), 8)
    return Sample(p, np.array([0, 2, 1, 1, 0, 2, 2, 0]), counts, groups)


WHOLE = np.array([1.0, 2, 3, 1, 1, 4, 2, 1])
KINDS: dict[str, Callable[[Sample], Residuals]] = {
    "view": lambda data: ViewResiduals(data, class_view(data, 1)),
    "rows": CellResiduals,
    "cells": lambda data: CellResiduals(data, CELLS, 4),
    "scores": lambda data: ScoreResiduals(data, np.log(data.proba)),
}


def by_hand(kind: str, data: Sample, y: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The residuals if row `i` has label `y[i]` so many times, with a loop over rows."""
    k, size = data.n_classes, {"view": 8, "rows": 8, "cells": 4, "scores": 1}[kind]
    found, slope = np.zeros((size, k)), 0.0
    for row, (label, number) in enumerate(zip(y, times)):
        cell = {"cells": CELLS[row], "scores": 0}.get(kind, row)
        found[cell] += number * (np.eye(k)[label] - data.proba[row])
        logs = np.log(data.proba[row])
        slope += number * (logs[label] - data.proba[row] @ logs)
    if kind == "scores":
        return np.append(found, slope)
    return found[:, 1] if kind == "view" else found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counts", [None, WHOLE, WHOLE + 0.3])
def test_residuals_are_what_happened_less_what_was_expected(kind: str, counts: np.ndarray | None) -> None:
    data = sample(counts, np.array([0, 0, 1, 1, 1, 2, 2, 2]))
    residuals = KINDS[kind](data)
    np.testing.assert_allclose(residuals.observed, by_hand(kind, data, data.y, data.each), atol=1e-12)
    # Signs of three groups: one of eight ways.
    rng, signs = np.random.default_rng(1), np.array(list(product([-1, 1], repeat=3)))
    ways = np.array([by_hand(kind, data, data.y, data.each * sign[data.groups]).ravel() for sign in signs])
    taken = set()
    for _ in range(12):
        off = np.abs(ways - residuals.flipped(rng).ravel()).max(axis=1)
        assert off.min() < 1e-12
        taken.add(int(off.argmin()))
    assert len(taken) > 3
    # One random number for all rows of a group: a label for each row, with its whole count.
    same = Sample(np.tile([0.2, 0.5, 0.3], (8, 1)), data.y, counts, data.groups)
    ways = np.array(
        [by_hand(kind, same, np.array(y)[data.groups], same.each).ravel() for y in product(range(3), repeat=3)]
    )
    together = KINDS[kind](same)
    for _ in range(9):
        assert np.abs(ways - together.drawn(rng, together=True).ravel()).max(axis=1).min() < 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counts", [None, WHOLE, WHOLE + 0.5])
def test_drawn_residuals_have_the_mean_and_variance_of_labels(kind: str, counts: np.ndarray | None) -> None:
    data, rng, draws = sample(counts), np.random.default_rng(2), 300
    residuals = KINDS[kind](data)
    found = np.array([residuals.drawn(rng, together=False).ravel() for _ in range(draws)])
    if kind in ("rows", "cells"):  # what is expected goes with the number of observations that are drawn
        np.testing.assert_allclose(found.reshape(draws, -1, 3).sum(axis=2), 0, atol=1e-12)
    squares = sum(
        data.each[row]
        * data.proba[row, label]
        * by_hand(kind, data, np.full(8, label), np.arange(8) == row).ravel() ** 2
        for row in range(8)
        for label in range(3)
    )
    error = np.sqrt(squares / draws)
    assert np.all(np.abs(found.mean(axis=0)) <= 4 * error + 1e-12)
    np.testing.assert_allclose(found.var(axis=0), squares, rtol=0.4, atol=1e-12)


def test_the_covariance_of_scores_is_a_sum_over_rows_and_labels() -> None:
    data = sample(WHOLE + 0.3)
    logs = np.random.default_rng(3).normal(size=(8, 3))
    expected, sums = np.zeros((4, 4)), np.zeros(4)
    for p, x, each in zip(data.proba, logs, data.each):
        for label in range(3):
            one = np.append(np.eye(3)[label] - p, x[label] - p @ x)
            expected += each * p[label] * np.outer(one, one)
        sums += each * np.append(p, p @ x)
    for found, wanted in zip(score_covariance(data.proba, logs, data.each), (expected, sums)):
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    np.testing.assert_allclose(ScoreResiduals(data, logs).covariance(), expected, atol=1e-12)


def test_statistics_of_scores_by_hand() -> None:
    for data in (sample(), sample(WHOLE)):
        residuals = ScoreResiduals(data, np.log(data.proba))
        v, g = residuals.covariance(), np.array([0.3, -0.1, -0.2, 0.9])
        temperature = 0.9**2 / v[3, 3]
        # One intercept is what the others leave: of three classes two are free.
        score = g[1:] @ np.linalg.solve(v[1:, 1:], g[1:])
        both = max((temperature - 1) / np.sqrt(2), (score - 3) / np.sqrt(6))
        assert (temperature - 1) / np.sqrt(2) > (score - 3) / np.sqrt(6)
        for name, value in (("temperature", temperature), ("score", score), ("omnibus", both)):
            assert score_statistic(name, residuals)(g) == pytest.approx(value, rel=1e-9)
    assert v[3, 3] > 1 > ScoreResiduals(sample().take(np.arange(1)), np.log(sample().proba[:1])).covariance()[3, 3]


def test_the_temperature_of_certain_predictions_leaves_no_room_for_chance() -> None:
    certain = Sample(np.eye(2), np.array([0, 1]))
    statistic = score_statistic("temperature", ScoreResiduals(certain, np.log(np.maximum(np.eye(2), 1e-15))))
    assert (statistic(np.array([0.0, 0.0, 0.0])), statistic(np.array([0.0, 0.0, 0.5]))) == (0.0, np.inf)
    nearly = Sample(np.array([[0.999, 0.001]]), np.array([0]))
    residuals = ScoreResiduals(nearly, np.log(nearly.proba))
    variance = 0.999 * 0.001 * np.log(999) ** 2
    assert score_statistic("temperature", residuals)(np.array([0, 0, 0.5])) == pytest.approx(0.25 / variance)


def test_a_class_of_which_half_an_observation_is_expected_has_few_groups() -> None:
    proba = np.tile([0.5, 0.497, 0.003, 0.0], (200, 1))
    rare = Sample(proba, np.zeros(200, dtype=int), groups=np.arange(200) // 2)
    logs = np.log(np.maximum(proba, 1e-15))
    np.testing.assert_allclose(ScoreResiduals(rare, logs).rarer(), [100, 99.4, 0.6])
    assert few_groups(ScoreResiduals(rare, logs))
    common = Sample(proba[:, [0, 3]] * 2, rare.y, groups=rare.groups)
    assert not few_groups(ScoreResiduals(common, logs[:, [0, 3]]))  # nothing can be otherwise
    # With counts: 25 groups of 8 observations, 2 · 200 · 0.201 · 25/200 = 10.05 of them tell, and 9.9 are too few.
    for rate, few in ((0.201, False), (0.198, True)):
        data = Sample(np.tile([1 - rate, rate], (50, 1)), np.zeros(50, dtype=int), np.full(50, 4.0), np.arange(50) // 2)
        for column in (0, 1):
            assert few_groups(ViewResiduals(data, class_view(data, column))) is few


class Listed(Residuals):
    """Observed and drawn residuals that are given."""

    def __init__(self, data: Sample, observed: float, drawn: list[float], flipped: list[float] | None = None) -> None:
        super().__init__(data, data.proba)
        self.observed, self.lists = np.array([observed]), (drawn, flipped or [])
        self.next: tuple[Iterator[float], ...] = tuple(iter(part) for part in self.lists)
        self.together: set[bool] = set()

    def drawn(self, rng: np.random.Generator, *, together: bool) -> np.ndarray:
        self.together.add(together)
        return np.array([next(self.next[0])])

    def flipped(self, rng: np.random.Generator) -> np.ndarray:
        return np.array([next(self.next[1])])


def first(residuals: np.ndarray) -> float:
    return float(residuals[0])


def test_p_values_count_draws_that_are_as_large_up_to_rounding() -> None:
    data = sample()
    for scale in (0.01, 2.0, 1e4):
        least = scale - 1e-12 * max(1, scale)
        draws = [0.5 * scale, scale + 2 * (least - scale), scale + 0.6 * (least - scale), scale, 2 * scale]
        assert null_p_value(Listed(data, scale, draws), first, 5, generator(0)) == (scale, 4 / 6)
    assert null_p_value(Listed(data, 1.0, [3.0, 9.0]), first, 2, generator(0), observed=5.0) == (5.0, 2 / 3)
    assert null_p_value(Listed(data, 1.0, [3.0, 9.0]), first, 2, generator(0), observed=np.inf) == (np.inf, 1 / 3)


def test_groups_take_the_larger_p_value_of_draws_and_signs() -> None:
    data = sample(groups=np.arange(8) // 2)
    for drawn, flipped in (([3.0, 0.0], [0.0, 0.0]), ([0.0, 0.0], [0.0, 3.0])):
        residuals = Listed(data, 1.0, drawn, flipped)
        assert null_p_value(residuals, first, 2, generator(0)) == (1.0, 2 / 3)
        assert residuals.together == {True}
    # 40 groups that tell in one cell are ten in each of four and eight in each of five.
    half = np.full((80, 2), 0.5)
    many = Sample(half, np.zeros(80, dtype=int), groups=np.arange(80) // 2)
    for cells, together in ((1, False), (4, False), (5, True)):
        residuals = Listed(many, 1.0, [0.0], [0.0])
        null_p_value(residuals, first, 1, generator(0), cells=cells)
        assert residuals.together == {together}


def test_tails_stand_in_for_draws_where_there_are_many_rows_or_beyond_all_draws() -> None:
    data = sample(WHOLE)  # 15 observations
    tests = {"name": "n", "kind": "k"}

    def result(value: float, **options: Any) -> tuple[float, float, int]:
        found = drawn_or_tail(Listed(data, value, [1.0] * 399), first, 3, **tests, **options)
        assert (found.name, found.kind, found.statistic) == ("n", "k", value)
        return found.p_value, found.n_resamples

    for value in (-1.0, 0.3, 7.0):
        assert result(value, most=15 * 399 - 1) == (pytest.approx(chi2.sf(value, 3)), 0)
    assert result(0.9, most=15 * 399) == (1.0, 399)
    assert result(3.0) == (1 / 400, 399)  # the tail says 0.39
    assert result(30.0) == (pytest.approx(chi2.sf(30, 3)), 399)
    assert result(30.0, most=np.inf) == (1 / 400, 399)
    one = drawn_or_tail(Listed(data, 30.0, [1.0] * 398 + [31.0]), first, 3, **tests)
    assert one.p_value == 2 / 400
    data = sample(WHOLE, np.arange(8) // 2)
    grouped = Listed(data, 30.0, [1.0] * 399, [1.0] * 399)
    assert drawn_or_tail(grouped, first, 3, **tests)[1:] == (1 / 400, "n", "k", 399)
    grouped = Listed(data, 30.0, [1.0] * 199, [1.0] * 199)
    assert drawn_or_tail(grouped, first, 3, **tests, most=15 * 399 - 1)[1:] == (1 / 200, "n", "k", 199)


def test_cells_of_a_named_statistic_need_groups_of_their_own() -> None:
    half = np.full((80, 2), 0.5)
    data = Sample(half, np.zeros(80, dtype=int), groups=np.arange(80) // 2)
    for options, together in (({}, False), ({"cells": 5}, True)):
        residuals = Listed(data, 1.0, [0.0] * 399, [0.0] * 399)
        drawn_or_tail(residuals, first, 1, name="", kind="", **options)
        assert residuals.together == {together}


@pytest.mark.parametrize("kind", ["top-label", "class-wise"])
def test_statistics_are_the_metrics_of_their_names(kind: Any, multiclass: tuple[np.ndarray, np.ndarray]) -> None:
    y, p = (part[:60] for part in multiclass)
    weight = np.random.default_rng(0).uniform(0.5, 2, 60)
    for name, metric in (("kuiper", kuiper), ("kolmogorov_smirnov", kolmogorov_smirnov), ("smooth_ece", smooth_ece)):
        found = calibration_test(y, p, name, kind=kind, sample_weight=weight, n_resamples=1)
        assert found.statistic == pytest.approx(metric(y, p, kind=kind, sample_weight=weight), rel=1e-9)
        assert (found.name, found.kind, found.n_resamples) == (name, kind, 1)
    for strategy in ("uniform", "quantile"):
        options: dict[str, Any] = {"kind": kind, "sample_weight": weight, "n_bins": 4, "strategy": strategy}
        assert calibration_test(y, p, "ece", n_resamples=1, **options).statistic == pytest.approx(ece(y, p, **options))


def test_bins_of_ece_need_groups_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(hypothesis, "few_groups", lambda residuals, cells: asked.append(cells) or False)
    y, p = np.arange(12) % 2, np.linspace(0.1, 0.9, 12)
    for statistic in ("ece", "kuiper", "temperature"):
        calibration_test(y, p, statistic, groups=np.arange(12) // 2, n_resamples=1, n_bins=3)
    assert asked == [3, 1, 1]


def test_excursions_of_a_path() -> None:
    view = View(np.array([0.1, 0.2, 0.2, 0.3]), np.zeros(4))
    steps = np.array([1.0, -5.0, 3.0, -1.0])  # to 1, -1 and -2: equal scores are one step
    assert (excursion(view, kuiper=True)(steps), excursion(view, kuiper=False)(steps)) == (3.0, 2.0)
