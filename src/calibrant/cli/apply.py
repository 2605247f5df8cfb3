"""`calibrant apply`: new predictions through a stored calibrator."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli import options
from calibrant.cli.files import make_layout, opened, print_json, progress_over, tell_skipped
from calibrant.cli.mistakes import explained

app = typer.Typer(rich_markup_mode=None)


@app.command()
def apply(
    calibrator: Annotated[str, typer.Argument(metavar="CALIBRATOR", help="JSON file that `calibrant fit` wrote.")],
    file: options.Input,
    output: Annotated[str, typer.Option("--output", "-o", help="File to write; - is standard output.")],
    probs: options.Probs = None,
    suffix: Annotated[
        str, typer.Option("--suffix", help="Keep the columns and add calibrated ones with this at the end, as _cal.")
    ] = "",
    renormalize: options.Renormalize = False,
    on_error: options.OnErrorOption = options.OnError.stop,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Replace the probabilities in a file by calibrated ones.

    All other columns pass through as they are, in their order. Files of any size are handled in chunks; the output
    appears when it is complete. Rows skipped by --on-error skip are left out of it.
    """
    with explained():
        from calibrant.files.stored.application import apply_to_table, load_calibrator
        from calibrant.files.tables.rows import RowReader
        from calibrant.files.tables.table import RequestError
        from calibrant.files.tables.writers import check_output

        if as_json and output == "-":
            raise RequestError("--json and the calibrated rows cannot share standard output; name an --output file")
        check_output(output, force=force)
        fitted = load_calibrator(calibrator)
        with opened(file) as (table, _):
            logits = getattr(fitted, "input", "probabilities") == "logits"
            renormalize = renormalize or bool(getattr(fitted, "renormalize", False))
            layout = make_layout(None, None, None, probs, None, logits, renormalize)
            reader = RowReader(table, layout, skip_errors=on_error is options.OnError.skip)
            rows = apply_to_table(
                fitted, reader, output, suffix=suffix, force=force, progress=progress_over(table, "apply")
            )
            tell_skipped(reader)
        if as_json:
            print_json({"output": output, "rows": rows, "rows_skipped": reader.skipped.count})
        elif output != "-":
            typer.echo(f"{output}: {rows:,} rows calibrated")
