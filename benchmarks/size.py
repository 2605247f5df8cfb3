"""How large the flagship's maps are, how long one row takes, and what the size buys.

    CALIBRANT_PREDICTIONS=folder python benchmarks/size.py run results.csv [--half design] [--labels drawn]
    python benchmarks/size.py show results.csv [--earlier other.csv]

`run` draws 300, 1000 and 3000 calibration rows of every prediction set with 3 to 40 classes and tests on up to 4000 of
its other rows; a second call goes on where the first one stopped. It writes the log loss before and after, that of the
same fit with ``effort="fast"``, which has no trees, the bytes of the stored file and the CPU time of one row. `show`
prints sizes and the share of the trees' gain that is kept, and the change against the results of another version.
With ``--labels drawn`` the labels are drawn from the predictions, so that every change is for the worse.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import numpy as np
import pandas as pd

from calibrant import get_calibrator
from calibrant.bench.runs.drawn_rows import Draw, DrawnSource
from calibrant.files.prediction_sets.experiments import SplitPredictions
from calibrant.files.prediction_sets.open_set import open_predictions
from calibrant.files.stored.persistence import stored_text
from calibrant.metrics import log_loss
from calibrant.typing import FloatArray
from quality import half_of

FILES = ("tabular-multiclass", "vision-text")
SIZES = (300, 1000, 3000)
COLUMNS = ["dataset", "model", "fold", "n", "k", "none", "fast", "auto", "trees", "bytes", "row_us"]
MOST_TEST = 4000


def run(path: Path, half: str, models: list[str] | None, draw: Draw) -> None:
    """Append a row for every draw that is not in the file yet."""
    done = set(map(tuple, pd.read_csv(path, dtype=str)[COLUMNS[:3]].to_numpy())) if path.exists() else set()
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if not done:
            writer.writerow(COLUMNS)
        for name in FILES:
            source = open_predictions(Path(os.environ["CALIBRANT_PREDICTIONS"]) / f"{name}.h5")
            chosen = [
                e
                for e in source.experiments()
                if 2 < e.n_classes <= 40
                and half in ("all", half_of(e.dataset))
                and (models is None or e.model in models)
                and str(e.fold) in ("0", "0.0")
            ]
            if not any(draw.n_drawn(experiment, min(draw.sizes)) for experiment in chosen):
                continue
            drawn = DrawnSource(source, draw, chosen)
            for experiment in drawn.experiments():
                if experiment.key not in done:
                    writer.writerow([*experiment.key, *measure(drawn.load(experiment), draw.labels == "drawn")])
                    file.flush()


def measure(rows: SplitPredictions, expected: bool) -> list[float]:
    """Losses (expected ones under the predictions themselves, if so), size and time of one fit."""
    k = rows.probas_cal.shape[1]
    test, y = rows.probas_test[:MOST_TEST], rows.labels_test[:MOST_TEST]

    def loss(p: FloatArray) -> float:
        if expected:
            return -float((test * np.log(np.maximum(p, 1e-15))).sum(axis=1).mean())
        return log_loss(y, p, classes=range(k))

    losses = [loss(test)]
    for effort in ("fast", "full"):
        fitted = get_calibrator("auto", effort=effort, classes=range(k), renormalize=True)
        fitted.fit(rows.probas_cal, rows.labels_cal)
        losses.append(loss(fitted.predict_proba(test)))
    seconds = []
    for row in test[:200]:
        start = time.process_time()
        fitted.predict_proba(row[None])
        seconds.append(time.process_time() - start)
    found = [len(fitted.tree_features_), len(stored_text(fitted)), 1e6 * float(np.median(seconds))]
    return [len(rows.labels_cal), k, *losses, *found]


def show(path: Path, earlier: Path | None) -> None:
    """Print a table by the number of rows."""
    found = pd.read_csv(path)
    print("| rows | fits | gain of auto | gain of trees | with trees | median kB | 90 % | largest | µs of one row |")
    print("|---" * 9 + "|")
    for n, part in found.groupby("n"):
        kb = part["bytes"] / 1000
        print(
            f"| {n} | {len(part)} | {(part['auto'] - part['none']).mean():+.5f} | "
            f"{(part['auto'] - part['fast']).mean():+.5f} | {(part['trees'] > 0).mean():.2f} | "
            f"{kb.median():.0f} | {kb.quantile(0.9):.0f} | {kb.max():.0f} | {part['row_us'].median():.0f} |"
        )
    if earlier is not None:
        keys = COLUMNS[:3]
        both = found.merge(pd.read_csv(earlier), on=keys, suffixes=("", "_earlier"))
        both["change"] = both["auto"] - both["auto_earlier"]
        print("\n| rows | fits | change of log loss (1e-4) | standard error over datasets | worst | bytes, ratio |")
        print("|---" * 6 + "|")
        for n, part in [*both.groupby("n"), ("all", both)]:
            change = part.groupby("dataset")["change"].mean()
            error = change.std() / np.sqrt(len(change))
            ratio = part["bytes"].mean() / part["bytes_earlier"].mean()
            print(
                f"| {n} | {len(part)} | {1e4 * change.mean():+.1f} | {1e4 * error:.1f} | "
                f"{1e4 * part['change'].max():+.0f} | {ratio:.3f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "show"])
    parser.add_argument("results", type=Path)
    parser.add_argument("--half", default="design", choices=["all", "design", "check"])
    parser.add_argument("--models", help="names, by commas; all by default")
    parser.add_argument("--labels", default="real", choices=["real", "drawn"])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--earlier", type=Path)
    given = parser.parse_args()
    if given.command == "run":
        draw = Draw(SIZES, given.repeats, "cal", given.labels)
        run(given.results, given.half, given.models and given.models.split(","), draw)
    show(given.results, given.earlier)


if __name__ == "__main__":
    main()
