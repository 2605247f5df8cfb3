"""Files as sources of batches: what `fit_batches` reads from the start as often as it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.files.tables.opening import open_table
from calibrant.files.tables.table_rows import Layout, RowReader
from calibrant.inputs.named_columns import NamedColumns


class LabelledBatches:
    """The usable rows of a table with their labels and weights: a source that reads the table anew at every call.

    Parameters
    ----------
    reader : RowReader
        With a label column or columns of votes.

    Attributes
    ----------
    columns : names of the columns that hold the predictions.
    classes : the label that each stands for; of a single column both labels, its own last.
    found : all that was found out about these columns.
    """

    def __init__(self, reader: RowReader) -> None:
        self._reader = reader
        self.found = reader.find()
        self.columns, self.classes = self.found.names, self.found.classes

    def __call__(self) -> Iterator[Any]:
        labels, names = np.array(self.classes), list(self.columns)
        for rows in self._reader.read(self.found):
            truth = labels[rows.codes] if rows.votes is None else NamedColumns(list(self.classes), rows.votes)
            yield NamedColumns(names, rows.values), truth, rows.weight


def open_batches(
    path: str | Path | Sequence[str | Path],
    label: str | None = None,
    *,
    votes: Sequence[str] = (),
    sample_weight: str | None = None,
    probs: Sequence[str] = (),
    classes: Sequence[str] | None = None,
    logits: bool = False,
    renormalize: bool = False,
) -> LabelledBatches:
    """Files of predictions with labels, as a source for `fit_batches`; they may be larger than memory.

    Parameters
    ----------
    path : path or sequence of paths
        CSV (also .csv.gz, .tsv), JSON Lines, parquet, feather, npz or npy file; a folder of such files, with Hive
        partitions (``month=2026-03``) as columns; a pattern such as ``"day-*.csv"``; or several of these.
    label : str, default=None
        The column of the labels.
    votes : sequence of str, default=()
        Instead of `label`, names or patterns of columns of votes or shares, one per class.
    sample_weight : str, default=None
        The column of the weights.
    probs : sequence of str, default=()
        Names or patterns of the columns that hold predictions; by default they are found by the labels.
    classes : sequence of str, default=None
        The label of each of these columns, if their names do not tell.
    logits, renormalize : bool, default=False
        What the predictions are: the same as the calibrator is told.

    Examples
    --------
    >>> import tempfile
    >>> from calibrant import get_calibrator, open_batches
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "p.csv"
    ...     _ = file.write_text("p_no,p_yes,truth\\n0.9,0.1,no\\n0.2,0.8,yes\\n0.3,0.7,no\\n0.4,0.6,yes\\n")
    ...     get_calibrator("ts").fit_batches(open_batches(file, "truth")).classes_.tolist()
    ['no', 'yes']
    """
    if (label is None) == (not votes):
        raise ValueError("open_batches needs either label=, the column of the labels, or votes=, a column per class.")
    layout = Layout(
        label=label,
        votes=tuple(votes),
        probs=tuple(probs),
        weight=sample_weight,
        classes=None if classes is None else tuple(classes),
        logits=logits,
        renormalize=renormalize,
    )
    return LabelledBatches(RowReader(open_table(path), layout))
