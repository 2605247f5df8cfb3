"""A calibrator adapted to class frequencies that are not those of its calibration data.

If class j was a share s_j of the rows at calibration and is a share q_j now, and rows of a class look as before, Bayes'
rule makes ``p_j q_j / s_j``, divided by the sum, of calibrated probabilities p: one linear step after the map.
"""

from __future__ import annotations

from numbers import Real
from typing import Annotated, Any

import numpy as np

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.lifting import fit_columns
from calibrant.calibrators.parameters import Method
from calibrant.calibrators.state import StateCheck
from calibrant.deployment.inputs import SMALLEST_SHARE, class_shares
from calibrant.deployment.segments.by_segment import AfterCalibrator
from calibrant.metrics.recalibration import resolve_calibrator
from calibrant.numerals import amount, percent
from calibrant.sample import Sample, Size
from calibrant.steps import Normalize, Scale, Step
from calibrant.typing import AnyArray, FloatArray

METHODS = {"em": "maximum likelihood", "bbse": "inverting the confusion of labelled rows"}

#: Classes that a summary names one by one, those that changed most: a screen's worth.
_MOST_CLASSES = 10


class AdaptedCalibrator(AfterCalibrator, kw_only=False):
    """A calibrator for class frequencies other than those of its calibration data.

    `adapt` makes one of a fitted calibrator; `fit` fits the calibrator first.

    Parameters
    ----------
    calibrator : estimator or str, default="auto"
        The calibrator, or its name in the registry.
    prior : dict, array-like of shape (k,) or float, default=None
        Share of each class where predictions will be made, by label or in the order of the sorted labels; of two
        classes a number is the share of the second. `None` keeps the shares of the calibration data.

    Attributes
    ----------
    calibrator_ : calibrator
        The fitted one underneath.
    source_prior_, prior_ : ndarray of shape (k,)
        Shares of the classes in the calibration data, and those adapted to.
    interval_ : ndarray of shape (k, 2)
        Confidence interval of `prior_`, if it was estimated.
    confusion_ : ndarray of shape (k, k)
        Mean of ``p_i [y = j]`` over the labelled rows, if there were any.
    method_ : {"given", "em", "bbse"}
        Where `prior_` comes from.

    Examples
    --------
    >>> from calibrant import get_calibrator
    >>> from calibrant.deployment import AdaptedCalibrator
    >>> p, y = [[0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.5, 0.5]], ["a", "b", "a", "b"]
    >>> rare = AdaptedCalibrator(get_calibrator("none"), prior={"a": 0.9, "b": 0.1}).fit(p, y)
    >>> rare.predict_proba([[0.5, 0.5]])
    array([[0.9, 0.1]])
    """

    calibrator: Method = "auto"
    prior: Annotated[Any, dict, "array-like", Real, None] = None

    @classmethod
    def unchanged(cls, base: Calibrator) -> AdaptedCalibrator:
        """One that predicts what the fitted `base` does, or what `base` was adapted from."""
        inner = base.calibrator_ if isinstance(base, AdaptedCalibrator) else base
        adapted = cls.around(base, inner)
        adapted.calibrator_, adapted.method_ = inner, "given"
        adapted.source_prior_ = adapted.prior_ = np.full(len(base.classes_), 1.0 / len(base.classes_))
        return adapted

    def set_shares(self, source: FloatArray, prior: FloatArray) -> None:
        """Adapt to shares of the classes, at calibration and now."""
        self.source_prior_, self.prior_ = source, prior
        self.prior = dict(zip(self.classes_.tolist(), self.prior_.tolist()))

    def _fit(self, sample: Sample) -> None:
        self._forget()
        counts = sample.class_counts
        if self.prior is None:
            self.source_prior_ = (counts + 1.0) / (counts + 1.0).sum()  # whatever it is, nothing changes
            self.prior_ = self.source_prior_
        else:
            self.source_prior_ = shares_of(counts, self.classes_)
            self.prior_ = class_shares(self.prior, self.classes_)
        self.method_ = "given"
        self.calibrator_ = fit_columns(resolve_calibrator(self.calibrator), sample)

    def _forget(self) -> None:
        for name in ("interval_", "level_", "n_unlabelled_", "unlabelled_", "confusion_"):
            self.__dict__.pop(name, None)

    @property
    def _first(self) -> Calibrator:
        return self.calibrator_

    def _after(self) -> list[Step]:
        ratio = self.prior_ / self.source_prior_
        return [Scale(ratio / ratio.max()), Normalize()]

    def summary(self) -> str:
        """What was adapted to, in words.

        Examples
        --------
        >>> from calibrant import adapt, get_calibrator
        >>> ts = get_calibrator("ts").fit([0.1, 0.6, 0.9, 0.8], ["ok", "ok", "fraud", "fraud"])
        >>> print(adapt(ts, prior={"ok": 0.99, "fraud": 0.01}).summary())
        Adapted to the class frequencies given:
        fraud: 50.0% at calibration, 1.0% now
        ok: 50.0% at calibration, 99.0% now
        """
        if self.method_ == "given":
            lines = ["Adapted to the class frequencies given:"]
        else:
            seen = getattr(self, "unlabelled_", str(Size(self.n_unlabelled_)))
            lines = [
                f"Adapted to class frequencies estimated without labels from {seen} by {METHODS[self.method_]}, with "
                f"{percent(self.level_, 0)} intervals, if {'groups' if 'group' in seen else 'rows'} are independent "
                "and the calibrator is right:"
            ]
        change = np.abs(np.log(self.prior_ / self.source_prior_))
        shown = np.argsort(-change, kind="stable")[:_MOST_CLASSES]
        for j in shown:
            line = f"{self.classes_[j]}: {percent(self.source_prior_[j])} at calibration, {percent(self.prior_[j])} now"
            if self.method_ != "given":
                low, high = self.interval_[j]
                line += f" ({percent(low)} to {percent(high)})"
            lines.append(line)
        left = len(change) - len(shown)
        if left:
            lines.append(f"and {amount(left, 'class')} that changed less")
        if self.method_ != "given" and np.any(self.interval_ == self.prior_[:, None]):
            lines.append(
                "Estimates are drawn towards the frequencies at calibration by as much as noise hides, which is why "
                "one may lie at an end of its interval."
            )
        return "\n".join(lines)

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.calibrator("calibrator_", state.k, segments=True)
        for name in ("prior_", "source_prior_"):
            state.array(name, state.k, low=SMALLEST_SHARE, high=1.0)
        state.information("interval_", "level_", "n_unlabelled_", "unlabelled_", "confusion_", "method_")


def shares_of(counts: FloatArray, classes: AnyArray) -> FloatArray:
    """Shares of classes that were all seen."""
    if not counts.min() > 0.0:
        raise ValueError(
            f"No calibration row has the label {classes.tolist()[int(np.argmin(counts))]!r}, so the change of its "
            "frequency is unknown: pass source=, the shares of the classes at calibration, to adapt."
        )
    return np.asarray(counts / counts.sum())
