"""Colours and frames of the gallery's own pictures, like those of `calibrant.plots`."""

from __future__ import annotations

from typing import Any

from calibrant.plots.style import SERIES

#: Orange of Okabe and Ito, for a sixth series.
SIXTH = "#E69F00"


def house_style(gallery_conf: dict[str, Any], fname: str) -> None:
    """Set matplotlib's style before each example (`reset_modules` of sphinx-gallery)."""
    import matplotlib

    matplotlib.rcParams["axes.prop_cycle"] = matplotlib.cycler(color=[*(colour for colour, _, _ in SERIES), SIXTH])
    matplotlib.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False})
