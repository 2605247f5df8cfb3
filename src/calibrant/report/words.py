"""What the numbers of a report mean, in sentences, and what to do next.

Three things can be wrong with probabilities: how often a class is predicted (the means), how far predictions are from
each other (the slope: too extreme or too timid), and anything else. The headline names the one that costs most log
loss. For two classes all of it is said of the second one, for more of the confidence and of single classes.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np

from calibrant.calibrators.registry import DEFAULT
from calibrant.metrics.frequencies import ClassFrequencies
from calibrant.metrics.intervals import Estimate
from calibrant.metrics.reliability import ReliabilityTable
from calibrant.metrics.slope import Miscalibration
from calibrant.numerals import class_text, count, excess, number, percent, signed, span
from calibrant.report.data import GroupRow, Learning, MethodRow, Step, Verdict
from calibrant.simplex import LOSS_FLOOR

#: Significance at which calibration is called into question.
ALPHA = 0.05
#: Share of the log loss from which on a fault is called bad.
BAD = 0.01
#: Share of the gain below which what more rows bring is called little, and above which it could matter.
LITTLE = 0.1
LARGE = 0.2
#: Classes named one by one, and the share of the costliest one's cost from which on they are.
MOST_NAMED = 4
NOTED = 0.01

NO_EVIDENCE = "No evidence of miscalibration"
MIXED_EVIDENCE = "Perhaps miscalibrated: the evidence is mixed"


def p_text(p: float) -> str:
    """A p-value, as exact as the draws allow.

    Examples
    --------
    >>> p_text(0.001), p_text(0.2345), p_text(1e-20)
    ('p = 0.001', 'p = 0.23', 'p < 0.001')
    """
    return f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"


def verdict(
    names: Sequence[str],
    found: Miscalibration,
    table: ReliabilityTable,
    confidence: tuple[Estimate, Estimate],
    p_value: float,
    log_loss: float,
    gain: MethodRow,
    ruled_out: tuple[int, float] = (0, 0.0),
    segments: Sequence[GroupRow] = (),
) -> Verdict:
    """The verdict on predictions.

    Parameters
    ----------
    names : sequence of str
        The classes.
    found : Miscalibration
        What is lost to wrong means, a wrong slope and the rest.
    table : ReliabilityTable
        Of the second of two classes, or of the predicted class.
    confidence : pair of Estimate
        Accuracy, and the mean confidence minus it.
    p_value : float
        Of a test of calibration.
    log_loss : float
        Of the predictions.
    gain : MethodRow
        What the recommended method reaches.
    ruled_out : pair of int and float
        Rows whose class had probability zero, and what they add to log loss.
    segments : sequence of GroupRow
        The segments that were looked at.
    """
    assert gain.gain_log_loss is not None
    saved = gain.gain_log_loss
    kind = found.largest
    evident = p_value < ALPHA or (saved.low > 0 and found.parts[kind].p_value < ALPHA)
    binary = len(names) == 2
    sentences = [_positive(names[1], found.frequencies) if binary else _confidence(found.frequencies.total, confidence)]
    off = [row for row in segments if row.off_before]
    by_segment = [_segments_off(off, len(segments), names)] if off else []
    if not evident and saved.low > 0:
        sentences += [
            *by_segment,
            _gain(gain, saved, log_loss),
            f"A test of calibration, however, finds nothing wrong ({p_text(p_value)}).",
        ]
        return Verdict("fair", MIXED_EVIDENCE, tuple(sentences))
    if not evident:
        sentences.append(
            f"A test of calibration finds nothing wrong ({p_text(p_value)}). That is no proof: with few rows, small "
            "faults stay hidden."
        )
        sentences += [*by_segment, _gain(gain, saved, log_loss)]
        if off:
            are = "is" if len(off) == 1 else "are"
            headline = f"{NO_EVIDENCE} overall, but {_of(len(off), len(segments))} {are} off"
            return Verdict("fair", headline, tuple(sentences))
        return Verdict("good", NO_EVIDENCE, tuple(sentences))
    if ruled_out[0]:
        sentences.append(_ruled_out(*ruled_out, log_loss))
    if not binary:
        sentences += _classes_off(names, found.frequencies)
    # A second fault is worth a sentence if it costs a noticeable part of what the first one costs.
    if kind == "slope" or (found.slope.p_value < ALPHA and found.slope.gain > 0.05 * found.parts[kind].gain):
        sentences.append(_slope(found.fitted_slope, beyond=kind == "means"))
    if kind == "rest":
        sentences += _ranges(table)
    sentences += [f"A test of calibration gives {p_text(p_value)}.", _gain(gain, saved, log_loss)]
    headline = _of_two(kind, names[1], found) if binary else _of_many(kind, names, found, confidence[1])
    if kind == "rest" and ruled_out[1] > saved.value / 2:
        headline = "The predictions rule out classes that occur"
    bad = saved.low > 0 and saved.value >= BAD * log_loss
    return Verdict("bad" if bad else "fair", headline, tuple(sentences))


def _of(some: int, every: int) -> str:
    return f"{some} of {every} segments"


def _segments_off(off: Sequence[GroupRow], every: int, names: Sequence[str]) -> str:
    """The segments whose predictions are off beyond chance, the farthest first."""
    what = f"the probability of {class_text(names[1])}" if len(names) == 2 else "the confidence"
    farthest = sorted(off, key=lambda row: -abs(row.gap_before.value))
    listed = [
        f"{row.name} ({number(100 * abs(row.gap_before.value), 1)} percentage points too "
        f"{'high' if row.gap_before.value > 0 else 'low'})"
        for row in farthest[:MOST_NAMED]
    ]
    more = f" and {len(off) - MOST_NAMED} more" if len(off) > MOST_NAMED else ""
    return f"In {_of(len(off), every)} {what} is off beyond chance: {', '.join(listed)}{more}."


def _ruled_out(rows: int, cost: float, log_loss: float) -> str:
    where, whose = ("1 row", "it alone makes") if rows == 1 else (f"{count(rows)} rows", "they alone make")
    return (
        f"In {where} the class that occurs was given a probability of zero (below {LOSS_FLOOR:g}); "
        f"{whose} {percent(cost / log_loss, 0)} of log loss."
    )


def _of_two(kind: str, positive: str, found: Miscalibration) -> str:
    what = class_text(positive)
    if kind == "means":
        return f"Predicts {_shares(found.frequencies, 1, what)}: {excess(float(found.frequencies.ratio[1]))}"
    if kind == "slope":
        return f"The probabilities of {what} {_extreme(found.fitted_slope.value)}"
    return f"The probabilities of {what} are wrong in some ranges"


def _of_many(kind: str, names: Sequence[str], found: Miscalibration, gap: Estimate) -> str:
    if kind == "means":
        off = _off(found.frequencies)
        if not off:
            return "Some classes are predicted too often, others too rarely"
        ratio = float(found.frequencies.ratio[off[0]])
        return f"Predicts {_shares(found.frequencies, off[0], class_text(names[off[0]]))}: {excess(ratio)}"
    slope = found.fitted_slope.value
    if kind == "slope":
        if (gap.low > 0 and slope < 1) or (gap.high < 0 and slope > 1):
            how = "over-confident" if gap.value > 0 else "under-confident"
            return f"The predictions are {how} by {number(100 * abs(gap.value), 1)} percentage points"
        return f"The predictions {_extreme(slope)}"
    return "The predictions are wrong for some classes or in some ranges"


def _shares(frequencies: ClassFrequencies, column: int, what: str) -> str:
    expected, observed = (float(counts[column]) for counts in (frequencies.expected, frequencies.observed))
    return f"{percent(expected / frequencies.total)} for {what}, {percent(observed / frequencies.total)} occurs"


def _extreme(slope: float) -> str:
    if slope <= 0:
        return "point the wrong way"
    return "are too extreme" if slope < 1 else "are too timid"


def _positive(positive: str, frequencies: ClassFrequencies) -> str:
    """How often the second class is predicted, and how often it occurs."""
    expected, observed, ratio = (
        float(part[1]) for part in (frequencies.expected, frequencies.observed, frequencies.ratio)
    )
    text = (
        f"On {count(frequencies.total)} rows the predicted probability of {class_text(positive)} is "
        f"{percent(expected / frequencies.total)} on average, and {percent(observed / frequencies.total)} occurs: "
        f"{count(expected)} expected, {count(observed)} observed"
    )
    if frequencies.p_value[1] < ALPHA and np.isfinite(ratio):
        ends = f"{float(frequencies.low[1]):.3g} to {float(frequencies.high[1]):.3g}"
        text += f", a ratio of {ratio:.3g} ({percent(frequencies.level, 0)} interval {ends})"
    return text + "."


def _confidence(total: float, confidence: tuple[Estimate, Estimate]) -> str:
    """How sure the predictions are, and how often they are right."""
    accuracy, gap = confidence
    text = (
        f"On {count(total)} rows the predictions claim to be right {percent(accuracy.value + gap.value)} of the time "
        f"and are right {percent(accuracy.value)} of the time"
    )
    if gap.low > 0 or gap.high < 0:
        ends = sorted((100 * abs(gap.low), 100 * abs(gap.high)))
        points = f"{number(100 * abs(gap.value), 1)} percentage points too {'much' if gap.value > 0 else 'little'}"
        text += f": {points} ({percent(gap.level, 0)} interval {number(ends[0], 1)} to {number(ends[1], 1)})"
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
                for column in columns[:MOST_NAMED]
            ]
            more = f" and {len(columns) - MOST_NAMED} more" if len(columns) > MOST_NAMED else ""
            sentences.append(f"Predicted too {word}: {', '.join(listed)}{more}.")
    return sentences


def _slope(slope: Estimate, *, beyond: bool) -> str:
    """Too extreme or too timid."""
    ends = f"{percent(slope.level, 0)} interval {span(slope, 2)}"
    start = "Apart from that the predictions" if beyond else "The predictions"
    if slope.value <= 0:
        return f"{start} point the wrong way: the slope is {number(slope.value, 2)} ({ends}). Are columns swapped?"
    should = "high probabilities are too high, low ones too low" if slope.value < 1 else "they should differ more"
    return f"{start} {_extreme(slope.value)}: {should}. The slope is {number(slope.value, 2)}, 1 is right ({ends})."


def _ranges(table: ReliabilityTable) -> list[str]:
    """The bin that contributes most to the calibration error, if it is off beyond chance."""
    off = (table.score < table.low) | (table.score > table.high)
    if not off.any():
        return []
    worst = int(np.argmax(np.where(off, table.weight * np.abs(table.frequency - table.score), 0.0)))
    claimed = "confidence" if table.label is None else "probability"
    frequency = percent(float(table.frequency[worst]))
    truth = f"they are right {frequency} of the time" if table.label is None else f"{frequency} occurs"
    return [
        f"The largest error is where the predictions give a {claimed} between {number(float(table.lower[worst]), 2)} "
        f"and {number(float(table.upper[worst]), 2)}: {percent(float(table.score[worst]))} on average, but {truth}."
    ]


def _gain(gain: MethodRow, saved: Estimate, before: float) -> str:
    """What calibration changes, on rows it was not fitted to."""
    share = f"{percent(saved.level, 0)} interval"
    relative = 100 * saved.value / before if before > 0 else 0.0
    if saved.low > 0:
        # A gain that is proven must not read "from 0.017 to 0.017".
        digits = next((d for d in range(3, 6) if number(before, d) != number(gain.log_loss, d)), 6)
        losses = f"from {number(before, digits)} to {number(gain.log_loss, digits)}"
        return (
            f"Calibration with {gain.name} lowers log loss {losses}, "
            f"by {number(relative, 1)}% ({share} of the difference {span(saved)}), on rows it was not fitted to."
        )
    if saved.high < 0:
        return f"Calibration with {gain.name} would make log loss worse here, by {number(-relative, 1)}%."
    change = Estimate(-saved.value, -saved.high, -saved.low, saved.level)
    return (
        f"Calibration with {gain.name} changes log loss by {signed(change.value)}, no more than chance explains "
        f"({share} {span(change)})."
    )


def worth_of_rows(found: Learning, before: float, *, sampled: bool = False) -> str:
    """What the rows are worth to calibration, and whether more would help; nothing where there is nothing to tell.

    Parameters
    ----------
    found : Learning
        Gains with all rows and with half of them.
    before : float
        Log loss of the predictions.
    sampled : bool, default=False
        The rows are a sample of those that there are.

    Examples
    --------
    >>> gains = (Estimate(*gain, 0.95) for gain in ((0.061, 0.04, 0.08), (0.05, 0.03, 0.07), (0.011, 0.006, 0.016)))
    >>> worth_of_rows(Learning(1264, *gains), 1.0)
    'With your 1,264 rows calibration is worth 6.1% of log loss; half of them would give 5.0%, and more would bring ...
    """
    if found.full.low <= 0:
        if found.added.low > 0:
            return "Half of the rows would do worse, so with more rows calibration may pay."
        return ""
    full, half = (percent(gain.value / before, 1) for gain in (found.full, found.half))
    rows = f"the {count(found.rows)} rows of the sample" if sampled else f"your {count(found.rows)} rows"
    start = f"With {rows} calibration is worth {full} of log loss"
    # The error of a fit falls as one over its rows: the next doubling brings half of what the last one brought.
    more = found.added.value / 2
    if found.half.value <= 0 or found.full.value + more >= before:
        return f"{start}; half of them would be too few, so more are likely to help."
    if found.added.low > 0:
        if more < LITTLE * found.full.value:
            return f"{start}; half of them would give {half}, and more would bring little."
        return (
            f"{start}; half of them would give {half}, and twice as many may give about "
            f"{percent((found.full.value + more) / before, 1)}."
        )
    if found.added.high / 2 < LARGE * found.full.value:
        return f"{start}; half of them would give about as much ({half}), so more would bring little."
    return f"{start}; half of them gave {half}, a difference that may be chance: whether more would help is open."


def why_chosen(recommended: str, wanted: str | None, compared: Sequence[str]) -> str:
    """Why this method is the one that the report recommends.

    Examples
    --------
    >>> why_chosen("ts", None, ["ts", "auto"])
    'ts is better than the default method, auto, beyond chance.'
    """
    if wanted is not None:
        return f"{wanted} was asked for."
    if recommended == DEFAULT:
        return f"{DEFAULT} is the default method, and no other is better beyond chance."
    if DEFAULT in compared:
        return f"{recommended} is better than the default method, {DEFAULT}, beyond chance."
    return f"The default method, {DEFAULT}, is not among those compared."


def next_steps(judged: Verdict, recommended: str, arguments: Sequence[str], segments: str = "") -> list[Step]:
    """What to do, with commands that can be pasted into a shell; `segments` names a column whose segments stay off."""
    words = " ".join(shlex.quote(word) for word in arguments) or "PREDICTIONS --label LABEL"
    corrected = f" --segments {shlex.quote(segments)}" if segments else ""
    fit = f"calibrant fit {words} --method {shlex.quote(recommended)}{corrected} -o calibrator.json"
    if judged.tone == "good":
        return [
            Step("Use the probabilities as they are, and look again when the data or the model change:"),
            Step("With other predictions", f"calibrant report {words} -o report.html"),
            Step("Calibration does little here; if you want it anyway", fit),
        ]
    return [
        Step(_learn(segments), fit),
        Step(
            "Apply it to new predictions of the same model", "calibrant apply calibrator.json NEW.csv -o CALIBRATED.csv"
        ),
        Step("Check it on rows that were not used here", "calibrant evaluate CALIBRATED.csv --label LABEL --ci"),
    ]


def _learn(segments: str) -> str:
    learn = "Learn the calibrator from all these rows"
    return f"{learn}, corrected in each {segments}: some stay off with one for all" if segments else learn


def steps_in_python(recommended: str, segments: str = "") -> list[Step]:
    """What to do, as Python; `segments` names a column whose segments stay off."""
    fit, beside = f'calibrant.get_calibrator("{recommended}").fit(p, y)', ""
    if segments:
        fit, beside = (
            f'calibrant.SegmentedCalibrator("{recommended}").fit(p, y, segments=group)',
            ", segments=group_new",
        )
    return [
        Step(_learn(segments), f"calibrator = {fit}"),
        Step("See what it found", "print(calibrator.summary())"),
        Step("Apply it to new predictions of the same model", f"calibrated = calibrator.predict_proba(p_new{beside})"),
        Step("Keep it", 'calibrant.save(calibrator, "calibrator.json")'),
    ]
