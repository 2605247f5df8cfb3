"""Random calibration problems of every unpleasant kind, each made again from its seed alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant import list_calibrators

#: Methods of the registry that need no other package, with parameters that reach every solver and penalty.
METHODS: list[tuple[str, dict[str, Any]]] = [(info.name, {}) for info in list_calibrators() if info.extra is None]
METHODS += [
    (name, {"penalty": penalty, "solver": solver, "preprocess": preprocess})
    for name in ("svs", "sms")
    for penalty, solver in [
        ("ridge", "lbfgs"),
        ("ridge", "newton"),
        ("lasso", "auto"),
        ("lasso", "fista"),
        ("group_lasso", "auto"),
        ("mcp", "auto"),
        (None, "auto"),
    ]
    for preprocess in ("ts", None)
]
METHODS += [
    (kind, {"penalty": penalty, "lambda_intercept": 0.01, "lambda_linear": 0.02, "lambda_quadratic": 0.05})
    for kind in ("affine", "quadratic")
    for penalty in ("ridge", "lasso", "mcp")
]
BINARY_ONLY = {info.name for info in list_calibrators() if not info.multiclass}

PREDICTIONS = ("ordinary", "extreme", "zeros", "one decimal", "two decimals", "three decimals", "votes", "constant",
               "few distinct", "right", "wrong", "impossible class", "tiny", "dyadic", "float32")  # fmt: skip
LABELS = ("numbers", "text", "negative", "boolean", "far apart")
WEIGHTS = ("none", "none", "counts", "zeros", "fractions", "large", "small")
#: Weights of which a single row is unlike the others: what `--weights` runs.
SINGLE_ROWS = (
    "one heavy", "one huge", "one only", "one tiny", "all tiny but one", "fractions below one", "all magnitudes",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One calibration problem: predictions of `k` classes, column numbers as labels, and how they are handed over."""

    seed: int
    method: str
    parameters: dict[str, Any]
    kind: str
    p: np.ndarray
    codes: np.ndarray
    names: np.ndarray
    weight: np.ndarray | None
    fresh: np.ndarray

    @property
    def y(self) -> np.ndarray:
        return self.names[self.codes]

    def __str__(self) -> str:
        n, k = self.p.shape
        return f"seed {self.seed}: {self.method} {self.parameters} on {n} × {k} {self.kind} predictions"


def make_case(seed: int, weights: tuple[str, ...] = WEIGHTS) -> Case:
    """The case of a seed, with one of these kinds of weights."""
    rng = np.random.default_rng([7, seed])
    method, parameters = METHODS[seed % len(METHODS)]
    k = 2 if method in BINARY_ONLY else int(rng.choice([2, 2, 3, 3, 4, 5, 8, 20]))
    n = int(rng.choice([2, 3, 5, 8, 14, 30, 60, 120]))
    kind = str(rng.choice(PREDICTIONS))
    truth = draw_predictions(rng, n, k, "ordinary")
    p = draw_predictions(rng, n, k, kind)
    codes = draw_labels(rng, p if rng.random() < 0.7 else truth, kind)
    return Case(
        seed,
        method,
        parameters,
        kind,
        p,
        codes,
        draw_names(rng, k),
        draw_weights(rng, n, weights),
        _fresh(rng, k, kind, p.dtype),
    )


def draw_predictions(rng: np.random.Generator, n: int, k: int, kind: str) -> np.ndarray:
    scale = 40.0 if kind == "extreme" else float(rng.choice([0.5, 2.0, 5.0]))
    z = scale * rng.normal(size=(n, k))
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    if kind == "zeros":
        p[p < 0.2 * p.max(axis=1, keepdims=True)] = 0.0
    elif kind.endswith(("decimal", "decimals")):
        p = p.round({"one": 1, "two": 2, "three": 3}[kind.split()[0]])
        p[p.sum(axis=1) == 0.0] = 1.0
    elif kind == "votes":
        p = rng.multinomial(10, p) / 10.0
    elif kind == "constant":
        p = np.repeat(p[:1], n, axis=0)
    elif kind == "few distinct":
        p = p[rng.integers(min(3, n), size=n)]
    elif kind == "impossible class":
        p[:, rng.integers(k)] = 0.0
        p[p.sum(axis=1) == 0.0] = 1.0
    elif kind == "tiny":
        p[:, 0] *= 10.0 ** -rng.integers(10, 300, size=n)
    elif kind == "dyadic":  # sums of such numbers are exact in any order
        p = rng.multinomial(1024, p) / 1024.0
        return p
    p = p / p.sum(axis=1, keepdims=True)
    return p.astype(np.float32) if kind == "float32" else p


def draw_labels(rng: np.random.Generator, p: np.ndarray, kind: str) -> np.ndarray:
    if kind == "right":
        return p.argmax(axis=1)
    if kind == "wrong":
        return p.argmin(axis=1)
    draws = rng.random(len(p))[:, None]
    return np.minimum((p.cumsum(axis=1) < draws).sum(axis=1), p.shape[1] - 1)


def draw_names(rng: np.random.Generator, k: int) -> np.ndarray:
    kind = str(rng.choice(LABELS))
    if kind == "boolean" and k == 2:
        return np.array([False, True])
    if kind == "text":
        return np.array([f"class {chr(97 + j)}" for j in range(k)])
    if kind == "negative":
        return np.arange(k) - 3
    return 1000 * np.arange(k) ** 3 if kind == "far apart" else np.arange(k)


def draw_weights(rng: np.random.Generator, n: int, kinds: tuple[str, ...] = WEIGHTS) -> np.ndarray | None:
    kind = str(rng.choice(kinds))
    if kind == "none":
        return None
    if kind in SINGLE_ROWS:
        return _unlike_others(rng, n, kind)
    weight = rng.integers(1, 4, size=n).astype(float)
    if kind == "zeros":
        weight[1:][rng.random(n - 1) < 0.3] = 0.0
    elif kind == "fractions":
        weight = rng.random(n) + 0.01
    elif kind == "large":
        weight *= 1e6
    elif kind == "small":
        weight *= 1e-6
    return weight


def _unlike_others(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    weight, row = np.ones(n), int(rng.integers(n))
    if kind == "fractions below one":
        return rng.random(n) * 10.0 ** -rng.integers(0, 4) + 1e-6
    if kind == "all magnitudes":
        return 10.0 ** rng.uniform(-20, 20, size=n)
    if kind == "all tiny but one":
        weight[:] = 10.0 ** -float(rng.integers(3, 250))
    elif kind == "one only":
        weight[:] = 0.0
    weight[row] = {
        "one heavy": float(rng.choice([2.0, 7.5, 50.0, 1000.0])),
        "one huge": 10.0 ** float(rng.integers(4, 100)),
        "one tiny": 10.0 ** -float(rng.integers(3, 250)),
    }.get(kind, 1.0 + 49.0 * rng.random())
    return weight


def _fresh(rng: np.random.Generator, k: int, kind: str, dtype: Any) -> np.ndarray:
    """Rows to predict: of the same kind, ordinary ones, certain ones and the uniform one."""
    certain = np.eye(k)[[0, k - 1]]
    rows = [
        draw_predictions(rng, 6, k, kind),
        draw_predictions(rng, 6, k, "ordinary"),
        certain,
        np.full((1, k), 1.0 / k),
    ]
    return np.vstack(rows).astype(dtype)
