"""Arrow, imported on first use: without it, the error says how to install it."""

from __future__ import annotations

from typing import Any

from calibrant.optional import require


class _OnFirstUse:
    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        setattr(self, name, found := getattr(require(self._module, extra="cli"), name))
        return found


pa, compute = _OnFirstUse("pyarrow"), _OnFirstUse("pyarrow.compute")
arrow_csv, ipc, parquet = _OnFirstUse("pyarrow.csv"), _OnFirstUse("pyarrow.ipc"), _OnFirstUse("pyarrow.parquet")
