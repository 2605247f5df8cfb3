"""The inverse map: which score a calibrator of two classes turns into a given probability.

A monotone map is inverted by halving the ordered floating-point numbers between the ends of its scores, at most 64
times: the place is exact to the last digit, at a jump and between two knots as well as on a curve. Scores that all get
the probability are an interval, whose two ends are found separately. That the map is monotone is looked at on a grid
that holds every edge, knot and threshold of its steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from calibrant.numerals import class_text
from calibrant.steps import Steps, Trees
from calibrant.steps.step import branches_of
from calibrant.typing import AnyArray, FloatArray, IntArray

#: Logits beyond this all get the same probability: log-probabilities are cut off at -87.
_FARTHEST = 100.0
#: Points of the grid, apart from those of the steps: a tenth of a unit of log-odds apart.
_POINTS = 2001
#: A fall by this share of a probability is rounding, and so is an interval as narrow as this share of its place.
_ROUNDING = 1e-9


class ScoreInterval(NamedTuple):
    """The scores that get a probability: numbers, or arrays of them.

    `low` and `high` are equal where the map is strictly monotone or jumps over the probability; `high` is larger where
    it is flat. They are infinite where logits or scores without end get it.
    """

    low: Any
    high: Any


class InverseMap:
    """What calibrators inherit to map probabilities back to scores."""

    classes_: AnyArray

    def inverse(self: Any, p: ArrayLike) -> ScoreInterval:
        """The raw scores that get these calibrated probabilities, of a calibrator of two classes.

        Parameters
        ----------
        p : float or array-like
            Calibrated probabilities of ``classes_[1]``.

        Returns
        -------
        ScoreInterval
            `low` and `high`, shaped like `p`: on the scale of what `fit` was given as a single column, that is the
            probability of ``classes_[1]``, its logit, or its score. Of a calibrator of two columns of logits or scores
            it is the second minus the first.

        Raises
        ------
        ValueError
            There are more than two classes, the map is not monotone, or it never gives one of the probabilities.

        Examples
        --------
        >>> from calibrant import get_calibrator
        >>> p, y = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9] * 20, [0, 0, 1, 0, 1, 1] * 20
        >>> calibrator = get_calibrator("affine").fit(p, y)
        >>> raw = calibrator.inverse(0.3).low
        >>> calibrator.predict_proba([raw])[0, 1].round(12)
        np.float64(0.3)
        """
        check_is_fitted(self, "classes_")
        wanted = np.asarray(p, dtype=np.float64)
        if not np.all((wanted >= 0.0) & (wanted <= 1.0)):
            outside = wanted[~((wanted >= 0.0) & (wanted <= 1.0))]
            raise ValueError(f"probabilities must lie between 0 and 1, got {outside.flat[0]:g}")
        grid = self._score_grid()
        found = self._second_class(grid)
        rising = bool(found[-1] >= found[0])
        words = "score" if self.takes_scores else "logit" if self.takes_logits else "predicted probability"
        _check_monotone(*((grid, found) if rising else (grid[::-1], found[::-1])), words)
        least, most = sorted((float(found[0]), float(found[-1])))
        beyond = wanted[(wanted < least * (1 - _ROUNDING)) | (wanted > most * (1 + _ROUNDING))]
        if beyond.size:
            raise ValueError(
                f"no {words} gets {100 * beyond.flat[0]:.4g} %: this {type(self).__name__} gives "
                f"{class_text(self.classes_[1])} probabilities from {100 * least:.4g} % to {100 * most:.4g} %."
            )
        flat = np.clip(wanted.ravel(), least, most)
        low, high = self._ends(flat, grid[0], grid[-1], rising)
        if self.takes_logits:  # beyond the grid everything is as at its ends
            low, high = np.where(low <= grid[0], -np.inf, low), np.where(high >= grid[-1], np.inf, high)
        same = np.isfinite(low + high) & (high - low <= _ROUNDING * np.maximum(np.abs(low), np.abs(high)))
        low, high = np.where(same, high, low).reshape(wanted.shape), high.reshape(wanted.shape)
        return ScoreInterval(float(low), float(high)) if not wanted.ndim else ScoreInterval(low, high)

    def _second_class(self: Any, scores: FloatArray) -> FloatArray:
        """The calibrated probability of the second class for scores of it."""
        two = self.takes_scores and self.n_features_in_ == 2
        rows = np.column_stack([np.zeros(len(scores)), scores]) if two else scores
        return np.asarray(self.predict_proba(rows)[:, 1], dtype=np.float64)

    def _score_grid(self: Any) -> FloatArray:
        """Ascending scores between which the map does nothing unexpected."""
        if len(self.classes_) != 2:
            raise ValueError(f"the inverse map needs two classes; this {type(self).__name__} has {len(self.classes_)}")
        if getattr(self, "segment_columns_", None):
            raise ValueError("the map depends on the segment of a row, so one probability can come from several scores")
        logits = np.linspace(-_FARTHEST, _FARTHEST, _POINTS)
        found = [] if not self._runs_by_steps() else list(_turning_points(self.steps()))
        points = np.concatenate([np.empty(0), *found])
        inside = points[(points > 0.0) & (points < 1.0)]
        # A step may be about a probability, a logarithm of one or log-odds: a point too many does no harm.
        sure = np.concatenate([inside, 1.0 - inside, np.exp(points[points < 0.0]), -np.expm1(points[points < 0.0])])
        sure = np.concatenate([sure[(sure > 0.0) & (sure < 1.0)], np.linspace(0.0, 1.0, _POINTS)[1:-1]])
        odds = np.concatenate([logits, points[np.abs(points) < _FARTHEST], np.log(sure) - np.log1p(-sure)])
        odds = np.unique(np.clip(odds, -_FARTHEST, _FARTHEST))
        odds = np.sort(np.concatenate([odds, 0.5 * (odds[1:] + odds[:-1])]))
        if not self.takes_logits:
            return np.unique(np.concatenate([[0.0, 1.0], 1.0 / (1.0 + np.exp(-odds)), sure]))
        if not self.takes_scores:
            return np.asarray(odds)
        shift = self.score_shift_ if self.n_features_in_ == 1 else 0.0
        return np.unique((odds - shift) / self.score_factor_)

    def _ends(self, p: FloatArray, first: float, last: float, rising: bool) -> tuple[FloatArray, FloatArray]:
        """The least and the largest score that get each probability; where the map jumps over it, that place."""

        def reached(scores: FloatArray, after: bool) -> AnyArray:
            q = self._second_class(scores)
            return (q > p if after else q >= p) if rising else (q < p if after else q <= p)

        ends = []
        for after in (False, True):
            below, above = _ordered(np.full(p.shape, first)), _ordered(np.full(p.shape, last))
            # Where the first score has it already there is nothing to search; nor where the last one is not beyond it.
            done, never = reached(np.full(p.shape, first), after), ~reached(np.full(p.shape, last), after)
            while np.any(above - below > 1):
                middle = below + (above - below) // 2
                beyond = reached(_floats(middle), after)
                above, below = np.where(beyond, middle, above), np.where(beyond, below, middle)
            found = _floats(below if after else above)
            ends.append(np.where(done, first, np.where(never, last, found)))
        low, high = ends
        return low, np.maximum(low, high)


def _check_monotone(grid: FloatArray, found: FloatArray, words: str) -> None:
    """Refuse a map that falls where it should rise; `found` are its values, at the end at least those at the start."""
    highest = np.maximum.accumulate(found)
    fall = highest - found
    bottom = _middle(fall == fall.max())
    if fall[bottom] > _ROUNDING * highest[bottom]:
        top = _middle(found[: bottom + 1] == highest[bottom])
        places = [f"{score:.6g}" for score in (grid[top], grid[bottom])]
        first, second = places if places[0] != places[1] else (repr(float(grid[top])), repr(float(grid[bottom])))
        raise ValueError(
            f"the map is not monotone, so one probability can come from several scores: a {words} of {first} gets "
            f"{100 * found[top]:.4g} %, and one of {second} gets {100 * found[bottom]:.4g} %. Monotone methods are "
            "platt, beta, ts, affine and isotonic, for example."
        )
    if found[-1] == found[0]:
        raise ValueError(f"the map is constant: every {words} gets {100 * found[0]:.4g} %.")


def _middle(condition: AnyArray) -> int:
    """A place where it holds, away from the edges of a step."""
    places = np.flatnonzero(condition)
    return int(places[len(places) // 2])


def _turning_points(steps: Steps) -> Iterator[FloatArray]:
    """Edges, knots and thresholds of steps, on whatever scale they are."""
    for step in steps:
        for name in ("edges", "knots"):
            if hasattr(step, name):
                yield getattr(step, name)
        if isinstance(step, Trees):
            yield step.thresholds.ravel()
        for branch in branches_of(step):
            yield from _turning_points(branch)


def _ordered(x: FloatArray) -> IntArray:
    """Whole numbers in the order of floating-point numbers, neighbours one apart; halved so that they can be added."""
    bits = np.asarray(x, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits) // 2


def _floats(order: IntArray) -> FloatArray:
    bits = order * 2
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits).view(np.float64)
