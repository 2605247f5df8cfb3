"""Scores against a reference: Brier skill score and scaled Brier score; and the ranked probability score.

A forecast that gives every row the same probabilities `r` has Brier score `Σ_j (r_j² - 2 r_j f_j) + 1` if classes occur
with frequencies `f`, which is `1 - Σ_j f_j²` for `r = f`. A skill is the share of it that the predictions take away:
1 for perfect predictions, 0 for those that are no better than the reference, negative for worse ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from calibrant.bins import sum_by
from calibrant.metrics.losses import brier_rows
from calibrant.metrics.scalars import Statistic, scalar
from calibrant.metrics.sums import Summed, summed_mean
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, FloatArray


def _skill(score: float, reference: float) -> float:
    return 1.0 - score / reference if reference > 0 else float("nan")


@scalar(lower=-np.inf, upper=1.0, unseen=True)
def brier_skill_score(data: Sample, *, reference: ArrayLike | None = None) -> Statistic:
    """Brier skill score: share of a constant forecast's Brier score that the predictions take away.

    `1 - BS / BS_ref`. With the class frequencies of these rows as reference it is the index of prediction accuracy
    (Kattan and Gerds 2018) and, in a sample, the R² of the probabilities. It rises with how different the rows are: a
    low value for a rare class says little against the predictions. NaN where the reference makes no error.

    Parameters
    ----------
    reference : array-like of shape (k,), optional
        Probabilities of the constant forecast, such as the frequencies of past years; by default those of these rows.

    Examples
    --------
    >>> from calibrant.metrics import brier_skill_score
    >>> round(brier_skill_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]), 4)
    0.3675
    """
    rows, k = brier_rows(data, scale_by_half=False), data.n_classes
    given = None if reference is None else np.asarray(reference, dtype=np.float64)
    if given is not None and (given.shape != (k,) or given.min() < 0 or abs(float(given.sum()) - 1.0) > 1e-6):
        raise ValueError(f"reference must be {k} probabilities that sum to 1, got {reference!r}")

    def skill(counts: AnyFloatArray) -> float:
        total = float(counts.sum())
        share = sum_by(data.y, counts, k) / total
        constant = share if given is None else given
        return _skill(float(counts @ rows) / total, float(constant @ constant - 2.0 * constant @ share) + 1.0)

    return skill


@scalar(lower=-np.inf, upper=1.0, unseen=True)
def scaled_brier(data: Sample) -> Statistic:
    """Scaled Brier score: one minus the Brier score over that which the mean prediction promises.

    `1 - BS / BS_max` with `BS_max = Σ_j m_j (1 - m_j)` (halved for two classes, as the score) for mean predictions `m`
    (Steyerberg et al. 2010). It equals `brier_skill_score` where every class is predicted as often as it occurs;
    elsewhere it can be better or worse than the skill, since the wrong mean is in the reference as well: look at the
    expected-to-observed ratio first.

    Examples
    --------
    >>> from calibrant.metrics import scaled_brier
    >>> round(scaled_brier([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]), 4)
    0.3475
    """
    rows, proba = brier_rows(data, scale_by_half=False), np.asarray(data.proba, dtype=np.float64)

    def scaled(counts: AnyFloatArray) -> float:
        total = float(counts.sum())
        mean = counts @ proba / total
        return _skill(float(counts @ rows) / total, float(mean @ (1.0 - mean)))

    return scaled


def ranked_rows(data: Sample) -> FloatArray:
    """`Σ_j (F_j - 1[y ≤ j])²` of every row, with `F` the cumulated probabilities in the order of the columns."""
    reached = np.cumsum(np.asarray(data.proba, dtype=np.float64)[:, :-1], axis=1)
    return np.asarray(np.sum((reached - (data.y[:, None] <= np.arange(data.n_classes - 1))) ** 2, axis=1))


@scalar(of_sums=True)
def ranked_probability_score(data: Sample, *, normalise: bool = False) -> Summed:
    """Ranked probability score of ordered classes: squared distance between cumulated probabilities and outcome.

    `Σ_{j<k} (F_j - 1[y ≤ j])²` in the mean (Epstein 1969, Murphy 1971): a proper score for which a near miss is better
    than a far one. For two classes it is the Brier score. Classes are ordered as the columns are, which for labels of
    text is the alphabet unless `classes` says otherwise; in any other order the number means nothing.

    Parameters
    ----------
    normalise : bool, default=False
        Divide by `k - 1`, so that the worst possible value is 1.

    Examples
    --------
    >>> from calibrant.metrics import ranked_probability_score
    >>> p = [[0.7, 0.2, 0.1]]
    >>> [round(ranked_probability_score([y], p, classes=[0, 1, 2]), 3) for y in (0, 1, 2)]
    [0.1, 0.5, 1.3]
    """
    return summed_mean(ranked_rows(data) / (data.n_classes - 1 if normalise else 1))
