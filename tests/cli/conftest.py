"""Commands that make reports resample little: their tests read other things than how wide intervals are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import quick


@pytest.fixture(scope="module", autouse=True)
def _few_resamples() -> Iterator[None]:
    with quick.few():
        yield
