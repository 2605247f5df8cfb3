"""Covariances of coefficients and variances of log-odds against plain formulas: inverses, sums over rows and groups."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from calibrant.sample import Sample
from calibrant.softmax.delta_method import (
    coefficient_covariance,
    group_gradients,
    log_odds_variances,
    temperature_variance,
)
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.rows.row_source import Features

N = 60
RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), size=N)
Y = (P.cumsum(axis=1) > RNG.random((N, 1))).argmax(axis=1)
WEIGHT = RNG.uniform(0.5, 2.0, N)
GROUPS = RNG.integers(0, 12, N)
X = np.log(P)


def problems(weight=None):
    """Shared features, own ones, and a model of two classes with a reference, with their labels."""
    t = X[:, 1] - X[:, 0]
    shared = np.vstack([X.T, np.ones(N)])
    yield ArrayProblem(Y, X.T, shared=shared, weight=weight), Y
    yield ArrayProblem(Y, X.T, shared=np.ones((1, N)), own=X.T[None], weight=weight), Y
    two = (Y > 0).astype(np.int64)
    yield ArrayProblem(two, np.zeros((2, N)), shared=np.vstack([t, np.ones(N)]), first_free=1, weight=weight), two


def features_of_rows(problem):
    """Derivatives of the logits of each row in the coefficients, (n, k, d), one class after the other."""
    r, q = problem.shape
    out = np.zeros((problem.n_rows, problem.n_classes, r * q))
    for j in range(r):
        out[:, problem.first_free + j, j * q : (j + 1) * q] = problem.class_features(problem.first_free + j).T
    return out


def sums_by_hand(problem, theta, y, weight):
    """Hessian of the summed loss, and the gradient of each row, both with loops."""
    f = features_of_rows(problem)
    z = problem.offset.T + np.einsum("njd,d->nj", f, theta.ravel())
    p = softmax(z, axis=1)
    hessian, gradients = 0.0, []
    for i in range(problem.n_rows):
        hessian = hessian + weight[i] * f[i].T @ (np.diag(p[i]) - np.outer(p[i], p[i])) @ f[i]
        gradients.append(weight[i] * f[i].T @ (p[i] - np.eye(problem.n_classes)[y[i]]))
    return hessian, np.array(gradients), p


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("case", range(3))
def test_covariance_is_the_inverse_of_all_curvature_or_the_sandwich_of_groups(case, grouped, weighted):
    weight = WEIGHT if weighted else None
    problem, y = list(problems(weight))[case]
    each = WEIGHT if weighted else np.ones(N)
    theta = 0.2 * np.random.default_rng(1).normal(size=problem.shape)
    curvature = np.random.default_rng(2).uniform(0.05, 0.2, problem.shape)
    sample = Sample(X, y, weight, groups=GROUPS if grouped else None, logs=True)
    hessian, gradients, p = sums_by_hand(problem, theta, y, each)
    prior = np.diag(each.sum() * curvature.ravel())
    middle = hessian + prior
    if grouped:
        sums = np.array([gradients[g == GROUPS].sum(axis=0) for g in np.unique(GROUPS)])
        middle = len(sums) / (len(sums) - 1.0) * sums.T @ sums + prior
        np.testing.assert_allclose(group_gradients(problem, p.T, sample), sums, atol=1e-12)
    both = hessian + prior
    if not problem.first_free:  # of a shared feature, one coefficient for all classes at once costs a mean curvature
        held, q = np.zeros_like(both), problem.shape[1]
        for d in range(problem.n_shared):
            held[np.ix_(range(d, 3 * q, q), range(d, 3 * q, q))] = np.trace(both) / len(both)
        both, middle = both + held, middle if grouped else middle + held
    inverse = np.linalg.inv(both)
    found = coefficient_covariance(problem, theta, curvature, sample)
    np.testing.assert_allclose(found, inverse @ middle @ inverse, rtol=1e-8, atol=1e-12)


def test_a_constant_for_all_classes_is_held_at_zero():
    """Without a penalty the curvature of a constant is zero: probabilities have the variance of the pseudo-inverse."""
    problem, y = next(problems())
    theta = 0.2 * np.random.default_rng(1).normal(size=problem.shape)
    hessian, _, p = sums_by_hand(problem, theta, y, np.ones(N))
    found = coefficient_covariance(problem, theta, np.zeros(problem.shape), Sample(X, y, logs=True))
    features, others = Features(X.T, problem.shared), 1.0 - p
    pseudo = np.linalg.pinv(hessian, rcond=1e-10)
    np.testing.assert_allclose(
        log_odds_variances(features, p, others, found), log_odds_variances(features, p, others, pseudo), rtol=2e-5
    )
    same = np.tile(np.eye(problem.n_shared), 3)
    largest = np.linalg.eigvalsh(same @ found @ same.T)[-1]
    assert largest < 0.1 * np.linalg.eigvalsh(found)[-1]


def test_an_unshrunk_direction_feels_no_prior():
    problem, y = list(problems())[2]
    theta, curvature, direction = np.array([[0.5, 0.1]]), np.array([[0.3, 0.2]]), np.array([[1.0, 0.5]])
    hessian, *_ = sums_by_hand(problem, theta, y, np.ones(N))
    prior = N * np.diag(curvature[0])
    pulled = prior @ direction[0]
    prior = prior - np.outer(pulled, pulled) / (direction[0] @ pulled)
    np.testing.assert_allclose(prior @ direction[0], 0.0, atol=1e-12)
    found = coefficient_covariance(problem, theta, curvature, Sample(X, y, logs=True), direction)
    np.testing.assert_allclose(found, np.linalg.inv(hessian + prior), rtol=1e-9)
    free = coefficient_covariance(problem, theta, 0.0 * curvature, Sample(X, y, logs=True), direction)
    np.testing.assert_allclose(free, np.linalg.inv(hessian), rtol=1e-9)


@pytest.mark.parametrize("grouped", [False, True])
def test_variance_of_a_temperature(grouped):
    alpha, sample = 0.8, Sample(X, Y, WEIGHT, groups=GROUPS if grouped else None, logs=True)
    p = softmax(alpha * X, axis=1)
    mean = (p * X).sum(axis=1)
    bend = WEIGHT @ ((p * X**2).sum(axis=1) - mean**2)
    pulls = WEIGHT * (mean - X[np.arange(N), Y])
    sums = np.array([pulls[g == GROUPS].sum() for g in np.unique(GROUPS)])
    factor = len(sums) / (len(sums) - 1.0)
    expected = factor * (sums @ sums) / bend**2 if grouped else 1.0 / bend
    found = temperature_variance(ArrayProblem(Y, X.T, own=X.T[None], weight=WEIGHT), alpha, sample)
    np.testing.assert_allclose(found, [[expected]], rtol=1e-9)


def test_rows_of_one_group_and_features_that_say_nothing():
    """A single group has no spread to correct; a direction without curvature has hardly any, not none."""
    alone = Sample(X, Y, WEIGHT, groups=np.zeros(N, dtype=int), logs=True)
    problem = ArrayProblem(Y, X.T, own=X.T[None], weight=WEIGHT)
    p = softmax(0.8 * X, axis=1)
    mean = (p * X).sum(axis=1)
    bend, pull = WEIGHT @ ((p * X**2).sum(axis=1) - mean**2), WEIGHT @ (mean - X[np.arange(N), Y])
    np.testing.assert_allclose(temperature_variance(problem, 0.8, alone), [[pull**2 / bend**2]], rtol=1e-9)
    two = (Y > 0).astype(np.int64)
    flat = ArrayProblem(two, np.zeros((2, N)), shared=np.vstack([np.ones(N), np.zeros(N)]), first_free=1)
    found = coefficient_covariance(flat, np.zeros((1, 2)), np.zeros((1, 2)), Sample(X, two, logs=True))
    np.testing.assert_allclose(found, np.diag([4.0 / N, 4e13 / N]), rtol=1e-9)


SURE = np.array([[1.0 - 3e-9, 1e-9, 2e-9], [0.02, 0.97, 0.01], [0.3, 0.3, 0.4], [0.1, 0.2, 0.7]])


@pytest.mark.parametrize("kind", ["shared", "own", "mixed", "one", "binary"])
def test_log_odds_move_with_the_logits(kind):
    """``a_jᵀ C a_j`` with the covariance of the logits of each row, next to certainty, too."""
    rng = np.random.default_rng(3)
    p = SURE if kind != "binary" else np.column_stack([1.0 - SURE[:, 2], SURE[:, 2]])
    n, k = p.shape
    x = np.log(p).T
    shared = None if kind in ("own", "one") else rng.normal(size=(2, n))
    own = None if kind in ("shared", "binary") else rng.normal(size=(1 if kind != "mixed" else 2, k, n))
    features = Features(x, shared, own)
    q = sum(0 if part is None else len(part) for part in (shared, own))
    classes = [1] if kind == "binary" else range(k)
    size = 1 if kind == "one" else q * len(classes)
    root = rng.normal(size=(size, size))
    covariance = root @ root.T
    jacobian = np.zeros((n, k, size))
    for place, j in enumerate(classes):
        parts = [*([] if shared is None else shared), *([] if own is None else own[:, j])]
        first = 0 if kind == "one" else place * q
        jacobian[:, j, first : first + len(parts)] = np.array(parts).T
    others = np.array([[sum(v for i, v in enumerate(row) if i != j) for j in range(k)] for row in p.tolist()])
    expected = np.empty((n, k))
    for i in range(n):
        logits = jacobian[i] @ covariance @ jacobian[i].T
        for j in range(k):
            a = -p[i] / others[i, j]
            a[j] = 1.0
            expected[i, j] = a @ logits @ a
    rtol = 1e-4 if kind == "shared" else 1e-6  # shared features: single precision
    np.testing.assert_allclose(log_odds_variances(features, p, others, covariance), expected, rtol=rtol)
