"""Proper losses and their relatives: log loss, Brier score and its skills, ranked probability score, accuracy.

With `p` the predicted probabilities and `y` the observed class, log loss is the mean of `-log p_y` and the Brier
score the mean of `Σ_j (p_j - 1[y = j])²`, or half of it. Each is a mean over rows, which is what `row_losses` gives.

A forecast that gives every row the same probabilities `r` has Brier score `Σ_j (r_j² - 2 r_j f_j) + 1` if classes occur
with frequencies `f`. A skill is the share of it that the predictions take away: 1 for perfect predictions, 0 for those
that are no better than the reference, negative for worse ones.

Where the true probabilities `q` of a row are known, log loss is `-Σ_j q_j log p_j` in expectation and the Brier score
`Σ_j p_j² - 2 Σ_j p_j q_j + 1`. Both are smallest at `p = q`. No label is drawn, so the only noise left is that of the
predictions.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant.bins import sum_by
from calibrant.metrics.scalars import Statistic, Summed, scalar, summed_mean
from calibrant.sample import Sample
from calibrant.simplex import LOSS_FLOOR
from calibrant.typing import AnyFloatArray, FloatArray


def log_loss_rows(data: Sample, *, floor: float = LOSS_FLOOR) -> AnyFloatArray:
    """`-log max(p_y, floor)` of every row."""
    if not 0 <= floor < 1:
        raise ValueError(f"floor must lie in [0, 1), got {floor}")
    with np.errstate(divide="ignore"):
        return -np.log(np.maximum(data.true_proba, floor))


def brier_rows(data: Sample, *, scale_by_half: bool | Literal["auto"] = "auto") -> AnyFloatArray:
    """`Σ_j (p_j - 1[y = j])²` of every row, halved for two classes (or as told), where it is then `(p - y)²`.

    Every Brier score of this package is halved in this way.
    """
    if data.n_classes == 2:
        rows = 2 * (1 - data.true_proba) ** 2
    else:
        squares = np.einsum("ij,ij->i", data.proba, data.proba, dtype=np.float64)  # without a copy of float32 tables
        rows = np.maximum(squares - 2 * data.true_proba + 1, 0.0)
    half = data.n_classes == 2 if scale_by_half == "auto" else bool(scale_by_half)
    return (0.5 if half else 1.0) * rows


def accuracy_rows(data: Sample) -> AnyFloatArray:
    """1 where the most probable class was observed, else 0."""
    return (data.top == data.y).astype(np.float64)


def row_losses(data: Sample, loss: str, **options: Any) -> AnyFloatArray:
    """One loss per row, by the name of the loss."""
    if loss == "log_loss":
        return log_loss_rows(data, **options)
    if loss == "brier":
        return brier_rows(data, **options)
    raise ValueError(f"loss must be 'log_loss' or 'brier', got {loss!r}")


@scalar(of_sums=True)
def log_loss(data: Sample, *, floor: float = LOSS_FLOOR) -> Statistic:
    """Mean negative log-probability of the observed class.

    Parameters
    ----------
    floor : float, default=1e-15
        Smallest probability the observed class is credited with. With 0 a single impossible event makes the loss
        infinite.

    Examples
    --------
    >>> round(log_loss([0, 1], [[0.8, 0.2], [0.4, 0.6]]), 4)
    0.367
    >>> round(log_loss(["no", "yes"], [0.2, 0.6]), 4)
    0.367
    """
    return summed_mean(log_loss_rows(data, floor=floor))


@scalar(upper=2.0, of_sums=True)
def brier(data: Sample, *, scale_by_half: bool | Literal["auto"] = "auto") -> Statistic:
    """Brier score: mean squared distance between the probabilities and the outcome.

    Parameters
    ----------
    scale_by_half : bool or "auto", default="auto"
        False sums the squares over all classes (0 to 2). True halves that, which for two classes is the familiar
        `(p - y)²`. "auto" halves for two classes only, as scikit-learn does.

    Examples
    --------
    >>> round(brier([0, 1], [0.2, 0.6]), 3), round(brier([0, 1], [0.2, 0.6], scale_by_half=False), 3)
    (0.1, 0.2)
    """
    return summed_mean(brier_rows(data, scale_by_half=scale_by_half))


@scalar(upper=1.0, of_sums=True)
def accuracy(data: Sample) -> Statistic:
    """Share of rows whose most probable class was observed; the first column wins ties.

    Examples
    --------
    >>> accuracy([0, 1, 1], [0.2, 0.6, 0.4])
    0.6666666666666666
    """
    return summed_mean(accuracy_rows(data), "frequency")


@scalar(lower=-1.0, upper=1.0, of_sums=True)
def confidence_gap(data: Sample) -> Statistic:
    """Mean confidence minus accuracy: positive for over-confident predictions, negative for under-confident ones.

    Examples
    --------
    >>> round(confidence_gap([0, 1], [[0.9, 0.1], [0.7, 0.3]]), 3)
    0.3
    """
    return summed_mean(data.confidence - accuracy_rows(data))


def _skill(score: float, reference: float) -> float:
    return 1.0 - score / reference if reference > 0 else float("nan")


@scalar(lower=-np.inf, upper=1.0)
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


@scalar(lower=-np.inf, upper=1.0)
def scaled_brier(data: Sample) -> Statistic:
    """Scaled Brier score: one minus the Brier score over that which the mean prediction promises.

    `1 - BS / BS_max` with `BS_max = Σ_j m_j (1 - m_j)` (halved for two classes, as the score) for mean predictions `m`
    (Steyerberg et al. 2010). It equals `brier_skill_score` where every class is predicted as often as it occurs;
    elsewhere it can be better or worse than the skill, since the wrong mean is in the reference as well: look at the
    expected-to-observed ratio first.

    Examples
    --------
    >>> round(scaled_brier([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]), 4)
    0.3475
    """
    rows, proba = brier_rows(data, scale_by_half=False), np.asarray(data.proba, dtype=np.float64)

    def scaled(counts: AnyFloatArray) -> float:
        total = float(counts.sum())
        mean = counts @ proba / total
        return _skill(float(counts @ rows) / total, float(mean @ (1.0 - mean)))

    return scaled


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
    >>> p = [[0.7, 0.2, 0.1]]
    >>> [round(ranked_probability_score([y], p, classes=[0, 1, 2]), 3) for y in (0, 1, 2)]
    [0.1, 0.5, 1.3]
    """
    last = data.n_classes - 1
    reached = np.cumsum(np.asarray(data.proba, dtype=np.float64)[:, :-1], axis=1)
    rows = np.sum((reached - (data.y[:, None] <= np.arange(last))) ** 2, axis=1)
    return summed_mean(rows / (last if normalise else 1))


def expected_losses(truth: AnyFloatArray, proba: AnyFloatArray, *, floor: float = LOSS_FLOOR) -> dict[str, float]:
    """Expected log loss, Brier score (the sum over classes) and accuracy of rows with known probabilities (n, k)."""
    q: FloatArray = np.asarray(truth, dtype=np.float64)
    p: FloatArray = np.asarray(proba, dtype=np.float64)
    if q.shape != p.shape:
        raise ValueError(
            f"truth has shape {q.shape}, proba {p.shape}: both hold one row per case, one column per class"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        # A class that cannot occur costs nothing, whatever it is credited with.
        surprise = np.where(q > 0, -q * np.log(np.maximum(p, floor)), 0.0)
    squares = np.einsum("ij,ij->i", p, p) - 2 * np.einsum("ij,ij->i", p, q) + 1
    return {
        "logloss": float(surprise.sum(axis=1).mean()),
        "brier": float(squares.mean()),
        "accuracy": float(q[np.arange(len(q)), p.argmax(axis=1)].mean()),
    }
