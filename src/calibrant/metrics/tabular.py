"""Results that are tables: columns as arrays, and as a pandas data frame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from calibrant.confidence import check_level as check_level
from calibrant.optional import require


class Tabular(ABC):
    """A result with columns."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The columns as arrays, by name."""

    def to_pandas(self) -> Any:
        """The columns as a pandas data frame."""
        return require("pandas", extra="bench").DataFrame(self.to_dict())
