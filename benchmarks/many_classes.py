"""How accurate the flagship is where classes are many: redrawn splits of every prediction set with 41 to 200 classes.

    CALIBRANT_PREDICTIONS=folder python benchmarks/many_classes.py results [--repeats 10] [--earlier other-results]

Calibration and test rows of each set of ``{folder}/vision-text.h5`` and ``{folder}/many-classes.h5`` are pooled, and
300, 1000, 3000 or as many rows as the set has for calibration are drawn; the others are test rows. One split of a few
thousand rows is worth ±0.003 of log loss, which is more than methods differ by. `results` holds folders of
`calibrant bench run`; a second call goes on where the first one stopped. `--earlier` is such a folder of another
version, to compare with.

Sets fall in a design and a check half by the SHA-1 of their dataset's name, as in `quality.py`: design are Banking77,
CLINC150 and the next characters, check are CIFAR-100, Tiny-ImageNet and the lines of code.

The first table has, by the number of rows, the mean over sets of what the last method gains on the best of the others,
chosen in hindsight by its mean over splits, and the same against the earlier version; the second one every set. Then
come the increase of the expected log loss where labels are drawn from the predictions, and CPU seconds.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from calibrant import get_calibrator
from calibrant.bench.runs.drawn_rows import SPLIT, Draw, DrawnSource
from calibrant.bench.runs.one_fit import Options
from calibrant.bench.runs.runner import run_benchmark
from calibrant.bench.study.results import read_results
from calibrant.files.prediction_sets.open_set import open_predictions
from quality import half_of

MANY, MOST = 40, 200
FILES = ("vision-text", "many-classes")
SIZES = (300, 1000, 3000, SPLIT)
#: Rivals of the tables, and their only ones where labels are drawn: the flagship comes last.
METHODS = "ts,svs,sms,ts-laplace,svs-laplace,sms-laplace,ets,auto"
HARM_METHODS, HARM_SIZES = ("ts", "sms", "auto"), (300, 1000)
#: Rows and classes of the fits that are timed.
TIMED = {100: "cifar100", 200: "tinyimagenet200"}
_BY = ["n", "half", "dataset", "model"]


def sources(half: str) -> Iterator[tuple[str, Any, list[Any]]]:
    """The name of each file, its prediction set, and the experiments of a half."""
    for name in FILES:
        source = open_predictions(Path(os.environ["CALIBRANT_PREDICTIONS"]) / f"{name}.h5")
        many = [e for e in source.experiments() if MANY < e.n_classes <= MOST and half in ("all", half_of(e.dataset))]
        yield name, source, many


def run(folder: Path, half: str, methods: list[str], draw: Draw, n_jobs: int) -> None:
    """Run the methods on all draws."""
    for name, source, experiments in sources(half):
        options = Options(draw=draw)
        run_benchmark(source, methods, folder / name, experiments=experiments, options=options, n_jobs=n_jobs)


def losses(folder: Path, half: str) -> pd.DataFrame:
    """Mean log loss over splits, a row for each set and number of rows, a column for each method."""
    found = pd.concat([read_results(folder / name) for name in FILES if (folder / name).exists()])
    found["n"] = found["fold"].str.extract(r"-n(\w+)-r")[0].replace("split", "all")
    found["half"] = found["dataset"].map(half_of)
    found = found[(half == "all") | (found["half"] == half)]
    return found.pivot_table(index=_BY, columns="method", values="logloss")


def compare(table: pd.DataFrame, methods: list[str], earlier: pd.DataFrame | None) -> None:
    """Print what the last method gains by the number of rows, and every set."""
    *rivals, flagship = methods
    table = table.assign(best=table[["none", *rivals]].min(axis=1), name=table[["none", *rivals]].idxmin(axis=1))
    table["gain"] = table[flagship] - table["best"]
    table["change"] = float("nan") if earlier is None else table[flagship] - earlier[flagship].reindex(table.index)
    print(f"| rows | half | sets | {flagship} less best | worst set | less earlier version | worst set |")
    print("|---" * 7 + "|")
    for n in [str(size) if size else "all" for size in SIZES]:
        for half, part in [*table.loc[n].groupby(level="half"), ("both", table.loc[n])]:
            gain, change = part["gain"], part["change"]
            found = f"{gain.mean():+.4f} | {gain.max():+.4f} | {change.mean():+.4f} | {change.max():+.4f}"
            print(f"| {n} | {half} | {len(part)} | {found} |")
    print()
    print(f"| rows | set | none | best of the others | {flagship} | difference | less earlier version |")
    print("|---" * 7 + "|")
    for (n, _, dataset, model), row in table.iterrows():
        found = f"{row['none']:.4f} | {row['best']:.4f} ({row['name']}) | {row[flagship]:.4f} | {row['gain']:+.4f}"
        print(f"| {n} | {dataset}/{model} | {found} | {row['change']:+.4f} |")
    print()


def show_harm(table: pd.DataFrame) -> None:
    """Print the increase of the expected log loss on drawn labels by the number of rows."""
    increase = table.sub(table["none"], axis=0)[list(HARM_METHODS)]
    print("Increase of the expected log loss on drawn labels, mean and worst set:")
    print(f"| rows | {' | '.join(HARM_METHODS)} |")
    print("|---" * (1 + len(HARM_METHODS)) + "|")
    for size in HARM_SIZES:
        part = increase.loc[str(size)]
        print(f"| {size} | " + " | ".join(f"{part[m].mean():.5f} / {part[m].max():.5f}" for m in HARM_METHODS) + " |")
    print()


def show_seconds() -> None:
    """Print the CPU seconds of a fit, the least of three: others may share the cores."""
    for k, dataset in TIMED.items():
        for _, source, experiments in sources("all"):
            for experiment in [e for e in experiments if e.dataset == dataset][-1:]:
                drawn = DrawnSource(source, Draw((SPLIT,), 1, "both"), [experiment])
                rows = drawn.load(drawn.experiments()[0])
                seconds = []
                for _ in range(3):
                    start = time.process_time()
                    get_calibrator("auto", classes=range(k), renormalize=True).fit(rows.probas_cal, rows.labels_cal)
                    seconds.append(time.process_time() - start)
                print(f"auto, n = {len(rows.labels_cal)}, k = {k}: {min(seconds):.2f} CPU seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--earlier", type=Path)
    parser.add_argument("--half", default="all", choices=["all", "design", "check"])
    parser.add_argument("--methods", default=METHODS, help="the last one is compared with the best other")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    methods = given.methods.split(",")
    run(given.results / "real", given.half, methods, Draw(SIZES, given.repeats, "both"), given.jobs)
    harm = Draw(HARM_SIZES, given.repeats, "both", "drawn")
    run(given.results / "drawn", given.half, list(HARM_METHODS), harm, given.jobs)
    earlier = None if given.earlier is None else losses(given.earlier / "real", given.half)
    compare(losses(given.results / "real", given.half), methods, earlier)
    show_harm(losses(given.results / "drawn", given.half))
    show_seconds()


if __name__ == "__main__":
    main()
