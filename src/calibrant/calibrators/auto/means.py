"""Class means: which classes are predicted too often or too rarely, and the intercepts that mend it.

Penalised intercepts, the prior of the temperature and smoothing each pull a class's mean prediction a little towards
what it was. That is nothing for a class of a thousand rows and much for one of twenty. Where the calibration rows prove
that a class was predicted too often or too rarely, a last intercept without a penalty makes its mean prediction its
frequency; the other classes keep what shrinks them.
"""

from __future__ import annotations

import numpy as np

from calibrant.sample import Sample
from calibrant.softmax.penalties import Ridge
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.solvers.newton import Newton
from calibrant.typing import FloatArray

#: Standard errors that prove a difference.
_PROOF = 3.0
#: Of many classes some are off by chance: more standard errors, and those of the larger of both frequencies, since half
#: of ten expected rows are nothing special.
_MANY_CLASSES, _PROOF_OF_MANY = 40, 4.0
#: A class of fewer rows, or with fewer rows of other classes beside it, keeps its penalised intercept: its frequency
#: says too little. One positive in thirty rows would else be matched by way of the negatives.
_LEAST_ROWS = 5.0
#: Ridge strengths of intercepts that are free, and of those that are not.
_FREE, _FIXED = 1e-9, 1e9
_TOL = 1e-10


def classes_off(said: FloatArray, seen: FloatArray, n: float) -> list[int]:
    """Classes whose mean prediction `said` is off the frequency `seen` of `n` rows, the most certain first."""
    many = len(seen) > _MANY_CLASSES
    likely = np.maximum(seen, said) if many else seen
    error = np.sqrt(np.maximum(likely * (1.0 - likely), 1.0 / n) / n)
    z = np.abs(said - seen) / error
    return [int(j) for j in np.argsort(-z) if z[j] > (_PROOF_OF_MANY if many else _PROOF)]


def matching_intercepts(sample: Sample, off: list[int]) -> FloatArray:
    """Intercepts (k,) of most likelihood: with them the mean predictions of the classes `off` are their frequencies."""
    rows, k = sample.class_counts, sample.n_classes
    free = [j for j in off if min(rows[j], rows.sum() - rows[j]) >= _LEAST_ROWS]
    strength = np.full((k, 1), _FIXED)
    strength[free] = _FREE
    logs = np.ascontiguousarray(sample.x.T)
    problem = ArrayProblem(sample.y, logs, shared=np.ones((1, sample.n_rows)), weight=sample.counts)
    found = Newton().minimise(problem, Ridge(strength), tol=_TOL, max_iter=100).theta
    intercepts = np.zeros(k)
    intercepts[free] = found[free, 0]
    return intercepts
