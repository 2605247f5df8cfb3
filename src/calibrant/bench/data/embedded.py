"""The predictions that come with the package: the `quick` suite of the builder, for runs without any file."""

from __future__ import annotations

from pathlib import Path

from calibrant.files.predictions.opening import open_predictions
from calibrant.files.predictions.source import PredictionSource

EMBEDDED = Path(__file__).parent / "embedded.h5"


def embedded_predictions() -> PredictionSource:
    """Real predictions of real models on real data, a few megabytes.

    Examples
    --------
    >>> source = embedded_predictions()
    >>> source.name, source.experiments()[0].dataset
    ('embedded', 'chile_vote')
    """
    return open_predictions(EMBEDDED)
