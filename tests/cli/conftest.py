"""Commands that make reports resample little: their tests read other things than how wide intervals are."""

from __future__ import annotations

from tests.quick import every_resample, few_resamples  # noqa: F401
