"""How accurate the calibrators are on stored predictions, and what each ingredient of the flagship is worth.

    CALIBRANT_PREDICTIONS=folder python benchmarks/quality.py run tabular-multiclass results.csv --half design
    python benchmarks/quality.py show results.csv --against sms
    CALIBRANT_PREDICTIONS=folder python benchmarks/quality.py calibrated tabular-multiclass

`run` fits the given methods, by default all registered ones that need no optional package, on every experiment of
``{folder}/{suite}.h5`` (groups ``{dataset}/{model}/{fold}`` of `probas_cal`, `labels_cal`, `probas_test`,
`labels_test`), one after the other in one thread, and appends to a CSV; a second call goes on where the first one
stopped. ``without-<ingredient>`` is the flagship without one of its
ingredients. Datasets fall in a design or a check half by the SHA-1 of their name: design choices look at the first one.

`show` prints mean changes of the loss, their ratio to a rival's, ranks, win rates and times; Nemenyi's test of the
flagship against the rival; and what the flagship does where no other method gains anything. Log loss floors all
probabilities at 1e-15, those of `none` too.

`calibrated` makes the predictions calibrated by drawing the calibration labels from them, so that every change is for
the worse, and prints the mean and median increase of the expected log loss on the test rows.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import numpy as np
import pandas as pd

from calibrant import get_calibrator, list_calibrators
from calibrant.bench.study.statistics import dataset_ranks, nemenyi
from calibrant.calibrators.auto.calibrator import AutoCalibrator
from calibrant.calibrators.auto.plan import Plan, make_plan

FIELDS = ["dataset", "model", "fold", "n_classes", "n", "method", "log_loss", "brier", "cpu"]
LOSSES = ["log_loss", "brier"]
#: Strong enough to take a group of coefficients out of the model.
_OUT = 1e6


def _without_member(name: str) -> Callable[[Plan], Plan]:
    return lambda plan: replace(plan, members={m: w for m, w in plan.members.items() if m != name})


#: The flagship's plan without one of its ingredients.
INGREDIENTS: dict[str, Callable[[Plan], Plan]] = {
    "trees": _without_member("trees"),
    "log-odds": lambda plan: replace(plan, trees=replace(plan.trees, pairs=0)),
    "row-sampling": lambda plan: replace(plan, trees=replace(plan.trees, share=1.0)),
    "curves": lambda plan: replace(plan, lambdas=(1.0, 1.0, 1.0, _OUT)),
    "matrix": lambda plan: replace(plan, lambdas=(1.0, 1.0, _OUT, 1.0)),
    "additive": lambda plan: replace(plan, lambdas=(_OUT, _OUT, _OUT, _OUT)),
    "averaging": lambda plan: replace(plan, factors=(1.0,)),
    "mixture": lambda plan: replace(plan, input_smoothing=None),
    "pool": lambda plan: replace(plan, pool_counts=(1e12, 1e-12)),
}


class Without(AutoCalibrator):
    """The flagship without one of its ingredients: an ablation."""

    def __init__(self, ingredient: str = "trees", classes: Any = None) -> None:
        super().__init__(classes=classes)
        self.ingredient = ingredient

    def _plan(self, n: int, k: int, n_wrong: float) -> Plan:
        return INGREDIENTS[self.ingredient](make_plan(n, k, "full", n_wrong))


def make(name: str) -> Any:
    """A registered method, ``auto-thorough``, ``without-<ingredient>``, or ``probmetrics-<name>`` for the peer's."""
    if name == "auto-thorough":
        return AutoCalibrator(effort="thorough")
    if name.startswith("without-"):
        return Without(name.removeprefix("without-"))
    if name == "probmetrics-sms":
        from probmetrics.calibrators import SMSCalibrator

        return SMSCalibrator()
    if name.startswith("probmetrics-"):
        from probmetrics.calibrators.trees import CatBoostCalibrator, InitLogitCatBoostCalibrator

        return CatBoostCalibrator() if name.endswith("-cv") else InitLogitCatBoostCalibrator()
    return get_calibrator(name)


def half_of(dataset: str) -> str:
    """The half of the study that a dataset belongs to."""
    return "design" if int(hashlib.sha1(dataset.encode()).hexdigest(), 16) % 2 else "check"


def experiments(path: Path, half: str, folds: list[str] | None) -> Iterator[tuple[tuple[str, str, str], Any]]:
    """Keys and groups of the experiments in a file."""
    import h5py

    with h5py.File(path) as file:
        for dataset in file:
            if half not in ("all", half_of(dataset)):
                continue
            for model in file[dataset]:
                for fold, group in file[dataset][model].items():
                    if folds is None or fold in folds:
                        yield (dataset, model, fold), {name: group[name][...] for name in group}


def probabilities(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Calibration and test predictions in double precision."""
    stored = (data[name].astype(float) for name in ("probas_cal", "probas_test"))
    p, q = (a / a.sum(axis=1, keepdims=True) for a in stored)
    return p, q


def calibrate(method: str, p: np.ndarray, y: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Predictions `q` after calibration by `p` and `y`."""
    if method == "none":
        return q
    calibrator = make(method)
    if hasattr(calibrator, "classes"):
        calibrator.set_params(classes=list(range(p.shape[1])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(calibrator.fit(p, y).predict_proba(q))


def losses(p: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Mean log loss, floored, and mean Brier score."""
    rows = np.arange(len(y))
    log_loss = -np.log(np.maximum(p[rows, y], 1e-15)).mean()
    target = np.zeros_like(p)
    target[rows, y] = 1.0
    return float(log_loss), float(((p - target) ** 2).sum(axis=1).mean())


def run(arguments: argparse.Namespace) -> None:
    """Fit what is missing in the CSV."""
    path = Path(os.environ["CALIBRANT_PREDICTIONS"]) / f"{arguments.suite}.h5"
    out = Path(arguments.results)
    done = (
        {tuple(row[f] for f in ("dataset", "model", "fold", "method")) for row in read(out)} if out.exists() else set()
    )
    methods = arguments.methods.split(",") if arguments.methods else registered(arguments.suite)
    with out.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, FIELDS)
        if stream.tell() == 0:
            writer.writeheader()
        for key, data in experiments(path, arguments.half, arguments.folds):
            p, q = probabilities(data)
            y, t = data["labels_cal"].astype(int), data["labels_test"].astype(int)
            for method in ["none", *methods]:
                if (*key, method) in done:
                    continue
                start = time.process_time()
                found = calibrate(method, p, y, q)
                cpu = time.process_time() - start
                numbers = (*key, p.shape[1], len(p), method, *losses(found, t), cpu)
                writer.writerow(dict(zip(FIELDS, numbers, strict=True)))
            stream.flush()


def registered(suite: str) -> list[str]:
    """The registered methods that can do the suite without optional packages."""
    binary = "binary" in suite
    able = [info for info in list_calibrators() if info.extra is None and info.supports(2 if binary else 3)]
    return [info.name for info in able if info.name != "none"]


def read(path: Path) -> list[dict[str, str]]:
    with path.open() as stream:
        return list(csv.DictReader(stream))


def show(arguments: argparse.Namespace) -> None:
    """Print a table of the methods that have finished every experiment, and the tests."""
    rows = pd.concat(pd.read_csv(path) for path in arguments.results)
    rows = rows[[arguments.half in ("all", half_of(dataset)) for dataset in rows["dataset"]]]
    wide = rows.pivot_table(index=["dataset", "model", "fold"], columns="method", values=[*LOSSES, "cpu"])
    methods = arguments.methods.split(",") if arguments.methods else list(wide["cpu"].columns)
    methods = [m for m in methods if m != "none" and wide["log_loss"][m].notna().all()]
    change = {loss: wide[loss][methods].sub(wide[loss]["none"], axis=0) for loss in LOSSES}
    by_dataset = {loss: change[loss].groupby("dataset").mean() for loss in LOSSES}
    ranks = {loss: dataset_ranks(by_dataset[loss]) for loss in LOSSES}
    rival = arguments.against
    table = pd.DataFrame(index=ranks["log_loss"].mean().sort_values().index)
    for loss in LOSSES:
        table[loss] = change[loss].mean().map("{:+.4f}".format)
    for loss in LOSSES:
        table[f"ratio {loss}"] = (change[loss].mean() / change[loss].mean()[rival]).map("{:.2f}".format)
    table["median"] = change["log_loss"].median().map("{:+.4f}".format)
    for loss in LOSSES:
        table[f"rank {loss}"] = ranks[loss].mean().map("{:.2f}".format)
    for loss in LOSSES:
        better = by_dataset[loss].lt(by_dataset[loss][rival], axis=0).mean()
        table[f"beats {rival} {loss}"] = better.map("{:.0%}".format)
    table["CPU s"] = wide["cpu"][methods].median().map("{:.3f}".format)
    print(f"{len(wide)} experiments, {len(ranks['log_loss'])} datasets, half: {arguments.half}; ratios to {rival}")
    print("| " + " | ".join(["method", *table.columns]) + " |\n" + "|---" * (table.shape[1] + 1) + "|")
    for name, cells in table.iterrows():
        print(f"| {name} | " + " | ".join(cells) + " |")
    if "auto" in methods:
        for loss in LOSSES:
            p = nemenyi(ranks[loss]).loc["auto", rival]
            print(f"Nemenyi's test of auto against {rival} among {len(methods)} methods, {loss}: p = {p:.2g}")
        others = change["log_loss"][[m for m in methods if not m.startswith(("auto", "without-"))]]
        idle = change["log_loss"]["auto"][others.min(axis=1) > -0.001]
        print(
            f"Where no other method gains more than 0.001 ({len(idle)} experiments), auto changes log loss by "
            f"{idle.mean():+.4f} in the mean and {idle.median():+.4f} in the median"
        )


def calibrated(arguments: argparse.Namespace) -> None:
    """Print what each method does to predictions that are calibrated by construction."""
    path = Path(os.environ["CALIBRANT_PREDICTIONS"]) / f"{arguments.suite}.h5"
    methods = arguments.methods.split(",")
    harm: list[list[float]] = []
    for _, data in experiments(path, arguments.half, arguments.folds):
        p, q = probabilities(data)
        q = np.maximum(q, 1e-15)
        uniform = np.random.default_rng(0).random((len(p), 1))
        y = np.minimum((p.cumsum(axis=1) < uniform).sum(axis=1), p.shape[1] - 1)
        found = (np.maximum(calibrate(method, p, y, q / q.sum(axis=1, keepdims=True)), 1e-15) for method in methods)
        harm.append([float((q * np.log(q / r)).sum(axis=1).mean()) for r in found])
    print(f"{len(harm)} experiments; increase of the expected log loss, mean and median")
    for method, values in zip(methods, np.array(harm).T, strict=True):
        print(f"| {method} | {values.mean():+.5f} | {np.median(values):+.5f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("suite")
    runner.add_argument("results")
    runner.add_argument("--methods")
    runner.set_defaults(do=run)
    drawer = commands.add_parser("calibrated")
    drawer.add_argument("suite")
    drawer.add_argument("--methods", default="auto,auto-fast,sqs,ts,svs,sms,isotonic")
    drawer.set_defaults(do=calibrated)
    for command in (runner, drawer):
        command.add_argument("--folds", nargs="*")
    viewer = commands.add_parser("show")
    viewer.add_argument("results", nargs="+")
    viewer.add_argument("--methods")
    viewer.add_argument("--against", default="sms")
    viewer.set_defaults(do=show)
    for command in (runner, drawer, viewer):
        command.add_argument("--half", default="all", choices=["all", "design", "check"])
    arguments = parser.parse_args()
    arguments.do(arguments)


if __name__ == "__main__":
    main()
