"""The methods that are exact wherever their rows are, and what they must agree in."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Methods for two classes only, and those for any number.
BINARY = ("linear", "affine", "quadratic")
LAPLACE = ("ts-laplace", "svs-laplace", "sms-laplace")
ANY = (
    "ts",
    "ts-unsmoothed",
    "logistic",
    "svs",
    "sms",
    "vs",
    "ms",
    "dirichlet",
    "beta",
    "platt",
    "gaussian",
    "lda",
    *LAPLACE,
)
CASES = [(name, 2) for name in (*BINARY, *ANY)] + [(name, 4) for name in ANY]
#: Where the optimum is flat, coefficients agree only if the objective is at its minimum to the last digits.
TIGHT: dict[str, dict[str, Any]] = {
    name: {"tol": 1e-16} for name in (*BINARY, *LAPLACE[1:], "svs", "sms", "vs", "ms", "dirichlet", "logistic")
}
FITTED = ("inverse_temperature_", "coef_", "intercept_", "quadratic_", "slope_", "a_", "b_", "c_", "input_smoothing_")


def predictions(n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Over-confident probabilities, labels in order of class, and weights of which some are zero."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k))
    y = (z + rng.gumbel(size=(n, k))).argmax(axis=1)
    x = 1.7 * z @ (np.eye(k) + 0.2 * rng.normal(size=(k, k)))
    p = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    order = np.argsort(y, kind="stable")  # partitions of one class
    return p[order], y[order], rng.integers(0, 4, n).astype(float)


def coefficients(calibrator: Any) -> dict[str, np.ndarray]:
    """All fitted numbers of a calibrator and of those inside it."""
    inner = [calibrator, *getattr(calibrator, "estimators_", [])]
    if hasattr(calibrator, "calibrator_"):
        inner.append(calibrator.calibrator_)
    return {
        f"{i}.{name}": np.asarray(getattr(part, name), dtype=float)
        for i, part in enumerate(inner)
        for name in FITTED
        if hasattr(part, name)
    }


def assert_same(found: Any, expected: Any, *, rtol: float = 1e-6) -> None:
    """Coefficients agree relative to the largest of their kind (or one), objectives as well; gaps are below `tol`."""
    assert list(found.classes_) == list(expected.classes_)
    numbers = coefficients(expected)
    assert numbers
    for name, value in coefficients(found).items():
        np.testing.assert_allclose(
            value, numbers[name], rtol=0, atol=rtol * max(1.0, np.abs(numbers[name]).max()), err_msg=name
        )
    for one, other in ((found, expected), *zip_inner(found, expected)):
        if hasattr(other, "objective_"):
            np.testing.assert_allclose(one.objective_, other.objective_, rtol=min(rtol, 1e-6))
        if np.isfinite(getattr(other, "duality_gap_", np.nan)):
            assert one.duality_gap_ <= 1e-6 * max(1.0, one.objective_)


def zip_inner(found: Any, expected: Any) -> list[tuple[Any, Any]]:
    return [(found.calibrator_, expected.calibrator_)] if hasattr(expected, "calibrator_") else []
