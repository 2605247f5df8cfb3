"""A few hundred of the random cases in every test run, twenty thousand behind a marker."""

from __future__ import annotations

import pytest

from tests.fuzz.running import run

#: Cases per test: few enough to find the failing one quickly, enough for every method to come once in three.
_BATCH = 20


@pytest.mark.parametrize("first", range(0, 400, _BATCH))
def test_cases(first: int) -> None:
    assert run(range(first, first + _BATCH)) == []


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(400, 20_400, 1000))
def test_many_cases(first: int) -> None:
    assert run(range(first, first + 1000)) == []
