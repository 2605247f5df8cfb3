"""What tests run over: methods with numbers of classes they are made for, and arrays in every layout of memory.

What all methods inherit is tested in `make test` with the first method of each base class, or of each class, and with
all others in `make test-optional` (they are marked `slow`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import numpy as np
import pytest

from calibrant.calibrators.lifting import BinaryMethod
from calibrant.calibrators.registry import CalibratorInfo

#: The method of two classes whose form for more classes is tested often: how they are lifted is the same for all.
LIFTED = "isotonic"


def with_classes(infos: Iterable[CalibratorInfo], *numbers: int, often: Container[str] | None = None) -> list:
    """Parameters (name, k) of the methods `infos` for each number k of classes that a method is made for.

    With `often`, methods of other names are slow, and so are lifted forms of methods of two classes but one.
    """
    return [
        pytest.param(info.name, k, marks=_marks(info, often, k), id=f"{info.name}-{k}")
        for info in infos
        for k in numbers
        if info.supports(k)
    ]


def each(infos: Iterable[CalibratorInfo], often: Container[str]) -> list:
    """Parameters for the methods `infos`; those not named in `often` are slow."""
    return [pytest.param(info, marks=_marks(info, often), id=info.name) for info in infos]


def _marks(info: CalibratorInfo, often: Container[str] | None, k: int = 2) -> list:
    slow = often is not None and (
        info.name not in often
        or (k > 2 and info.name != LIFTED and info.extra is None and isinstance(info.make(), BinaryMethod))
    )
    return [pytest.mark.trees] * (info.extra is not None) + [pytest.mark.slow] * slow


def one_per_class(infos: Iterable[CalibratorInfo], *, base: bool = False) -> set[str]:
    """Names of methods, one for each class; with `base`, one for each class that methods inherit from."""
    chosen: dict[type, str] = {}
    # The entry with the fewest parameters is the plain form of its class.
    for info in sorted((info for info in infos if info.extra is None), key=lambda info: len(info.parameters)):
        made = type(info.make())
        chosen.setdefault(made.__mro__[1] if base else made, info.name)
    return set(chosen.values())


MEMORY_LAYOUTS = ["read-only", "Fortran", "strided", "reversed"]


def in_layout(p: np.ndarray, layout: str) -> np.ndarray:
    """The same numbers as `p` in another layout of memory."""
    array = {
        "read-only": p.copy(),
        "Fortran": np.asfortranarray(p),
        "strided": np.repeat(np.repeat(p, 2, axis=0), 3, axis=1)[::2, ::3],
        "reversed": p[::-1, ::-1].copy()[::-1, ::-1],
    }[layout]
    array.setflags(write=layout != "read-only")
    return array
