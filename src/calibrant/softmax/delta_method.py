"""How sure the probabilities of a fitted softmax model are: the delta method.

At the optimum the summed loss has the Hessian ``H`` and a ridge the curvature ``P``. The coefficients then have the
covariance ``A⁻¹ (J + P) A⁻¹`` with ``A = H + P``, where ``J`` is ``H``, or the sum over groups of the outer products of
their gradients if rows belong together. Without groups this is ``A⁻¹``, the posterior covariance for the prior that the
ridge stands for: it holds the variance of the fit and the square of the bias that shrinkage is expected to have, which
is why its intervals cover also where the ridge is felt (Nychka, 1988).

For logits z with covariance C and probabilities p, the log-odds of class j against the rest have the gradient
``a_j = (e_j − p) / (1 − p_j)``, and so the variance ``a_jᵀ C a_j``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.sample import Sample
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.rows.row_source import Features
from calibrant.typing import AnyArray, FloatArray, IntArray

#: Curvatures below this share of the largest are rounding: the coefficients are as good as unknown there.
_FLAT = 1e-13
#: Where all other classes have less than this, ``e_j − p`` of the likely one is computed without cancellation.
_SURE = 0.1


def coefficient_covariance(
    problem: ArrayProblem,
    theta: FloatArray,
    curvature: FloatArray,
    sample: Sample,
    unshrunk: FloatArray | None = None,
) -> FloatArray:
    """Covariance (d, d) of the coefficients `theta` that solve a problem of these rows, ordered like ``theta.ravel()``.

    `curvature` is the second derivative of the penalty beside the mean loss, one for each coefficient; `unshrunk` a
    direction, shaped like the coefficients, that was fitted without a penalty beforehand: a temperature.
    """
    point = problem.at(theta)
    hessian = problem.total_weight * point.hessian()
    prior = np.diag(problem.total_weight * curvature.ravel())
    if unshrunk is not None and (pulled := prior @ unshrunk.ravel()).any():
        prior -= np.outer(pulled, pulled) / (unshrunk.ravel() @ pulled)
    both = hessian + prior
    if problem.first_free == 0:
        # A constant added to all classes' coefficients of a shared feature changes no probability: keep it at zero.
        same = np.tile(np.eye(problem.n_shared, problem.shape[1]), problem.n_classes)
        both += np.trace(both) / len(both) * (same.T @ same)
    values, vectors = np.linalg.eigh(both)
    inverse = (vectors / np.maximum(values, _FLAT * max(values[-1], np.finfo(np.float64).tiny))) @ vectors.T
    if sample.groups is None:
        return inverse
    pull = group_gradients(problem, point.p, sample)
    return np.asarray(inverse @ (_few(sample) * pull.T @ pull + prior) @ inverse)


def temperature_variance(problem: ArrayProblem, alpha: float, sample: Sample) -> FloatArray:
    """Variance (1, 1) of the inverse temperature, of a problem whose own features are its offset."""
    bend = max(problem.total_weight * problem.scaled(alpha)[2], float(np.finfo(np.float64).tiny))
    if sample.groups is None:
        return np.array([[1.0 / bend]])
    p = problem.at(np.full(problem.shape, alpha - 1.0)).p
    pull = group_gradients(problem, p, sample).sum(axis=1)
    return np.array([[_few(sample) * (pull @ pull) / bend**2]])


def _few(sample: Sample) -> float:
    """The factor by which sums of squares over few groups are too small."""
    return sample.n_groups / max(sample.n_groups - 1.0, 1.0)


def group_gradients(problem: ArrayProblem, p: FloatArray, sample: Sample) -> FloatArray:
    """The gradient of the loss of each group, (groups, d), at probabilities `p` (k, n)."""
    residual = p.copy()
    residual[sample.y, np.arange(sample.n_rows)] -= 1.0
    residual *= sample.each
    classes = range(problem.first_free, problem.n_classes)
    return np.hstack([sample.group_sums((residual[j] * problem.class_features(j)).T) for j in classes])


def log_odds_variances(features: Features, p: FloatArray, others: FloatArray, covariance: FloatArray) -> FloatArray:
    """Variance (n, k) of the log-odds of each class against the rest, with probabilities `p` and `others` (n, k).

    The `covariance` of the coefficients of a single class is that of a model of two classes, whose first has none; a
    single number is the variance of one coefficient that all classes share.
    """
    shared, own, k = features.shared, features.own, p.shape[1]
    if own is not None and len(covariance) == 1:
        logits = own[0].T - own[0].T[np.arange(len(p)), p.argmax(axis=1)][:, None]
        return np.asarray(covariance[0, 0] * ((logits - np.einsum("nj,nj->n", p, logits)[:, None]) / others) ** 2)
    if shared is not None and len(covariance) == len(shared):
        variance = np.einsum("dn,dn->n", shared, covariance @ shared)
        return np.repeat(np.maximum(variance, 0.0)[:, None], k, axis=1)
    if own is None and shared is not None:
        of_pairs, place = _shared_covariance(shared, covariance, k)

        def of_shared(weights: FloatArray, rows: IntArray | slice) -> AnyArray:
            some, small = of_pairs[:, rows], weights.T.astype(np.float32)
            return np.stack([np.einsum("ln,ln->n", some[place[j]], small) for j in range(k)], axis=1)

        return _against_rest(of_pairs[np.diag(place)].T, of_shared, p, others)
    parts = [] if shared is None else [np.broadcast_to(line[:, None], p.shape) for line in shared]
    parts += [] if own is None else [line.T for line in own]
    by_part = np.ascontiguousarray(covariance.reshape(k, len(parts), k, len(parts)).transpose(1, 0, 3, 2))
    matrix, seen = by_part.reshape(len(covariance), -1), np.hstack(parts)

    def times(weights: FloatArray, rows: IntArray | slice) -> FloatArray:
        some = seen[rows]
        products = some * ((some * np.tile(weights, len(parts))) @ matrix)
        return np.asarray(sum(np.hsplit(products, len(parts))))

    diagonal = np.zeros(p.shape)
    for a, left in enumerate(parts):
        for b, right in enumerate(parts):
            diagonal += left * np.diag(by_part[a, :, b]) * right
    return _against_rest(diagonal, times, p, others)


def _shared_covariance(shared: FloatArray, covariance: FloatArray, k: int) -> tuple[AnyArray, IntArray]:
    """Covariance (pairs, n) of logits that weigh the same features, and the place of each pair of classes (k, k).

    It is a product of pairs of features with the coefficients' covariance. Single precision is enough for a standard
    error, and twice as fast.
    """
    d = len(shared)
    first, second = np.triu_indices(d)
    one, other = np.triu_indices(k)
    blocks = covariance.reshape(k, d, k, d).transpose(0, 2, 1, 3)[one, other]
    twice = np.where(first == second, 0.5, 1.0)
    weights = (blocks[:, first, second] + blocks[:, second, first]) * twice
    small = shared.astype(np.float32)
    pairs = np.concatenate([small[i] * small[i:] for i in range(d)])
    place = np.zeros((k, k), dtype=np.int64)
    place[one, other] = place[other, one] = np.arange(len(one))
    return weights.astype(np.float32) @ pairs, place


def _against_rest(
    diagonal: AnyArray,
    times: Callable[[FloatArray, IntArray | slice], AnyArray],
    p: FloatArray,
    others: FloatArray,
) -> FloatArray:
    """``a_jᵀ C a_j`` for every class j, from the diagonal of C (n, k) and the products ``C w`` of rows with weights."""
    mean = times(p, slice(None))
    variance = (diagonal - 2.0 * mean + np.einsum("nj,nj->n", mean, p)[:, None]) / others**2
    sure = np.flatnonzero(others.min(axis=1) < _SURE)
    if sure.size:
        rows, top = np.arange(len(sure)), p[sure].argmax(axis=1)
        weights = -p[sure] / others[sure, top][:, None]
        weights[rows, top] = 1.0
        variance[sure, top] = np.einsum("nj,nj->n", weights, times(weights, sure))
    return np.maximum(variance, 0.0)
