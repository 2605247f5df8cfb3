"""`calibrant methods`: the registry of calibration methods as a table."""

from __future__ import annotations

import typer

from calibrant.cli import options
from calibrant.cli.printing import print_json
from calibrant.text_table import aligned

#: What --json tells of each method.
_SHOWN = (
    *("name", "label", "family", "aliases", "description", "binary", "multiclass", "extra", "stores", "streams"),
    *("reference", "parameters"),
)


@options.command()
def methods(as_json: options.Json = False) -> None:
    """List the calibration methods that --method accepts."""
    from calibrant.calibrators.registry import list_calibrators

    entries = list_calibrators()
    if as_json:
        print_json([{name: getattr(info, name) for name in _SHOWN} for info in entries])
        return
    rows = [["name", "classes", "large files", "needs", "description", "reference"]]
    for info in entries:
        fits = "any" if info.binary and info.multiclass else "2" if info.binary else "3+"
        large = "all rows" if info.streams else "sample"
        rows.append([info.name, fits, large, info.extra or "", info.description, info.reference])
    typer.echo(aligned(rows, left=6))
