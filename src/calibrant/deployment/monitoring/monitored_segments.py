"""Segments that are bet on: what they are called, and which capital is set aside for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.deployment.segments.columns import Columns, is_numeric, level_codes, level_name
from calibrant.inputs.segments import read_segments, texts_of

#: Segments with bets of their own; later ones share the bets on this name.
MOST, OTHER = 50, "(other)"
#: Share of the capital that is bet on segments, if there are any.
_ON_SEGMENTS = 1.0 / 3.0


def segment_names(segments: Any, n: int, columns: Columns) -> tuple[list[str], NDArray[Any]]:
    """The columns of segments, and the name of each row's segment in each, (n, c).

    `columns` are those that the calibrator takes, if it takes any: others are left out, and numbers are named by bins.

    Examples
    --------
    >>> segment_names({"region": ["west", "east"], "device": ["phone", "phone"]}, 2, {})[1].tolist()
    [['region = west', 'device = phone'], ['region = east', 'device = phone']]
    >>> segment_names(["west", "east"], 2, {})
    (['segment'], array([['west'],
           ['east']], dtype=object))
    """
    frame = read_segments(segments, n)
    chosen = list(columns) or list(frame)
    names = np.empty((n, len(chosen)), dtype=object)
    for place, name in enumerate(chosen):
        texts = texts_of(frame[name])
        if name in columns:
            codes = level_codes(frame, {name: columns[name]})[:, 0].tolist()
            if is_numeric(columns[name]):
                names[:, place] = [level_name(name, columns[name], code) for code in codes]
                continue
            texts = [str(columns[name][code]) if code >= 0 else text for code, text in zip(codes, texts)]
        names[:, place] = [_named(name, text, alone=len(chosen) == 1) for text in texts]
    return chosen, names


def _named(column: str, text: str, *, alone: bool) -> str:
    if not text:
        return f"{column} missing"
    return text if alone else f"{column} = {text}"


def limited_names(names: NDArray[Any], known: Iterable[str]) -> NDArray[Any]:
    """The names of segments, with those beyond the first `MOST` as one."""
    seen = set(known)
    for name in dict.fromkeys(names.ravel().tolist()):
        if name not in seen and len(seen) < MOST:
            seen.add(name)
        elif name not in seen:
            names[names == name] = OTHER
    return names


def log_shares(names: Iterable[str]) -> dict[str | None, float]:
    """Logarithms of the shares of the capital: the m-th segment to appear has 1 / (m (m + 1)) of the segments' part.

    Examples
    --------
    >>> {name: round(float(np.exp(share)), 3) for name, share in log_shares(["west", "east"]).items()}
    {None: 0.667, 'west': 0.167, 'east': 0.056}
    """
    shares: dict[str | None, float] = {None: float(np.log(1.0 - _ON_SEGMENTS))}
    for m, name in enumerate(names, 1):
        shares[name] = float(np.log(_ON_SEGMENTS / (m * (m + 1))))
    return shares
