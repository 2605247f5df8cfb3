"""Prior shift: fitted calibrators adapted to new class frequencies, known or estimated without labels."""

from __future__ import annotations

import warnings
from copy import copy
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import rel_entr
from sklearn.utils.validation import check_is_fitted

from calibrant.classifier import CalibratedClassifier
from calibrant.deployment.adapted import METHODS, AdaptedCalibrator, shares_of
from calibrant.deployment.inputs import calibrated, check_calibrator, class_shares, column_codes
from calibrant.deployment.prior_estimation import SharesEstimate, beyond_prior, estimate_shares, soft_confusion
from calibrant.inputs.labels import CalibrationWarning
from calibrant.metrics.inputs import check_level
from calibrant.threads import limit
from calibrant.typing import FloatArray, IntArray

#: Log loss lost to sampling noise that is worth a warning, in nats.
_NOISE = 0.005
#: Confidence at which differences from every mixture of the classes are worth a warning.
_SURE = 0.999


def adapt(
    calibrator: Any,
    *,
    prior: Any = None,
    unlabelled: Any = None,
    method: str = "em",
    labelled: tuple[Any, ...] | None = None,
    source: Any = None,
    level: float = 0.95,
    n_resamples: int = 200,
    random_state: int | np.random.Generator | None = 0,
    segments: Any = None,
) -> Any:
    """Adapt a fitted calibrator to new class frequencies, known or estimated from predictions without labels.

    Right if nothing but the frequencies has changed: rows of each class look as they did at calibration.

    Parameters
    ----------
    calibrator : fitted calibrator or CalibratedClassifier
        One that was adapted before is adapted anew from where it started. Of a classifier all calibrators are adapted;
        in what follows its predictions are then the features that it takes.
    prior : dict or array-like of shape (k,), default=None
        The shares of the classes now, by label or in the order of `classes_`.
    unlabelled : array-like of shape (n, k), (n,) or (n, 1), default=None
        Predictions of the model, as given to `predict_proba`, from which the shares are estimated instead.
    method : {"em", "bbse"}, default="em"
        Maximum likelihood, or inverting the confusion of `labelled` rows: less precise, but right for predictions
        that are not calibrated, too.
    labelled : tuple (P, y) or (P, y, segments), default=None
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
    segments : data frame or mapping of columns, default=None
        The segments of the unlabelled rows, for a calibrator that takes segments.

    Returns
    -------
    adapted : AdaptedCalibrator or CalibratedClassifier
        A calibrator that can be stored and exported as others can; or a copy of the classifier with such calibrators.

    Warns
    -----
    CalibrationWarning
        The estimate is too noisy to tell a change from none, or the predictions come from no mixture of the classes.

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
    target, parts = _unchanged(calibrator)
    if (prior is None) == (unlabelled is None):
        raise ValueError("adapt needs either prior=, the shares of the classes now, or unlabelled= predictions.")
    if method not in METHODS:
        raise ValueError(f"method={method!r} is none of {', '.join(map(repr, METHODS))}.")
    if method == "bbse" and prior is None and labelled is None:
        raise ValueError("method='bbse' needs labelled=(P, y): predictions and labels from the time of calibration.")
    check_level(level)
    if isinstance(n_resamples, bool) or not isinstance(n_resamples, Integral) or n_resamples < 1:
        raise ValueError(f"n_resamples={n_resamples!r}: a whole number of at least 1 is needed.")
    classes, rows = target.classes_, None
    if labelled is not None:
        if not isinstance(labelled, tuple) or len(labelled) not in (2, 3):
            raise ValueError("labelled should be a tuple (P, y), or (P, y, segments) for a calibrator with segments.")
        p_then = calibrated(target, labelled[0], *labelled[2:])
        rows = p_then, column_codes(labelled[1], len(p_then), classes)
    counts = _source_counts(calibrator, parts, source, rows)
    then, now, found = shares_of(counts, classes), None, None
    if unlabelled is None:
        shares = class_shares(prior, classes)
    else:
        now = calibrated(target, unlabelled, segments)
        with limit():
            found = estimate_shares(
                now, counts, rows, method=method, level=level, n_resamples=n_resamples, random_state=random_state
            )
        shares = found.shares
    for part in parts:
        part.set_shares(then, shares)
        if rows is not None:
            part.confusion_ = soft_confusion(*rows)
        if now is not None and found is not None:
            part.method_, part.interval_ = method, found.interval
            part.level_, part.n_unlabelled_ = float(level), len(now)
    if now is not None and found is not None:
        _warn(found, then, now, rows)
    return target


def _unchanged(calibrator: Any) -> tuple[Any, list[AdaptedCalibrator]]:
    """What predicts as before, and the calibrators in it that are to be adapted."""
    if not isinstance(calibrator, CalibratedClassifier):
        adapted = AdaptedCalibrator.unchanged(check_calibrator(calibrator))
        return adapted, [adapted]
    check_is_fitted(calibrator)
    classifier = copy(calibrator)
    classifier.calibrators_ = [AdaptedCalibrator.unchanged(check_calibrator(part)) for part in calibrator.calibrators_]
    return classifier, classifier.calibrators_


def _source_counts(
    calibrator: Any, parts: list[AdaptedCalibrator], source: Any, rows: tuple[FloatArray, IntArray] | None
) -> FloatArray:
    """How often each class occurred at calibration; shares that were given count as known exactly."""
    if source is not None:
        return 1e9 * class_shares(source, calibrator.classes_, "source")
    if rows is not None:
        return np.bincount(rows[1], minlength=len(calibrator.classes_)).astype(np.float64)
    for part in parts:
        if not hasattr(part, "class_counts_"):
            raise ValueError(
                f"This {type(calibrator).__name__} does not know how often each class occurred in its calibration "
                "data: it was stored by an older version, or fitted as a part of another. Pass source=, the shares of "
                "the classes then, or labelled=(P, y)."
            )
    return np.asarray(np.sum([part.class_counts_ for part in parts], axis=0))


def _warn(found: SharesEstimate, then: FloatArray, p: FloatArray, rows: tuple[FloatArray, IntArray] | None) -> None:
    change = float(rel_entr(found.shares, then).sum())
    # Resamples of a few rows know nothing of others: even with labels, counting n of them costs (k - 1) / 2n.
    noise = max(found.noise, 0.5 * (len(then) - 1) / len(p))
    # The change found holds the noise as well: adapting gains about the change less twice the noise.
    covered = bool(np.all((found.interval[:, 0] <= then) & (then <= found.interval[:, 1])))
    if noise > _NOISE and (noise > 0.5 * change or covered):
        held = ", and the intervals hold the frequencies at calibration" if covered else ""
        warnings.warn(
            f"The class frequencies estimated from {len(p)} rows are too uncertain to adapt to: their sampling noise "
            f"is worth {noise:.3g} nats of log loss, the change that was found {change:.3g}{held}. Collect more rows, "
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
