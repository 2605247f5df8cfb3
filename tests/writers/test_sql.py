"""Queries predict what the calibrator predicts, in DuckDB and as sqlglot understands other databases."""

from __future__ import annotations

import sqlite3
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import calibrant
from calibrant import runtime
from calibrant.cli import app
from calibrant.steps import Log, Softmax
from calibrant.writers import sql
from calibrant.writers.exporting import export_with_proof, prove
from calibrant.writers.proof_rows import sample_rows
from calibrant.writers.sql_dialects import DIALECTS, get_dialect, new_names
from calibrant.writers.sql_statements import number, update_by
from tests.needs import needs
from tests.steps.maps import CASES, fitted
from tests.writers.test_source import HOSTILE, boosted

pytestmark = pytest.mark.export

#: Together they use every step; what is large is written once.
SOME = [case for case in CASES if case[1] == 3 or case == ("cdf-spline", 2)]
SPOKEN = [("isotonic, ovo", 3), ("auto, monotone", 3), ("sqs, kernel", 2), ("svs, logits", 2)]


@pytest.mark.parametrize(("name", "k"), SOME)
def test_duckdb_predicts_the_same(name, k):
    needs("duckdb")
    calibrator, _ = fitted(name, k)
    done = export_with_proof(calibrator, to="sql", dialect="duckdb")
    assert done.difference is not None
    assert done.difference <= (1e-7 if name == "isotonic, logits" else 1e-12)  # steep, and a softmax rounds


@pytest.mark.parametrize("dialect", DIALECTS)
def test_other_databases_get_the_same_query(dialect):
    needs("sqlglot")
    for name, k in SPOKEN:
        done = export_with_proof(fitted(name, k)[0], to="sql", dialect=dialect, table="marts.scores", keep=["id"])
        assert done.difference is not None
        assert done.difference <= 1e-12


@pytest.mark.parametrize("dialect", ["ansi", "duckdb"])
def test_trees(dialect):
    needs("duckdb")
    done = export_with_proof(boosted(), to="sql", dialect=dialect)
    assert done.difference is not None
    assert done.difference <= 1e-12


@pytest.mark.parametrize("dialect", DIALECTS)
def test_hostile_names_and_reordered_columns(dialect):
    sqlglot = needs("sqlglot")
    map_ = runtime.Map(HOSTILE, [Log(), Softmax()], columns=np.array([5, 0, 1, 2, 4, 3]))
    options = {"dialect": dialect, "table": '"; DROP TABLE x; --', "keep": ["`\\'", "id\n--"]}
    difference = prove(
        sql.write(map_, [], **options),
        map_,
        lambda written, m, rows: sql.run(written, m, rows, **options),
        1e-15,
        sample_rows(map_),
    )
    assert difference <= 1e-15
    statements = sqlglot.parse(sql.write(map_, [], **options), read=DIALECTS[dialect].name)
    assert len(statements) == 1
    assert {table.name for table in statements[0].find_all(sqlglot.exp.Table)} >= {'"; DROP TABLE x; --'}
    named = [column.alias for column in statements[0].selects]
    assert named[:2] == ["`\\'", "id\n--"]
    if dialect == "bigquery":  # which has no such columns
        assert all(name.isidentifier() for name in named[2:])
        assert len(set(named)) == len(named)
    else:
        assert named[2:] == [f"{label}_cal" for label in HOSTILE]


def score(query, rows, names=("a", "b")):
    """What a query selects from a table of these rows, which are texts of SQL."""
    with needs("duckdb").connect() as base:
        base.execute(f"CREATE TABLE predictions ({', '.join(f'{name} DOUBLE' for name in names)}, id INTEGER)")
        for number, row in enumerate(rows):
            base.execute(f"INSERT INTO predictions VALUES ({', '.join(row)}, {number})")
        return base.execute(query).fetchall()


def test_rows_that_are_no_predictions_are_null():
    map_ = runtime.Map(["a", "b"], [Log(), Softmax()])
    rows = [("0.25", "0.75"), ("NULL", "1"), ("'nan'", "0.5"), ("-0.1", "1.1"), ("0", "0"), ("0.3", "0.3")]
    found = score(sql.write(map_, keep=["id"]), rows)
    assert found[0] == pytest.approx((0, 0.25, 0.75))
    assert found[1:] == [(number, None, None) for number in range(1, 6)]
    logits = runtime.Map(["a", "b"], [Log(), Softmax()], logits=True)
    found = score(sql.write(logits), [("0", "'-inf'"), ("'nan'", "1"), ("'inf'", "1"), ("NULL", "1"), ("-800", "-800")])
    assert found[0] == pytest.approx((1.0, np.finfo(np.float32).tiny), rel=1e-6)
    assert found[1:4] == [(None, None)] * 3
    assert found[4] == pytest.approx((0.5, 0.5))
    rescaled = runtime.Map(["a", "b"], [Log(), Softmax()], renormalize=True)
    found = score(sql.write(rescaled), [("3", "1"), ("1e300", "3e300"), ("0", "0"), ("NULL", "2")])
    assert found[2:] == [(None, None)] * 2
    np.testing.assert_allclose(found[:2], [(0.75, 0.25), (0.25, 0.75)], rtol=1e-12)


def test_a_single_column_is_the_second_class():
    calibrator = calibrant.get_calibrator("ts").fit([0.1, 0.6, 0.9, 0.8], ["no", "yes", "yes", "yes"])
    found = score(calibrant.export(calibrator, to="sql", columns=["p"]), [("0.7",), ("1.0",), ("7",)], ["p"])
    np.testing.assert_allclose(
        np.array(found[:2])[:, 0], calibrator.predict_proba([0.7, 1.0])[:, 1], rtol=0, atol=1e-15
    )
    assert found[2] == (None,)
    assert '"yes_cal"' in calibrant.export(calibrator, to="sql")


@pytest.mark.parametrize("method", [info.name for info in calibrant.list_calibrators() if info.stores])
def test_every_method_reads_a_single_column(method):
    base = needs("duckdb").connect()
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y, fresh = rng.random(300) < p**1.5, np.concatenate([[0.0, 1.0, 1e-40, 1.0 - 1e-16], rng.random(30)])
    for kind in ("probabilities", "logits"):
        with np.errstate(divide="ignore"):
            x, new = (q if kind == "probabilities" else np.log(q) - np.log1p(-q) for q in (p, fresh))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calibrator = calibrant.get_calibrator(method, input=kind).fit(x, y)
        new = new[np.isfinite(new)]
        query = calibrant.export(calibrator, to="sql", dialect="duckdb", columns=["p"])
        base.execute("CREATE OR REPLACE TABLE predictions (p DOUBLE)")
        base.executemany("INSERT INTO predictions VALUES (?)", new[:, None].tolist())
        found = np.array(base.execute(query).fetchall())[:, 0]
        np.testing.assert_allclose(found, calibrator.predict_proba(new)[:, 1], rtol=0, atol=1e-12)
        # The proof has rows of single precision, which do not sum to one: the query sees one of their columns.
        assert export_with_proof(calibrator, to="sql").difference <= 1e-12


@pytest.mark.parametrize("options", [{"columns": ["p.no", "p.yes"]}, {"columns": ["p.yes"]}, {"keep": ["a.b"]}])
def test_bigquery_has_no_names_with_a_dot(options):
    needs("sqlglot")
    calibrator = fitted("ts", 2)[0]
    with pytest.raises(ValueError, match=r"'.*\..*' cannot be the name of a column.* in bigquery.*another name"):
        calibrant.export(calibrator, to="sql", dialect="bigquery", **options)
    by_version = runtime.Map([0, 1], fitted("ts", 2)[0].to_map().steps, segments={"v.1": ["a"]})
    with pytest.raises(ValueError, match=r"'v\.1' cannot be the name of a column of segments in bigquery"):
        sql.write(by_version, dialect="bigquery")
    for dialect in set(DIALECTS) - {"bigquery"}:
        assert export_with_proof(calibrator, to="sql", dialect=dialect, **options).difference <= 1e-12


def test_parts_of_statements():
    needs("sqlglot")
    assert [number(x) for x in (0.5, -2.0, 1e-30)] == ["0.5e0", "(-2.0e0)", "1e-30"]
    bigquery, postgres = get_dialect("bigquery"), get_dialect("postgres")
    assert bigquery.form("CAST({} AS DOUBLE PRECISION)") == "CAST({} AS FLOAT64)"
    assert new_names(["p a", "p-a"], bigquery, []) == ["p_a", "p_a_2"]
    update = update_by("SELECT id, 1 AS p\n", postgres, "t", ["id"], ["p"])
    assert update.startswith("UPDATE t AS target\nSET p = calibrated.p\nFROM (\nSELECT id, 1 AS p\n) AS calibrated\n")
    assert update.endswith("\nWHERE target.id = calibrated.id\n")


def test_sqlite_without_mathematical_functions(monkeypatch):
    class Plain(sqlite3.Connection):
        def execute(self, query, *given):
            if query == "SELECT LN(1.0), EXP(0.0), FLOOR(0.5)":
                raise sqlite3.OperationalError("no such function: LN")
            return super().execute(query, *given)

    monkeypatch.setattr(sqlite3, "connect", lambda name: Plain(name))
    done = export_with_proof(fitted("sms", 3)[0], to="sql", dialect="sqlite")
    assert done.difference <= 1e-12


def test_text_grows_with_the_steps_and_not_with_the_ways_through_them():
    p = np.random.default_rng(0).dirichlet(np.ones(30), size=300)
    sms = calibrant.get_calibrator("sms").fit(p, np.arange(300) % 30)
    assert len(sql.write(sms.to_map())) < 100_000


def test_options_are_checked_and_columns_are_those_of_fit():
    pd = needs("pandas")
    frame = pd.DataFrame({"p_b": [0.3, 0.6, 0.2, 0.9], "p_a": [0.7, 0.4, 0.8, 0.1]})
    with pytest.warns(calibrant.CalibrationWarning, match="sorted order"):
        calibrator = calibrant.get_calibrator("ts", classes=["b", "a"]).fit(frame, ["a", "b", "a", "b"])
    query = calibrant.export(calibrator, to="sql")
    assert '"p_a_cal"' in query
    for options, message in (
        ({"dialect": "oracle"}, "dialect='oracle' is unknown: use one of ansi"),
        ({"dialect": "mariadb", "table": "a.b.c"}, "is not the name of a table: give its name"),
        ({"columns": ["p"] * 2}, "'p' is the name of more than one column"),
        ({"columns": ["p", "q", "r"]}, "are 3 names; 2 are needed"),
        ({"table": "a.b.c.d"}, "is not the name of a table: give its name"),
        ({"keep": ["\0"]}, "cannot be the name of a column to keep"),
        ({"dtype": "float32"}, "dtype is an option of onnx and torch, not of sql: leave it out"),
    ):
        with pytest.raises(ValueError, match=message):
            calibrant.export(calibrator, to="sql", **options)


def test_command_line(tmp_path):
    needs("duckdb")
    calibrant.save(fitted("sms", 3)[0], tmp_path / "cal.json")
    out = tmp_path / "cal.sql"
    command = ["export", str(tmp_path / "cal.json"), "-o", str(out), "--dialect", "spark", "--table", "a.b"]
    done = CliRunner().invoke(app, [*command, "--keep", "id", "--columns", "x,y,z", "--suffix", "_new"])
    assert done.exit_code == 0, done.output
    text = out.read_text()
    assert "FROM `a`.`b`" in text
    assert "`z_new`" in text
    assert "largest difference" in text
