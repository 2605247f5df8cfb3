"""Draw a few calibration rows from a large set of predictions and test on its other rows.

Test means over the original experiments rest on small test sets, and calibration rows of the usual protocol
(out-of-fold predictions of single models) are not quite like its test rows (averages of these models). Rows that are
drawn from one set have neither flaw, and their number can be chosen.

All methods see the same rows, and so do all models of a dataset. A larger draw of the same repeat contains the smaller
ones. With labels drawn from the predictions, these are calibrated by construction: any change is harm, and since the
true probabilities are known, expected losses measure it without noise of the test labels.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Literal

import numpy as np

from calibrant.files.prediction_sets.experiments import (
    Entry,
    Experiment,
    PredictionSource,
    SplitPredictions,
)
from calibrant.random_numbers import LabelSampler
from calibrant.typing import IntArray

MIN_OTHERS = 500
"""An experiment takes part in draws that leave so many rows to test on: the standard error of their mean loss is then
at most 1/22 of the standard deviation over rows."""
SPLIT = 0
"""A draw of as many rows as the experiment has calibration rows: its split is made anew."""


@dataclass(frozen=True)
class Draw:
    """Which rows are drawn, and how often.

    Attributes
    ----------
    sizes : tuple of int
        Numbers of calibration rows; `SPLIT` for as many as an experiment has.
    repeats : int
        Draws of each size.
    rows : {"cal", "test", "both"}
        The part to draw from, and to test on. `both` pools the two, which suits predictions of one and the same model.
    labels : {"real", "drawn"}
        The labels that were observed, or labels drawn from the predictions.
    seed : int
        Seed of rows and labels.
    """

    sizes: tuple[int, ...]
    repeats: int = 3
    rows: Literal["cal", "test", "both"] = "cal"
    labels: Literal["real", "drawn"] = "real"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.sizes or any(size < 0 for size in self.sizes):
            raise ValueError(f"sizes of draws are positive numbers of rows, got {list(self.sizes)}")
        if SPLIT in self.sizes and self.rows != "both":
            raise ValueError("a split can be redrawn only from the rows of both parts")
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, got {self.repeats}")

    def n_rows(self, experiment: Experiment) -> int:
        """Rows of an experiment that can be drawn."""
        sizes = {"cal": experiment.n_cal, "test": experiment.n_test, "both": experiment.n_cal + experiment.n_test}
        return sizes[self.rows]

    def n_drawn(self, experiment: Experiment, size: int) -> int:
        """Rows that a draw takes from an experiment; 0 when it has too few."""
        if size == SPLIT:
            return experiment.n_cal
        return size if self.n_rows(experiment) - size >= MIN_OTHERS else 0


def draw_sizes(text: str) -> tuple[int, ...]:
    """Sizes as they are written on the command line."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if wrong := [name for name in names if name != "split" and not (name.isdecimal() and int(name) > 0)]:
        raise ValueError(f"a draw is a number of rows or 'split', not {', '.join(map(repr, wrong))}")
    return tuple(sorted({SPLIT if name == "split" else int(name) for name in names}))


class DrawnSource(PredictionSource):
    """A prediction set of draws from every experiment of another set that has enough rows; folds name the draws.

    Parameters
    ----------
    source : PredictionSource
        Where the rows come from.
    draw : Draw
        What is drawn.
    experiments : iterable of Experiment, optional
        Only from these.

    Examples
    --------
    >>> from calibrant.files.prediction_sets.experiments import MemorySource
    >>> p = np.random.default_rng(0).dirichlet([1, 1], size=700)
    >>> whole = SplitPredictions.checked(p, np.arange(700) % 2, p[:50], np.arange(50) % 2)
    >>> source = DrawnSource(MemorySource({("coins", "LR", 0): whole}), Draw((100, 1000), repeats=2))
    >>> [(str(e), e.n_cal, e.n_test) for e in source.experiments()]
    [('coins/LR/0-n100-r0', 100, 600), ('coins/LR/0-n100-r1', 100, 600)]
    >>> source.load(source.experiments()[0]).probas_cal.shape
    (100, 2)
    """

    def __init__(self, source: PredictionSource, draw: Draw, experiments: Iterable[Experiment] | None = None) -> None:
        @lru_cache(1)  # the draws from one experiment follow each other
        def pooled(base: Experiment) -> SplitPredictions:
            return _pooled(source.load(base), draw.rows)

        def load(base: Experiment, size: int, repeat: int) -> SplitPredictions:
            rows = pooled(base)
            if draw.labels == "drawn":
                rows = with_drawn_labels(rows, base, draw.seed, repeat)
            return drawn(rows, base, size, draw.seed, repeat)

        entries: list[Entry] = [
            (
                Experiment(
                    base.dataset,
                    base.model,
                    f"{base.fold}-n{size or 'split'}-r{repeat}",
                    n_drawn,
                    draw.n_rows(base) - n_drawn,
                    base.n_classes,
                    draw=size,
                ),
                partial(load, base, n_drawn, repeat),
            )
            for base in (source.experiments() if experiments is None else experiments)
            for size in draw.sizes
            if (n_drawn := draw.n_drawn(base, size))
            for repeat in range(draw.repeats)
        ]
        if not entries:
            raise ValueError(
                f"no experiment of {source.name} has enough rows: a draw of {min(draw.sizes)} must leave "
                f"{MIN_OTHERS} to test on"
            )
        # The name differs from that of experiments as they are, and of other kinds of draws.
        rows = {"cal": "", "test": " of test rows", "both": " of all rows"}[draw.rows]
        super().__init__(entries, f"{source.name}, draws{rows}{' with drawn labels' * (draw.labels == 'drawn')}")


def drawn(
    predictions: SplitPredictions, experiment: Experiment, size: int, seed: int, repeat: int = 0
) -> SplitPredictions:
    """Calibration rows drawn from the calibration part, its others as test rows.

    Depends on the seed, the repeat, dataset and fold, not on the model; more rows include those of a smaller draw.
    """
    n = len(predictions.labels_cal)
    if not 0 < size < n:
        raise ValueError(f"cannot draw {size} of {n} rows of {experiment} and test on the others")
    order = _generator(experiment, seed, repeat).permutation(n)
    cal, test = np.sort(order[:size]), np.sort(order[size:])
    p, y = predictions.probas_cal, predictions.labels_cal
    return SplitPredictions(p[cal], y[cal], p[test], y[test])


def with_drawn_labels(
    predictions: SplitPredictions, experiment: Experiment, seed: int, repeat: int = 0
) -> SplitPredictions:
    """Labels of the calibration part drawn from its predictions, which are then calibrated by construction."""
    sampler = LabelSampler(predictions.probas_cal)
    labels: IntArray = sampler.draw(_generator(experiment, seed, repeat, 1)).astype(np.int64)
    return replace(predictions, labels_cal=labels)


def subsampled(
    predictions: SplitPredictions, experiment: Experiment, max_cal_rows: int | None, seed: int
) -> SplitPredictions:
    """At most so many calibration rows, drawn by seed, dataset and fold alone: models keep the same ones."""
    n = len(predictions.labels_cal)
    if max_cal_rows is None or n <= max_cal_rows:
        return predictions
    rows = _generator(experiment, seed).choice(n, size=max_cal_rows, replace=False)
    rows.sort()
    return replace(predictions, probas_cal=predictions.probas_cal[rows], labels_cal=predictions.labels_cal[rows])


def _generator(experiment: Experiment, seed: int, *more: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(f"{experiment.dataset}/{experiment.fold}".encode()), *more])


def _pooled(predictions: SplitPredictions, rows: str) -> SplitPredictions:
    """All rows to draw from as the calibration part."""
    p, y, q, z = predictions.probas_cal, predictions.labels_cal, predictions.probas_test, predictions.labels_test
    if rows == "test":
        return SplitPredictions(q, z, q, z)
    if rows == "both":
        return SplitPredictions(np.concatenate([p, q]), np.concatenate([y, z]), q, z)
    return predictions
