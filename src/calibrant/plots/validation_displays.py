"""Pictures that validators expect: rates of grades beside their probabilities, and Murphy diagrams."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.docs import describe_parameters
from calibrant.grades import GradeBacktest
from calibrant.metrics import MurphyDiagram
from calibrant.numerals import count
from calibrant.plots.style import BLUE, FAINT, GREY, VERMILION, new_axes, plain, shorten

#: Colours of lights, which differ in lightness as well; the marker tells them apart without colour.
LIGHTS = {"green": ("#009E73", "o"), "yellow": ("#E69F00", "s"), "red": (VERMILION, "D")}


class GradeDisplay:
    """Observed rates of grades with intervals, beside the probabilities that are tested.

    Parameters
    ----------
    backtest : GradeBacktest
        What to draw.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from calibrant import MasterScale
    >>> from calibrant.plots import GradeDisplay
    >>> found = MasterScale([0.3]).backtest([0, 0, 1, 1, 0, 1], [0.1, 0.2, 0.25, 0.6, 0.7, 0.8])
    >>> GradeDisplay(found).plot().ax_.get_ylabel()
    'share of class 1'
    """

    def __init__(self, backtest: GradeBacktest) -> None:
        self.backtest = backtest

    @describe_parameters
    def plot(self, ax: Any = None, *, log: bool = True) -> GradeDisplay:
        """Draw the rates.

        Parameters
        ----------
        log : bool, default True
            Whether the axis of rates has powers of ten.
        """
        found, full = self.backtest, np.flatnonzero(self.backtest.observations > 0)
        self.figure_, self.ax_ = new_axes(ax, (max(4.0, 1.2 + 0.85 * len(found.grades)), 3.8))
        shown = np.concatenate([found.rate[full], found.probability[full]])
        floor = 10 ** np.floor(np.log10(shown[shown > 0].min(initial=1.0))) if log else 0.0
        for i in full:
            colour, marker = LIGHTS[found.light[i]]
            low, rate, high = (max(float(part[i]), floor) for part in (found.low, found.rate, found.high))
            self.ax_.plot([i, i], [low, high], color=colour, linewidth=2.5, alpha=0.6)
            self.ax_.plot(i, rate, color=colour, marker=marker, linestyle="none")
        self.ax_.hlines(found.probability[full], full - 0.35, full + 0.35, color="black", linewidth=1.5)
        if log:
            self.ax_.set_yscale("log")
            self.ax_.set_ylim(bottom=0.8 * floor)
        names = [f"{plain(shorten(name, 10))}\nn = {count(n)}" for name, n in zip(found.grades, found.observations)]
        self.ax_.set_xticks(range(len(names)), names)
        self.ax_.set(xlabel="grade; lines: probability that is tested", ylabel=f"share of class {found.label}")
        self.ax_.grid(axis="y", color=FAINT, linewidth=0.6)
        return self


class MurphyDisplay:
    """Difference of elementary scores at every threshold, with its simultaneous band: below zero is better.

    Parameters
    ----------
    diagram : MurphyDiagram
        What to draw.

    Attributes
    ----------
    axes_, figure_ : matplotlib Axes (scores above, difference below) and Figure

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from calibrant.metrics import murphy_diagram
    >>> from calibrant.plots import MurphyDisplay
    >>> found = murphy_diagram([0, 1, 0, 1] * 5, [0.2, 0.7, 0.4, 0.6] * 5)
    >>> [ax.get_ylabel() for ax in MurphyDisplay(found).plot().axes_]
    ['mean elementary score', 'difference']
    """

    def __init__(self, diagram: MurphyDiagram) -> None:
        self.diagram = diagram

    def plot(self) -> MurphyDisplay:
        """Draw both panels on a new figure."""
        found = self.diagram
        self.figure_, _ = new_axes(None, (5.2, 5.2))
        self.figure_.clear()
        self.axes_ = self.figure_.subplots(2, sharex=True, height_ratios=[3, 2])
        upper, lower = self.axes_
        upper.plot(found.threshold, found.score, color=BLUE, label="predictions")
        upper.plot(found.threshold, found.other, color=VERMILION, linestyle="--", label=found.against)
        upper.legend(frameon=False)
        upper.set_ylabel("mean elementary score")
        lower.axhline(0.0, color=GREY, linewidth=1)
        lower.fill_between(found.threshold, found.low, found.high, color=BLUE, alpha=0.2, linewidth=0)
        lower.plot(found.threshold, found.difference, color=BLUE)
        lower.set(xlabel="threshold", ylabel="difference", xlim=(0, 1))
        return self
