"""How often each class occurs now, from predictions without labels, if nothing but that has changed.

If the rows of each class look as they did at calibration, calibrated probabilities p have the density
``f(p) Σ_j q_j p_j / s_j`` today, for the shares s of the classes then and q now. Maximum likelihood
(`em_shares`; Saerens et al., 2002) maximises ``Σ_i log Σ_j q_j p_ij / s_j``, which is concave in q. Inverting the
confusion of labelled rows (`bbse_shares`; Lipton et al., 2018) solves ``Σ_j q_j E[p | y = j] = mean of p today``.
Both are drawn towards s: by as many rows as there are classes, counted as if they had been seen, and by as much as
sampling noise hides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls
from scipy.special import ndtri, rel_entr

from calibrant.metrics.random import generator
from calibrant.typing import FloatArray, IntArray

#: Most rows that a resample is made of; more are stood for by a part of them with larger counts.
_MOST_RESAMPLED = 20_000
#: Nats in total that an estimate, and one from a resample, may fall short of the maximum; chance alone costs k / 2.
_SLACK, _RESAMPLE_SLACK = 1e-4, 1e-2
_MOST_STEPS = 2000


@dataclass(frozen=True)
class SharesEstimate:
    """Estimated shares of the classes.

    Attributes
    ----------
    shares : ndarray of shape (k,)
        The estimate.
    interval : ndarray of shape (k, 2)
        Percentiles of the resamples.
    noise : float
        Mean divergence of the resamples from the estimate, in nats: what its sampling error costs in log loss.
    """

    shares: FloatArray
    interval: FloatArray
    noise: float


def em_shares(
    p: FloatArray,
    source: FloatArray,
    counts: FloatArray | None = None,
    start: FloatArray | None = None,
    slack: float = _SLACK,
) -> FloatArray:
    """Shares q that maximise ``Σ_i c_i log Σ_j q_j p_ij / s_j + k Σ_j s_j log q_j``.

    The last sum is worth k rows and keeps shares away from zero, where errors cost most. Steps of expectation
    maximisation, extrapolated (SQUAREM, Varadhan & Roland, 2008) where that does not lose likelihood. The largest
    ratio of a step's result to q bounds the distance to the maximum; at the bound `slack`, in nats in total, it ends.

    Examples
    --------
    >>> p = np.repeat([[0.9, 0.1], [0.1, 0.9]], [300, 100], axis=0)  # of which half and half were expected
    >>> em_shares(p, np.array([0.5, 0.5])).round(3)
    array([0.81, 0.19])
    """
    ratio = p / source
    counts = np.ones(len(p)) if counts is None else counts
    expected = p.shape[1] * source
    total = float(counts.sum()) + p.shape[1]

    def evaluate(q: FloatArray) -> tuple[float, FloatArray]:
        density = ratio @ q
        value = float(counts @ np.log(density) + expected @ np.log(q))
        return value, q * ((counts / density) @ ratio) / total + expected / total

    q = source if start is None else start
    value, after = evaluate(q)
    for _ in range(_MOST_STEPS):
        if total * (float(np.max(after / q)) - 1.0) <= slack:
            break
        value_after, twice = evaluate(after)
        first, second = after - q, twice - 2.0 * after + q
        length = max(1.0, float(np.linalg.norm(first) / max(np.linalg.norm(second), 1e-300)))
        far = q + 2.0 * length * first + length**2 * second
        far /= far.sum()
        value, q, after = value_after, after, twice
        if np.isfinite(far).all() and far.min() > 0.0:
            value_far, after_far = evaluate(far)
            if value_far >= value:
                value, q, after = value_far, far, after_far
    return after


def soft_confusion(p: FloatArray, y: IntArray, counts: FloatArray | None = None) -> FloatArray:
    """Mean of ``p_i [y = j]`` over rows, (k, k): column j sums to the share of class j.

    Examples
    --------
    >>> soft_confusion(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 1]))
    array([[0.45, 0.2 ],
           [0.05, 0.3 ]])
    """
    k = p.shape[1]
    counts = np.ones(len(p)) if counts is None else counts
    return np.column_stack([(counts * (y == j)) @ p for j in range(k)]) / counts.sum()


def bbse_shares(confusion: FloatArray, mean: FloatArray, n_labelled: int, n_unlabelled: int) -> FloatArray:
    """Shares q = w s of the classes whose `confusion` (see `soft_confusion`) explains the `mean` prediction of today.

    The ratios w minimise ``Σ_i (C w - m)_i² / m_i + λ Σ_j (w_j - 1)²`` over w ≥ 0, where λ is the sampling variance of
    the first sum's terms: it matters only where the confusion is so ill-conditioned that noise would decide (the
    regularised form of Azizzadenesheli et al., 2019).

    Examples
    --------
    >>> confusion = np.array([[0.45, 0.05], [0.05, 0.45]])  # of classes of equal share
    >>> bbse_shares(confusion, confusion @ [1.6, 0.4], 10**6, 10**6).round(3)
    array([0.8, 0.2])
    """
    k = len(mean)
    source = confusion.sum(axis=0)
    scale = 1.0 / np.sqrt(np.maximum(mean, 1.0 / n_unlabelled))
    ridge = np.sqrt(1.0 / n_labelled + 1.0 / n_unlabelled)
    ratio, _ = nnls(
        np.vstack([confusion * scale[:, None], ridge * np.eye(k)]), np.append(mean * scale, np.full(k, ridge))
    )
    shares = ratio * source  # k rows with the shares of the calibration are counted as if they had been seen
    return np.asarray((n_unlabelled * shares / shares.sum() + k * source) / (n_unlabelled + k))


def estimate_shares(
    p: FloatArray,
    source_counts: FloatArray,
    labelled: tuple[FloatArray, IntArray] | None = None,
    *,
    method: str,
    level: float,
    n_resamples: int,
    random_state: int | np.random.Generator | None,
) -> SharesEstimate:
    """The estimate with its bootstrap interval, from calibrated probabilities `p` (n, k) of unlabelled rows.

    Resamples draw the unlabelled rows and what stands for the calibration data: its counts of classes
    (`source_counts`) or the labelled rows with their calibrated probabilities. The map is kept as it is.
    """
    rng = generator(random_state)
    n, source = len(p), source_counts / source_counts.sum()
    part = p if n <= _MOST_RESAMPLED else p[np.sort(rng.choice(n, _MOST_RESAMPLED, replace=False))]
    even = np.full(len(part), 1.0 / len(part))
    if method == "em":
        shares = em_shares(p, source)
        center = shares if part is p else em_shares(part, source, n * even, shares)

        def resample() -> FloatArray:
            counts = rng.multinomial(n, even).astype(np.float64)
            drawn = np.maximum(rng.multinomial(int(source_counts.sum()), source), 0.5)
            return em_shares(part, drawn / drawn.sum(), counts, center, _RESAMPLE_SLACK)
    else:
        assert labelled is not None
        p_labelled, y = labelled
        m = len(y)
        shares = bbse_shares(soft_confusion(p_labelled, y), p.mean(axis=0), m, n)
        center = shares if part is p else bbse_shares(soft_confusion(p_labelled, y), part.mean(axis=0), m, n)

        def resample() -> FloatArray:
            counts = rng.multinomial(n, even)
            drawn = rng.multinomial(m, np.full(m, 1.0 / m)).astype(np.float64)
            return bbse_shares(soft_confusion(p_labelled, y, drawn), counts @ part / n, m, n)

    replicates = np.array([resample() for _ in range(n_resamples)]) - center + shares
    tail = 0.5 * (1.0 - level)
    interval = np.clip(np.quantile(replicates, [tail, 1.0 - tail], axis=0).T, 0.0, 1.0)
    positive = np.maximum(replicates, 1e-12)
    noise = float(rel_entr(positive / positive.sum(axis=1, keepdims=True), shares).sum(axis=1).mean())
    return SharesEstimate(shares, interval, noise)


def beyond_prior(p: FloatArray, labelled: tuple[FloatArray, IntArray], shares: FloatArray, level: float) -> float:
    """How far the predictions are from any mixture of the classes: the largest standardised difference, less 0.

    The labelled rows, weighted by ``q_y / s_y``, should look as the unlabelled ones do. Compared are the means of
    ``p_j²`` for each class and of the largest probability; the result is 0 if chance explains all of them at `level`,
    with Bonferroni's correction, else the largest in standard errors.
    """
    p_labelled, y = labelled
    source = np.bincount(y, minlength=p.shape[1]) / len(y)
    weight = (shares / np.maximum(source, 1e-300))[y]
    weight *= len(y) / weight.sum()

    def features(rows: FloatArray) -> FloatArray:
        return np.column_stack([rows**2, rows.max(axis=1)])

    then, now = features(p_labelled), features(p)
    expected = weight @ then / len(y)
    variance = (weight**2 @ (then - expected) ** 2) / len(y) ** 2 + now.var(axis=0) / len(now)
    z = np.abs(now.mean(axis=0) - expected) / np.sqrt(np.maximum(variance, 1e-30))
    limit = -ndtri(0.5 * (1.0 - level) / len(z))
    return float(z.max()) if z.max() > limit else 0.0
