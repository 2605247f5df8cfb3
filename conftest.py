"""Modules whose doctests can only be collected where an optional package is installed."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["src/calibrant/writers/torch_module.py"]
