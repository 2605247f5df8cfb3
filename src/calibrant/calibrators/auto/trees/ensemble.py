"""Cross-fitted boosting: one run of trees for each fold, averaged, with the number of rounds chosen out of fold.

Each run learns from all folds but one, from logits that were themselves fitted without that fold, and is followed on
the fold left out; the pooled curve names the number of rounds, and the average of the runs is the layer. No run is
repeated on all rows: averaging is as good, and the out-of-fold logits are what a blend of layers needs.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from calibrant.bins import quantiles
from calibrant.calibrators.state import LARGE, StateCheck
from calibrant.sample import Sample
from calibrant.steps import Step, Trees
from calibrant.steps.features import DEEPEST
from calibrant.typing import FloatArray

IntArray = NDArray[np.int64]

#: Questions of one level answered at a time, for as many rows as that makes: their numbers stay in the cache.
_ELEMENTS = 1 << 17
#: Values of a column that are closer are told apart by no question.
_GAP = 1e-9
#: Rows times trees from which on loops are compiled for them.
_MANY = 1 << 22


@dataclass(frozen=True)
class BoostingOptions:
    """How the trees are grown: see `boost`.

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
    patience: int = 10
    bins: int = 32


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

    def steps(self) -> list[Step]:
        """The layer as a step; none for no trees."""
        if not len(self):
            return []
        # A split that is never true has an infinite threshold, which JSON does not know.
        thresholds = np.clip(self.thresholds, -LARGE, LARGE)
        return [_FasterTrees(self.features, self.subtracted, thresholds, self.values)]

    def add_to(self, x: FloatArray, z: FloatArray) -> None:
        """Add the steps for rows `x` (columns, n) to logits `z` (k, n) in place.

        By compiled loops in a process that fits trees (from a size on where compiling pays), else in NumPy, with the
        same result to the last bit: predicting with a stored calibrator waits for no compiler.
        """
        if not len(self):
            return
        kernels = sys.modules.get("calibrant.calibrators.auto.trees.tree_kernels")
        if kernels is not None and (kernels.add_trees.signatures or len(self) * x.shape[1] >= _MANY):
            add_compiled(self, x, z)
        else:
            self.add_plainly(x, z)

    def add_plainly(self, x: FloatArray, z: FloatArray) -> None:
        """`add_to` in NumPy and SciPy alone."""
        n, (n_trees, leaves, k) = x.shape[1], self.values.shape
        # Row -1 is zero: what is subtracted where nothing is.
        x = np.concatenate([x, np.zeros((1, n))])
        first_leaf = leaves * np.arange(n_trees, dtype=np.int32)
        steps = self.values.reshape(-1, k)
        at_once = max(1, _ELEMENTS // n_trees)
        for start in range(0, n, at_once):
            rows = slice(start, min(start + at_once, n))
            leaf = np.zeros((n_trees, rows.stop - start), dtype=np.int32)
            for level, (feature, subtracted, threshold) in enumerate(
                zip(self.features.T, self.subtracted.T, self.thresholds.T, strict=True)
            ):
                leaf |= (x[feature, rows] - x[subtracted, rows] > threshold[:, None]).astype(np.int32) << level
            # The row of a sparse matrix has a one for each leaf the row is in; its products add tree after tree.
            chosen = (leaf.T + first_leaf).ravel()
            ends = np.arange(0, len(chosen) + 1, n_trees)
            z[:, rows] += (csr_matrix((np.ones(len(chosen)), chosen, ends), (len(leaf.T), len(steps))) @ steps).T


def add_compiled(layer: TreeLayer, x: FloatArray, z: FloatArray) -> None:
    """`TreeLayer.add_to` by compiled loops."""
    from calibrant.calibrators.auto.trees.tree_kernels import add_trees

    steps, leaf = np.zeros_like(z), np.empty(x.shape[1], dtype=np.int64)
    add_trees(x, layer.features, layer.subtracted, layer.thresholds, layer.values, leaf, steps)
    z += steps


class _FasterTrees(Trees):
    """`Trees`, the same to the last bit, as this package adds them."""

    def apply(self, x: FloatArray) -> FloatArray:
        z = np.zeros((self.values.shape[2], len(x)))
        layer = TreeLayer(self.features, self.subtracted, self.thresholds, self.values)
        layer.add_to(np.ascontiguousarray(x.T), z)
        return np.ascontiguousarray(z.T)


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
        np.concatenate([layer.features for layer in layers]),
        np.concatenate([layer.subtracted for layer in layers]),
        np.concatenate([layer.thresholds for layer in layers]),
        np.concatenate([layer.values for layer in layers]),
    )


def quantile_borders(x: FloatArray, bins: int, weight: FloatArray | None = None) -> tuple[FloatArray, IntArray]:
    """Ascending borders (columns, bins - 1) at quantiles of each row of `x`, and the number of bins of each.

    Weights count as repeated values.

    A border stands in the middle of a gap between values, so that a row seen in the fit stays on its side however
    another machine or language rounds a logarithm; values closer than `_GAP` share a bin.
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


def boost(
    bins: NDArray[np.uint8],
    n_bins: IntArray,
    z: FloatArray,
    y: IntArray,
    weight: FloatArray,
    held: tuple[NDArray[np.uint8], FloatArray, IntArray, FloatArray],
    options: BoostingOptions,
    seed: int,
) -> tuple[IntArray, IntArray, FloatArray, FloatArray, int]:
    """Boost from logits `z` (k, n), which are overwritten; also follow the loss of held-out rows.

    `bins` (columns, n) numbers the interval of each value; `held` are the bins, the logits (overwritten), labels and
    weights of the held-out rows. Stops after `patience` rounds without a new best held-out loss. Returns questions
    (rounds, depth) as columns and last bins below, leaf values (rounds, 2**depth, k), the held-out loss after 0, 1, ...
    rounds, and the rounds made.
    """
    from calibrant.calibrators.auto.trees.tree_kernels import ask, draw, follow, project, step
    from calibrant.softmax.kernels import softmax_loss

    rng = np.random.RandomState(seed)
    held_bins, held_z, held_y, held_weight = held
    (k, n), rounds, depth, leaves = z.shape, options.rounds, options.depth, 1 << options.depth
    columns = min(options.columns, len(bins))
    features = np.zeros((rounds, depth), dtype=np.int64)
    borders = np.full((rounds, depth), 255, dtype=np.int64)  # above all bins: a split that is never true
    values = np.zeros((rounds, leaves, k))
    signs = np.eye(2, k)  # two classes: the gradients themselves
    p, held_p = np.empty_like(z), np.empty_like(held_z)
    order, sample, n_sample = np.arange(len(bins)), np.arange(n), n
    leaf, held_leaf = np.empty(n, dtype=np.int64), np.empty(len(held_y), dtype=np.int64)
    sketch, rows, totals = np.zeros((n, 4), dtype=np.float32), np.zeros((3, n)), np.zeros((k, 2, leaves))
    total, left = np.empty((2, 3, leaves), dtype=np.float32)
    histogram = np.empty((n_bins.max(), leaves, 4), dtype=np.float32)
    damping = options.share * options.l2 / k
    curve = np.empty(rounds + 1)
    np.copyto(held_p, held_z)
    curve[0] = best = softmax_loss(held_p, held_y, held_weight)
    best_round = made = 0
    for t in range(rounds):
        np.copyto(p, z)
        softmax_loss(p, y, weight)
        if k > 2:
            signs = np.where(rng.random_sample((2, k)) < 0.5, 1.0, -1.0)
        if options.share < 1.0:
            n_sample = draw(options.share, rng.randint(1, 2**31), sample)
        project(p, y, weight, signs, rows, sketch)
        leaf.fill(0)
        ask(
            bins, n_bins, sketch, leaf, sample, n_sample, order, rng.random_sample((depth, columns)), columns, damping,
            total, left, histogram, features[t], borders[t],
        )  # fmt: skip
        step(p, y, weight, leaf, options.l2, options.rate, totals, values[t], z)
        follow(held_bins, features[t], borders[t], values[t], held_leaf, held_z)
        np.copyto(held_p, held_z)
        loss = softmax_loss(held_p, held_y, held_weight)
        made = t + 1
        curve[made] = loss
        if loss < best:
            best, best_round = loss, made
        elif made - best_round >= options.patience:
            break
    curve[made:] = curve[made]
    return features, borders, values, curve, made


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
    from calibrant.calibrators.auto.trees.tree_kernels import follow

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
    curve = np.zeros(options.rounds + 1)
    runs = []
    for c, start in enumerate(starts):
        rows, out = np.flatnonzero(fold != c), np.flatnonzero(fold == c)
        held_z = np.ascontiguousarray(start[:, out])
        held_bins = np.ascontiguousarray(bins[:, out])
        column, last, values, losses, made = boost(
            np.ascontiguousarray(bins[:, rows]),
            n_bins,
            np.ascontiguousarray(start[:, rows]),
            y[rows],
            weight[rows],
            (held_bins, held_z.copy(), y[out], weight[out]),
            options,
            seed + c,
        )
        curve += losses
        run = TreeLayer(feature[column], subtracted[column], borders[column, last], values)
        runs.append((run.first(made), out, held_z, (held_bins, column, last)))
    rounds = int(np.argmin(curve))
    held_logits = np.empty((k, n))
    layers = []
    for run, out, held_z, (held_bins, column, last) in runs:
        layer = run.first(rounds)
        leaf = np.empty(len(out), dtype=np.int64)
        for t, steps in enumerate(layer.values):
            follow(held_bins, column[t], last[t], steps, leaf, held_z)
        held_logits[:, out] = held_z
        layers.append(layer.scaled(1.0 / len(starts)))
    return CrossFittedTrees(concatenate(layers, k), held_logits, rounds)
