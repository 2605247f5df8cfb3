"""Prior shift: a fitted calibrator adapted to class frequencies that are not those of its calibration data.

If class j was a share s_j of the rows at calibration and is a share q_j now, and rows of a class look as before, Bayes'
rule makes ``p_j q_j / s_j``, divided by the sum, of calibrated probabilities p: one linear step after the map.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from scipy.special import rel_entr
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods

from calibrant.calibrators.base import Calibrator, steps_of
from calibrant.calibrators.lifting import fit_columns
from calibrant.calibrators.state import StateCheck
from calibrant.deployment.inputs import calibrated, check_calibrator, class_shares, column_codes, take_columns
from calibrant.deployment.prior_estimation import SharesEstimate, beyond_prior, estimate_shares, soft_confusion
from calibrant.inputs.labels import CalibrationWarning
from calibrant.metrics.recalibration import resolve_calibrator
from calibrant.numerals import percent
from calibrant.steps import Normalize, Scale, Step
from calibrant.threads import limit
from calibrant.typing import FloatArray, IntArray

METHODS = {"em": "maximum likelihood", "bbse": "inverting the confusion of labelled rows"}

#: Classes named one by one.
_MOST_CLASSES = 10
#: Log loss lost to sampling noise that is worth a warning, in nats.
_NOISE = 0.005
#: Confidence at which differences from every mixture of the classes are worth a warning.
_SURE = 0.999


class AdaptedCalibrator(Calibrator):
    """A calibrator for class frequencies other than those of its calibration data.

    `adapt` makes one of a fitted calibrator; `fit` fits the calibrator first.

    Parameters
    ----------
    calibrator : estimator or str, default="auto"
        The calibrator, or its name in the registry.
    prior : dict or array-like of shape (k,), default=None
        Share of each class where predictions will be made, by label or in the order of the sorted labels; `None`
        keeps the shares of the calibration data.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Calibrator._parameter_constraints,
        "calibrator": [str, HasMethods(["fit", "predict_proba"])],
        "prior": [dict, "array-like", None],
    }

    def __init__(
        self,
        calibrator: Any = "auto",
        prior: Any = None,
        *,
        input: str = "probabilities",
        classes: Any = None,
        renormalize: bool = False,
    ) -> None:
        self.calibrator = calibrator
        self.prior = prior
        super().__init__(input=input, classes=classes, renormalize=renormalize)

    def _fit(self, x: FloatArray, y: IntArray, weight: FloatArray | None) -> None:
        self._forget()
        counts = np.bincount(y, weight, minlength=x.shape[1]).astype(np.float64)
        if self.prior is None:
            self.source_prior_ = (counts + 1.0) / (counts + 1.0).sum()  # whatever it is, nothing changes
            self.prior_ = self.source_prior_
        else:
            self.source_prior_ = _shares_of(counts, self.classes_)
            self.prior_ = class_shares(self.prior, self.classes_)
        self.method_ = "given"
        self.calibrator_ = fit_columns(resolve_calibrator(self.calibrator), x, y, weight)

    def _forget(self) -> None:
        for name in ("interval_", "level_", "n_unlabelled_", "confusion_"):
            self.__dict__.pop(name, None)

    def steps(self) -> list[Step]:
        ratio = self.prior_ / self.source_prior_
        return [*steps_of(self.calibrator_), Scale(ratio / ratio.max()), Normalize()]

    def summary(self) -> str:
        """What was adapted to, in words.

        Examples
        --------
        >>> from calibrant import get_calibrator
        >>> from calibrant.deployment import adapt
        >>> ts = get_calibrator("ts").fit([0.1, 0.6, 0.9, 0.8], ["ok", "ok", "fraud", "fraud"])
        >>> print(adapt(ts, prior={"ok": 0.99, "fraud": 0.01}).summary())
        Adapted to the class frequencies given:
        fraud: 50.0% at calibration, 1.0% now
        ok: 50.0% at calibration, 99.0% now
        """
        if self.method_ == "given":
            lines = ["Adapted to the class frequencies given:"]
        else:
            lines = [
                f"Adapted to class frequencies estimated from {self.n_unlabelled_:,} unlabelled rows by "
                f"{METHODS[self.method_]}, with {percent(self.level_, 0)} intervals:"
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
        return "\n".join([*lines, *([f"and {left} classes that changed less"] if left else [])])

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.calibrator("calibrator_", state.k)
        for name in ("prior_", "source_prior_"):
            # Small enough for any share, large enough that no ratio of two overflows.
            state.array(name, state.k, low=1e-30, high=1.0)
        state.information("interval_", "level_", "n_unlabelled_", "confusion_", "method_")


def adapt(
    calibrator: Any,
    *,
    prior: Any = None,
    unlabelled: Any = None,
    method: str = "em",
    labelled: tuple[Any, Any] | None = None,
    source: Any = None,
    level: float = 0.95,
    n_resamples: int = 200,
    random_state: int | np.random.Generator | None = 0,
) -> AdaptedCalibrator:
    """Adapt a fitted calibrator to new class frequencies, known or estimated from predictions without labels.

    Right if nothing but the frequencies has changed: rows of each class look as they did at calibration.

    Parameters
    ----------
    calibrator : fitted calibrator
        One that was adapted before is adapted anew from where it started.
    prior : dict or array-like of shape (k,), default=None
        The shares of the classes now, by label or in the order of `classes_`.
    unlabelled : array-like of shape (n, k), (n,) or (n, 1), default=None
        Predictions of the model, as given to `predict_proba`, from which the shares are estimated instead.
    method : {"em", "bbse"}, default="em"
        Maximum likelihood, or inverting the confusion of `labelled` rows: less precise, but right for predictions
        that are not calibrated, too.
    labelled : tuple (P, y), default=None
        Predictions and labels from the time of calibration. ``"bbse"`` needs them; with them it is checked whether
        `unlabelled` can come from a mixture of the same classes at all.
    source : dict or array-like of shape (k,), default=None
        The shares of the classes at calibration; by default those of `labelled`, else those the calibrator was fitted
        to.
    level : float, default=0.95
        Confidence level of the interval of the estimate.
    n_resamples : int, default=200
        Number of bootstrap resamples.
    random_state : int, Generator or None, default=0
        Seed of the resamples.

    Returns
    -------
    adapted : AdaptedCalibrator
        A calibrator that can be stored and exported as others can.

    Warns
    -----
    CalibrationWarning
        The estimate is noisier than the change it finds, or the predictions can come from no mixture of the classes.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import get_calibrator
    >>> from calibrant.deployment import adapt
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> y = rng.random(5000) < p  # half of them true
    >>> calibrator = get_calibrator("none").fit(p, y)
    >>> adapted = adapt(calibrator, unlabelled=p[~y | (rng.random(5000) < 0.25)])  # a quarter of the true ones
    >>> adapted.prior_.round(1)
    array([0.8, 0.2])
    """
    base = check_calibrator(calibrator)
    if (prior is None) == (unlabelled is None):
        raise ValueError("adapt needs either prior=, the shares of the classes now, or unlabelled= predictions.")
    if method not in METHODS:
        raise ValueError(f"method={method!r} is none of {', '.join(map(repr, METHODS))}.")
    if method == "bbse" and prior is None and labelled is None:
        raise ValueError("method='bbse' needs labelled=(P, y): predictions and labels from the time of calibration.")
    adapted = _unchanged(base)
    rows = None
    if labelled is not None:
        p_then = calibrated(adapted, labelled[0])
        rows = p_then, column_codes(labelled[1], len(p_then), base.classes_)
        adapted.confusion_ = soft_confusion(*rows)
    counts = _source_counts(base, source, rows)
    p = None if unlabelled is None else calibrated(adapted, unlabelled)
    adapted.source_prior_ = _shares_of(counts, base.classes_)
    if p is None:
        adapted.prior, adapted.prior_ = prior, class_shares(prior, base.classes_)
        return adapted
    with limit():
        found = estimate_shares(
            p, counts, rows, method=method, level=level, n_resamples=n_resamples, random_state=random_state
        )
    adapted.method_, adapted.prior_, adapted.interval_ = method, found.shares, found.interval
    adapted.level_, adapted.n_unlabelled_ = float(level), len(p)
    adapted.prior = dict(zip(base.classes_.tolist(), found.shares.tolist()))
    _warn(adapted, found, p, rows)
    return adapted


def _unchanged(base: Calibrator) -> AdaptedCalibrator:
    """An adapted calibrator that predicts what `base` does, or what `base` was adapted from."""
    inner = base.calibrator_ if isinstance(base, AdaptedCalibrator) else base
    adapted = AdaptedCalibrator(clone(inner), input=base.input, classes=base.classes, renormalize=base.renormalize)
    take_columns(adapted, base)
    adapted.calibrator_, adapted.method_ = inner, "given"
    adapted.source_prior_ = adapted.prior_ = np.full(len(base.classes_), 1.0 / len(base.classes_))
    return adapted


def _source_counts(base: Calibrator, source: Any, rows: tuple[FloatArray, IntArray] | None) -> FloatArray:
    """How often each class occurred at calibration; shares that were given count as known exactly."""
    if source is not None:
        return 1e9 * class_shares(source, base.classes_, "source")
    if rows is not None:
        return np.bincount(rows[1], minlength=len(base.classes_)).astype(np.float64)
    counts = getattr(base, "class_counts_", None)
    if counts is None:
        raise ValueError(
            f"This {type(base).__name__} does not know how often each class occurred in its calibration data: it was "
            "stored by an older version. Pass source=, the shares of the classes then, or labelled=(P, y)."
        )
    return np.asarray(counts, dtype=np.float64)


def _shares_of(counts: FloatArray, classes: Any) -> FloatArray:
    """Shares of classes that were all seen."""
    if not counts.min() > 0.0:
        raise ValueError(
            f"No calibration row has the label {classes.tolist()[int(np.argmin(counts))]!r}, so how its frequency "
            "changed is unknown: pass source=, the shares of the classes at calibration, to adapt."
        )
    return np.asarray(counts / counts.sum())


def _warn(
    adapted: AdaptedCalibrator, found: SharesEstimate, p: FloatArray, rows: tuple[FloatArray, IntArray] | None
) -> None:
    change = float(rel_entr(adapted.prior_, adapted.source_prior_).sum())
    # The change found holds the noise as well: adapting gains about the change less twice the noise.
    if found.noise > max(_NOISE, 0.5 * change):
        warnings.warn(
            f"The class frequencies estimated from {len(p)} rows are too uncertain to adapt to: their sampling noise "
            f"is worth {found.noise:.3g} nats of log loss, the change that was found {change:.3g}. Collect more rows, "
            "or keep the calibrator as it is.",
            CalibrationWarning,
            stacklevel=3,
        )
    z = 0.0 if rows is None else beyond_prior(p, rows, found.shares, _SURE)
    if z:
        warnings.warn(
            f"These predictions can come from no mixture of the classes seen at calibration ({z:.1f} standard errors "
            "off): more has changed than class frequencies, and adapting to them may harm. Fit to new labelled rows.",
            CalibrationWarning,
            stacklevel=3,
        )
