"""Numbers as figures, tables and sentences show them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

#: Shares that are nearer to 0 or 1 are not told apart in tables.
SMALLEST_SHARE = 1e-6


def number(value: float, digits: int = 4) -> str:
    """A number for a table, with a true minus sign (U+2212); nothing for NaN."""
    if math.isnan(value):
        return ""
    if abs(value) < 0.5 * 10**-digits:
        value = 0.0
    return f"{value:.{digits}f}".replace("-", "−").replace("inf", "∞")


def class_text(name: object) -> str:
    """A class in a sentence: one that is called by a number needs a word before it."""
    text = str(name)
    return text if any(letter.isalpha() for letter in text) else f"class {text}"


def signed(value: float, digits: int = 4) -> str:
    """A difference for a table, with its sign."""
    text = number(value, digits)
    return "+" + text if value > 0 and float(text) != 0 else text


def percent(value: float, digits: int | None = None) -> str:
    """A share as a percentage, with as many digits as a small one needs."""
    if math.isnan(value):
        return ""
    if digits is None:
        # Six digits tell nothing apart from zero that is smaller than half of the last one.
        plain = abs(value) >= 0.01 or abs(value) < 0.5e-8
        digits = 1 if plain else min(1 - math.floor(math.log10(abs(100 * value))), 6)
    return number(100 * value, digits) + "%"


def near_ends(value: float, digits: int = 1) -> str:
    """A share as a percentage that tells it from 0 and from 1, with at least so many digits of its distance."""
    distance = 100 * min(value, 1 - value)
    shown = len(percent(distance / 100).partition(".")[2]) - 1
    return percent(value, max(shown, digits - 1 - math.floor(math.log10(distance))) if distance > 0 else None)


def range_names(ends: Sequence[float]) -> list[str]:
    """The ranges of shares that ascending ends make, in words that all differ.

    Ends within a millionth of 0 or 1 are not told apart: ranges between them are numbered.

    >>> range_names([0.25, 0.5001, 0.5002])
    ['up to 25.00%', '25.00% to 50.01%', '50.01% to 50.02%', 'above 50.02%']
    >>> range_names([6e-76, 2e-30, 0.3, 1 - 3e-12])
    ['below 0.01% (1 of 2)', 'below 0.01% (2 of 2)', '<0.01% to 30.0%', '30.0% to >99.99%', 'above 99.99%']
    """
    told = [end for end in ends if SMALLEST_SHARE <= end <= 1 - SMALLEST_SHARE]
    # 17 digits tell all numbers apart.
    digits = next(d for d in range(1, 18) if len({near_ends(end, d) for end in told}) == len(set(told)) or d == 17)
    # No end that is told may lie below the bound of those that are not.
    below, above = (10.0 ** math.floor(math.log10(min([1e-4, *part]))) for part in (told, [1 - end for end in told]))
    low, high = f"{100 * below:g}%", f"{100 - 100 * above:g}%"
    texts = [near_ends(end, digits) if end in told else f"<{low}" if end < 0.5 else f">{high}" for end in ends]
    names = [f"{start} to {end}" for start, end in pairwise(texts)]
    names = [f"up to {texts[0]}", *names, f"above {texts[-1]}"] if texts else ["all"]
    bounds = {f"up to <{low}": f"below {low}", f"<{low} to <{low}": f"below {low}"}
    bounds |= {f">{high} to >{high}": f"above {high}", f"above >{high}": f"above {high}"}
    names = [bounds.get(name, name) for name in names]
    return [
        f"{name} ({names[:place].count(name) + 1} of {names.count(name)})" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def p_text(p: float, draws: int = 0) -> str:
    """A p-value, as exact as the draws of labels that it comes from allow; 0 is a p-value without draws."""
    # A smaller one is of a tail beyond the draws.
    if draws and 0.5 < p * (1 + draws) < 1.5:
        return f"p ≤ {p:.2g}, as small as {draws:,} draws can tell"
    return f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"


def count(value: float) -> str:
    """A number of rows, of which there may be fractions."""
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def amount(value: float, unit: str) -> str:
    """A number of something, named by `unit` in the singular."""
    return f"{count(value)} {unit}{'' if value == 1 else 'es' if unit.endswith('s') else 's'}"


def excess(ratio: float) -> str:
    """How far a class is predicted too often or too rarely, from the ratio of expected to observed rows.

    >>> excess(17.2), excess(1 / 17.2), excess(1.14), excess(0.88), excess(1.0)
    ('17 times too many', '17 times too few', '14% too many', '12% too few', 'as many as observed')
    """
    if math.isinf(ratio):
        return "none occurs"
    if ratio == 0:
        return "none expected"
    word, factor = ("many", ratio) if ratio > 1 else ("few", 1 / ratio)
    if factor >= 1.95:
        return f"{factor:,.0f} times too {word}" if factor >= 9.95 else f"{factor:.1f} times too {word}"
    off = 100 * abs(ratio - 1)
    return (
        f"{off:.0f}% too {word}" if off >= 0.95 else "as many as observed" if off < 0.05 else f"{off:.1f}% too {word}"
    )


def where(thresholds: Sequence[float], holds: Sequence[bool], ends: str = "between {} and {}") -> str:
    """At which of ascending thresholds something holds, somewhere.

    >>> where([0.1, 0.2, 0.3], [True, True, False]), where([0.1, 0.2, 0.3], [False, True, False])
    ('between 10.0% and 20.0%', 'at 20.0%')
    >>> where([0.1, 0.2, 0.3], [True, False, True])
    'at 2 of the 3 thresholds between 10.0% and 30.0%'
    """
    places = [place for place, one in enumerate(holds) if one]
    first, last = places[0], places[-1]
    if first == last:
        return f"at {percent(thresholds[first])}"
    text, every = ends.format(percent(thresholds[first]), percent(thresholds[last])), last - first + 1
    return text if len(places) == every else f"at {len(places)} of the {every} thresholds {text}"


def span(estimate: Any, digits: int = 4) -> str:
    """The ends of the interval of an `Estimate`."""
    return "" if math.isnan(estimate.low) else f"{number(estimate.low, digits)} to {number(estimate.high, digits)}"


def power_of_ten(exponent: int) -> str:
    """Ten to a power, with a raised exponent."""
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
