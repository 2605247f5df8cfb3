"""Testing the hypothesis that the predicted probabilities are calibrated: the statistics, as functions of residuals.

`calibrant.metrics.null` knows how they are distributed under the hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from calibrant.bins import sum_by
from calibrant.docs import describe_parameters
from calibrant.inputs.samples import check_sample
from calibrant.metrics.binned import Binner
from calibrant.metrics.cumulative import excursion
from calibrant.metrics.null import (
    CalibrationTest,
    ClassResiduals,
    Residuals,
    ScoreResiduals,
    ViewResiduals,
    null_p_value,
)
from calibrant.metrics.smooth import Grid, smooth_error
from calibrant.metrics.views import Kind, View, class_view, resolve_kind, single_view
from calibrant.random_numbers import generator
from calibrant.sample import Sample
from calibrant.simplex import LOSS_FLOOR
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray

TestStatistic = Literal["kuiper", "kolmogorov_smirnov", "ece", "smooth_ece", "temperature", "score", "omnibus"]
# A statistic of the residuals of one view, of all classes, or of their scores.
OfResiduals = Callable[[AnyFloatArray], float]
#: Statistics of all classes at once.
OF_LABELS = ("temperature", "score", "omnibus")


def _of_view(name: str, data: Sample, view: View, n_bins: int, strategy: str) -> OfResiduals:
    if name in ("kuiper", "kolmogorov_smirnov"):
        of_path = excursion(view, kuiper=name == "kuiper")
        return lambda rows: of_path(rows) / data.total
    if name == "ece":
        index = Binner(view, n_bins, strategy).index(data.each)
        return lambda rows: float(np.abs(sum_by(index, rows, n_bins)).sum() / data.total)
    if name == "smooth_ece":
        grid = Grid(view.score)
        return lambda rows: smooth_error(grid.sums(rows) / data.total)
    raise ValueError(f"statistic must be one of {', '.join(map(repr, get_args(TestStatistic)))}, got {name!r}")


def _of_scores(name: str, residuals: ScoreResiduals) -> OfResiduals:
    """Statistics of the scores `g` of class intercepts and temperature, with their covariance `V`.

    "temperature" is the squared standard score of the last, "score" is `g' V⁺ g`; for two classes the latter is the
    test of Cox's recalibration intercept and slope. "omnibus" is the larger of both, each in standard deviations above
    its mean (of χ² variables): with hundreds of classes the sum over their frequencies varies so much that a wrong
    temperature does not show in it.
    """
    covariance = residuals.covariance()
    variance, freedom = float(covariance[-1, -1]), len(covariance) - 1
    inverse = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True) if name != "temperature" else covariance

    def temperature(scores: AnyFloatArray) -> float:
        last = float(scores[-1])
        # Predictions that are certain leave no room for chance.
        return last**2 / variance if variance > 0 else (0.0 if last == 0 else np.inf)

    def score(scores: AnyFloatArray) -> float:
        return float(scores @ inverse @ scores)

    def omnibus(scores: AnyFloatArray) -> float:
        return max((temperature(scores) - 1) / 2**0.5, (score(scores) - freedom) / (2 * freedom) ** 0.5)

    return {"temperature": temperature, "score": score, "omnibus": omnibus}[name]


def label_test(data: Sample, name: str, n_resamples: int, rng: np.random.Generator) -> CalibrationTest:
    """The test of a sample with a statistic of all classes."""
    residuals = ScoreResiduals(data, np.log(np.maximum(np.asarray(data.proba, dtype=np.float64), LOSS_FLOOR)))
    # No draw can be of a class that the predictions rule out, and a few such rows would make the temperature look right
    # where the other predictions are too close to the average.
    impossible = name == "omnibus" and bool((data.true_proba < LOSS_FLOOR).any())
    observed = np.inf if impossible else None
    found = null_p_value(residuals, _of_scores(name, residuals), n_resamples, rng, observed=observed)
    return CalibrationTest(*found, name, "all classes", n_resamples)


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
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    classes: Sequence[Any] | None = None,
) -> CalibrationTest:
    """Test the hypothesis that these probabilities are calibrated.

    If rows are independent, the p-value is valid for every number of rows. If only groups are independent, it is the
    larger of two: that of independent labels (with few groups, of labels that depend on each other as much as they
    can), and that of random signs of the groups' residuals.

    Parameters
    ----------
    statistic : {"kuiper", "kolmogorov_smirnov", "ece", "smooth_ece", "temperature", "score", "omnibus"}
        What to test with, by default "kuiper". The first four look at the scores of `kind`; Kuiper finds any deviation
        and needs no setting. The last three look at all classes at once: "temperature" for over- or under-confidence
        alone, against which nothing is more powerful, "score" for a wrong temperature and wrong class frequencies (for
        many classes with few rows each, the frequencies drown the temperature), "omnibus" for whichever of both
        is farther off; `kind` is not used by these.
    n_resamples : int, default=999
        Number of draws of labels, and with groups of signs; the smallest possible p-value is `1 / (n_resamples + 1)`.
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
    data = check_sample(y_true, y_prob, sample_weight, classes, groups=groups, blocks=blocks)
    rng = generator(random_state)
    if statistic in OF_LABELS:
        return label_test(data, statistic, n_resamples, rng)
    resolved = resolve_kind(data, kind)
    of_view = partial(_of_view, statistic, data, n_bins=n_bins, strategy=strategy)
    residuals: Residuals
    value: OfResiduals
    if resolved == "class-wise":
        each = [of_view(class_view(data, column)) for column in range(data.n_classes)]
        residuals = ClassResiduals(data)
        value = lambda rows: float(np.mean([of_class(column) for of_class, column in zip(each, rows.T)]))  # noqa: E731
    else:
        view = single_view(data, resolved)
        value, residuals = of_view(view), ViewResiduals(data, view)
    cells = n_bins if statistic == "ece" else 1
    found = null_p_value(residuals, value, n_resamples, rng, cells=cells)
    return CalibrationTest(*found, statistic, resolved, n_resamples)
