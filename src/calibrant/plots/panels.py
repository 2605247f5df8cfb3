"""Several reliability diagrams in one figure: every class against the rest, and before beside after.

Panels share their axes, so that they can be compared at a glance; each has its own band and histogram, all of
them on one kind of scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.docs import describe_parameters
from calibrant.metrics.result_types import ReliabilityCurve
from calibrant.optional import require
from calibrant.plots.reliability_displays import (
    CLASSWISE,
    CURVES,
    axis_labels,
    chosen_curve,
    draw_trace,
    predict,
)
from calibrant.plots.style import BLUE, VERMILION, histogram_strip, plain, shorten, square_unit_axes, towering, trace
from calibrant.typing import Label

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _panel(ax: Axes, table: ReliabilityCurve, title: str, *, log: bool, **look: Any) -> None:
    drawn = trace(table)
    draw_trace(ax, drawn, axis=square_unit_axes(ax, drawn.axis), **look)
    ax.set_title(title, fontsize="medium")
    histogram_strip(ax, table.histogram, log=log)


class ClasswiseReliabilityDisplay:
    """Grid of reliability diagrams, one for each class against the rest.

    Parameters
    ----------
    tables : mapping of label to ReliabilityCurve
        What to draw, in this order.
    n_left_out : int, default 0
        Number of classes that are not among the tables, told in the figure.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        The panels, in the order of the tables.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from calibrant.plots import ClasswiseReliabilityDisplay
    >>> p = [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]]
    >>> display = ClasswiseReliabilityDisplay.from_predictions(["a", "b", "c"], p)
    >>> [ax.get_title().splitlines()[0] for ax in display.axes_]
    ['a', 'b', 'c']
    """

    def __init__(self, tables: Mapping[Label, ReliabilityCurve], *, n_left_out: int = 0) -> None:
        if not tables:
            raise ValueError("there are no tables to draw")
        self.tables = dict(tables)
        self.n_left_out = n_left_out

    @classmethod
    @describe_parameters
    def from_predictions(
        cls, y_true: ArrayLike, y_prob: ArrayLike, *, max_classes: int = 16, **options: Any
    ) -> ClasswiseReliabilityDisplay:
        """Grid of labels and probabilities.

        Parameters
        ----------
        max_classes : int, default 16
            Draw at most this many classes: those with the largest calibration error.
        **options
            Of `ReliabilityDisplay.from_predictions`, with `curve` "auto", "corp" or "bins"; and of `plot`.
        """
        which, given = chosen_curve(options, tuple(CLASSWISE))
        # Bands take time, and most of many classes are not shown.
        quick = {**given, "n_resamples": 0} if which == "corp" else given
        tables: dict[Label, ReliabilityCurve] = CLASSWISE[which](y_true, y_prob, **quick)
        worst = sorted(tables, key=lambda label: -tables[label].error)[:max_classes]
        kept = {
            label: CURVES[which](y_true, y_prob, pos_label=label, **given) if which == "corp" else table
            for label, table in tables.items()
            if label in set(worst)
        }
        return cls(kept, n_left_out=len(tables) - len(kept)).plot(**options)

    @classmethod
    def from_estimator(cls, estimator: object, X: object, y: ArrayLike, **options: Any) -> ClasswiseReliabilityDisplay:
        """Grid of what a fitted classifier or calibrator predicts for `X`, against the labels `y`.

        Options are those of `from_predictions`.
        """
        proba, classes = predict(estimator, X)
        return cls.from_predictions(y, proba, classes=classes, **options)

    def plot(self, *, n_columns: int | None = None, panel_size: float = 2.1) -> ClasswiseReliabilityDisplay:
        """Draw the grid on a new figure.

        Parameters
        ----------
        n_columns : int, optional
            Panels in a row; by default up to four.
        panel_size : float, default 2.1
            Width of a panel in inches.
        """
        n_panels = len(self.tables)
        columns = n_columns or (n_panels if n_panels <= 4 else 3 if n_panels <= 6 else 4)
        rows = -(-n_panels // columns)
        pyplot = require("matplotlib.pyplot", extra="plots")
        figure, grid = pyplot.subplots(
            rows,
            columns,
            figsize=(panel_size * columns + 0.7, (1.22 * panel_size + 0.4) * rows + 0.5),
            squeeze=False,
            layout="compressed",
        )
        figure.get_layout_engine().set(h_pad=0.1)
        self.figure_ = figure
        self.axes_ = grid.ravel()[:n_panels]
        for spare in grid.ravel()[n_panels:]:
            spare.set_axis_off()
        shared = len({trace(table).axis for table in self.tables.values()}) == 1
        log = any(towering(table.histogram) for table in self.tables.values())
        for position, (ax, (label, table)) in enumerate(zip(self.axes_, self.tables.items())):
            _panel(ax, table, f"{plain(shorten(label))}\n{trace(table).note}", log=log, markersize=6)
            ax.tick_params(labelsize="small", labelleft=position % columns == 0 or not shared)
        figure.supxlabel("Predicted probability", fontsize="medium")
        figure.supylabel("Observed frequency", fontsize="medium")
        if self.n_left_out:
            figure.suptitle(
                f"The {n_panels} classes with the largest error; {self.n_left_out} more not shown",
                fontsize="medium",
            )
        return self


class BeforeAfterDisplay:
    """Reliability diagrams before and after calibration, side by side.

    Parameters
    ----------
    before, after : ReliabilityCurve
        What to draw.

    Attributes
    ----------
    axes_ : ndarray of two matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from calibrant.plots import BeforeAfterDisplay
    >>> display = BeforeAfterDisplay.from_predictions([0, 1, 1, 0], [0.1, 0.7, 0.9, 0.2], [0.2, 0.6, 0.8, 0.3])
    >>> display.axes_.shape
    (2,)
    """

    def __init__(self, before: ReliabilityCurve, after: ReliabilityCurve) -> None:
        self.before = before
        self.after = after

    @classmethod
    @describe_parameters
    def from_predictions(
        cls, y_true: ArrayLike, before: ArrayLike, after: ArrayLike, **options: Any
    ) -> BeforeAfterDisplay:
        """Diagrams of labels and two sets of probabilities.

        Parameters
        ----------
        before, after : array-like of shape (n, k) or (n,)
            Probabilities without and with calibration.
        **options
            Of `ReliabilityDisplay.from_predictions` and of `plot`.
        """
        which, given = chosen_curve(options)
        first, second = (CURVES[which](y_true, proba, **given) for proba in (before, after))
        return cls(first, second).plot(**options)

    @classmethod
    def from_estimator(cls, calibrator: object, X: Any, y: ArrayLike, **options: object) -> BeforeAfterDisplay:
        """Diagrams of the predictions `X` as they are and after a fitted calibrator, against the labels `y`.

        Options are those of `from_predictions`.
        """
        after, classes = predict(calibrator, X)
        return cls.from_predictions(y, X, after, classes=classes, **options)

    def plot(
        self, axes: Sequence[Axes] | None = None, *, titles: tuple[str, str] = ("Before", "After")
    ) -> BeforeAfterDisplay:
        """Draw the two diagrams.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, optional
            Where to draw; by default a new figure.
        titles : tuple of two str
            Titles of the panels.
        """
        new = axes is None
        if new:
            pyplot = require("matplotlib.pyplot", extra="plots")
            _, axes = pyplot.subplots(1, 2, figsize=(7.6, 4.8), layout="compressed")
        self.axes_ = np.asarray(axes).ravel()
        if len(self.axes_) != 2:
            raise ValueError(f"two axes are needed, got {len(self.axes_)}")
        self.figure_ = self.axes_[0].figure
        x_label, y_label = axis_labels(self.before)
        looks = ({"color": VERMILION, "marker": "s"}, {"color": BLUE, "marker": "o"})
        log = any(towering(table.histogram) for table in (self.before, self.after))
        for ax, table, title, look in zip(self.axes_, (self.before, self.after), titles, looks):
            _panel(ax, table, f"{plain(title)}\n{trace(table).note}", log=log, **look)
            if not new:
                ax.set_xlabel(x_label)
        if new:
            self.figure_.supxlabel(x_label, fontsize="medium")
        self.axes_[0].set_ylabel(y_label)
        return self
