"""The predictions that come with the package: the `embedded` suite of the builder, for runs without any file."""

from __future__ import annotations

from pathlib import Path

from calibrant.files.predictions.opening import open_predictions
from calibrant.files.predictions.source import PredictionSource

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
