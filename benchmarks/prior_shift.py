"""Class frequencies that changed: how well they are estimated without labels, and what adapting to them gains.

    CALIBRANT_PREDICTIONS=folder python benchmarks/prior_shift.py tabular-multiclass --half design

For each experiment of ``{folder}/{suite}.h5`` with at least 1000 test rows and 3 to 26 classes, of each of which there
are 10 rows to calibrate and to test with, the test rows are drawn again with 20 random priors (uniform on the simplex,
no share below 0.5%), half as many rows as there are, at most 1000. Printed are
the mean absolute error of the estimated shares and the mean log loss after adapting, for unchanged predictions and
calibrated, beside doing nothing, the true shares, and QuaPy's EMQ (`pip install quapy`; left out if absent). Times are
CPU seconds of one estimate without its interval.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import numpy as np
import pandas as pd

from calibrant import get_calibrator
from calibrant.deployment.prior_estimation import bbse_shares, em_shares, soft_confusion
from quality import experiments, losses, probabilities

PRIORS, ROWS, FEWEST, LEAST = 20, 1000, 10, 0.005


def quapy_shares(p: np.ndarray, source: np.ndarray) -> np.ndarray:
    """QuaPy's estimate."""
    from quapy.method.aggregative import EMQ

    return EMQ.EM(source, p)[0]


def draw_prior(k: int, rng: np.random.Generator) -> np.ndarray:
    """A random prior without very small shares."""
    return LEAST + (1.0 - LEAST * k) * rng.dirichlet(np.ones(k))


def study(arguments: argparse.Namespace) -> pd.DataFrame:
    """One line per experiment, prior, calibration and estimator."""
    path = Path(os.environ["CALIBRANT_PREDICTIONS"]) / f"{arguments.suite}.h5"
    lines = []
    for number, (key, data) in enumerate(experiments(path, arguments.half, ["0"])):
        p, q = probabilities(data)
        y, t = data["labels_cal"].astype(int), data["labels_test"].astype(int)
        k = p.shape[1]
        seen = min(np.bincount(t, minlength=k).min(), np.bincount(y, minlength=k).min())
        if not 3 <= k <= 26 or len(t) < ROWS or seen < FEWEST:
            continue
        source = np.bincount(y, minlength=k) / len(y)
        rng = np.random.default_rng(number)
        drawn = []
        for _ in range(PRIORS):
            prior = draw_prior(k, rng)
            counts = rng.multinomial(min(ROWS, len(t) // 2), prior)
            drawn.append(np.concatenate([rng.choice(np.flatnonzero(t == j), counts[j]) for j in range(k)]))
        for method in ("none", *arguments.methods.split(",")):
            calibrator = get_calibrator(method, classes=list(range(k))).fit(p, y)
            then, now = (np.maximum(calibrator.predict_proba(a), 1e-12) for a in (p, q))
            confusion = soft_confusion(then, y)
            for draw, index in enumerate(drawn):
                rows, labels = now[index], t[index]
                truth = np.bincount(labels, minlength=k) / len(labels)
                estimators = {
                    "nothing": (np.copy, source),
                    "em": (em_shares, rows, source),
                    "bbse": (bbse_shares, confusion, rows.mean(axis=0), len(y), len(rows)),
                    **({"quapy EMQ": (quapy_shares, rows, source)} if arguments.quapy else {}),
                    "the truth": (np.copy, truth),
                }
                for name, (function, *given) in estimators.items():
                    start = time.process_time()
                    shares = function(*given)
                    cpu = time.process_time() - start
                    adapted = rows * (shares / source)
                    loss, _ = losses(adapted / adapted.sum(axis=1, keepdims=True), labels)
                    error = np.abs(shares - truth).mean()
                    lines.append((*key[:2], draw, method, name, error, loss, cpu))
    return pd.DataFrame(lines, columns=["dataset", "model", "draw", "calibration", "shares", "error", "loss", "cpu"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="?", default="tabular-multiclass")
    parser.add_argument("--half", default="design", choices=["design", "check", "all"])
    parser.add_argument("--methods", default="ts,sms,auto")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        import quapy  # noqa: F401

        arguments.quapy = True
    except ImportError:
        arguments.quapy = False
    table = study(arguments)
    groups = table.groupby(["dataset", "model"]).ngroups
    print(f"{groups} experiments, {table['dataset'].nunique()} datasets, {PRIORS} priors each, half: {arguments.half}")
    mean = table.groupby(["calibration", "shares"], sort=False)[["error", "loss", "cpu"]].mean()
    print("| predictions | shares by | error of a share | log loss | CPU ms |\n|---|---|---|---|---|")
    for (calibration, shares), row in mean.iterrows():
        print(f"| {calibration} | {shares} | {row['error']:.4f} | {row['loss']:.4f} | {1e3 * row['cpu']:.2f} |")


if __name__ == "__main__":
    main()
