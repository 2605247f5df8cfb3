"""One map for questions with any number of options: against array fits, scipy, and what was put into the data."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone

import calibrant
from calibrant import Answers, OptionCalibrator, runtime
from calibrant.simplex import log_softmax
from tests.samples import draw_labels


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def ragged(rng, n=600, options=(2, 6), temperature=2.0, position=(), price=0.0):
    """Questions with a known temperature, bias by position and price of a character."""
    logits, lengths, y = [], [], []
    for _ in range(n):
        k = int(rng.integers(*options))
        length = rng.integers(3, 40, size=k)
        true = rng.normal(scale=1.5, size=k)
        bias = np.concatenate([position, np.zeros(k)])[:k]
        y.append(int(rng.choice(k, p=np.exp(log_softmax(true)))))
        logits.append((true - bias - price * length) * temperature)
        lengths.append(length)
    return Answers.from_lists(logits, y, lengths=lengths)


def same_number(rng, n=300, k=4):
    x = log_softmax(rng.normal(scale=2.0, size=(n, k)))
    return x, draw_labels(np.exp(0.5 * x) / np.exp(0.5 * x).sum(1, keepdims=True), rng)


@pytest.mark.parametrize("position", [True, False, "auto"])
def test_equals_the_array_fit_where_all_questions_have_the_same_number_of_options(rng, position):
    x, y = same_number(rng)
    answers = Answers.from_lists(x.tolist(), y)
    one = OptionCalibrator(position).fit(answers)
    other = OptionCalibrator(position).fit(np.exp(x), y)
    assert one.predict_proba(answers) == pytest.approx(other.predict_proba(np.exp(x)), abs=1e-8)


def test_without_a_ridge_the_temperature_is_that_of_temperature_scaling(rng):
    x, y = same_number(rng)
    scaled = calibrant.TemperatureScalingCalibrator(smoothing=False).fit(np.exp(x), y)
    found = OptionCalibrator(position=False, strength=0).fit(Answers.from_lists(x, y))
    assert found.inverse_temperature_ == pytest.approx(scaled.inverse_temperature_, abs=1e-8)
    assert found.predict_proba(Answers.from_lists(x)) == pytest.approx(scaled.predict_proba(np.exp(x)), abs=1e-8)


def test_two_options_without_a_ridge_are_affine_calibration(rng):
    x, y = same_number(rng, k=2)
    affine = calibrant.BinaryLogisticCalibrator("affine", tol=1e-14).fit(np.exp(x), y)
    found = OptionCalibrator(True, strength=0).fit(Answers.from_lists(x, y))
    assert found.predict_proba(Answers.from_lists(x)) == pytest.approx(affine.predict_proba(np.exp(x)), abs=1e-8)


def test_the_optimum_is_that_of_scipy_on_ragged_lists(rng):
    answers = ragged(rng, n=50, position=(0.7, 0.0, -0.4), price=0.05)
    found = OptionCalibrator(True, True, strength=2.0).fit(answers)
    x, present, lengths, y = answers.sample.values, answers.present, answers.lengths, answers.sample.y
    rows, k = len(y), x.shape[1]
    means = np.array([length[there].mean() for length, there in zip(lengths, present)])
    spread = np.sqrt(np.mean((lengths - means[:, None])[present] ** 2))

    def objective(beta):
        loss = 0.0
        for i in range(rows):
            there = present[i]
            z = beta[0] * x[i, there] + beta[1] * lengths[i, there] / spread + beta[2:][there]
            loss -= log_softmax(z)[y[i]]
        return loss + 2.0 * (0.25 * (beta[0] - 1) ** 2 + 0.25 * beta[1] ** 2 + 4.0 * beta[2:] @ beta[2:]) / 2.0

    best = minimize(objective, np.r_[1.0, np.zeros(1 + k)], method="BFGS", options={"gtol": 1e-6}).x
    assert found.inverse_temperature_ == pytest.approx(best[0], abs=1e-5)
    assert found.length_ * spread == pytest.approx(best[1], abs=1e-5)
    assert found.position_ == pytest.approx(best[2:] - best[2:].mean(), abs=1e-5)


def test_finds_what_was_put_into_the_data(rng):
    answers = ragged(rng, n=2500, temperature=2.0, position=(0.8,), price=0.05)
    found = OptionCalibrator().fit(answers)
    assert found.inverse_temperature_ == pytest.approx(0.5, abs=0.05)
    assert found.length_ == pytest.approx(0.05, abs=0.01)
    assert found.position_[0] - found.position_[1:4].mean() == pytest.approx(0.8, abs=0.15)
    new = ragged(rng, n=500, temperature=2.0, position=(0.8,), price=0.05)
    after, rows = found.predict_proba(new), np.arange(500)
    assert -np.log(after[rows, new.sample.y]).mean() < -np.log(new.sample.true_proba).mean() - 0.2


@pytest.mark.parametrize("n", [60, *(pytest.param(n, marks=pytest.mark.slow) for n in (200, 1000))])
def test_a_bias_that_is_not_there_is_rarely_learned(rng, n):
    """Akaike's criterion lets 16 in 100 pass for one number, fewer for four; a bias that is there is kept."""
    learned = np.zeros(2)
    for _ in range(60):
        found = OptionCalibrator().fit(ragged(rng, n=n))
        learned += [found.position_.any(), found.length_ != 0.0]
    assert (learned / 60 <= [0.2, 0.3]).all()
    kept = OptionCalibrator().fit(ragged(rng, n=1000, position=(1.0,), price=0.05))
    assert kept.position_.any()
    assert kept.length_


def test_absent_options_get_nothing_and_later_positions_no_bias(rng):
    answers = ragged(rng, n=200, options=(2, 4), position=(1.0,))
    found = OptionCalibrator(True, False).fit(answers)
    wide = Answers.from_lists([[0.0, 0.0, 0.0, 0.0, 0.0], [0.0, -1.0]])
    p = found.predict_proba(wide)
    assert p.shape == (2, 5)
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert (p[1, 2:] == 0.0).all()
    assert p[0, 3] == p[0, 4] > 0.0
    assert found.predict(wide).tolist() == p.argmax(axis=1).tolist()


def test_padding_and_the_order_of_questions_do_not_matter(rng):
    answers = ragged(rng, n=200)
    few = answers.take(np.flatnonzero(answers.n_options <= 3))
    again = Answers.from_lists(
        [row[row > -np.inf] for row in few.sample.values[::-1]],
        few.sample.y[::-1],
        lengths=[row[there] for row, there in zip(few.lengths[::-1], few.present[::-1])],
    )
    one, other = OptionCalibrator().fit(few), OptionCalibrator().fit(again)
    assert one.predict_proba(answers) == pytest.approx(other.predict_proba(answers), abs=1e-8)


def test_weights_count_as_repetition(rng):
    answers = ragged(rng, n=120)
    weight = rng.integers(0, 4, size=120)
    lists = [row[row > -np.inf] for row in answers.sample.values]
    y = answers.sample.y
    one = OptionCalibrator().fit(Answers.from_lists(lists, y, sample_weight=weight))
    rows = np.repeat(np.arange(120), weight)
    other = OptionCalibrator().fit(Answers.from_lists([lists[i] for i in rows], y[rows]))
    assert one.predict_proba(answers) == pytest.approx(other.predict_proba(answers), abs=1e-8)


def test_a_model_that_is_surely_wrong_is_not_believed(rng):
    x, y = same_number(rng)
    found = OptionCalibrator().fit(Answers.from_lists(-x, y))
    assert found.inverse_temperature_ == 0.0
    assert "multiplied by 0 (" in found.summary()
    p = found.predict_proba(Answers.from_lists(-x))
    assert p == pytest.approx(np.tile(p[0], (len(p), 1)))


@pytest.mark.parametrize("right", [True, False])
def test_six_questions_that_are_all_right_or_wrong_stay_finite(right):
    answers = Answers.from_lists([[-0.1, -5.0], [-0.2, -4.0, -6.0]] * 3, [0 if right else 1] * 6)
    with pytest.warns(calibrant.CalibrationWarning):
        found = OptionCalibrator().fit(answers)
    p = found.predict_proba(answers)
    assert np.isfinite(p).all()
    assert (p.max(axis=1) < 1.0).all()


@pytest.mark.parametrize("lengths", [True, False])
def test_storage_is_exact(rng, tmp_path, lengths):
    answers = ragged(rng, n=100, price=0.05)
    found = OptionCalibrator(length=lengths).fit(answers)
    calibrant.save(found, tmp_path / "cal.json")
    twin = calibrant.load(tmp_path / "cal.json")
    assert (twin.predict_proba(answers) == found.predict_proba(answers)).all()
    assert "map" in json.loads((tmp_path / "cal.json").read_text())
    assert twin.summary() == found.summary()
    assert clone(found).get_params() == found.get_params()


@pytest.mark.parametrize("price", [0.0, 0.05])
def test_a_stored_map_and_an_export_take_lengths_beside_probabilities(rng, tmp_path, price):
    """Options that a question does not have get 0, and the result is divided by the sum over its own."""
    answers = ragged(rng, n=100, price=price, position=(0.5,))
    found = OptionCalibrator(True, price > 0).fit(answers)
    calibrant.save(found, tmp_path / "cal.json")
    k = len(found.position_)
    segments = {"segments": {f"length_{j}": answers.lengths[:, j] for j in range(k)}} if price else {}
    p = runtime.load(tmp_path / "cal.json").predict_proba(answers.sample.proba, **segments) * answers.present
    expected = found.predict_proba(answers)
    assert p / p.sum(axis=1, keepdims=True) == pytest.approx(expected, abs=1e-12)
    space: dict = {}
    exec(calibrant.export(found, to="python"), space)
    beside = [{name: column[0] for name, column in segments["segments"].items()}] if price else []
    row = np.array(space["calibrate"](answers.sample.proba[0].tolist(), *beside)) * answers.present[0]
    assert row / row.sum() == pytest.approx(expected[0], abs=1e-12)


def test_what_cannot_be_done_is_said(rng):
    answers = ragged(rng, n=100, price=0.05)
    found = OptionCalibrator().fit(answers)
    with pytest.raises(ValueError, match="lengths of options: they are needed"):
        found.predict_proba(Answers.from_lists([[0.0, -1.0]]))
    with pytest.raises(TypeError, match="it takes Answers only"):
        found.predict_proba(np.full((3, len(found.position_)), 1 / len(found.position_)))
    with pytest.raises(ValueError, match="contain their own labels"):
        OptionCalibrator().fit(answers, answers.sample.y)
    with pytest.raises(ValueError, match="right options of these answers are not known"):
        OptionCalibrator().fit(Answers.from_lists([[0.0, -1.0]] * 5))


@pytest.mark.parametrize(
    ("logprobs", "y", "more", "said"),
    [
        ([], None, {}, "there are no questions"),
        ([[0.0, -1.0], [0.0]], None, {}, "row 1: 1 option, at least two"),
        ([[0.0, float("nan")]], None, {}, "row 0: nan for option 1 is not a log-probability"),
        ([[0.0, None]], None, {}, "row 0: None for option 1"),
        ([[-np.inf, -np.inf]], None, {}, "row 0: all log-probabilities are -inf"),
        ([[0.0, -1.0]], [2], {}, "row 0: the answer 2 is not one of the 2 options, 0 to 1"),
        ([[0.0, -1.0]], [0.5], {}, "y should hold 1 whole numbers"),
        ([[0.0, -1.0]], [0], {"lengths": [[1, 2, 3]]}, "one number for each option"),
    ],
)
def test_bad_lists_are_named(logprobs, y, more, said):
    with pytest.raises(ValueError, match=said):
        Answers.from_lists(logprobs, y, **more)
