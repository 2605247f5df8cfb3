"""What the numbers of a report mean, in sentences, and what to do next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence

from calibrant.metrics.intervals import Estimate
from calibrant.report.data import MethodRow, MetricRow, Step, Verdict

#: Significance at which calibration is called into question.
ALPHA = 0.05


def number(value: float, digits: int = 4) -> str:
    """A number for a table, with a minus sign that is one; nothing for NaN.

    Examples
    --------
    >>> number(0.12345), number(-0.5, 2), number(float("nan"))
    ('0.1235', '−0.50', '')
    """
    if math.isnan(value):
        return ""
    if abs(value) < 0.5 * 10**-digits:
        value = 0.0
    return f"{value:.{digits}f}".replace("-", "−")


def signed(value: float, digits: int = 4) -> str:
    """A difference for a table.

    Examples
    --------
    >>> signed(0.01, 2), signed(-0.01, 2), signed(0.0, 2)
    ('+0.01', '−0.01', '0.00')
    """
    text = number(value, digits)
    return "+" + text if value > 0 and float(text) != 0 else text


def percent(value: float, digits: int = 1) -> str:
    """A share as a percentage.

    Examples
    --------
    >>> percent(0.8125)
    '81.2%'
    """
    return "" if math.isnan(value) else number(100 * value, digits) + "%"


def span(estimate: Estimate, digits: int = 4) -> str:
    """The ends of an interval."""
    return "" if math.isnan(estimate.low) else f"{number(estimate.low, digits)} to {number(estimate.high, digits)}"


def p_text(p: float) -> str:
    """A p-value, as exact as the draws allow.

    Examples
    --------
    >>> p_text(0.001), p_text(0.2345)
    ('p = 0.001', 'p = 0.23')
    """
    return f"p = {p:.2g}"


def verdict(n_rows: int, metrics: Mapping[str, MetricRow], p_value: float, gain: MethodRow, level: float) -> Verdict:
    """The verdict from the mean over-confidence, the test of calibration and the gain of the recommended method."""
    gap, accuracy = metrics["confidence_gap"].before, metrics["accuracy"].before
    assert gain.gain_log_loss is not None
    improvement = gain.gain_log_loss
    off = p_value < ALPHA
    leans = gap.low > 0 or gap.high < 0
    share = f"{percent(level, 0)} interval"
    confidence = percent(accuracy.value + gap.value)
    how = "over-confident" if gap.value > 0 else "under-confident"
    points = f"{number(100 * abs(gap.value), 1)} percentage points"
    ends = sorted((100 * abs(gap.low), 100 * abs(gap.high)))
    sentences = [
        f"On {n_rows:,} rows the predictions claim to be right {confidence} of the time and are right "
        f"{percent(accuracy.value)} of the time."
    ]
    if not off and not (leans and improvement.low > 0):
        headline = "Nothing speaks against these probabilities"
        sentences.append(
            f"A test of calibration finds no evidence against them ({p_text(p_value)}). That is no proof: small faults "
            "stay hidden in few rows."
        )
        tone = "good"
    elif leans:
        headline = f"The probabilities are {how} by {points}"
        sentences.append(
            f"That is {points} too {'much' if gap.value > 0 else 'little'} ({share} {number(ends[0], 1)} to "
            f"{number(ends[1], 1)}); a test of calibration gives {p_text(p_value)}."
        )
        tone = "bad" if abs(gap.value) >= 0.02 else "fair"
    else:
        headline = "The probabilities are off, though not too confident on average"
        sentences.append(
            f"A test of calibration rejects them ({p_text(p_value)}): some classes or some ranges of confidence are "
            "predicted too often and others too rarely, which cancels in the mean."
        )
        tone = "fair"
    before = metrics["log_loss"].before.value
    relative = 100 * improvement.value / before if before > 0 else 0.0
    if improvement.low > 0:
        sentences.append(
            f"Calibration with {gain.name} lowers log loss from {number(before, 3)} to {number(gain.log_loss, 3)}, "
            f"by {number(relative, 1)}% ({share} of the difference {span(improvement)}), on rows it was not fitted to."
        )
    elif improvement.high < 0:
        sentences.append(f"Calibration with {gain.name} would make log loss worse here, by {number(-relative, 1)}%.")
    else:
        sentences.append(
            f"Calibration with {gain.name} changes log loss by {signed(-improvement.value)}, no more than chance "
            f"explains ({share} {span(Estimate(-improvement.value, -improvement.high, -improvement.low, level))})."
        )
    return Verdict(tone, headline, tuple(sentences))


def next_steps(judged: Verdict, recommended: str, arguments: Sequence[str]) -> list[Step]:
    """What to do, with commands that can be pasted into a shell."""
    words = " ".join(shlex.quote(word) for word in arguments) or "PREDICTIONS --label LABEL"
    fit = f"calibrant fit {words} --method {shlex.quote(recommended)} -o calibrator.json"
    if judged.tone == "good":
        return [
            Step("Use the probabilities as they are, and look again when the data or the model change:"),
            Step("With other predictions", f"calibrant report {words} -o report.html"),
            Step("Calibrating does little here; if you want it all the same", fit),
        ]
    return [
        Step("Learn the calibrator from all these rows", fit),
        Step(
            "Apply it to new predictions of the same model", "calibrant apply calibrator.json NEW.csv -o CALIBRATED.csv"
        ),
        Step("Check it on rows that were not used here", "calibrant evaluate CALIBRATED.csv --label LABEL --ci"),
    ]
