"""How accurate the flagship is where classes are many: redrawn splits of every prediction set with more than 40.

    CALIBRANT_PREDICTIONS=folder python benchmarks/many_classes.py results [--repeats 10] [--jobs 1] [--methods ...]

Calibration and test rows of each set of ``{folder}/vision-text.h5`` are pooled and the split redrawn: one split of a
few thousand rows is worth ±0.003 of log loss, which is more than methods differ by. `results` is a folder of
`calibrant bench run`; a second call goes on where the first one stopped. The table has the mean log loss of each
method, and what the last one gains on the best of the others, chosen in hindsight by the same mean, with its standard
error over splits (which share rows: it is a lower bound).
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pandas as pd

from calibrant.bench.runs.drawn_rows import SPLIT, Draw
from calibrant.bench.runs.run_plan import Options
from calibrant.bench.runs.runner import run_benchmark
from calibrant.bench.study.results import read_results
from calibrant.files.prediction_sets.open_set import open_predictions

MANY = 40


def show(results: pd.DataFrame, methods: list[str]) -> None:
    """Print the table, one line per prediction set, and the mean over sets."""
    *rivals, flagship = methods
    wide = results.pivot(index=["dataset", "model", "fold"], columns="method", values="logloss")
    seconds = results.pivot(index=["dataset", "model", "fold"], columns="method", values="fit_seconds")[flagship]
    print(f"| set | splits | {' | '.join(['none', *methods])} | {flagship} less best | standard error | fit s |")
    print("|---" * (len(methods) + 6) + "|")
    gains = []
    for (dataset, model), splits in wide.dropna().groupby(level=["dataset", "model"]):
        best = splits[rivals].mean().idxmin()
        gain = splits[flagship] - splits[best]
        gains.append(gain.mean())
        cells = " | ".join(f"{splits[method].mean():.4f}" for method in ["none", *methods])
        found = f"{gain.mean():+.4f} ({best}) | {gain.sem():.4f} | {seconds[dataset, model].median():.2f}"
        print(f"| {dataset}/{model} | {len(splits)} | {cells} | {found} |")
    print(f"mean over sets {sum(gains) / len(gains):+.4f} (target -0.010), worst {max(gains):+.4f} (target +0.001)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--methods", default="ts,svs,sms,auto", help="the last one is compared with the best other")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    source = open_predictions(Path(os.environ["CALIBRANT_PREDICTIONS"]) / "vision-text.h5")
    methods = arguments.methods.split(",")
    run_benchmark(
        source,
        methods,
        arguments.results,
        experiments=[experiment for experiment in source.experiments() if experiment.n_classes > MANY],
        options=Options(draw=Draw((SPLIT,), arguments.repeats, "both")),
        n_jobs=arguments.jobs,
    )
    show(read_results(arguments.results), methods)


if __name__ == "__main__":
    main()
