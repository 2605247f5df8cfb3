"""Results that are tables: columns as arrays, and as a pandas data frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calibrant.optional import require
from calibrant.typing import AnyFloatArray


def check_level(level: Any) -> float:
    """A confidence level between 0 and 1."""
    if not isinstance(level, (int, float, np.floating)) or not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    return float(level)


class Tabular:
    """What has columns: attributes of the names in `COLUMNS`, unless `to_dict` knows others."""

    COLUMNS: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """The columns as arrays, by name."""
        return {name: getattr(self, name) for name in self.COLUMNS}

    def to_pandas(self) -> Any:
        """The columns as a pandas data frame."""
        return require("pandas", extra="bench").DataFrame(self.to_dict())


@dataclass(frozen=True)
class ScoredCurve(Tabular):
    """A reliability curve of one binary view with a band around it.

    Attributes
    ----------
    score : ndarray
        Scores at which the curve is given, ascending.
    frequency, low, high : ndarray
        Frequency of the event and the two edges of the band.
    histogram : ndarray
        Weight of the scores in bins of equal width from 0 to 1.
    kind, label, level
        As in `ReliabilityTable`.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("score", "frequency", "low", "high")

    score: AnyFloatArray
    frequency: AnyFloatArray
    low: AnyFloatArray
    high: AnyFloatArray
    histogram: AnyFloatArray
    kind: str
    label: Any
    level: float
