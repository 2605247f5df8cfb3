"""What version 1 keeps: the page docs/frozen.md, made from the code.

    python tools/freeze.py        # writes the page; a test compares it with the code

A change of the page is a change of what users rely on: additions are fine in a minor version, anything else needs a
deprecation (docs/stability.md).
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import typer

from calibrant import list_calibrators
from calibrant.cli import app as program
from calibrant.deployment.monitoring import stored
from calibrant.metrics import list_metrics
from calibrant.steps import Step
from calibrant.steps.map_documents import FORMAT, VERSION

PAGE = Path(__file__).resolve().parent.parent / "docs" / "frozen.md"
MODULES = (
    "calibrant",
    *(
        f"calibrant.{name}"
        for name in ("calibrators", "metrics", "decisions", "deployment", "plots", "runtime", "bench")
    ),
)
HEAD = """# What is frozen

Made by `tools/freeze.py` from the code; a test fails when the two differ. [What the promise is](stability.md).
"""


def page() -> str:
    """The text of docs/frozen.md."""
    lines = [HEAD, "## The file format", "", *file_format(), "", "## Names", ""]
    lines += folded("Methods: names and aliases of `list_calibrators()`", methods())
    lines += folded("Metrics: names of `list_metrics()`", [", ".join(sorted(list_metrics()))])
    lines += folded("Commands and options", commands(typer.main.get_command(program), "calibrant"))
    for module in MODULES:
        lines += folded(f"`{module}`: public names and their parameters", public_names(module))
    return "\n".join(lines).rstrip() + "\n"


def file_format() -> list[str]:
    """The numbers of the formats, and the kinds of steps that a stored map may have."""
    kinds = sorted(kind.__name__ for kind in descendants(Step) if not kind.__name__.startswith("_"))
    return [
        "| | |",
        "|---|---|",
        f"| stored calibrators | `{FORMAT}`, versions 1 to {VERSION} are read |",
        f"| states of a monitor | `calibrant monitor`, versions 1 to {stored.VERSION} are read |",
        f"| steps of a map | {', '.join(f'`{kind}`' for kind in kinds)} |",
        "",
        "[The format field by field](format.md). Tests read files of earlier versions, kept in `tests/files`.",
    ]


def descendants(kind: type) -> set[type]:
    found = {child for child in kind.__subclasses__() if child.__module__.startswith("calibrant.steps")}
    return found.union(*(descendants(child) for child in found)) if found else found


def methods() -> list[str]:
    return [f"{info.name}: {', '.join(info.aliases)}" if info.aliases else info.name for info in list_calibrators()]


def commands(command: Any, path: str) -> list[str]:
    """Every command with its options, as they are typed."""
    if hasattr(command, "list_commands"):
        context = command.context_class(command, info_name=path)
        return [
            line
            for name in sorted(command.list_commands(context))
            for line in commands(command.resolve_command(context, [name])[1], f"{path} {name}")
        ]
    options = [name for option in command.params for name in sorted((*option.opts, *option.secondary_opts))]
    return [f"{path}: {' '.join(name for name in options if name.startswith('-') and name != '--help')}"]


def public_names(module: str) -> list[str]:
    """The exported names of a module, with the parameters of classes and functions in their order."""
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None) or [
        name for name, value in vars(loaded).items() if getattr(value, "__module__", None) == module
    ]
    return [described(name, getattr(loaded, name)) for name in sorted(names) if not name.startswith("_")]


def described(name: str, value: Any) -> str:
    # Signatures of exceptions and of classes that Python makes differ between its versions.
    if not (inspect.isclass(value) or inspect.isroutine(value)) or (
        inspect.isclass(value) and issubclass(value, BaseException)
    ):
        return name
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return name
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return f"{name}({', '.join(marks.get(p.kind, '') + p.name for p in parameters)})"


def folded(title: str, lines: list[str]) -> list[str]:
    return [f":::{{dropdown}} {title}", "```text", *lines, "```", ":::", ""]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
