"""What every calibrator accepts, and what it says of anything else: one test for each line of the input contract."""

from __future__ import annotations

import copy
import decimal
import pickle
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import DataConversionWarning, NotFittedError

from calibrant import CalibrationWarning, get_calibrator, list_calibrators
from tests.combinations import MEMORY_LAYOUTS, each, in_layout, one_per_class, with_classes
from tests.needs import needs
from tests.samples import calibrated, sharpened

NATIVE = [info for info in list_calibrators() if info.extra is None]
#: One of each kind of map; what is tested here lives in their common base.
METHODS = ["none", "ts", "logistic", "sms"]
PEOPLE = np.array(["ann", "bob", "eve"])


@pytest.fixture(params=METHODS)
def make(request):
    return lambda **parameters: get_calibrator(request.param, **parameters)


# --- containers and number types -------------------------------------------------------------------------------------

CONTAINERS = {
    "list": (lambda p: p.tolist(), np.float64),
    "tuple": (lambda p: tuple(map(tuple, p.tolist())), np.float64),
    "float64": (lambda p: p, np.float64),
    "longdouble": (lambda p: p.astype(np.longdouble), np.float64),
    "float32": (lambda p: p.astype(np.float32), np.float32),
    "float16": (lambda p: p.astype(np.float16), np.float32),
    "big endian": (lambda p: p.astype(">f8"), np.float64),
    "pandas": (pd.DataFrame, np.float64),
    "pandas float32": (lambda p: pd.DataFrame(p.astype(np.float32)), np.float32),
    "pandas nullable": (lambda p: pd.DataFrame(p).astype("Float64"), np.float64),
    "pandas nullable float32": (lambda p: pd.DataFrame(p).astype("Float32"), np.float32),
    "pandas arrow": (lambda p: pd.DataFrame(p).astype("double[pyarrow]"), np.float64),
    "pandas mixed": (lambda p: pd.DataFrame(p).astype({0: "float32"}), np.float64),
    "polars": (lambda p: pl.DataFrame(p, schema=["u", "v", "w"]), np.float64),
    "polars float32": (lambda p: pl.DataFrame(p.astype(np.float32), schema=["u", "v", "w"]), np.float32),
    "masked, nothing hidden": (np.ma.masked_array, np.float64),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_any_container_gives_the_same(make, name):
    convert, dtype = CONTAINERS[name]
    p, y = calibrated()
    expected = make().fit(p, y).predict_proba(p)
    q = make().fit(convert(p), y).predict_proba(convert(p))
    assert type(q) is np.ndarray
    assert q.dtype == dtype
    assert_allclose(q, expected, atol=1e-12 if dtype == np.float64 else 3e-3)


@pytest.mark.torch
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_torch_tensors(make, dtype, grad):
    torch = needs("torch")
    p, y = calibrated()
    tensor = torch.tensor(p, dtype=getattr(torch, dtype)).requires_grad_(grad)
    calibrator = make().fit(tensor, torch.tensor(y), sample_weight=torch.ones(len(y)).requires_grad_(grad))
    q = calibrator.predict_proba(tensor)
    assert q.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    # Two fits within the tolerance of the optimum: see tests/calibrators/homes.py for tighter ones.
    assert_allclose(
        q.detach(), make().fit(p, y).predict_proba(p), atol={"float64": 1e-4, "bfloat16": 3e-2}.get(dtype, 3e-3)
    )
    assert tensor.requires_grad is grad


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_torch_logits_of_a_network(make, dtype):
    torch = needs("torch")
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(4, 3, generator=random, requires_grad=True)
    logits = (torch.randn(40, 4, generator=random) @ weight).to(getattr(torch, dtype))
    y = calibrated(40)[1]
    double = dtype == "float64"
    tight = {"tol": 1e-16} if double and "tol" in make().get_params() else {}
    q = make(input="logits", **tight).fit(logits, y).predict_proba(logits)
    p = torch.softmax(logits.double(), dim=1).detach().numpy()
    # In single precision both fits are within the default tolerance of the optimum, which leaves this much.
    assert_allclose(q.detach(), make(**tight).fit(p, y).predict_proba(p), atol=1e-7 if double else 1e-4)
    with pytest.raises(TypeError, match="dense"):
        make().fit(torch.eye(3).to_sparse(), [0, 1, 2])


@pytest.mark.parametrize("layout", MEMORY_LAYOUTS)
def test_memory_layouts(make, layout):
    p, y = calibrated()
    expected = make().fit(p, y).predict_proba(p)
    array = in_layout(p, layout)
    y.setflags(write=False)
    assert_array_equal(make().fit(array, y).predict_proba(array), expected)


# --- two classes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["(n,)", "(n, 1)", "(n, 2)", "series", "frame of one column"])
def test_binary_shapes(make, shape):
    p = np.array([0.1, 0.3, 0.4, 0.6, 0.8, 0.9])
    y = ["no", "no", "yes", "no", "yes", "yes"]
    both = np.column_stack([1 - p, p])
    expected = make().fit(both, y).predict_proba(both)
    X = {
        "(n,)": p,
        "(n, 1)": p[:, None],
        "(n, 2)": both,
        "series": pd.Series(p, dtype="Float64"),
        "frame of one column": pd.DataFrame({"p": p}),
    }[shape]
    calibrator = make().fit(X, y)
    assert calibrator.classes_.tolist() == ["no", "yes"]
    for other in (X, p, both):
        assert_allclose(calibrator.predict_proba(other), expected, atol=1e-12)


def test_single_column_is_the_second_class_even_after_columns_were_swapped():
    p = np.array([0.1, 0.3, 0.4, 0.6, 0.8, 0.9])
    frame = pd.DataFrame({"yes": p, "no": 1 - p})
    calibrator = get_calibrator("none").fit(frame, ["no", "yes"] * 3)
    assert_allclose(calibrator.predict_proba(p)[:, 1], p)


# --- labels ----------------------------------------------------------------------------------------------------------

LABELS = {
    "strings": PEOPLE,
    "objects": PEOPLE.astype(object),
    "1..k": np.array([1, 2, 3]),
    "negative": np.array([-7, -1, 4]),
    "floats": np.array([1.0, 2.0, 5.0]),
    "uint8": np.array([3, 4, 255], dtype=np.uint8),
    "dates": np.array(["2026-01-01", "2026-02-01", "2026-03-01"], dtype="datetime64[D]"),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_sortable_type(make, kind):
    p, y = calibrated()
    labels = LABELS[kind]
    calibrator = make().fit(p, labels[y])
    assert_array_equal(calibrator.classes_, labels)
    assert_array_equal(calibrator.predict(p), labels[make().fit(p, y).predict(p)])
    assert_array_equal(calibrator.predict_proba(p), make().fit(p, y).predict_proba(p))


@pytest.mark.parametrize("dtype", [bool, "boolean", object])
def test_boolean_labels(make, dtype):
    p, y = calibrated(k=2)
    calibrator = make().fit(p, pd.Series(y.astype(bool), dtype=dtype))
    assert calibrator.classes_.tolist() == [False, True]
    assert calibrator.predict(p).dtype == bool


@pytest.mark.parametrize(
    "convert",
    [
        pd.Series,
        pd.Categorical,
        lambda y: pd.Series(pd.Categorical(y, categories=["eve", "bob", "ann"], ordered=True)),
        lambda y: pd.Series(y, dtype="string"),
        pl.Series,
        lambda y: pl.Series(y, dtype=pl.Categorical),
        list,
    ],
    ids=["series", "categorical", "ordered", "string", "polars", "polars categorical", "list"],
)
def test_label_containers(make, convert):
    p, y = calibrated()
    calibrator = make().fit(p, convert(PEOPLE[y]))
    assert calibrator.classes_.tolist() == PEOPLE.tolist()
    assert set(calibrator.predict(p)) <= set(PEOPLE)


def test_nullable_integers_are_integers(make):
    p, y = calibrated()
    for dtype in ("Int64", object):
        calibrator = make().fit(p, pd.Series(y + 1, dtype=dtype))
        assert calibrator.classes_.tolist() == [1, 2, 3]
        assert calibrator.predict(p).dtype == np.int64


def test_categories_tell_of_absent_classes(make):
    p, y = calibrated()
    y[y == 1] = 0
    calibrator = make().fit(p, pd.Series(pd.Categorical(PEOPLE[y], categories=["eve", "ann", "bob"])))
    assert calibrator.classes_.tolist() == PEOPLE.tolist()


@pytest.mark.parametrize(
    ("y", "error"),
    [
        ([0.0, np.nan, 1.0], "row 1"),
        (["a", None, "b"], "None at row 1"),
        (pd.Series([1, None, 2], dtype="Int64"), "row 1"),
        (pd.Series(["a", "b", None], dtype="string"), "row 2"),
        ([0.0, 1.0, 0.5], "continuous.*0.5.* at row 2"),
        ([1, "a", 2], None),
        (np.array([1, "a", 2.5], dtype=object), "mixes.*float, int, str"),
        ([[[1, 0]], [[0, 1]], [[1, 0]]], "argmax"),
        ([[1, 0, 0], [0, 1, 0], [1, 0, 0]], r"shape \(3, 3\), expected \(3, 2\)"),
        ([0, 1], "X has 3 rows, y has 2"),
        (None, "requires y"),
        ([0j, 1j, 0j], "Complex data not supported"),
    ],
)
def test_bad_labels(make, y, error):
    if error is None:  # NumPy makes strings of such a list: they sort
        assert make().fit(calibrated(3)[0], y).classes_.tolist() == ["1", "2", "a"]
        return
    with pytest.raises(ValueError, match=error):
        make().fit(calibrated(3, 2)[0], y)


def test_column_vector_of_labels_warns(make):
    p, y = calibrated()
    with pytest.warns(DataConversionWarning, match="column-vector"):
        make().fit(p, y[:, None])


def test_many_classes_do_not_warn(make):
    k = 24
    p = np.full((k, k), 0.1 / (k - 1))
    np.fill_diagonal(p, 0.9)
    assert len(make().fit(p, np.arange(k)).classes_) == k


# --- data frames -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize("prefix", ["", "p_", "probability of "])
@pytest.mark.parametrize("labels", [PEOPLE, np.array(["cat", "cow", "crab"]), np.array([3, 10, 20]), np.arange(3)])
def test_columns_are_matched_by_name(make, frame, prefix, labels):
    p, y = calibrated()
    names = [prefix + str(label) for label in labels]
    columns = dict(zip(names, p.T))
    shuffled = frame({name: columns[name] for name in (names[2], names[0], names[1])})
    again = frame({name: columns[name] for name in (names[1], names[2], names[0])})
    calibrator = make().fit(shuffled, labels[y])
    expected = make().fit(p, labels[y])
    assert_array_equal(calibrator.classes_, labels)
    # Sums of the columns in another order round differently.
    assert_allclose(calibrator.predict_proba(again), expected.predict_proba(p), rtol=1e-12)
    # A calibrator that was fitted to an array knows the names by its labels.
    assert_allclose(expected.predict_proba(again), expected.predict_proba(p), rtol=1e-12)


def test_number_names_are_matched_too(make):
    p, y = calibrated()
    frame = pd.DataFrame(p, columns=[1, 2, 3])
    calibrator = make().fit(frame[[3, 1, 2]], y + 1)
    assert_allclose(calibrator.predict_proba(frame[[2, 1, 3]]), make().fit(p, y).predict_proba(p), rtol=1e-12)


def test_names_tell_of_absent_classes(make):
    p, y = calibrated()
    y[y == 0] = 1
    for names in (["p_eve", "p_ann", "p_bob"], ["eve", "ann", "bob"]):
        calibrator = make().fit(pd.DataFrame(p[:, [2, 0, 1]], columns=names), PEOPLE[y])
        assert calibrator.classes_.tolist() == PEOPLE.tolist()
    assert make().fit(pd.DataFrame(p, columns=["p_0", "p_1", "p_2"]), y).classes_.tolist() == [0, 1, 2]


def test_classes_and_names_together(make):
    p, y = calibrated()
    frame = pd.DataFrame(p, columns=PEOPLE)
    calibrator = make(classes=PEOPLE).fit(frame[["eve", "ann", "bob"]], PEOPLE[y])
    assert_allclose(calibrator.predict_proba(frame), make().fit(p, y).predict_proba(p), rtol=1e-12)


def test_default_and_meaningless_names_are_positions(make):
    p, y = calibrated()
    expected = make().fit(p, y).predict_proba(p)
    for names in ([0, 1, 2], ["p_0", "p_1", "p_2"], ["red", "green", "blue"]):
        calibrator = make().fit(pd.DataFrame(p, columns=names), PEOPLE[y])
        assert_array_equal(calibrator.predict_proba(pd.DataFrame(p, columns=names)), expected)


def test_frames_that_contradict(make):
    p, y = calibrated()
    with pytest.raises(ValueError, match=r"No column of X stands for the label 'eve'.*'joe'"):
        make().fit(pd.DataFrame(p, columns=["ann", "bob", "joe"]), PEOPLE[y])
    with pytest.raises(ValueError, match="more than one column called 'ann'"):
        make().fit(pd.DataFrame(p, columns=["ann", "bob", "ann"]), PEOPLE[y])
    calibrator = make().fit(pd.DataFrame(p, columns=PEOPLE), PEOPLE[y])
    with pytest.raises(ValueError, match=r"should match those that were passed during fit: X lacks 'eve'"):
        calibrator.predict_proba(pd.DataFrame(p, columns=["ann", "bob", "joe"]))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        calibrator.predict_proba(p)


# --- which column stands for which label -----------------------------------------------------------------------------


def test_absent_class_with_classes(make):
    p, y = calibrated()
    y[y == 2] = 1
    calibrator = make(classes=PEOPLE.tolist()).fit(p, PEOPLE[y])
    assert calibrator.classes_.tolist() == PEOPLE.tolist()
    q = calibrator.predict_proba(p)
    assert q.shape == (60, 3)
    assert np.isfinite(q).all()


def test_classes_name_columns_in_their_order(make):
    p, y = calibrated()
    with pytest.warns(CalibrationWarning, match=r"the order 'eve', 'ann', 'bob'. Metrics assume sorted order"):
        calibrator = make(classes=["eve", "ann", "bob"]).fit(p[:, [2, 0, 1]], PEOPLE[y])
    assert_allclose(
        calibrator.predict_proba(p[:, [2, 0, 1]]), make().fit(p, y).predict_proba(p)[:, [2, 0, 1]], atol=1e-6
    )
    assert calibrator.classes_.tolist() == ["eve", "ann", "bob"]


def test_absent_class_of_integer_labels(make):
    p, y = calibrated()
    y[y == 1] = 0
    assert make().fit(p, y).classes_.tolist() == [0, 1, 2]
    with pytest.warns(CalibrationWarning, match=r"lacks the label 0.*classes="):
        calibrator = make().fit(p, np.where(y == 0, 1, y))
    assert calibrator.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("y", "parameters", "error"),
    [
        (["ann", "bob", "ann"], {}, "2 of 3 classes.*cannot infer their columns.*classes="),
        ([1, 3, 1], {}, "no column stands for the label 3"),
        ([-1, 0, -1], {}, "cannot infer their columns"),
        ([1, 2, 3, 4], {}, "4 labels but X has 3 columns: no column stands for the label 4"),
        (["ann", "joe", "ann"], {"classes": PEOPLE}, "label 'joe', which classes= does not name"),
        (["ann", "bob", "ann"], {"classes": ["ann", "bob"]}, "must name each of the 3 columns"),
        (["ann", "bob", "ann"], {"classes": ["ann", "bob", "bob"]}, "must name each of the 3 columns"),
    ],
)
def test_labels_without_a_column(make, y, parameters, error):
    p, _ = calibrated(len(y))
    with pytest.raises(ValueError, match=error):
        make(**parameters).fit(p, y)


# --- values ----------------------------------------------------------------------------------------------------------


def test_rounding_is_mended(make):
    p, y = calibrated()
    expected = make().fit(p, y).predict_proba(p)
    q = make().fit(p * 1.0009, y).predict_proba(p * 0.9991)
    assert_allclose(q, expected, atol=1e-9)
    assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)


def test_rows_off_one(make):
    p, y = calibrated()
    wrong = p.copy()
    wrong[7:9] *= 1.01
    with pytest.raises(ValueError, match=r"Row 7 of X sums to 1\.01.*renormalize=True.*logits"):
        make().fit(wrong, y)
    with pytest.raises(ValueError, match=r"Row 7 of X sums to 1\.01"):
        make().fit(p, y).predict_proba(wrong)
    big = np.tile(p, (2000, 1))
    big[100_001] *= 1.01
    with pytest.raises(ValueError, match="Row 100001 of X"):
        make().fit(p, y).predict_proba(big)
    factor = np.logspace(-300, 300, len(p))[:, None]
    fit = make(renormalize=True).fit(p * factor, y)
    assert_allclose(fit.predict_proba(wrong), make().fit(p, y).predict_proba(p), atol=1e-9)
    wrong[4] = 0.0
    with pytest.raises(ValueError, match="Row 4 of X sums to 0"):
        make(renormalize=True).fit(wrong, y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.1, 1.5])
@pytest.mark.parametrize("renormalize", [False, True])
def test_bad_numbers_are_named(make, value, renormalize):
    p, y = calibrated()
    wrong = p.copy()
    wrong[5, 1] = value
    if value == 1.5 and renormalize:
        make(renormalize=True).fit(wrong, y)
        return
    for call in (lambda c: c.fit(wrong, y), lambda c: c.fit(p, y).predict_proba(wrong)):
        with pytest.raises(ValueError, match=r"row 5, column 1"):
            call(make(renormalize=renormalize))
    with pytest.raises(ValueError, match="row 1"):
        make().fit([0.2, value, 0.3], [0, 1, 1])


@pytest.mark.parametrize(
    ("X", "kind", "error"),
    [
        (scipy.sparse.csr_matrix(np.eye(3)), TypeError, "dense"),
        (scipy.sparse.csr_array(np.eye(3)), TypeError, "dense"),
        (np.diag([1, 1, 1j])[[0, 2, 1]], ValueError, "1j.* at row 1, column 2"),
        (np.array([["0.5", "0.5"]] * 3), TypeError, "'0.5'.* at row 0, column 0"),
        (np.array([[0.5, 0.5], [0.5, {}], [1, 0]], dtype=object), TypeError, "{} at row 1, column 1, of type dict"),
        (np.full((3, 2), 0.5).astype(object), TypeError, r"objects.*row 0, column 0.*astype\(float\)"),
        (np.full((3, 2), decimal.Decimal("0.5")), TypeError, "Decimal.* at row 0, column 0"),
        (pd.DataFrame({"a": ["x"] * 3, "b": [1.0] * 3}), TypeError, "'x' in row 0 of the column 'a'"),
        (pd.DataFrame({"a": [0.5, None, 1], "b": [0.5, 1, 0]}, dtype="Float64"), ValueError, "row 1, column 0"),
        (pl.DataFrame({"a": [0.5, None, 1], "b": [0.5, 1, 0]}), ValueError, "row 1, column 0"),
        (np.ma.masked_array(np.eye(3), mask=np.eye(3)[::-1]), ValueError, "masked value at row 0, column 2"),
        (np.array(["2026-01-01"] * 3, dtype="datetime64[D]"), TypeError, "row 0"),
        (np.empty((0, 3)), ValueError, "0 sample"),
        (np.empty((3, 0)), ValueError, "0 feature"),
        ([], ValueError, "0 sample"),
        (np.float64(0.5), ValueError, "0 dimensions"),
        (np.ones((3, 2, 2)) / 2, ValueError, "3 dimensions"),
        (None, TypeError, "NoneType"),
    ],
)
def test_what_is_not_a_matrix_of_numbers(make, X, kind, error):
    with pytest.raises(kind, match=error):
        make().fit(X, [0, 1, 0])
    calibrator = make().fit(*calibrated(k=2))
    with pytest.raises(kind, match=error):
        calibrator.predict_proba(X)


@pytest.mark.parametrize("shift", [0.0, 1e6, -1e6])
def test_logits(make, shift):
    p, y = calibrated()
    z = np.log(p)
    expected = make().fit(p, y).predict_proba(p)
    assert_allclose(make(input="logits").fit(z + shift, y).predict_proba(z + shift), expected, atol=1e-7)
    odds = np.log(p[:, 0] / (p[:, 1] + p[:, 2]))
    both = np.column_stack([p[:, 1] + p[:, 2], p[:, 0]])
    fit = make(input="logits").fit(odds, y == 0)
    assert_allclose(fit.predict_proba(odds), make().fit(both, y == 0).predict_proba(both), atol=1e-9)


def test_impossible_and_enormous_logits(make):
    p, y = calibrated()
    z = np.log(p)
    y[10:20] = 1
    z[10:20, 2] = -np.inf
    z[20] = [1e308, -1e308, 3.0]
    z[21] = [-np.inf, 5.0, -np.inf]
    calibrator = make(input="logits").fit(z, y)
    q = calibrator.predict_proba(z)
    assert np.isfinite(q).all()
    assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
    assert np.isfinite(
        make(input="logits").fit([-np.inf, 1.0, 2.0, 1.5, 0.5], [0, 1, 1, 0, 0]).predict_proba([-np.inf])
    ).all()
    for value, error in ((np.inf, "inf at row 3, column 1"), (np.nan, "nan at row 3, column 1")):
        wrong = z.copy()
        wrong[3, 1] = value
        with pytest.raises(ValueError, match=error):
            calibrator.predict_proba(wrong)
        with pytest.raises(ValueError, match="row 1, column 0"):
            make(input="logits").fit([1.0, value], [0, 1])
    wrong[3] = -np.inf
    with pytest.raises(ValueError, match="row 3 are -inf"):
        calibrator.predict_proba(wrong)


# --- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("info", each(NATIVE, one_per_class(NATIVE)))
def test_zero_weight_equals_absence(info):
    p, y = calibrated(80, 3 if info.multiclass else 2)
    rng = np.random.default_rng(1)
    w = rng.integers(0, 3, size=80).astype(float)
    w[:3] = 1
    foreign = y.copy()
    foreign[w == 0] = 77  # labels that nobody counts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        weighted = info.make().fit(p, foreign, sample_weight=w).predict_proba(p)
        without = info.make().fit(p[w > 0], y[w > 0], sample_weight=w[w > 0]).predict_proba(p)
    assert_array_equal(weighted, without)


@pytest.mark.parametrize(
    ("weight", "error"),
    [
        ([1, -1, 1], "-1.0 at row 1"),
        ([1, 1, np.nan], "nan at row 2"),
        ([np.inf, 1, 1], "inf at row 0"),
        (pd.Series([1, None, 1], dtype="Float64"), "nan at row 1"),
        ([0, 0, 0], "All sample weights are zero"),
        ([1, 1], r"expected \(3,\)"),
        ([[1], [1], [1]], "1D array"),
        (["a", "b", "c"], "one real number per row"),
    ],
)
def test_bad_weights(make, weight, error):
    p, _ = calibrated(3, 2)
    with pytest.raises((ValueError, TypeError), match=error):
        make().fit(p, [0, 1, 0], sample_weight=weight)


def test_shares_instead_of_counts_warn(make):
    p, y = calibrated()
    with pytest.warns(CalibrationWarning, match=r"60 rows sum to 1\..*counts"):
        make().fit(p, y, sample_weight=np.full(60, 1 / 60))
    make().fit(p, y, sample_weight=1.0)
    make().fit(p, y, sample_weight=np.full(60, 0.5))


# --- little information ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["one row", "one class", "constant"])
@pytest.mark.parametrize(("name", "k"), with_classes(NATIVE, 2, 3, often=one_per_class(NATIVE)))
def test_little_information(name, case, k):
    p, y = calibrated(30, k)
    if case == "one row":
        p, y = p[:1], y[:1]
    elif case == "one class":
        y[:] = 0
    else:
        p[:] = p[0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator = get_calibrator(name).fit(p, y)
    assert {warning.category for warning in caught} == {CalibrationWarning}
    said = {"constant": "same prediction", "one row": "row has the label 0"}.get(case, "rows have the label 0")
    assert any(said in str(warning.message) for warning in caught)
    q = calibrator.predict_proba(calibrated(50, k, seed=3)[0])
    assert np.isfinite(q).all()
    assert q.min() >= 0
    assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
    assert calibrator.classes_.tolist() == list(range(k))


# --- columns and state at predict ------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 2, 4])
def test_other_number_of_columns(make, columns):
    calibrator = make().fit(*calibrated())
    with pytest.raises(ValueError, match=rf"X has {columns} features, but \w+ is expecting 3 features"):
        calibrator.predict_proba(np.full((5, columns), 1 / columns))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_prediction_takes_little_memory(make, dtype):
    p, y = calibrated(200, 10)
    calibrator = make().fit(p, y)
    large = np.tile(p, (500, 1)).astype(dtype)
    tracemalloc.start()
    calibrator.predict_proba(large)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * large.nbytes  # the result and blocks of the rest


def test_not_fitted(make):
    with pytest.raises(NotFittedError):
        make().predict_proba([[0.5, 0.5]])


@pytest.mark.parametrize(
    "parameters", [{"input": "probs"}, {"classes": 3}, {"renormalize": "yes"}], ids=["input", "classes", "renormalize"]
)
def test_bad_parameters_are_rejected_at_fit(make, parameters):
    calibrator = make(**parameters)
    with pytest.raises(ValueError, match=f"The '{next(iter(parameters))}' parameter"):
        calibrator.fit(*calibrated())


def test_steps_are_made_again_after_a_change_and_stay_out_of_copies():
    p, y = sharpened(300, 3, seed=1)
    other, labels = sharpened(300, 3, seed=2, power=0.3)
    for name in ("ts", "isotonic", "auto-fast"):
        calibrator = get_calibrator(name).fit(p, y)
        before = calibrator.predict_proba(p)
        assert not any("Log()" in repr(value) for value in vars(pickle.loads(pickle.dumps(calibrator))).values())
        np.testing.assert_array_equal(copy.deepcopy(calibrator).predict_proba(p), before)
        expected = get_calibrator(name).fit(other, labels).predict_proba(p)
        assert not np.array_equal(before, expected)
        np.testing.assert_array_equal(calibrator.fit(other, labels).predict_proba(p), expected)
    lifted = get_calibrator("isotonic").fit(p, y)
    before = lifted.predict_proba(p)
    lifted.estimators_[0].values_ = lifted.estimators_[0].values_ * 0.5  # of a calibrator inside
    assert not np.array_equal(lifted.predict_proba(p), before)
