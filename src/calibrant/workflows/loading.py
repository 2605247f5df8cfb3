"""Stored calibrators for commands that need more of them than their maps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.multilabel import MultilabelCalibrator
from calibrant.files.stored.persistence import FoldCalibrators, load
from calibrant.inputs.words import RequestError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def load_calibrator(path: str | Path, *, labels: bool = False) -> Any:
    """A calibrator stored as JSON; one of independent labels only if `labels` are taken."""
    if not Path(path).exists():
        raise RequestError(f"there is no file {path}")
    loaded = load(path)
    if isinstance(loaded, MultilabelCalibrator) and not labels:
        raise RequestError(
            f"{path} is a multi-label calibrator; this command is for classes, exactly one of which is true. For "
            "labels use `calibrant apply`, `evaluate`, `report` and `export`"
        )
    if not isinstance(loaded, FoldCalibrators):
        return loaded
    if any(item is not loaded[0] for item in loaded):
        raise RequestError(
            f"{path} holds the {len(loaded)} calibrators of a CalibratedClassifier, one for each fold of its "
            "classifiers: use it in Python, fit it with ensemble='auto' or ensemble=False for a single calibrator, or "
            "fit a calibrator to held-out predictions"
        )
    if loaded.scaled:
        raise RequestError(
            f"{path} holds the calibrator of a CalibratedClassifier whose decision values are scaled first, which this "
            "command cannot do: use calibrant.runtime.load, or calibrant.export of the classifier itself"
        )
    return loaded[0]


def check_intervals(calibrator: BaseEstimator) -> None:
    """Refuse a calibrator that was stored without what intervals need; Venn-Abers of two classes needs nothing."""
    if isinstance(calibrator, MultilabelCalibrator):
        raise RequestError("multi-label calibrators have no intervals of single probabilities")
    own = type(calibrator).predict_interval is not Calibrator.predict_interval and len(calibrator.classes_) == 2
    if not own and not hasattr(calibrator, "uncertainty_"):
        raise RequestError(f"this {type(calibrator).__name__} was stored without intervals", "intervals")
