"""`calibrant export`: a stored calibrator in another language."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import options
from calibrant.cli.mistakes import CommandError, asked
from calibrant.cli.printing import check_result, print_result

if TYPE_CHECKING:
    from calibrant.writers.common import OptionError

app = typer.Typer(rich_markup_mode=None)


@options.command(app)
def export(
    calibrator: options.Calibrator,
    output: Annotated[str, typer.Option("--output", "-o", help="File to write; - is standard output.")],
    to: Annotated[
        str | None,
        typer.Option("--to", help="python, js, c, onnx, torch or sql; default: by the file's extension."),
    ] = None,
    float32: Annotated[
        bool, typer.Option("--float32", help="Single-precision input and output (onnx, torch). Default: double.")
    ] = False,
    dialect: Annotated[
        str | None,
        typer.Option(
            "--dialect",
            help="sql only: ansi (default), duckdb, postgres, bigquery, snowflake, spark, sqlite, mysql or mariadb.",
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option("--table", help="sql only: table of the predictions, as in schema.table.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", help="sql only: columns of the predictions, as in a,b,c. Default: as in fit."),
    ] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", help="sql only: further columns to select, as in id,day.")
    ] = None,
    suffix: Annotated[
        str | None, typer.Option("--suffix", help="sql only: suffix of the calibrated columns. Default: _cal.")
    ] = None,
    grades: Annotated[
        str | None, typer.Option("--grades", help="sql only: table of grades (column upper); adds a column grade.")
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval", help="sql and onnx only: add intervals of this level, as in 0.9 (logistic methods)."
        ),
    ] = None,
    view: Annotated[str | None, typer.Option("--view", help="sql only: write a view of this name.")] = None,
    update: Annotated[
        str | None,
        typer.Option(
            "--update",
            help="sql only: update the calibrated columns of the table, matching rows by these keys, as in id.",
        ),
    ] = None,
    cost: options.Cost = None,
    positive: options.Positive = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write a calibrator in another language, and prove that it predicts the same.

    The export is run on a sample of rows and corner cases and compared; the largest difference is printed and stored
    in the file. If it is larger than rounding explains, no file is written. With --cost, or a rule stored by `calibrant
    fit --cost`, the export also gives the action to take.
    """
    from calibrant.files.tables.writers import atomic_output
    from calibrant.workflows.loading import load_calibrator
    from calibrant.workflows.rules_given import given_scale, rule_of
    from calibrant.writers.common import OptionError
    from calibrant.writers.exporting import check_options, export_with_proof, file_of, find_target

    check_result(output, "export", force=force, as_json=as_json)
    given = {
        "dtype": "float32" if float32 else None,
        "dialect": dialect,
        "table": table,
        "columns": options.split_names(columns),
        "keep": options.split_names(keep),
        "suffix": suffix,
        "grades": grades,
        "interval": interval,
        "view": view,
        "update": options.split_names(update),
    }
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    flags = {name: f"--{name}" for name in (*given, "to")} | {"dtype": "--float32"}
    try:
        to = find_target(output, to)
        with asked():
            check_options(to, chosen, flags)
        fitted = load_calibrator(calibrator, labels=True)
        if grades is not None:
            chosen["grades"] = given_scale(grades, fitted)
        if cost is not None:
            fitted.set_rule(rule_of(fitted, cost, positive))
        done = export_with_proof(fitted, to=to, **chosen)
    except OptionError as error:
        raise CommandError(_spelled(error, flags[error.option])) from error
    data = file_of(done)
    with atomic_output(output, force=force) as stream:
        stream.write(data)
    values = {"output": output, "to": done.to, "bytes": len(data), "difference": done.difference}
    print_result(values, [f"{output}: {len(data):,} bytes. {done.proof}"], as_json=as_json)


def _spelled(error: OptionError, flag: str) -> str:
    """An error about an option in the words of the command line."""
    value = ",".join(error.value) if isinstance(error.value, list) else error.value
    return f"{flag} {'is not given' if value is None else shlex.quote(value)} {error.reason}"
