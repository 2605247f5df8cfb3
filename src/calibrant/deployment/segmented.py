"""A calibrator for rows of several kinds: one global map, corrected in each segment as far as its rows can tell."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import HasMethods, Interval

from calibrant.calibrators.base import Calibrator, steps_of
from calibrant.calibrators.lifting import fit_columns
from calibrant.calibrators.state import StateCheck
from calibrant.deployment.segment_columns import (
    Columns,
    cell_codes,
    cells_of,
    count_levels,
    learn_columns,
    level_codes,
    level_name,
    read_segments,
)
from calibrant.deployment.segment_correction import STRENGTHS, corrected, cross_validate, fit_correction, row_losses
from calibrant.folds import stratified_folds
from calibrant.inputs.predictions import as_matrix, output_dtype
from calibrant.metrics.recalibration import resolve_calibrator
from calibrant.metrics.segments import segment_calibration
from calibrant.numerals import count, number, percent
from calibrant.simplex import log_probabilities, softmax
from calibrant.steps import Step, run_from_logs
from calibrant.threads import limit
from calibrant.typing import FloatArray, IntArray

#: Segments that the summary names.
_WORST = 5


class SegmentedCalibrator(Calibrator):
    """A global calibrator, corrected in each segment of the rows as far as the segment's rows can tell.

    Every level of every column of `segments` (a region, a device, a bin of ages) has its own intercepts and slopes on
    the log-probabilities of the global map. A ridge shrinks them to none, so that small segments stay near the global
    map; its strength is chosen by cross-validation on predictions that the global map makes for rows it was not fitted
    to. If the gain is not larger than its standard error, there is no correction.

    Parameters
    ----------
    calibrator : estimator or str, default="auto"
        The global map, or its name in the registry.
    crossed : bool, default=False
        Correct every combination of levels, too, on top of the columns one by one.
    strength : float, default=None
        Of the ridge, in units of the sum of log losses; by default it is chosen by cross-validation.
    n_folds : int, default=5
        Folds for the predictions of the global map and for the strength.
    random_state : int, default=0
        Seed of the folds.

    Attributes
    ----------
    calibrator_ : calibrator
        The global map, fitted to all rows.
    segment_columns_ : dict
        The levels of each column: texts, or the numbers between the bins of a numeric column.
    cells_ : ndarray of shape (m, c)
        The combinations of levels, if they are crossed.
    intercept_, slope_ : ndarray of shape (levels, k)
        The corrections, column after column, the combinations last; all zero if there is none.
    strength_ : float
        The strength used; infinite if there is no correction.
    gain_, gain_error_ : float
        Log loss saved on rows held out, and its standard error, if the strength was chosen.
    duality_gap_ : float
        An upper bound of how far the mean loss plus penalty is above its minimum.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import SegmentedCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p, region = rng.random(4000), rng.choice(["north", "south", "west"], 4000)
    >>> y = rng.random(4000) < np.where(region == "west", 0.6 * p, p)
    >>> calibrator = SegmentedCalibrator("ts").fit(p, y, segments={"region": region})
    >>> calibrator.predict_proba([0.8, 0.8, 0.8], segments={"region": ["north", "west", "east"]})[:, 1].round(2)
    array([0.8 , 0.45, 0.73])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Calibrator._parameter_constraints,
        "calibrator": [str, HasMethods(["fit", "predict_proba"])],
        "crossed": ["boolean"],
        "strength": [Interval(Real, 0, None, closed="neither"), None],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    segment_columns_: Columns

    def __init__(
        self,
        calibrator: Any = "auto",
        crossed: bool = False,
        strength: float | None = None,
        n_folds: int = 5,
        random_state: int = 0,
        *,
        input: str = "probabilities",
        classes: Any = None,
        renormalize: bool = False,
    ) -> None:
        self.calibrator = calibrator
        self.crossed = crossed
        self.strength = strength
        self.n_folds = n_folds
        self.random_state = random_state
        super().__init__(input=input, classes=classes, renormalize=renormalize)

    def fit(  # type: ignore[override]
        self, X: Any, y: Any, sample_weight: Any = None, *, segments: Any = None
    ) -> SegmentedCalibrator:
        """Learn the global map and its corrections from held-out predictions.

        Parameters
        ----------
        X : array-like or data frame of shape (n, k), (n,) or (n, 1)
            Predicted probabilities, or logits with ``input="logits"``.
        y : array-like of shape (n,) or (n, k)
            Labels; or probabilities or votes, one column per class.
        sample_weight : array-like of shape (n,), default=None
            Counts: weight 2 equals a repeated row, weight 0 an absent one.
        segments : data frame, mapping of columns, or array-like of shape (n,) or (n, c)
            What the segments are made of, a value for each row. A column of more than ten different numbers is cut
            into ten bins of about equal size; codes that only look like numbers should be texts.

        Returns
        -------
        self : the fitted calibrator.
        """
        self._check_parameters()
        frame = read_segments(_given(segments), len(as_matrix(X)[0]))
        x, codes, weight, rows = self._check_labelled(X, y, sample_weight)
        frame = {name: column[rows] for name, column in frame.items()}
        with limit():
            self._fit_segments(x, codes, weight, frame)
        return self

    def _fit(self, x: FloatArray, y: IntArray, weight: FloatArray | None) -> None:
        raise _without_segments()

    def _fit_segments(
        self, x: FloatArray, y: IntArray, weight: FloatArray | None, frame: dict[str, NDArray[Any]]
    ) -> None:
        prototype = resolve_calibrator(self.calibrator)
        self.calibrator_ = fit_columns(prototype, x, y, weight)
        self.segment_columns_ = learn_columns(frame)
        levels = level_codes(frame, self.segment_columns_)
        self.cells_ = cells_of(levels) if self.crossed else np.empty((0, levels.shape[1]), dtype=np.int64)
        places, n_levels = self._places(levels), self._n_levels()
        # A column that is the same in all rows has nothing to tell segments apart by.
        places = places[:, (places != places[0]).any(axis=0)]
        self.intercept_ = self.slope_ = np.zeros((n_levels, x.shape[1]))
        self.strength_, self.duality_gap_ = np.inf, 0.0
        for name in ("gain_", "gain_error_", "errors_", "worst_"):
            self.__dict__.pop(name, None)
        if not places.shape[1] or len(y) < 2 * self.n_folds:
            return
        fold = stratified_folds(y, int(self.n_folds), int(self.random_state), x, weight)
        z = np.empty_like(x)
        for part in np.unique(fold):
            others, out = fold != part, fold == part
            fitted = fit_columns(prototype, x[others], y[others], None if weight is None else weight[others])
            z[out] = _mapped(fitted, x[out])
        strength = self.strength
        if strength is None:
            tried = cross_validate(z, y, weight, places, fold, n_levels)
            saved = row_losses(z, y) - tried.losses
            best = int(np.argmax(np.average(saved, axis=1, weights=weight)))
            self.gain_, self.gain_error_ = _mean_and_error(saved[best], weight)
            if self.gain_ <= self.gain_error_:
                return
            strength = STRENGTHS[best]
            self._compare(np.exp(z), softmax(tried.logits(best, z, places, fold)), y, levels)
        found = fit_correction(z, y, weight, places, float(strength), np.zeros((x.shape[1], 2 * n_levels)))
        self.strength_, self.duality_gap_ = float(strength), found.gap
        self.intercept_, self.slope_ = (np.ascontiguousarray(part.T) for part in np.split(found.theta, 2, axis=1))

    def _compare(self, before: FloatArray, after: FloatArray, y: IntArray, levels: IntArray) -> None:
        """Keep what the summary tells: the worst segments, on rows held out."""
        found: list[tuple[Any, ...]] = []
        errors = []
        for column, (name, values) in zip(levels.T, self.segment_columns_.items()):
            then, now = (segment_calibration(y, p, column, classes=range(before.shape[1])) for p in (before, after))
            # The error after the correction is left out: over all folds together held-out means agree too well.
            errors.append((name, then.error))
            for i, code in enumerate(then.segments):
                j = 1 if before.shape[1] == 2 else int(np.argmax(np.abs(then.observed[i] - then.predicted[i])))
                shares = [float(share[i, j]) for share in (then.observed, then.predicted, now.predicted)]
                found.append((float(then.p_value[i]), level_name(name, values, code), int(then.rows[i]), j, *shares))
        self.errors_ = errors
        self.worst_ = sorted(found)[:_WORST]

    def _n_levels(self) -> int:
        return sum(map(count_levels, self.segment_columns_.values())) + len(self.cells_)

    def _places(self, levels: IntArray) -> IntArray:
        """The rows of `intercept_` and `slope_` that apply to each row, -1 for none."""
        sizes = np.cumsum([0, *map(count_levels, self.segment_columns_.values())])
        places = np.where(levels < 0, -1, levels + sizes[:-1])
        if not len(self.cells_):
            return places
        cells = cell_codes(levels, self.cells_)
        return np.column_stack([places, np.where(cells < 0, -1, cells + sizes[-1])])

    def predict_proba(self, X: Any, *, segments: Any = None) -> NDArray[Any]:  # type: ignore[override]
        """Calibrated probabilities, float32 for float32 or narrower input, else float64.

        Parameters
        ----------
        X : array-like or data frame of shape (n, k), (n,) or (n, 1)
            Predictions with the columns seen in `fit`.
        segments : data frame, mapping of columns, or array-like of shape (n,) or (n, c)
            The columns seen in `fit`, by name. Levels that `fit` did not see go to the global map.

        Returns
        -------
        p : ndarray of shape (n, k)
            One column per class, in the order of `classes_`.
        """
        x = self._log_probabilities(X)
        frame = read_segments(_given(segments), len(x))
        places = self._places(level_codes(frame, self.segment_columns_))
        p = run_from_logs(steps_of(self.calibrator_), x)
        moved = np.any((self.intercept_ != 0.0) | (self.slope_ != 0.0), axis=1)
        rows = np.flatnonzero(((places >= 0) & moved[places]).any(axis=1))
        if rows.size:
            theta = np.concatenate([self.intercept_, self.slope_]).T
            p[rows] = softmax(corrected(log_probabilities(p[rows]), places[rows], theta))
        return p.astype(output_dtype(as_matrix(X)[0]), copy=False)

    def predict_log_proba(self, X: Any, *, segments: Any = None) -> NDArray[Any]:  # type: ignore[override]
        """Logarithms of the calibrated probabilities, ``-inf`` for an impossible class."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, segments=segments))

    def predict(self, X: Any, *, segments: Any = None) -> NDArray[Any]:  # type: ignore[override]
        """The most probable label of each row after calibration."""
        return self.classes_[self.predict_proba(X, segments=segments).argmax(axis=1)]

    def steps(self) -> list[Step]:
        # A step sees probabilities alone; that this map needs more is its nature, not something left to do.
        raise TypeError(
            "The map of SegmentedCalibrator depends on the segment of a row, which is no list of steps on its "
            "probabilities: it runs in Python with this class only. Its global map, calibrator_, can be exported."
        )

    def _map(self, x: FloatArray) -> FloatArray:
        raise _without_segments()

    def summary(self) -> str:
        """What the segments are, whether they matter, and the worst of them before and after, on rows held out.

        Examples
        --------
        >>> import numpy as np
        >>> from calibrant import SegmentedCalibrator
        >>> rng = np.random.default_rng(0)
        >>> p, region = rng.random(2000), rng.choice(["north", "west"], 2000)
        >>> y = rng.random(2000) < np.where(region == "west", 0.6 * p, p)
        >>> print(SegmentedCalibrator("ts").fit(p, y, segments={"region": region}).summary())
        SegmentedCalibrator, fitted to 2,000 rows by region: 2 levels, ridge of strength 1.
        On rows held out it saves 0.0548 of log loss, with a standard error of 0.0076.
        The global map has a multicalibration error of 0.1929 by region.
        Segments that the global map gets wrong most surely:
        region = west (978 rows): True 29.7% observed, 49.3% by the global map, 29.6% now
        region = north (1,022 rows): True 49.8% observed, 50.4% by the global map, 49.8% now
        """
        what = ", ".join(self.segment_columns_) + (" (crossed)" if self.crossed else "")
        rows = count(float(self.class_counts_.sum()))
        start = f"SegmentedCalibrator, fitted to {rows} rows by {what}"
        if not np.isfinite(self.strength_):
            return f"{start}: no correction of the global map, {self._no_gain()}."
        lines = [f"{start}: {len(self.intercept_)} levels, ridge of strength {self.strength_:g}."]
        if "gain_" in vars(self):
            lines.append(
                f"On rows held out it saves {number(self.gain_)} of log loss, with a standard error of "
                f"{number(self.gain_error_)}."
            )
            lines += [
                f"The global map has a multicalibration error of {number(error)} by {name}."
                for name, error in self.errors_
            ]
            lines.append("Segments that the global map gets wrong most surely:")
            lines += [
                f"{level} ({rows:,} rows): {self.classes_[j]} {percent(observed)} observed, {percent(before)} by the "
                f"global map, {percent(after)} now"
                for _, level, rows, j, observed, before, after in self.worst_
            ]
        return "\n".join(lines)

    def _no_gain(self) -> str:
        if "gain_" not in vars(self):
            return "since all rows are of one segment or there are too few of them"
        return (
            f"since cross-validation shows no gain ({number(self.gain_)} of log loss, standard error "
            f"{number(self.gain_error_)})"
        )

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.calibrator("calibrator_", state.k)
        columns = vars(self).get("segment_columns_")
        state.information("segment_columns_")
        state.require(isinstance(columns, dict) and columns, "segment_columns_ should name columns")
        for name, levels in self.segment_columns_.items():
            fits = isinstance(name, str) and isinstance(levels, np.ndarray) and levels.ndim == 1
            state.require(
                fits and (levels.dtype == np.float64 or (levels.dtype.kind == "U" and len(levels))),
                "segment_columns_ should hold texts or numbers for each column",
            )
            state.require(np.all(levels[1:] > levels[:-1]), f"the levels of {name[:40]} do not increase")
        cells = state.array("cells_", None, len(self.segment_columns_), integer=True, low=0)
        state.require(cells.dtype == np.int64, "cells_ should be integers of 64 bits")
        for name in ("intercept_", "slope_"):
            state.array(name, self._n_levels(), state.k)
        state.information("strength_", "duality_gap_", "gain_", "gain_error_", "worst_", "errors_")


def _given(segments: Any) -> Any:
    if segments is None:
        raise _without_segments()
    return segments


def _without_segments() -> ValueError:
    return ValueError(
        "SegmentedCalibrator needs segments=, a frame with the columns that tell the segment of each row, in fit "
        "and in predict_proba."
    )


def _mapped(calibrator: Any, x: FloatArray) -> FloatArray:
    """Log-probabilities of a fitted map."""
    return log_probabilities(run_from_logs(steps_of(calibrator), np.array(x)))


def _mean_and_error(values: FloatArray, weight: FloatArray | None) -> tuple[float, float]:
    """A mean and its standard error; weights are counts."""
    counts = np.ones(len(values)) if weight is None else weight
    total = float(counts.sum())
    mean = float(counts @ values) / total
    return mean, float(np.sqrt(counts @ (values - mean) ** 2)) / total
