"""Pictures of decisions: net benefit over thresholds, and the loss of what is answered over how much is answered."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.decisions.curves import DecisionCurve, RiskCoverage, decision_curve, risk_coverage
from calibrant.docs import describe_parameters
from calibrant.plots.style import GREY, SERIES, new_axes, plain, shorten

#: Marks the line of a model, so that the next one on the same axes is drawn in another look.
_MODEL = "model"
#: The share of rows from which on the loss of what is answered sets the scale.
_FIRST = 0.05


def _next_look(ax: Any) -> tuple[Any, Any]:
    """Colour and line of the next model."""
    drawn = sum(line.get_gid() == _MODEL for line in ax.lines)
    color, _, line = SERIES[drawn % len(SERIES)]
    return color, line


class DecisionCurveDisplay:
    """Net benefit over the thresholds that somebody may have, beside acting on everybody and on nobody.

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
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from calibrant.plots import DecisionCurveDisplay
    >>> drawn = DecisionCurveDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8])
    >>> drawn.ax_.get_ylabel()
    'Net benefit'
    """

    def __init__(self, curve: DecisionCurve, *, name: str | None = None) -> None:
        self.curve = curve
        self.name = name

    @classmethod
    @describe_parameters
    def from_predictions(
        cls, y_true: Any, y_prob: Any, *, name: str | None = None, ax: Any = None, **options: Any
    ) -> DecisionCurveDisplay:
        """Compute and draw.

        Parameters
        ----------
        name : str, optional
            What the legend calls the model; the next model on the same `ax` gets another look.
        **options
            As `calibrant.decisions.decision_curve` takes them.
        """
        return cls(decision_curve(y_true, y_prob, **options), name=name).plot(ax=ax)

    @describe_parameters
    def plot(self, ax: Any = None) -> DecisionCurveDisplay:
        """Draw the curve."""
        self.figure_, self.ax_ = new_axes(ax, (5.0, 3.6))
        ax, curve = self.ax_, self.curve
        (color, line), first = _next_look(ax), not ax.lines
        label = plain(self.name or "model")
        ax.plot(curve.threshold, curve.net_benefit, color=color, linestyle=line, linewidth=1.8, gid=_MODEL, label=label)
        if not np.isnan(curve.low).any():
            ax.fill_between(curve.threshold, curve.low, curve.high, color=color, alpha=0.15, linewidth=0)
        if first:
            ax.plot(curve.threshold, curve.treat_all, color=GREY, linewidth=1.0, label="act on everybody")
            ax.axhline(0.0, color=GREY, linewidth=1.0, linestyle=":", label="act on nobody")
            ax.set_xlabel(f"Threshold: act from this probability of {plain(shorten(curve.label))} on")
            ax.set_ylabel("Net benefit")
            ax.set_xlim(0, max(curve.threshold[-1], 1e-3))
        top = max(float(np.nanmax([curve.net_benefit, curve.treat_all])), 1e-3)
        ax.set_ylim(-0.25 * top, max(1.1 * top, 0.0 if first else ax.get_ylim()[1]))
        ax.legend(frameon=False)
        return self


class RiskCoverageDisplay:
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
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from calibrant.plots import RiskCoverageDisplay
    >>> RiskCoverageDisplay.from_predictions([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.7]).ax_.get_xlabel()
    'Share of rows answered'
    """

    def __init__(self, curve: RiskCoverage, *, name: str | None = None) -> None:
        self.curve = curve
        self.name = name

    @classmethod
    @describe_parameters
    def from_predictions(
        cls, y_true: Any, y_prob: Any, *, name: str | None = None, ax: Any = None, **options: Any
    ) -> RiskCoverageDisplay:
        """Compute and draw.

        Parameters
        ----------
        name : str, optional
            What the legend calls the model; the next model on the same `ax` gets another look.
        **options
            As `calibrant.decisions.risk_coverage` takes them.
        """
        return cls(risk_coverage(y_true, y_prob, **options), name=name).plot(ax=ax)

    @describe_parameters
    def plot(self, ax: Any = None) -> RiskCoverageDisplay:
        """Draw the curve."""
        self.figure_, self.ax_ = new_axes(ax, (5.0, 3.6))
        ax, curve = self.ax_, self.curve
        (color, line), name, first = _next_look(ax), plain(self.name or "model"), not ax.lines
        label = f"{name}: {curve.risk[-1]:.3g} on all rows, area {curve.area.value:.3g}"
        ax.step(
            curve.coverage, curve.risk, where="pre", color=color, linestyle=line, linewidth=1.6, gid=_MODEL, label=label
        )
        ax.set_xlabel("Share of rows answered")
        ax.set_ylabel("Mean loss of these rows")
        ax.set_xlim(0, 1)
        # The first few rows say nothing: one error among them is half of all.
        top = float(curve.risk[curve.coverage >= _FIRST].max())
        ax.set_ylim(0, max(1.2 * top, 1e-3, 0.0 if first else ax.get_ylim()[1]))
        ax.legend(frameon=False, fontsize="small")
        return self
