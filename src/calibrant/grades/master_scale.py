"""`MasterScale`: grades of probabilities, and migration between them. Grade `g` holds those in `(b_{g-1}, b_g]`.

With `n_ij` observations that went from grade `i` to grade `j` of `m`, the upper bandwidth of the European Central Bank
is `Σ_{i<j} (j - i) n_ij / Σ_{i<j} max(m - i, i - 1) n_ij`, the share of the possible distance that those who got worse
moved; the lower one is the same for those who got better. The population stability index is
`Σ (a_j - b_j) log(a_j / b_j)` over the shares of the grades after and before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.bins import equal_mass_edges, sum_by
from calibrant.confidence import check_level
from calibrant.docs import describe_parameters
from calibrant.grades.backtesting import LIGHTS, Alternative, GradeBacktest, check_correlation, run_backtest
from calibrant.inputs.observations import check_sample_weight
from calibrant.inputs.samples import check_sample
from calibrant.metrics.frequencies import class_frequencies
from calibrant.metrics.result_types import Tabular
from calibrant.metrics.views import one_against_rest
from calibrant.numerals import amount, count, p_text, percent
from calibrant.sample import Sample
from calibrant.text_table import list_names
from calibrant.threads import limited
from calibrant.typing import AnyArray, FloatArray, Label


@dataclass(frozen=True, repr=False)
class Migration(Tabular):
    """Grades before and after.

    Attributes
    ----------
    grades : tuple of str
    counts : ndarray of shape (m, m)
        Observations by grade before (rows) and after (columns).
    stayed, better, worse : float
        Shares that stayed, and that moved to a better or to a worse grade.
    p_value : float
        Of the hypothesis that moves to better and to worse grades are equally likely, exact.
    upper_bandwidth, lower_bandwidth : float
        How far those who got worse, and better, moved, as a share of what was possible; NaN if none did.
    stability_index : float
        Population stability index; an empty grade counts as half an observation. Without any change it is about
        `(m - 1) (1 / n_before + 1 / n_after)`.
    """

    grades: tuple[str, ...]
    counts: FloatArray
    stayed: float
    better: float
    worse: float
    p_value: float
    upper_bandwidth: float
    lower_bandwidth: float
    stability_index: float

    def __repr__(self) -> str:
        total = count(float(self.counts.sum()))
        said = f"{total} observations in two periods: {percent(self.stayed)} stayed in their grade"
        if self.stayed >= 1.0:
            return f"{said}; none moved."
        direction = "no evidence of a direction" if self.p_value > 0.05 else "more than chance explains"
        return (
            f"{said}; {percent(self.better)} moved to a better grade and {percent(self.worse)} to a worse one "
            f"({p_text(self.p_value)}: {direction})."
        )

    def to_dict(self) -> dict[str, Any]:
        """Columns of the table: the grade before, and one column per grade after."""
        return {"before": np.array(self.grades), **dict(zip(self.grades, self.counts.T))}


def measure_migration(grades: tuple[str, ...], before: Any, after: object, data: Sample) -> Migration:
    """Migration between grades given by number; `data` says what the rows count for and which belong together."""
    m = len(grades)
    counts = np.bincount(before * m + after, data.each, minlength=m * m).reshape(m, m).astype(np.float64)
    total, place = counts.sum(), np.arange(m)
    distance = place[None, :] - place[:, None]
    possible = np.maximum(m - 1 - place, place)[:, None] * np.ones(m)

    def bandwidth(chosen: Any) -> float:
        farthest = float((possible * counts)[chosen].sum())
        return float((np.abs(distance) * counts)[chosen].sum()) / farthest if farthest else float("nan")

    moved, p_value = np.flatnonzero(before != after), 1.0
    if len(moved):
        up = (after > before)[moved].astype(np.intp)
        coins = data.take(moved).with_values(np.full((len(moved), 2), 0.5), logs=False, y=up)
        p_value = float(class_frequencies(coins).p_value[1])
    now, then = (np.maximum(counts.sum(axis=axis), 0.5) for axis in (0, 1))
    now, then = now / now.sum(), then / then.sum()
    stayed, better, worse = (float(counts[at].sum() / total) for at in (distance == 0, distance < 0, distance > 0))
    widths = bandwidth(distance > 0), bandwidth(distance < 0)
    index = float(np.sum((now - then) * np.log(now / then)))
    return Migration(grades, counts, stayed, better, worse, p_value, widths[0], widths[1], index)


class MasterScale(Tabular):
    """A scale of grades, the best (with the lowest probabilities) first.

    Parameters
    ----------
    boundaries : array-like of shape (m - 1,)
        Where one grade ends and the next begins, ascending, between 0 and 1; a boundary belongs to the better grade.
    names : sequence of m str, default=None
        Names of the grades; by default "1", "2", ...
    probabilities : array-like of shape (m,), default=None
        The probability that each grade stands for, each within its grade.

    Attributes
    ----------
    boundaries, names, probabilities
        As given; `probabilities` is None if none were.

    Examples
    --------
    >>> from calibrant import MasterScale
    >>> scale = MasterScale([0.01, 0.05], names=["A", "B", "C"], probabilities=[0.005, 0.02, 0.1])
    >>> scale.grade([0.0, 0.01, 0.03, 0.4]).tolist(), scale.inverse(["C", "A"]).tolist()
    (['A', 'A', 'B', 'C'], [0.1, 0.005])
    >>> found = scale.backtest([0] * 96 + [1] * 4, [0.03] * 100)
    >>> found.expected, found.observed, found.light
    (array([0., 2., 0.]), array([0., 4., 0.]), ('', 'green', ''))
    >>> print(scale.to_sql("pd"))
    CASE WHEN pd < 0 THEN NULL WHEN pd <= 0.01 THEN 'A' WHEN pd <= 0.05 THEN 'B' WHEN pd <= 1 THEN 'C' END
    """

    def __init__(
        self, boundaries: ArrayLike, names: Sequence[str] | None = None, probabilities: ArrayLike | None = None
    ) -> None:
        edges = np.atleast_1d(np.asarray(boundaries, dtype=np.float64))
        if edges.ndim != 1 or not np.all((edges > 0) & (edges < 1)) or not np.all(np.diff(edges) > 0):
            raise ValueError(f"boundaries must ascend between 0 and 1, got {list_names(edges.tolist(), 8, str)}")
        self.boundaries: FloatArray = edges
        m = len(edges) + 1
        self.names = tuple(str(number + 1) for number in range(m)) if names is None else tuple(map(str, names))
        if len(self.names) != m or len(set(self.names)) != m:
            raise ValueError(f"{m - 1} boundaries make {m} grades, which need {m} different names; got {self.names}")
        self.probabilities: FloatArray | None = None
        if probabilities is not None:
            given = np.asarray(probabilities, dtype=np.float64)
            if given.shape != (m,):
                raise ValueError(f"{m} grades need {m} probabilities, got {given.size}")
            for name, p, low, high in zip(self.names, given.tolist(), self.lower, self.upper):
                if not low <= p <= high:
                    raise ValueError(f"the probability {p} of grade {name} is not between {low} and {high}")
            self.probabilities = given

    @classmethod
    @describe_parameters
    def from_quantiles(
        cls,
        y_prob: ArrayLike,
        n_grades: int = 7,
        *,
        names: Sequence[str] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> MasterScale:
        """Grades of about as many observations each, which stand for the mean prediction of theirs.

        Equal predictions share a grade, so that there may be fewer grades than asked for.

        Parameters
        ----------
        y_prob : array-like of shape (n,)
            Probabilities of the case.
        n_grades : int, default=7
            Number of grades.
        names : sequence of str, default=None
            Their names.
        """
        if isinstance(n_grades, bool) or int(n_grades) != n_grades or n_grades < 1:
            raise ValueError(f"n_grades must be a positive whole number, got {n_grades!r}")
        p = _probabilities(y_prob)
        weight = check_sample_weight(sample_weight, len(p))
        each = np.ones(len(p)) if weight is None else weight
        values, place = np.unique(p, return_inverse=True)
        edges = equal_mass_edges(values, sum_by(place, each, len(values)), int(n_grades))
        edges = edges[(edges > 0) & (edges < 1)]
        index, m = np.searchsorted(edges, p, side="left"), len(edges) + 1
        means = sum_by(index, each * p, m) / sum_by(index, each, m)
        return cls(edges, names, np.clip(means, [0.0, *edges], [*edges, 1.0]))  # of which rounding may lead out

    @classmethod
    def from_probabilities(cls, probabilities: ArrayLike, names: Sequence[str] | None = None) -> MasterScale:
        """Grades that stand for given probabilities, with boundaries at the geometric means of neighbours.

        Examples
        --------
        >>> from calibrant import MasterScale
        >>> MasterScale.from_probabilities([0.001, 0.01, 0.1]).boundaries.round(4).tolist()
        [0.0032, 0.0316]
        """
        given = np.asarray(probabilities, dtype=np.float64)
        if given.ndim != 1 or not np.all((given > 0) & (given < 1)) or not np.all(np.diff(given) > 0):
            raise ValueError(f"probabilities must ascend between 0 and 1, got {given.tolist()}")
        return cls(np.sqrt(given[:-1] * given[1:]), names, given)

    @property
    def lower(self) -> list[float]:
        """The lower end of each grade."""
        return [0.0, *self.boundaries.tolist()]

    @property
    def upper(self) -> list[float]:
        """The upper end of each grade, which belongs to it."""
        return [*self.boundaries.tolist(), 1.0]

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        ends = ", ".join(f"{name} up to {percent(end)}" for name, end in zip(self.names, self.upper[:-1]))
        size = amount(len(self), "grade")
        return f"MasterScale of {size}: {ends}{', ' if ends else ''}{self.names[-1]} up to 100%"

    def to_dict(self) -> dict[str, Any]:
        """The columns grade, lower, upper, and probability if it is known; `from_dict` reads them."""
        found = {"grade": list(self.names), "lower": self.lower, "upper": self.upper}
        return found if self.probabilities is None else {**found, "probability": self.probabilities.tolist()}

    @classmethod
    def from_dict(cls, columns: dict[str, Any]) -> MasterScale:
        """The scale with these columns: `upper`, and `grade` and `probability` if they are there."""
        if "upper" not in columns:
            raise ValueError(f"a scale needs a column upper, the upper end of each grade; there are {sorted(columns)}")
        upper = [float(end) for end in columns["upper"]]
        if not upper or upper[-1] != 1.0:
            raise ValueError("the last grade of a scale must reach up to 1: set its upper to 1")
        return cls(upper[:-1], columns.get("grade"), columns.get("probability"))

    def index(self, y_prob: ArrayLike) -> NDArray[np.intp]:
        """The number of each probability's grade, 0 for the best."""
        return np.searchsorted(self.boundaries, _probabilities(y_prob), side="left")

    def grade(self, y_prob: ArrayLike) -> AnyArray:
        """The grade of each probability of the case (n,); of two columns (n, 2) the second counts."""
        return np.array(self.names)[self.index(y_prob)]

    def inverse(self, grades: ArrayLike) -> FloatArray:
        """The probability that each grade stands for; of a scale without probabilities the middle of its log-odds.

        The first and the last grade, which have no end on one side, then stand for their end.
        """
        places = {name: place for place, name in enumerate(self.names)}
        wanted = [str(grade) for grade in np.atleast_1d(np.asarray(grades)).tolist()]
        unknown = [grade for grade in wanted if grade not in places]
        if unknown:
            raise ValueError(f"no grade is called {unknown[0]!r}; the grades are {list_names(self.names)}")
        return self._values()[[places[grade] for grade in wanted]]

    def _values(self) -> FloatArray:
        if self.probabilities is not None or not len(self.boundaries):
            return np.array([0.5]) if self.probabilities is None else self.probabilities
        odds = np.log(self.boundaries) - np.log1p(-self.boundaries)
        middle = np.concatenate([odds[:1], (odds[:-1] + odds[1:]) / 2, odds[-1:]])
        return np.asarray(1.0 / (1.0 + np.exp(-middle)))

    @limited
    @describe_parameters
    def backtest(
        self,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        pos_label: Label = None,
        against: str | None = None,
        alternative: Alternative = "greater",
        lights: tuple[float, float] = LIGHTS,
        correlation: float = 0.0,
        level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        blocks: int | None = None,
        classes: Sequence[Label] | None = None,
    ) -> GradeBacktest:
        """Compare the cases of every grade with its probability.

        The binomial test keeps its level for any number of rows; Jeffreys' does on average over probabilities, not for
        each (docs/validation.md has both measured). Cases of one year depend on each other more than either assumes:
        give `correlation`, or `groups`.

        Parameters
        ----------
        pos_label : label, optional
            The class of the cases; by default the second of two. With more classes it must be named.
        against : {"grades", "predictions"}, default=None
            Test the probabilities of the scale, or the mean prediction of each grade's rows; by default those of the
            scale if it has any.
        alternative : {"greater", "less", "two-sided"}, default="greater"
            More cases than expected, fewer, or either.
        lights : pair of float, default=(0.05, 0.01)
            Binomial p-values up to which a light is yellow, and red.
        correlation : float, default=0.0
            Asset correlation of the binomial test: see `pluto_tasche`.

        Returns
        -------
        GradeBacktest
        """
        check_level(level), check_correlation(correlation)
        if alternative not in ("greater", "less", "two-sided"):
            raise ValueError(f"alternative must be 'greater', 'less' or 'two-sided', got {alternative!r}")
        if not 0 < lights[1] < lights[0] < 1:
            raise ValueError(f"lights are two p-values, the larger first, such as (0.05, 0.01), got {lights!r}")
        if against not in (None, "grades", "predictions"):
            raise ValueError(f"against must be 'grades' or 'predictions', got {against!r}")
        if against == "grades" and self.probabilities is None:
            raise ValueError("this scale has no probabilities to test: give them, or against='predictions'")
        data = check_sample(y_true, y_prob, sample_weight, classes, groups=groups, blocks=blocks)
        if pos_label is None and data.n_classes > 2:
            raise ValueError(f"pos_label is needed for {data.n_classes} classes: which class do the grades refer to?")
        pair = one_against_rest(data, data.names[1] if pos_label is None else pos_label)
        return run_backtest(
            pair,
            self.index(np.asarray(pair.proba[:, 1], dtype=np.float64)),
            self.names,
            None if against == "predictions" else self.probabilities,
            level=level,
            lights=(float(lights[0]), float(lights[1])),
            alternative=alternative,
            correlation=float(correlation),
        )

    @limited
    @describe_parameters
    def migration(
        self,
        before: ArrayLike,
        after: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        blocks: int | None = None,
    ) -> Migration:
        """How the grades of the same rows differ between two periods.

        Parameters
        ----------
        before, after : array-like of shape (n,)
            Probabilities of the case in both periods, row by row of the same obligor.

        Examples
        --------
        >>> from calibrant import MasterScale
        >>> found = MasterScale([0.1]).migration([0.05, 0.05, 0.2, 0.3], [0.05, 0.2, 0.3, 0.05])
        >>> found.counts.tolist(), found.stayed, found.p_value
        ([[1.0, 1.0], [1.0, 1.0]], 0.5, 1.0)
        """
        first, second = self.index(before), self.index(after)
        if len(first) != len(second):
            raise ValueError(f"before has {len(first)} rows and after {len(second)}: both must be the same obligors")
        now, p = (second > first).astype(np.int64), np.full(len(first), 0.5)
        data = check_sample(now, p, sample_weight, [0, 1], groups=groups, blocks=blocks)
        kept = slice(None) if data.rows is None else data.rows
        return measure_migration(self.names, first[kept], second[kept], data)

    def to_sql(self, column: str = "probability") -> str:
        """The grade of a column, or expression, as a CASE that all databases read; NULL if it is not a probability."""
        if odd := [name for name in self.names if "'" in name or "\\" in name]:
            raise ValueError(
                f"the grade {odd[0]!r} would be spelled differently in some databases: give it another name"
            )
        ends = [*map(repr, self.boundaries.tolist()), "1"]
        cases = " ".join(f"WHEN {column} <= {end} THEN '{name}'" for end, name in zip(ends, self.names))
        return f"CASE WHEN {column} < 0 THEN NULL {cases} END"

    def to_python(self) -> str:
        """The grade of one probability as a function of plain Python.

        Examples
        --------
        >>> from calibrant import MasterScale
        >>> scope = {}
        >>> exec(MasterScale([0.1], names=["low", "high"]).to_python(), scope)
        >>> scope["grade"](0.1), scope["grade"](0.2)
        ('low', 'high')
        """
        return (
            "from bisect import bisect_left\n\n"
            f"BOUNDARIES = {self.boundaries.tolist()!r}\nNAMES = {list(self.names)!r}\n\n\n"
            "def grade(probability):\n"
            '    """The grade of a probability; a boundary belongs to the better grade."""\n'
            "    if not 0 <= probability <= 1:\n"
            '        raise ValueError(f"{probability!r} is not a probability")\n'
            "    return NAMES[bisect_left(BOUNDARIES, probability)]\n"
        )


def _probabilities(y_prob: ArrayLike) -> FloatArray:
    p = np.asarray(y_prob, dtype=np.float64)
    p = p[:, 1] if p.ndim == 2 and p.shape[1] == 2 else p.reshape(-1) if p.ndim != 2 or p.shape[1] == 1 else p
    if p.ndim != 1 or not np.all((p >= 0) & (p <= 1)):
        raise ValueError("grades need probabilities between 0 and 1, one per row: those of the event")
    return p
