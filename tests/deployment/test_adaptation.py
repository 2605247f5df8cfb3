from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

import calibrant
from calibrant import (
    CalibratedClassifier,
    CalibrationMonitor,
    CalibrationWarning,
    SegmentedCalibrator,
    get_calibrator,
    runtime,
)
from calibrant.deployment import AdaptedCalibrator, adapt
from calibrant.deployment.prior_estimation import bbse_shares, em_shares, soft_confusion
from calibrant.steps.map_documents import canonical, checksum
from tests.samples import calibrated, draw_labels, sharpened


def shifted(p, y, prior, n, seed=0):
    """Rows drawn so that classes occur as in `prior`."""
    rng = np.random.default_rng(seed)
    rows = [rng.choice(np.flatnonzero(y == j), round(n * share)) for j, share in enumerate(prior)]
    return np.concatenate(rows)


def posterior(x, prior):
    """Of two normal distributions with means -1 and 1."""
    density = prior * norm.pdf(x[:, None], loc=[-1.0, 1.0])
    return density / density.sum(axis=1, keepdims=True)


def test_one_number_is_the_share_of_the_second_class():
    p, y = [0.1, 0.2, 0.6, 0.9, 0.7], ["no", "yes", "no", "yes", "yes"]
    fitted = get_calibrator("ts").fit(p, y)
    for prior in (0.02, np.float32(0.02), np.array(0.02)):
        adapted = adapt(fitted, prior=prior)
        assert adapted.prior_ == pytest.approx([0.98, 0.02])
        expected = adapt(fitted, prior={"no": 0.98, "yes": 0.02}).predict_proba(p)
        np.testing.assert_allclose(adapted.predict_proba(p), expected, rtol=1e-6)
    np.testing.assert_allclose(AdaptedCalibrator("ts", 0.02).fit(p, y).prior_, [0.98, 0.02])
    with pytest.raises(ValueError, match="one number, but there are 3 classes: give each a share"):
        adapt(get_calibrator("ts").fit(np.eye(3), [0, 1, 2]), prior=0.02)
    for wrong in (0.0, 1.0, 1.5, -0.1):
        with pytest.raises(ValueError, match="share"):
            adapt(fitted, prior=wrong)
    with pytest.raises(ValueError, match="prior"):
        adapt(fitted, prior=True)
    for prior, message in (
        ({"no": 1.5, "yes": 0.5}, "'no' the share 1.5: shares lie between 0 and 1"),
        ({"no": 1.0, "yes": 1e-9}, "'no' the share 1: shares lie between 0 and 1"),
        ({"no": 1.0, "yes": 0.0}, "'no' the share 1"),
        ({"no": 0.5, "yes": 1e-31}, "'yes' the share 1e-31"),
        ([0.4, 0.5], r"The shares in prior sum to 0\.9, not to 1"),
        ([0.5, 0.3, 0.2], r"prior has shape \(3,\), expected \(2,\)"),
        (["a", "b"], "prior holds something other than numbers"),
        ({"no": 0.5}, "prior lacks the class 'yes'"),
        ({"no": 0.5, "maybe": 0.5}, "prior names the class 'maybe'"),
    ):
        with pytest.raises(ValueError, match=message):
            adapt(fitted, prior=prior)
    # Three decimals of a few classes may miss one by a little, and are scaled.
    assert adapt(fitted, prior=[0.333, 0.666]).prior_ == pytest.approx([1 / 3, 2 / 3])


def test_a_known_prior_gives_the_posterior_of_that_prior():
    x = np.linspace(-3, 3, 13)
    half = get_calibrator("none").fit(posterior(x, np.array([0.5, 0.5])), np.arange(13) % 2)
    adapted = adapt(half, prior=[0.98, 0.02], source=[0.5, 0.5])
    found = adapted.predict_proba(posterior(x, np.array([0.5, 0.5])))
    np.testing.assert_allclose(found, posterior(x, np.array([0.98, 0.02])), rtol=1e-12)


def test_fitting_and_adapting_is_the_same_as_adapting_what_was_fitted():
    p, y = sharpened(300, 3)
    prior = {0: 0.7, 1: 0.2, 2: 0.1}
    both = AdaptedCalibrator("ts", prior).fit(p, y).predict_proba(p)
    np.testing.assert_array_equal(both, adapt(get_calibrator("ts").fit(p, y), prior=prior).predict_proba(p))


def test_the_shares_of_the_calibration_data_change_nothing():
    p, y = sharpened(300, 3)
    ts = get_calibrator("ts").fit(p, y)
    unchanged = adapt(ts, prior=np.bincount(y) / len(y)).predict_proba(p)
    np.testing.assert_allclose(unchanged, ts.predict_proba(p), rtol=1e-13)
    assert AdaptedCalibrator("ts").fit(p, y).predict_proba(p).shape == p.shape


def test_maximum_likelihood_reaches_the_optimum_of_another_solver():
    p, _ = calibrated(400, 4, seed=1)
    source = np.array([0.4, 0.3, 0.2, 0.1])

    def negative(q):
        return -(np.log(p @ (q / source)).sum() + 4 * source @ np.log(q))

    reference = softmax(minimize(lambda b: negative(softmax(b)), np.zeros(4), method="Nelder-Mead", tol=1e-10).x)
    found = em_shares(p, source)
    assert negative(found) <= negative(reference) + 1e-4
    np.testing.assert_allclose(found, reference, atol=1e-3)
    counts = np.random.default_rng(0).integers(0, 3, len(p)).astype(float)
    np.testing.assert_allclose(
        em_shares(p, source, counts), em_shares(np.repeat(p, counts.astype(int), axis=0), source), atol=1e-9
    )


def test_the_inverted_confusion_is_the_solution_of_the_linear_system_where_rows_are_many():
    p, y = calibrated(2000, 3)
    confusion = soft_confusion(p, y)
    np.testing.assert_allclose(confusion.sum(axis=0), np.bincount(y) / len(y))
    mean = p[shifted(p, y, [0.6, 0.3, 0.1], 1000)].mean(axis=0)
    expected = np.linalg.solve(confusion / confusion.sum(axis=0), mean)
    np.testing.assert_allclose(bbse_shares(confusion, mean, 10**9, 10**9), expected, atol=1e-6)


def test_an_ill_conditioned_confusion_stays_near_the_shares_of_the_calibration():
    rng = np.random.default_rng(0)
    p = 0.25 + 1e-4 * rng.normal(size=(200, 4))
    p /= p.sum(axis=1, keepdims=True)
    shares = bbse_shares(soft_confusion(p, np.arange(200) % 4), p[:50].mean(axis=0), 200, 50)
    np.testing.assert_allclose(shares, 0.25, atol=0.01)


@pytest.mark.parametrize("method", ["em", "bbse"])
def test_shifted_frequencies_are_found_and_log_loss_falls(method):
    p, y = sharpened(9000, 4)
    cal = get_calibrator("ts").fit(p[:3000], y[:3000])
    prior = np.array([0.6, 0.25, 0.1, 0.05])
    rows = shifted(p[3000:], y[3000:], prior, 2000)
    p_now, y_now = p[3000:][rows], y[3000:][rows]
    labelled = (p[:3000], y[:3000])
    adapted = adapt(cal, unlabelled=p_now, method=method, labelled=labelled)
    assert np.abs(adapted.prior_ - prior).sum() < 0.1
    assert np.all((adapted.interval_[:, 0] < prior) & (prior < adapted.interval_[:, 1]))
    losses = [-np.log(c.predict_proba(p_now)[np.arange(len(y_now)), y_now]).mean() for c in (cal, adapted)]
    assert losses[1] < losses[0] - 0.1
    again = adapt(adapted, unlabelled=p_now, method=method, labelled=labelled)
    np.testing.assert_array_equal(again.prior_, adapted.prior_)
    assert "estimated without labels from 2,000 rows by" in adapted.summary()


def test_intervals_cover_as_often_as_they_say():
    p, y = calibrated(4000, 3, seed=3)
    prior = np.array([0.7, 0.2, 0.1])
    hits = []
    for seed in range(25):
        rows = np.random.default_rng(seed).permutation(4000)
        cal = get_calibrator("none").fit(p[rows[:1000]], y[rows[:1000]])
        now = rows[1000:][shifted(p[rows[1000:]], y[rows[1000:]], prior, 300, seed)]
        low, high = adapt(cal, unlabelled=p[now], level=0.8).interval_.T
        hits.append((low <= prior) & (prior <= high))
    assert 0.65 < np.mean(hits) < 0.95


def test_stored_and_exported_it_predicts_the_same(tmp_path):
    p, y = sharpened(300, 3)
    cal = get_calibrator("sms", classes=np.array(["a", "b", "c"])).fit(p, np.array(["a", "b", "c"])[y])
    adapted = adapt(cal, unlabelled=p[shifted(p, y, [0.7, 0.2, 0.1], 150)])
    expected = adapted.predict_proba(p)
    calibrant.save(adapted, tmp_path / "new.json")
    loaded = calibrant.load(tmp_path / "new.json")
    np.testing.assert_array_equal(loaded.predict_proba(p), expected)
    np.testing.assert_array_equal(runtime.load(tmp_path / "new.json").predict_proba(p), expected)
    np.testing.assert_array_equal(loaded.interval_, adapted.interval_)
    assert loaded.summary() == adapted.summary()
    scope = {}
    exec(calibrant.export(adapted, to="python"), scope)
    np.testing.assert_allclose(scope["calibrate"](p[0].tolist()), expected[0], rtol=1e-12)


def test_an_estimate_that_may_as_well_be_no_change_is_warned_of():
    # Predictions that hardly tell the classes apart: estimates are far off, as chance has it, and so are resamples.
    p = np.random.default_rng(3).dirichlet(np.full(3, 200.0), size=400)
    calibrator = get_calibrator("none").fit(p, np.arange(400) % 3)
    seen = 0
    for seed in range(5):
        rows = p[np.random.default_rng(seed).integers(0, 400, 200)]
        with pytest.warns(CalibrationWarning, match="too uncertain to adapt to") as told:
            adapted = adapt(calibrator, unlabelled=rows)
        inside = (adapted.interval_[:, 0] <= 1 / 3 + 2e-3) & (adapted.interval_[:, 1] >= 1 / 3 - 2e-3)
        held = "the intervals contain the frequencies at calibration" in str(told[0].message)
        assert held == bool(inside.all())
        seen += held
    assert seen


def test_a_file_with_impossible_shares_is_refused(tmp_path):
    p, y = sharpened(100, 2)
    path = tmp_path / "new.json"
    calibrant.save(adapt(get_calibrator("ts").fit(p, y), prior=[0.9, 0.1]), path)
    document = json.loads(path.read_text())
    document["content"]["state"]["prior_"]["data"] = [1.0, 0.0]
    document["sha256"] = checksum(canonical(document["content"]))
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="prior_ holds numbers outside"):
        calibrant.load(path)


def test_too_few_rows_are_warned_of():
    p, y = sharpened(500, 5)
    cal = get_calibrator("ts").fit(p, y)
    with pytest.warns(CalibrationWarning, match="too uncertain to adapt to"):
        adapt(cal, unlabelled=p[:15])


def test_predictions_of_no_mixture_are_warned_of():
    p, y = calibrated(2000, 3)
    cal = get_calibrator("ts").fit(p, y)
    bold = p**2 / (p**2).sum(axis=1, keepdims=True)
    with pytest.warns(CalibrationWarning, match="No mixture of the classes"):
        adapt(cal, unlabelled=bold, labelled=(p, y))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either prior="),
        ({"prior": [0.5, 0.5], "unlabelled": [[0.5, 0.5]]}, "either prior="),
        ({"prior": [0.5, 0.6]}, "sum to 1.1, not to 1"),
        ({"prior": {"no": 0.5, "maybe": 0.5}}, "'maybe', which is not one of"),
        ({"prior": {"no": 1.0}}, "lacks the class 'yes'"),
        ({"prior": [1.0, 0.0]}, "share 1: shares lie|the share 0"),
        ({"prior": {"no": 0.0, "yes": 1.0}}, "'no' the share 0, but the calibrator predicts it"),
        ({"prior": [0.2, 0.3, 0.5]}, r"shape \(3,\)"),
        ({"unlabelled": [[0.5, 0.5]], "method": "magic"}, "method='magic' is not one of 'em', 'bbse'"),
        ({"unlabelled": [[0.5, 0.5]], "method": "bbse"}, "needs labelled="),
        (
            {"unlabelled": [[0.5, 0.5]], "labelled": ([[0.5, 0.5]], ["huh"])},
            "label 'huh', which is not a class of the calibrator",
        ),
        ({"unlabelled": [[0.2, 0.3, 0.5]]}, "3 features"),
    ],
)
def test_bad_input_is_explained(options, message):
    cal = get_calibrator("ts").fit([0.1, 0.6, 0.9, 0.8], ["no", "no", "yes", "yes"])
    with pytest.raises(ValueError, match=message):
        adapt(cal, **options)


def test_calibrators_that_cannot_be_adapted_say_why():
    with pytest.raises(TypeError, match="A fitted calibrator is needed, got str"):
        adapt("ts", prior=[0.5, 0.5])
    cal = get_calibrator("ts").fit([0.1, 0.6, 0.9, 0.8], [0, 0, 1, 1])
    del cal.class_counts_
    with pytest.raises(ValueError, match="Pass source="):
        adapt(cal, prior=[0.5, 0.5])
    one_sided = get_calibrator("ts", classes=[0, 1, 2]).fit(*calibrated(20, 3)).set_params()
    one_sided.class_counts_ = np.array([10.0, 10.0, 0.0])
    with pytest.raises(ValueError, match="No calibration row has the label 2"):
        adapt(one_sided, prior=[0.4, 0.4, 0.2])


def test_a_segmented_calibrator_keeps_its_segments(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 1500)
    frame = {"region": rng.choice(["north", "west"], 1500), "age": rng.integers(18, 80, 1500)}
    truth = np.where((frame["region"] == "west")[:, None], p[:, ::-1], p)
    y = draw_labels(truth, rng)
    base = SegmentedCalibrator("ts").fit(p, y, segments=frame)
    prior = np.array([0.7, 0.2, 0.1])
    adapted = adapt(base, prior=prior)
    expected = base.predict_proba(p, segments=frame) * prior * len(y) / np.bincount(y)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(adapted.predict_proba(p, segments=frame), expected, rtol=1e-12)
    np.testing.assert_array_equal(adapted.predict(p, segments=frame), expected.argmax(axis=1))
    calibrant.save(adapted, tmp_path / "adapted.json")
    again = calibrant.load(tmp_path / "adapted.json")
    np.testing.assert_array_equal(again.predict_proba(p, segments=frame), adapted.predict_proba(p, segments=frame))
    few = shifted(p, y, prior, 1000)
    found = adapt(
        again, unlabelled=p[few], labelled=(p, y, frame), segments={name: values[few] for name, values in frame.items()}
    )
    np.testing.assert_allclose(found.prior_, prior, atol=0.06)
    with pytest.raises(ValueError, match=r"needs segments=.*\(region, age\)"):
        adapt(base, unlabelled=p)
    with pytest.raises(ValueError, match="labelled should be a tuple"):
        adapt(base, prior=prior, labelled=p)
    np.testing.assert_allclose(adapted.to_map().predict_proba(p, segments=frame), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="fitted without segments"):
        adapt(get_calibrator("ts").fit(p, y), prior=prior).predict_proba(p, segments=frame)


@pytest.mark.parametrize("ensemble", ["auto", True, False])
def test_a_classifier_is_adapted_as_a_whole(ensemble):
    rng = np.random.default_rng(0)
    y = np.array(["no", "yes"])[(rng.random(4000) < 0.5).astype(int)]
    x = rng.normal(size=4000) + np.where(y == "yes", 1.0, -1.0)
    model = CalibratedClassifier(LogisticRegression(), method="ts", cv=3, ensemble=ensemble).fit(x[:, None], y)
    grid = np.linspace(-3, 3, 13)
    before = model.predict_proba(grid[:, None])
    known = adapt(model, prior={"no": 0.9, "yes": 0.1})
    np.testing.assert_allclose(known.predict_proba(grid[:, None]), posterior(grid, np.array([0.9, 0.1])), atol=0.03)
    rare = np.flatnonzero((y == "no") | (rng.random(4000) < 1 / 9))
    found = adapt(known, unlabelled=x[rare, None], labelled=(x[:, None], y))
    np.testing.assert_allclose(found.calibrators_[0].prior_, [0.9, 0.1], atol=0.02)
    np.testing.assert_array_equal(model.predict_proba(grid[:, None]), before)  # the model itself is left alone
    with pytest.raises(TypeError, match=r"Use one of its calibrators_"):
        CalibrationMonitor(model)


def test_a_series_names_its_classes():
    p, y = sharpened(300, 3)
    ts = get_calibrator("ts").fit(p, y)
    shares = pd.Series({2: 0.1, 0: 0.7, 1: 0.2})  # as value_counts(normalize=True) gives them, in its own order
    np.testing.assert_allclose(adapt(ts, prior=shares).prior_, [0.7, 0.2, 0.1])


def test_a_single_row_is_too_little():
    p, y = sharpened(300, 3)
    with pytest.warns(CalibrationWarning, match="estimated from 1 row are too uncertain"):
        adapt(get_calibrator("ts").fit(p, y), unlabelled=p[:1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 2}, "level must lie between 0 and 1, got 2"),
        ({"level": "x"}, "level must lie between 0 and 1, got 'x'"),
        ({"prior": {0: "x", 1: 0.5, 2: 0.2}, "unlabelled": None}, "prior holds something other than numbers"),
        ({"prior": [1e-40, 0.5, 0.5], "unlabelled": None}, "the share 1e-40: shares lie between 0 and 1"),
    ],
)
def test_options_that_cannot_be(options, message):
    p, y = sharpened(300, 3)
    with pytest.raises(ValueError, match=message):
        adapt(get_calibrator("ts").fit(p, y), **{"unlabelled": p, **options})


def mixture(n, prior, seed, size=1):
    """Posteriors of two normal classes for equal shares, drawn with the shares `prior`; `size` rows share a class."""
    rng = np.random.default_rng(seed)
    y = np.repeat(rng.random(n // size) < prior[1], size)
    return posterior(rng.normal(size=len(y)) + np.where(y, 1.0, -1.0), np.array([0.5, 0.5])), y.astype(int)


def test_counts_equal_copies_and_groups_widen():
    p, y = mixture(600, [0.5, 0.5], 0)
    cal = get_calibrator("none").fit(p, y)
    now, _ = mixture(400, [0.8, 0.2], 1)
    counts = np.random.default_rng(2).integers(0, 4, 400)
    copies = np.repeat(np.arange(400), counts)
    for method in ("em", "bbse"):
        weighted = adapt(cal, unlabelled=now, sample_weight=counts, method=method, labelled={"P": p, "y": y})
        repeated = adapt(cal, unlabelled=now[copies], method=method, labelled=(p, y))
        np.testing.assert_allclose(weighted.prior_, repeated.prior_, atol=1e-6)
        np.testing.assert_allclose(weighted.interval_, repeated.interval_, atol=1e-5)
    assert f"from {np.count_nonzero(counts)} rows, {counts.sum()} observations by" in weighted.summary()
    assert "if rows are independent and the calibrator is right" in weighted.summary()
    together = adapt(cal, unlabelled=np.repeat(now, 10, axis=0), blocks=10)
    apart = adapt(cal, unlabelled=now)
    widths = [np.ptp(adapted.interval_, axis=1) for adapted in (together, apart)]
    np.testing.assert_allclose(*widths, rtol=0.1)
    assert "4,000 rows in 400 groups" in together.summary()
    assert "if groups are independent" in together.summary()


@pytest.mark.parametrize("size", [1, 10])
def test_intervals_of_a_rare_class_cover(size):
    # Far fewer rows of the class than the pull towards the shares at calibration counts for.
    prior, hits = np.array([0.98, 0.02]), 0
    cal = get_calibrator("none").fit(*mixture(3000, [0.5, 0.5], 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        for seed in range(100):
            low, high = adapt(cal, unlabelled=mixture(200, prior, seed + 1, size)[0], blocks=size).interval_[1]
            hits += low <= 0.02 <= high
    assert hits >= 88


def test_where_nothing_is_known_the_interval_says_so():
    cal = get_calibrator("none").fit(*mixture(60, [0.5, 0.5], 0))
    with pytest.warns(CalibrationWarning, match="too uncertain to adapt to"):
        adapted = adapt(cal, unlabelled=np.full((50, 2), 0.5))
    np.testing.assert_allclose(adapted.interval_, [[0.0, 1.0], [0.0, 1.0]], atol=1e-6)
    with pytest.warns(CalibrationWarning, match="estimated from 300 rows in 1 group are too uncertain"):
        adapted = adapt(cal, unlabelled=mixture(300, [0.5, 0.5], 1)[0], groups=["a"] * 300)
    assert np.ptp(adapted.interval_, axis=1).min() > 0.9
