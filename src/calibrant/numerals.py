"""Numbers as figures, tables and sentences show them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def number(value: float, digits: int = 4) -> str:
    """A number for a table, with a true minus sign (U+2212); nothing for NaN.

    >>> number(0.12345), number(-0.5, 2), number(float("nan"))
    ('0.1235', '−0.50', '')
    """
    if math.isnan(value):
        return ""
    if abs(value) < 0.5 * 10**-digits:
        value = 0.0
    return f"{value:.{digits}f}".replace("-", "−").replace("inf", "∞")


def class_text(name: object) -> str:
    """A class in a sentence: one that is called by a number needs a word before it.

    >>> class_text("fraud"), class_text(1)
    ('fraud', 'class 1')
    """
    text = str(name)
    return text if any(letter.isalpha() for letter in text) else f"class {text}"


def signed(value: float, digits: int = 4) -> str:
    """A difference for a table.

    >>> signed(0.01, 2), signed(-0.01, 2), signed(0.0, 2)
    ('+0.01', '−0.01', '0.00')
    """
    text = number(value, digits)
    return "+" + text if value > 0 and float(text) != 0 else text


def percent(value: float, digits: int | None = None) -> str:
    """A share as a percentage, with as many digits as a small one needs.

    >>> percent(0.8125), percent(0.00234), percent(0.5, 0)
    ('81.2%', '0.23%', '50%')
    """
    if math.isnan(value):
        return ""
    if digits is None:
        # Six digits tell nothing apart from zero that is smaller than half of the last one.
        plain = abs(value) >= 0.01 or abs(value) < 0.5e-8
        digits = 1 if plain else min(1 - math.floor(math.log10(abs(100 * value))), 6)
    return number(100 * value, digits) + "%"


def distinct_percents(values: Sequence[float]) -> list[str]:
    """Shares in ascending order as percentages that read differently; very near to 0 or 1, their distance from it.

    >>> distinct_percents([0.0, 0.25, 0.5, 1.0])
    ['0.0%', '25.0%', '50.0%', '100.0%']
    >>> distinct_percents([0.0, 2e-30, 0.5001, 0.5002, 0.9998, 1 - 3e-12, 1.0])
    ['0.0%', '2e-28%', '50.01%', '50.02%', '99.98%', '100% − 3e-10%', '100.0%']
    """
    alike: dict[str, list[float]] = {}
    for value in dict.fromkeys(values):
        alike.setdefault(percent(value), []).append(value)
    found: dict[float, str] = {}
    for text, several in alike.items():
        inner = [value for value in several if len(several) > 1 and value not in (0.0, 1.0)]
        found |= dict.fromkeys(several, text)
        # 17 digits tell all numbers apart.
        for digits in range(1, 18) if inner else ():
            found |= {value: _near_end(value, digits) for value in inner}
            if len({found[value] for value in several}) == len(several):
                break
    return [found[value] for value in values]


def _near_end(value: float, digits: int) -> str:
    """A share with so many digits of its distance from the nearer end, in powers of ten if that is very small."""
    distance = 100 * min(value, 1 - value)
    decimals = max(1, digits - 1 - math.floor(math.log10(distance)))
    if decimals <= 6:
        return percent(value, decimals)
    return f"{distance:.{digits}g}%" if value < 0.5 else f"100% \N{MINUS SIGN} {distance:.{digits}g}%"


def p_text(p: float, draws: int = 0) -> str:
    """A p-value, as exact as the draws of labels that it comes from allow; 0 is a p-value without draws.

    >>> p_text(0.001), p_text(0.2345), p_text(1e-20), p_text(0.001, 999)
    ('p = 0.001', 'p = 0.23', 'p < 0.001', 'p ≤ 0.001, as small as 999 draws can tell')
    """
    # A smaller one is of a tail beyond the draws.
    if draws and 0.5 < p * (1 + draws) < 1.5:
        return f"p ≤ {p:.2g}, as small as {draws:,} draws can tell"
    return f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"


def count(value: float) -> str:
    """A number of rows, of which there may be fractions.

    >>> count(2070.4), count(3.25)
    ('2,070', '3.2')
    """
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


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


def span(estimate: Any, digits: int = 4) -> str:
    """The ends of the interval of an `Estimate`."""
    return "" if math.isnan(estimate.low) else f"{number(estimate.low, digits)} to {number(estimate.high, digits)}"


def power_of_ten(exponent: int) -> str:
    """Ten to a power, with a raised exponent.

    >>> power_of_ten(-6)
    '10⁻⁶'
    """
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
