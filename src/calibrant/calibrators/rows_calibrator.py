"""Base of the methods that need nothing but sums over rows: these may be in memory, in batches or on a cluster."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

from calibrant.calibrators.base import Calibrator
from calibrant.sample import Sample
from calibrant.softmax.rows.row_source import ArrayRows, Rows, log_of_many
from calibrant.threads import limit
from calibrant.typing import AnyArray


class RowsCalibrator(Calibrator):
    """Base of the methods that need nothing but sums over rows: these may be in memory, in batches or on a cluster."""

    _order: ClassVar[Literal["C", "F"]] = "F"
    _log = staticmethod(log_of_many)

    def _fit(self, sample: Sample) -> None:
        self._fit_rows(ArrayRows(sample))

    def fit_rows(self, rows: Rows, classes: AnyArray) -> Calibrator:
        """Fit to what another calibrator has validated already, wherever it is."""
        self._check_parameters()
        self._name_classes(classes)
        with limit():
            self._fit_rows(rows)
        return self

    @abstractmethod
    def _fit_rows(self, rows: Rows) -> None:
        """Fit to labelled log-probabilities, wherever they are."""
