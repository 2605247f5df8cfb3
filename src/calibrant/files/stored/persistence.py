"""Calibrators in files without pickle: versioned JSON with a checksum, written atomically, read without running it.

The file is ``{"format", "version", "calibrant", "sha256", "content", "map_sha256", "map", "rule_sha256",
"rule", "audit_sha256", "audit"}``: `content` is what `encoding.encode` makes of the calibrator, `map` its steps, which
`calibrant.runtime` and other languages read, `rule` what actions cost and `audit` the record of its fit if there are
any, and the checksums are theirs, so that a damaged number is noticed as surely as a missing bracket. See
docs/format.md.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from calibrant import __version__
from calibrant.calibrators.base import has_steps
from calibrant.classifier.estimator import CalibratedClassifier
from calibrant.decisions.rule import DecisionRule
from calibrant.deployment import CalibrationMonitor
from calibrant.files.atomic import write_text
from calibrant.files.stored.audit import record_fault
from calibrant.files.stored.encoding import STORED, CalibratorFileError, decode, encode, restore, share
from calibrant.steps.map_documents import FORMAT, VERSION, canonical, checksum, read_rule, version_fault


def save(calibrator: object, path: str | os.PathLike[str]) -> None:
    """Store a calibrator as JSON, with every float exact.

    The file appears whole or not at all: a crash while writing leaves the old file as it was.

    Parameters
    ----------
    calibrator : fitted calibrator or CalibratedClassifier
        Any calibrator of this package that is made of numbers. Of a fitted `CalibratedClassifier` its calibrators
        are stored, not its classifiers; one that several folds share is stored once.
    path : str or path-like
        A regular file, which is replaced if it exists; anything else is refused.

    Examples
    --------
    >>> import os, tempfile
    >>> import calibrant
    >>> ts = calibrant.TemperatureScalingCalibrator().fit([0.1, 0.6, 0.9, 0.8], ["no", "no", "yes", "yes"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     calibrant.save(ts, os.path.join(folder, "ts.json"))
    ...     twin = calibrant.load(os.path.join(folder, "ts.json"))
    >>> twin.inverse_temperature_ == ts.inverse_temperature_
    True
    """
    write_text(path, stored_text(calibrator))


def stored_text(calibrator: Any) -> str:
    """What `save` writes."""
    fitted = _storable(calibrator)
    content = encode(fitted)
    folds = fitted if isinstance(fitted, list) else [fitted]
    try:
        for item in folds:
            item.check_state()
    except ValueError as error:
        raise CalibratorFileError(f"This {type(calibrator).__name__} cannot be stored: {error}.") from error
    maps = None
    if all(has_steps(item) for item in folds):
        parts = calibrator.calibrated_classifiers_ if isinstance(fitted, list) else folds
        maps = [part.to_map().to_json() for part in parts]
        maps = maps if isinstance(fitted, list) else maps[0]
    shared = isinstance(fitted, list) and _share_folds(content, maps)
    shared = (maps is not None and share(content, maps)) or shared
    text = canonical(content)
    head = {"format": FORMAT, "version": VERSION if shared else 1, "calibrant": __version__, "sha256": checksum(text)}
    text = json.dumps(head)[:-1] + ', "content": ' + text
    if maps is not None:
        text += _part("map", maps)
    if hasattr(fitted, "rule_"):
        text += _part("rule", fitted.rule_.table.to_json())
    audit = getattr(fitted, "audit_", None)
    if audit is not None:
        if fault := record_fault(audit, fitted, None if maps is None else checksum(canonical(maps))):
            raise CalibratorFileError(
                f"This {type(calibrator).__name__} has an audit record that does not belong to it: {fault}. Make a new "
                "one with calibrant.record_fit, or delete its attribute audit_."
            )
        text += _part("audit", audit)
    return text + "}\n"


def _part(name: str, value: object) -> str:
    """A part of the file, after its checksum."""
    text = canonical(value)
    return f', "{name}_sha256": "{checksum(text)}", "{name}": {text}'


def load(path: str | os.PathLike[str]) -> Any:
    """The calibrator that `save` stored, or the list of calibrators of a `CalibratedClassifier`.

    Nothing in the file is executed: only numbers, labels and names of this package's calibrators are read, and every
    array is checked against what its calibrator needs, so that a file may come from a stranger.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    calibrator : calibrator or FoldCalibrators
        `FoldCalibrators` is a list: of a `CalibratedClassifier` one calibrator for each fold.

    Raises
    ------
    CalibratorFileError
        A `ValueError`: the file is damaged, cut off, of another kind, or of a newer version.

    Examples
    --------
    >>> import os, tempfile
    >>> import calibrant
    >>> ts = calibrant.get_calibrator("ts").fit([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], ["no", "yes", "yes"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     calibrant.save(ts, os.path.join(folder, "ts.json"))
    ...     calibrant.load(os.path.join(folder, "ts.json"))
    TemperatureScalingCalibrator()
    """
    with open(path, "rb") as file:
        data = file.read()
    name = os.fspath(path)
    try:
        document = _document(data)
        loaded = decode(document["content"])
        folds = loaded if isinstance(loaded, list) else None
        if folds is not None:
            loaded = FoldCalibrators(folds[item] if type(item) is int else item for item in folds)
            loaded.scaled = any("scaling" in item for item in document.get("map", ()) if isinstance(item, dict))
        for item in [loaded] if folds is None else loaded:
            if not isinstance(item, STORED):
                raise CalibratorFileError("This file is damaged: it holds something that is not a calibrator.")
            check_is_fitted(item, "classes_")
        if "rule" in document and folds is None:
            table = read_rule(document, loaded.classes_.tolist())
            assert table is not None
            loaded.set_rule(DecisionRule(table.rows(), actions=table.actions))
        if "audit" in document and folds is None:
            if fault := record_fault(document["audit"], loaded, document.get("map_sha256")):
                raise CalibratorFileError(
                    f"This file was changed: its audit record does not belong to its calibrator: {fault}."
                )
            loaded.audit_ = document["audit"]
    except CalibratorFileError as error:
        raise CalibratorFileError(f"{name}: {error}") from None
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError, RecursionError) as error:
        raise CalibratorFileError(f"{name}: This file is damaged ({type(error).__name__}: {error!s:.200}).") from None
    return loaded


class FoldCalibrators(list[Any]):
    """The calibrators of a stored `CalibratedClassifier`, one for each fold; its classifiers are not in the file."""

    #: Whether the classifier scales its decision values before it calibrates them; the calibrators alone do not.
    scaled = False

    def __getattr__(self, name: str) -> Any:
        if name not in ("predict_proba", "predict", "predict_log_proba", "classes_", "to_map"):
            raise AttributeError(f"FoldCalibrators has no attribute {name!r}")
        raise AttributeError(
            f"These are the calibrators of a CalibratedClassifier, one for each of its {len(self)} folds. Each takes "
            "the predictions of its fold's classifier, which is not in the file: assign them to `calibrators_` of the "
            f"fitted CalibratedClassifier, or use `[j].{name}` of one."
        )


def _storable(calibrator: object) -> Any:
    if isinstance(calibrator, CalibratedClassifier):
        check_is_fitted(calibrator)
        return list(calibrator.calibrators_)
    if isinstance(calibrator, STORED):
        check_is_fitted(calibrator, "classes_")
        return calibrator
    raise TypeError(
        f"save stores calibrators and fitted CalibratedClassifiers, not {type(calibrator).__module__}."
        f"{type(calibrator).__qualname__}."
    )


def _share_folds(content: list[object], maps: list[object] | None) -> bool:
    """Replace each calibrator that an earlier fold has, too, by the number of that fold; whether any was."""
    first: dict[str, int] = {}
    for i, item in enumerate(content):
        j = first.setdefault(canonical([item, None if maps is None else maps[i]]), i)
        if j < i:
            content[i] = j
            if maps is not None:
                maps[i] = j
    return len(first) < len(content)


def _document(data: bytes) -> dict[str, Any]:
    """The JSON value of a file of this format, whole and of a known version."""
    try:
        document = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        what = "a pickle, which is never opened" if data[:1] == b"\x80" else "not text"
        raise CalibratorFileError(f"This is not a calibrator file: it is {what}.") from None
    except json.JSONDecodeError as error:
        if FORMAT.encode() in data[:100]:
            raise CalibratorFileError(f"This file is damaged or cut off: {error}.") from None
        raise CalibratorFileError(f"This is not a calibrator file: it is not JSON ({error}).") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CalibratorFileError("This is not a calibrator file.")
    if fault := version_fault(document):
        raise CalibratorFileError(fault)
    parts = [("content", "sha256"), *((name, f"{name}_sha256") for name in ("map", "audit") if name in document)]
    for name, checked in parts:
        if checksum(canonical(document[name])) != document.get(checked):
            raise CalibratorFileError(f"This file is damaged: its {name} does not match its checksum.")
    restore(document["content"], document.get("map"))
    return document


def _refuse_constant(text: str) -> Any:
    raise CalibratorFileError(f"This file is damaged: {text} is not JSON.")


def save_monitor(monitor: CalibrationMonitor, path: str | Path) -> None:
    """Store the state of a monitor; a crash while writing leaves the old file as it was."""
    write_text(path, canonical(monitor.state_) + "\n")


def load_monitor(path: str | Path, calibrator: object) -> CalibrationMonitor:
    """The monitor of this calibrator that `save_monitor` stored."""
    try:
        state = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not text, not JSON, or more than a parser takes
        raise CalibratorFileError(f"{path}: This is not the state of a monitor: it is not JSON ({error}).") from None
    try:
        return CalibrationMonitor.resume(calibrator, state)
    except ValueError as error:
        raise CalibratorFileError(f"{path}: {error}") from None
