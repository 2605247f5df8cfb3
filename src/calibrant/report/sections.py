"""The opening of a report and its sections, each a small function of the report's tables.

A section says what it finds in a note that can be read while it is folded. To add one, write a function here, put it
into `SECTIONS` and a template of its name into `templates/sections`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np

from calibrant.calibrators.registry import DEFAULT
from calibrant.metrics.murphy import MurphyDiagram, beyond_chance
from calibrant.numerals import amount, class_text, count, number, percent
from calibrant.plots import report_figures as figures
from calibrant.plots.svg_reliability import banded, binary_curve, panel, reliability
from calibrant.report.data import Correction, Report
from calibrant.report.layout import SAVING, KeyNumber, Opening, Section, drawn, saving
from calibrant.report.report_tables import PANELS
from calibrant.report.verdict_words import ALPHA

#: Single corrections that are listed, and classes of the table that does not fold.
LISTED = 8
WORST = 12


def opening(report: Report) -> Opening:
    """Three numbers and one picture: what is claimed, what happens, and what calibration would save."""
    two = len(report.classes) == 2
    what = class_text(report.classes[1])
    counts, metric = report.faults.frequencies, {row.name: row.before.value for row in report.metrics}
    seen = float(counts.observed[1] / counts.total) if two else metric["accuracy"]
    claimed = float(counts.expected[1] / counts.total) if two else seen + metric["confidence_gap"]
    numbers = (
        KeyNumber("predicted" if two else "claims to be right", percent(claimed), f"{what} on average" if two else ""),
        KeyNumber("actually" if two else "is right", percent(seen), what if two else "of the time"),
        _saving(report),
    )
    happens = f"are actually {what}" if two else "are right"
    weight = report.bands.before.weight
    rows = " to ".join(dict.fromkeys(count(float(end)) for end in (weight.min(), weight.max())))
    caption = (
        f"Rows in order of their {'probability' if two else 'confidence'}, in bands of {rows}: how many are expected "
        f"to be {what if two else 'right'}, and how many {happens}, with {percent(report.level, 0)} intervals. "
        "Calibrated predictions lie on the dashed line."
    )
    title = f"Expected against observed in bands: {what if two else 'the predicted class'}"
    picture = drawn(banded(report.bands.before, report.bands.after, report.bands.axis, title))
    return Opening(report.verdict.tone, report.verdict.headline, numbers, picture, caption)


def _saving(report: Report) -> KeyNumber:
    if report.saved is None:
        return KeyNumber(SAVING, "?", _not_shown(report))
    return saving(report.parts[0].calibration, report.saved)


def _not_shown(report: Report) -> str:
    return "no method could be fitted" if report.lack is None else report.lack.why


def trust(report: Report) -> Section | None:
    """Whether the confidence in answers can be trusted, and where to abstain."""
    if report.trust is None:
        return None
    proven = [sentence for sentence in report.trust.sentences if sentence.startswith("For ")]
    note = ". ".join([report.trust.headline, *proven[-1:]])
    return Section("trust", "Can the confidence be trusted?", note)


def in_words(report: Report) -> Section:
    """The evidence in sentences."""
    return Section("words", "In words", "what was found, and how certain it is")


def next_steps(report: Report) -> Section:
    return Section("next", "What to do next", report.steps[0].text)


def _how_many(some: int, every: int) -> str:
    return f"{some or 'none'} of {every} {'are' if some > 1 else 'is'}"


def bands(report: Report) -> Section:
    table, p_values = report.bands.before, report.bands.p_values
    off = int(np.sum(p_values < ALPHA / len(table)))
    note = f"{_how_many(off, len(table))} off beyond chance"
    title = "By score band" if len(report.classes) == 2 else "By band of confidence"
    return Section("bands", title, note, {"alpha": ALPHA, "off": off})


def metrics(report: Report) -> Section:
    row = report.metrics[0]
    fitted = report.shown != "none"
    then = f" to {number(row.after.value)}" if fitted else ""
    return Section("metrics", "Before and after" if fitted else "Metrics", f"log loss {number(row.before.value)}{then}")


def faults(report: Report) -> Section:
    """What is lost to each kind of fault."""
    # Without a method the table has no row for the rest.
    shown = {name: part for name, part in report.faults.parts.items() if name != "rest" or report.shown != "none"}
    proven = [name for name, part in shown.items() if part.p_value < ALPHA]
    largest = max(proven, key=lambda name: shown[name].gain, default="")
    mostly = {"means": "mostly the means", "slope": "mostly the slope", "rest": "neither means nor slope"}
    words = {"": "nothing proven", "means": "the means are off", "slope": "the slope is off", "rest": mostly["rest"]}
    note = mostly[largest] if report.lack is None and largest == report.faults.largest else words[largest]
    return Section("faults", "What is wrong", note, {"largest": largest})


def reliability_diagrams(report: Report) -> Section:
    """Diagrams without bins, and the parts of scores."""
    two, fitted = len(report.classes) == 2, report.shown != "none"
    kind = f"of {class_text(report.classes[1])}" if two else "of the predicted class"
    before, after = report.reliability_before, report.reliability_after
    axis = before.corp.axis
    # A kernel of one width is nothing for log-odds.
    views = [("Kernel-smoothed", "kernel", None if axis.log_odds else axis), ("Calibration belt", "belt", axis)]
    when = [("before", before.corp)] + ([("after", after.corp)] if fitted else [])
    values = {
        "before": drawn(reliability(before.corp, f"Reliability {kind} before", after=False)),
        "after": drawn(reliability(after.corp, f"Reliability {kind} after", after=True)) if fitted else "",
        "views": [
            drawn(panel(title, getattr(before, name), getattr(after, name) if fitted else None, shared))
            for title, name, shared in views
        ],
        "scores": [
            (title, name, curve.parts[loss])
            for title, loss in (("Brier score", "brier"), ("Log loss", "log_loss"))
            for name, curve in when
        ],
    }
    return Section("reliability", "Reliability without bins", "three other pictures of the same rows", values)


def decomposition(report: Report) -> Section | None:
    """What calibration can improve, and what it cannot."""
    if report.shown == "none":
        return None
    bars = [
        drawn(figures.parts_bar(part.title, part.total.value, part.calibration.value, part.refinement.value))
        for part in report.parts
    ]
    part = report.parts[0]
    share = percent(max(part.calibration.value, 0.0) / part.total.value, 0) if part.total.value > 0 else "0%"
    note = f"calibration can remove {share} of log loss, only a better model the rest"
    return Section("decomposition", "What calibration can improve, and what it cannot", note, {"parts": bars})


def methods(report: Report) -> Section | None:
    if len(report.methods) < 2:
        return None
    gains = {row.name: row.gain_log_loss for row in report.methods if row.gain_log_loss is not None}
    standing = "the default" if report.verdict.tone == "good" and report.recommended == DEFAULT else "recommended"
    values = {"methods": drawn(figures.method_gains(gains, report.recommended)), "standing": standing}
    # The command prints a loss of the default method alone.
    values["default"] = DEFAULT if DEFAULT in gains else ""
    note = "none is recommended" if report.recommended == "none" else f"{report.recommended} is {standing}"
    return Section("methods", "What each method would gain", note, values)


def confusion(report: Report) -> Section | None:
    """Corrections between classes."""
    found = report.correction
    if found is None:
        return None
    confused = most_confused(found)
    matrix = ""
    if confused:
        names = [report.classes[column] for column in confused]
        matrix = drawn(figures.correction_matrix(found.matrix[np.ix_(confused, confused)], names))
    listed = largest_corrections(found, report.classes)
    note = f"most between {listed[0][0]} and {listed[0][1]}" if listed else "none beyond chance"
    values = {"matrix": matrix, "confused": len(confused), "listed": listed}
    return Section("confusion", "What is corrected between classes", note, values)


def binary_map(report: Report) -> Section | None:
    """Where probabilities of the second class go."""
    curve = report.binary_map
    if curve is None:
        return None
    places = [int(np.argmin(np.abs(curve.before - at))) for at in (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)]
    mapped = [
        (
            float(curve.before[place]),
            float(curve.after[place]),
            None if curve.low is None or curve.high is None else (float(curve.low[place]), float(curve.high[place])),
        )
        for place in places
    ]
    half = mapped[4]
    note = f"{percent(half[0], 0)} becomes {percent(half[1])}"
    band = None if curve.low is None or curve.high is None else (curve.low, curve.high)
    values = {"map": drawn(binary_curve(curve.before, curve.after, band)), "mapped": mapped, "by": curve.by}
    return Section("map", "What the probabilities should have been", note, values)


def thresholds(report: Report) -> Section | None:
    """Net benefit and Murphy diagram."""
    found = report.thresholds
    if found is None:
        return None
    fitted = found.after is not None
    values = {
        "benefit": drawn(figures.net_benefit(found.before, found.after)),
        "murphy": drawn(figures.murphy(found.murphy, fitted=fitted)),
        "dominance": dominance(found.murphy) if fitted else "",
    }
    useful = (found.after or found.before).useful
    note = f"acting on {class_text(report.classes[1])} beats acting on all and on none {useful}"
    return Section("thresholds", "At any threshold", note, values)


def dominance(found: MurphyDiagram) -> str:
    """Whether calibrated predictions are at least as good for everybody, whatever the costs."""
    said = {
        "first": "calibrated predictions are nowhere worse",
        "second": "calibrated predictions are nowhere better",
        "equal": "calibration changes no score",
        "neither": f"calibrated predictions are worse at {percent(found.worse, 0)} of all thresholds",
    }[found.dominance]
    # Dominance is of all thresholds, the band of those that are drawn.
    drawn_at = "" if found.dominance == "equal" else f"; at the thresholds drawn, {beyond_chance(found)}"
    return f"On these rows {said}{drawn_at}."


def decisions(report: Report) -> Section | None:
    """What calibration changes at the costs that were given."""
    if report.rule is None:
        return None
    title, rule = "Decisions", report.rule.describe()
    if report.decisions is None:
        return Section("decisions", title, _not_shown(report), {"rule": rule, "found": None, "ratios": []})
    found, chosen = report.decisions.found, report.decisions.chosen
    share = percent(found.changed / found.total)
    ratios = [
        {"ratio": f"{row.ratio:.4g}", "text": f"Act at a probability of {percent(row.threshold)} or more. {row.found}"}
        for row in report.decisions.ratios
    ]
    rows = [{**said, "row": row} for said, row in zip(ratios, report.decisions.ratios)]
    # In a page, data end at the first "</".
    data = drawn(json.dumps(ratios, ensure_ascii=False).replace("<", "\\u003c"))
    values = {"rule": rule, "found": str(found), "chosen": chosen, "ratios": rows, "data": data}
    saved = found.saved
    proven = "saves" if saved.low > 0 else "costs" if saved.high < 0 else ""
    effect = f"calibration {proven} {abs(saved.value):.3g} per decision" if proven else "no saving beyond chance"
    note = f"{share} change, {effect}" if found.changed else "none changes"
    return Section("decisions", title, note, values, "decisions.js" if ratios else "")


def classes(report: Report) -> Section:
    """Class by class, those first that are off beyond chance, of these the worst; and panels of those that differ."""
    k, later = len(report.classes), report.shown != "none"
    alpha = ALPHA / k
    rows = sorted(report.class_rows, key=lambda row: (row.before.p_value >= alpha, -row.curve_before.error))
    rows = list(report.class_rows) if k == 2 else rows
    panels = [
        drawn(panel(f"{row.name}, {amount(row.observed, 'row')}", row.curve_before, row.curve_after if later else None))
        for row in rows
        if row.differs
    ]
    off = sum(row.before.p_value < alpha for row in rows)
    note = f"{_how_many(off, k)} predicted too often or too rarely"
    said = differing_classes(len(panels), min(k, PANELS), k)
    values = {"first": rows[:WORST], "others": rows[WORST:], "panels": panels, "shown": said, "alpha": ALPHA}
    return Section("classes", "Class by class", note, values)


def differing_classes(differ: int, judged: int, k: int) -> str:
    """Which classes have a diagram of their own."""
    of = "all classes" if judged == k else f"the {judged} classes with the largest miscalibration"
    if not differ:
        return f"No diagrams: of {of} none is off beyond chance for {k} classes."
    if differ == judged == k:
        return "Before calibration, all classes are off beyond chance."
    of = f"{judged} classes" if judged == k else of
    return (
        f"Shown are {differ} of {'the ' if judged == k else ''}{of}: those that are off beyond chance for {k} classes."
    )


def segments(report: Report) -> Section | None:
    if not report.segment_rows:
        return None
    off = sum(row.off_before for row in report.segment_rows)
    note = f"{_how_many(off, len(report.segment_rows))} off beyond chance"
    return Section("segments", f"By {report.segment_name}", note)


def grades(report: Report) -> Section | None:
    found = report.grades
    if found is None:
        return None
    off = sum(light in ("yellow", "red") for light in found.light)
    note = f"{_how_many(off, len(found.grades))} yellow or red"
    columns = {name: column.tolist() for name, column in found.to_dict().items()}
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    values = {"picture": drawn(figures.grade_rates(found)), "rows": rows, "words": found.summary().split("\n")}
    return Section("grades", "By grade", note, values)


SECTIONS: tuple[Callable[[Report], Section | None], ...] = (
    trust,
    in_words,
    next_steps,
    bands,
    metrics,
    faults,
    reliability_diagrams,
    methods,
    decomposition,
    confusion,
    binary_map,
    thresholds,
    decisions,
    classes,
    segments,
    grades,
)


def sections_of(report: Report) -> list[Section]:
    return [section for make in SECTIONS if (section := make(report)) is not None]


def most_confused(correction: Correction | None) -> list[int]:
    """Columns of the classes whose matrix is drawn: those with the largest proven corrections, in their order.

    All of a few classes; none if no correction is proven, since a matrix of chance would look like a finding.
    """
    if correction is None or not correction.proven.any():
        return []
    size = np.where(correction.proven, np.abs(correction.matrix), 0.0)
    largest = np.maximum(size.max(axis=0), size.max(axis=1))
    return np.sort(np.argsort(-largest, kind="stable")[: figures.CELLS]).tolist()


def largest_corrections(correction: Correction, names: Sequence[str]) -> list[tuple[str, str, float]]:
    """The largest proven corrections between different classes: corrected class, class that causes it, strength."""
    off = np.where(correction.proven, correction.matrix, 0.0)
    order = np.argsort(-np.abs(off), axis=None)[:LISTED]
    places = [divmod(int(place), len(names)) for place in order]
    return [(names[i], names[j], float(off[i, j])) for i, j in places if off[i, j]]
