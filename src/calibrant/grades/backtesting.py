"""Backtests of grades: whether cases are as many as each grade's probability predicts, and whether grades make sense.

With `n` observations, `d` cases and probability `p` of a grade:

- binomial: `P(X ≥ d)` for a binomial `X`, or one of correlated cases. If cases of one year share a normal factor, as in
  Vasicek's model, a case has, given the factor `y`, the probability `Φ((Φ⁻¹(p) - √ρ y) / √(1 - ρ))`, and the number of
  cases is binomial given `y`. The binomial tail is an incomplete beta function, which also holds between whole numbers.
- Jeffreys: the share of the distribution Beta(d + 1/2, n - d + 1/2) below `p`, as the European Central Bank has it.
- Hosmer-Lemeshow over grades: `Σ (d - n p)² / (n p (1 - p))`.
- homogeneity: the half of a grade with the lower predictions has the same rate as the other half.
- the next grade: two neighbouring grades have the same rate. Rates should rise, and each pair should differ.

Both compare two rates `r₁` and `r₂` by `(r₁ - r₂)² / (r (1 - r) (1/n₁ + 1/n₂))`, with labels drawn at the common rate
`r`. With groups, `n` and `d` are divided by the design effect of the grade, and the larger p-value counts.

Grades with few cases or none have Pluto and Tasche's upper bounds of their probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, betaincinv, ndtr, ndtri

from calibrant.bins import quantiles, sum_by
from calibrant.confidence import check_level
from calibrant.metrics.frequencies import design_effects
from calibrant.metrics.hypothesis import CellResiduals, drawn_or_tail
from calibrant.metrics.named_tests import cell_test
from calibrant.metrics.result_types import CalibrationTest, Tabular
from calibrant.numerals import amount, count, number, p_text, percent
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, AnyIntArray, FloatArray, Label

#: Places of the common factor and their masses: the trapezoidal rule, which is exact to rounding for smooth functions.
_FACTOR = np.linspace(-9.0, 9.0, 4001)
_MASS = np.exp(-0.5 * _FACTOR**2) / np.exp(-0.5 * _FACTOR**2).sum()


def check_correlation(correlation: float) -> float:
    """A correlation of the factors behind the cases, from 0 to below 1."""
    if not 0.0 <= correlation < 1.0:
        raise ValueError(f"correlation must be at least 0 and below 1, got {correlation!r}")
    return float(correlation)


def case_tails(count: float, total: float, p: float, correlation: float = 0.0) -> tuple[float, float]:
    """`P(X ≥ count)` and `P(X ≤ count)` for the number of cases among `total` of probability `p`."""
    given: float = p
    if correlation > 0.0 and 0.0 < p < 1.0:
        given = ndtr((ndtri(p) - np.sqrt(correlation) * _FACTOR) / np.sqrt(1.0 - correlation))
    above = betainc(count, total - count + 1.0, given) if count > 0 else 1.0
    below = betaincc(count + 1.0, total - count, given) if count < total else 1.0
    upper, lower = (float(_MASS @ tail) if np.ndim(tail) else float(tail) for tail in (above, below))
    return upper, lower


def pluto_tasche(
    observations: ArrayLike, observed: ArrayLike | None = None, *, level: float = 0.9, correlation: float = 0.0
) -> FloatArray:
    """Most prudent estimates of the probabilities of grades with few cases or none (Pluto and Tasche 2005).

    The estimate of a grade is the upper confidence bound of the probability of this grade and all worse ones, pooled:
    if grades are in the right order, its probability is no larger than theirs. It is the `p` at which as few cases as
    were observed have probability `1 - level`.

    It misleads where the order of grades is wrong, and its size is mostly that of `level`, which the data do not tell.
    It grows fast with the correlation. An estimate below that of a better grade is raised to it.

    Parameters
    ----------
    observations : array-like of shape (m,)
        Observations of each grade, the best grade first.
    observed : array-like of shape (m,), default=None
        Cases among them; by default none.
    level : float, default=0.9
        Confidence level of the bounds.
    correlation : float, default=0.0
        Correlation of the normal variables behind the cases (asset correlation), such as 0.12.

    Returns
    -------
    ndarray of shape (m,)

    References
    ----------
    Pluto and Tasche. Estimating probabilities of default for low default portfolios. arXiv cond-mat/0411699 (2005).

    Examples
    --------
    Grades of 100, 400 and 300 obligors without a default:

    >>> from calibrant.grades import pluto_tasche
    >>> (100 * pluto_tasche([100, 400, 300])).round(2)
    array([0.29, 0.33, 0.76])
    >>> (100 * pluto_tasche([100, 400, 300], correlation=0.12)).round(2)
    array([0.86, 0.96, 1.89])
    """
    check_level(level), check_correlation(correlation)
    n = np.atleast_1d(np.asarray(observations, dtype=np.float64))
    d = np.zeros(len(n)) if observed is None else np.atleast_1d(np.asarray(observed, dtype=np.float64))
    if n.ndim != 1 or d.shape != n.shape or not len(n) or not np.all((d >= 0) & (d <= n)):
        raise ValueError("each grade needs a number of observations, and at least 0 and at most as many cases")
    pooled = np.cumsum(n[::-1])[::-1], np.cumsum(d[::-1])[::-1]
    return np.maximum.accumulate([_upper_bound(*pair, level, correlation) for pair in zip(*pooled)])


def _upper_bound(total: float, count: float, level: float, correlation: float) -> float:
    if count >= total:
        return 1.0
    excess = lambda odds: case_tails(count, total, float(ndtr(odds)), correlation)[1] - (1.0 - level)  # noqa: E731
    return float(ndtr(brentq(excess, -30.0, 8.0, xtol=1e-13)))


Alternative = Literal["greater", "less", "two-sided"]
#: P-values up to which a light is yellow, and red.
LIGHTS = (0.05, 0.01)
_ASKED = {"greater": "more", "less": "fewer", "two-sided": "more or fewer"}
#: P-value from which two rates may be the same.
_DIFFERENT = 0.05


@dataclass(frozen=True, repr=False)
class GradeBacktest(Tabular):
    """Expected and observed cases of every grade, with tests.

    Attributes
    ----------
    grades : tuple of str
        The grades, the best first; arrays have an entry for each.
    probability : ndarray
        What is tested: the probability of the grade, or the mean prediction of its rows.
    observations, expected, observed : ndarray
        Observations of each grade, the cases that were expected among them, and those that occurred.
    rate, low, high : ndarray
        Share of cases, and Clopper and Pearson's interval at `level`.
    binomial, jeffreys : ndarray
        P-values of the two tests against `alternative`.
    light : tuple of str
        "green", "yellow" or "red" by the binomial p-value; "" for a grade without rows.
    homogeneity, next_grade : ndarray
        P-values of equal rates in the two halves of each grade, and in this grade and the next one that has rows.
    hosmer_lemeshow : CalibrationTest
        The test over all grades at once.
    total : dict
        Binomial and Jeffreys p-value of all rows at their mean probability.
    label, level, lights, alternative, correlation
        The class of the cases, and what was asked for.
    """

    grades: tuple[str, ...]
    probability: FloatArray
    observations: FloatArray
    expected: FloatArray
    observed: FloatArray
    rate: FloatArray
    low: FloatArray
    high: FloatArray
    binomial: FloatArray
    jeffreys: FloatArray
    light: tuple[str, ...]
    homogeneity: FloatArray
    next_grade: FloatArray
    hosmer_lemeshow: CalibrationTest
    total: dict[str, float]
    label: Label
    level: float
    lights: tuple[float, float]
    alternative: str
    correlation: float

    def __repr__(self) -> str:
        return self.summary()

    def to_dict(self) -> dict[str, Any]:
        """Columns of the table, one row per grade."""
        columns = "probability observations expected observed rate low high binomial jeffreys"
        columns += " light homogeneity next_grade"
        found = {name: np.asarray(getattr(self, name)) for name in columns.split()}
        return {"grade": np.array(self.grades), **found}

    @property
    def inversions(self) -> list[tuple[str, str]]:
        """Neighbouring grades of which the worse one has fewer cases."""
        return [
            (self.grades[a], self.grades[b]) for a, b in neighbours(self.observations) if self.rate[b] < self.rate[a]
        ]

    def low_default(self, *, level: float = 0.9, correlation: float = 0.0) -> FloatArray:
        """Most prudent probabilities of the grades from these counts: see `pluto_tasche`."""
        return pluto_tasche(self.observations, self.observed, level=level, correlation=correlation)

    def table(self) -> list[list[str]]:
        """The table as rows of text under a header."""
        head = "grade, probability, rows, expected, observed, rate, interval, binomial p, Jeffreys p, light"
        rows = [head.split(", ")]
        for i, grade in enumerate(self.grades):
            counts = (count(value[i]) for value in (self.observations, self.expected, self.observed))
            ends = f"{percent(self.low[i])} to {percent(self.high[i])}" if self.observations[i] > 0 else ""
            tests = number(self.binomial[i]), number(self.jeffreys[i]), self.light[i]
            rows.append([grade, percent(self.probability[i]), *counts, percent(self.rate[i]), ends, *tests])
        return rows

    def summary(self) -> str:
        """The findings in sentences."""
        seen = int(np.sum(self.observations > 0))
        asked = f"{_ASKED[self.alternative]} cases than expected"
        lines = [
            f"{amount(seen, 'grade')} with {amount(float(self.observations.sum()), 'observation')}: "
            f"{amount(float(self.expected.sum()), 'case')} expected, {count(float(self.observed.sum()))} observed "
            f"(binomial {p_text(self.total['binomial'])})."
        ]
        for light in ("red", "yellow"):
            counts = zip(self.grades, self.light, self.expected, self.observed)
            found = [f"{g} ({count(e)} expected, {count(d)} observed)" for g, shown, e, d in counts if shown == light]
            lines += [f"{light.capitalize()}: {', '.join(found)}."] * bool(found)
        if seen and not any(light in ("red", "yellow") for light in self.light):
            lines.append(f"All grades are green: not enough evidence of {asked}, which does not prove them right.")
        if seen:
            lines.append(
                f"Lights look for {asked}. If the probabilities are right, a grade is yellow or red with probability "
                f"{percent(self.lights[0])} at most, and some of {seen} with "
                f"{percent(1 - (1 - self.lights[0]) ** seen, 0)}; red with {percent(self.lights[1])}."
            )
        pairs = {"The worse grade has the lower rate": self.inversions}
        alike = [pair for pair in neighbours(self.observations) if self.next_grade[pair[0]] > _DIFFERENT]
        pairs["Not enough evidence that these neighbours differ"] = [(self.grades[a], self.grades[b]) for a, b in alike]
        lines += [
            f"{words}: {', '.join(' and '.join(pair) for pair in found)}." for words, found in pairs.items() if found
        ]
        mixed = [grade for grade, p in zip(self.grades, self.homogeneity) if p <= _DIFFERENT]
        lines += [f"Rates differ inside a grade: {', '.join(mixed)}."] * bool(mixed)
        return "\n".join(lines)


def neighbours(observations: AnyFloatArray) -> list[tuple[int, int]]:
    """Pairs of consecutive grades with rows."""
    full = np.flatnonzero(observations > 0).tolist()
    return list(pairwise(full))


def run_backtest(
    data: Sample,
    index: AnyIntArray,
    names: Sequence[str],
    probability: AnyFloatArray | None,
    *,
    level: float,
    lights: tuple[float, float],
    alternative: Alternative,
    correlation: float,
) -> GradeBacktest:
    """Backtest of rows with two classes in the grades `index`, against given probabilities or the mean predictions."""
    m, score = len(names), np.asarray(data.proba[:, 1], dtype=np.float64)
    n, observed = sum_by(index, data.each, m), sum_by(index, data.each * (data.y == 1), m)
    with np.errstate(invalid="ignore"):
        mean = sum_by(index, data.each * score, m) / n
        rate = observed / n
    tested = np.asarray(mean if probability is None else probability, dtype=np.float64)
    promised = data.with_values(np.column_stack([1.0 - tested, tested])[index], logs=False)
    parts = {g: np.flatnonzero(index == g) for g in range(m) if n[g] > 0}
    found = np.full((6, m), np.nan)
    for g, rows in parts.items():
        effect = float(design_effects(promised.take(rows))[1])
        found[:2, g] = rate_interval(observed[g], n[g], level, effect)
        found[2:4, g] = rate_tests(observed[g], n[g], tested[g], alternative, correlation, effect)
        part = data.take(rows)
        middle = quantiles(score[rows], part.counts, np.array([0.5]))[0]
        found[4, g] = equal_rates(part, score[rows] > middle)
    for a, b in neighbours(n):
        rows = np.concatenate([parts[a], parts[b]])
        found[5, a] = equal_rates(data.take(rows), np.repeat([False, True], [len(parts[a]), len(parts[b])]))
    expected = np.where(n > 0, n * tested, 0.0)
    overall = expected.sum() / n.sum(), float(design_effects(promised)[1])
    tests = rate_tests(observed.sum(), n.sum(), overall[0], alternative, correlation, overall[1])
    return GradeBacktest(
        grades=tuple(names),
        probability=tested,
        observations=n,
        expected=expected,
        observed=observed,
        rate=rate,
        **dict(zip(("low", "high", "binomial", "jeffreys", "homogeneity", "next_grade"), found)),
        light=tuple(light_of(p, lights) for p in found[2].tolist()),
        hosmer_lemeshow=cell_test(promised, index, m, "hosmer_lemeshow over grades"),
        total=dict(zip(("binomial", "jeffreys"), tests)),
        label=data.names[1],
        level=level,
        lights=lights,
        alternative=alternative,
        correlation=correlation,
    )


def light_of(p_value: float, lights: tuple[float, float]) -> str:
    """The colour of a p-value."""
    if np.isnan(p_value):
        return ""
    return "red" if p_value <= lights[1] else "yellow" if p_value <= lights[0] else "green"


def rate_tests(
    observed: float, n: float, p: float, alternative: str, correlation: float = 0.0, effect: float = 1.0
) -> tuple[float, float]:
    """P-values of the binomial and of Jeffreys' test; with a design effect the larger of those with and without it."""

    def one(d: float, total: float) -> tuple[float, float]:
        upper, lower = case_tails(d, total, p, correlation)
        below = float(betainc(d + 0.5, total - d + 0.5, p))
        pairs = {"greater": (upper, below), "less": (lower, 1.0 - below)}
        pairs["two-sided"] = min(1.0, 2 * min(upper, lower)), 2 * min(below, 1.0 - below)
        return pairs[alternative]

    plain = one(observed, n)
    if effect <= 1.0:
        return plain
    grouped = one(observed / effect, n / effect)
    return max(plain[0], grouped[0]), max(plain[1], grouped[1])


def rate_interval(observed: float, n: float, level: float, effect: float = 1.0) -> tuple[float, float]:
    """Clopper and Pearson's interval of a rate, of as many observations as the design effect leaves."""
    d, total, tail = observed / effect, n / effect, (1.0 - level) / 2
    low = float(betaincinv(d, total - d + 1.0, tail)) if d > 0 else 0.0
    high = float(betaincinv(d + 1.0, total - d, 1.0 - tail)) if d < total else 1.0
    return low, high


def equal_rates(data: Sample, second: AnyIntArray) -> float:
    """P-value of the second class being as frequent in some rows as in the others; NaN if one of them is empty."""
    n = sum_by(second.astype(np.intp), data.each, 2)
    if not n.all():
        return float("nan")
    rate = float(data.class_counts[1]) / data.total
    if not 0.0 < rate < 1.0:
        return 1.0
    common = data.with_values(np.tile([1.0 - rate, rate], (data.n_rows, 1)), logs=False)
    variance = rate * (1.0 - rate) * float(np.sum(1.0 / n))

    def statistic(cells: AnyFloatArray) -> float:
        difference = cells[:, 1] / n
        return float((difference[1] - difference[0]) ** 2 / variance)

    residuals = CellResiduals(common, second.astype(np.intp), 2)
    return drawn_or_tail(residuals, statistic, 1, name="equal rates", kind="binary", cells=2).p_value
