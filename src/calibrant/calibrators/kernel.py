"""Kernel calibration: a Nadaraya-Watson average of the labels with a kernel made for the simplex.

A calibration row q weighs ``Dir(z; q/h + 1)`` at the prediction z, a Dirichlet density (beta for two classes) whose
mode is q. Two classes need the average on a line only: it is tabulated once at `fit`, so that prediction does not
depend on the number of calibration rows.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.binary.splines import check_spline, second_derivatives
from calibrant.calibrators.lifting import positive_probability
from calibrant.calibrators.parameters import NotNegativeInt, Positive, PositiveInt
from calibrant.calibrators.state import LARGE, StateCheck
from calibrant.sample import Sample
from calibrant.steps import Clip, Complement, Linear, Log, LogOdds, Normalize, Softmax, Spline, Step, run
from calibrant.typing import FloatArray, IntArray

#: Probabilities are kept this far from 0 and 1, where the logarithm of the kernel is infinite.
_EDGE = 1e-10

#: Kernel values computed at a time (16 MiB).
_BLOCK = 1 << 21

#: Two classes: rows are merged into this many cells of equal width in arcsin(sqrt(p)), where the kernel is equally
#: wide everywhere, if there are more.
_CELLS = 4096

#: Two classes: at most so many nodes, which a trillion rows need; weights may sum to any number.
_MOST_NODES = 20_000


class KernelCalibrator(Calibrator):
    """Kernel calibration with beta and Dirichlet kernels.

    Parameters
    ----------
    bandwidth : float, default=None
        Width h of the kernel; by default ``n^(-2/(d+4))`` with ``d = k - 1`` dimensions.
    max_rows : int, default=10000
        More than two classes: the average runs over at most this many calibration rows, drawn at random.
    random_state : int, default=0
        Seed of that draw.

    Attributes
    ----------
    bandwidth_ : float
        The width used.
    nodes_, values_, curvature_ : ndarray
        The tabulated map as a spline of the log-odds (two classes).
    rows_ : ndarray of shape (n_rows, k)
        Calibration rows (more than two classes).
    mass_ : ndarray of shape (n_rows, k)
        The weight of each row in the column of its label (more than two classes).

    References
    ----------
    T. Popordanoska, R. Sayer and M. Blaschko. A consistent and differentiable Lp canonical calibration error
    estimator. NeurIPS 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.calibrators import KernelCalibrator
    >>> rng = np.random.default_rng(0)
    >>> P = rng.random(5000)
    >>> calibrator = KernelCalibrator().fit(P, rng.random(5000) < P**2)
    >>> calibrator.predict_proba([0.6])[:, 1].round(1)
    array([0.4])
    """

    bandwidth: Positive | None = None
    max_rows: PositiveInt = 10000
    random_state: NotNegativeInt = 0

    def _fit(self, sample: Sample) -> None:
        n, k = sample.n_rows, sample.n_classes
        if k > 2 and n > self.max_rows:
            chosen = np.random.default_rng(self.random_state).choice(n, self.max_rows, replace=False)
            sample = sample.take(np.sort(chosen))
        self.bandwidth_ = sample.total ** (-2.0 / (k + 3.0)) if self.bandwidth is None else float(self.bandwidth)
        if k == 2:
            self._tabulate(positive_probability(sample.x), sample.y, sample.each)
        else:
            self.rows_ = np.clip(np.exp(sample.x), _EDGE, 1.0 - _EDGE)
            self.mass_ = np.zeros(self.rows_.shape)
            self.mass_[np.arange(sample.n_rows), sample.y] = sample.each

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.number("bandwidth_", low=1.0 / LARGE)
        if state.k == 2:
            check_spline(state, "nodes_")
            return
        rows = state.array("rows_", None, state.k, low=0.0, high=1.0)
        mass = state.array("mass_", len(rows), state.k, low=0.0)
        state.require(len(rows) and np.all(mass.sum(axis=1) > 0.0), "mass_ is zero")

    def steps(self) -> list[Step]:
        if len(self.classes_) == 2:
            spline = Spline(self.nodes_, self.values_, self.curvature_, extend=False)
            return [Log(), LogOdds(), spline, Clip(0.0, 1.0), Complement()]
        clip = Clip(float(np.log(_EDGE)), float(np.log1p(-_EDGE)))
        return [Log(), clip, *_average(self.rows_, self.mass_, self.bandwidth_)]

    def _tabulate(self, p: FloatArray, y: IntArray, weight: FloatArray) -> None:
        rows, mass = _merge(np.clip(p, _EDGE, 1.0 - _EDGE), y, weight)
        largest = np.log1p(-_EDGE) - np.log(_EDGE)
        # The kernel is sqrt(h)/2 wide in arcsin(sqrt(p)), and a power of p next to 0 and 1: nodes for both.
        n_nodes = int(np.clip(np.ceil(63.0 / np.sqrt(self.bandwidth_)), 64, _MOST_NODES))
        inner = 2.0 * np.log(np.tan(np.linspace(0.0, 0.5 * np.pi, n_nodes)[1:-1]))
        outer = np.linspace(-largest, largest, 513)
        nodes = np.sort(np.concatenate([outer, inner[np.abs(inner) < largest]]))
        nodes = nodes[np.concatenate([[True], np.diff(nodes) > 1e-6])]
        average, step = _average(rows, mass, self.bandwidth_), max(1, _BLOCK // len(rows))
        points = np.column_stack([-np.logaddexp(0.0, nodes), -np.logaddexp(0.0, -nodes)])
        parts = [run(average, points[start : start + step])[:, 1] for start in range(0, len(points), step)]
        self.nodes_, self.values_ = nodes, np.concatenate(parts)
        self.curvature_ = second_derivatives(self.nodes_, self.values_)


def _merge(p: FloatArray, y: IntArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows (m, 2) and their mass by label (m, 2); many rows become the centroids of small cells."""
    labels = (y == 1).astype(np.int64)
    if len(p) > _CELLS:
        cell = np.minimum((np.arcsin(np.sqrt(p)) * (2.0 * _CELLS / np.pi)).astype(np.int64), _CELLS - 1)
        code = 2 * cell + labels
        total = np.bincount(code, weights=weight, minlength=2 * _CELLS)
        used = np.flatnonzero(total > 0.0)
        p = np.bincount(code, weights=weight * p, minlength=2 * _CELLS)[used] / total[used]
        labels, weight = used % 2, np.asarray(total[used], dtype=np.float64)
    mass = np.zeros((len(p), 2))
    mass[np.arange(len(p)), labels] = weight
    return np.column_stack([1.0 - p, p]), mass


def _average(rows: FloatArray, mass: FloatArray, bandwidth: float) -> list[Step]:
    """The steps from log-probabilities to kernel-weighted label shares."""
    concentration = rows / bandwidth
    log_norm = gammaln(concentration + 1.0).sum(axis=1) - gammaln((concentration + 1.0).sum(axis=1))
    return [Linear(concentration.T, -log_norm), Softmax(), Linear(mass), Normalize()]
