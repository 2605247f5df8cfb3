"""How far proximal Newton goes along a step, on losses that are known along it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from calibrant.softmax.penalties import Lasso, NoPenalty, Penalty
from calibrant.softmax.solvers.proximal_newton import _line_search
from calibrant.softmax.solvers.solver import evaluate


def search(bend: Any, penalty: Penalty, theta: Any, target: Any, longest: float = 1.0, slope: Any = -1.0) -> Any:
    """How far, and where to, for the loss ``Σ bend t² / 2 + slope t``."""

    def at(t: np.ndarray, dense: bool) -> SimpleNamespace:
        return SimpleNamespace(loss=float(np.sum(bend * t * t / 2.0 + slope * t)), gradient=lambda: bend * t + slope)

    problem = cast(Any, SimpleNamespace(at=at))
    theta, target = np.array([theta], dtype=float), np.array([target], dtype=float)
    t, moved = _line_search(problem, penalty, theta, target, evaluate(problem, penalty, theta, dense=True), longest)
    return t, None if moved is None else moved[0][0].tolist()


@pytest.mark.parametrize(
    ("bend", "expected"),
    [(1.99975, 1.0), (1.99985, 0.5), (7.0, 0.25), (9.0, 0.125), (1.3e8, 2.0**-26), (1.5e8, 0.0)],
)
def test_a_step_is_halved_until_it_gains_a_little_of_what_it_promises(bend: float, expected: float) -> None:
    """The largest t with ``bend t² / 2 − t <= −1e-4 t``."""
    assert search(bend, NoPenalty((1, 1)), [0.0], [1.0]) == (expected, [expected] if expected else None)
    with_slope = search(bend, Lasso(np.full((1, 1), 0.5)), [0.0], [1.0], slope=-1.5)
    assert with_slope == (expected, [expected] if expected else None)


@pytest.mark.parametrize(("bend", "expected"), [(0.49994, 4.0), (0.49996, 1.0)])
def test_a_longer_step_is_tried_first_and_leaves_zeros_at_zero(bend: float, expected: float) -> None:
    t, moved = search(np.array([bend, 0.0]), NoPenalty((1, 2)), [0.0, 1e-9], [1.0, 0.0], 4.0, np.array([-1.0, 0.0]))
    assert t == expected
    assert moved == [expected, 0.0]


def test_coefficients_that_belong_at_zero_may_go_there_alone() -> None:
    lasso = Lasso(np.full((1, 2), 0.5))
    bend, slope = np.array([1e3, 1e-6]), np.array([-1.0, 0.0])
    assert search(bend, lasso, [0.0, 1.0], [1.0, 0.0], slope=slope) == (1.0, [0.0, 0.0])
    slope[1] = -1.0  # now the second would lose by that
    t, moved = search(bend, lasso, [0.0, 1.0], [1.0, 0.0], slope=slope)
    assert t == 0.0
    assert moved is None


@pytest.mark.parametrize(("rise", "expected"), [(0.8e-14, 1.0), (1.5e-14, 0.0)])
def test_rounding_of_the_objective_is_forgiven(rise: float, expected: float) -> None:
    def at(t: np.ndarray, dense: bool) -> SimpleNamespace:
        return SimpleNamespace(loss=1.0 + rise * (t[0, 0] > 0.0), gradient=lambda: np.full((1, 1), -1e-30))

    problem, none = cast(Any, SimpleNamespace(at=at)), NoPenalty((1, 1))
    theta = np.zeros((1, 1))
    t, _ = _line_search(problem, none, theta, theta + 1.0, evaluate(problem, none, theta), 1.0)
    assert t == expected
