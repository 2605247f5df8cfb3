"""Properties that hold for every valid input, over all native calibrators."""

from __future__ import annotations

import json
import pickle
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.naive_bayes import GaussianNB

import calibrant
from calibrant.files.stored.encoding import CalibratorFileError, decode, encode
from calibrant.simplex import log_softmax
from tests.combinations import MEMORY_LAYOUTS, in_layout
from tests.properties import labelled, logits, probabilities, profile, storable, weights

pytestmark = pytest.mark.filterwarnings("ignore")

INFOS = [info for info in calibrant.list_calibrators() if info.extra is None and isinstance(info.factory, str)]
ANY = st.sampled_from([info.name for info in INFOS if info.multiclass])
BINARY = st.sampled_from([info.name for info in INFOS])
#: Quick to fit, for properties that need many fits; one of each family.
QUICK = st.sampled_from(["none", "ts", "svs", "sms", "logistic", "isotonic", "hist-uniform", "platt", "venn-abers"])
#: Penalised or one-dimensional convex problems: one optimum, whatever the order of rows and columns.
CONVEX = st.sampled_from(["ts", "svs", "sms", "isotonic"])
TWO = st.just(2)
POOL = ThreadPoolExecutor(4)


def fit(name, p, y, weight=None, **parameters):
    return calibrant.get_calibrator(name, **parameters).fit(p, y, sample_weight=weight)


def assert_valid(q, shape):
    assert q.shape == shape
    assert np.isfinite(q).all()
    assert q.min() >= 0.0
    tolerance = 1e-12 if q.dtype == np.float64 else 1e-6
    assert_allclose(q.sum(axis=1), 1.0, rtol=0, atol=tolerance)


# --- outputs ---------------------------------------------------------------------------------------------------------


@profile
@given(ANY, labelled(), st.data())
def test_outputs_are_distributions(name, data, more):
    p, y = data
    q = more.draw(probabilities(st.just(p.shape[1])))
    calibrator = fit(name, p, y)
    assert_valid(calibrator.predict_proba(p), p.shape)
    assert_valid(calibrator.predict_proba(q), q.shape)


@profile
@given(BINARY, labelled(TWO), st.data())
def test_binary_outputs_are_distributions(name, data, more):
    p, y = data
    q = more.draw(probabilities(TWO))
    assert_valid(fit(name, p, y).predict_proba(q), q.shape)


@profile
@given(ANY, labelled())
def test_narrow_input_gives_narrow_output(name, data):
    p, y = data
    q = fit(name, p.astype(np.float32), y).predict_proba(p.astype(np.float32))
    assert q.dtype == np.float32
    assert_valid(q, p.shape)


@profile
@given(QUICK, logits(), st.data())
def test_logits_of_any_size(name, z, more):
    y = np.array(more.draw(st.lists(st.integers(0, z.shape[1] - 1), min_size=len(z), max_size=len(z))))
    z[more.draw(st.integers(0, len(z) - 1)), 1:] = -np.inf
    calibrator = fit(name, z, y, input="logits", classes=np.arange(z.shape[1]))
    assert_valid(calibrator.predict_proba(z), z.shape)


@profile
@given(QUICK, labelled())
def test_prediction_is_the_most_probable_label(name, data):
    p, y = data
    labels = np.array(["a", "b", "c", "d"])[: p.shape[1]]
    calibrator = fit(name, p, labels[y], classes=labels)
    assert_array_equal(calibrator.predict(p), labels[calibrator.predict_proba(p).argmax(axis=1)])


@profile
@given(labelled(extreme=False))
def test_temperature_never_changes_the_decision(data):
    p, y = data
    ordered = np.sort(p, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 1e-6
    calibrator = fit("ts", p, y)
    assume(calibrator.inverse_temperature_ > 1e-6)
    assert_array_equal(calibrator.predict(p)[clear], p.argmax(axis=1)[clear])


# --- what must not matter ---------------------------------------------------------------------------------------------


@profile
@given(ANY, labelled(), st.data())
def test_inputs_are_not_modified(name, data, more):
    p, y = data
    w = more.draw(weights(len(y))).astype(float)
    copies = [array.copy() for array in (p, y, w)]
    calibrator = fit(name, p, y, w, classes=np.arange(p.shape[1]))
    state = joblib.hash(vars(calibrator))
    calibrator.predict_proba(p)
    for array, copy in zip((p, y, w), copies):
        assert_array_equal(array, copy)
    assert joblib.hash(vars(calibrator)) == state


@profile
@given(QUICK, labelled(), st.sampled_from(MEMORY_LAYOUTS))
def test_memory_layout_does_not_matter(name, data, layout):
    p, y = data
    array = in_layout(p, layout)
    assert_array_equal(fit(name, array, y).predict_proba(array), fit(name, p, y).predict_proba(p))


@profile
@given(QUICK, labelled(), st.sampled_from([str, float, np.int8, "categorical", "shifted"]))
def test_names_of_labels_do_not_matter(name, data, kind):
    p, y = data
    k = p.shape[1]
    names = {"categorical": list("abcd"), "shifted": [-5, 0, 7, 99]}.get(kind, range(k))
    names = np.array([name if isinstance(kind, str) else kind(name) for name in names][:k])
    labels = pd.Categorical(names[y], categories=names) if kind == "categorical" else names[y]
    calibrator = fit(name, p, labels, classes=None if kind == "categorical" else names)
    assert_array_equal(calibrator.classes_, names)
    assert_array_equal(calibrator.predict_proba(p), fit(name, p, y).predict_proba(p))


@profile
@given(QUICK, labelled(), st.data())
def test_rows_are_calibrated_one_by_one(name, data, more):
    p, y = data
    calibrator = fit(name, p, y)
    order = np.array(more.draw(st.permutations(range(len(p)))))
    alone = np.vstack([calibrator.predict_proba(row[None]) for row in p])
    assert_array_equal(calibrator.predict_proba(p[order]), alone[order])


@profile
@given(CONVEX, labelled(n=st.integers(4, 12), extreme=False), st.data())
def test_order_of_rows_does_not_matter(name, data, more):
    p, y = data
    order = np.array(more.draw(st.permutations(range(len(p)))))
    expected = fit(name, p, y).predict_proba(p)
    assert_allclose(fit(name, p[order], y[order]).predict_proba(p), expected, rtol=0, atol=1e-4)


@profile
@given(CONVEX, labelled(n=st.integers(4, 12), extreme=False), st.data())
def test_order_of_columns_does_not_matter(name, data, more):
    p, y = data
    k = p.shape[1]
    order = np.array(more.draw(st.permutations(range(k))))
    permuted = fit(name, p[:, order], y, classes=order)
    expected = fit(name, p, y, classes=np.arange(k)).predict_proba(p)[:, order]
    assert_allclose(permuted.predict_proba(p[:, order]), expected, rtol=0, atol=1e-4)


@profile
@given(QUICK, labelled(st.integers(3, 4)), st.data(), st.sampled_from(["", "p_", "prob of "]))
def test_order_of_named_columns_does_not_matter(name, data, more, prefix):
    p, y = data
    # Parts of 64 add up exactly in any order: no last bit can move a row across a step.
    p = np.floor(64 * p) / 64
    p[:, 0] += 1.0 - p.sum(axis=1)
    labels = np.array(["ann", "bob", "eve", "joe"])[: p.shape[1]]
    frame = pd.DataFrame(p, columns=[prefix + label for label in labels])
    first, second = (more.draw(st.permutations(list(frame.columns))) for _ in range(2))
    calibrator = fit(name, frame[first], labels[y])
    assert_array_equal(calibrator.classes_, labels)
    expected = fit(name, p, labels[y], classes=labels).predict_proba(p)
    assert_array_equal(calibrator.predict_proba(frame[second]), expected)
    assert_array_equal(calibrator.predict_proba(frame[first]), expected)


@profile
@given(st.sampled_from(["none", "ts", "svs", "sms"]), logits(extreme=False), st.data())
def test_constants_added_to_logits_do_not_matter(name, z, more):
    y = np.arange(len(z)) % z.shape[1]
    shift = np.array(more.draw(st.lists(st.floats(-50, 50), min_size=len(z), max_size=len(z))))[:, None]
    a = fit(name, z, y, input="logits").predict_proba(z)
    b = fit(name, z + shift, y, input="logits").predict_proba(z + shift)
    assert_allclose(a, b, rtol=0, atol=1e-4)


@profile
@given(QUICK, labelled(extreme=False))
def test_logits_and_probabilities_are_two_spellings(name, data):
    p, y = data
    z = np.log(p)
    assert_allclose(log_softmax(z), z, atol=1e-12)
    assume(name not in ("isotonic", "venn-abers", "hist-uniform"))  # steps move with the last bit
    assert_allclose(
        fit(name, z, y, input="logits").predict_proba(z), fit(name, p, y).predict_proba(p), rtol=0, atol=1e-4
    )


@profile
@given(BINARY, labelled(TWO))
def test_shapes_of_two_classes(name, data):
    p, y = data
    column = p[:, 1]
    both = np.column_stack([1 - column, column])
    expected = fit(name, both, y).predict_proba(both)
    assert_array_equal(fit(name, column, y).predict_proba(column), expected)
    assert_array_equal(fit(name, column[:, None], y).predict_proba(both), expected)


# --- weights ---------------------------------------------------------------------------------------------------------


@profile
@given(ANY, labelled(n=st.integers(2, 12)), st.data())
def test_zero_weight_is_absence(name, data, more):
    p, y = data
    w = more.draw(weights(len(y)))
    classes = np.arange(p.shape[1])
    kept = w > 0
    a = fit(name, p, y, w, classes=classes)
    b = fit(name, p[kept], y[kept], w[kept], classes=classes)
    assert_array_equal(a.predict_proba(p), b.predict_proba(p))


@profile
@given(CONVEX, labelled(n=st.integers(4, 12), extreme=False), st.data())
def test_weight_is_repetition(name, data, more):
    p, y = data
    w = more.draw(weights(len(y)))
    classes = np.arange(p.shape[1])
    repeated = np.repeat(np.arange(len(y)), w)
    a = fit(name, p, y, w, classes=classes)
    b = fit(name, p[repeated], y[repeated], classes=classes)
    assert_allclose(a.predict_proba(p), b.predict_proba(p), rtol=0, atol=1e-4)


# --- objectives ------------------------------------------------------------------------------------------------------


@profile
@given(
    st.sampled_from(["svs", "sms"]), st.sampled_from(["ridge", "lasso", "group_lasso", "mcp"]), labelled(), st.data()
)
def test_objective_is_never_above_temperature_scaling(name, penalty, data, more):
    p, y = data
    w = more.draw(weights(len(y)))
    classes = np.arange(p.shape[1])
    calibrator = fit(name, p, y, w, penalty=penalty, classes=classes)
    q = fit("ts", p, y, w, classes=classes).predict_proba(p)
    start = -np.average(np.log(q[np.arange(len(y)), y]), weights=w)
    assert calibrator.objective_ <= start + 1e-9 * max(1.0, start)


@profile
@given(labelled())
def test_matrix_scaling_is_never_above_vector_scaling(data):
    p, y = data
    svs, sms = fit("svs", p, y), fit("sms", p, y)
    assert sms.objective_ <= svs.objective_ + 1e-7 * max(1.0, svs.objective_)


@profile
@given(labelled())
def test_temperature_is_never_above_none(data):
    p, y = data
    ts = fit("ts-unsmoothed", p, y)
    loss = [
        -np.log(np.maximum(c.predict_proba(p)[np.arange(len(y)), y], 1e-38)).mean() for c in (ts, fit("none", p, y))
    ]
    assert loss[0] <= loss[1] + 1e-9 * max(1.0, loss[1])


# --- errors ----------------------------------------------------------------------------------------------------------


@profile
@given(QUICK, labelled(), st.data(), st.sampled_from([np.nan, np.inf, -np.inf, -0.5, 1.5]))
def test_a_bad_cell_is_named(name, data, more, value):
    p, y = data
    row, column = more.draw(st.integers(0, len(p) - 1)), more.draw(st.integers(0, p.shape[1] - 1))
    wrong = p.copy()
    wrong[row, column] = value
    with pytest.raises(ValueError, match=f"row {row}, column {column}"):
        fit(name, wrong, y)
    with pytest.raises(ValueError, match=f"row {row}, column {column}"):
        fit(name, p, y).predict_proba(wrong)


@profile
@given(QUICK, labelled(), st.data(), st.floats(0.0, 3.0).filter(lambda f: abs(f - 1) > 2e-3))
def test_a_row_that_does_not_sum_to_one_is_named(name, data, more, factor):
    p, y = data
    row = more.draw(st.integers(0, len(p) - 1))
    wrong = p.copy()
    wrong[row] *= factor
    with pytest.raises(ValueError, match=rf"Row {row} of X sums to|row {row}, column"):
        fit(name, wrong, y)
    assume(factor > 1e-3)
    q = fit(name, wrong, y, renormalize=True).predict_proba(wrong)
    assert_valid(q, p.shape)
    if name in ("none", "ts", "svs", "sms"):
        assert_allclose(q, fit(name, p, y).predict_proba(p), rtol=0, atol=1e-4)


@profile
@given(ANY, labelled(st.integers(3, 4)), st.data())
def test_absent_classes_keep_their_columns(name, data, more):
    p, y = data
    absent = more.draw(st.integers(0, p.shape[1] - 1))
    kept = y != absent
    assume(kept.any())
    calibrator = fit(name, p[kept], y[kept], classes=np.arange(p.shape[1]))
    assert_array_equal(calibrator.classes_, np.arange(p.shape[1]))
    assert_valid(calibrator.predict_proba(p), p.shape)


# --- travelling ------------------------------------------------------------------------------------------------------


@profile
@given(ANY, labelled())
def test_files_keep_every_bit(name, data):
    p, y = data
    calibrator = fit(name, p, y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "calibrator.json")
        calibrant.save(calibrator, path)
        twin = calibrant.load(path)
    assert_array_equal(twin.predict_proba(p), calibrator.predict_proba(p))
    assert_array_equal(pickle.loads(pickle.dumps(calibrator)).predict_proba(p), twin.predict_proba(p))


@profile
@given(storable)
def test_values_keep_every_bit(value):
    stored = json.dumps(encode(value), allow_nan=False)
    again = json.dumps(encode(decode(json.loads(stored))), allow_nan=False)
    assert stored == again
    assert pickle.dumps(decode(json.loads(stored))) == pickle.dumps(decode(json.loads(again)))


@profile
@given(st.data())
def test_damaged_files_are_refused(more):
    calibrator = fit("sms", [[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]], [0, 1, 1])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "calibrator.json")
        calibrant.save(calibrator, path)
        whole = path.read_bytes()
        start = more.draw(st.integers(0, len(whole) - 3))
        stop = more.draw(st.integers(start + 1, len(whole) - 2))
        path.write_bytes(whole[:start] + more.draw(st.binary(max_size=3)) + whole[stop:])
        assume(path.read_bytes() != whole)
        try:
            twin = calibrant.load(path)
        except CalibratorFileError:
            return
    # White space, the version of the program: what does not touch the calibrator.
    assert encode(twin) == encode(calibrator)


# --- threads and classifiers -----------------------------------------------------------------------------------------


@profile
@given(ANY, labelled())
def test_threads_agree(name, data):
    p, y = data
    calibrator = fit(name, p, y)
    expected = calibrator.predict_proba(p)
    for q in POOL.map(calibrator.predict_proba, [p] * 8):
        assert_array_equal(q, expected)


@profile
@given(QUICK, st.integers(0, 10**6), st.integers(2, 4), st.booleans())
def test_classifiers_whose_folds_miss_classes(name, seed, k, ensemble):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(24, 2)), rng.integers(k, size=24)
    y[:12] = np.arange(12) % 2
    model = calibrant.CalibratedClassifier(GaussianNB(), name, cv=3, ensemble=ensemble).fit(X, y)
    assert_valid(model.predict_proba(X), (24, len(np.unique(y))))
