"""What calibrated probabilities alone say: expected accuracy, losses and confusion, and whether predictions drifted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import chdtrc, ndtri, xlogy

from calibrant.metrics.intervals import Estimate
from calibrant.typing import FloatArray

METRICS = ("accuracy", "log_loss", "brier")
_CONFIDENCE_BINS = 10
#: A cell of a comparison of counts needs so many expected rows.
_FEWEST = 5.0


@dataclass
class Performance:
    """Sums over rows from which accuracy, log loss, Brier score and confusion can be expected without labels.

    If labels follow p, a row's accuracy, log loss and Brier score have the means ``max p``, ``-Σ p log p`` and
    ``1 - Σ p²``. Sums of the means and of the variances give the estimates, and normal intervals for what labels
    would show on these very rows.
    """

    rows: int
    mean: FloatArray
    variance: FloatArray
    #: Expected number of rows of each predicted class (row) and true class (column).
    confusion: FloatArray

    @classmethod
    def start(cls, k: int) -> Performance:
        """Before the first row."""
        return cls(0, np.zeros(len(METRICS)), np.zeros(len(METRICS)), np.zeros((k, k)))

    def update(self, p: FloatArray) -> None:
        """Add rows."""
        top = p.max(axis=1)
        entropy = -xlogy(p, p).sum(axis=1)
        squares = (p**2).sum(axis=1)
        # The Brier score of label j is 1 - 2 p_j + Σ p².
        spread = (xlogy(p, p) * np.log(np.maximum(p, 1e-300))).sum(axis=1) - entropy**2
        self.mean += [top.sum(), entropy.sum(), (1.0 - squares).sum()]
        self.variance += [(top * (1.0 - top)).sum(), spread.sum(), 4.0 * ((p**3).sum(axis=1) - squares**2).sum()]
        predicted = p.argmax(axis=1)
        for j in range(p.shape[1]):
            self.confusion[j] += p[predicted == j].sum(axis=0)
        self.rows += len(p)

    def estimates(self, level: float = 0.95) -> dict[str, Estimate]:
        """Expected accuracy, log loss and Brier score with intervals.

        Examples
        --------
        >>> sums = Performance.start(2)
        >>> sums.update(np.full((100, 2), [0.2, 0.8]))
        >>> str(sums.estimates()["accuracy"])
        '0.8 [0.7216, 0.8784]'
        """
        n, z = max(self.rows, 1), float(ndtri(0.5 + 0.5 * level))
        values, errors = self.mean / n, np.sqrt(np.maximum(self.variance, 0.0)) / n
        return {
            name: Estimate(float(value), float(value - z * error), float(value + z * error), level)
            for name, value, error in zip(METRICS, values, errors)
        }

    def to_json(self) -> dict[str, Any]:
        """The sums in terms of JSON."""
        return {
            "rows": self.rows,
            "mean": self.mean.tolist(),
            "variance": self.variance.tolist(),
            "confusion": self.confusion.tolist(),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Performance:
        """What `to_json` was given."""
        arrays = (np.array(value[name], dtype=np.float64) for name in ("mean", "variance", "confusion"))
        return cls(int(value["rows"]), *arrays)


@dataclass
class Drift:
    """Whether predictions look as those of a reference do.

    Compared are how often each class is predicted and how confident predictions are (tenths of the reference), by the
    chi-square test of two samples. Batch b is tested at ``6 alpha / (π² b²)``, so that all batches together raise a
    false alarm with probability alpha (up to the approximation of the test).
    """

    edges: FloatArray
    reference: list[FloatArray]
    batches: int = 0
    found: bool = False
    p_value: float = 1.0
    since: int | None = None
    latest: list[FloatArray] = field(default_factory=list)

    @classmethod
    def start(cls, p: FloatArray) -> Drift:
        """From calibrated predictions of the reference."""
        edges = np.unique(np.quantile(p.max(axis=1), np.linspace(0.0, 1.0, _CONFIDENCE_BINS + 1)[1:-1]))
        return cls(edges, _counts(p, edges))

    def update(self, p: FloatArray, alpha: float, first_row: int) -> None:
        """Test a batch."""
        self.batches += 1
        self.latest = _counts(p, self.edges)
        tests = [two_sample_p_value(then, now) for then, now in zip(self.reference, self.latest)]
        self.p_value = min(1.0, len(tests) * min(tests))
        if not self.found and self.p_value < 6.0 * alpha / (np.pi * self.batches) ** 2:
            self.found, self.since = True, first_row

    def to_json(self) -> dict[str, Any]:
        """The state in terms of JSON."""
        return {
            "edges": self.edges.tolist(),
            "reference": [counts.tolist() for counts in self.reference],
            "latest": [counts.tolist() for counts in self.latest],
            "batches": self.batches,
            "found": self.found,
            "p_value": self.p_value,
            "since": self.since,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Drift:
        """What `to_json` was given."""
        reference, latest = ([np.array(counts) for counts in value[name]] for name in ("reference", "latest"))
        return cls(
            np.array(value["edges"]),
            reference,
            int(value["batches"]),
            bool(value["found"]),
            float(value["p_value"]),
            value["since"],
            latest,
        )


def _counts(p: FloatArray, edges: FloatArray) -> list[FloatArray]:
    top = p.argmax(axis=1)
    confidence = np.searchsorted(edges, p.max(axis=1), side="right")
    return [
        np.bincount(top, minlength=p.shape[1]).astype(np.float64),
        np.bincount(confidence, minlength=len(edges) + 1).astype(np.float64),
    ]


def two_sample_p_value(a: FloatArray, b: FloatArray) -> float:
    """P-value of the chi-square test that two rows of counts come from one distribution; rare cells are joined.

    Examples
    --------
    >>> round(two_sample_p_value(np.array([30.0, 20.0]), np.array([20.0, 30.0])), 4)
    0.0455
    """
    share = min(a.sum(), b.sum()) / (a.sum() + b.sum())
    rare = (a + b) * share < _FEWEST
    counts = np.array([np.append(x[~rare], x[rare].sum()) for x in (a, b)])
    counts = counts[:, counts.sum(axis=0) > 0.0]
    if counts.shape[1] < 2:
        return 1.0
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    return float(chdtrc(counts.shape[1] - 1, ((counts - expected) ** 2 / expected).sum()))
