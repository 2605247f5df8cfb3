"""What kind of miscalibration it is: wrong means, wrong slope, or something else.

Recalibrations of `x = log p` are compared by their log loss: none; `softmax(x + a)`, which corrects how often each
class is predicted; `softmax(b x)`, for predictions that are too extreme (`b < 1`) or too close to the average
(`b > 1`); and both. With `q` parameters fitted to `n` observations, the drop of log loss on new rows is that on these
rows less `q / n`, times the design effect of groups. The best of the four is what means and slope account for; what a
flexible calibrator gains beyond it, on rows it was not fitted to, is the rest.

P-values of means and slope are those of score tests (`calibrant.metrics.hypothesis`), which need no fit but that of the
hypothesis: of the unchanged predictions for the means, of fitted means for the slope. There the score `g_b` of the
slope is taken less what the fitted means explain of it, `g_b - V_ba V_aa⁺ g_a`, and labels are drawn from the fitted
means. The slope's interval holds the slopes that this test, with its asymptotic distribution, does not reject.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtri, stdtr, stdtrit

from calibrant.docs import describe_parameters
from calibrant.inputs.samples import check_sample
from calibrant.metrics.frequencies import ClassFrequencies, class_frequencies, design_effect
from calibrant.metrics.hypothesis import ScoreResiduals, drawn_or_tail, few_groups, score_covariance
from calibrant.metrics.losses import log_loss_rows
from calibrant.metrics.recalibration import Folds, Method, recalibrate
from calibrant.metrics.result_types import Estimate
from calibrant.metrics.scalars import Statistic, scalar
from calibrant.sample import Sample
from calibrant.simplex import LOSS_FLOOR
from calibrant.softmax.solvers.searches import NewtonMinimum, damped_newton
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray, FloatArray, Label

#: Penalty, in nats in total, of the squared coefficients: too small to be seen unless they would be infinite.
RIDGE = 1e-3
#: What a last step of Newton's method gains at most.
_TOL = 1e-13
#: Slopes beyond so many standard errors are not looked at for the end of an interval.
_FARTHEST = 60.0
#: A variance of scores below which there is none.
_NOTHING = 1e-9


class Part(NamedTuple):
    """Log loss on new rows that a kind of recalibration would save, and the test of there being none to save."""

    gain: float
    p_value: float
    statistic: float
    #: Draws of labels that the p-value comes from and that it cannot be smaller than; 0 if it can.
    n_resamples: int = 0


@dataclass(frozen=True)
class Miscalibration:
    """How much log loss is lost to wrong means, to a wrong slope and to the rest.

    Attributes
    ----------
    means, slope, rest : Part
        What each kind of recalibration saves after the ones before it, with `gain`, `p_value` and `statistic`; means
        and slope save nothing where they would cost more than they bring. They add up to the calibration part of log
        loss. P-values hold if rows, or groups where they are given, are independent.
    fitted_slope : Estimate
        `b`: 1 for calibrated predictions, less if they are too extreme, more if they are too close to the average.
    intercepts : ndarray of shape (k,)
        `a` at slope 1, with mean 0: positive for classes that occur more often than predicted. For two classes the
        difference of the two is the shift of the log-odds.
    frequencies : ClassFrequencies
        Expected and observed count of every class.

    Examples
    --------
    >>> from calibrant.metrics import miscalibration
    >>> miscalibration([0, 0, 0, 1] * 50, [0.5, 0.6, 0.4, 0.6] * 50).largest  # predicted too often
    'means'
    """

    means: Part
    slope: Part
    rest: Part
    fitted_slope: Estimate
    intercepts: AnyFloatArray
    frequencies: ClassFrequencies

    @property
    def parts(self) -> dict[str, Part]:
        """The three parts by name."""
        return {"means": self.means, "slope": self.slope, "rest": self.rest}

    @property
    def largest(self) -> str:
        """The part that matters most for log loss."""
        return max(self.parts, key=lambda name: self.parts[name].gain)


class LinearRecalibration:
    """Mean log loss of `softmax(b x + a)` with its derivatives; parameters are `(a_1, ..., a_k, b)`."""

    def __init__(self, data: Sample) -> None:
        # The floor of the log loss: what is saved is then measured on one scale.
        self.x = np.log(np.maximum(np.asarray(data.proba, dtype=np.float64), LOSS_FLOOR))
        self.data, self.y, self.n_classes = data, data.y, data.n_classes
        self.identity = np.append(np.zeros(self.n_classes), 1.0)
        self.weigh(data.each)

    def weigh(self, each: AnyFloatArray) -> None:
        """Set the counts of the rows."""
        self.total = float(each.sum())
        self.share = each / self.total
        own = self.x[np.arange(len(self.y)), self.y]
        counts = np.bincount(self.y, weights=self.share, minlength=self.n_classes)
        self.target = np.append(counts, self.share @ own)

    def evaluate(self, theta: AnyFloatArray) -> tuple[float, FloatArray]:
        """Mean log loss and the probabilities."""
        z = theta[-1] * self.x + theta[:-1]
        top = z.max(axis=1)
        z -= top[:, None]
        np.exp(z, out=z)
        sums = z.sum(axis=1)
        z /= sums[:, None]
        return float(self.share @ (top + np.log(sums)) - self.target @ theta), z

    def fit(self, *, means: bool = True, slope: bool = True, start: FloatArray | None = None) -> FloatArray:
        """Parameters with the smallest loss, penalised just enough to be finite; those not fitted stay as they are."""
        begin = self.identity if start is None else start
        free = np.flatnonzero(np.append(np.full(self.n_classes, means), slope))
        ridge = RIDGE / self.total

        def derivatives(moved: FloatArray) -> tuple[float, FloatArray, FloatArray]:
            theta = begin.copy()
            theta[free] = moved
            loss, p = self.evaluate(theta)
            off = theta - self.identity
            hessian, means = score_covariance(p, self.x, self.share)
            gradient = means - self.target + ridge * off
            hessian.flat[:: len(theta) + 1] += ridge
            return loss + 0.5 * ridge * float(off @ off), gradient[free], hessian[np.ix_(free, free)]

        def enough(at: NewtonMinimum) -> bool:
            return at.decrement <= _TOL

        found = begin.copy()
        found[free] = damped_newton(derivatives, begin[free], enough=enough, max_iter=100).theta
        return found

    def scores(self, theta: FloatArray) -> ScoreResiduals:
        """Scores of means and slope if the labels follow `softmax(b x + a)`."""
        return ScoreResiduals(self.data.with_values(self.evaluate(theta)[1], logs=False), self.x)


class SlopeScore:
    """Test of the slope, with fitted means: its score less what the means explain of it."""

    def __init__(self, scores: ScoreResiduals, *, fitted_means: bool = True) -> None:
        covariance = scores.covariance()
        among, across = covariance[:-1, :-1], covariance[:-1, -1]
        inverse = np.zeros_like(among)
        if fitted_means and np.trace(among) > _NOTHING:
            inverse = np.asarray(np.linalg.pinv(among, rcond=1e-10, hermitian=True), dtype=np.float64)
        explained = inverse @ across
        self.scores, self.direction = scores, np.append(-explained, 1.0)
        self.variance = max(float(covariance[-1, -1] - explained @ across), 0.0)
        #: Its variance with groups: that of their sums, or more where few groups could show their dependence.
        self.robust = self.variance
        if (data := scores.data).groups is not None:
            sums = scores.groups @ self.direction
            most = 0.0 if few_groups(scores) else np.inf  # as for p-values: no groups tell that there is less
            least = self.variance * design_effect(data, sums, self.variance, most)
            self.robust = max(least, float(sums @ sums) * data.n_groups / max(data.n_groups - 1, 1))
        self.curvature, self.bias = self._second_order(inverse)

    def _second_order(self, inverse: FloatArray) -> tuple[FloatArray, float]:
        """What fitting the means to the same labels adds to the score: a form in the means' scores, and its mean.

        A fit of the means moves them by `δ = V_aa⁺ g_a` and the score by `-½ δ' M δ`, where `M` is the sum over
        observations of `E r (e_y - p)(e_y - p)'`, `r` being the residual of the slope's score. On average this is of
        the order of the number of classes, times the design effect: it matters where groups are not many more.
        """
        proba, means = np.asarray(self.scores.data.proba, dtype=np.float64), self.direction[:-1]
        residual = self.scores.x + means - (proba @ means)[:, None]
        weighed = self.scores.data.each[:, None] * proba * residual
        across = weighed.T @ proba
        curvature = -0.5 * inverse @ (np.diag(weighed.sum(axis=0)) - across - across.T)
        effect = self.robust / self.variance if self.variance > _NOTHING else 1.0
        return curvature @ inverse, effect * float(np.trace(curvature))

    def signed(self) -> float:
        """The score in standard errors; zero where the predictions are so extreme that nothing can be told."""
        value = float(self.scores.observed @ self.direction) - self.bias
        return value / np.sqrt(self.robust) if self.variance > _NOTHING else 0.0

    def statistic(self, scores: AnyFloatArray) -> float:
        """The squared score, as a fit of the means to the same labels would leave it, over its variance."""
        value = float(scores @ self.direction + scores[:-1] @ self.curvature @ scores[:-1])
        return value**2 / self.variance if self.variance > _NOTHING else 0.0

    def cost(self) -> float:
        """Log loss that a fitted parameter costs on new rows: `1 / n`, and in groups the mean design effect of scores.

        The mean is over scores that do not depend on each other.
        """
        data = self.scores.data
        if data.groups is None:
            return 1.0 / data.total
        values, axes = np.linalg.eigh(self.scores.covariance())
        known = values > max(1e-10 * float(values[-1]), _NOTHING)
        sums = (self.scores.groups - self.scores.groups.mean(axis=0)) @ (axes[:, known] / np.sqrt(values[known]))
        effects = [design_effect(data, column, 1.0) for column in sums.T]
        return float(np.mean(effects)) / data.total if effects else 1.0 / data.units


def _part(gain: float, scores: ScoreResiduals, statistic: Callable[[AnyFloatArray], float], freedom: int) -> Part:
    found = drawn_or_tail(scores, statistic, freedom, name="score", kind="all classes")
    floor = found.n_resamples if scores.data.groups is not None else 0
    return Part(gain, found.p_value, found.statistic, floor)


@scalar(lower=-np.inf, refits=True)
def calibration_slope(data: Sample) -> Statistic:
    """Slope of the recalibrated log-probabilities: 1 is right, below 1 too extreme, above 1 too close to the average.

    The `b` of the best `softmax(b log p + a)`: for two classes the slope of a logistic regression of the label on the
    predicted log-odds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=20000)
    >>> y = rng.random(20000) < 1 / (1 + np.exp(-z))
    >>> round(calibration_slope(y, 1 / (1 + np.exp(-2 * z))), 1)
    0.5
    """
    model = LinearRecalibration(data)
    whole = model.fit()

    def slope(counts: AnyFloatArray) -> float:
        model.weigh(counts)
        return float(model.fit(start=whole)[-1])

    return slope


@limited
@describe_parameters
def miscalibration(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    recalibrated: ArrayLike | None = None,
    method: Method = None,
    cv: Folds = 5,
    random_state: int | None = 0,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    classes: Sequence[Label] | None = None,
) -> Miscalibration:
    """Tell apart wrong means, a wrong slope and the rest, by the log loss that correcting each would save.

    P-values and intervals hold if rows are independent, or groups if `groups` or `blocks` are given.

    Parameters
    ----------
    recalibrated : array-like of shape (n, k), optional
        The same predictions after recalibration by calibrators that did not see the row, if there are any already.
    level : float, default=0.95
        Confidence level of the slope's interval and of the class frequencies'.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import miscalibration
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=5000) - 4
    >>> found = miscalibration(rng.random(5000) < 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(-z - 2)))
    >>> found.largest, found.means.p_value < 0.001, found.slope.p_value > 0.05
    ('means', True, True)
    """
    data = check_sample(y_true, y_prob, sample_weight, classes, groups=groups, blocks=blocks)
    if recalibrated is None:
        after = recalibrate(data, method, cv, random_state)
    else:
        after = check_sample(y_true, recalibrated, sample_weight, classes)
    return separate(data, after, level)


def separate(data: Sample, after: Sample, level: float = 0.95) -> Miscalibration:
    """The parts of validated predictions, given the same rows after cross-validated recalibration."""
    model = LinearRecalibration(data)
    k = data.n_classes
    shifted = model.fit(slope=False)
    tilted = model.fit(start=shifted)
    fits = [model.identity, shifted, model.fit(means=False), tilted]
    # Losses as the metric has them, bounded for a probability of zero, so that the parts add up to what is saved.
    fitted = [data.with_values(model.evaluate(theta)[1], logs=False) for theta in fits]
    losses = [float(data.each @ log_loss_rows(part)) / data.total for part in fitted]
    of_slope = SlopeScore(model.scores(shifted))
    costs = [loss + q * of_slope.cost() for loss, q in zip(losses, (0, k - 1, 1, k))]
    best = int(np.argmin(costs))
    # Shifts that save nothing by themselves serve the slope, which would move the means of rare classes.
    saved_by_means = max(costs[0] - costs[1], 0.0) if best in (1, 3) else 0.0
    asis = model.scores(model.identity)
    inverse = np.linalg.pinv(asis.covariance()[:-1, :-1], rcond=1e-10, hermitian=True)
    linear = fitted[best]
    saved = log_loss_rows(linear) + (costs[best] - losses[best]) - log_loss_rows(after)
    return Miscalibration(
        _part(saved_by_means, asis, lambda scores: float(scores[:-1] @ inverse @ scores[:-1]), k - 1),
        _part(costs[0] - costs[best] - saved_by_means, of_slope.scores, of_slope.statistic, 1),
        _test_rest(saved, linear, after, fitted_means=best in (1, 3)),
        slope_interval(model, tilted, level),
        shifted[:-1] - shifted[:-1].mean(),
        class_frequencies(data, level),
    )


def _test_rest(saved: AnyFloatArray, linear: Sample, after: Sample, *, fitted_means: bool) -> Part:
    """One-sided t-test of the mean of what is saved, if a test that knows of rare outcomes does not contradict it.

    No row may show an outcome that would cost what all other rows save. So labels are drawn from the best means and
    slope, `linear`: the p-value is at least that of their score in the direction of `after`.
    """
    gain, units = float(linear.each @ saved) / linear.total, linear.units
    variance = float(linear.sum_variance(saved - gain))
    if linear.groups is None:
        variance *= units / max(units - 1.0, 1e-9)
    deviation = np.sqrt(variance) / linear.total
    if deviation <= 0:
        return Part(gain, 1.0, 0.0)
    p_value = float(stdtr(max(units - 1.0, 1.0), -gain / deviation))
    before, then = (np.log(np.maximum(part.proba, LOSS_FLOOR), dtype=np.float64) for part in (linear, after))
    step = SlopeScore(ScoreResiduals(linear, then - before), fitted_means=fitted_means)

    def above(scores: AnyFloatArray) -> float:
        return step.statistic(scores) if scores @ step.direction > 0 else 0.0

    drawn = _part(gain, step.scores, above, 1)
    return Part(gain, max(p_value, drawn.p_value), gain / deviation, drawn.n_resamples)


def slope_interval(model: LinearRecalibration, fitted: FloatArray, level: float) -> Estimate:
    """The slopes that the score test does not reject, with means fitted to each."""
    data, slope = model.data, float(fitted[-1])
    quantile = float(ndtri((1 + level) / 2))
    if data.groups is not None:
        quantile = float(stdtrit(max(data.units - data.n_classes, 1.0), (1 + level) / 2))
    here = SlopeScore(model.scores(fitted))
    error = np.sqrt(max(here.robust, _NOTHING)) / max(here.variance, _NOTHING)

    def beyond(b: float, sign: float) -> float:
        """How much farther than the quantile the score at slope `b` is; positive outside of the interval."""
        at = model.fit(slope=False, start=np.append(fitted[:-1], b))
        return sign * SlopeScore(model.scores(at)).signed() - quantile

    ends = []
    for sign in (1.0, -1.0):  # the score is positive below the fitted slope
        near, step = slope, quantile * error
        if sign * here.signed() >= quantile:  # so few observations that the fitted slope is mostly bias
            ends.append(slope)
            continue
        far = slope - sign * step
        while (value := beyond(far, sign)) < 0 and abs(far - slope) < _FARTHEST * step:
            near, far = far, slope + 2.0 * (far - slope)
        ends.append(far if value < 0 else float(brentq(beyond, near, far, args=(sign,), xtol=1e-6 * step)))
    return Estimate(slope, min(ends), max(ends), level)
