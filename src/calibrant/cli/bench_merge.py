"""`calibrant bench merge`: result folders joined into one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli import bench_options as options
from calibrant.cli.mistakes import explained

app = typer.Typer(rich_markup_mode=None)


@app.command()
def merge(
    folders: Annotated[list[Path], typer.Argument(exists=True, file_okay=False, help="Result folders.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")],
) -> None:
    """Join result folders into one."""
    with explained():
        from calibrant.bench.runs.store import ResultFolder, merge_results

        merge_results(folders, out)
        typer.echo(options.result_lines(out, [row["status"] for row in ResultFolder(out).rows().values()]))
