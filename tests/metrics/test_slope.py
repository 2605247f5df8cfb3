"""The kinds of miscalibration are told apart on data of one kind each, and the fits are those of other solvers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, logit, softmax
from scipy.stats import chi2, kstest, t, ttest_1samp
from sklearn.linear_model import LogisticRegression

from calibrant.inputs.samples import check_sample
from calibrant.metrics import calibration_loss, calibration_slope, confidence_interval, log_loss, miscalibration
from calibrant.metrics.slope import RIDGE, LinearRecalibration, Part, SlopeScore, separate, slope_interval
from calibrant.sample import Sample
from tests.samples import draw_labels, sharpened

pytestmark = pytest.mark.usefixtures("few_draws")


def test_slope_of_two_classes_is_that_of_a_logistic_regression() -> None:
    p, y = sharpened(800, 2, 2.0)
    reference = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(logit(p[:, [1]]), y)
    assert calibration_slope(y, p[:, 1]) == pytest.approx(float(reference.coef_[0, 0]), abs=1e-4)


def test_fits_of_many_classes_are_those_of_another_solver() -> None:
    p, y = sharpened(400, 5, 1.6)
    weight = np.random.default_rng(1).integers(1, 4, 400).astype(float)
    x = np.log(p)

    def loss(theta: np.ndarray) -> float:
        z = log_softmax(theta[-1] * x + np.append(0.0, theta[:-1]), axis=1)
        return -float(np.average(z[np.arange(400), y], weights=weight))

    both = minimize(loss, np.append(np.zeros(4), 1.0), method="BFGS", options={"gtol": 1e-7})
    found = miscalibration(y, p, recalibrated=p, sample_weight=weight)
    assert found.fitted_slope.value == pytest.approx(both.x[-1], abs=1e-4)
    shift = minimize(lambda a: loss(np.append(a, 1.0)), np.zeros(4), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(found.intercepts - found.intercepts[0], np.append(0, shift.x), atol=1e-4)
    tilt = minimize(lambda b: loss(np.append(np.zeros(4), b)), [1.0], method="BFGS", options={"gtol": 1e-7})
    n, start = weight.sum(), loss(np.append(np.zeros(4), 1.0))
    # The means are right: a slope alone does better than both, with fewer parameters.
    assert tilt.fun + 1 / n < min(both.fun + 5 / n, shift.fun + 4 / n)
    assert found.means.gain == 0.0
    assert found.slope.gain == pytest.approx(start - tilt.fun - 1 / n, abs=1e-7)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize(("means", "slope"), [(True, True), (True, False), (False, True)])
def test_fits_are_those_of_scipy(k: int, means: bool, slope: bool) -> None:
    p, y = sharpened(300, k, 1.6)
    each = np.random.default_rng(1).integers(1, 4, 300).astype(float)
    x, identity = np.log(p), np.append(np.zeros(k), 1.0)
    free = np.append(np.full(k, means), slope)

    def loss(moved: np.ndarray) -> tuple[float, np.ndarray]:
        theta = identity.copy()
        theta[free] = moved
        logs, off = log_softmax(theta[-1] * x + theta[:-1], axis=1), theta - identity
        residual = each[:, None] * (np.exp(logs) - np.eye(k)[y])
        gradient = np.append(residual.sum(axis=0), np.sum(residual * x)) + RIDGE * off
        return -float(each @ logs[np.arange(300), y]) + RIDGE / 2 * float(off @ off), gradient[free]

    theirs = minimize(loss, identity[free], jac=True, method="BFGS", options={"gtol": 1e-10})
    ours = LinearRecalibration(Sample(p, y, each)).fit(means=means, slope=slope)
    np.testing.assert_allclose(ours[free], theirs.x, atol=1e-6)


def test_the_slope_of_saturated_predictions_is_not_called_off() -> None:
    """Exact zeros and ones: the likelihood ratio would reject one calibrated sample in seven."""
    rng = np.random.default_rng(6)
    rejected, missed, runs = 0, 0, 60
    for _ in range(runs):
        p = rng.random(100) ** 4
        p = np.where(rng.random(100) < 0.5, p, 1 - p)
        p[p < 0.02], p[p > 0.98] = 0.0, 1.0
        y = (rng.random(100) < p).astype(int)
        found = miscalibration(y, p, recalibrated=p, classes=[0, 1])
        rejected += found.slope.p_value <= 0.05
        missed += not found.fitted_slope.low <= 1 <= found.fitted_slope.high
    assert max(rejected, missed) / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)


def test_copies_in_groups_are_no_evidence() -> None:
    rng = np.random.default_rng(7)
    groups, rejected, missed, runs = np.repeat(np.arange(40), 5), np.zeros(3), 0, 30
    for _ in range(runs):
        p = rng.uniform(0.05, 0.95, 40)
        y = (rng.random(40) < p).astype(int)
        found = miscalibration(y[groups], p[groups], recalibrated=p[groups], groups=groups, classes=[0, 1])
        rejected += [part.p_value <= 0.05 for part in found.parts.values()]
        missed += not found.fitted_slope.low <= 1 <= found.fitted_slope.high
    assert max(*rejected, missed) / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)


def test_copies_of_saturated_predictions_of_many_classes_are_no_evidence() -> None:
    """Thirty independent labels of ten classes: the fit of the means alone would make the slope look wrong."""
    rng = np.random.default_rng(8)
    groups, rejected, missed, runs = np.repeat(np.arange(30), 4), 0, 0, 30
    for _ in range(runs):
        p = rng.dirichlet(np.full(10, 0.7), size=30) ** 4
        p[p < 0.02 * p.sum(axis=1, keepdims=True)] = 0.0
        p /= p.sum(axis=1, keepdims=True)
        y = draw_labels(p, rng)
        kept = {"groups": groups, "classes": range(10)}
        found = miscalibration(y[groups], p[groups], recalibrated=p[groups], **kept)
        rejected += found.slope.p_value <= 0.05
        missed += not found.fitted_slope.low <= 1 <= found.fitted_slope.high
    assert max(rejected, missed) / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize("size", [1, 10])
def test_no_positive_in_a_sample_is_no_evidence_of_a_rest(size: int) -> None:
    """Every row then gains a little by a prediction near zero, which the next positive would cost dearly."""
    rng = np.random.default_rng(9)
    p = np.repeat(1 / (1 + np.exp(5.4 - 0.8 * rng.standard_normal(300 // size))), size)
    groups = None if size == 1 else np.arange(300) // size
    y = np.zeros(300, dtype=int)
    found = miscalibration(y, p, recalibrated=p / 100, groups=groups, classes=[0, 1])
    assert found.rest.p_value > 0.05


def test_parameters_cost_more_where_rows_of_a_group_agree() -> None:
    p, y = sharpened(100, 2, 2.0)
    groups = np.repeat(np.arange(100), 10)
    alone = miscalibration(y, p, recalibrated=p)
    copied = miscalibration(y[groups], p[groups], recalibrated=p[groups], groups=groups)
    as_if_new = miscalibration(y[groups], p[groups], recalibrated=p[groups])
    assert copied.slope.gain == pytest.approx(alone.slope.gain, rel=0.2)
    assert as_if_new.slope.gain > copied.slope.gain


def test_parts_of_means_and_slope_together() -> None:
    p, y = sharpened(3000, 3, 1.6)
    x = np.log(p) + np.array([1.5, 0.0, 0.0])
    p = softmax(x, axis=1)

    def loss(theta: np.ndarray) -> float:
        return -float(log_softmax(theta[-1] * x + np.append(0.0, theta[:-1]), axis=1)[np.arange(3000), y].mean())

    both = minimize(loss, [0.0, 0.0, 1.0], method="BFGS", options={"gtol": 1e-7}).fun
    shift = minimize(lambda a: loss(np.append(a, 1.0)), np.zeros(2), method="BFGS", options={"gtol": 1e-7}).fun
    found = miscalibration(y, p, recalibrated=p)
    assert found.means.gain == pytest.approx(loss(np.array([0.0, 0.0, 1.0])) - shift - 2 / 3000, abs=1e-7)
    assert found.slope.gain == pytest.approx(shift - both - 1 / 3000, abs=1e-7)


@pytest.mark.parametrize(
    ("best", "seed", "power", "shift"),
    [(0, 0, 1.0, 1.0), (1, 0, 1.0, 4.0), (2, 0, 1.8, 1.0), (3, 1, 1.0, 4.0), (3, 15, 1.0, 1.0)],
)
def test_parts_are_differences_of_penalised_losses(best: int, seed: int, power: float, shift: float) -> None:
    p, y = sharpened(60, 3, power, seed)
    p *= [shift, 1.0, 1.0]
    data = Sample(p / p.sum(axis=1, keepdims=True), y)
    model = LinearRecalibration(data)
    fits = [model.identity, model.fit(slope=False), model.fit(means=False), model.fit()]
    rows = [log_softmax(theta[-1] * np.log(data.proba) + theta[:-1], axis=1)[np.arange(60), y] for theta in fits]
    costs = [parameters / 60 - own.mean() for own, parameters in zip(rows, (0, 2, 1, 3))]
    assert int(np.argmin(costs)) == best
    after = np.sqrt(data.proba) / np.sqrt(data.proba).sum(axis=1, keepdims=True)
    found = separate(data, data.with_values(after, logs=False))
    # In the last case shifts alone would cost more than they bring, and serve the slope.
    means = max(costs[0] - costs[1], 0.0) if best in (1, 3) else 0.0
    assert found.means.gain == pytest.approx(means, abs=1e-9)
    assert found.slope.gain == pytest.approx(costs[0] - costs[best] - means, abs=1e-9)
    assert found.rest.gain == pytest.approx(costs[best] + np.log(after[np.arange(60), y]).mean(), abs=1e-9)
    assert [part.n_resamples for part in found.parts.values()] == [0, 0, 0]  # rows are independent


def test_what_is_not_needed_is_not_the_merit_of_the_rest() -> None:
    for seed in range(6):
        p, y = sharpened(200, 8, 1.0, seed)
        found = miscalibration(y, p, recalibrated=p)
        assert abs(found.rest.gain) <= found.means.gain + found.slope.gain + 1e-12


@pytest.mark.parametrize("k", [2, 6])
@pytest.mark.parametrize(("power", "lower", "upper"), [(2.0, 0.35, 0.65), (0.5, 1.6, 2.4)])
def test_too_extreme_and_too_timid(k: int, power: float, lower: float, upper: float) -> None:
    p, y = sharpened(2000, k, power)
    found = miscalibration(y, p)
    assert found.largest == "slope"
    assert lower < found.fitted_slope.low < 1 / power < found.fitted_slope.high < upper
    assert found.slope.p_value < 1e-6 < found.rest.p_value


@pytest.mark.parametrize("rate", [0.02, 0.5])
@pytest.mark.parametrize("shift", [-1.0, 1.5])
def test_means_that_are_off_for_two_classes(rate: float, shift: float) -> None:
    rng = np.random.default_rng(3)
    z = rng.normal(size=6000) + logit(rate)
    y = (rng.random(6000) < 1 / (1 + np.exp(-z))).astype(int)
    found = miscalibration(y, 1 / (1 + np.exp(-z - shift)))
    assert found.largest == "means"
    assert found.intercepts[1] - found.intercepts[0] == pytest.approx(-shift, abs=0.35)
    assert (found.frequencies.ratio[1] > 1) == (shift > 0)
    assert found.frequencies.p_value[1] < 1e-6
    assert found.slope.p_value > 0.01


def test_means_that_are_off_for_many_classes() -> None:
    rng = np.random.default_rng(4)
    z = rng.normal(size=(4000, 5))
    y = draw_labels(softmax(z, axis=1), rng)
    found = miscalibration(y, softmax(z + np.array([0, 0, 0, 0, 2.0]), axis=1))
    assert found.largest == "means"
    assert int(np.argmin(found.intercepts)) == 4
    assert int(np.argmax(found.frequencies.ratio)) == 4


def test_a_bend_is_the_rest() -> None:
    rng = np.random.default_rng(5)
    p = 0.2 + 0.6 * rng.random(8000)
    y = (rng.random(8000) < p + 0.2 * np.sin(8 * np.pi * p)).astype(int)  # a wave about the diagonal
    found = miscalibration(y, p, method="histogram")
    assert found.largest == "rest"
    assert found.rest.p_value < 1e-6


@pytest.mark.parametrize("k", [2, 4])
def test_p_values_are_uniform_on_calibrated_data(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.metrics.slope.slope_interval", lambda *_: None)  # which would take most of the time
    found = []
    for seed in range(50):
        p, y = sharpened(200, k, 1.0, seed)
        parts = miscalibration(y, p, recalibrated=p)
        found.append((parts.means.p_value, parts.slope.p_value))
    for values in np.transpose(found):
        assert kstest(values, "uniform").pvalue > 1e-3


def test_parts_add_up_to_the_calibration_part_of_log_loss() -> None:
    p, y = sharpened(1500, 3, 1.8)
    found = miscalibration(y, p)
    total = sum(part.gain for part in found.parts.values())
    assert total == pytest.approx(calibration_loss(y, p), abs=1e-9)


def test_weights_are_counts() -> None:
    p, y = sharpened(300, 3, 1.5)
    weight = np.random.default_rng(2).integers(1, 4, 300)
    rows = np.repeat(np.arange(300), weight)
    one = miscalibration(y, p, recalibrated=p, sample_weight=weight)
    other = miscalibration(y[rows], p[rows], recalibrated=p[rows])
    assert one.fitted_slope.value == pytest.approx(other.fitted_slope.value, abs=1e-6)
    assert one.fitted_slope.high == pytest.approx(other.fitted_slope.high, abs=1e-6)
    for name, part in one.parts.items():
        assert list(part) == pytest.approx(list(other.parts[name]), abs=1e-8), name


def test_interval_of_the_slope_agrees_with_the_bootstrap() -> None:
    p, y = sharpened(700, 2, 1.5)
    found = miscalibration(y, p, recalibrated=p).fitted_slope
    expected = confidence_interval("calibration_slope", y, p, n_resamples=300)
    width = expected.high - expected.low
    assert found.low == pytest.approx(expected.low, abs=0.2 * width)
    assert found.high == pytest.approx(expected.high, abs=0.2 * width)


def test_separable_labels_and_absent_classes_stay_finite() -> None:
    p = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1]] * 20)
    found = miscalibration([0, 1] * 20, p, recalibrated=p, classes=[0, 1, 2])
    assert np.isfinite(found.intercepts).all()
    assert 1 < found.fitted_slope.value < 1e3


def test_impossible_labels_cost_no_more_than_the_log_loss_says() -> None:
    """A label whose probability is exactly zero costs the floor of the log loss, in every part."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.0, 1.0, 1.0], size=1000)
    y = (p.cumsum(axis=1) < rng.random(1000)[:, None]).sum(axis=1)
    p[:5, :] = np.eye(3)[(y[:5] + 1) % 3]
    found = miscalibration(y, p)
    saved = sum(part.gain for part in found.parts.values())
    assert saved <= log_loss(y, p)
    assert saved == pytest.approx(calibration_loss(y, p), abs=1e-6)


@pytest.mark.parametrize("seed", [3, 8])  # samples in which the search has to step out
def test_the_score_test_just_rejects_at_the_ends_of_the_interval(seed: int) -> None:
    p, y = sharpened(30, 3, 1.0, seed)
    model = LinearRecalibration(Sample(p, y))
    fitted = model.fit()
    found = slope_interval(model, fitted, 0.95)
    assert found.low < found.value < found.high
    for end, sign in ((found.low, 1.0), (found.high, -1.0)):
        at = model.fit(slope=False, start=np.append(fitted[:-1], end))
        assert SlopeScore(model.scores(at)).signed() == pytest.approx(sign * 1.959964, abs=1e-3)


def counted(k: int, n: int, groups: np.ndarray | None = None, seed: int = 0) -> Sample:
    """Predictions and labels drawn from them, with counts."""
    p, y = sharpened(n, k, 1.0, seed)
    return Sample(p, y, np.random.default_rng(seed).integers(1, 4, n).astype(float), groups)


def covariance_by_hand(data: Sample, logs: np.ndarray) -> np.ndarray:
    """Of the scores, over all labels of every row, weighed by their probability."""
    found = np.zeros((data.n_classes + 1, data.n_classes + 1))
    for p, x, count in zip(data.proba, logs, data.each):
        score = np.column_stack([np.eye(data.n_classes) - p, x - p @ x])
        found += count * score.T @ (p[:, None] * score)
    return found


def test_the_score_of_the_slope_is_free_of_the_means() -> None:
    data = counted(3, 30)
    model = LinearRecalibration(data)
    score, covariance = SlopeScore(model.scores(model.identity)), covariance_by_hand(data, model.x)
    assert score.direction[-1] == 1.0
    np.testing.assert_allclose(covariance[:-1] @ score.direction, 0, atol=1e-9)
    assert score.variance == score.robust == pytest.approx(score.direction @ covariance @ score.direction)
    # What the fit of the means adds is a quadratic form, whose mean is the trace with the means' covariance.
    assert score.bias == pytest.approx(np.trace(score.curvature @ covariance[:-1, :-1]), rel=1e-9)
    observed = score.scores.observed @ score.direction
    assert score.signed() == pytest.approx((observed - score.bias) / np.sqrt(score.variance), rel=1e-12)
    alone = SlopeScore(model.scores(model.identity), fitted_means=False)
    assert alone.direction.tolist() == [0, 0, 0, 1]
    assert alone.variance == pytest.approx(covariance[-1, -1])
    assert alone.bias == 0 == np.abs(alone.curvature).max()


def test_the_statistic_is_that_of_a_fit_of_the_means_to_the_same_labels() -> None:
    for seed in range(3):
        p = sharpened(1500, 3, 1.0, seed)[0] * [6.0, 1.0, 0.3]
        y = draw_labels(p / p.sum(axis=1, keepdims=True), np.random.default_rng(seed))
        p[:, 0] *= 1.3  # labels are not quite what the hypothesis says
        data = Sample(p / p.sum(axis=1, keepdims=True), y)
        model = LinearRecalibration(data)
        score = SlopeScore(model.scores(model.identity))
        exact = model.scores(model.fit(slope=False)).observed[-1]
        first = score.scores.observed @ score.direction
        second = np.sqrt(score.statistic(score.scores.observed) * score.variance)
        assert abs(abs(exact) - second) < 0.1 * abs(exact - first)


def test_certain_predictions_tell_nothing_of_the_slope() -> None:
    for groups in (None, np.array([0, 0, 1, 1])):
        data = Sample(np.eye(2)[[0, 1, 1, 0]], np.array([0, 1, 1, 0]), None, groups)
        model = LinearRecalibration(data)
        score = SlopeScore(model.scores(model.identity))
        assert (score.signed(), score.statistic(np.ones(3)), score.bias) == (0.0, 0.0, 0.0)
        assert score.cost() == 1 / data.units


def test_the_variance_of_the_slope_in_groups() -> None:
    # Copies: few groups that happen to agree with the predictions vary as much as groups could.
    p = np.array([[0.7, 0.3], [0.4, 0.6], [0.8, 0.2], [0.3, 0.7]])
    data = Sample(np.repeat(p, 5, axis=0), np.tile([0, 0, 0, 1, 1], 4), None, np.repeat(np.arange(4), 5))
    model = LinearRecalibration(data)
    score = SlopeScore(model.scores(model.identity))
    assert score.robust == pytest.approx(5 * score.variance)
    trace = np.trace(score.curvature @ covariance_by_hand(data, model.x)[:-1, :-1])
    assert score.bias == pytest.approx(5 * trace, rel=1e-9)
    assert score.signed() == pytest.approx(
        (score.scores.observed @ score.direction - score.bias) / np.sqrt(score.robust), rel=1e-12
    )
    # Groups that agree among themselves vary by their sums, `G / (G - 1)` times; the effect is at most their size.
    groups = np.arange(60) // 3
    data = Sample(np.tile([0.3, 0.7], (60, 1)) ** (1 + groups[:, None] % 3), (groups % 2).astype(int), None, groups)
    data = data.with_values(data.values / data.values.sum(axis=1, keepdims=True), logs=False)
    model = LinearRecalibration(data)
    score, sums = SlopeScore(model.scores(model.identity)), np.zeros(20)
    for p, x, y, group in zip(data.proba, model.x, data.y, groups):
        sums[group] += np.append(np.eye(2)[y] - p, x[y] - p @ x) @ score.direction
    assert sums @ sums * 20 / 19 > 3 * score.variance
    assert score.robust == pytest.approx(sums @ sums * 20 / 19)
    pair = Sample(np.repeat([[0.9, 0.1], [0.2, 0.8]], 5, axis=0), np.repeat([1, 0], 5), None, np.repeat([0, 1], 5))
    model = LinearRecalibration(pair)
    score = SlopeScore(model.scores(model.identity))
    assert score.robust == pytest.approx(2 * np.sum((score.scores.groups @ score.direction) ** 2))
    # Groups of rows that have nothing to do with each other have hardly any effect.
    model = LinearRecalibration(Sample(*sharpened(400, 2, 1.0), None, np.arange(400) // 4))
    score = SlopeScore(model.scores(model.identity))
    assert 1.0 <= score.robust / score.variance < 1.8


@pytest.mark.parametrize("size", [1, 4])
def test_the_cost_of_a_parameter_is_that_of_observations_that_do_not_depend_on_each_other(size: int) -> None:
    groups, alone = np.repeat(np.arange(300), size), counted(3, 300)
    data = Sample(alone.proba[groups], alone.y[groups], None, groups)
    # Wrong means are no dependence.
    moved = data.proba * [4.0, 1.0, 1.0]
    for proba in (data.proba, moved / moved.sum(axis=1, keepdims=True)):
        model = LinearRecalibration(data.with_values(proba, logs=False))
        cost = SlopeScore(model.scores(model.identity)).cost()
        assert 0.85 / 300 < cost <= 1 / 300 * (1 + 1e-12)
    model = LinearRecalibration(alone)
    assert SlopeScore(model.scores(model.identity)).cost() == 1 / alone.total


def test_independent_rows_in_groups_cost_little_more_also_with_wrong_means() -> None:
    p, y = sharpened(800, 3, 1.0)
    for moved in (p, p * [4.0, 1.0, 1.0]):
        data = Sample(moved / moved.sum(axis=1, keepdims=True), y, None, np.arange(800) // 8)
        model = LinearRecalibration(data)
        assert 0.99 < 800 * SlopeScore(model.scores(model.identity)).cost() < 2.5  # 8 if all rows agreed


def test_ends_of_the_interval_of_groups_are_those_of_students_t() -> None:
    data = counted(3, 90, np.arange(90) // 3)
    model = LinearRecalibration(data)
    fitted = model.fit()
    found = slope_interval(model, fitted, 0.9)
    assert (found.value, found.level) == (fitted[-1], 0.9)
    for end, sign in ((found.low, 1.0), (found.high, -1.0)):
        at = model.fit(slope=False, start=np.append(fitted[:-1], end))
        quantile = t.ppf(0.95, data.units - 3)
        assert SlopeScore(model.scores(at)).signed() == pytest.approx(sign * quantile, abs=1e-3)


def test_an_interval_of_few_observations_may_end_at_the_slope_and_one_of_none_is_wide() -> None:
    model = LinearRecalibration(Sample(*sharpened(10, 3, 1.0, 9)))
    fitted = model.fit()
    assert SlopeScore(model.scores(fitted)).signed() < -1.96  # the fitted slope is mostly bias
    found = slope_interval(model, fitted, 0.95)
    assert found.low < found.value == found.high
    at = model.fit(slope=False, start=np.append(fitted[:-1], found.low))
    assert SlopeScore(model.scores(at)).signed() == pytest.approx(1.959964, abs=1e-3)
    model = LinearRecalibration(Sample(np.full((6, 2), 0.5), np.tile([0, 1], 3)))
    nothing = slope_interval(model, model.fit(), 0.95)
    assert -1e8 < nothing.low < -1e6 < nothing.value == 1.0 < 1e6 < nothing.high < 1e8


def votes(k: int, direction: float) -> tuple[Sample, np.ndarray]:
    """Very many observations, about as often of each class as predicted, and other predictions of the same rows."""
    rng = np.random.default_rng(k)
    p = rng.dirichlet(np.full(k, 3.0), 12)
    share = p * (1 + 2e-3 * rng.standard_normal(p.shape))
    data = Sample(np.repeat(p, k, axis=0), np.tile(np.arange(k), 12), 1e5 * share.ravel())
    other = np.repeat(p + direction * (share / share.sum(axis=1, keepdims=True) - p), k, axis=0)
    return data, other / other.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("k", [2, 4])
def test_p_values_of_very_many_observations_have_chi_square_tails(k: int) -> None:
    data, other = votes(k, 0.5)
    found = separate(data, data.with_values(other, logs=False))
    residual = data.each @ (np.eye(k)[data.y] - data.proba)
    inverse = np.linalg.pinv(covariance_by_hand(data, np.log(data.proba))[:-1, :-1])
    assert found.means.statistic == pytest.approx(residual @ inverse @ residual, rel=1e-6)
    assert found.means.p_value == pytest.approx(chi2.sf(found.means.statistic, k - 1), rel=1e-9)
    assert found.slope.p_value == pytest.approx(chi2.sf(found.slope.statistic, 1), rel=1e-9)
    assert (found.means.n_resamples, found.slope.n_resamples, found.rest.n_resamples) == (0, 0, 0)
    assert found.intercepts.sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("direction", [0.5, -0.5])
def test_the_rest_is_not_more_certain_than_a_score_in_its_direction(direction: float) -> None:
    data, other = votes(3, direction)
    found = separate(data, data.with_values(other, logs=False))
    if (found.means.gain, found.slope.gain) == (0.0, 0.0):  # the score test against the predictions themselves
        step = np.log(other) - np.log(data.proba)
        centred = step - np.sum(data.proba * step, axis=1, keepdims=True)
        score = data.each @ centred[np.arange(len(step)), data.y]
        expected = chi2.sf(score**2 / (data.each @ np.sum(data.proba * centred**2, axis=1)), 1) if score > 0 else 1.0
        by_t = t.sf(found.rest.statistic, data.total - 1)
        assert found.rest.p_value == pytest.approx(max(by_t, expected), rel=1e-6)
    assert (found.rest.gain > 0) == (direction > 0)
    assert (found.rest.p_value == 1.0) == (direction < 0)


def test_what_is_saved_in_groups_is_judged_by_their_sums() -> None:
    rng = np.random.default_rng(1)
    p, groups = rng.uniform(0.2, 0.8, 60), np.arange(60) // 4
    y = (rng.random(60) < p).astype(int)
    other = np.clip(p + 0.05 * np.sin(20 * p), 0.01, 0.99)
    before = check_sample(y, p, groups=groups)
    found = separate(before, before.with_values(np.column_stack([1 - other, other]), logs=False))
    assert (found.means.gain, found.slope.gain) == (0.0, 0.0)
    saved = np.log(np.where(y == 1, other, 1 - other)) - np.log(np.where(y == 1, p, 1 - p))
    sums = np.bincount(groups, saved - saved.mean())
    assert found.rest.statistic == pytest.approx(saved.sum() / np.sqrt(sums @ sums * 15 / 14), rel=1e-9)
    assert found.rest.p_value >= t.sf(found.rest.statistic, 14)
    assert (found.means.n_resamples, found.slope.n_resamples, found.rest.n_resamples) == (19, 19, 19)


def test_the_direction_of_the_rest_is_free_of_fitted_means() -> None:
    data, other = votes(3, 0.5)
    moved = data.proba * [1.2, 1.0, 0.9]
    wrong = data.with_values(moved / moved.sum(axis=1, keepdims=True), logs=False)
    model = LinearRecalibration(wrong)
    found, linear = (
        separate(wrong, data.with_values(other, logs=False)),
        softmax(model.x + model.fit(slope=False)[:-1], 1),
    )
    assert (found.means.gain > 0, found.slope.gain) == (True, 0.0)
    step, residual = np.log(other / linear), data.each[:, None] * (np.eye(3)[data.y] - linear)
    covariance = covariance_by_hand(data.with_values(linear, logs=False), step)
    explained = np.linalg.pinv(covariance[:-1, :-1]) @ covariance[:-1, -1]
    variance = covariance[-1, -1] - explained @ covariance[:-1, -1]
    square = np.sum(residual * (step - explained)) ** 2 / variance
    assert found.rest.p_value == pytest.approx(chi2.sf(square, 1), rel=0.01)


def test_the_rest_is_not_more_certain_than_students_t(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.metrics.hypothesis.DRAWS", 399)
    right, y = np.array([0.99, 0.6, 0.55, 0.52]), np.array([0, 1, 0, 1])
    data = Sample(np.full((4, 2), 0.5), y)
    other = np.where(np.eye(2)[y] == 1, right[:, None], 1 - right[:, None])
    found = separate(data, data.with_values(other, logs=False)).rest
    # All labels are the likelier ones, which one draw in sixteen has; one row saves most.
    expected = ttest_1samp(np.log(2 * right), 0.0, alternative="greater")
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-9)
    assert found.p_value > 0.09


def test_nothing_saved_is_no_evidence() -> None:
    data = Sample(np.full((8, 2), 0.5), np.tile([0, 1], 4))
    assert separate(data, data).rest == Part(0.0, 1.0, 0.0, 0)


@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
def test_the_parts_add_up_to_what_is_saved_also_with_probabilities_of_zero() -> None:
    rng = np.random.default_rng(1)
    true = rng.dirichlet(np.full(4, 0.3), 500)
    y = (true.cumsum(axis=1) > rng.random((500, 1))).argmax(axis=1)
    votes = np.stack([rng.multinomial(20, row) for row in 0.5 * true + 0.125]) / 20  # a timid forest of twenty trees
    before = check_sample(y, votes)
    after = before.with_values(true, logs=False)
    assert np.count_nonzero(votes[np.arange(500), y] == 0) > 0
    found = separate(before, after)
    saved = log_loss(y, votes) - log_loss(y, after.proba)
    assert found.means.gain + found.slope.gain + found.rest.gain == pytest.approx(saved, abs=1e-9)


def test_the_rest_of_calibrated_predictions_is_judged_by_students_t() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 400)
    y = (rng.random(400) < p).astype(int)
    other = np.clip(p + 0.1 * np.sin(20 * p), 0.01, 0.99)
    before = check_sample(y, p)
    found = separate(before, before.with_values(np.column_stack([1 - other, other]), logs=False))
    assert (found.means.gain, found.slope.gain) == (0.0, 0.0)  # so that all is in the rest
    saved = np.log(np.where(y == 1, other, 1 - other)) - np.log(np.where(y == 1, p, 1 - p))
    assert found.rest.statistic == pytest.approx(ttest_1samp(saved, 0.0).statistic, rel=1e-9)
