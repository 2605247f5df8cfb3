"""A pool without processes, for tests of what is done with its answers: a process takes seconds to import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from calibrant.bench import hyperparameters
from calibrant.bench.building import builder
from calibrant.bench.runs import runner
from calibrant.bench.runs.pool import Answer, Batch, ProcessPool


class HerePool(ProcessPool):
    """Does the jobs in this process."""

    def run(self, batches: Iterable[Batch]) -> Iterator[tuple[Any, list[Answer]]]:
        for name, jobs in batches:
            yield name, [Answer("ok", job.function(*job.arguments)) for job in jobs]


def work_here(monkeypatch: pytest.MonkeyPatch, pool: type[ProcessPool] = HerePool) -> None:
    """Let builds, runs and searches use this pool."""
    for module in (builder, hyperparameters, runner):
        monkeypatch.setattr(module, "ProcessPool", pool)
