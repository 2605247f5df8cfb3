"""Prediction sets as NumPy archives and as parquet tables.

An archive holds the four arrays, or many of them under names like `iris/LR/0/probas_cal`. A table has a row
for each prediction: columns `dataset`, `model`, `fold` (all optional), `split` (`cal` or `test`), `label`,
and either a list column `probas` or one column per class, `p_0`, `p_1`, ... (empty beyond a dataset's classes).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.files.archives import Archive, ArchiveError, open_archive
from calibrant.files.limits import FileTooLargeError, check_size
from calibrant.files.prediction_sets.experiments import (
    PARTS,
    Entry,
    MemorySource,
    PredictionFileError,
    PredictionSource,
    SplitPredictions,
    as_fold,
)
from calibrant.optional import require
from calibrant.text_table import list_names


def open_npz(path: Path) -> PredictionSource:
    """A NumPy archive of predictions. Pickled objects inside are refused."""
    # The arrays are read for their sizes: an archive lists names only.
    with _opened(path) as archive:
        names = archive.names
        entries: list[Entry] = [
            (_read(path, archive, prefix).describe(*_three_names(prefix, path.stem)), partial(_load, path, prefix))
            for prefix in dict.fromkeys(n[: -len(PARTS[0])] for n in names if n.endswith(PARTS[0]))
        ]
    if not entries:
        raise PredictionFileError(f"{path}: no array {PARTS[0]}; there are {list_names(names, write=str) or 'none'}")
    return PredictionSource(entries, path.stem, path)


def _load(path: Path, prefix: str) -> SplitPredictions:
    with _opened(path) as archive:
        return _read(path, archive, prefix)


@contextmanager
def _opened(path: Path) -> Iterator[Archive]:
    try:
        with open_archive(path) as archive:
            yield archive
    except (ArchiveError, FileTooLargeError) as error:
        raise PredictionFileError(str(error)) from error


def _read(path: Path, archive: Archive, prefix: str) -> SplitPredictions:
    if missing := [part for part in PARTS if prefix + part not in archive.names]:
        raise PredictionFileError(f"{path}: {prefix or 'archive'} lacks {', '.join(missing)}")
    where = f"{path.name}:{prefix}" if prefix else path.name
    return SplitPredictions.checked(*archive.read(*(prefix + part for part in PARTS)), where=where)


def open_parquet(path: Path) -> MemorySource:
    """A parquet table of predictions, one row per prediction, read as a whole."""
    table = _read_table(require("pyarrow.parquet", extra="cli"), path)
    columns = table.column_names
    wide = sorted((c for c in columns if re.fullmatch(r"p_\d+", c)), key=lambda c: int(c[2:]))
    if missing := [c for c in ("split", "label") if c not in columns]:
        raise PredictionFileError(f"{path}: no column {', '.join(missing)}; there are {list_names(columns, write=str)}")
    if "probas" not in columns and not wide:
        raise PredictionFileError(f"{path}: no probabilities, expected a column probas or columns p_0 ...")
    if "probas" in columns:
        probas = np.empty(len(table), dtype=object)
        probas[:] = [np.asarray(row) for row in table["probas"].to_pylist()]
    else:
        probas = np.column_stack([table[c].to_numpy().astype(np.float64) for c in wide])
    names = [
        np.asarray(table[c].to_pylist(), dtype=str) if c in columns else np.full(len(table), default)
        for c, default in (("dataset", path.stem), ("model", "model"), ("fold", "0"))
    ]
    split = np.asarray(table["split"].to_pylist(), dtype=str)
    if unknown := set(split) - {"cal", "test"}:
        raise PredictionFileError(f"{path}: split is {sorted(unknown)[0]!r}, expected cal or test")
    labels = np.asarray(table["label"].to_pylist())
    found: dict[tuple[str, str, int | str], SplitPredictions] = {}
    for key in dict.fromkeys(zip(*(n.tolist() for n in names))):
        mine = (names[0] == key[0]) & (names[1] == key[1]) & (names[2] == key[2])
        arrays = []
        for part in ("cal", "test"):
            rows = mine & (split == part)
            if not rows.any():
                raise PredictionFileError(f"{path}: {'/'.join(key)} has no rows with split {part}")
            arrays += [_stacked(probas[rows]), labels[rows]]
        predictions = SplitPredictions.checked(*arrays, where=f"{path.name}:{'/'.join(key)}")
        found[key[0], key[1], as_fold(key[2])] = predictions
    return MemorySource(found, path.stem, path)


def _read_table(parquet: Any, path: Path) -> Any:
    """The whole table, if it is within the limit when it is unpacked."""
    try:
        with parquet.ParquetFile(path) as file:
            metadata = file.metadata
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            chunks = [group.column(j) for group in groups for j in range(group.num_columns)]
            # Repeated values may take next to nothing in the file.
            check_size(sum(max(c.total_uncompressed_size, 8 * c.num_values) for c in chunks), str(path))
            return file.read()
    except FileTooLargeError as error:
        raise PredictionFileError(str(error)) from error
    except (OSError, ValueError) as error:
        raise PredictionFileError(f"{path} is not a readable parquet file: {error}") from error


def _stacked(probas: Any) -> Any:
    """Rows of one experiment as a matrix, without the columns that belong to larger experiments."""
    if probas.dtype == object:
        return np.stack(list(probas))
    return probas[:, ~np.isnan(probas).all(axis=0)]


def _three_names(prefix: str, stem: str) -> tuple[str, str, int | str]:
    names = [name for name in prefix.split("/") if name]
    if len(names) > 3:
        raise PredictionFileError(f"{prefix}: expected dataset/model/fold, found {len(names)} levels")
    dataset, model, fold = [*names, *(stem, "model", "0")[len(names) :]]
    return dataset, model, as_fold(fold)
