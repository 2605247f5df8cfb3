"""Export of fitted calibrators: the target by name or by a file's extension, and the proof that it predicts the same.

Every export is run, where its runtime is installed, on a sample of rows and corner cases and compared with the NumPy
definition. The largest difference is stored in the file; above the tolerance there is an error and no file.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.files.atomic import atomic_stream
from calibrant.inputs.words import CalibrationWarning
from calibrant.optional import require
from calibrant.runtime import Map
from calibrant.steps.actions import TIE, CostTable, cheapest
from calibrant.typing import FloatArray, TableLike
from calibrant.writers.common import MissingRuntimeError, OptionError, Segments, row_by_row
from calibrant.writers.proof_rows import draw_amounts, sample_rows, with_segments

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Largest difference of a probability that an export in double precision may have.
TOLERANCE = 1e-12
#: And one in single precision, from the definition for the same numbers.
TOLERANCE_SINGLE = 2e-6


@dataclass(frozen=True)
class Target:
    """Where a map can go: the module that writes and runs it, the endings of its files, and its options.

    The module has ``write(fitted, notes, **options)``, the object, and ``run(written, fitted, rows, **options)``, its
    predictions, which raises `MissingRuntimeError` where nothing can run it; of a map that takes segments `run` gets
    those of the rows as ``segments``, a dict of columns. It may have ``taken(fitted, rows, **options)``, rows in the
    columns that the object reads, ``limits(written, **options)``, what its users should be warned of, and
    ``to_bytes(written)``, the file.
    """

    module: str
    endings: tuple[str, ...]
    needs: str = "json"
    extra: str = ""
    options: tuple[str, ...] = ()


TARGETS = {
    "python": Target("calibrant.writers.python_source", (".py",)),
    "js": Target("calibrant.writers.javascript", (".js", ".cjs")),
    "c": Target("calibrant.writers.c_source", (".c",)),
    "onnx": Target("calibrant.writers.onnx_graph", (".onnx",), "onnx", "export", ("dtype", "inside", "interval")),
    "torch": Target("calibrant.writers.torch_module", (".pt2",), "torch", "torch", ("dtype", "inside")),
    "sql": Target(
        "calibrant.writers.sql",
        (".sql",),
        "sqlglot",
        "export",
        ("dialect", "table", "columns", "keep", "suffix", "grades", "interval", "view", "update"),
    ),
}
#: Those that can write maps of independent labels.
LABEL_TARGETS = ("onnx", "sql")


class ParityError(ValueError):
    """An export that predicts something else than the calibrator."""


@dataclass(frozen=True)
class Exported:
    """What was written, and how far it was from the definition on the sample (`None`: what would run it is missing)."""

    written: Any
    to: str
    difference: float | None
    rows: int
    missing: str = ""
    decides: bool = False

    @property
    def proof(self) -> str:
        """The result of the comparison, in words."""
        if self.difference is None:
            return f"Not proven: {self.missing}"
        actions = ", the same actions" if self.decides else ""
        return f"Compared with calibrant on {self.rows} rows: largest difference {self.difference:.1e}{actions}."


def export(
    calibrator: object, path: str | os.PathLike[str] | None = None, *, to: str | None = None, **options: Any
) -> Any:
    """Write a fitted calibrator in another language, and prove that it predicts the same.

    Parameters
    ----------
    calibrator : fitted calibrator or Map
        Any calibrator whose map is a list of steps: all that can be stored.
    path : str or path-like, default=None
        File to write; its extension names the target unless `to` does.
    to : {"python", "js", "c", "onnx", "torch", "sql"}, default=None
        The target.
    **options
        For ``"onnx"`` and ``"torch"``: `dtype`, ``"float64"`` (default) or ``"float32"``, the precision of the numbers
        that go in and come out, and `inside`, that of the computation, by default single only if that is exact enough.
        For ``"sql"``: `dialect` (``"ansi"``, ``"duckdb"``, ``"postgres"``, ``"bigquery"``, ``"snowflake"``,
        ``"spark"``, ``"sqlite"``, ``"mysql"`` or ``"mariadb"``), `table`, `columns` (of the predictions, by default
        named as in `fit` or as the classes), `keep` (further columns to select), `suffix` (of the calibrated
        columns' names), `grades` (a `MasterScale`: adds the grade of the second of two classes), `view` (a name: write
        a view instead of a query) and `update` (the columns by which a row is known: write a statement that fills the
        calibrated columns of the table itself). For both ``"onnx"`` and ``"sql"``: `interval`, a level such as 0.9,
        adds intervals of the probabilities, after `fit_intervals` by the delta method.

    Returns
    -------
    written : Path, str, onnx.ModelProto or torch.nn.Module
        The path of the file, if one was asked for; else the source code, the model or the module.

    Raises
    ------
    ParityError
        The export predicts something else on the sample; no file is written.

    Examples
    --------
    >>> import calibrant
    >>> ts = calibrant.get_calibrator("ts").fit([0.1, 0.6, 0.9, 0.8], ["no", "no", "yes", "yes"])
    >>> text = calibrant.export(ts, to="python")
    >>> scope = {}
    >>> exec(text, scope)
    >>> scope["calibrate"]([0.3, 0.7]) == ts.predict_proba([[0.3, 0.7]])[0].tolist()
    True
    """
    done = export_with_proof(calibrator, path, to=to, **options)
    return done.written if path is None else Path(path)


def export_with_proof(
    calibrator: BaseEstimator,
    path: str | os.PathLike[str] | None = None,
    *,
    to: str | None = None,
    rows: FloatArray | None = None,
    **options: object,
) -> Exported:
    """`export`, with the result of the comparison, which is made on `rows` (n, k), too, if they are given."""
    fitted = calibrator if isinstance(calibrator, Map) else calibrator.to_map()
    to = find_target(path, to)
    check_options(to, options)
    if fitted.independent and to not in LABEL_TARGETS:
        reason = f"cannot hold maps of independent labels: use {' or '.join(LABEL_TARGETS)}."
        raise OptionError("to", to, reason)
    if (level := options.pop("interval", None)) is not None:
        fitted = replace(fitted, interval=calibrator.interval_steps(level))
    require(TARGETS[to].needs, extra=TARGETS[to].extra)
    module = import_module(TARGETS[to].module)
    sample = sample_rows(fitted) if rows is None else np.concatenate([sample_rows(fitted), rows])
    sample, frame = with_segments(fitted, sample)
    beside = (frame, None if fitted.rule is None else draw_amounts(fitted.rule, len(sample)))
    try:
        difference, options = _proven(module, fitted, sample, beside, options)
        done = Exported(None, to, difference, len(sample), decides=fitted.rule is not None)
    except MissingRuntimeError as error:
        done = Exported(None, to, None, 0, str(error))
    written = module.write(fitted, [done.proof], **options)
    for limit in module.limits(written, **options) if hasattr(module, "limits") else ():
        warnings.warn(limit, CalibrationWarning, stacklevel=3)
    done = replace(done, written=written)
    if path is not None:
        with atomic_stream(path) as file:
            file.write(file_of(done))
    return done


def file_of(done: Exported) -> bytes:
    """What a file holds of something that was exported."""
    module = import_module(TARGETS[done.to].module)
    data: str | bytes = module.to_bytes(done.written) if hasattr(module, "to_bytes") else done.written
    return data.encode("utf-8") if isinstance(data, str) else data


def _proven(
    module: Any, fitted: Map, rows: FloatArray, beside: tuple[Segments | None, ...], options: dict[str, Any]
) -> tuple[float, dict[str, object]]:
    """The largest difference on rows with segments and amounts; and options, with double precision inside if needed."""
    single = np.dtype(options.get("dtype", np.float64)) == np.float32
    tolerance = TOLERANCE_SINGLE if single else TOLERANCE
    written = module.write(fitted, [], **options)
    rows = module.taken(fitted, rows, **options) if hasattr(module, "taken") else rows
    try:
        run = partial(module.run, **options)
        return prove(written, fitted, run, tolerance, rows, *beside, single=single), options
    except ParityError:
        if not single or "inside" in options:
            raise
        return _proven(module, fitted, rows, beside, {**options, "inside": "float64"})


def check_options(to: str, options: Iterable[str], spelling: Mapping[str, str] | None = None) -> None:
    """Refuse an option that the target `to` does not have; `spelling` is how the user wrote it."""
    for name in options:
        if name in TARGETS[to].options:
            continue
        written = (spelling or {}).get(name, name)
        others = [other for other, target in TARGETS.items() if name in target.options]
        if others:
            raise ValueError(f"{written} is an option of {' and '.join(others)}, not of {to}: leave it out.")
        known = ", ".join(TARGETS[to].options)
        raise ValueError(f"{written} is not an option of {to}; its options are {known or 'none'}.")


def prove(
    written: object,
    fitted: Map,
    run: Callable[..., FloatArray],
    tolerance: float,
    rows: FloatArray,
    segments: Segments | None = None,
    amounts: Segments | None = None,
    *,
    single: bool = False,
) -> float:
    """The largest difference between an export and the definition; `single`: on rows rounded to single precision."""
    rows = rows.astype(np.float32).astype(np.float64) if single else rows
    beside = {} if segments is None else {"segments": segments}
    found = np.asarray(run(written, fitted, rows, **beside, **({"amounts": amounts} if amounts else {})), np.float64)
    expected = _defined(fitted, rows, beside)
    width = expected.shape[1]
    difference = np.abs(found[:, :width] - expected).max(axis=1)
    # Where the map is so steep that the last digit of a prediction matters, no two programs can agree better.
    allowed = tolerance + 4.0 * np.max(
        [np.abs(_defined(fitted, moved, beside) - expected).max(axis=1) for moved in _moved_by_rounding(rows)],
        axis=0,
    )
    excess = np.where(difference <= allowed, 0.0, np.where(np.isnan(difference), np.inf, difference))
    if excess.any():
        worst = int(np.argmax(excess))
        where = "" if segments is None else f" with {row_by_row(segments)[worst]}"
        raise ParityError(
            f"This export predicts {found[worst, :width].tolist()} for {rows[worst].tolist()}{where}, the "
            f"calibrator {expected[worst].tolist()}: they differ by {difference[worst]:.1e}, more than rounding "
            "explains. Nothing was written."
        )
    if fitted.rule is not None:
        p = expected[:, : fitted.k]
        _prove_actions(found[:, width], fitted.rule, p, amounts or {}, allowed, single=single)
    return float(difference.max())


def _defined(fitted: Map, rows: FloatArray, beside: Mapping[str, TableLike]) -> FloatArray:
    """Probabilities, and behind them lower and upper ends if the map has intervals."""
    p = fitted.predict_proba(rows, **beside)
    return p if fitted.interval is None else np.hstack([p, *np.moveaxis(fitted.predict_interval(rows), 2, 0)])


def _prove_actions(
    found: FloatArray,
    rule: CostTable,
    p: FloatArray,
    amounts: Segments,
    allowed: FloatArray,
    *,
    single: bool,
) -> None:
    """Refuse an export that takes an action which is dearer than rounding explains."""
    costs = rule.expected(p, amounts)
    rows, least = np.arange(len(p)), costs.min(axis=1)
    most = rule.expected(np.ones_like(p), amounts).max(axis=1)
    slack = (1e-5 if single else 2.0 * TIE) * least + allowed * most
    lost = np.where(found < 0, np.inf, costs[rows, np.maximum(found, 0).astype(int)] - least)
    if np.any(lost > slack):
        worst = int(np.argmax(lost - slack))
        raise ParityError(
            f"This export takes action {found[worst]:g} at the probabilities {p[worst].tolist()}, the calibrator "
            f"{rule.names[int(cheapest(costs[[worst]])[0])]!r}. Nothing was written."
        )


def _moved_by_rounding(rows: FloatArray) -> list[FloatArray]:
    """The same rows with the last digits of every number changed, in opposite directions from column to column."""
    sign = np.where(np.arange(rows.shape[1]) % 2, 1.0, -1.0)
    return [rows * (1.0 + turn * sign * 4.0 * np.finfo(np.float64).eps) for turn in (1.0, -1.0)]


def find_target(path: str | os.PathLike[str] | None, to: str | None) -> str:
    """The target that `to` or the ending of a file's name says."""
    if to is None and path is not None:
        ending = Path(path).suffix.lower()
        to = next((name for name, target in TARGETS.items() if ending in target.endings), None)
    if to not in TARGETS:
        endings = ", ".join(ending for target in TARGETS.values() for ending in target.endings)
        what = "and the file's name does not show the target" if to is None else "is not a target"
        raise OptionError("to", to, f"{what}: take one of {', '.join(TARGETS)}, or a name that ends with {endings}.")
    return to
