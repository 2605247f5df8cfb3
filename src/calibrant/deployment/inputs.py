"""What the functions of this room are given beside predictions: a fitted calibrator, its labels, shares of classes."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrators.base import Calibrator
from calibrant.inputs.labels import check_labels, encode, missing_labels
from calibrant.inputs.observations import check_groups, check_sample_weight
from calibrant.inputs.predictions import to_numpy
from calibrant.sample import Sample
from calibrant.text_table import list_names
from calibrant.typing import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Shares of classes may miss one by so much: three decimals of a few classes.
_ROUNDING = 1.5e-3
#: Small enough for any share, large enough that no ratio of two overflows.
SMALLEST_SHARE = 1e-30


def check_calibrator(calibrator: object) -> Calibrator:
    """A fitted calibrator of this package."""
    if not isinstance(calibrator, Calibrator):
        hint = ""
        if hasattr(calibrator, "calibrators_"):
            hint = " Use one of its calibrators_, with the predictions of its classifier."
        raise TypeError(f"A fitted calibrator is needed, got {type(calibrator).__name__}.{hint}")
    check_is_fitted(calibrator, "classes_")
    return calibrator


def batch(
    calibrator: BaseEstimator,
    P: object,
    y: object = None,
    segments: object = None,
    *,
    sample_weight: object = None,
    groups: object = None,
    blocks: int | None = None,
) -> Sample:
    """Calibrated predictions with their labels, counts and groups; rows that count for nothing are left out.

    Without labels every row has that of the first column; a missing label among others is -1. `rows` are those of the
    input.
    """
    # Calibrators that need no segments are not told of them; tensors become arrays.
    beside = {"segments": segments} if getattr(calibrator, "segment_columns_", None) else {}
    p = to_numpy(calibrator.predict_proba(P, **beside)).astype(np.float64, copy=False)
    codes = np.zeros(len(p), dtype=np.int64) if y is None else _codes_or_none(y, len(p), calibrator.classes_)
    counts = check_sample_weight(sample_weight, len(p))
    together = check_groups(groups, blocks, len(p))
    data = Sample(p, codes, counts, together, calibrator.classes_, rows=np.arange(len(p)))
    return data if counts is None or counts.all() else data.take(counts > 0.0)


def _codes_or_none(y: object, n: int, classes: AnyArray) -> IntArray:
    """Column numbers of labels, -1 where one is missing."""
    labels = to_numpy(y)
    missing = missing_labels(labels) if labels.shape == (n,) else np.zeros(0, dtype=bool)
    if not missing.any():
        return column_codes(y, n, classes)
    codes, known = np.full(n, -1), labels[~missing]
    if len(known):
        codes[~missing] = column_codes(known, len(known), classes)
    return codes


def batch_of(calibrator: object, given: object, names: tuple[str, ...], argument: str) -> Sample:
    """The rows of an argument that holds several things: a tuple of `names`, or a mapping of arguments of `batch`.

    What is neither is the first of them, if the others may be left out.
    """
    if isinstance(given, tuple) and 2 <= len(given) <= len(names):
        given = dict(zip(names, given))
    if not isinstance(given, Mapping) and names[1] == "y":
        raise ValueError(
            f"{argument} should be a tuple (P, y), or (P, y, segments) for a calibrator with segments, or a mapping."
        )
    return batch(calibrator, **(given if isinstance(given, Mapping) else {names[0]: given}))


def column_codes(y: object, n: int, classes: AnyArray) -> IntArray:
    """Column numbers of labels that a fitted calibrator knows."""
    labels, _ = check_labels(y, n)
    known = classes.tolist()
    unknown = [label for label in dict.fromkeys(labels.tolist()) if label not in known]
    if unknown:
        raise ValueError(
            f"y holds the label {unknown[0]!r}, which is not a class of the calibrator: {list_names(known)}."
        )
    return encode(labels.astype(classes.dtype) if labels.dtype.kind in "iuf" else labels, classes)


def class_shares(shares: Any, classes: AnyArray, name: str = "prior") -> FloatArray:
    """Positive shares that sum to one, in the order of `classes`, from a mapping of labels or an array.

    Of two classes a number is the share of the second.
    """
    labels = classes.tolist()
    if np.ndim(shares) == 0 and isinstance(shares, (Real, np.ndarray)) and not isinstance(shares, bool):
        if len(labels) > 2:
            raise ValueError(f"{name}={shares} is one number, but there are {len(labels)} classes: give each a share.")
        shares = [1.0 - float(shares), float(shares)]
    if hasattr(shares, "index") and hasattr(shares, "to_dict"):  # a series by label, as value_counts() gives it
        shares = shares.to_dict()
    if isinstance(shares, Mapping):
        unknown = [label for label in shares if label not in labels]
        if unknown:
            raise ValueError(f"{name} names the class {unknown[0]!r}, which is not one of {list_names(labels)}.")
        absent = [label for label in labels if label not in shares]
        if absent:
            raise ValueError(f"{name} lacks the class {absent[0]!r}: name the share of each class.")
        shares = [shares[label] for label in labels]
    try:
        values = np.asarray(shares, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} holds something other than numbers: {shares!r:.80}.") from None
    if values.shape != (len(labels),):
        raise ValueError(f"{name} has shape {values.shape}, expected ({len(labels)},): one share per class.")
    for label, share in zip(labels, values.tolist()):
        if share == 0.0:
            raise ValueError(
                f"{name} gives the class {label!r} the share 0, but the calibrator predicts it. If it cannot occur, "
                "leave its column out of the predictions and fit again; if it is rare, give its small share."
            )
        if not SMALLEST_SHARE <= share < 1.0:
            raise ValueError(f"{name} gives the class {label!r} the share {share:g}: shares lie between 0 and 1.")
    total = float(values.sum())
    if abs(total - 1.0) > _ROUNDING:
        raise ValueError(f"The shares in {name} sum to {total:.6g}, not to 1.")
    return values / total


def take_columns(target: Calibrator, fitted: Calibrator) -> None:
    """Let `target` take the predictions that `fitted` takes: the same columns, names and classes, with its rule."""
    columns = ("n_features_in_", "feature_names_in_", "_column_names", "_column_order")
    units = ("score_factor_", "score_shift_", "scores_seen_", "percentages_")
    for name in ("classes_", "class_counts_", "rule_", *columns, *units):
        if name in vars(fitted):
            setattr(target, name, getattr(fitted, name))
