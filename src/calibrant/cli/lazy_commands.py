"""Commands imported when they are called.

A group knows the names and one-line helps of its commands beforehand, so that help and completion of the
group import none of the modules that do the work.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


def lazy_group(commands: Mapping[str, tuple[str, str]]) -> type[TyperGroup]:
    """Group class whose commands live in other modules: name to `("package.module:app", "one-line help")`.

    `app` is a `typer.Typer`. One with a single command becomes a plain command, others become groups.

    Examples
    --------
    >>> group = lazy_group({"bench": ("calibrant.cli.bench_commands:app", "Benchmarks.")})
    >>> group(name="demo").list_commands(None)
    ['bench']
    """

    class LazyGroup(TyperGroup):
        def __init__(self, **attrs: Any) -> None:
            super().__init__(**attrs)
            for name, (_, summary) in commands.items():
                self.add_command(TyperCommand(name, help=summary, rich_markup_mode=None))

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if args and args[0] in commands:
                self.commands[args[0]] = _load(args[0], commands[args[0]][0])
            return super().resolve_command(ctx, args)

    return LazyGroup


def _load(name: str, target: str) -> Any:
    module, attribute = target.split(":")
    app = getattr(importlib.import_module(module), attribute)
    # Completion is installed once, for the program as a whole.
    app._add_completion = False
    command = get_command(app)
    command.name = name
    return command
