"""Temperature scaling ``S(α log p)``, with Laplace smoothing of the output and a learned mixture of the input.

Exact zeros and ones of forests and of rounded softmax outputs become leverage points of enormous weight once they are
logarithms. Mixing the *input* with the uniform distribution, ``p' = (1 − u) p + u / k``, removes that weight; `u` is
learned together with the temperature by the likelihood of the calibration data.
"""

from __future__ import annotations

import numpy as np

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.parameters import InputSmoothing
from calibrant.calibrators.probability_intervals import LogitModel
from calibrant.calibrators.rows_calibrator import RowsCalibrator
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.simplex import laplace_weight
from calibrant.softmax.delta_method import temperature_variance
from calibrant.softmax.rows.row_source import ArrayRows, Features, Rows
from calibrant.steps import Log, Mix, Scale, Softmax, Step
from calibrant.typing import FloatArray

#: The prior of `fit_inverse_temperature`: log α has a standard deviation of 2, which a few errors outweigh.
WEAK_PRIOR = 0.25
#: The weights of the uniform distribution tried by ``input_smoothing="auto"``.
_MIXTURE_WEIGHTS = (0.0, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)


def _mixture_weights(rows: Rows, input_smoothing: InputSmoothing) -> tuple[float, ...]:
    """The mixture weights of the input to choose from."""
    if input_smoothing == "auto":
        return _MIXTURE_WEIGHTS
    return (laplace_weight(rows.total_weight) if input_smoothing == "laplace" else float(input_smoothing or 0.0),)


def learn_input_weight(rows: Rows, input_smoothing: InputSmoothing) -> float:
    """The mixture weight of the input alone: a temperature is learned with it only if there is a choice."""
    weights = _mixture_weights(rows, input_smoothing)
    return weights[0] if len(weights) == 1 else learn_temperature(rows, input_smoothing)[1]


def learn_temperature(rows: Rows, input_smoothing: InputSmoothing, prior: float = 0.0) -> tuple[float, float, float]:
    """Inverse temperature, mixture weight of the input, and the minimum they reach.

    `prior` and the minimum, the mean log loss without a prior, are those of `fit_inverse_temperature`.
    """
    candidates = _mixture_weights(rows, input_smoothing)
    best = (1.0, 0.0, np.inf)
    for u, (alpha, loss) in zip(candidates, rows.inverse_temperatures(candidates, prior), strict=True):
        if loss < best[2]:
            best = (alpha, u, loss)
    return best


def mixed_logs(weight: float) -> list[Step]:
    """The steps from probabilities to logarithms of their mixture with the uniform distribution."""
    return [Mix(weight), Log()] if weight else [Log()]


class ScalesFirst(Calibrator):
    """Base of temperature scaling and of what is fitted on top of it.

    Attributes
    ----------
    inverse_temperature_, input_smoothing_ : float
        Of the temperature scaling underneath.
    """

    def _learn_scaling(self, rows: Rows, input_smoothing: InputSmoothing, prior: float = 0.0) -> float:
        """Learn temperature and mixture of the input, smooth the output; returns the mean log loss before that."""
        self.inverse_temperature_, self.input_smoothing_, loss = learn_temperature(rows, input_smoothing, prior)
        self._output_smoothing = laplace_weight(rows.total_weight)
        return loss

    def _temperature_scaled(self) -> list[Step]:
        """The steps from probabilities p to ``(1 − s) S(α log p') + s / k``."""
        smooth = [Mix(self._output_smoothing)] if self._output_smoothing else []
        return [*mixed_logs(self.input_smoothing_), Scale(self.inverse_temperature_), Softmax(), *smooth]

    def _scaling(self) -> list[Step]:
        """The steps to temperature-scaled log-probabilities."""
        return [*self._temperature_scaled(), Log()]

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.number("inverse_temperature_", low=0.0)
        for share in ("input_smoothing_", "_output_smoothing"):
            state.number(share, 0.0, 1.0)


def _own_logits(x: FloatArray) -> Features:
    return Features(x.T, own=x.T[None])


class TemperatureScalingCalibrator(RowsCalibrator, ScalesFirst, kw_only=False):
    """Temperature scaling: one parameter that makes all predictions more or less confident.

    Parameters
    ----------
    smoothing : bool, default=True
        Laplace smoothing of the output: after `n` calibration rows the result is mixed with the uniform
        distribution by the weight ``1 / (n + 1)``, which keeps the loss finite when every row was right.
    input_smoothing : float in [0, 1), "auto", "laplace" or None, default=None
        Weight of the uniform distribution mixed into the input before logarithms are taken, which rescues models that
        predict exact zeros, such as random forests. ``"auto"`` learns it with the temperature, ``"laplace"`` is
        ``1 / (n + 1)`` for `n` calibration rows.

    Attributes
    ----------
    inverse_temperature_ : float
        Below one for an over-confident model.
    input_smoothing_ : float
        The weight of the uniform distribution in the input.
    objective_ : float
        Mean log loss on the calibration data, before smoothing of the output.

    References
    ----------
    Guo et al., "On calibration of modern neural networks", ICML 2017; Berta et al., "Rethinking early stopping:
    refine, then calibrate", 2025 (smoothing).

    Examples
    --------
    >>> from calibrant import TemperatureScalingCalibrator
    >>> p = [[0.9, 0.1]] * 4 + [[0.1, 0.9]] * 4  # claims 0.9, is right 3 times in 4
    >>> ts = TemperatureScalingCalibrator().fit(p, [0, 0, 0, 1, 1, 1, 1, 0])
    >>> round(ts.inverse_temperature_, 3)
    0.5
    >>> ts.predict_proba([[0.9, 0.1]]).round(3)
    array([[0.722, 0.278]])
    """

    smoothing: bool = True
    input_smoothing: InputSmoothing = None

    @property
    def beta_(self) -> float:
        """`inverse_temperature_`, as scikit-learn calls it."""
        return self.inverse_temperature_

    def _fit_rows(self, rows: Rows) -> None:
        self.objective_ = self._learn_scaling(rows, self.input_smoothing)
        if not self.smoothing:
            self._output_smoothing = 0.0

    def _coefficient_covariance(self, sample: Sample) -> FloatArray:
        rows = ArrayRows(sample).mapped(mixed_logs(self.input_smoothing_))
        return temperature_variance(rows.problem(_own_logits), self.inverse_temperature_, sample)

    def _logit_model(self) -> LogitModel:
        return LogitModel(len(mixed_logs(self.input_smoothing_)), int(self._output_smoothing > 0.0), _own_logits)

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.information("objective_")

    def steps(self) -> list[Step]:
        return self._temperature_scaled()
