"""One SELECT over columns of predictions, for standard SQL, DuckDB, PostgreSQL, BigQuery, Snowflake and Spark.

Common table expressions hold what is used more than once. A row that is no prediction gets NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from calibrant.optional import require
from calibrant.runtime import Map
from calibrant.typing import FloatArray
from calibrant.writers.export_options import OptionError
from calibrant.writers.source import Segments, row_by_row, title
from calibrant.writers.sql_dialects import Dialect, check_apart, check_names, get_dialect, new_names
from calibrant.writers.sql_program import number
from calibrant.writers.sql_steps import QueryWriter
from calibrant.writers.tools import MissingRuntimeError

#: Largest difference of a probability.
TOLERANCE = 1e-12


def _names(fitted: Map, columns: Sequence[str] | None) -> list[str]:
    """The columns of predictions, in their order; by default they are called as the classes are."""
    if columns is None:
        columns = [str(label) for label in fitted.classes]
        if fitted.columns is not None:
            columns = [columns[j] for j in np.argsort(fitted.columns)]
    names = check_names(columns, "column")
    if len(names) != fitted.k and not (len(names) == 1 and fitted.k == 2):
        are = "is 1 name" if len(names) == 1 else f"are {len(names)} names"
        raise OptionError("columns", names, f"{are}; {fitted.k} are needed, one per class.")
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
) -> str:
    """A query that gives columns `keep` of a table and calibrated `columns`, whose names end with `suffix`."""
    spoken = get_dialect(dialect)
    names = check_names(_names(fitted, columns), "column", spoken)
    kept = check_names(keep, "column to keep", spoken)
    writer = QueryWriter(spoken)
    given = [writer.value(f"CAST({spoken.quote(name)} AS {spoken.double})") for name in names]
    x, valid = writer.prepare(fitted, given)
    check_apart([*names, *check_names(fitted.segments, "column of segments", spoken)], spoken)
    out = writer.run(fitted.steps, [*x, *(writer.segment(*column) for column in fitted.segments.items())])
    order = range(fitted.k) if fitted.columns is None else fitted.columns
    classes = [(out[1], names[0])] if len(names) == 1 else [(out[j], names[place]) for j, place in enumerate(order)]
    called = new_names([name + suffix for _, name in classes], spoken, kept)
    outputs = [
        (writer.value("CASE WHEN ", valid, " = 1 THEN ", value, " END"), spoken.quote(name))
        for (value, _), name in zip(classes, called)
    ]
    query = writer.select(_table(table, spoken), [spoken.quote(name) for name in kept], outputs, spoken)
    return "".join(f"-- {line}\n" for line in [title(fitted), *notes]) + query


def _table(table: str, dialect: Dialect) -> str:
    return ".".join(dialect.quote(name) for name in check_table(table))


def check_table(table: str) -> list[str]:
    """The parts of a table's name: database, schema, table, as far as they are given."""
    parts = table.split(".")
    if not 1 <= len(parts) <= 3:
        reason = "is no table: give its name, with its schema and database before it if needed."
        raise OptionError("table", table, reason)
    return [name for part in parts for name in check_names([part], "table")]


def defaults(calibrator: Any) -> dict[str, Any]:
    """Options that a calibrator knows itself: the columns it was fitted to."""
    names = getattr(calibrator, "feature_names_in_", None)
    if names is not None:
        return {"columns": [str(name) for name in names]}
    if getattr(calibrator, "n_features_in_", 0) == 1:
        return {"columns": [str(calibrator.classes_[1])]}
    return {}


def taken(fitted: Map, rows: FloatArray, *, columns: Sequence[str] | None = None, **options: Any) -> FloatArray:
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
    segments: Segments | None = None,
    **options: Any,
) -> FloatArray:
    """Predictions of the query by DuckDB; what is written for another database is translated by sqlglot."""
    try:
        duckdb = require("duckdb", extra="export")
        if dialect not in ("ansi", "duckdb"):
            sqlglot = require("sqlglot", extra="export")
            written = sqlglot.transpile(written, read=get_dialect(dialect).name, write="duckdb")[0]
    except ImportError as error:
        raise MissingRuntimeError("duckdb and sqlglot are not installed.") from error
    names, spoken = _names(fitted, columns), get_dialect("duckdb")
    taken = [name.lower() for name in [*names, *fitted.segments]]
    if len(set(taken)) < len(taken):
        raise MissingRuntimeError("DuckDB does not tell names apart that differ in capital letters only.")
    with duckdb.connect() as base:
        *outer, _ = check_table(table)
        if len(outer) == 2:
            base.execute(f"ATTACH ':memory:' AS {spoken.quote(outer[0])}")
        if outer:
            base.execute(f"CREATE SCHEMA {'.'.join(map(spoken.quote, outer))}")
        home = _table(table, spoken)
        fields = [f"{spoken.quote(name)} DOUBLE" for name in names]
        fields += [
            f"{spoken.quote(name)} {'DOUBLE' if levels is None else 'VARCHAR'}"
            for name, levels in fitted.segments.items()
        ]
        others = list({name.lower(): name for name in keep if name.lower() not in taken}.values())
        fields += [f"{spoken.quote(name)} INTEGER" for name in others]
        base.execute(f"CREATE TABLE {home} ({', '.join(fields)})")
        blanks = ["NULL"] * len(others)
        if segments is None:
            lines = ",".join(f"({', '.join([*map(number, row), *blanks])})" for row in rows.tolist())
            base.execute(f"INSERT INTO {home} VALUES {lines}")
        else:  # texts are given as they are: nothing of the proof depends on how they are quoted
            line = f"INSERT INTO {home} VALUES ({', '.join(['?'] * (len(fields) - len(others)) + blanks)})"
            cells = [[*row, *values.values()] for row, values in zip(rows.tolist(), row_by_row(segments))]
            base.execute("BEGIN")
            base.executemany(line, cells)
        found = np.array([line[len(keep) :] for line in base.execute(written).fetchall()], dtype=np.float64)
    return np.hstack([1.0 - found, found]) if len(names) == 1 else found
