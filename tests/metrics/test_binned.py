"""Binned calibration errors against loops, closed forms and other packages."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import foldnorm
from sklearn.calibration import calibration_curve

from calibrant.bins import BinSums
from calibrant.confidence import wilson_interval
from calibrant.metrics import (
    classwise_reliability_tables,
    expected_calibration_error,
    maximum_calibration_error,
    reliability_table,
    rms_calibration_error,
)
from calibrant.metrics.binned import Binner, _folded_normal_mean, expected_error, maximum_error, rms_error
from calibrant.metrics.views import View
from calibrant.sample import Sample
from tests.needs import needs

Data = tuple[np.ndarray, np.ndarray]
ERRORS = [expected_calibration_error, rms_calibration_error, maximum_calibration_error]


def by_hand(y: np.ndarray, s: np.ndarray, edges: np.ndarray, norm: str) -> float:
    gaps, shares = [], []
    for b, (low, high) in enumerate(pairwise(edges)):
        inside = ((s > low) | ((b == 0) & (s == low))) & (s <= high)
        if inside.any():
            gaps.append(abs(y[inside].mean() - s[inside].mean()))
            shares.append(inside.mean())
    if norm == "max":
        return max(gaps)
    power = {"l1": 1, "l2": 2}[norm]
    return float(np.dot(shares, np.array(gaps) ** power) ** (1 / power))


@pytest.mark.parametrize("n_bins", [1, 2, 10, 15, 49])
def test_equal_width_by_hand(binary: Data, n_bins: int) -> None:
    y, s = binary
    edges = np.linspace(0, 1, n_bins + 1)
    for error, norm in zip(ERRORS, ("l1", "l2", "max")):
        assert error(y, s, n_bins=n_bins) == pytest.approx(by_hand(y, s, edges, norm), abs=1e-12)


def test_equal_mass_by_hand() -> None:
    rng = np.random.default_rng(3)
    s = rng.random(120)
    y = (rng.random(120) < s).astype(int)
    ordered = np.sort(s)
    edges = np.concatenate([[0], (ordered[11:-1:12] + ordered[12::12]) / 2, [1]])
    for error, norm in zip(ERRORS, ("l1", "l2", "max")):
        value = error(y, s, n_bins=10, strategy="quantile")
        assert value == pytest.approx(by_hand(y, s, edges, norm), abs=1e-12)
    table = reliability_table(y, s, n_bins=10, strategy="quantile")
    np.testing.assert_array_equal(table.weight, 12)
    np.testing.assert_allclose(table.upper, edges[1:])


def test_equal_scores_share_a_bin() -> None:
    s = np.repeat([0.1, 0.5, 0.9], [50, 13, 37])
    y = np.tile([0, 1], 50)
    table = reliability_table(y, s, n_bins=10, strategy="quantile")
    np.testing.assert_array_equal(table.weight, [50, 13, 37])
    np.testing.assert_allclose(table.lower, [0, 0.3, 0.7])
    np.testing.assert_allclose(table.upper, [0.3, 0.7, 1])


def test_full_confidence_is_in_the_last_bin() -> None:
    table = reliability_table([1, 1, 0], [1.0, 0.95, 1.0], n_bins=10)
    assert len(table) == 1
    assert table.weight[0] == 3
    assert table.upper[0] == 1.0


def test_like_scikit_learns_curve(binary: Data) -> None:
    y, s = binary
    frequency, score = calibration_curve(y, s, n_bins=12)
    table = reliability_table(y, s, n_bins=12)
    np.testing.assert_allclose(table.frequency, frequency)
    np.testing.assert_allclose(table.score, score)


def test_top_label_and_class_wise_are_binary_errors_of_their_views(multiclass: Data) -> None:
    y, p = multiclass
    for strategy in ("uniform", "quantile"):
        for error in ERRORS:
            top = error((p.argmax(axis=1) == y).astype(int), p.max(axis=1), strategy=strategy)
            assert error(y, p, strategy=strategy) == pytest.approx(top, abs=1e-14)
        each = np.array(
            [[error((y == j).astype(int), p[:, j], strategy=strategy) for j in range(4)] for error in ERRORS]
        )
        combined = [each[0].mean(), np.sqrt((each[1] ** 2).mean()), each[2].max()]
        for error, value in zip(ERRORS, combined):
            assert error(y, p, kind="class-wise", strategy=strategy) == pytest.approx(value, abs=1e-14)


def test_binary_predictions_have_a_top_label_too() -> None:
    y, p = np.array([0, 0, 1, 1]), np.array([0.2, 0.6, 0.7, 0.7])
    assert expected_calibration_error(y, p, kind="top-label", n_bins=2) == pytest.approx(0.75 - 0.7)
    with pytest.raises(ValueError, match="two classes"):
        expected_calibration_error([0, 1, 2], np.eye(3), kind="binary")


@pytest.mark.parametrize("error", [expected_calibration_error, rms_calibration_error])
def test_debiasing_removes_what_chance_contributes(error) -> None:
    rng = np.random.default_rng(5)
    plain, debiased = [], []
    for _ in range(60):
        p = rng.random(400)
        y = (rng.random(400) < p).astype(int)
        plain.append(error(y, p, strategy="quantile"))
        debiased.append(error(y, p, strategy="quantile", debias=True))
    assert np.mean(debiased) < 0.65 * np.mean(plain)
    assert min(debiased) >= 0
    # A miscalibration far above chance is left nearly as it is.
    p = rng.random(20_000)
    y = (rng.random(20_000) < 0.5 + 0.5 * (p - 0.5)).astype(int)
    assert error(y, p, debias=True) == pytest.approx(error(y, p), rel=0.03)


def test_squared_debiased_error_is_unbiased() -> None:
    # Two bins with known gaps of 0.1 and 0.05: the estimate before the root averages to the truth.
    rng = np.random.default_rng(6)
    n, truth = 40, np.array([0.3, 0.7])
    score = np.array([0.4, 0.75])
    hits = rng.binomial(n, truth, size=(20_000, 2))
    observed = hits / n
    squares = ((observed - score) ** 2 - observed * (1 - observed) / (n - 1)).mean()
    assert squares == pytest.approx(np.mean((truth - score) ** 2), abs=2e-4)
    sums = BinSums(np.full(2, float(n)), n * score, np.array([2.0, 36.0]))
    one = ((sums.hit / n - score) ** 2 - sums.hit / n * (1 - sums.hit / n) / (n - 1)).mean()
    assert rms_error(sums, debias=True) == pytest.approx(np.sqrt(one))


def test_debiasing_of_bins_without_spread() -> None:
    # One bin exactly right and one exactly wrong, both certain: chance contributes nothing.
    assert expected_calibration_error([1, 1, 0, 0], [1.0, 1.0, 0.9, 0.9], debias=True) == pytest.approx(0.45)
    assert expected_calibration_error([1, 1], [1.0, 1.0], debias=True) == 0.0
    assert rms_calibration_error([1, 1], [1.0, 1.0], debias=True) == 0.0


def test_expected_absolute_normal() -> None:
    mean, deviation = np.array([0.03, -0.2, 0.0, 0.4]), np.array([0.05, 0.1, 0.3, 1e-3])
    expected = foldnorm.mean(np.abs(mean) / deviation, scale=deviation)
    np.testing.assert_allclose(_folded_normal_mean(mean, deviation), expected, rtol=1e-12)
    np.testing.assert_array_equal(_folded_normal_mean(np.array([-0.2, 0.0]), np.zeros(2)), [0.2, 0.0])


def test_how_far_sums_over_bins_move() -> None:
    view = View(np.array([0.1, 0.2, 0.7, 0.9]), np.array([1.0, 0.0, 1.0, 1.0]))
    each = np.array([1.0, 2.0, 0.5, 3.0])
    data = Sample(np.full((4, 2), 0.5), np.zeros(4, dtype=int), each)
    binner = Binner(view, 3, "uniform")
    np.testing.assert_allclose(binner.spread(data), [0.9**2 + 2 * 0.2**2, 0, 0.5 * 0.3**2 + 3 * 0.1**2])
    alike = Sample(data.values, data.y, each, groups=np.array([0, 0, 1, 1]))
    moves = binner.spread(alike)  # of each group by one number, so that bins move as its sums have it
    np.testing.assert_allclose(moves.std(axis=0), [0.9 - 2 * 0.2, 0, 0.5 * 0.3 + 3 * 0.1], rtol=0.2)


def test_debiased_errors_of_counts_and_empty_bins() -> None:
    # The bin in the middle is empty; a count of half a row says nothing about its variance.
    sums = BinSums(np.array([4.0, 0.0, 0.5]), np.array([0.8, 0.0, 0.4]), np.array([3.0, 0.0, 0.5]))
    gap, deviation = 0.75 - 0.2, np.sqrt(0.75 * 0.25 / 4)
    plain = (4 * gap + 0.1) / 4.5
    chance = (4 * foldnorm.mean(gap / deviation, scale=deviation) + 0.1) / 4.5
    assert expected_error(sums) == pytest.approx(plain)
    assert expected_error(sums, debias=True) == pytest.approx(2 * plain - chance)
    assert rms_error(sums) == pytest.approx(np.sqrt((4 * gap**2 + 0.5 * 0.2**2) / 4.5))
    assert rms_error(sums, debias=True) == pytest.approx(np.sqrt(4 * (gap**2 - 0.75 * 0.25 / 3) / 4.5))
    assert maximum_error(sums) == pytest.approx(0.55)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_a_table_by_hand(strategy: Any) -> None:
    s, y = np.array([0.05, 0.2, 0.3, 0.7, 0.75]), np.array([0, 1, 0, 1, 0])
    each = np.array([3.0, 1.0, 2.0, 1.5, 0.5])
    table = reliability_table(y, s, n_bins=4, strategy=strategy, sample_weight=each)
    if strategy == "uniform":
        bins, ends = [[0, 1], [2], [3, 4]], [(0, 0.25), (0.25, 0.5), (0.5, 0.75)]
    else:  # a fourth of eight observations each: the first score holds more than its own
        bins, ends = [[0], [1], [2], [3, 4]], [(0, 0.125), (0.125, 0.25), (0.25, 0.5), (0.5, 1)]
    weight = [each[rows].sum() for rows in bins]
    np.testing.assert_allclose(np.column_stack([table.lower, table.upper]), ends)
    np.testing.assert_allclose(table.weight, weight)
    np.testing.assert_allclose(table.score, [each[rows] @ s[rows] / each[rows].sum() for rows in bins])
    np.testing.assert_allclose(table.frequency, [each[rows] @ y[rows] / each[rows].sum() for rows in bins])
    assert table.error == pytest.approx(np.dot(weight, np.abs(table.frequency - table.score)) / 8)
    np.testing.assert_allclose(table.histogram[[1, 4, 7, 17, 18]], each)
    low, high = wilson_interval(table.frequency, np.array(weight), 0.95)
    np.testing.assert_allclose([table.low, table.high], [low, high])


def test_bad_bins() -> None:
    with pytest.raises(ValueError, match="n_bins"):
        expected_calibration_error([0, 1], [0.1, 0.2], n_bins=0)
    with pytest.raises(ValueError, match="strategy"):
        expected_calibration_error([0, 1], [0.1, 0.2], strategy="equal")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind"):
        expected_calibration_error([0, 1], [0.1, 0.2], kind="top")  # type: ignore[arg-type]


def test_reliability_table_of_classes(multiclass: Data) -> None:
    y, p = multiclass
    names = np.array(["w", "x", "y", "z"])
    tables = classwise_reliability_tables(names[y], p)
    assert list(tables) == names.tolist()
    one = reliability_table(names[y], p, pos_label="y")
    np.testing.assert_array_equal(one.frequency, tables["y"].frequency)
    assert one.error == pytest.approx(expected_calibration_error((y == 2).astype(int), p[:, 2]), abs=1e-14)
    with pytest.raises(ValueError, match="labelled 'v'"):
        reliability_table(names[y], p, pos_label="v")
    with pytest.raises(ValueError, match="classwise_reliability_tables"):
        reliability_table(y, p, kind="class-wise")


def test_wilson_intervals_against_statistics_of_the_book() -> None:
    from scipy.stats import binomtest

    table = reliability_table([0, 0, 0, 1, 1] * 6, [0.3] * 30, level=0.9)
    theirs = binomtest(12, 30).proportion_ci(0.9, method="wilson")
    assert table.low[0] == pytest.approx(theirs.low)
    assert table.high[0] == pytest.approx(theirs.high)
    frame = needs("pandas") and table.to_pandas()
    assert list(frame.columns) == ["lower", "upper", "weight", "score", "frequency", "low", "high"]


@pytest.mark.peer
def test_like_netcal(multiclass: Data, binary: Data) -> None:
    confidence = needs("netcal.metrics.confidence")
    y, p = multiclass
    assert expected_calibration_error(y, p, n_bins=12) == pytest.approx(confidence.ECE(12).measure(p, y), abs=1e-9)
    assert maximum_calibration_error(y, p, n_bins=12) == pytest.approx(confidence.MCE(12).measure(p, y), abs=1e-9)


@pytest.mark.peer
def test_like_uncertainty_calibration(multiclass: Data) -> None:
    calibration = needs("calibration")
    y, p = multiclass
    assert expected_calibration_error(y, p) == pytest.approx(calibration.get_ece(p, y), abs=1e-12)
    for bins, strategy in ((calibration.get_equal_prob_bins, "uniform"), (calibration.get_equal_bins, "quantile")):
        for mode, kind in (("top-label", "top-label"), ("marginal", "class-wise")):
            for power, error in ((1, expected_calibration_error), (2, rms_calibration_error)):
                theirs = calibration.lower_bound_scaling_ce(
                    p, y, p=power, debias=False, num_bins=10, binning_scheme=bins, mode=mode
                )
                assert error(y, p, kind=kind, n_bins=10, strategy=strategy) == pytest.approx(theirs, abs=1e-12)
            theirs = calibration.lower_bound_scaling_ce(
                p, y, p=2, debias=True, num_bins=10, binning_scheme=bins, mode=mode
            )
            ours = rms_calibration_error(y, p, kind=kind, n_bins=10, strategy=strategy, debias=True)
            assert ours == pytest.approx(theirs, abs=1e-12)
    # Their debiased L1 error draws normal numbers where ours has the expectation.
    np.random.seed(0)  # noqa: NPY002
    theirs = calibration.lower_bound_scaling_ce(
        p, y, p=1, debias=True, num_bins=10, binning_scheme=calibration.get_equal_bins, mode="top-label"
    )
    ours = expected_calibration_error(y, p, n_bins=10, strategy="quantile", debias=True)
    assert ours == pytest.approx(theirs, abs=2e-3)


@pytest.mark.peer
@pytest.mark.torch
def test_like_probmetrics(multiclass: Data) -> None:
    torch = needs("torch")
    theirs = needs("probmetrics.metrics")
    y, p = multiclass
    names = ["logloss", "brier", "ece-15", "rmsce-15", "mce-15"]
    values = theirs.Metrics.from_names(names).compute_all_from_labels_probs(torch.tensor(y), torch.tensor(p))
    from calibrant.metrics import brier, log_loss

    ours = [log_loss(y, p), brier(y, p), *(error(y, p) for error in ERRORS)]
    np.testing.assert_allclose(ours, [float(values[name]) for name in names], atol=2e-6)


def test_debiased_error_by_integration() -> None:
    # Two bins of 10 and 20 rows: what chance adds is the mean of |Z| with the mean and the variance of each.
    y, p = np.repeat([0, 1, 0, 1], [7, 3, 4, 16]), np.repeat([0.2, 0.9], [10, 20])
    grid = np.linspace(-2, 2, 400_001)
    chance = 0.0
    for n, rate, score in ((10, 0.3, 0.2), (20, 0.8, 0.9)):
        density = np.exp(-0.5 * (grid - (rate - score)) ** 2 / (rate * (1 - rate) / n))
        chance += n / 30 * np.average(np.abs(grid), weights=density)
    assert expected_calibration_error(y, p, n_bins=2, debias=True) == pytest.approx(max(2 * 0.1 - chance, 0), abs=1e-6)


def test_debiased_squares_by_hand() -> None:
    # Bins of one row, which is left out, of two rows and of ten.
    y, p = np.repeat([1, 0, 1, 0, 1], [1, 1, 1, 7, 3]), np.repeat([0.1, 0.5, 0.9], [1, 2, 10])
    squares = 2 * ((0.5 - 0.5) ** 2 - 0.25 / 1) + 10 * ((0.3 - 0.9) ** 2 - 0.21 / 9)
    assert rms_calibration_error(y, p, n_bins=3, debias=True) == pytest.approx(np.sqrt(squares / 13))
