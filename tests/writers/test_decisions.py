"""The decision of an exported map: every target takes the action that `decide` takes, ties and amounts included."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import DecisionRule, SegmentedCalibrator, get_calibrator
from calibrant.runtime import Map
from calibrant.steps.actions import cheapest
from calibrant.writers.exporting import TARGETS as KNOWN
from calibrant.writers.exporting import ParityError, export_with_proof, prove
from calibrant.writers.proof_rows import draw_amounts, sample_rows
from tests.needs import needs, needs_program

TARGETS = [
    "python",
    pytest.param("js", marks=pytest.mark.program),
    pytest.param("c", marks=pytest.mark.program),
    pytest.param("onnx", marks=pytest.mark.export),
    pytest.param("torch", marks=pytest.mark.torch),
    pytest.param("sql", marks=pytest.mark.export),
]
PAIR = DecisionRule(false_positive=1, false_negative=20)
#: Two actions are labels, which are numbers, and one is a text.
ASKING = DecisionRule.abstention(0.2, [0, 1], action="ask")


def module_of(to: str) -> Any:
    for package in {"onnx": ["onnx", "onnxruntime"], "torch": ["torch"], "sql": ["duckdb"]}.get(to, []):
        needs(package)
    for program in {"js": ["node"], "c": ["cc"]}.get(to, []):
        needs_program(program)
    return import_module(KNOWN[to].module)


def two() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    p = rng.random(300)
    return get_calibrator("affine").fit(p, (rng.random(300) < p**2).astype(int)), p


def three() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 300)
    y = np.array(["a'b", "b", "c"])[(p.cumsum(axis=1) > rng.random((300, 1))).argmax(axis=1)]
    return get_calibrator("sms").fit(p, y), p


def costly() -> DecisionRule:
    actions = ["go; home", 'say "x"', "ask"]
    return DecisionRule([[0, "stay", 3], [2, 0, "fee"], [1, 1, 1]], actions=actions, classes=["a'b", "b", "c"])


@pytest.mark.parametrize("to", TARGETS)
def test_every_target_takes_the_action_of_the_rule(to: str) -> None:
    for (calibrator, p), rule in ((two(), PAIR), (two(), ASKING), (three(), costly())):
        calibrator.set_rule(rule)
        rows = np.column_stack([1 - p, p]) if p.ndim == 1 else p
        rng = np.random.default_rng(1)
        amounts = {name: rng.integers(0, 9, len(rows)).astype(float) for name in rule.amounts}
        module, fitted = module_of(to), calibrator.to_map()
        rows = module.taken(fitted, rows) if to == "sql" else rows
        found = module.run(module.write(fitted, []), fitted, rows, **({"amounts": amounts} if amounts else {}))
        expected = calibrator.decide(p, amounts)
        assert len(set(expected)) == len(rule.actions)
        assert [calibrator.rule_.actions[int(number)] for number in found[:, -1]] == expected.tolist()
        np.testing.assert_allclose(found[:, :-1], calibrator.predict_proba(p), rtol=0, atol=1e-12)
        assert export_with_proof(calibrator, to=to).difference < 1e-12


@pytest.mark.parametrize("to", TARGETS)
def test_of_equally_cheap_actions_the_first_is_taken(to: str) -> None:
    rule = DecisionRule([[1, 0.3], [0.3, 1], [1, 0.3], [0.65, 0.65]], actions=list("wxyz"))
    fitted = Map([0, 1], [], rule=rule.table)
    rows = np.array([[0.5, 0.5], [0.2, 0.8], [0.8, 0.2], [0.1 + 0.2 + 0.2, 0.5]])
    module = module_of(to)
    found = module.run(module.write(fitted, []), fitted, rows)
    assert found[:, -1].tolist() == [0, 0, 1, 0] == cheapest(rule.table.expected(rows, {})).tolist()


@pytest.mark.parametrize("to", TARGETS)
def test_decisions_of_scores_and_segments(to: str) -> None:
    module_of(to)
    rng = np.random.default_rng(0)
    z = rng.normal(size=400)
    y = (rng.random(400) < 1 / (1 + np.exp(-z))).astype(int)
    scored = get_calibrator("ts", input="scores").fit(600 - 50 * z, y).set_rule(PAIR)
    assert export_with_proof(scored, to=to).difference < 1e-12
    p, region = 1 / (1 + np.exp(-z)), rng.choice(["n", "s"], 400)
    segmented = SegmentedCalibrator("ts").fit(p, y, segments={"region": region})
    segmented.set_rule(DecisionRule(false_positive=5, false_negative="amount"))
    assert export_with_proof(segmented, to=to).difference < 1e-12


@pytest.mark.parametrize("to", TARGETS)
def test_a_file_is_written_with_its_actions(to: str, tmp_path: Any) -> None:
    module_of(to)
    ending = {"python": "py", "torch": "pt2"}.get(to, to)
    calibrator = three()[0].set_rule(costly())
    path = calibrant.export(calibrator, tmp_path / f"cal.{ending}")
    assert path.stat().st_size > 100


def test_python_and_its_refusals() -> None:
    scope: dict[str, Any] = {}
    exec(calibrant.export(three()[0].set_rule(costly()), to="python"), scope)
    assert scope["ACTIONS"] == ["go; home", 'say "x"', "ask"]
    assert scope["AMOUNTS"] == ["stay", "fee"]
    assert scope["decide"]([0.98, 0.01, 0.01], {"stay": 9, "fee": 1}) == "go; home"
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not amounts"):
            scope["decide"]([0.98, 0.01, 0.01], {"stay": wrong, "fee": 1})
    with pytest.raises(ValueError, match="not probabilities of 3 classes"):
        scope["decide"]([0.98, 0.5, 0.01], {"stay": 1, "fee": 1})


@pytest.mark.export
def test_sql_gives_null_where_there_is_no_prediction_or_amount() -> None:
    duckdb = needs("duckdb")
    calibrator = two()[0].set_rule(DecisionRule(false_positive=5, false_negative="amount", classes=[0, 1]))
    query = calibrant.export(calibrator, to="sql", dialect="duckdb", columns=["p"], table="t", keep=["id"])
    base = duckdb.connect()
    base.execute("CREATE TABLE t (id INT, p DOUBLE, amount DOUBLE)")
    base.execute("INSERT INTO t VALUES (1, 0.9, 100), (2, 0.001, 1), (3, NULL, 1), (4, 0.5, NULL), (5, 0.5, -1)")
    assert [row[2] for row in base.execute(query).fetchall()] == [1, 0, None, None, None]
    assert 'END AS "action"' in query


@pytest.mark.export
def test_onnx_marks_rows_that_are_not_predictions() -> None:
    onnxruntime = needs("onnxruntime")
    calibrator = two()[0].set_rule(DecisionRule(false_positive=5, false_negative="amount", classes=[0, 1]))
    model = calibrant.export(calibrator, to="onnx", dtype="float32")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    rows = np.array([[0.1, 0.9], [0.5, 0.9], [0.1, 0.9], [0.1, 0.9]], dtype=np.float32)
    given = {"predictions": rows, "amounts": np.array([[100.0], [100.0], [np.nan], [-1.0]])}
    assert session.run(["action"], given)[0].tolist() == [1, -1, -1, -1]
    assert {entry.key: entry.value for entry in model.metadata_props}["actions"] == "[0, 1]"


def test_a_wrong_action_is_refused() -> None:
    calibrator, _ = two()
    fitted = calibrator.set_rule(PAIR).to_map()
    rows = sample_rows(fitted)

    def wrong(written: Any, given: Map, rows: np.ndarray) -> np.ndarray:
        return np.column_stack([given.predict_proba(rows), np.ones(len(rows))])

    with pytest.raises(ParityError, match=r"takes action 1 at the probabilities .*, the calibrator 0\. Nothing was"):
        prove(None, fitted, wrong, 1e-12, rows)
    assert draw_amounts(replace(fitted, rule=PAIR.table).rule, 5) is None  # type: ignore[arg-type]
