"""Every step, row by row, against its definition in plain Python; and its formula, run on arrays, against the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from calibrant import steps as s
from calibrant.steps.actions import costs_of_rows
from calibrant.steps.branches import keep_most_probable, pair, rest
from calibrant.steps.features import own_curves
from calibrant.steps.formulas import FORMULAS, Operations, are_cheapest, rests
from calibrant.steps.lines import evaluate_spline, pieces
from calibrant.steps.step import NotSupportedError, all_steps, check_steps, decides

Row = list[float]
LOG_FLOOR = -87.3365478515625
FLOOR = math.exp(LOG_FLOOR)


class ArrayOperations(Operations):
    """Rows are arrays (n, columns), as simple as can be."""

    target = "arrays"

    def each(self, function: str, x: Any, *numbers: float) -> Any:
        bounds = {"max": np.maximum, "min": np.minimum}
        return bounds[function](x, *numbers) if numbers else getattr(np, function)(x)

    def where(self, condition: Any, yes: Any, no: Any) -> Any:
        return np.where(condition, yes, no)

    def reduced(self, function: str, x: Any) -> Any:
        return {"total": np.sum, "largest": np.max, "least": np.min}[function](x, axis=1, keepdims=True)

    def is_top(self, x: Any, width: int) -> Any:
        return np.arange(width) == x.argmax(axis=1)[:, None]

    def first(self, condition: Any, *rows: Any) -> list[Any]:
        place = condition.argmax(axis=1)[:, None]
        return [np.take_along_axis(row, place, axis=1) for row in rows]

    def columns(self, x: Any, index: Iterable[int]) -> Any:
        return x[:, list(index)]

    def join(self, rows: Sequence[Any], *, single: bool = False) -> Any:
        return np.hstack(list(rows))

    def product(self, x: Any, matrix: Any) -> Any:
        return x @ matrix

    def lookup(self, tables: Sequence[Any], place: Any) -> list[Any]:
        return [table[place[:, 0].astype(int)] for table in tables]

    def piecewise(self, x: Any, edges: Any, origins: Any, coefficients: Any) -> Any:
        piece = np.searchsorted(edges, x[:, 0])
        t = x[:, 0] - origins[piece]
        return sum(coefficients[piece, d] * t**d for d in range(coefficients.shape[1]))[:, None]

    def step_trees(self, step: Any, x: Any, width: int) -> Any:
        raise NotImplementedError


def sigmoid(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z))


def trees(step: Any, row: Row) -> Row:
    out = [0.0] * step.values.shape[2]
    for features, subtracted, thresholds, values in zip(step.features, step.subtracted, step.thresholds, step.values):
        asked = [row[f] - (row[g] if g >= 0 else 0.0) for f, g in zip(features, subtracted)]
        leaf = sum(2**bit for bit, (value, end) in enumerate(zip(asked, thresholds)) if value > end)
        out = [a + b for a, b in zip(out, values[leaf])]
    return out


def levels(step: Any, row: Row) -> Row:
    *x, level = row
    if not 0 <= level < len(step.intercept):
        return [0.0] * len(x)
    return [a + b * v for a, b, v in zip(step.intercept[int(level)], step.slope[int(level)], x)]


def kernel(step: Any, row: Row) -> Row:
    mean = sum(row) / len(row)
    z = [(v - mean) / step.spread for v in row] + [step.weight * math.exp(v) for v in row]
    return [math.exp(-sum((a - b) ** 2 for a, b in zip(z, mark)) / step.bandwidth) for mark in step.landmarks]


def curves(step: Any, row: Row) -> Row:
    u = step.coefficients
    logs = [max(math.log1p(-min(math.exp(v), 1.0 - 1e-12)), -20.0) for v in row]
    return [u[0, j] * v * v / 5.0 + u[1, j] * logs[j] + u[2, j] * math.exp(v) for j, v in enumerate(row)]


def softmax(step: Any, row: Row) -> Row:
    total = sum(math.exp(v - max(row)) for v in row)
    return [math.exp(v - max(row)) / total for v in row]


def on_points(step: Any, row: Row) -> Row:
    (x,) = row
    if isinstance(step, s.StepFunction):
        return [step.values[sum(x > edge for edge in step.edges)]]
    knots, values = step.knots, step.values
    inside = min(max(x, knots[0]), knots[-1])
    if isinstance(step, s.Line):
        value = float(np.interp(inside, knots, values))
        ends = [(values[1] - values[0]) / (knots[1] - knots[0]), (values[-1] - values[-2]) / (knots[-1] - knots[-2])]
    else:  # any second derivatives: what is between two knots has theirs, and no others
        left = min(max(int(np.searchsorted(knots, inside)) - 1, 0), len(knots) - 2)
        two, bent = slice(left, left + 2), step.curvature[left : left + 2]
        spline = CubicSpline(knots[two], values[two], bc_type=((2, bent[0]), (2, bent[1])))
        value, ends = float(spline(inside)), [float(spline(inside, 1))] * 2
    return [value + (x - inside) * ends[int(x > inside)] * step.extend]


def one_vs_one(step: Any, row: Row) -> Row:
    k = len(row)
    sums = [0.0] * k
    for (i, j), part in zip(combinations(range(k), 2), step.parts):
        found = s.run(part, np.array([[row[i], row[j]]]) / (row[i] + row[j]))[0]
        sums[i] += 1.0 / found[0]
        sums[j] += 1.0 / found[1]
    return [1.0 / max(total - (k - 2), 1.0) for total in sums]


def one_vs_rest(step: Any, row: Row) -> Row:
    others = [sum(v for j, v in enumerate(row) if j != i) for i in range(len(row))]
    return [s.run(part, np.array([[others[j], row[j]]]))[0, 1] for j, part in enumerate(step.parts)]


def of_parts(step: Any, row: Row) -> list[Row]:
    return [s.run(part, np.array([row]))[0].tolist() for part in step.parts]


def keep_top(step: Any, row: Row) -> Row:
    """By halving: the largest share of the way on which the first of the largest columns stays the largest."""
    z, top = of_parts(step, row)[0], row.index(max(row))

    def at(t: float) -> Row:
        return [a + t * (b - a) for a, b in zip(row, z)]

    low, high = 0.0, 1.0
    if all(at(1.0)[top] >= v for v in at(1.0)):
        return at(1.0)
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if all(at(middle)[top] >= v for v in at(middle)) else (low, middle)
    return at(low)


def delta_ends(step: Any, row: Row) -> Row:
    u, p = of_parts(step, row)
    r = len(u) // len(p)
    ends: list[Row] = [[], []]
    for j, q in enumerate(p):
        rest = sum(v for i, v in enumerate(p) if i != j)
        moved = [sum(p[i] * (u[j * r + d] - u[i * r + d]) for i in range(len(p)) if i != j) for d in range(r)]
        error = math.sqrt(sum(v * v for v in moved)) / rest
        for end, sign in zip(ends, (-1.0, 1.0)):
            end.append(sigmoid(math.log(q / rest) + sign * step.distance * error))
    return ends[0] + ends[1]


def normalize(step: Any, row: Row) -> Row:
    return [v / sum(row) for v in row] if sum(row) > 0 else [1 / len(row)] * len(row)


DEFINITIONS: dict[type[s.Step], Callable[[Any, Row], Row]] = {
    s.Exp: lambda step, row: [math.exp(v) for v in row],
    s.Log: lambda step, row: [max(math.log(max(v, FLOOR)), LOG_FLOOR) for v in row],
    s.Clip: lambda step, row: [min(max(v, step.low), step.high) for v in row],
    s.Mix: lambda step, row: [(1 - step.weight) * v + step.weight / len(row) for v in row],
    s.Scale: lambda step, row: (np.multiply(step.factor, row) + step.shift).tolist(),
    s.Polynomial: lambda step, row: [sum(c * v**d for d, c in enumerate(step.coefficients)) for v in row],
    s.Softmax: softmax,
    s.Normalize: normalize,
    s.Columns: lambda step, row: [row[j] for j in step.index],
    s.LogOdds: lambda step, row: [row[1] - row[0]],
    s.Lead: lambda step, row: [max(row), max(row) - sorted(row)[-2]],
    s.Sigmoid: lambda step, row: [sigmoid(-row[0]), sigmoid(row[0])],
    s.Complement: lambda step, row: [1 - row[0], row[0]],
    s.Linear: lambda step, row: (np.array(row) @ step.matrix + step.shift).tolist(),
    s.Curves: curves,
    s.Kernel: kernel,
    s.Trees: trees,
    s.Levels: levels,
    s.StepFunction: on_points,
    s.Line: on_points,
    s.Spline: on_points,
    s.Sum: lambda step, row: np.sum(of_parts(step, row), axis=0).tolist(),
    s.Join: lambda step, row: [v for part in of_parts(step, row) for v in part],
    s.KeepTop: keep_top,
    s.OneVsRest: one_vs_rest,
    s.OneVsOne: one_vs_one,
    s.DeltaEnds: delta_ends,
}

RNG = np.random.default_rng(0)
KNOTS, VALUES = np.array([-1.0, 0.25, 0.5, 2.0]), np.array([0.5, -1.0, 2.0, 1.5])
CURVATURE = CubicSpline(KNOTS, VALUES, bc_type="natural")(KNOTS, 2)
COLUMN = np.array([[-3.0], [-1.0], [-0.5], [0.0], [0.2], [0.25], [0.3], [0.5], [1.7], [2.0], [3.5]])
NORMAL = RNG.normal(size=(9, 3))
P = np.vstack([RNG.dirichlet(np.ones(3), size=8), [[0.98, 0.01, 0.01], [0.5, 0.5, 1e-9], [1 / 3, 1 / 3, 1 / 3]]])
LOGS = np.log(P)


def tempered(factor: float) -> list[s.Step]:
    return [s.Log(), s.Scale(np.array([1.0, factor]), np.array([0.0, factor - 1.0])), s.Softmax()]


CASES: list[tuple[s.Step, np.ndarray]] = [
    (s.Exp(), NORMAL),
    (s.Log(), np.vstack([P, [[0.0, 1e-300, 1.0]]])),
    (s.Clip(-0.3, 0.4), NORMAL),
    (s.Mix(0.3), P),
    (s.Scale(0.7), NORMAL),
    (s.Scale(np.array([0.5, -2.0, 1.0]), np.array([1.0, 0.0, -3.0])), NORMAL),
    (s.Scale(2.0, 0.25), NORMAL),
    (s.Polynomial(np.array([0.5])), NORMAL),
    (s.Polynomial(np.array([0.5, -2.0])), NORMAL),
    (s.Polynomial(np.array([1.0, 2.0, -0.5, 0.25])), NORMAL),
    (s.Softmax(), 3.0 * NORMAL),
    (s.Normalize(), np.vstack([np.abs(NORMAL), np.zeros((2, 3))])),
    (s.Columns(np.array([2, 0])), NORMAL),
    (s.LogOdds(), NORMAL[:, :2]),
    (s.Lead(), NORMAL),
    (s.Lead(), NORMAL[:, :2]),
    (s.Sigmoid(), COLUMN),
    (s.Complement(), COLUMN),
    (s.Linear(RNG.normal(size=(3, 2)), np.array([1.0, -1.0])), NORMAL),
    (s.Linear(RNG.normal(size=(3, 2))), NORMAL),
    (s.Linear(RNG.normal(size=(3, 5)), 0.5), NORMAL),
    (s.Linear(RNG.normal(size=(3, 4)), RNG.normal(size=4)), NORMAL),
    (s.Curves(RNG.normal(size=(3, 3))), LOGS),
    (s.Kernel(RNG.normal(size=(5, 6)), spread=1.5, weight=0.7, bandwidth=2.5), LOGS),
    (
        s.Trees(
            np.array([[0, 2], [1, 1], [2, 0]]),
            np.array([[-1, 1], [0, -1], [-1, 2]]),
            np.array([[0.1, -0.2], [0.0, 0.3], [NORMAL[4, 2], 0.0]]),
            RNG.normal(size=(3, 4, 2)),
        ),
        NORMAL,
    ),
    (
        s.Levels(RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3))),
        np.column_stack([NORMAL, [0.0, 1.0, 2.0, -1.0, 0.0, 1.0, 1.5, 0.5, 3.0]]),
    ),
    (s.StepFunction(KNOTS, np.array([1.0, 2.0, 4.0, 8.0, 16.0])), COLUMN),
    (s.Line(KNOTS, VALUES), COLUMN),
    (s.Line(KNOTS, VALUES, extend=True), COLUMN),
    (s.Line(KNOTS[:2], VALUES[:2], extend=True), COLUMN),
    (s.Spline(KNOTS, VALUES, CURVATURE), COLUMN),
    (s.Spline(KNOTS, VALUES, CURVATURE, extend=False), COLUMN),
    (s.Spline(KNOTS, VALUES, np.array([0.5, -1.0, 2.0, 1.5])), COLUMN),
    (s.Sum(([s.Scale(2.0)],)), NORMAL),
    (s.Sum(([s.Scale(2.0)], [s.Exp()], [s.Scale(-1.0, 0.5)])), NORMAL),
    (s.Join(([s.Columns(np.array([0, 2])), s.Exp()], [s.Columns(np.array([1]))])), NORMAL),
    (s.KeepTop(([s.Scale(np.array([0.1, 1.0, 3.0]), np.array([0.0, 2.0, 0.0]))],)), NORMAL),
    (s.KeepTop(([s.Scale(np.array([2.0, 2.0, 2.0]), np.array([0.1, 0.0, 0.0]))],)), NORMAL),
    (s.OneVsRest(tuple(tempered(f) for f in (0.5, 1.0, 2.0))), P),
    (s.OneVsOne(tuple(tempered(f) for f in (0.5, 1.5, 2.0))), P),
    (s.OneVsOne(tuple(tempered(0.5 + f / 4) for f in range(6))), RNG.dirichlet(np.ones(4), size=5)),
    (s.DeltaEnds(([s.Log(), s.Linear(RNG.normal(size=(3, 6)))], [s.Log(), s.Softmax()]), 1.3), P),
]


@pytest.mark.parametrize(("step", "rows"), CASES, ids=lambda item: getattr(item, "kind", ""))
def test_a_step_does_to_each_row_what_its_definition_says(step: s.Step, rows: np.ndarray) -> None:
    expected = np.array([DEFINITIONS[type(step)](step, row) for row in rows.tolist()])
    width = rows.shape[1]
    assert step.check(width) == expected.shape[1]
    assert step.width in (0, expected.shape[1])
    tolerance = 2e-8 if step.kind in ("keep-top", "curves") else 1e-10  # a hair, and 1 - q next to one
    np.testing.assert_allclose(step.apply(rows.copy()), expected, rtol=1e-10, atol=tolerance)
    np.testing.assert_allclose(np.vstack([step.apply(row[None].copy()) for row in rows]), expected, atol=tolerance)
    if step.kind in FORMULAS:
        np.testing.assert_allclose(ArrayOperations().run([step], rows, width), expected, rtol=1e-10, atol=tolerance)


def test_every_step_has_a_case() -> None:
    assert {type(step) for step, _ in CASES} == set(DEFINITIONS)
    assert {step.kind for step, _ in CASES} == {*FORMULAS, "trees"}


def test_many_rows_and_trees_are_summed_as_few() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2500, 4))
    shape = (150, 3)
    step = s.Trees(
        rng.integers(0, 4, shape), rng.integers(-1, 4, shape), rng.normal(size=shape), rng.normal(size=(150, 8, 2))
    )
    found = step.apply(x.copy())
    for i in (0, 1, 1023, 1024, 2499):
        np.testing.assert_allclose(found[i], trees(step, x[i].tolist()), rtol=1e-12)
        np.testing.assert_allclose(step.apply(x[i : i + 1])[0], found[i], rtol=1e-12)
    first, second, asked = step.pairs
    compared = x @ step.differences(4)
    padded = np.column_stack([x, np.zeros(len(x))])
    np.testing.assert_array_equal(compared, padded[:, first] - padded[:, second])
    np.testing.assert_array_equal(first[asked], step.features)
    np.testing.assert_array_equal(second[asked], step.subtracted)


def test_a_spline_and_its_slope_are_those_of_scipy() -> None:
    spline = CubicSpline(KNOTS, VALUES, bc_type="natural")
    x = np.linspace(-1.0, 2.0, 41)
    np.testing.assert_allclose(evaluate_spline(x, KNOTS, VALUES, CURVATURE), spline(x), atol=1e-13)
    np.testing.assert_allclose(evaluate_spline(x, KNOTS, VALUES, CURVATURE, derivative=True), spline(x, 1), atol=1e-12)
    outside = np.array([-5.0, 9.0])
    slopes = evaluate_spline(outside, KNOTS, VALUES, CURVATURE, derivative=True)
    np.testing.assert_allclose(slopes, spline(KNOTS[[0, -1]], 1), atol=1e-12)


@pytest.mark.parametrize("step", [step for step, _ in CASES if isinstance(step, (s.StepFunction, s.Line, s.Spline))])
def test_pieces_are_polynomials_between_edges(step: Any) -> None:
    edges, origins, coefficients = pieces(step)
    assert len(edges) + 1 == len(origins) == len(coefficients)
    for (x,) in COLUMN.tolist():
        j = int(np.sum(edges < x))
        value = sum(c * (x - origins[j]) ** d for d, c in enumerate(coefficients[j]))
        assert value == pytest.approx(on_points(step, [x])[0], abs=1e-12)


def test_the_rest_of_a_probability_does_not_cancel() -> None:
    p = np.array([[1.0, 1e-20, 2e-20], [0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])
    expected = [[3e-20, 1.0, 1.0], [0.8, 0.5, 0.7], [FLOOR, 1.0, 1.0]]
    np.testing.assert_allclose(rest(p), expected, rtol=1e-12)
    np.testing.assert_allclose(rests(ArrayOperations(), p, 3), expected, rtol=1e-12)
    np.testing.assert_allclose(pair(p, 0, 2), [[1.0, 2e-20], [0.4, 0.6], [1.0, FLOOR]], rtol=1e-12)


def test_ties_are_kept_where_rounding_made_them() -> None:
    """Of columns as good as equal the first is kept, and one that leads by rounding does not hold the others back."""
    x = np.array([[1.0, 1.0 + 1e-13, 0.0]])
    np.testing.assert_allclose(keep_most_probable(x, np.array([[3.0, 2.0, 0.0]])), [[3.0, 2.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose(keep_most_probable(x, np.array([[2.0, 3.0, 0.0]])), x, atol=1e-12)
    apart = np.array([[1.0, 1.0 + 1e-11, 0.0]])
    moved = keep_most_probable(apart, np.array([[2.0, 3.0, 0.0]]))
    np.testing.assert_allclose(moved, [[2.0, 3.0, 0.0]], atol=1e-9)
    np.testing.assert_allclose(
        ArrayOperations().run([s.KeepTop(([s.Scale(0.0, np.array([2.0, 3.0, 0.0]))],))], x, 3), x, atol=1e-12
    )


def test_kept_classes_stay_a_hair_ahead() -> None:
    x, z = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    formula = ArrayOperations().run([s.KeepTop(([s.Columns(np.array([1, 0]))],))], x, 2)
    for first, second in (keep_most_probable(x, z)[0], formula[0]):
        assert 0.0 < first - second < 1e-8


def test_curves_end_where_a_class_is_certain() -> None:
    square, log_rest, q = own_curves(np.array([0.0, -1e-9, -1.0, -50.0]))
    np.testing.assert_allclose(square, [0.0, 0.0, 0.2, 500.0], atol=1e-15)
    np.testing.assert_allclose(log_rest[:2], -20.0)
    np.testing.assert_allclose(log_rest[2:], np.log1p(-np.exp([-1.0, -50.0])), rtol=1e-12)
    np.testing.assert_allclose(q, np.exp([0.0, -1e-9, -1.0, -50.0]), rtol=1e-12)


def test_intervals_of_certain_and_of_unknown_models() -> None:
    """Without variance the ends are the probability; with all of it they are zero and one."""
    for scale, ends in ((0.0, [0.2, 0.8, 0.2, 0.8]), (1e9, [0.0, 0.0, 1.0, 1.0])):
        step = s.DeltaEnds(([s.Log(), s.Scale(scale)], [s.Columns(np.array([0, 1]))]), 2.0)
        found = step.apply(np.array([[0.2, 0.8]]))
        np.testing.assert_allclose(found, [ends], atol=1e-12)
        np.testing.assert_allclose(ArrayOperations().run([step], np.array([[0.2, 0.8]]), 2), [ends], atol=1e-12)


def test_what_lists_of_steps_say_about_themselves() -> None:
    inner = [s.Columns(np.array([0])), s.Linear(np.ones((1, 9)))]
    outer = [s.Log(), s.Join((inner, [s.Columns(np.array([1, 1]))])), s.Softmax()]
    assert [step.kind for step in all_steps(outer)] == ["log", "join", "columns", "linear", "columns", "softmax"]
    assert s.widest(outer) == 11
    assert s.widest([]) == s.widest([s.Softmax()]) == 0
    assert s.widest([s.Trees(np.zeros((1, 1), int), np.zeros((1, 1), int), np.zeros((1, 1)), np.zeros((1, 2, 4)))]) == 4
    assert s.widest([s.Kernel(np.zeros((7, 4)), 1.0, 1.0, 1.0)]) == 7
    assert check_steps(outer, 2) == 11
    assert not decides(outer)
    assert decides([s.Sum(([s.Columns(np.array([0])), s.Line(KNOTS, VALUES)],))])
    x = np.log(P)
    np.testing.assert_allclose(s.run_from_logs([s.Log(), s.Scale(2.0)], x.copy()), 2.0 * x)
    np.testing.assert_allclose(s.run_from_logs([s.Scale(2.0)], x.copy()), 2.0 * P)
    np.testing.assert_allclose(s.run_from_logs([], x.copy()), P)


def test_a_target_says_what_it_cannot_write() -> None:
    with pytest.raises(NotSupportedError, match="A step of the kind 'function' cannot be written as arrays"):
        ArrayOperations().run([s.Function(np.sqrt)], P, 3)


def test_the_cheapest_actions_with_ties_and_amounts() -> None:
    rule = costs_of_rows([[0.0, "loss"], [1.0, 0.0], [1.0, 0.0]], None, None)
    p, loss = np.array([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]), np.array([[1.0], [2.0], [5.0]])
    found = are_cheapest(ArrayOperations(), rule, p, [loss])
    assert found.tolist() == [[True, True, True], [True, False, False], [False, True, True]]
    near = costs_of_rows([[1.0, 1.0], [1.0 + 5e-10, 1.0 + 5e-10], [1.0 + 5e-9, 1.0 + 5e-9]], None, None)
    assert are_cheapest(ArrayOperations(), near, p, []).tolist() == [[True, True, False]] * 3
