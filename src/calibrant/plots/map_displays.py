"""Pictures of a fitted calibrator: where it sends probabilities, and which classes its matrix corrects.

Two classes give a curve, three give arrows on the triangle of all probability vectors; the matrix of structured matrix
scaling minus the identity is a heat map, orange below zero and blue above, with numbers in the cells where they fit.
Its colours cover what lies off the diagonal: that is where confused classes show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from calibrant.docs import describe_parameters
from calibrant.metrics import CalibrationMap, CorrectionMatrix, calibration_map, correction_matrix
from calibrant.plots.style import BLUE, GREY, WHITE_ABOVE, diverging, new_axes, plain, shorten, square_unit_axes
from calibrant.typing import AnyFloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# Corners of the triangle for the first, second and third class.
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
# Classes up to which numbers fit into the cells, and up to which names fit beside them.
ANNOTATED_CLASSES, SHOWN_CLASSES = 10, 40
# Smallest size of numbers in points.
LEGIBLE = 5.0


class CalibrationMapDisplay:
    """The map of a fitted calibrator: a curve for two classes, arrows on the triangle for three.

    Parameters
    ----------
    mapping : CalibrationMap
        What to draw.
    name : str, optional
        Title.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> from calibrant import NoCalibrator
    >>> from calibrant.plots import CalibrationMapDisplay
    >>> fitted = NoCalibrator().fit([[0.2, 0.8], [0.7, 0.3]], ["no", "yes"])
    >>> CalibrationMapDisplay.from_estimator(fitted).ax_.get_xlabel()
    'Predicted probability of yes'
    """

    def __init__(self, mapping: CalibrationMap, *, name: str | None = None) -> None:
        self.mapping = mapping
        self.name = name

    @classmethod
    @describe_parameters
    def from_estimator(
        cls, calibrator: object, *, n_points: int | None = None, name: str | None = None, ax: Axes | None = None
    ) -> CalibrationMapDisplay:
        """Map of a fitted calibrator of two or three classes.

        Parameters
        ----------
        calibrator : fitted calibrator
        n_points : int, optional
            Points of the curve, or steps along an edge of the triangle.
        name : str, optional
            Title; by default the calibrator's class.
        """
        title = type(calibrator).__name__ if name is None else name
        return cls(calibration_map(calibrator, n_points=n_points), name=title).plot(ax=ax)

    @describe_parameters
    def plot(self, ax: Axes | None = None, *, color: str = BLUE) -> CalibrationMapDisplay:
        """Draw the map.

        Parameters
        ----------
        color : str
            Colour of the curve or the arrows.
        """
        self.figure_, self.ax_ = new_axes(ax, (4.6, 4.6))
        if len(self.mapping.classes) == 2:
            self._curve(color)
        else:
            self._arrows(color)
        if self.name:
            self.ax_.set_title(plain(self.name), fontsize="medium")
        return self

    def _curve(self, color: str) -> None:
        square_unit_axes(self.ax_)
        self.ax_.plot(self.mapping.before[:, 1], self.mapping.after[:, 1], color=color, linewidth=1.8)
        name = plain(shorten(self.mapping.classes[1]))
        self.ax_.set(xlabel=f"Predicted probability of {name}", ylabel=f"Calibrated probability of {name}")

    def _arrows(self, color: str) -> None:
        ax = self.ax_
        outline = np.vstack([CORNERS, CORNERS[:1]])
        ax.plot(outline[:, 0], outline[:, 1], color=GREY, linewidth=1)
        start, end = self.mapping.before @ CORNERS, self.mapping.after @ CORNERS
        moved = end - start
        ax.quiver(
            start[:, 0],
            start[:, 1],
            moved[:, 0],
            moved[:, 1],
            angles="xy",
            scale_units="xy",
            scale=1,
            width=0.004,
            headwidth=3.5,
            headlength=4,
            headaxislength=3.6,
            minlength=0.4,
            color=color,
            zorder=3,
        )
        ax.plot(start[:, 0], start[:, 1], linestyle="", marker="o", markersize=1.8, color=GREY, zorder=2)
        names = [plain(shorten(label)) for label in self.mapping.classes]
        for (x, y), name, below in zip(CORNERS, names, (True, True, False)):
            ax.text(x, y - 0.03 if below else y + 0.02, name, ha="center", va="top" if below else "bottom")
        ax.set(xlim=(-0.08, 1.08), ylim=(-0.12, 0.97), aspect="equal")
        ax.set_axis_off()


class CorrectionMatrixDisplay:
    """Heat map of a matrix-scaling calibrator's matrix minus the identity: which classes were confused.

    Entry (i, j) is how much the score of class i gains per unit of the log-probability of class j.

    Parameters
    ----------
    correction : CorrectionMatrix
        What to draw.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    im_ : matplotlib AxesImage
    colorbar_ : matplotlib Colorbar

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import CorrectionMatrix
    >>> from calibrant.plots import CorrectionMatrixDisplay
    >>> correction = CorrectionMatrix(np.array([[0.1, -0.2], [0.0, 0.3]]), ("cat", "dog"))
    >>> [tick.get_text() for tick in CorrectionMatrixDisplay(correction).plot().ax_.get_yticklabels()]
    ['cat', 'dog']
    """

    def __init__(self, correction: CorrectionMatrix) -> None:
        self.correction = correction

    @classmethod
    @describe_parameters
    def from_estimator(
        cls, calibrator: object, *, max_classes: int | None = SHOWN_CLASSES, ax: Axes | None = None, **options: Any
    ) -> CorrectionMatrixDisplay:
        """Heat map of a fitted `SMSCalibrator` or another calibrator with `coef_` of shape (k, k).

        Parameters
        ----------
        calibrator : fitted calibrator
        max_classes : int or None, default 40
            Draw at most this many classes: those with the largest corrections.
        **options
            Options of `plot`.
        """
        return cls(correction_matrix(calibrator, max_classes=max_classes)).plot(ax=ax, **options)

    @describe_parameters
    def plot(
        self,
        ax: Axes | None = None,
        *,
        values: bool | None = None,
        cmap: str | Colormap | None = None,
        colorbar: bool = True,
    ) -> CorrectionMatrixDisplay:
        """Draw the heat map.

        Parameters
        ----------
        values : bool, optional
            Write the numbers into the cells; by default for up to 10 classes.
        cmap : str or matplotlib Colormap, optional
            Colour map; by default orange for what is lowered, white for no change and blue for what is raised.
        colorbar : bool, default True
            Whether to draw the scale of colours.
        """
        matrix, classes = self.correction.matrix, self.correction.classes
        side = float(np.clip(2.4 + 0.42 * len(classes), 4.4, 9.0))
        self.figure_, self.ax_ = new_axes(ax, (side + 0.8, side))
        limit = off_diagonal_limit(matrix)
        self.im_ = self.ax_.imshow(matrix, cmap=diverging() if cmap is None else cmap, vmin=-limit, vmax=limit)
        self.colorbar_ = None
        if colorbar:
            beyond = "both" if np.abs(matrix).max() > limit else "neither"
            self.colorbar_ = self.figure_.colorbar(self.im_, cax=self.ax_.inset_axes((1.04, 0, 0.05, 1)), extend=beyond)
            self.colorbar_.outline.set_visible(False)
            self.colorbar_.set_label("matrix minus identity")
        if self.correction.n_left_out:
            title = f"{len(classes)} classes with the largest corrections, {self.correction.n_left_out} not shown"
            self.ax_.set_title(title, fontsize="medium")
        self.ax_.set(xlabel="from the log-probability of", ylabel="to the score of")
        for edge in self.ax_.spines.values():
            edge.set_visible(False)
        self._name_ticks([plain(shorten(label)) for label in classes])
        if values or (values is None and len(classes) <= ANNOTATED_CLASSES):
            self._write(matrix, limit, always=bool(values))
        return self

    def _cell_width(self) -> float:
        """Width of a cell in points, once the layout is made."""
        if (layout := self.figure_.get_layout_engine()) is not None:
            layout.execute(cast("Figure", self.figure_))
        self.ax_.apply_aspect()
        return float(self.ax_.get_window_extent().width * 72 / self.figure_.dpi / len(self.correction.classes))

    def _name_ticks(self, names: list[str]) -> None:
        """Names as large as the cells allow, and of small cells only some."""
        for _ in range(2):  # names take room from the cells: look again at what is left
            cell = self._cell_width()
            size = float(np.clip(0.7 * cell, 5.0, 10.0))
            step = int(np.ceil(1.2 * size / cell))
            shown = list(range(0, len(names), step))
            texts = [names[i] for i in shown]
            self.ax_.set_yticks(shown, texts, fontsize=size)
            # Letters are about 0.6 times as wide as high.
            fits = max(len(text) for text in texts) * 0.6 * size < 0.7 * step * cell
            self.ax_.set_xticks(shown, texts, fontsize=size, rotation=0 if fits else 90)

    def _write(self, matrix: AnyFloatArray, limit: float, *, always: bool) -> None:
        """Numbers in the cells, as large as fits; none where they would not be legible, unless asked for."""
        size = min(9.0, self._cell_width() / 3.4)
        if size < LEGIBLE and not always:
            return
        for (row, column), value in np.ndenumerate(matrix):
            text = f"{value:+.2f}" if abs(value) >= 0.005 else "0"
            color = "white" if value > WHITE_ABOVE * limit else "black"
            self.ax_.text(column, row, text, ha="center", va="center", fontsize=max(size, LEGIBLE), color=color)


def off_diagonal_limit(matrix: AnyFloatArray) -> float:
    """Range of the colours: the largest entry off the diagonal, which the diagonal may well exceed."""
    off = np.abs(matrix[~np.eye(len(matrix), dtype=bool)])
    return float(off.max()) if off.size and off.max() > 0 else float(np.abs(matrix).max()) or 1.0
