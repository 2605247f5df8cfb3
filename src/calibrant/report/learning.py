"""What calibration would be worth with half of the rows, and what more rows may bring.

The rows that a fold of the cross-validation is fitted to are dealt to two halves, a calibrator is fitted to each, and
both are judged on the rows that the fold holds out: the same rows, with all and with half of what there is to learn
from, so that their difference has little noise. What a fit loses to chance falls as one over the number of rows, so
doubling it once more brings half of what the last doubling brought.
"""

from __future__ import annotations

import warnings

import numpy as np

from calibrant.calibrators.registry import get_calibrator
from calibrant.folds import stratified_folds
from calibrant.metrics.inputs import Forecasts
from calibrant.metrics.losses import row_losses
from calibrant.metrics.random import generator
from calibrant.metrics.recalibration import recalibrate, splits
from calibrant.report.comparison import HeldOut, n_folds, paired_intervals
from calibrant.report.data import Learning

#: Predictions (rows × classes) up to which both halves of a fold are fitted; with more, one has little noise.
_BOTH_HALVES = 100_000
#: Fewer rows than this have no half that is worth a sentence.
_FEWEST = 40


def learning(before: Forecasts, after: HeldOut, level: float) -> Learning | None:
    """Gain of log loss with all rows and with half of them; None if half of them cannot be fitted.

    Parameters
    ----------
    before : Forecasts
        The predictions.
    after : HeldOut
        The same rows, cross-validated by a method.
    level : float
        Confidence level.
    """
    if before.n_rows < _FEWEST:
        return None
    base, full = row_losses(before, "log_loss"), row_losses(after.data, "log_loss")
    halves = (0, 1) if before.proba.size <= _BOTH_HALVES else (0,)
    try:
        half = np.mean([_with_half(before, after.name, which) for which in halves], axis=0)
    except (ValueError, RuntimeError):
        return None
    columns = np.column_stack([base - full, base - half, half - full])
    return Learning(before.n_rows, *paired_intervals(columns, before.weight, level))


def _with_half(data: Forecasts, name: str, which: int) -> np.ndarray:
    """Log loss of every row, by a calibrator that was fitted to half of the rows outside its fold."""
    pairs = []
    for number, (train, held_out) in enumerate(splits(data, n_folds(data), 0)):
        side = stratified_folds(data.y[train], 2, generator(number))
        pairs.append((train[side == which], held_out))
    with warnings.catch_warnings():
        # As in the comparison of methods: half of the rows may lack what the whole has.
        warnings.simplefilter("ignore")
        return np.asarray(row_losses(recalibrate(data, get_calibrator(name), pairs), "log_loss"))
