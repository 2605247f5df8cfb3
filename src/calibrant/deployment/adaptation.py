"""Prior shift: fitted calibrators adapted to new class frequencies, known or estimated without labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr
from sklearn.utils.validation import check_is_fitted

from calibrant.classifier import CalibratedClassifier
from calibrant.confidence import check_level
from calibrant.deployment.adapted import METHODS, AdaptedCalibrator, shares_of
from calibrant.deployment.inputs import batch, batch_of, check_calibrator, class_shares
from calibrant.deployment.prior_estimation import EXACT, SharesEstimate, beyond_prior, estimate_shares, soft_confusion
from calibrant.docs import describe_parameters
from calibrant.inputs.words import CalibrationWarning
from calibrant.sample import Sample
from calibrant.threads import limit
from calibrant.typing import FloatArray, Label, TableLike

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Log loss lost to sampling noise that is worth a warning, in nats: what counting two classes in 100 rows costs.
_NOISE = 0.005
#: Confidence at which differences from every mixture of the classes are worth a warning: one in a thousand calls warns
#: for no reason.
_SURE = 0.999


@describe_parameters
def adapt(
    calibrator: BaseEstimator,
    *,
    prior: Mapping[Label, float] | ArrayLike | None = None,
    unlabelled: ArrayLike | None = None,
    method: str = "em",
    labelled: tuple[object, ...] | Mapping[str, object] | None = None,
    source: Mapping[Label, float] | ArrayLike | None = None,
    level: float = 0.95,
    segments: TableLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
) -> Any:
    """Adapt a fitted calibrator to new class frequencies, known or estimated from predictions without labels.

    Right if nothing but the frequencies has changed: rows of each class look as they did at calibration.

    Parameters
    ----------
    calibrator : fitted calibrator or CalibratedClassifier
        One that was adapted before is adapted again from where it started. Of a classifier all calibrators are adapted;
        in what follows its predictions are then the features that it takes.
    prior : dict, array-like of shape (k,) or float, default=None
        The shares of the classes now, by label or in the order of `classes_`. Of two classes a number is the share of
        the second, ``classes_[1]``.
    unlabelled : array-like of shape (n, k), (n,) or (n, 1), default=None
        Predictions of the model, as given to `predict_proba`, from which the shares are estimated instead.
    method : {"em", "bbse"}, default="em"
        Maximum likelihood, or inverting the confusion of `labelled` rows: less precise, but right for predictions
        that are not calibrated, too.
    labelled : tuple (P, y) or (P, y, segments), or mapping, default=None
        Predictions and labels from the time of calibration. ``"bbse"`` needs them; with them it is checked whether
        `unlabelled` can come from a mixture of the same classes at all. With counts or groups a mapping with the keys
        ``P``, ``y``, and those of ``segments``, ``sample_weight``, ``groups`` and ``blocks`` that there are.
    source : dict or array-like of shape (k,), default=None
        The shares of the classes at calibration; by default those of `labelled`, else those the calibrator was fitted
        to.
    level : float, default=0.95
        Confidence level of the interval of each share, if rows are independent, or groups are, and the calibrator is
        right: what its own error adds is not known.
    segments : data frame or mapping of columns, default=None
        The segments of the unlabelled rows, for a calibrator that takes segments.
    groups : array-like of shape (n,), default=None
        Unlabelled rows of one group may depend on each other in any way: intervals are as wide as that makes them.

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
    >>> from calibrant import adapt, get_calibrator
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
        raise ValueError(f"method={method!r} is not one of {', '.join(map(repr, METHODS))}.")
    if method == "bbse" and prior is None and labelled is None:
        raise ValueError("method='bbse' needs labelled=(P, y): predictions and labels from the time of calibration.")
    check_level(level)
    classes, rows = target.classes_, None
    if labelled is not None:
        rows = batch_of(target, labelled, ("P", "y", "segments"), "labelled")
    counts = _source_counts(calibrator, parts, source, rows)
    then, now, found = shares_of(counts, classes), None, None
    if unlabelled is None:
        shares = class_shares(prior, classes)
    else:
        now = batch(target, unlabelled, None, segments, sample_weight=sample_weight, groups=groups, blocks=blocks)
        with limit():
            found = estimate_shares(now, counts, rows, method=method, level=level)
        shares = found.shares
    for part in parts:
        part.set_shares(then, shares)
        if rows is not None:
            part.confusion_ = soft_confusion(rows.proba, rows.y, rows.counts)
        if now is not None and found is not None:
            part.method_, part.interval_, part.level_ = method, found.interval, float(level)
            part.n_unlabelled_, part.unlabelled_ = now.n_rows, str(now)
    if now is not None and found is not None:
        _warn(found, then, now, rows)
    return target


def _unchanged(calibrator: object) -> tuple[Any, list[AdaptedCalibrator]]:
    """What predicts as before, and the calibrators in it that are to be adapted."""
    if not isinstance(calibrator, CalibratedClassifier):
        adapted = AdaptedCalibrator.unchanged(check_calibrator(calibrator))
        return adapted, [adapted]
    check_is_fitted(calibrator)
    classifier = copy(calibrator)
    classifier.calibrators_ = [AdaptedCalibrator.unchanged(check_calibrator(part)) for part in calibrator.calibrators_]
    return classifier, classifier.calibrators_


def _source_counts(
    calibrator: BaseEstimator, parts: list[AdaptedCalibrator], source: object, rows: Sample | None
) -> FloatArray:
    """How often each class occurred at calibration; shares that were given count as known exactly."""
    if source is not None:
        return EXACT * class_shares(source, calibrator.classes_, "source")
    if rows is not None:
        return rows.class_counts
    for part in parts:
        if not hasattr(part, "class_counts_"):
            raise ValueError(
                f"This {type(calibrator).__name__} has not stored how often each class occurred in its calibration "
                "data: it was written by an older version, or fitted as part of another. Pass source=, the shares of "
                "the classes then, or labelled=(P, y)."
            )
    return np.asarray(np.sum([part.class_counts_ for part in parts], axis=0))


def _warn(found: SharesEstimate, then: FloatArray, now: Sample, rows: Sample | None) -> None:
    change = float(rel_entr(found.shares, then).sum())
    # Even with labels, counting n rows costs (k - 1) / 2n.
    noise = max(found.noise, 0.5 * (len(then) - 1) / now.units)
    # The change found holds the noise as well: adapting gains about the change less twice the noise.
    covered = bool(np.all((found.interval[:, 0] <= then) & (then <= found.interval[:, 1])))
    if noise > _NOISE and (noise > 0.5 * change or covered):
        held = ", and the intervals contain the frequencies at calibration" if covered else ""
        warnings.warn(
            f"The class frequencies estimated from {now} are too uncertain to adapt to: their sampling noise is worth "
            f"{noise:.3g} nats of log loss, the change found {change:.3g}{held}. Collect more rows, or keep the "
            "calibrator unchanged.",
            CalibrationWarning,
            stacklevel=3,
        )
    z = 0.0 if rows is None else beyond_prior(now, rows, found.shares, _SURE)
    if z:
        warnings.warn(
            f"No mixture of the classes seen at calibration explains these predictions ({z:.1f} standard errors off): "
            "more than the class frequencies has changed, and adapting to them may harm. Fit to new labelled rows.",
            CalibrationWarning,
            stacklevel=3,
        )
