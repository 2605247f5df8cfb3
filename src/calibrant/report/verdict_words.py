"""What the numbers of a report mean, in sentences, and what to do next.

Three things can be wrong with probabilities: how often a class is predicted (the means), how far predictions are from
each other (the slope: too extreme or too close to the average), and anything else. The headline names the one that
costs most log loss. For two classes all of it is said of the second one, for more of the confidence and of single
classes. What calibration gains is not said of fewer rows than can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from calibrant.calibrators.registry import DEFAULT
from calibrant.metrics.frequencies import ClassFrequencies
from calibrant.metrics.result_types import Estimate, ReliabilityCurve
from calibrant.metrics.slope import Miscalibration
from calibrant.numerals import amount, class_text, count, excess, number, p_text, percent, span
from calibrant.report.advice import NOTHING_GAINED, gain_in_words
from calibrant.report.data import Lack, MethodRow, SegmentRow, Verdict, condition
from calibrant.sample import Size
from calibrant.simplex import LOSS_FLOOR

#: Significance at which calibration is called into question.
ALPHA = 0.05
#: Share of the log loss from which on a fault is called bad.
BAD = 0.01
#: Classes named one by one, and the share of the costliest one's cost from which on they are.
MOST_NAMED = 4
NOTED = 0.01
#: Probability with which an error that "would show" is found, and an error worth knowing of.
POWER = 0.8
SMALL_ERROR = 0.01

NO_EVIDENCE = "No evidence of miscalibration"
MIXED_EVIDENCE = "Perhaps miscalibrated: the evidence is mixed"


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on."""

    names: tuple[str, ...]
    size: Size
    #: What is lost to wrong means, a wrong slope and the rest.
    found: Miscalibration
    #: Bands of the second of two classes, or of the predicted class.
    table: ReliabilityCurve
    accuracy: Estimate
    #: Predicted minus observed: the mean probability of the second class, or the mean confidence.
    gap: Estimate
    #: Of a test of calibration, which drew labels so many times.
    p_value: float
    log_loss: float
    #: What the method reaches that is shown; None if none could be fitted.
    gain: MethodRow | None
    recommended: str
    #: Rows whose class had probability zero, and what they add to log loss.
    ruled_out: tuple[int, float] = (0, 0.0)
    segments: Sequence[SegmentRow] = ()
    #: What keeps the gain from being told, and a sentence on classes with few rows.
    lack: Lack | None = None
    rare: str = ""
    draws: int = 0
    #: Whether the predictions are all equal.
    equal: bool = False

    @property
    def binary(self) -> bool:
        """Whether there are two classes: then all is said of the second."""
        return len(self.names) == 2

    @property
    def score(self) -> str:
        """What is judged."""
        return f"probability of {class_text(self.names[1])}" if self.binary else "confidence"

    @property
    def saved(self) -> Estimate:
        """The log loss that calibration saves; nothing where that cannot be told."""
        if self.gain is None or self.gain.gain_log_loss is None or self.lack is not None:
            return Estimate(0.0, 0.0, 0.0, self.gap.level)
        return self.gain.gain_log_loss


def verdict(evidence: Evidence) -> Verdict:
    found, binary, saved, p_value = evidence.found, evidence.binary, evidence.saved, evidence.p_value
    kind = found.largest
    # Predictions that are all equal have no slope, though one could be fitted.
    equal = evidence.equal
    if (evidence.lack is not None and kind == "rest") or equal:
        kind = "means" if found.means.gain >= found.slope.gain or equal else "slope"
    sentences = [_positive(evidence) if binary else _confidence(evidence)]
    off = [row for row in evidence.segments if row.off_before]
    after = [*([_segments_off(off, evidence)] if off else []), *_gains(evidence)]
    tested = f"{condition(evidence.size)}, a test of calibration {{}} ({p_text(p_value, evidence.draws)})."
    tested, lack = tested[0].upper() + tested[1:], evidence.lack
    if lack is not None and lack.of in ("rows", "groups"):
        wrong = p_value < ALPHA
        sentences += [tested.format("finds the probabilities wrong" if wrong else "finds nothing wrong"), *after]
        how = f"The probabilities are wrong, but there are too few {lack.of} to tell how"
        return Verdict("fair", how if wrong else f"Too few {lack.of} to tell", tuple(sentences))
    evident = p_value < ALPHA or (saved.low > 0 and found.parts[kind].p_value < ALPHA)
    if not evident and saved.low > 0:
        contrary = tested.replace("calibration {}", "calibration, however, finds nothing wrong")
        return Verdict("fair", MIXED_EVIDENCE, (*sentences, *after, contrary))
    if not evident:
        sentences += [tested.format("finds nothing wrong"), *_hidden(evidence), *after]
        few = ""
        if off:
            are = "is" if len(off) == 1 else "are"
            few = f" overall, but {len(off)} of {len(evidence.segments)} segments {are} off"
        elif lack is not None:
            few = f", but {'too few rows of some classes to tell' if lack.of == 'classes' else lack.why}"
        return Verdict("fair" if few else "good", f"{NO_EVIDENCE}{few}", tuple(sentences))
    if evidence.ruled_out[0]:
        sentences.append(_ruled_out(*evidence.ruled_out, evidence.log_loss))
    if not binary:
        sentences += _classes_off(evidence.names, found.frequencies)
    ends = _ends(evidence)
    # A second fault is worth a sentence if it costs a noticeable part of what the first one costs.
    second = found.slope.p_value < ALPHA and not equal
    if kind == "slope" or (second and found.slope.gain > 0.05 * found.parts[kind].gain):
        sentences.append(_slope(found.fitted_slope, ends, beyond=kind == "means"))
    if kind == "rest":
        sentences += _ranges(evidence)
    proof = "finds the probabilities wrong" if p_value < ALPHA else "alone does not prove it"
    sentences += [tested.format(proof), *after]
    # A few rows of nearly 0 or 1 can decide the slope: what the others contradict is no headline.
    if kind == "slope" and not all(end.agrees for end in ends):
        kind = "rest"
    headline = _of_two(kind, evidence) if binary else _of_many(kind, evidence)
    if kind == "rest" and evidence.ruled_out[1] > saved.value / 2:
        headline = "The predictions rule out classes that occur"
    bad = saved.low > 0 and saved.value >= BAD * evidence.log_loss
    return Verdict("bad" if bad else "fair", headline, tuple(sentences))


def _gains(evidence: Evidence) -> list[str]:
    """What calibration changes, or why that cannot be told."""
    rare = [evidence.rare] if evidence.rare else []
    if evidence.lack is not None:
        return [*rare, evidence.lack.text]
    if evidence.gain is None:
        return [*rare, "No method could be fitted."]
    said = gain_in_words(evidence.gain, evidence.saved, evidence.log_loss)
    nothing = evidence.recommended in ("none", DEFAULT) and evidence.saved.low <= 0
    return [*rare, said, *([NOTHING_GAINED] if nothing else [])]


def _hidden(evidence: Evidence) -> list[str]:
    """Which error would have shown, and how many rows a small one takes."""
    gap = evidence.gap
    error = (gap.high - gap.low) / 2 / float(ndtri((1 + gap.level) / 2))
    visible = error * float(ndtri(1 - ALPHA / 2) + ndtri(POWER))
    if not visible > 0:
        return ["This is not proof: with few rows, small errors stay hidden."]
    size = evidence.size
    have, unit = (size.rows, "rows") if size.groups is None else (size.groups, "groups")
    error_of = f"an error of the average {evidence.score}"
    start = f"This is not proof: with this many {unit}, {error_of} shows only if it is larger than about"
    if visible <= SMALL_ERROR:
        return [f"{start} {number(100 * visible, 2)} percentage points."]
    needed = have * (visible / SMALL_ERROR) ** 2
    digits = 10.0 ** max(int(np.floor(np.log10(needed))) - 1, 0)
    rows = f"one of {number(100 * SMALL_ERROR, 0)} point takes about {count(round(needed / digits) * digits)} {unit}"
    return [f"{start} {number(100 * visible, 1)} percentage points; {rows}."]


def _segments_off(off: Sequence[SegmentRow], evidence: Evidence) -> str:
    """The segments whose predictions are off beyond chance, the farthest first."""
    every = len(evidence.segments)
    farthest = sorted(off, key=lambda row: -abs(row.gap_before.value))
    listed = [
        f"{row.name} ({number(100 * abs(row.gap_before.value), 1)} percentage points too "
        f"{'high' if row.gap_before.value > 0 else 'low'})"
        for row in farthest
    ]
    every_one = "both segments" if every == 2 else f"all {every} segments"
    where = every_one if 1 < len(off) == every else f"{len(off)} of {every} segments"
    return f"In {where} the {evidence.score} is off by more than chance: {_named(listed)}."


def _named(parts: Sequence[str]) -> str:
    more = f" and {len(parts) - MOST_NAMED} more" if len(parts) > MOST_NAMED else ""
    return ", ".join(parts[:MOST_NAMED]) + more


def _ruled_out(rows: int, cost: float, log_loss: float) -> str:
    whose = "it alone makes" if rows == 1 else "they alone make"
    return (
        f"In {amount(rows, 'row')} the class that occurs was given a probability of zero (below {LOSS_FLOOR:g}); "
        f"{whose} {percent(cost / log_loss, 0)} of log loss."
    )


def _of_two(kind: str, evidence: Evidence) -> str:
    found, what = evidence.found, class_text(evidence.names[1])
    if kind == "means":
        return _predicts(evidence, 1)
    slope = found.fitted_slope.value
    where = _worst_band(evidence.table, slope if kind == "slope" else None)
    if where is None or (kind == "slope" and slope <= 0):
        return f"The probabilities of {what} {_extreme(slope) if kind == 'slope' else 'are wrong in some ranges'}"
    how = f": {_extreme(slope).removeprefix('are ')}" if kind == "slope" else ""
    return f"Where it says {percent(where[0])}, {percent(where[1])} are actually {what}{how}"


def _of_many(kind: str, evidence: Evidence) -> str:
    gap, slope = evidence.gap, evidence.found.fitted_slope.value
    if kind == "means":
        off = _off(evidence.found.frequencies)
        return _predicts(evidence, off[0]) if off else "Some classes are predicted too often, others too rarely"
    if kind == "slope":
        if (gap.low > 0 and slope < 1) or (gap.high < 0 and slope > 1):
            how = "over-confident" if gap.value > 0 else "under-confident"
            right = evidence.accuracy.value
            return f"Claims {percent(right + gap.value)}, right {percent(right)}: {how}"
        return f"The predictions {_extreme(slope)}"
    where = _worst_band(evidence.table)
    if where is None:
        return "The predictions are wrong for some classes or in some ranges"
    return f"Where it claims {percent(where[0])}, it is right {percent(where[1])} of the time"


class _End(NamedTuple):
    """Low or high probabilities: what a band there predicts and observes, and how the slope says that they are off."""

    which: str
    predicted: float
    observed: float
    too: str

    @property
    def agrees(self) -> bool:
        """Whether the rows are not off in the other direction."""
        return self.observed <= self.predicted if self.too == "high" else self.observed >= self.predicted


def _ends(evidence: Evidence) -> list[_End]:
    """The outermost bands that are off, below and above the average; where none is, all bands on that side together.

    Of more than two classes only the confidence is in bands, and high confidence is judged.
    """
    table, extreme = evidence.table, evidence.found.fitted_slope.value < 1
    off = (table.score < table.low) | (table.score > table.high)
    mean = float(np.average(table.frequency, weights=table.weight)) if evidence.binary else 0.0
    found = []
    for which, side in (("low", table.score < mean), ("high", table.score > mean)):
        if not side.any():
            continue
        bands = np.flatnonzero(side & off)
        chosen = np.flatnonzero(side) if not len(bands) else bands[:1] if which == "low" else bands[-1:]
        predicted, observed = (
            float(np.average(part[chosen], weights=table.weight[chosen])) for part in (table.score, table.frequency)
        )
        other = {"low": "high", "high": "low"}[which]
        found.append(_End(which, predicted, observed, which if extreme else other))
    return found


def _worst_band(table: ReliabilityCurve, slope: float | None = None) -> tuple[float, float, float, float] | None:
    """What the band predicts and observes that contributes most to the error, and its ends; None if all is chance.

    With a slope it is a band that is off as the slope says: the average is nearer to what it observes (below 1), or
    farther from it.
    """
    off = (table.score < table.low) | (table.score > table.high)
    if slope is not None:
        inwards = (table.frequency - table.score) * (np.average(table.frequency, weights=table.weight) - table.score)
        off &= inwards > 0 if slope < 1 else inwards < 0
    if not off.any():
        return None
    worst = int(np.argmax(np.where(off, table.weight * np.abs(table.frequency - table.score), 0.0)))
    score, frequency, low, high = (
        float(part[worst]) for part in (table.score, table.frequency, table.lower, table.upper)
    )
    return score, frequency, low, high


def _predicts(evidence: Evidence, column: int) -> str:
    counts, what = evidence.found.frequencies, class_text(evidence.names[column])
    expected, observed = (percent(float(part[column]) / counts.total) for part in (counts.expected, counts.observed))
    return f"Predicts {expected} for {what}, actually {observed}: {excess(float(counts.ratio[column]))}"


def _extreme(slope: float) -> str:
    if slope <= 0:
        return "point the wrong way"
    return "are too extreme" if slope < 1 else "are too close to the average"


def _positive(evidence: Evidence) -> str:
    """How often the second class is predicted, and how often it occurs."""
    frequencies, what = evidence.found.frequencies, class_text(evidence.names[1])
    expected, observed, ratio = (
        float(part[1]) for part in (frequencies.expected, frequencies.observed, frequencies.ratio)
    )
    text = (
        f"On {evidence.size} the predicted probability of {what} is {percent(expected / frequencies.total)} on "
        f"average, and {percent(observed / frequencies.total)} are actually {what}: {count(expected)} expected, "
        f"{count(observed)} observed"
    )
    if frequencies.p_value[1] < ALPHA and np.isfinite(ratio):
        ends = f"{float(frequencies.low[1]):.3g} to {float(frequencies.high[1]):.3g}"
        text += f", a ratio of {ratio:.3g} ({percent(frequencies.level, 0)} interval {ends})"
    return text + "."


def _confidence(evidence: Evidence) -> str:
    """How sure the predictions are, and how often they are right."""
    accuracy, gap = evidence.accuracy, evidence.gap
    text = (
        f"On {evidence.size} the predictions claim to be right {percent(accuracy.value + gap.value)} of the time "
        f"and are right {percent(accuracy.value)} of the time"
    )
    if gap.low > 0 or gap.high < 0:
        ends = sorted((100 * abs(gap.low), 100 * abs(gap.high)))
        points = f"{number(100 * abs(gap.value), 1)} percentage points"
        how = "over-confident" if gap.value > 0 else "under-confident"
        interval = f"{percent(gap.level, 0)} interval {number(ends[0], 1)} to {number(ends[1], 1)}"
        text += f": they are {how} by {points} ({interval})"
    return text + "."


def _off(frequencies: ClassFrequencies) -> list[int]:
    """Columns of the classes whose frequencies are off beyond chance, the costliest in log loss first."""
    expected, observed = frequencies.expected, frequencies.observed
    with np.errstate(divide="ignore", invalid="ignore"):
        known = np.where(observed > 0, observed * np.log(observed / expected), 0.0)
    cost = known - observed + expected
    off = frequencies.p_value < ALPHA / len(expected)
    # Very sure predictions make any difference significant: beside a class that is far off it is not worth a word.
    off &= cost >= NOTED * np.where(off, cost, 0.0).max()
    return sorted(np.flatnonzero(off).tolist(), key=lambda column: -cost[column])


def _classes_off(names: Sequence[str], frequencies: ClassFrequencies) -> list[str]:
    """The classes that are predicted too often, and those that are predicted too rarely."""
    sentences = []
    off = _off(frequencies)
    for word, often in (("often", True), ("rarely", False)):
        columns = [column for column in off if (frequencies.ratio[column] > 1) == often]
        if columns:
            listed = [
                f"{class_text(names[column])} ({count(float(frequencies.expected[column]))} expected, "
                f"{count(float(frequencies.observed[column]))} observed)"
                for column in columns
            ]
            sentences.append(f"Predicted too {word}: {_named(listed)}.")
    return sentences


def _slope(slope: Estimate, ends: Sequence[_End], *, beyond: bool) -> str:
    """Too extreme or too close to the average, if low and high probabilities are off in these directions."""
    interval = f"{percent(slope.level, 0)} interval {span(slope, 2)}"
    start = "Apart from that the predictions" if beyond else "The predictions"
    if slope.value <= 0:
        return f"{start} point the wrong way: the slope is {number(slope.value, 2)} ({interval}). Are columns swapped?"
    said = f"slope, fitted with intercepts, is {number(slope.value, 2)} (ideal: 1; {interval})"
    if all(end.agrees for end in ends):
        extreme = "high probabilities are too high, low ones too low"
        should = extreme if slope.value < 1 else "high probabilities are too low, low ones too high"
        return f"{start} {_extreme(slope.value)}: {should}. The {said}."
    if beyond:  # wrong means move all probabilities
        return f"Apart from that the {said}."
    where = [
        f"{end.which} probabilities are {'' if end.agrees and end.observed != end.predicted else 'not '}too {end.too} "
        f"({percent(end.predicted)} predicted, {percent(end.observed)} observed)"
        for end in ends
    ]
    return f"The {said}, but not all probabilities are off as it says: {', '.join(where)}."


def _ranges(evidence: Evidence) -> list[str]:
    """The band that contributes most to the calibration error, if it is off beyond chance."""
    where = _worst_band(evidence.table)
    if where is None:
        return []
    score, frequency, low, high = where
    if evidence.binary:
        kind, truth = "probability", f"{percent(frequency)} are actually {class_text(evidence.names[1])}"
    else:
        kind, truth = "confidence", f"they are right {percent(frequency)} of the time"
    ends = f"{number(low, 2)} and {number(high, 2)}"
    start = f"The largest error is where the predictions give a {kind} between {ends}"
    return [f"{start}: {percent(score)} on average, but {truth}."]
