"""Problems to solve: small, over-confident, of every kind the calibrators make."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.threads import limit


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """As calibrators call solvers: threads that wait for one another make small products many times slower."""
    with limit():
        yield


def make_problem(kind: str, n: int = 300, k: int = 4, seed: int = 0, weighted: bool = False) -> ArrayProblem:
    rng = np.random.default_rng(seed)
    k = 2 if kind == "binary" else k
    z = rng.normal(size=(n, k))
    y = (z + rng.gumbel(size=(n, k))).argmax(axis=1)
    x = 1.3 * z @ (np.eye(k) + 0.2 * rng.normal(size=(k, k))).T
    x = np.ascontiguousarray((x - np.log(np.exp(x).sum(axis=1, keepdims=True))).T)
    weight = rng.integers(1, 4, size=n).astype(float) if weighted else None
    if kind == "matrix":
        shared = np.vstack([x, np.ones(n)])
        return ArrayProblem(y, shared[:k], shared=shared, weight=weight)
    if kind == "vector":
        return ArrayProblem(y, x, shared=np.ones((1, n)), own=x[None], weight=weight)
    if kind == "reference":
        ones = np.ones((1, n))
        return ArrayProblem(y, x, shared=ones, own=np.stack([x, x**2 / 5.0]), weight=weight, first_free=1)
    if kind == "mixed":
        return ArrayProblem(y, x, shared=np.vstack([x, np.ones(n)]), own=np.stack([x**2, np.exp(x)]), weight=weight)
    t = x[1] - x[0]
    return ArrayProblem(y, np.zeros((2, n)), shared=np.vstack([t, np.ones(n), t * t]), weight=weight, first_free=1)


KINDS = ("matrix", "vector", "mixed", "binary")


@pytest.fixture(params=[*KINDS, "reference"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
