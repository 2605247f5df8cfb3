"""Pictures of decisions and for validators: net benefit over thresholds, the loss of what is answered over how much is
answered, rates of grades beside their probabilities, and Murphy diagrams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from calibrant.decisions.curves import DecisionCurve, RiskCoverage, decision_curve, risk_coverage
from calibrant.docs import describe_parameters
from calibrant.grades import GradeBacktest
from calibrant.metrics import MurphyDiagram
from calibrant.numerals import count
from calibrant.plots.style import BLUE, FAINT, GREY, SERIES, VERMILION, new_axes, plain, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Marks the line of a model, so that the next one on the same axes is drawn in another look.
_MODEL = "model"
#: The share of rows from which on the loss of what is answered sets the scale.
_FIRST = 0.05


class _ModelDisplay(ABC):
    """A curve of one model on axes that may hold those of others."""

    _compute: ClassVar[Callable[..., Any]]

    def __init__(self, curve: Any, *, name: str | None = None) -> None:
        self.curve = curve
        self.name = name

    @classmethod
    @describe_parameters
    def from_predictions(
        cls, y_true: ArrayLike, y_prob: ArrayLike, *, name: str | None = None, ax: Axes | None = None, **options: object
    ) -> Self:
        """Compute and draw.

        Parameters
        ----------
        name : str, optional
            What the legend calls the model; the next model on the same `ax` gets another look.
        **options
            As `calibrant.decisions.decision_curve` or `calibrant.decisions.risk_coverage` takes them.
        """
        return cls(cls._compute(y_true, y_prob, **options), name=name).plot(ax=ax)

    @describe_parameters
    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the curve."""
        self.figure_, self.ax_ = new_axes(ax, (5.0, 3.6))
        first = not self.ax_.lines
        drawn = sum(line.get_gid() == _MODEL for line in self.ax_.lines)
        color, _, line = SERIES[drawn % len(SERIES)]
        look = {"color": color, "linestyle": line, "linewidth": 1.8, "gid": _MODEL}
        lowest, highest = self._draw(plain(self.name or "model"), look, first=first)
        self.ax_.set_ylim(lowest, max(highest, 1e-3, 0.0 if first else self.ax_.get_ylim()[1]))
        self.ax_.legend(frameon=False, fontsize="small")
        return self

    @abstractmethod
    def _draw(self, name: str, look: Mapping[str, Any], *, first: bool) -> tuple[float, float]:
        """Draw one curve, the first one with axes; returns the ends of the ordinate."""


class DecisionCurveDisplay(_ModelDisplay):
    """Net benefit over a range of thresholds, compared with acting on everybody and on nobody.

    Parameters
    ----------
    curve : DecisionCurve
        What to draw.
    name : str, optional
        What the legend calls the model.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> from calibrant.plots import DecisionCurveDisplay
    >>> drawn = DecisionCurveDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8])
    >>> drawn.ax_.get_ylabel()
    'Net benefit'
    """

    curve: DecisionCurve
    _compute = staticmethod(decision_curve)

    def _draw(self, name: str, look: Mapping[str, Any], *, first: bool) -> tuple[float, float]:
        ax, curve = self.ax_, self.curve
        ax.plot(curve.threshold, curve.net_benefit, label=name, **look)
        if not np.isnan(curve.low).any():
            ax.fill_between(curve.threshold, curve.low, curve.high, color=look["color"], alpha=0.15, linewidth=0)
        if first:
            ax.plot(curve.threshold, curve.treat_all, color=GREY, linewidth=1.0, label="act on everybody")
            ax.axhline(0.0, color=GREY, linewidth=1.0, linestyle=":", label="act on nobody")
            ax.set_xlabel(f"Threshold: act at or above this probability of {plain(shorten(curve.label))} on")
            ax.set_ylabel("Net benefit")
            ax.set_xlim(0, max(curve.threshold[-1], 1e-3))
        top = max(float(np.nanmax([curve.net_benefit, curve.treat_all])), 1e-3)
        return -0.25 * top, 1.1 * top


class RiskCoverageDisplay(_ModelDisplay):
    """The mean loss of the rows that are answered, over the share of rows that are, the most certain ones first.

    Parameters
    ----------
    curve : RiskCoverage
        What to draw.
    name : str, optional
        What the legend calls the model.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> from calibrant.plots import RiskCoverageDisplay
    >>> RiskCoverageDisplay.from_predictions([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.7]).ax_.get_xlabel()
    'Share of rows answered'
    """

    curve: RiskCoverage
    _compute = staticmethod(risk_coverage)

    def _draw(self, name: str, look: Mapping[str, Any], *, first: bool) -> tuple[float, float]:
        ax, curve = self.ax_, self.curve
        label = f"{name}: {curve.risk[-1]:.3g} on all rows, area {curve.area.value:.3g}"
        ax.step(curve.coverage, curve.risk, where="pre", label=label, **look)
        ax.set(xlabel="Share of rows answered", ylabel="Mean loss of these rows", xlim=(0, 1))
        # The first few rows say nothing: one error among them is half of all.
        return 0.0, 1.2 * float(curve.risk[curve.coverage >= _FIRST].max())


#: Colours of lights, which differ in lightness as well; the marker tells them apart without colour.
LIGHTS = {"green": ("#009E73", "o"), "yellow": ("#E69F00", "s"), "red": (VERMILION, "D")}


class GradeDisplay:
    """Observed rates of grades with intervals, next to the probabilities being tested.

    Parameters
    ----------
    backtest : GradeBacktest
        What to draw.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> from calibrant import MasterScale
    >>> from calibrant.plots import GradeDisplay
    >>> found = MasterScale([0.3]).backtest([0, 0, 1, 1, 0, 1], [0.1, 0.2, 0.25, 0.6, 0.7, 0.8])
    >>> GradeDisplay(found).plot().ax_.get_ylabel()
    'share of class 1'
    """

    def __init__(self, backtest: GradeBacktest) -> None:
        self.backtest = backtest

    @describe_parameters
    def plot(self, ax: Axes | None = None, *, log: bool = True) -> GradeDisplay:
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
