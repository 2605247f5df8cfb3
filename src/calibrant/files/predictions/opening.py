"""Opening prediction sets: one file of any format, or all files of a folder as one set."""

from __future__ import annotations

from pathlib import Path

from calibrant.files.predictions.arrays import NpzSource, ParquetSource
from calibrant.files.predictions.hdf5 import Hdf5Source
from calibrant.files.predictions.pickles import PickleSource
from calibrant.files.predictions.source import SUFFIXES, Experiment, PredictionFileError, Predictions, PredictionSource


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
        return FolderSource(path)
    suffix = path.suffix.lower()
    if suffix in (".h5", ".hdf5", ".hdf"):
        return Hdf5Source(path, index)
    if index is not None:
        raise PredictionFileError(f"an index belongs to an HDF5 file, not to {path.name}")
    if suffix == ".npz":
        return NpzSource(path)
    if suffix in (".parquet", ".pq"):
        return ParquetSource(path)
    if suffix in (".p", ".pkl", ".pickle"):
        return PickleSource(path)
    raise PredictionFileError(f"{path.name}: expected {', '.join(SUFFIXES)} or a folder of such files")


class FolderSource:
    """All prediction files of a folder as one set.

    Parameters
    ----------
    path : Path
        Folder; files with other endings are left alone.
    """

    def __init__(self, path: str | Path) -> None:
        self.path: Path | None = Path(path)
        self.name = Path(path).resolve().name
        files = sorted(f for f in Path(path).iterdir() if f.suffix.lower() in SUFFIXES)
        if not files:
            raise PredictionFileError(f"{path}: no prediction files ({', '.join(SUFFIXES)})")
        self._owner: dict[tuple[str, str, str], PredictionSource] = {}
        self._experiments: list[Experiment] = []
        for file in files:
            source = open_predictions(file)
            for experiment in source.experiments():
                if experiment.key in self._owner:
                    other = self._owner[experiment.key].path
                    raise PredictionFileError(f"{experiment} is in {file.name} and in {other}")
                self._owner[experiment.key] = source
                self._experiments.append(experiment)

    def experiments(self) -> list[Experiment]:
        """List the experiments of all files, file by file."""
        return list(self._experiments)

    def load(self, experiment: Experiment) -> Predictions:
        """Read the arrays of one experiment."""
        return self._owner[experiment.key].load(experiment)
