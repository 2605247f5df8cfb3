"""Calibrators and rows that come in batches: fit to them in a few passes, and predict them batch by batch.

A first pass checks every row, counts rows, labels and weights, and keeps a uniform sample in memory: each row of a
batch is given a random number, and the rows with the smallest ones stay. Methods that need all rows at once are fitted
to this sample; the others start from it and take their curvature from it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant.inputs.batches import BatchReader, Reservoir, SeenLabels, as_source, predictions_of
from calibrant.inputs.labels import distinct, encode, warn_of_missing_information, warn_of_order
from calibrant.inputs.observations import check_observations, encoded, unless_ones
from calibrant.sample import Sample, Size
from calibrant.softmax.rows.batch_rows import BatchRows, RowCache, watched
from calibrant.softmax.rows.row_source import ArrayRows, Extent
from calibrant.threads import limit
from calibrant.typing import AnyArray, FloatArray, Label

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator

#: Bytes of a float64, and matrices of the sample's size that a fit of matrix scaling holds.
_BYTES, _MATRICES = 8, 6
#: Share of the memory for the sample, as `fit_batches` documents; the rest is for batches.
_SAMPLE_SHARE = 0.25


def rows_in_memory(memory_mb: float, n_columns: int) -> int:
    """How many rows the sample may have."""
    return max(256, int(_SAMPLE_SHARE * memory_mb * 2**20 / (_BYTES * _MATRICES * max(n_columns, 2))))


class Facts(NamedTuple):
    """What is known of a part of the rows without looking at it again."""

    n_rows: int
    n_given: int
    labels: AnyArray
    counts: FloatArray
    first: FloatArray
    all_equal: bool


def facts_of(sample: Sample) -> Facts:
    """The distinct labels of some rows with their counts, the first prediction, and whether all are like it."""
    seen, first = distinct(sample.y), sample.x[0].copy()
    counts = np.bincount(encode(sample.y, seen), sample.counts, minlength=len(seen)).astype(np.float64)
    return Facts(sample.n_rows, sample.size.rows, seen, counts, first, bool(np.all(sample.x == first)))


class Findings:
    """What is known of all rows, put together from the facts of their parts.

    A row of the input with votes for several classes is computed with once for each: there are `n_given` rows of the
    input, and `n_rows` to compute with.
    """

    n_classes: int

    def __init__(self) -> None:
        self.n_rows = self.n_given = 0
        self._seen = SeenLabels()
        self._counts: dict[Hashable, float] = {}
        self._first: FloatArray | None = None
        self._all_equal = True

    def add(self, facts: Facts, place: str | Callable[[Label], str]) -> None:
        """Add a part of the rows; `place` says where it is, or is a function that says where in it a label is."""
        self._seen.add(facts.labels, place)
        for label, count in zip(facts.labels.tolist(), facts.counts.tolist(), strict=True):
            self._counts[label] = self._counts.get(label, 0.0) + count
        if self._first is None:
            self._first, self.n_classes = facts.first, len(facts.first)
        self._all_equal &= facts.all_equal and np.array_equal(facts.first, self._first)
        self.n_rows += facts.n_rows
        self.n_given += facts.n_given

    @property
    def total_weight(self) -> float:
        return sum(self._counts.values())

    def describe(
        self, calibrator: Calibrator, n_given: int, names: list[object] | None, categories: AnyArray | None
    ) -> Extent:
        """Check that something can be learned, and give a calibrator its classes with their counts."""
        check_observations(self.n_rows, np.array([self.total_weight]))
        labels = self._seen.labels
        with self._seen.named():
            calibrator._take_names(labels, self.n_classes, n_given, names, categories)
        classes = calibrator.classes_.tolist()
        calibrator.class_counts_ = np.array([self._counts.get(label, 0.0) for label in classes])
        weighted = self.total_weight != self.n_rows
        calibrator.fitted_to_ = str(Size(self.n_given, self.total_weight if weighted else None))
        warn_of_order(calibrator.classes_)
        only = labels[0] if len(labels) == 1 else None
        warn_of_missing_information(self.n_rows, only, self._all_equal)
        return Extent(self.n_rows, self.total_weight, calibrator.class_counts_)


def survey(reader: BatchReader, memory_mb: float, seed: int) -> tuple[Findings, Sample]:
    """The first pass: what there is, and a uniform sample of it, all rows if they are few."""
    found, reservoir = Findings(), None
    for part in watched(reader.read(), "first pass"):
        found.add(facts_of(part), reader.place_of)
        if reservoir is None:
            reservoir = Reservoir(rows_in_memory(memory_mb, found.n_classes), seed)
        rows = np.arange(found.n_rows - part.n_rows, found.n_rows) if part.rows is None else part.rows
        reservoir.add([part.x, part.y, part.each, rows])
    check_observations(found.n_rows, None)
    assert reservoir is not None
    x, labels, counts, rows = reservoir.take()
    source = None if found.n_given == found.n_rows else rows
    return found, Sample(x, labels, unless_ones(counts), logs=True, rows=source)


def fit_to_sample(calibrator: Calibrator, sample: Sample, n_rows: int) -> None:
    """Fit to a uniform sample of `n_rows` rows, for methods that need theirs in memory, or to all if they are few."""
    calibrator.batches_ = {"rows": n_rows, "rows_used": sample.size.rows, "passes": 1}
    calibrator.class_counts_, calibrator.fitted_to_ = sample.class_counts, str(sample)
    calibrator._fit(sample.with_values(np.asarray(sample.x, order=calibrator._order)))


class BatchFitting:
    """The part of a calibrator that handles batches."""

    def fit_batches(
        self,
        source: object,
        *,
        label: str | None = None,
        sample_weight: str | None = None,
        probs: str | Sequence[str] | None = None,
        memory_mb: float = 512.0,
        folder: str | Path | None = None,
        disk_mb: float | None = None,
        random_state: int = 0,
        axis: int | None = None,
        ignore_index: Label = None,
    ) -> Calibrator:
        """Learn the calibration map from rows that come in batches and need not fit into memory.

        Methods that need nothing but sums over rows (`calibrator_info(name).streams`) reach the same optimum as `fit`,
        in a handful of passes. All others are fitted to a uniform sample of the rows, as many as the memory allows.

        Parameters
        ----------
        source : callable, tuple of arrays, pyarrow Dataset, Scanner or Table, or iterable
            What can be read again from the start: a function that returns a fresh iterator of ``(P, y)`` or
            ``(P, y, weight)``, each what `fit` takes; such a tuple of arrays, which may be memory-mapped; a pyarrow
            Dataset, Scanner or Table, whose columns `label`, `sample_weight` and `probs` name; an iterable of batches
            that starts over for every ``for``, such as a torch DataLoader; or what `calibrant.open_batches` makes of a
            file or a folder.
        label, sample_weight : str, default=None
            Columns of a pyarrow object.
        probs : str or sequence of str, default=None
            Names or patterns of its columns of predictions; by default they are found by the labels.
        memory_mb : float, default=512
            Memory in MiB for the sample of rows (a quarter) and for what is computed with single batches.
        folder : path, default=None
            Where fits with many coefficients keep log-probabilities in a temporary file, 4 bytes for each; by default
            the system's folder for temporary files.
        disk_mb : float, default=None
            Most disk space in MiB for that file: where it does not suffice, the source is read in every pass. By
            default what is free.
        random_state : int, default=0
            Seed of the sample.
        axis, ignore_index
            As in `fit`, for batches of dense outputs such as segmentations; rows are then places that are not ignored.

        Returns
        -------
        self : the fitted calibrator. Its attribute `batches_` holds the number of rows, of rows that a method without
            sums was fitted to, and of passes.

        Examples
        --------
        >>> import numpy as np
        >>> from calibrant import get_calibrator
        >>> rng = np.random.default_rng(0)
        >>> P = rng.dirichlet(np.ones(3), size=1000)
        >>> y = np.array([rng.choice(3, p=row) for row in P])
        >>> def source():  # a function that reads a file from the start, for instance
        ...     yield from ((P[i : i + 100], y[i : i + 100]) for i in range(0, 1000, 100))
        >>> one = get_calibrator("sms").fit_batches(source)
        >>> bool(np.allclose(one.coef_, get_calibrator("sms").fit(P, y).coef_, rtol=1e-6))
        True
        """
        calibrator = cast("Calibrator", self)
        calibrator._check_parameters()
        if calibrator.takes_scores:
            raise ValueError(
                "Scores have to be in memory, because their scale is found from all of them: pass arrays to fit, or "
                "logits in batches."
            )
        reader = BatchReader(
            as_source(
                source,
                label=label,
                sample_weight=sample_weight,
                probs=probs,
                probabilities=not calibrator.takes_logits,
            ),
            logits=calibrator.input == "logits",
            renormalize=calibrator.renormalize,
            classes=calibrator.classes,
            axis=axis,
            ignore_index=ignore_index,
        )
        with limit():
            found, drawn = survey(reader, memory_mb, random_state)
            extent = found.describe(calibrator, reader.n_columns, reader.names, reader.categories)
            encode = partial(encoded, classes=calibrator.classes_, order=calibrator._column_order)
            if drawn.n_rows == found.n_rows or not hasattr(calibrator, "_fit_rows"):
                fit_to_sample(calibrator, encode(drawn), found.n_given)
                return calibrator
            with RowCache(found.n_rows, found.n_classes, folder, disk_mb) as cache:
                rows = BatchRows(lambda: map(encode, reader.read()), extent, ArrayRows(encode(drawn)), cache)
                calibrator._fit_rows(rows)
            calibrator.batches_ = {"rows": found.n_given, "rows_used": found.n_given, "passes": rows.n_passes}
        return calibrator

    def predict_batches(self, source: object, *, axis: int | None = None) -> Iterator[AnyArray]:
        """Calibrated probabilities batch by batch: an iterator that reads the source as it goes.

        Parameters
        ----------
        source : callable or iterable
            As for `fit_batches`, or batches of predictions alone.
        axis : int, default=None
            As in `predict_proba`.

        Examples
        --------
        >>> from calibrant import get_calibrator
        >>> calibrator = get_calibrator("ts").fit([0.1, 0.2, 0.6, 0.9], [0, 1, 0, 1])
        >>> [len(p) for p in calibrator.predict_batches(lambda: iter([[0.1, 0.2], [0.9]]))]
        [2, 1]
        """
        check_is_fitted(self, "classes_")
        return map(partial(cast("Calibrator", self).predict_proba, axis=axis), predictions_of(as_source(source)))
