"""What calibration gains: methods compared on rows they were not fitted to, and what more rows would add.

All methods are cross-validated on the same folds. Two methods are compared by the mean of their difference row by
row, whose interval comes from resampling rows: far tighter than two separate intervals. The fitted maps are not
refitted on the resamples.

Calibrators in cross-validation are fitted to a part of the rows, so what they gain is less than a calibrator fitted to
all rows would. For what rows are worth, the rows are dealt to two halves, in each fold a calibrator is fitted to
either, and both are judged on the rows that the fold holds out: the same rows, with fits to m and to m/2 rows, so that
their difference has little noise. The loss of a fit to n rows is taken as ``a + b / n^c``, with `a` and `b` from
these two.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from calibrant.calibrators.registry import DEFAULT, calibrator_info, get_calibrator, list_calibrators
from calibrant.metrics.intervals import interval
from calibrant.metrics.losses import row_losses
from calibrant.metrics.recalibration import recalibrate, splits
from calibrant.metrics.result_types import Estimate
from calibrant.random_numbers import generator
from calibrant.report.data import Learning, MethodRow
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray

#: Independent observations from which on means are normal enough for intervals without resampling.
MANY_UNITS = 20_000
#: Resamples of rows, the fewest and the most.
RESAMPLES = (200, 1000)
#: Folds by the number of predictions (rows × classes): with very many, half of them teach a calibrator enough.
FOLDS = ((150_000, 5), (600_000, 3), (float("inf"), 2))


@dataclass(frozen=True)
class HeldOut:
    """Predictions of one method on rows it was not fitted to."""

    name: str
    data: Sample
    seconds: float = 0.0

    def losses(self, loss: str) -> AnyFloatArray:
        return row_losses(self.data, loss)

    @cached_property
    def log_loss(self) -> float:
        return float(np.average(self.losses("log_loss"), weights=self.data.counts))


def default_methods(n_classes: int) -> list[str]:
    """Methods worth comparing for this number of classes, the recommended default last."""
    return [info.name for info in list_calibrators() if n_classes in info.compared]


def n_folds(data: Sample) -> int:
    return min(next(folds for limit, folds in FOLDS if data.proba.size <= limit), data.n_groups)


def cross_validate(
    data: Sample, methods: Sequence[str], progress: Callable[[str], None] = lambda name: None
) -> tuple[list[HeldOut], dict[str, str]]:
    """Held-out predictions of each method, and the messages of those that failed."""
    folds = n_folds(data)
    if folds < 2:
        return [], dict.fromkeys(methods, f"{data} cannot be split into two parts")
    held_out, failed = [], {}
    for name in methods:
        progress(name)
        try:
            held_out.append(_held_out(data, name, folds))
        except (ValueError, ImportError, RuntimeError) as error:
            failed[name] = str(error)
    return held_out, failed


def _held_out(data: Sample, name: str, folds: int) -> HeldOut:
    with warnings.catch_warnings():
        # A fold may lack what the whole has; what is left to say about a method, its losses say.
        warnings.simplefilter("ignore")
        # What is compiled or imported on first use must not count as time to fit.
        recalibrate(_few(data), get_calibrator(name), 2, random_state=0)
        start = time.perf_counter()
        after = recalibrate(data, get_calibrator(name), folds, random_state=0)
    return HeldOut(name, after, (time.perf_counter() - start) / folds)


def _few(data: Sample, rows: int = 40) -> Sample:
    """Some rows from all over the data."""
    chosen = np.unique(np.linspace(0, data.n_rows - 1, min(rows, data.n_rows)).astype(np.intp))
    return replace(data.take(chosen), groups=None)


def paired_intervals(rows: AnyFloatArray, data: Sample, level: float) -> list[Estimate]:
    """Means of the columns of `rows` with bootstrap intervals from the same resamples, with many units normal ones."""
    values = np.average(rows, axis=0, weights=data.counts)
    if data.units >= MANY_UNITS:
        return [normal_interval(float(value), column - value, data, level) for value, column in zip(values, rows.T)]
    sums = _resampled_sums(np.column_stack([rows, np.ones(len(rows))]), data)
    replicates = sums[:, :-1] / sums[:, -1:]
    return [interval(float(value), replicates[:, j], level=level) for j, value in enumerate(values)]


def share_interval(part: AnyFloatArray, whole: AnyFloatArray, data: Sample, level: float) -> Estimate:
    """The mean of `part` over that of `whole`; the interval is of the ratio in resamples, or by the delta method."""
    total = float(data.each @ whole)
    if not total > 0:
        return Estimate(float("nan"), float("nan"), float("nan"), level)
    value = float(data.each @ part) / total
    if data.units >= MANY_UNITS:
        return normal_interval(value, (part - value * whole) * (data.total / total), data, level)
    sums = _resampled_sums(np.column_stack([part, whole]), data)
    with np.errstate(divide="ignore", invalid="ignore"):
        return interval(value, sums[:, 0] / sums[:, 1], level=level)


def _resampled_sums(rows: AnyFloatArray, data: Sample) -> AnyFloatArray:
    """Sums of the columns of `rows` in resamples, the same for the same data."""
    rng, n_resamples = generator(0), int(np.clip(10_000_000 // len(rows), *RESAMPLES))
    return np.array([data.resampled_counts(rng) @ rows for _ in range(n_resamples)])


def normal_interval(value: float, influence: AnyFloatArray, data: Sample, level: float) -> Estimate:
    """The normal interval of a value, from what one observation of each row adds to it, times their number."""
    half = float(ndtri((1 + level) / 2) * np.sqrt(data.sum_variance(influence)) / data.total)
    return Estimate(value, value - half, value + half, level)


def choose(before: Sample, held_out: Sequence[HeldOut], level: float, wanted: str | None = None) -> str:
    """The method to recommend: the default one if it does not lose, unless another is better beyond chance.

    Without it, or if it loses, the unchanged predictions ("none") stand until a method is better beyond chance.
    Taking whatever happens to come out first would favour luck; `wanted` overrides the choice.
    """
    if wanted is not None and wanted in [method.name for method in held_out]:
        return wanted
    # The next command stores the calibrator, so it would fail with a method that cannot be stored.
    stored = [method for method in held_out if calibrator_info(method.name).stores]
    methods = {method.name: method for method in (*stored, HeldOut("none", before))}
    default = methods.get(DEFAULT, methods["none"])
    safe = min(default, methods["none"], key=lambda method: method.log_loss)
    best = min(methods.values(), key=lambda method: method.log_loss)
    if best.log_loss >= safe.log_loss:
        return safe.name
    # The best of several is ahead by luck as well: all comparisons together have this level.
    strict = 1 - (1 - level) / (len(methods) - 1)
    (ahead,) = paired_intervals((safe.losses("log_loss") - best.losses("log_loss"))[:, None], before, strict)
    return best.name if ahead.low > 0 else safe.name


def compare(
    before: Sample, held_out: Sequence[HeldOut], failed: dict[str, str], recommended: str, level: float
) -> list[MethodRow]:
    """A row for every method, best first, those that failed last."""
    none, zero = HeldOut("none", before), Estimate(0.0, 0.0, 0.0, level)
    reference = next(method for method in (none, *held_out) if method.name == recommended)
    columns = [none.losses("log_loss") - reference.losses("log_loss")]
    for method in held_out:
        columns += [none.losses(loss) - method.losses(loss) for loss in ("log_loss", "brier")]
        columns.append(method.losses("log_loss") - reference.losses("log_loss"))
    behind, *found = paired_intervals(np.column_stack(columns), before, level)
    rows = []
    for place, method in enumerate(held_out):
        gain, gain_brier, lost = found[3 * place : 3 * place + 3]
        what, share = calibrator_info(method.name).description, 1 - 1 / n_folds(before)
        rows.append(MethodRow(method.name, what, method.log_loss, gain, gain_brier, lost, share, method.seconds))
    rows.append(MethodRow("none", "the unchanged predictions", none.log_loss, zero, zero, behind, seconds=0.0))
    rows.sort(key=lambda row: row.log_loss)
    return rows + [MethodRow(name, calibrator_info(name).description, message=text) for name, text in failed.items()]


#: Predictions (rows × classes) up to which both halves of a fold are fitted; with more, one has little noise.
_BOTH_HALVES = 100_000
#: How fast losses fall with the number of rows: 1 for a few parameters; on real predictions, where methods learn more
#: of the same as rows come in, this power is closer to fits with twice as many rows.
_POWER = 0.5


def learning(before: Sample, after: HeldOut, level: float) -> Learning | None:
    """Gain of log loss with half of the rows, all and twice as many; None if half of a fold cannot be fitted."""
    base, fitted = row_losses(before, "log_loss"), after.losses("log_loss")
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
    """What fits to `ratio` times as many rows add, in units of what the last doubling of the rows added."""
    return float((1.0 - ratio**-_POWER) / (2.0**_POWER - 1.0))


def _with_half(data: Sample, name: str, which: int) -> np.ndarray:
    """Log loss of every row, by a calibrator that was fitted to half of the rows outside its fold."""
    side = data.folds(2, generator(1))
    pairs = [(train[side[train] == which], held_out) for train, held_out in splits(data, n_folds(data), 0)]
    with warnings.catch_warnings():
        # As in the comparison of methods: half of the rows may lack what the whole has.
        warnings.simplefilter("ignore")
        return np.asarray(row_losses(recalibrate(data, get_calibrator(name), pairs), "log_loss"))
