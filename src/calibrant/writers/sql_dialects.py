"""What differs between databases in the SQL that is written here, beyond how sqlglot spells it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from calibrant.optional import require
from calibrant.writers.common import OptionError


@dataclass(frozen=True)
class Dialect:
    """A database's SQL."""

    #: What sqlglot calls it; empty is standard SQL.
    name: str
    #: The dialect of sqlglot that writes it, if that is another one.
    spoken: str = ""
    #: What ends a subquery that should not be merged with the next one: names would be replaced by what they stand for,
    #: level by level, until the query is exponentially large.
    fence: str = ""
    #: Whether names in quotes that differ in capital letters only are different names.
    cases: bool = True
    #: Whether new columns may be named by letters, digits and underscores only.
    plain: bool = False
    #: Whether one of many numbers is picked from an array, which is planned and run faster than CASE.
    arrays: bool = False
    #: Whether a name in quotes may hold a dot; elsewhere that is read as a field of a record.
    dots: bool = True
    #: What the largest and the least of some numbers are called.
    greatest: str = "GREATEST"
    least: str = "LEAST"
    #: How many names the name of a table may have: database, schema and table.
    parts: int = 3
    #: How rows of a table are set to those of a query.
    update: Literal["merge", "from", "join"] = "merge"
    #: Whether a view calibrates row by row, so that a condition on its rows is asked before.
    lateral: bool = False
    #: How many bytes a statement may have; 0 is no limit that a map could reach.
    longest: int = 0

    @cached_property
    def _forms(self) -> dict[str, str]:
        return {}

    def _spell(self, expression: object) -> str:
        spoken = require("sqlglot", extra="export").Dialect.get_or_raise(self.spoken or self.name)
        return str(spoken.generator(comments=False).generate(expression))

    def form(self, template: str) -> str:
        """A template of an expression of PostgreSQL in this dialect."""
        if template not in self._forms:
            parsed = require("sqlglot", extra="export").parse_one(template.format("_given"), read="postgres")
            self._forms[template] = self._spell(parsed).replace("_given", "{}")
        return self._forms[template]

    def quote(self, name: str) -> str:
        """A name in quotes, whatever it holds."""
        text = self._spell(require("sqlglot", extra="export").exp.to_identifier(name, quoted=True))
        return text.replace("\n", "\\n").replace("\r", "\\r") if self.plain else text

    def text(self, text: str) -> str:
        """A text in quotes."""
        if re.search("[\0\ud800-\udfff]", text):
            raise ValueError(f"The level {text!r} of the segments holds a character that SQL does not allow.")
        return self._spell(require("sqlglot", extra="export").exp.Literal.string(text))


DIALECTS = {
    "ansi": Dialect("", "postgres"),
    "duckdb": Dialect("duckdb", cases=False, arrays=True, update="from"),
    "postgres": Dialect("postgres", fence="OFFSET 0", arrays=True, update="from", lateral=True),
    "bigquery": Dialect("bigquery", cases=False, plain=True, dots=False, longest=1_000_000),
    "snowflake": Dialect("snowflake", longest=1_000_000),
    "spark": Dialect("spark", cases=False),
    "sqlite": Dialect(
        "sqlite", fence="LIMIT -1 OFFSET 0", cases=False, greatest="MAX", least="MIN", parts=2, update="from"
    ),
    "mysql": Dialect(
        "mysql", fence="LIMIT 9223372036854775807", cases=False, parts=2, update="join", longest=16 * 2**20
    ),
}


def get_dialect(name: str) -> Dialect:
    """A dialect by its name; MariaDB is a name of MySQL."""
    name = "mysql" if name == "mariadb" else name
    if name not in DIALECTS:
        raise OptionError("dialect", name, f"is unknown: use one of {', '.join([*DIALECTS, 'mariadb'])}.")
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
    """Refuse columns of predictions and segments that are one column of a table."""
    seen: dict[str, str] = {}
    for name in names:
        key = name if dialect.cases else name.lower()
        if key in seen:
            where = dialect.name or "SQL"
            reason = f"names one column twice in {where}: as {seen[key]!r} and as {name!r}. Give other names."
            raise OptionError("columns", list(names), reason)
        seen[key] = name


def new_names(names: Iterable[str], dialect: Dialect, taken: Iterable[str]) -> list[str]:
    """Names for new columns, changed where the dialect does not allow their letters or they are taken."""
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
