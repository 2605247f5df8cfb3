"""A sample: predictions with their labels, how many observations each row counts for, and which rows belong together.

Calibrators, metrics, tests, intervals, monitors and reports are handed a `Sample`. It alone takes rows, deals folds,
resamples and draws labels, so what a row counts for is decided here and nowhere else:

- A row with count ``c`` stands for ``c`` independent observations with the same prediction and label. Count 3 equals
  the row written three times, in values, intervals and tests. Counts need not be whole numbers.
- Rows of one group may depend on each other in any way; groups are independent. Folds keep a group together, and
  resampling draws groups. Without groups rows are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from calibrant.bins import sum_by
from calibrant.folds import first_alike, group_folds, stratified_folds
from calibrant.random_numbers import LabelSampler
from calibrant.simplex import LOSS_FLOOR, log_probabilities
from calibrant.typing import AnyArray, AnyFloatArray, AnyIntArray, FloatArray, IntArray, Label

#: Labels are drawn one by one up to so many observations, else as numbers per row and class.
_ONE_BY_ONE = 1_000_000
#: ... and beyond the first number of observations where there are as many per row and class as the second: drawing a
#: number takes as long as drawing about twenty labels.
_MANY, _MANY_EACH = 100_000, 50
#: The largest count of a row that labels are drawn for; more observations leave no chance to be seen.
_LARGEST_COUNT = 1e15
#: Rows by which half an unseen observation is represented.
_UNSEEN_ROWS = 128


class LabelDraw(NamedTuple):
    """Drawn labels: `number` observations of row `rows` have label `y`; `None` stands for each row once, or for one."""

    rows: AnyIntArray | None
    y: AnyIntArray
    number: AnyFloatArray | None


@dataclass(frozen=True)
class Size:
    """How much there is: rows, observations where rows have counts, groups where rows belong together."""

    rows: int
    total: float | None = None
    groups: int | None = None

    def __str__(self) -> str:
        text = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        if self.total is not None:
            total = round(self.total, 1) if self.total < 100 else round(self.total)
            text += f", {total:,.10g} observations" if total < 1e9 else f", {total:.3g} observations"
        return text if self.groups is None else f"{text} in {self.groups:,} group{'' if self.groups == 1 else 's'}"

    def to_dict(self) -> dict[str, float]:
        known = {"rows": self.rows, "observations": self.total, "groups": self.groups}
        return {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True, eq=False)
class Sample:
    """Validated predictions with labels."""

    #: Probabilities (n, k), or their logarithms if `logs` is true.
    values: AnyFloatArray
    #: The column number of each row's label; while `classes` is `None`, the labels as they were given.
    y: AnyArray
    #: How many observations each row stands for, positive; `None`: one each.
    counts: FloatArray | None = None
    #: A number for each row, equal for rows that may depend on each other; `None`: rows are independent.
    groups: AnyIntArray | None = None
    #: The label of each column.
    classes: AnyArray | None = None
    logs: bool = False
    #: The rows of the input that these come from, if they are not all of them once, in their order.
    rows: AnyIntArray | None = None

    def __str__(self) -> str:
        return str(self.size)

    @cached_property
    def size(self) -> Size:
        """How much there is; a row of the input that is there once for each class with votes is one row."""
        return Size(
            self.n_rows if self.rows is None else len(np.unique(self.rows)),
            None if self.counts is None else self.total,
            None if self.groups is None else self.n_groups,
        )

    @property
    def n_rows(self) -> int:
        return int(self.values.shape[0])

    @property
    def n_classes(self) -> int:
        return int(self.values.shape[1])

    @cached_property
    def names(self) -> list[Label]:
        """The label of each column; its number where labels are column numbers."""
        return list(range(self.n_classes)) if self.classes is None else self.classes.tolist()

    @cached_property
    def total(self) -> float:
        """The number of observations: rows, or the sum of their counts."""
        return float(self.n_rows) if self.counts is None else float(self.counts.sum())

    @cached_property
    def proba(self) -> AnyFloatArray:
        """Probabilities of shape (n, k)."""
        return np.exp(self.values) if self.logs else self.values

    @cached_property
    def x(self) -> FloatArray:
        """Log-probabilities of shape (n, k), finite."""
        return np.asarray(self.values) if self.logs else log_probabilities(self.values)

    @cached_property
    def each(self) -> FloatArray:
        """What each row counts for, as an array also where every row counts once."""
        return np.ones(self.n_rows) if self.counts is None else self.counts

    @cached_property
    def class_counts(self) -> FloatArray:
        """The number of observations of each class."""
        return np.bincount(self.y, self.counts, minlength=self.n_classes).astype(np.float64)

    @cached_property
    def true_proba(self) -> AnyFloatArray:
        """Probability given to the observed class."""
        return self._entries(self.y)

    @cached_property
    def top(self) -> AnyIntArray:
        """Predicted class: the first of the largest probabilities."""
        return self.proba.argmax(axis=1)

    @cached_property
    def confidence(self) -> AnyFloatArray:
        """Probability of the predicted class."""
        return self._entries(self.top)

    def _entries(self, column: AnyIntArray) -> AnyFloatArray:
        # Flat indices are several times faster than a pair of index arrays.
        return self.proba.ravel()[np.arange(self.n_rows) * self.n_classes + column].astype(np.float64)

    @cached_property
    def group_numbers(self) -> AnyIntArray:
        """The group of each row, numbered from 0 without gaps; every row is its own where there are no groups."""
        if self.groups is None:
            return np.arange(self.n_rows)
        return np.unique(self.groups, return_inverse=True)[1]

    @cached_property
    def n_groups(self) -> int:
        """The number of groups; of rows where there are no groups."""
        return int(self.group_numbers.max()) + 1 if self.n_rows else 0

    @cached_property
    def units(self) -> float:
        """The number of independent observations: those of rows, or groups as if they were of equal size."""
        if self.groups is None:
            return self.total
        sizes = np.bincount(self.group_numbers, self.each)
        return float(sizes.sum() ** 2 / (sizes @ sizes))

    def group_sums(self, rows: AnyFloatArray) -> FloatArray:
        """Sums over the groups of what each row contributes, an array of shape (n,) or (n, m)."""
        if self.groups is None:
            return np.asarray(rows, dtype=np.float64)
        sums = np.zeros((self.n_groups, *rows.shape[1:]))
        np.add.at(sums, self.group_numbers, rows)
        return sums

    def sum_variance(self, influence: AnyFloatArray) -> FloatArray:
        """Variance of a sum over observations, from what one observation of each row adds to it: shape (n,) or (n, m).

        Rows of a group are one unit, whatever their dependence; few groups vary more than their squares show, by the
        factor `G / (G - 1)`.
        """
        if self.groups is None:
            return np.asarray(self.each @ influence**2)
        sums = self.group_sums((self.each * influence.T).T)
        return np.asarray(np.sum(sums**2, axis=0) * (self.n_groups / max(self.n_groups - 1, 1)))

    def group_products(self, index: AnyIntArray, left: AnyFloatArray, right: AnyFloatArray, size: int) -> FloatArray:
        """Sums over units of `Σ c left · Σ c right` within each of `size` cells; `index` is the cell of each row.

        A unit is a group, or a single observation where there are no groups.
        """
        if self.groups is None:
            return sum_by(index, self.each * left * right, size)
        cell, place = np.unique(self.group_numbers * size + index, return_inverse=True)
        first, second = (sum_by(place, self.each * part, len(cell)) for part in (left, right))
        return sum_by(cell % size, first * second, size)

    def take(self, rows: AnyArray | slice) -> Sample:
        """Some of the rows, by number, by a mask or by a slice."""
        beside: tuple[AnyArray | None, ...] = self.counts, self.groups, self.rows
        counts, groups, source = (None if part is None else part[rows] for part in beside)
        return Sample(self.values[rows], self.y[rows], counts, groups, self.classes, self.logs, source)

    def merged(self) -> Sample:
        """The same observations, with the copies of a row, if there are any, as one row that counts for all of them."""
        code = first_alike(self.values, self.counts) * self.n_classes + self.y
        if self.groups is not None:
            code = code * self.n_groups + self.group_numbers
        _, first, number = np.unique(code, return_index=True, return_inverse=True)
        if len(first) == self.n_rows:
            return self
        order = np.argsort(first)
        return self.take(first[order]).with_counts(np.bincount(number, self.each)[order].astype(np.float64))

    def pieces(self, size: int) -> Iterator[Sample]:
        return (self.take(slice(start, start + size)) for start in range(0, self.n_rows, size))

    def thinned(self, most: int, rng: np.random.RandomState) -> Sample:
        """At most so many rows, drawn at random in their order: whole groups, unless a few make up all rows."""
        if self.n_rows <= most:
            return self
        if self.groups is not None:
            order = rng.permutation(self.n_groups)
            drawn = order[np.cumsum(np.bincount(self.group_numbers)[order]) <= most]
            rows = np.flatnonzero(np.isin(self.group_numbers, drawn))
            if 2 * len(rows) > most:
                return self.take(rows)
        return self.take(np.sort(rng.permutation(self.n_rows)[:most]))

    @classmethod
    def joined(cls, parts: Sequence[Sample]) -> Sample:
        """The rows of several samples of the same classes; no group is in two of them."""
        grouped = any(part.groups is not None for part in parts)
        before = np.cumsum([0, *(part.n_groups for part in parts)])
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.y for part in parts]),
            None if all(part.counts is None for part in parts) else np.concatenate([part.each for part in parts]),
            np.concatenate([part.group_numbers + start for part, start in zip(parts, before)]) if grouped else None,
            parts[0].classes,
            parts[0].logs,
        )

    def parts(self, size: float) -> list[AnyIntArray]:
        """Row numbers of consecutive parts of about `size` observations; a group is in the part where it begins."""
        first = np.unique(self.group_numbers, return_index=True)[1][self.group_numbers]
        order = np.argsort(first, kind="stable")
        each = self.each[order]
        begin = np.maximum.accumulate(np.where(order == first[order], np.cumsum(each) - each, 0.0))
        return np.split(order, np.flatnonzero(np.diff(begin // size)) + 1)

    def with_values(self, values: AnyFloatArray, *, logs: bool | None = None, y: AnyArray | None = None) -> Sample:
        """The same rows with other predictions, and with other labels of other classes if `y` is given."""
        logs = self.logs if logs is None else logs
        if y is None:
            return replace(self, values=values, logs=logs)
        return replace(self, values=values, logs=logs, y=y, classes=np.arange(values.shape[1]))

    def with_counts(self, counts: AnyFloatArray | None) -> Sample:
        return replace(self, counts=None if counts is None else np.asarray(counts, dtype=np.float64))

    def folds(self, n_folds: int, seed: int | np.random.Generator, *, stratified: bool = True) -> IntArray:
        """A fold number for each row; groups and copies of a row stay together, labels are spread evenly."""
        y = self.y if stratified else np.zeros_like(self.y)
        if self.groups is not None:
            return group_folds(y, n_folds, seed, self.group_numbers, self.counts)
        return stratified_folds(y, n_folds, seed, self.values, self.counts)

    def resampled_counts(self, rng: np.random.Generator) -> FloatArray:
        """Counts of a resample by the Bayesian bootstrap: every observation, or every group, is weighed at random.

        An observation's weight is a standard exponential variable, so that a row with count c gets a gamma variable of
        shape c: what c copies of it would get in total, also where c is no whole number.
        """
        if self.groups is not None:
            return self.each * rng.standard_exponential(self.n_groups)[self.group_numbers]
        return rng.standard_exponential(self.n_rows) if self.counts is None else rng.standard_gamma(self.counts)

    def unseen(
        self, outcomes: Sequence[AnyFloatArray] | None = None
    ) -> tuple[Sample, Callable[[np.random.Generator], FloatArray]]:
        """Rows that stand for outcomes that may not have been seen, and what draws their counts in a resample.

        Half an observation (half a group) has the predicted class and half an observation another class, spread over
        rows and classes in proportion to the predictions; this is Jeffreys' prior of being right or wrong. Another half
        has a class of probability zero, if there are any. `outcomes` are other weights (n, k), each of half an
        observation. In a resample they count as gamma variables.
        """
        if outcomes is None:
            top = np.zeros(self.proba.shape, dtype=bool)
            top[np.arange(self.n_rows), self.top] = True
            outcomes = (self.proba * top, self.proba * ~top, (self.proba < LOSS_FLOOR).astype(np.float64))
        chosen = [np.empty(0, dtype=np.int64)]
        for weight in outcomes:
            reached = np.cumsum(weight.astype(np.float64) * self.each[:, None])
            if reached[-1] > 0:
                places = (np.arange(_UNSEEN_ROWS) + 0.5) / _UNSEEN_ROWS * reached[-1]
                chosen.append(np.minimum(np.searchsorted(reached, places), weight.size - 1))
        rows, labels = np.divmod(np.concatenate(chosen), self.n_classes)
        unseen = replace(self.take(rows), y=labels, groups=np.arange(len(rows)))
        # Rows of a group are neither independent nor all alike: an unseen one is put half-way between.
        size, shapes = np.sqrt(self.total / self.units), np.full(len(rows), 0.5 / _UNSEEN_ROWS)
        return unseen, lambda rng: size * rng.standard_gamma(shapes)

    @cached_property
    def _label_sampler(self) -> LabelSampler:
        return LabelSampler(self.proba)

    def draw_sizes(self, rng: np.random.Generator) -> FloatArray:
        """Whole numbers of observations of the rows; a count of 2.3 is 2 or 3, and 2.3 on average."""
        counts = np.minimum(self.each, _LARGEST_COUNT)
        whole = np.floor(counts)
        rest = counts - whole
        return whole + (rng.random(self.n_rows) < rest) if rest.any() else whole

    def draw_hits(self, score: AnyFloatArray, rng: np.random.Generator, *, together: bool = False) -> AnyFloatArray:
        """How often an event of probability `score` happens in the observations of each row, less what is expected.

        Observations are independent; `together`, one random number decides for all rows of a group, which is the
        strongest dependence there can be.
        """
        if together:
            return self.each * ((rng.random(self.n_groups)[self.group_numbers] < score) - score)
        if self.counts is None:
            return (rng.random(self.n_rows) < score) - score
        sizes = self.draw_sizes(rng)
        return rng.binomial(sizes.astype(np.int64), np.clip(score, 0.0, 1.0)) - sizes * score

    def draw_labels(self, rng: np.random.Generator, *, together: bool = False) -> LabelDraw:
        """Labels of all observations, drawn from the predictions; `together` as in `draw_hits`."""
        if together:
            uniform = rng.random(self.n_groups)[self.group_numbers]
            return LabelDraw(None, self._label_sampler.draw(rng, uniform=uniform), self.counts)
        if self.counts is None:
            return LabelDraw(None, self._label_sampler.draw(rng), None)
        sizes = self.draw_sizes(rng).astype(np.int64)
        total = float(sizes.sum(dtype=np.float64))
        if total <= min(_ONE_BY_ONE, max(_MANY, _MANY_EACH * self.proba.size)):
            rows = np.repeat(np.arange(self.n_rows), sizes)
            return LabelDraw(rows, self._label_sampler.draw(rng, rows), None)
        proba = self.proba.astype(np.float64)
        drawn = rng.multinomial(sizes, proba / proba.sum(axis=1, keepdims=True))
        rows, y = np.nonzero(drawn)
        return LabelDraw(rows, y, drawn[rows, y].astype(np.float64))

    def draw_group_signs(self, rng: np.random.Generator) -> FloatArray:
        return rng.choice(np.array([-1.0, 1.0]), self.n_groups)

    def draw_signs(self, rng: np.random.Generator) -> FloatArray:
        """A random sign for each row, the same for all rows of a group."""
        return self.draw_group_signs(rng)[self.group_numbers]


def consecutive_blocks(n_rows: int, size: int) -> IntArray:
    """Group numbers of rows in the order of time: so many consecutive rows belong together."""
    if isinstance(size, bool) or int(size) != size or size < 1:
        raise ValueError(f"blocks must be a positive whole number of consecutive rows, got {size!r}")
    return np.arange(n_rows) // int(size)
