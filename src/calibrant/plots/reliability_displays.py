"""Reliability diagrams: observed frequency against predicted probability, with a band and a histogram of predictions.

A calibrated curve runs along the diagonal. Below it the event is rarer than predicted, above it more frequent;
predictions that are too extreme bend the curve below the diagonal on the right and above it on the left. The tables
come from `calibrant.metrics`; here they are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from calibrant.bins import Strategy
from calibrant.docs import describe_parameters
from calibrant.metrics import (
    calibration_belt,
    classwise_corp_curves,
    classwise_reliability_tables,
    corp_curve,
    reliability_table,
    smooth_curve,
)
from calibrant.metrics.result_types import UNIT, ReliabilityCurve, ScoreAxis
from calibrant.metrics.views import Kind
from calibrant.plots.style import (
    BLUE,
    SERIES,
    Trace,
    histogram_strip,
    new_axes,
    plain,
    shorten,
    square_unit_axes,
    trace,
)
from calibrant.typing import AnyArray, Label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Marks the line of a curve, so that the next model on the same axes is drawn in another look.
CURVE = "reliability-curve"
CURVES: dict[str, Callable[..., Any]] = {
    "corp": corp_curve,
    "kernel": smooth_curve,
    "belt": calibration_belt,
    "bins": reliability_table,
}
CLASSWISE: dict[str, Callable[..., Any]] = {"corp": classwise_corp_curves, "bins": classwise_reliability_tables}

#: What can be said of a curve; all else that a display is told is about how it is drawn.
OF_CURVES = ("kind", "pos_label", "n_bins", "strategy", "level", "sample_weight", "groups", "blocks", "classes")


def chosen_curve(options: dict[str, Any], known: Sequence[str] = tuple(CURVES)) -> tuple[str, dict[str, Any]]:
    """The curve and what is said of it, taken out of `options`; "auto" is CORP, or bins if anything of bins is said."""
    curve = options.pop("curve", "auto")
    said = {name: value for name in OF_CURVES if (value := options.pop(name, None)) is not None}
    bins = [name for name in ("n_bins", "strategy") if name in said]
    if curve == "auto":
        curve = "bins" if bins else "corp"
    if curve not in known:
        raise ValueError(f"curve must be 'auto', {', '.join(map(repr, known))}, got {curve!r}")
    if bins and curve != "bins":
        raise ValueError(f"{' and '.join(bins)} can only be given for curve='bins', not for {curve!r}")
    return curve, said


def axis_labels(table: ReliabilityCurve) -> tuple[str, str]:
    """What the two axes of a table show."""
    if table.label is None:
        return "Confidence", "Accuracy"
    return f"Predicted probability of {plain(shorten(table.label))}", "Observed frequency"


def draw_trace(
    ax: Axes,
    drawn: Trace,
    *,
    axis: ScoreAxis = UNIT,
    label: str | None = None,
    color: str = BLUE,
    marker: str = "o",
    linestyle: object = "-",
    markersize: float = 8,
    band: bool = True,
) -> tuple[Any, Any]:
    """Curve and band of one table where the axis places them; returns the line and the band, or None for it.

    The larger a marker, the more rows its bin holds: what hangs on a few rows should not catch the eye.
    """
    place = axis.place
    pointed = len(drawn.point_x) > 0
    (line,) = ax.plot(
        place(drawn.x), place(drawn.y), color=color, linestyle=linestyle, linewidth=1.3, zorder=3, label=None
    )
    if pointed:
        # The largest first: small ones are not hidden, and the legend shows the first.
        first = np.argsort(-drawn.size, kind="stable")
        markers = ax.scatter(
            place(drawn.point_x)[first],
            place(drawn.point_y)[first],
            s=markersize**2 * (0.25 + 0.75 * drawn.size[first]),
            color=color,
            alpha=cast("float", np.where(drawn.solid, 1.0, 0.3)[first]),  # its types know no arrays here
            marker=marker,
            edgecolor="white",
            linewidth=0.6,
            zorder=4,
            label=label,
        )
        markers.set_clip_on(False)
    else:
        line.set_label(label)
        line.set_linewidth(1.8)
    if not band or not len(drawn.band_x):
        return line, None
    x, low, high = place(drawn.band_x), place(drawn.low), place(drawn.high)
    if pointed:
        # Whiskers show the interval of a bin that has no neighbour for the band to reach.
        ax.vlines(x, low, high, color=color, linewidth=0.8, alpha=0.5, zorder=2)
    # A band around the diagonal belongs to no curve: it is grey, and the first one is enough.
    shade = color if drawn.around else "#808080"
    filled = ax.fill_between(x, low, high, color=shade, alpha=0.16, linewidth=0, zorder=2)
    return line, filled


def predict(estimator: Any, X: object) -> tuple[AnyArray, Any]:
    """Probabilities and labels of the columns of a fitted classifier or calibrator."""
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(f"{type(estimator).__name__} has no predict_proba")
    return estimator.predict_proba(X), estimator.classes_


class ReliabilityDisplay:
    """Reliability diagram of two classes, of the predicted class, or of one class against the rest.

    Make one with `from_predictions` or `from_estimator`; pass ``ax=display.ax_`` to draw another model in the same
    axes. If the event is rare, the axes show small probabilities only, or log-odds.

    Parameters
    ----------
    table : ReliabilityCurve
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
    >>> from calibrant.plots import ReliabilityDisplay
    >>> display = ReliabilityDisplay.from_predictions([0, 1, 1, 0], [0.1, 0.7, 0.9, 0.2])
    >>> display.ax_.get_ylabel()
    'Observed frequency'
    """

    def __init__(self, table: ReliabilityCurve, *, name: str | None = None) -> None:
        self.table = table
        self.name = name

    @classmethod
    @describe_parameters
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        curve: Literal["auto", "corp", "kernel", "belt", "bins"] = "auto",
        kind: Kind = "auto",
        pos_label: Label = None,
        n_bins: int | None = None,
        strategy: Strategy | None = None,
        level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        blocks: int | None = None,
        classes: Sequence[Label] | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> ReliabilityDisplay:
        """Diagram of labels and probabilities.

        Parameters
        ----------
        curve : {"auto", "corp", "kernel", "belt", "bins"}, default="auto"
            The isotonic curve, which needs no choices; a kernel-smoothed one; a calibration belt; or bins. "auto" is
            "corp", or "bins" if `n_bins` or `strategy` is given.
        kind : {"auto", "binary", "top-label"}, default="auto"
            The second class of two, or the predicted class; "auto" is binary for two classes.
        pos_label : object, optional
            Judge this class against the rest.
        n_bins : int, optional
            Number of bins; 15 if bins are wanted and nothing is said.
        strategy : {"uniform", "quantile"}, optional
            Bins of equal width (the default), or of equal mass.
        name : str, optional
            Name of the curve in the legend.
        **options
            Options of `plot`.
        """
        rows = {"sample_weight": sample_weight, "groups": groups, "blocks": blocks, "classes": classes}
        bins = {"n_bins": n_bins, "strategy": strategy}
        which, said = chosen_curve(
            {"curve": curve, "kind": kind, "pos_label": pos_label, "level": level, **bins, **rows}
        )
        return cls(CURVES[which](y_true, y_prob, **said), name=name).plot(ax=ax, **options)

    @classmethod
    def from_estimator(cls, estimator: object, X: object, y: ArrayLike, **options: Any) -> ReliabilityDisplay:
        """Diagram of what a fitted classifier or calibrator predicts for `X`, against the labels `y`.

        Options are those of `from_predictions`.
        """
        proba, classes = predict(estimator, X)
        options.setdefault("name", type(estimator).__name__)
        return cls.from_predictions(y, proba, classes=classes, **options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        histogram: bool | None = None,
        band: bool = True,
        legend: bool = True,
        color: str | None = None,
        marker: str | None = None,
        linestyle: object = None,
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
        drawn = trace(self.table)
        axis = square_unit_axes(self.ax_, drawn.axis)
        earlier = sum(line.get_gid() == CURVE for line in self.ax_.lines)
        look = SERIES[earlier % len(SERIES)]
        self.line_, self.band_ = draw_trace(
            self.ax_,
            drawn,
            axis=axis,
            label=f"{plain(shorten(self.name, 24))}\n{drawn.note}" if self.name else drawn.note,
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
            corner = free_corner(drawn, axis)
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


def free_corner(drawn: Trace, axis: ScoreAxis = UNIT) -> Literal["upper left", "lower right"]:
    """The corner that less of the curve and its band reaches into; if equal, the one away from the curve."""
    x, y, at, low, high = (axis.place(part) for part in (drawn.x, drawn.y, drawn.band_x, drawn.low, drawn.high))
    upper_left = _share((x < 0.6) & (y > 0.75)) + _share((at < 0.6) & (high > 0.75))
    lower_right = _share((x > 0.4) & (y < 0.25)) + _share((at > 0.4) & (low < 0.25))
    if upper_left == lower_right:
        return "lower right" if float(np.mean(y - x)) > 0 else "upper left"
    return "upper left" if upper_left < lower_right else "lower right"


def _share(where: AnyArray) -> float:
    return float(np.mean(where)) if len(where) else 0.0
