"""Expected losses of predictions where the true probabilities of the classes are known.

With `q` the true probabilities of a row and `p` the predictions, log loss is `-Σ_j q_j log p_j` in expectation and the
Brier score `Σ_j p_j² - 2 Σ_j p_j q_j + 1`. Both are smallest at `p = q`; what they exceed that minimum by is
`Σ_j q_j log(q_j / p_j)` and `Σ_j (p_j - q_j)²`. No label is drawn, so the only noise left is that of the predictions.
"""

from __future__ import annotations

import numpy as np

from calibrant.simplex import LOSS_FLOOR
from calibrant.typing import AnyFloatArray, FloatArray


def expected_losses(truth: AnyFloatArray, proba: AnyFloatArray, *, floor: float = LOSS_FLOOR) -> dict[str, float]:
    """Expected log loss, Brier score (the sum over classes) and accuracy.

    Parameters
    ----------
    truth, proba : ndarray of shape (n_rows, n_classes)
        True and predicted probabilities.
    floor : float
        Smallest probability that an observed class is credited with, as in `calibrant.metrics.log_loss`.

    Returns
    -------
    dict
        `logloss`, `brier` and `accuracy`.

    Examples
    --------
    >>> truth, shifted = np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]])
    >>> best, found = expected_losses(truth, truth), expected_losses(truth, shifted)
    >>> round(found["logloss"] - best["logloss"], 4), found["brier"] - best["brier"], found["accuracy"]
    (0.1438, 0.125, 0.5)
    """
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
