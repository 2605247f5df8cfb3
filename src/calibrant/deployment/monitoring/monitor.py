"""`CalibrationMonitor`: is a calibrator in use still right?"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.deployment.inputs import batch as batch_rows
from calibrant.deployment.inputs import batch_of, check_calibrator
from calibrant.deployment.monitoring.history import (
    BatchLog,
    Entry,
    History,
    Recent,
    Record,
    group_marks,
    latest_groups,
)
from calibrant.deployment.monitoring.label_free import Drift, Performance
from calibrant.deployment.monitoring.monitor_results import MonitorResults
from calibrant.deployment.monitoring.segment_bets import SegmentBets
from calibrant.deployment.monitoring.stored import LARGE, VERSION, as_json, read_core, read_state, upgraded
from calibrant.docs import describe_parameters
from calibrant.inputs.words import CalibrationWarning
from calibrant.sample import Sample
from calibrant.steps.map_documents import canonical, checksum
from calibrant.threads import limit
from calibrant.typing import TableLike

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

FORMAT = "calibrant monitor"


class CalibrationMonitor(MonitorResults):
    """Watches a calibrator in use, batch by batch, and says when, where and how it went wrong.

    If labels follow the calibrated probabilities and rows are independent, or groups are where they are given, the
    chance of ever raising an alarm is at most `alpha`, however often you look: the alarm is raised when evidence
    against the calibrator, which starts at 1, reaches ``1 / alpha`` (see `calibrant.deployment.monitoring.bets` for the
    proof). Memory is constant.

    Parameters
    ----------
    calibrator : fitted calibrator
    alpha : float, default=0.01
        Largest probability of ever raising a false alarm.
    tolerance : float, default=0.0
        What counts as calibrated: odds between classes that are right up to a factor of ``exp(tolerance)``, row by row.
        A calibrator fitted to few rows is never exactly right, and 0 will say so after enough rows; 0.1 forgives 10%.
    reference : array-like of shape (n, k), default=None
        Predictions of the model from the time of calibration, to compare later ones with; for a calibrator that takes
        segments a tuple of them and their segments; with counts or groups a mapping of the arguments of `observe`.

    Attributes
    ----------
    alarm_ : bool
        Whether an alarm was raised; it stays.
    alarm_row_ : int or None
        Number of labelled rows when it was raised.
    labelled_, seen_ : Seen
        Labelled rows, the observations they stand for, and their groups; the same of all rows.
    log_evidence_ : float
        Logarithm of the evidence against the calibrator, 0 at the start; the alarm is raised at ``-log(alpha)``.
    evidence_ : dict
        The same for class frequencies, the slope, each class and each segment.
    change_ : Change or None
        What the alarm is about, since when, and how large it is.
    performance_ : dict of str to Estimate
        Accuracy, log loss and Brier score (as in `calibrant.metrics`) expected from calibrated probabilities alone,
        with intervals of what labels of these rows would show, if rows are independent; those of groups are the widest.
    confusion_ : ndarray of shape (k, k)
        Expected number of observations of each predicted class (rows) and true class (columns).
    drift_ : Drift or None
        Whether predictions drifted from those of `reference`.
    history_ : History
        Batches as a table.
    state_ : dict
        Everything, in terms of JSON: `resume` continues from it.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import CalibrationMonitor, get_calibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 3, 12000)
    >>> y = rng.random(12000) < np.where(np.arange(12000) < 8000, p, 1.5 * p / (1 + 0.5 * p))  # then higher odds
    >>> monitor = CalibrationMonitor(get_calibrator("ts").fit(p[:4000], y[:4000]))
    >>> for start in range(4000, 12000, 1000):
    ...     _ = monitor.update(p[start : start + 1000], y[start : start + 1000])
    ...     print(monitor.rows_, monitor.alarm_)
    1000 False
    2000 False
    3000 False
    4000 False
    5000 True
    6000 True
    7000 True
    8000 True
    >>> print(monitor.change_)
    True occurs more often than predicted: ...
    """

    def __init__(
        self, calibrator: BaseEstimator, alpha: float = 0.01, tolerance: float = 0.0, reference: ArrayLike | None = None
    ) -> None:
        self.calibrator = check_calibrator(calibrator)
        if not isinstance(alpha, (int, float, np.floating)) or not 0.0 < alpha < 1.0:
            raise ValueError(f"alpha={alpha!r}: the probability of a false alarm lies between 0 and 1.")
        if not isinstance(tolerance, (int, float, np.floating)) or not 0.0 <= tolerance < 10.0:
            raise ValueError(f"tolerance={tolerance!r}: a number of at least 0, such as 0.1 for 10% of the odds.")
        self.alpha, self.tolerance = float(alpha), float(tolerance)
        self.classes_ = self.calibrator.classes_
        k = len(self.classes_)
        self._bets = SegmentBets(k, self.alpha, self.tolerance)
        self._recent, self._performance = Recent.start(self.classes_), Performance.start(k)
        self.history_ = History()
        self.drift_ = None
        if reference is not None:
            self.drift_ = Drift.start(batch_of(self.calibrator, reference, ("P", "segments"), "reference"))
        self._latest_groups: list[int] = []
        self._batches = BatchLog()
        #: Checksum of the latest file with a repaired calibrator that `calibrant watch` wrote.
        self.repaired_: str | None = None

    @describe_parameters
    def update(
        self,
        P: Any,
        y: ArrayLike,
        segments: TableLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        blocks: int | None = None,
        observed: bool = False,
        batch: str | bool | None = None,
    ) -> CalibrationMonitor:
        """Add a batch of predictions with labels; these may come late, if how late does not depend on them.

        Parameters
        ----------
        P : array-like of shape (n, k), (n,) or (n, 1)
            Predictions of the model, as given to the calibrator.
        y : array-like of shape (n,)
            Labels. A row whose label is missing (None or NaN) counts as one that `observe` is given; which are missing
            must not depend on what they are.
        segments : data frame, mapping of columns, or array-like of shape (n,), default=None
            The segments of each row, one in each column: all batches have them or none has. A calibrator that takes
            segments needs its columns.
        groups : array-like of shape (n,), default=None
            Rows of one group may depend on each other in any way (visits of a patient); it is bet on as one
            observation. All rows of a group belong in the same batch.
        observed : bool, default=False
            Whether these rows were given to `observe` before, without labels.
        batch : str, default=None
            Name of the batch, by which it is recognised if it comes again; True: named by a checksum of its rows. One
            such as 2026-03, 2026-03-14, 2026-W11 or 2026-Q1 has a place in time, by which findings are dated.

        Raises
        ------
        BatchSeenError
            A `ValueError`: a batch of this name, or of these rows, was added before. `rewind` takes it out.

        Warns
        -----
        CalibrationWarning
            A group of an earlier batch goes on in this one: alarms are then too frequent. The names of the latest
            10,000 groups are remembered.
        """
        data = batch_rows(self.calibrator, P, y, segments, sample_weight=sample_weight, groups=groups, blocks=blocks)
        if observed and not np.any(data.y >= 0):
            raise ValueError("These rows were observed before, and none of them has a label: there is nothing to add.")
        return self._add(data, data.y >= 0, batch, (segments, len(P)), groups, late=observed)

    @describe_parameters
    def observe(
        self,
        P: ArrayLike,
        segments: TableLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        blocks: int | None = None,
        batch: str | bool | None = None,
    ) -> CalibrationMonitor:
        """Add a batch of predictions whose labels are unknown, or come later through ``update(..., observed=True)``.

        Parameters
        ----------
        P : array-like of shape (n, k), (n,) or (n, 1)
            Predictions of the model, as given to the calibrator.
        segments : data frame or mapping of columns, default=None
            The segments of the rows, for a calibrator that takes segments.
        batch : str, default=None
            Name of the batch, as in `update`.
        """
        data = batch_rows(self.calibrator, P, None, segments, sample_weight=sample_weight, groups=groups, blocks=blocks)
        return self._add(data, np.zeros(data.n_rows, dtype=bool), batch)

    def _add(
        self,
        seen: Sample,
        known: NDArray[np.bool_],
        batch: str | bool | None,
        segments: tuple[object, int] = (None, 0),
        groups: object = None,
        *,
        late: bool = False,
    ) -> CalibrationMonitor:
        """Add rows, whose labels are `known` or not; if they come `late`, their predictions were added before.

        `segments` and `groups` are those of all rows of the input, whose number comes with the segments.
        """
        total = seen.total + max(self.labelled_.observations, self.seen_.observations)
        if total > LARGE:
            raise ValueError(
                f"The weights of the rows sum to {total:.3g} observations; a monitor takes {LARGE:.0e} at most."
            )
        data = seen if known.all() else seen.take(known)
        name, entry, before = None, None, {}
        if batch not in (None, False):
            if batch is not True and not (isinstance(batch, str) and batch.strip()):
                raise ValueError(f"batch={batch!r}: the name of a batch is a text such as '2026-03', or True.")
            name, entry = Entry.of(batch, seen, labelled=bool(data.n_rows))
            self._batches.check(name, entry, late=late)
            before = {**self._core(), "groups_brought": 0}
        if data.n_rows:
            names = self._bets.names(*segments, getattr(self.calibrator, "segment_columns_", {}))[data.rows]
            before["groups_brought"] = self._compare_groups(groups)
            with limit():
                self._bets.update(data, names)
            self._recent.add(data, names)
        if not late:
            if self.drift_ is not None:
                self.drift_.update(seen, self.alpha, self.seen_.rows)
            self._performance.update(seen)
        self.history_.add(Record.of(seen, data, self.log_evidence_, name, late=late))
        self._batches.add(entry, before, self._bets.size + len(self.classes_) ** 2)
        return self

    def rewind(self, batch: str) -> list[str]:
        """Go back to before a batch was added, to replace it; the latest twelve named batches can be taken out.

        Evidence depends on the order of batches: those after it are taken out, too, and have to be given again. The
        chance of a false alarm is at most `alpha` for the batches as they are in the end; who acts on alarms of
        several versions of a batch looks at several streams.

        Parameters
        ----------
        batch : str
            Its name.

        Returns
        -------
        names : list of str
            The batches that were taken out, the named one first.

        Examples
        --------
        >>> import calibrant
        >>> ts = calibrant.get_calibrator("ts").fit([0.1, 0.6, 0.9, 0.8], [0, 0, 1, 1])
        >>> monitor = CalibrationMonitor(ts)
        >>> for month in ("2026-01", "2026-02", "2026-03"):
        ...     _ = monitor.update([0.2, 0.7], [0, 1], batch=month)
        >>> monitor.rewind("2026-02"), monitor.rows_
        (['2026-02', '2026-03'], 2)
        """
        undone = self._batches.back(batch)
        records, rows, number = self.history_.records, self.rows_, len(undone)
        self._restore(read_core(undone[0], self.classes_))
        self.history_ = History(records[:-number])
        self._recent = self._recent.without(rows - self.rows_)
        brought = sum(before["groups_brought"] for before in undone)
        self._latest_groups = self._latest_groups[: max(0, len(self._latest_groups) - brought)]
        return [str(record.last) for record in records[-number:]]

    def _compare_groups(self, groups: object) -> int:
        """Warn if a group of an earlier batch goes on; how many groups the batch has."""
        if groups is None:
            return 0
        marks = group_marks(groups)
        again = set(marks).intersection(self._latest_groups)
        if again:
            warnings.warn(
                f"{len(again):,} of {len(marks):,} groups were in an earlier batch as well. A group must lie within "
                "one batch: otherwise false alarms are more frequent than alpha.",
                CalibrationWarning,
                stacklevel=4,
            )
        self._latest_groups = latest_groups(self._latest_groups, marks)
        return len(marks)

    @property
    def state_(self) -> dict[str, Any]:
        """Everything in terms of JSON, with the checksum of the calibrator's map."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "calibrator": map_checksum(self.calibrator),
            "alpha": self.alpha,
            "tolerance": self.tolerance,
            **self._core(),
            "latest_groups": self._latest_groups,
            "recent": as_json(self._recent),
            "history": as_json(self.history_),
            **as_json(self._batches),
            **({} if self.repaired_ is None else {"repaired": self.repaired_}),
        }

    def _core(self) -> dict[str, object]:
        """The part of the state that `rewind` needs of the time before a batch."""
        return {
            "labelled": as_json(self.labelled_),
            "alarm": self.alarm_,
            "alarm_row": self.alarm_row_,
            "blame": as_json(self._bets.blame),
            "segment_columns": self._bets.columns,
            "bets": as_json(list(self._bets.by_segment.items())),
            "performance": as_json(self._performance),
            "drift": as_json(self.drift_),
        }

    def _restore(self, found: dict[str, Any]) -> None:
        """Take over what `_core` gave."""
        blame = None if found["blame"] is None else tuple(found["blame"])
        self._bets = SegmentBets(
            len(self.classes_),
            self.alpha,
            self.tolerance,
            dict(found["bets"]),
            found["segment_columns"],
            found["labelled"],
            found["alarm_row"],
            blame,
        )
        self._performance, self.drift_ = found["performance"], found["drift"]

    @classmethod
    def resume(cls, calibrator: object, state: Mapping[str, object]) -> CalibrationMonitor:
        """Continue from a `state_`.

        Parameters
        ----------
        calibrator : fitted calibrator
            The one the state belongs to.
        state : dict
            A `state_`, from this process or from a JSON file.
        """
        if (
            not isinstance(state, dict)
            or state.get("format") != FORMAT
            or state.get("version") not in range(1, VERSION + 1)
        ):
            raise ValueError("This is not a state of a CalibrationMonitor of this version.")
        if state.get("calibrator") != map_checksum(check_calibrator(calibrator)):
            raise ValueError("This state belongs to another calibrator: start a new one for this calibrator.")
        try:
            monitor = cls(calibrator, state["alpha"], state["tolerance"])
            found = read_state(upgraded(state, len(monitor.classes_)), monitor.classes_)
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise ValueError(f"This state is damaged ({type(error).__name__}: {error!s:.100}).") from None
        monitor._restore(found)
        monitor._latest_groups, monitor._recent = found["latest_groups"].tolist(), found["recent"]
        monitor.history_, monitor._batches = found["history"], found["batches"]
        monitor.repaired_ = state.get("repaired")
        return monitor


def map_checksum(calibrator: BaseEstimator) -> str:
    """What tells one fitted calibrator from another: the checksum of its map, whatever its columns are called."""
    content: dict[str, object] = calibrator.to_map().to_json()
    content.pop("names", None)
    return checksum(canonical(content))
