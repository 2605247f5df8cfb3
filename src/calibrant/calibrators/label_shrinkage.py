"""Maps of many labels that borrow strength from each other: a hierarchical ridge of quadratics of the log-odds.

The log-odds of label l are ``θ_l0 + θ_l1 t + θ_l2 t² / 10`` for the log-odds t that a map shared by all labels gives.
All labels are fitted together:

    Σ_l Σ_i c_i loss(θ_l; t_il, y_il) + ½ Σ_l (θ_l - μ)ᵀ Λ (θ_l - μ) + ½ ‖μ - (0, 1, 0)‖².

The common mean μ is found with the rest; the strengths Λ, one of intercepts and one of slopes and curvatures, are
averaged over a grid by their cross-validated likelihood. A rare label stays near μ, a frequent one goes where its rows
lead. The unchanged predictions, the shared map and the map of the label are pooled, by weights that maximise the
cross-validated likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from calibrant.calibrators.auto.blend import likelihood_weights
from calibrant.calibrators.base import Calibrator
from calibrant.inputs.label_matrix import LabelMatrix, only_rows
from calibrant.sample import Sample
from calibrant.simplex import LOSS_FLOOR
from calibrant.steps import Clip, Log, LogOdds, Polynomial, Sigmoid, Step, run
from calibrant.typing import FloatArray, IntArray

#: Log-odds beyond these are cut off: a single row at -87 would tilt a parabola.
FARTHEST = 16.0
#: The curvature is that of t² / 10, so that it is about as large as the slope where labels are predicted.
_CURVE = 0.1
#: The strengths tried: standard deviations of 1 to 0.03 among labels.
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
#: Where the common mean of the coefficients is drawn to, with the strength of one observation.
_MEAN = np.array([0.0, 1.0, 0.0])
#: Folds, and the most cells (rows times labels) of cross-validation: more would not tell strengths better.
_FOLDS, _CELLS = 5, 200_000
#: Pseudo-observations in favour of each pooled member, so that few rows cannot rule one out.
_FOR_EACH = 5.0
#: Newton's method stops where a step gains less than this share of the objective.
_ENOUGH, _ENOUGH_IN_FOLDS = 1e-12, 1e-7
#: Most steps of Newton's method, and the shortest part of one.
_MOST_STEPS, _SHORTEST = 50, 1e-6
#: The share of what the slope promises that a step must gain: the usual constant of the Armijo rule.
_ARMIJO = 1e-4


@dataclass(frozen=True)
class LabelMaps:
    """Maps of all labels: the shared one, the polynomial of each label, and the weights of the pool."""

    shared: Calibrator
    #: Those of 1, t and t² for each label, (L, 3).
    coefficients: FloatArray
    #: Of the unchanged predictions, of the shared map and of the label's own.
    weights: FloatArray
    #: Chosen for intercepts and for slopes.
    strengths: FloatArray


def fit_labels(data: LabelMatrix, shared: Callable[[Sample], Calibrator], seed: int) -> LabelMaps:
    """Fit the maps of all labels; `shared` fits the common one to all labels as one sample."""
    if data.rows.n_groups < 2:
        found = shared(data.pooled())
        return LabelMaps(found, np.tile(_MEAN, (len(data.labels), 1)), np.array([0.5, 0.5, 0.0]), np.full(2, np.inf))
    strengths, weights = _validate(data, shared, seed)
    found = shared(data.pooled())
    theta, _ = shrunken_fit(_features(found, data), data.y, data.rows.each, strengths)
    return LabelMaps(found, theta * [1.0, 1.0, _CURVE], weights, strengths[:2])


def own_steps(coefficients: FloatArray) -> list[Step]:
    """The steps of a label's polynomial, on probabilities of the shared map."""
    return [Log(), LogOdds(), Clip(-FARTHEST, FARTHEST), Polynomial(coefficients), Sigmoid()]


def _features(shared: Calibrator, data: LabelMatrix) -> FloatArray:
    """1, t and t² / 10 of each cell, for log-odds t of the shared map: an array (L, n, 3)."""
    p = run(shared.steps(), np.column_stack([data.off.ravel(), data.on.ravel()]))
    t = run([Log(), LogOdds(), Clip(-FARTHEST, FARTHEST)], p).reshape(data.on.shape).T
    return np.stack([np.ones_like(t), t, _CURVE * t * t], axis=2)


def _sigmoid(z: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * z)))


def shrunken_fit(
    features: FloatArray,
    y: IntArray,
    each: FloatArray,
    strengths: FloatArray,
    *,
    start: tuple[FloatArray, FloatArray] | None = None,
    enough: float = _ENOUGH,
) -> tuple[FloatArray, FloatArray]:
    """Coefficients (L, d) of all labels and their common mean (d,), from features (L, n, d) and labels (n, L).

    Newton's method on all of them together; the mean is eliminated from each system by its Schur complement, so that
    the work grows with the number of cells.
    """
    target, ridge, prior = y.T.astype(np.float64), np.diag(strengths), np.eye(len(strengths))
    theta, mean = (np.tile(_MEAN, (len(features), 1)), _MEAN.copy()) if start is None else start

    def objective(theta: FloatArray, mean: FloatArray) -> float:
        z = np.matmul(features, theta[:, :, None])[:, :, 0]
        loss = float(np.sum((np.logaddexp(0.0, z) - target * z) @ each))
        return loss + 0.5 * float(np.sum((theta - mean) ** 2 @ strengths) + np.sum((mean - _MEAN) ** 2))

    value = objective(theta, mean)
    for _ in range(_MOST_STEPS):
        p = _sigmoid(np.matmul(features, theta[:, :, None])[:, :, 0])
        apart = (theta - mean) * strengths
        slope = np.matmul(((p - target) * each)[:, None, :], features)[:, 0, :] + apart
        weighted = features * (p * (1.0 - p) * each)[:, :, None]
        inverse = np.linalg.inv(np.matmul(features.transpose(0, 2, 1), weighted) + ridge)
        slope_of_mean = mean - _MEAN - apart.sum(axis=0)
        drawn = ridge @ inverse
        schur = len(theta) * ridge + prior - (drawn @ ridge).sum(axis=0)
        step_of_mean = np.linalg.solve(schur, -slope_of_mean - np.einsum("lde,le->d", drawn, slope))
        step = np.einsum("lde,le->ld", inverse, strengths * step_of_mean - slope)
        promised = float(np.sum(slope * step) + slope_of_mean @ step_of_mean)
        if -promised <= enough * max(value, 1.0):
            break
        share = 1.0
        while share > _SHORTEST:
            moved = objective(theta + share * step, mean + share * step_of_mean)
            if moved <= value + _ARMIJO * share * promised:
                break
            share /= 2.0
        else:
            break
        theta, mean, value = theta + share * step, mean + share * step_of_mean, moved
    return theta, mean


def _validate(data: LabelMatrix, shared: Callable[[Sample], Calibrator], seed: int) -> tuple[FloatArray, FloatArray]:
    """Strengths of the three coefficients, and weights of the pool, by cross-validation."""
    data = only_rows(data, max(_CELLS // len(data.labels), 50), seed)
    rows = data.rows
    folds = rows.folds(min(_FOLDS, rows.n_groups), seed)
    pairs = [np.array([own, slope, slope]) for own in STRENGTHS for slope in STRENGTHS]
    found = np.empty((len(pairs), *data.y.shape))
    common = np.empty(data.y.shape)
    for fold in np.unique(folds):
        test = folds == fold
        train, held = data.take(~test), data.take(test)
        fitted = shared(train.pooled())
        features, out = _features(fitted, train), _features(fitted, held)
        common[test] = _sigmoid(out[:, :, 1]).T
        at = None
        for place, strengths in enumerate(pairs):
            at = shrunken_fit(features, train.y, train.rows.each, strengths, start=at, enough=_ENOUGH_IN_FOLDS)
            found[place, test] = _sigmoid(np.matmul(out, at[0][:, :, None])[:, :, 0]).T
    # Rows of a group say less than as many independent ones.
    each = np.repeat(rows.each * (rows.units / rows.total), len(data.labels))
    truth = data.y.ravel()
    as_is, common, *own = (_of_truth(p.ravel(), truth) for p in (data.on, common, *found))
    losses = np.array([-(each @ np.log(p)) for p in own])
    shares = likelihood_weights(losses, 2.0)
    strengths = np.exp(shares @ np.log(pairs))
    return strengths, _pool(np.array([as_is, common, shares @ np.array(own)]), each)


def _of_truth(p: FloatArray, truth: IntArray) -> FloatArray:
    """The probability of what was observed, no less than the floor of the log loss."""
    return np.maximum(np.where(truth == 1, p, 1.0 - p), LOSS_FLOOR)


def _pool(members: FloatArray, each: FloatArray) -> FloatArray:
    """Weights of members that give observed cells these probabilities (m, n): the most likely ones, drawn to equality.

    The objective is concave; weights are written as a softmax, so that they stay positive.
    """

    def loss(u: FloatArray) -> tuple[float, FloatArray]:
        w = np.exp(u - u.max())
        w /= w.sum()
        mixed = w @ members
        gradient = members @ (each / mixed) + _FOR_EACH / w
        value = float(each @ np.log(mixed)) + _FOR_EACH * float(np.log(w).sum())
        return -value / total, -w * (gradient - float(w @ gradient)) / total

    total = float(each.sum())
    # As exact as rounding allows: rows with counts and the same rows repeated get the same weights.
    u = minimize(loss, np.zeros(len(members)), jac=True, method="BFGS", options={"gtol": 1e-12}).x
    w = np.exp(u - u.max())
    return np.asarray(w / w.sum())
