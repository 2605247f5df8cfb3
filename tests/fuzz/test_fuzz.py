"""Twenty random cases of each kind in every test run, more among the slow tests, twenty thousand by themselves."""

from __future__ import annotations

import pytest

from tests.fuzz.running import run
from tests.needs import RunningTest

#: Cases per test: few enough to find the failing one quickly, and what every test run can afford.
_BATCH = 20


@pytest.fixture(autouse=True)
def _targets_that_are_installed() -> None:
    """Exports are tried in whatever is there, so no marker is asked for."""
    RunningTest.markers = None


@pytest.mark.parametrize(
    "first", [pytest.param(i, marks=[pytest.mark.slow] * (i >= _BATCH)) for i in range(0, 400, _BATCH)]
)
def test_cases(first: int) -> None:
    assert run(range(first, first + _BATCH)) == []


@pytest.mark.parametrize(
    "first", [pytest.param(i, marks=[pytest.mark.slow] * (i >= _BATCH)) for i in range(0, 200, _BATCH)]
)
def test_cases_with_a_row_of_unusual_weight(first: int) -> None:
    assert run(range(first, first + _BATCH), "single rows") == []


@pytest.mark.parametrize(
    "seed",
    [1223, 2129, 2954, 3016, 11281, 15080, 20049, 30069, pytest.param(31463, marks=pytest.mark.slow), 202534],
)
def test_cases_that_once_failed(seed: int) -> None:
    """A floor under scaled logarithms, weights lost in rounding, a blend of one member, a loss without curvature, a
    held-out row without a probability."""
    assert run(range(seed, seed + 1), "single rows") == []


@pytest.mark.export
@pytest.mark.parametrize("seed", [1550, 7010])
def test_exports_that_once_failed(seed: int) -> None:
    """Logits of minus infinity beside -1e308 in SQL, edges of Venn-Abers between neighbouring numbers."""
    assert run(range(seed, seed + 1), "exports") == []


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(400, 20_400, 1000))
def test_many_cases(first: int) -> None:
    assert run(range(first, first + 1000)) == []
