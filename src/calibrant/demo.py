"""`make demo`: what calibration does to a spam filter, and what six methods do to sixteen real datasets.

Real predictions come with the package, no network is needed, and all is computed while you wait. A page with the
picture before and after is written, and its path printed. `make benchmark` runs every method.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, TextIO

import numpy as np
from joblib import Parallel, delayed

from calibrant import __version__
from calibrant.bench.building.embedded import embedded_predictions, load_embedded
from calibrant.calibrators.auto.calibrator import AutoCalibrator
from calibrant.calibrators.registry import get_calibrator
from calibrant.metrics import log_loss, reliability_table
from calibrant.plots.svg_reliability import reliability
from calibrant.report.layout import drawn as as_markup
from calibrant.report.layout import fill as fill_page
from calibrant.text_table import aligned
from calibrant.typing import AnyFloatArray, IntArray

#: The methods that are compared, with the names that people know, ours last. They are scikit-learn's three, beta
#: calibration and structured matrix scaling; tests compare each with the package it is known from.
METHODS = {
    "none": "not calibrated",
    "platt": "sigmoid (Platt)",
    "isotonic": "isotonic",
    "ts-unsmoothed": "temperature scaling",
    "beta": "beta",
    "sms": "matrix scaling (SMS)",
    "auto": "calibrant",
}
#: Calibration rows that are drawn from each experiment; all others are test rows.
DRAWN = 300
#: Letters in a line of a terminal.
WIDTH = 79
#: Ranges of predicted probability that the words about the filter count mails in.
RANGES = ((0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0))


@dataclass(frozen=True)
class SpamFilter:
    """A spam filter on mails that neither it nor its calibrator has seen: labels, and probabilities of spam."""

    y: IntArray
    before: AnyFloatArray
    after: AnyFloatArray
    calibrated_on: int

    @property
    def figures(self) -> dict[str, Any]:
        """Rows, log losses, and mails per 1000 that are spam in each range of predicted probability."""
        both = {"before": self.before, "after": self.after}
        return {
            "calibrated_on": self.calibrated_on,
            "tested_on": len(self.y),
            "loss": {name: round(log_loss(self.y, p), 4) for name, p in both.items()},
            "ranges": [
                {"from": low, "to": high, **{name: self._spam(p, low, high) for name, p in both.items()}}
                for low, high in RANGES
            ],
        }

    def _spam(self, p: AnyFloatArray, low: float, high: float) -> dict[str, int]:
        """How many mails were given a probability between the two, and how many of 1000 of these are spam."""
        chosen = (p >= low) & ((p < high) | (high == 1.0))
        return {"mails": int(chosen.sum()), "spam": round(1000 * float(self.y[chosen].mean())) if chosen.any() else 0}


def spam() -> SpamFilter:
    """The filter of the pictures, calibrated on 1000 mails and tested on the others."""
    p, y = _pooled(load_embedded("spam7", "LR"))
    after = AutoCalibrator().fit(p[:1000], y[:1000]).predict_proba(p[1000:])
    return SpamFilter(y[1000:], p[1000:, 1], after[:, 1], 1000)


def _pooled(data: Any) -> tuple[AnyFloatArray, IntArray]:
    return np.vstack([data.probas_cal, data.probas_test]), np.concatenate([data.labels_cal, data.labels_test])


def drawn(n: int) -> list[IntArray]:
    """The calibration rows and the test rows of an experiment of `n` rows."""
    return np.split(np.random.default_rng(0).permutation(n), [DRAWN])


def losses(dataset: str, model: str) -> dict[str, Any]:
    """Test log losses of all methods on one embedded experiment."""
    p, y = _pooled(load_embedded(dataset, model))
    cal, test = drawn(len(y))
    found: dict[str, object] = {"dataset": dataset, "model": model, "classes": p.shape[1]}
    for name in METHODS:
        # As in scikit-learn, which adds this to probabilities before it takes their logarithms.
        given = (p + 1e-12) if name == "ts-unsmoothed" else p
        fitted = get_calibrator(name, classes=np.arange(p.shape[1])).fit(given[cal], y[cal])
        found[name] = log_loss(y[test], fitted.predict_proba(given[test]), classes=range(p.shape[1]))
    return found


def compare(jobs: int | None = None) -> list[dict[str, Any]]:
    """`losses` of every embedded experiment."""
    chosen = [(e.dataset, e.model) for e in embedded_predictions().experiments()]
    return Parallel(n_jobs=jobs or -1)(delayed(losses)(*names) for names in chosen)


def table(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A line for each method: mean log losses, and experiments in which it changes the loss by more than 1 %."""
    kinds = [[r for r in rows if r["classes"] == 2], [r for r in rows if r["classes"] > 2]]
    lines = [["mean test log loss", "2 classes", "3 and more", "better", "worse"]]
    for name, words in METHODS.items():
        means = [f"{np.mean([r[name] for r in part]):.3f}" for part in kinds]
        ratios = np.array([r[name] / r["none"] for r in rows])
        counts = ["", ""] if name == "none" else [str((ratios < 0.99).sum()), str((ratios > 1.01).sum())]
        lines.append([words, *means, *counts])
    return lines


def sentence(rows: Sequence[Mapping[str, object]]) -> str:
    """What the table comes to: the change of mean log loss by our default, and by the best of the others."""
    mean = {name: float(np.mean([r[name] for r in rows])) for name in METHODS}
    change = {name: 100 * (value / mean["none"] - 1) for name, value in mean.items()}
    other = min((name for name in METHODS if name not in ("none", "auto")), key=change.__getitem__)
    verb = {name: "raises" if change[name] > 0 else "lowers" for name in ("auto", other)}
    place = "the best of the others" if change["auto"] < change[other] else "better here"
    return (
        f"With {DRAWN} labelled rows, calibrant {verb['auto']} log loss by {abs(change['auto']):.0f} %; "
        f"{METHODS[other]}, {place}, {verb[other]} it by {abs(change[other]):.0f} %."
    )


def spam_words(figures: Mapping[str, Any]) -> str:
    """The spam filter's probabilities in counts of mails."""
    lines = [["of 1000 mails that get", "not calibrated", "calibrated"]]
    for part in figures["ranges"]:
        spans = f"{100 * part['from']:.0f} to {100 * part['to']:.0f} %"
        lines.append([spans, *(f"{part[name]['spam']} are spam" for name in ("before", "after"))])
    return aligned(lines, gap=4)


def main(out: Path | None = None, jobs: int | None = None, stream: TextIO = sys.stdout) -> Path:
    """Run the demonstration, write its words to `stream` and its page into the folder `out`; returns the page."""
    start = time.perf_counter()
    filtered = spam()
    figures = filtered.figures
    about = (
        f"A spam filter on {figures['tested_on']} mails, and the same after calibration on "
        f"{figures['calibrated_on']} others:"
    )
    stream.write(f"{fill(about, WIDTH)}\n\n{spam_words(figures)}\n\n")
    stream.flush()
    rows = compare(jobs)
    datasets, models = ({row[key] for row in rows} for key in ("dataset", "model"))
    what = (
        f"{len(models)} models on {len(datasets)} real datasets; {DRAWN} rows of each calibrate, the thousands of "
        f"others test. Better and worse: in how many of the {len(rows)} cases log loss changes by more than 1 %."
    )
    lines, result = table(rows), sentence(rows)
    folder = out or Path("results", "demo")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    curves = {name: reliability_table(filtered.y, getattr(filtered, name), pos_label=1) for name in ("before", "after")}
    drawings = {name: as_markup(reliability(curve, name, after=name == "after")) for name, curve in curves.items()}
    shown: dict[str, Any] = {"about": about, "what": what, "sentence": result, "lines": lines, "version": __version__}
    path.write_text(fill_page("demo.html.j2", figures=drawings, spam=figures, **shown), "utf-8")
    stream.write(
        f"{fill(what, WIDTH)}\n\n{aligned(lines, gap=4)}\n\n{fill(result, WIDTH)}\n\n"
        f"The picture: {path.resolve().as_uri()}\nEvery method, all sizes (minutes): make benchmark\n"
        f"{time.perf_counter() - start:.0f} s\n"
    )
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m calibrant.demo", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="folder of the page; by default ./results/demo")
    parser.add_argument("--jobs", type=int, help="processes; by default one for each core")
    arguments = parser.parse_args()
    main(arguments.out, arguments.jobs)
