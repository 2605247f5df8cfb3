"""What commands print: results as JSON or as lines, and which column stands for which class."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from calibrant.cli import options
from calibrant.cli.mistakes import CommandError
from calibrant.files.json_values import plain
from calibrant.text_table import list_names

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

if TYPE_CHECKING:  # NumPy, which help does not need
    from calibrant.typing import Label


def print_json(value: object) -> None:
    """Print as JSON; numbers that JSON lacks (NaN, infinity) become null."""
    typer.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


@dataclass(frozen=True)
class Output:
    """Where a command writes, and how it tells what it has done."""

    output: str = options.option("File to write; - is standard output.", "--output", "-o", default=...)
    force: options.Force = False
    as_json: options.Json = False

    def check(self, what: str) -> None:
        """Refuse a file that exists, and a result that would be printed as JSON between the lines of the output."""
        from calibrant.files.tables.writers import check_output

        if self.as_json and self.output == "-":
            raise CommandError(f"--json and the {what} cannot both go to standard output; name an --output file")
        check_output(self.output, force=self.force)

    def write(self, data: bytes) -> None:
        from calibrant.files.tables.writers import atomic_output

        with atomic_output(self.output, force=self.force) as stream:
            stream.write(data)

    def store(self, calibrator: BaseEstimator) -> None:
        from calibrant.workflows.fitting import store

        store(calibrator, self.output, force=self.force)

    def tell(self, values: Mapping[str, object], lines: Iterable[str]) -> None:
        """Print what was done, as JSON or as lines; no lines if the output itself goes to the screen."""
        if self.as_json:
            print_json({"output": self.output, **values})
        elif self.output != "-":
            for line in lines:
                typer.echo(line)


def class_columns(names: Sequence[str], classes: Sequence[Label]) -> str:
    """Which column stands for which class, shortened if there are many."""
    if len(names) == 1:
        return f"Columns: {_in_line(names[0])} = {_in_line(classes[-1])} (the other class is {_in_line(classes[0])})"
    pairs = (f"{_in_line(name)} = {_in_line(label)}" for name, label in zip(names, classes))
    return f"Columns: {list_names(pairs, 12, str)}"


def _in_line(name: Label) -> str:
    """A name that may hold line breaks and the like, which are spelled out."""
    text = str(name)
    return text if text.isprintable() else repr(text)
