"""Order and colours of calibration methods, the same in every table and figure.

Families and order are the registry's; a `family` column in the results overrides them.
"""

from __future__ import annotations

import colorsys
import zlib
from collections.abc import Mapping, Sequence

import pandas as pd

from calibrant.calibrators.registry import BASELINE, calibrator_info, list_calibrators

OTHER = "other"


def family_of(method: str) -> str:
    """Family of a method by its name, with or without parameters; `other` if the name is unknown."""
    try:
        return calibrator_info(method.split("(")[0]).family
    except ValueError:
        return OTHER


def method_table(
    methods: Sequence[str], *, families: Mapping[str, str] | None = None, unranked: Sequence[str] = ()
) -> pd.DataFrame:
    """Methods in display order with family, colour and whether ranks include them."""
    given = dict(families or {})
    family = {name: given.get(name) or family_of(name) for name in methods}
    place = {info.name: i for i, info in enumerate(list_calibrators())}
    known = [name for name in _families() if name != OTHER]
    order = [*known, *sorted(set(family.values()) - {*known, OTHER}), OTHER]
    ordered = sorted(
        methods, key=lambda name: (order.index(family[name]), place.get(name.split("(")[0], len(place)), name)
    )
    rows = [(name, family[name], _colour(name, family[name]), name not in unranked) for name in ordered]
    return pd.DataFrame(rows, columns=["method", "family", "colour", "ranked"])


def _colour(method: str, family: str) -> str:
    """Colour of a method, the same whatever other methods there are.

    Families take hues far apart in the order of the registry, and their methods differ in lightness; a method outside
    of the registry takes a colour from its name, close to that of its family if it is known.
    """
    if family == family_of(BASELINE):
        return "#555555"
    known = _families()
    hue = 0.618034 * known.index(family) if family in known else _by_name(family)
    members = [info.name for info in list_calibrators() if info.family == family]
    if method in members:
        share = members.index(method) / max(1, len(members) - 1)
    else:
        hue += (_by_name(method) - 0.5) * (0.06 if family != OTHER else 1.0)
        share = _by_name(method[::-1])
    red, green, blue = colorsys.hls_to_rgb(hue % 1.0, 0.64 - 0.34 * share, 0.72)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def _families() -> list[str]:
    return list(dict.fromkeys(info.family for info in list_calibrators()))


def _by_name(name: str) -> float:
    """A number between 0 and 1 that depends on nothing but the name."""
    return zlib.crc32(name.encode(errors="backslashreplace")) / 2**32
