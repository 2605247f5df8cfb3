"""Testing the hypothesis that the predicted probabilities are calibrated.

Under the hypothesis the labels are draws from the predictions, so the distribution of any statistic is known: draw
labels many times and count how often the statistic is at least as large as observed. The p-value
`(1 + #{T* ≥ T}) / (1 + B)` is valid for every sample size, with no asymptotics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from calibrant.bins import bin_sums, quantile_index, uniform_index
from calibrant.docs import describe_parameters
from calibrant.metrics.binned import expected_error
from calibrant.metrics.cumulative import excursion
from calibrant.metrics.inputs import Forecasts, check_predictions
from calibrant.metrics.random import LabelSampler, generator
from calibrant.metrics.smooth import Grid, smooth_error
from calibrant.metrics.views import Kind, View, class_view, resolve_kind, single_view, sort_view
from calibrant.simplex import LOSS_FLOOR
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray, AnyIntArray

TestStatistic = Literal["kuiper", "kolmogorov_smirnov", "ece", "smooth_ece", "temperature", "score", "omnibus"]
# A statistic of the outcomes of one view (1 where the event happened), everything else fixed.
OfHits = Callable[[AnyFloatArray], float]


class CalibrationTest(NamedTuple):
    """Result of a test of calibration.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import calibration_test
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p**2).astype(int)  # predicted too often
    >>> found = calibration_test(y, p, n_resamples=99)
    >>> found.name, found.p_value
    ('kuiper', 0.01)
    """

    statistic: float
    p_value: float
    name: str
    kind: str
    n_resamples: int


def _kuiper_of_hits(view: View, share: AnyFloatArray, *, kuiper: bool) -> OfHits:
    ordered = sort_view(view)
    moved = share[ordered.order]
    expected = np.cumsum(moved * ordered.score)
    ends = np.append(ordered.starts[1:], len(moved)) - 1

    def statistic(hit: AnyFloatArray) -> float:
        path = (np.cumsum(moved * hit[ordered.order]) - expected)[ends]
        return excursion(path, kuiper=kuiper)

    return statistic


def _ece_of_hits(view: View, share: AnyFloatArray, *, n_bins: int, strategy: str) -> OfHits:
    if strategy == "uniform":
        index = uniform_index(view.score, n_bins)
    else:
        ordered = sort_view(view)
        index = np.empty(len(view.score), dtype=np.intp)
        index[ordered.order] = quantile_index(ordered.starts, len(index), n_bins, share[ordered.order])
    return lambda hit: expected_error(bin_sums(index, view.score, hit, share, n_bins))


def _smooth_of_hits(view: View, share: AnyFloatArray) -> OfHits:
    grid = Grid(view.score)
    expected = grid.sums(share * view.score)
    return lambda hit: smooth_error(grid.sums(share * hit) - expected)


def _of_hits(name: str, view: View, share: AnyFloatArray, n_bins: int, strategy: str) -> OfHits:
    if name in ("kuiper", "kolmogorov_smirnov"):
        return _kuiper_of_hits(view, share, kuiper=name == "kuiper")
    if name == "ece":
        return _ece_of_hits(view, share, n_bins=n_bins, strategy=strategy)
    if name == "smooth_ece":
        return _smooth_of_hits(view, share)
    raise ValueError(f"statistic must be one of {', '.join(map(repr, get_args(TestStatistic)))}, got {name!r}")


def _log_scores(data: Forecasts) -> tuple[AnyFloatArray, AnyFloatArray, Callable[[AnyIntArray], AnyFloatArray]]:
    """`p`, `x = log p` less its expectation `Σ_j p_ij x_ij`, and the entries of the latter that labels choose."""
    proba = data.proba.astype(np.float64, copy=False)
    x = np.log(np.maximum(proba, LOSS_FLOOR))
    x -= np.sum(proba * x, axis=1)[:, None]
    start, flat = np.arange(len(x)) * data.n_classes, x.ravel()
    return proba, x, lambda y: flat[start + y]


def _temperature_of_labels(data: Forecasts, share: AnyFloatArray) -> Callable[[AnyIntArray], float]:
    """Squared standard score of `Σ_i w_i (x_i,y_i - Σ_j p_ij x_ij)` with `x = log p`: is the temperature one?"""
    proba, x, chosen = _log_scores(data)
    variance = float(share**2 @ np.sum(proba * x**2, axis=1))

    def statistic(y: AnyIntArray) -> float:
        score = float(share @ chosen(y))
        # Predictions that are certain leave no room for chance.
        return score**2 / variance if variance > 0 else (0.0 if score == 0 else np.inf)

    return statistic


def _score_of_labels(data: Forecasts, share: AnyFloatArray) -> Callable[[AnyIntArray], float]:
    """Score test of class intercepts and a temperature, `g' V⁺ g`, with the exact null covariance `V`.

    `g` has an entry `Σ_i w_i (1[y_i = j] - p_ij)` for each class and `Σ_i w_i (x_i,y_i - Σ_j p_ij x_ij)` for the
    temperature, with `x = log p`. For two classes this is the test of Cox's recalibration intercept and slope.
    """
    proba, x, chosen = _log_scores(data)
    squared = share**2
    size = data.n_classes
    covariance = np.empty((size + 1, size + 1))
    covariance[:size, :size] = np.diag(squared @ proba) - proba.T @ (squared[:, None] * proba)
    covariance[size, :size] = covariance[:size, size] = squared @ (proba * x)
    covariance[size, size] = squared @ np.sum(proba * x**2, axis=1)
    inverse = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True)
    expected = share @ proba

    def statistic(y: AnyIntArray) -> float:
        score = np.empty(size + 1)
        score[:size] = np.bincount(y, weights=share, minlength=size) - expected
        score[size] = share @ chosen(y)
        return float(score @ inverse @ score)

    return statistic


def _omnibus_of_labels(data: Forecasts, share: AnyFloatArray) -> Callable[[AnyIntArray], float]:
    """The larger of the two above, each measured in standard deviations above its mean (of χ² variables).

    With hundreds of classes the sum over their frequencies varies so much that a wrong temperature does not show in it.
    Infinite if a class occurs that the predictions had ruled out: no draw from them can do that, and among predictions
    that are else too timid a few such rows would make the temperature look right.
    """
    temperature, score = _temperature_of_labels(data, share), _score_of_labels(data, share)
    freedom, rows = data.n_classes, np.arange(data.n_rows)

    def statistic(y: AnyIntArray) -> float:
        if (share[data.proba[rows, y] < LOSS_FLOOR] > 0).any():
            return np.inf
        return max((temperature(y) - 1) / 2**0.5, (score(y) - freedom) / (2 * freedom) ** 0.5)

    return statistic


#: Statistics of all classes at once.
OF_LABELS = {"temperature": _temperature_of_labels, "score": _score_of_labels, "omnibus": _omnibus_of_labels}


@limited
@describe_parameters
def calibration_test(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    statistic: TestStatistic = "kuiper",
    *,
    kind: Kind = "auto",
    n_resamples: int = 999,
    random_state: int | np.random.Generator | None = 0,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] = "quantile",
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
) -> CalibrationTest:
    """Test the hypothesis that these probabilities are calibrated.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Rows are independent observations; weights say how much each counts in the statistic.
    statistic : {"kuiper", "kolmogorov_smirnov", "ece", "smooth_ece", "temperature", "score", "omnibus"}
        What to test with, by default "kuiper". The first four look at the scores of `kind`; Kuiper finds any deviation
        and needs no setting. The last three look at all classes at once: "temperature" for over- or under-confidence
        alone, against which nothing is more powerful, "score" for a wrong temperature and wrong class frequencies (for
        many classes with few rows each, the frequencies drown the temperature), "omnibus" for whichever of both
        is farther off; `kind` is not used by these.
    n_resamples : int, default=999
        Number of draws of labels; the smallest possible p-value is `1 / (n_resamples + 1)`.
    n_bins : int, default=15
        Number of bins of "ece".

    Returns
    -------
    CalibrationTest
        Named tuple of `statistic`, `p_value`, `name`, `kind` and `n_resamples`. A small p-value is evidence against
        calibration; a large one does not prove it.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import calibration_test
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p).astype(int)
    >>> calibration_test(y, p).p_value > 0.05, calibration_test(y, p**2).p_value
    (True, 0.001)
    """
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be positive, got {n_resamples}")
    data = check_predictions(y_true, y_prob, sample_weight, classes)
    rng = generator(random_state)
    share = np.full(data.n_rows, 1 / data.n_rows) if data.weight is None else data.weight / data.weight.sum()
    if statistic in OF_LABELS:
        resolved = "all classes"
        observed, drawn = _simulate_labels(data, OF_LABELS[statistic](data, share), n_resamples, rng)
    elif resolve_kind(data, kind) == "class-wise":
        resolved = "class-wise"
        each = [
            _of_hits(statistic, class_view(data, column), share, n_bins, strategy) for column in range(data.n_classes)
        ]

        def mean_over_classes(y: AnyIntArray) -> float:
            return float(np.mean([of_hits((y == column).astype(np.float64)) for column, of_hits in enumerate(each)]))

        observed, drawn = _simulate_labels(data, mean_over_classes, n_resamples, rng)
    else:
        resolved = resolve_kind(data, kind)
        view = single_view(data, resolved)
        of_hits = _of_hits(statistic, view, share, n_bins, strategy)
        observed = of_hits(view.hit)
        drawn = np.array(
            [of_hits((rng.random(data.n_rows) < view.score).astype(np.float64)) for _ in range(n_resamples)]
        )
    # Statistics of few rows take few values: rounding must not turn equal ones into smaller ones.
    exceeding = int(np.count_nonzero(drawn >= observed - 1e-12 * max(1.0, abs(observed))))
    return CalibrationTest(observed, (1 + exceeding) / (1 + n_resamples), statistic, resolved, n_resamples)


def _simulate_labels(
    data: Forecasts, statistic: Callable[[AnyIntArray], float], n_resamples: int, rng: np.random.Generator
) -> tuple[float, AnyFloatArray]:
    sampler = LabelSampler(data.proba)
    drawn = np.array([statistic(sampler.draw(rng)) for _ in range(n_resamples)])
    return statistic(data.y), drawn
