"""Batches that are named after a day, week, month, quarter or year: their words, their order, and which are missing.

Names are those of ISO 8601: 2026-03-14, 2026-W11, 2026-03, 2026-Q1 (which ISO lacks) and 2026. Any other text is a name
without a place in time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.text_table import list_names

_HALVES = "January, February, March, April, May, June", "July, August, September, October, November, December"
_MONTHS = ", ".join(_HALVES).split(", ")
_FORMS = {
    "day": re.compile(r"(\d{4})-(\d\d)-(\d\d)"),
    "week": re.compile(r"(\d{4})-W(\d\d)"),
    "month": re.compile(r"(\d{4})-(\d\d)"),
    "quarter": re.compile(r"(\d{4})-Q([1-4])"),
    "year": re.compile(r"(\d{4})"),
}
#: How long a period may be.
PERIODS = tuple(_FORMS)
#: Missing periods that are written out.
_LISTED = 6


def place_in_time(name: str | None) -> tuple[str, int] | None:
    """How long the period of this name is, and its number among those of the same length; None for other names.

    Examples
    --------
    >>> place_in_time("2026-03"), place_in_time("2026-04"), place_in_time("2026-13"), place_in_time("north")
    (('month', 24314), ('month', 24315), None, None)
    """
    for length, form in _FORMS.items():
        if found := form.fullmatch(name or ""):
            numbers = [int(text) for text in found.groups()]
            try:
                return length, _number(length, *numbers)
            except ValueError:  # no such day, week, month or year
                return None
    return None


def _number(length: str, year: int, *rest: int) -> int:
    if length == "day":
        return date(year, *rest).toordinal()
    if length == "week":
        return date.fromisocalendar(year, rest[0], 1).toordinal() // 7
    first = date(year, rest[0] if length == "month" else 1, 1)
    return {"month": 12 * year + first.month - 1, "quarter": 4 * year + (rest or [1])[0] - 1, "year": year}[length]


def period_name(length: str, number: int) -> str:
    """The name of a period by its number; `place_in_time` reads it.

    Examples
    --------
    >>> [period_name(*place_in_time(name)) for name in ("2026-03-14", "2026-W11", "2026-03", "2026-Q4", "2026")]
    ['2026-03-14', '2026-W11', '2026-03', '2026-Q4', '2026']
    """
    if length == "day":
        return date.fromordinal(number).isoformat()
    if length == "week":
        year, week, _ = date.fromordinal(7 * number + 1).isocalendar()  # day 1 was a Monday
        return f"{year:04}-W{week:02}"
    if length == "year":
        return f"{number:04}"
    if length == "quarter":
        return f"{number // 4:04}-Q{number % 4 + 1}"
    return f"{number // 12:04}-{number % 12 + 1:02}"


def first_day(name: str | None) -> date | None:
    """The first day of the period of this name, None if it has no place in time.

    Examples
    --------
    >>> [str(first_day(name)) for name in ("2026-03-14", "2026-W11", "2026-03", "2026-Q2", "2026", "north")]
    ['2026-03-14', '2026-03-09', '2026-03-01', '2026-04-01', '2026-01-01', 'None']
    """
    found = place_in_time(name)
    if found is None:
        return None
    length, number = found
    if length in ("day", "week"):
        return date.fromordinal(number if length == "day" else 7 * number + 1)
    months = {"month": 1, "quarter": 3, "year": 12}[length] * number
    return date(months // 12, months % 12 + 1, 1)


def periods_of(dates: NDArray[Any], length: str) -> NDArray[Any]:
    """The name of the period of each date.

    Examples
    --------
    >>> days = np.array(["2026-03-14", "2025-12-29"], dtype="datetime64[D]")
    >>> [periods_of(days, length).tolist() for length in ("week", "quarter")]
    [['2026-W11', '2026-W01'], ['2026-Q1', '2025-Q4']]
    """
    days, places = np.unique(dates.astype("datetime64[D]"), return_inverse=True)

    def name(day: date) -> str:
        if length == "week":
            year, week, _ = day.isocalendar()
            return f"{year:04}-W{week:02}"
        rest = {"day": [day.month, day.day], "month": [day.month], "quarter": [(day.month + 2) // 3], "year": []}
        return period_name(length, _number(length, day.year, *rest[length]))

    return np.array([name(day) for day in days.tolist()], dtype=object)[places]


def in_words(first: str, last: str | None = None) -> str:
    """A period as a sentence has it, or the time from one to another.

    Examples
    --------
    >>> in_words("2026-03"), in_words("2026-03-14"), in_words("2026-W11"), in_words("2026-Q1"), in_words("north")
    ('March 2026', '14 March 2026', 'week 11 of 2026', 'quarter 1 of 2026', 'batch north')
    >>> in_words("2026-01", "2026-02")
    'January 2026 to February 2026'
    """
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
    """Periods between the first and the last one that are in none of the spans (from one name to another).

    They are as long as that of the latest span that has a place in time.

    Examples
    --------
    >>> missing_periods([("2026-01", "2026-02"), ("2026-05", "2026-05"), ("north", "north")])
    ['2026-03', '2026-04']
    """
    ends = [(place_in_time(first), place_in_time(last)) for first, last in spans]
    known = [(first, last) for first, last in ends if first and last and first[0] == last[0]]
    if not known:
        return []
    length = known[-1][1][0]
    covered = sorted((first[1], last[1]) for first, last in known if first[0] == length)
    absent: list[int] = []
    reached = covered[0][1]
    for begin, end in covered:
        absent += range(reached + 1, begin)
        reached = max(reached, end)
    return [period_name(length, number) for number in absent]


def missing_words(names: list[str]) -> str:
    """Missing periods in a sentence, the latest first if there are many.

    Examples
    --------
    >>> print(missing_words(["2026-03", "2026-04"]))
    There is no batch for March 2026, April 2026.
    """
    latest = names if len(names) <= _LISTED else names[::-1]
    return f"There is no batch for {list_names(latest, _LISTED, in_words)}."
