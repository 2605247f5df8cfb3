"""Modules whose doctests can only be collected where an optional package is installed."""

from __future__ import annotations

from importlib.util import find_spec

_TORCH = (
    "calibrators/tensors.py",
    "inputs/tensors.py",
    "softmax/rows/tensors.py",
    "softmax/rows/torch.py",
    "steps/torch_modules.py",
    "writers/torch_module.py",
)
_DASK = ("calibrators/partitions.py", "metrics/partitions.py", "softmax/rows/dask.py")
_NEEDED = {"torch": _TORCH, "dask": _DASK}
collect_ignore = [
    f"src/calibrant/{path}" for package, paths in _NEEDED.items() if not find_spec(package) for path in paths
]
