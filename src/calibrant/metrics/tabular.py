"""Results that are tables: columns as arrays, and as a pandas data frame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from calibrant.optional import require


def check_level(level: Any) -> float:
    """A confidence level between 0 and 1."""
    if not isinstance(level, (int, float, np.floating)) or not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    return float(level)


class Tabular(ABC):
    """A result with columns."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The columns as arrays, by name."""

    def to_pandas(self) -> Any:
        """The columns as a pandas data frame."""
        return require("pandas", extra="bench").DataFrame(self.to_dict())
