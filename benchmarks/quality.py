"""How accurate the calibrators are on stored predictions, and what each ingredient of the flagship is worth.

    CALIBRANT_PREDICTIONS=folder python benchmarks/quality.py run tabular-multiclass results.csv --half design
    python benchmarks/quality.py show results.csv --against sms

`run` fits every method on every experiment of ``{folder}/{suite}.h5`` (groups ``{dataset}/{model}/{fold}`` of
`probas_cal`, `labels_cal`, `probas_test`, `labels_test`), one after the other in one thread, and appends to a CSV; a
second call goes on where the first one stopped. Datasets fall in a design or a check half by the SHA-1 of their name:
design choices look at the first only. `show` prints mean changes of the loss, their ratio to a rival's, ranks and win
rates. Log loss floors all probabilities at 1e-15, those of `none` too.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import numpy as np

from calibrant import get_calibrator, list_calibrators
from calibrant.calibrators.auto import AutoCalibrator
from calibrant.calibrators.auto_plan import Plan, make_plan

FIELDS = ["dataset", "model", "fold", "n_classes", "n", "method", "log_loss", "brier", "cpu"]


class Without(AutoCalibrator):
    """The flagship without one of its members: an ablation."""

    def __init__(self, member: str = "trees", classes: Any = None) -> None:
        super().__init__(classes=classes)
        self.member = member

    def _plan(self, n: int, k: int) -> Plan:
        plan = make_plan(n, k, "full")
        members = {name: w for name, w in plan.members.items() if name != self.member or name == "additive"}
        if self.member == "additive":  # trees start from it, so it is fitted, but has no weight
            members["additive"] = 1e-9
        return Plan(members, plan.n_folds, plan.stratified, plan.n_landmarks, plan.trees)


def make(name: str) -> Any:
    """A registered method, ``auto-thorough``, ``without-<member>``, or ``probmetrics-catboost[-cv]`` of that name."""
    if name == "auto-thorough":
        return AutoCalibrator(effort="thorough")
    if name.startswith("without-"):
        return Without(name.removeprefix("without-"))
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
        if not done:
            writer.writeheader()
        for key, data in experiments(path, arguments.half, arguments.folds):
            p, q = (data[name].astype(float) for name in ("probas_cal", "probas_test"))
            p, q = (a / a.sum(axis=1, keepdims=True) for a in (p, q))
            y, t = data["labels_cal"].astype(int), data["labels_test"].astype(int)
            for method in ["none", *methods]:
                if (*key, method) in done:
                    continue
                calibrator = make(method)
                if hasattr(calibrator, "classes"):
                    calibrator.set_params(classes=list(range(p.shape[1])))
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = np.asarray(calibrator.fit(p, y).predict_proba(q) if method != "none" else q)
                cpu = time.process_time() - start
                numbers = (*key, p.shape[1], len(p), method, *losses(found, t), cpu)
                writer.writerow(dict(zip(FIELDS, numbers, strict=True)))
            stream.flush()


def registered(suite: str) -> list[str]:
    """The registered methods that can do the suite without optional packages."""
    binary = "binary" in suite
    able = [info for info in list_calibrators() if info.extra is None and (info.binary if binary else info.multiclass)]
    return [info.name for info in able if info.name != "none"]


def read(path: Path) -> list[dict[str, str]]:
    with path.open() as stream:
        return list(csv.DictReader(stream))


def show(arguments: argparse.Namespace) -> None:
    """Print a table of the methods that have finished every experiment."""
    from scipy.stats import rankdata

    table: dict[str, dict[tuple[str, str, str], tuple[float, float, float]]] = {}
    for row in read(Path(arguments.results)):
        if arguments.half in ("all", half_of(row["dataset"])):
            key = (row["dataset"], row["model"], row["fold"])
            table.setdefault(row["method"], {})[key] = (float(row["log_loss"]), float(row["brier"]), float(row["cpu"]))
    keys = sorted(table["none"])
    methods = [m for m in table if m != "none" and len(table[m]) == len(keys)]
    values = {m: np.array([table[m][key] for key in keys]) for m in [*methods, "none"]}
    change = {m: values[m][:, :2] - values["none"][:, :2] for m in methods}
    names = np.array([key[0] for key in keys])
    datasets = np.unique(names)
    mean = {m: np.array([change[m][names == d].mean(axis=0) for d in datasets]) for m in methods}
    ranks = np.array([[rankdata([mean[m][d, s] for m in methods]) for d in range(len(datasets))] for s in (0, 1)])
    rival = mean[arguments.against]
    base = change[arguments.against].mean(axis=0)
    print(f"{len(keys)} experiments, {len(datasets)} datasets, half: {arguments.half}; ratios to {arguments.against}")
    print("| method | log loss | Brier | ratio | ratio | median | rank | rank | better than | better than | CPU s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for i in np.argsort(ranks[0].mean(axis=0)):
        m = methods[i]
        gain, wins = change[m].mean(axis=0), (mean[m] < rival).mean(axis=0)
        print(
            f"| {m} | {gain[0]:+.4f} | {gain[1]:+.4f} | {gain[0] / base[0]:.2f} | {gain[1] / base[1]:.2f} "
            f"| {np.median(change[m][:, 0]):+.4f} | {ranks[0, :, i].mean():.2f} | {ranks[1, :, i].mean():.2f} "
            f"| {wins[0]:.0%} | {wins[1]:.0%} | {np.median(values[m][:, 2]):.3f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("suite")
    runner.add_argument("results")
    runner.add_argument("--methods")
    runner.add_argument("--folds", nargs="*")
    runner.set_defaults(do=run)
    viewer = commands.add_parser("show")
    viewer.add_argument("results")
    viewer.add_argument("--against", default="sms")
    viewer.set_defaults(do=show)
    for command in (runner, viewer):
        command.add_argument("--half", default="all", choices=["all", "design", "check"])
    arguments = parser.parse_args()
    arguments.do(arguments)


if __name__ == "__main__":
    main()
