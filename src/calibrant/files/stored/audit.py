"""The audit record of a fit: which map it gave, when, to how many rows of which classes, with which losses.

A record identifies no person or machine: no names of files or users, no rows. Its fingerprints are SHA-256: of
the map, and of the rows of the fit (predictions, labels and weights, in their order), by which these are recognised.
What the calibrator itself stores, its map, classes, counts and settings, is compared with it when a file is loaded;
time, period and losses are statements of who wrote the record, until somebody has the rows and computes them again.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import os
import re
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant import __version__
from calibrant.calibrators.base import Calibrator, has_steps
from calibrant.calibrators.identity import NoCalibrator
from calibrant.deployment.inputs import check_calibrator, column_codes, take_columns
from calibrant.inputs.labels import is_matrix
from calibrant.inputs.predictions import as_matrix, to_numpy
from calibrant.inputs.words import CalibrationWarning
from calibrant.metrics.running import RunningMetrics
from calibrant.steps.map_documents import canonical, checksum
from calibrant.typing import TableLike

METRICS = ("log_loss", "brier", "accuracy")
_KEYS = ("calibrant", "time", "method", "settings", "classes", "class_counts", "fitted_to", "period")
_MADE = (*_KEYS, "rows_sha256", "map_sha256", "before", "after")
#: Characters after which the text of a setting that is neither a number nor a text is cut off.
_LONGEST = 200


class RowAudit:
    """Collects the rows that a calibrator was fitted to, all at once or in parts."""

    def __init__(self, calibrator: Calibrator) -> None:
        self.calibrator = check_calibrator(calibrator)
        self._as_given = NoCalibrator(input=calibrator.input, renormalize=calibrator.renormalize)
        take_columns(self._as_given, calibrator)
        self.before, self.after = (RunningMetrics(METRICS, classes=list(calibrator.classes_)) for _ in range(2))
        self._hashes = [hashlib.sha256() for _ in range(3)]
        self._days: list[object] = []

    def given(self, P: Any) -> Any:
        """The probabilities of unchanged predictions, one column per class of the calibrator."""
        return self._as_given.predict_proba(P)

    def add(self, P: Any, y: Any, sample_weight: Any = None, segments: Any = None, dates: object = None) -> RowAudit:
        """Take in predictions as the calibrator takes them, with labels or votes, weights, segments and dates."""
        values = np.asarray(as_matrix(P)[0], dtype="<f8")
        counts = np.ones(len(values)) if sample_weight is None else to_numpy(sample_weight)
        beside = {"segments": segments} if getattr(self.calibrator, "segment_columns_", None) else {}
        with warnings.catch_warnings():  # what the data lack was said in the fit
            warnings.simplefilter("ignore", CalibrationWarning)
            if np.any(counts):
                self.before.update(y, self.given(P), sample_weight)
                self.after.update(y, self.calibrator.predict_proba(P, **beside), sample_weight)
        truth = as_matrix(y)[0] if is_matrix(y) else column_codes(y, len(values), self.calibrator.classes_)
        for found, part in zip(self._hashes, (values, truth, counts)):
            found.update(np.ascontiguousarray(part, dtype="<f8").tobytes())
        if dates is not None:
            days = to_numpy(dates).astype("datetime64[D]")
            self._days = [min([days.min(), *self._days]), max([days.max(), *self._days])]
        return self

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the rows so far, however they were split into parts."""
        return hashlib.sha256(b"".join(found.digest() for found in self._hashes)).hexdigest()

    def record(self, time: datetime.datetime | None = None) -> dict[str, Any]:
        """The audit record as a JSON value."""
        return {
            **_known(self.calibrator),
            "time": (time or _now()).astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "period": [str(day) for day in self._days] or None,
            "rows_sha256": self.fingerprint,
            "map_sha256": map_fingerprint(self.calibrator),
            "before": self.before.result(),
            "after": self.after.result(),
        }


def _now() -> datetime.datetime:
    # The convention of reproducible builds: a fixed time gives the same file again.
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    return datetime.datetime.fromtimestamp(int(fixed), datetime.UTC) if fixed else datetime.datetime.now(datetime.UTC)


def map_fingerprint(calibrator: Calibrator) -> str | None:
    """SHA-256 of the map as a file holds it, `map_sha256`; `None` for a map that is no list of steps."""
    return checksum(canonical(calibrator.to_map().to_json())) if has_steps(calibrator) else None


def _known(calibrator: Any) -> dict[str, Any]:
    """What can be read off the calibrator itself."""
    settings = {name: value for name, value in calibrator.get_params(deep=False).items() if name != "classes"}
    plain = (str, int, float, bool, type(None))
    counts = getattr(calibrator, "class_counts_", None)
    return {
        "calibrant": __version__,
        "method": type(calibrator).__name__,
        "settings": {name: v if type(v) in plain else str(v)[:_LONGEST] for name, v in settings.items()},
        "classes": [v if type(v) in plain else str(v) for v in calibrator.classes_.tolist()],
        "class_counts": None if counts is None else counts.tolist(),
        "fitted_to": str(getattr(calibrator, "fitted_to_", "")),
    }


def record_fit(
    calibrator: Any,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    segments: TableLike | None = None,
    dates: ArrayLike | None = None,
    time: datetime.datetime | None = None,
) -> Any:
    """Attach the audit record to a fitted calibrator; `calibrant.save` stores it, and `calibrant fit` does both.

    Parameters
    ----------
    calibrator : fitted calibrator
    X, y, sample_weight, segments
        The rows it was fitted to, as given to `fit`.
    dates : array-like of shape (n,), default=None
        A date for each row; the first and the last are kept as the period of the data.
    time : datetime, default=None
        When it was fitted: by default now, or the time in the environment variable SOURCE_DATE_EPOCH.

    Returns
    -------
    calibrator : the same object, whose attribute `audit_` is the record.

    Examples
    --------
    >>> from calibrant import get_calibrator, record_fit
    >>> p, y = [0.1, 0.2, 0.7, 0.9], ["no", "no", "yes", "no"]
    >>> ts = record_fit(get_calibrator("ts").fit(p, y), p, y, dates=["2026-01-31", "2026-02-01"] * 2)
    >>> ts.audit_["fitted_to"], ts.audit_["period"], round(ts.audit_["before"]["log_loss"], 3)
    ('4 rows', ['2026-01-31', '2026-02-01'], 0.747)
    """
    audit = RowAudit(calibrator).add(X, y, sample_weight, segments, dates)
    calibrator.audit_ = audit.record(time)
    return calibrator


def record_fault(record: object, calibrator: object, map_sha256: str | None) -> str:
    """Why a record cannot be that of this calibrator, whose map has this checksum; empty if it can."""
    if not isinstance(record, dict) or set(record) != set(_MADE):
        return "it is not a record of this version of calibrant"
    losses = [record["before"], record["after"]]
    if not all(isinstance(loss, dict) and set(loss) == set(METRICS) for loss in losses) or not all(
        _is_number(value) for loss in losses for value in loss.values()
    ):
        return "its losses are not those of calibrant, or are not numbers"
    if not isinstance(record["settings"], dict) or not re.fullmatch(r"[\d-]{10}T[\d:]{8}Z", str(record["time"])):
        return "its time or its settings are damaged"
    period = record["period"]
    if period is not None and not (isinstance(period, list) and len(period) == 2 and all(map(_is_day, period))):
        return "its period is not two days"
    if not all(isinstance(record[name], str) and len(record[name]) < 100 for name in ("calibrant", "fitted_to")):
        return "its version or its number of rows is damaged"
    if record["map_sha256"] != map_sha256:
        return "it belongs to another map"
    known = _known(calibrator)
    settings = {name: value for name, value in known["settings"].items() if name in record["settings"]}
    if settings != {name: record["settings"][name] for name in settings}:
        return "its settings are not those of the calibrator"
    wrong = [name for name in ("method", "classes", "class_counts", "fitted_to") if record[name] != known[name]]
    return f"its {wrong[0].replace('_', ' ')} disagrees with the calibrator" if wrong else ""


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_day(value: object) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"-?\d{4,6}-\d\d-\d\d", value))
