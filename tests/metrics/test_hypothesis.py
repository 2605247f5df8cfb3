"""The test of calibration: its size under the hypothesis, its power, and its null distribution in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from calibrant.metrics import calibration_test
from calibrant.metrics.hypothesis import ScoreResiduals, few_groups
from calibrant.random_numbers import LabelSampler
from calibrant.sample import Sample

STATISTICS = ["kuiper", "kolmogorov_smirnov", "ece", "smooth_ece", "temperature", "score", "omnibus"]


def calibrated(rng: np.random.Generator, n_rows: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    p = rng.dirichlet(np.full(n_classes, 0.7), size=n_rows)
    return LabelSampler(p).draw(rng), p


@pytest.mark.parametrize(
    ("n_classes", "statistic"),
    [
        *((k, name) for k in (2, 4) for name in STATISTICS if name != "smooth_ece"),
        (2, "smooth_ece"),
        pytest.param(4, "smooth_ece", marks=pytest.mark.slow),
    ],
)
def test_p_values_are_uniform_for_calibrated_predictions(statistic: str, n_classes: int) -> None:
    rng = np.random.default_rng(7)
    runs, draws = (40 if statistic == "smooth_ece" else 100), 19
    values = []
    for run in range(runs):
        y, p = calibrated(rng, 60, n_classes)
        values.append(calibration_test(y, p, statistic, n_resamples=draws, random_state=run, n_bins=5).p_value)  # type: ignore[arg-type]
    rejected = np.mean(np.array(values) <= 0.1)
    assert rejected <= 0.1 + 3 * np.sqrt(0.09 / runs)
    assert kstest(values, "uniform").pvalue > 1e-3


def test_class_wise_size() -> None:
    rng = np.random.default_rng(8)
    values = []
    for run in range(100):
        y, p = calibrated(rng, 50, 3)
        values.append(calibration_test(y, p, kind="class-wise", n_resamples=19, random_state=run).p_value)
    assert kstest(values, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("statistic", STATISTICS)
def test_overconfidence_is_found(statistic: str) -> None:
    rng = np.random.default_rng(9)
    y, p = calibrated(rng, 400, 3)
    sharp = p**2.5 / (p**2.5).sum(axis=1, keepdims=True)
    result = calibration_test(y, sharp, statistic, n_resamples=99)  # type: ignore[arg-type]
    assert result.p_value == pytest.approx(1 / 100)
    assert result.name == statistic
    if statistic == "kuiper":
        assert calibration_test(y, sharp, n_resamples=99, kind="class-wise").p_value == pytest.approx(1 / 100)


def test_score_statistic_is_chi_square_in_large_samples() -> None:
    rng = np.random.default_rng(10)
    p = rng.dirichlet(np.full(4, 2.0), size=1000)
    values = []
    for _ in range(150):
        y = LabelSampler(p).draw(rng)
        values.append(calibration_test(y, p, "score", n_resamples=1).statistic)
    # Three free intercepts and a temperature.
    assert kstest(values, chi2(4).cdf).pvalue > 1e-3


def test_score_of_two_classes_is_coxs() -> None:
    rng = np.random.default_rng(11)
    p = rng.uniform(0.05, 0.95, 300)
    y = (rng.random(300) < p).astype(int)
    x = np.column_stack([np.ones(300), np.log(p / (1 - p))])
    gradient = x.T @ (y - p)
    information = (x * (p * (1 - p))[:, None]).T @ x
    theirs = gradient @ np.linalg.solve(information, gradient)
    assert calibration_test(y, p, "score", n_resamples=1).statistic == pytest.approx(theirs, rel=1e-8)


def test_omnibus_finds_a_wrong_temperature_among_many_classes_and_wrong_frequencies() -> None:
    rng = np.random.default_rng(12)
    p = rng.dirichlet(np.full(300, 0.02), size=500)
    y = LabelSampler(p).draw(rng)
    timid = p**0.8 / (p**0.8).sum(axis=1, keepdims=True)
    assert calibration_test(y, timid, "score", n_resamples=99, classes=range(300)).p_value > 0.05  # not enough
    assert calibration_test(y, timid, "omnibus", n_resamples=99, classes=range(300)).p_value == pytest.approx(0.01)
    y, p = calibrated(rng, 500, 4)
    shifted = p * np.array([2.0, 1, 1, 1]) / (p * np.array([2.0, 1, 1, 1])).sum(axis=1, keepdims=True)
    assert calibration_test(y, shifted, "omnibus", n_resamples=99).p_value == pytest.approx(0.01)


def test_omnibus_is_the_larger_of_both_in_standard_deviations() -> None:
    y, p = calibrated(np.random.default_rng(15), 300, 4)
    shifted = p * np.array([1.5, 1, 1, 1]) / (p * np.array([1.5, 1, 1, 1])).sum(axis=1, keepdims=True)
    temperature, score, both = (
        calibration_test(y, shifted, name, n_resamples=1).statistic for name in ("temperature", "score", "omnibus")
    )
    # Of χ² variables: one degree of freedom, and four, of three free intercepts and the temperature.
    assert (score - 4) / 8**0.5 > (temperature - 1) / 2**0.5
    assert both == pytest.approx((score - 4) / 8**0.5)


def test_omnibus_rejects_what_was_ruled_out() -> None:
    rng = np.random.default_rng(14)
    p = np.append(rng.uniform(0.1, 0.9, 400), 0.0)
    y = (rng.random(401) < p).astype(int)
    assert calibration_test(y, p, "omnibus", n_resamples=99).p_value > 0.05
    y[-1] = 1  # had probability zero
    assert calibration_test(y, p, "omnibus", n_resamples=99).p_value == pytest.approx(0.01)
    alone = np.append(np.ones(400), 0.0)  # without a weight it is no row
    assert calibration_test(y, p, "omnibus", n_resamples=99, sample_weight=alone).p_value > 0.05


def test_temperature_statistic_is_a_squared_standard_score() -> None:
    rng = np.random.default_rng(13)
    p = rng.dirichlet(np.full(5, 2.0), size=1000)
    values = [
        calibration_test(LabelSampler(p).draw(rng), p, "temperature", n_resamples=1).statistic for _ in range(150)
    ]
    assert kstest(values, chi2(1).cdf).pvalue > 1e-3


def test_overconfidence_in_many_rare_classes_is_found() -> None:
    rng = np.random.default_rng(14)
    y, p = calibrated(rng, 300, 200)
    sharp = p**1.6 / (p**1.6).sum(axis=1, keepdims=True)
    assert calibration_test(y, sharp, "temperature", n_resamples=99).p_value == 0.01


def test_sampler_draws_the_given_distribution() -> None:
    rng = np.random.default_rng(12)
    p = np.tile([0.2, 0.0, 0.5, 0.3, 0.0], (20_000, 1))
    counts = np.bincount(LabelSampler(p).draw(rng), minlength=5)
    assert counts[1] == counts[4] == 0
    np.testing.assert_allclose(counts / 20_000, p[0], atol=0.01)
    # Different rows, each with its own distribution.
    mixed = rng.dirichlet(np.full(3, 0.3), size=4)
    drawn = LabelSampler(np.repeat(mixed, 20_000, axis=0)).draw(rng).reshape(4, -1)
    for row, expected in zip(drawn, mixed):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / 20_000, expected, atol=0.015)


def test_data_and_draws_do_not_share_random_numbers() -> None:
    p = np.random.default_rng(0).random(1000)
    y = (np.random.default_rng(1).random(1000) < p).astype(int)
    assert calibration_test(y, p**2, n_resamples=99, random_state=0).p_value == 0.01


def test_weights_and_certain_predictions() -> None:
    y, p = [0, 1, 1], [0.0, 1.0, 1.0]
    assert calibration_test(y, p, n_resamples=9).p_value == 1.0
    assert calibration_test([1, 1, 1], p, n_resamples=9, sample_weight=[0, 1, 1]).p_value == 1.0
    assert calibration_test([1, 1, 1], p, n_resamples=9).p_value == 0.1
    with pytest.raises(ValueError, match="statistic must be"):
        calibration_test(y, p, "hosmer")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_resamples"):
        calibration_test(y, p, n_resamples=0)


@pytest.mark.parametrize(
    ("statistic", "kind"),
    [*((name, "auto") for name in STATISTICS), *((name, "class-wise") for name in STATISTICS[:4])],
)
def test_weights_are_copies_and_votes_are_rows(statistic: str, kind: str) -> None:
    rng = np.random.default_rng(15)
    y, p = calibrated(rng, 120, 3)
    p = p**1.25 / (p**1.25).sum(axis=1, keepdims=True)
    weight = rng.integers(0, 4, 120)
    options = {"statistic": statistic, "kind": kind, "n_resamples": 49 if statistic == "smooth_ece" else 399}
    one = calibration_test(y, p, sample_weight=weight, **options)
    many = calibration_test(np.repeat(y, weight), np.repeat(p, weight, axis=0), **options)
    assert one.statistic == pytest.approx(many.statistic, rel=1e-9)
    assert one.p_value == pytest.approx(many.p_value, abs=5 * np.sqrt(0.5 / (options["n_resamples"] + 1)) / 2)
    votes = np.zeros((120, 3))
    votes[np.arange(120), y] = weight
    once = calibration_test(votes, p, **options | {"n_resamples": 1})
    assert once.statistic == pytest.approx(many.statistic, rel=1e-9)


def test_weights_make_evidence() -> None:
    rng = np.random.default_rng(16)
    p = rng.random(150)
    y = (rng.random(150) < p * 0.87).astype(int)
    nine = np.full(150, 9)
    assert calibration_test(y, p, sample_weight=nine).p_value < 0.02
    assert calibration_test(np.repeat(y, 9), np.repeat(p, 9)).p_value < 0.02
    # Copies that are known to be copies are no evidence.
    copies = calibration_test(np.repeat(y, 9), np.repeat(p, 9), blocks=9).p_value
    assert copies == pytest.approx(calibration_test(y, p).p_value, abs=0.1)


@pytest.mark.parametrize(
    ("rare", "statistic"),
    [
        *((False, name) for name in STATISTICS if name != "smooth_ece"),
        *((True, name) for name in ("kuiper", "ece", "score")),
        pytest.param(True, "kolmogorov_smirnov", marks=pytest.mark.slow),
        pytest.param(True, "temperature", marks=pytest.mark.slow),
        pytest.param(True, "omnibus", marks=pytest.mark.slow),
    ],
)
def test_dependent_groups_are_rejected_no_more_often(statistic: str, rare: bool) -> None:
    """Ten copies of each row: without groups most samples would be rejected."""
    rng = np.random.default_rng(17)
    groups, rejected, runs = np.repeat(np.arange(40), 10), 0, 100
    for run in range(runs):
        p = rng.random(40) * (0.02 if rare else 1.0)
        y = (rng.random(40) < p).astype(int)
        found = calibration_test(
            y[groups], p[groups], statistic, groups=groups, n_resamples=19, random_state=run, classes=[0, 1]
        )
        rejected += found.p_value <= 0.1
    assert rejected / runs <= 0.1 + 3 * np.sqrt(0.09 / runs)


def test_miscalibration_of_groups_is_found() -> None:
    rng = np.random.default_rng(18)
    groups = np.repeat(np.arange(60), 10)
    risk = rng.random(600)
    y = (rng.random(600) < risk**2).astype(int)
    for statistic in ("kuiper", "ece", "score", "omnibus"):
        assert calibration_test(y, risk, statistic, groups=groups, n_resamples=199).p_value == 0.005
    by_blocks = calibration_test(y, risk, blocks=10)
    assert by_blocks == calibration_test(y, risk, groups=groups)


def test_groups_of_one_row_are_no_groups() -> None:
    rng = np.random.default_rng(19)
    y, p = calibrated(rng, 50, 3)
    assert calibration_test(y, p, groups=np.arange(50)) == calibration_test(y, p)
    with pytest.raises(ValueError, match="groups and blocks"):
        calibration_test(y, p, groups=np.arange(50), blocks=2)


@pytest.mark.parametrize(
    ("p", "cells", "few"), [(0.1, 1, True), (0.125, 1, False), (0.15, 1, False), (0.85, 1, False), (0.15, 2, True)]
)
def test_groups_are_few_if_fewer_than_ten_could_show_the_rarer_outcome(p: float, cells: int, few: bool) -> None:
    # 40 groups of five rows: 2 · 200 · 0.1 · 40/200 = 8 groups, with 0.15 they are 12, in two cells 6 each.
    proba = np.full((200, 2), [1 - p, p])
    data = Sample(proba, np.zeros(200, dtype=np.int64), groups=np.repeat(np.arange(40), 5))
    assert few_groups(ScoreResiduals(data, np.log(proba)), cells) is few
