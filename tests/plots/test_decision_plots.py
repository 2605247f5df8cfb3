"""Pictures of decisions draw the tables as they are, and two models look different."""

from __future__ import annotations

import numpy as np

from calibrant import DecisionRule
from calibrant.decisions import decision_curve, risk_coverage
from calibrant.plots import DecisionCurveDisplay, RiskCoverageDisplay

RNG = np.random.default_rng(0)
P = RNG.random(200)
Y = (RNG.random(200) < P).astype(int)


def test_a_decision_curve_has_its_numbers_and_both_lines_to_beat() -> None:
    drawn = DecisionCurveDisplay.from_predictions(Y, P, name="model $a$", n_resamples=50)
    curve = decision_curve(Y, P, n_resamples=50)
    model, everybody, nobody = drawn.ax_.lines
    np.testing.assert_array_equal(model.get_ydata(), curve.net_benefit)
    np.testing.assert_array_equal(everybody.get_ydata(), curve.treat_all)
    assert list(nobody.get_ydata()) == [0, 0]
    again = DecisionCurveDisplay.from_predictions(Y, P**2, name="other", ax=drawn.ax_, n_resamples=50)
    assert len(again.ax_.lines) == 4
    assert again.ax_.lines[3].get_color() != model.get_color()
    assert [text.get_text() for text in again.ax_.get_legend().get_texts()][-1] == "other"


def test_a_risk_coverage_curve_has_its_numbers() -> None:
    rule = DecisionRule(false_positive=1, false_negative=20)
    drawn = RiskCoverageDisplay.from_predictions(Y, P, rule=rule, n_resamples=50)
    curve = risk_coverage(Y, P, rule, n_resamples=50)
    np.testing.assert_array_equal(drawn.ax_.lines[0].get_xdata(), curve.coverage)
    np.testing.assert_array_equal(drawn.ax_.lines[0].get_ydata(), curve.risk)


def test_four_rows_and_no_error_are_drawn_too() -> None:
    assert DecisionCurveDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.6, 0.8]).ax_.get_ylim()[1] > 0
    assert RiskCoverageDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.6, 0.8]).ax_.get_ylim()[1] > 0
