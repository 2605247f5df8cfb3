"""Cross-fitted boosting: one run of trees for each fold, averaged, with the number of rounds chosen out of fold.

Each run learns from all folds but one, from logits that were themselves fitted without that fold, and is followed on
the fold left out; the pooled curve names the number of rounds, and the average of the runs is the layer. No run is
repeated on all rows: averaging is as good, and the out-of-fold logits are what a blend of layers needs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.state import StateCheck
from calibrant.typing import FloatArray

IntArray = NDArray[np.int64]

#: Far above what is ever grown; 2**depth steps are stored for each tree.
_DEEPEST = 16


@dataclass(frozen=True)
class BoostingOptions:
    """How the trees are grown: see `calibrant.calibrators.auto.trees.kernels.boost`.

    `bins` are at most 256. `pairs` differences of two columns, times the number of columns, are drawn at random as
    further columns (all of them where they are fewer): for log-probabilities these are log-odds, which questions of
    single columns find hard to express. For two columns there is one difference and it says no more than either, so
    there is none.
    """

    rounds: int = 250
    depth: int = 6
    rate: float = 0.15
    l2: float = 2.0
    columns: int = 4
    pairs: int = 4
    share: float = 0.5
    patience: int = 20
    bins: int = 64


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
        return TreeLayer(self.features, self.subtracted, self.thresholds, weight * self.values)

    def first(self, rounds: int) -> TreeLayer:
        """The trees of the first rounds."""
        return TreeLayer(
            self.features[:rounds], self.subtracted[:rounds], self.thresholds[:rounds], self.values[:rounds]
        )

    def add_to(self, x: FloatArray, z: FloatArray) -> None:
        """Add the steps for rows `x` (columns, n) to logits `z` (k, n) in place."""
        if len(self):
            from calibrant.calibrators.auto.trees.kernels import add_trees

            add_trees(x, self.features, self.subtracted, self.thresholds, self.values, z)


def check_trees(state: StateCheck) -> None:
    """Check the trees in a fitted state: compiled code believes their indices."""
    n_trees, depth = state.array("tree_features_", None, None, low=0, high=state.k - 1, integer=True).shape
    state.require(1 <= depth <= _DEEPEST, f"trees of depth {depth}")
    state.array("tree_subtracted_", n_trees, depth, low=-1, high=state.k - 1, integer=True)
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
        np.concatenate([layer.features for layer in layers]),
        np.concatenate([layer.subtracted for layer in layers]),
        np.concatenate([layer.thresholds for layer in layers]),
        np.concatenate([layer.values for layer in layers]),
    )


def quantile_borders(x: FloatArray, bins: int) -> tuple[FloatArray, IntArray]:
    """Ascending borders (columns, bins - 1) at quantiles of each row of `x`, and the number of bins of each."""
    borders = np.full((len(x), bins - 1), np.inf)
    n_bins = np.ones(len(x), dtype=np.int64)
    for f, values in enumerate(x):
        cuts = np.unique(np.quantile(values, np.linspace(0.0, 1.0, bins + 1)[1:-1]))
        cuts = cuts[cuts < values.max()]
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


def cross_fit_trees(
    x: FloatArray,
    starts: list[FloatArray],
    y: IntArray,
    weight: FloatArray | None,
    fold: IntArray,
    options: BoostingOptions,
    seed: int,
) -> CrossFittedTrees:
    """Boost from ``starts[c]`` (k, n), logits fitted without fold `c`, for each fold of the rows `x` (columns, n)."""
    from calibrant.calibrators.auto.trees.kernels import boost

    n, k = len(y), len(starts[0])
    weight = np.ones(n) if weight is None else weight
    pairs = choose_pairs(len(x), options.pairs * len(x), seed)
    columns = np.concatenate([x, x[pairs[:, 0]] - x[pairs[:, 1]]])
    feature = np.concatenate([np.arange(len(x)), pairs[:, 0]])
    subtracted = np.concatenate([np.full(len(x), -1), pairs[:, 1]])
    borders, n_bins = quantile_borders(columns, options.bins)
    bins = np.stack(
        [np.searchsorted(cuts, row, side="left").astype(np.uint8) for cuts, row in zip(borders, columns, strict=True)]
    )
    borders = np.concatenate([borders, np.full((len(borders), 256 - borders.shape[1]), np.inf)], axis=1)
    curve = np.zeros(options.rounds + 1)
    runs = []
    for c, start in enumerate(starts):
        rows, out = np.flatnonzero(fold != c), np.flatnonzero(fold == c)
        held_z = np.ascontiguousarray(start[:, out])
        column, last, values, losses, made = boost(
            np.ascontiguousarray(bins[:, rows]), n_bins, np.ascontiguousarray(start[:, rows]), y[rows], weight[rows],
            np.ascontiguousarray(bins[:, out]), held_z.copy(), y[out], weight[out], options.rounds, options.depth,
            options.rate, options.l2, options.columns, options.share, options.patience, seed + c,
        )  # fmt: skip
        curve += losses
        run = TreeLayer(feature[column], subtracted[column], borders[column, last], values)
        runs.append((run.first(made), out, held_z))
    rounds = int(np.argmin(curve))
    held = np.empty((k, n))
    layers = []
    for run, out, held_z in runs:
        layer = run.first(rounds)
        layer.add_to(np.ascontiguousarray(x[:, out]), held_z)
        held[:, out] = held_z
        layers.append(layer.scaled(1.0 / len(starts)))
    return CrossFittedTrees(concatenate(layers, k), held, rounds)
