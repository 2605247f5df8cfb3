"""Calibrators and rows that come in batches: fit to them in a few passes, and predict them batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from sklearn.utils.validation import check_is_fitted

from calibrant.calibrators.streaming import fit_to_sample, survey
from calibrant.inputs.batches import BatchReader, as_source, predictions_of
from calibrant.inputs.observations import encoded
from calibrant.softmax.rows.batch_rows import BatchRows, RowCache
from calibrant.softmax.rows.row_source import ArrayRows
from calibrant.threads import limit
from calibrant.typing import AnyArray

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator


class BatchFitting:
    """The part of a calibrator that handles batches."""

    def fit_batches(
        self,
        source: Any,
        *,
        label: str | None = None,
        sample_weight: str | None = None,
        probs: str | Sequence[str] | None = None,
        memory_mb: float = 512.0,
        folder: Any = None,
        disk_mb: float | None = None,
        random_state: int = 0,
        axis: int | None = None,
        ignore_index: Any = None,
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
            that starts anew for every ``for``, such as a torch DataLoader; or what `calibrant.open_batches` makes of a
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

    def predict_batches(self, source: Any, *, axis: int | None = None) -> Iterator[AnyArray]:
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
