"""Running cases: what a worker process does, and what the tests call."""

from __future__ import annotations

import os
import traceback
from typing import Any

from tests.fuzz.cases import make_case
from tests.fuzz.checks import check
from tests.fuzz.segments import check_segmented, make_segmented

#: One seed of so many is a case with segments as well: these take longer.
SEGMENTED = 25


def run(seeds: range) -> list[str]:
    """A line for every case of `seeds` that fails."""
    failures = []
    for seed in seeds:
        failures += _failure(make_case(seed), check)
        if seed % SEGMENTED == 0:
            failures += _failure(make_segmented(seed), check_segmented)
    return failures


def _failure(case: Any, checked: Any) -> list[str]:
    try:
        checked(case)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error}".strip().split("\n")[0]
        return [f"{case}: {text} ({os.path.basename(where.filename)}:{where.lineno})"]
    return []
