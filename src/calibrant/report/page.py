"""The report as one HTML page that loads nothing: styles inside, figures as SVG inside, no script at all.

Everything from the data passes through the template's escaping or that of the figures; a content security policy
in the page forbids scripts and the network besides.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from calibrant import numerals
from calibrant.optional import require
from calibrant.plots import report as figures
from calibrant.report.data import Correction, Report
from calibrant.report.words import ALPHA, p_text

TEMPLATE = Path(__file__).parent / "template.html.j2"
#: Classes with a diagram of their own, those with the largest errors first.
PANELS = 12
#: Single corrections that are listed.
LISTED = 8


def render(report: Report) -> str:
    """The page as text."""
    jinja2 = require("jinja2", extra="cli")
    markup = require("markupsafe", extra="cli").Markup
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters.update(
        p=p_text,
        **{name: getattr(numerals, name) for name in ("number", "signed", "percent", "span", "count", "excess")},
    )
    drawn = {name: [markup(svg) for svg in value] for name, value in _figures(report).items()}
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return str(template.render(r=report, figures=drawn, **_tables(report)))


def _figures(report: Report) -> dict[str, list[str]]:
    binary = len(report.classes) == 2
    kind = f"of {report.classes[1]}" if binary else "of the predicted class"
    worst = sorted(report.class_rows, key=lambda row: -row.table_before.expected_error)[:PANELS]
    gains = {row.name: row.gain_log_loss for row in report.methods if row.gain_log_loss is not None}
    curve, correction = report.binary_map, report.correction
    return {
        "before": [figures.reliability(report.reliability_before, f"Reliability {kind} before", after=False)],
        "after": [figures.reliability(report.reliability_after, f"Reliability {kind} after", after=True)],
        "classes": []
        if binary
        else [figures.class_panel(row.name, row.table_before, row.table_after) for row in worst],
        "methods": [figures.method_gains(gains, report.recommended)],
        "parts": [
            figures.parts_bar(part.title, part.total.value, part.calibration.value, part.refinement.value)
            for part in report.parts
        ],
        "matrix": [] if correction is None else [figures.correction_matrix(correction.matrix, report.classes)],
        "map": [] if curve is None else [figures.binary_curve(curve.before, curve.after)],
    }


def _tables(report: Report) -> dict[str, Any]:
    mapped = []
    if report.binary_map is not None:
        for share in (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99):
            place = int(np.argmin(np.abs(report.binary_map.before - share)))
            mapped.append((share, float(report.binary_map.after[place])))
    return {
        "listed": [] if report.correction is None else largest_corrections(report.correction, report.classes),
        "mapped": mapped,
        "panels": PANELS,
        "alpha": ALPHA,
    }


def largest_corrections(correction: Correction, names: tuple[str, ...]) -> list[tuple[str, str, float]]:
    """The largest corrections between different classes: corrected class, class that causes it, strength."""
    off = correction.matrix * (1 - np.eye(len(names)))
    order = np.argsort(-np.abs(off), axis=None)[:LISTED]
    places = [divmod(int(place), len(names)) for place in order]
    return [(names[i], names[j], float(off[i, j])) for i, j in places if off[i, j]]
