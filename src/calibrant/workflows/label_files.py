"""Files of many labels: a column of zeros and ones for each label, and one with its probability, found by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.files.tables.cells import find_style, several_numbers
from calibrant.files.tables.table import Batch, Table, TableError
from calibrant.files.tables.writers import open_writer
from calibrant.inputs.label_matrix import LabelMatrix, label_matrix
from calibrant.inputs.probability_columns import named_columns
from calibrant.inputs.rows import ROUNDING
from calibrant.inputs.words import METRIC, RequestError
from calibrant.optional import require
from calibrant.text_table import list_names
from calibrant.typing import FloatArray


@dataclass(frozen=True)
class LabelFile:
    """The rows of a file: probabilities (n, L), zeros and ones (n, L), and what stands beside them.

    `columns` are those of the probabilities and `labels` those of the zeros and ones; `skipped` the rows left out.
    """

    values: FloatArray
    y: FloatArray
    weight: FloatArray | None
    groups: Any
    columns: list[str]
    labels: list[str]
    skipped: int

    def checked(self) -> LabelMatrix:
        """The rows as what metrics take."""
        return label_matrix(self.y, self.values, self.weight, self.labels, groups=self.groups, words=METRIC)


def label_pairs(columns: Sequence[str], probs: Sequence[str] | None = None) -> dict[str, str]:
    """The column of probabilities of each label: they are called alike but for a common beginning or end."""
    chosen = list(columns) if not probs else named_columns(probs, columns, columns)
    others = [(name, label) for name in chosen for label in columns if label != name]
    around = Counter((name.removesuffix(label), "") for name, label in others if name.endswith(label))
    around.update(("", name.removeprefix(label)) for name, label in others if name.startswith(label))
    pairs: dict[str, str] = {}
    if around:
        (before, after), _ = max(around.items(), key=lambda item: (item[1], len(item[0][0] + item[0][1])))
        pairs = {label: before + label + after for label in columns if before + label + after in chosen}
    plain = {name.removeprefix("y_"): name for name in columns}
    if not pairs and len(plain) == len(columns) and list(plain) != list(columns):
        return {plain[label]: name for label, name in label_pairs(list(plain), probs).items()}
    if not pairs or (probs and len(pairs) < len(chosen)):
        raise RequestError(
            "no label columns with matching probability columns were found: a label has a column of zeros and ones, "
            "such as sports or y_sports, and one of probabilities, such as p_sports; the columns are "
            f"{list_names(columns)}",
            *(["probs"] if probs else []),
        )
    return pairs


def read_labels(
    table: Table,
    *,
    probs: Sequence[str] | None = None,
    weight: str | None = None,
    group_by: str | None = None,
    decimal: str | None = None,
    logits: bool = False,
    skip_errors: bool = False,
) -> LabelFile:
    """All usable rows of a table with a column of zeros and ones and one of probabilities for each label."""
    beside = [name for name in (weight, group_by) if name is not None]
    table.require(beside)
    pairs = label_pairs([name for name in table.columns if name not in beside], probs)
    numbers = [*pairs.values(), *pairs, *([] if weight is None else [weight])]
    parts, groups, skipped = [], [], 0
    for batch, values in _numbers(table, numbers, [*numbers, *([group_by] if group_by else [])], decimal):
        wrong = ~_usable(values[:, : len(pairs)], logits=logits)
        wrong[:, : len(pairs)] |= ~np.isin(values[:, len(pairs) : 2 * len(pairs)], (0, 1))
        bad = wrong.any(axis=1) | ~np.isfinite(values).all(axis=1)
        if bad.any() and not skip_errors:
            row = int(np.argmax(bad))
            cells = ", ".join(f"{name} {value:g}" for name, value in zip(numbers, values[row]))
            raise TableError(
                f"{table.name}, {table.row_name(int(batch.rows[row]))}: {cells:.200} cannot be used; probabilities lie "
                "between 0 and 1, and labels are 0 or 1",
                "skip_errors",
            )
        skipped += int(bad.sum())
        parts.append(values[~bad])
        if group_by is not None:
            groups += np.array(batch.data.column(group_by).to_pylist(), dtype=object)[~bad].tolist()
    found = np.concatenate(parts) if parts else np.empty((0, len(numbers)))
    if not len(found):
        raise TableError(f"{table.name} has no usable rows")
    count = len(pairs)
    own = None if weight is None else found[:, -1]
    columns, labels = list(pairs.values()), list(pairs)
    together = np.array(groups, dtype=str) if group_by is not None else None
    return LabelFile(found[:, :count], found[:, count : 2 * count], own, together, columns, labels, skipped)


def apply_labels(
    fitted: Any, table: Table, output: str | Path, *, suffix: str = "", decimal: str | None = None, force: bool = False
) -> int:
    """Write a table with calibrated probabilities of labels, chunk by chunk; the number of rows."""
    pa = require("pyarrow", extra="cli")
    names = fitted.column_names
    table.require(names)
    if taken := [name + suffix for name in names if suffix and name + suffix in table.columns]:
        raise RequestError(f"the column {taken[0]!r} exists already", "suffix")
    rows = 0
    with open_writer(output, table, force=force, suffix=suffix) as writer:
        for batch, values in _numbers(table, names, None, decimal):
            if not (usable := _usable(values, logits=fitted.logits).all(axis=1)).all():
                row = table.row_name(int(batch.rows[np.argmin(usable)]))
                raise TableError(f"{table.name}, {row}: {', '.join(names)} are not probabilities of labels")
            cells = dict(zip(batch.data.schema.names, batch.data.columns))
            p = fitted.predict_proba(values)
            cells |= {name + suffix: pa.array(np.ascontiguousarray(p[:, j])) for j, name in enumerate(names)}
            writer.write(pa.RecordBatch.from_arrays(list(cells.values()), names=list(cells)))
            rows += len(values)
    return rows


def _usable(values: FloatArray, *, logits: bool) -> Any:
    return ~np.isnan(values) if logits else (values >= 0.0) & (values <= 1.0 + ROUNDING)


def _numbers(
    table: Table, names: Sequence[str], columns: Sequence[str] | None, decimal: str | None
) -> Iterator[tuple[Batch, FloatArray]]:
    """Chunks of a table with the numbers in some of its columns, NaN where there are none."""
    for batch in table.batches(columns):
        cells = [batch.data.column(name) for name in names]
        style = find_style(cells, decimal)
        yield batch, several_numbers(cells, style.decimal).astype(np.float64)
