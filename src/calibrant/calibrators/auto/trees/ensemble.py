"""Cross-fitted boosting: one run of trees for each fold, grown side by side, then three runs on all rows.

Each run learns from all folds but one, from logits that were themselves fitted without that fold, and is followed on
the fold left out. The sum of the held-out losses stops all runs and names the number of rounds, and the out-of-fold
logits are what a blend of layers needs. The layer is the mean of three runs on all rows: as good as the mean of the
runs of the folds, which are thrown away, with fewer trees to store. A mean of runs varies less than one of them and can
afford more rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibrant.bins import quantiles
from calibrant.calibrators.state import LARGE, StateCheck
from calibrant.sample import Sample
from calibrant.steps import Step, Trees
from calibrant.steps.features import DEEPEST
from calibrant.typing import FloatArray

IntArray = NDArray[np.int64]

#: Values of a column that are closer are told apart by no question.
_GAP = 1e-9
#: Of numbers of rounds whose held-out losses differ by less than this many nats in total, the smallest.
_SLACK = 0.2
#: Rounds of the runs on all rows for each round that is best for a single run. With 24 tabular sets, design half, 1000
#: rows, 1.5 rounds and three runs lower the log loss by 0.0004 ± 0.0002 beside one round and two runs; two rounds and
#: four runs lower it by 0.0006 and take twice the space.
_MORE_ROUNDS = 1.5


@dataclass(frozen=True)
class BoostingOptions:
    """How the trees are grown.

    `bins` are at most 256. `pairs` differences of two columns, times the number of columns, are drawn at random as
    further columns (all of them where they are fewer): for log-probabilities these are log-odds, which questions of
    single columns find hard to express. For two columns there is one difference and it says no more than either, so
    there is none. `refits` runs on all rows are averaged, fewer where that would be more than `most_trees` trees, and
    rounds end there.
    """

    rounds: int = 250
    depth: int = 6
    rate: float = 0.15
    l2: float = 2.0
    columns: int = 4
    pairs: int = 4
    share: float = 0.5
    patience: int = 10
    bins: int = 32
    refits: int = 3
    most_trees: int = 1 << 30


@dataclass
class TreeLayer:
    """Trees as arrays: questions (T, depth) and steps of the logits (T, 2**depth, k).

    A question is ``x[feature] > threshold``, or ``x[feature] - x[subtracted] > threshold`` unless `subtracted` is -1.
    """

    features: IntArray
    subtracted: IntArray
    thresholds: FloatArray
    values: FloatArray

    @classmethod
    def empty(cls, k: int) -> TreeLayer:
        none = np.zeros((0, 1), dtype=np.int64)
        return cls(none, none, np.zeros((0, 1)), np.zeros((0, 2, k)))

    def __len__(self) -> int:
        return len(self.features)

    def scaled(self, weight: float) -> TreeLayer:
        """The same questions with steps times `weight`."""
        return replace(self, values=weight * self.values)

    def rounded(self, digits: int) -> TreeLayer:
        """The same questions with steps of so many decimal places, which take less space as text."""
        return replace(self, values=np.round(self.values, digits) + 0.0)

    def first(self, rounds: int) -> TreeLayer:
        return TreeLayer(*(part[:rounds] for part in vars(self).values()))

    def steps(self) -> list[Step]:
        """The layer as a step; none for no trees."""
        if not len(self):
            return []
        # A split that is never true has an infinite threshold, which JSON does not know.
        thresholds = np.clip(self.thresholds, -LARGE, LARGE)
        return [Trees(self.features, self.subtracted, thresholds, self.values)]


def check_trees(state: StateCheck, n_columns: int) -> None:
    """Check the trees in a fitted state, which ask about so many columns: compiled code believes their indices."""
    n_trees, depth = state.array("tree_features_", None, None, low=0, high=n_columns - 1, integer=True).shape
    state.require(1 <= depth <= DEEPEST, f"trees of depth {depth}")
    state.array("tree_subtracted_", n_trees, depth, low=-1, high=n_columns - 1, integer=True)
    state.array("tree_thresholds_", n_trees, depth, low=-np.inf, high=np.inf)
    state.array("tree_values_", n_trees, 2**depth, state.k)


@dataclass
class CrossFittedTrees:
    """The averaged layer, the logits (k, n) of each row by the run that did not see it, and the chosen rounds."""

    layer: TreeLayer
    held: FloatArray
    rounds: int


def concatenate(layers: list[TreeLayer], k: int) -> TreeLayer:
    """One layer whose steps are the sum of those of `layers`, which have one depth."""
    layers = [layer for layer in layers if len(layer)]
    if not layers:
        return TreeLayer.empty(k)
    return TreeLayer(
        *(np.concatenate(parts) for parts in zip(*(vars(layer).values() for layer in layers), strict=True))
    )


def quantile_borders(x: FloatArray, bins: int, weight: FloatArray | None = None) -> tuple[FloatArray, IntArray]:
    """Ascending borders (columns, bins - 1) at quantiles of each row of `x`, and the number of bins of each.

    Weights count as repeated values. A border stands in the middle of a gap between values, so that a row seen in the
    fit stays on its side however another machine or language rounds a logarithm; values closer than `_GAP` share a bin.
    """
    borders = np.full((len(x), bins - 1), np.inf)
    n_bins = np.ones(len(x), dtype=np.int64)
    all_ordered, shares = np.sort(x, axis=1), np.linspace(0.0, 1.0, bins + 1)[1:-1]
    if weight is None:
        places = np.quantile(all_ordered, shares, axis=1).T
    else:
        places = np.array([quantiles(row, weight, shares) for row in x])
    for f, (ordered, cuts) in enumerate(zip(all_ordered, places, strict=True)):
        gaps = np.flatnonzero(np.diff(ordered) > _GAP)
        after = np.searchsorted(ordered[gaps + 1], cuts, side="right")  # the first gap that ends beyond the cut
        gaps = gaps[np.unique(after[after < len(gaps)])]
        cuts = 0.5 * (ordered[gaps] + ordered[gaps + 1])
        borders[f, : len(cuts)] = cuts
        n_bins[f] = len(cuts) + 1
    return borders, n_bins


def choose_pairs(n_columns: int, most: int, seed: int) -> IntArray:
    """At most `most` random pairs (m, 2) of different columns; none for two columns or fewer."""
    if n_columns < 3:
        return np.zeros((0, 2), dtype=np.int64)
    pairs = np.stack(np.triu_indices(n_columns, 1), axis=1)
    if len(pairs) > most:
        pairs = pairs[np.random.RandomState(seed).permutation(len(pairs))[:most]]
    return pairs


class Boosting:
    """A run of boosting from logits `z` (k, n), which are overwritten, one tree at a time.

    `bins` (columns, n) numbers the interval of each value. `features` and `borders` (rounds, depth) are the questions
    as columns and last bins below, `values` (rounds, 2**depth, k) the steps of the leaves, of the `made` rounds so far.
    """

    def __init__(
        self,
        bins: NDArray[np.uint8],
        n_bins: IntArray,
        z: FloatArray,
        y: IntArray,
        weight: FloatArray,
        options: BoostingOptions,
        seed: int,
    ) -> None:
        self._bins, self._n_bins, self._z, self._y, self._weight = bins, n_bins, z, y, weight
        self._options, self._rng = options, np.random.RandomState(seed)
        (k, n), leaves = z.shape, 1 << options.depth
        self.features = np.zeros((options.rounds, options.depth), dtype=np.int64)
        # Above all bins: a split that is never true.
        self.borders = np.full((options.rounds, options.depth), 255, dtype=np.int64)
        self.values = np.zeros((options.rounds, leaves, k))
        self.made = 0
        self._signs = np.eye(2, k)  # two classes: the gradients themselves
        self._p = np.empty_like(z)
        self._order, self._sample, self._n_sample = np.arange(len(bins)), np.arange(n), n
        self._leaf = np.empty(n, dtype=np.int64)
        self._sketch, self._rows = np.zeros((n, 4), dtype=np.float32), np.zeros((3, n))
        self._totals = np.zeros((k, 2, leaves))
        self._total, self._left = np.empty((2, 3, leaves), dtype=np.float32)
        self._histogram = np.empty((n_bins.max(), leaves, 4), dtype=np.float32)

    def grow(self) -> None:
        from calibrant.calibrators.auto.trees.tree_kernels import ask, draw, project, step
        from calibrant.softmax.kernels import softmax_loss

        options, rng, t, p = self._options, self._rng, self.made, self._p
        k, columns = len(p), min(options.columns, len(self._bins))
        np.copyto(p, self._z)
        softmax_loss(p, self._y, self._weight)
        if k > 2:
            self._signs = np.where(rng.random_sample((2, k)) < 0.5, 1.0, -1.0)
        if options.share < 1.0:
            self._n_sample = draw(options.share, rng.randint(1, 2**31), self._sample)
        project(p, self._y, self._weight, self._signs, self._rows, self._sketch)
        self._leaf.fill(0)
        ask(
            self._bins, self._n_bins, self._sketch, self._leaf, self._sample, self._n_sample, self._order,
            rng.random_sample((options.depth, columns)), columns, options.share * options.l2 / k,
            self._total, self._left, self._histogram, self.features[t], self.borders[t],
        )  # fmt: skip
        step(
            p, self._y, self._weight, self._leaf, options.l2, options.rate, self._totals, self.values[t], self._z
        )  # fmt: skip
        self.made += 1


class UnseenRows:
    """Rows that a run did not see: their logits (k, n) as its trees are added."""

    def __init__(self, bins: NDArray[np.uint8], z: FloatArray, y: IntArray, weight: FloatArray) -> None:
        self._bins, self.z, self._y, self._weight = bins, z, y, weight
        self._p, self._leaf = np.empty_like(z), np.empty(len(y), dtype=np.int64)

    def follow(self, run: Boosting, t: int) -> None:
        """Add tree `t` of a run."""
        from calibrant.calibrators.auto.trees.tree_kernels import follow

        follow(self._bins, run.features[t], run.borders[t], run.values[t], self._leaf, self.z)

    def loss(self) -> float:
        """The sum of the log losses."""
        from calibrant.softmax.kernels import softmax_loss

        np.copyto(self._p, self.z)
        return softmax_loss(self._p, self._y, self._weight)


def cross_fit_trees(
    x: FloatArray,
    starts: list[FloatArray],
    sample: Sample,
    fold: IntArray,
    options: BoostingOptions,
    seed: int,
) -> CrossFittedTrees:
    """Boost from ``starts[c]`` (k, n), logits fitted without fold `c`, for each fold of the rows.

    `x` (columns, n) is what trees ask about; of the sample they take labels and counts.
    """
    y, weight = sample.y, sample.each
    n, k = len(y), len(starts[0])
    pairs = choose_pairs(len(x), options.pairs * len(x), seed)
    columns = np.concatenate([x, x[pairs[:, 0]] - x[pairs[:, 1]]])
    feature = np.concatenate([np.arange(len(x)), pairs[:, 0]])
    subtracted = np.concatenate([np.full(len(x), -1), pairs[:, 1]])
    borders, n_bins = quantile_borders(columns, options.bins, sample.counts)
    bins = np.stack(
        [np.searchsorted(cuts, row, side="left").astype(np.uint8) for cuts, row in zip(borders, columns, strict=True)]
    )
    borders = np.concatenate([borders, np.full((len(borders), 256 - borders.shape[1]), np.inf)], axis=1)

    def boosting(start: FloatArray, rows: IntArray, number: int) -> Boosting:
        part = np.ascontiguousarray(bins[:, rows])
        z = np.ascontiguousarray(start[:, rows])
        return Boosting(part, n_bins, z, y[rows], weight[rows], options, seed + number)

    outside = [np.flatnonzero(fold == c) for c in range(len(starts))]
    runs = [boosting(start, np.flatnonzero(fold != c), c) for c, start in enumerate(starts)]

    def held_out() -> list[UnseenRows]:
        """The rows of each fold as its model left them."""
        return [
            UnseenRows(np.ascontiguousarray(bins[:, out]), np.ascontiguousarray(start[:, out]), y[out], weight[out])
            for start, out in zip(starts, outside, strict=True)
        ]

    followed = held_out()
    curve = [sum(rows.loss() for rows in followed)]
    most = min(options.rounds, options.most_trees)
    while len(curve) <= most and len(curve) - 1 - int(np.argmin(curve)) < options.patience:
        for run, rows in zip(runs, followed, strict=True):
            run.grow()
            rows.follow(run, run.made - 1)
        curve.append(sum(rows.loss() for rows in followed))
    rounds = int(np.argmax(np.array(curve) <= min(curve) + _SLACK))
    held = np.empty((k, n))
    for run, rows, out in zip(runs, held_out(), outside, strict=True):
        for t in range(rounds):
            rows.follow(run, t)
        held[:, out] = rows.z
    start = np.mean(starts, axis=0)
    rounds = min(int(np.ceil(_MORE_ROUNDS * rounds)), most)
    refits = max(1, min(options.refits, options.most_trees // rounds)) if rounds else 0
    layers = []
    for number in range(refits):
        run = boosting(start, np.arange(n), len(starts) + number)
        for _ in range(rounds):
            run.grow()
        asked = run.features
        layer = TreeLayer(feature[asked], subtracted[asked], borders[asked, run.borders], run.values)
        layers.append(layer.first(rounds).scaled(1.0 / refits))
    return CrossFittedTrees(concatenate(layers, k), held, rounds)
