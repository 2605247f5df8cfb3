"""Order and colours of calibration methods, the same in every table and figure.

Families and order are the registry's; a `family` column in the results overrides them. Each family has one hue and
its methods differ in lightness, so that a figure of twenty methods still reads by family.
"""

from __future__ import annotations

import colorsys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from calibrant.calibrators.registry import calibrator_info, list_calibrators
from calibrant.optional import require

if TYPE_CHECKING:
    import pandas as pd

OTHER = "other"
#: Families in the order of tables and figures, with the hue of each.
_HUES = {
    "uncalibrated": None,
    "non-parametric": 0.08,
    "spline": 0.14,
    "sigmoid": 0.90,
    "TS": 0.58,
    "VS": 0.40,
    "MS": 0.00,
    "trees": 0.30,
    "automatic": 0.76,
    OTHER: 0.50,
}


def family_of(method: str) -> str:
    """Family of a method by its name, with or without parameters; what is not known by name is `other`.

    Examples
    --------
    >>> family_of("sms"), family_of("sms(rho=0.5)"), family_of("package.module:Class")
    ('MS', 'MS', 'other')
    """
    try:
        return calibrator_info(method.split("(")[0]).family
    except ValueError:
        return OTHER


def method_table(
    methods: Sequence[str], *, families: Mapping[str, str] | None = None, unranked: Sequence[str] = ()
) -> pd.DataFrame:
    """Methods in display order with family, colour and whether ranks include them.

    Examples
    --------
    >>> method_table(["sms", "none", "ts"])["method"].tolist()
    ['none', 'ts', 'sms']
    """
    pd = require("pandas", extra="bench")
    given = dict(families or {})
    family = {name: given.get(name) or family_of(name) for name in methods}
    own = sorted(set(family.values()) - set(_HUES))
    known = [*(name for name in _HUES if name != OTHER), *own, OTHER]
    place = {info.name: i for i, info in enumerate(list_calibrators())}
    ordered = sorted(
        methods, key=lambda name: (known.index(family[name]), place.get(name.split("(")[0], len(place)), name)
    )
    rows = []
    for name in ordered:
        siblings = [other for other in ordered if family[other] == family[name]]
        colour = _colour(family[name], known, siblings.index(name), len(siblings))
        rows.append((name, family[name], colour, name not in unranked))
    return pd.DataFrame(rows, columns=["method", "family", "colour", "ranked"])


def _colour(family: str, known: Sequence[str], index: int, count: int) -> str:
    if family == "uncalibrated":
        return "#555555"
    hue = _HUES.get(family)
    if hue is None:
        # A family of the user's own: hues by the golden ratio are far apart however many there are.
        hue = (0.2 + 0.618034 * known.index(family)) % 1.0
    lightness = 0.42 if count == 1 else 0.66 - 0.36 * index / (count - 1)
    red, green, blue = colorsys.hls_to_rgb(hue, lightness, 0.72)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"
