"""Temperature scaling as it was first published, and ensemble temperature scaling (ETS).

- The first publication ran L-BFGS on the temperature with a fixed step length: fifty iterations from T = 1.5 with
  learning rate 0.01 and no line search often end far from the optimum; that is part of what the literature compares
  with. `TemperatureScalingCalibrator` reaches the optimum.
- ETS mixes temperature scaling, the unchanged predictions, and the uniform law: ``w₁ S(x/T) + w₂ S(x) + w₃/k`` with
  weights on the simplex. T is fitted first, then the weights: a convex problem in three numbers, for the Brier score a
  quadratic one that is solved exactly.
"""

from __future__ import annotations

import itertools
from typing import Literal

import numpy as np
from scipy.optimize import minimize

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.parameters import Positive, PositiveInt
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.simplex import softmax
from calibrant.softmax.inverse_temperature import fit_inverse_temperature
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.steps import Log, Scale, Softmax, Step, Sum
from calibrant.typing import FloatArray, IntArray

#: Where the iteration stops: gradient, and change of the temperature or of the loss.
_GRADIENT_TOLERANCE = 1e-7
_CHANGE_TOLERANCE = 1e-9

#: The smallest temperature, by absolute value, that is ever divided by.
_SMALLEST = 1e-6


class GuoTemperatureScalingCalibrator(Calibrator):
    """Temperature scaling by the algorithm of its first publication.

    Parameters
    ----------
    start : float, default=1.5
        First temperature.
    learning_rate : float, default=0.01
        Length of a step, as a share of the L-BFGS step.
    max_iter : int, default=50
        Number of iterations.

    Attributes
    ----------
    temperature_ : float
        Where the iteration ended.
    n_iter_ : int
        Number of iterations.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger. On calibration of modern neural networks. ICML 2017.

    Examples
    --------
    >>> from calibrant.calibrators import GuoTemperatureScalingCalibrator
    >>> p = [[0.9, 0.1]] * 4 + [[0.1, 0.9]] * 4  # claims 0.9, is right 3 times in 4
    >>> calibrator = GuoTemperatureScalingCalibrator().fit(p, [0, 0, 0, 1, 1, 1, 1, 0])
    >>> round(calibrator.temperature_, 3)  # the optimum is 2
    1.624
    """

    start: Positive = 1.5
    learning_rate: Positive = 0.01
    max_iter: PositiveInt = 50

    def _fit(self, sample: Sample) -> None:
        problem = ArrayProblem(sample.y, np.ascontiguousarray(sample.x.T), weight=sample.counts)

        def evaluate(temperature: float) -> tuple[float, float]:
            """Mean log loss and its derivative."""
            loss, slope, _ = problem.scaled(1.0 / temperature)
            return loss, -slope / temperature**2

        temperature, rate = float(self.start), float(self.learning_rate)
        loss, gradient = evaluate(temperature)
        inverse_curvature = 1.0
        self.n_iter_ = 0
        if abs(gradient) > _GRADIENT_TOLERANCE:
            for iteration in range(int(self.max_iter)):
                self.n_iter_ = iteration + 1
                # In one dimension the L-BFGS direction is the secant step of the last two points.
                direction = -gradient * inverse_curvature
                length = min(1.0, 1.0 / abs(gradient)) * rate if iteration == 0 else rate
                if gradient * direction > -_CHANGE_TOLERANCE:
                    break
                move = length * direction
                temperature += move
                if abs(temperature) < _SMALLEST:
                    temperature = _SMALLEST
                if iteration == int(self.max_iter) - 1:
                    break
                previous_loss, previous_gradient = loss, gradient
                loss, gradient = evaluate(temperature)
                change = gradient - previous_gradient
                if move * change > 1e-10:
                    inverse_curvature = move / change
                if (
                    abs(gradient) <= _GRADIENT_TOLERANCE
                    or abs(move) <= _CHANGE_TOLERANCE
                    or abs(loss - previous_loss) < _CHANGE_TOLERANCE
                ):
                    break
        self.temperature_ = temperature

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.require(abs(state.number("temperature_")) >= _SMALLEST, "temperature_ is zero")
        state.information("n_iter_")

    def steps(self) -> list[Step]:
        return [Log(), Scale(1.0 / self.temperature_), Softmax()]


#: The temperature lies between 0.05 and 5, as in the authors' implementation.
_BOUNDS = (0.2, 20.0)

#: Probabilities are floored here in the log loss of the mixture.
_FLOOR = 1e-20


class ETSCalibrator(Calibrator):
    """Ensemble temperature scaling.

    Parameters
    ----------
    loss : {"brier", "log"}, default="brier"
        What temperature and weights minimise.

    Attributes
    ----------
    inverse_temperature_ : float
        One over the temperature.
    weights_ : ndarray of shape (3,)
        Of temperature scaling, of the unchanged predictions, and of the uniform distribution.

    References
    ----------
    J. Zhang, B. Kailkhura and T. Y.-J. Han. Mix-n-match: ensemble and compositional methods for uncertainty
    calibration in deep learning. ICML 2020.

    Examples
    --------
    >>> from calibrant.calibrators import ETSCalibrator
    >>> p = [[0.9, 0.1]] * 4 + [[0.1, 0.9]] * 4  # claims 0.9, is right 3 times in 4
    >>> calibrator = ETSCalibrator().fit(p, [0, 0, 0, 1, 1, 1, 1, 0])
    >>> calibrator.predict_proba([[0.9, 0.1]]).round(6)
    array([[0.75, 0.25]])
    """

    loss: Literal["brier", "log"] = "brier"

    def _fit(self, sample: Sample) -> None:
        x, y, share = sample.x, sample.y, sample.each / sample.total
        if self.loss == "log":
            alpha, _ = fit_inverse_temperature(np.ascontiguousarray(x.T), y, sample.counts)
        else:
            alpha = _fit_brier(x, y, share)
        self.inverse_temperature_ = float(np.clip(alpha, *_BOUNDS))
        scaled, raw = softmax(self.inverse_temperature_ * x), softmax(x)
        rows, k = np.arange(len(y)), x.shape[1]
        hit = np.column_stack([scaled[rows, y], raw[rows, y], np.full(len(y), 1.0 / k)])
        if self.loss == "log":
            self.weights_ = _log_weights(hit, share)
        else:
            gram = np.full((3, 3), 1.0 / k)  # every distribution has the same product with the uniform one
            gram[0, 0], gram[1, 1] = (float(share @ (p * p).sum(axis=1)) for p in (scaled, raw))
            gram[0, 1] = gram[1, 0] = float(share @ (scaled * raw).sum(axis=1))
            self.weights_ = _simplex_least_squares(gram, share @ hit)

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.number("inverse_temperature_")
        weights = state.array("weights_", 3, low=0.0, high=1.0 + 1e-9)
        state.require(abs(weights.sum() - 1.0) < 1e-6, "weights_ do not sum to one")

    def steps(self) -> list[Step]:
        scaled, kept, uniform = map(float, self.weights_)
        return [
            Log(),
            Sum(
                (
                    [Scale(self.inverse_temperature_), Softmax(), Scale(scaled, uniform / len(self.classes_))],
                    [Softmax(), Scale(kept)],
                )
            ),
        ]


def _fit_brier(x: FloatArray, y: IntArray, share: FloatArray) -> float:
    """The inverse temperature of least Brier score, from 1 downhill."""
    rows = np.arange(len(y))

    def value(parameter: FloatArray) -> tuple[float, FloatArray]:
        alpha = float(np.exp(parameter[0]))
        p = softmax(alpha * x)
        moment = p * (x - np.einsum("nk,nk->n", p, x)[:, None])  # the derivative of p by alpha
        p[rows, y] -= 1.0
        score = float(share @ np.einsum("nk,nk->n", p, p))
        slope = 2.0 * float(share @ np.einsum("nk,nk->n", p, moment))
        return score, np.array([alpha * slope])

    low, high = np.log(_BOUNDS)
    result = minimize(
        value,
        np.zeros(1),
        jac=True,
        method="L-BFGS-B",
        bounds=[(low, high)],
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    return float(np.exp(result.x[0]))


def _simplex_least_squares(gram: FloatArray, right: FloatArray) -> FloatArray:
    """The minimiser of ``w G w - 2 w r`` on the simplex: the best of the optima of all its faces."""
    best, least = np.zeros(3), np.inf
    for size in (1, 2, 3):
        for face in itertools.combinations(range(3), size):
            index = list(face)
            system = np.zeros((size + 1, size + 1))
            system[:size, :size] = gram[np.ix_(index, index)]
            system[:size, size] = system[size, :size] = 1.0
            w = np.zeros(3)
            w[index] = np.linalg.lstsq(system, np.append(right[index], 1.0), rcond=1e-12)[0][:size]
            value = float(w @ gram @ w - 2.0 * w @ right)
            if w.min() >= 0.0 and value < least - 1e-15:
                best, least = w, value
    return best / best.sum()


def _log_weights(hit: FloatArray, share: FloatArray) -> FloatArray:
    """The mixture weights of least log loss, given each part's probability of the label."""

    def value(w: FloatArray) -> tuple[float, FloatArray]:
        p = np.maximum(hit @ w, _FLOOR)
        return -float(share @ np.log(p)), -((share / p) @ hit)

    def excess(w: FloatArray) -> float:
        return float(w.sum()) - 1.0

    def slopes(w: FloatArray) -> FloatArray:
        return np.ones_like(w)

    result = minimize(
        value,
        np.array([0.98, 0.01, 0.01]),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * 3,
        constraints={"type": "eq", "fun": excess, "jac": slopes},
        options={"ftol": 1e-14, "maxiter": 200},
    )
    w = np.clip(result.x, 0.0, 1.0)
    return np.asarray(w / w.sum(), dtype=np.float64)
