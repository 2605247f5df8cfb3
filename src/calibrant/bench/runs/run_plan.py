"""What is to be done, and how: which methods on which experiments, and what a row of results says of a fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant.bench.runs.drawn_rows import Draw
from calibrant.bench.runs.method_spec import MethodSpec
from calibrant.bench.runs.store import Key, Row
from calibrant.files.prediction_sets.experiments import Experiment

Todo = Sequence[tuple[Experiment, Sequence[MethodSpec]]]
"""Experiments, each with the methods to be fitted to it."""


@dataclass(frozen=True)
class Options:
    """How fits are made.

    Attributes
    ----------
    time_limit : float or None
        Seconds for one fit with its predictions.
    max_cal_rows : int or None
        Subsample larger calibration sets to this many rows.
    seed : int
        Seed of the subsamples.
    draw : Draw or None
        Draw calibration rows and test on the others, instead of the experiments as they are.
    """

    time_limit: float | None = 600.0
    max_cal_rows: int | None = None
    seed: int = 0
    draw: Draw | None = None

    def __post_init__(self) -> None:
        if self.draw is not None and self.max_cal_rows is not None:
            raise ValueError("draws have the size they are asked for: leave the limit of calibration rows out")

    @property
    def expected(self) -> bool:
        """Whether test predictions are the true probabilities."""
        return self.draw is not None and self.draw.labels == "drawn"

    def n_cal(self, experiment: Experiment) -> int:
        """Calibration rows used of an experiment."""
        return experiment.n_cal if self.max_cal_rows is None else min(experiment.n_cal, self.max_cal_rows)

    def fingerprint(self, spec: MethodSpec, experiment: Experiment) -> str:
        """What a stored row must carry to count as this method on these rows."""
        seed = f"-{self.seed}" if self.n_cal(experiment) < experiment.n_cal else ""
        sizes = f"{self.n_cal(experiment)}-{experiment.n_test}-{experiment.n_classes}{seed}"
        return f"{spec.fingerprint}-{sizes}-{experiment.digest}"


def plan(
    benchmark: str,
    experiments: Iterable[Experiment],
    specs: Sequence[MethodSpec],
    options: Options,
    done: dict[Key, Row],
    retry: bool = False,
) -> Todo:
    """Experiments with the methods still to be run on them, the largest first.

    A method that the registry does not offer for an experiment's number of classes is not run on it.
    """
    todo = []
    for experiment in experiments:
        missing = []
        for spec in specs:
            row = done.get((benchmark, *experiment.key, spec.label))
            current = row is not None and row.get("fingerprint") == options.fingerprint(spec, experiment)
            if row is not None and current and not (retry and row["status"] != "ok"):
                continue
            if spec.supports(experiment.n_classes):
                missing.append(spec)
        if missing:
            todo.append((experiment, missing))
    return sorted(todo, key=lambda item: -options.n_cal(item[0]) * item[0].n_classes)


def result_row(
    benchmark: str, experiment: Experiment, spec: MethodSpec, options: Options, outcome: dict[str, Any]
) -> dict[str, Any]:
    """One line of the log."""
    return {
        "benchmark": benchmark,
        "dataset": experiment.dataset,
        "model": experiment.model,
        "fold": experiment.fold,
        "method": spec.label,
        "draw": experiment.draw,
        "labels": options.draw.labels if options.draw is not None else "real",
        "n_cal": options.n_cal(experiment),
        "n_test": experiment.n_test,
        "n_classes": experiment.n_classes,
        **outcome,
        "fingerprint": options.fingerprint(spec, experiment),
    }
