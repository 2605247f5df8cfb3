"""Values that JSON can hold."""

from __future__ import annotations

import math
from typing import Any


def plain(value: object) -> Any:
    """The value in types that JSON has; NaN and infinities become null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
