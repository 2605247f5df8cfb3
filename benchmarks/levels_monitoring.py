"""What the monitor and `adapt` promise, simulated where nothing is wrong: alarms, drift, intervals without labels.

`python benchmarks/levels.py --only monitoring` runs it, `python benchmarks/levels_monitoring.py` prints `delays`.

Each part returns rows (promise, case, nominal, measured, runs). Promises about alarms are met if the measured share is
at most the nominal one, those about intervals if it is close to it or above. `delays` are medians, not levels: how many
rows after a change the alarm comes.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from calibrant import CalibrationMonitor, NoCalibrator, adapt, get_calibrator
from calibrant.metrics import accuracy, brier, log_loss

Row = tuple[str, str, float, float, int]
Wanted = Callable[[str, str], bool]


def unchanged(k: int) -> Any:
    """A calibrator that keeps its input."""
    p = np.full((k, k), 0.5 / (k - 1)) + np.diag(np.full(k, 0.5 - 0.5 / (k - 1)))
    return NoCalibrator(classes=list(range(k))).fit(p, range(k))


def draw(p: np.ndarray, rng: np.random.Generator, u: np.ndarray | None = None) -> np.ndarray:
    """Labels from probabilities; equal `u` give rows that fail together."""
    u = rng.random(len(p)) if u is None else u
    return np.minimum((p.cumsum(axis=1) < u[:, None]).sum(axis=1), p.shape[1] - 1)


def predictions(n: int, k: int, rng: np.random.Generator, scale: float = 1.5) -> np.ndarray:
    """Softmax of normal logits."""
    z = np.exp(scale * rng.standard_normal((n, k)))
    return z / z.sum(axis=1, keepdims=True)


def shared_risk(n: int, rng: np.random.Generator, size: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Two classes, groups of rows with one risk that varies about what is predicted, so that rows of a group agree."""
    p = np.clip(rng.random(n // size), 0.02, 0.98)
    risk = rng.beta(1.5 * p, 1.5 * (1.0 - p))
    p, y = np.repeat(p, size), rng.random(n) < np.repeat(risk, size)
    return np.column_stack([1.0 - p, p]), y.astype(int)


def alarms(seeds: range, wanted: Wanted) -> Iterator[Row]:
    """False alarms of streams of 6000 rows at alpha = 0.01."""
    for case, k, grouped, segments, late in (
        ("2 classes", 2, False, False, False),
        ("10 classes", 10, False, False, False),
        ("100 classes", 100, False, False, False),
        ("2 classes, 5 segments", 2, False, True, False),
        ("2 classes, late labels", 2, False, False, True),
        ("groups of 10 that share a risk", 2, True, False, False),
        ("the same, groups not given", 2, None, False, False),
    ):
        if not wanted("of the monitor", case):
            continue
        few, raised = seeds[: max(len(seeds) // 4, 10)] if k == 100 else seeds, 0
        for seed in few:
            rng = np.random.default_rng(seed)
            p = predictions(6000, k, rng)
            y = draw(p, rng)
            if grouped is not False:
                p, y = shared_risk(6000, rng)
            names = rng.choice(list("abcde"), 6000)
            monitor = CalibrationMonitor(unchanged(k))
            batches = [slice(start, start + 500) for start in range(0, 6000, 500)]
            for b, rows in enumerate(batches):
                if late:
                    monitor.observe(p[rows])
                    rows = batches[b - 2] if b >= 2 else slice(0, 0)
                    if b < 2:
                        continue
                how: dict[str, Any] = {"blocks": 10} if grouped else {}
                monitor.update(p[rows], y[rows], names[rows] if segments else None, observed=late, **how)
            raised += monitor.alarm_
        yield "no false alarm of the monitor", case, 0.01, raised / len(few), len(few)


def drift(seeds: range, wanted: Wanted) -> Iterator[Row]:
    """False alarms of drift over 200 batches at alpha = 0.01 and 0.05."""
    for alpha in (0.01, 0.05):
        for k, size, reference, grouped in (
            (2, 20, 1000, False),
            (2, 50, 100, False),
            (10, 20, 500, False),
            (10, 200, 2000, False),
            (100, 50, 1000, False),
            (10, 100, 1000, True),
        ):
            case = f"{k} classes, batches of {size}, reference of {reference}{', equal rows in groups of 10' * grouped}"
            case += f", alpha = {alpha}"
            if not wanted("of drift", case):
                continue
            found, calibrator = 0, unchanged(k)
            for seed in seeds:
                rng, alike = np.random.default_rng(seed), 10 if grouped else 1
                p = np.repeat(predictions((reference + 200 * size) // alike, k, rng), alike, axis=0)
                how: dict[str, Any] = {"blocks": alike}
                monitor = CalibrationMonitor(calibrator, alpha, reference={"P": p[:reference], **how})
                for start in range(reference, len(p), size):
                    monitor.observe(p[start : start + size], **how)
                found += monitor.drift_.found
            yield "no false alarm of drift", case, alpha, found / len(seeds), len(seeds)


def delays(runs: int) -> Iterator[Row]:
    """Median rows from a change to the alarm, of at most 10,000: a change of odds by 2, and one of sharpness."""
    for case, blocks in (("rows", None), ("groups of 10, rows in them independent", 10)):
        seen = []
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            p = predictions(12_000, 2, rng)
            truth = p * np.where(np.arange(12_000)[:, None] < 2000, [1.0, 1.0], [1.0, 2.0])
            y = draw(truth / truth.sum(axis=1, keepdims=True), rng)
            monitor = CalibrationMonitor(unchanged(2))
            for start in range(0, 12_000, 500):
                monitor.update(p[start : start + 500], y[start : start + 500], blocks=blocks)
                if monitor.alarm_:
                    break
            seen.append(monitor.alarm_row_ - 2000 if monitor.alarm_ else 10_000)
        yield "rows until the alarm (median)", f"doubled odds, {case}", float("nan"), float(np.median(seen)), runs
    for k, size in ((2, 50), (2, 200), (10, 200), (10, 1000), (100, 1000)):
        seen = []
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            monitor = CalibrationMonitor(unchanged(k), reference=predictions(2000, k, rng))
            for batch in range(60):
                monitor.observe(predictions(size, k, rng, 1.5 if batch < 10 else 1.9))
                if monitor.drift_.found:
                    break
            seen.append(batch - 9 if monitor.drift_.found else 50)
        case = f"sharper by a quarter, {k} classes, batches of {size}"
        yield "batches until drift is found (median)", case, float("nan"), float(np.median(seen)), runs


def performance(seeds: range, wanted: Wanted) -> Iterator[Row]:
    """Coverage of 95 % intervals of accuracy, log loss and Brier score without labels."""
    metrics = {"accuracy": accuracy, "log_loss": log_loss, "brier": brier}
    for case, k, spread, groups in (
        ("even", 2, 1.0, False),
        ("saturated", 2, 6.0, False),
        ("rare", 2, 0.0, False),
        ("even", 10, 1.5, False),
        ("saturated", 10, 6.0, False),
        ("groups of 10 that fail together", 2, 1.0, True),
        ("groups of 10, rows in them independent", 2, 1.0, None),
    ):
        for n in (50, 200, 2000):
            hits, words = np.zeros(3), f"{k} classes, {case}, n = {n}"
            if not wanted("without labels", words):
                continue
            for seed in seeds:
                rng = np.random.default_rng([seed, n])
                p = predictions(n, k, rng, spread)
                if case == "rare":
                    p = np.column_stack([np.full(n, 0.99), np.full(n, 0.01)])
                if groups:
                    p = np.repeat(p[: n // 10], 10, axis=0)
                u = np.repeat(rng.random(n // 10), 10) if groups else None
                y = draw(p, rng, u)
                blocks = None if groups is False else 10
                found = CalibrationMonitor(unchanged(k)).observe(p, blocks=blocks).performance_
                for i, (name, metric) in enumerate(metrics.items()):
                    truth = float(metric(y, p, classes=range(k)))
                    hits[i] += found[name].low - 1e-9 <= truth <= found[name].high + 1e-9
            for name, share in zip(metrics, hits / len(seeds)):
                yield f"interval of {name} without labels", words, 0.95, float(share), len(seeds)


def class_rows(n: int, source: np.ndarray, prior: np.ndarray, rng: np.random.Generator, size: int = 1) -> tuple:
    """Rows of normal classes with the shares `prior`, posteriors for the shares `source`; `size` rows share a class."""
    k = len(source)
    y = np.repeat(rng.choice(k, n // size, p=prior), size)
    z = 1.5 * np.eye(k)[y] + rng.normal(size=(n, k))
    x = np.log(source) + 1.5 * z
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), y


def priors(seeds: range, wanted: Wanted) -> Iterator[Row]:
    """Coverage of 95 % intervals of estimated class frequencies: the mean over classes, and every class."""
    cells = [(k, shift, n, "none", 1, "em") for k in (2, 5, 10) for shift in ("none", "large", "rare") for n in NUMBERS]
    cells += [(5, "large", n, "none", 1, "bbse") for n in NUMBERS]
    cells += [(3, "large", n, "ts", 1, "em") for n in NUMBERS] + [(3, "large", n, "none", 10, "em") for n in NUMBERS]
    for k, shift, n, method, size, estimator in cells:
        source = np.full(k, 1.0 / k)
        prior = {
            "none": source,
            "large": np.arange(1, k + 1) ** 2 / np.sum(np.arange(1, k + 1) ** 2),
            "rare": np.append(0.02, np.full(k - 1, 0.98 / (k - 1))),
        }[shift]
        words = f"{k} classes, shift {shift}, n = {n}, {estimator}"
        words += (method != "none") * f", {method} of 1000 rows" + (size > 1) * f", groups of {size} of one class"
        if not wanted("of a class frequency", words):
            continue
        hits = np.zeros(k)
        for seed in seeds:
            rng = np.random.default_rng([seed, n, k])
            p, y = class_rows(1000, source, source, rng)
            calibrator = get_calibrator(method, classes=list(range(k))).fit(p, y)
            now, _ = class_rows(n, source, prior, rng, size)
            how: dict[str, Any] = {"blocks": size} if size > 1 else {}
            how.update({"labelled": (p, y)} if estimator == "bbse" else {})
            low, high = adapt(calibrator, unlabelled=now, method=estimator, **how).interval_.T
            hits += (low <= prior) & (prior <= high)
        shares = hits / len(seeds)
        yield "interval of a class frequency (mean over classes)", words, 0.95, float(shares.mean()), len(seeds)
        for j, share in enumerate(shares):
            yield "interval of a class frequency (every class)", f"{words}, class {j}", 0.95, float(share), len(seeds)


NUMBERS = (100, 300, 1000, 3000)


def levels(seeds: range, wanted: Wanted) -> Iterator[Row]:
    """All rows that are wanted."""
    for part in (alarms, drift, performance, priors):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from part(seeds, wanted)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    for promise, case, _, measured, n_runs in delays(parser.parse_args().runs):
        print(f"{promise:45} {case:60} {measured:.4g} {n_runs}", flush=True)
