"""Fits with the compiled row kernels against the same kernels in NumPy: is numba worth its 210 MB?

    python benchmarks/without_numba.py [--repeats 5]

The twins below do what `calibrant.softmax.kernels` does, pass by pass, with NumPy's vectorised functions and BLAS. Each
fit runs with both in turn in one process, warm, and must find the same map; the ratio is that of median CPU seconds of
one thread.
Methods whose loops have no form in NumPy (trees of `auto`, coordinate descent, SAGA) are not compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import timing  # first: it limits the threads

# isort: split
import numpy as np

from calibrant import get_calibrator
from calibrant.softmax import kernels

METHODS = ("ts", "logistic", "svs", "sms")
SHAPES = ((1_000, 2), (50_000, 2), (1_000, 10), (10_000, 10), (100_000, 10), (10_000, 100))


def take_logs(x: Any, least: float) -> None:
    np.maximum(np.log(np.maximum(x, 1e-300)), least, out=x)


def softmax_loss(z: Any, y: Any, weight: Any) -> float:
    top, at_label = z.max(axis=0), z[y, np.arange(z.shape[1])]
    z -= top
    np.exp(z, out=z)
    total = z.sum(axis=0)
    z /= total
    return float(weight @ (np.log(total) + top - at_label))


def apply_curvature(p: Any, d: Any, weight: Any) -> None:
    d -= np.einsum("kn,kn->n", p, d)
    d *= p
    d *= weight


def add_features(z: Any, line: Any, slope: Any, own: Any, theta: Any) -> None:
    if slope.any():
        z += np.multiply.outer(slope, line)
    for m, feature in enumerate(own):
        z += theta[:, m, None] * feature


def own_sums(residual: Any, own: Any, out: Any) -> None:
    np.einsum("kn,mkn->km", residual, own, out=out)


def own_curvature(p: Any, shared: Any, own: Any, theta: Any, weight: Any) -> Any:
    d, out = len(shared), np.empty(theta.shape)
    moved = theta[:, :d] @ shared if d else np.zeros_like(p)
    for m, feature in enumerate(own):
        moved += theta[:, d + m, None] * feature
    apply_curvature(p, moved, weight)
    out[:, :d] = moved @ shared.T
    own_sums(moved, own, out[:, d:])
    return out


def logistic_rows(z: Any, y: Any, weight: Any, residual: Any, curvature: Any) -> float:
    small = np.exp(-np.abs(z))
    lesser = small / (1.0 + small)
    np.multiply(weight, np.where(z > 0.0, 1.0 - lesser, lesser) - y, out=residual)
    np.multiply(weight, lesser * (1.0 - lesser), out=curvature)
    return float(weight @ (np.maximum(np.where(y == 1, -z, z), 0.0) + np.log1p(small)))


def scaled_dual_value(p: Any, x: Any, y: Any, weight: Any, scale: float) -> float:
    rows, q = np.arange(len(y)), scale * p
    q[y, rows] += 1.0 - scale
    value = np.einsum("kn,kn->n", q, x - np.log(np.maximum(q, 1e-300)))
    return float(weight @ (value - x[y, rows]))


def scaled_derivatives(x: Any, top: Any, at_label: Any, alpha: float, weight: Any) -> tuple[float, float, float]:
    e = x - top
    e *= alpha
    np.exp(e, out=e)
    total = e.sum(axis=0)
    e *= x
    mean = e.sum(axis=0) / total
    e *= x
    second = e.sum(axis=0) / total
    loss = weight @ (np.log(total) + alpha * (top - at_label))
    return float(loss), float(weight @ (mean - at_label)), float(weight @ np.maximum(second - mean**2, 0.0))


TWINS = {
    "take_logs": take_logs, "softmax_loss": softmax_loss, "apply_curvature": apply_curvature,
    "add_features": add_features, "own_sums": own_sums, "own_curvature": own_curvature,
    "_logistic_rows": logistic_rows, "scaled_dual_value": scaled_dual_value, "scaled_derivatives": scaled_derivatives,
}  # fmt: skip


@contextmanager
def numpy_kernels() -> Iterator[None]:
    """Put the twins in the place of the compiled kernels for a while."""
    compiled = {name: getattr(kernels, name) for name in TWINS}
    try:
        for name, twin in TWINS.items():
            setattr(kernels, name, twin)
        yield
    finally:
        for name, kernel in compiled.items():
            setattr(kernels, name, kernel)


def predictions(n: int, k: int) -> tuple[Any, Any]:
    """Overconfident predictions of `n` rows, with the labels that calibrated ones would have."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(n, k)) * 2.0
    logits -= logits.max(axis=1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    sharp = p**2
    return sharp / sharp.sum(axis=1, keepdims=True), y


def main(repeats: int) -> None:
    print("| rows | classes | " + " | ".join(METHODS) + " |\n|" + "---|" * (len(METHODS) + 2))
    for n, k in SHAPES:
        p, y = predictions(n, k)
        cells = []
        for method in METHODS:

            def compiled(method: str = method, p: Any = p, y: Any = y) -> Any:
                return get_calibrator(method).fit(p, y)

            def plain(compiled: Any = compiled) -> Any:
                with numpy_kernels():
                    return compiled()

            apart = np.abs(compiled().predict_proba(p) - plain().predict_proba(p)).max()
            assert apart < 1e-5, f"{method}: the two optima are {apart:.0e} apart"
            fast, slow = timing.in_turn(compiled, plain, repeat=repeats)
            cells.append(f"{slow / fast:.1f} ({1000 * fast:.1f} ms)")
        print(f"| {n:,} | {k} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    main(parser.parse_args().repeats)
