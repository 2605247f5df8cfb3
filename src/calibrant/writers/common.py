"""What all writers share: their options and errors, facts about a map for its file, and programs that run exports."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import __version__
from calibrant.inputs.segments import MISSING
from calibrant.runtime import Map
from calibrant.steps import Steps
from calibrant.steps.step import all_steps
from calibrant.typing import AnyArray, FloatArray

#: The columns of segments, or of amounts, of some rows, by name.
Segments = Mapping[str, AnyArray]


class OptionError(ValueError):
    """An `option` has a `value` that cannot be used (`None`: it was not given); `reason` also says what to do."""

    def __init__(self, option: str, value: Any, reason: str) -> None:
        super().__init__(f"{option}={value!r} {reason}")
        self.option, self.value, self.reason = option, value, reason


def check_precision(steps: Steps, dtype: Any, inside: Any = None) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The precision of what goes in and comes out, and that of the computation.

    That is double where a step decides, and where columns are mixed: the logarithm of an impossible class is rounded by
    more than other classes' logarithms allow.
    """
    for given in (dtype, inside):
        if given is not None and str(given) not in ("float64", "float32") and given not in (np.float64, np.float32):
            raise ValueError(f'{given!r} is not a precision: use "float64" or "float32".')
    if inside is None:
        inside = np.float64 if any(step.decides or step.mixes for step in all_steps(steps)) else dtype
    return np.dtype(dtype), np.dtype(inside)


def facts(fitted: Map, notes: Iterable[str]) -> dict[str, str]:
    """What a file that is not source code says about itself, in its metadata."""
    columns = [{"name": name, "levels": levels} for name, levels in fitted.segments.items()]
    return {
        **({"segments": json.dumps(columns)} if columns else {}),
        **({} if fitted.rule is None else {"actions": json.dumps(fitted.rule.to_json()["actions"])}),
        **({"amounts": json.dumps(list(fitted.rule.amounts))} if fitted.rule and fitted.rule.amounts else {}),
        "classes": json.dumps(fitted.classes),
        "columns": json.dumps(names_of_all(fitted)),
        "method": fitted.method,
        "version": f"calibrant {__version__}",
        "input": fitted.input,
        "parity": " ".join(notes),
    }


def names_of_all(fitted: Map) -> list[str]:
    """The name of each column, for targets that take one column per class; the classes if a single column had one."""
    return fitted.column_names if len(fitted.column_names) == fitted.k else [str(label) for label in fitted.classes]


def title(fitted: Map) -> str:
    """One line about a map, made of words of this package only: no name of a user's class can end a comment."""
    kind = "independent labels" if fitted.independent else "classes"
    return f"A calibration map of {fitted.input} of {fitted.k} {kind}, fitted by calibrant."


def row_by_row(frame: Segments) -> list[dict[str, Any]]:
    """The values of each row of a frame, by column."""
    return [dict(zip(frame, values)) for values in zip(*(column.tolist() for column in frame.values()))]


def arrays_beside(fitted: Map, n: int, segments: Segments | None, amounts: Segments | None) -> dict[str, FloatArray]:
    """What `n` rows have beside predictions, as arrays: numbers of segments, NaN for missing ones, and amounts."""
    found, numbers = {}, fitted.numbers(segments, n)
    if numbers is not None:
        found["segments"] = np.where(numbers == MISSING, np.nan, numbers)
    if amounts is not None and fitted.rule is not None:
        found["amounts"] = np.column_stack([amounts[name] for name in fitted.rule.amounts])
    return found


class MissingRuntimeError(ImportError):
    """What would run an export is not installed."""


@contextmanager
def workshop(files: Mapping[str, str]) -> Iterator[Path]:
    """A new folder with these files, for programs; it is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="calibrant-export-") as name:
        for file, text in files.items():
            (Path(name) / file).write_text(text, encoding="utf-8")
        yield Path(name)


def run_program(command: list[str], folder: Path, stdin: str = "") -> str:
    """What a program writes to its standard output; an error if it fails."""
    if shutil.which(command[0]) is None:
        raise MissingRuntimeError(f"{command[0]} is not installed.")
    done = subprocess.run(command, cwd=folder, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed on an export: {done.stderr[-1000:]}")
    return done.stdout
