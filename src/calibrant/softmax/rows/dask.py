"""Rows in partitions of a Dask collection: they stay where they are, and a pass is a map and a tree reduction.

A partition of a lost worker is computed again; the sums over the others are kept. The order of additions is fixed by
the partitions, so the result does not depend on which worker computed what.
"""

from __future__ import annotations

from collections.abc import Sequence

import dask
from dask.delayed import Delayed

from calibrant.sample import Sample
from calibrant.softmax.rows.row_source import ArrayRows, BlockFunction, Extent, RowSums
from calibrant.softmax.rows.summed_rows import SummedRows, add_up, block_rows
from calibrant.threads import limited

#: Sums that one task adds up: with eight, a thousand partitions take four levels of tasks.
_FAN_IN = 8


class DaskRows(SummedRows):
    """Labelled log-probabilities in partitions, each a delayed `Sample`; some may be empty."""

    def __init__(self, partitions: Sequence[Delayed], extent: Extent, sample: ArrayRows) -> None:
        super().__init__(extent, sample)
        self._partitions = partitions

    def sums(self, function: BlockFunction) -> RowSums:
        part = dask.delayed(_sums_of_partition, pure=False)
        return tree_sum([part(block, function) for block in self._partitions])


def tree_sum(parts: list[Delayed]) -> RowSums:
    """Lists of numbers and arrays added up entry by entry where they are, see `add_up`."""
    add = dask.delayed(add_up, pure=False)
    while len(parts) > 1:
        parts = [add(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
    (total,) = dask.compute(parts[0])
    if not total:
        raise ValueError("No partition holds a row.")
    return list(total)


@limited
def _sums_of_partition(block: Sample, function: BlockFunction) -> RowSums:
    """The sums over one partition."""
    return add_up(function(piece) for piece in block.pieces(block_rows(block.n_classes)))
