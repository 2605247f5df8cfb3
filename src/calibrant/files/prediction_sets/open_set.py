"""Opening prediction sets: one file of any format, or all files of a folder as one set."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from calibrant.files.prediction_sets.experiments import Entry, PredictionFileError, PredictionSource
from calibrant.files.prediction_sets.hdf5 import open_hdf5
from calibrant.files.prediction_sets.npz_parquet import open_npz, open_parquet
from calibrant.files.prediction_sets.pickles import open_pickle

READERS: dict[str, Callable[[Path], PredictionSource]] = {
    **dict.fromkeys((".h5", ".hdf5", ".hdf"), open_hdf5),
    ".npz": open_npz,
    **dict.fromkeys((".parquet", ".pq"), open_parquet),
    **dict.fromkeys((".p", ".pkl", ".pickle"), open_pickle),
}
"""The reader of every file ending."""


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
        return open_folder(path)
    reader = READERS.get(path.suffix.lower())
    if reader is open_hdf5:
        return open_hdf5(path, index)
    if index is not None:
        raise PredictionFileError(f"an index belongs to an HDF5 file, not to {path.name}")
    if reader is None:
        raise PredictionFileError(f"{path.name}: expected {', '.join(READERS)} or a folder of such files")
    return reader(path)


def open_folder(path: Path) -> PredictionSource:
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
