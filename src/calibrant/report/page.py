"""The report as one HTML page that loads nothing, and several reports side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibrant.metrics.result_types import Estimate
from calibrant.report.data import Report
from calibrant.report.layout import fill
from calibrant.report.sections import opening, sections_of


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


class ComparedRow(NamedTuple):
    """One metric of several reports; `difference` is the last less the first, `apart` tells if it is beyond chance."""

    title: str
    estimates: tuple[Estimate, ...]
    difference: Estimate
    apart: bool


def compared(reports: Sequence[Report]) -> list[ComparedRow]:
    """The metrics that all reports have, of the unchanged predictions.

    The rows of two reports are taken as independent, so half the widths of their intervals add up like standard
    errors. For two models on the same rows that is on the safe side: their difference is known better than that.
    """
    tables = [{row.name: row for row in report.metrics} for report in reports]
    shared = [row for row in reports[0].metrics if all(row.name in table for table in tables)]
    rows = []
    for row in shared:
        estimates = tuple(table[row.name].before for table in tables)
        first, last = estimates[0], estimates[-1]
        value = last.value - first.value
        below = float(np.hypot(last.value - last.low, first.high - first.value))
        above = float(np.hypot(last.high - last.value, first.value - first.low))
        difference = Estimate(value, value - below, value + above, first.level)
        rows.append(ComparedRow(row.title, estimates, difference, difference.low > 0 or difference.high < 0))
    return rows
