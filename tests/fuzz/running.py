"""Running cases: what a worker process does, and what the tests call."""

from __future__ import annotations

import os
import traceback

from tests.fuzz.cases import make_case
from tests.fuzz.checks import check


def run(seeds: range) -> list[str]:
    """A line for every case of `seeds` that fails."""
    failures = []
    for seed in seeds:
        case = make_case(seed)
        try:
            check(case)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error}".split("\n")[0]
            failures.append(f"{case}: {text} ({os.path.basename(where.filename)}:{where.lineno})")
    return failures
