"""Every calibrator beside the package it comes from: fit and predict on 10⁵ rows in one process.

One thread, CPU time, best of several, ours and theirs in turn. Prints seconds, the ratio theirs/ours and the test log
losses, and writes `benchmarks/out/field.json`. The kernel methods predict fewer rows, because the original needs time
and memory in proportion to the product. Usage: python benchmarks/field.py [rows] [method ...]
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant import get_calibrator

Array = NDArray[Any]
#: Fits to predictions and labels, returns the probabilities of test predictions.
FitPredict = Callable[[Array, Array, Array], Array]

#: Seconds after which a method is not run again.
PATIENCE = 4.0


def positive(fit: Callable[[Array, Array], Callable[[Array], Array]]) -> FitPredict:
    """From a method that knows the probability of the second class only."""

    def run(p: Array, y: Array, test: Array) -> Array:
        q = fit(p[:, 1], y)(test[:, 1])
        return np.column_stack([1.0 - q, q])

    return run


def probmetrics(name: str, module: str, chunk: int | None = None, **parameters: Any) -> FitPredict:
    def run(p: Array, y: Array, test: Array) -> Array:
        import importlib

        calibrator = getattr(importlib.import_module(f"probmetrics.calibrators.{module}"), name)(**parameters)
        calibrator.fit(p, y)
        step = chunk or len(test)
        return np.vstack([calibrator.predict_proba(test[i : i + step]) for i in range(0, len(test), step)])

    return run


def netcal(name: str) -> FitPredict:
    def fit(p: Array, y: Array) -> Callable[[Array], Array]:
        import netcal.binning

        calibrator = getattr(netcal.binning, name)()
        calibrator.fit(p, y)
        return calibrator.transform

    return positive(fit)


def scikit_learn(method: str, log_odds: bool = False) -> FitPredict:
    def fit(p: Array, y: Array) -> Callable[[Array], Array]:
        from sklearn.calibration import _SigmoidCalibration
        from sklearn.isotonic import IsotonicRegression

        model = IsotonicRegression(out_of_bounds="clip") if method == "isotonic" else _SigmoidCalibration()

        def score(q: Array) -> Array:
            return np.log(q) - np.log1p(-q) if log_odds else q

        model.fit(score(p), y)
        return lambda q: model.predict(score(q))

    return positive(fit)


def cir(p: Array, y: Array) -> Callable[[Array], Array]:
    from cir_model import CenteredIsotonicRegression

    return CenteredIsotonicRegression(out_of_bounds="clip").fit(p, y).transform


def betacal(p: Array, y: Array) -> Callable[[Array], Array]:
    from betacal import BetaCalibration

    return BetaCalibration("abm").fit(p, y).predict


def splinecalib(p: Array, y: Array) -> Callable[[Array], Array]:
    from splinecalib import SplineCalib

    model = SplineCalib()
    model.fit(p.copy(), y)
    return model.calibrate


def platt_binner(p: Array, y: Array) -> Callable[[Array], Array]:
    from calibration import PlattBinnerCalibrator

    model = PlattBinnerCalibrator(1, 10)
    model.train_calibration(p, y)
    return model.calibrate


def venn_abers(p: Array, y: Array, test: Array) -> Array:
    from venn_abers import VennAbers

    model = VennAbers()
    model.fit(p, y)
    return model.predict_proba(test)[0]


def venn_abers_multiclass(kind: str) -> FitPredict:
    def run(p: Array, y: Array, test: Array) -> Array:
        from venn_abers import VennAbersCalibrator

        return VennAbersCalibrator().predict_proba(p_cal=p, y_cal=y, p_test=test, va_type=kind)

    return run


#: name of ours, parameters, name of the original, how it is run, number of classes, test rows.
CASES: list[tuple[str, dict[str, Any], str, FitPredict, int, int | None]] = [
    ("hist-uniform", {}, "netcal", netcal("HistogramBinning"), 2, None),
    (
        "hist-quantile",
        {},
        "probmetrics",
        probmetrics("BinaryHistogramBinningCalibrator", "binning", strategy="quantile"),
        2,
        None,
    ),
    ("scaling-binning", {}, "uncertainty-calibration", positive(platt_binner), 2, None),
    ("bbq", {}, "netcal", netcal("BBQ"), 2, None),
    ("isotonic", {}, "scikit-learn", scikit_learn("isotonic"), 2, None),
    ("cir", {}, "cir-model", positive(cir), 2, None),
    ("venn-abers", {}, "venn-abers", venn_abers, 2, None),
    ("venn-abers", {"multiclass": "ovr"}, "venn-abers", venn_abers_multiclass("one_vs_all"), 5, None),
    ("venn-abers", {"multiclass": "ovo"}, "venn-abers", venn_abers_multiclass("one_vs_one"), 5, None),
    ("platt", {}, "scikit-learn", scikit_learn("sigmoid"), 2, None),
    ("platt-logits", {}, "scikit-learn", scikit_learn("sigmoid", log_odds=True), 2, None),
    ("beta", {}, "betacal", positive(betacal), 2, None),
    ("spline", {}, "splinecalib", positive(splinecalib), 2, None),
    ("cdf-spline", {}, "probmetrics", probmetrics("CDFSplineCalibrator", "splines"), 2, None),
    ("kernel", {}, "probmetrics", probmetrics("KernelCalibrator", "nonparametric", chunk=2000), 2, 20000),
    ("kernel", {}, "probmetrics", probmetrics("KernelCalibrator", "nonparametric", chunk=2000), 5, 20000),
    ("ets", {}, "probmetrics", probmetrics("ETSCalibrator", "temperature_scaling"), 5, None),
    ("guo", {}, "probmetrics", probmetrics("GuoTemperatureScalingCalibrator", "temperature_scaling"), 5, None),
    ("ts-unsmoothed", {}, "probmetrics", probmetrics("TemperatureScalingCalibrator", "temperature_scaling"), 5, None),
    ("svs", {}, "probmetrics", probmetrics("SVSCalibrator", "logistic", print_init_info=False), 5, None),
    ("sms", {}, "probmetrics", probmetrics("SMSCalibrator", "logistic", print_init_info=False), 5, None),
    ("affine", {}, "probmetrics", probmetrics("BinaryLogisticCalibrator", "logistic", type="affine"), 2, None),
    ("quadratic", {}, "probmetrics", probmetrics("BinaryLogisticCalibrator", "logistic", type="quadratic"), 2, None),
]


def ours(name: str, parameters: dict[str, Any]) -> FitPredict:
    return lambda p, y, test: get_calibrator(name, **parameters).fit(p, y).predict_proba(test)


def draw(n: int, k: int, seed: int) -> tuple[Array, Array]:
    """Overconfident predictions of k classes with class-dependent bias, and labels."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 1.5
    truth = np.exp(z + 0.5 * np.sin(z) + np.linspace(-0.3, 0.3, k))
    truth /= truth.sum(axis=1, keepdims=True)
    y = np.minimum((truth.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1), k - 1)
    p = np.exp(1.7 * z)
    return p / p.sum(axis=1, keepdims=True), y


def timed(run: FitPredict, data: tuple[Array, Array, Array]) -> tuple[float, Array]:
    start = time.process_time()
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        q = run(*data)
    return time.process_time() - start, q


def compare(n: int, case: tuple[str, dict[str, Any], str, FitPredict, int, int | None]) -> dict[str, Any]:
    name, parameters, package, peer, k, rows = case
    p, y = draw(n, k, 0)
    test, labels = draw(rows or n, k, 1)
    small = draw(300, k, 2)
    runs = {"ours": ours(name, parameters), "theirs": peer}
    for run in runs.values():  # compile and import
        timed(run, (*small, small[0]))
    best = dict.fromkeys(runs, np.inf)
    spent = dict.fromkeys(runs, 0.0)
    loss = {}
    for repeat in range(5):
        for key, run in runs.items():
            if repeat and spent[key] > PATIENCE:
                continue
            seconds, q = timed(run, (p, y, test))
            spent[key] += seconds
            best[key] = min(best[key], seconds)
            loss[key] = -float(np.log(np.clip(q[np.arange(len(labels)), labels], 1e-15, 1.0)).mean())
    return {
        "method": name,
        "parameters": parameters,
        "classes": k,
        "rows": n,
        "test rows": len(labels),
        "package": package,
        "seconds": best["ours"],
        "seconds of package": best["theirs"],
        "ratio": best["theirs"] / best["ours"],
        "log loss": loss["ours"],
        "log loss of package": loss["theirs"],
    }


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    chosen = set(sys.argv[2:])
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(f"{'method':16s} {'k':>2s} {'package':24s} {'ours, s':>9s} {'theirs, s':>9s} {'ratio':>7s}  log losses")
    results = []
    for case in CASES:
        if chosen and case[0] not in chosen:
            continue
        row = compare(n, case)
        results.append(row)
        print(
            f"{row['method']:16s} {row['classes']:2d} {row['package']:24s} {row['seconds']:9.4f} "
            f"{row['seconds of package']:9.4f} {row['ratio']:7.1f}  {row['log loss']:.5f} "
            f"{row['log loss of package']:.5f}",
            flush=True,
        )
    out = Path(__file__).parent / "out"
    out.mkdir(exist_ok=True)
    (out / "field.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
