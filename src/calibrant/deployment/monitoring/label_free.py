"""What calibrated probabilities alone say: expected accuracy, losses and confusion, and whether predictions drifted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import betaln, gammaincinv, ndtri, xlogy

from calibrant.deployment.monitoring.history import Seen
from calibrant.metrics.losses import brier_rows
from calibrant.metrics.result_types import Estimate
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, FloatArray

#: What is expected without labels, by name.
METRICS = {"accuracy": "accuracy", "log_loss": "log loss", "brier": "Brier score"}
#: Tenths of the reference, by which the confidence of predictions is compared.
_CONFIDENCE_BINS = 10
#: Below this skewness the normal distribution serves: its quantiles are within 5e-5 standard deviations of the gamma's.
_SYMMETRIC = 1e-4


@dataclass
class Performance:
    """Sums over rows from which accuracy, log loss, Brier score and confusion can be expected without labels.

    If labels follow p, label j of a row has probability ``p_j``, which gives mean, variance and third moment of each
    metric. Their sums give the estimates, and intervals for what labels would show on these very rows, by the gamma
    distribution of the same three moments (Pearson's type III): losses of confident predictions are skewed, and move in
    steps of about the third moment over the variance, half of which is added at both ends. This holds if rows are
    independent. How rows of a group depend on each other cannot be seen without labels: they are taken to fail
    together, which makes intervals of groups as wide as they can get.
    """

    seen: Seen
    mean: FloatArray
    variance: FloatArray
    third: FloatArray
    #: Expected number of observations of each predicted class (row) and true class (column).
    confusion: FloatArray

    @classmethod
    def start(cls, k: int) -> Performance:
        m = len(METRICS)
        return cls(Seen(), np.zeros(m), np.zeros(m), np.zeros(m), np.zeros((k, k)))

    def update(self, data: Sample) -> None:
        p, each = np.asarray(data.proba, dtype=np.float64), data.each
        squares = np.einsum("ij,ij->i", p, p)[:, None]
        scores = (
            data.top[:, None] == np.arange(p.shape[1]),
            -np.log(np.maximum(p, 1e-300)),
            0.5 * _worst_brier(p.shape[1]) * (squares - 2.0 * p + 1.0),
        )
        for i, (name, score) in enumerate(zip(METRICS, scores)):
            means = -xlogy(p, p).sum(axis=1) if name == "log_loss" else (p * score).sum(axis=1)
            off = score - means[:, None]
            moments = (p * off**2).sum(axis=1), (p * off**3).sum(axis=1)
            if data.groups is None:
                self.variance[i] += each @ moments[0]
                self.third[i] += each @ moments[1]
            else:  # a group may fail together: then standard deviations add up
                self.variance[i] += (data.group_sums(each * np.sqrt(moments[0])) ** 2).sum()
                self.third[i] += (data.group_sums(each * np.cbrt(moments[1])) ** 3).sum()
            self.mean[i] += each @ means
        np.add.at(self.confusion, data.top, each[:, None] * p)
        self.seen = self.seen.plus(data)

    def estimates(self, level: float = 0.95) -> dict[str, Estimate]:
        """Expected accuracy, log loss and Brier score with intervals."""
        n, k = self.seen.observations or 1.0, len(self.confusion)
        bounds = (1.0, np.inf, _worst_brier(k))
        found = {}
        for name, total, variance, third, most in zip(METRICS, self.mean, self.variance, self.third, bounds):
            low, high = total + _deviations(max(variance, 0.0), third, level)
            low, high = max(low, 0.0), min(high, n * most)
            found[name] = Estimate(float(total / n), float(min(low, total) / n), float(max(high, total) / n), level)
        return found


def _worst_brier(k: int) -> float:
    """The largest Brier score of a row of k classes, 2 or half of that, as the metric has it."""
    return float(brier_rows(Sample(np.eye(k)[1:2], np.zeros(1, dtype=np.int64)))[0])


def _deviations(variance: float, third: float, level: float) -> FloatArray:
    """How far a sum with these central moments falls below and above its mean, at a confidence level."""
    tails = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
    if variance <= 0.0 or abs(third) < _SYMMETRIC * variance**1.5:
        return np.asarray(np.sqrt(variance) * ndtri(tails))
    shape = 4.0 * variance**3 / third**2
    ends = np.sqrt(variance / shape) * (gammaincinv(shape, tails) - shape)
    ends += np.array([-0.5, 0.5]) * abs(third) / variance
    return ends if third > 0.0 else -ends[::-1]


@dataclass
class Drift:
    """Whether predictions look as those of a reference do.

    It compares how often each class is predicted, and how often predictions are at least as confident as each tenth of
    the reference: cells that the reference alone decides. Given how many rows of both have one of these properties,
    those of the batch are hypergeometric if nothing changed, so that each p-value is exact, for few rows too; the
    smallest is multiplied by the number of comparisons. It tests each batch, each pair of batches, each four and so
    on, which finds a lasting drift of small batches: the b-th block of ``2^l`` batches at the level
    ``36 alpha / (π² (l + 1) b)²``, so that all together raise a false alarm with probability at most alpha, if rows are
    independent. Rows of a group count as one observation in total, which is right for any dependence if groups are
    independent, and cautious if it is weak.
    """

    edges: FloatArray
    reference: list[FloatArray]
    #: Independent observations of the reference.
    units: float
    batches: int = 0
    found: bool = False
    p_value: float = 1.0
    since: int | None = None
    #: For each size, the block that waits for the next: counts, observations and first row; None if there is none.
    waiting: list[list[object] | None] = field(default_factory=list)

    @classmethod
    def start(cls, data: Sample) -> Drift:
        """From calibrated predictions of the reference."""
        order, confidence = np.argsort(data.confidence), np.asarray(data.confidence, dtype=np.float64)
        reached = np.cumsum(data.each[order]) / data.total
        places = np.searchsorted(reached, np.linspace(0.0, 1.0, _CONFIDENCE_BINS + 1) - 1e-12)
        edges = confidence[order][places]
        edges[-1] = np.nextafter(edges[-1], np.inf)  # more confident than any prediction of the reference
        edges = np.unique(edges)
        return cls(edges, _counts(data, edges), data.units)

    def update(self, data: Sample, alpha: float, first_row: int) -> None:
        """Test a batch, and with it those before in pairs, fours, eights."""
        self.batches += 1
        block: list[Any] = [*_counts(data, self.edges), data.units, first_row]
        p = self.p_value = self._test(*block[:3])
        for level in range(self.batches.bit_length()):
            number = self.batches >> level
            if not self.found and p < 36.0 * alpha / (np.pi**2 * (level + 1) * number) ** 2:
                self.found, self.since = True, block[3]
            if level == len(self.waiting):
                self.waiting.append(None)
            earlier, self.waiting[level] = self.waiting[level], None
            if earlier is None:
                self.waiting[level] = block
                break
            block = [*(then + now for then, now in zip(earlier[:3], block)), earlier[3]]
            p = self._test(*block[:3])

    def _test(self, classes: FloatArray, confidence: FloatArray, units: float) -> float:
        """P-value of some rows."""
        then, now = _shares(*self.reference), _shares(classes, confidence)
        tests = [len(a) * np.min(two_sample_p_values(a, b, self.units, units)) for a, b in zip(then, now)]
        return float(min(1.0, len(tests) * min(tests)))


def _counts(data: Sample, edges: FloatArray) -> list[FloatArray]:
    """How often each class is predicted, and each cell of the confidence that `edges` bound."""
    cell = np.searchsorted(edges, data.confidence, side="right")
    cells = (data.top, data.n_classes), (cell, len(edges) + 1)
    return [np.bincount(values, data.each, minlength=size).astype(np.float64) for values, size in cells]


def _shares(classes: FloatArray, confidence: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shares of the predicted classes (for two, one is enough), and of confidences below each edge."""
    share = classes / classes.sum()
    return share[1:] if len(share) == 2 else share, np.cumsum(confidence)[:-1] / confidence.sum()


def two_sample_p_values(a: FloatArray, b: FloatArray, n: float, m: float) -> FloatArray:
    """P-values of Fisher's exact test, one for each pair of shares: `a` of n observations and `b` of m others.

    Twice the smaller tail. Numbers of observations that are not whole are rounded towards no difference.
    """
    # A lower share is a higher share of what is left.
    higher = b >= a
    a, b = np.where(higher, a, 1.0 - a), np.where(higher, b, 1.0 - b)
    n, m = int(n + 1e-9), int(m + 1e-9)
    pairs = zip(np.ceil(a * n - 1e-6).tolist(), np.floor(b * m + 1e-6).tolist())
    return np.array([min(1.0, 2.0 * _upper_tail(then, now, n, m)) for then, now in pairs])


def _upper_tail(then: float, now: float, n: int, m: int) -> float:
    """Chance that at least `now` of m, drawn from n + m of which ``then + now`` have a property, have it."""
    total = then + now
    if now * (n + m) <= total * m:  # no more than expected
        return 1.0
    deviation = np.sqrt(total * m * (n / (n + m)) * ((n + m - total) / (n + m)) / (n + m))
    x = np.arange(now, min(total, m, now + 40.0 * deviation + 40.0) + 1.0)
    log_terms = _log_choose(total, x) + _log_choose(n + m - total, m - x) - _log_choose(n + m, m)
    return float(np.exp(log_terms).sum())


def _log_choose(n: Any, k: Any) -> AnyFloatArray:
    return np.asarray(-betaln(1.0 + n - k, 1.0 + k) - np.log1p(n))
