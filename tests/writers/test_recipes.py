"""The code of docs/recipes.md runs, and what it makes predicts what the calibrator predicts."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import calibrant
from tests.needs import needs
from tests.samples import sharpened

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
pytestmark = pytest.mark.export


def code(title: str) -> str:
    section = next(part for part in PAGE.read_text(encoding="utf-8").split("\n## ") if part.startswith(title))
    return "\n".join(re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL))


@pytest.fixture
def calibrator(tmp_path, monkeypatch):
    """A calibrator in cal.json, in the folder in which the recipe is followed."""
    monkeypatch.chdir(tmp_path)
    p, y = sharpened(300, 3)
    fitted = calibrant.get_calibrator("sms").fit(scores_of(p), np.array(["cat", "dog", "owl"])[y])
    calibrant.save(fitted, "cal.json")
    return fitted


def test_warehouse(calibrator):
    rows = sharpened(20, 3, seed=1)[0]
    with needs("duckdb").connect("warehouse.db") as base:
        base.execute("CREATE TABLE scores (id INTEGER, p_cat DOUBLE, p_dog DOUBLE, p_owl DOUBLE, other TEXT)")
        base.executemany("INSERT INTO scores VALUES (?, ?, ?, ?, 'x')", [[i, *row] for i, row in enumerate(rows)])
    scope: dict = {}
    exec(code("A data warehouse"), scope)
    found = np.array(scope["rows"])
    scope["warehouse"].close()
    np.testing.assert_array_equal(found[:, 0], np.arange(20))
    np.testing.assert_allclose(found[:, 1:], calibrator.predict_proba(scores_of(rows)), rtol=0, atol=1e-12)


def test_triton_and_onnx_runtime(calibrator):
    needs("onnx")
    needs("onnxruntime")
    scope: dict = {}
    exec(code("ONNX Runtime and Triton"), scope)
    expected = calibrator.predict_proba(scores_of(scope["predictions"]))
    np.testing.assert_allclose(scope["probabilities"], expected, rtol=0, atol=2e-6)
    config = Path("models/calibration/config.pbtxt").read_text()
    for value, side in ((scope["session"].get_inputs()[0], "input"), (scope["session"].get_outputs()[0], "output")):
        name, dtype, size = re.search(
            rf'{side} \[ \{{ name: "(\w+)", data_type: TYPE_(\w+), dims: \[ (\d+) \]', config
        ).groups()
        assert (name, int(size)) == (value.name, value.shape[1])
        assert (dtype, value.type) == ("FP32", "tensor(float)")


def test_mlflow(calibrator, monkeypatch):
    """Without MLflow, which is large, a stand-in calls the model as MLflow does."""
    saved = {}

    def save_model(path, *, python_model, artifacts, pip_requirements):
        saved.update(model=python_model, context=types.SimpleNamespace(artifacts=artifacts))

    pyfunc = types.SimpleNamespace(PythonModel=object, save_model=save_model)
    monkeypatch.setitem(sys.modules, "mlflow", types.SimpleNamespace(pyfunc=pyfunc))
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", pyfunc)
    exec(code("MLflow"), {})
    saved["model"].load_context(saved["context"])
    rows = needs("pandas").DataFrame(sharpened(20, 3, seed=1)[0], columns=["p_owl", "p_cat", "p_dog"])
    np.testing.assert_array_equal(saved["model"].predict(saved["context"], rows), calibrator.predict_proba(rows))


class Refusal(Exception):
    """What a service raises for a request that it does not take."""


def test_fastapi(calibrator, monkeypatch):
    """Without FastAPI a stand-in registers the function, which is called as FastAPI calls it."""
    service = types.SimpleNamespace(post=lambda path: lambda function: function)
    fastapi = types.SimpleNamespace(FastAPI=lambda: service, HTTPException=Refusal)
    monkeypatch.setitem(sys.modules, "fastapi", fastapi)
    scope: dict = {}
    exec(code("FastAPI"), scope)
    (answer,) = scope["calibrate"]([{"p_owl": 0.5, "p_cat": 0.2, "p_dog": 0.3}])
    expected = calibrator.predict_proba(scores_of([[0.2, 0.3, 0.5]]))[0]
    assert answer == dict(zip(["cat", "dog", "owl"], expected.tolist()))
    for bad, reason in (([], "0 sample"), ([{"p_cat": 0.2, "p_dog": 0.8}], "NaN")):
        with pytest.raises(Refusal, match=f"422.*{reason}"):
            scope["calibrate"](bad)


def scores_of(rows):
    return needs("pandas").DataFrame(rows, columns=["p_cat", "p_dog", "p_owl"])


def other_order():
    """Rows with an id and the columns in another order than in `fit`."""
    frame = scores_of(sharpened(20, 3, seed=1)[0])
    frame["id"] = np.arange(20)
    return frame[["id", "p_owl", "p_cat", "p_dog"]]


def test_polars(calibrator):
    other_order().to_parquet("scores.parquet")
    scope: dict = {}
    exec(code("polars"), scope)
    assert scope["result"].columns == ["id", "p_owl", "p_cat", "p_dog", "cat_cal", "dog_cal", "owl_cal"]
    np.testing.assert_array_equal(scope["result"][:, -3:].to_numpy(), calibrator.predict_proba(other_order()))


def test_function_in_duckdb(calibrator):
    other_order().to_parquet("scores.parquet")
    with needs("duckdb").connect("scores.db") as base:
        base.execute("CREATE TABLE scores AS SELECT * FROM 'scores.parquet'")
    scope: dict = {}
    exec(code("A function in DuckDB"), scope)
    np.testing.assert_array_equal(np.array(scope["rows"])[:, 1], calibrator.predict_proba(other_order())[:, 0])


def test_spark_and_ray(calibrator):
    """Without a cluster the functions get what Spark and Ray would give them."""
    frame, expected = other_order(), calibrator.predict_proba(other_order())
    scope: dict = {}
    exec(code("Spark"), scope)
    (batch,) = scope["calibrate"](iter([frame]))
    np.testing.assert_array_equal(batch[["cat_cal", "dog_cal", "owl_cal"]], expected)
    exec(code("Ray"), scope)
    answer = scope["calibrate"]({name: frame[name].to_numpy() for name in frame})
    np.testing.assert_array_equal(answer["owl_cal"], expected[:, 2])
    np.testing.assert_array_equal(answer["id"], np.arange(20))


def test_skops(calibrator):
    needs("skops.io")
    scope: dict = {}
    exec(code("skops"), scope)
    assert scope["types"] == ["calibrant.calibrators.scaling.structured.SMSCalibrator"]
    frame = other_order()
    np.testing.assert_array_equal(scope["calibrator"].predict_proba(frame), calibrator.predict_proba(frame))


@pytest.mark.torch
def test_network(calibrator):
    torch = needs("torch")
    torch.manual_seed(0)
    scope: dict = {}
    exec(code("A network and its calibrator"), scope)
    x = torch.randn(7, 8)
    logits = scope["network"](x).detach().double()
    expected = calibrator.predict_proba(scores_of(torch.softmax(logits, 1).numpy()))
    for module in (scope["module"], scope["program"].module()):
        np.testing.assert_allclose(module(x).detach().numpy(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("k", [2, 3])
def test_catboost_and_its_calibrator_in_one_graph(tmp_path, monkeypatch, k):
    catboost, onnxruntime = needs("catboost"), needs("onnxruntime")
    needs("onnx")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(k)
    X = rng.normal(size=(600, 4)).astype(np.float32)
    y = np.array(["cat", "dog", "owl"])[(X[:, :k] + rng.normal(size=(600, k))).argmax(axis=1)]
    classifier = catboost.CatBoostClassifier(
        iterations=10, depth=3, verbose=0, thread_count=1, allow_writing_files=False
    )
    classifier.fit(X[:300], y[:300])
    calibrator = calibrant.get_calibrator("sms").fit(classifier.predict_proba(X[300:]), y[300:])
    text = (PAGE.parent / "whole-models.md").read_text(encoding="utf-8").split("## CatBoost")[1]
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(block, {"classifier": classifier, "calibrator": calibrator})
    session = onnxruntime.InferenceSession("whole.onnx", providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["probabilities"]
    (p,) = session.run(None, {"features": X})
    np.testing.assert_allclose(p, calibrator.predict_proba(classifier.predict_proba(X)), rtol=0, atol=2e-6)
    raw = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    columns = np.array([[row[label] for label in classifier.classes_] for row in raw.run(None, {"features": X})[1]])
    calibrant.export(calibrator, "cal.onnx", dtype="float32")
    second = onnxruntime.InferenceSession("cal.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(second.run(None, {"predictions": columns.astype(np.float32)})[0], p, rtol=0, atol=1e-6)
