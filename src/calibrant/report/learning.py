"""What calibration is worth with the rows there are, with half of them and with twice as many.

Calibrators in cross-validation are fitted to a part of the rows, with two folds to half of them, so what they gain is
less than a calibrator fitted to all rows would. The rows are dealt to two halves, in each fold a
calibrator is fitted to either, and both are judged on the rows that the fold holds out: the same rows, with fits to m
and to m/2 rows, so that their difference has little noise. The loss of a fit to n rows is taken as ``a + b / n^c``,
with `a` and `b` from these two.
"""

from __future__ import annotations

import warnings

import numpy as np

from calibrant.calibrators.registry import get_calibrator
from calibrant.metrics.losses import row_losses
from calibrant.metrics.recalibration import recalibrate, splits
from calibrant.random_numbers import generator
from calibrant.report.comparison import HeldOut, n_folds, paired_intervals
from calibrant.report.data import Learning
from calibrant.sample import Sample

#: Predictions (rows × classes) up to which both halves of a fold are fitted; with more, one has little noise.
_BOTH_HALVES = 100_000
#: How fast losses fall with the number of rows: 1 for a few parameters; on real predictions, where methods learn more
#: of the same as rows come in, this power is closer to fits with twice as many rows.
_POWER = 0.5


def learning(before: Sample, after: HeldOut, level: float) -> Learning | None:
    """Gain of log loss with half of the rows, all and twice as many; None if half of a fold cannot be fitted.

    Parameters
    ----------
    before : Sample
        The predictions.
    after : HeldOut
        The same rows, cross-validated by a method.
    level : float
        Confidence level.
    """
    base, fitted = row_losses(before, "log_loss"), row_losses(after.data, "log_loss")
    halves = (0, 1) if before.proba.size <= _BOTH_HALVES else (0,)
    try:
        fewer = np.mean([_with_half(before, after.name, which) for which in halves], axis=0)
    except (ValueError, RuntimeError):
        return None
    folds, added = n_folds(before), fewer - fitted
    share = (folds - 1) / folds
    columns = [base - fitted + steps(times / share) * added for times in (0.5, 1.0, 2.0)]
    return Learning(before.size, share, *paired_intervals(np.column_stack([*columns, added]), before, level))


def steps(ratio: float) -> float:
    """What fits to `ratio` times as many rows add, in units of what the last doubling of the rows added.

    Examples
    --------
    >>> steps(0.5), steps(1.0)
    (-1.0, 0.0)
    """
    return float((1.0 - ratio**-_POWER) / (2.0**_POWER - 1.0))


def _with_half(data: Sample, name: str, which: int) -> np.ndarray:
    """Log loss of every row, by a calibrator that was fitted to half of the rows outside its fold."""
    side = data.folds(2, generator(1))
    pairs = [(train[side[train] == which], held_out) for train, held_out in splits(data, n_folds(data), 0)]
    with warnings.catch_warnings():
        # As in the comparison of methods: half of the rows may lack what the whole has.
        warnings.simplefilter("ignore")
        return np.asarray(row_losses(recalibrate(data, get_calibrator(name), pairs), "log_loss"))
