"""Statements around a query: a view of it, or an update that fills columns of the table itself."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.writers.sql_dialects import Dialect

#: What the statement calls the table and the query.
_TARGET, _QUERY = "target", "calibrated"


def view_of(query: str, name: str) -> str:
    """A view of a query."""
    return f"CREATE VIEW {name} AS\n{query}"


def row_by_row_of(query: str, table: str, keep: Sequence[str]) -> str:
    """A query without a source, asked for each row of a table."""
    columns = ", ".join([*(f"{_TARGET}.{name}" for name in keep), f"{_QUERY}.*"])
    return f"SELECT {columns}\nFROM {table} AS {_TARGET}\nCROSS JOIN LATERAL (\n{query}) AS {_QUERY}\n"


def update_by(query: str, dialect: Dialect, table: str, keys: Sequence[str], columns: Sequence[str]) -> str:
    """Set columns of a table to those of a query that has the same `keys`; names are in quotes already.

    Examples
    --------
    >>> from calibrant.writers.sql_dialects import get_dialect
    >>> print(update_by("SELECT id, 1 AS p\\n", get_dialect("postgres"), "t", ["id"], ["p"]))
    UPDATE t AS target
    SET p = calibrated.p
    FROM (
    SELECT id, 1 AS p
    ) AS calibrated
    WHERE target.id = calibrated.id
    <BLANKLINE>
    """
    same = " AND ".join(f"{_TARGET}.{key} = {_QUERY}.{key}" for key in keys)
    source = f"(\n{query}) AS {_QUERY}"
    before = f"{_TARGET}." if dialect.update == "join" else ""
    values = ",\n  ".join(f"{before}{column} = {_QUERY}.{column}" for column in columns)
    if dialect.update == "from":
        return f"UPDATE {table} AS {_TARGET}\nSET {values}\nFROM {source}\nWHERE {same}\n"
    if dialect.update == "join":
        return f"UPDATE {table} AS {_TARGET}\nJOIN {source}\nON {same}\nSET {values}\n"
    return f"MERGE INTO {table} AS {_TARGET}\nUSING {source}\nON {same}\nWHEN MATCHED THEN UPDATE SET {values}\n"


def query_in(statement: str) -> str:
    """The query in what `view_of` or `update_by` wrote, or the query itself."""
    end = statement.index("\n", statement.rindex("\nFROM calibrant_") + 1)
    return statement[statement.index("WITH calibrant_1") : end]
