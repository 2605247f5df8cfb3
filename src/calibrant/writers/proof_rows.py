"""Rows on which an export is compared with the definition: rows from all over the simplex and corner cases."""

from __future__ import annotations

import numpy as np

from calibrant.inputs.segments import LARGEST, plain_number
from calibrant.runtime import Map
from calibrant.simplex import log_odds
from calibrant.steps import Columns, Line, Spline, StepFunction, Steps, Trees
from calibrant.steps.actions import CostTable
from calibrant.steps.step import all_steps, branches_of
from calibrant.typing import AnyArray, FloatArray

#: Rows drawn at each level of confidence: a proof of some hundred rows takes well under a second in every target.
_DRAWN = 40
#: Edges and knots looked at, for the same reason.
_POINTS = 200


def sample_rows(fitted: Map) -> FloatArray:
    """Predictions for `fitted`: drawn ones, exact zeros and ones, ties, denormal numbers, uniform rows.

    Where the map is a function given by points, rows at these points and between them are among them.
    """
    k = fitted.k
    rng = np.random.default_rng(0)
    if fitted.independent:
        corners = np.repeat([[0.0], [1.0], [0.5], [5e-324], [1e-40], [1.0 - 1e-9]], k, axis=1)
        p = np.concatenate([corners, rng.random((_DRAWN, k)), rng.beta(0.2, 0.2, (_DRAWN, k))])
        return log_odds(p) if fitted.logits else p
    drawn = [rng.dirichlet(np.full(k, share), size=_DRAWN) for share in (0.05, 0.3, 1.0, 10.0)]
    tie = np.zeros((2, k))
    tie[0, :2] = 0.5
    tie[1, :2] = 1.0 - 1e-9, 1e-9
    denormal = np.full((2, k), [[5e-324], [1e-40]])
    denormal[0, 0] = denormal[1, -1] = 1.0
    coarse = rng.multinomial(10, np.full(k, 1.0 / k), size=_DRAWN) / 10.0
    single = rng.dirichlet(np.ones(k), size=_DRAWN).astype(np.float32).astype(np.float64)
    rows = np.concatenate([np.eye(k), np.full((1, k), 1.0 / k), tie, denormal, coarse, single, *drawn, _at(fitted)])
    if not fitted.logits:
        return rows
    logits = np.log(np.maximum(rows, 1e-30))
    if fitted.scaling is None:
        return logits
    if fitted.names is not None and len(fitted.names) < k:  # a single score, behind a zero
        logits = np.column_stack([np.zeros(len(rows)), logits[:, 1] - logits[:, 0]])
    return np.asarray((logits - fitted.scaling.shift) / fitted.scaling.factor)


def _at(fitted: Map) -> FloatArray:
    """Rows whose classes in turn have the probabilities at which lines bend and in the middle of steps."""
    found = np.concatenate([np.empty(0), *_points(fitted.steps)])
    points = np.unique(found[(found > 0.0) & (found < 1.0)])
    points = points[np.linspace(0, len(points) - 1, min(len(points), _POINTS)).astype(np.int64)]
    rows = np.repeat((1.0 - points)[:, None] / (fitted.k - 1), fitted.k, axis=1)
    rows[np.arange(len(points)), (np.arange(len(points)) + 1) % fitted.k] = points
    return rows


def _points(steps: Steps) -> list[FloatArray]:
    """Knots of lines and middles of steps of functions of probabilities."""
    out = []
    for before, step in zip([None, *steps], steps):
        if isinstance(before, Columns) and isinstance(step, (StepFunction, Line, Spline)):
            # On an edge itself the last digit decides; between the two edges of a single point is that point.
            edges = step.edges if isinstance(step, StepFunction) else step.knots
            out.append(0.5 * (edges[1:] + edges[:-1]) if isinstance(step, StepFunction) else edges)
        for branch in branches_of(step):
            out += _points(branch)
    return out


def with_segments(fitted: Map, rows: FloatArray) -> tuple[FloatArray, dict[str, AnyArray] | None]:
    """Rows, repeated if they are few, and segments for them: every level, unknown and missing ones, and numbers.

    The numbers are the thresholds of trees and bins, their neighbours, and the middles between them.
    """
    if not fitted.segments:
        return rows, None
    cuts = np.unique(np.concatenate([np.zeros(1), *_cuts(fitted.steps)]))
    middles = 0.5 * (cuts[1:] + cuts[:-1])
    numbers = [
        np.nextafter(cuts, -np.inf),
        cuts,
        np.nextafter(cuts, np.inf),
        middles,
        [np.nan, -LARGEST, LARGEST, 1e300],
    ]
    rng = np.random.default_rng(0)
    values: list[AnyArray] = []
    for levels in fitted.segments.values():
        if levels is None:
            values.append(rng.permutation(np.concatenate(numbers))[: 4 * _POINTS])
        else:
            unknown = "unknown"
            while unknown in levels:
                unknown += "?"
            # Numbers with leading and trailing zeros, and texts that only look like numbers.
            spelled = [
                text for level in levels if plain_number(level) for text in (f"{level}.0", f"0{level}", f"{level}-")
            ]
            values.append(np.array([*levels, *spelled, unknown, None], dtype=object))
    n = max(len(rows), *map(len, values))
    frame = {name: rng.permutation(np.resize(column, n)) for name, column in zip(fitted.segments, values)}
    return rows[np.arange(n) % len(rows)], frame


def draw_amounts(rule: CostTable, n: int) -> dict[str, AnyArray] | None:
    """Amounts of rows, from none to large ones, some of them equal; None if the costs name none."""
    rng, dearest = np.random.default_rng(0), float(rule.numbers.max()) or 1.0
    drawn = {name: np.round(dearest * 10.0 ** rng.uniform(-3, 3, n), 2) for name in rule.amounts}
    return {name: np.where(rng.random(n) < 0.1, 0.0, values) for name, values in drawn.items()} or None


def _cuts(steps: Steps) -> list[FloatArray]:
    """The thresholds that numbers of rows are compared with."""
    asked = [step for step in all_steps(steps) if isinstance(step, (Trees, StepFunction))]
    return [step.thresholds.ravel() if isinstance(step, Trees) else step.edges for step in asked]
