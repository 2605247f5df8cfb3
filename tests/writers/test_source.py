"""Source code in Python, JavaScript and C predicts what the calibrator predicts."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

import calibrant
from calibrant import runtime
from calibrant.steps import Function, Log, Softmax, Trees
from calibrant.steps.lines import pieces
from calibrant.steps.step import NotSupportedError
from calibrant.writers import c_source, javascript, python_source
from calibrant.writers.common import run_program, workshop
from calibrant.writers.exporting import TARGETS, ParityError, export_with_proof, prove
from calibrant.writers.proof_rows import sample_rows
from tests.needs import needs_program
from tests.steps.maps import MAPS, ROWS, fitted

LANGUAGES = {"python": python_source, "js": javascript, "c": c_source}
PROGRAMS = {"js": "node", "c": "cc"}
OTHERS = [pytest.param(language, marks=pytest.mark.program) for language in PROGRAMS]
HOSTILE = ['"; DROP TABLE x; --', "</script><script>alert(1)</script>", "*/ int main(", "\\'\"", "a\nb\r\u2028", "😀 é"]

#: Together they use every step.
COMPILED = [
    ("isotonic, ovo", 3),
    ("auto, monotone", 3),
    ("auto, monotone", 2),
    ("sqs, kernel", 3),
    ("spline", 2),
    ("kernel", 3),
    ("venn-abers", 10),
    ("svs, logits", 3),
    ("quadratic", 2),
    ("ets", 3),
    ("cdf-spline", 2),
]


def boosted(k: int = 3) -> runtime.Map:
    """Trees with questions about columns and differences of columns."""
    rng = np.random.default_rng(0)
    features, subtracted = rng.integers(0, k, (30, 5)), rng.integers(-1, k, (30, 5))
    trees = Trees(features, subtracted, rng.normal(size=(30, 5)), rng.normal(size=(30, 32, k)))
    return runtime.Map(list(range(k)), [Log(), trees, Softmax()])


def compare(language, map_, rows):
    if language in PROGRAMS:
        needs_program(PROGRAMS[language])
    module = LANGUAGES[language]
    found = module.run(module.write(map_, []), map_, rows)
    np.testing.assert_allclose(found, map_.predict_proba(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "k"), MAPS)
def test_python_predicts_the_same(name, k):
    calibrator, rows = fitted(name, k)
    compare("python", calibrator.to_map(), np.concatenate([rows[:ROWS:4], rows[ROWS:]]))  # the last ones are corners


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize(("name", "k"), COMPILED)
def test_other_languages_predict_the_same(language, name, k):
    calibrator, rows = fitted(name, k)
    compare(language, calibrator.to_map(), rows)


@pytest.mark.parametrize("language", ["python", *OTHERS])
def test_trees(language):
    compare(language, boosted(), np.random.default_rng(1).dirichlet(np.ones(3), size=200))


@pytest.mark.parametrize("language", ["python", *OTHERS])
def test_hostile_names_and_reordered_columns(language):
    map_ = runtime.Map(HOSTILE, [Log(), Softmax()], columns=np.array([5, 0, 1, 2, 4, 3]))
    compare(language, map_, np.random.default_rng(1).dirichlet(np.ones(6), size=20))
    text = LANGUAGES[language].write(map_, [])
    assert text.isascii()
    assert "</script" not in text or language == "python"
    if language == "python":
        scope: dict = {}
        exec(text, scope)
        assert scope["CLASSES"] == HOSTILE


@pytest.mark.parametrize("language", ["python", *OTHERS])
def test_rows_to_rescale(language):
    map_ = runtime.Map(["a", "b"], [Log(), Softmax()], renormalize=True)
    compare(language, map_, np.array([[3.0, 1.0], [0.2, 0.2], [1e300, 3e300]]))


def test_python_refuses_what_is_no_prediction_and_takes_a_single_column():
    calibrator, _ = fitted("ts", 2)
    scope: dict = {}
    exec(calibrant.export(calibrator, to="python"), scope)
    calibrate = scope["calibrate"]
    np.testing.assert_allclose(calibrate([0.7]), calibrator.predict_proba([0.7])[0], rtol=0, atol=1e-15)
    for row in ([0.5, 0.6], [np.nan, 1.0], [-0.1, 1.1], [0.2, 0.3, 0.5]):
        with pytest.raises(ValueError, match="not probabilities of 2 classes"):
            calibrate(row)


@pytest.mark.program
@pytest.mark.parametrize(
    ("classes", "written"),
    [
        ([2**53 - 1, 1], [2**53 - 1, 1]),
        ([2**53 + 1, 2**53, -7], [str(2**53 + 1), str(2**53), "-7"]),
        ([-(2**63), 0], [str(-(2**63)), "0"]),
        ([False, True], [False, True]),
    ],
)
def test_javascript_keeps_large_whole_numbers_apart(classes, written):
    needs_program("node")
    text = javascript.write(runtime.Map(classes, [Log(), Softmax()]), [])
    script = 'console.log(JSON.stringify(require("./map.cjs").CLASSES));'
    with workshop({"map.cjs": text, "run.cjs": script}) as folder:
        assert json.loads(run_program(["node", "run.cjs"], folder)) == written


def test_pieces_are_the_spline_and_its_tangents():
    step = fitted("spline", 2)[0].steps()[3]
    edges, origins, coefficients = pieces(step)
    x = np.linspace(step.knots[0] - 3.0, step.knots[-1] + 3.0, 500)
    piece = np.searchsorted(edges, x)
    values = sum(c * (x - origins[piece]) ** d for d, c in enumerate(coefficients[piece].T))
    np.testing.assert_allclose(values, step.apply(x[:, None])[:, 0], rtol=1e-12, atol=1e-12)


def test_exports_are_compared_and_the_file_says_so(tmp_path):
    calibrator, _ = fitted("isotonic", 3)
    done = export_with_proof(calibrator, tmp_path / "cal.py")
    assert done.to == "python"
    assert done.difference is not None
    assert done.difference <= 1e-12
    assert f"largest difference {done.difference:.1e}" in (tmp_path / "cal.py").read_text()
    assert calibrant.export(calibrator.to_map(), to="python") == (tmp_path / "cal.py").read_text()


def test_an_export_that_differs_is_an_error():
    calibrator, _ = fitted("ts", 3)
    map_ = calibrator.to_map()
    with pytest.raises(ParityError, match=r"differ by 1.0e-09, more than rounding explains.*Nothing was"):
        prove(None, map_, lambda _, fitted, rows: fitted.predict_proba(rows) + 1e-9, 1e-12, sample_rows(map_))


@pytest.mark.parametrize("to", [pytest.param(to, marks=pytest.mark.torch) if to == "torch" else to for to in TARGETS])
def test_targets_name_their_options(to):
    parameters = inspect.signature(import_module(TARGETS[to].module).write).parameters.values()
    # Intervals become steps of the map before it is written.
    written = [name for name in TARGETS[to].options if name != "interval"]
    assert written == [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]


def test_what_cannot_be_exported_says_why(tmp_path):
    calibrator, _ = fitted("ts", 3)
    with pytest.raises(ValueError, match=r"to=None and the file's name does not show the target.*\.py"):
        calibrant.export(calibrator, tmp_path / "cal.xyz")
    with pytest.raises(ValueError, match="colour is not an option of sql; its options are dialect, table, columns"):
        calibrant.export(calibrator, to="sql", colour="red")
    with pytest.raises(NotSupportedError, match="cannot be written"):
        calibrant.export(runtime.Map([0, 1], [Function(lambda x: x)]), to="python")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("language", ["python", pytest.param("js", marks=pytest.mark.program)])
def test_rows_by_the_names_of_their_columns(language):
    map_ = replace(boosted(), names=["p 2", "p 0", "p 1"], columns=np.array([1, 2, 0]))
    expected = map_.predict_proba([[0.2, 0.3, 0.5]])[0].tolist()
    row, text = {"p 0": 0.3, "p 1": 0.5, "p 2": 0.2}, LANGUAGES[language].write(map_, [])
    if language == "python":
        scope: dict = {}
        exec(text, scope)
        assert scope["COLUMNS"] == map_.names
        assert scope["calibrate"](row) == pytest.approx(expected, abs=1e-15)
        with pytest.raises(KeyError, match="p 1"):
            scope["calibrate"]({"p 0": 0.5, "p 2": 0.5})
        return
    needs_program("node")
    script = f"""
const {{ calibrate }} = require("./map.cjs");
console.log(JSON.stringify(calibrate({json.dumps(row)})));
try {{ calibrate({{ "p 0": 0.5, "p 2": 0.5 }}); }} catch (error) {{ console.log(error.message); }}
"""
    with workshop({"map.cjs": text, "run.cjs": script}) as folder:
        found, refused = run_program(["node", "run.cjs"], folder).splitlines()
    assert json.loads(found) == pytest.approx(expected, abs=1e-15)
    assert refused == "not probabilities of 3 classes: 0.5,0.5,NaN"


@pytest.mark.program
def test_c_names_its_columns_and_compiles_without_warnings():
    needs_program("cc")
    main = '#include "map.c"\nint main(void) {\n    puts(calibrate_columns[1]);\n    return 0;\n}\n'
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    for name, k in COMPILED:
        map_ = fitted(name, k)[0].to_map()
        text = c_source.write(replace(map_, names=[f"p {j}" for j in range(k)]), [])
        with workshop({"map.c": text, "main.c": main}) as folder:
            run_program(["cc", "-std=c99", "-O0", *warnings, "main.c", "-o", "map", "-lm"], folder)
            assert run_program([str(folder / "map")], folder) == "p 1\n"
