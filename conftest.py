"""What holds before anything is collected: threads, and modules that need an optional package."""

from __future__ import annotations

import os
from importlib.util import find_spec

# Processes that share the cores would wait for each other in products of small matrices.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_TORCH = (
    "calibrators/tensor_fitting.py",
    "inputs/tensors.py",
    "softmax/rows/torch.py",
    "steps/torch_modules.py",
    "writers/torch_module.py",
)
_DASK = ("calibrators/partitions.py",)
_NEEDED = {"torch": _TORCH, "dask": _DASK}
collect_ignore = [
    f"src/calibrant/{path}" for package, paths in _NEEDED.items() if not find_spec(package) for path in paths
]
if not find_spec("torch"):  # nothing in them runs without: `make test` leaves them to `make test-optional`
    collect_ignore += ["tests/calibrators/test_tensors.py", "tests/softmax/rows/test_torch.py"]
