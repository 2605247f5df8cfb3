"""Calibrators by name for tables of predictions: made, refused if they cannot be stored, fitted, stored."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from calibrant.calibrators.registry import get_calibrator, list_calibrators
from calibrant.files.stored.application import NamedColumns
from calibrant.files.tables.rows import Labelled
from calibrant.files.tables.table import RequestError
from calibrant.files.tables.writers import atomic_output


def default_method() -> str:
    """The method recommended without looking at data: `auto` where it is registered."""
    names = {info.name for info in list_calibrators()}
    return "auto" if "auto" in names else "logistic"


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
    name = default_method() if method == "auto" else method
    settings = dict(_parsed(pair) for pair in parameters)
    if logits:
        settings["input"] = "logits"
    if renormalize:
        settings["renormalize"] = True
    try:
        calibrator = get_calibrator(name, **settings)
    except TypeError as error:
        raise RequestError(f"the method {name!r} does not take this parameter: {error}") from error
    except ValueError as error:
        raise RequestError(str(error)) from error
    check_storable(calibrator, name)
    return calibrator, name


def _parsed(pair: str) -> tuple[str, Any]:
    name, sign, text = pair.partition("=")
    if not sign or not name:
        raise RequestError(f"--set takes name=value, not {pair!r}")
    try:
        return name, json.loads(text)
    except json.JSONDecodeError:
        return name, text


def check_storable(calibrator: Any, name: str) -> None:
    """Raise if the calibrator could not be stored as JSON once it is fitted.

    What a fitted calibrator is made of shows only in one, so a twin is fitted to made-up rows and stored.
    """
    import calibrant

    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 400)  # enough rows for trees to grow
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            twin = clone(calibrator).fit(np.column_stack([1 - p, p]), (rng.random(400) < p).astype(int))
        except ValueError:
            return  # what is wrong with the parameters is said where the data are fitted
        try:
            calibrant.save(twin, Path(folder) / "twin.json")
        except (TypeError, ValueError) as error:
            raise RequestError(f"the method {name!r} cannot be stored, choose another: {error}") from error


def fit_labelled(calibrator: Any, rows: Labelled) -> Any:
    """Fit to rows of a table; the calibrator remembers the names of the columns."""
    if "classes" in calibrator.get_params(deep=False):
        calibrator.set_params(classes=np.array(rows.classes))
    frame = NamedColumns(list(rows.columns), rows.values)
    return calibrator.fit(frame, rows.labels, sample_weight=rows.weight)


def store(calibrator: Any, output: str | Path, *, force: bool = False) -> None:
    """Store a fitted calibrator as JSON."""
    import calibrant

    with tempfile.TemporaryDirectory() as folder, atomic_output(output, force=force) as stream:
        file = Path(folder) / "calibrator.json"
        calibrant.save(calibrator, file)
        stream.write(file.read_bytes())
