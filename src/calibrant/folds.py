"""How rows are dealt to folds; `Sample.folds` is what calibrators and metrics call."""

from __future__ import annotations

import numpy as np

from calibrant.typing import AnyFloatArray, AnyIntArray, IntArray

#: Equal predictions stay in one fold if they are no more than so many, or than this share of the rows. Three copies of
#: every row in several folds raised the log loss of trees by 0.35 where nothing was to be learned.
_FEW = 5
_FEW_SHARE = 0.01


def stratified_folds(
    y: AnyIntArray,
    n_folds: int,
    seed: int | np.random.Generator,
    x: AnyFloatArray | None = None,
    weight: AnyFloatArray | None = None,
) -> IntArray:
    """A fold number for each row, such that every label is spread over the folds as evenly as it can be.

    Rows of equal predictions `x` (n, k), if few, share a fold: copies of a row elsewhere would let a flexible model
    recognise the rows it is tested on. Many equal predictions are those of a coarse model, not copies, and are spread.
    With `weight`, a row counts as so many copies: folds of repeated rows are those of weighted ones.
    """
    if x is None:
        leader = group = np.arange(len(y))
    else:
        leader, group = np.unique(first_alike(x, weight), return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(leader))
    order = order[np.argsort(y[leader[order]], kind="stable")]
    folds = np.empty(len(leader), dtype=np.int64)
    folds[order] = np.arange(len(leader)) % n_folds
    return folds[group]


def group_folds(
    y: AnyIntArray,
    n_folds: int,
    seed: int | np.random.Generator,
    groups: AnyIntArray,
    weight: AnyFloatArray | None = None,
) -> IntArray:
    """A fold number for each row such that groups stay together, and folds are alike in labels and size.

    Groups, numbered from 0, are dealt one after the other, the largest first and equal ones in random order, each to
    the fold that has least of its labels so far.
    """
    n_groups = int(groups.max()) + 1
    table = np.zeros((n_groups, int(y.max()) + 1))
    np.add.at(table, (groups, y), 1.0 if weight is None else weight)
    of_class = np.maximum(table.sum(axis=0), 1e-300)
    shuffled = np.random.default_rng(seed).permutation(n_groups)
    order = shuffled[np.argsort(-table[shuffled].sum(axis=1), kind="stable")]
    share = table / of_class + (table.sum(axis=1) / table.sum())[:, None]
    held = np.zeros((n_folds, table.shape[1]))
    fold = np.empty(n_groups, dtype=np.int64)
    for group in order:
        fold[group] = np.argmin(held @ share[group])
        held[fold[group]] += share[group]
    return fold[groups]


def first_alike(x: AnyFloatArray, weight: AnyFloatArray | None) -> IntArray:
    """For each row the number of the first row that equals it; its own number if too many do."""
    n = len(x)
    whole = np.ascontiguousarray(x).view(np.dtype((np.void, x.dtype.itemsize * x.shape[1]))).ravel()
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    count = np.bincount(inverse, weight)
    total = float(count.sum())
    return np.where(count[inverse] <= max(_FEW, _FEW_SHARE * total), first[inverse], np.arange(n))
