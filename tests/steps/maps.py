"""Fitted maps of every method that can be stored, and rows that are hard to predict."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest

from calibrant import get_calibrator, list_calibrators
from tests.samples import sharpened

#: Rows that the maps are fitted to; corners follow them.
ROWS = 240
#: Parameters that make a fit fast, where nothing else depends on them.
QUICK = {"dirichlet-cv": {"lambdas_coef": [0.01], "lambdas_intercept": [0.01]}, "ms": {"max_iter": 20}}

#: Further maps of the same methods.
VARIANTS = {
    "auto, monotone": ("auto-fast", {"monotone": True}),
    "auto, thorough": ("auto", {"effort": "thorough"}),
    "sqs, kernel": ("sqs", {"n_landmarks": 20}),
    "ts, mixed": ("ts", {"input_smoothing": 0.01}),
    "svs, logits": ("svs", {"input": "logits"}),
    "isotonic, logits": ("isotonic", {"input": "logits"}),
    "isotonic, ovo": ("isotonic", {"multiclass": "ovo"}),
    "beta, ovo": ("beta", {"multiclass": "ovo"}),
}

NAMES = {
    k: [info.name for info in list_calibrators() if info.stores and info.supports(k)] + list(VARIANTS)
    for k in (2, 3, 10)
}
CASES = [(name, k) for k, names in NAMES.items() for name in names]
#: Ten classes take the ways of three, in larger fits: some of them, and all others among the slow tests.
_LARGE = ("isotonic, ovo", "auto, thorough", "sms")
MAPS = [pytest.param(name, k, marks=[pytest.mark.slow] if k == 10 and name not in _LARGE else []) for name, k in CASES]


def corners(k: int) -> np.ndarray:
    """Exact zeros and ones, ties, denormal numbers, uniform rows, and rows that sum to one up to rounding."""
    rng = np.random.default_rng(k)
    tie = np.zeros((2, k))
    tie[0, :2] = 0.5
    tie[1, :2] = 1 - 1e-9, 1e-9
    denormal = np.full((2, k), [[5e-324], [1e-40]])
    denormal[0, 0] = denormal[1, -1] = 1.0
    coarse = rng.multinomial(10, np.full(k, 1.0 / k), size=20) / 10.0
    rough = rng.dirichlet(np.ones(k), size=20).astype(np.float32).astype(np.float64)
    return np.concatenate([np.eye(k), np.full((1, k), 1.0 / k), tie, denormal, coarse, rough])


@functools.cache
def fitted(name: str, k: int):
    """A calibrator fitted to rows with ties, exact zeros and the precision of float32; and rows to predict."""
    method, options = VARIANTS.get(name, (name, QUICK.get(name, {})))
    p, y = sharpened(ROWS, k, seed=k)
    p[::5] = np.round(p[::5], 1)
    p = (p / p.sum(axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    rows = np.concatenate([p, corners(k)])
    if options.get("input") == "logits":
        p, rows = (np.log(np.maximum(q, 1e-30)) for q in (p, rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return get_calibrator(method, **options).fit(p, y), rows
