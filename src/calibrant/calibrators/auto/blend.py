"""Blending of members by their out-of-fold logits: ``softmax(Σ_m w_m Z_m)``, the normalised geometric mean.

The weights, non-negative with sum one, minimise the out-of-fold log loss plus ``(strength / n) KL(w ‖ prior)``; the
prior keeps the blend near the safe members where the data are unclear. Members on one path of strengths are averaged
by their cross-validated likelihood, ``w ∝ exp(−n ΔCV / 2)``. The unchanged predictions join by an arithmetic mean,
``(1 − v) p + v p₀``: their exact zeros, which as logarithms would outweigh all else, then cost at most ``−log(1 − v)``.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from calibrant.sample import Sample
from calibrant.simplex import LOSS_FLOOR
from calibrant.typing import FloatArray, IntArray

#: Most steps of a blend, which ends when no weight moves by 1e-4.
_STEPS = 200
#: A held-out row may have a larger loss, but not a probability below the smallest number.
_MOST_LOSS = 700.0
#: Numbers in a member's logits beyond which weights are chosen by rows drawn at random: 2000 of a thousand classes.
_MOST_NUMBERS = 1 << 21
#: The most nats that a single row can add to the evidence against the original predictions, so that one exact zero
#: does not decide.
_MOST_EVIDENCE = 2.0


def log_losses(z: FloatArray, y: IntArray) -> FloatArray:
    """Log loss of each row at logits `z` (k, n)."""
    top = z.max(axis=0)
    at_label = z[y, np.arange(len(y))]
    return np.asarray(np.log(np.exp(z - top).sum(axis=0)) + top - at_label)


def mean_log_loss(z: FloatArray, y: IntArray, weight: FloatArray | None) -> float:
    """Mean log loss at logits `z` (k, n), with the floor that metrics and reports have."""
    return float(np.average(np.minimum(log_losses(z, y), -np.log(LOSS_FLOOR)), weights=weight))


def at_labels(z: FloatArray, y: IntArray) -> FloatArray:
    """Probabilities of the labels at logits `z` (k, n)."""
    return np.asarray(np.exp(-np.minimum(log_losses(z, y), _MOST_LOSS)))


def likelihood_weights(losses: FloatArray, n: float) -> FloatArray:
    """Weights ``exp(−n ΔCV / 2)`` of candidates with mean cross-validated `losses`."""
    w = np.exp(-(losses - losses.min()) * n / 2.0)
    return np.asarray(w / w.sum())


def blend_weights(members: list[FloatArray], sample: Sample, prior: FloatArray, strength: float) -> FloatArray:
    """Weights of the members whose out-of-fold logits (k, n) are given.

    Exponentiated gradient descent, which keeps weights positive, from the prior; the problem is convex.
    """
    from calibrant.softmax.kernels import softmax_loss

    if (most := max(1, _MOST_NUMBERS // sample.n_classes)) < sample.n_rows:
        drawn = np.sort(np.random.RandomState(0).permutation(sample.n_rows)[:most])
        members, sample = [np.ascontiguousarray(z[:, drawn]) for z in members], sample.take(drawn)
    y, share = sample.y, sample.each / sample.total
    rows, weight = np.arange(len(y)), share.astype(members[0].dtype)
    at_label = np.array([share @ z[y, rows] for z in members])
    prior = prior / prior.sum()
    strength /= sample.total

    def evaluate(w: FloatArray) -> tuple[float, FloatArray]:
        first, *others = w.tolist()  # plain numbers keep the precision of the members
        z = first * members[0]
        for value, member in zip(others, members[1:], strict=True):
            z += value * member
        loss = softmax_loss(z, y, weight)
        z *= weight
        log_ratio = np.log(np.maximum(w, 1e-300) / prior)
        gradient = np.array([np.vdot(z, member) for member in members]) - at_label
        return float(loss + strength * (w @ log_ratio)), gradient + strength * log_ratio

    w, rate = prior, 4.0
    objective, gradient = evaluate(w)
    for _ in range(_STEPS):
        # A weight that vanished stays so, however good its member is now: then another one has to lead.
        trial = w * np.exp(-rate * np.maximum(gradient - gradient[w > 0.0].min(), 0.0))
        trial /= trial.sum()
        value, slope = evaluate(trial)
        if value > objective:
            rate /= 2.0
            if rate < 1e-3:
                break
            continue
        moved = float(np.abs(trial - w).max())
        w, objective, gradient = trial, value, slope
        rate *= 1.2
        if moved < 1e-4:
            break
    return w


def evidence(blended: FloatArray, original: FloatArray, each: FloatArray) -> float:
    """Nats by which the observed labels, of probabilities `blended` and `original`, favour the blend."""
    return float(each @ np.log(blended / np.maximum(original, np.exp(-_MOST_EVIDENCE) * blended)))


def pool_weight(
    blended: FloatArray,
    original: FloatArray,
    each: FloatArray,
    counts: tuple[float, float],
    overwhelming: float = np.inf,
) -> float:
    """The share ``v`` of the original predictions that maximises the likelihood of ``(1 − v) blended + v original``.

    `blended` and `original` are the probabilities of the observed labels and `each` is what their rows count for;
    `counts` are pseudo-observations that only the blend, and only the original, could explain. The objective is
    concave. If the blend's log-likelihood is larger by more than `overwhelming`, the share is zero: what is left of it
    would only carry the original's bias.
    """
    if evidence(blended, original, each) > overwhelming:
        return 0.0
    difference = original - blended

    def slope(v: float) -> float:
        return float(each @ (difference / (blended + v * difference))) - counts[0] / (1.0 - v) + counts[1] / v

    least = 1e-9
    if slope(least) <= 0.0:
        return 0.0
    return 1.0 if slope(1.0 - least) >= 0.0 else float(brentq(slope, least, 1.0 - least, xtol=1e-6))
