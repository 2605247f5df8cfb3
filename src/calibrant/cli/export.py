"""`calibrant export`: a stored calibrator in another language."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli import options
from calibrant.cli.mistakes import explained
from calibrant.cli.printing import print_json

app = typer.Typer(rich_markup_mode=None)


@app.command()
def export(
    calibrator: options.Calibrator,
    output: Annotated[str, typer.Option("--output", "-o", help="File to write.")],
    to: Annotated[
        str | None,
        typer.Option("--to", help="python, js, c, onnx or torch; by default what the file's name ends with."),
    ] = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write a calibrator in another language, and prove that it predicts the same.

    The export is run on a sample of rows and corner cases and compared; the largest difference is printed and stored
    in the file. If it is more than rounding there is no file.
    """
    with explained():
        from pathlib import Path

        from calibrant.files.stored.application import load_calibrator
        from calibrant.files.tables.writers import check_output
        from calibrant.writers.exporting import export_with_proof

        check_output(output, force=force)
        done = export_with_proof(load_calibrator(calibrator), output, to=to)
        size = Path(output).stat().st_size
        if as_json:
            print_json({"output": output, "to": done.to, "bytes": size, "difference": done.difference})
        else:
            typer.echo(f"{output}: {size:,} bytes. {done.proof}")
