"""Names of a package that are imported from their modules on first use, so that importing the package stays light."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any


def attach(
    package: str, modules: Iterable[tuple[str, str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose public names live in other modules.

    `modules` are relative to the package, each with its names, with a space between them; ``"."`` has the names that
    are modules themselves.
    """
    homes = {name: module for module, names in modules for name in names.split()}
    names = sorted(homes)

    def getter(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        try:
            value = import_module(f".{name}", package) if home == "." else getattr(import_module(home, package), name)
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith(f"{package}."):
                raise
            whole = "install the whole package with: pip install calibrant"
            raise ImportError(f"{name} is not part of calibrant-runtime; {whole}") from error
        setattr(sys.modules[package], name, value)
        return value

    return getter, lambda: names, names
