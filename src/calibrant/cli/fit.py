"""`calibrant fit`: learn a calibrator from predictions with labels and store it as JSON."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from calibrant.cli import options
from calibrant.cli.mistakes import CommandError, asked, explained
from calibrant.cli.printing import class_columns, print_json
from calibrant.cli.reading import reading

app = typer.Typer(rich_markup_mode=None)


@app.command()
def fit(
    file: options.Input,
    label: options.Label,
    output: Annotated[str, typer.Option("--output", "-o", help="JSON file to write; - is standard output.")],
    method: options.Method = "auto",
    parameter: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter of the method, as in name=value; may be repeated.")
    ] = None,
    probs: options.Probs = None,
    classes: options.Classes = None,
    weight: options.Weight = None,
    logits: options.Logits = False,
    renormalize: options.Renormalize = False,
    decimal: options.Decimal = None,
    on_error: options.OnErrorOption = options.OnError.stop,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Learn a calibrator from predictions with labels, and store it as JSON.

    The rows must not be those the model was trained on. `calibrant methods` lists the methods.
    """
    with explained():
        from calibrant.files.tables.rows import read_all
        from calibrant.files.tables.writers import check_output
        from calibrant.report.fitting import fit_labelled, make_calibrator, store

        if as_json and output == "-":
            raise CommandError("--json and the calibrator cannot share standard output; name an --output file")
        check_output(output, force=force)
        with asked():
            calibrator, name = make_calibrator(method, parameter or (), logits=logits, renormalize=renormalize)
        with reading(file, label, weight, None, probs, classes, logits, renormalize, decimal, on_error) as reader:
            rows = read_all(reader)
        start = time.perf_counter()
        fitted = fit_labelled(calibrator, rows)
        seconds = time.perf_counter() - start
        store(fitted, output, force=force)
        if as_json:
            print_json(
                {
                    "output": output,
                    "method": name,
                    "rows": len(rows.codes),
                    "rows_skipped": reader.skipped.count,
                    "classes": list(rows.classes),
                    "columns": list(rows.columns),
                    "seconds": seconds,
                }
            )
        elif output != "-":
            typer.echo(
                f"{output}: {name} fitted to {len(rows.codes):,} rows and {len(rows.classes)} classes "
                f"in {seconds:.2g} s"
            )
            typer.echo(class_columns(rows.columns, rows.classes))
