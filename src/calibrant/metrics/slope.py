"""What kind of miscalibration it is: wrong means, wrong slope, or something else.

Recalibrations of `x = log p` are compared by their log loss: none; `softmax(x + a)`, which corrects how often each
class is predicted; `softmax(b x)`, for predictions that are too extreme (`b < 1`) or too timid (`b > 1`); and both.
With `q` parameters fitted to `n` rows, the drop of log loss on new rows is that on these rows less `q / n`, and `2 n`
times the latter follows `χ²` with `q` degrees of freedom if the parameters are not needed. The best of the four is what
means and slope account for; what a flexible calibrator gains beyond it, on rows it was not fitted to, is the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import chdtrc, ndtr, ndtri

from calibrant.docs import describe_parameters
from calibrant.metrics.frequencies import ClassFrequencies, class_frequencies
from calibrant.metrics.inputs import Forecasts, check_predictions
from calibrant.metrics.intervals import Estimate
from calibrant.metrics.losses import log_loss_rows
from calibrant.metrics.recalibration import recalibrate
from calibrant.metrics.scalars import Statistic, scalar
from calibrant.simplex import LOSS_FLOOR
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray

#: Penalty, in nats in total, of the squared coefficients: too small to be seen unless they would be infinite.
RIDGE = 1e-3


class Part(NamedTuple):
    """Log loss on new rows that a kind of recalibration would save, and the p-value of there being none to save."""

    gain: float
    p_value: float


@dataclass(frozen=True)
class Miscalibration:
    """How much log loss is lost to wrong means, to a wrong slope and to the rest.

    Attributes
    ----------
    means, slope, rest : Part
        What each kind of recalibration saves after the ones before it, with `gain` and `p_value`; means and slope
        save nothing where they would cost more than they bring. They add up to the calibration part of log loss.
    fitted_slope : Estimate
        `b`: 1 for calibrated predictions, less if they are too extreme, more if they are too timid.
    intercepts : ndarray of shape (k,)
        `a` at slope 1, with mean 0: positive for classes that occur more often than predicted. For two classes the
        difference of the two is the shift of the log-odds.
    frequencies : ClassFrequencies
        Expected and observed count of every class.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import miscalibration
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p**2).astype(int)  # predicted too often
    >>> miscalibration(y, p).largest
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

    def __init__(self, data: Forecasts) -> None:
        # The floor of the log loss: what is saved is then measured on one scale.
        self.x = np.log(np.maximum(np.asarray(data.proba, dtype=np.float64), LOSS_FLOOR))
        self.y = data.y
        self.n_classes = data.n_classes
        self.weigh(data.weight)

    def weigh(self, weight: AnyFloatArray | None) -> None:
        """Set the weights of the rows."""
        weight = np.ones(len(self.y)) if weight is None else weight
        self.total = float(weight.sum())
        self.share = weight / self.total
        own = self.x[np.arange(len(self.y)), self.y]
        counts = np.bincount(self.y, weights=self.share, minlength=self.n_classes)
        self.target = np.append(counts, self.share @ own)
        self._at: tuple[bytes, float, AnyFloatArray] | None = None

    def evaluate(self, theta: AnyFloatArray) -> tuple[float, AnyFloatArray]:
        """Mean log loss and the probabilities."""
        key = theta.tobytes()
        if self._at is None or self._at[0] != key:
            z = theta[-1] * self.x + theta[:-1]
            top = z.max(axis=1)
            z -= top[:, None]
            np.exp(z, out=z)
            sums = z.sum(axis=1)
            z /= sums[:, None]
            self._at = key, float(self.share @ (top + np.log(sums)) - self.target @ theta), z
        return self._at[1], self._at[2]

    def fit(self, free_slope: bool, start: AnyFloatArray | None = None, *, free_means: bool = True) -> AnyFloatArray:
        """Parameters with the smallest loss, penalised just enough to be finite."""
        identity = np.append(np.zeros(self.n_classes), 1.0)
        moves = np.append(np.full(self.n_classes, float(free_means)), float(free_slope))
        ridge = RIDGE / self.total

        def objective(theta: AnyFloatArray) -> tuple[float, AnyFloatArray]:
            loss, p = self.evaluate(theta)
            mass = self.share @ p
            spread = float(self.share @ np.einsum("ij,ij->i", p, self.x))
            gradient = np.append(mass, spread) - self.target + ridge * (theta - identity)
            return loss + 0.5 * ridge * float(np.sum((theta - identity) ** 2)), moves * gradient

        def curvature(theta: AnyFloatArray, direction: AnyFloatArray) -> AnyFloatArray:
            return moves * self.curvature(theta, moves * direction) + ridge * direction

        found = minimize(
            objective,
            identity if start is None else start,
            jac=True,
            hessp=curvature,
            method="trust-ncg",
            options={"gtol": 1e-9, "maxiter": 200},
        )
        return np.asarray(found.x, dtype=np.float64)

    def curvature(self, theta: AnyFloatArray, direction: AnyFloatArray) -> AnyFloatArray:
        """The Hessian of the loss times a direction."""
        p = self.evaluate(theta)[1]
        d = direction[:-1] + direction[-1] * self.x
        d -= np.einsum("ij,ij->i", p, d)[:, None]
        d *= p
        return np.append(self.share @ d, float(self.share @ np.einsum("ij,ij->i", d, self.x)))

    def slope_error(self, theta: AnyFloatArray) -> float:
        """Standard error of the slope from the curvature, with the intercepts fitted along with it."""
        basis = np.eye(len(theta))
        hessian = np.array([self.curvature(theta, row) for row in basis]) + RIDGE / self.total * basis
        return float(np.sqrt(np.linalg.inv(hessian)[-1, -1] / self.total))


@scalar("calibration_slope", lower=-np.inf)
def calibration_slope(data: Forecasts) -> Statistic:
    """Slope of the recalibrated log-probabilities: 1 is right, below 1 too extreme, above 1 too timid.

    The `b` of the best `softmax(b log p + a)`: for two classes the slope of a logistic regression of the label on the
    predicted log-odds.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import calibration_slope
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=20000)
    >>> y = rng.random(20000) < 1 / (1 + np.exp(-z))
    >>> round(calibration_slope(y, 1 / (1 + np.exp(-2 * z))), 1)
    0.5
    """
    model = LinearRecalibration(data)
    whole = model.fit(free_slope=True)

    def slope(weight: AnyFloatArray | None) -> float:
        model.weigh(weight)
        return float(model.fit(free_slope=True, start=whole)[-1])

    return slope


@limited
@describe_parameters
def miscalibration(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    recalibrated: ArrayLike | None = None,
    calibrator: Any = None,
    cv: Any = 5,
    random_state: int | None = 0,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
) -> Miscalibration:
    """Tell apart wrong means, a wrong slope and the rest, by the log loss that correcting each would save.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights, read as counts.
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
    data = check_predictions(y_true, y_prob, sample_weight, classes)
    if recalibrated is None:
        after = recalibrate(data, calibrator, cv, random_state)
    else:
        after = check_predictions(y_true, recalibrated, sample_weight, classes)
    return separate(data, after, level)


def separate(data: Forecasts, after: Forecasts, level: float = 0.95) -> Miscalibration:
    """The parts of validated predictions, given the same rows after cross-validated recalibration."""
    model = LinearRecalibration(data)
    n, k = model.total, data.n_classes
    identity = np.append(np.zeros(k), 1.0)
    shifted = model.fit(free_slope=False)
    tilted = model.fit(free_slope=True, start=shifted)
    fits = [identity, shifted, model.fit(free_slope=True, free_means=False), tilted]
    losses = [model.evaluate(theta)[0] for theta in fits]
    costs = [loss + q / n for loss, q in zip(losses, (0, k - 1, 1, k))]
    best = int(np.argmin(costs))
    # Shifts that save nothing by themselves serve the slope, which would move the means of rare classes.
    saved_by_means = max(costs[0] - costs[1], 0.0) if best in (1, 3) else 0.0
    gains = saved_by_means, costs[0] - costs[best] - saved_by_means
    means, slopes = (
        Part(gain, float(chdtrc(q, 2 * n * max(drop, 0.0))))
        for gain, q, drop in zip(gains, (k - 1, 1), (losses[0] - losses[1], losses[1] - losses[3]))
    )
    error = model.slope_error(tilted) * float(ndtri((1 + level) / 2))
    slope = float(tilted[-1])
    rows = -np.log(np.maximum(model.evaluate(fits[best])[1][np.arange(data.n_rows), data.y], LOSS_FLOOR))
    saved = rows + (costs[best] - losses[best]) - log_loss_rows(after)
    gain = float(model.share @ saved)
    deviation = float(np.sqrt(model.share @ (saved - gain) ** 2 / n))
    rest = Part(gain, float(ndtr(-gain / deviation)) if deviation > 0 else float(gain <= 0))
    return Miscalibration(
        means,
        slopes,
        rest,
        Estimate(slope, slope - error, slope + error, level),
        shifted[:-1] - shifted[:-1].mean(),
        class_frequencies(data, level),
    )
