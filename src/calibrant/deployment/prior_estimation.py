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
from scipy.special import kl_div, ndtri

from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, AnyIntArray, FloatArray

#: Nats in total that an estimate may fall short of the maximum; chance alone costs k / 2.
_SLACK = 1e-4
#: The number of rows that shares which are known exactly stand for: their error is below any that rows could show.
EXACT = 1e9
#: Steps of maximum likelihood after which the estimate is taken as it is.
_MOST_STEPS = 2000


@dataclass(frozen=True)
class SharesEstimate:
    """Estimated shares of the classes, with a confidence interval of each (k, 2)."""

    shares: FloatArray
    interval: FloatArray
    #: What the sampling error costs in log loss, in nats.
    noise: float


def em_shares(p: FloatArray, source: FloatArray, counts: AnyFloatArray | None = None) -> FloatArray:
    """Shares q that maximise ``Σ_i c_i log Σ_j q_j p_ij / s_j + k Σ_j s_j log q_j``.

    The last sum is worth k rows and keeps shares away from zero, where errors cost most. Steps of expectation
    maximisation, extrapolated (SQUAREM, Varadhan & Roland, 2008) where that does not lose likelihood. The largest
    ratio of a step's result to q bounds the distance to the maximum; at a small bound, in nats in total, it ends.
    """
    ratio = p / source
    counts = np.ones(len(p)) if counts is None else counts
    expected = p.shape[1] * source
    total = float(counts.sum()) + p.shape[1]

    def evaluate(q: FloatArray) -> tuple[float, FloatArray]:
        density = ratio @ q
        value = float(counts @ np.log(density) + expected @ np.log(q))
        return value, q * ((counts / density) @ ratio) / total + expected / total

    q = source
    value, after = evaluate(q)
    for _ in range(_MOST_STEPS):
        if total * (float(np.max(after / q)) - 1.0) <= _SLACK:
            break
        value_after, twice = evaluate(after)
        first, second = after - q, twice - 2.0 * after + q
        length = max(1.0, float(np.linalg.norm(first) / max(float(np.linalg.norm(second)), 1e-300)))
        far = q + 2.0 * length * first + length**2 * second
        far /= far.sum()
        value, q, after = value_after, after, twice
        if np.isfinite(far).all() and far.min() > 0.0:
            value_far, after_far = evaluate(far)
            if value_far >= value:
                value, q, after = value_far, far, after_far
    return after


def soft_confusion(p: AnyFloatArray, y: AnyIntArray, counts: AnyFloatArray | None = None) -> FloatArray:
    """Mean of ``p_i [y = j]`` over rows, (k, k): column j sums to the share of class j."""
    k = p.shape[1]
    counts = np.ones(len(p)) if counts is None else counts
    return np.column_stack([(counts * (y == j)) @ p for j in range(k)]) / counts.sum()


def bbse_shares(confusion: FloatArray, mean: FloatArray, n_labelled: float, n_unlabelled: float) -> FloatArray:
    """Shares q = w s of the classes whose `confusion` (see `soft_confusion`) explains the `mean` prediction of today.

    The ratios w minimise ``Σ_i (C w - m)_i² / m_i + λ Σ_j (w_j - 1)²`` over w ≥ 0, where λ is the sampling variance of
    the first sum's terms: it matters only where the confusion is so ill-conditioned that noise would decide (the
    regularised form of Azizzadenesheli et al., 2019).
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
    data: Sample,
    source_counts: FloatArray,
    labelled: Sample | None = None,
    *,
    method: str,
    level: float,
) -> SharesEstimate:
    """The estimate with its interval, from calibrated probabilities of unlabelled rows.

    Without the pull towards s and the bounds 0 and 1, an estimate is the mean over rows of some ``h(p)`` that has the
    mean ``e_j`` over rows of class j: ``q + N r / (q · r)`` with ``r_j = p_j / s_j`` and ``N`` the inverse, on vectors
    that sum to zero, of the mean of ``r r' / (q · r)²`` (one Newton step of maximum likelihood), or ``B⁻¹ p`` with the
    mean predictions of the classes in the columns of B. If the share of class j is t, ``h_j`` has the variance
    ``t v_j + (1 - t) v_other + t (1 - t)`` for its variances v within classes: the interval holds those t from which
    the mean of h is no further than that allows, which is Wilson's where classes are told apart without error. Added is
    the sampling variance of what stands for the calibration data: its counts of classes (`source_counts`) or the
    labelled rows. A group counts as one observation, which is right for any dependence within it and cautious where
    that is weak. The map is taken to be right.
    """
    p, each, n = np.asarray(data.proba, dtype=np.float64), data.each, data.total
    source = source_counts / source_counts.sum()
    if method == "em":
        shares = em_shares(p, source, data.counts)
        ratio = p / source
        ratio /= (ratio @ shares)[:, None]
        inverse = _inverse_of_sum_zero((each[:, None] * ratio).T @ ratio / n)
        h = shares + ratio @ inverse
        # N is made of the rows themselves: what a row misses of its own pull on it, as in the jackknife (HC3).
        kept = np.maximum(1.0 - np.einsum("ij,ij->i", ratio @ inverse, ratio) / n, 0.1)
        # A relative error ε of s moves q by (diag(q) - q q' - N) ε.
        moved = np.diag(shares) - np.outer(shares, shares) - inverse
        known = (moved / source_counts).T
        known = known if labelled is None else known[labelled.y]
    else:
        assert labelled is not None
        then = np.asarray(labelled.proba, dtype=np.float64)
        confusion = soft_confusion(then, labelled.y, labelled.counts)
        shares = bbse_shares(confusion, each @ p / n, labelled.total, n)
        inverse = _inverse(confusion / confusion.sum(axis=0)).T
        h, kept = p @ inverse, np.ones(len(p))
        known = (shares / labelled.class_counts)[labelled.y, None] * (np.eye(p.shape[1])[labelled.y] - then @ inverse)
    from_source = labelled.sum_variance(known) if labelled is not None else source_counts @ known**2
    mean = each @ h / n
    # Moments about the means that h has over the class, 1, and over others, 0: of two classes both intervals agree.
    of_class = p * (shares / source)
    of_class /= of_class.sum(axis=1, keepdims=True)
    weights = each[:, None] * of_class, each[:, None] * (1.0 - of_class)
    own, other = 1.0 + _spread(h, weights[0], kept), _spread(h, weights[1], kept)
    z, units = float(ndtri(0.5 + 0.5 * level)), data.units
    # Those t with (mean - t)² ≤ z² (variance(t) / units + variance of the source).
    a = 1.0 + z**2 / units
    b = mean + 0.5 * z**2 * (own - other) / units
    c = mean**2 - z**2 * (other / units + from_source)
    half = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    low, high = np.clip([(b - half) / a, (b + half) / a], 0.0, 1.0)
    interval = np.column_stack([np.minimum(low, shares), np.maximum(high, shares)])
    # One standard error to both sides: about half of the squared error over the share, where that is small.
    error = 0.5 * (interval[:, 1] - interval[:, 0]) / z
    off = np.array([np.maximum(shares - error, 0.0), shares + error])
    return SharesEstimate(shares, interval, float(0.5 * kl_div(off, shares).sum()))


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse; of a singular matrix one of a matrix nearby, large where nothing is known."""
    try:
        return np.linalg.inv(matrix + 1e-12 * np.trace(matrix) * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return np.linalg.inv(matrix + 1e-6 * np.trace(matrix) * np.eye(len(matrix)))


def _inverse_of_sum_zero(matrix: FloatArray) -> FloatArray:
    """The inverse on vectors that sum to zero: shares move along these."""
    k = len(matrix)
    basis = np.linalg.qr(np.eye(k)[:, 1:] - 1.0 / k)[0]
    return np.asarray(basis @ _inverse(basis.T @ matrix @ basis) @ basis.T)


def _spread(h: FloatArray, weight: FloatArray, kept: FloatArray) -> FloatArray:
    """Variance of each column about its own weighted mean; `kept` is the part of a row's deviation that is seen."""
    total = np.maximum(weight.sum(axis=0), 1e-300)
    off = (h - (weight * h).sum(axis=0) / total) / kept[:, None]
    return np.asarray((weight * off**2).sum(axis=0) / total)


def beyond_prior(data: Sample, labelled: Sample, shares: FloatArray, level: float) -> float:
    """How far the predictions are from any mixture of the classes: the largest standardised difference, less 0.

    The labelled rows, weighted by ``q_y / s_y``, should look as the unlabelled ones do. Compared are the means of
    ``p_j²`` for each class and of the largest probability; the result is 0 if chance explains all of them at `level`,
    with Bonferroni's correction, else the largest in standard errors.
    """
    ratio = (shares * labelled.total / np.maximum(labelled.class_counts, 1e-300))[labelled.y]
    ratio *= labelled.total / (labelled.each @ ratio)

    def features(rows: Sample) -> FloatArray:
        return np.column_stack([rows.proba**2, rows.confidence])

    then, now = features(labelled), features(data)
    expected, mean = (labelled.each * ratio) @ then / labelled.total, data.each @ now / data.total
    variance = labelled.sum_variance(ratio[:, None] * (then - expected) / labelled.total)
    variance += data.sum_variance((now - mean) / data.total)
    z = np.abs(mean - expected) / np.sqrt(np.maximum(variance, 1e-30))
    limit = -ndtri(0.5 * (1.0 - level) / len(z))
    return float(z.max()) if z.max() > limit else 0.0
