"""Opening prediction sets: one file of any format, or all files of a folder as one set.

A NumPy archive holds the four arrays, or many of them under names like `iris/LR/0/probas_cal`. A parquet table has a
row for each prediction: columns `dataset`, `model`, `fold` (all optional), `split` (`cal` or `test`), `label`, and
either a list column `probas` or one column per class, `p_0`, `p_1`, ... (empty beyond a dataset's classes).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibrant.files.archives import Archive, ArchiveError, FileTooLargeError, check_size, open_archive
from calibrant.files.prediction_sets.experiments import (
    PARTS,
    Entry,
    MemorySource,
    PredictionFileError,
    PredictionSource,
    SplitPredictions,
    as_fold,
)
from calibrant.files.prediction_sets.hdf5 import open_hdf5
from calibrant.files.prediction_sets.pickled_arrays import open_pickle
from calibrant.optional import require
from calibrant.text_table import list_names
from calibrant.typing import AnyArray

if TYPE_CHECKING:
    from pyarrow import Table


def open_predictions(path: str | Path, index: str | Path | None = None) -> PredictionSource:
    """Open a prediction set of any supported format.

    Parameters
    ----------
    path : str or Path
        `.h5`/`.hdf5` (CalArena's layout, with or without folds), `.npz`, `.parquet`, `.p`/`.pkl`/`.pickle`
        (pairs of logits and labels), or a folder of such files.
    index : str or Path, optional
        CSV with columns dataset, model and optionally fold: only these experiments of an HDF5 file are used.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "coins.npz"
    >>> np.savez(file, probas_cal=[0.5, 0.9], labels_cal=[0, 1], probas_test=[0.7], labels_test=[1])
    >>> open_predictions(file).experiments()[0].n_cal
    2
    >>> folder.cleanup()
    """
    path = Path(path)
    if not path.exists():
        raise PredictionFileError(f"no such file: {path}")
    if path.is_dir():
        return _open_folder(path)
    reader = READERS.get(path.suffix.lower())
    if reader is open_hdf5:
        return open_hdf5(path, index)
    if index is not None:
        raise PredictionFileError(f"an index belongs to an HDF5 file, not to {path.name}")
    if reader is None:
        raise PredictionFileError(f"{path.name}: expected {', '.join(READERS)} or a folder of such files")
    return reader(path)


def _open_folder(path: Path) -> PredictionSource:
    """All prediction files of a folder as one set; files with other endings are left alone."""
    files = sorted(f for f in path.iterdir() if f.suffix.lower() in READERS)
    if not files:
        raise PredictionFileError(f"{path}: no prediction files ({', '.join(READERS)})")
    entries: list[Entry] = []
    owner: dict[tuple[str, str, str], Path] = {}
    for file in files:
        source = open_predictions(file)
        for experiment in source.experiments():
            if experiment.key in owner:
                raise PredictionFileError(f"{experiment} is in {file.name} and in {owner[experiment.key]}")
            owner[experiment.key] = file
            entries.append((experiment, partial(source.load, experiment)))
    return PredictionSource(entries, path.resolve().name, path)


def _open_npz(path: Path) -> PredictionSource:
    """A NumPy archive of predictions. Pickled objects inside are refused."""
    # The arrays are read for their sizes: an archive lists names only.
    with _archive(path) as archive:
        names = archive.names
        entries: list[Entry] = [
            (_from(archive, path, prefix).describe(*_three_names(prefix, path.stem)), partial(_load, path, prefix))
            for prefix in dict.fromkeys(n[: -len(PARTS[0])] for n in names if n.endswith(PARTS[0]))
        ]
    if not entries:
        raise PredictionFileError(f"{path}: no array {PARTS[0]}; there are {list_names(names, write=str) or 'none'}")
    return PredictionSource(entries, path.stem, path)


@contextmanager
def _archive(path: Path) -> Iterator[Archive]:
    try:
        with open_archive(path) as archive:
            yield archive
    except (ArchiveError, FileTooLargeError) as error:
        raise PredictionFileError(str(error)) from error


def _load(path: Path, prefix: str) -> SplitPredictions:
    with _archive(path) as archive:
        return _from(archive, path, prefix)


def _from(archive: Archive, path: Path, prefix: str) -> SplitPredictions:
    if missing := [part for part in PARTS if prefix + part not in archive.names]:
        raise PredictionFileError(f"{path}: {prefix or 'archive'} lacks {', '.join(missing)}")
    where = f"{path.name}:{prefix}" if prefix else path.name
    return SplitPredictions.checked(*archive.read(*(prefix + part for part in PARTS)), where=where)


def _three_names(prefix: str, stem: str) -> tuple[str, str, int | str]:
    names = [name for name in prefix.split("/") if name]
    if len(names) > 3:
        raise PredictionFileError(f"{prefix}: expected dataset/model/fold, found {len(names)} levels")
    dataset, model, fold = [*names, *(stem, "model", "0")[len(names) :]]
    return dataset, model, as_fold(fold)


def _open_parquet(path: Path) -> MemorySource:
    """A parquet table of predictions, one row per prediction, read as a whole."""
    table = _read_table(path)
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
    if unknown := set(split.tolist()) - {"cal", "test"}:
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


def _read_table(path: Path) -> Table:
    """The whole table, if it is within the limit when it is unpacked."""
    parquet = require("pyarrow.parquet", extra="cli")
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


def _stacked(probas: AnyArray) -> AnyArray:
    """Rows of one experiment as a matrix, without the columns that belong to larger experiments."""
    if probas.dtype == object:
        return np.stack(list(probas))
    return probas[:, ~np.isnan(probas).all(axis=0)]


READERS: dict[str, Callable[[Path], PredictionSource]] = {
    **dict.fromkeys((".h5", ".hdf5", ".hdf"), open_hdf5),
    ".npz": _open_npz,
    **dict.fromkeys((".parquet", ".pq"), _open_parquet),
    **dict.fromkeys((".p", ".pkl", ".pickle"), open_pickle),
}
"""The reader of every file ending."""
