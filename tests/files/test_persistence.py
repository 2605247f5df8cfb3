"""Calibrators in files: exact round trips, clear refusals, nothing executed, atomic writes."""

from __future__ import annotations

import copy
import json
import os
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import calibrant
from calibrant.files.stored.encoding import CalibratorFileError, decode, encode
from calibrant.inputs.words import RequestError
from calibrant.runtime import load as load_map
from calibrant.steps.map_documents import canonical, checksum
from calibrant.workflows.loading import load_calibrator
from tests.combinations import one_per_class, with_classes
from tests.needs import needs

NATIVE = [info for info in calibrant.list_calibrators() if info.stores]


def sample(n=120, k=3, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(k), size=n)
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    y[:k] = np.arange(k)
    return p, np.array(["ann", "bob", "eve"])[y]


@pytest.fixture(scope="module")
def fitted():
    return calibrant.SMSCalibrator().fit(*sample())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "calibrator.json"


def same(a, b):
    """Equal to the last bit, in type and value, all the way down."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tolist() == b.tolist() if a.dtype.kind in "OU" else a.tobytes() == b.tobytes()
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for left, right in zip(a, b):
            same(left, right)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, float):
        assert np.float64(a).tobytes() == np.float64(b).tobytes()
    elif type(a).__module__.startswith("calibrant"):
        left, right = ({key: vars(x)[key] for key in sorted(vars(x))} for x in (a, b))
        same(left, right)
    else:
        assert a == b


@pytest.mark.parametrize(("name", "k"), with_classes(NATIVE, 2, 3, often=one_per_class(NATIVE)))
def test_every_native_calibrator_returns_bit_for_bit(name, k, path):
    p, y = sample(k=k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        calibrator = calibrant.get_calibrator(name).fit(p, y)
    calibrant.save(calibrator, path)
    twin = calibrant.load(path)
    same(twin, calibrator)
    q = sample(50, k, seed=1)[0]
    assert_array_equal(twin.predict_proba(q), calibrator.predict_proba(q))
    assert_array_equal(twin.predict(q), calibrator.predict(q))


def test_lifted_calibrators(path):
    from calibrant.calibrators.binary.logistic_methods import BetaCalibrator
    from calibrant.calibrators.lifting import OneVsRestCalibrator

    calibrator = OneVsRestCalibrator(BetaCalibrator()).fit(*sample())
    calibrant.save(calibrator, path)
    same(calibrant.load(path), calibrator)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        -0.0,
        5e-324,
        0.1 + 0.2,
        1.7976931348623157e308,
        2**70,
        None,
        True,
        "Zoë \u2028 \x00",
        (1, [2.5, (None,)]),
        {"a": {1: (2,)}, (1, 2): []},
        np.float32(0.1),
        np.int64(7),
        np.bool_(True),
        np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324, 1 / 3]),
        np.array([[0.1, 0.2]], dtype=np.float32),
        np.array([0.1], dtype=np.float16),
        np.array([2**63 - 1, -(2**63)]),
        np.array([2**64 - 1], dtype=np.uint64),
        np.array([True, False]),
        np.array(["é", "abc"]),
        np.array(["a", 1, None, 2.5], dtype=object),
        np.array(["2026-01-01"], dtype="datetime64[D]"),
        np.empty((0, 3)),
        np.array(1.5),
        np.arange(12.0).reshape(3, 4)[:, ::2],
    ],
    ids=lambda value: repr(value).replace("\n", "")[:30],
)
def test_values_return_exactly(value):
    twin = decode(json.loads(json.dumps(encode(value), allow_nan=False)))
    same(twin, np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value)


def test_tuples_and_infinities_have_marks_of_their_own():
    marked = {"$": "tuple", "items": [1, {"$": "float", "value": "inf"}]}
    assert encode({"a": (1, float("inf"))}) == {"$": "dict", "items": [["a", marked]]}


def test_labels_names_and_classes(path):
    p, y = sample()
    frame = pd.DataFrame(p[:, ::-1], columns=["p_eve", "p_bob", "p_ann"])
    with pytest.warns(calibrant.CalibrationWarning, match="sorted order"):
        calibrator = calibrant.SMSCalibrator(classes=pd.Index(["eve", "bob", "ann"])).fit(frame, y)
    calibrant.save(calibrator, path)
    twin = calibrant.load(path)
    shuffled = frame.iloc[:, [1, 2, 0]]
    assert_array_equal(twin.predict_proba(shuffled), calibrator.predict_proba(shuffled))


def test_calibrators_of_a_classifier(path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), rng.integers(3, size=90)
    model = calibrant.CalibratedClassifier(GaussianNB(), "logistic", cv=3)
    with pytest.raises(NotFittedError):
        calibrant.save(model, path)
    calibrant.save(model.fit(X, y), path)
    expected = model.predict_proba(X)
    calibrators = calibrant.load(path)
    same(list(calibrators), model.calibrators_)
    with pytest.raises(AttributeError, match="calibrators of a CalibratedClassifier, one for each of its 3 folds"):
        calibrators.predict_proba(X)
    model.calibrators_ = calibrators
    assert_array_equal(model.predict_proba(X), expected)


def test_apply_explains_a_stored_classifier(path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), rng.integers(3, size=90)
    calibrant.save(calibrant.CalibratedClassifier(GaussianNB(), "ts", cv=3, ensemble=True).fit(X, y), path)
    with pytest.raises(RequestError, match=r"calibrator\.json holds the 3 calibrators of a CalibratedClassifier"):
        load_calibrator(path)
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    calibrant.save(calibrant.CalibratedClassifier(frozen, "ts").fit(X, y), path)
    assert load_calibrator(path).classes_.tolist() == [0, 1, 2]


def test_unfitted_calibrators_are_refused(fitted, path):
    with pytest.raises(NotFittedError):
        calibrant.save(calibrant.SMSCalibrator(), path)
    assert not path.exists()
    calibrant.save(fitted, path)
    rewrite(path, lambda document: document["content"].update({"state": {}}))
    with pytest.raises(CalibratorFileError, match="not fitted"):
        calibrant.load(path)


@pytest.mark.trees
def test_trees_say_that_they_cannot(path):
    needs("lightgbm")
    calibrator = calibrant.get_calibrator("lightgbm").fit(*sample())
    with pytest.raises(CalibratorFileError, match=r"LightGBMCalibrator\. .*trees"):
        calibrant.save(calibrator, path)
    assert not path.exists()


def test_what_cannot_be_stored(path):
    with pytest.raises(TypeError, match="not sklearn"):
        calibrant.save(LogisticRegression(), path)
    with pytest.raises(CalibratorFileError, match="random_state is of type"):
        calibrant.save(calibrant.SMSCalibrator(random_state=np.random.RandomState(0)).fit(*sample()), path)

    class Mine(calibrant.NoCalibrator):
        pass

    with pytest.raises(CalibratorFileError, match="Mine"):
        calibrant.save(Mine().fit(*sample()), path)
    assert os.listdir(path.parent) == []


def test_truncated_anywhere(fitted, path):
    calibrant.save(fitted, path)
    whole = path.read_bytes()
    for length in [*range(0, len(whole) - 2, 97), len(whole) - 2]:
        path.write_bytes(whole[:length])
        with pytest.raises(CalibratorFileError, match=r"cut off|not a calibrator file|damaged"):
            calibrant.load(path)


def test_every_flipped_byte_is_noticed(fitted, path):
    calibrant.save(fitted, path)
    whole = path.read_bytes()
    start = whole.index(b'"content"')
    rng = np.random.default_rng(0)
    for position in rng.choice(np.arange(start, len(whole) - 1), size=100, replace=False):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << rng.integers(7)
        path.write_bytes(bytes(damaged))
        try:
            twin = calibrant.load(path)
        except CalibratorFileError:
            continue
        same(twin, fitted)  # one kind of white space for another


def rewrite(path, change):
    """Change a file's content and give it a right checksum, as an attacker would."""
    document = json.loads(path.read_text())
    change(document)
    document["sha256"] = checksum(canonical(document["content"]))
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "not JSON"),
        (b"hello", "not JSON"),
        (b"[1, 2]", "not a calibrator file"),
        (b'{"format": "something else"}', "not a calibrator file"),
        (pickle.dumps({"a": 1}), "a pickle, which is never opened"),
        (b"\xff\xfe\x00", "not text"),
        (b'{"format": "calibrant calibrator", "version": 1}', "damaged"),
        (b'{"format": "calibrant calibrator", "version": "1"}', "its version is '1'"),
        (b'{"format": "calibrant calibrator", "version": 9, "calibrant": "7.0"}', "version 9.*'7.0'.*Upgrade"),
        (b'{"format": "calibrant calibrator", "version": 1, "content": NaN}', "NaN is not JSON"),
        (b"[" * 100_000, "damaged|not JSON"),
    ],
    ids=["empty", "text", "list", "foreign", "pickle", "binary", "bare", "version", "newer", "nan", "deep"],
)
def test_foreign_files(path, text, error):
    path.write_bytes(text)
    with pytest.raises(CalibratorFileError, match=error) as caught:
        calibrant.load(path)
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "spelling",
    [
        "os:system",
        "builtins:eval",
        "sklearn.linear_model:LogisticRegression",
        "calibrant.__main__:main",
        "calibrant.calibrators.registry:get_calibrator",
        "calibrant.calibrators.base:Calibrator",
        "calibrant.calibrators.scaling.structured:StructuredCalibrator",
        "calibrant.calibrators.boosting:LightGBMCalibrator",
        "sms",
        "",
    ],
)
def test_only_our_classes(fitted, path, spelling, monkeypatch):
    calibrant.save(fitted, path)
    rewrite(path, lambda document: document["content"].update({"class": spelling}))
    monkeypatch.setattr(os, "system", lambda *args: pytest.fail("executed"))
    with pytest.raises(CalibratorFileError, match="not a calibrator of this version"):
        calibrant.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["state"].update({"predict_proba": 1}),
        lambda content: content["state"].update({"__class__": 1}),
        lambda content: content["parameters"].update({"new": 1}),
        lambda content: content["state"]["coef_"].update({"shape": [10**9, 10**9]}),
        lambda content: content["state"]["coef_"].update({"shape": [-1, -9]}),
        lambda content: content["state"]["coef_"].update({"dtype": "|V8"}),
        lambda content: content["state"]["coef_"].update({"dtype": "<f7"}),
        lambda content: content["state"]["coef_"]["data"].__setitem__(0, {"a": 1}),
        lambda content: content["state"]["coef_"]["data"].__setitem__(0, "import os"),
        lambda content: content["state"].update({"coef_": {"$": "code"}}),
        lambda content: content.update({"state": []}),
        lambda content: content.update({"$": "record"}),
        lambda content: content.pop("class"),
    ],
)
def test_damaged_content_with_a_right_checksum(fitted, path, change):
    calibrant.save(fitted, path)
    rewrite(path, lambda document: change(document["content"]))
    with pytest.raises(CalibratorFileError, match=r"damaged|another version|unknown kind"):
        calibrant.load(path)


def test_names_of_classes_are_without_modules_and_old_ones_are_read(fitted, path):
    calibrant.save(fitted, path)
    assert json.loads(path.read_text())["content"]["class"] == "SMSCalibrator"
    rewrite(path, lambda document: document["content"].update({"class": "calibrant.calibrators.gone:SMSCalibrator"}))
    same(calibrant.load(path), fitted)


def test_a_parameter_that_an_older_version_lacked_takes_its_default(fitted, path):
    calibrant.save(fitted, path)
    rewrite(path, lambda document: document["content"]["parameters"].pop("penalty"))
    same(calibrant.load(path), fitted)


def test_undeclared_attributes_are_not_stored(fitted, path):
    more = copy.copy(fitted)
    more.extra_ = 1
    with pytest.raises(CalibratorFileError, match=r"SMSCalibrator\._check_state does not declare extra_"):
        calibrant.save(more, path)


@pytest.mark.parametrize(
    "array",
    [
        {"dtype": "<U1000000000", "shape": [1], "data": ["a"]},
        {"dtype": "<U100000", "shape": [200], "data": ["a"] * 200},
        {"dtype": "<f8", "shape": [0, 10**15], "data": []},
        {"dtype": "<i8", "shape": [1], "data": [1.5]},
        {"dtype": "<i8", "shape": [1], "data": ["1"]},
        {"dtype": "<i8", "shape": [1], "data": [10**30]},
        {"dtype": "<f8", "shape": [1], "data": ["1.5"]},
        {"dtype": "<f8", "shape": [1] * 70, "data": [1.0]},
        {"dtype": "<f8", "shape": [1], "data": [10**400]},
        {"dtype": "|b1", "shape": [1], "data": [7]},
    ],
    ids=lambda array: f"{array['dtype']} {str(array['shape'])[:20]}",
)
def test_arrays_that_claim_more_than_they_hold(fitted, path, array):
    calibrant.save(fitted, path)
    rewrite(path, lambda document: document["content"]["parameters"].update({"classes": {"$": "array", **array}}))
    with pytest.raises(CalibratorFileError, match="damaged"):
        calibrant.load(path)


@pytest.mark.parametrize(("length", "accepted"), [(4600, True), (4700, False)])
def test_texts_may_be_shorter_than_their_type_by_a_million_letters(length, accepted):
    array = {"$": "array", "dtype": f"<U{length}", "shape": [220], "data": ["a"] * 220}
    if accepted:
        assert decode(array).tolist() == ["a"] * 220
    else:
        with pytest.raises(CalibratorFileError, match="it holds texts of the type <U4700"):
            decode(array)


def test_missing_file(path):
    with pytest.raises(FileNotFoundError):
        calibrant.load(path)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_crash_leaves_the_old_file(fitted, path, monkeypatch, failing):
    calibrant.save(calibrant.NoCalibrator().fit(*sample()), path)
    before = path.read_bytes()

    def crash(*args):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, failing, crash)
    with pytest.raises(OSError, match="no space"):
        calibrant.save(fitted, path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_symbolic_links_are_followed(fitted, path):
    link = path.parent / "link.json"
    calibrant.save(calibrant.NoCalibrator().fit(*sample()), path)
    link.symlink_to(path)
    calibrant.save(fitted, link)
    assert link.is_symlink()
    same(calibrant.load(path), fitted)


def test_arrays_of_trees_are_stored_once_and_read_back_bit_for_bit(tmp_path):
    """A forged path, and one that is taken twice, are refused."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=600)
    y = (p[:, 0] > 0.4) ^ (p[:, 1] > 0.3) ^ (rng.random(600) < 0.1)  # an interaction: only trees see it
    auto = calibrant.AutoCalibrator().fit(p, y.astype(int) + (p[:, 2] > 0.5))
    assert len(auto.tree_values_)
    path = tmp_path / "auto.json"
    calibrant.save(auto, path)
    document = json.loads(path.read_text())
    stored = document["content"]["state"]["tree_values_"]
    assert document["version"] == 2
    assert "data" not in stored
    twin = calibrant.load(path)
    np.testing.assert_array_equal(twin.tree_values_, auto.tree_values_)
    np.testing.assert_array_equal(twin.predict_proba(p), auto.predict_proba(p))
    np.testing.assert_array_equal(load_map(path).predict_proba(p), auto.predict_proba(p))
    for forged in (["steps", 99], [], "steps", [["steps"]], document["content"]["state"]["tree_features_"]["in_map"]):
        stored["in_map"] = forged
        document["sha256"] = checksum(canonical(document["content"]))
        path.write_text(json.dumps(document))
        with pytest.raises(CalibratorFileError, match="damaged"):
            calibrant.load(path)


@pytest.mark.parametrize("kind", ["scores", "auto", "batches", "labels"])
def test_what_summaries_say_is_checked_as_well(tmp_path, kind):
    rng = np.random.default_rng(0)
    p = rng.random(200)
    y = (rng.random(200) < p).astype(int)
    fitted = {
        "scores": lambda: calibrant.get_calibrator("affine", input="scores").fit(100 * p, y),
        "auto": lambda: calibrant.get_calibrator("auto-fast").fit(p, y),
        "batches": lambda: calibrant.get_calibrator("ts").fit_batches((p, y)),
        "labels": lambda: calibrant.MultilabelCalibrator().fit(np.c_[p, p], np.c_[y, y]),
    }[kind]()
    path = tmp_path / "cal.json"
    calibrant.save(fitted, path)
    stored = json.loads(path.read_text())
    refused = 0
    for name in stored["content"]["state"]:
        for value in (None, -1e300, "x", [], [None], {"a": 1}, True):
            content = {**stored["content"], "state": {**stored["content"]["state"], name: value}}
            path.write_text(json.dumps({**stored, "content": content, "sha256": checksum(canonical(content))}))
            try:
                loaded = calibrant.load(path)
            except CalibratorFileError:
                refused += 1
            else:
                assert loaded.summary()
    assert refused > 20
