"""Tests of the hypothesis that predicted probabilities are calibrated: statistics, their distribution, p-values.

Every statistic here is a function of *residuals*: what happened less what was expected, `Σ (hit - score)` over the
observations of a row. Under the hypothesis labels are draws from the predictions, so the distribution is known: draw
labels many times and count how often the statistic is at least as large as observed. If rows are independent, the
p-value `(1 + #{T* ≥ T}) / (1 + B)` is valid for every sample size, with no asymptotics.

Rows of a group may depend on each other in an unknown way. Then the residuals of each group keep or change
their sign at random (the wild bootstrap), which keeps any dependence inside the groups, and the larger of this p-value
and that of independent draws counts. Signs say little where few groups can show an event: there one random number is
drawn for all rows of a group instead, the strongest dependence there can be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

import numpy as np
from scipy.special import chdtrc

from calibrant.bins import Strategy, sum_by
from calibrant.metrics.binned import Binner
from calibrant.metrics.result_types import CalibrationTest
from calibrant.metrics.scalars import public
from calibrant.metrics.smooth import Grid, smooth_error
from calibrant.metrics.sorted_scores import excursion
from calibrant.metrics.views import Kind, View, class_view, resolve_kind, single_view
from calibrant.random_numbers import generator
from calibrant.sample import Sample
from calibrant.simplex import LOSS_FLOOR
from calibrant.typing import AnyFloatArray, AnyIntArray, FloatArray

#: Signs need so many groups of which about half could show the rarer outcome.
INFORMATIVE_GROUPS = 10.0
#: Draws of labels for p-values that have a χ² tail beyond them, and of many rows in groups, which have none.
DRAWS, FEW_DRAWS = 399, 199
#: Observations times draws up to which labels are drawn for p-values.
MOST_DRAWN = 8_000_000


class Residuals(ABC):
    """What a statistic is computed from: as observed, drawn from the predictions, and with random signs of groups."""

    observed: AnyFloatArray

    def __init__(self, data: Sample, proba: AnyFloatArray) -> None:
        self.data, self.proba = data, np.asarray(proba, dtype=np.float64)

    @abstractmethod
    def drawn(self, rng: np.random.Generator, *, together: bool) -> AnyFloatArray:
        """Residuals of labels drawn from the predictions; `together` as in `Sample.draw_hits`."""

    @abstractmethod
    def flipped(self, rng: np.random.Generator) -> AnyFloatArray:
        """Residuals of which those of a group keep or change their sign together."""

    def rarer(self) -> FloatArray:
        """Expected number of observations with the rarer outcome, for each event."""
        return np.atleast_1d(self.data.each @ np.minimum(self.proba, 1 - self.proba))

    def _draw(
        self, rng: np.random.Generator, together: bool
    ) -> tuple[AnyIntArray, AnyIntArray, AnyFloatArray | None, FloatArray | None]:
        """Drawn labels as in `LabelDraw`, and the observations of all rows if they are not the counts of the data."""
        rows, y, number = self.data.draw_labels(rng, together=together)
        rows = np.arange(self.data.n_rows) if rows is None else rows
        counts = self.data.counts
        if together or counts is None or not np.any(counts % 1.0):
            return rows, y, number, None
        # A count of 2.3 is drawn as 2 or as 3.
        return rows, y, number, np.bincount(rows, number, minlength=len(counts)).astype(np.float64)


class ViewResiduals(Residuals):
    """Residuals of one score per row, of shape (n,)."""

    def __init__(self, data: Sample, view: View) -> None:
        super().__init__(data, view.score)
        self.observed = data.each * (view.hit - self.proba)

    def drawn(self, rng: np.random.Generator, *, together: bool) -> AnyFloatArray:
        return self.data.draw_hits(self.proba, rng, together=together)

    def flipped(self, rng: np.random.Generator) -> AnyFloatArray:
        return self.observed * self.data.draw_signs(rng)


class CellResiduals(Residuals):
    """Observed less expected counts of every class in every cell of rows, of shape (g, k); by default in every row."""

    def __init__(self, data: Sample, index: AnyIntArray | None = None, n_cells: int | None = None) -> None:
        super().__init__(data, data.proba)
        self.index = np.arange(data.n_rows) if index is None else index
        self.n_cells = data.n_rows if n_cells is None else n_cells
        self.expected = self._expected(data.each)
        self.observed = self._counts(self.index, data.y, data.counts) - self.expected

    def _expected(self, each: AnyFloatArray) -> FloatArray:
        return np.column_stack([sum_by(self.index, each * column, self.n_cells) for column in self.proba.T])

    def _counts(self, index: AnyIntArray, y: AnyIntArray, number: AnyFloatArray | None) -> FloatArray:
        k = self.data.n_classes
        return np.bincount(index * k + y, number, minlength=self.n_cells * k).reshape(self.n_cells, k).astype(float)

    def drawn(self, rng: np.random.Generator, *, together: bool) -> AnyFloatArray:
        rows, y, number, each = self._draw(rng, together)
        expected = self.expected if each is None else self._expected(each)
        return self._counts(self.index[rows], y, number) - expected

    def flipped(self, rng: np.random.Generator) -> AnyFloatArray:
        signed = self.data.each * self.data.draw_signs(rng)
        return self._counts(self.index, self.data.y, signed) - self._expected(signed)


class ScoreResiduals(Residuals):
    """Scores of class intercepts and of a slope of `logs`: the k + 1 derivatives of the log-likelihood.

    The entry of class `j` is `Σ (1[y = j] - p_j)` over all observations, that of the slope `Σ (x_y - Σ_j p_j x_j)`
    with `x = logs`. Predictions are those of the hypothesis.
    """

    def __init__(self, data: Sample, logs: FloatArray) -> None:
        super().__init__(data, data.proba)
        self.x = logs - np.sum(self.proba * logs, axis=1)[:, None]
        self._sums = data.each @ self.proba
        #: What each group, or row where there are none, adds to the scores.
        self.groups = np.zeros((data.n_groups, data.n_classes + 1))
        np.add.at(self.groups, (data.group_numbers, data.y), data.each)
        self.groups[:, :-1] -= data.group_sums(data.each[:, None] * self.proba)
        self.groups[:, -1] = data.group_sums(data.each * self.x[np.arange(data.n_rows), data.y])
        self.observed = self.groups.sum(axis=0)

    def drawn(self, rng: np.random.Generator, *, together: bool) -> AnyFloatArray:
        rows, y, number, each = self._draw(rng, together)
        k = self.data.n_classes
        chosen = self.x.ravel()[rows * k + y]
        hits = np.bincount(y, number, minlength=k) - (self._sums if each is None else each @ self.proba)
        return np.append(hits, chosen.sum() if number is None else number @ chosen)

    def flipped(self, rng: np.random.Generator) -> AnyFloatArray:
        return self.data.draw_group_signs(rng) @ self.groups

    def rarer(self) -> FloatArray:
        expected = super().rarer()
        return expected[expected > 0]

    def covariance(self) -> FloatArray:
        """Covariance of the scores of independent observations, exact under the hypothesis."""
        return score_covariance(self.proba, self.x, self.data.each)[0]


def score_covariance(proba: FloatArray, logs: FloatArray, each: AnyFloatArray) -> tuple[FloatArray, FloatArray]:
    """Covariance of the k + 1 scores, which is the Hessian of the log loss, and sums of `p_j` and of `Σ_j p_j x_j`."""
    k, weighed = proba.shape[1], each[:, None] * proba
    inner, sums = np.einsum("ij,ij->i", proba, logs), weighed.sum(axis=0)
    matrix = np.empty((k + 1, k + 1))
    matrix[:k, :k] = np.diag(sums) - proba.T @ weighed
    matrix[k, :k] = matrix[:k, k] = np.einsum("ij,ij->j", weighed, logs) - inner @ weighed
    matrix[k, k] = np.einsum("ij,ij,ij->", weighed, logs, logs) - each @ inner**2
    return matrix, np.append(sums, each @ inner)


def few_groups(residuals: Residuals, cells: int = 1) -> bool:
    """Whether random signs say too little: few groups of a cell could show the rarer outcome of some event."""
    data = residuals.data
    groups = 2.0 * residuals.rarer() * (data.units / data.total) / cells
    return bool(np.min(groups, initial=np.inf) < INFORMATIVE_GROUPS)


def null_p_value(
    residuals: Residuals,
    statistic: Callable[[AnyFloatArray], float],
    n_resamples: int,
    rng: np.random.Generator,
    *,
    observed: float | None = None,
    cells: int = 1,
) -> tuple[float, float]:
    """The statistic as observed, and its p-value: valid if rows, or groups where there are any, are independent.

    `cells` is the number of bins whose residuals the statistic adds up: each needs groups of its own for signs.
    """
    value = statistic(residuals.observed) if observed is None else observed
    # Statistics of few rows take few values: rounding must not turn equal ones into smaller ones.
    least = value - 1e-12 * max(1.0, abs(value)) if np.isfinite(value) else value

    def share(draw: Callable[[], AnyFloatArray]) -> float:
        return (1 + sum(statistic(draw()) >= least for _ in range(n_resamples))) / (1 + n_resamples)

    if residuals.data.groups is None:
        return value, share(lambda: residuals.drawn(rng, together=False))
    together = few_groups(residuals, cells)
    drawn = share(lambda: residuals.drawn(rng, together=together))
    return value, max(drawn, share(lambda: residuals.flipped(rng)))


def drawn_or_tail(
    residuals: Residuals,
    statistic: Callable[[AnyFloatArray], float],
    freedom: int,
    *,
    name: str,
    kind: str,
    most: float = MOST_DRAWN,
    cells: int = 1,
) -> CalibrationTest:
    """The test with a statistic that is about χ² distributed with so many degrees of freedom.

    Labels are drawn unless observations times draws exceed `most`; then, and beyond all draws if it says less than
    they do, the tail is that of χ². Groups have no such tail: theirs are always drawn. Nor has an infinite `most`, for
    statistics that only draws know. `cells` as in `null_p_value`.
    """
    data = residuals.data
    value, many = statistic(residuals.observed), data.total * DRAWS > most
    tail = float(chdtrc(freedom, max(value, 0.0)))
    if data.groups is None and many:
        return CalibrationTest(value, tail, name, kind, 0)
    draws = FEW_DRAWS if many else DRAWS
    p_value = null_p_value(residuals, statistic, draws, generator(0), observed=value, cells=cells)[1]
    if data.groups is None and most < np.inf and p_value <= 1 / (1 + draws):
        p_value = min(p_value, tail)
    return CalibrationTest(value, p_value, name, kind, draws)


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


def score_statistic(name: str, residuals: ScoreResiduals) -> OfResiduals:
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


def _label_test(data: Sample, name: str, n_resamples: int, rng: np.random.Generator) -> CalibrationTest:
    """The test with a statistic of all classes."""
    residuals = ScoreResiduals(data, np.log(np.maximum(np.asarray(data.proba, dtype=np.float64), LOSS_FLOOR)))
    # No draw can be of a class that the predictions rule out, and a few such rows would make the temperature look right
    # where the other predictions are too close to the average.
    impossible = name == "omnibus" and bool((data.true_proba < LOSS_FLOOR).any())
    observed = np.inf if impossible else None
    found = null_p_value(residuals, score_statistic(name, residuals), n_resamples, rng, observed=observed)
    return CalibrationTest(*found, name, "all classes", n_resamples)


@public
def calibration_test(
    data: Sample,
    statistic: TestStatistic = "kuiper",
    *,
    kind: Kind = "auto",
    n_resamples: int = 999,
    random_state: int | np.random.Generator | None = 0,
    n_bins: int = 15,
    strategy: Strategy = "quantile",
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
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p).astype(int)
    >>> calibration_test(y, p).p_value > 0.05, calibration_test(y, p**2).p_value
    (True, 0.001)
    """
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be positive, got {n_resamples}")
    rng = generator(random_state)
    if statistic in OF_LABELS:
        return _label_test(data, statistic, n_resamples, rng)
    resolved = resolve_kind(data, kind)
    of_view = partial(_of_view, statistic, data, n_bins=n_bins, strategy=strategy)
    residuals: Residuals
    value: OfResiduals
    if resolved == "class-wise":
        each = [of_view(class_view(data, column)) for column in range(data.n_classes)]
        residuals = CellResiduals(data)
        value = lambda rows: float(np.mean([of_class(column) for of_class, column in zip(each, rows.T)]))  # noqa: E731
    else:
        view = single_view(data, resolved)
        value, residuals = of_view(view), ViewResiduals(data, view)
    cells = n_bins if statistic == "ece" else 1
    found = null_p_value(residuals, value, n_resamples, rng, cells=cells)
    return CalibrationTest(*found, statistic, resolved, n_resamples)
