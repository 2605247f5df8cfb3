"""Optional packages: imported where they are used, with an error that says what to install, and how."""

from __future__ import annotations

import importlib
import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType
from urllib.parse import urlparse
from urllib.request import url2pathname


def require(module: str, *, extra: str) -> ModuleType:
    """Import `module`, or say which extra of calibrant brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(f"this needs the package {package!r}; install it with: {install_command(extra)}") from error


def install_command(extra: str) -> str:
    """The command that adds an extra to this copy of calibrant, however it was installed.

    pip leaves a note (`direct_url.json`) about a package that came from a folder, a file or a repository; without one
    it came from an index. Without any installation the sources are used where they lie.
    """
    try:
        note = json.loads(distribution("calibrant").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        note = {"url": Path(__file__).parents[2].as_uri(), "dir_info": {"editable": True}}
    url = note.get("url", "")
    if not url:
        return f"pip install {shlex.quote(f'calibrant[{extra}]')}"
    if "vcs_info" in note:
        address = f"{note['vcs_info']['vcs']}+{url}@{note['vcs_info']['commit_id']}"
        return f"pip install {shlex.quote(f'calibrant[{extra}] @ {address}')}"
    if not url.startswith("file:"):
        return f"pip install {shlex.quote(f'calibrant[{extra}] @ {url}')}"
    editable = "-e " if note.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}{shlex.quote(f'{url2pathname(urlparse(url).path)}[{extra}]')}"
