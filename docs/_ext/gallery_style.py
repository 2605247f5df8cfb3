"""Colours and frames of the gallery's own pictures, like those of `calibrant.plots`."""

from __future__ import annotations

from typing import Any

from calibrant.plots.style import SERIES

BLACK, ORANGE = "#000000", "#E69F00"


def house_style(gallery_conf: dict[str, Any], fname: str) -> None:
    """Set matplotlib's style before each example (`reset_modules` of sphinx-gallery)."""
    import matplotlib

    # Bars are filled with them: black comes last.
    colours = [colour for colour, _, _ in SERIES if colour != BLACK]
    matplotlib.rcParams["axes.prop_cycle"] = matplotlib.cycler(color=[*colours, ORANGE, BLACK])
    matplotlib.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False})
