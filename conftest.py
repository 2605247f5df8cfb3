"""Modules whose doctests can only be collected where an optional package is installed."""

from __future__ import annotations

from importlib.util import find_spec

_TORCH = (
    "inputs/tensors.py",
    "softmax/rows/tensors.py",
    "softmax/rows/torch.py",
    "steps/torch_modules.py",
    "writers/torch_module.py",
)
collect_ignore = [] if find_spec("torch") else [f"src/calibrant/{path}" for path in _TORCH]
