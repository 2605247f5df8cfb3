"""The list of steps of every storable method, written to JSON and read again, is the calibrator."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import calibrant
from calibrant import runtime
from calibrant.calibrators.auto.trees.ensemble import TreeLayer
from calibrant.calibrators.binary.isotonic import IsotonicCalibrator
from calibrant.steps import Trees, check_steps
from calibrant.steps.map_documents import VERSION
from tests.samples import draw_labels
from tests.steps.maps import MAPS, fitted

LIGHT = """
import sys
from dataclasses import replace
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("sklearn", "scipy", "numba", "pandas", "threadpoolctl", "joblib"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
from calibrant import runtime
for path in sys.argv[1:]:
    print(runtime.load(path).predict_proba([[0.2, 0.3, 0.5]]).tolist())
"""


@pytest.mark.parametrize(("name", "k"), MAPS)
def test_steps_from_a_file_predict_what_the_calibrator_predicts(name, k, tmp_path):
    calibrator, rows = fitted(name, k)
    calibrant.save(calibrator, tmp_path / "cal.json")
    light = runtime.load(tmp_path / "cal.json")
    assert check_steps(light.steps, k) == k
    np.testing.assert_allclose(light.predict_proba(rows), calibrator.predict_proba(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["sms", "lda", "gaussian"])
def test_files_of_many_classes_predict_to_the_last_bit(name, tmp_path):
    """Products of matrices as large as these depend on how the matrix lies in memory."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(60), size=120)
    calibrator = calibrant.get_calibrator(name).fit(p, draw_labels(p, rng))
    calibrant.save(calibrator, tmp_path / "cal.json")
    expected = calibrator.predict_proba(p)
    np.testing.assert_array_equal(calibrant.load(tmp_path / "cal.json").predict_proba(p), expected)
    np.testing.assert_array_equal(runtime.load(tmp_path / "cal.json").predict_proba(p), expected)


def test_steps_match_maps_written_by_hand():
    p = np.array([[0.7, 0.3], [0.2, 0.8], [1.0, 0.0]])
    ts, _ = fitted("ts", 2)
    z = ts.inverse_temperature_ * np.log(np.maximum(p, 1.1754942e-38))
    q = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    expected = (1 - ts._output_smoothing) * q + ts._output_smoothing / 2
    np.testing.assert_allclose(ts.predict_proba(p), expected, atol=1e-9)
    isotonic, _ = fitted("isotonic", 2)
    expected = np.interp(p[:, 1], isotonic.thresholds_, isotonic.values_)
    np.testing.assert_allclose(isotonic.predict_proba(p)[:, 1], expected, atol=1e-12)


def test_the_column_order_and_a_single_column(tmp_path):
    p, y = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.8, 0.2]]), ["b", "a", "b", "a"]
    calibrator = calibrant.get_calibrator("platt").fit(pd.DataFrame(p, columns=["b", "a"]), y)
    calibrant.save(calibrator, tmp_path / "cal.json")
    light = runtime.load(tmp_path / "cal.json")
    assert light.classes == calibrator.classes_.tolist() == ["a", "b"]
    assert light.columns.tolist() == [1, 0]
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_array_equal(light.predict_proba(p), calibrator.predict_proba(p))
    np.testing.assert_array_equal(light.predict_proba(p[:, 1]), calibrator.predict_proba(p[:, 1]))
    with pytest.raises(ValueError, match="3 columns; this map was fitted to 2 classes"):
        light.predict_proba([[0.2, 0.3, 0.5]])


def test_numpy_alone_is_enough(tmp_path):
    paths = []
    for name in ("auto, thorough", "isotonic", "isotonic, ovo", "svs", "kernel", "spline"):
        calibrator, _ = fitted(name, 3)
        paths.append((str(tmp_path / f"{name}.json"), calibrator))
        calibrant.save(calibrator, paths[-1][0])
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, *(path for path, _ in paths)], capture_output=True, text=True, check=True
    )
    for line, (_, calibrator) in zip(done.stdout.splitlines(), paths, strict=True):
        np.testing.assert_allclose(json.loads(line), calibrator.predict_proba([[0.2, 0.3, 0.5]]), rtol=0, atol=1e-12)


def test_trees_are_those_of_a_loop_and_of_compiled_code():
    rng = np.random.default_rng(0)
    features, subtracted = rng.integers(0, 3, (7, 4)), rng.integers(-1, 3, (7, 4))
    thresholds, values = rng.normal(size=(7, 4)), rng.normal(size=(7, 16, 3))
    x = rng.normal(size=(50, 3))
    step = Trees(features, subtracted, thresholds, values)
    expected = np.zeros((50, 3))
    for i, row in enumerate(x):
        for t in range(7):
            difference = [row[f] - (0.0 if s < 0 else row[s]) for f, s in zip(features[t], subtracted[t])]
            leaf = sum((d > c) << b for b, (d, c) in enumerate(zip(difference, thresholds[t])))
            expected[i] += values[t, leaf]
    np.testing.assert_array_equal(step.apply(x), expected)
    compiled = TreeLayer(features, subtracted, thresholds, values).steps()[0]
    np.testing.assert_array_equal(compiled.apply(x), expected)


def test_what_is_no_list_of_steps_says_so(tmp_path):
    from sklearn.linear_model import LogisticRegression

    lifted = calibrant.OneVsRestCalibrator(LogisticRegression())
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=60)
    lifted.fit(p, p.argmax(axis=1))
    assert lifted.predict_proba(p).shape == (60, 3)
    with pytest.raises(ValueError, match="code of another package"):
        lifted.to_map().to_json()
    ours = calibrant.OneVsRestCalibrator(IsotonicCalibrator()).fit(p, p.argmax(axis=1))
    calibrant.save(ours, tmp_path / "ours.json")
    loaded = runtime.load(tmp_path / "ours.json")
    np.testing.assert_allclose(loaded.predict_proba(p), ours.predict_proba(p), rtol=0, atol=1e-12)


def test_files_of_a_later_version_are_refused(tmp_path):
    calibrator, _ = fitted("ts", 2)
    calibrant.save(calibrator, tmp_path / "cal.json")
    document = json.loads((tmp_path / "cal.json").read_text())
    (tmp_path / "later.json").write_text(json.dumps({**document, "version": VERSION + 1, "calibrant": "7.0"}))
    with pytest.raises(
        runtime.FileError, match=rf"later.json: .*version {VERSION + 1}, written by calibrant '7.0'.*Upgrade"
    ):
        runtime.load(tmp_path / "later.json")
    with pytest.raises(runtime.FileError, match="its map holds 'temperature', which this version"):
        runtime.Map.from_json({**document["map"], "temperature": 2.0})


def test_names_of_columns_travel_with_the_map(tmp_path):
    """Columns of a frame or a mapping are matched by name or refused; arrays are taken in the order of `fit`."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.dirichlet(np.ones(3), size=300), columns=["p_c", "p_a", "p_b"])
    calibrator = calibrant.get_calibrator("svs").fit(frame, np.array(["a", "b", "c"])[rng.integers(0, 3, 300)])
    calibrant.save(calibrator, tmp_path / "cal.json")
    light, expected = runtime.load(tmp_path / "cal.json"), calibrator.predict_proba(frame)
    turned = frame[["p_a", "p_b", "p_c"]]
    more = turned.assign(id="a", label="b")
    frames = (frame, turned, more, pa.table(dict(turned)), pa.table(dict(more)), pl.from_pandas(more))
    for given in (*frames, {name: turned[name].to_numpy() for name in turned}, dict(more), frame.to_numpy()):
        np.testing.assert_allclose(light.predict_proba(given), expected, rtol=0, atol=1e-15)  # sums in another order
    assert light.column_names == ["p_c", "p_a", "p_b"]
    with pytest.raises(ValueError, match="X lacks 'p_a', has 'x', 'p_b', 'p_c'"):
        light.predict_proba(turned.rename(columns={"p_a": "x"}))
    unnamed = replace(light, names=None)  # as in files of version 0.2
    np.testing.assert_allclose(unnamed.predict_proba(turned), expected, rtol=0, atol=1e-15)
    assert np.array_equal(unnamed.predict_proba(frame.set_axis(["x", "y", "z"], axis=1)), expected)


@pytest.mark.parametrize("names", ["ab", ["a"], ["a", "a", "b"], [None, 1, 2], {"a": 1}])
def test_names_in_a_file_are_checked(names):
    plain = fitted("ts", 3)[0].to_map().to_json()
    with pytest.raises(runtime.FileError, match="names should"):
        runtime.Map.from_json({**plain, "names": names})


def test_a_single_column_of_the_first_class_is_refused():
    frame = pd.DataFrame({"p_no": [0.9, 0.4, 0.1, 0.2], "p_yes": [0.1, 0.6, 0.9, 0.8]})
    light = calibrant.get_calibrator("ts").fit(frame, ["no", "no", "yes", "yes"]).to_map()
    np.testing.assert_allclose(light.predict_proba(frame["p_yes"]), light.predict_proba(frame), rtol=0, atol=1e-15)
    for given in (frame["p_no"], frame[["p_no"]], {"p_no": frame["p_no"]}):
        with pytest.raises(ValueError, match="X is the column 'p_no'; the probability of 'yes' is expected"):
            light.predict_proba(given)


def test_both_logits_count_where_fit_saw_one_column():
    light = calibrant.get_calibrator("ts", input="logits").fit([-2.0, 1.0, 3.0, 0.5], ["no", "no", "yes", "yes"])
    frame = pd.DataFrame({"no": [1.0, 2.0], "yes": [3.0, -1.0]})
    expected = light.to_map().predict_proba(frame["yes"].to_numpy() - frame["no"].to_numpy())
    np.testing.assert_allclose(light.to_map().predict_proba(frame), expected, rtol=0, atol=1e-15)


def test_a_single_column_is_named_by_its_class():
    calibrator = calibrant.get_calibrator("ts").fit([0.1, 0.6, 0.9, 0.8], ["no", "no", "yes", "yes"])
    assert calibrator.to_map().names == ["yes"]
    assert runtime.Map.from_json(calibrator.to_map().to_json()).column_names == ["yes"]
