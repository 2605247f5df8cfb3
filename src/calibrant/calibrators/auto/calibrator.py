"""The calibrator we recommend: cross-fitted members from temperature scaling to boosted trees, blended by likelihood.

``(1 − v) S(x̃ + Θ f(x̃) + Σ_t tree_t(x̃)) + v p`` where ``x̃`` is temperature scaling with a learned mixture of the input
``p``, ``f`` are the features of the additive model, coefficients are averages over members (and, up to 40 classes,
folds), trees are grown on all rows, both weighted by what each member's out-of-fold predictions are worth, and ``v`` is
the share of the unchanged predictions.
Where the mean prediction of a class is proven wrong, factors on its odds, before and after, set it right.
See `docs/flagship.md` for the design and how it was found.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from typing import ClassVar, Literal

import numpy as np
from sklearn.utils import check_random_state

from calibrant.bins import quantiles
from calibrant.calibrators.auto.additive import AdditiveCalibrator, FeatureLayout, KernelFeatures
from calibrant.calibrators.auto.blend import at_labels, blend_weights, evidence, mean_log_loss, pool_weight
from calibrant.calibrators.auto.means import classes_off, matching_intercepts
from calibrant.calibrators.auto.members import DISCRIMINANTS, GAUSSIANS, RIDGES, CrossFit, Member
from calibrant.calibrators.auto.plan import Plan, make_plan, most_rows
from calibrant.calibrators.auto.trees.ensemble import TreeLayer, check_trees, concatenate
from calibrant.calibrators.parameters import AnySeed, NotNegativeInt
from calibrant.calibrators.scaling.temperature import WEAK_PRIOR
from calibrant.calibrators.state import LARGE, StateCheck
from calibrant.sample import Sample
from calibrant.softmax.rows.row_source import ArrayRows
from calibrant.steps import (
    KeepTop,
    Line,
    Log,
    LogOdds,
    Normalize,
    Scale,
    Sigmoid,
    Softmax,
    Step,
    Sum,
    run,
    run_from_logs,
)
from calibrant.typing import FloatArray

#: Strength of the blend's prior, in observations.
_BLEND_STRENGTH = 3.0
#: Nats of evidence against the unchanged predictions from which on they get no share.
_OVERWHELMING = 8.0
#: Evidence that the choice of the weights cannot have made: they are a handful.
_BEYOND_DOUBT = 40.0
#: Below this weight trees change nothing that could be measured, and are not stored.
_LEAST_TREES = 1e-3
#: Decimal places of the trees' steps of logits: hundreds of them add up to an error of about a hundredth at most.
_DIGITS = 3
#: Knots of the increasing map of two classes.
_KNOTS = 64
#: The least slope of its log-odds in those before: small enough to cost nothing, above rounding.
_LEAST_SLOPE = 1e-3


class AutoCalibrator(AdditiveCalibrator, kw_only=False):
    """The default calibrator, for two or more classes, without settings to choose.

    Temperature scaling with a learned mixture of the input, matrix scaling with curves, and boosted trees (above 40
    classes Gaussian models of the log-probabilities instead, above 200 of low rank) are fitted on folds; the blend with
    the best out-of-fold likelihood predicts, pooled with the unchanged predictions. What the data cannot tell shrinks
    to the simpler members and to no change at all.

    Parameters
    ----------
    effort : {"full", "fast", "thorough"}, default="full"
        ``"fast"`` leaves out the trees and, above 40 classes, the ridge (above 200 two of five folds): much of the gain
        at a fraction of the time. ``"thorough"`` adds kernel features for up to 12 classes: a little more gain at about
        twice the time.
    monotone : bool, default=False
        Keep the ranking: for two classes the map is strictly increasing, for more the most probable class stays the
        same. `monotone_cost_` says what that costs in log loss.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, landmarks and trees. `None` is a fixed seed too: the same data give the same result.
    max_size : int, default=None
        Bytes that the trees of the stored map may take; 0 for none. By default 1 MB, and 100 kB for each class above
        ten. Few maps come near it: half of them take less than 40 kB.

    Attributes
    ----------
    member_weights_ : dict
        Weight of each member in the blend.
    scores_ : dict
        Cross-validated log loss of each member, of the unchanged predictions, and of the blend with their share; the
        weights of the blend are chosen on the same folds.
    details_ : dict
        For each member what was chosen inside: the strength, the loss at each strength, the rounds of boosting.
    identity_weight_ : float
        The share of the unchanged predictions.
    input_factors_, class_factors_ : ndarrays of shape (k,)
        Factors, first and last, on the odds of the classes whose mean predictions were proven wrong; 1 for all others.
    coef_ : ndarray of shape (k, n_coefficients)
        Coefficients of log-probabilities, one, kernel features and the three curves of each class; above 200 classes of
        its own log-probability, one, the projections and the curves.
    landmarks_, whitening_, kernel_scale_ : ndarrays
        The kernel features; without landmarks `whitening_` (k, 100) projects log-probabilities.
    tree_features_, tree_subtracted_, tree_thresholds_, tree_values_ : ndarrays
        The trees.
    monotone_cost_ : float
        Increase of the mean log loss on the calibration data by ``monotone=True``; 0 without.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import AutoCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(3), size=500)
    >>> y = [rng.choice(3, p=row) for row in p ** 2 / (p ** 2).sum(axis=1, keepdims=True)]  # an under-confident model
    >>> auto = AutoCalibrator().fit(p, y)
    >>> bool(auto.inverse_temperature_ > 1.5), auto.predict_proba(p).shape
    (True, (500, 3))
    """

    effort: Literal["full", "fast", "thorough"] = "full"
    monotone: bool = False
    random_state: AnySeed = None
    _: KW_ONLY
    max_size: NotNegativeInt | None = None

    _draws_rows: ClassVar[bool] = True

    input_factors_: FloatArray = np.ones(1)  # of a file of version 0.1, like the next one
    class_factors_: FloatArray = np.ones(1)

    def _fit(self, sample: Sample) -> None:
        if np.count_nonzero(sample.class_counts) < 2:
            self._leave_unchanged(sample)
            return
        rng = check_random_state(0 if self.random_state is None else self.random_state)
        sample = sample.thinned(most_rows(sample.n_classes), rng)
        self.calibrated_on_, self.n_calibration_rows_ = str(sample), max(1, round(sample.total))
        sample = sample.merged()  # trees draw rows at random: three copies of a row as one with count three
        if sample.groups is not None:
            # A group says at worst as much as one of its rows: what is learned weighs as much as there are groups.
            sample = sample.with_counts(sample.each * (sample.units / sample.total))
        k, y = sample.n_classes, sample.y
        self.n_independent_ = max(1, round(sample.total))
        n_wrong = float(sample.each @ (sample.x.argmax(axis=1) != y))
        plan = self._plan(self.n_independent_, k, n_wrong)
        self.class_frequencies_ = sample.class_counts / sample.total
        self.class_means_before_ = np.average(np.exp(sample.x), axis=0, weights=sample.counts)
        before = mean_log_loss(np.ascontiguousarray(sample.x.T), y, sample.counts)
        self.input_factors_ = self.class_factors_ = np.ones(k)
        off = classes_off(self.class_means_before_, self.class_frequencies_, self.n_independent_)
        if off and not self._keeps_top:
            self.input_factors_ = np.exp(matching_intercepts(sample, off))
            sample = sample.with_values(run_from_logs([*_times(self.input_factors_), Log()], sample.x.copy()))
        self._learn_scaling(ArrayRows(sample), plan.input_smoothing, WEAK_PRIOR)
        scaled = self._scaled(sample)
        kernel = KernelFeatures.choose(scaled.x.T, plan.n_landmarks, rng)
        seed = int(rng.randint(2**31 - 1))
        if plan.n_directions:
            kernel = KernelFeatures.project(scaled.x.T, plan.n_directions, seed)
        fold = sample.folds(plan.n_folds, seed, stratified=plan.stratified)
        if not fold.any():  # a single row or group: none is left to fit to while it is held out
            plan = replace(plan, members={"temperature": 1.0})
        fit = CrossFit(scaled, fold, kernel, diagonal=plan.diagonal)
        members = fit_members(fit, plan, seed)
        held = [np.asarray(member.held, dtype=fit.dtype) for member in members]
        prior = prior_weights(members, plan)
        weights = blend_weights(held, sample, prior, _BLEND_STRENGTH)
        original = at_labels(np.ascontiguousarray(sample.x.T), y)
        blended = at_labels(np.tensordot(weights, np.stack(held), axes=1), y)
        if len(members) > 1 and evidence(blended, original, sample.each) < _BEYOND_DOUBT:
            # Weights that were chosen by the same rows flatter the blend.
            for rows, out in zip(fit.rows, fit.held_rows, strict=True):
                parts = [np.ascontiguousarray(z[:, rows]) for z in held]
                others = blend_weights(parts, sample.take(rows), prior, _BLEND_STRENGTH)
                blended[out] = at_labels(np.tensordot(others, np.stack([z[:, out] for z in held]), axes=1), y[out])
        share = pool_weight(blended, original, sample.each, plan.pool_counts, _OVERWHELMING)
        after = -float(np.average(np.log((1.0 - share) * blended + share * original), weights=sample.counts))
        self.identity_weight_ = share
        self._store(members, weights, kernel, k)
        losses = {"temperature": fit.loss(fit.x), **{m.name: m.loss for m in members}}
        self.scores_ = {**losses, "none": before, "blend": after}
        self.monotone_cost_ = 0.0
        if self.monotone:
            self._make_monotone(sample, fit.x)
        if off:
            logs = run_from_logs([*self._mapped(), Log()], sample.x.copy())
            self.class_factors_ = np.exp(matching_intercepts(sample.with_values(logs), off))

    def _leave_unchanged(self, sample: Sample) -> None:
        """Give all weight to the unchanged predictions: labels of one class tell nothing about the others."""
        k = sample.n_classes
        self.calibrated_on_, self.n_calibration_rows_ = str(sample), max(1, round(sample.total))
        self.n_independent_ = max(1, round(sample.units))
        self.class_frequencies_ = sample.class_counts / sample.total
        self.class_means_before_ = np.average(np.exp(sample.x), axis=0, weights=sample.counts)
        self.input_factors_ = self.class_factors_ = np.ones(k)
        self.inverse_temperature_, self.input_smoothing_, self._output_smoothing = 1.0, 0.0, 0.0
        kernel = KernelFeatures.choose(np.empty((k, 0)), 0, check_random_state(0))
        loss = mean_log_loss(np.ascontiguousarray(sample.x.T), sample.y, sample.counts)
        theta = np.zeros(FeatureLayout(k, diagonal=True).shape)
        member = Member("temperature", sample.x.T, theta, TreeLayer.empty(k), loss)
        self.identity_weight_ = 1.0
        self._store([member], np.ones(1), kernel, k)
        self.scores_ = {"temperature": loss, "none": loss, "blend": loss}
        self.monotone_cost_ = 0.0
        if self.monotone and k == 2:
            self.knots_ = self.knot_values_ = np.array([-1.0, 1.0])

    def _plan(self, n: int, k: int, n_wrong: float) -> Plan:
        """What to fit; an ablation overrides it."""
        return make_plan(n, k, self.effort, n_wrong, self.max_size)

    def _store(self, members: list[Member], weights: FloatArray, kernel: KernelFeatures, k: int) -> None:
        """Blend the members into one coefficient matrix and one list of trees."""
        share = 1.0 - self.identity_weight_
        self.member_weights_ = {member.name: share * float(w) for member, w in zip(members, weights, strict=True)}
        self.member_weights_["none"] = self.identity_weight_
        self.details_ = {member.name: dict(member.details) for member in members}
        self.coef_ = np.tensordot(weights, np.stack([member.theta for member in members]), axes=1)
        worth = [m.trees.scaled(w) for m, w in zip(members, weights, strict=True) if w >= _LEAST_TREES]
        trees = concatenate(worth, k).rounded(_DIGITS)
        self.tree_features_, self.tree_subtracted_ = trees.features, trees.subtracted
        self.tree_thresholds_, self.tree_values_ = trees.thresholds, trees.values
        self._store_kernel(kernel)

    def _blended(self) -> list[Step]:
        """The steps from temperature-scaled log-probabilities to blended logits, before the ranking is corrected."""
        trees = TreeLayer(self.tree_features_, self.tree_subtracted_, self.tree_thresholds_, self.tree_values_)
        return self._additive_steps(trees.steps())

    @property
    def _keeps_top(self) -> bool:
        """Whether a class may not overtake the most probable one."""
        return self.monotone and len(self.classes_) > 2

    def _ranked(self) -> list[Step]:
        """The steps from temperature-scaled log-probabilities to probabilities that keep the ranking."""
        if len(self.classes_) == 2:
            return [LogOdds(), Line(self.knots_, self.knot_values_, extend=True), Sigmoid()]
        factors = self.class_factors_
        last: list[Step] = [] if np.all(factors == 1.0) else [Scale(1.0, np.log(factors))]
        return [KeepTop(([*self._blended(), *last],)), Softmax()]

    def _pooled(self, mapped: list[Step]) -> list[Step]:
        """`mapped` with the share of the predictions themselves."""
        share = self.identity_weight_
        return [Sum(([*mapped, Scale(1.0 - share)], [Scale(share)]))] if share else mapped

    def _mapped(self) -> list[Step]:
        """The steps between the first and the last factors on the odds."""
        if self.identity_weight_ == 1.0:
            return []
        mapped = self._ranked() if self.monotone else [*self._blended(), Softmax()]
        return self._pooled([*self._scaling(), *mapped])

    def steps(self) -> list[Step]:
        last = [] if self._keeps_top else _times(self.class_factors_)
        return [*_times(self.input_factors_), *self._mapped(), *last]

    def _make_monotone(self, sample: Sample, scaled: FloatArray) -> None:
        """Find the increasing map of two classes, whose knots are joined by straight lines, and what it costs.

        With more classes each row's logits move back towards temperature scaling, as far as `KeepTop` must.
        """
        if len(scaled) == 2:
            from sklearn.isotonic import isotonic_regression

            odds = scaled[1] - scaled[0]
            self.knots_ = np.unique(quantiles(odds, sample.counts, np.linspace(0.0, 1.0, _KNOTS)))
            if len(self.knots_) == 1:
                self.knots_ = self.knots_[0] + np.array([-1.0, 1.0])
            # Beyond the data the map continues as temperature scaling bends it least: by the outermost slope.
            at_knots = run(self._blended(), _two_columns(self.knots_))
            mass = np.histogram(odds, np.concatenate([self.knots_, [np.inf]]), weights=sample.counts)[0] + 1.0
            tilt = _LEAST_SLOPE * (self.knots_ - self.knots_.mean())
            self.knot_values_ = tilt + isotonic_regression(at_knots[:, 1] - at_knots[:, 0] - tilt, sample_weight=mass)
        y = sample.y
        kept, free = (
            run_from_logs(self._pooled([*self._scaling(), *mapped]), sample.x.copy())[np.arange(len(y)), y]
            for mapped in (self._ranked(), [*self._blended(), Softmax()])
        )
        self.monotone_cost_ = float(np.average(np.log(free / kept), weights=sample.counts))

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        check_trees(state, state.k)
        state.number("identity_weight_", 0.0, 1.0)
        for name in {"input_factors_", "class_factors_"} & vars(self).keys():  # none in files of version 0.1
            state.array(name, state.k, low=1.0 / LARGE)
        if self.monotone and state.k == 2:
            knots = state.array("knots_", None, increasing=True)
            state.require(len(knots) >= 2, "knots_ should be at least two")
            state.array("knot_values_", len(knots))
        state.information("knots_", "knot_values_", "details_")
        state.said(monotone_cost_=float, n_calibration_rows_=float, n_independent_=float, calibrated_on_=str)
        state.said(class_frequencies_=state.k, class_means_before_=state.k, member_weights_=dict, scores_=dict)
        state.require({"none", "blend"} < self.scores_.keys(), "scores_ should hold none, blend and those blended")
        state.require(self.member_weights_, "member_weights_ is empty")

    def summary(self) -> str:
        """What was found, in words: over- or under-confidence, corrected classes, the blend and how sure it is."""
        from calibrant.calibrators.auto.auto_summary import summarise

        return summarise(self)


def _times(factors: FloatArray) -> list[Step]:
    """The steps that multiply the odds of the classes by `factors`."""
    return [] if np.all(factors == 1.0) else [Scale(factors), Normalize()]


def _two_columns(odds: FloatArray) -> FloatArray:
    """Log-probabilities (n, 2) of log-odds."""
    return np.column_stack([-np.logaddexp(0.0, odds), -np.logaddexp(0.0, -odds)])


def fit_members(fit: CrossFit, plan: Plan, seed: int) -> list[Member]:
    members = [fit.temperature()] if "temperature" in plan.members else []
    if "vector" in plan.members:
        members.append(fit.vector(plan.factors))
    if "additive" in plan.members:
        additive, starts = fit.additive(plan.factors, plan.lambdas)
        members.append(additive)
    for make, names in ((fit.gaussian, GAUSSIANS), (fit.discriminant, DISCRIMINANTS), (fit.ridge, RIDGES)):
        members += [make(name) for name in names if name in plan.members]
    if "kernel" in plan.members and fit.kernel.n_features:
        members.append(fit.kernel_ridge())
    if "trees" in plan.members:
        boosted = fit.boosted("trees", starts, additive.theta, plan.trees, seed)
        gain = fit.sample.total * (additive.loss - boosted.loss)
        if boosted.details["rounds"] and gain >= plan.proof_of_trees:
            members.append(boosted)
    return members


def prior_weights(members: list[Member], plan: Plan) -> FloatArray:
    """Prior weights of the members; absent trees leave theirs to the model they would have grown from, or to a plan."""
    prior = {member.name: plan.members[member.name] for member in members}
    if "trees" in plan.members and "trees" not in prior:
        prior["additive"] += plan.members["trees"]
        prior |= plan.without_trees
    return np.array(list(prior.values()))
