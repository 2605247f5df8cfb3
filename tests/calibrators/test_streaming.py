"""Fits to batches against fits to the same rows in memory, and sources that are wrong in the middle."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import calibrant
from calibrant import get_calibrator, list_calibrators
from calibrant.calibrators.rows_calibrator import RowsCalibrator
from calibrant.inputs.batches import Reservoir
from calibrant.inputs.words import CalibrationWarning
from tests.calibrators.homes import ANY, BINARY, TIGHT, assert_same
from tests.combinations import one_per_class
from tests.samples import confused, draw_labels

#: Memory that makes the sample a few hundred rows, so that everything else comes from passes.
LITTLE = 0.1
#: Every method that streams, with options that ask for the optimum itself.
STREAMING = {name: TIGHT.get(name, {}) for name in (*ANY, *BINARY, "platt-logits")} | {
    "ts-unsmoothed": {"input_smoothing": "auto"}
}


def in_batches(*columns, sizes=(300, 0, 1, 700)):
    """A source of uneven batches, an empty one among them."""

    def source():
        start, turn = 0, 0
        while start < len(columns[0]):
            size = sizes[turn % len(sizes)]
            yield tuple(column[start : start + size] for column in columns)
            start, turn = start + size, turn + 1

    return source


@pytest.mark.parametrize(
    ("name", "k", "weighted"),
    [
        pytest.param(name, k, weighted, marks=[] if weighted or name in ("ts", "sms") else pytest.mark.slow)
        for name in STREAMING
        for k in (2, 4)
        if calibrant.calibrator_info(name).supports(k)
        for weighted in (False, True)
    ],
)
def test_batches_give_the_fit_of_all_rows(name, k, weighted):
    p, y = confused(3000, k)
    labels = np.array(["ash", "beech", "cedar", "elm"])[y]
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float) if weighted else None
    columns = (p, labels) if weight is None else (p, labels, weight)
    given = STREAMING[name]
    one = get_calibrator(name, **given).fit(p, labels, sample_weight=weight)
    other = get_calibrator(name, **given).fit_batches(in_batches(*columns), memory_mb=LITTLE)
    assert other.classes_.tolist() == one.classes_.tolist()
    np.testing.assert_array_equal(other.class_counts_, one.class_counts_)
    assert other.batches_["rows"] == other.batches_["rows_used"] == (len(y) if weight is None else np.sum(weight > 0))
    assert other.batches_["passes"] >= 3
    assert_same(other, one)
    if not np.isnan(getattr(other, "duality_gap_", np.nan)):
        assert other.duality_gap_ <= given["tol"] * max(1.0, other.objective_)


@pytest.mark.parametrize("penalty", ["ridge", "lasso", "group_lasso"])
@pytest.mark.parametrize("name", ["svs", "sms"])
def test_convex_penalties_reach_the_same_objective_with_a_certificate(name, penalty):
    p, y = confused(2000, 4)
    one = get_calibrator(name, penalty=penalty, tol=1e-11).fit(p, y)
    other = get_calibrator(name, penalty=penalty, tol=1e-11).fit_batches(in_batches(p, y), memory_mb=LITTLE)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-10)
    assert other.duality_gap_ <= 1e-11
    np.testing.assert_allclose(other.predict_proba(p), one.predict_proba(p), atol=1e-5)


def test_the_registry_knows_which_methods_stream():
    for info in list_calibrators():
        if info.extra is None:
            assert info.streams == isinstance(info.make(), RowsCalibrator), info.name
    assert {info.name for info in list_calibrators() if info.streams} == set(STREAMING)


@pytest.mark.parametrize("name", [*sorted(one_per_class(list_calibrators()))])
def test_few_rows_in_batches_are_fitted_as_an_array(name):
    k = 3 if calibrant.calibrator_info(name).multiclass else 2
    p, y = confused(150, k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = get_calibrator(name).fit(p, y)
        other = get_calibrator(name).fit_batches((p, y))
    np.testing.assert_array_equal(other.predict_proba(p), one.predict_proba(p))
    assert other.batches_ == {"rows": 150, "rows_used": 150, "passes": 1}


def test_other_methods_take_a_uniform_sample_that_repeats():
    p, y = confused(5000, 3)
    one, two = (get_calibrator("isotonic").fit_batches(in_batches(p, y), memory_mb=LITTLE) for _ in range(2))
    assert one.batches_["rows"] == 5000
    assert 256 <= one.batches_["rows_used"] < 1000
    assert one.class_counts_.sum() == one.batches_["rows_used"]
    assert f"fitted to {one.batches_['rows_used']} rows (a uniform sample of 5,000)" in one.summary()
    np.testing.assert_array_equal(one.predict_proba(p), two.predict_proba(p))
    three = get_calibrator("isotonic").fit_batches(in_batches(p, y), memory_mb=LITTLE, random_state=1)
    assert not np.array_equal(one.predict_proba(p), three.predict_proba(p))


def test_a_fit_to_an_array_forgets_the_batches_before():
    p, y = confused(5000, 3)
    fitted = get_calibrator("isotonic").fit_batches(in_batches(p, y), memory_mb=LITTLE)
    assert "uniform sample" in fitted.summary()
    assert "uniform sample" not in fitted.fit(p, y).summary()


def test_the_flagship_says_how_many_rows_it_was_fitted_to():
    p, y = confused(3000, 3)
    fitted = get_calibrator("auto-fast").fit_batches(in_batches(p, y), memory_mb=LITTLE)
    assert f"It was fitted to {fitted.batches_['rows_used']} rows (a uniform sample of 3,000)." in fitted.summary()


@pytest.mark.parametrize("name", ["vs", "ms"])
def test_steps_that_are_too_long_are_shortened_before_a_pass_is_spent(name):
    # A class that is hardly ever predicted: its curvature is small where the sample begins, and steps overshoot.
    rng = np.random.default_rng(3)
    z = 3 * rng.standard_normal((4000, 4))
    z[:, 3] -= rng.choice([0, 25], len(z), p=[0.02, 0.98])
    y = (0.4 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    fitted = get_calibrator(name).fit_batches(in_batches(p, y), memory_mb=LITTLE)
    assert fitted.batches_["passes"] <= 9  # twelve where every halving is a pass


def test_every_row_is_in_the_sample_equally_often_whatever_the_batches():
    counts = np.zeros(60)
    for seed in range(400):
        one, other = Reservoir(20, seed), Reservoir(20, seed)
        one.add([np.arange(60)])
        for start in range(0, 60, 7):
            other.add([np.arange(start, min(start + 7, 60))])
        taken = one.take()[0]
        np.testing.assert_array_equal(taken, other.take()[0])
        assert len(set(taken.tolist())) == 20
        counts[taken] += 1
    # Each count is binomial with mean 133 and standard deviation 9.4.
    assert np.abs(counts - 400 / 3).max() < 5 * 9.4


def test_a_large_reservoir_never_outgrows_its_size_by_much():
    reservoir = Reservoir(5000, 0)
    for _ in range(100):
        reservoir.add([np.zeros(1000)])
        assert reservoir._held <= 1.25 * 5000 + 1000
    assert len(reservoir.take()[0]) == 5000


def test_absent_classes_and_batches_of_one_class():
    p, y = confused(2000, 4)
    keep = y != 3
    p, y = p[keep], np.sort(y[keep])  # whole batches of one class, and no row of the last
    one = get_calibrator("svs", classes=[0, 1, 2, 3], **STREAMING["svs"]).fit(p, y)
    other = get_calibrator("svs", classes=[0, 1, 2, 3], **STREAMING["svs"]).fit_batches(
        in_batches(p, y), memory_mb=LITTLE
    )
    assert_same(other, one)


def test_a_column_of_the_second_class_and_logits():
    p, y = confused(2000, 2)
    z = np.log(p[:, 1] / p[:, 0])
    one = get_calibrator("affine", input="logits", **STREAMING["affine"]).fit(z, y)
    other = get_calibrator("affine", input="logits", **STREAMING["affine"]).fit_batches(
        in_batches(z, y), memory_mb=LITTLE
    )
    assert_same(other, one, rtol=1e-7)
    assert other.n_features_in_ == 1


def test_frames_name_the_columns():
    pd = pytest.importorskip("pandas")
    p, y = confused(1500, 3)
    frame = pd.DataFrame(p, columns=["p_c", "p_a", "p_b"])
    labels = np.array(["c", "a", "b"])[y]
    one = get_calibrator("ts").fit(frame, labels)
    other = get_calibrator("ts").fit_batches(in_batches(frame, labels), memory_mb=LITTLE)
    assert other.classes_.tolist() == ["a", "b", "c"]
    assert other.inverse_temperature_ == pytest.approx(one.inverse_temperature_, rel=1e-9)
    np.testing.assert_allclose(other.predict_proba(frame), one.predict_proba(frame), atol=1e-9)


def test_pyarrow_tables_and_datasets(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    dataset = pytest.importorskip("pyarrow.dataset")
    p, y = confused(2000, 3)
    weight = np.random.default_rng(0).integers(1, 3, len(y))
    table = pa.table({"p_0": p[:, 0], "p_1": p[:, 1], "p_2": p[:, 2], "y": y, "w": weight})
    parquet.write_table(table, tmp_path / "part-0.parquet")
    one = get_calibrator("ts").fit(p, y, sample_weight=weight)
    for source in (table, dataset.dataset(tmp_path)):
        other = get_calibrator("ts").fit_batches(source, label="y", sample_weight="w", memory_mb=LITTLE)
        assert other.inverse_temperature_ == pytest.approx(one.inverse_temperature_, rel=1e-9)
        assert other.feature_names_in_.tolist() == ["p_0", "p_1", "p_2"]
    with pytest.raises(ValueError, match=r"Name the column of the labels"):
        get_calibrator("ts").fit_batches(table)


@pytest.mark.parametrize("name", ["ts", "sms", "beta", "isotonic"])
def test_soft_labels_in_batches_are_those_of_arrays(name):
    p, y = confused(900, 3)
    votes = np.random.default_rng(1).integers(0, 3, p.shape) + 2.0 * np.eye(3)[y]
    weight = np.random.default_rng(2).integers(0, 3, 900)
    options = {"classes": ["x", "y", "z"]} | ({"tol": 1e-13} if name == "sms" else {})
    one = get_calibrator(name, **options).fit(p, votes, weight)
    memory = 100.0 if name == "isotonic" else LITTLE
    other = get_calibrator(name, **options).fit_batches(in_batches(p, votes, weight), memory_mb=memory)
    assert other.classes_.tolist() == ["x", "y", "z"]
    np.testing.assert_allclose(other.class_counts_, one.class_counts_)
    np.testing.assert_allclose(other.predict_proba(p), one.predict_proba(p), rtol=1e-6)
    votes[700, 1] = -1
    with pytest.raises(ValueError, match=r"-1 at row 700, column 1"):
        get_calibrator(name).fit_batches(in_batches(p, votes))


def test_batches_of_images_are_places():
    p, y = confused(4 * 7 * 30, 3)
    images, labels = np.moveaxis(p.reshape(30, 4, 7, 3), -1, 1), y.reshape(30, 4, 7).copy()
    labels[:, 0], labels[5:9] = 255, 255  # a batch that is void, and part of all others
    one = get_calibrator("svs", tol=1e-13).fit(images, labels, axis=1, ignore_index=255)
    source = in_batches(images, labels, sizes=(5, 4, 21))
    other = get_calibrator("svs", tol=1e-13).fit_batches(source, axis=1, ignore_index=255, memory_mb=LITTLE)
    assert other.batches_["rows"] == 26 * 3 * 7
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-6)
    found = np.concatenate(list(other.predict_batches(source, axis=1)))
    np.testing.assert_allclose(found, other.predict_proba(images, axis=1))


def test_memory_mapped_arrays(tmp_path):
    p, y = confused(2000, 3)
    np.save(tmp_path / "p.npy", p.astype(np.float32))
    np.save(tmp_path / "y.npy", y)
    pair = tuple(np.load(tmp_path / name, mmap_mode="r") for name in ("p.npy", "y.npy"))
    one = get_calibrator("ts").fit(p.astype(np.float32), y)
    other = get_calibrator("ts").fit_batches(pair, memory_mb=LITTLE)
    assert other.inverse_temperature_ == pytest.approx(one.inverse_temperature_, rel=1e-9)


@pytest.mark.torch
def test_data_loaders():
    torch = pytest.importorskip("torch")
    p, y = confused(2000, 3)
    data = torch.utils.data.TensorDataset(torch.tensor(p), torch.tensor(y))
    one = get_calibrator("ts").fit(p, y)
    other = get_calibrator("ts").fit_batches(torch.utils.data.DataLoader(data, batch_size=300), memory_mb=LITTLE)
    assert other.inverse_temperature_ == pytest.approx(one.inverse_temperature_, rel=1e-9)
    shuffled = torch.utils.data.DataLoader(data, batch_size=300, shuffle=True)
    with pytest.raises(ValueError, match="switch off shuffling"):
        get_calibrator("ts").fit_batches(shuffled, memory_mb=LITTLE)


def fit_with(change, k=3, n=3000, name="ts", **given):
    """Fit to batches of which `change(pass number, batch number, P, y)` makes others."""
    p, y = confused(n, k)
    passes = []

    def source():
        passes.append(None)
        for number, start in enumerate(range(0, n, 500)):
            yield change(len(passes), number, p[start : start + 500].copy(), y[start : start + 500].copy())

    return get_calibrator(name).fit_batches(source, memory_mb=LITTLE, **given)


def test_a_missing_number_is_named_by_its_row_among_all():
    def change(_, number, p, y):
        if number == 4:
            p[123, 1] = np.nan
        return p, y

    with pytest.raises(ValueError, match=r"nan at row 2123, column 1"):
        fit_with(change)


def test_a_batch_with_other_columns_is_named():
    with pytest.raises(ValueError, match=r"have 2 columns.* earlier batches 3\. \(Batch 2, which starts at row 1,000"):
        fit_with(lambda _, number, p, y: (p[:, :2] / p[:, :2].sum(1, keepdims=True), y) if number == 2 else (p, y))


def test_labels_of_another_type_are_named():
    with pytest.raises(ValueError, match=r"labels are str.* earlier batches integers\. \(Batch 3"):
        fit_with(lambda _, number, p, y: (p, y.astype(str)) if number == 3 else (p, y))


def test_a_label_that_no_column_stands_for_is_named():
    def change(_, number, p, y):
        if number == 5:
            y[7] = 9
        return p, y

    place = r"in row 2,507 \(batch 5, which starts at row 2,500\)\."
    with pytest.raises(ValueError, match=rf"last label to appear was 9, {place}"):
        fit_with(change)


def test_a_label_that_only_a_later_pass_shows_is_a_change():
    def change(passes, number, p, y):
        if number == 5 and passes > 1:
            y[7] = 900  # no kernel may look up its column
        return p, y

    with pytest.raises(ValueError, match="differs from the first in batch 5"):
        fit_with(change)


def test_a_missing_label_and_a_negative_weight_are_named_by_their_rows():
    def no_label(_, number, p, y):
        y = y.astype(float)
        y[3] = np.nan if number == 1 else y[3]
        return p, y

    with pytest.raises(ValueError, match="at row 503"):
        fit_with(no_label)
    with pytest.raises(ValueError, match=r"-1\.0 at row 1002"):
        fit_with(lambda _, number, p, y: (p, y, np.where((np.arange(500) == 2) & (number == 2), -1.0, 1.0)))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda turn, number, p, y: (p[::-1], y[::-1]) if (turn, number) == (2, 3) else (p, y), "other numbers"),
        (lambda turn, number, p, y: (p, (y + 1) % 3) if (turn, number) == (2, 3) else (p, y), "other numbers"),
        (lambda turn, number, p, y: (p[:, ::-1], y) if (turn, number) == (2, 3) else (p, y), "other numbers"),
        (lambda turn, number, p, y: (p[:-1], y[:-1]) if (turn, number) == (2, 3) else (p, y), "has 499 rows"),
        (lambda turn, number, p, y: (p[:0], y[:0]) if (turn, number) == (2, 3) else (p, y), "it is missing"),
    ],
)
def test_a_pass_that_differs_from_the_first_is_named(change, found):
    with pytest.raises(ValueError, match=rf"Pass 2 .* batch 3, which starts at row 1,500: .*{found}"):
        fit_with(change)


def test_fewer_and_more_batches_in_the_second_pass_are_named():
    p, y = confused(2000, 3)
    for first, later in ((4, 3), (3, 4)):
        turns = []

        def source(first=first, later=later, turns=turns):
            turns.append(None)
            for start in range(0, 500 * (first if len(turns) == 1 else later), 500):
                yield p[start : start + 500], y[start : start + 500]

        with pytest.raises(ValueError, match=r"Pass 2 .* batch 3"):
            get_calibrator("ts").fit_batches(source, memory_mb=0.01)


def test_temporary_files_are_removed_when_a_later_pass_fails(tmp_path):
    def change(turn, number, p, y):
        if turn == 4 and number == 3:
            raise OSError("the disk is gone")
        return p, y

    with pytest.raises(OSError, match="disk is gone"):
        fit_with(change, k=50, n=3000, name="sms", folder=tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("rows.parquet", r"open_batches\('rows.parquet'"),
        (iter([]), "read only once"),
        (lambda: iter([]), "no rows"),
        (lambda: [1, 2], "Batch 0 is of type int"),
        (lambda: iter([(np.ones((2, 2)),)]), "a tuple of 1"),
        (7, "function that returns an iterator"),
    ],
)
def test_what_is_no_source_is_refused(source, message):
    with pytest.raises((TypeError, ValueError), match=message):
        get_calibrator("ts").fit_batches(source)


def test_one_against_one_names_what_can_be_done():
    p, y = confused(2000, 3)
    with pytest.raises(ValueError, match="multiclass='ovr'"):
        get_calibrator("beta", multiclass="ovo").fit_batches(in_batches(p, y), memory_mb=LITTLE)


def test_rows_of_one_label_warn():
    p, y = confused(1000, 3)
    with pytest.warns(CalibrationWarning, match="All 1000 calibration rows have the label 1"):
        get_calibrator("ts", classes=[0, 1, 2]).fit_batches(in_batches(p, np.ones_like(y)), memory_mb=LITTLE)


def test_weights_that_are_zero_everywhere_are_refused():
    p, y = confused(1000, 3)
    with pytest.raises(ValueError, match="weights are zero"):
        get_calibrator("ts").fit_batches(in_batches(p, y, np.zeros(len(y))))


def test_predictions_come_batch_by_batch():
    p, y = confused(1000, 3)
    fitted = get_calibrator("sms").fit(p, y)
    given = [p[start : start + 300] for start in range(0, 1000, 300)]
    for source in (given, lambda: iter(given), lambda: ((part, None) for part in given)):
        parts = fitted.predict_batches(source)
        np.testing.assert_array_equal(np.concatenate(list(parts)), fitted.predict_proba(p))
    with pytest.raises(NotFittedError):
        get_calibrator("sms").predict_batches(given)


def test_a_fit_to_batches_is_stored_like_any_other(tmp_path):
    p, y = confused(1000, 3)
    fitted = get_calibrator("sms").fit_batches(in_batches(p, y), memory_mb=LITTLE)
    calibrant.save(fitted, tmp_path / "sms.json")
    np.testing.assert_array_equal(calibrant.load(tmp_path / "sms.json").predict_proba(p), fitted.predict_proba(p))


def test_twenty_batches_of_a_rare_class_end_near_its_frequency():
    """Three rows of a class in 20,000, none of them in the sample: vector scaling has to find it in the passes."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([5.0, 5.0, 0.01], size=20_000)
    y = draw_labels(p, rng)
    y[y == 2] = 0
    y[[5, 9000, 19_000]] = 2
    fitted = get_calibrator("vs").fit_batches(in_batches(p, y, sizes=(1000,)), memory_mb=LITTLE)
    whole = get_calibrator("vs").fit(p, y)
    assert fitted.objective_ == pytest.approx(whole.objective_, abs=1e-6)
    assert fitted.predict_proba(p)[:, 2].mean() == pytest.approx(3 / 20_000, rel=0.01)
