from __future__ import annotations

import numpy as np
import pytest

from calibrant.metrics import calibration_in_the_large, frequencies, segment_calibration
from tests.samples import draw_labels


def test_segments_are_those_of_the_table_of_frequencies():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=600)
    y, segments = draw_labels(p, rng), rng.choice(["a", "b", "c"], 600, p=[0.5, 0.3, 0.2])
    found = segment_calibration(y, p, segments)
    assert found.segments == ("a", "b", "c")
    for place, name in enumerate(found.segments):
        rows = segments == name
        alone = calibration_in_the_large(y[rows], p[rows], classes=range(3))
        np.testing.assert_allclose(found.predicted[place], alone.expected / alone.total)
        np.testing.assert_allclose(found.observed[place], alone.observed / alone.total)
        assert found.p_value[place] == pytest.approx(min(1.0, 3 * alone.p_value.min()))


@pytest.fixture
def no_p_values(monkeypatch):
    """Exact p-values of thousands of segments take long, and the error does not depend on them."""
    monkeypatch.setattr(frequencies, "count_p_values", lambda coins, observed, effect=1.0: np.ones(len(observed)))


@pytest.mark.usefixtures("no_p_values")
def test_the_square_of_the_error_is_unbiased():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(3), size=400)
    segments = np.repeat(np.arange(20), 20)
    truth = p.copy()
    truth[:200, 0] *= 2.0
    truth /= truth.sum(axis=1, keepdims=True)
    expected = np.mean([((truth - p)[segments == g].mean(axis=0) ** 2).sum() for g in range(20)])
    squares = [segment_calibration(draw_labels(truth, rng), p, segments).error ** 2 for _ in range(60)]
    # Labels of the truth vary a little less or more than those of p; noise itself is 0.03 here.
    assert np.mean(squares) == pytest.approx(expected, abs=0.003)


@pytest.mark.usefixtures("no_p_values")
def test_calibrated_predictions_have_no_error_to_speak_of_in_small_segments():
    rng = np.random.default_rng(2)
    p = rng.random(2000)
    errors = [segment_calibration(rng.random(2000) < p, p, np.arange(2000) % 200).error for _ in range(9)]
    assert np.median(errors) < 0.02  # 0.13 with the noise


def test_errors_and_p_values_of_segments_by_their_definition():
    rng = np.random.default_rng(4)
    p, weight, segments = rng.dirichlet(np.ones(3), size=40) ** 2, rng.integers(1, 4, 40), np.repeat([7, 3, 5, 9], 10)
    p /= p.sum(axis=1, keepdims=True)
    y = rng.integers(0, 3, 40)
    found = segment_calibration(y, p, segments, sample_weight=weight)
    square, sizes = 0.0, [weight[segments == name].sum() for name in found.segments]
    assert sizes == found.rows.tolist() == sorted(sizes, reverse=True)
    assert sorted(found.segments) == [3, 5, 7, 9]
    for name, n in zip(found.segments, sizes):
        rows = segments == name
        off = weight[rows] @ (np.eye(3)[y[rows]] - p[rows]) / n
        square += n / weight.sum() * np.sum(off**2 - weight[rows] @ (p[rows] * (1 - p[rows])) / n**2)
    assert found.error == pytest.approx(np.sqrt(square), rel=1e-9)
    # Of two classes one p-value says all; of three, three are looked at, and no probability is more than 1.
    alone = calibration_in_the_large([0, 1, 1, 0], [0.3, 0.4, 0.4, 0.3]).p_value
    for kinds in (["a"] * 4, np.array(["a", None, "a", 3], dtype=object)):
        two = segment_calibration([0, 1, 1, 0], [0.3, 0.4, 0.4, 0.3], kinds)
        assert set(two.segments) == {str(kind) for kind in kinds}
    assert segment_calibration([0, 1, 1, 0], [0.3, 0.4, 0.4, 0.3], ["a"] * 4).p_value == alone.min() > 0.5
    assert segment_calibration([0, 1, 2], np.full((3, 3), 1 / 3), ["a"] * 3).p_value == 1.0


def test_segments_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"segments has shape \(2,\), expected \(3,\)"):
        segment_calibration([0, 1, 0], [0.2, 0.7, 0.4], ["a", "b"])


def test_weights_are_repetitions_and_votes_weights():
    rng = np.random.default_rng(3)
    p, segments = rng.dirichlet(np.ones(3), size=80), rng.choice(["a", "b"], 80)
    votes = rng.integers(0, 3, (80, 3))
    weight = rng.integers(0, 3, 80)
    rows, label = np.nonzero(votes)
    times = (votes * weight[:, None])[rows, label]
    expected = segment_calibration(
        np.repeat(label, times), np.repeat(p[rows], times, axis=0), np.repeat(segments[rows], times)
    )
    for found in (
        segment_calibration(votes, p, segments, sample_weight=weight),
        segment_calibration(label, p[rows], segments[rows], sample_weight=times),
    ):
        assert found.segments == expected.segments
        for name in ("rows", "predicted", "observed", "p_value", "error"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-12)
