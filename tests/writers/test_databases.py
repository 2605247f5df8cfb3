"""Queries, views and updates in the databases themselves: private PostgreSQL and MariaDB servers, and SQLite."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.inputs.words import CalibrationWarning
from calibrant.writers.proof_rows import sample_rows
from calibrant.writers.sql import limits
from calibrant.writers.sql_dialects import DIALECTS
from calibrant.writers.sql_statements import number
from tests.needs import in_ci, needs
from tests.steps.maps import fitted
from tests.writers.test_source import boosted

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from databases import SERVERS, MissingServerError

pytestmark = [pytest.mark.export, pytest.mark.slow]

#: Maps with every kind of operation: sums and products, powers, searches among points, trees.
MAPS = [
    ("ts", 3),
    ("sms", 3),
    ("isotonic, ovo", 3),
    ("sqs, kernel", 2),
    ("svs, logits", 2),
    ("auto, monotone", 3),
    ("trees", 3),
]
#: What no calibrator takes: the calibrated columns are NULL.
REFUSED = ["NULL", "-0.5e0", "1e300"]


def _sqlite(base):
    def run(sql):
        cells = []
        for statement in sql.split(";\n"):
            cells = base.execute(statement).fetchall() if statement.strip() else cells
        return [["" if cell is None else str(cell) for cell in row] for row in cells]

    return run


@pytest.fixture(scope="module", params=["sqlite", *SERVERS])
def database(request):
    """A dialect, and what runs SQL in it."""
    needs("sqlglot")
    if request.param == "sqlite":
        with closing(sqlite3.connect(":memory:")) as base:
            try:
                base.execute("SELECT LN(1.0), EXP(0.0), FLOOR(0.5)")
            except sqlite3.OperationalError:
                pytest.skip("this SQLite was built without LN and EXP")
            yield "sqlite", _sqlite(base)
        return
    try:
        with SERVERS[request.param]() as run:
            yield request.param, run
    except MissingServerError as error:
        (pytest.fail if in_ci() else pytest.skip)(str(error))


def _fill(run, rows, names, dialect):
    """A table `scores` with a number for each row, and columns for what is calibrated."""
    quote = "`{}`" if dialect == "mysql" else '"{}"'
    kind = "DOUBLE PRECISION" if dialect == "postgres" else "DOUBLE"
    fields = ", ".join(f"{quote.format(name)} {kind}" for name in [*names, *(f"{name}_cal" for name in names)])
    blanks = ["NULL"] * len(names)
    lines = [", ".join([str(i), *row, *blanks]) for i, row in enumerate(rows)]
    run(
        "DROP VIEW IF EXISTS calibrated_scores;\nDROP TABLE IF EXISTS scores;\n"
        f"CREATE TABLE scores (id INTEGER, {fields});\n"
        f"INSERT INTO scores VALUES {', '.join(f'({line})' for line in lines)};\n"
    )


def _numbers(cells):
    return np.array([[float(cell) if cell not in ("", "NULL") else np.nan for cell in row] for row in cells])


@pytest.mark.parametrize(("name", "k"), MAPS)
def test_a_database_gives_the_numbers_of_the_calibrator_and_null_for_rows_that_are_refused(database, name, k):
    dialect, run = database
    map_ = boosted() if name == "trees" else fitted(name, k)[0].to_map()
    sample = sample_rows(map_)
    sample = sample[np.abs(sample).max(axis=1) < 1e300]
    names = [f"p{j}" for j in range(k)]
    bad = [[text, *["0.5e0"] * (k - 1)] for text in (REFUSED if not map_.logits else REFUSED[:1])]
    _fill(run, [*([number(value) for value in row] for row in sample.tolist()), *bad], names, dialect)
    expected = np.vstack([map_.predict_proba(sample), np.full((len(bad), k), np.nan)])
    options = {"dialect": dialect, "table": "scores", "columns": names}
    query = calibrant.export(map_, to="sql", keep=["id"], **options)
    found = _numbers(run(query.rstrip() + " ORDER BY 1;\n"))
    np.testing.assert_allclose(found[:, 1:], expected, rtol=0, atol=1e-11)
    run(calibrant.export(map_, to="sql", keep=["id"], view="calibrated_scores", **options).rstrip() + ";\n")
    view = _numbers(run("SELECT * FROM calibrated_scores ORDER BY id;\n"))
    np.testing.assert_array_equal(view, found)
    run(calibrant.export(map_, to="sql", update=["id"], **options).rstrip() + ";\n")
    filled = ", ".join(f"{name}_cal" for name in names)
    updated = _numbers(run(f"SELECT {filled} FROM scores ORDER BY id;\n"))
    np.testing.assert_array_equal(updated, found[:, 1:])


def test_what_a_warehouse_will_not_take_is_said(monkeypatch):
    calibrator, _ = fitted("ts", 3)
    text = calibrant.export(calibrator, to="sql", dialect="bigquery")
    assert limits(text + " " * 1_000_000, dialect="bigquery")
    assert limits(text + " " * 1_000_000, dialect="postgres") == []
    monkeypatch.setitem(DIALECTS, "bigquery", replace(DIALECTS["bigquery"], longest=1000))
    with pytest.warns(
        CalibrationWarning, match=r"bytes; bigquery takes at most 1,000. Fit a calibrator with a smaller"
    ):
        assert calibrant.export(calibrator, to="sql", dialect="bigquery") == text


def test_an_update_changes_the_table_and_nothing_else():
    calibrator, _ = fitted("ts", 3)
    for options in ({"keep": ["id"]}, {"view": "v"}):
        with pytest.raises(ValueError, match=r"update=\['id'\] changes the table itself: leave"):
            calibrant.export(calibrator, to="sql", update=["id"], **options)
    text = calibrant.export(calibrator, to="sql", dialect="snowflake", table="marts.scores", update=["id", "day"])
    needs("sqlglot").parse_one(text, read="snowflake")
    assert 'MERGE INTO "marts"."scores" AS target' in text
    assert 'ON target."id" = calibrated."id" AND target."day" = calibrated."day"' in text
