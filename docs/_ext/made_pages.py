"""Pages that are made from the code when the site is built: every public name, and the help of every command."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import typer
from docutils import nodes

from calibrant.cli import app as program

MODULES = {
    "calibrant": "The names of `import calibrant`.",
    "calibrant.calibrators": "Estimators of single methods ([which does what](../methods.md)).",
    "calibrant.metrics": "Measures of probabilistic predictions ([how to use them](../metrics.md)).",
    "calibrant.plots": "Displays ([with pictures](../plots.md)).",
    "calibrant.decisions": "Actions from costs, thresholds, net benefit ([how](../decisions.md)).",
    "calibrant.deployment": "New class frequencies, monitoring, repair ([how](../deployment.md)).",
    "calibrant.runtime": "Stored calibrators with NumPy alone ([the file format](../format.md)).",
    "calibrant.steps": "What a fitted map is made of ([the file format](../format.md)).",
}


def public_names(module: str) -> list[str]:
    """The public classes and functions of a module: `__all__`, or what it defines itself."""
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None)
    if names is None:
        names = [name for name, value in vars(loaded).items() if getattr(value, "__module__", None) == module]
    found = ((name, getattr(loaded, name)) for name in sorted(names, key=str.lower) if not name.startswith("_"))
    return [name for name, value in found if inspect.isclass(value) or inspect.isroutine(value)]


def api_page() -> str:
    """The list of all public names, which autosummary turns into a page for each."""
    lines = ["# API reference", "", "Every public name, generated from the code.", ""]
    documented: list[Any] = []  # a name that two modules export has its page where it comes first
    for module, about in MODULES.items():
        loaded = importlib.import_module(module)
        new = [name for name in public_names(module) if getattr(loaded, name) not in documented]
        documented += [getattr(loaded, name) for name in new]
        names = "\n".join(f"   {name}" for name in new)
        lines += [f"## {module}", "", about, "", "```{eval-rst}", f".. currentmodule:: {module}", ""]
        lines += [".. autosummary::", "   :toctree: api", "   :nosignatures:", "", names, "```", ""]
    lines += ["## Calibrators by name", "", "`get_calibrator` makes every method by its name, and"]
    lines += ["[the list of methods](../methods.md) says what each does.", ""]
    return "\n".join(lines)


def _help(command: Any, name: str, parent: Any = None) -> list[str]:
    settings = {**command.context_settings, "max_content_width": 80, "terminal_width": 80}
    context = command.context_class(command, info_name=name, parent=parent, **settings)
    lines = [f"## {context.command_path}", "", "```text", command.get_help(context).rstrip(), "```", ""]
    if hasattr(command, "list_commands"):
        for inner in command.list_commands(context):
            # Resolved as when it is called: before that, a command is a name without options.
            lines += _help(command.resolve_command(context, [inner])[1], inner, context)
    return lines


def commands_page() -> str:
    """The help of the program and of each of its commands, as they print it."""
    text = _help(typer.main.get_command(program), "calibrant")
    about = "What each command prints for `--help`. [The command line](../command-line.md) explains them."
    return "\n".join(["# Command reference", "", about, "", *text])


def write_pages(app: Any) -> None:
    folder = Path(app.srcdir, "generated")
    folder.mkdir(exist_ok=True)
    for name, text in {"api.md": api_page(), "commands.md": commands_page()}.items():
        path = folder / name
        # An unchanged file keeps its time, so that Sphinx does not read it again.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _skip(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what classes inherit from scikit-learn, and values of attributes, which the class describes itself.

    scikit-learn's own documentation describes `get_params` and the like.
    """
    if name.endswith("_") and not name.startswith("_") and not (callable(obj) or isinstance(obj, property)):
        return True
    function = getattr(obj, "fget", None) or obj
    return True if str(getattr(function, "__module__", "")).startswith("sklearn") else None


def _trim(app: Any, doctree: nodes.document) -> None:
    """Take away the empty line that ends a tested snippet."""
    for block in doctree.findall(nodes.literal_block):
        if block.rawsource == block.astext():  # else it is marked up already
            text = block.astext().rstrip("\n")
            block.rawsource, block.children = text, []
            block += nodes.Text(text)


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-read", _trim)
    app.connect("autodoc-skip-member", _skip)
    # Before Sphinx looks for pages, and autosummary for lists of names.
    write_pages(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
