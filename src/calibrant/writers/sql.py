"""One SELECT over columns of predictions, for standard SQL, DuckDB, PostgreSQL, SQLite, MySQL and data warehouses.

Common table expressions hold what is used more than once. A row that is not a prediction gets NULL.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from calibrant.grades import MasterScale
from calibrant.optional import require
from calibrant.runtime import Map
from calibrant.steps.actions import CostTable, column_cells
from calibrant.steps.formulas import are_cheapest
from calibrant.typing import FloatArray
from calibrant.writers.common import MissingRuntimeError, OptionError, Segments, title
from calibrant.writers.sql_dialects import Dialect, check_apart, check_names, get_dialect, new_names
from calibrant.writers.sql_statements import Value, number, query_in, row_by_row_of, select, update_by
from calibrant.writers.sql_steps import Number, Row, SqlOperations, case, compare

#: What the names of the ends of intervals end with.
ENDS = ("_low", "_high")
_LARGEST = float(np.finfo(np.float64).max)


def _names(fitted: Map, columns: Sequence[str] | None) -> list[str]:
    """The columns of predictions, in their order; by default they are called as in fit, or as the classes are."""
    columns = fitted.column_names if columns is None else columns
    names = check_names(columns, "column")
    if len(names) != fitted.k and not (len(names) == 1 and fitted.k == 2 and not fitted.independent):
        are = "is 1 name" if len(names) == 1 else f"are {len(names)} names"
        raise OptionError(
            "columns", names, f"{are}; {fitted.k} are needed, one per {'label' if fitted.independent else 'class'}."
        )
    return names


def write(
    fitted: Map,
    notes: Iterable[str] = (),
    *,
    dialect: str = "ansi",
    table: str = "predictions",
    columns: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    suffix: str = "_cal",
    grades: MasterScale | None = None,
    view: str | None = None,
    update: Sequence[str] = (),
) -> str:
    """A query that gives columns `keep` of a table and calibrated `columns`, whose names end with `suffix`.

    With a scale of grades, the last column is the grade of the second of two classes. Or a `view` of that name, or a
    statement that sets these columns of the table itself, where each row is known by its columns `update`.
    """
    if grades is not None and (fitted.k != 2 or fitted.independent):
        raise OptionError("grades", None, "is for two classes.")
    spoken = get_dialect(dialect)
    if update and (view is not None or keep):
        other = "view" if view is not None else "keep"
        raise OptionError("update", list(update), f"changes the table itself: leave out {other}.")
    names = check_names(_names(fitted, columns), "column", spoken)
    kept = check_names(update or keep, "column to keep", spoken)
    writer = SqlOperations(spoken)
    given = [writer.cast(spoken.quote(name)) for name in names]
    x, valid = writer.prepare(fitted, given)
    check_apart([*names, *check_names(fitted.segments, "column of segments", spoken)], spoken)
    if fitted.rule is not None:
        check_names(fitted.rule.amounts, "column of amounts", spoken)
    beside = Row([writer.segment(*column) for column in fitted.segments.items()])
    out = writer.run(fitted.steps, writer.join([x, beside]), fitted.width).values
    order = range(fitted.k) if fitted.columns is None else fitted.columns
    single = len(names) < fitted.k
    classes = [(out[1], names[0])] if single else [(out[j], names[place]) for j, place in enumerate(order)]
    ended = [] if fitted.interval is None else [name + suffix + end for end in ENDS for _, name in classes]
    wanted = [*(name + suffix for _, name in classes), *ended, "action", "grade"]
    *called, action, grade = new_names(wanted, spoken, kept)
    outputs = [(case((valid, value)), spoken.quote(name)) for (value, _), name in zip(classes, called)]
    if fitted.interval is not None:
        ends = writer.run(fitted.interval, x, fitted.k).values
        ends = ends[1::2] if single else ends
        outputs += [(case((valid, value)), spoken.quote(name)) for value, name in zip(ends, called[len(classes) :])]
    if fitted.rule is not None:
        outputs.append((_action(writer, fitted.rule, out, valid), spoken.quote(action)))
    if grades is not None:
        tests = [compare("<=", out[1], end) for end in grades.boundaries.tolist()]
        *better, worst = [_literal(spoken, name) for name in grades.names]
        outputs.append((case((valid, case(*zip(tests, better), default=worst))), spoken.quote(grade)))
    head = "".join(f"-- {line}\n" for line in [title(fitted), *notes])
    home, keys = _table(table, spoken), [spoken.quote(name) for name in kept]
    if view is not None and spoken.lateral:
        query = row_by_row_of(select(spoken, "", [], outputs), home, keys)
    else:
        query = select(spoken, home, keys, outputs)
    if view is not None:
        query = f"CREATE VIEW {_table(view, spoken)} AS\n{query}"
    elif update:
        query = update_by(query, spoken, home, keys, [name for _, name in outputs])
    return head + query


def limits(written: str, *, dialect: str = "ansi", **options: object) -> list[str]:
    """What a database will not take of something that was written."""
    spoken, size = get_dialect(dialect), len(written.encode())
    if not spoken.longest or size <= spoken.longest:
        return []
    return [
        f"This statement has {size:,} bytes; {dialect} takes at most {spoken.longest:,}. Fit a calibrator with a "
        "smaller map: auto with max_size=, for example 50_000, or sms."
    ]


def _action(writer: SqlOperations, rule: CostTable, p: Sequence[Number], valid: Value) -> Value:
    """The name of the cheapest action, NULL where there is no prediction or no amount."""
    amounts = [Row([writer.cast(writer.dialect.quote(name))]) for name in rule.amounts]
    for amount in amounts:
        valid &= ((amount >= 0.0) & (amount <= _LARGEST)).values[0]
    tests = are_cheapest(writer, rule, Row(p), amounts).values
    *names, last = [_literal(writer.dialect, name) for name in column_cells(rule.to_json()["actions"])]
    return case((valid, case(*zip(tests, names), default=last)))


def _literal(dialect: Dialect, name: Any) -> str:
    """The name of an action in SQL."""
    if isinstance(name, str):
        return dialect.text(name)
    return str(int(name)) if name == int(name) else number(name)


def _table(table: str, dialect: Dialect) -> str:
    return ".".join(dialect.quote(name) for name in check_table(table, dialect.parts))


def check_table(table: str, most: int = 3) -> list[str]:
    """The parts of a table's name: database, schema, table, as far as they are given."""
    parts = table.split(".")
    if len(parts) > most:
        reason = "is not the name of a table: give its name, with schema and database before it if needed."
        raise OptionError("table", table, reason)
    return [name for part in parts for name in check_names([part], "table")]


def taken(fitted: Map, rows: FloatArray, *, columns: Sequence[str] | None = None, **options: object) -> FloatArray:
    """Rows in the columns that the query reads: of two classes it may be the second alone."""
    if len(_names(fitted, columns)) == rows.shape[1]:
        return rows
    return rows[:, 1:] - rows[:, :1] if fitted.logits else rows[:, 1:]


def run(
    written: str,
    fitted: Map,
    rows: FloatArray,
    *,
    dialect: str = "ansi",
    table: str = "predictions",
    columns: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    view: str | None = None,
    update: Sequence[str] = (),
    segments: Segments | None = None,
    amounts: Segments | None = None,
    **options: Any,
) -> FloatArray:
    """Predictions by DuckDB (by SQLite for SQLite; sqlglot translates others), and the numbers of actions."""
    if view is not None and get_dialect(dialect).lateral:  # DuckDB runs the same expressions without LATERAL
        written = write(fitted, dialect=dialect, table=table, columns=columns, keep=keep, **options)
    written, keep = query_in(written), update or keep
    try:
        base, name = _engine(dialect)
        if dialect not in ("ansi", name):
            sqlglot = require("sqlglot", extra="export")
            written = sqlglot.transpile(written, read=get_dialect(dialect).name, write=name)[0]
    except ImportError as error:
        raise MissingRuntimeError("duckdb and sqlglot are not installed.") from error
    names, spoken = _names(fitted, columns), get_dialect(name)
    costs = {} if amounts is None else {column: amounts[column] for column in amounts if column not in names}
    taken = [column.lower() for column in [*names, *fitted.segments, *costs]]
    if len(set(taken)) < len(taken):
        raise MissingRuntimeError("DuckDB cannot distinguish names that differ only in upper and lower case.")
    with closing(base):
        *outer, _ = check_table(table)
        if outer and (name == "sqlite" or len(outer) == 2):
            base.execute(f"ATTACH ':memory:' AS {spoken.quote(outer[0])}")
        if outer and name == "duckdb":
            base.execute(f"CREATE SCHEMA {'.'.join(map(spoken.quote, outer))}")
        home = _table(table, spoken)
        types = dict.fromkeys([*names, *fitted.segments, *costs], "DOUBLE")
        types |= {column: "VARCHAR" for column, levels in fitted.segments.items() if levels is not None}
        others = list({column.lower(): column for column in keep if column.lower() not in taken}.values())
        types |= dict.fromkeys(others, "INTEGER")
        fields = [f"{spoken.quote(column)} {kind}" for column, kind in types.items()]
        base.execute(f"CREATE TABLE {home} ({', '.join(fields)})")
        given = [part.tolist() for part in [*rows.T, *{**(segments or {}), **costs}.values()]]
        marks = ["?"] * len(given) + ["NULL"] * len(others)  # nothing of the proof depends on how texts are quoted
        base.execute("BEGIN")
        base.executemany(f"INSERT INTO {home} VALUES ({', '.join(marks)})", list(zip(*given)))
        results = [line[len(keep) :] for line in base.execute(written).fetchall()]
    width = len(names) * (1 if fitted.interval is None else 3)
    found = np.array([line[:width] for line in results], dtype=np.float64)
    if len(names) < fitted.k:  # p, low and high of the second class
        p, *ends = found.T
        found = np.column_stack([1.0 - p, p, *(([1.0 - ends[1], ends[0], 1.0 - ends[0], ends[1]]) if ends else [])])
    if fitted.rule is None:
        return found
    actions = column_cells(fitted.rule.to_json()["actions"])
    return np.column_stack([found, [actions.index(line[width]) for line in results]])


def _engine(dialect: str) -> tuple[Any, str]:
    """A connection to what runs the query, and its dialect."""
    if dialect != "sqlite":
        return require("duckdb", extra="export").connect(), "duckdb"
    import sqlite3

    base = sqlite3.connect(":memory:")
    try:
        base.execute("SELECT LN(1.0), EXP(0.0), FLOOR(0.5)")
    except sqlite3.OperationalError:  # built without them: docs/export.md tells users the same
        for name, function in (("ln", math.log), ("exp", math.exp), ("floor", math.floor)):
            base.create_function(name, 1, function, deterministic=True)
    return base, "sqlite"
