"""What tests run over: methods with numbers of classes they are made for, and arrays in every layout of memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from calibrant.calibrators.registry import CalibratorInfo


def with_classes(infos: Iterable[CalibratorInfo], *numbers: int) -> list:
    """Parameters (name, k) of the methods `infos` for each number k of classes that a method is made for."""
    return [
        pytest.param(info.name, k, marks=[pytest.mark.trees] if info.extra else [], id=f"{info.name}-{k}")
        for info in infos
        for k in numbers
        if info.supports(k)
    ]


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
