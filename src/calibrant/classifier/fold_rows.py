"""Which rows a classifier is fitted to in each fold, and which its calibrator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator, LeaveOneOut, StratifiedGroupKFold, check_cv

from calibrant.inputs.label_matrix import LabelMatrix
from calibrant.inputs.words import CalibrationWarning
from calibrant.typing import AnyArray, IntArray


def _check_several_groups(n_groups: int) -> None:
    """Refuse rows that are one group, which no folds can divide."""
    if n_groups < 2:
        raise ValueError(
            "All rows belong to one group, and folds keep groups together: no row would be left to calibrate on. Give "
            "groups that differ, or leave them out."
        )


def split_rows(
    cv: Any, X: object, labels: AnyArray, groups: IntArray | None, params: Mapping[str, object]
) -> tuple[BaseCrossValidator, list[tuple[IntArray, IntArray]]]:
    """The splitter, and the rows of the two parts of each fold."""
    splitter, rows = check_cv(cv, labels, classifier=True), np.arange(len(labels))
    own = cv is None or isinstance(cv, Integral)
    if own:  # the splitter is ours, and so are its groups
        params = {}
    if groups is not None and own:
        n_groups = len(np.unique(groups))
        _check_several_groups(n_groups)
        n_splits = min(splitter.get_n_splits(), n_groups)
        splitter, params = StratifiedGroupKFold(n_splits), {"groups": groups}
    try:
        with warnings.catch_warnings():
            if own:
                warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            splits = [(rows[train], rows[test]) for train, test in splitter.split(X, labels, **params)]
    except (TypeError, ValueError) as error:
        if "groups" in params or "groups" not in str(error):
            raise
        raise ValueError(
            f"{type(splitter).__name__} splits by group, but no groups were given: pass the group of each row as "
            "fit(X, y, groups=...)."
        ) from error
    classes, counts = np.unique(labels, return_counts=True)
    if own and counts.min() < len(splits):
        label, least = classes.tolist()[counts.argmin()], int(counts.min())
        rare = f"{least} rows have" if least > 1 else "one row has"
        fewer = f"Use fewer folds, as in cv={least}, or more rows." if least > 1 else "Use more rows."
        warnings.warn(
            f"Only {rare} the label {label!r}, and there are {len(splits)} folds: some lack this label. {fewer}",
            CalibrationWarning,
            stacklevel=5,
        )
    return splitter, splits


def calibration_rows(classes: AnyArray, codes: IntArray, splits: Sequence[tuple[IntArray, IntArray]]) -> list[IntArray]:
    """The rows of each fold whose label its training part has; the others no prediction can stand for."""
    rows = []
    for i, (train, test) in enumerate(splits):
        known = np.isin(codes[test], codes[train])
        if not known.all():
            label = classes.tolist()[codes[test][~known][0]]
            warnings.warn(
                f"The training part of fold {i} has no row with the label {label!r}: rows with such labels are "
                "left out of its calibration.",
                CalibrationWarning,
                stacklevel=5,
            )
        if not known.any():
            raise ValueError(
                f"Fold {i} has no rows to calibrate on: its training part has no row of the classes of its "
                f"{len(test)} test rows. Use fewer folds, or stratified ones."
            )
        rows.append(test[known])
    return rows


def check_test_parts(splitter: BaseCrossValidator, splits: Sequence[tuple[IntArray, IntArray]]) -> None:
    """Refuse folds with calibrators of their own, but one row to fit them to."""
    small = [i for i, (_, test) in enumerate(splits) if len(test) < 2]
    if small:
        requested = "LeaveOneOut cross-validation does not work"
        if not isinstance(splitter, LeaveOneOut):
            requested = f"Requesting {len(splits)}-fold cross-validation is too much"
        raise ValueError(
            f"{requested} with a calibrator for each fold: fold {small[0]} has {len(splits[small[0]][1])} row to "
            "calibrate on. Use fewer folds, or ensemble=False, which calibrates on the rows of all folds at once."
        )


def label_splits(data: LabelMatrix, n_folds: int) -> list[tuple[IntArray, IntArray]]:
    """The rows of the two parts of each fold, which keep groups together and spread rare labels."""
    _check_several_groups(data.rows.n_groups)
    folds = data.rows.folds(min(n_folds, data.rows.n_groups), 0)
    return [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in np.unique(folds)]
