"""What commands print: results as JSON or as lines, and which column stands for which class."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import typer

from calibrant.cli.mistakes import CommandError
from calibrant.files.json_values import plain
from calibrant.text_table import list_names
from calibrant.typing import Label


def print_json(value: object) -> None:
    """Print as JSON; numbers that JSON lacks (NaN, infinity) become null."""
    typer.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def print_result(values: Mapping[str, object], lines: Iterable[str], *, as_json: bool) -> None:
    """Print what a command has done, as JSON or as lines, which give way to an output on the screen."""
    if as_json:
        print_json(values)
    elif values["output"] != "-":
        for line in lines:
            typer.echo(line)


def check_result(output: str, what: str, *, force: bool, as_json: bool) -> None:
    """Refuse an output that exists, and a result that would be printed as JSON between the lines of an output."""
    from calibrant.files.tables.writers import check_output

    if as_json and output == "-":
        raise CommandError(f"--json and the {what} cannot both go to standard output; name an --output file")
    check_output(output, force=force)


def class_columns(names: Sequence[str], classes: Sequence[Label]) -> str:
    """Which column stands for which class, shortened if there are many.

    Examples
    --------
    >>> class_columns(["p_dog", "p_cat"], ["dog", "cat"])
    'Columns: p_dog = dog, p_cat = cat'
    >>> class_columns(["score"], ["no", "yes"])
    'Columns: score = yes (the other class is no)'
    """
    if len(names) == 1:
        return f"Columns: {names[0]} = {classes[-1]} (the other class is {classes[0]})"
    return f"Columns: {list_names((f'{name} = {label}' for name, label in zip(names, classes)), 12, str)}"
