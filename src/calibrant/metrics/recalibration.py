"""Cross-validated recalibration: what a calibrator makes of predictions it was not fitted to, and what that measures.

Each part of the rows is recalibrated by a calibrator fitted to the other parts, so that a comparison with the
predictions as they were is fair.

A proper loss of `p` splits into the loss of the best recalibrated prediction `g(p)` (refinement: what the scores
know) and the rest (calibration: what is lost because they are not probabilities). With `ĝ` fitted on other folds, the
estimates are `mean ℓ(ĝ(p), y)` and `mean ℓ(p, y) - mean ℓ(ĝ(p), y)`. A calibrator too weak to correct everything, or
fitted to few rows, understates the calibration part, which may then be negative.

The Lp calibration error is `E ||E[y|p] - p||_q` with `y` one-hot. Its dual form is the largest `E <s(p), y - p>` over
directions with `||s||_{q*} ≤ 1`; the direction of `ĝ`, `s = ∇||·||_q` at `ĝ(p) - p`, gives an estimate that overstates
nothing: in expectation it is at most the true error, and equals it when `ĝ` is right (Berta, Holzmüller, Jordan and
Bach).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from calibrant.calibrators.registry import get_calibrator
from calibrant.docs import describe_parameters
from calibrant.inputs.samples import check_sample
from calibrant.metrics.intervals import bootstrap, interval
from calibrant.metrics.losses import row_losses
from calibrant.metrics.result_types import Estimate
from calibrant.metrics.scalars import Statistic, mean_statistic, public, scalar
from calibrant.metrics.views import Kind, resolve_kind
from calibrant.random_numbers import generator
from calibrant.sample import Sample
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray, AnyIntArray, Label

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
    from sklearn.model_selection import BaseCrossValidator

Split = tuple[AnyIntArray, AnyIntArray]


def resolve_calibrator(method: object) -> Any:
    """A calibrator from an object, a name of the registry or None for the logistic one."""
    if method is None or isinstance(method, str):
        return get_calibrator(method or "logistic")
    if not (hasattr(method, "fit") and hasattr(method, "predict_proba")):
        raise TypeError(f"method must be a name or have fit and predict_proba, got {method!r}")
    return method


#: A number of stratified folds, a splitter of scikit-learn, or the splits themselves.
Folds: TypeAlias = "int | BaseCrossValidator | Iterable[Split]"
#: A name of the registry, or an unfitted calibrator.
Method: TypeAlias = "str | BaseEstimator | None"


def splits(data: Sample, cv: Folds, random_state: int | None) -> Iterator[Split]:
    """Training and held-out rows from a number of folds, a scikit-learn splitter or an iterable of pairs."""
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        if not 2 <= cv <= data.n_rows:
            raise ValueError(f"cv must lie between 2 and the number of rows ({data.n_rows}), got {cv}")
        fold = data.folds(int(cv), generator(random_state))
        for number in range(int(cv)):
            yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)
    elif hasattr(cv, "split"):
        yield from cv.split(data.proba, data.y, data.groups)
    elif isinstance(cv, Iterable):
        yield from cv
    else:
        raise ValueError(f"cv must be a number of folds, a splitter or an iterable of splits, got {cv!r}")


def recalibrate(data: Sample, method: Method = None, cv: Folds = 5, random_state: int | None = 0) -> Sample:
    """The same rows with cross-validated recalibrated probabilities."""
    prototype = resolve_calibrator(method)
    recalibrated = np.full(data.proba.shape, np.nan)
    for train, held_out in splits(data, cv, random_state):
        fitted = fit_clone(prototype, data.take(train))
        recalibrated[held_out] = _aligned(fitted, data.proba[held_out], data.n_classes)
    missed = np.isnan(recalibrated).any(axis=1)
    if missed.any():
        raise ValueError(f"cv never holds out row {int(np.argmax(missed))}: every row must be held out once")
    return data.with_values(recalibrated, logs=False)


def fit_clone(prototype: object, data: Sample) -> Any:
    """A copy of a calibrator, fitted to all rows."""
    calibrator = clone(prototype)
    # Labels are column numbers here; saying so lets a fold lack a class.
    if hasattr(calibrator, "get_params") and "classes" in calibrator.get_params(deep=False):
        calibrator.set_params(classes=np.arange(data.n_classes))
    given = {"sample_weight": data.counts, "groups": data.groups}
    # A calibrator of someone else's may not know of groups.
    known = inspect.signature(calibrator.fit).parameters
    given = {name: value for name, value in given.items() if value is not None and (name != "groups" or name in known)}
    return calibrator.fit(data.proba, data.y, **given)


def _aligned(calibrator: BaseEstimator, proba: AnyFloatArray, n_classes: int) -> AnyFloatArray:
    """Predictions with a column for every class, also for those a foreign calibrator never saw."""
    predicted = np.asarray(calibrator.predict_proba(proba), dtype=np.float64)
    if predicted.ndim == 1:
        return np.column_stack([1 - predicted, predicted])
    if predicted.shape[1] == n_classes:
        return predicted
    full = np.zeros((len(proba), n_classes))
    full[:, np.asarray(calibrator.classes_, dtype=np.intp)] = predicted
    return full


Loss = Literal["log_loss", "brier"]


class Decomposition(NamedTuple):
    """A loss and its two parts; floats, or `Estimate` objects when intervals were asked for.

    Examples
    --------
    >>> from calibrant.metrics import decompose
    >>> parts = decompose([0, 1, 0, 1] * 25, [0.1, 0.2, 0.2, 0.1] * 25)  # an event of every second row
    >>> abs(parts.total - parts.calibration - parts.refinement) < 1e-12
    True
    """

    total: float | Estimate
    calibration: float | Estimate
    refinement: float | Estimate


@public
def decompose(
    data: Sample,
    loss: Loss = "log_loss",
    *,
    method: Method = None,
    cv: Folds = 5,
    level: float | None = None,
    n_resamples: int = 1000,
    random_state: int | None = 0,
) -> Decomposition:
    """Split log loss or Brier score into calibration and refinement by cross-validated recalibration.

    Parameters
    ----------
    level : float, optional
        Confidence level of bootstrap intervals for the three numbers. The recalibrations are not repeated on the
        resamples: the intervals are those of the test rows, given the fitted maps.

    Returns
    -------
    Decomposition
        Named tuple of `total`, `calibration` and `refinement`; the parts add up to the total.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> y = (rng.random(2000) < p).astype(int)
    >>> close = decompose(y, 0.25 + p / 2, "brier")
    >>> 0.015 < close.calibration < 0.026  # (p - 0.25 - p/2)² is 1/48 on average
    True
    """
    before = row_losses(data, loss)
    after = row_losses(recalibrate(data, method, cv, random_state), loss)
    statistics = [mean_statistic(rows) for rows in (before, before - after, after)]
    if level is None:
        return Decomposition(*(statistic(data.each) for statistic in statistics))
    return Decomposition(*_intervals(statistics, data, level, n_resamples, random_state))


@scalar(lower=-np.inf, grouped=True, refits=True)
def calibration_loss(
    data: Sample, *, loss: Loss = "log_loss", method: Method = None, cv: Folds = 5, random_state: int | None = 0
) -> Statistic:
    """Part of a loss that cross-validated recalibration takes away: the `calibration` of `decompose`.

    Examples
    --------
    >>> y, p = [0, 1, 0, 1] * 25, [0.1, 0.2, 0.2, 0.1] * 25  # an event of every second row
    >>> calibration_loss(y, p) > 0.2
    True
    """
    after = recalibrate(data, method, cv, random_state)
    return mean_statistic(row_losses(data, loss) - row_losses(after, loss))


@scalar(grouped=True, refits=True)
def refinement_loss(
    data: Sample, *, loss: Loss = "log_loss", method: Method = None, cv: Folds = 5, random_state: int | None = 0
) -> Statistic:
    """Part of a loss that cross-validated recalibration leaves: the `refinement` of `decompose`.

    Examples
    --------
    >>> y, p = [0, 1, 0, 1] * 25, [0.1, 0.2, 0.2, 0.1] * 25  # an event of every second row
    >>> round(refinement_loss(y, p), 1)
    0.7
    """
    return mean_statistic(row_losses(recalibrate(data, method, cv, random_state), loss))


@limited
@describe_parameters
def post_hoc_improvement(
    y_true: ArrayLike,
    before: ArrayLike,
    after: ArrayLike,
    loss: Loss = "log_loss",
    *,
    relative: bool = False,
    level: float | None = None,
    n_resamples: int = 1000,
    random_state: int | None = 0,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    classes: Sequence[Label] | None = None,
) -> float | Estimate:
    """How much lower a loss is after calibration than before, on the same rows; positive is better.

    Both predictions are judged on the same rows, and an interval comes from resampling the rows' differences, which is
    far tighter than comparing two separate intervals. It serves to compare any two methods.

    Parameters
    ----------
    before, after : array-like of shape (n, k) or (n,)
        Probabilities without and with calibration; the calibrator must not have seen these rows.
    relative : bool, default=False
        Divide by the loss before.
    level : float, default=None
        Confidence level of a bootstrap interval, if one is wanted.

    Returns
    -------
    float or Estimate

    Examples
    --------
    >>> from calibrant.metrics import post_hoc_improvement
    >>> round(post_hoc_improvement([0, 1, 1], [0.1, 0.1, 0.9], [0.2, 0.4, 0.8], "brier"), 3)
    0.13
    """
    first = check_sample(y_true, before, sample_weight, classes, groups=groups, blocks=blocks)
    second = check_sample(y_true, after, sample_weight, classes)
    if first.proba.shape != second.proba.shape:
        raise ValueError(f"before has {first.n_classes} classes and after {second.n_classes}")
    was, now = row_losses(first, loss), row_losses(second, loss)
    gain, base = mean_statistic(was - now), mean_statistic(was)

    def improvement(counts: AnyFloatArray) -> float:
        return gain(counts) / base(counts) if relative else gain(counts)

    if level is None:
        return improvement(first.each)
    return _intervals([improvement], first, level, n_resamples, random_state)[0]


def _intervals(
    statistics: Sequence[Statistic], data: Sample, level: float, n_resamples: int, random_state: int | None
) -> list[Estimate]:
    found = bootstrap(statistics, data, n_resamples=n_resamples, random_state=random_state)
    return [
        interval(statistic(data.each), replicates, level=level, units=data.units)
        for statistic, replicates in zip(statistics, found.T)
    ]


def dual_direction(difference: AnyFloatArray, norm: float) -> AnyFloatArray:
    """Gradient of `||d||_q` for every row `d`, zero for a zero row; for `q = ∞` at the first largest entry."""
    size = np.abs(difference)
    if np.isinf(norm):
        direction = np.zeros_like(difference)
        rows = np.arange(len(difference))
        largest = size.argmax(axis=1)
        direction[rows, largest] = np.sign(difference[rows, largest])
        return direction
    largest = size.max(axis=1, keepdims=True)
    # Dividing by the largest entry first keeps powers of tiny differences from vanishing.
    scaled = size / np.where(largest > 0, largest, 1.0)
    length = np.maximum(np.linalg.norm(scaled, ord=norm, axis=1, keepdims=True), 1.0)
    return np.sign(difference) * (scaled / length) ** (norm - 1)


@scalar(lower=-np.inf, grouped=True, refits=True)
def lp_calibration_error(
    data: Sample,
    *,
    norm: float = 1.0,
    kind: Kind = "auto",
    method: Method = None,
    cv: Folds = 5,
    random_state: int | None = 0,
) -> Statistic:
    """Lp calibration error of the whole probability vector, estimated by cross-validated recalibration.

    Unlike binned errors it is not inflated by chance: predictions that are calibrated get a value around zero, which
    may be slightly negative.

    Parameters
    ----------
    norm : float, default=1
        The norm of the distance between probability vectors, from 1 to infinity.
    kind : {"auto", "binary", "top-label", "class-wise"}, default="auto"
        A single number per row ("binary", "top-label"), for which every norm is the absolute value, or the vector over
        all classes ("class-wise"). "auto" is binary for two classes, and all classes for more.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> y = (rng.random(5000) < p).astype(int)
    >>> abs(lp_calibration_error(y, p)) < 0.02, lp_calibration_error(y, 0.25 + p / 2) > 0.1
    (True, True)
    """
    if not norm >= 1:
        raise ValueError(f"norm must be at least 1, got {norm}")
    target = recalibrate(data, method, cv, random_state).proba
    # All classes are judged together unless two classes or the top label make it a single number.
    single = None if kind == "auto" and data.n_classes > 2 else resolve_kind(data, kind)
    outcome = np.zeros(data.proba.shape)
    outcome[np.arange(data.n_rows), data.y] = 1.0
    if single == "binary":
        columns = np.ones(data.n_rows, dtype=np.intp)
    elif single == "top-label":
        columns = np.asarray(data.top)
    else:
        return mean_statistic(np.sum(dual_direction(target - data.proba, norm) * (outcome - data.proba), axis=1))
    rows = np.arange(data.n_rows)
    p, g, hit = data.proba[rows, columns], target[rows, columns], outcome[rows, columns]
    return mean_statistic(np.sign(g - p) * (hit - p))
