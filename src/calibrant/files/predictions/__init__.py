"""Prediction sets: experiments with a calibration and a test part, whatever file they come from."""

from calibrant.lazy import attach

_HOMES = {
    "Experiment": ".source",
    "MemorySource": ".source",
    "PredictionFileError": ".source",
    "PredictionSource": ".source",
    "Predictions": ".source",
    "open_predictions": ".opening",
    "select": ".source",
    "write_hdf5": ".hdf5",
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
