"""Skill scores, Gini, separation, ICI and the two-bin error against independent implementations or their formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, ks_2samp
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, r2_score, roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

from calibrant.metrics import (
    auroc,
    brier,
    brier_skill_score,
    confidence_interval,
    gini,
    integrated_calibration_index,
    ks_separation,
    ranked_probability_score,
    scaled_brier,
    two_bin_calibration_error,
)
from calibrant.metrics.smooth import MOST_CELLS
from tests.needs import needs

Data = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def cancer() -> Data:
    """Out-of-fold predictions of naive Bayes for 569 tumours, far too extreme."""
    X, y = load_breast_cancer(return_X_y=True)
    return y, cross_val_predict(GaussianNB(), X, y, method="predict_proba")[:, 1]


@pytest.fixture(scope="module")
def wine() -> Data:
    """Out-of-fold predictions for three kinds of wine."""
    X, y = load_wine(return_X_y=True)
    return y, cross_val_predict(GaussianNB(), X[:, :3], y, method="predict_proba")


def test_brier_skill_score_is_r_squared_of_probabilities(cancer: Data, wine: Data) -> None:
    y, p = cancer
    assert brier_skill_score(y, p) == pytest.approx(r2_score(y, p), abs=1e-12)
    y, p = wine
    outcome = np.eye(3)[y]
    expected = 1 - np.sum((p - outcome) ** 2) / np.sum((outcome.mean(axis=0) - outcome) ** 2)
    assert brier_skill_score(y, p) == pytest.approx(expected, abs=1e-12)


def test_brier_skill_score_with_a_reference(cancer: Data, wine: Data) -> None:
    y, p = cancer
    past = brier_score_loss(y, np.full(len(y), 0.4))
    assert brier_skill_score(y, p, reference=[0.6, 0.4]) == pytest.approx(1 - brier_score_loss(y, p) / past, abs=1e-12)
    y, p = wine
    past = brier(y, np.tile([0.2, 0.3, 0.5], (len(y), 1)))
    assert brier_skill_score(y, p, reference=[0.2, 0.3, 0.5]) == pytest.approx(1 - brier(y, p) / past, abs=1e-12)
    for wrong in ([0.5, 0.5], [0.5, 0.6, -0.1], [0.2, 0.2, 0.2]):
        with pytest.raises(ValueError, match="reference must be 3 probabilities that sum to 1"):
            brier_skill_score(y, p, reference=wrong)


def test_skill_of_one_class_is_unknown() -> None:
    assert np.isnan(brier_skill_score([1, 1], [0.3, 0.4], classes=[0, 1]))
    assert np.isnan(scaled_brier([1, 1], [1.0, 1.0], classes=[0, 1]))


def test_scaled_brier_by_its_formula(cancer: Data) -> None:
    y, p = cancer
    largest = p.mean() * (1 - p.mean()) ** 2 + (1 - p.mean()) * p.mean() ** 2  # as Steyerberg et al. 2010 write it
    assert scaled_brier(y, p) == pytest.approx(1 - brier_score_loss(y, p) / largest, abs=1e-12)


def test_ranked_probability_score_by_its_definition(wine: Data) -> None:
    y, p = wine
    by_hand = np.mean([sum((row[: j + 1].sum() - (label <= j)) ** 2 for j in range(2)) for row, label in zip(p, y)])
    assert ranked_probability_score(y, p) == pytest.approx(by_hand, abs=1e-12)
    assert ranked_probability_score(y, p, normalise=True) == pytest.approx(by_hand / 2, abs=1e-12)
    assert ranked_probability_score(y == 1, p[:, 1]) == pytest.approx(brier(y == 1, p[:, 1]), abs=1e-12)


def test_gini_and_separation_like_scikit_learn_and_scipy(cancer: Data, wine: Data) -> None:
    y, p = cancer
    assert gini(y, p) == pytest.approx(2 * roc_auc_score(y, p) - 1, abs=1e-12)
    assert ks_separation(y, p) == pytest.approx(ks_2samp(p[y == 1], p[y == 0]).statistic, abs=1e-12)
    coarse = p.round(1)
    assert ks_separation(y, coarse) == pytest.approx(ks_2samp(coarse[y == 1], coarse[y == 0]).statistic, abs=1e-12)
    y, p = wine
    each = [ks_2samp(p[y == j, j], p[y != j, j]).statistic for j in range(3)]
    assert ks_separation(y, p) == pytest.approx(np.mean(each), abs=1e-12)
    assert gini(y, p) == pytest.approx(2 * roc_auc_score(y, p, multi_class="ovr") - 1, abs=1e-12)
    shares = np.bincount(y) / len(y)
    assert ks_separation(y, p, average="weighted") == pytest.approx(np.array(each) @ shares, abs=1e-12)
    with pytest.raises(ValueError, match="average must be"):
        ks_separation(y, p, average="micro")
    assert np.isnan(ks_separation([1, 1], [0.2, 0.3], classes=[0, 1]))


def loess(p: np.ndarray, y: np.ndarray, span: float, degree: int, places: np.ndarray) -> np.ndarray:
    """Local regression at some scores by weighted least squares, as written down in Cleveland and Devlin 1988."""
    fitted = np.empty(len(places))
    for i, at in enumerate(places):
        distance = np.abs(p - at)
        h = np.sort(distance)[int(np.floor(len(p) * span + 1e-5)) - 1]
        weight = np.sqrt(np.clip(1 - (distance / h) ** 3, 0, None) ** 3)
        design = np.vander((p - at) / h, degree + 1, increasing=True)
        fitted[i] = np.linalg.lstsq(design * weight[:, None], y * weight, rcond=None)[0][0]
    return fitted


@pytest.fixture(scope="module")
def smooth_scores(cancer: Data) -> Data:
    """Every third of the tumours, with predictions that are spread out: as many different scores as have cells."""
    X, y = load_breast_cancer(return_X_y=True)
    p = cross_val_predict(LogisticRegression(C=1e-4, max_iter=5000), X[:, 1:2], y, method="predict_proba")[::3, 1]
    assert len(np.unique(p)) <= MOST_CELLS
    return y[::3], p


@pytest.mark.parametrize("degree", [1, 2])
def test_calibration_index_is_that_of_local_regression(smooth_scores: Data, degree: int) -> None:
    y, p = smooth_scores
    error = np.sort(np.abs(loess(p, y, 0.75, degree, p) - p))
    assert integrated_calibration_index(y, p, degree=degree) == pytest.approx(error.mean(), abs=1e-8)
    for share in (0.5, 0.9, 1.0):
        by_hand = error[int(np.ceil(share * len(p))) - 1]
        assert integrated_calibration_index(y, p, degree=degree, quantile=share) == pytest.approx(by_hand, abs=1e-8)


@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("span", [0.4, 1.0])
def test_calibration_index_of_counted_scores(degree: int, span: float) -> None:
    rng = np.random.default_rng(4)
    p, y = rng.random(20), rng.integers(0, 2, 20)
    weight = np.where(rng.random(20) < 0.8, rng.integers(1, 4, 20), 200)  # next to some scores the others are few
    rows = np.repeat(np.arange(20), weight)
    error = np.abs(loess(p[rows], y[rows], span, degree, p) - p)
    given = {"sample_weight": weight, "span": span, "degree": degree, "classes": [0, 1]}
    assert integrated_calibration_index(y, p, **given) == pytest.approx(np.average(error, weights=weight), abs=1e-7)
    reached = np.cumsum(weight[np.argsort(error)])
    half = np.sort(error)[np.argmax(reached >= weight.sum() / 2)]
    assert integrated_calibration_index(y, p, quantile=0.5, **given) == pytest.approx(half, abs=1e-7)


def test_calibration_index_of_less_than_one_observation_in_a_span() -> None:
    rng = np.random.default_rng(5)
    p, y = rng.random(12), rng.integers(0, 2, 12)
    # At least one observation counts: ten rows of a tenth.
    expected = np.abs(loess(p, y, 10 / 12, 1, p) - p).mean()
    found = integrated_calibration_index(y, p, sample_weight=np.full(12, 0.1), span=0.1, degree=1)
    assert found == pytest.approx(expected, abs=1e-8)
    # A span of nearly six observations is one of six, where there are not as many, too.
    six = integrated_calibration_index(y[:6], p[:6], span=1.0, degree=1)
    fewer = integrated_calibration_index(y[:6], p[:6], span=1.0, degree=1, sample_weight=[1] * 5 + [1 - 5e-6])
    assert fewer == pytest.approx(six, abs=1e-5)


def test_calibration_index_with_the_lowess_of_statsmodels(smooth_scores: Data) -> None:
    lowess = needs("statsmodels.nonparametric.smoothers_lowess").lowess
    y, p = smooth_scores
    fitted = lowess(y, p, frac=2 / 3, it=0, return_sorted=False)
    # statsmodels takes tricube weights of near and far neighbours for 1 and 0, which moves the curve by some 1e-8.
    index = integrated_calibration_index(y, p, span=2 / 3, degree=1)
    assert index == pytest.approx(np.mean(np.abs(fitted - p)), abs=1e-7)


def test_calibration_index_of_many_scores() -> None:
    rng = np.random.default_rng(3)
    p = np.sort(rng.beta(0.6, 3.0, 5000))
    y = rng.random(5000) < p**1.3
    # The curve is smooth: every twenty-fifth score tells what all of them do.
    error = np.abs(loess(p, y, 0.75, 2, p[12::25]) - p[12::25])
    assert integrated_calibration_index(y, p) == pytest.approx(error.mean(), abs=2e-4)
    assert integrated_calibration_index(y, p, quantile=0.9) == pytest.approx(np.quantile(error, 0.9), abs=1e-3)


def test_calibration_index_of_scores_that_allow_no_polynomial() -> None:
    assert integrated_calibration_index([0, 1, 1, 1], [0.5] * 4) == pytest.approx(0.25)
    two = integrated_calibration_index([0, 1, 1, 1, 0, 0], [0.2] * 3 + [0.8] * 3)
    assert two == pytest.approx((2 / 3 - 0.2 + 0.8 - 1 / 3) / 2)
    most = integrated_calibration_index([0, 1] * 45 + [1] * 10, [0.4] * 90 + list(np.linspace(0.5, 0.9, 10)))
    assert 0.09 < most < 0.2  # the score of 90 rows has their frequency, 0.5
    assert integrated_calibration_index([1], [0.3], classes=[0, 1]) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"span": 0}, "span must lie in"),
        ({"span": 1.01}, "span must lie in"),
        ({"degree": 3}, "degree must be"),
        ({"quantile": 1.01}, "quantile must lie in"),
        ({"quantile": 0}, "quantile must lie in"),
    ],
)
def test_calibration_index_refuses_options_without_a_meaning(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        integrated_calibration_index([0, 1], [0.2, 0.7], **options)


def test_two_bin_error_is_an_integral_over_thresholds(cancer: Data, wine: Data) -> None:
    def by_hand(y: np.ndarray, p: np.ndarray) -> float:
        ends = np.unique(np.concatenate([[0.0, 1.0], p]))
        middle = (ends[1:] + ends[:-1]) / 2
        off = np.array([[np.sum((y - p)[p < q]), np.sum((y - p)[p >= q])] for q in middle]) / len(y)
        return float(np.diff(ends) @ np.sum(off**2, axis=1))

    y, p = cancer
    assert two_bin_calibration_error(y, p) == pytest.approx(by_hand(y, p), abs=1e-12)
    y, p = wine
    each = [by_hand(y == j, p[:, j]) for j in range(3)]
    assert two_bin_calibration_error(y, p) == pytest.approx(np.mean(each), abs=1e-12)
    right, top = p.argmax(axis=1) == y, p.max(axis=1)
    assert two_bin_calibration_error(y, p, kind="top-label") == pytest.approx(by_hand(right, top), abs=1e-12)


def test_two_bin_error_is_truthful_where_ece_is_not() -> None:
    """Among constant reports for ten rows of probability 0.4, the truth has the smallest two-bin error in the mean."""
    chance = binom.pmf(np.arange(11), 10, 0.4)

    def mean(q: float) -> float:
        hits = (np.arange(10) < count for count in range(11))
        return float(chance @ [two_bin_calibration_error(y, np.full(10, q), classes=[False, True]) for y in hits])

    assert mean(0.4) < min(mean(0.3), mean(0.5))
    assert mean(0.4) == pytest.approx(0.4 * 0.6 / 10, rel=1e-12)


@pytest.mark.parametrize("name", ["gini", "ks_separation", "integrated_calibration_index", "brier_skill_score"])
def test_intervals_hold_their_value(name: str, cancer: Data) -> None:
    found = confidence_interval(name, *cancer, n_resamples=50)
    assert found.low <= found.value <= found.high
    assert found.low < found.high


def test_one_row_of_each_class_is_separated() -> None:
    for weight in ([1, 1], [0.1, 0.2]):
        assert ks_separation([0, 1], [0.2, 0.8], sample_weight=weight) == 1.0
        assert auroc([0, 1], [0.2, 0.8], sample_weight=weight, average="weighted") == pytest.approx(1.0)
    assert np.isnan(ks_separation([1, 1], [0.2, 0.8], classes=[0, 1]))
