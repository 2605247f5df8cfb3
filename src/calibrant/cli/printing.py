"""What commands print: results as JSON, aligned text, and which column stands for which class."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import typer

from calibrant.cli.mistakes import CommandError
from calibrant.files.json_values import plain
from calibrant.text_table import list_names


def print_json(value: Any) -> None:
    """Print as JSON; numbers that JSON lacks (NaN, infinity) become null."""
    typer.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def class_columns(names: Sequence[str], classes: Sequence[Any]) -> str:
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


def check_streams(as_json: bool, output: str, what: str) -> None:
    """Refuse to print a result as JSON between the lines of an output."""
    if as_json and output == "-":
        raise CommandError(f"--json and the {what} cannot share standard output; name an --output file")
