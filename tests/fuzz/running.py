"""Running cases: what a worker process does, and what the tests call."""

from __future__ import annotations

import os
import traceback
from functools import partial
from typing import Any

from tests.fuzz.cases import SINGLE_ROWS, make_case
from tests.fuzz.checks import check
from tests.fuzz.exports import check_exported, check_levels, make_exported, make_levels
from tests.fuzz.segments import check_segmented, make_segmented

#: Kinds of cases, each with what makes it of a seed, what checks it, and one of how many seeds it is made for: some
#: take longer.
KINDS: dict[str, tuple[Any, Any, int]] = {
    "fits": (make_case, check, 1),
    "single rows": (partial(make_case, weights=SINGLE_ROWS), check, 10),
    "segments": (make_segmented, check_segmented, 25),
    "exports": (make_exported, check_exported, 10),
    "levels": (make_levels, check_levels, 10),
}


def run(seeds: range, only: str | None = None) -> list[str]:
    """A line for every case of `seeds` that fails; of one kind only, every seed is a case."""
    failures = []
    for seed in seeds:
        for kind, (make, checked, every) in KINDS.items():
            if kind == only or (only is None and seed % every == 0):
                failures += _failure(make(seed), checked)
    return failures


def _failure(case: Any, checked: Any) -> list[str]:
    try:
        checked(case)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error}".strip().split("\n")[0]
        return [f"{case}: {text} ({os.path.basename(where.filename)}:{where.lineno})"]
    return []
