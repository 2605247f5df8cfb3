"""Intervals of single probabilities, beside closed forms and bootstraps by hand."""

import numpy as np
import pytest

import calibrant
from calibrant import get_calibrator, list_calibrators
from calibrant.sample import Sample
from calibrant.simplex import softmax
from calibrant.softmax.delta_method import coefficient_covariance, log_odds_variances
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.rows.row_source import Features
from calibrant.steps import run
from tests.combinations import one_per_class, with_classes

Z90 = 1.6448536269514722


def drawn(n, k, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 1.5
    y = (softmax(0.7 * z).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return softmax(z), y


STORED = [info for info in list_calibrators() if info.stores]


@pytest.mark.parametrize(("name", "k"), with_classes(STORED, 2, 3, often=one_per_class(STORED)))
def test_every_method_has_intervals_around_its_probabilities(name, k, tmp_path):
    p, y = drawn(80, k)
    calibrator = get_calibrator(name).fit(p, y).fit_intervals(p, y, n_resamples=2)
    q, interval = calibrator.predict_proba(p), calibrator.predict_interval(p)
    assert interval.shape == (80, k, 2)
    assert np.all((interval[..., 0] <= q) & (q <= interval[..., 1]))
    assert interval.min() >= 0.0
    assert interval.max() <= 1.0
    calibrant.save(calibrator, tmp_path / "cal.json")
    np.testing.assert_array_equal(calibrant.load(tmp_path / "cal.json").predict_interval(p), interval)


def test_affine_is_the_delta_method_of_logistic_regression():
    p, y = drawn(400, 2)
    calibrator = get_calibrator("affine").fit(p, y).fit_intervals(p, y)
    design = np.column_stack([np.log(p[:, 1] / p[:, 0]), np.ones(len(p))])
    q = calibrator.predict_proba(p)[:, 1]
    covariance = np.linalg.inv((design.T * (q * (1 - q))) @ design)
    error = np.sqrt(np.einsum("nd,de,ne->n", design, covariance, design))
    distance = Z90 * calibrant.confidence.student_stretch(0.9, 400) * error
    expected = 1 / (1 + np.exp(-(np.log(q / (1 - q))[:, None] + distance[:, None] * [-1, 1])))
    np.testing.assert_allclose(calibrator.predict_interval(p)[:, 1], expected, rtol=1e-7)


@pytest.mark.parametrize("kind", ["shared", "own"])
def test_variances_of_log_odds_are_those_of_numerical_derivatives(kind):
    rng = np.random.default_rng(1)
    k, n = 4, 6
    x = rng.normal(size=(k, n)) * 3
    if kind == "shared":
        features = Features(np.zeros((k, n)), shared=np.vstack([x, np.ones(n)]))
        size = k + 1
    else:
        features = Features(np.zeros((k, n)), shared=np.ones((1, n)), own=x[None])
        size = 2
    problem = ArrayProblem(np.zeros(n, dtype=int), features.offset, shared=features.shared, own=features.own)
    theta, root = rng.normal(size=(k, size)), rng.normal(size=(k * size, k * size))
    covariance = root @ root.T

    def log_odds(at):
        p = softmax(problem.logits(at.reshape(k, size)).T)
        return np.log(p) - np.log1p(-p)

    steps = 1e-6 * np.eye(k * size)
    slopes = np.stack([(log_odds(theta.ravel() + s) - log_odds(theta.ravel() - s)) / 2e-6 for s in steps])
    expected = np.einsum("dnj,de,enj->nj", slopes, covariance, slopes)
    p = softmax(problem.logits(theta).T)
    np.testing.assert_allclose(log_odds_variances(features, p, 1 - p, covariance), expected, rtol=2e-3)


@pytest.mark.parametrize("copies", [2, 3])
def test_copies_in_a_group_count_once(copies):
    p, y = drawn(200, 3)
    rows, groups = np.repeat(np.arange(200), copies), np.repeat(np.arange(200), copies)
    calibrator = get_calibrator("ts").fit(p[rows], y[rows]).fit_intervals(p[rows], y[rows], groups=groups)
    x = np.log(p)
    q = softmax(calibrator.inverse_temperature_ * x)
    bend = ((q * x * x).sum(axis=1) - (q * x).sum(axis=1) ** 2).sum()
    score = (q * x).sum(axis=1) - x[np.arange(200), y]
    assert calibrator.uncertainty_["covariance"][0, 0] == pytest.approx(200 / 199 * score @ score / bend**2)


def test_sandwich_of_pairs_by_hand():
    p, y = drawn(300, 2)
    groups = np.arange(300) // 2
    design = np.column_stack([np.log(p[:, 1] / p[:, 0]), np.ones(300)])
    calibrator = get_calibrator("affine").fit(p, y).fit_intervals(p, y, groups=groups)
    q = calibrator.predict_proba(p)[:, 1]
    bread = np.linalg.inv((design.T * (q * (1 - q))) @ design)
    scores = (design * (q - y)[:, None]).reshape(150, 2, 2).sum(axis=1)
    expected = bread @ (150 / 149 * scores.T @ scores) @ bread
    np.testing.assert_allclose(calibrator.uncertainty_["covariance"], expected, rtol=1e-6)


def test_weight_three_equals_tripled_rows():
    p, y = drawn(100, 3)
    weighted = get_calibrator("sms").fit(p, y, np.full(100, 3.0)).fit_intervals(p, y, np.full(100, 3.0))
    tripled = get_calibrator("sms").fit(np.repeat(p, 3, 0), np.repeat(y, 3))
    tripled.fit_intervals(np.repeat(p, 3, 0), np.repeat(y, 3))
    np.testing.assert_allclose(weighted.predict_interval(p), tripled.predict_interval(p), rtol=1e-5)


def test_a_direction_without_a_penalty_is_as_wide_as_without_any():
    rng = np.random.default_rng(0)
    sample = Sample(np.full((50, 2), 0.5), rng.integers(2, size=50))
    shared = rng.normal(size=(2, 50))
    problem = ArrayProblem(sample.y, np.zeros((2, 50)), shared=shared, first_free=1)
    theta, ridge = np.zeros((1, 2)), np.array([[1e9, 1e9]])
    direction = np.array([[1.0, 2.0]])
    found = coefficient_covariance(problem, theta, ridge, sample, direction)
    slope = direction @ shared
    expected = direction.T @ direction / (0.25 * (slope @ slope.T)[0, 0])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)


def test_bootstrap_agrees_with_the_delta_method():
    p, y = drawn(1000, 2)
    delta = get_calibrator("affine").fit(p, y).fit_intervals(p, y)
    again = get_calibrator("affine").fit(p, y).fit_intervals(p, y, by="bootstrap", n_resamples=300)
    new = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    widths = [np.diff(c.predict_interval(new)[:, 1], axis=1) for c in (delta, again)]
    np.testing.assert_allclose(widths[0], widths[1], rtol=0.2)


def test_bootstrap_quantiles_by_hand():
    p, y = drawn(200, 2)
    calibrator = get_calibrator("isotonic").fit(p, y).fit_intervals(p, y, n_resamples=39)
    refits = calibrator.uncertainty_["refits"]
    said = np.sort([refit.predict_proba(p)[:, 1] for refit in refits], axis=0)
    q = calibrator.predict_proba(p)[:, 1]
    stretch = calibrant.confidence.student_stretch(0.9, 200)
    low = np.clip(np.minimum(q - stretch * (q - said[1]), q), 0, 1)  # the second of 39, 2 / 40 = 5 %
    np.testing.assert_allclose(calibrator.predict_interval(p)[:, 1, 0], low, atol=1e-12)


def test_without_intervals_the_error_says_what_to_call():
    p, y = drawn(60, 2)
    calibrator = get_calibrator("isotonic").fit(p, y)
    with pytest.raises(ValueError, match=r"call fit_intervals\(X, y\) with the rows it was fitted to"):
        calibrator.predict_interval(p)
    assert calibrator.fit_intervals(p, y, n_resamples=5).predict_interval(p).shape == (60, 2, 2)
    calibrator.fit(p, y)
    with pytest.raises(ValueError, match="fit_intervals"):
        calibrator.predict_interval(p)


def test_rows_of_another_fit_are_refused():
    p, y = drawn(60, 2)
    calibrator = get_calibrator("ts").fit(p, y)
    with pytest.raises(ValueError, match="needs the rows of fit"):
        calibrator.fit_intervals(p[:50], y[:50])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": "delta"}, "by='bootstrap'"),
        ({"by": "jackknife"}, "by must be one of auto, delta, bootstrap"),
        ({"n_resamples": 1}, "n_resamples must be at least 2, got 1"),
    ],
)
def test_bad_requests_are_named(arguments, message):
    p, y = drawn(60, 2)
    with pytest.raises(ValueError, match=message):
        get_calibrator("isotonic").fit(p, y).fit_intervals(p, y, **arguments)


@pytest.mark.parametrize("level", [0.0, 1.0, 90, "a"])
def test_levels_lie_between_0_and_1(level):
    p, y = drawn(60, 2)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        get_calibrator("ts").fit(p, y).fit_intervals(p, y).predict_interval(p, level)


def test_six_separable_rows_give_numbers_between_0_and_1():
    p, y = [0.1, 0.2, 0.3, 0.7, 0.8, 0.9], [0, 0, 0, 1, 1, 1]
    calibrator = get_calibrator("ts").fit(p, y).fit_intervals(p, y)
    interval = calibrator.predict_interval([0.5, 0.9])
    np.testing.assert_allclose(interval[0], 0.5)  # a temperature leaves it where it is
    assert np.all((interval >= 0) & (interval <= 1))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"units": 60.0, "covariance": np.eye(2)}, "cannot reshape"),
        ({"units": 60.0, "covariance": np.triu(np.ones((3, 3)))}, "covariance is not symmetric"),
        ({"units": 60.0, "refits": [1, 2]}, "refits should be fitted to 2 classes"),
        ({"units": -1.0, "covariance": np.eye(3)}, "units is -1"),
        ({"units": 60.0}, "uncertainty_ should hold a covariance or refits"),
        ([1], "uncertainty_ should hold a covariance or refits"),
    ],
)
def test_a_changed_uncertainty_is_refused(wrong, message):
    p, y = drawn(60, 2)
    calibrator = get_calibrator("quadratic").fit(p, y).fit_intervals(p, y)
    calibrator.check_state()
    calibrator.uncertainty_ = wrong
    with pytest.raises(ValueError, match=message):
        calibrator.check_state()


def test_a_corrected_calibrator_says_that_it_has_no_intervals():
    p, y = drawn(60, 2)
    adapted = calibrant.adapt(get_calibrator("ts").fit(p, y), prior=[0.9, 0.1])
    with pytest.raises(ValueError, match="of a calibrator without corrections"):
        adapted.fit_intervals(p, y)


@pytest.mark.parametrize("by", ["delta", "bootstrap"])
def test_scores_have_the_intervals_of_the_logits_that_they_become(by):
    rng = np.random.default_rng(0)
    z = rng.normal(size=300)
    y = (rng.random(300) < 1 / (1 + np.exp(-z))).astype(int)
    scores = 600 - 40 * z
    options = {"by": by, "n_resamples": 20}
    scored = get_calibrator("affine", input="scores").fit(scores, y).fit_intervals(scores, y, **options)
    logits = scored.score_factor_ * scores + scored.score_shift_
    plain = get_calibrator("affine", input="logits").fit(logits, y).fit_intervals(logits, y, **options)
    np.testing.assert_allclose(scored.predict_interval(scores), plain.predict_interval(logits), rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "k"),
    [(name, k) for name in ("ts", "svs", "sms", "dirichlet") for k in (2, 3)]
    + [("ts-unsmoothed", 3), ("affine", 2), ("quadratic", 2), ("beta", 2), ("platt", 2), ("platt-logits", 2)],
)
def test_steps_of_intervals_give_what_predict_interval_gives(name, k):
    p, y = drawn(120, k)
    calibrator = get_calibrator(name).fit(p, y).fit_intervals(p, y)
    ends = run(calibrator.interval_steps(0.8), p.copy()).reshape(len(p), 2, k).transpose(0, 2, 1)
    np.testing.assert_allclose(ends, calibrator.predict_interval(p, 0.8), rtol=1e-5, atol=1e-9)
