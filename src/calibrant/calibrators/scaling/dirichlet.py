"""Dirichlet calibration: ``S(W log p + b)`` with a penalty on W and b, and its cross-validated variant.

ODIR penalises ``λ Σ_{i≠j} W_ij² + μ Σ b_j²`` and leaves the diagonal free; L2 penalises ``λ (Σ W_ij² + Σ b_j²)``,
all of it towards zero. The loss is the mean log loss. The sums may be divided by their number of terms.
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import product
from typing import Literal

import numpy as np

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.parameters import Array, AtLeastTwo, NotNegative, NotNegativeInt, Tolerance, strengths_to_try
from calibrant.calibrators.probability_intervals import LogitModel
from calibrant.calibrators.rows_calibrator import RowsCalibrator
from calibrant.calibrators.scaling.structured import CERTIFICATE, delta_covariance, take_certificate
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.simplex import LOSS_FLOOR
from calibrant.softmax.penalties import Ridge
from calibrant.softmax.rows.row_source import ArrayRows, Features, Rows, namespace, with_ones
from calibrant.softmax.solvers import solve
from calibrant.steps import Linear, Log, Softmax, Step
from calibrant.typing import FloatArray, IntArray

#: What `DirichletCVCalibrator` chooses from.
_GRID = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
#: Duality gap of the fits of cross-validation: losses that differ by less are equally good.
_CV_TOL = 1e-5


class _DirichletMap(Calibrator):
    """What both calibrators share: the fit for given strengths, and the map.

    Parameters
    ----------
    regularization : {"odir", "l2"}
        Which coefficients are penalised.
    normalization : {"none", "mean"}
        ``"none"`` penalises sums of squares, as the authors' package does; ``"mean"`` divides them by the number of
        coefficients, k(k - 1) and k, as their paper does.

    Attributes
    ----------
    coef_ : ndarray of shape (k, k)
        The matrix W.
    intercept_ : ndarray of shape (k,)
        The vector b.
    objective_, duality_gap_, residual_, n_iter_
        As in `SMSCalibrator`; ODIR does not penalise the diagonal, so that it has a residual instead of a gap.
    """

    regularization: Literal["odir", "l2"]
    normalization: Literal["none", "mean"] = "none"

    def _fit_strengths(
        self,
        rows: Rows,
        lam: float,
        mu: float,
        *,
        tol: float | None = None,
        theta: FloatArray | None = None,
    ) -> FloatArray:
        """Fit with the strengths `lam` and `mu`, from the coefficients `theta`; returns those it ends at."""
        k = rows.n_classes
        solution = solve(rows.problem(self._features), self._penalty(k, lam, mu), tol=tol, theta=theta)
        self.coef_ = self._origin(k) + solution.theta[:, :k]
        self.intercept_ = solution.theta[:, k].copy()
        take_certificate(self, solution)
        return solution.theta

    def _penalty(self, k: int, lam: float, mu: float) -> Ridge:
        mean = self.normalization == "mean"
        strength = np.empty((k, k + 1))
        if self.regularization == "odir":
            strength[:, :k] = lam / (k * (k - 1) if mean else 1)
            strength[:, k] = mu / (k if mean else 1)
            np.fill_diagonal(strength, 0.0)
        else:
            strength[:] = lam / (k * (k + 1) if mean else 1)
        return Ridge(strength)

    def _origin(self, k: int) -> FloatArray:
        """Where coefficients are zero, which decides what L2 shrinks to and where ODIR begins."""
        return np.eye(k) if self.regularization == "odir" else np.zeros((k, k))

    def _features(self, x: FloatArray) -> Features:
        shared, k = with_ones(x), x.shape[1]
        return Features(shared[:k] if self.regularization == "odir" else namespace(x).zeros_like(shared[:k]), shared)

    @abstractmethod
    def _strengths(self) -> tuple[float, float]:
        """The strengths of the fit."""

    def _coefficient_covariance(self, sample: Sample) -> FloatArray | None:
        theta = np.column_stack([self.coef_ - self._origin(len(self.coef_)), self.intercept_])
        penalty = self._penalty(len(theta), *self._strengths())
        return delta_covariance(ArrayRows(sample).problem(self._features), theta, penalty, sample)

    def _logit_model(self) -> LogitModel:
        return LogitModel(1, 0, self._features)

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.array("coef_", state.k, state.k)
        state.array("intercept_", state.k)
        state.information(*CERTIFICATE, "lambda_coef_", "lambda_intercept_")

    def steps(self) -> list[Step]:
        return [Log(), Linear(self.coef_.T, self.intercept_), Softmax()]


class DirichletCalibrator(RowsCalibrator, _DirichletMap):
    """Dirichlet calibration.

    Parameters
    ----------
    lambda_coef : float, default=1e-3
        Strength of the penalty on the off-diagonal weights (ODIR) or on everything (L2).
    lambda_intercept : float, default=1e-3
        Strength of the penalty on the intercepts (ODIR only).

    References
    ----------
    M. Kull, M. Perello Nieto, M. Kängsepp, T. Silva Filho, H. Song and P. Flach. Beyond temperature scaling:
    obtaining well-calibrated multiclass probabilities with Dirichlet calibration. NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.calibrators import DirichletCalibrator
    >>> rng = np.random.default_rng(0)
    >>> P = rng.dirichlet(np.ones(3), size=500)
    >>> calibrator = DirichletCalibrator().fit(P, [rng.choice(3, p=row) for row in P])
    >>> calibrator.coef_.shape
    (3, 3)
    """

    lambda_coef: NotNegative = 1e-3
    lambda_intercept: NotNegative = 1e-3
    regularization: Literal["odir", "l2"] = "odir"
    normalization: Literal["none", "mean"] = "none"
    tol: Tolerance = None

    def _strengths(self) -> tuple[float, float]:
        return float(self.lambda_coef), float(self.lambda_intercept)

    def _fit_rows(self, rows: Rows) -> None:
        self._fit_strengths(rows, *self._strengths(), tol=self.tol)


class DirichletCVCalibrator(_DirichletMap):
    """Dirichlet calibration with strengths chosen by cross-validation.

    Parameters
    ----------
    lambdas_coef, lambdas_intercept : sequence of float, default=None
        Strengths to choose from, by default 0.1 to 1e-5 in steps of ten; those of the intercepts
        matter for ODIR only.
    n_folds : int, default=5
        Number of folds, stratified by label. Folds are made of rows, so a weight of two is not quite the same as a
        repeated row.
    random_state : int, default=0
        Seed of the folds.

    Attributes
    ----------
    lambda_coef_, lambda_intercept_ : float
        The strengths chosen.

    Examples
    --------
    >>> from calibrant.calibrators import DirichletCVCalibrator
    >>> calibrator = DirichletCVCalibrator(lambdas_coef=[0.1, 1e-3])
    >>> calibrator.fit([0.1, 0.4, 0.6, 0.9] * 5, [0, 1, 0, 1] * 5).lambda_coef_
    0.1
    """

    lambdas_coef: Array | None = None
    lambdas_intercept: Array | None = None
    n_folds: AtLeastTwo = 5
    regularization: Literal["odir", "l2"] = "l2"
    normalization: Literal["none", "mean"] = "none"
    tol: Tolerance = None
    random_state: NotNegativeInt = 0

    def _fit(self, sample: Sample) -> None:
        lams, mus = (strengths_to_try(self, name, _GRID) for name in ("lambdas_coef", "lambdas_intercept"))
        if self.regularization != "odir":
            mus = [0.0]
        folds = sample.folds(int(self.n_folds), int(self.random_state))
        # Strongest first: each fit starts where the one before ended, and weak penalties are the slow ones.
        pairs = sorted(product(lams, mus), reverse=True)
        losses = self._cross_validate(sample, folds, pairs)
        self.lambda_coef_, self.lambda_intercept_ = pairs[int(np.argmin(losses))]
        self._fit_strengths(ArrayRows(sample), self.lambda_coef_, self.lambda_intercept_, tol=self.tol)

    def _strengths(self) -> tuple[float, float]:
        return self.lambda_coef_, self.lambda_intercept_

    def _cross_validate(self, sample: Sample, folds: IntArray, pairs: list[tuple[float, float]]) -> FloatArray:
        """Mean log loss over rows predicted without themselves for each pair of strengths; zero in a single fold."""
        losses = np.zeros(len(pairs))
        for fold in np.unique(folds):
            train, test = sample.take(folds != fold), sample.take(folds == fold)
            if not train.n_rows:
                continue
            theta = None
            for i, (lam, mu) in enumerate(pairs):
                theta = self._fit_strengths(ArrayRows(train), lam, mu, tol=_CV_TOL, theta=theta)
                q = np.maximum(self._map(test.x.copy())[np.arange(test.n_rows), test.y], LOSS_FLOOR)
                losses[i] -= float(np.log(q) @ test.each)
        return losses / sample.total
