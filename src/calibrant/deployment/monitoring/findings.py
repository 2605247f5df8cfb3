"""What changed, since when, how large it is, and the smallest repair that removes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.registry import get_calibrator
from calibrant.deployment.adaptation import adapt
from calibrant.deployment.adapted import AdaptedCalibrator
from calibrant.deployment.chain import ChainedCalibrator
from calibrant.deployment.monitoring.bets import classes_bet_on
from calibrant.metrics.binned import reliability_table
from calibrant.metrics.recalibration import fit_clone, recalibrate
from calibrant.metrics.result_types import Estimate
from calibrant.metrics.slope import separate
from calibrant.numerals import percent
from calibrant.sample import Sample
from calibrant.typing import FloatArray, Label

#: Confidence level of sizes: the one that intervals have throughout the package.
LEVEL = 0.95
#: P-values below which each kind of miscalibration has to be repaired: what a linear repair leaves must be surer, since
#: a new fit follows from it.
_SURE = {"means": 0.05, "slope": 0.05, "rest": 0.01}
#: A kind that saves less than this share of the largest is left to a later repair. Without it a slope found by chance
#: made 11 of 168 looks at shifted class frequencies ask for a new fit, and the other looks for new frequencies.
_WORTH = 0.1
#: Rows below which nothing is repaired, and no kind of change preferred to another: a slope of fewer is mostly noise.
_FEWEST = 20


@dataclass(frozen=True)
class Change:
    """The change that the evidence points to most, and what the latest rows show of it."""

    #: "class": it occurs more or less often than predicted,
    #: "slope": the probabilities are too extreme or too close to the average.
    kind: str
    label: Label
    #: `None` for all rows.
    segment: str | None
    #: The labelled row, counted from 0, with which it began, about.
    since: int
    #: Rows on which it was measured; `size` has them in words, with the observations they stand for and their groups.
    rows: int
    size: str
    #: Mean probability of the class; 1 for the slope.
    predicted: float
    #: Its frequency, or the slope (below 1: too extreme).
    observed: Estimate
    #: The batch of the row `since` in words, such as March 2026; empty if batches have no names.
    began: str = ""

    def __str__(self) -> str:
        row = row_text(self.since)
        since = f"since {self.began} ({row})" if self.began else f"since {row}"
        where = "" if self.segment is None else f"In the segment {self.segment}, "
        the = f"{where}the" if where else "The"
        found, ideal, slope = self.observed, self.predicted, self.kind == "slope"
        if not self.rows:
            text = "slope" if slope else f"frequency of {self.label}"
            return f"{the} {text} changed, {since}; there are no recent rows to measure it on."
        show = "{:.2f}".format if slope else percent
        value, low, high = show(found.value), show(found.low), show(found.high)
        if found.low <= ideal <= found.high:
            name, word = ("the slope", "is ideal") if slope else (f"the share of {self.label}", "was predicted")
            what = f"{name} is {value} ({low} to {high}), where {show(ideal)} {word}"
            text = f"{the} latest rows do not clearly show what is wrong: {what}"
        elif slope:
            word = "are too extreme" if found.value < 1.0 else "are too close to the average"
            word = "point the wrong way" if found.high < 0.0 else word
            text = f"{the} probabilities {word}: the slope is {value} ({low} to {high}; ideal: 1)"
        else:
            word = "more" if found.value > ideal else "less"
            predicted = f"{percent(ideal)} predicted, {value} observed ({low} to {high})"
            text = f"{where}{self.label} occurs {word} often than predicted: {predicted}"
        return f"{text}; {since}, measured on {self.size}."


def row_text(since: int) -> str:
    """The labelled row with which something began, counted from 0, for those who count from 1."""
    return f"about row {since:,}" if since else "the first row"


@dataclass(frozen=True)
class Repair:
    """The smallest repair that removes the change found, in one segment or (`None`) in all rows."""

    #: "prior": new class frequencies; "temperature"; "refit": a new calibrator on top of the old one.
    kind: str
    #: It takes the model's predictions, stores and exports.
    calibrator: Calibrator
    #: Log loss on new rows that it saves, estimated from the `rows` it was fitted to; `size` has these in words.
    gain: float
    rows: int
    size: str
    segment: str | None

    def __str__(self) -> str:
        what = {
            "prior": "New class frequencies repair it",
            "temperature": "One temperature repairs it",
            "refit": "It needs a new fit",
        }[self.kind]
        where = "" if self.segment is None else f" (for the segment {self.segment} only)"
        return f"{what}{where}: {self.gain:.4f} of log loss saved, estimated from {self.size}."


def measure(kind: str, column: int, data: Sample) -> tuple[str, int, float, Estimate]:
    """What changed, what was predicted and what is observed; not a number where no row is left to measure it on.

    A class is to blame for an alarm of the slope if wrong frequencies cost the rows more than the slope does: a class
    that becomes more frequent also brings money to those who bet on a slope, if it is the less probable one.
    """
    if not data.n_rows:
        return kind, column, float("nan"), Estimate(float("nan"), float("nan"), float("nan"), LEVEL)
    if kind == "slope":
        found = separate(data, data, LEVEL)
        if data.n_rows < _FEWEST or found.means.gain <= found.slope.gain:
            return kind, column, 1.0, found.fitted_slope
        expected, observed = data.each @ data.proba, data.class_counts
        bet_on = classes_bet_on(data.n_classes)
        off = np.abs(observed - expected) / np.sqrt(np.maximum(expected, 1.0))
        kind, column = "class", int(bet_on[np.argmax(off[bet_on])])
    given: dict[str, Any] = {"sample_weight": data.counts, "groups": data.groups, "classes": range(data.n_classes)}
    share = reliability_table(data.y, data.proba, pos_label=column, n_bins=1, level=LEVEL, **given)
    frequency = Estimate(float(share.frequency[0]), float(share.low[0]), float(share.high[0]), LEVEL)
    return kind, column, float(share.score[0]), frequency


def fit_repair(calibrator: Calibrator, data: Sample, segment: str | None) -> Repair | None:
    """The smallest repair of rows with calibrated probabilities that leaves nothing to repair; None if none is.

    Class frequencies alone, one temperature alone, or else a new calibrator fitted to what the old one predicts: when
    frequencies and slope are both off, or when a flexible calibrator gains more on rows it was not fitted to.
    """
    if data.n_rows < _FEWEST or np.count_nonzero(data.class_counts) < 2:
        return None
    found = separate(data, recalibrate(data))
    sure = {name: part.gain for name, part in found.parts.items() if part.gain > 0.0 and part.p_value < _SURE[name]}
    needed = {name for name, gain in sure.items() if gain >= _WORTH * max(sure.values())}
    if not needed:
        return None
    if needed == {"means"}:
        kind, gain = "prior", found.means.gain
        repaired = _with_frequencies(calibrator, data, np.exp(found.intercepts))
    elif needed == {"slope"}:
        kind, gain = "temperature", found.slope.gain
        repaired = ChainedCalibrator.of_fitted(calibrator, fit_clone(get_calibrator("ts"), data))
    else:
        kind, gain = "refit", sum(max(part.gain, 0.0) for part in found.parts.values())
        repaired = ChainedCalibrator.of_fitted(calibrator, fit_clone(get_calibrator("auto"), data))
    return Repair(kind, repaired, gain, data.n_rows, str(data), segment)


def _with_frequencies(calibrator: Calibrator, data: Sample, ratio: FloatArray) -> Calibrator:
    """The calibrator with the probability of each class multiplied by its ratio."""
    source = data.each @ data.proba / data.total
    if isinstance(calibrator, AdaptedCalibrator):  # `adapt` starts from the one underneath: keep what it was adapted to
        source, ratio = calibrator.source_prior_, ratio * calibrator.prior_ / calibrator.source_prior_
    prior = source * ratio
    return adapt(calibrator, prior=prior / prior.sum(), source=source)
