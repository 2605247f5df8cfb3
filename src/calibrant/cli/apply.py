"""`calibrant apply`: new predictions through a stored calibrator."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from calibrant.cli import options
from calibrant.cli.labels import apply_to_labels
from calibrant.cli.mistakes import asked
from calibrant.cli.printing import check_streams, class_columns, print_json
from calibrant.cli.reading import reading, reading_rules
from calibrant.cli.reading_progress import progress_over

app = typer.Typer(rich_markup_mode=None)


@options.command(app)
def apply(
    calibrator: options.Calibrator,
    file: options.Input,
    output: Annotated[str, typer.Option("--output", "-o", help="File to write; - is standard output.")],
    table: options.RowOptions,
    suffix: Annotated[
        str, typer.Option("--suffix", help="Keep the columns and add calibrated ones with this suffix, as in _cal.")
    ] = "",
    interval: Annotated[
        float | None,
        typer.Option("--interval", help="Add intervals of the probabilities with this level, as in 0.9 (_low, _high)."),
    ] = None,
    renormalize: options.Renormalize = False,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Replace the probabilities in a file by calibrated ones.

    All other columns pass through unchanged, in their order. Files of any size are handled in chunks; the output
    appears when it is complete. Rows skipped by --on-error skip are left out of it. With --interval it says how sure
    each probability is, if `calibrant fit --intervals` has learned that.
    """
    from calibrant.files.tables.writers import check_output
    from calibrant.workflows import applying
    from calibrant.workflows.stored_map import load_map

    check_streams(as_json, output, "calibrated rows")
    check_output(output, force=force)
    if (
        not table.probs
        and ".jsonl" in file
        and _applied_to_answers(
            calibrator,
            file,
            output,
            suffix=suffix,
            force=force,
            skip=table.on_error is options.OnError.skip,
            json=as_json,
        )
    ):
        return
    fitted: Any = load_map(calibrator) if interval is None else None
    if fitted is None:  # intervals need more than the map
        from calibrant.confidence import check_level
        from calibrant.workflows.loading import check_intervals, load_calibrator

        with asked():
            interval = None if interval is None else check_level(interval)
        fitted = load_calibrator(calibrator, labels=True)
        if interval is not None:
            check_intervals(fitted)
    if getattr(fitted, "independent", False):
        return apply_to_labels(calibrator, file, output, table, suffix=suffix, force=force, as_json=as_json)
    with reading(file, **vars(table), **reading_rules(fitted, renormalize=renormalize)) as reader:
        done = applying.apply(
            fitted,
            reader,
            output,
            suffix=suffix,
            level=interval,
            force=force,
            progress=progress_over(reader.table, "apply"),
        )
    if as_json:
        print_json(
            {
                "output": output,
                "rows": done.rows,
                "rows_skipped": reader.skipped.count,
                "columns": dict(zip(done.columns, done.classes)),
            }
        )
    elif output != "-":
        typer.echo(f"{output}: {done.rows:,} rows calibrated")
        typer.echo(class_columns(done.columns, done.classes))


def _applied_to_answers(
    calibrator: str, file: str, output: str, *, suffix: str, force: bool, skip: bool, json: bool
) -> bool:
    """Whether the file holds questions with options; their probabilities are then written."""
    from calibrant.files.tables.answer_files import holds_options

    if not holds_options(file):
        return False
    from calibrant.workflows.answering import apply_answers
    from calibrant.workflows.loading import load_calibrator

    rows = apply_answers(load_calibrator(calibrator), file, output, suffix=suffix, force=force, skip=skip)
    if json:
        print_json({"output": output, "rows": rows})
    elif output != "-":
        typer.echo(f"{output}: {rows:,} answers calibrated")
    return True
