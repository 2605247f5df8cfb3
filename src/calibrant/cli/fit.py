"""`calibrant fit`: learn a calibrator from predictions with labels and store it as JSON."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from calibrant.cli import options
from calibrant.cli.mistakes import CommandError, asked, explained
from calibrant.cli.printing import check_streams, class_columns, print_json
from calibrant.cli.reading import check_truth, reading

app = typer.Typer(rich_markup_mode=None)


@app.command()
def fit(
    file: options.Input,
    output: options.CalibratorOutput,
    label: options.Label = None,
    votes: options.Votes = None,
    method: options.Method = "auto",
    parameter: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter of the method, as in name=value; may be repeated.")
    ] = None,
    probs: options.Probs = None,
    classes: options.Classes = None,
    weight: options.Weight = None,
    segments: Annotated[
        str | None,
        typer.Option("--segments", help="Columns by which to correct the calibrator, as in region,device."),
    ] = None,
    group_by: options.GroupBy = None,
    blocks: options.Blocks = None,
    logits: options.Logits = False,
    renormalize: options.Renormalize = False,
    decimal: options.Decimal = None,
    on_error: options.OnErrorOption = options.OnError.stop,
    memory: Annotated[float, typer.Option("--memory", help="Memory in MiB for rows of a large file.", min=1)] = 512,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Learn a calibrator from predictions with labels, and store it as JSON.

    Files of any size are read in batches. Methods that need only sums over rows take all of them in a few passes; the
    others take a uniform sample, as many rows as the memory allows. With --segments the calibrator is corrected in each
    segment as far as its rows can tell, and `calibrant apply` reads the same columns. With --group-by rows of one group
    stay together wherever a method cross-validates. With --votes a row counts once for each class, with its votes as
    weights.

    The rows must not be those the model was trained on. `calibrant methods` lists the methods.
    """
    with explained():
        from calibrant.files.tables.batches import LabelledBatches
        from calibrant.files.tables.rows import Labelled
        from calibrant.files.tables.writers import check_output
        from calibrant.report.fitting import fit_in_memory, fit_table, make_calibrator, store

        check_truth(label, votes)
        check_streams(as_json, output, "calibrator")
        check_output(output, force=force)
        columns = options.split_names(segments)
        if columns is not None and (not columns or label in columns):
            raise CommandError("--segments names columns other than the label, as in --segments region,device")
        with asked():
            calibrator, name = make_calibrator(method, parameter or (), logits=logits, renormalize=renormalize)
        with reading(
            file,
            label,
            weight,
            segments,
            probs,
            classes,
            logits,
            renormalize,
            decimal,
            on_error,
            votes,
            group_by,
            blocks,
        ) as reader:
            start = time.perf_counter()
            table: Labelled | LabelledBatches
            if columns is not None or reader.layout.grouped:
                fitted, table = fit_in_memory(calibrator, reader, memory)
            else:
                table = LabelledBatches(reader)
                fitted = fit_table(calibrator, table, memory)
        seconds = time.perf_counter() - start
        read, used = fitted.batches_["rows"], fitted.batches_["rows_used"]
        store(fitted, output, force=force)
        if as_json:
            print_json(
                {
                    "output": output,
                    "method": name,
                    "rows": read,
                    "rows_used": used,
                    "passes": fitted.batches_["passes"],
                    "rows_skipped": reader.skipped.count,
                    "classes": list(table.classes),
                    "columns": list(table.columns),
                    "seconds": seconds,
                    "summary": fitted.summary().splitlines(),
                }
            )
        elif output != "-":
            what = "observations" if votes else "rows"
            typer.echo(
                f"{output}: {name} fitted to {used:,} {what} and {len(table.classes)} classes in {seconds:.2g} s"
            )
            if used < read:
                typer.echo(
                    f"These are a uniform sample of {read:,} {what}: {name} needs them in memory. More --memory makes "
                    "it larger; `calibrant methods` tells which methods take all rows."
                )
            typer.echo(class_columns(table.columns, table.classes))
            typer.echo(fitted.summary())
