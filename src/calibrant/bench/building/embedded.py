"""The predictions that come with the package: the `embedded` suite of the builder, for runs without any file."""

from __future__ import annotations

from pathlib import Path

from calibrant.files.prediction_sets.experiments import PredictionSource, SplitPredictions, select_experiments
from calibrant.files.prediction_sets.open_set import open_predictions

EMBEDDED = Path(__file__).parent / "embedded.h5"


def embedded_predictions() -> PredictionSource:
    """Real predictions of four models on sixteen real datasets, four megabytes.

    Examples
    --------
    >>> source = embedded_predictions()
    >>> source.name, source.experiments()[0].dataset
    ('embedded', 'arrests')
    """
    return open_predictions(EMBEDDED)


def load_embedded(dataset: str, model: str) -> SplitPredictions:
    """Predictions of one model (LR, RF, LGBM or MLP) on one embedded dataset.

    Examples
    --------
    >>> load_embedded("spam7", "RF").probas_cal.shape
    (3600, 2)
    """
    source = embedded_predictions()
    (experiment,) = select_experiments(source.experiments(), [dataset], [model])
    return source.load(experiment)
