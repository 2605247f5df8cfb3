"""Intervals and bands of reports from few resamples, for tests that read other things than how wide they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from calibrant.metrics import hypothesis, running
from calibrant.report import comparison, label_page, report_tables, validation_document
from calibrant.workflows import answering, evaluating

#: What resamples, and how many resamples are enough here.
RESAMPLING = (
    (report_tables, "corp_curve", 10),
    (validation_document, "corp_curve", 10),
    (validation_document, "validation_table", 10),
    (evaluating, "validation_table", 10),
    (evaluating, "metrics_of", 50),
    (evaluating, "confidence_interval", 50),
    (evaluating, "calibration_test", 120),
    (answering, "choose_threshold", 10),
    (label_page, "measure", 20),
    (report_tables, "decision_curve", 10),
    (report_tables, "murphy_diagram", 10),
)
#: Numbers of resamples and draws that stand at the top of modules, and what is enough here.
NUMBERS = (
    (report_tables, "REFITS", 5),
    (report_tables, "FEW_RESAMPLES", 10),
    (comparison, "RESAMPLES", (50, 50)),
    (running, "RESAMPLES", 20),
    (hypothesis, "DRAWS", 99),
)
ORIGINALS = [(module, name, getattr(module, name)) for module, name, _ in (*RESAMPLING, *NUMBERS)]


def _with(function: Callable[..., Any], n_resamples: int) -> Callable[..., Any]:
    return lambda *args, **given: function(*args, **given | {"n_resamples": n_resamples})


@contextmanager
def few() -> Iterator[None]:
    """Few resamples inside."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, number in RESAMPLING:
            patch.setattr(module, name, _with(getattr(module, name), number))
        for module, name, value in NUMBERS:
            patch.setattr(module, name, value)
        yield


@contextmanager
def every() -> Iterator[None]:
    """All resamples again."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, original in ORIGINALS:
            patch.setattr(module, name, original)
        yield


@pytest.fixture(scope="module", autouse=True)
def few_resamples() -> Iterator[None]:
    """Of all tests in a folder whose conftest.py imports it."""
    with few():
        yield


@pytest.fixture
def every_resample() -> Iterator[None]:
    """For tests of how wide an interval is, or how small a p-value."""
    with every():
        yield
