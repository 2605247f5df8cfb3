"""ONNX graphs and torch modules predict what the calibrator predicts."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

import calibrant
from calibrant import runtime
from calibrant.steps import (
    Clip,
    Columns,
    Complement,
    Line,
    Linear,
    Log,
    LogOdds,
    Normalize,
    OneVsRest,
    Scale,
    Sigmoid,
    Softmax,
    Trees,
)
from calibrant.writers.exporting import export_with_proof
from tests.needs import needs
from tests.samples import confused
from tests.steps.maps import CASES, fitted
from tests.writers.test_source import HOSTILE, boosted

pytestmark = pytest.mark.export

#: Together they use every step.
SOME = [case for case in CASES if case[1] < 10 or case[0] in ("venn-abers", "auto", "sms", "spline")]


def predict(model, rows):
    session = needs("onnxruntime").InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"predictions": rows})[0]


@pytest.mark.parametrize(("name", "k"), SOME)
def test_onnx_predicts_the_same(name, k):
    needs("onnxruntime")
    calibrator, _ = fitted(name, k)
    done = export_with_proof(calibrator, to="onnx")
    assert done.difference is not None
    assert done.difference <= (1e-7 if name == "isotonic, logits" else 1e-12)  # steep, and a softmax rounds


def test_onnx_of_trees_single_precision_and_facts(tmp_path):
    onnx = needs("onnx")
    from calibrant.writers.onnx_graph import write

    rows = np.random.default_rng(1).dirichlet(np.ones(3), size=200)
    map_ = boosted()
    np.testing.assert_allclose(predict(write(map_), rows), map_.predict_proba(rows), rtol=0, atol=1e-12)
    calibrator, rows = fitted("sms", 3)
    single = write(calibrator.to_map(), dtype=np.float32)
    found = predict(single, rows.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, calibrator.predict_proba(rows), rtol=0, atol=2e-6)
    calibrant.export(calibrator, tmp_path / "cal.onnx")
    facts = {prop.key: prop.value for prop in onnx.load(tmp_path / "cal.onnx").metadata_props}
    assert facts["classes"] == "[0, 1, 2]"
    assert facts["columns"] == '["0", "1", "2"]'
    assert facts["method"] == "SMSCalibrator"
    assert facts["version"] == f"calibrant {calibrant.__version__}"
    assert "largest difference" in facts["parity"]


@pytest.mark.parametrize("target", ["onnx", pytest.param("torch", marks=pytest.mark.torch)])
def test_graphs_name_their_columns(target):
    needs(target)
    written = calibrant.export(replace(boosted(), names=["c", "a", "b"], columns=np.array([1, 2, 0])), to=target)
    if target == "torch":
        assert written.names == ["c", "a", "b"]
    facts = written.facts if target == "torch" else {prop.key: prop.value for prop in written.metadata_props}
    assert json.loads(facts["columns"]) == ["c", "a", "b"]
    single = calibrant.get_calibrator("ts").fit([0.1, 0.6, 0.9, 0.8], ["no", "no", "yes", "yes"])
    written = calibrant.export(single, to=target)  # it takes both columns
    facts = written.facts if target == "torch" else {prop.key: prop.value for prop in written.metadata_props}
    assert json.loads(facts["columns"]) == ["no", "yes"]


@pytest.mark.parametrize("target", ["onnx", pytest.param("torch", marks=pytest.mark.torch)])
def test_single_precision_answers_questions_as_double_does(target):
    needs(target)
    trees = boosted()
    rng = np.random.default_rng(5)
    rows = rng.dirichlet(np.ones(3), size=2000).astype(np.float32)
    # Rows on the thresholds, as near as single precision gets: there rounded logarithms would decide otherwise.
    step = trees.steps[1]
    odds = np.exp(step.thresholds[(step.features == 1) & (step.subtracted == 0)])
    rows[: len(odds)] = np.column_stack([0.5 / (1 + odds), 0.5 * odds / (1 + odds), np.full(len(odds), 0.5)])
    for map_ in (trees, fitted("isotonic", 3)[0].to_map(), fitted("sms", 3)[0].to_map()):
        written = calibrant.export(map_, to=target, dtype="float32")
        if target == "onnx":
            found = predict(written, rows)
        else:
            found = written(needs("torch").as_tensor(rows)).detach().numpy()
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, map_.predict_proba(rows.astype(np.float64)), rtol=0, atol=2e-6)


@pytest.mark.parametrize("target", ["onnx", pytest.param("torch", marks=pytest.mark.torch)])
def test_single_precision_weighs_impossible_classes_as_double_does(target):
    needs(target)
    matrix = np.eye(4) + np.array([[0.0, 0.7, -0.4, 0.3]] * 4)
    map_ = runtime.Map(list("abcd"), [Log(), Linear(matrix), Softmax()])
    rows = np.zeros((300, 4), dtype=np.float32)
    rows[:, :3] = np.random.default_rng(0).dirichlet(np.ones(3), size=300)
    written = calibrant.export(map_, to=target, dtype="float32")
    found = predict(written, rows) if target == "onnx" else written(needs("torch").as_tensor(rows)).numpy()
    np.testing.assert_allclose(found, map_.predict_proba(rows.astype(np.float64)), rtol=0, atol=2e-6)


@pytest.mark.parametrize("target", ["onnx", pytest.param("torch", marks=pytest.mark.torch)])
@pytest.mark.parametrize("k", [3, 10])
def test_sums_have_the_order_of_the_definition_where_the_last_bit_matters(target, k):
    needs(target)
    from importlib import import_module

    # The least change of a prediction by rounding, 3e-17, changes what comes out by 3e-9.
    steep = [Columns(np.array([1])), Line(np.array([0.1, 0.1 + 1e-9]), np.array([0.2, 0.3])), Complement()]
    rows = np.random.default_rng(0).dirichlet(np.ones(k), size=200)
    rows[:, 0] = 0.1 + 1e-9 * np.linspace(0.0, 1.0, 200)
    rows[:, 1:] *= (1.0 - rows[:, :1]) / rows[:, 1:].sum(axis=1, keepdims=True)
    map_ = runtime.Map(list(range(k)), [OneVsRest((steep,) * k), Normalize()])
    module = import_module({"onnx": "calibrant.writers.onnx_graph", "torch": "calibrant.writers.torch_module"}[target])
    found = module.run(module.write(map_), map_, rows)
    np.testing.assert_allclose(found, map_.predict_proba(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("common", [0, 1, 2])
def test_parts_that_are_alike_only_at_first(common):
    needs("onnx")
    from calibrant.writers.onnx_graph import write

    second, rng = Columns(np.array([1])), np.random.default_rng(common)

    def line(points):
        return Line(np.sort(rng.random(points)), np.sort(rng.random(points)), extend=True)

    alike = [[second], [second, line(3)], [second, line(40)]]
    ends = [[Clip(0.1, 0.8), Complement()], [Complement()], [Scale(0.5, 0.2), Complement()]]
    if common == 0:
        alike = [[second], [Columns(np.array([0]))], [LogOdds(), Sigmoid(), second]]
    if common == 2:
        alike[0] = [second, line(2)]
    parts = tuple([*first, *last] for first, last in zip(alike, ends))
    map_ = runtime.Map(list("abc"), [OneVsRest(parts), Clip(0.0, 1.0), Normalize()])
    rows = rng.dirichlet(np.ones(3), size=50)
    np.testing.assert_allclose(predict(write(map_), rows), map_.predict_proba(rows), rtol=0, atol=1e-14)
    assert predict(write(map_), rows[:0]).shape == (0, 3)


def test_a_class_more_is_few_nodes_more():
    # ONNX Runtime loads a graph in a time that grows with the square of its nodes.
    nodes = {}
    for k in (3, 23):
        p, y = confused(400, k)
        for name in ("spline", "isotonic", "beta", "platt"):
            nodes[name, k] = len(calibrant.export(calibrant.get_calibrator(name).fit(p, y), to="onnx").graph.node)
    for name, most in (("spline", 14), ("isotonic", 14), ("beta", 0), ("platt", 0)):
        assert nodes[name, 23] - nodes[name, 3] <= 20 * most, name


def test_onnx_of_hostile_names_and_reordered_columns():
    needs("onnx")
    from calibrant.writers.onnx_graph import write

    map_ = runtime.Map(HOSTILE, [Log(), Softmax()], columns=np.array([5, 0, 1, 2, 4, 3]))
    rows = np.random.default_rng(1).dirichlet(np.ones(6), size=20)
    np.testing.assert_allclose(predict(write(map_), rows), map_.predict_proba(rows), rtol=0, atol=1e-15)


@pytest.mark.torch
@pytest.mark.parametrize(("name", "k"), SOME)
def test_torch_predicts_the_same(name, k):
    calibrator, _ = fitted(name, k)
    done = export_with_proof(calibrator, to="torch")
    assert done.difference is not None
    assert done.difference <= (1e-7 if name == "isotonic, logits" else 1e-12)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["auto, monotone", "isotonic, ovo", "venn-abers", "sqs, kernel", "spline", "logistic"])
def test_torch_module_is_scripted_exported_and_saved(name, tmp_path):
    torch = needs("torch")
    calibrator, rows = fitted(name, 3)
    calibrant.export(calibrator, tmp_path / "cal.pt2")
    module = calibrant.export(calibrator, to="torch")
    x = torch.as_tensor(rows)
    expected = module(x)
    np.testing.assert_allclose(expected.numpy(), calibrator.predict_proba(rows), rtol=0, atol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.testing.assert_close(torch.jit.script(module)(x), expected, rtol=0, atol=1e-14)
    files = {"calibrant.json": ""}
    program = torch.export.load(tmp_path / "cal.pt2", extra_files=files)
    assert "largest difference" in json.loads(files["calibrant.json"])["parity"]
    torch.testing.assert_close(program.module()(x[:7]), module(x[:7]), rtol=0, atol=1e-14)


@pytest.mark.torch
def test_torch_module_of_trees_gradients_and_precision():
    torch = needs("torch")
    from calibrant.writers.torch_module import write

    rows = np.random.default_rng(1).dirichlet(np.ones(3), size=200)
    map_ = boosted()
    np.testing.assert_allclose(write(map_)(torch.as_tensor(rows)).numpy(), map_.predict_proba(rows), rtol=0, atol=1e-12)
    calibrator, _ = fitted("sms", 3)
    module = write(calibrator.to_map())
    z = torch.tensor(rows[:5], requires_grad=True)
    assert torch.autograd.gradcheck(module, (z,))
    single = module.to(torch.float32)(torch.as_tensor(rows, dtype=torch.float32))
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.detach().numpy(), calibrator.predict_proba(rows), rtol=0, atol=2e-6)
    rescaling = runtime.Map([0, 1], [Log(), Softmax()], renormalize=True)
    rows = np.array([[3.0, 1.0], [0.2, 0.2], [1e300, 3e300]])
    np.testing.assert_allclose(
        write(rescaling)(torch.as_tensor(rows)).numpy(), rescaling.predict_proba(rows), atol=1e-15
    )


@pytest.mark.torch
@pytest.mark.parametrize("name", ["sms", "svs, logits", "isotonic"])
@pytest.mark.parametrize("k", [2, 3])
def test_networks_with_their_calibrator(name, k):
    torch = needs("torch")
    from calibrant.writers.torch_module import CalibratedNetwork

    calibrator, _ = fitted(name, k)
    logits = torch.randn(30, k, dtype=torch.float64, generator=torch.Generator().manual_seed(k))
    logits[:, 0] = 0.0  # so that a single column says the same of two classes
    p = torch.softmax(logits, 1)
    expected = calibrator.predict_proba((logits if calibrator.input == "logits" else p).numpy())
    for output, given in (("logits", logits), ("probabilities", p)):
        module = CalibratedNetwork(torch.nn.Identity(), calibrator, output)
        np.testing.assert_allclose(module(given).numpy(), expected, rtol=0, atol=1e-12)
        if k == 2:
            for single in (given[:, 1], given[:, 1:]):
                np.testing.assert_allclose(module(single).numpy(), expected, rtol=0, atol=1e-12)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            torch.testing.assert_close(torch.jit.script(module)(given), module(given), rtol=0, atol=1e-14)
        assert module(given.float()).dtype == torch.float32
    with pytest.raises(ValueError, match="output='odds' is neither"):
        CalibratedNetwork(torch.nn.Identity(), calibrator, "odds")


def test_sizes():
    needs("onnx")
    from calibrant.writers.onnx_graph import to_bytes, write

    sizes = {
        name: len(to_bytes(write(fitted(name, 10)[0].to_map(), dtype="float32"))) for name in ("ts", "sms", "auto")
    }
    assert sizes["ts"] < 2_000
    assert sizes["sms"] < 10_000
    assert sizes["auto"] < 1_500_000
    # The flagship with as many trees as it grows at most: two hundred of depth six, ten classes.
    rng = np.random.default_rng(0)
    shape = (200, 6)
    trees = Trees(
        rng.integers(0, 10, shape), rng.integers(-1, 10, shape), rng.normal(size=shape), rng.normal(size=(200, 64, 10))
    )
    assert len(to_bytes(write(runtime.Map(list(range(10)), [Log(), trees, Softmax()]), dtype="float32"))) < 1_500_000
