"""Cross-fitting of the members that `AutoCalibrator` blends.

Every member is fitted once for each fold on the other folds; its out-of-fold logits say what it is worth, and the
average of the fold models is what predicts, or, above 40 classes, a fit to all rows. All members are linear in one set
of features plus trees, so that any weighted average of their logits is again one coefficient matrix and one list of
trees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from calibrant.calibrators.auto.additive import (
    EVEN,
    FACTORS,
    FeatureLayout,
    KernelFeatures,
    Lambdas,
    curves,
    fit_path,
    shared_features,
)
from calibrant.calibrators.auto.blend import likelihood_weights, mean_log_loss
from calibrant.calibrators.auto.trees.ensemble import BoostingOptions, TreeLayer, cross_fit_trees
from calibrant.calibrators.scaling.discriminant import (
    AffineMap,
    ClassSums,
    change_of_map,
    feature_sums,
    fit_discriminant,
    fit_relative,
)
from calibrant.sample import Sample
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.rows.row_source import ArrayRows
from calibrant.typing import FloatArray, IntArray

#: (factor of the additive part, strength of the kernel part) along the kernel member's path.
KERNEL_PATH = ((1.0, 10.0), (1.0, 2.0), (0.3, 0.4))
#: Members above 40 classes, as chosen by `benchmarks/many_classes.py`. They cost little beside the ridge, so several
#: strengths take part: shrinkage, prior rows and prior counts of `change_of_map`, ...
GAUSSIANS = {"gaussian": (10.0, 2.0, 0.3), "weak gaussian": (0.5, 80.0, 20.0), "weakest gaussian": (0.5, 20.0, 20.0)}
#: ... the same above 200 classes, in the directions in which log-probabilities vary most, ...
PROJECTED = {"gaussian": (5.0, 20.0, 1.0), "weak gaussian": (1.5, 40.0, 1.0), "weakest gaussian": (0.5, 80.0, 1.0)}
#: ... of which the shrinkage is at least the second number for fewer rows than the first: with two rows for each class
#: a weaker one now and then goes astray, ...
FEW_ROWS, _SHRINKAGE_OF_FEW = 1000, 1.5
#: ... the same of linear discriminant analysis, ...
DISCRIMINANTS = {"discriminant": (4.0, 2.0), "strong discriminant": (40.0, 5.0)}
#: ... and the factor on the strengths of matrix scaling with curves: a weak ridge, scaled down by the blend, is better
#: than a medium one.
RIDGES = {"ridge": 0.03}
#: Duality gap at which a fit of the cross-validation is good enough: far below the differences that matter.
_TOL = 1e-4
#: A ridge that the blend scales down, and weighs by what it is worth out of fold, may be far from its optimum.
_RIDGE_TOL = 3e-2
#: From so many classes on these fits, and the blend, are in single precision, which is far below that: their products
#: take the time.
_MANY_CLASSES = 41


@dataclass(frozen=True)
class Member:
    """A cross-fitted model: out-of-fold logits (k, n), mean coefficients in the full layout, trees, loss."""

    name: str
    held: FloatArray
    theta: FloatArray
    trees: TreeLayer
    loss: float
    details: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PathFit:
    """A path of strengths, averaged by likelihood: out-of-fold logits, coefficients of each fold, what each loses."""

    held: FloatArray
    thetas: list[FloatArray]
    labels: tuple[float, ...]
    losses: FloatArray
    weights: FloatArray

    @property
    def mean(self) -> FloatArray:
        return np.asarray(np.mean(self.thetas, axis=0))

    @property
    def strength(self) -> float:
        """The geometric mean of the averaged strengths."""
        return float(np.exp(self.weights @ np.log(self.labels)))

    @property
    def details(self) -> dict[str, float]:
        """The loss at each strength and the mean strength, by name."""
        losses = {f"loss at {label:g}": float(loss) for label, loss in zip(self.labels, self.losses, strict=True)}
        return {**losses, "strength": self.strength}


class CrossFit:
    """The rows, folds and features that all members share.

    The sample holds temperature-scaled log-probabilities; `diagonal`, no member has a matrix of coefficients.
    """

    def __init__(self, sample: Sample, fold: IntArray, kernel: KernelFeatures, *, diagonal: bool = False) -> None:
        self.sample, self.fold = sample, fold
        self.x = np.ascontiguousarray(sample.x.T)
        self.k, self.n = self.x.shape
        self.kernel = kernel
        self.n_folds = int(fold.max()) + 1
        self.rows = [np.flatnonzero(fold != c) for c in range(self.n_folds)]
        self.held_rows = [np.flatnonzero(fold == c) for c in range(self.n_folds)]
        self.layout = FeatureLayout(self.k, kernel.n_features, diagonal)
        self.curves = curves(self.x)
        self.dtype: DTypeLike = np.float32 if self.k >= _MANY_CLASSES else np.float64

    @cached_property
    def shared(self) -> FloatArray:
        """What every class weighs by its own coefficients."""
        return shared_features(self.x, self.kernel)

    def loss(self, held: FloatArray) -> float:
        """Mean log loss of out-of-fold logits."""
        return mean_log_loss(held, self.sample.y, self.sample.counts)

    def temperature(self) -> Member:
        """The temperature-scaled input itself: two parameters, whose optimism is negligible."""
        return Member("temperature", self.x, np.zeros(self.layout.shape), TreeLayer.empty(self.k), self.loss(self.x))

    def vector(self, factors: tuple[float, ...] = FACTORS) -> Member:
        """Vector scaling with curves: a class's logit depends on its own probability only."""
        own = np.concatenate([self.x[None], self.curves])
        path = [np.full((self.k, 1 + len(own)), factor * self.k) for factor in factors]
        fitted = self.path(np.ones((1, self.n)), own, path, factors)
        mean = fitted.mean
        return self._member("vector", fitted, self.layout.place(mean[:, 0], mean[:, 1], curves=mean[:, 2:]))

    def additive(
        self, factors: tuple[float, ...] = FACTORS, lambdas: Lambdas = EVEN
    ) -> tuple[Member, list[FloatArray]]:
        """Matrix scaling with curves; and the logits (k, n) of each fold's model."""
        narrow = FeatureLayout(self.k)
        shared = self.shared[: narrow.n_shared]
        path = [narrow.strengths(factor, lambdas=lambdas) for factor in factors]
        fitted = self.path(shared, self.curves, path, factors)
        everything = ArrayProblem(self.sample.y, self.x, shared=shared, own=self.curves)
        starts = [everything.logits(theta) for theta in fitted.thetas]
        mean = fitted.mean
        theta = self.layout.place(narrow.intercepts(mean), narrow.matrix(mean), curves=narrow.curves(mean))
        return self._member("additive", fitted, theta), starts

    def kernel_ridge(self) -> Member:
        """The additive model with kernel features."""
        path = [self.layout.strengths(factor, strength) for factor, strength in KERNEL_PATH]
        labels = tuple(strength for _, strength in KERNEL_PATH)
        fitted = self.path(self.shared, self.curves, path, labels)
        return self._member("kernel", fitted, fitted.mean)

    def gaussian(self, name: str) -> Member:
        """Two steps of the Gaussian model relative to the predictions: see `GaussianCalibrator`."""
        if self.layout.diagonal:
            return self._projected(name)
        shrinkage, prior_rows, prior_counts = GAUSSIANS[name]
        if self.sample.total < FEW_ROWS:
            shrinkage = max(shrinkage, _SHRINKAGE_OF_FEW)
        return self._affine(name, lambda rows: fit_relative(rows, shrinkage, prior_rows, 2, prior_counts=prior_counts))

    @cached_property
    def fold_sums(self) -> list[ClassSums]:
        """Sums of the projections over the rows of each fold."""
        features = self.kernel(self.x).T
        return [
            feature_sums(self.sample.take(out), features[out], np.exp(self.sample.x[out])) for out in self.held_rows
        ]

    def _projected(self, name: str) -> Member:
        """One step of the Gaussian model of projections: what is left out of a fold is subtracted from all sums."""
        total = ClassSums(*(sum(parts) for parts in zip(*self.fold_sums, strict=True)))
        features, held = self.kernel(self.x), self.x.astype(self.dtype)
        for out, left in zip(self.held_rows, self.fold_sums, strict=True):
            sums = ClassSums(*(whole - part for whole, part in zip(total, left, strict=True)))
            coef, intercept = change_of_map(sums, *PROJECTED[name])
            held[:, out] += coef @ features[:, out] + intercept[:, None]
        coef, intercept = change_of_map(total, *PROJECTED[name])
        theta = self.layout.place(intercept, kernel=coef)
        return Member(name, held, theta, TreeLayer.empty(self.k), self.loss(held))

    def discriminant(self, name: str) -> Member:
        """Linear discriminant analysis of log-probabilities."""
        return self._affine(name, lambda rows: fit_discriminant(rows, *DISCRIMINANTS[name]))

    def _affine(self, name: str, fit: Callable[[ArrayRows], AffineMap]) -> Member:
        """A member whose logits are the linear function of log-probabilities that `fit` finds."""

        def coefficients(rows: IntArray) -> FloatArray:
            matrix, intercepts = fit(ArrayRows(self.sample.take(rows)))
            return self.layout.place(intercepts, matrix - np.eye(self.k))

        return self.refitted(name, coefficients)

    def ridge(self, name: str) -> Member:
        """Matrix scaling with curves at one strength, of features less their means.

        Otherwise the matrix, which is penalised, would shift the intercepts by what it makes of those means.
        """
        strength = self.layout.strengths(RIDGES[name])
        means, curve_means = self.x.mean(axis=1), self.curves.mean(axis=2)
        shared = shared_features(self.x - means[:, None], self.kernel)
        own = self.curves - curve_means[:, :, None]

        def fit(rows: IntArray) -> FloatArray:
            theta = fit_path(self.problem(shared, own, rows, self.dtype), [strength], tol=_RIDGE_TOL)[0].copy()
            shift = self.layout.matrix(theta) @ means + (self.layout.curves(theta) * curve_means.T).sum(axis=1)
            self.layout.intercepts(theta)[:] -= shift
            return theta

        return self.refitted(name, fit)

    def refitted(self, name: str, fit: Callable[[IntArray], FloatArray]) -> Member:
        """A member whose coefficients `fit` finds for some of the rows, given by number: in the end for all of them."""
        held = np.empty((self.k, self.n))
        for rows, out in zip(self.rows, self.held_rows, strict=True):
            held[:, out] = self.problem(self.shared, self.curves, out).logits(fit(rows))
        return Member(name, held, fit(np.arange(self.n)), TreeLayer.empty(self.k), self.loss(held))

    def _member(self, name: str, fitted: PathFit, theta: FloatArray) -> Member:
        details = dict(fitted.details)
        return Member(name, fitted.held, theta, TreeLayer.empty(self.k), self.loss(fitted.held), details)

    def path(self, shared: FloatArray, own: FloatArray, path: list[FloatArray], labels: tuple[float, ...]) -> PathFit:
        """Fit a path of strengths, which `labels` name, on each fold and average it by likelihood."""
        thetas = []
        candidates = [np.empty((self.k, self.n)) for _ in path]
        for rows, out in zip(self.rows, self.held_rows, strict=True):
            fitted = fit_path(self.problem(shared, own, rows, self.dtype), path, tol=_TOL)
            held = self.problem(shared, own, out)
            for candidate, theta in zip(candidates, fitted, strict=True):
                candidate[:, out] = held.logits(theta)
            thetas.append(np.stack(fitted))
        losses = np.array([self.loss(candidate) for candidate in candidates])
        weights = likelihood_weights(losses, self.sample.units)
        held_logits = np.zeros((self.k, self.n))
        for w, candidate in zip(weights, candidates, strict=True):
            held_logits += w * candidate
        averaged = [np.tensordot(weights, theta, axes=1) for theta in thetas]
        return PathFit(held_logits, averaged, labels, losses, weights)

    def problem(
        self, shared: FloatArray, own: FloatArray, rows: IntArray, dtype: DTypeLike = np.float64
    ) -> ArrayProblem:
        part = self.sample.take(rows)
        return ArrayProblem(
            part.y, part.x.T, shared=shared[:, rows], own=own[:, :, rows], weight=part.counts, dtype=dtype
        )

    def boosted(
        self, name: str, starts: list[FloatArray], theta: FloatArray, options: BoostingOptions, seed: int
    ) -> Member:
        """Trees on top of each fold's logits; `theta` are the mean coefficients that make those logits."""
        fitted = cross_fit_trees(self.x, starts, self.sample, self.fold, options, seed)
        details = {"rounds": float(fitted.rounds)}
        return Member(name, fitted.held, theta, fitted.layer, self.loss(fitted.held), details)
