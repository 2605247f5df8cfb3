"""What differs between databases in the SQL that is written here: quotes around names, one type, one fence.

Everything else is the common ground of SQL: CASE, LN, EXP, ABS, GREATEST, LEAST and common table expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant.writers.export_options import OptionError


def _doubled(quote: str) -> Callable[[str], str]:
    return lambda name: quote + name.replace(quote, 2 * quote) + quote


def _backslashed(name: str) -> str:
    """BigQuery reads escapes between backticks."""
    special = {"\\": "\\\\", "`": "\\`", "\n": "\\n", "\r": "\\r"}
    return "`" + "".join(special.get(letter, letter) for letter in name) + "`"


def _quoted_text(text: str) -> str:
    return _doubled("'")(text)


def _backslashed_text(text: str) -> str:
    """BigQuery, Snowflake and Spark read escapes in texts."""
    special = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"}
    return "'" + "".join(special.get(letter, letter) for letter in text) + "'"


@dataclass(frozen=True)
class Dialect:
    """How a database spells names, texts and double precision.

    Attributes
    ----------
    name : str
        What sqlglot calls it; empty is standard SQL.
    quote : callable
        A name in quotes, whatever it holds.
    double, text : str
        The types of numbers in double precision and of texts.
    literal : callable
        A text in quotes, whatever it holds.
    fence : str
        What ends a subquery that should not be merged with the next one.
    cases : bool
        Whether names in quotes that differ in capital letters only are different names.
    plain : bool
        Whether new columns may be named by letters, digits and underscores only.
    arrays : bool
        Whether one of many numbers is picked from an array, which is planned and run faster than CASE.
    dots : bool
        Whether a name in quotes may hold a dot; elsewhere that is read as a field of a record.
    trims : bool
        Whether letters at an end of a text are removed by LTRIM and RTRIM, and not by the TRIM of standard SQL.
    """

    name: str
    quote: Callable[[str], str]
    double: str = "DOUBLE PRECISION"
    text: str = "VARCHAR"
    literal: Callable[[str], str] = _quoted_text
    fence: str = ""
    cases: bool = True
    plain: bool = False
    arrays: bool = False
    dots: bool = True
    trims: bool = True

    def trim(self, side: str, letter: str, text: Any) -> tuple[Any, ...]:
        """The parts of an expression: a text without a letter at its side LEADING or TRAILING."""
        if self.trims:
            return f"{'LTRIM' if side == 'LEADING' else 'RTRIM'}(", text, f", '{letter}')"
        return f"TRIM({side} '{letter}' FROM ", text, ")"


DIALECTS = {
    "ansi": Dialect("", _doubled('"'), trims=False),
    "duckdb": Dialect("duckdb", _doubled('"'), "DOUBLE", cases=False, arrays=True),
    # PostgreSQL would replace names by what they stand for, level by level, until the query is exponentially large.
    "postgres": Dialect("postgres", _doubled('"'), fence="OFFSET 0", arrays=True),
    "bigquery": Dialect(
        "bigquery", _backslashed, "FLOAT64", "STRING", _backslashed_text, cases=False, plain=True, dots=False
    ),
    "snowflake": Dialect("snowflake", _doubled('"'), "DOUBLE", "VARCHAR", _backslashed_text),
    "spark": Dialect("spark", _doubled("`"), "DOUBLE", "STRING", _backslashed_text, cases=False, trims=False),
}


def get_dialect(name: str) -> Dialect:
    """A dialect by its name.

    Examples
    --------
    >>> get_dialect("spark").quote("a`b")
    '`a``b`'
    """
    if name not in DIALECTS:
        raise OptionError("dialect", name, f"is unknown: take one of {', '.join(DIALECTS)}.")
    return DIALECTS[name]


def check_names(names: Iterable[str], what: str, dialect: Dialect | None = None) -> list[str]:
    """Names of columns, all different, none of which a database, or that of the `dialect`, could not hold."""
    found = [str(name) for name in names]
    for name in found:
        if not name or re.search("[\0\ud800-\udfff]", name):
            raise ValueError(
                f"{name!r} cannot be the name of a {what}: it is empty or holds a character that SQL does not allow."
            )
        if dialect is not None and not dialect.dots and "." in name:
            raise ValueError(
                f"{name!r} cannot be the name of a {what} in {dialect.name}, which reads a dot as a field of a record: "
                "give the column another name, in a view for example."
            )
        if found.count(name) > 1:
            raise ValueError(f"{name!r} is the name of more than one {what}: give them different names.")
    return found


def check_apart(names: Sequence[str], dialect: Dialect) -> None:
    """Refuse columns of predictions and segments that are one column of a table.

    Examples
    --------
    >>> check_apart(["yes", "Yes"], get_dialect("postgres"))
    >>> check_apart(["yes", "Yes"], get_dialect("duckdb"))
    Traceback (most recent call last):
    calibrant.writers.export_options.OptionError: columns=['yes', 'Yes'] has names of one and the same column in ...
    """
    seen: dict[str, str] = {}
    for name in names:
        key = name if dialect.cases else name.lower()
        if key in seen:
            where = dialect.name or "SQL"
            reason = f"has names of one and the same column in {where}: {seen[key]!r} and {name!r}. Give other names."
            raise OptionError("columns", list(names), reason)
        seen[key] = name


def check_text(text: str) -> str:
    """A text that every database can hold."""
    if re.search("[\0\ud800-\udfff]", text):
        raise ValueError(f"The level {text!r} of the segments holds a character that SQL does not allow.")
    return text


def new_names(names: Iterable[str], dialect: Dialect, taken: Iterable[str]) -> list[str]:
    """Names for new columns, changed where the dialect does not allow their letters or they are taken.

    Examples
    --------
    >>> new_names(["p a", "p-a"], get_dialect("bigquery"), [])
    ['p_a', 'p_a_2']
    """
    out: list[str] = []
    used = {name.lower() for name in taken}
    for name in names:
        base = re.sub(r"\W", "_", name, flags=re.ASCII) if dialect.plain else name
        base = f"_{base}" if dialect.plain and base[0].isdigit() else base
        candidate, number = base, 1
        while candidate.lower() in used:
            number += 1
            candidate = f"{base}_{number}"
        used.add(candidate.lower())
        out.append(candidate)
    return out
