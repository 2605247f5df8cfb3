"""Corrections by segment against an independent optimiser, invariances, and what cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax
from sklearn.exceptions import NotFittedError

import calibrant
from calibrant import CalibrationWarning, SegmentedCalibrator, get_calibrator
from calibrant.deployment import AdaptedCalibrator, ChainedCalibrator
from calibrant.deployment.segments.columns import cell_steps, level_name
from calibrant.deployment.segments.segment_correction import fit_correction, kept_share
from calibrant.metrics import log_loss
from calibrant.sample import Sample
from calibrant.softmax.rows.levels import LevelProblem
from calibrant.steps import run

TS = get_calibrator("ts")


def drawn(p: Any, rng: np.random.Generator) -> Any:
    return (p.cumsum(axis=1)[:, :-1] < rng.random((len(p), 1))).sum(axis=1)


def predictions(n: int, k: int, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(k), size=n)
    frame = {"region": rng.choice(["north", "south", "west"], n), "age": rng.integers(18, 80, n)}
    return p, drawn(p, rng), frame, rng


def shifted(n: int, k: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """The last class is three times as likely in the west."""
    p, _, frame, rng = predictions(n, k, seed)
    truth = p.copy()
    truth[frame["region"] == "west", -1] *= 3.0
    return p, drawn(truth / truth.sum(axis=1, keepdims=True), rng), frame


@pytest.mark.parametrize("k", [2, 3])
def test_solution_is_that_of_another_optimiser(k: int) -> None:
    p, y, _frame, rng = predictions(60, k)
    z, places = np.log(p), rng.integers(-1, 4, (60, 2))
    weight, strength = rng.random(60) + 0.5, 2.0
    member = np.stack([(places == level).sum(axis=1) for level in range(4)], axis=1)

    def objective(flat: Any) -> float:
        b, s = flat.reshape(2, 4, k)
        logits = z + member @ b + (member @ s) * z
        losses = -log_softmax(logits, axis=1)[np.arange(len(y)), y]
        return float(weight @ losses / weight.sum() + strength / weight.sum() * (flat @ flat))

    found = fit_correction(Sample(z, y, weight, logs=True), places, strength, np.zeros((k, 8)), 1e-12)
    flat = np.concatenate([found.theta[:, :4].T, found.theta[:, 4:].T]).ravel()
    assert found.objective == pytest.approx(objective(flat), rel=1e-10)
    assert np.abs(approx_fprime(flat, objective)).max() < 1e-6
    assert minimize(objective, np.zeros(8 * k), method="BFGS", tol=1e-5).fun == pytest.approx(found.objective, abs=1e-7)


def test_intercepts_alone_solve_their_equation() -> None:
    # At even predictions slopes act as intercepts: with b + s log(1/2) = c the logit moves by c, and the gradient of
    # the penalty says s = b log(1/2). One equation is left, for the difference of the two classes.
    n, m, strength = 400, 300, 5.0
    z, y = np.full((n, 2), np.log(0.5)), (np.arange(n) < m).astype(np.int64)
    sample, places = Sample(z, y, logs=True), np.zeros((n, 1), dtype=np.int64)
    found = fit_correction(sample, places, strength, np.zeros((2, 2)), 1e-14)
    b = found.theta[1, 0]
    np.testing.assert_allclose(found.theta[:, 1], found.theta[:, 0] * np.log(0.5), rtol=1e-5)
    np.testing.assert_allclose(found.theta[0], -found.theta[1], rtol=1e-5)
    rate = 1.0 / (1.0 + np.exp(-2.0 * b * (1.0 + np.log(0.5) ** 2)))
    assert m - n * rate == pytest.approx(2.0 * strength * b, abs=1e-4)


def test_derivatives_are_those_of_dense_features() -> None:
    p, y, _, rng = predictions(60, 3)
    places = rng.integers(-1, 3, (60, 2))
    problem, theta = LevelProblem(y, np.log(p), places, 3), rng.normal(size=(3, 6))
    direction = rng.normal(size=(3, 6))
    near = [problem.at(theta + sign * 1e-5 * direction).gradient() for sign in (1, -1)]
    np.testing.assert_allclose(
        problem.at(theta).hessian_vector_product(direction), (near[0] - near[1]) / 2e-5, atol=1e-8
    )
    one_hot = np.stack([(places == level).sum(axis=1) for level in range(3)])
    np.testing.assert_allclose(problem.second_moments[0, :3], one_hot.mean(axis=1))


@pytest.mark.parametrize("k", [2, 4])
def test_one_level_or_enormous_strength_is_the_global_map(k: int) -> None:
    p, y, frame = shifted(600, k)
    expected = TS.fit(p, y).predict_proba(p)
    same = {"region": ["all"] * 600}
    np.testing.assert_array_equal(
        SegmentedCalibrator(TS).fit(p, y, segments=same).predict_proba(p, segments=same), expected
    )
    strong = SegmentedCalibrator(TS, strength=1e12, trees=False).fit(p, y, segments=frame)
    np.testing.assert_allclose(strong.predict_proba(p, segments=frame), expected, atol=1e-8)


@pytest.mark.parametrize(
    ("k", "crossed"),
    [(2, True), (4, False), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((2, False), (4, True)))],
)
def test_finds_a_shift_of_one_segment(k: int, crossed: bool) -> None:
    p, y, frame = shifted(2000, k)
    calibrator = SegmentedCalibrator(TS, crossed=crossed).fit(p, y, segments=frame)
    q, t, other = shifted(4000, k, seed=1)
    before = log_loss(t, calibrator.calibrator_.predict_proba(q))
    truth = q.copy()
    truth[other["region"] == "west", -1] *= 3.0
    best = log_loss(t, truth / truth.sum(axis=1, keepdims=True))
    after = log_loss(t, calibrator.predict_proba(q, segments=other))
    assert after - best < 0.35 * (before - best)
    assert calibrator.gain_ > 2.0 * calibrator.gain_error_
    assert calibrator.duality_gap_ < 1e-8
    assert "region = west" in calibrator.summary()


@pytest.mark.parametrize("k", [2, 5])
def test_harm_is_small_where_segments_do_not_matter(k: int) -> None:
    harm = []
    for seed in range(3):
        p, y, frame, _ = predictions(500, k, seed)
        q, t, other, _ = predictions(4000, k, seed + 100)
        calibrator = SegmentedCalibrator(TS).fit(p, y, segments=frame)
        harm.append(
            log_loss(t, calibrator.predict_proba(q, segments=other))
            - log_loss(t, calibrator.calibrator_.predict_proba(q))
        )
    assert np.mean(harm) < 0.001
    assert max(harm) < 0.003


@pytest.mark.parametrize("k", [2, 12])
def test_trees_find_what_levels_cannot(k: int) -> None:
    """The last class is more likely for the old in the west and the young elsewhere: no column alone tells."""

    def mixed(seed: int) -> tuple[Any, Any, Any, Any]:
        p, _, frame, rng = predictions(1500, k, seed)
        truth = p.copy()
        truth[(frame["region"] == "west") == (frame["age"] > 50), -1] *= 10.0
        truth /= truth.sum(axis=1, keepdims=True)
        return p, drawn(truth, rng), frame, truth

    p, y, frame, _ = mixed(0)
    q, t, other, truth = mixed(1)
    best = log_loss(t, truth)
    lost = {}
    for trees in (False, True):
        calibrator = SegmentedCalibrator(TS, trees=trees).fit(p, y, segments=frame)
        lost[trees] = log_loss(t, calibrator.predict_proba(q, segments=other)) - best
    assert lost[True] < 0.7 * lost[False]
    # A row whose region is unknown, or whose age is missing, is still calibrated.
    other["region"][:10], ages = "east", other["age"].astype(float)
    np.testing.assert_allclose(
        calibrator.predict_proba(q[:10], segments={name: column[:10] for name, column in other.items()}),
        calibrator.calibrator_.predict_proba(q[:10]),
        rtol=1e-13,
    )
    ages[10:20] = np.nan
    assert np.isfinite(calibrator.predict_proba(q, segments={**other, "age": ages})).all()


def test_trees_are_those_of_their_questions(tmp_path: Any) -> None:
    """Predictions are the global map's logits plus intercepts, slopes and the steps of each tree, read one by one."""
    p, y, frame = shifted(600, 3)
    calibrator = SegmentedCalibrator(TS, strength=3.0).fit(p, y, segments={**frame, "age": frame["age"] + 0.5})
    calibrator.fit(p, np.where(frame["age"] > 40, y, 2 - y), segments=frame)
    assert len(calibrator.tree_features_)
    z = np.log(calibrator.calibrator_.predict_proba(p))
    regions = ["north", "south", "west"]
    place = np.array([regions.index(region) for region in frame["region"]])
    logits = z + calibrator.intercept_[place] + calibrator.slope_[place] * z
    asked = np.column_stack([z, place == 0, place == 1, place == 2, frame["age"]])
    for features, thresholds, values in zip(
        calibrator.tree_features_, calibrator.tree_thresholds_, calibrator.tree_values_
    ):
        leaf = ((asked[:, features] > thresholds) << np.arange(len(features))).sum(axis=1)
        logits += values[leaf]
    np.testing.assert_allclose(
        np.log(calibrator.predict_proba(p, segments=frame)), log_softmax(logits, axis=1), atol=1e-9
    )
    calibrant.save(calibrator, tmp_path / "cal.json")
    np.testing.assert_array_equal(
        calibrant.load(tmp_path / "cal.json").predict_proba(p, segments=frame),
        calibrator.predict_proba(p, segments=frame),
    )
    calibrator.tree_features_ = calibrator.tree_features_ + 4
    with pytest.raises(ValueError, match="tree_features_ holds numbers outside"):
        calibrator.check_state()


def test_new_levels_and_missing_values_go_where_they_should() -> None:
    p, y, frame = shifted(3000, 3)
    calibrator = SegmentedCalibrator(TS, strength=3.0).fit(p, y, segments={"region": frame["region"]})
    with pytest.warns(CalibrationWarning, match=r"None of 50 rows has a known level of 'region'.*'east'"):
        unknown = calibrator.predict_proba(p[:50], segments={"region": ["east"] * 50})
    np.testing.assert_allclose(unknown, calibrator.calibrator_.predict_proba(p[:50]), rtol=1e-13)
    holes = pd.DataFrame({"region": np.where(frame["region"] == "west", None, frame["region"])})
    again = SegmentedCalibrator(TS, strength=3.0).fit(p, y, segments=holes)
    np.testing.assert_allclose(
        again.predict_proba(p, segments=holes),
        calibrator.predict_proba(p, segments={"region": frame["region"]}),
        atol=1e-5,
    )


def test_weights_are_counts_and_columns_are_found_by_name() -> None:
    p, y, frame = shifted(500, 2)
    weight = np.arange(500) % 3
    twice = np.repeat(np.arange(500), weight)
    table = pd.DataFrame(frame)
    options: dict[str, Any] = {"strength": 3.0, "n_folds": 2}
    weighted = SegmentedCalibrator(get_calibrator("none"), **options).fit(p, y, weight, segments=table[["region"]])
    repeated = SegmentedCalibrator(get_calibrator("none"), **options).fit(
        p[twice], y[twice], segments=table[["region"]].iloc[twice]
    )
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-4)
    both = SegmentedCalibrator(TS, strength=3.0).fit(p, y, segments=table)
    np.testing.assert_array_equal(
        both.predict_proba(p, segments=table), both.predict_proba(p, segments=table[["age", "region"]])
    )
    single = both.predict_proba(p[:, 1].astype(np.float32), segments=table)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, both.predict_proba(p, segments=table), atol=1e-5)


@pytest.mark.parametrize("crossed", [False, True])
def test_stores_and_returns(crossed: bool, tmp_path: Any) -> None:
    p, y, frame = shifted(400, 3)
    calibrator = SegmentedCalibrator(TS, crossed=crossed, n_folds=2).fit(
        p, np.array(["a", "b", "c"])[y], segments=frame
    )
    calibrant.save(calibrator, tmp_path / "cal.json")
    again = calibrant.load(tmp_path / "cal.json")
    assert again.summary() == calibrator.summary()
    np.testing.assert_array_equal(again.predict_proba(p, segments=frame), calibrator.predict_proba(p, segments=frame))
    again.intercept_ = again.intercept_[1:]
    with pytest.raises(ValueError, match="intercept_ has shape"):
        again.check_state()


def test_errors_say_what_to_do(small: Any) -> None:
    p, y, frame, calibrator = small
    with pytest.raises(ValueError, match="needs segments="):
        SegmentedCalibrator(TS).fit(p, y)
    with pytest.raises(ValueError, match="needs segments="):
        calibrator.predict_proba(p)
    with pytest.raises(ValueError, match=r"'region' of segments has shape \(200,\), expected \(10,\)"):
        calibrator.predict_proba(p[:10], segments=frame)
    with pytest.raises(ValueError, match="lacks the column 'age'"):
        calibrator.predict_proba(p, segments={"region": frame["region"]})
    with pytest.raises(ValueError, match="several columns called '1'"):
        SegmentedCalibrator(TS).fit(p, y, segments={1: frame["age"], "1": frame["region"]})
    with pytest.raises(ValueError, match="several columns called 'r'"):
        SegmentedCalibrator(TS).fit(p, y, segments=pd.DataFrame([["a", "b"]] * 200, columns=["r", "r"]))
    with pytest.raises(ValueError, match="no columns"):
        SegmentedCalibrator(TS).fit(p, y, segments={})
    with pytest.raises(ValueError, match="'age' of segments held numbers in fit"):
        calibrator.predict_proba(p, segments={**frame, "age": ["old"] * 200})


def test_texts_of_numpy_and_of_python_are_the_same_levels() -> None:
    """NumPy's texts lose zero characters at their end: where they do not, the level is the same one."""
    p, y, frame = shifted(300, 2)
    ends = np.where(np.arange(300) % 2, "a", "b\0").astype(object)  # objects keep what texts of NumPy lose
    objects = {"tier": np.where(np.arange(300) % 3, "x", "\0").astype(object), "code": ends, **frame}
    calibrator = SegmentedCalibrator(TS, crossed=True, strength=1.0).fit(p, y, segments=objects)
    assert {name: calibrator.segment_columns_[name].tolist() for name in ("tier", "code")} == {
        "tier": ["", "x"],
        "code": ["a", "b"],
    }
    assert calibrator.cells_.min() == 0  # each row of the fit has its levels
    plain = {**frame, "tier": np.where(np.arange(300) % 3, "x", ""), "code": np.where(np.arange(300) % 2, "a", "b")}
    np.testing.assert_array_equal(
        calibrator.predict_proba(p, segments=objects), calibrator.predict_proba(p, segments=plain)
    )


@pytest.fixture(scope="module")
def small() -> tuple[Any, Any, Any, SegmentedCalibrator]:
    """Rows of two classes with their segments, and a calibrator fitted to them."""
    p, y, frame = shifted(200, 2)
    return p, y, frame, SegmentedCalibrator(TS).fit(p, y, segments=frame)


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba", "predict"])
def test_every_kind_of_prediction_says_what_is_missing_or_too_much(small: Any, method: str) -> None:
    p, y, frame, segmented = small
    for unfitted in (SegmentedCalibrator(TS), AdaptedCalibrator(TS), ChainedCalibrator(TS, TS)):
        with pytest.raises(NotFittedError):
            getattr(unfitted, method)(p)
    without = AdaptedCalibrator(TS, [0.9, 0.1]).fit(p, y)
    with pytest.raises(ValueError, match="was fitted without segments: leave segments= out"):
        getattr(without, method)(p, segments=frame)
    with pytest.raises(ValueError, match="needs segments="):
        getattr(segmented, method)(p)
    with pytest.raises(ValueError, match="axis= is for predictions without segments"):
        getattr(segmented, method)(p, axis=1, segments=frame)


def test_bins_of_numbers_are_those_of_repeated_rows() -> None:
    p, y, frame = shifted(60, 2)
    rng = np.random.default_rng(3)
    weight = rng.integers(1, 9, 60)
    rows = np.repeat(np.arange(60), weight)
    segmented = SegmentedCalibrator(get_calibrator("none"), strength=1.0, trees=False)
    weighted = segmented.fit(p, y, weight, segments=frame).predict_proba(p, segments=frame)
    edges = segmented.segment_columns_["age"]
    repeated = segmented.fit(p[rows], y[rows], segments={name: column[rows] for name, column in frame.items()})
    np.testing.assert_allclose(edges, repeated.segment_columns_["age"], rtol=1e-12)
    np.testing.assert_allclose(weighted, repeated.predict_proba(p, segments=frame), atol=1e-3)


@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_few_copies_of_one_row_leave_the_global_map(n: int) -> None:
    frame = {"region": np.arange(n) % 3}
    calibrator = SegmentedCalibrator(TS, n_folds=2, classes=[0, 1])
    calibrator.fit(np.full((n, 2), 0.5), np.arange(n) % 2, segments=frame)
    assert not calibrator.intercept_.any()
    assert "too few rows" in calibrator.summary()


def test_levels_cells_and_shares_by_hand() -> None:
    assert level_name("age", np.array([20.0, 30.0]), 1) == "age from 20 to 30"
    assert [level_name("age", np.array([20.0, 30.0]), code) for code in (0, 2, 3)] == [
        "age below 20",
        "age from 30",
        "age missing",
    ]
    assert level_name("region", np.array(["", "north"]), 1) == "region = north"
    assert level_name("region", np.array(["", "north"]), 0) == "region missing"
    columns = {"region": np.array(["north", "south"]), "age": np.array([30.0])}
    rows = np.array([[0.0, 20.0], [1.0, 40.0], [1.0, 20.0], [-1.0, 20.0]])
    assert run(cell_steps(columns, np.array([[0, 0], [1, 1]]), 0), rows).ravel().tolist() == [0.0, 1.0, -1.0, -1.0]
    assert [kept_share(gain, 0.01) for gain in (0.02, 0.01, -0.1)] == [0.5, 0.0, 0.0]


def test_numbers_alone_are_corrected_by_trees() -> None:
    p, _, frame, rng = predictions(800, 2)
    truth = p.copy()
    truth[frame["age"] > 50, 1] *= 8.0
    y = drawn(truth / truth.sum(axis=1, keepdims=True), rng)
    ages = {"age": frame["age"]}
    calibrator = SegmentedCalibrator(TS).fit(p, y, segments=ages)
    assert len(calibrator.tree_features_)
    assert not calibrator.intercept_.any()
    old = calibrator.predict_proba([0.5, 0.5], segments={"age": [30, 70]})[:, 1]
    assert old[1] > old[0] + 0.2
    with pytest.raises(ValueError, match="has no intervals: it corrects another calibrator"):
        calibrator.fit_intervals(p, y)
