"""Steps made of lists of steps: sums, lists side by side, one-vs-rest, one-vs-one, the top class kept, intervals."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from calibrant.rowwise import row_sums
from calibrant.simplex import FLOOR
from calibrant.steps.step import Step, Steps, branches, check_steps, number, require, run, widest
from calibrant.typing import FloatArray

#: Logits this close are tied, whichever way an exponential function rounds.
TIE = 1e-12
#: Factors of odds beyond this exponent are infinite to a probability.
FARTHEST = 600.0
#: Variances below this are none: logarithms are taken of them.
LEAST = 1e-300


@dataclass(frozen=True)
class Sum(Step):
    """The sum of what each of `parts` makes of the row.

    Examples
    --------
    >>> from calibrant.steps import Scale, Sum, run
    >>> run([Sum(([Scale(2.0)], [Scale(0.5)]))], np.array([[1.0, 2.0]]))
    array([[2.5, 5. ]])
    """

    parts: tuple[Steps, ...] = branches()

    def apply(self, x: FloatArray) -> FloatArray:
        out = run(self.parts[0], x.copy())
        for part in self.parts[1:-1]:
            out += run(part, x.copy())
        if len(self.parts) > 1:
            out += run(self.parts[-1], x)
        return out

    def check(self, width: int) -> int:
        widths = {check_steps(part, width) for part in self.parts}
        require(len(widths) == 1, "the parts differ in columns")
        return widths.pop()


@dataclass(frozen=True)
class Join(Step):
    """What each of `parts` makes of the row, side by side; each starts with `Columns` or another `Join`.

    Examples
    --------
    >>> from calibrant.steps import Columns, Join, Log, run
    >>> run([Join(([Columns(np.array([0])), Log()], [Columns(np.array([1]))]))], np.array([[1.0, 7.0]]))
    array([[0., 7.]])
    """

    parts: tuple[Steps, ...] = branches()

    def apply(self, x: FloatArray) -> FloatArray:
        return np.hstack([run(part, x.copy()) for part in self.parts])

    @property
    def width(self) -> int:
        return sum(map(widest, self.parts))

    def check(self, width: int) -> int:
        # Each column is one that the file names: a short list of joins could otherwise double a row without end.
        require(
            all(part and part[0].kind in ("columns", "join") for part in self.parts),
            "a part should start with columns or join",
        )
        return sum(check_steps(part, width) for part in self.parts)


@dataclass(frozen=True)
class KeepTop(Step):
    """``x + t (z - x)``, for z that the only part makes of x, with the largest t ≤ 1 that keeps the largest column.

    A hair less than that, so that rounding does not decide.

    Examples
    --------
    >>> from calibrant.steps import KeepTop, Scale, run
    >>> run([KeepTop(([Scale(np.array([0.0, 1.0]))],))], np.array([[2.0, 1.0]])).round(3)
    array([[1., 1.]])
    """

    parts: tuple[Steps, ...] = branches()

    def apply(self, x: FloatArray) -> FloatArray:
        return keep_most_probable(x, run(self.parts[0], x.copy()))

    def check(self, width: int) -> int:
        require(len(self.parts) == 1 and check_steps(self.parts[0], width) == width, "one part of equal width")
        return width


def keep_most_probable(x: FloatArray, z: FloatArray) -> FloatArray:
    """Logits on the way from `x` to `z` (n, k), as far as the most probable class of `x` stays the first."""
    rows, first = np.arange(len(x)), (x >= x.max(axis=1, keepdims=True) - TIE).argmax(axis=1)
    lead = x[rows, first][:, None] - x
    lead[lead < TIE] = 0.0
    change = (z[rows, first][:, None] - z) - lead
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(change < 0.0, -lead / change, np.inf)
    share[rows, first] = np.inf
    t = np.minimum(share.min(axis=1) * (1.0 - 1e-9), 1.0)[:, None]
    return np.asarray(x + t * (z - x))


@dataclass(frozen=True)
class OneVsRest(Step):
    """Column j is the second column of what part j makes of ``(1 - p_j, p_j)``.

    Examples
    --------
    >>> from calibrant.steps import Log, OneVsRest, Scale, Softmax, run
    >>> half = [Log(), Scale(0.5), Softmax()]
    >>> run([OneVsRest((half, half))], np.array([[0.9, 0.1]])).round(2)
    array([[0.75, 0.25]])
    """

    parts: tuple[Steps, ...] = branches()

    def apply(self, x: FloatArray) -> FloatArray:
        others = rest(x)
        out = np.empty_like(x)
        for j, part in enumerate(self.parts):
            out[:, j] = run(part, np.column_stack([others[:, j], x[:, j]]))[:, 1]
        return out

    def check(self, width: int) -> int:
        require(len(self.parts) == width >= 2, f"{width} parts are expected")
        return _check_binary(self.parts, width)


@dataclass(frozen=True)
class OneVsOne(Step):
    """Column i is ``1 / (Σ_j 1/r_ij - (k - 2))``, r_ij what the part of the pair (i, j) makes of these two columns.

    Parts stand in the order (0, 1), (0, 2), ..., (k - 2, k - 1). Each gets the probabilities of its pair given that
    it is one of the two, and returns r_ij and r_ji.

    Examples
    --------
    >>> from calibrant.steps import OneVsOne, Scale, run
    >>> as_it_is = [Scale(1.0)]
    >>> run([OneVsOne((as_it_is,) * 3)], np.array([[0.5, 0.3, 0.2]])).round(3)
    array([[0.5, 0.3, 0.2]])
    """

    parts: tuple[Steps, ...] = branches()

    def apply(self, x: FloatArray) -> FloatArray:
        k = x.shape[1]
        inverse_sum = np.zeros_like(x)
        with np.errstate(divide="ignore"):
            for (i, j), part in zip(itertools.combinations(range(k), 2), self.parts, strict=True):
                r = run(part, pair(x, i, j))
                inverse_sum[:, i] += 1.0 / r[:, 0]
                inverse_sum[:, j] += 1.0 / r[:, 1]
        # Each 1/r is at least one, so the denominator is: a class is never given a negative probability.
        return np.asarray(1.0 / np.maximum(inverse_sum - (k - 2), 1.0))

    def check(self, width: int) -> int:
        require(len(self.parts) == width * (width - 1) // 2 > 0, f"a part for each pair of {width} is expected")
        return _check_binary(self.parts, width)


def _check_binary(parts: tuple[Steps, ...], width: int) -> int:
    for part in parts:
        require(check_steps(part, 2) == 2, "a part should return two columns")
    return width


def pair(p: FloatArray, i: int, j: int) -> FloatArray:
    """Probabilities of classes i and j given that it is one of the two."""
    two = p[:, [i, j]]
    two /= two[:, :1] + two[:, 1:]
    return np.maximum(two, FLOOR, out=two)


def rest(p: FloatArray) -> FloatArray:
    """``1 - p_j`` for every column, without cancellation next to ``p_j = 1``."""
    small = p.copy()
    rows, top = np.arange(len(p)), p.argmax(axis=1)
    largest = small[rows, top]
    small[rows, top] = 0.0
    others = row_sums(small)
    out = (others + largest)[:, None] - small  # at least the largest, which is at least 1/k: nothing cancels
    out[rows, top] = others
    return np.maximum(out, FLOOR, out=out)


@dataclass(frozen=True)
class DeltaEnds(Step):
    """Lower ends, then upper ends, of the second part's probabilities, `distance` standard errors of log-odds away.

    With a root R of the covariance of the coefficients, C = R Rᵀ, the logit of class l moves by ``u_l · ε`` for
    standard normal ε, where u_l is Rᵀ times its gradient. The log-odds of class j against the rest then have the
    standard error ``|Σ_{l≠j} p_l (u_j − u_l)| / (1 − p_j)``. The first part gives u, one class after the other.

    Examples
    --------
    >>> from calibrant.steps import Columns, DeltaEnds, Log, Scale, run
    >>> ends = DeltaEnds(([Log(), Scale(0.5)], [Columns(np.array([0, 1]))]), 1.0)  # a temperature known to 0.5
    >>> run([ends], np.array([[0.2, 0.8]])).round(3)
    array([[0.111, 0.667, 0.333, 0.889]])
    """

    parts: tuple[Steps, ...] = branches()
    distance: float = number(low=0.0)

    def apply(self, x: FloatArray) -> FloatArray:
        u, p = (run(part, x.copy()) for part in self.parts)
        u, others, top = u.reshape(len(p), p.shape[1], -1), rest(p), p.argmax(axis=1)
        rows, small = np.arange(len(p)), p.copy()
        small[rows, top] = 0.0
        left = np.einsum("nl,nlr->nr", p, u)[:, None] - p[..., None] * u
        # Next to certainty the sum over the others must not come from a difference.
        left[rows, top] = np.einsum("nl,nlr->nr", small, u)
        moved = others[..., None] * u - left
        variance = np.maximum(np.einsum("njr,njr->nj", moved, moved), LEAST)
        factor = np.exp(np.minimum(self.distance * np.sqrt(variance) / others, FARTHEST))
        return np.hstack([p / (p + others * factor), p / (p + others / factor)])

    def check(self, width: int) -> int:
        require(len(self.parts) == 2, "two parts are expected")
        vectors, k = (check_steps(part, width) for part in self.parts)
        require(vectors % k == 0, f"the first part should have a multiple of {k} columns")
        return 2 * k
