"""One BLAS thread for the classifiers of scikit-learn: on small data several only wait for one another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="package", autouse=True)
def _one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield
