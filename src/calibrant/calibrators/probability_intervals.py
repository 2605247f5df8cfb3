"""How uncertain is a calibrated probability? Intervals for what a calibrator would predict with unlimited data.

`fit_intervals` learns them from the rows of `fit` and keeps what `predict_interval` needs in one fitted attribute,
`uncertainty_`, which is stored with the calibrator. Intervals cost time and space only if they are asked for.

- Logistic maps keep the covariance of their coefficients (the delta method, `calibrant.softmax.delta_method`), and
  their intervals are symmetric on the scale of log-odds, so that they stay between 0 and 1.
- All other maps are fitted again to resamples of the rows, or of their groups, and the interval goes from one quantile
  of what the refitted maps say to another. It holds what varies between samples, not a bias that all of them share.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrators.state import StateCheck
from calibrant.confidence import check_level, student_stretch
from calibrant.progress import ProgressBar
from calibrant.random_numbers import generator
from calibrant.sample import Sample
from calibrant.softmax.delta_method import log_odds_variances
from calibrant.softmax.rows.row_source import FeatureMap, Features
from calibrant.steps import (
    Columns,
    Exp,
    Function,
    Join,
    Linear,
    Log,
    LogOdds,
    Polynomial,
    Step,
    Steps,
    run,
    run_from_logs,
)
from calibrant.steps.branches import FARTHEST, DeltaEnds, rest
from calibrant.steps.step import NotSupportedError
from calibrant.typing import AnyArray, FloatArray

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator

#: The largest number of coefficients whose covariance is kept: two megabytes in memory. Beyond, maps are refitted.
MOST_COEFFICIENTS = 500
WAYS = ("auto", "delta", "bootstrap")
#: Unseen observations that count for less than this in a resample are left out of it.
_NOTHING = 1e-9
#: Directions with less than this share of the largest variance are constants that change no probability.
_NO_VARIANCE = 1e-14


class LogitModel(NamedTuple):
    """The linear softmax model of a map: so many steps come `before` its features and so many `after` its softmax."""

    before: int
    after: int
    features: FeatureMap


class ProbabilityIntervals:
    """What calibrators inherit for intervals of single probabilities.

    A logistic method writes `_coefficient_covariance` and `_logit_model`; all others are resampled.
    """

    classes_: AnyArray
    class_counts_: FloatArray
    uncertainty_: dict[str, object]

    def fit_intervals(
        self: Any,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        blocks: int | None = None,
        by: str = "auto",
        n_resamples: int = 200,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> Any:
        """Learn how uncertain the probabilities are, for `predict_interval`, from the rows that the map was fitted to.

        Parameters
        ----------
        X, y, sample_weight
            What `fit` was given.
        groups, blocks
            As in `fit`: rows of a group, or so many consecutive rows, may depend on each other, and the groups are what
            the intervals count.
        by : {"auto", "delta", "bootstrap"}, default="auto"
            The delta method, for logistic maps of at most 500 coefficients with a ridge or no penalty, or fits to
            resamples, for every method; "auto" takes the delta method where it can.
        n_resamples : int, default=200
            Fits of the bootstrap. Each is a map that is kept, and stored with the calibrator.
        n_jobs : int, default=None
            Fits at the same time.
        random_state : int, default=0
            Seed of the resamples.

        Returns
        -------
        self : the calibrator.

        Examples
        --------
        >>> from calibrant import get_calibrator
        >>> p, y = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9] * 20, [0, 0, 1, 0, 1, 1] * 20
        >>> calibrator = get_calibrator("affine").fit(p, y).fit_intervals(p, y)
        >>> calibrator.predict_interval([0.8])[0, 1].round(2)  # of class 1
        array([0.75, 0.92])
        """
        check_is_fitted(self, "classes_")
        if by not in WAYS:
            raise ValueError(f"by must be one of {', '.join(WAYS)}, got {by!r}")
        if n_resamples < 2:
            raise ValueError(f"n_resamples must be at least 2, got {n_resamples}")
        self._check_refits()
        twin = clone(self)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what there is to say about these rows was said by fit
            sample = twin._check_labelled(X, y, sample_weight, groups, blocks)
        _check_same_rows(self, twin)
        covariance = None if by == "bootstrap" else self._coefficient_covariance(sample)
        if covariance is None and by == "delta":
            raise ValueError(
                f"The delta method is for logistic maps with at most {MOST_COEFFICIENTS} coefficients and a ridge "
                f"penalty or none, unlike this {type(self).__name__}: use by='bootstrap'."
            )
        found: dict[str, object] = {"units": float(sample.units)}
        if covariance is None:
            found["refits"] = _refits(twin, sample, n_resamples, n_jobs, random_state)
        else:
            found["covariance"] = 0.5 * (covariance + covariance.T)
        self.uncertainty_ = found
        return self

    def predict_interval(self: Any, X: ArrayLike, level: float = 0.9) -> AnyArray:
        """Intervals of the calibrated probabilities, once `fit_intervals` was called.

        Parameters
        ----------
        X : array-like or data frame of shape (n, k), (n,) or (n, 1)
            Predictions with the columns seen in `fit`.
        level : float, default=0.9
            How often the interval should cover what the calibrator would say of this row with endless data.

        Returns
        -------
        interval : ndarray of shape (n, k, 2)
            Lower and upper end for each class, around what `predict_proba` returns.
        """
        check_is_fitted(self, "classes_")
        level = check_level(level)
        if "uncertainty_" not in vars(self):
            raise ValueError(
                f"This {type(self).__name__} has no intervals yet: call fit_intervals(X, y) with the rows it was "
                "fitted to, then predict_interval."
            )
        ends = Function(self._interval_function(level))
        out = self._run(X, [Log(), ends] if self.takes_logits else [ends], each=2)
        return out.reshape(len(out), 2, len(self.classes_)).transpose(0, 2, 1)

    def _interval_function(self: Any, level: float) -> Callable[[FloatArray], FloatArray]:
        """What makes the lower and the upper ends (n, 2 k) of probabilities, or of their logarithms for logits."""
        known, begin = self.uncertainty_, run_from_logs if self.takes_logits else run
        stretch = student_stretch(level, known["units"])
        if "refits" in known:
            maps = [calibrator._prediction_steps() for calibrator in (self, *known["refits"])]
            return lambda x: _quantile_ends([begin(steps, x.copy()) for steps in maps], level, stretch)
        distance = stretch * float(ndtri(0.5 + level / 2))
        return lambda x: _delta_ends(self._logit_model(), self.steps(), begin, x, known["covariance"], distance)

    def interval_steps(self: Any, level: float = 0.9) -> list[Step]:
        """Steps from probabilities to the lower ends of their intervals, then the upper ends, of a logistic map.

        Exports write them. After `fit_intervals` by resampling there are none: that is an error.
        """
        check_is_fitted(self, "classes_")
        level, known = check_level(level), getattr(self, "uncertainty_", {})
        if "covariance" not in known:
            raise ValueError(
                f"This {type(self).__name__} has no delta-method intervals, the only kind that can be exported: "
                "fit_intervals of a logistic method learns them."
            )
        model, steps, k = self._logit_model(), self.steps(), len(self.classes_)
        last = len(steps) - model.after
        vectors = _vector_steps(model, known["covariance"], k)
        distance = student_stretch(level, known["units"]) * float(ndtri(0.5 + level / 2))
        ends = DeltaEnds((vectors, steps[model.before : last]), distance)
        halves = (np.arange(k), np.arange(k, 2 * k))
        after = [Join(tuple([Columns(half), *steps[last:]] for half in halves))] if model.after else []
        return [*steps[: model.before], ends, *after]

    def _coefficient_covariance(self, sample: Sample) -> FloatArray | None:
        """Covariance of the coefficients of a logistic map, in the order of its features; `None` if it is not one."""
        return None

    def _logit_model(self) -> LogitModel:
        """Where the linear softmax model is among the steps of a logistic map."""
        raise ValueError(f"{type(self).__name__} is not a logistic map, so it has no covariance of coefficients")

    def _check_refits(self) -> None:
        """Refuse a map that a fit to the same rows would not find again."""

    def _check_uncertainty(self: Any, state: StateCheck) -> None:
        """Check what a file says of the uncertainty of a map whose other numbers are right."""
        state.information("uncertainty_")
        if "uncertainty_" not in vars(self):
            return
        found, k = self.uncertainty_, state.k
        kinds = {"units", "covariance"}, {"units", "refits"}
        state.require(type(found) is dict and set(found) in kinds, "uncertainty_ should hold a covariance or refits")
        inner = StateCheck({"classes_": self.classes_, **found})
        inner.number("units", low=0.0)
        if "refits" in found:
            state.require(isinstance(found["refits"], list) and len(found["refits"]) > 1, "refits should be a list")
            inner.calibrators("refits", len(found["refits"]), k)
        else:
            matrix = inner.array("covariance", None, None)
            state.require(np.array_equal(matrix, matrix.T), "covariance is not symmetric")
        uniform = np.full((1, k), -np.log(k) if self.takes_logits else 1.0 / k)
        ends = self._interval_function(0.5)(uniform)
        state.require(np.all((ends >= 0.0) & (ends <= 1.0)), "uncertainty_ does not give intervals")


def _check_same_rows(calibrator: Calibrator, twin: Calibrator) -> None:
    """Refuse rows that cannot be those that a calibrator was fitted to."""
    same = np.array_equal(twin.classes_, calibrator.classes_)
    counts = getattr(calibrator, "class_counts_", None)  # version 0.1.0 did not count
    if not same or (counts is not None and not np.allclose(counts, twin.class_counts_)):
        raise ValueError(
            f"fit_intervals needs the rows of fit: {_counted(calibrator)} then, {_counted(twin)} now. Fit the "
            "calibrator to these rows first, or pass those of fit with their weights."
        )


def _counted(calibrator: Calibrator) -> str:
    counts = [f"{n:g} of {label!r}" for n, label in zip(calibrator.class_counts_, calibrator.classes_.tolist())]
    return ", ".join(counts[:3]) + (f" and {len(counts) - 3} more classes" if len(counts) > 3 else "")


def _refits(
    twin: Calibrator, sample: Sample, n_resamples: int, n_jobs: int | None, random_state: int
) -> list[Calibrator]:
    """Clones fitted to resamples, which hold half an observation of what may not have been seen, too."""
    beyond, unseen = sample.unseen()
    whole, rng = Sample.joined([sample, beyond]), generator(random_state)
    whole = Sample(whole.values, whole.y, None, whole.groups, sample.classes, whole.logs)
    draws = (np.concatenate([sample.resampled_counts(rng), unseen(rng)]) for _ in range(n_resamples))
    refits: list[Calibrator] = []
    with ProgressBar(n_resamples, "resamples") as bar:
        for refit in Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(_refit)(clone(twin), whole, counts) for counts in draws
        ):
            refits.append(refit)
            bar.advance()
    return refits


def _refit(calibrator: Calibrator, whole: Sample, counts: FloatArray) -> Calibrator:
    rows = np.flatnonzero(counts > _NOTHING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calibrator.fit_sample(whole.with_counts(counts).take(rows))


def _delta_ends(
    model: LogitModel,
    steps: Steps,
    begin: Callable[[Steps, FloatArray], FloatArray],
    x: FloatArray,
    covariance: FloatArray,
    distance: float,
) -> FloatArray:
    """Ends at a `distance` of so many standard errors of the log-odds; `begin` runs steps from what `x` is."""
    last = len(steps) - model.after
    x = begin(steps[: model.before], x)
    features = model.features(x)
    p = run(steps[model.before : last], x.copy())
    others = rest(p)
    # Rows that are almost separable leave the coefficients open, up to variances that are infinite or unknown.
    with np.errstate(over="ignore", invalid="ignore"):
        spread = distance * np.sqrt(log_odds_variances(features, p, others, covariance))
    factor = np.exp(np.fmin(spread, FARTHEST, out=spread), out=spread)
    ends = np.minimum(p / (p + others * factor), p), np.maximum(p / (p + others / factor), p)
    return np.hstack([run(steps[last:], end) for end in ends])


def _vector_steps(model: LogitModel, covariance: FloatArray, k: int) -> list[Step]:
    """Steps that give ``Rᵀ g_l`` of every class l, for a root R of the covariance and gradients g_l of the logits.

    The gradients are affine in what the model takes, in its logarithm or exponential, or in log-odds and their square.
    """
    values, vectors = np.linalg.eigh(covariance)
    kept = values > _NO_VARIANCE * max(values[-1], 0.0)
    root = vectors[:, kept] * np.sqrt(values[kept])
    x = np.random.default_rng(0).dirichlet(np.ones(k), size=8 * (k + 2))
    x = np.log(x) if model.before else x
    wanted = _moved_logits(model.features(x.copy()), root, k)
    only = Columns(np.array([0]))
    powers = [LogOdds(), Join(([only], [only, Polynomial(np.array([0.0, 0.0, 1.0]))]))]
    candidates: list[list[Step]] = [[], [Exp()] if model.before else [Log()], *([powers] if k == 2 else [])]
    for before in candidates:
        seen = np.column_stack([run(before, x.copy()), np.ones(len(x))])
        found = np.linalg.lstsq(seen, wanted, rcond=None)[0]
        if np.allclose(seen @ found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max()):
            matrix = np.asarray(found, dtype=np.float64)
            return [*before, Linear(matrix[:-1], matrix[-1])]
    raise NotSupportedError("The features of this map cannot be written as steps.")


def _moved_logits(features: Features, root: FloatArray, k: int) -> FloatArray:
    """``Rᵀ g_l`` of every class l, one class after the other, (n, k r)."""
    shared, own, r = features.shared, features.own, root.shape[1]
    if own is not None and len(root) == 1:  # a temperature
        return np.asarray((own[0].T[:, :, None] * root[0]).reshape(-1, k * r))
    if shared is not None and len(root) == len(shared):  # two classes, the first of which has no coefficients
        return np.hstack([np.zeros((shared.shape[1], r)), shared.T @ root])
    parts = root.reshape(k, -1, r)
    count = 0 if shared is None else len(shared)
    out = np.zeros((features.offset.shape[1], k, r))
    for j in range(k):
        out[:, j] += 0.0 if shared is None else shared.T @ parts[j, :count]
        out[:, j] += 0.0 if own is None else own[:, j].T @ parts[j, count:]
    return out.reshape(-1, k * r)


def _quantile_ends(predictions: list[FloatArray], level: float, stretch: float) -> FloatArray:
    """Ends at quantiles of what refitted maps say, stretched where observations are few; the first is the fit."""
    p, *said = predictions
    # A further draw is below the k-th smallest of B with probability k / (B + 1), by which these quantiles go.
    low, high = np.quantile(said, [(1 - level) / 2, (1 + level) / 2], axis=0, method="weibull")
    low, high = p - stretch * (p - low), p + stretch * (high - p)
    return np.hstack([np.clip(np.minimum(low, p), 0.0, 1.0), np.clip(np.maximum(high, p), 0.0, 1.0)])
