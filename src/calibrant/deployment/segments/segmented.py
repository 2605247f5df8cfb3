"""A calibrator for rows of several kinds: one global map, corrected in each segment as far as the data support it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.calibrators.auto.trees.ensemble import TreeLayer, check_trees
from calibrant.calibrators.base import steps_of
from calibrant.calibrators.lifting import fit_columns
from calibrant.calibrators.parameters import AtLeastTwo, Method, NotNegativeInt, Positive
from calibrant.calibrators.state import StateCheck
from calibrant.deployment.segments.by_segment import BySegment, without_segments
from calibrant.deployment.segments.columns import (
    APART,
    Columns,
    cell_steps,
    correction_steps,
    count_levels,
    inputs_of,
    is_numeric,
    learn_columns,
    level_name,
    level_steps,
    question_steps,
)
from calibrant.deployment.segments.segment_correction import find_correction
from calibrant.docs import describe_parameters
from calibrant.inputs.predictions import as_matrix
from calibrant.inputs.segments import LARGEST, read_segments, segment_numbers
from calibrant.metrics.part_metrics import segment_calibration
from calibrant.metrics.recalibration import resolve_calibrator
from calibrant.numerals import amount, count, number, percent
from calibrant.sample import Sample
from calibrant.simplex import log_probabilities, softmax
from calibrant.steps import Columns as PickColumns
from calibrant.steps import Join, Log, Step, run, run_from_logs
from calibrant.threads import limit
from calibrant.typing import AnyArray, FloatArray, IntArray, TableLike

#: Segments that a summary names: a handful to look at first.
_WORST = 5


class SegmentedCalibrator(BySegment, kw_only=False):
    """A global calibrator, corrected in each segment of the rows as far as the data support it.

    Every level of a column of `segments` (a region, a device) has its own intercepts and slopes on the global map's
    log-probabilities. A ridge shrinks them to none, so that small segments stay near the global map; its strength is
    chosen by cross-validation on predictions that the global map makes for rows it was not fitted to. Small boosted
    trees on top, which ask about numbers, levels and log-odds, correct what depends on a number or on several columns
    together. Each of the two keeps the share of its way that its gain on rows held out is sure of: none if that gain is
    not larger than 1.4 standard errors.

    Parameters
    ----------
    method : estimator or str, default="auto"
        The global map, or its name in the registry.
    crossed : bool, default=False
        Give intercepts and slopes to every combination of levels, too, on top of the columns one by one.
    strength : float, default=None
        Of the ridge, in units of the sum of log losses; by default it is chosen by cross-validation.
    trees : bool, default=True
        Whether trees correct numeric columns and combinations. Without them, each of ten bins of a numeric column is a
        level.
    n_folds : int, default=5
        Folds for the predictions of the global map, for the strength and for the trees.
    random_state : int, default=0
        Seed of the folds and of the trees.

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
    tree_features_, tree_subtracted_, tree_thresholds_, tree_values_ : ndarray
        The trees, possibly none.
    strength_ : float
        The strength used; infinite if levels are not corrected.
    gain_, gain_error_ : float
        Log loss saved on rows held out, and its standard error.
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
    array([0.8 , 0.46, 0.73])
    """

    method: Method = "auto"
    crossed: bool = False
    strength: Positive | None = None
    trees: bool = True
    n_folds: AtLeastTwo = 5
    random_state: NotNegativeInt = 0

    @describe_parameters
    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        segments: TableLike | None = None,
        groups: ArrayLike | None = None,
        blocks: int | None = None,
    ) -> SegmentedCalibrator:
        """Learn the global map and its corrections from held-out predictions.

        Parameters
        ----------
        X : array-like or data frame of shape (n, k), (n,) or (n, 1)
            Predicted probabilities, or logits with ``input="logits"``.
        y : array-like of shape (n,) or (n, k)
            Labels; or probabilities or votes, one column per class.
        segments : data frame, mapping of columns, or array-like of shape (n,) or (n, c)
            What the segments are made of, a value for each row. A column of more than ten different numbers is
            numeric; codes that only look like numbers should be texts.
        groups : array-like of shape (n,), default=None
            Rows of one group may depend on each other: folds keep them together, and the gain of a correction is judged
            by group.

        Returns
        -------
        self : the fitted calibrator.
        """
        self._check_parameters()
        if segments is None:
            raise without_segments(self)
        frame = read_segments(segments, len(as_matrix(X)[0]))
        sample = self._check_labelled(X, y, sample_weight, groups, blocks)
        if sample.rows is not None:
            frame = {name: column[sample.rows] for name, column in frame.items()}
        with limit():
            self._fit_segments(sample, frame)
        return self

    def _fit(self, sample: Sample) -> None:
        raise without_segments(self)

    def _fit_segments(self, sample: Sample, frame: Mapping[str, AnyArray]) -> None:
        prototype, k = resolve_calibrator(self.method), sample.n_classes
        self.calibrator_ = fit_columns(prototype, sample)
        self.segment_columns_ = learn_columns(frame, sample.counts)
        numbers = segment_numbers(frame, inputs_of(self.segment_columns_))
        levels = run([Join(level_steps(self.segment_columns_, 0))], numbers).astype(np.int64)
        self.cells_ = np.unique(levels, axis=0) if self.crossed else np.empty((0, levels.shape[1]), dtype=np.int64)
        places, n_levels = self._places(levels, numbers), self._n_levels()
        self.intercept_ = self.slope_ = np.zeros((n_levels, k))
        self._keep_trees(TreeLayer.empty(k))
        self.strength_, self.duality_gap_ = np.inf, 0.0
        for name in ("gain_", "gain_error_", "errors_", "worst_"):
            self.__dict__.pop(name, None)
        fold = sample.folds(int(self.n_folds), int(self.random_state))
        # Columns that are the same in all rows have nothing to tell segments apart by, and few copies of one row, which
        # share a fold, leave nothing to judge by.
        few = sample.units < 2 * self.n_folds or not fold.any()
        if few or not (levels != levels[0]).any():
            return
        z = np.empty_like(sample.x)
        for part in np.unique(fold):
            fitted = fit_columns(prototype, sample.take(fold != part))
            z[fold == part] = _mapped(fitted, sample.x[fold == part])
        held = sample.with_values(z)
        asked = None
        if self.trees:
            questions = question_steps(self.segment_columns_, k)
            asked = np.ascontiguousarray(questions.apply(np.hstack([z, numbers])).T)
        places = places[:, (places != places[0]).any(axis=0)]
        found = find_correction(held, fold, places, n_levels, asked, self.strength, int(self.random_state))
        self.strength_, self.duality_gap_ = found.strength, found.duality_gap
        self.gain_, self.gain_error_ = found.gain, found.gain_error
        self.intercept_, self.slope_ = (np.ascontiguousarray(part.T) for part in np.split(found.theta, 2, axis=1))
        self._keep_trees(found.trees)
        after = sample.with_values(softmax(found.held), logs=False)
        self.errors_, self.worst_ = worst_segments(held, after, levels, self.segment_columns_)

    def _n_levels(self) -> int:
        return sum(map(count_levels, self.segment_columns_.values())) + len(self.cells_)

    def _places(self, levels: IntArray, numbers: FloatArray) -> IntArray:
        """The rows of `intercept_` and `slope_` that apply to each row of the fit, -1 for none."""
        sizes = np.cumsum([0, *map(count_levels, self.segment_columns_.values())])
        for_trees = np.array([self.trees and is_numeric(values) for values in self.segment_columns_.values()])
        places = np.where(for_trees, -1, levels + sizes[:-1])
        if not len(self.cells_):
            return places
        cells = run(cell_steps(self.segment_columns_, self.cells_, 0), numbers.copy())
        return np.column_stack([places, cells.astype(np.int64) + sizes[-1]])

    @property
    def _trees(self) -> TreeLayer:
        return TreeLayer(self.tree_features_, self.tree_subtracted_, self.tree_thresholds_, self.tree_values_)

    def _keep_trees(self, layer: TreeLayer) -> None:
        self.tree_features_, self.tree_subtracted_ = layer.features, layer.subtracted
        self.tree_thresholds_, self.tree_values_ = layer.thresholds, layer.values

    def steps(self) -> list[Step]:
        k, c = len(self.classes_), len(self.segment_columns_)
        trees = self._trees.steps()
        corrected = bool(trees) or bool(np.any(self.intercept_) or np.any(self.slope_))
        probabilities: list[Step] = [PickColumns(np.arange(k)), *steps_of(self.calibrator_)]
        if not corrected:
            return probabilities
        both = Join(([*probabilities, Log()], [PickColumns(np.arange(k, k + c))]))
        return [both, *correction_steps(self.segment_columns_, self.cells_, self.intercept_, self.slope_, trees)]

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
        SegmentedCalibrator, fitted to 2,000 rows by region: 2 levels, ridge of strength 1 and 6 small trees.
        On held-out rows it saves 0.0549 of log loss, with a standard error of 0.0074.
        The global map has a multicalibration error of 0.1929 by region.
        Segments where the global map is most clearly wrong:
        region = west (978 rows): True 29.7% observed, 49.3% by the global map, 30.3% now
        region = north (1,022 rows): True 49.8% observed, 50.4% by the global map, 49.8% now
        """
        fitted = vars(self)
        what = ", ".join(self.segment_columns_) + (" (crossed)" if self.crossed else "")
        size = fitted.get("fitted_to_", f"{count(float(self.class_counts_.sum()))} rows")  # not stored by version 0.2
        start = f"SegmentedCalibrator, fitted to {size} by {what}"
        parts = []
        if np.isfinite(self.strength_):
            moved = np.any(self.intercept_ != 0.0, axis=1).sum()
            parts.append(f"{moved} levels, ridge of strength {self.strength_:g}")
        if len(self.tree_features_):
            parts.append(f"{len(self.tree_features_)} small trees")
        if not parts:
            why = "no correction gains more than chance on held-out rows"
            if "gain_" not in fitted:
                why = "there is only one segment, or too few rows"
            return f"{start}: no correction of the global map, since {why}."
        lines = [f"{start}: {' and '.join(parts)}."]
        if "gain_" in fitted:
            lines.append(
                f"On held-out rows it saves {number(fitted['gain_'])} of log loss, with a standard error of "
                f"{number(fitted['gain_error_'])}."
            )
            lines += [
                f"The global map has a multicalibration error of {number(error)} by {name}."
                for name, error in fitted["errors_"]
            ]
            lines.append("Segments where the global map is most clearly wrong:")
            lines += [
                f"{level} ({amount(rows, 'row')}): {self.classes_[j]} {percent(observed)} observed, {percent(before)} "
                f"by the global map, {percent(after)} now"
                for _, level, rows, j, observed, before, after in fitted["worst_"]
            ]
        return "\n".join(lines)

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.calibrator("calibrator_", state.k)
        columns = vars(self).get("segment_columns_")
        state.information("segment_columns_")
        state.require(isinstance(columns, dict) and columns, "segment_columns_ should name columns")
        for name, levels in self.segment_columns_.items():
            fits = isinstance(name, str) and isinstance(levels, np.ndarray) and levels.ndim == 1
            state.require(
                fits and len(levels) and (levels.dtype == np.float64 or levels.dtype.kind == "U"),
                "segment_columns_ should hold texts or numbers for each column",
            )
            state.require(np.all(levels[1:] > levels[:-1]), f"the levels of {name[:40]} do not increase")
            state.require(
                levels.dtype.kind == "U" or (np.all(np.abs(levels) <= LARGEST) and np.all(np.diff(levels) > APART)),
                f"the numbers of {name[:40]} are not between bins",
            )
        cells = state.array("cells_", None, len(self.segment_columns_), integer=True, low=0)
        state.require(cells.dtype == np.int64, "cells_ should be integers of 64 bits")
        known = [count_levels(levels) for levels in self.segment_columns_.values()]
        state.require(np.all(cells < known), "cells_ holds numbers of no level")
        state.require(np.array_equal(cells, np.unique(cells, axis=0)), "cells_ should be sorted")
        if len(cells):
            cell_steps(self.segment_columns_, cells, state.k)
        for name in ("intercept_", "slope_"):
            state.array(name, self._n_levels(), state.k)
        asked = question_steps(self.segment_columns_, state.k)
        check_trees(state, asked.check(state.k + len(self.segment_columns_)))
        state.information("strength_", "duality_gap_", "gain_", "gain_error_", "worst_", "errors_")


def _mapped(calibrator: object, x: FloatArray) -> FloatArray:
    """Log-probabilities of a fitted map."""
    return log_probabilities(run_from_logs(steps_of(calibrator), np.array(x)))


def worst_segments(
    before: Sample,
    after: Sample,
    levels: IntArray,
    columns: Columns,
) -> tuple[list[tuple[str, float]], list[tuple[object, ...]]]:
    """What the global map gets wrong, with predictions `before` and `after` of rows held out.

    Errors by column, and the surest ones by level: (p-value, level, rows, class, shares).
    """
    found: list[tuple[Any, ...]] = []
    errors = []
    for column, (name, values) in zip(levels.T, columns.items()):
        given: dict[str, Any] = {"sample_weight": before.counts, "groups": before.groups}
        classes = range(before.n_classes)
        then, now = (
            segment_calibration(part.y, part.proba, column, classes=classes, **given) for part in (before, after)
        )
        # The error after the correction is left out: over all folds together held-out means agree too well.
        errors.append((name, then.error))
        for i, code in enumerate(then.segments):
            j = 1 if before.n_classes == 2 else int(np.argmax(np.abs(then.observed[i] - then.predicted[i])))
            shares = [float(share[i, j]) for share in (then.observed, then.predicted, now.predicted)]
            found.append((float(then.p_value[i]), level_name(name, values, code), round(then.rows[i]), j, *shares))
    return errors, sorted(found)[:_WORST]
