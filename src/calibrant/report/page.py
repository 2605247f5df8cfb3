"""The report as one HTML page that loads nothing: styles inside, figures as SVG inside."""

from __future__ import annotations

from calibrant.report.data import Report
from calibrant.report.layout import fill
from calibrant.report.sections import opening, sections_of
from calibrant.report.side_by_side import compared


def render(*reports: Report) -> str:
    """The page of one report, or of several side by side, as text."""
    parts = [sections_of(report) for report in reports]
    shown = [
        {
            "r": report,
            "opening": opening(report),
            "parts": parts[place - 1],
            "prefix": f"report-{place}-" if len(reports) > 1 else "",
        }
        for place, report in enumerate(reports, 1)
    ]
    sections = [section for several in parts for section in several]
    rows = compared(reports) if len(reports) > 1 else ()
    return fill("page.html.j2", sections, reports=shown, version=reports[0].version, compared=rows)
