"""Maps that take segments predict the same in every language, whatever their levels are called."""

from __future__ import annotations

import json
import sqlite3
import warnings
from contextlib import closing

import numpy as np
import pytest
from typer.testing import CliRunner

import calibrant
from calibrant import adapt, runtime
from calibrant.cli import app
from calibrant.inputs.segments import texts_of
from calibrant.steps import Columns, Join, Levels, Log, Softmax, Sum
from calibrant.steps.step import NotSupportedError
from calibrant.writers import c_source, javascript, sql
from calibrant.writers.common import run_program, workshop
from calibrant.writers.exporting import ParityError, export_with_proof, prove
from calibrant.writers.proof_rows import sample_rows, with_segments
from calibrant.writers.sql_dialects import DIALECTS
from tests.needs import needs, needs_program
from tests.segmented import CASES, REGIONS, rows, segmented

#: What runs an export.
NEEDS = {"js": "node", "c": "cc", "sql": "duckdb", "onnx": "onnxruntime", "torch": "torch"}
MARKS = {"js": "program", "c": "program", "sql": "export", "onnx": "export", "torch": "torch"}
TARGETS = ["python", *(pytest.param(to, marks=getattr(pytest.mark, mark)) for to, mark in MARKS.items())]


def needs_target(to):
    if to in ("js", "c"):
        needs_program(NEEDS[to])
    elif to != "python":
        needs(NEEDS[to])


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_predicts_the_same(to, case):
    needs_target(to)
    done = export_with_proof(segmented(case), to=to)
    assert done.difference is not None
    assert done.difference <= 1e-12
    assert done.rows >= len(REGIONS)


@pytest.mark.export
@pytest.mark.parametrize("dialect", DIALECTS)
def test_databases_read_hostile_levels_as_texts(dialect):
    sqlglot = needs("sqlglot")
    calibrator = segmented(4)
    done = export_with_proof(calibrator, to="sql", dialect=dialect, table="a.b", keep=["id", "region"])
    assert done.difference is not None
    assert done.difference <= 1e-12
    statements = sqlglot.parse(done.written, read=DIALECTS[dialect].name)
    assert len(statements) == 1
    texts = {literal.this for literal in statements[0].find_all(sqlglot.exp.Literal) if literal.is_string}
    assert texts >= {text for text in REGIONS if text is not None}


@pytest.mark.export
@pytest.mark.parametrize("to", ["onnx", pytest.param("torch", marks=pytest.mark.torch)])
def test_single_precision(to):
    needs_target(to)
    done = export_with_proof(segmented(0), to=to, dtype="float32")
    assert done.difference is not None
    assert done.difference <= 2e-6


def by_letter():
    """Even odds become those of the level."""
    pick = [Columns(np.array([0, 1]))]
    level = Levels(np.log([[1.0, 3.0], [1.0, 9.0]]), np.zeros((2, 2)))
    levels = [Join(([*pick, Log()], [Columns(np.array([2]))])), level]
    return runtime.Map(["no", "yes"], [Sum(([*pick, Log()], levels)), Softmax()], segments={"x": ["7", "True"]})


def test_a_wrong_level_is_noticed():
    map_ = by_letter()
    sample, frame = with_segments(map_, sample_rows(map_))
    with pytest.raises(ParityError, match=r"with \{'x': '7'\}, the calibrator"):
        prove(
            None,
            map_,
            lambda _, fitted, rows, segments: fitted.predict_proba(rows, segments={"x": ["True"] * len(rows)}),
            1e-12,
            sample[frame["x"] == "7"],
            {"x": frame["x"][frame["x"] == "7"]},
        )


def test_python_takes_values_as_calibrant_does():
    scope: dict = {}
    exec(calibrant.export(by_letter(), to="python"), scope)
    values = [7, 7.0, "7", True, None, float("nan"), "x", "7.0", "true"]
    found = [scope["calibrate"]([0.5, 0.5], {"x": value, "other": 1})[1] for value in values]
    assert found == pytest.approx([0.75, 0.75, 0.75, 0.9, 0.5, 0.5, 0.5, 0.75, 0.9])
    with pytest.raises(KeyError):
        scope["calibrate"]([0.5, 0.5], {})


@pytest.mark.program
def test_javascript_takes_values_as_calibrant_does():
    needs_program("node")
    script = """
const { calibrate } = require("./map.cjs");
const values = [7, 7.0, "7", true, null, NaN, "x", "7.0", "true"];
const found = values.map((x) => calibrate([0.5, 0.5], { x })[1]);
try { calibrate([0.5, 0.5], {}); } catch (error) { found.push(error.message); }
console.log(JSON.stringify(found));
"""
    with workshop({"map.cjs": calibrant.export(by_letter(), to="js"), "run.cjs": script}) as folder:
        *found, message = json.loads(run_program(["node", "run.cjs"], folder))
    assert found == pytest.approx([0.75, 0.75, 0.75, 0.9, 0.5, 0.5, 0.5, 0.75, 0.9])
    assert message == "segments lacks x"


@pytest.mark.program
def test_javascript_spells_numbers_as_python_does():
    needs_program("node")
    values = [1e-5, 2.5e-5, -1e-7, 1.25e-10, 1e-4, 0.1, 5e-324, 1e21, -3e25, 1e16, 123456.789, -0.0, float("inf")]
    levels = texts_of(np.array(values))
    script = f"""
const {{ calibrate }} = require("./map.cjs");
const values = {json.dumps(values)};
console.log(JSON.stringify(values.map((x) => calibrate([0.5, 0.5], {{ x }}))));
"""
    odds = np.log(np.linspace(0.1, 0.9, len(levels)))[:, None] * [0.0, 1.0]
    pick = [Columns(np.array([0, 1])), Log()]
    steps = [Sum((pick, [Join((pick, [Columns(np.array([2]))])), Levels(odds, np.zeros_like(odds))])), Softmax()]
    map_ = runtime.Map(["no", "yes"], steps, segments={"x": levels})
    with workshop({"map.cjs": calibrant.export(map_, to="js"), "run.cjs": script}) as folder:
        found = json.loads(run_program(["node", "run.cjs"], folder))
    np.testing.assert_allclose(found, map_.predict_proba(np.full((13, 2), 0.5), segments={"x": values}), atol=1e-15)


@pytest.mark.program
def test_c_finds_levels_by_their_texts():
    needs_program("cc")
    calibrator = segmented(0)
    levels = calibrator.segment_columns_["region"].tolist()
    tries = "\n".join(
        f'    printf("%g ", calibrate_level(0, "{c_source._escaped(text)}"));'
        for text in [*levels, "nowhere", "5.0", "true"]
    )
    main = f'#include "map.c"\nint main(void) {{\n{tries}\n    return 0;\n}}\n'
    with workshop({"map.c": calibrant.export(calibrator, to="c"), "main.c": main}) as folder:
        run_program(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "main.c", "-o", "levels", "-lm"], folder)
        found = run_program([str(folder / "levels")], folder).split()
    again = [str(levels.index(level)) for level in ("5", "True")]
    assert found == [*map(str, range(len(levels))), "-1", *again]
    ends = runtime.Map(["a", "b"], by_letter().steps, segments={"x": ["a\0b"]})
    with pytest.raises(NotSupportedError, match="character 0"):
        c_source.write(ends, [])


@pytest.mark.export
def test_databases_write_numbers_booleans_and_missing_values_in_their_ways():
    base = needs("duckdb").connect()
    for kind, cells, answers in (
        ("DOUBLE", ["7", "NULL", "8"], [0.75, 0.5, 0.5]),
        ("INTEGER", ["7", "NULL", "8"], [0.75, 0.5, 0.5]),
        ("BOOLEAN", ["true", "false"], [0.9, 0.5]),
        ("VARCHAR", ["'True'", "'7'", "'007'", "'7.00'", "''"], [0.9, 0.75, 0.75, 0.75, 0.5]),
        ("DECIMAL(10, 2)", ["7.00", "7.01", "NULL"], [0.75, 0.5, 0.5]),
    ):
        base.execute(f"CREATE OR REPLACE TABLE predictions (no DOUBLE, yes DOUBLE, x {kind})")
        for cell in cells:
            base.execute(f"INSERT INTO predictions VALUES (0.5, 0.5, {cell})")
        found = base.execute(sql.write(by_letter(), columns=["no", "yes"])).fetchall()
        np.testing.assert_allclose([row[1] for row in found], answers, atol=1e-12)
    strange = runtime.Map(["a", "b"], by_letter().steps, segments={"x": ["a\0b"]})
    with pytest.raises(ValueError, match="SQL does not allow"):
        sql.write(strange)


#: Levels, a spelling, and the level that it stands for.
SPELLED = [
    (["3"], "3.00", "3"),
    (["3"], "003", "3"),
    (["007"], "7", "007"),
    (["007"], "07.0", "007"),
    (["007", "7"], "07", "7"),
    (["007", "07"], "7", None),
    (["0"], "0.00", "0"),
    (["0"], "-0", "0"),
    (["0"], ".", None),
    (["0"], "-", None),
    (["0", ""], "", ""),
    (["0"], "", None),
    (["0.5"], ".50", "0.5"),
    (["-5"], "-05", "-5"),
    (["-5"], "0-5", None),
    (["5", "-5"], "--5", None),
    (["7"], "7..", None),
    (["7"], "7.0.0", None),
    (["70"], "7", None),
    (["1e-05"], "0.000010", "1e-05"),
    (["True"], "TRUE", "True"),
    (["FALSE"], "False", "FALSE"),
    (["2024-01-31"], "2024-01-31 00:00:00", "2024-01-31"),
    (["2024-01-31T00:00:00"], "2024-01-31", "2024-01-31T00:00:00"),
    ([str(2**53 + 1), str(2**53)], f"0{2**53 + 1}.0", str(2**53 + 1)),
    (["", "5"], "5-", None),
]


def by_level(levels):
    """A map whose probabilities tell the level of a row."""
    odds = np.log(2.0 + np.arange(len(levels)))[:, None] * [0.0, 1.0]
    pick = [Columns(np.array([0, 1])), Log()]
    steps = [Sum((pick, [Join((pick, [Columns(np.array([2]))])), Levels(odds, np.zeros_like(odds))])), Softmax()]
    return runtime.Map(["no", "yes"], steps, segments={"x": levels})


def in_python(map_, text):
    scope: dict = {}
    exec(calibrant.export(map_, to="python"), scope)
    return scope["calibrate"]([0.5, 0.5], {"x": text})


def in_sql(map_, text, dialect="duckdb"):
    duckdb, sqlglot = needs("duckdb"), needs("sqlglot")
    query = sql.write(map_, dialect=dialect)
    if dialect != "sqlite":
        query = sqlglot.transpile(query, read=DIALECTS[dialect].name, write="duckdb")[0]
    with closing(sqlite3.connect(":memory:") if dialect == "sqlite" else duckdb.connect()) as base:
        base.execute("CREATE TABLE predictions (no DOUBLE, yes DOUBLE, x VARCHAR)")
        base.execute("INSERT INTO predictions VALUES (0.5, 0.5, ?)", [text])
        return base.execute(query).fetchall()[0]


def in_javascript(map_, text):
    needs_program("node")
    script = f'console.log(JSON.stringify(require("./map.cjs").calibrate([0.5, 0.5], {{ x: {json.dumps(text)} }})));'
    with workshop({"map.cjs": javascript.write(map_, []), "run.cjs": script}) as folder:
        return json.loads(run_program(["node", "run.cjs"], folder))


def in_c(map_, text):
    needs_program("cc")
    main = f"""#include "map.c"
int main(void) {{
    double row[2] = {{0.5, 0.5}}, out[2], segments[1] = {{calibrate_level(0, "{c_source._escaped(text)}")}};
    calibrate(row, segments, out);
    printf("%.17g %.17g", out[0], out[1]);
    return 0;
}}
"""
    with workshop({"map.c": c_source.write(map_, []), "main.c": main}) as folder:
        run_program(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "main.c", "-o", "map", "-lm"], folder)
        return list(map(float, run_program([str(folder / "map")], folder).split()))


@pytest.mark.parametrize(
    "run",
    [
        lambda map_, text: map_.predict_proba([0.5], segments={"x": [text]})[0],
        in_python,
        pytest.param(in_sql, marks=pytest.mark.export),
        pytest.param(in_javascript, marks=pytest.mark.program),
        pytest.param(in_c, marks=pytest.mark.program),
    ],
)
@pytest.mark.parametrize(("levels", "text", "level"), SPELLED)
def test_every_target_finds_levels_by_one_rule(run, levels, text, level):
    odds = 1.0 if level is None else 2.0 + levels.index(level)
    assert run(by_level(levels), text)[1] == pytest.approx(odds / (1.0 + odds), abs=1e-12)


@pytest.mark.export
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_database_finds_levels_by_one_rule(dialect):
    for levels, text, level in SPELLED[::2]:
        odds = 1.0 if level is None else 2.0 + levels.index(level)
        assert in_sql(by_level(levels), text, dialect)[1] == pytest.approx(odds / (1.0 + odds), abs=1e-12), (
            text,
            levels,
        )


@pytest.mark.export
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["yes", "YES"])
def test_one_column_is_not_prediction_and_segment(dialect, name):
    needs("sqlglot")
    map_ = runtime.Map(["no", "yes"], by_letter().steps, segments={"".join(name): ["7", "True"]})
    if name == "YES" and DIALECTS[dialect].cases:  # two columns there, but not in DuckDB, which would compare
        done = export_with_proof(map_, to="sql", dialect=dialect)
        assert done.proof == "Not proven: DuckDB cannot distinguish names that differ only in upper and lower case."
    else:
        with pytest.raises(ValueError, match=r"columns=.* names one column twice"):
            export_with_proof(map_, to="sql", dialect=dialect)
        done = export_with_proof(map_, to="sql", dialect=dialect, columns=["p0", "p1"], keep=["ID", "id"])
        assert done.difference <= 1e-15


@pytest.mark.export
@pytest.mark.torch
def test_files_hold_the_levels_and_run_without_calibrant(tmp_path):
    onnx, torch = needs("onnx"), needs("torch")
    calibrator = adapt(segmented(0), prior=[0.2, 0.8], source=[0.5, 0.5])
    p, frame = rows(50, 2, 7)
    numbers = calibrator.to_map().numbers(frame, 50)
    expected = calibrator.predict_proba(p, segments=frame)
    calibrant.export(calibrator, tmp_path / "cal.onnx")
    facts = {prop.key: prop.value for prop in onnx.load(tmp_path / "cal.onnx").metadata_props}
    columns = json.loads(facts["segments"])
    assert [column["name"] for column in columns] == list(frame)
    assert columns[2]["levels"] == ["a", "b", "c"]
    assert columns[3]["levels"] is None
    calibrant.export(calibrator, tmp_path / "cal.pt2")
    extra = {"calibrant.json": ""}
    program = torch.export.load(tmp_path / "cal.pt2", extra_files=extra)
    found = program.module()(torch.as_tensor(p), torch.as_tensor(numbers)).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert json.loads(json.loads(extra["calibrant.json"])["segments"]) == columns
    module = calibrant.export(calibrator, to="torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(module)(torch.as_tensor(p), torch.as_tensor(numbers)).numpy()
    np.testing.assert_allclose(scripted, expected, rtol=0, atol=1e-12)


@pytest.mark.torch
def test_a_network_gives_no_segments():
    torch = needs("torch")
    from calibrant.writers.torch_module import CalibratedNetwork

    with pytest.raises(ValueError, match="takes segments, which a network does not provide"):
        CalibratedNetwork(torch.nn.Linear(2, 2), segmented(0))


@pytest.mark.export
def test_command_line(tmp_path):
    needs("duckdb")
    calibrant.save(segmented(0), tmp_path / "seg.json")
    out = tmp_path / "seg.sql"
    done = CliRunner().invoke(app, ["export", str(tmp_path / "seg.json"), "-o", str(out), "--dialect", "duckdb"])
    assert done.exit_code == 0, done.output
    assert "largest difference" in out.read_text()
    assert '"phone\'s"' in out.read_text()
