"""Families, order and colours of calibration methods, the same in every table and figure.

Families follow the paper's main table (non-parametric, temperature, vector, matrix scaling) with a few more
for the other methods of this package; a `family` column in the results overrides them. Each family has one
hue and its methods differ in lightness, so that a figure of twenty methods still reads by family.
"""

from __future__ import annotations

import colorsys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from calibrant.bench.study.results import BASELINE
from calibrant.optional import require

if TYPE_CHECKING:
    import pandas as pd

FAMILIES: dict[str, tuple[str, ...]] = {
    "uncalibrated": (BASELINE,),
    "non-parametric": (
        "isotonic",
        "cir",
        "venn-abers",
        "hist-uniform",
        "hist-quantile",
        "scaling-binning",
        "bbq",
        "kernel",
    ),
    "spline": ("spline", "cdf-spline"),
    "sigmoid": ("platt", "platt-logits", "linear", "affine", "beta", "quadratic"),
    "TS": ("guo", "ts-unsmoothed", "ts", "ets"),
    "VS": ("vs", "svs"),
    "MS": ("ms", "dirichlet", "dirichlet-cv", "logistic", "sms", "sqs"),
    "trees": ("lightgbm", "xgboost", "catboost"),
    "automatic": ("auto-fast", "auto"),
}
OTHER = "other"
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
    name = method.split("(")[0]
    for family, names in FAMILIES.items():
        if name in names:
            return family
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
    known = [*FAMILIES, *sorted({f for f in family.values() if f not in FAMILIES and f != OTHER}), OTHER]
    place = {name: i for names in FAMILIES.values() for i, name in enumerate(names)}
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
