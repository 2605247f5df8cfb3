"""What all figures of the study share: colours and order of methods, type, rules, and how a figure is saved.

Figures are drawn on `matplotlib.figure.Figure` directly, without pyplot, so that nothing global is touched and a
report can be made inside any program.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

from calibrant.optional import require
from calibrant.plots import style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Parameters = ParamSpec("Parameters")

RC = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.grid": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}
MARKERS = "osD^vPX*<>hd"
_LONGEST = 26  # letters of a name that fit beside an axis
_IN_ONE_PANEL = 8  # methods whose lines can still be told apart


def looks(methods: pd.DataFrame) -> pd.DataFrame:
    """Family, colour and marker of each method of the table `methods`, in display order."""
    look = methods[["method", "family", "colour"]].astype(str).set_index("method")
    return look.assign(marker=[MARKERS[number % len(MARKERS)] for number in look.groupby("family").cumcount()])


def styled(draw: Callable[Parameters, Figure]) -> Callable[Parameters, Figure]:
    """Let a function draw in the style of the study."""

    @wraps(draw)
    def drawn(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Figure:
        with require("matplotlib", extra="plots").rc_context(RC):
            return draw(*args, **kwargs)

    return drawn


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches."""
    return require("matplotlib.figure", extra="plots").Figure(figsize=(width, height), layout="constrained")


def plain(text: str, longest: int = _LONGEST) -> str:
    """Text from data as a label: no mathematics read into dollar signs, the middle of long names left out."""
    return style.plain(style.shorten(" ".join(text.split()), longest))


@styled
def empty_figure(message: str) -> Figure:
    """A figure that says why there is nothing to draw."""
    figure = new_figure(6.0, 1.6)
    axes = figure.add_subplot()
    axes.axis("off")
    axes.text(0.5, 0.5, message, ha="center", va="center", wrap=True, color="#666666")
    return figure


def method_axis(axes: Axes, names: Sequence[str], *, labels: bool = True) -> None:
    """Methods downwards in display order, one row each."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [plain(name) for name in names] if labels else [])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for row in range(0, len(names), 2):
        axes.axhspan(row - 0.5, row + 0.5, color="#f6f6f6", zorder=-5, linewidth=0)


def rows_height(n_methods: int) -> float:
    """Inches that rows of methods take; they get narrower when there are many."""
    return n_methods * (0.34 if n_methods <= 10 else 0.26)


def grid_shape(n_panels: int, widest: int) -> tuple[int, int]:
    """Rows and columns of a grid of panels, at most `widest` columns and as few gaps as possible."""
    columns = min(n_panels, widest)
    rows = math.ceil(n_panels / columns)
    return rows, math.ceil(n_panels / rows)


def family_panels(
    names: Sequence[str], look: pd.DataFrame, baseline: str
) -> tuple[Figure, list[tuple[Axes, list[str]]]]:
    """A figure, its panels and the methods of each: one panel for a few methods, else one for each family.

    Lines of many methods in one panel could not be told apart; a panel of a family shows the others in grey.
    """
    panels = [list(names)]
    if len(names) > _IN_ONE_PANEL:
        families = dict.fromkeys(look.family[name] for name in names if name != baseline)
        panels = [[name for name in names if look.family[name] == family] for family in families]
    rows, columns = grid_shape(len(panels), 3)
    figure = new_figure(*((7.5, 4.2) if len(panels) == 1 else (0.6 + 3.6 * columns, 0.5 + 3.0 * rows)))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.set_visible(False)
        elif place + columns >= len(panels):
            axes.tick_params(labelbottom=True)
    return figure, list(zip(grid.flat, panels))


def family_legend(axes: Axes, look: pd.DataFrame, shown: Sequence[str] | None) -> None:
    """Legend of a panel: beside the only one, or above that of the family whose methods are `shown`."""
    if shown is None:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handletextpad=0.3)
        return
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=2,
        handletextpad=0.2,
        columnspacing=0.8,
        borderpad=0.1,
        title=plain(look.family[shown[0]]),
        title_fontproperties={"weight": "bold", "size": 9},
        fontsize=8,
    )


def save(figure: Figure, directory: Path, name: str) -> list[Path]:
    """Write `name.pdf` and `name.png` without dates, so that equal tables give equal files."""
    matplotlib = require("matplotlib", extra="plots")
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"{name}.pdf", directory / f"{name}.png"]
    with matplotlib.rc_context(RC), warnings.catch_warnings():
        # A name in a script the font lacks shows boxes in the figure; tables have it in full.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(paths[0], metadata={"CreationDate": None})
        # Keeps the layout that was found: finding it again for the second file would take as long as drawing.
        figure.set_layout_engine("none")
        figure.savefig(paths[1], dpi=150, metadata={"Software": None})
    return paths
