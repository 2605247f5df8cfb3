"""Optional packages: imported where they are used, with an error that names the extra to install."""

from __future__ import annotations

import importlib
from types import ModuleType


def require(module: str, *, extra: str) -> ModuleType:
    """Import `module`, or say which extra of calibrant brings it.

    Examples
    --------
    >>> require("json", extra="cli").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"this needs the package {module.split('.')[0]!r}: pip install 'calibrant[{extra}]'"
        ) from error
