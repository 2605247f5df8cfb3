"""Monitors of calibration: false alarms, delays until a change is found, and accuracy without labels, beside peers.

    python benchmarks/monitoring.py alarms --streams 2000
    python benchmarks/monitoring.py delays --streams 100 --peer-streams 20 --null-streams 500
    CALIBRANT_PREDICTIONS=folder python benchmarks/monitoring.py accuracy

`alarms` counts streams of 10,000 rows, in batches of 500, with labels drawn from the probabilities, in which a monitor
of 2, 3 or 5 classes raises an alarm at alpha = 0.01.

`delays` lets calibrated streams change after 5000 of 15,000 rows, at once or over 5000 rows: the log-odds of a class
(prior), the slope of all log-odds (temperature), or the log-odds of one of three classes. It prints the share of
streams with an alarm and the median number of rows from the change to the alarm, a stream without one counting as
10,000, for this package's monitor, for probcal's (binary only, on the first of these streams; `pip install probcal`),
and for a score test of intercepts and slope on the latest 1000 rows whose limit is set such that 1% of other, unchanged
streams raise an alarm.

`accuracy` draws the test rows of stored binary predictions so that confident ones are rarer or more common than they
were, and compares the accuracy that calibrated probabilities imply with the true one, beside NannyML's CBPE
(`pip install nannyml`) and the accuracy at calibration.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", NUMBA_NUM_THREADS="1")
os.environ["NML_DISABLE_USAGE_LOGGING"] = "1"  # NannyML reports its use to a server otherwise

import numpy as np

from calibrant import CalibrationMonitor, NoCalibrator, get_calibrator

ALPHA, BATCH = 0.01, 500
CHANGE, ROWS, WINDOW, SLOW = 5000, 15_000, 1000, 5000


def draw(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels from probabilities."""
    return np.minimum((p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1), p.shape[1] - 1)


def predictions(n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """Probabilities as a model gives them: softmax of normal logits."""
    z = np.exp(1.5 * rng.standard_normal((n, k)))
    return z / z.sum(axis=1, keepdims=True)


def unchanged(k: int) -> Any:
    """A calibrator that keeps its input."""
    p = np.full((k, k), 0.5 / (k - 1)) + np.diag(np.full(k, 0.5 - 0.5 / (k - 1)))
    return NoCalibrator().fit(p, range(k))


def alarms(arguments: argparse.Namespace) -> None:
    """Print the share of unchanged streams that raise an alarm."""
    print("| classes | streams | false alarms | share |\n|---|---|---|---|")
    for k in (2, 3, 5):
        calibrator, count = unchanged(k), 0
        streams = arguments.streams // 3 + (k == 2) * (arguments.streams % 3)
        for seed in range(streams):
            rng = np.random.default_rng([k, seed])
            p = predictions(10_000, k, rng)
            y = draw(p, rng)
            monitor = CalibrationMonitor(calibrator, ALPHA)
            for start in range(0, len(p), BATCH):
                monitor.update(p[start : start + BATCH], y[start : start + BATCH])
                if monitor.alarm_:
                    count += 1
                    break
        print(f"| {k} | {streams} | {count} | {count / streams:.4f} |", flush=True)


def changed(p: np.ndarray, kind: str, size: float, slow: bool) -> np.ndarray:
    """The true probabilities of a stream that changes."""
    row = np.arange(len(p))
    share = np.clip((row - CHANGE) / SLOW, 0.0, 1.0) if slow else (row >= CHANGE).astype(float)
    x = np.log(p)
    if kind == "temperature":
        x = x * np.exp(share * np.log(size))[:, None]
    else:
        x[:, -1] += share * np.log(size)
    q = np.exp(x - x.max(axis=1, keepdims=True))
    return q / q.sum(axis=1, keepdims=True)


def ours(p: np.ndarray, y: np.ndarray) -> int | None:
    """Rows until the alarm."""
    monitor = CalibrationMonitor(unchanged(p.shape[1]), ALPHA)
    for start in range(0, len(p), BATCH):
        if monitor.update(p[start : start + BATCH], y[start : start + BATCH]).alarm_:
            return start + BATCH
    return None


def probcal(p: np.ndarray, y: np.ndarray) -> int | None:
    """Rows until the alarm of probcal's monitor."""
    from probcal.monitor import CalibrationMonitor as Peer

    monitor = Peer(alpha=ALPHA, plug_in_window=10)
    for start in range(0, len(p), BATCH):
        step = monitor.update(y[start : start + BATCH], p[start : start + BATCH, 1])
        if step.alarm:
            return start + BATCH
    return None


def window_statistics(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Score statistics of intercepts and slope on the latest rows, batch by batch: about chi-square with k degrees."""
    x = np.log(p)
    onehot = np.eye(p.shape[1])[y]
    out = []
    for end in range(WINDOW, len(p) + 1, BATCH):
        rows = slice(end - WINDOW, end)
        q, z = p[rows], x[rows]
        features = np.concatenate([np.eye(p.shape[1])[None, 1:].repeat(WINDOW, axis=0), z[:, None, :]], axis=1)
        centred = features - np.einsum("nfk,nk->nf", features, q)[:, :, None]
        score = np.einsum("nfk,nk->f", centred, onehot[rows])
        information = np.einsum("nfk,ngk,nk->fg", centred, centred, q)
        out.append(score @ np.linalg.solve(information, score))
    return np.array(out)


def window_test(limit: float) -> Callable[[np.ndarray, np.ndarray], int | None]:
    """Rows until the test on a window exceeds its limit."""

    def test(p: np.ndarray, y: np.ndarray) -> int | None:
        beyond = np.flatnonzero(window_statistics(p, y) > limit)
        return None if not len(beyond) else WINDOW + BATCH * int(beyond[0])

    return test


def delays(arguments: argparse.Namespace) -> None:
    """Print how soon each monitor finds each change."""
    limits = {}
    for k in (2, 3):
        largest = []
        for seed in range(arguments.null_streams):
            rng = np.random.default_rng([9, k, seed])
            p = predictions(ROWS, k, rng)
            largest.append(window_statistics(p, draw(p, rng)).max())
        limits[k] = float(np.quantile(largest, 1.0 - ALPHA))
    print("| classes | change | speed | monitor | streams | found | early | median delay (quartiles) |")
    print("|---|---|---|---|---|---|---|---|")
    for k, kind, size in ((2, "prior", 1.5), (2, "prior", 2.0), (2, "temperature", 0.75), (3, "one class", 1.5),
                          (3, "temperature", 0.75)):  # fmt: skip
        for slow in (False, True):
            monitors = {"calibrant": ours, f"window of {WINDOW}": window_test(limits[k])}
            if k == 2 and arguments.probcal:
                monitors["probcal"] = probcal
            found: dict[str, list[int | None]] = {name: [] for name in monitors}
            for seed in range(arguments.streams):
                rng = np.random.default_rng([7, k, seed])
                p = predictions(ROWS, k, rng)
                y = draw(changed(p, kind, size, slow), rng)
                for name, monitor in monitors.items():
                    if name != "probcal" or seed < arguments.peer_streams:
                        found[name].append(monitor(p, y))
            for name, rows in found.items():
                late = [ROWS - CHANGE if row is None else row - CHANGE for row in rows if row is None or row > CHANGE]
                hits = np.mean([row is not None and row > CHANGE for row in rows])
                early = np.mean([row is not None and row <= CHANGE for row in rows])
                speed = "slow" if slow else "sudden"
                low, middle, high = np.quantile(late, [0.25, 0.5, 0.75])
                print(
                    f"| {k} | {kind} {size:g} | {speed} | {name} | {len(rows)} | {hits:.2f} | {early:.3f} | "
                    f"{middle:.0f} ({low:.0f} to {high:.0f}) |",
                    flush=True,
                )


def cbpe_accuracy(p: np.ndarray, y: np.ndarray, q: np.ndarray) -> float:
    """NannyML's estimate for rows `q`, with the rows `p` and labels `y` as its reference."""
    import nannyml
    import pandas as pd

    def frame(p: np.ndarray) -> Any:
        return pd.DataFrame({"p": p[:, 1], "prediction": (p[:, 1] >= 0.5).astype(int)})

    estimator = nannyml.CBPE(
        y_pred_proba="p", y_pred="prediction", y_true="y", metrics=["accuracy"], problem_type="classification_binary",
        chunk_number=1,
    )  # fmt: skip
    estimator.fit(frame(p).assign(y=y))
    return float(estimator.estimate(frame(q)).to_df()[("accuracy", "value")].iloc[-1])


def accuracy(arguments: argparse.Namespace) -> None:
    """Print the error of the accuracy estimated without labels."""
    from quality import experiments, probabilities

    path = Path(os.environ["CALIBRANT_PREDICTIONS"]) / f"{arguments.suite}.h5"
    errors: dict[str, list[float]] = {"at calibration": [], "calibrant": []}
    inside, used = [], 0
    for _, data in experiments(path, "all", ["0"]):
        p, q = probabilities(data)
        y, t = data["labels_cal"].astype(int), data["labels_test"].astype(int)
        if len(t) < 1000 or used >= arguments.most:
            continue
        used += 1
        calibrator = get_calibrator("auto", classes=[0, 1]).fit(p, y)
        rng = np.random.default_rng(used)
        for power in (-4.0, -2.0, 2.0, 4.0):
            weight = np.exp(power * q.max(axis=1))
            rows = rng.choice(len(t), 1000, p=weight / weight.sum())
            after = calibrator.predict_proba(q[rows])
            truth = float((after.argmax(axis=1) == t[rows]).mean())
            found = CalibrationMonitor(calibrator).observe(q[rows]).performance_["accuracy"]
            inside.append(found.low <= truth <= found.high)
            errors["calibrant"].append(abs(found.value - truth))
            then = float((calibrator.predict_proba(p).argmax(axis=1) == y).mean())
            errors["at calibration"].append(abs(then - truth))
            if arguments.nannyml:
                plain = float((q[rows].argmax(axis=1) == t[rows]).mean())
                errors.setdefault("NannyML CBPE", []).append(abs(cbpe_accuracy(p, y, q[rows]) - plain))
    print(f"{used} experiments, 4 drifts each; the interval holds the true accuracy in {np.mean(inside):.0%}")
    print("| accuracy from | mean absolute error |\n|---|---|")
    for name, values in errors.items():
        print(f"| {name} | {np.mean(values):.4f} |")


def _installed(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    counter = commands.add_parser("alarms")
    counter.add_argument("--streams", type=int, default=2000)
    counter.set_defaults(do=alarms)
    timer = commands.add_parser("delays")
    timer.add_argument("--streams", type=int, default=100)
    timer.add_argument("--peer-streams", type=int, default=20)
    timer.add_argument("--null-streams", type=int, default=500)
    timer.set_defaults(do=delays)
    estimator = commands.add_parser("accuracy")
    estimator.add_argument("suite", nargs="?", default="tabular-binary")
    estimator.add_argument("--most", type=int, default=30)
    estimator.set_defaults(do=accuracy)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for peer in ("probcal", "nannyml"):
        setattr(arguments, peer, _installed(peer))
    arguments.do(arguments)


if __name__ == "__main__":
    main()
