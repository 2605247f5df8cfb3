"""What adapted and segmented calibrators say of themselves, and when: nothing is fitted."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from calibrant import adapt, get_calibrator
from calibrant.deployment import AdaptedCalibrator
from calibrant.deployment.segments.segmented import SegmentedCalibrator, worst_segments
from calibrant.sample import Sample


def segmented(**given):
    """A fitted calibrator by region without any correction, but for what is given."""
    plain = {
        "segment_columns_": {"region": np.array(["north", "west"])},
        "crossed": False,
        "fitted_to_": "90 rows",
        "class_counts_": np.array([40.0, 50.0]),
        "strength_": np.inf,
        "intercept_": np.zeros((2, 2)),
        "tree_features_": np.empty((0, 3)),
        "classes_": np.array(["no", "yes"]),
    }
    return SimpleNamespace(**{**plain, **given})


GAIN = {
    "gain_": 0.05,
    "gain_error_": 0.01,
    "errors_": [("region", 0.2)],
    "worst_": [(0.001, "region = west", 1200, 1, 0.3, 0.5, 0.31)],
}
START = "SegmentedCalibrator, fitted to 90 rows by region"


@pytest.mark.parametrize(
    ("given", "first"),
    [
        (
            {},
            f"{START}: no correction of the global map, since there is only one segment, or too few rows.",
        ),
        (
            {**GAIN, "gain_": 0.0},
            f"{START}: no correction of the global map, since no correction gains more than chance on held-out rows.",
        ),
        ({**GAIN, "strength_": 3.0, "intercept_": np.eye(2)}, f"{START}: 2 levels, ridge of strength 3."),
        ({**GAIN, "tree_features_": np.zeros((4, 3))}, f"{START}: 4 small trees."),
        (
            {**GAIN, "strength_": 3.0, "tree_features_": np.zeros((4, 3)), "crossed": True},
            f"{START} (crossed): 0 levels, ridge of strength 3 and 4 small trees.",
        ),
    ],
)
def test_segments_in_words(given, first):
    lines = SegmentedCalibrator.summary(segmented(**given)).splitlines()
    assert lines[0] == first
    if "no correction" in first:
        assert len(lines) == 1
    else:
        assert lines[1:] == [
            "On held-out rows it saves 0.0500 of log loss, with a standard error of 0.0100.",
            "The global map has a multicalibration error of 0.2000 by region.",
            "Segments where the global map is most clearly wrong:",
            "region = west (1,200 rows): yes 30.0% observed, 50.0% by the global map, 31.0% now",
        ]


def test_a_file_of_version_0_2_tells_its_observations():
    old = segmented()
    del old.fitted_to_
    assert SegmentedCalibrator.summary(old).startswith("SegmentedCalibrator, fitted to 90 rows by region")


def test_what_a_segment_gets_wrong_is_as_sure_as_its_groups():
    rng = np.random.default_rng(0)
    p, west = np.full(60, 0.5), np.arange(60) % 2
    y = (rng.random(60) < np.where(west, 0.2, 0.5)).astype(int)
    rows = np.repeat(np.arange(60), 20)
    columns, levels = {"region": np.array(["north", "west"])}, west[:, None]
    found = []
    for taken, groups in ((np.arange(60), None), (rows, rows), (rows, None)):
        data = Sample(np.column_stack([1 - p, p])[taken], y[taken], groups=groups)
        found.append(worst_segments(data, data, levels[taken], columns)[1][0][0])
    alone, grouped, copied = found
    assert copied < 1e-6 * alone
    assert 0.1 * alone < grouped < 10 * alone


def adapted(**given):
    shares = np.array([0.5, 0.5])
    plain = {"classes_": np.array(["no", "yes"]), "source_prior_": shares, "prior_": np.array([0.9, 0.1])}
    return AdaptedCalibrator.summary(SimpleNamespace(method_="given", **{**plain, **given}))


def test_given_frequencies():
    assert adapted().splitlines() == [
        "Adapted to the class frequencies given:",
        "yes: 50.0% at calibration, 10.0% now",
        "no: 50.0% at calibration, 90.0% now",
    ]


@pytest.mark.parametrize(
    ("method", "rows", "words"),
    [
        (
            "em",
            {"unlabelled_": "300 rows in 30 groups"},
            "from 300 rows in 30 groups by maximum likelihood, with 90% intervals, if groups are independent and the",
        ),
        (
            "bbse",
            {"n_unlabelled_": 1},  # what version 0.2 stored
            "from 1 row by inverting the confusion of labelled rows, with 90% intervals, if rows are independent and "
            "the",
        ),
    ],
)
def test_estimated_frequencies(method, rows, words):
    one = SimpleNamespace(
        classes_=np.array(["no", "yes"]),
        source_prior_=np.array([0.5, 0.5]),
        prior_=np.array([0.9, 0.1]),
        method_=method,
        level_=0.9,
        interval_=np.array([[0.8, 0.95], [0.05, 0.2]]),
        n_unlabelled_=rows.get("n_unlabelled_", 300),
        **{name: value for name, value in rows.items() if name == "unlabelled_"},
    )
    first, yes, _ = AdaptedCalibrator.summary(one).splitlines()
    assert first == f"Adapted to class frequencies estimated without labels {words} calibrator is right:"
    assert yes == "yes: 50.0% at calibration, 10.0% now (5.0% to 20.0%)"


@pytest.mark.filterwarnings("ignore::calibrant.inputs.words.CalibrationWarning")
@pytest.mark.parametrize("method", ["em", "bbse"])
def test_an_estimate_at_an_end_of_its_interval_was_drawn_there(method):
    rng = np.random.default_rng(0)
    p = rng.random(400)
    y = (rng.random(400) < p).astype(int)
    said = [
        adapt(get_calibrator("none").fit(p, y), unlabelled=now, method=method, labelled=(p, y)).summary()
        for now in (p[:300], np.full(100, 0.999))
    ]
    assert ["Estimates are drawn towards the frequencies at calibration" in text for text in said] == [False, True]


def test_of_many_classes_those_that_changed_most_are_named():
    k = 13
    now = np.full(k, 1.0)
    now[7] = 5.0
    lines = adapted(classes_=np.arange(k), source_prior_=np.full(k, 1 / k), prior_=now / now.sum()).splitlines()
    assert lines[1].startswith("7: 7.7% at calibration, 29.4% now")
    assert len(lines) == 12
    assert lines[-1] == "and 3 classes that changed less"
