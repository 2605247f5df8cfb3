"""scikit-learn's `calibration_curve`, also for predictions with one column per class.

Two arrays for those who plot by themselves; `reliability_table` has intervals, counts and weights besides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.bins import Strategy, bin_sums, check_bins, edge_index, quantiles, uniform_edges, uniform_index
from calibrant.docs import describe_parameters
from calibrant.inputs.labels import check_labels, distinct
from calibrant.inputs.predictions import as_matrix
from calibrant.inputs.samples import check_sample
from calibrant.inputs.words import METRIC
from calibrant.metrics.views import class_view, column_of, single_view
from calibrant.sklearn_private import check_pos_label_consistency
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray


@limited
@describe_parameters
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
    check_bins(n_bins, strategy)
    array, _ = as_matrix(y_prob, METRIC)
    if array.ndim == 2 and array.shape[1] > 1:
        data = check_sample(y_true, y_prob)
        view = single_view(data, "auto") if pos_label is None else class_view(data, column_of(data, pos_label))
    else:
        labels, _ = check_labels(y_true, len(array), METRIC)
        seen = distinct(labels)
        if len(seen) > 2:
            raise ValueError(
                f"y_true holds {len(seen)} classes, {seen.tolist()[:3]} ...: a single column of y_prob is for two. "
                "Pass one column per class, or y_true == label."
            )
        positive = check_pos_label_consistency(pos_label, labels)
        # As probabilities of the classes 0 and 1 they are checked like all others.
        view = single_view(check_sample((labels == positive).astype(np.int64), array, classes=[0, 1]), "binary")
    if strategy == "uniform":
        index = uniform_index(view.score, n_bins)
    else:
        index = edge_index(view.score, quantiles(view.score, None, uniform_edges(n_bins))[1:-1])
    sums = bin_sums(index, view.score, view.hit, np.ones(len(index)), n_bins)
    full = sums.weight > 0
    return sums.hit[full] / sums.weight[full], sums.score[full] / sums.weight[full]
