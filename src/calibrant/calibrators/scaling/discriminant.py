"""The Gaussian model of log-probabilities, fitted in closed form from class sums.

If the features ``X`` of each class are Gaussian with mean ``M_c`` and one covariance ``S``, Bayes' rule makes the log
odds linear in them: ``B X − ½ rowsum(B ∘ M) + log prior`` with ``B = M S⁻¹``. That is linear discriminant analysis
(`discriminant_map`); `calibrant.gaussian` has the model with known parameters. Predictions ``P`` imply such a map, too,
with ``M0_c = Σ_i P_ic X_i / Σ_i P_ic`` and a covariance ``S0``. Where predictions are right, both agree but for chance,
and their difference, added to the logits, changes little (`change_of_map`). Steps that add half of the difference and
recompute P lead to where class sums equal the expected ones: to the maximum of the likelihood of matrix scaling.

All that is needed of the rows are sums, so that it makes no difference where they are.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from calibrant.calibrators.parameters import InputSmoothing, NotNegative, PositiveInt
from calibrant.calibrators.rows_calibrator import RowsCalibrator
from calibrant.calibrators.scaling.temperature import WEAK_PRIOR, ScalesFirst
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.simplex import log_softmax, softmax_inplace
from calibrant.softmax.rows.row_source import Rows
from calibrant.steps import Linear, Softmax, Step
from calibrant.typing import FloatArray

#: Bound of the logarithm of observed by expected class counts: expected ones may underflow.
_LARGEST_LOG_RATIO = 10.0
#: Least expected count of a class, and least ridge beside the mean variance: where there is nothing to divide by.
_LEAST_COUNT, _LEAST_RIDGE = 1e-12, 1e-9
#: Least ridge beside the mean square of the class means: classes that are a hundred standard deviations apart are told
#: apart as well as any, and coefficients stay far from where rounding decides.
_NARROWEST = 1e-4
#: The share of the difference that is added by each of several steps; two whole ones would overshoot.
_DAMPED = 0.5
#: A step that must be shorter than this to gain anything is none.
_SHORTEST_STEP = 1e-3

#: Coefficients (k, k) and intercepts (k,) of a linear function of log-probabilities.
AffineMap = tuple[FloatArray, FloatArray]


class ClassSums(NamedTuple):
    """Sums over rows, weighed by what they count for, of features ``X``, labels and expected labels ``P``.

    Counts (k,), sums (k, m) for each class, and the products (m, m) of the features.
    """

    counts: FloatArray
    sums: FloatArray
    expected_counts: FloatArray
    expected_sums: FloatArray
    products: FloatArray

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    @property
    def mean(self) -> FloatArray:
        return np.asarray(self.sums.sum(axis=0) / self.total)

    def centred(self) -> ClassSums:
        """The same sums of each row's features less their mean, which is what makes logits of log-probabilities."""
        sums, expected = (part - part.mean(axis=1, keepdims=True) for part in (self.sums, self.expected_sums))
        products = self.products - self.products.mean(axis=0)
        products = products - products.mean(axis=1, keepdims=True)
        return self._replace(sums=sums, expected_sums=expected, products=products)

    def shifted(self) -> ClassSums:
        """The same sums of ``X`` less its mean."""
        mean = self.mean
        return self._replace(
            sums=self.sums - np.outer(self.counts, mean),
            expected_sums=self.expected_sums - np.outer(self.expected_counts, mean),
            products=self.products - self.total * np.outer(mean, mean),
        )


def class_sums(block: Sample, coef: FloatArray, intercept: FloatArray) -> ClassSums:
    """The sums of log-probabilities, with the softmax of a linear function of them as expected labels."""
    return feature_sums(block, block.x, softmax_inplace(block.x @ coef.T + intercept))


def feature_sums(block: Sample, x: FloatArray, expected: FloatArray) -> ClassSums:
    """The sums of features `x` (n, m) of the rows, with expected labels (n, k), which are overwritten."""
    k, n = block.n_classes, block.n_rows
    labels = csr_array((block.each, (block.y, np.arange(n))), shape=(k, n))
    weighted = x
    if block.counts is not None:
        expected *= block.counts[:, None]
        weighted = x * block.counts[:, None]
    return ClassSums(block.class_counts, np.asarray(labels @ x), expected.sum(axis=0), expected.T @ x, weighted.T @ x)


def discriminant_map(sums: ClassSums, shrinkage: float, prior_rows: float) -> AffineMap:
    """Linear discriminant analysis: class means and one covariance, shrunk to the mean and to a sphere."""
    n, counts, mean = sums.total, sums.counts, sums.mean
    k = len(counts)
    shifted = sums.shifted()
    means = shifted.sums / (counts + max(prior_rows, _LEAST_COUNT))[:, None]
    covariance = _covariance(shifted, means)
    coef = _divided(means, covariance, _ridge_beside(shrinkage, covariance, means))
    prior = np.log((counts + 1.0) / (n + k))
    return coef, prior - 0.5 * (coef * means).sum(axis=1) - coef @ mean


def change_of_map(sums: ClassSums, shrinkage: float, prior_rows: float, prior_counts: float = 1.0) -> AffineMap:
    """The fitted Gaussian map less the one that the expected labels imply.

    Class means are shrunk to the expected ones, as if `prior_rows` rows of each class had been as expected, and class
    counts as if `prior_counts` times as many rows as there are classes had been.
    """
    n, counts, mean = sums.total, sums.counts, sums.mean
    k = len(counts)
    shifted = sums.shifted()
    expected = np.maximum(sums.expected_counts, _LEAST_COUNT * n)
    implied = shifted.expected_sums / expected[:, None]
    means = (shifted.sums + prior_rows * implied) / (counts + max(prior_rows, _LEAST_COUNT))[:, None]
    moved = means - implied
    implied_covariance = (shifted.products - (implied.T * expected) @ implied) / n
    covariance = _covariance(shifted, means) + (prior_rows / n) * (moved.T @ moved)
    ridge = _ridge_beside(shrinkage, implied_covariance, means, implied)
    found, before = _divided(means, covariance, ridge), _divided(implied, implied_covariance, ridge)
    # Observations that are dealt out as expected keep classes that never occurred.
    prior = prior_counts * k / n
    ratio = np.log((counts + prior * expected) / (expected * (1.0 + prior)))
    intercept = np.clip(ratio, -_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO)
    intercept += 0.5 * ((before * implied).sum(axis=1) - (found * means).sum(axis=1))
    coef = found - before
    return coef, intercept - coef @ mean


def _covariance(shifted: ClassSums, means: FloatArray) -> FloatArray:
    """The covariance of features around `means` of their classes, both less the overall mean."""
    crossed = means.T @ shifted.sums
    around = shifted.products - crossed - crossed.T + (means.T * shifted.counts) @ means
    return np.asarray(around / shifted.total)


def _ridge_beside(shrinkage: float, covariance: FloatArray, *means: FloatArray) -> float:
    """The ridge that shrinks a covariance to a sphere; none if that is not wanted."""
    if shrinkage == 0.0:
        return 0.0
    floor = max(_NARROWEST * np.mean(part**2) for part in means)
    return max(shrinkage * np.trace(covariance) / len(means[0]), floor)


def _divided(means: FloatArray, covariance: FloatArray, ridge: float) -> FloatArray:
    """``M (S + ridge I)⁻¹``."""
    least = _LEAST_RIDGE * np.trace(covariance) / len(means) + _LEAST_COUNT
    return np.asarray(np.linalg.solve(covariance + max(ridge, least) * np.eye(len(covariance)), means.T).T)


def fit_discriminant(rows: Rows, shrinkage: float, prior_rows: float) -> AffineMap:
    """`discriminant_map` of log-probabilities less their mean over the classes."""
    k = rows.n_classes
    return discriminant_map(_sums(rows, np.eye(k), np.zeros(k)).centred(), _ridge(rows, shrinkage), prior_rows)


def fit_relative(
    rows: Rows, shrinkage: float, prior_rows: float, n_steps: int, *, prior_counts: float = 1.0, checked: bool = False
) -> AffineMap:
    """Log-probabilities after `n_steps` steps of `change_of_map`.

    `checked`, a step is halved until it does not raise the log loss of the rows, at the price of a pass for each try:
    where classes are far apart, small errors of the covariances make large changes.
    """
    k = rows.n_classes
    coef, intercept = np.eye(k), np.zeros(k)
    rate = 1.0 if n_steps == 1 else _DAMPED
    for _ in range(n_steps):
        change = change_of_map(_sums(rows, coef, intercept), _ridge(rows, shrinkage), prior_rows, prior_counts)
        step = rate
        if checked:
            before = _log_loss(rows, coef, intercept)
            while (
                step >= _SHORTEST_STEP
                and _log_loss(rows, coef + step * change[0], intercept + step * change[1]) > before
            ):
                step /= 2.0
            if step < _SHORTEST_STEP:
                break
        coef, intercept = coef + step * change[0], intercept + step * change[1]
    return coef, intercept


def _log_loss(rows: Rows, coef: FloatArray, intercept: FloatArray) -> float:
    """Sum of the log losses of the softmax of a linear function of log-probabilities."""

    def losses(block: Sample) -> list[float]:
        logs = log_softmax(block.x @ coef.T + intercept)
        return [-float(block.each @ logs[np.arange(block.n_rows), block.y])]

    return float(rows.sums(losses)[0])


def _sums(rows: Rows, coef: FloatArray, intercept: FloatArray) -> ClassSums:
    return ClassSums(*rows.sums(partial(class_sums, coef=coef, intercept=intercept)))


def _ridge(rows: Rows, shrinkage: float) -> float:
    """The ridge beside the mean variance: with many rows for each of the k² coefficients it vanishes."""
    k = rows.n_classes
    return shrinkage * k**2 / (k**2 + rows.total_weight)


class GaussianCalibrator(RowsCalibrator, ScalesFirst, kw_only=False):
    """Matrix scaling by the Gaussian model of log-probabilities: closed form, milliseconds for a hundred classes.

    On temperature-scaled log-probabilities ``X = log q`` the logits are ``X + (B − B0) X + c``: what Bayes' rule makes
    of the class means ``M`` and the covariance ``S`` of the calibration rows, ``B = M (S + g v I)⁻¹`` with the mean
    variance ``v``, less what it makes of those that the predictions imply, ``M0_c = Σ_i q_ic X_i / Σ_i q_ic`` and
    ``S0``. Calibrated predictions are therefore hardly changed. Means are shrunk to the implied ones,
    ``M_c = (Σ_{y_i=c} X_i + m M0_c) / (n_c + m)``, and ``c`` holds the quadratic forms of the means and
    ``log(n_c / Σ_i q_ic)``. The fit needs only sums over rows, a few passes for each step.

    Parameters
    ----------
    relative : bool, default=True
        Add the difference of the two maps to the logits. `False` is linear discriminant analysis (``lda``): the fitted
        Gaussian map by itself, of log-probabilities less their mean over the classes. It converges to the exact map if
        these are Gaussian with one covariance, and needs tens of rows for each class.
    shrinkage : float, default=5.0
        ``g`` times ``(k² + n) / k²``: how far covariances are shrunk to a sphere; with many rows ``g`` vanishes.
    prior_rows : float, default=20.0
        ``m``: class means are shrunk to those that the predictions imply, or to the mean of all rows (``lda``), as if
        by this many rows for each class.
    n_steps : int, default=2
        Steps of the relative map. With more than one, each adds half of the difference, and what the predictions imply
        is computed anew; many steps lead to the maximum of the likelihood. A step that would raise the log loss of the
        calibration rows is halved.
    input_smoothing : float in [0, 1), "auto", "laplace" or None, default="auto"
        Weight of the uniform distribution mixed into the input; see `TemperatureScalingCalibrator`.

    Attributes
    ----------
    coef_ : ndarray of shape (k, k)
        The matrix that multiplies the temperature-scaled log-probabilities.
    intercept_ : ndarray of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.calibrators import GaussianCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(50), size=2000)
    >>> y = [rng.choice(50, p=row) for row in np.roll(p, 1, axis=1)]  # every class is taken for its neighbour
    >>> gaussian = GaussianCalibrator().fit(p, y)
    >>> gaussian.coef_.shape
    (50, 50)
    >>> bool((gaussian.coef_.argmax(axis=1) == np.roll(np.arange(50), 1)).mean() > 0.9)
    True
    """

    relative: bool = True
    shrinkage: NotNegative = 5.0
    prior_rows: NotNegative = 20.0
    n_steps: PositiveInt = 2
    input_smoothing: InputSmoothing = "auto"

    def _fit_rows(self, rows: Rows) -> None:
        self._learn_scaling(rows, self.input_smoothing, WEAK_PRIOR)
        scaled = rows.mapped(self._scaling())
        if self.relative:
            found = fit_relative(scaled, self.shrinkage, self.prior_rows, self.n_steps, checked=True)
        else:
            found = fit_discriminant(scaled, self.shrinkage, self.prior_rows)
        self.coef_, self.intercept_ = found

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.array("coef_", state.k, state.k)
        state.array("intercept_", state.k)

    def steps(self) -> list[Step]:
        return [*self._scaling(), Linear(self.coef_.T, self.intercept_), Softmax()]
