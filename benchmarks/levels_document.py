"""How often intervals of the gain of log loss hold the true one, as a difference and as a share (nominal 95 %).

`calibrant document` shows the difference, `calibrant report` also the share of the log loss that is saved.

Labels are drawn from true probabilities; given predictions have log-probabilities 1.8 times, calibrated ones 1.1 times
too large. The true gain is that of 400,000 rows. In groups of four rows, half of the labels share one random number.

    python benchmarks/levels_document.py
"""

from __future__ import annotations

import numpy as np

from calibrant.report.advice import lacking
from calibrant.report.comparison import paired_intervals, share_interval
from calibrant.sample import Sample

REPEATS = 400
#: Classes, mean log-odds of the second of two, rows, and rows of one group.
CASES = ((2, 0, 60, 1), (2, 0, 300, 1), (2, -3.5, 300, 1), (2, -3.5, 1000, 1), (2, -5, 3000, 1), (10, 0, 60, 1))
CASES += ((10, 0, 300, 1), (2, 0, 300, 4), (2, -3.5, 1000, 4), (10, 0, 300, 4))


def drawn(rng, n, k, shift, size):
    """Gains of log loss by row, the log loss that they are a part of, true probabilities and labels."""
    if k == 2:
        p = 1 / (1 + np.exp(-rng.normal(shift, 1.5, n // size)))
        truth = np.column_stack([1 - p, p])
    else:
        truth = np.maximum(rng.dirichlet(np.full(k, 0.5), n // size), 1e-6)
    truth = np.repeat(truth / truth.sum(axis=1, keepdims=True), size, axis=0)
    shared, alone = np.repeat(rng.random(n // size), size), rng.random(n)
    u = np.where(rng.random(n) < 0.5, shared, alone)[:, None]
    y = np.minimum((truth.cumsum(axis=1) < u).sum(axis=1), k - 1)
    given, calibrated = (
        (truth**power / (truth**power).sum(axis=1, keepdims=True))[np.arange(n), y] for power in (1.8, 1.1)
    )
    return np.log(calibrated / given), -np.log(given), truth, y


def main() -> None:
    for k, shift, n, size in CASES:
        rng = np.random.default_rng(1)
        gain, loss, _, _ = drawn(rng, 400_000, k, shift, 1)
        expected, covered = (gain.mean(), gain.mean() / loss.mean()), []
        for _ in range(REPEATS):
            gain, loss, truth, y = drawn(rng, n, k, shift, size)
            data = Sample(truth, y, groups=np.arange(n) // size if size > 1 else None, classes=np.arange(k))
            if lacking(data, tuple(map(str, range(k)))) is None:
                found = *paired_intervals(gain[:, None], data, 0.95), share_interval(gain, loss, data, 0.95)
                covered.append([one.low <= true <= one.high for one, true in zip(found, expected)])
        case = f"{k} classes, mean log-odds {shift}, {n} rows in groups of {size}"
        difference, share = np.mean(covered, axis=0)
        print(f"{case}: difference {difference:.3f}, share {share:.3f} of {len(covered)}")


if __name__ == "__main__":
    main()
