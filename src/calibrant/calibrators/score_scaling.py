"""Scores of any direction and scale as logits: ``z = factor * score + shift``, found from the scores and their labels.

Margins, credit scores, distances and rerankers' outputs have neither a known unit nor a known sign, and methods that
shrink towards their input, or cut off log-probabilities below -87, need one. A single column is put on a robust scale
(median and quartiles) and then on that of log-odds, by a logistic regression with Platt's targets; columns of several
classes share one factor, an inverse temperature. Any affine change of the scores gives the same logits.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from calibrant.bins import quantiles
from calibrant.calibrators.binary.logistic_fit import fit_logistic, sigmoid
from calibrant.inputs.words import CalibrationWarning
from calibrant.sample import Sample
from calibrant.simplex import log_softmax
from calibrant.softmax.inverse_temperature import fit_inverse_temperature
from calibrant.steps import Scale
from calibrant.typing import FloatArray

#: What `input` may be for scores, and the sign of their effect (0: to be found).
DIRECTIONS = {"scores": 0, "rising-scores": 1, "falling-scores": -1}
#: Robust units beyond which a score counts as if it were there, so that a code such as -9999 decides nothing.
_FAR = 10.0
#: The smallest slope per robust unit: scores that say nothing still keep their order.
_FLATTEST = 0.01
#: Logits stay below this, but for one row in a thousand: log-probabilities below -87 are cut off.
_LARGEST_LOGIT, _BEYOND = 60.0, 1e-3
#: Twice the log-likelihood that a direction is ahead of none: chance does so once in a hundred fits.
_CLEAR = 6.63


class ScoreScale(NamedTuple):
    """``z = factor * score + shift``, and the direction that the labels clearly show, 0 if none."""

    factor: float
    shift: float
    direction: int = 0

    def step(self, n_columns: int, k: int) -> Scale:
        """What is done to a row of scores; to a single score behind a zero."""
        if n_columns > 1:
            return Scale(np.full(k, self.factor), np.zeros(k))
        return Scale(np.array([1.0, self.factor]), np.array([0.0, self.shift]))


def find_scale(sample: Sample, direction: int = 0) -> ScoreScale:
    """The scale of labelled scores, the values of `sample`: one column, that of the second class, or one per class.

    `direction` is the sign of the factor; 0 makes it positive unless the labels clearly say otherwise.
    """
    scores, weight = sample.values, sample.counts
    single = scores.shape[1] == 1
    centred = scores if single else scores - scores.mean(axis=1, keepdims=True)
    spread_weight = weight if weight is None or single else np.repeat(weight, scores.shape[1])
    low, middle, high = quantiles(centred.ravel(), spread_weight, np.array([0.25, 0.5, 0.75]))
    middle = middle if single else 0.0
    unit = float(high - low) or float(np.abs(centred - middle).max()) or 1.0
    u = np.clip((centred - middle) / unit, -_FAR, _FAR)
    slope, shift, evidence = (_one_column if single else _several_columns)(u, sample)
    clear = int(np.sign(slope)) if evidence >= _CLEAR else 0
    slope = max(abs(slope), _FLATTEST) * (direction or clear or 1)
    z = np.abs(slope * (centred - middle) / unit)
    level = 1.0 - max(_BEYOND, 1.0 / max(sample.total - 1.0, 1.0))
    most = float(quantiles(z.max(axis=1), weight, np.array([level]))[0])
    slope *= min(1.0, _LARGEST_LOGIT / most) if most > 0.0 else 1.0
    factor = float(slope / unit)
    return ScoreScale(factor, float(shift - factor * middle) if single else 0.0, clear)


def warn_of_direction(given: int, found: int) -> None:
    """Warn that the direction of scores could not be found, or that the labels clearly say another than was given."""
    if not given and not found:
        warnings.warn(
            "The labels do not show whether high scores make a class more or less likely: more likely was assumed. "
            "If you know the direction, pass input='rising-scores' or input='falling-scores'.",
            CalibrationWarning,
            stacklevel=5,
        )
    elif given * found < 0:
        said, other = ("rising", "low") if given > 0 else ("falling", "high")
        warnings.warn(
            f"The scores were said to be {said}, but in these rows {other} scores make a class more likely. If that "
            "is no accident, pass input='scores', which finds the direction.",
            CalibrationWarning,
            stacklevel=5,
        )


def _one_column(u: FloatArray, sample: Sample) -> tuple[float, float, float]:
    """Slope and intercept of the log-odds of the second class, and the evidence for the slope."""
    positive, weight = sample.y == 1, sample.each
    n = float(weight @ positive), float(weight @ ~positive)
    target = np.where(positive, (n[0] + 1.0) / (n[0] + 2.0), 1.0 / (n[1] + 2.0))
    features = np.vstack([u[:, 0], np.ones(len(u))])
    if np.all(u == u[0]):
        mean = float(weight @ target) / sample.total
        return 0.0, float(np.log(mean / (1.0 - mean))), 0.0
    slope, shift = fit_logistic(features, target, sample.counts).tolist()

    def fits(p: FloatArray | float) -> float:
        return float(weight @ (target * np.log(p) + (1.0 - target) * np.log1p(-np.asarray(p))))

    p = np.clip(sigmoid(slope * features[0] + shift), 1e-300, 1.0 - 1e-16)
    return slope, shift, 2.0 * (fits(p) - fits(float(weight @ target) / sample.total))


def _several_columns(u: FloatArray, sample: Sample) -> tuple[float, float, float]:
    """The inverse temperature of the better direction, with its sign, and the evidence for a slope."""
    x = np.ascontiguousarray(u.T)
    rising, falling = (fit_inverse_temperature(sign * x, sample.y, sample.counts, prior=1.0) for sign in (1.0, -1.0))
    slope = rising[0] if rising[1] <= falling[1] else -falling[0]
    # Against none, not against the other direction: the prior keeps both away from zero, and one is always ahead.
    fit = log_softmax(slope * u)[np.arange(len(u)), sample.y]
    return slope, 0.0, 2.0 * float(sample.each @ (fit + np.log(u.shape[1])))
