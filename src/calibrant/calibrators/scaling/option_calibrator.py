"""Temperature, position and length: one map for questions with any number of options.

The logit of option j of question i is ``α x_ij + b_j + γ l_ij`` for its log-probability x and its length l. The inverse
temperature α, the bias b of each position and the price γ of a character are shared by all questions and found by one
softmax regression, with a ridge that pulls towards the unchanged predictions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.parameters import NotNegative
from calibrant.calibrators.state import StateCheck
from calibrant.inputs.answers import Answers
from calibrant.runtime import Map
from calibrant.sample import Sample
from calibrant.simplex import softmax
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.solvers.searches import Answer, damped_newton
from calibrant.steps import Columns, Log, Scale, Softmax, Step, Sum
from calibrant.threads import limit
from calibrant.typing import AnyArray, FloatArray

#: Ridge strengths beside the sum of the losses, as of Gaussian priors: a standard deviation of 2 of the inverse
#: temperature, of 0.5 of the bias of a position, and of 2 of an option that is longer by one standard deviation.
_TEMPERATURE, _POSITION, _LENGTH = 0.25, 4.0, 0.25
#: The logit of an option that is not there.
_ABSENT = -1e6
#: Newton's method stops when a step promises less than this share of the loss; that step is still taken.
_ENOUGH = 1e-13


class OptionCalibrator(Calibrator, kw_only=False):
    """Temperature, bias by position and bias by length, for questions with different numbers of options.

    Parameters
    ----------
    position : bool or "auto", default="auto"
        Learn a bias for each position: models prefer, for example, the first option. "auto" learns it if it gains more
        than chance would, by Akaike's criterion: one nat for each free number.
    length : bool or "auto", default="auto"
        Learn what a character more is worth, where lengths are known: the sum of the log-probabilities of an option's
        tokens falls with their number.
    strength : float, default=1.0
        Factor of the ridge that pulls towards the unchanged predictions; 0 switches it off.

    Attributes
    ----------
    inverse_temperature_ : float
        Below one for an over-confident model; zero if its log-probabilities tell nothing, or the opposite.
    position_ : ndarray of shape (k,)
        What is added to the logit of each position; positions beyond those in `fit` get nothing.
    length_ : float
        What is added to the logit of an option for each character.

    Examples
    --------
    >>> from calibrant import Answers, OptionCalibrator
    >>> answers = Answers.from_lists([[-1.0, -4.0], [-1.0, -5.0, -6.0], [-3.0, -1.0]] * 10, [0, 1, 1] * 10)
    >>> calibrator = OptionCalibrator(position=False).fit(answers)
    >>> calibrator.predict_proba(Answers.from_lists([[-1.0, -4.0], [-1.0, -2.0, -3.0]])).round(2)
    array([[0.64, 0.36, 0.  ],
           [0.4 , 0.33, 0.27]])
    """

    position: bool | Literal["auto"] = "auto"
    length: bool | Literal["auto"] = "auto"
    strength: NotNegative = 1.0

    def fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, **beside: Any
    ) -> OptionCalibrator:
        """Learn the map from held-out questions.

        Parameters
        ----------
        X : Answers, or array-like of shape (n, k)
            Questions with their answers. If all have the same options, an array of probabilities with the labels `y`,
            weights and groups, as for other calibrators.

        Returns
        -------
        self : the fitted calibrator.
        """
        if not isinstance(X, Answers):
            super().fit(X, y, sample_weight, **beside)
            return self
        if y is not None or sample_weight is not None or beside:
            raise ValueError("Answers contain their own labels, weights and groups: give nothing else.")
        if (X.sample.y < 0).any():
            raise ValueError("The right options of these answers are not known: fit needs them.")
        self._check_parameters()
        self._name_classes(np.arange(X.sample.n_classes))
        self._take_sample(X.sample)
        with limit():
            self._fit_options(X)
        return self

    def _fit(self, sample: Sample) -> None:
        self._fit_options(Answers(sample))

    def _fit_options(self, answers: Answers) -> None:
        present, lengths, spread = answers.present, None, 0.0
        if self.length and answers.lengths is not None:
            mean = (answers.lengths * present).sum(axis=1, keepdims=True) / present.sum(axis=1, keepdims=True)
            lengths = (answers.lengths - mean) * present
            spread = float(np.sqrt(np.square(lengths).sum() / present.sum()))
        scaled = lengths / spread if lengths is not None and spread else np.zeros(present.shape)
        position, length = self.position is not False, bool(scaled.any())
        best = self._solve(answers, scaled, position)
        # Dropped one after the other, the bias of positions first: it has the most numbers.
        if position and self.position == "auto":
            without = self._solve(answers, scaled, False)
            if without[0] - best[0] < present.shape[1] - 1:
                position, best = False, without
        if length and self.length == "auto":
            without = self._solve(answers, np.zeros_like(scaled), position)
            if without[0] - best[0] < 1.0:
                scaled, best = np.zeros_like(scaled), without
        slope, price, *bias = best[1]
        if slope < -1.0:  # the surer the model is, the less often it is right: its log-probabilities are left out
            known = answers.sample.with_values(np.where(present, 0.0, -np.inf))
            slope, (_, price, *bias) = -1.0, self._solve(Answers(known), scaled, position)[1]
        self.inverse_temperature_ = 1.0 + slope
        self.length_ = price / spread if spread else 0.0
        self.position_ = np.array(bias) - np.mean(bias) if position else np.zeros(len(bias))

    def _solve(self, answers: Answers, lengths: FloatArray, position: bool) -> tuple[float, list[float]]:
        """The loss in nats; ``α − 1``, the price of one unit of length, and the bias of each position."""
        data, present = answers.sample, answers.present
        n, k = present.shape
        own = np.stack([np.where(present, data.x, 0.0).T, lengths.T])
        offset = np.where(present, data.x, _ABSENT).T
        problem = ArrayProblem(data.y, offset, shared=np.ones((1, n)), own=own, weight=data.counts)
        # The coefficients of a position are its bias and the two factors, which all positions share.
        tied = np.zeros((k, 3, 2 + k))
        tied[:, 1, 0] = tied[:, 2, 1] = 1.0
        tied[np.arange(k), 0, 2 + np.arange(k)] = float(position)
        free = tied.reshape(3 * k, 2 + k)
        strengths = np.array([_TEMPERATURE, _LENGTH, *[_POSITION] * k]) * self.strength / problem.total_weight

        def derivatives(beta: FloatArray) -> Answer:
            loss, gradient, hessian = problem.derivatives((free @ beta).reshape(k, 3))
            ridge = strengths * beta
            curvature = free.T @ hessian @ free + np.diag(strengths)
            return loss + float(ridge @ beta) / 2.0, free.T @ gradient.ravel() + ridge, curvature

        moments = np.maximum(np.square(free).T @ problem.second_moments.ravel(), 1.0)
        end = damped_newton(
            derivatives, np.zeros(2 + k), enough=lambda at: at.decrement <= _ENOUGH * at.objective, moments=moments
        )
        found = end.theta + end.step if end.converged else end.theta
        return float(end.objective * problem.total_weight), found.tolist()

    def predict_proba(self, X: Any, *, axis: int | None = None) -> AnyArray:
        """Calibrated probabilities, one column per position; zero for an option that a question does not have."""
        if not isinstance(X, Answers):
            if getattr(self, "length_", 0.0):
                raise TypeError("This OptionCalibrator was fitted with the lengths of options: it takes Answers only.")
            return super().predict_proba(X, axis=axis)
        if self.length_ and X.lengths is None:
            raise ValueError("This OptionCalibrator was fitted with the lengths of options: they are needed here, too.")
        known = self.position_[: X.sample.n_classes]
        bias = np.pad(known, (0, X.sample.n_classes - len(known)))
        z = np.where(X.present, X.sample.x, 0.0) * self.inverse_temperature_ + bias
        z += 0.0 if X.lengths is None else self.length_ * X.lengths
        return softmax(np.where(X.present, z, -np.inf))

    def predict(self, X: object, *, axis: int | None = None) -> AnyArray:
        """The number of the most probable option of each question, or the most probable label."""
        return self.predict_proba(X).argmax(axis=1) if isinstance(X, Answers) else super().predict(X, axis=axis)

    def steps(self) -> list[Step]:
        scale = Scale(self.inverse_temperature_, self.position_)
        if not self.length_:
            return [Log(), scale, Softmax()]
        own, lengths = np.split(np.arange(2 * len(self.position_)), 2)
        return [Sum(([Columns(own), Log(), scale], [Columns(lengths), Scale(self.length_)])), Softmax()]

    def to_map(self) -> Map:
        """The map by itself; where lengths matter it takes them as `segments`, columns length_0, length_1, ...

        A question with fewer options gets probability 0 for the others, and its result is divided by the sum over its
        own options.
        """
        lengths = {f"length_{j}": None for j in range(len(self.position_) if self.length_ else 0)}
        return replace(super().to_map(), segments=lengths)

    def summary(self) -> str:
        """What was found, in sentences.

        Examples
        --------
        >>> from calibrant import Answers, OptionCalibrator
        >>> answers = Answers.from_lists([[-1.0, -4.0], [-2.0, -5.0, -6.0], [-3.0, -1.0]] * 10, [0, 1, 1] * 10)
        >>> print(OptionCalibrator().fit(answers).summary())
        OptionCalibrator, fitted to 30 rows with up to 3 options.
        The model was over-confident: log-probabilities are multiplied by 0.506 (1 changes nothing).
        Odds are multiplied by 0.61, 2.05, 0.80 for the positions, from the first to the last.
        """
        alpha = self.inverse_temperature_
        found = "over-confident" if alpha < 0.95 else "under-confident" if alpha > 1.05 else "appropriately confident"
        factors = ", ".join(f"{factor:.2f}" for factor in np.exp(self.position_))
        lines = [
            f"OptionCalibrator, fitted to {self.fitted_to_} with up to {len(self.position_)} options.",
            f"The model was {found}: log-probabilities are multiplied by {alpha:.3g} (1 changes nothing).",
            f"Odds are multiplied by {factors} for the positions, from the first to the last.",
            f"Ten more characters multiply the odds of an option by {np.exp(10 * self.length_):.2f}.",
        ]
        return "\n".join(lines[: 4 if self.length_ else 3 if self.position_.any() else 2])

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.number("inverse_temperature_", low=0.0)
        state.number("length_")
        state.array("position_", state.k)
