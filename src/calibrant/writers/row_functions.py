"""What each step does to one row, in a part of Python that can be translated to JavaScript and C (`translation`).

A function takes a row `x` of k numbers and writes its result to `y`; arrays are flat. The last two functions check a
row and prepare it for the first step: they return 1 if it is not a prediction.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from math import exp, inf, log, log1p

from calibrant.simplex import FLOOR, LOG_FLOOR

Numbers = Sequence[float]
Places = Sequence[int]
Result = MutableSequence[float]
Maps = Sequence[Callable[[Numbers, Result], None]]

#: The most numbers of a row between two steps; every file has its own.
WIDEST = 1


def room(size: int) -> Result:
    """Space for so many numbers."""
    return [0.0] * size


def copy(x: Numbers, y: Result, k: int) -> None:
    for j in range(k):
        y[j] = x[j]


def exp_all(x: Numbers, y: Result, k: int) -> None:
    for j in range(k):
        y[j] = exp(x[j])


def log_all(x: Numbers, y: Result, k: int) -> None:
    for j in range(k):
        y[j] = max(log(x[j]), LOG_FLOOR) if x[j] > 0.0 else LOG_FLOOR


def clip(x: Numbers, y: Result, k: int, low: float, high: float) -> None:
    for j in range(k):
        y[j] = min(max(x[j], low), high)


def mix(x: Numbers, y: Result, k: int, weight: float) -> None:
    for j in range(k):
        y[j] = (1.0 - weight) * x[j] + weight / k


def scale(x: Numbers, y: Result, k: int, factor: Numbers, shift: Numbers) -> None:
    for j in range(k):
        y[j] = x[j] * factor[j] + shift[j]


def polynomial(x: Numbers, y: Result, k: int, c: Numbers, n: int) -> None:
    for j in range(k):
        value = c[n - 1]
        for d in range(n - 1):
            value = value * x[j] + c[n - 2 - d]
        y[j] = value


def softmax(x: Numbers, y: Result, k: int) -> None:
    top, total = x[0], 0.0
    for j in range(k):
        top = max(top, x[j])
    for j in range(k):
        y[j] = exp(x[j] - top)
        total += y[j]
    for j in range(k):
        y[j] /= total


def normalize(x: Numbers, y: Result, k: int) -> None:
    total = 0.0
    for j in range(k):
        total += x[j]
    for j in range(k):
        y[j] = x[j] / total if total > 0.0 else 1.0 / k


def columns(x: Numbers, y: Result, k: int, index: Places, n: int) -> None:
    for j in range(n):
        y[j] = x[index[j]]


def log_odds(x: Numbers, y: Result, k: int) -> None:
    y[0] = x[1] - x[0]


def lead(x: Numbers, y: Result, k: int) -> None:
    largest, second = x[0], -inf
    for j in range(1, k):
        second = max(second, min(largest, x[j]))
        largest = max(largest, x[j])
    y[0] = largest
    y[1] = largest - second


def sigmoid(x: Numbers, y: Result, k: int) -> None:
    small = exp(-abs(x[0]))
    lesser = small / (1.0 + small)
    y[0] = lesser if x[0] >= 0.0 else 1.0 - lesser
    y[1] = 1.0 - lesser if x[0] >= 0.0 else lesser


def complement(x: Numbers, y: Result, k: int) -> None:
    y[0] = 1.0 - x[0]
    y[1] = x[0]


def linear(x: Numbers, y: Result, k: int, matrix: Numbers, shift: Numbers, n: int) -> None:
    for j in range(n):
        y[j] = shift[j]
    for i in range(k):
        for j in range(n):
            y[j] += x[i] * matrix[i * n + j]


def curves(x: Numbers, y: Result, k: int, u: Numbers) -> None:
    for j in range(k):
        q = exp(x[j])
        rest = max(log1p(-min(q, 1.0 - 1e-12)), -20.0)
        y[j] = u[j] * (x[j] * (x[j] / 5.0)) + u[k + j] * rest + u[2 * k + j] * q


def kernel(
    x: Numbers, y: Result, k: int, landmarks: Numbers, n: int, spread: float, weight: float, bandwidth: float
) -> None:
    mean, z = 0.0, room(2 * WIDEST)
    for j in range(k):
        mean += x[j]
    for j in range(k):
        z[j] = (x[j] - mean / k) / spread
        z[k + j] = weight * exp(x[j])
    for i in range(n):
        distance = 0.0
        for j in range(2 * k):
            distance += (z[j] - landmarks[2 * k * i + j]) * (z[j] - landmarks[2 * k * i + j])
        y[i] = exp(-distance / bandwidth)


def trees(
    x: Numbers,
    y: Result,
    k: int,
    features: Places,
    subtracted: Places,
    thresholds: Numbers,
    values: Numbers,
    count: int,
    depth: int,
    n: int,
) -> None:
    for j in range(n):
        y[j] = 0.0
    for t in range(count):
        leaf: int = t << depth
        for q in range(t * depth, (t + 1) * depth):
            value = x[features[q]] - (x[subtracted[q]] if subtracted[q] >= 0 else 0.0)
            leaf += 1 << (q - t * depth) if value > thresholds[q] else 0
        for j in range(n):
            y[j] += values[leaf * n + j]


def levels(x: Numbers, y: Result, k: int, intercept: Numbers, slope: Numbers, count: int) -> None:
    level = x[k - 1]
    known: int = 1 if level >= 0.0 and level < count else 0
    first: int = int(level) * (k - 1) if known else 0
    for j in range(k - 1):
        y[j] = slope[first + j] * x[j] + intercept[first + j] if known else 0.0


def piecewise(
    x: Numbers, y: Result, k: int, edges: Numbers, n: int, origins: Numbers, coefficients: Numbers, terms: int
) -> None:
    low: int = 0
    high: int = n
    middle: int = 0
    while low < high:  # for the number of edges below x
        middle = (low + high) >> 1
        if edges[middle] < x[0]:
            low = middle + 1
        else:
            high = middle
    value = 0.0
    for d in range(terms):
        value = value * (x[0] - origins[low]) + coefficients[(low + 1) * terms - 1 - d]
    y[0] = value


def add(x: Numbers, y: Result, k: int, maps: Maps, n: int, width: int) -> None:
    part = room(WIDEST)
    for j in range(width):
        y[j] = 0.0
    for m in range(n):
        maps[m](x, part)
        for j in range(width):
            y[j] += part[j]


def join(x: Numbers, y: Result, k: int, widths: Places, maps: Maps, n: int, width: int) -> None:
    part = room(WIDEST)
    first: int = 0
    for m in range(n):
        maps[m](x, part)
        for j in range(widths[m]):
            y[first + j] = part[j]
        first += widths[m]


def keep_top(x: Numbers, y: Result, k: int, maps: Maps, n: int, width: int) -> None:
    z, share, largest = room(WIDEST), inf, x[0]
    top: int = 0
    maps[0](x, z)
    for j in range(k):
        largest = max(largest, x[j])
    while x[top] < largest - 1e-12:
        top += 1
    for j in range(k):
        ahead = x[top] - x[j] if x[top] - x[j] >= 1e-12 else 0.0
        change = (z[top] - z[j]) - ahead
        if j != top and change < 0.0:
            share = min(share, -ahead / change)
    share = min(share * (1.0 - 1e-9), 1.0)
    for j in range(k):
        y[j] = x[j] + share * (z[j] - x[j])


def one_vs_rest(x: Numbers, y: Result, k: int, maps: Maps, n: int, width: int) -> None:
    two, result, others = room(2), room(2), 0.0
    top: int = 0
    for j in range(1, k):
        if x[j] > x[top]:
            top = j
    for j in range(k):
        others += 0.0 if j == top else x[j]
    for j in range(k):
        two[0] = max(others if j == top else (others + x[top]) - x[j], FLOOR)
        two[1] = x[j]
        maps[j](two, result)
        y[j] = result[1]


def one_vs_one(x: Numbers, y: Result, k: int, maps: Maps, n: int, width: int) -> None:
    two, result = room(2), room(2)
    m: int = 0
    for j in range(k):
        y[j] = 0.0
    for i in range(k):
        for j in range(i + 1, k):
            two[0] = max(x[i] / (x[i] + x[j]), FLOOR)
            two[1] = max(x[j] / (x[i] + x[j]), FLOOR)
            maps[m](two, result)
            m += 1
            y[i] += 1.0 / result[0] if result[0] > 0.0 else inf
            y[j] += 1.0 / result[1] if result[1] > 0.0 else inf
    for j in range(k):
        y[j] = 1.0 / max(y[j] - (k - 2), 1.0)


def cheapest(p: Numbers, k: int, costs: Numbers, n: int, places: Numbers, amounts: Numbers, m: int, tie: float) -> int:
    expected = room(n)
    least = inf
    for a in range(n):
        expected[a] = 0.0
        for j in range(k):
            cost = costs[a * k + j]
            for i in range(m):
                cost = cost + places[(i * n + a) * k + j] * amounts[i]
            expected[a] += p[j] * cost
        least = min(least, expected[a])
    for a in range(n):
        if expected[a] <= least * (1.0 + tie):
            return a
    return 0


def prepare_probabilities(row: Numbers, x: Result, k: int, most: float, rounding: float) -> int:
    top, total = 0.0, 0.0
    for j in range(k):
        if not (row[j] >= 0.0 and row[j] <= most):
            return 1
        top = max(top, row[j])
    for j in range(k):
        x[j] = row[j] / (top if top > 2.0 else 1.0)
        total += x[j]
    if not (total > 0.0 and abs(total - 1.0) <= rounding):
        return 1
    for j in range(k):
        x[j] = max(x[j] / total, FLOOR)
    return 0


def prepare_logits(row: Numbers, x: Result, k: int, most: float) -> int:
    top, total = row[0], 0.0
    for j in range(k):
        if not row[j] <= most:
            return 1
        top = max(top, row[j])
    if not top >= -most:
        return 1
    for j in range(k):
        x[j] = row[j] - top
        total += exp(x[j])
    for j in range(k):
        x[j] = exp(max(x[j] - log(total), LOG_FLOOR))
    return 0


def prepare_scores(row: Numbers, x: Result, k: int, most: float, factor: Numbers, shift: Numbers) -> int:
    scaled = room(k)
    scale(row, scaled, k, factor, shift)
    return prepare_logits(scaled, x, k, most)
