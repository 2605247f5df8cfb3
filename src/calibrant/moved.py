"""Modules that had other names in version 0.1.0: the old names still import, with a warning.

The documentation of 0.1.0 named some of them, and every pickle of a calibrator names the module of its class.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "calibrant.bench.builder": "calibrant.bench.data.builder",
    "calibrant.bench.datasets": "calibrant.bench.data.datasets",
    "calibrant.bench.embedded": "calibrant.bench.data.embedded",
    "calibrant.bench.figures": "calibrant.bench.study.figures",
    "calibrant.bench.method_spec": "calibrant.bench.run.method_spec",
    "calibrant.bench.plan": "calibrant.bench.run.plan",
    "calibrant.bench.report": "calibrant.bench.study.report",
    "calibrant.bench.results": "calibrant.bench.study.results",
    "calibrant.bench.runner": "calibrant.bench.run.runner",
    "calibrant.bench.statistics": "calibrant.bench.study.statistics",
    "calibrant.bench.store": "calibrant.bench.run.store",
    "calibrant.bench.summary": "calibrant.bench.study.summary",
    "calibrant.bench.tables": "calibrant.bench.study.tables",
    "calibrant.calibrators.additive": "calibrant.calibrators.auto.additive",
    "calibrant.calibrators.auto_fit": "calibrant.calibrators.auto.members",
    "calibrant.calibrators.auto_plan": "calibrant.calibrators.auto.plan",
    "calibrant.calibrators.auto_summary": "calibrant.calibrators.auto.summary",
    "calibrant.calibrators.bbq": "calibrant.calibrators.binary.bbq",
    "calibrant.calibrators.beta": "calibrant.calibrators.binary.beta",
    "calibrant.calibrators.binning": "calibrant.calibrators.binary.binning",
    "calibrant.calibrators.blend": "calibrant.calibrators.auto.blend",
    "calibrant.calibrators.cdf_spline": "calibrant.calibrators.binary.cdf_spline",
    "calibrant.calibrators.dirichlet": "calibrant.calibrators.scaling.dirichlet",
    "calibrant.calibrators.ets": "calibrant.calibrators.scaling.ets",
    "calibrant.calibrators.folds": "calibrant.folds",
    "calibrant.calibrators.guo": "calibrant.calibrators.scaling.guo",
    "calibrant.calibrators.isotonic": "calibrant.calibrators.binary.isotonic",
    "calibrant.calibrators.labels": "calibrant.inputs.labels",
    "calibrant.calibrators.logistic": "calibrant.calibrators.scaling.logistic",
    "calibrant.calibrators.monotone": "calibrant.calibrators.auto.monotone",
    "calibrant.calibrators.penalised": "calibrant.calibrators.scaling.regularisation",
    "calibrant.calibrators.platt": "calibrant.calibrators.binary.platt",
    "calibrant.calibrators.predictions": "calibrant.inputs.predictions",
    "calibrant.calibrators.scaling_binning": "calibrant.calibrators.binary.scaling_binning",
    "calibrant.calibrators.spline": "calibrant.calibrators.binary.spline",
    "calibrant.calibrators.sqs": "calibrant.calibrators.auto.sqs",
    "calibrant.calibrators.structured": "calibrant.calibrators.scaling.structured",
    "calibrant.calibrators.temperature": "calibrant.calibrators.scaling.temperature",
    "calibrant.calibrators.trees": "calibrant.calibrators.boosting",
    "calibrant.calibrators.venn_abers": "calibrant.calibrators.binary.venn_abers",
    "calibrant.io": "calibrant.files",
    "calibrant.io.application": "calibrant.files.stored.application",
    "calibrant.io.atomic": "calibrant.files.atomic",
    "calibrant.io.cells": "calibrant.files.tables.cells",
    "calibrant.io.columns": "calibrant.files.tables.columns",
    "calibrant.io.encoding": "calibrant.files.stored.encoding",
    "calibrant.io.persistence": "calibrant.files.stored.persistence",
    "calibrant.io.predictions": "calibrant.files.predictions",
    "calibrant.io.predictions_arrays": "calibrant.files.predictions.arrays",
    "calibrant.io.predictions_folder": "calibrant.files.predictions.opening",
    "calibrant.io.predictions_hdf5": "calibrant.files.predictions.hdf5",
    "calibrant.io.predictions_pickle": "calibrant.files.predictions.pickles",
    "calibrant.io.predictions_repository": "calibrant.files.predictions.repository",
    "calibrant.io.rows": "calibrant.files.tables.rows",
    "calibrant.io.table_arrays": "calibrant.files.tables.arrays",
    "calibrant.io.table_csv": "calibrant.files.tables.text",
    "calibrant.io.table_writers": "calibrant.files.tables.writers",
    "calibrant.io.tables": "calibrant.files.tables.opening",
    "calibrant.trees": "calibrant.calibrators.auto.trees",
    "calibrant.trees.ensemble": "calibrant.calibrators.auto.trees.ensemble",
    "calibrant.trees.kernels": "calibrant.calibrators.auto.trees.kernels",
}


class _Alias(Loader):
    """Loads nothing: gives the module that is there under its new name."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = MOVED[spec.name]
        warnings.warn(f"{spec.name} is now {new}", DeprecationWarning, stacklevel=2)
        module = import_module(new)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has replaced it by that of the old name


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, _Alias()) if fullname in MOVED else None


def install() -> None:
    """Let the old names import; called once, when the package is imported."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        # First, since an old name below a folder that is still there would be found in it and loaded twice.
        sys.meta_path.insert(0, _Finder())
