"""Rows that can only be summed block by block: whatever a solver asks for is one pass over all blocks.

A pass applies the kernels of `ArrayProblem` to one block after the other and adds up what they give, in float64.
Passes are expensive, so one pass computes everything that a point is likely to be asked for. Curvature need not be
exact and comes from a uniform sample of the rows in memory: with D coefficients and m sampled rows, Newton's error
falls by about √(D/m) from pass to pass. A subclass says how to sum over blocks; files read in batches and partitions on
a cluster differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from calibrant.sample import Sample
from calibrant.simplex import mix_log_probabilities
from calibrant.softmax.inverse_temperature import inverse_temperature_search
from calibrant.softmax.problem import ClassMoments, Point, SoftmaxProblem
from calibrant.softmax.rows.arrays import ArrayPoint, ArrayProblem
from calibrant.softmax.rows.row_source import ArrayRows, BlockFunction, Extent, FeatureMap, Rows, RowSums
from calibrant.softmax.solvers.searches import run_together
from calibrant.steps import Steps, run_from_logs
from calibrant.typing import FloatArray, IntArray

#: Up to the first number of coefficients, the pass that computes loss and gradient also computes the dense Hessian,
#: which costs less than they do. Up to the second it costs as much as they do, which pays if the sample has fewer rows
#: per coefficient than the third number, so that its own curvature would be rough.
_TINY, _SMALL, _ROWS_FOR_EACH = 8, 48, 1000
#: Up to this many coefficients one pass for the dense Hessian replaces all passes for its products with vectors.
_DENSE = 2000
#: Numbers in a block, so that its matrices (1 MiB each) stay in the cache, and its least number of rows, so that the
#: sums of a block cost more than calling the functions that compute them.
_BLOCK_ELEMENTS = 1 << 17
_LEAST_ROWS = 256


def block_rows(n_classes: int) -> int:
    """Rows of a block that stays in the cache of the processor."""
    return max(_LEAST_ROWS, _BLOCK_ELEMENTS // n_classes)


def add_up(parts: Iterable[RowSums | None]) -> RowSums:
    """Lists of numbers and arrays added up entry by entry; `None` and empty lists, for no rows, are skipped."""
    totals: list[object] = []
    for part in parts:
        if part:
            totals = [total + one for total, one in zip(totals, part, strict=True)] if totals else list(part)
    return totals


class SummedRows(Rows):
    """Rows that can be summed over, block by block, with a uniform sample of them in memory."""

    def __init__(self, extent: Extent, sample: ArrayRows) -> None:
        self.n_rows, self.total_weight, self.class_weights = extent
        self.n_classes, self._sample = sample.n_classes, sample

    def sample(self) -> ArrayRows:
        return self._sample

    @cached_property
    def always_right(self) -> bool:
        """Whether the label of every row has the largest probability: one pass, when first asked."""
        return not self.sums(lambda block: [np.sum(block.x[np.arange(len(block.y)), block.y] < block.x.max(axis=1))])[0]

    def expect_passes(self) -> None:
        """Called before many passes over the same rows, which may be kept where they are read faster."""

    def part(self, share: float, rng: np.random.Generator) -> SummedRows | None:
        """About this share of the rows, where passes over some are cheaper than over all; `None` where they are not."""
        return None

    def mapped(self, steps: Steps) -> SummedRows:
        return _Mapped(self, steps)

    def problem(self, features: FeatureMap, *, first_free: int = 0) -> SummedProblem:
        return SummedProblem(self, features, first_free)

    def inverse_temperatures(self, mixtures: Sequence[float], prior: float = 0.0) -> list[tuple[float, float]]:
        """All temperatures in the same passes, each starting at the best one of the sample."""
        starts = [alpha for alpha, _ in self.sample().inverse_temperatures(mixtures, prior)]
        pull = prior / self.total_weight

        def answer(alphas: Mapping[int, float]) -> dict[int, tuple[float, float, float]]:
            def derivatives(block: Sample) -> list[FloatArray]:
                total, out = block.total, []
                for number, alpha in alphas.items():
                    mixed = np.ascontiguousarray(mix_log_probabilities(block.x, mixtures[number]).T)
                    out.append(total * np.array(ArrayProblem(block.y, mixed, weight=block.counts).scaled(alpha)))
                return out

            found = self.sums(derivatives)
            return {number: tuple(sums / self.total_weight) for number, sums in zip(alphas, found, strict=True)}

        searches = [inverse_temperature_search(start, lambda: self.always_right, pull) for start in starts]
        return [(alpha, loss) for alpha, loss, _ in run_together(searches, answer)]


class _Mapped(SummedRows):
    """Other rows after some steps."""

    def __init__(self, rows: SummedRows, steps: Steps) -> None:
        super().__init__(Extent(rows.n_rows, rows.total_weight, rows.class_weights), rows.sample().mapped(steps))
        self._rows, self._steps = rows, steps

    def sums(self, function: BlockFunction) -> RowSums:
        steps = self._steps  # not the rows: the function is sent to where the blocks are
        return self._rows.sums(lambda block: function(block.with_values(run_from_logs(steps, block.x.copy()))))

    def expect_passes(self) -> None:
        self._rows.expect_passes()

    def part(self, share: float, rng: np.random.Generator) -> SummedRows | None:
        some = self._rows.part(share, rng)
        return None if some is None else some.mapped(self._steps)


class SummedProblem(SoftmaxProblem):
    """Mean log loss of a linear softmax model whose rows can only be summed over.

    The sample gives what need not be exact: second moments, the largest change of a logit, and curvature.
    """

    def __init__(self, rows: SummedRows, features: FeatureMap, first_free: int) -> None:
        self.rows = rows
        self.features = features
        self.first_free = first_free
        self.sampled = rows.sample().problem(features, first_free=first_free)
        self.shape, self.n_classes = self.sampled.shape, rows.n_classes
        self.n_rows, self.total_weight = rows.n_rows, rows.total_weight
        self.n_shared, self.n_own = self.sampled.n_shared, self.sampled.n_own
        if self.n_parameters > _DENSE:
            rows.expect_passes()
        #: The point whose Hessian of all rows is reused for later points, and the share of rows that was asked for.
        self.curved: tuple[float, SummedPoint] | None = None
        few_rows = self.sampled.n_rows < _ROWS_FOR_EACH * self.n_parameters
        self._exact = self.n_parameters <= (_SMALL if few_rows else _TINY)
        self.curvature_share = 1.0 if self._exact else self.sampled.n_rows / self.n_rows

    @property
    def second_moments(self) -> FloatArray:
        return self.sampled.second_moments

    def largest_change(self, theta: FloatArray) -> float:
        return self.sampled.largest_change(theta)

    def at(self, theta: FloatArray, *, reuse: Point | None = None) -> SummedPoint:
        return SummedPoint(self, theta, dense=self._exact)

    def derivatives(self, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        loss, gradient, hessian = self.means(lambda problem: problem.derivatives(theta))
        return float(loss), gradient, hessian

    def on(self, rows: SummedRows) -> SummedProblem:
        """The same problem on other rows."""
        other = copy(self)
        other.rows, other.n_rows, other.total_weight = rows, rows.n_rows, rows.total_weight
        return other

    @property
    def rough(self) -> ArrayProblem:
        return self.sampled

    def means(self, function: Callable[[ArrayProblem], RowSums]) -> RowSums:
        """The means over rows of what `function` returns for the problem of each block."""
        features, first_free = self.features, self.first_free

        def of_block(block: Sample) -> RowSums:
            problem = ArrayRows(block).problem(features, first_free=first_free)
            return [problem.total_weight * np.asarray(mean) for mean in function(problem)]

        return [total / self.total_weight for total in self.rows.sums(of_block)]


class SummedPoint(Point):
    """Mean log loss and gradient at certain coefficients, from one pass; everything else asked for is another pass."""

    def __init__(self, problem: SummedProblem, theta: FloatArray, *, dense: bool) -> None:
        self.problem = problem
        self.theta = theta
        self._dense = dense
        self._hessian: FloatArray | None = None

    @cached_property
    def _first(self) -> tuple[float, FloatArray]:
        theta, dense = self.theta, self._dense

        def derivatives(block: ArrayProblem) -> RowSums:
            point = block.at(theta)
            return (point.loss, point.gradient(), *([point.hessian()] if dense else []))

        loss, gradient, *hessian = self.problem.means(derivatives)
        if hessian:
            self._hessian = hessian[0]
        return float(loss), gradient

    @property
    def loss(self) -> float:  # type: ignore[override]
        return self._first[0]

    def _mean(self, function: Callable[[ArrayPoint], object]) -> Any:
        theta = self.theta
        return self.problem.means(lambda problem: [function(problem.at(theta))])[0]

    def gradient(self) -> FloatArray:
        return self._first[1]

    def hessian_vector_product(self, direction: FloatArray) -> FloatArray:
        if self.problem.n_parameters <= _DENSE:
            return (self.hessian() @ direction.ravel()).reshape(direction.shape)
        product: FloatArray = self._mean(lambda point: point.hessian_vector_product(direction))
        return product

    def hessian(self) -> FloatArray:
        if self._hessian is None:
            self._hessian = self._mean(lambda point: point.hessian())
        return np.array(self._hessian)

    def hessian_of(self, coefficients: IntArray) -> FloatArray:
        part: FloatArray = self._mean(lambda point: point.hessian_of(coefficients))
        return part

    def class_blocks(self) -> FloatArray:
        if self.problem.n_parameters <= _DENSE:
            return np.einsum("jqjs->jqs", self.hessian().reshape(*self.problem.shape, *self.problem.shape)).copy()
        blocks: FloatArray = self._mean(lambda point: point.class_blocks())
        return blocks

    def class_moments(self) -> ClassMoments:
        theta = self.theta
        return ClassMoments(*self.problem.means(lambda problem: problem.at(theta).class_moments()))

    def dual_value(self, scale: float) -> float:
        return float(self._mean(lambda point: point.dual_value(scale)))

    def thinned(self, share: float, rng: np.random.Generator) -> Point:
        """The sample at the same coefficients; the Hessian of an earlier point, if more rows are asked for."""
        problem = self.problem
        if share <= 1.001 * problem.curvature_share:
            return problem.sampled.at(self.theta)
        if problem.n_parameters <= _DENSE:  # a single pass, reused until more rows are asked for
            if problem.curved is None or share > problem.curved[0]:
                problem.curved = share, self
            return problem.curved[1]
        some = None if share >= 1.0 else problem.rows.part(share, rng)
        return self if some is None else SummedPoint(problem.on(some), self.theta, dense=False)
