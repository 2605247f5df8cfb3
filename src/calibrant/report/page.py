"""The report as one HTML page that loads nothing: styles inside, figures as SVG inside, no script at all.

Everything from the data passes through the template's escaping or that of the figures; a content security policy
in the page forbids scripts and the network besides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import numerals
from calibrant.calibrators.registry import DEFAULT
from calibrant.optional import require
from calibrant.plots import report_figures as figures
from calibrant.plots.svg_reliability import binary_curve, panel, reliability
from calibrant.report.data import Correction, Report
from calibrant.report.reliability_views import PANELS
from calibrant.report.side_by_side import compared
from calibrant.report.verdict_words import ALPHA, p_text

TEMPLATES = Path(__file__).parent / "templates"
#: How numbers and classes are written.
FILTERS = ("number", "signed", "percent", "span", "count", "excess", "class_text")
#: Single corrections that are listed.
LISTED = 8


def render(*reports: Report) -> str:
    """The page of one report, or of several side by side, as text."""
    shown = [
        {
            "r": report,
            "figures": as_markup(_figures(report)),
            "tables": _tables(report),
            "prefix": f"report-{place}-" if len(reports) > 1 else "",
        }
        for place, report in enumerate(reports, 1)
    ]
    rows = compared(reports) if len(reports) > 1 else ()
    return fill("page.html.j2", reports=shown, version=reports[0].version, compared=rows)


def as_markup(drawn: Mapping[str, Sequence[str]]) -> dict[str, list[Any]]:
    """Figures, which are SVG, as what a template does not escape."""
    markup = require("markupsafe", extra="cli").Markup
    return {name: [markup(svg) for svg in value] for name, value in drawn.items()}


def fill(template: str, **values: Any) -> str:
    """A page of this package's style; all values are escaped but those that `as_markup` made."""
    jinja2 = require("jinja2", extra="cli")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        p=p_text,
        **{name: getattr(numerals, name) for name in FILTERS},
    )
    style = as_markup({"style": [(TEMPLATES / "style.css").read_text(encoding="utf-8")]})["style"][0]
    return str(environment.get_template(template).render(style=style, **values))


def _figures(report: Report) -> dict[str, list[str]]:
    binary = len(report.classes) == 2
    kind = f"of {numerals.class_text(report.classes[1])}" if binary else "of the predicted class"
    before, after = report.reliability_before, report.reliability_after
    worst = sorted(report.class_rows, key=lambda row: -row.curve_before.error)[:PANELS]
    gains = {row.name: row.gain_log_loss for row in report.methods if row.gain_log_loss is not None}
    curve, confused = report.binary_map, most_confused(report.correction)
    # All views of one event have one axis; only a kernel of one width is nothing for log-odds.
    axis = before.corp.axis
    even = None if axis.log_odds else axis
    # Without a method there is nothing that could be called after.
    later = after if report.shown != "none" else None
    views = (("Kernel-smoothed", "kernel", even), ("Calibration belt", "belt", axis), ("In bins", "bins", axis))
    return {
        "before": [reliability(before.corp, f"Reliability {kind} before", after=False)],
        "after": [] if later is None else [reliability(after.corp, f"Reliability {kind} after", after=True)],
        "views": [
            panel(title, getattr(before, name), None if later is None else getattr(later, name), shared)
            for title, name, shared in views
        ],
        "classes": []
        if binary
        else [panel(row.name, row.curve_before, None if later is None else row.curve_after) for row in worst],
        "methods": [figures.method_gains(gains, report.recommended)],
        "parts": [
            figures.parts_bar(part.title, part.total.value, part.calibration.value, part.refinement.value)
            for part in report.parts
        ],
        "matrix": _matrix(report, confused) if confused else [],
        "map": [] if curve is None else [binary_curve(curve.before, curve.after)],
    }


def _matrix(report: Report, confused: Sequence[int]) -> list[str]:
    assert report.correction is not None
    chosen = report.correction.matrix[np.ix_(confused, confused)]
    return [figures.correction_matrix(chosen, [report.classes[column] for column in confused])]


def _tables(report: Report) -> dict[str, Any]:
    mapped = []
    if report.binary_map is not None:
        for share in (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99):
            place = int(np.argmin(np.abs(report.binary_map.before - share)))
            mapped.append((share, float(report.binary_map.after[place])))
    when = [("before", report.reliability_before.corp)]
    if report.shown != "none":
        when.append(("after", report.reliability_after.corp))
    return {
        "listed": [] if report.correction is None else largest_corrections(report.correction, report.classes),
        "confused": len(most_confused(report.correction)),
        "mapped": mapped,
        "scores": [("Brier score", name, curve.parts["brier"]) for name, curve in when]
        + [("Log loss", name, curve.parts["log_loss"]) for name, curve in when],
        "standing": "the default" if report.verdict.tone == "good" and report.recommended == DEFAULT else "recommended",
        "panels": PANELS,
        "alpha": ALPHA,
    }


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
