"""Reliability diagrams: observed frequency against predicted probability, with a band and a histogram of predictions.

A calibrated curve runs along the diagonal. Below it the event is rarer than predicted, above it more frequent;
predictions that are too extreme bend the curve below the diagonal on the right and above it on the left. The tables
come from `calibrant.metrics.reliability`; here they are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.bins import Strategy
from calibrant.docs import describe_parameters
from calibrant.metrics import ReliabilityTable, reliability_table
from calibrant.metrics.views import Kind
from calibrant.plots.style import BLUE, SERIES, histogram_strip, new_axes, plain, shorten, square_unit_axes

#: Marks the line of a curve, so that the next model on the same axes is drawn in another look.
CURVE = "reliability-curve"


def axis_labels(table: ReliabilityTable) -> tuple[str, str]:
    """What the two axes of a table show."""
    if table.kind == "top-label":
        return "Confidence", "Accuracy"
    return f"Predicted probability of {plain(shorten(table.label))}", "Observed frequency"


def draw_table(
    ax: Any,
    table: ReliabilityTable,
    *,
    label: str | None = None,
    color: str = BLUE,
    marker: str = "o",
    linestyle: Any = "-",
    markersize: float = 8,
    band: bool = True,
) -> tuple[Any, Any]:
    """Curve and band of one table; returns the line and the band, or None for it.

    The larger a marker, the more rows its bin holds: what hangs on a few rows should not catch the eye.
    """
    (line,) = ax.plot(table.score, table.frequency, color=color, linestyle=linestyle, linewidth=1.3, zorder=3)
    share = np.sqrt(table.weight / table.weight.max())
    markers = ax.scatter(
        table.score,
        table.frequency,
        s=markersize**2 * (0.25 + 0.75 * share),
        color=color,
        marker=marker,
        edgecolor="white",
        linewidth=0.6,
        zorder=4,
        label=label,
    )
    markers.set_clip_on(False)
    if not band:
        return line, None
    # Whiskers show the interval of a bin that has no neighbour for the band to reach.
    ax.vlines(table.score, table.low, table.high, color=color, linewidth=0.8, alpha=0.5, zorder=2)
    filled = ax.fill_between(table.score, table.low, table.high, color=color, alpha=0.16, linewidth=0, zorder=2)
    return line, filled


def predict(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Probabilities and labels of the columns of a fitted classifier or calibrator."""
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(f"{type(estimator).__name__} has no predict_proba")
    return estimator.predict_proba(X), estimator.classes_


class ReliabilityDisplay:
    """Reliability diagram of two classes or of the predicted class.

    Make one with `from_predictions` or `from_estimator`; pass ``ax=display.ax_`` to draw another model beside it.

    Parameters
    ----------
    table : ReliabilityTable
        What to draw.
    name : str, optional
        Name of the curve in the legend.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_, band_ : matplotlib artists
        The curve and its band.
    histogram_ax_ : matplotlib Axes or None
        The strip with the histogram.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from calibrant.plots import ReliabilityDisplay
    >>> display = ReliabilityDisplay.from_predictions([0, 1, 1, 0], [0.1, 0.7, 0.9, 0.2], n_bins=5)
    >>> display.ax_.get_ylabel()
    'Observed frequency'
    """

    def __init__(self, table: ReliabilityTable, *, name: str | None = None) -> None:
        self.table = table
        self.name = name

    @classmethod
    @describe_parameters
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        kind: Kind = "auto",
        label: Any = None,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        classes: Sequence[Any] | None = None,
        name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> ReliabilityDisplay:
        """Diagram of labels and probabilities.

        Parameters
        ----------
        kind : {"auto", "binary", "top-label"}, default="auto"
            The second class of two, or the predicted class; "auto" is binary for two classes.
        label : object, optional
            Judge this class against the rest.
        name : str, optional
            Name of the curve in the legend.
        **options
            Options of `plot`.
        """
        table = reliability_table(
            y_true,
            y_prob,
            kind=kind,
            label=label,
            n_bins=n_bins,
            strategy=strategy,
            level=level,
            sample_weight=sample_weight,
            classes=classes,
        )
        return cls(table, name=name).plot(ax=ax, **options)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, **options: Any) -> ReliabilityDisplay:
        """Diagram of what a fitted classifier or calibrator predicts for `X`, against the labels `y`.

        Options are those of `from_predictions`.
        """
        proba, classes = predict(estimator, X)
        options.setdefault("name", type(estimator).__name__)
        return cls.from_predictions(y, proba, classes=classes, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        histogram: bool | None = None,
        band: bool = True,
        legend: bool = True,
        color: str | None = None,
        marker: str | None = None,
        linestyle: Any = None,
    ) -> ReliabilityDisplay:
        """Draw the table.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure. Axes with another model's curve get a second one.
        histogram : bool, optional
            Whether to draw the histogram of predictions; by default that of the first model on the axes.
        band, legend : bool, default True
            Whether to draw the band and the legend.
        color, marker, linestyle : optional
            Look of the curve; by default one that no earlier curve on the axes has.
        """
        self.figure_, self.ax_ = new_axes(ax, (4.4, 5.3))
        square_unit_axes(self.ax_)
        earlier = sum(line.get_gid() == CURVE for line in self.ax_.lines)
        look = SERIES[earlier % len(SERIES)]
        error = f"ECE {self.table.expected_error:.3f}"
        label = f"{plain(shorten(self.name, 24))}\n{error}" if self.name else error
        self.line_, self.band_ = draw_table(
            self.ax_,
            self.table,
            label=label,
            color=color or look[0],
            marker=marker or look[1],
            linestyle=linestyle or look[2],
            band=band,
        )
        self.line_.set_gid(CURVE)
        x_label, y_label = axis_labels(self.table)
        self.ax_.set_ylabel(y_label)
        histogram = earlier == 0 if histogram is None else histogram
        self.histogram_ax_ = histogram_strip(self.ax_, self.table.histogram) if histogram else None
        self.ax_.set_xlabel(x_label)
        if legend:
            corner = free_corner(self.table)
            # Corners of the diagram, not of the axes, which also hold the histogram.
            self.ax_.legend(
                loc=corner,
                bbox_to_anchor=(0, 1) if corner == "upper left" else (1, 0),
                bbox_transform=self.ax_.transData,
                frameon=False,
                fontsize="small",
                handlelength=1.6,
            )
        return self


def free_corner(table: ReliabilityTable) -> str:
    """The corner that fewer bins reach into with their intervals; if equal, the one away from the curve."""
    upper_left = np.count_nonzero((table.score < 0.6) & (table.high > 0.75))
    lower_right = np.count_nonzero((table.score > 0.4) & (table.low < 0.25))
    if upper_left == lower_right:
        return "lower right" if float(table.weight @ (table.frequency - table.score)) > 0 else "upper left"
    return "upper left" if upper_left < lower_right else "lower right"
