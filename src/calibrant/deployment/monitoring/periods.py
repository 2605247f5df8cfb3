"""Batches that are named after a day, week, month, quarter or year: their words, their order, and which are missing.

Names are those of ISO 8601: 2026-03-14, 2026-W11, 2026-03, 2026-Q1 (which ISO lacks) and 2026. Any other text is a name
without a place in time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, timedelta

import numpy as np

from calibrant.text_table import list_names
from calibrant.typing import AnyArray

_HALVES = "January, February, March, April, May, June", "July, August, September, October, November, December"
_MONTHS = ", ".join(_HALVES).split(", ")
_FORMS = {
    "day": re.compile(r"(\d{4})-(\d\d)-(\d\d)"),
    "week": re.compile(r"(\d{4})-W(\d\d)"),
    "month": re.compile(r"(\d{4})-(\d\d)"),
    "quarter": re.compile(r"(\d{4})-Q([1-4])"),
    "year": re.compile(r"(\d{4})"),
}
#: Days from the first of a period into the next, however long this one is.
_INTO_NEXT = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}
#: Missing periods that are written out: as many as a sentence can hold.
_LISTED = 6


def place_in_time(name: str | None) -> tuple[str, date] | None:
    """How long the period of this name is, and its first day; None for other names."""
    for length, form in _FORMS.items():
        if found := form.fullmatch(name or ""):
            year, *rest = (int(text) for text in found.groups())
            try:
                if length == "week":
                    return length, date.fromisocalendar(year, rest[0], 1)
                month, day = [*rest, 1, 1][:2]
                return length, date(year, 3 * month - 2 if length == "quarter" else month, day)
            except ValueError:  # no such day, week, month or year
                return None
    return None


def period_of(day: date, length: str) -> str:
    """The name of the period that a day lies in."""
    if length == "week":
        year, week, _ = day.isocalendar()
        return f"{year:04}-W{week:02}"
    if length == "quarter":
        return f"{day.year:04}-Q{(day.month + 2) // 3}"
    return day.isoformat()[: {"day": 10, "month": 7, "year": 4}[length]]


def periods_of(dates: AnyArray, length: str) -> AnyArray:
    """The name of the period of each date."""
    days, places = np.unique(dates.astype("datetime64[D]"), return_inverse=True)
    return np.array([period_of(day, length) for day in days.tolist()], dtype=object)[places]


def in_words(first: str, last: str | None = None) -> str:
    """A period as a sentence has it, or the time from one to another."""
    if last not in (None, first):
        return f"{in_words(first)} to {in_words(str(last))}"
    found = place_in_time(first)
    if found is None:
        return f"batch {first}"
    year, *rest = re.split("-[WQ]?", first)
    if found[0] in ("day", "month"):
        words = [*(str(int(day)) for day in rest[1:]), _MONTHS[int(rest[0]) - 1], year]
        return " ".join(words)
    return f"{found[0]} {int(rest[0])} of {year}" if rest else year


def missing_periods(spans: Iterable[tuple[str | None, str | None]]) -> list[str]:
    """Periods between the first and the last that no span holds, as long as that of the latest span."""
    ends = [(place_in_time(first), place_in_time(last)) for first, last in spans]
    known = [(first, last) for first, last in ends if first and last and first[0] == last[0]]
    if not known:
        return []
    length = known[-1][1][0]
    covered = sorted((first[1], last[1]) for first, last in known if first[0] == length)
    absent: list[str] = []
    reached = covered[0][1]
    for begin, end in covered:
        while reached < begin:
            name = period_of(reached + timedelta(_INTO_NEXT[length]), length)
            reached = place_in_time(name)[1]  # type: ignore[index]
            if reached < begin:
                absent.append(name)
        reached = max(reached, end)
    return absent


def missing_words(names: list[str]) -> str:
    """Missing periods in a sentence, the latest first if there are many."""
    latest = names if len(names) <= _LISTED else names[::-1]
    return f"There is no batch for {list_names(latest, _LISTED, in_words)}."
