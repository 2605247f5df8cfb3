"""`calibrant export`: a stored calibrator in another language."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calibrant.cli import options
from calibrant.cli.mistakes import CommandError, asked
from calibrant.cli.printing import Output

if TYPE_CHECKING:
    from calibrant.writers.common import OptionError


@dataclass(frozen=True)
class TargetOptions:
    """What a target is asked for beyond the map."""

    dialect: str | None = options.option(
        "sql only: ansi (default), duckdb, postgres, bigquery, snowflake, spark, sqlite, mysql or mariadb."
    )
    table: str | None = options.option("sql only: table of the predictions, as in schema.table.")
    columns: str | None = options.option("sql only: columns of the predictions, as in a,b,c. Default: as in fit.")
    keep: str | None = options.option("sql only: further columns to select, as in id,day.")
    suffix: str | None = options.option("sql only: suffix of the calibrated columns. Default: _cal.")
    grades: str | None = options.option("sql only: table of grades (column upper); adds a column grade.")
    interval: float | None = options.option(
        "sql and onnx only: add intervals of this level, as in 0.9 (logistic methods)."
    )
    view: str | None = options.option("sql only: write a view of this name.")
    update: str | None = options.option(
        "sql only: update the calibrated columns of the table, matching rows by these keys, as in id."
    )


#: Options that are lists of columns.
_LISTS = ("columns", "keep", "update")


@options.command()
def export(
    *,
    calibrator: options.Calibrator,
    out: Output,
    to: str | None = options.option("python, js, c, onnx, torch or sql; default: by the file's extension."),
    float32: bool = options.flag("Single-precision input and output (onnx, torch). Default: double."),
    target: TargetOptions,
    cost: options.Cost = None,
    positive: options.Positive = None,
) -> None:
    """Write a calibrator in another language, and prove that it predicts the same.

    The export is run on a sample of rows and corner cases and compared; the largest difference is printed and stored
    in the file. If it is larger than rounding explains, no file is written. With --cost, or a rule stored by `calibrant
    fit --cost`, the export also gives the action to take.
    """
    from calibrant.workflows.loading import load_calibrator
    from calibrant.workflows.rules_given import given_scale, rule_of
    from calibrant.writers.common import OptionError
    from calibrant.writers.exporting import check_options, export_with_proof, file_of, find_target

    out.check("export")
    given = {name: options.split_names(value) if name in _LISTS else value for name, value in vars(target).items()}
    given["dtype"] = "float32" if float32 else None
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    flags = {name: f"--{name}" for name in (*given, "to")} | {"dtype": "--float32"}
    try:
        to = find_target(out.output, to)
        with asked():
            check_options(to, chosen, flags)
        fitted = load_calibrator(calibrator, labels=True)
        if target.grades is not None:
            chosen["grades"] = given_scale(target.grades, fitted)
        if cost is not None:
            fitted.set_rule(rule_of(fitted, cost, positive))
        done = export_with_proof(fitted, to=to, **chosen)
    except OptionError as error:
        raise CommandError(_spelled(error, flags[error.option])) from error
    data = file_of(done)
    out.write(data)
    values = {"to": done.to, "bytes": len(data), "difference": done.difference}
    out.tell(values, [f"{out.output}: {len(data):,} bytes. {done.proof}"])


def _spelled(error: OptionError, flag: str) -> str:
    """An error about an option in the words of the command line."""
    value = ",".join(error.value) if isinstance(error.value, list) else error.value
    return f"{flag} {'is not given' if value is None else shlex.quote(value)} {error.reason}"
