"""Pictures of grades and Murphy diagrams show the numbers of their tables."""

from __future__ import annotations

import numpy as np

from calibrant import MasterScale
from calibrant.metrics import murphy_diagram
from calibrant.plots import GradeDisplay, MurphyDisplay
from calibrant.plots.report_figures import grade_rates


def portfolio() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 10, 3000)
    return (rng.random(3000) < np.minimum(2 * p, 1)).astype(int), p


def test_grades_are_drawn_where_they_are() -> None:
    y, p = portfolio()
    found = MasterScale([1e-9, 0.01, 0.1], probabilities=[0, 0.004, 0.04, 0.2]).backtest(y, p)
    for log in (True, False):
        display = GradeDisplay(found).plot(log=log)
        points = [line.get_xydata()[0] for line in display.ax_.lines if len(line.get_xydata()) == 1]
        full = np.flatnonzero(found.observations > 0)
        np.testing.assert_allclose([x for x, _ in points], full)
        rates = found.rate[full]
        np.testing.assert_allclose([y for _, y in points][1:], rates[1:])
        assert display.ax_.get_yscale() == ("log" if log else "linear")
        assert f"n = {int(found.observations[3]):,}" in display.ax_.get_xticklabels()[3].get_text()


def test_grades_of_a_page_without_rows_or_cases() -> None:
    empty = MasterScale([0.5], ["<A>", "B"]).backtest([0, 0, 0], [0.1, 0.2, 0.3], classes=[0, 1])
    drawn = grade_rates(empty)
    assert "&lt;A&gt;" in drawn
    assert drawn.count("<circle") == 1
    assert "nan" not in drawn


def test_murphy_diagrams_show_both_scores_and_the_band() -> None:
    y, p = portfolio()
    found = murphy_diagram(y, p, n_resamples=20)
    upper, lower = MurphyDisplay(found).plot().axes_
    np.testing.assert_allclose(upper.lines[0].get_ydata(), found.score)
    np.testing.assert_allclose(upper.lines[1].get_ydata(), found.other)
    np.testing.assert_allclose(lower.lines[1].get_ydata(), found.difference)
    assert [text.get_text() for text in upper.get_legend().get_texts()] == ["predictions", "the class frequencies"]
