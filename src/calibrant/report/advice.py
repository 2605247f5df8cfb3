"""Whether there is enough to tell what calibration gains, what more rows would add, and what to do next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from calibrant.calibrators.registry import DEFAULT
from calibrant.metrics.result_types import Estimate
from calibrant.numerals import amount, class_text, count, number, percent, signed, span
from calibrant.report.data import Lack, Learning, MethodRow, NextStep, Source, Verdict
from calibrant.sample import Sample

#: Independent observations, groups, and observations outside the most frequent class from which on gains are told:
#: with fewer, intervals of means that come from resampling are too short.
FEWEST_ROWS = 50
FEWEST_GROUPS = 20
FEWEST_OF_CLASS = 10
#: Share of the gain below which what more rows bring is called little, and above which it could matter.
LITTLE = 0.1
LARGE = 0.2

NOTHING_GAINED = "No method is better than no calibration, beyond chance."
AS_THEY_ARE = "Use the probabilities unchanged, and check again when the data or the model change"


def lacking(data: Sample, names: tuple[str, ...]) -> Lack | None:
    """What keeps the gain of calibration from being told; None if nothing does."""
    gain = "too few to tell what calibration would gain"
    if data.groups is not None and data.units < FEWEST_GROUPS:
        # Groups of unequal size tell less than their number.
        equal = "" if data.n_groups < FEWEST_GROUPS else f", worth {count(data.units)} of equal size,"
        groups = amount(data.n_groups, "group")
        return Lack("groups", f"{groups}{equal} {_are(data.n_groups)} {gain}: at least {FEWEST_GROUPS} are needed.")
    if data.total < FEWEST_ROWS:
        return Lack("rows", f"{data} {_are(data.n_rows)} {gain}: at least {FEWEST_ROWS} are needed.")
    most = int(np.argmax(data.class_counts))
    others = data.total - float(data.class_counts[most])
    if others >= FEWEST_OF_CLASS:
        return None
    what = class_text(names[most])
    if not others:
        needed = f"at least {FEWEST_OF_CLASS} rows of another class are needed"
        return Lack("one class", f"All rows belong to {what}: {needed} to tell what calibration would gain.")
    which = f"of {class_text(names[1 - most])}" if len(names) == 2 else f"of classes other than {what}"
    rows = f"{amount(others, 'row')} {which}"
    likely = f"{count(_rounded(FEWEST_OF_CLASS * data.total / others))} rows like these"
    return Lack(
        "classes", f"{rows} {_are(others)} {gain}: at least {FEWEST_OF_CLASS} are needed, which takes about {likely}."
    )


def rarely_seen(data: Sample) -> str:
    """A sentence on classes that are too rare to be judged one by one; nothing if there are none."""
    few = int((data.class_counts < FEWEST_OF_CLASS).sum())
    if data.n_classes == 2 or not few:
        return ""
    have = "1 class has" if few == 1 else f"{few:,} of {data.n_classes:,} classes have"
    return f"{have} fewer than {FEWEST_OF_CLASS} rows, too few to judge {'it' if few == 1 else 'them'} alone."


def _are(number: float) -> str:
    return "is" if number == 1 else "are"


def _rounded(rows: float) -> float:
    """A number of rows to two digits, upwards."""
    unit = 10.0 ** max(math.floor(math.log10(rows)) - 1, 0)
    return math.ceil(rows / unit) * unit


def gain_in_words(gain: MethodRow, saved: Estimate, before: float) -> str:
    """What calibration changes, on rows it was not fitted to."""
    share = f"{percent(saved.level, 0)} interval"
    relative = 100 * saved.value / before if before > 0 else 0.0
    if saved.low > 0:
        # A gain that is proven must not read "from 0.017 to 0.017".
        digits = next((d for d in range(3, 6) if number(before, d) != number(gain.log_loss, d)), 6)
        losses = f"from {number(before, digits)} to {number(gain.log_loss, digits)}"
        return (
            f"Calibration with {gain.name} lowers log loss {losses}, "
            f"by {number(relative, 1)}% ({share} of the difference {span(saved)}), on rows that took no part in its "
            f"fit or in any choice, and with fits to {percent(gain.fitted, 0)} of the rows."
        )
    if saved.high < 0:
        by = f"{number(-relative, 1)}%" if relative < 0 else f"{-saved.value:.2g}"
        return f"Calibration with {gain.name} would make log loss worse here, by {by}."
    change = Estimate(-saved.value, -saved.high, -saved.low, saved.level)
    return (
        f"Calibration with {gain.name} changes log loss by {signed(change.value)}, no more than chance explains "
        f"({share} {span(change)})."
    )


def worth_of_rows(found: Learning, before: float, *, sampled: bool = False) -> str:
    """What the rows are worth to calibration, and whether more would help; nothing where there is nothing to tell.

    `before` is the log loss of the predictions; `sampled` rows are not all that there are.
    """
    if found.full.low <= 0:
        if found.added.low > 0 and found.double.value > 0 and found.full.high >= 0:
            return "Half of the rows would do worse, so calibration may help with more rows."
        return ""
    half, full, double = (gain.value for gain in (found.half, found.full, found.double))
    rows = f"the {found.size} of the sample" if sampled else f"all {found.size}"
    start = f"With {rows} calibration saves about {percent(full / before, 1)} of log loss"
    if half <= 0 or double >= before:
        return f"{start}; half of them would be too few, so more are likely to help."
    gave = percent(half / before, 1)
    if found.added.low > 0:
        if double - full < LITTLE * full:
            return f"{start}; half of them would give {gave}, and more rows would add little."
        return f"{start}; half of them would give {gave}, and twice as many about {percent(double / before, 1)}."
    if (double - full) / found.added.value * found.added.high < LARGE * full if found.added.value > 0 else True:
        return f"{start}; half of them would give about as much ({gave}), so more rows would add little."
    return (
        f"{start}; half of them gave {gave}, a difference that may be chance: whether more rows would help is unclear."
    )


def why_chosen(
    recommended: str, wanted: str | None, compared: Sequence[str], *, lack: Lack | None = None, gains: bool = True
) -> str:
    """Why this method is the one that the report recommends.

    `lack` keeps methods from being compared. `gains`: the method is better than none, beyond chance.
    """
    if wanted is not None:
        return f"{wanted} was asked for."
    if lack is not None:
        return f"No method is recommended: {lack.why}."
    if recommended == "none":
        return NOTHING_GAINED
    if recommended == DEFAULT:
        start = f"{DEFAULT} is the default method, and no other is better beyond chance, given how many were compared."
        return start if gains else f"{NOTHING_GAINED} {DEFAULT}, the default method, does no harm."
    if DEFAULT in compared:
        return f"{recommended} is better than the default method, {DEFAULT}, beyond chance."
    there = f"the default method, {DEFAULT}, is not among those compared"
    return f"{recommended} is better than no calibration, beyond chance; {there}."


def next_steps(
    judged: Verdict, recommended: str, source: Source, *, segments: str = "", lack: Lack | None = None
) -> list[NextStep]:
    """What to do, as commands for a shell or as Python; `segments` names a column whose segments stay off."""
    fit, again, after = (_in_python if source.in_python else _in_a_shell)(recommended, source, segments)
    if recommended == "none" and lack is not None:
        needed = "rows of another class" if lack.of == "one class" else "more rows"
        then = ", then run this again" if again else ""
        return [NextStep(f"Collect {needed} before you calibrate{then}", again)]
    if recommended == "none" and not segments:
        return [NextStep(AS_THEY_ARE, again)]
    if judged.tone == "good":
        anyway = NextStep("Calibration does little here; if you want it anyway", fit)
        return [NextStep(AS_THEY_ARE, again), anyway, *(after if source.in_python else ())]
    learn = "Learn the calibrator from all these rows"
    if segments:
        learn += f", corrected in each {segments}: with one calibrator for all, some stay off"
    return [NextStep(learn, fit), *after]


def _in_a_shell(recommended: str, source: Source, segments: str) -> tuple[str, str, list[NextStep]]:
    """The commands that fit and report, and what follows the fit."""
    words = shlex.join(source.arguments) or "PREDICTIONS --label LABEL"
    corrected = f" --segments {shlex.quote(segments)}" if segments else ""
    check = " --label LABEL" if source.check is None else f" {shlex.join(source.check)}".rstrip()
    ending = Path(source.name).suffix or ".csv"
    apply = f"calibrant apply calibrator.json NEW{ending} -o CALIBRATED{ending}"
    after = [
        NextStep("Apply it to new predictions of the same model", apply),
        NextStep("Check it on rows that were not used here", f"calibrant evaluate CALIBRATED{ending}{check} --ci"),
    ]
    fit = f"calibrant fit {words} --method {shlex.quote(recommended)}{corrected} -o calibrator.json"
    return fit, f"calibrant report {words} -o report.html", after


def _in_python(recommended: str, source: Source, segments: str) -> tuple[str, str, list[NextStep]]:
    """The line that fits, none that reports, and what follows the fit."""
    settings = "".join(f", {name}={name}" for name in source.arguments if name == "classes")
    given = "".join(f", {name}={name}" for name in source.arguments if name != "classes")
    fit, beside = f'calibrant.get_calibrator("{recommended}"{settings}).fit(y_prob, y_true{given})', ""
    if segments:
        made = f'calibrant.SegmentedCalibrator("{recommended}"{settings})'
        fit, beside = f"{made}.fit(y_prob, y_true, segments=segments{given})", ", segments=segments_new"
    apply = f"calibrated = calibrator.predict_proba(y_prob_new{beside})"
    after = [
        NextStep("See what it found", "print(calibrator.summary())"),
        NextStep("Apply it to new predictions of the same model", apply),
        NextStep("Keep it", 'calibrant.save(calibrator, "calibrator.json")'),
    ]
    return f"calibrator = {fit}", "", after
