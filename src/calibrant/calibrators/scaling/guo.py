"""Temperature scaling as it was first published: L-BFGS on the temperature, with a fixed step length.

Fifty iterations from T = 1.5 with learning rate 0.01 and no line search often end far from the optimum; that is
part of what the literature compares with. `TemperatureScalingCalibrator` reaches the optimum.
"""

from __future__ import annotations

import numpy as np

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.parameters import Positive, PositiveInt
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.steps import Log, Scale, Softmax, Step

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
