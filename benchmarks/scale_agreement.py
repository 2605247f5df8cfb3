"""Whether coefficients and objectives are those of arrays wherever rows are, on stored predictions.

    CALIBRANT_PREDICTIONS=folder python benchmarks/scale_agreement.py

Rows are fitted as arrays, in batches with a sample of a few hundred rows, in Dask partitions and as torch tensors, with
weights of 0 to 2, labels that are texts, a class that never occurs (where the optimum is finite without it), an empty
partition and partitions of one class.
The table shows the largest difference of a coefficient relative to the largest coefficient, and of the objective
relative to itself, over all experiments: at ``tol=1e-16``, which asks every home for the optimum itself, and at the
default, where two fits within 1e-8 of it may differ by the root of that.
"""

from __future__ import annotations

import argparse
import os
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import h5py
import numpy as np
import torch

from calibrant import get_calibrator, list_calibrators
from calibrant.text_table import aligned

EXPERIMENTS = {
    "tabular-binary": "caravan/CB/0",
    "tabular-multiclass": "diamonds_cut/XGB/0",
    "vision-text": "cifar10/lenet5_netcal/0",
}
#: Methods that do not penalise some coefficient of a class: where it never occurs, their optimum is at infinity.
UNPENALISED = ("vs", "ms", "dirichlet", "beta")
HOMES = ("batches", "dask", "torch")
FITTED = ("inverse_temperature_", "coef_", "intercept_", "quadratic_", "slope_", "a_", "b_", "c_")


def rows_of(folder: Path, most: int) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Calibration rows of the experiments."""
    found = []
    for suite, name in EXPERIMENTS.items():
        with h5py.File(folder / f"{suite}.h5") as file:
            p, y = (np.asarray(file[name][part]) for part in ("probas_cal", "labels_cal"))
        p = np.column_stack([1.0 - p, p]) if p.ndim == 1 else p
        drawn = np.random.default_rng(0).permutation(len(y))[:most]
        found.append((f"{suite}: {name}", p[drawn].astype(np.float64), y[drawn].astype(int)))
    return found


def numbers(calibrator: Any) -> tuple[np.ndarray, float]:
    """All coefficients, those of inner calibrators as well, and the objective."""
    inner = [
        *getattr(calibrator, "estimators_", []),
        *([calibrator.calibrator_] if hasattr(calibrator, "calibrator_") else []),
    ]
    own = [np.ravel(getattr(calibrator, name)) for name in FITTED if hasattr(calibrator, name)]
    objective = getattr(inner[0] if inner else calibrator, "objective_", np.nan)
    return np.concatenate([*own, *(numbers(part)[0] for part in inner)]), objective


def fits(name: str, options: dict[str, Any], p: np.ndarray, y: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    """The fit in every home."""
    n = len(y)
    cuts = np.unique(np.linspace(0, n, 12).astype(int)).tolist()
    sizes = (*np.diff(cuts).tolist(), 0)

    def batches() -> Any:
        yield from ((p[i:j], y[i:j], weight[i:j]) for i, j in pairwise(cuts))

    def make() -> Any:
        return get_calibrator(name, **options)

    parts = [da.from_array(array, chunks=(sizes, *array.shape[1:])) for array in (p, y, weight)]
    return {
        "arrays": make().fit(p, y, weight),
        "batches": make().fit_batches(batches, memory_mb=0.1),
        "dask": make().fit(*parts),
        "torch": make().fit(torch.as_tensor(p), y, weight),
    }


def compare(experiments: list[tuple[str, np.ndarray, np.ndarray]], tol: float | None) -> list[list[str]]:
    """A line of the table for every method."""
    table = []
    for info in list_calibrators():
        if not info.streams:
            continue
        name = info.name
        worst = {home: [0.0, 0.0] for home in HOMES}
        for _, p, y in experiments:
            if not info.supports(p.shape[1]):
                continue
            order = np.concatenate([np.arange(len(y) // 2), len(y) // 2 + np.argsort(y[len(y) // 2 :], kind="stable")])
            labels = np.array([f"class {j:03d}" for j in range(p.shape[1])])
            absent = (y == p.shape[1] - 1) & (p.shape[1] > 2 and name not in UNPENALISED)
            weight = np.where(absent, 0.0, np.random.default_rng(1).integers(0, 3, len(y)))[order]
            options: dict[str, Any] = {"classes": labels}
            if tol is not None and "tol" in get_calibrator(name).get_params():
                options["tol"] = tol
            found = fits(name, options, p[order], labels[y][order], weight)
            coef, objective = numbers(found["arrays"])
            for home in HOMES:
                other, value = numbers(found[home])
                off = np.abs(other - coef).max() / np.abs(coef).max()
                change = 0.0 if np.isnan(objective) else abs(value - objective) / objective
                worst[home] = [max(a, b) for a, b in zip(worst[home], (off, change))]
        table.append([name, *(f"{number:.0e}" for home in HOMES for number in worst[home])])
    return table


def main() -> None:
    """Read the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4000, help="rows of each experiment")
    given = parser.parse_args()
    experiments = rows_of(Path(os.environ["CALIBRANT_PREDICTIONS"]), given.rows)
    for name, p, _ in experiments:
        print(f"{name}: {len(p)} rows, {p.shape[1]} classes")
    warnings.simplefilter("ignore")
    head = ["method", *(f"{home}: {what}" for home in HOMES for what in ("coefficients", "objective"))]
    with dask.config.set(scheduler="synchronous"):
        for tol in (1e-16, None):
            print(f"\ntol={tol}")
            print(aligned([head, *compare(experiments, tol)], left=1), flush=True)


if __name__ == "__main__":
    main()
