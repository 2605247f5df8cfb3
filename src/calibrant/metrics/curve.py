"""scikit-learn's `calibration_curve`, also for predictions with one column per class.

Two arrays for those who plot by themselves; `reliability_table` has intervals, counts and weights besides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.calibration import calibration_curve as curve_of_two

from calibrant.inputs.predictions import as_matrix
from calibrant.metrics.bins import Strategy
from calibrant.metrics.inputs import check_predictions
from calibrant.metrics.views import class_view, column_of, single_view
from calibrant.typing import AnyFloatArray


def calibration_curve(
    y_true: ArrayLike, y_prob: ArrayLike, *, pos_label: Any = None, n_bins: int = 5, strategy: Strategy = "uniform"
) -> tuple[AnyFloatArray, AnyFloatArray]:
    """Observed frequency and mean predicted probability in bins, as `sklearn.calibration.calibration_curve`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_prob : array-like of shape (n,) or (n, k)
        Probabilities of `pos_label`, or of all classes.
    pos_label : object, default=None
        The class whose probability is judged. `None` is the class 1 of a single column, the second of two columns,
        and the predicted class of each row if there are more.
    n_bins : int, default=5
        Number of bins; empty ones are left out.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or between quantiles of the probabilities.

    Returns
    -------
    prob_true, prob_pred : ndarray
        Observed frequency and mean probability of each bin.

    Examples
    --------
    >>> from calibrant.metrics import calibration_curve
    >>> prob_true, prob_pred = calibration_curve([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.8], n_bins=2)
    >>> prob_true, prob_pred
    (array([0., 1.]), array([0.2, 0.7]))
    """
    array, _ = as_matrix(y_prob)
    if array.ndim == 1 or array.shape[1] == 1:
        return curve_of_two(y_true, array.ravel(), pos_label=pos_label, n_bins=n_bins, strategy=strategy)
    data = check_predictions(y_true, y_prob)
    view = single_view(data, "auto") if pos_label is None else class_view(data, column_of(data, pos_label))
    return curve_of_two(view.hit, np.clip(view.score, 0.0, 1.0), n_bins=n_bins, strategy=strategy)
