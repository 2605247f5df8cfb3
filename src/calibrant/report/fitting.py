"""Calibrators by name for tables of predictions: made, refused if they cannot be stored, fitted, stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.calibrators.registry import calibrator_info
from calibrant.calibrators.streaming import rows_in_memory
from calibrant.deployment import SegmentedCalibrator
from calibrant.deployment.segments.columns import BINS
from calibrant.files.stored.persistence import stored_text
from calibrant.files.tables.batches import LabelledBatches
from calibrant.files.tables.rows import Labelled, RowReader, read_all
from calibrant.files.tables.table import RequestError
from calibrant.files.tables.writers import atomic_output
from calibrant.inputs.segments import numbers_if_all_are
from calibrant.inputs.sources import NamedColumns


def make_calibrator(
    method: str, parameters: Sequence[str] = (), *, logits: bool = False, renormalize: bool = False
) -> tuple[Any, str]:
    """An unfitted calibrator that can be stored as JSON, and the name of its method.

    Parameters
    ----------
    method : str
        Name of the registry.
    parameters : sequence of str
        `name=value` pairs; values are read as JSON where they can be, else as text.
    logits, renormalize : bool
        What the predictions are.

    Examples
    --------
    >>> make_calibrator("sms", ["penalty=lasso", "rho=0.5"])
    (SMSCalibrator(penalty='lasso', rho=0.5), 'sms')
    """
    settings = dict(_parsed(pair) for pair in parameters)
    if logits:
        settings["input"] = "logits"
    if renormalize:
        settings["renormalize"] = True
    try:
        info = calibrator_info(method)
    except ValueError as error:
        raise RequestError(str(error)) from error
    if not info.stores:
        raise RequestError(f"the method {info.name!r} cannot be stored, choose another: `calibrant methods` lists them")
    try:
        return info.make(**settings), info.name
    except (TypeError, ValueError) as error:
        raise RequestError(f"the method {info.name!r} does not take this parameter: {error}") from error


def _parsed(pair: str) -> tuple[str, Any]:
    name, sign, text = pair.partition("=")
    if not sign or not name:
        raise RequestError(f"parameters are given as name=value, not as {pair!r}")
    try:
        return name, json.loads(text)
    except json.JSONDecodeError:
        return name, text


def fit_table(calibrator: Any, batches: LabelledBatches, memory_mb: float) -> Any:
    """Fit to the rows of a table, which need not fit into memory; the calibrator remembers the names of the columns."""
    if "classes" in calibrator.get_params(deep=False):
        calibrator.set_params(classes=np.array(batches.classes))
    return calibrator.fit_batches(batches, memory_mb=memory_mb)


def fit_in_memory(calibrator: Any, reader: RowReader, memory_mb: float) -> tuple[Any, Labelled]:
    """A calibrator, with corrections if the layout names segments, and the rows it was fitted to.

    They are all rows of the table, or a uniform sample of them that takes so much memory, of whole groups if rows
    belong together.
    """
    rows = read_all(reader, partial(rows_in_memory, memory_mb))
    beside: dict[str, Any] = {} if rows.groups is None else {"groups": rows.groups}
    if rows.segments is not None:
        beside["segments"] = {
            name: numbers_if_all_are(column, BINS) for name, column in zip(reader.layout.segments, rows.segments.T)
        }
        calibrator = SegmentedCalibrator(
            calibrator,
            input="logits" if reader.layout.logits else "probabilities",
            renormalize=reader.layout.renormalize,
        )
    if "classes" in calibrator.get_params(deep=False):
        calibrator.set_params(classes=np.array(rows.classes))
    calibrator.fit(NamedColumns(list(rows.columns), rows.values), rows.labels, rows.weight, **beside)
    calibrator.batches_ = {"rows": rows.n_usable, "rows_used": len(rows.codes), "passes": 1}
    return calibrator, rows


def store(calibrator: Any, output: str | Path, *, force: bool = False) -> None:
    """Store a fitted calibrator as JSON."""
    with atomic_output(output, force=force) as stream:
        stream.write(stored_text(calibrator).encode())
