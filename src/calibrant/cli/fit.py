"""`calibrant fit`: learn a calibrator from predictions with labels and store it as JSON."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from calibrant.cli import options
from calibrant.cli.files import make_layout, opened, print_json, tell_skipped
from calibrant.cli.mistakes import explained

app = typer.Typer(rich_markup_mode=None)


@app.command()
def fit(
    file: options.Input,
    label: options.Label,
    output: Annotated[str, typer.Option("--output", "-o", help="JSON file to write.")],
    method: options.Method = "auto",
    parameter: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter of the method, as name=value; may be repeated.")
    ] = None,
    probs: options.Probs = None,
    classes: options.Classes = None,
    weight: options.Weight = None,
    logits: options.Logits = False,
    renormalize: options.Renormalize = False,
    on_error: options.OnErrorOption = options.OnError.stop,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Learn a calibrator from predictions with labels, and store it as JSON.

    The rows must not be those the model was trained on. `calibrant methods` lists the methods.
    """
    with explained():
        from calibrant.files.tables.rows import RowReader, read_all
        from calibrant.files.tables.writers import check_output
        from calibrant.report.fitting import fit_labelled, make_calibrator, store

        check_output(output, force=force)
        calibrator, name = make_calibrator(method, parameter or (), logits=logits, renormalize=renormalize)
        with opened(file, [label, weight]) as (table, (label_, weight_)):
            layout = make_layout(label_, weight_, None, probs, classes, logits, renormalize)
            reader = RowReader(table, layout, skip_errors=on_error is options.OnError.skip)
            rows = read_all(reader)
            tell_skipped(reader)
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
