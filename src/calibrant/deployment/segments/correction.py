"""The correction of a global map by segment: levels first, trees on top, each shrunk by how sure its gain is.

Everything is judged on rows held out. A part that saves g of log loss there, with a standard error of e, keeps the
share ``1 - 2 (e / g)²`` of its way from the global map, and nothing if that is negative: the best share of an estimated
step is one less the part of its squared length that is noise, and e² is too little for noise, since g is the best of
several strengths or numbers of trees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.calibrators.auto.trees.ensemble import TreeLayer, cross_fit_trees
from calibrant.deployment.segments.levels import STRENGTHS, corrected, cross_validate, fit_correction, row_losses
from calibrant.deployment.segments.trees import OPTIONS
from calibrant.sample import Sample
from calibrant.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Correction:
    """What was found, shrunk.

    Attributes
    ----------
    theta : ndarray of shape (k, 2 levels)
        Intercepts and slopes of each level.
    trees : TreeLayer
        Steps of the logits.
    strength : float
        Of the ridge; infinite if levels are not corrected.
    duality_gap : float
        An upper bound of how far the ridge's objective is above its minimum.
    held : ndarray of shape (n, k)
        Logits of rows by corrections that were fitted without them.
    gain, gain_error : float
        Log loss saved on rows held out, and its standard error.
    """

    theta: FloatArray
    trees: TreeLayer
    strength: float
    duality_gap: float
    held: FloatArray
    gain: float
    gain_error: float


def find_correction(
    sample: Sample,
    fold: IntArray,
    places: IntArray,
    n_levels: int,
    asked: FloatArray | None,
    strength: float | None,
    seed: int,
) -> Correction:
    """Correct log-probabilities of rows that the global map was not fitted to.

    `places` (n, c) are the levels of each row, `asked` (columns, n) what trees ask about; either may have no columns.
    A `strength` that is given is taken as it is, and so is the correction by level.
    """
    z, y = sample.x, sample.y
    k, used, gap = sample.n_classes, np.inf, 0.0
    theta, starts = np.zeros((k, 2 * n_levels)), [z] * (int(fold.max()) + 1)
    if places.shape[1]:
        strengths = STRENGTHS if strength is None else (float(strength),)
        tried = cross_validate(sample, places, fold, n_levels, strengths)
        saved = row_losses(z, y) - tried.losses
        best = int(np.argmax(np.average(saved, axis=1, weights=sample.counts)))
        share = 1.0 if strength is not None else kept_share(*mean_and_error(saved[best], sample))
        if share:
            starts = [corrected(z, places, share * thetas[best]) for thetas in tried.thetas]
            found = fit_correction(sample, places, strengths[best], theta)
            theta, used, gap = share * found.theta, strengths[best], found.gap
    held = np.empty_like(z)
    for number, start in enumerate(starts):
        held[fold == number] = start[fold == number]
    trees = TreeLayer.empty(k)
    if asked is not None:
        begin = [np.ascontiguousarray(start.T) for start in starts]
        fitted = cross_fit_trees(asked, begin, sample, fold, OPTIONS, seed)
        after = fitted.held.T
        share = kept_share(*mean_and_error(row_losses(held, y) - row_losses(after, y), sample))
        if share:
            trees, held = fitted.layer.scaled(share), held + share * (after - held)
    gain, error = mean_and_error(row_losses(z, y) - row_losses(held, y), sample)
    return Correction(theta, trees, used, gap, held, gain, error)


def kept_share(gain: float, error: float) -> float:
    """The share of a correction that is kept.

    Examples
    --------
    >>> kept_share(0.02, 0.01), kept_share(0.01, 0.01), kept_share(-0.1, 0.01)
    (0.5, 0.0, 0.0)
    """
    return 0.0 if gain <= 0.0 else max(0.0, 1.0 - 2.0 * (error / gain) ** 2)


def mean_and_error(values: FloatArray, sample: Sample) -> tuple[float, float]:
    """The mean of a value for each row, and its standard error.

    Examples
    --------
    >>> mean_and_error(np.array([0.0, 2.0]), Sample(np.zeros((2, 2)), np.zeros(2), np.array([2.0, 2.0])))
    (1.0, 0.5)
    """
    mean = float(sample.each @ values) / sample.total
    off = values - mean
    if sample.groups is None:
        return mean, float(np.sqrt(sample.each @ off**2)) / sample.total
    return mean, float(np.linalg.norm(sample.group_sums(sample.each * off))) / sample.total
