"""All prediction files of a folder as one set, such as the many pickles of NN_calibration."""

from __future__ import annotations

from pathlib import Path

from calibrant.files.predictions.source import (
    SUFFIXES,
    Experiment,
    PredictionFileError,
    Predictions,
    PredictionSource,
    open_predictions,
)


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
