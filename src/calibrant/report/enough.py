"""Whether there are enough rows, groups and rows of a second class to tell what calibration would gain."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.numerals import class_text, count
from calibrant.sample import Sample

#: Independent observations, groups, and observations outside the most frequent class from which on gains are told:
#: with fewer, intervals of means that come from resampling are too short.
FEWEST_ROWS = 50
FEWEST_GROUPS = 20
FEWEST_OF_CLASS = 10


@dataclass(frozen=True)
class Lack:
    """What there is too little of: "rows", "groups" or "classes" (all but the most frequent), and a sentence on it."""

    of: str
    text: str


def lacking(data: Sample, names: tuple[str, ...]) -> Lack | None:
    """What keeps the gain of calibration from being told; None if nothing does.

    Examples
    --------
    >>> six = Sample(np.full((6, 2), 0.5), np.array([0, 1, 0, 1, 0, 1]))
    >>> lacking(six, ("no", "yes")).text
    '6 rows are too few to tell what calibration would gain: at least 50 are needed.'
    """
    gain = "too few to tell what calibration would gain"
    if data.groups is not None and data.units < FEWEST_GROUPS:
        # Groups of unequal size tell less than their number.
        equal = "" if data.n_groups < FEWEST_GROUPS else f", which tell as much as {count(data.units)} of equal size,"
        groups = f"{data.n_groups} group{'' if data.n_groups == 1 else 's'}{equal}"
        return Lack("groups", f"{groups} {_are(data.n_groups)} {gain}: at least {FEWEST_GROUPS} are needed.")
    if data.total < FEWEST_ROWS:
        return Lack("rows", f"{data} {_are(data.n_rows)} {gain}: at least {FEWEST_ROWS} are needed.")
    most = int(np.argmax(data.class_counts))
    others = data.total - float(data.class_counts[most])
    if others >= FEWEST_OF_CLASS:
        return None
    what = class_text(names[most])
    if not others:
        needed = f"at least {FEWEST_OF_CLASS} rows of another class are needed"
        return Lack("classes", f"All rows are of {what}: {needed} to tell what calibration would gain.")
    which = f"of {class_text(names[1 - most])}" if len(names) == 2 else f"of classes other than {what}"
    rows = f"{count(others)} row{'' if others == 1 else 's'} {which}"
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
