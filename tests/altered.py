"""What an attacker puts where a JSON file had something else."""

from __future__ import annotations

from typing import Any

import numpy as np

NUMBERS: list[Any] = [
    *(0, 1, -1, 2, 7, 255, 2**31, -(2**31), 2**62, 2**63, 10**30, 10**400, True, None, "", "x", [], {}),
    *(0.0, -0.0, 0.5, 1.0, 2.0, -1.5, 1e-320, 1e-30, 1e30, -1e99, 1e150, 1.7e308, -1.7e308, "nan", "inf", "-inf"),
    *({"$": "float", "value": text} for text in ("nan", "inf", "-inf", "1", "__import__")),
]


def places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found.append((value, key))
        if isinstance(item, (dict, list)):
            places(item, found)
    return found


def pick(rng: np.random.Generator, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]
