"""Bin-free reliability: CORP curves with their parts and bands, kernel-smoothed curves, calibration belts."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.special import erfinv, expit, logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from calibrant.metrics import (
    ReliabilityCurve,
    Running,
    calibration_belt,
    classwise_corp_curves,
    corp_curve,
    reliability_table,
    smooth_curve,
    smooth_ece,
)
from calibrant.metrics.belt import fit_polynomial
from calibrant.metrics.corp import BAND_SCORES
from calibrant.metrics.slope import RIDGE
from tests.needs import needs
from tests.samples import draw_labels

Data = tuple[np.ndarray, np.ndarray]


def drawn(n: int, power: float = 1.0, seed: int = 0, decimals: int = 12) -> Data:
    """Scores, and outcomes that occur with the probability `score**power`."""
    rng = np.random.default_rng(seed)
    score = rng.beta(0.8, 1.2, n).round(decimals)
    return (rng.random(n) < score**power).astype(int), score


def test_corp_curve_is_isotonic_regression() -> None:
    y, s = drawn(400, 1.5, decimals=2)
    curve = corp_curve(y, s, n_resamples=0)
    peer = IsotonicRegression(increasing=True).fit(s, y)
    for ends in (curve.lower, curve.upper):
        np.testing.assert_allclose(peer.predict(ends), curve.frequency, atol=1e-12)
    assert (np.diff(curve.frequency) > 0).all()
    assert curve.weight.sum() == len(y)
    # Within a step predictions may differ, but the frequency is that of its rows.
    for lower, upper, frequency in zip(curve.lower, curve.upper, curve.frequency):
        assert y[(s >= lower) & (s <= upper)].mean() == pytest.approx(frequency)


def test_parts_in_closed_form() -> None:
    # Two scores, each with its own frequency: the fit is the frequencies themselves.
    y = np.repeat([0, 1, 0, 1], [8, 2, 3, 7])
    s = np.repeat([0.1, 0.6], 10)
    parts = corp_curve(y, s, n_resamples=0).parts["brier"]
    miscalibration = ((0.1 - 0.2) ** 2 + (0.6 - 0.7) ** 2) / 2
    discrimination = ((0.2 - 0.45) ** 2 + (0.7 - 0.45) ** 2) / 2
    assert parts.miscalibration == pytest.approx(miscalibration)
    assert parts.discrimination == pytest.approx(discrimination)
    assert parts.uncertainty == pytest.approx(0.45 * 0.55)
    assert parts.score == pytest.approx(miscalibration - discrimination + 0.45 * 0.55)
    entropy = corp_curve(y, s, n_resamples=0).parts["log_loss"]
    relative = np.mean([0.2 * np.log(0.2 / 0.1) + 0.8 * np.log(0.8 / 0.9), 0.7 * np.log(7 / 6) + 0.3 * np.log(3 / 4)])
    assert entropy.miscalibration == pytest.approx(relative)


@pytest.mark.peer
@pytest.mark.parametrize("weighted", [False, True])
def test_parts_are_those_of_model_diagnostics(weighted: bool) -> None:
    scoring = needs("model_diagnostics.scoring")
    y, s = drawn(700, 1.7, decimals=3)
    s = np.clip(s, 0.001, 0.999)
    w = np.random.default_rng(1).integers(1, 4, len(y)).astype(float) if weighted else None
    curve = corp_curve(y, s, sample_weight=w, n_resamples=0)
    for ours, function in (
        (curve.parts["brier"], scoring.SquaredError()),
        (curve.parts["log_loss"], scoring.LogLoss()),
    ):
        theirs = scoring.decompose(y_obs=y.astype(float), y_pred=s, weights=w, scoring_function=function)
        for name, value in ours._asdict().items():
            assert value == pytest.approx(float(theirs[name][0]), abs=1e-9), name


@pytest.mark.parametrize("maker", [reliability_table, corp_curve, smooth_curve, calibration_belt])
def test_one_class_whichever_way_it_was_made(maker: Any) -> None:
    y, s = drawn(300, 1.5)
    curve = pickle.loads(pickle.dumps(maker(y, s)))
    assert type(curve) is ReliabilityCurve
    assert {len(column) for column in curve.to_dict().values()} == {len(curve)}
    assert len(curve.at) == len(curve.low) == len(curve.high)
    assert np.all((curve.lower <= curve.score) & (curve.score <= curve.upper))
    assert np.all(np.diff(curve.score) > 0)
    assert curve.histogram.sum() == len(y)
    if maker is not smooth_curve:  # rows under a kernel are counted for several points
        assert curve.weight.sum() == pytest.approx(len(y))
    assert (curve.test is not None, bool(curve.parts)) == (maker is calibration_belt, maker is corp_curve)
    assert 0 < curve.error < 0.3


def test_weights_equal_repetition() -> None:
    y, s = drawn(150, decimals=2)
    w = np.random.default_rng(3).integers(0, 4, len(y))
    one, two = corp_curve(y, s, sample_weight=w), corp_curve(np.repeat(y, w), np.repeat(s, w))
    for name in ("lower", "upper", "frequency", "weight", "at", "low", "high", "histogram"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), atol=1e-12)
    one, two = smooth_curve(y, s, sample_weight=w), smooth_curve(np.repeat(y, w), np.repeat(s, w))
    np.testing.assert_allclose(one.high, two.high, atol=1e-9)
    one, two = calibration_belt(y, s, sample_weight=w), calibration_belt(np.repeat(y, w), np.repeat(s, w))
    np.testing.assert_allclose(one.high, two.high, atol=1e-6)


def test_consistency_band_holds_calibrated_curves() -> None:
    inside = []
    for seed in range(20):
        y, s = drawn(200, seed=seed)
        curve = corp_curve(y, s, level=0.9, n_resamples=60, random_state=seed)
        value = np.interp(curve.at, *curve.corners())
        inside.append(np.mean((value >= curve.low - 1e-12) & (value <= curve.high + 1e-12)))
    assert 0.82 < np.mean(inside) < 0.97


def test_confidence_band_goes_with_the_curve() -> None:
    y, s = drawn(3000, 3.0)
    around, along = (corp_curve(y, s, band=band) for band in ("consistency", "confidence"))
    value = np.interp(along.at, *along.corners())
    middle = (along.at > 0.2) & (along.at < 0.8)
    assert ((along.low <= value + 1e-12) & (value <= along.high + 1e-12))[middle].mean() > 0.9
    assert np.mean((around.low[middle] < around.at[middle]) & (around.at[middle] < around.high[middle])) > 0.95
    assert (value < around.low)[middle].all()


def test_many_scores_are_merged_for_the_band_only() -> None:
    y, s = drawn(3 * BAND_SCORES)
    few, all_of_them = corp_curve(y, s, n_resamples=100), corp_curve(y, s.round(3), n_resamples=100)
    assert few.weight.sum() == len(y)
    assert np.abs(np.interp(few.at, all_of_them.at, all_of_them.high) - few.high).mean() < 0.01


def test_one_curve_for_each_class_and_the_predicted_one() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 300)
    y = np.array(["x", "y", "z"])[draw_labels(p, rng)]
    curves = classwise_corp_curves(y, p, n_resamples=9)
    assert list(curves) == ["x", "y", "z"]
    binary = corp_curve((y == "y").astype(int), p[:, 1], n_resamples=9)
    np.testing.assert_allclose(curves["y"].frequency, binary.frequency)
    assert curves["y"].parts["brier"] == pytest.approx(binary.parts["brier"])
    assert (binary.kind, curves["y"].kind, corp_curve(y, p).kind) == ("binary", "class-wise", "top-label")
    with pytest.raises(ValueError, match="diagram per class"):
        corp_curve(y, p, kind="class-wise")
    with pytest.raises(ValueError, match="band must be"):
        corp_curve(y, p, band="wide")


def test_one_outcome_and_one_score() -> None:
    for y, s in (([1, 1, 1], [0.2, 0.5, 0.9]), ([0, 1], [0.5, 0.5]), ([1], [1.0])):
        curve = corp_curve(y, s, classes=[0, 1])
        assert curve.frequency.tolist() == [np.mean(y)]
        assert curve.parts["brier"].uncertainty == pytest.approx(np.mean(y) * (1 - np.mean(y)))
        for table in (smooth_curve(y, s, classes=[0, 1]), calibration_belt(y, s, classes=[0, 1])):
            assert np.isfinite(table.frequency).all()
            assert (table.low <= table.high).all()


def test_smooth_curve_by_its_definition() -> None:
    y, s = drawn(200, 2.0)
    curve = smooth_curve(y, s)
    assert curve.error == pytest.approx(smooth_ece(y, s))
    sigma = curve.bandwidth
    images = [sign * s + 2 * shift for shift in range(-4, 5) for sign in (1, -1)]
    for place in range(0, len(curve.score), 20):
        t = curve.score[place]
        kernel = sum(np.exp(-0.5 * ((t - image) / sigma) ** 2) for image in images)
        expected = t + kernel @ (y - s) / kernel.sum()
        assert curve.frequency[place] == pytest.approx(np.clip(expected, 0, 1), abs=2e-4)


def kernel_of(t: np.ndarray, s: np.ndarray, width: float) -> np.ndarray:
    """A Gaussian of height one about each place and its images behind 0 and 1."""
    images = np.array([sign * s + 2 * shift for shift in range(-3, 4) for sign in (1, -1)])
    return np.exp(-0.5 * ((t[:, None, None] - images) / width) ** 2).sum(axis=1)


@pytest.mark.parametrize("grouped", [False, True])
def test_smooth_curve_and_its_interval_by_definition_with_counts(grouped: bool) -> None:
    rng = np.random.default_rng(2)
    s, each = np.append(rng.uniform(0.3, 0.9, 58), [1.0, 1.0]), rng.integers(1, 4, 60).astype(float)
    y, groups = (rng.random(60) < s**2).astype(int), np.arange(60) // 4 if grouped else np.arange(60)
    curve = smooth_curve(y, s, sample_weight=each, groups=groups if grouped else None, level=0.8)
    sizes = np.bincount(groups, each)
    units = each.sum() ** 2 / (sizes @ sizes) if grouped else each.sum()
    deviation = np.sqrt(np.cov(s, aweights=each, ddof=0))
    assert curve.bandwidth == pytest.approx(max(curve.error, 1.06 * deviation * units**-0.2))
    places = np.arange(201) / 200
    rows = kernel_of(places, s, curve.bandwidth) @ each
    shown = (rows >= each.sum() / 10) & (places >= s.min() - curve.bandwidth / 2)
    np.testing.assert_allclose(curve.score, places[shown])
    np.testing.assert_allclose(curve.weight, rows[shown], rtol=2e-3)
    kernel = kernel_of(curve.score, s, curve.bandwidth)
    frequency = curve.score + kernel @ (each * (y - s)) / (kernel @ each)
    np.testing.assert_allclose(curve.frequency, np.clip(frequency, 0, 1), atol=1e-3)
    residual = y - np.interp(s, curve.score, frequency)
    if grouped:
        sums = kernel @ (np.eye(15)[groups] * (each * residual)[:, None])
        variance = (sums**2).sum(axis=1) * 15 / 14
    else:
        variance = kernel**2 @ (each * residual**2)
    half = 1.281552 * np.sqrt(variance) / (kernel @ each)
    np.testing.assert_allclose(curve.high, np.clip(frequency + half, 0, 1), atol=4e-3)
    np.testing.assert_allclose(curve.low, np.clip(frequency - half, 0, 1), atol=4e-3)
    assert (curve.kind, curve.label, curve.around) == ("binary", 1, "curve")


def test_the_smooth_curve_ends_where_fewer_than_twenty_rows_are_near() -> None:
    s = 0.5 + 0.1 * np.sqrt(2) * erfinv(2 * (np.arange(300) + 0.5) / 300 - 1)
    curve, places = smooth_curve(np.arange(300) % 2, s), np.arange(201) / 200
    rows = kernel_of(places, s, curve.bandwidth).sum(axis=1)
    assert rows[places >= s.min()][0] < 15
    np.testing.assert_allclose(curve.score, places[rows >= 20])


def test_the_smooth_curve_of_one_score_has_two_ends() -> None:
    curve = smooth_curve([0, 1] * 20, [0.5] * 40)
    assert curve.score.tolist() == [0.5, 0.5]
    assert curve.bandwidth == 1e-3
    assert smooth_curve([0, 1] * 20, [0.503] * 40).score.tolist() == [0.503, 0.503]


@pytest.mark.peer
def test_smooth_curve_is_that_of_relplot() -> None:
    diagrams, metrics = needs("relplot.diagrams"), needs("relplot.metrics")
    y, s = drawn(2000, 1.6)
    error, sigma = metrics.smECE_fast(s, y, return_width=True)
    smoother = diagrams.KernelSmoother(diagrams.ReflectedGaussianKernel(sigma))
    mesh, mu = diagrams.reliability_diagram(s, y, smoother, centered_fit=True)
    curve = smooth_curve(y, s)
    assert curve.error == pytest.approx(error, abs=2e-3)
    at = np.linspace(0.05, 0.95, 30)
    difference = np.interp(at, curve.score, curve.frequency) - np.interp(at, mesh, np.clip(mu, 0, 1))
    assert np.abs(difference).max() < 2e-3


def test_belt_of_degree_one_is_logistic_regression() -> None:
    y, s = drawn(1500)
    s = expit(1.7 * logit(np.clip(s, 0.01, 0.99)) + 0.3)
    belt = calibration_belt(y, s)
    if belt.degree == 1:
        slope = np.diff(logit(belt.frequency)) / np.diff(logit(belt.score))
        np.testing.assert_allclose(slope, slope[0], rtol=1e-6)
    # The score equations: mean and covariance with the log-odds are those of the outcomes.
    fitted = np.interp(s, belt.score, belt.frequency)
    assert (fitted - y).mean() == pytest.approx(0, abs=1e-3)
    assert ((fitted - y) * logit(np.clip(s, 1e-4, 1 - 1e-4))).mean() == pytest.approx(0, abs=5e-3)


@pytest.mark.usefixtures("few_draws")
def test_belt_as_a_whole_holds_the_truth() -> None:
    held = 0
    for seed in range(60):
        y, s = drawn(500, seed=seed)
        belt = calibration_belt(y, s, level=0.9)
        kept = belt.score > 1e-4
        held += bool(((belt.low <= belt.score) & (belt.score <= belt.high))[kept].all())
    assert held >= 46  # of 54 expected: the degree is chosen on the same rows, and draws vary


def test_copies_in_one_group_are_one_observation() -> None:
    rng = np.random.default_rng(3)
    p = rng.random(300)
    y = (rng.random(300) < p).astype(int)
    many, groups = (np.repeat(y, 5), np.repeat(p, 5)), np.repeat(np.arange(300), 5)
    alone, copied = reliability_table(y, p), reliability_table(*many, groups=groups)
    np.testing.assert_allclose([copied.low, copied.high], [alone.low, alone.high], atol=1e-12)
    first, second = smooth_curve(y, p), smooth_curve(*many, groups=groups)
    for end in ("low", "high"):
        expected = np.interp(second.score, first.score, getattr(first, end))
        np.testing.assert_allclose(getattr(second, end), expected, atol=0.02)
    widths = [
        float(np.mean(curve.high - curve.low))
        for curve in (corp_curve(y, p), corp_curve(*many, groups=groups), corp_curve(*many))
    ]
    assert widths[1] == pytest.approx(widths[0], rel=0.25)
    assert widths[2] < 0.6 * widths[0]


def test_bins_of_grouped_rows_hold_the_true_frequency() -> None:
    # Rows of a group share the label's chance: the interval of independent rows would hold it far too seldom.
    rng = np.random.default_rng(4)
    held: dict[bool, list[bool]] = {True: [], False: []}
    groups, p = np.repeat(np.arange(60), 10), np.full(600, 0.3)
    for _ in range(150):
        y = (rng.random(600) < rng.beta(0.6, 1.4, 60)[groups]).astype(int)
        for grouped in held:
            table = reliability_table(y, p, classes=[0, 1], groups=groups if grouped else None)
            held[grouped].append(bool(table.low[0] <= 0.3 <= table.high[0]))
    assert 0.9 <= np.mean(held[True]) <= 0.99
    assert np.mean(held[False]) < 0.8


def test_a_group_must_come_in_one_part() -> None:
    running = Running("reliability_table").update([0, 1, 1], [0.2, 0.6, 0.8], groups=["a", "a", "b"])
    with pytest.raises(ValueError, match="group 'b' is in two parts"):
        running.update([0, 1], [0.2, 0.6], groups=["b", "c"])
    parts = Running("reliability_table", n_bins=3)
    rng = np.random.default_rng(0)
    p, groups = rng.random(300), np.repeat(np.arange(60), 5)
    y = (rng.random(300) < p).astype(int)
    for rows in np.array_split(np.arange(300), 3):
        parts.update(y[rows], p[rows], groups=groups[rows])
    whole = reliability_table(y, p, n_bins=3, groups=groups)
    np.testing.assert_allclose(parts.result().high, whole.high, rtol=1e-12)


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_fits_of_the_belt_are_those_of_scikit_learn(degree: int) -> None:
    rng = np.random.default_rng(20)
    x, each = rng.uniform(-1, 1, 300), rng.integers(1, 4, 300).astype(float)
    hit = (rng.random(300) < 1 / (1 + np.exp(-2 * x - 0.5))).astype(float)
    model = LogisticRegression(C=1 / RIDGE, fit_intercept=False, solver="newton-cholesky", tol=1e-12, max_iter=200)
    theirs = model.fit(np.vander(x, degree + 1, increasing=True), hit, sample_weight=each).coef_[0]
    np.testing.assert_allclose(fit_polynomial(x, hit, each, degree), theirs, atol=1e-6)


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(("rate", "size"), [(1.0, 1), (0.04, 1), (1.0, 10), (0.04, 10)])
def test_belts_of_calibrated_scores_are_rejected_no_more_often(rate: float, size: int) -> None:
    rng = np.random.default_rng(21)
    groups, rejected, left, runs = np.repeat(np.arange(50), size), 0, 0, 60
    for _ in range(runs):
        s = rate * rng.random(50)
        y = (rng.random(50) < s).astype(int)
        belt = calibration_belt(y[groups], s[groups], groups=groups, classes=[0, 1])
        rejected += belt.test.p_value <= 0.05
        left += not ((belt.low <= belt.score) & (belt.score <= belt.high)).all()
    assert left <= rejected
    assert rejected / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)


def test_single_rows_with_tiny_scores_do_not_hide_what_all_others_show() -> None:
    # A fourth power of the log-odds is huge where a score is tiny: one drawn event there must not decide the p-value.
    for seed in range(4):
        rng = np.random.default_rng(seed)
        s = rng.random(1000)
        y = (rng.random(1000) < s**2).astype(int)
        assert calibration_belt(y, s).test.p_value < 1e-10


def test_points_of_the_belt_carry_the_observations_around_them() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(2, 3, 400)
    curve = calibration_belt((rng.random(400) < p).astype(int), p)
    log_odds = np.log(curve.at / (1 - curve.at))
    step = np.diff(log_odds).max()
    assert curve.weight.sum() == pytest.approx(400)
    assert min(curve.weight[0], curve.weight[-1]) >= 1  # the smallest and the largest score are the ends
    assert curve.weight @ log_odds / 400 == pytest.approx(np.mean(np.log(p / (1 - p))), abs=step / 2)


def test_the_smooth_test_of_the_belt_by_cholesky() -> None:
    rng = np.random.default_rng(1)
    s = rng.uniform(0.2, 0.8, 2000)
    y = (rng.random(2000) < s + 0.2 * ((s - 0.5) / 0.3) ** 2).astype(int)
    powers = np.vander(logit(s), 5, increasing=True)
    root = np.linalg.cholesky((powers * (s * (1 - s))[:, None]).T @ powers)
    squares = np.linalg.solve(root, powers.T @ (y - s)) ** 2
    assert squares[2] > 3.84
    more = int(np.argmin(np.append(squares[2:] > 3.841459, False)))
    assert calibration_belt(y, s).test.statistic == pytest.approx(squares[: 2 + more].sum(), rel=1e-6)


def drop_of_deviance(s: np.ndarray, y: np.ndarray) -> float:
    """Twice the gain of log-likelihood by the square of the log-odds, by scikit-learn."""
    fits = []
    for degree in (1, 2):
        x = np.vander(logit(s), degree + 1, increasing=True)
        model = LogisticRegression(C=1e6, fit_intercept=False, solver="newton-cholesky", tol=1e-10, max_iter=200)
        p = model.fit(x, y).predict_proba(x)[:, 1]
        fits.append(-2 * np.sum(np.log(np.where(y == 1, p, 1 - p))))
    return fits[0] - fits[1]


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("seed", [0, 30, 38, 53])
def test_the_degree_of_the_belt_grows_while_the_likelihood_ratio_is_significant(seed: int) -> None:
    y, s = drawn(400, 1.3, seed=seed)
    s = np.clip(s, 0.02, 0.98)
    assert (calibration_belt(y, s).degree > 1) == (drop_of_deviance(s, y) > 3.841459)


def test_a_belt_of_one_outcome_is_flat_at_jeffreys_mean() -> None:
    belt = calibration_belt([0] * 9, np.linspace(0.1, 0.5, 9), classes=[0, 1])
    assert belt.degree == 0
    np.testing.assert_allclose(belt.frequency, 0.5 / 10)


def test_the_kernel_of_calibrated_scores_is_silvermans() -> None:
    y, s = drawn(500)
    assert smooth_curve(y, s).bandwidth == pytest.approx(1.06 * np.std(s) * 500**-0.2)


def test_a_table_names_the_class_that_it_judges() -> None:
    assert reliability_table(["no", "yes"], [0.2, 0.7]).label == "yes"
    assert reliability_table([0, 1, 2], np.full((3, 3), 1 / 3)).label is None
