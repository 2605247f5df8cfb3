"""`CalibrationMonitor`: is a calibrator in use still right?"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.deployment.inputs import batch as batch_rows
from calibrant.deployment.inputs import batch_of, check_calibrator
from calibrant.deployment.monitoring.bets import (
    Bets,
    LeadingBet,
    classes_bet_on,
    limited_names,
    log_mean,
    log_shares,
    log_sum,
    segment_names,
)
from calibrant.deployment.monitoring.findings import Change, Repair, fit_repair, measure
from calibrant.deployment.monitoring.history import (
    BatchLog,
    Entry,
    History,
    Recent,
    Record,
    Seen,
    group_marks,
    latest_groups,
)
from calibrant.deployment.monitoring.label_free import METRICS, Drift, Performance
from calibrant.deployment.monitoring.periods import missing_words
from calibrant.deployment.monitoring.stored import LARGE, VERSION, as_json, read_core, read_state, upgraded
from calibrant.docs import describe_parameters
from calibrant.inputs.words import CalibrationWarning
from calibrant.metrics.result_types import Estimate
from calibrant.numerals import class_text, count, percent, power_of_ten
from calibrant.runtime import canonical, checksum
from calibrant.sample import Sample
from calibrant.threads import limit
from calibrant.typing import AnyArray, FloatArray, TableLike

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

FORMAT = "calibrant monitor"

#: Jeffreys' scale of evidence, which Vovk and Wang (2021) use for evidence of this kind: powers of ten, and words.
_SCALE = ((0.0, "none"), (0.5, "hardly any"), (1.0, "substantial"), (1.5, "strong"), (2.0, "very strong"))
_TOP_OF_SCALE = "decisive"
#: Observations after which evidence is added up and an alarm may be raised; a larger batch is handled in such blocks.
#: The delays of docs/monitoring.md were measured with it.
_BLOCK = 500


class CalibrationMonitor:
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
        self._bets: dict[str | None, Bets] = {None: Bets.start(k)}
        # The columns of segments: none before the first batch, empty if there are no segments.
        self._columns: list[str] | None = None
        self._recent, self._performance = Recent.start(self.classes_), Performance.start(k)
        self.history_, self.labelled_ = History(), Seen()
        self.drift_ = None
        if reference is not None:
            self.drift_ = Drift.start(batch_of(self.calibrator, reference, ("P", "segments"), "reference"))
        self._latest_groups: list[int] = []
        self._batches = BatchLog()
        #: Checksum of the latest file with a repaired calibrator that `calibrant watch` wrote.
        self.repaired_: str | None = None
        self.alarm_, self.alarm_row_, self._blame = False, None, None

    drift_: Drift | None
    alarm_row_: int | None
    _blame: tuple[str, int, str | None, int] | None

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
            names = self._segment_names(*segments)[data.rows]
            before["groups_brought"] = self._compare_groups(groups)
            with limit():
                for part in data.parts(_BLOCK):
                    self._bet(data.take(part), names[part])
            self._recent.add(data, names)
        if not late:
            if self.drift_ is not None:
                self.drift_.update(seen, self.alpha, self.seen_.rows)
            self._performance.update(seen)
        self.history_.add(Record.of(seen, data, self.log_evidence_, name, late=late))
        k, bets = len(self.classes_), self._bets[None].active.size
        self._batches.add(entry, before, 3 * bets * len(self._bets) + k * k)
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

    def _segment_names(self, segments: object, n: int) -> AnyArray:
        columns: list[str] = []
        names = np.empty((n, 0), dtype=object)
        if segments is not None:
            columns, names = segment_names(segments, n, getattr(self.calibrator, "segment_columns_", {}))
        if self._columns not in (None, columns):
            which = f"has segments by {', '.join(columns)}" if columns else "lacks segments"
            before = f"by {', '.join(self._columns or ())}" if self._columns else "had none"
            raise ValueError(
                f"This batch {which}, unlike those before ({before}): the starting evidence is divided among segments "
                "once."
            )
        self._columns = columns
        return limited_names(names, (name for name in self._bets if name is not None))

    def _bet(self, data: Sample, names: AnyArray) -> None:
        """Bet on a block of rows, and look whether the alarm is due."""
        k = data.n_classes
        for name in dict.fromkeys([None, *names.ravel().tolist()]):
            rows = data if name is None else data.take((names == name).any(axis=1))
            self._bets.setdefault(name, Bets.start(k)).update(rows, self.tolerance, self.rows_)
        self.labelled_ = self.labelled_.plus(data)
        if not self.alarm_ and self.log_evidence_ >= -np.log(self.alpha):
            self.alarm_, self.alarm_row_ = True, self.rows_
            segment, bet = self._leading_bet()
            self._blame = bet.kind, bet.column, segment, bet.since

    def _leading_bet(self) -> tuple[str | None, LeadingBet]:
        """The segment and the bet with the largest capital."""
        shares = self._log_shares()
        leading = {name: bets.leading(len(self.classes_)) for name, bets in self._bets.items()}
        best = max(leading, key=lambda name: leading[name].log_capital + shares[name])
        return best, leading[best]

    def _log_shares(self) -> dict[str | None, float]:
        """Logarithms of the shares of the capital."""
        return log_shares(name for name in self._bets if name is not None) if self._columns else {None: 0.0}

    @property
    def rows_(self) -> int:
        """Number of labelled rows."""
        return self.labelled_.rows

    @property
    def seen_(self) -> Seen:
        """All rows, with labels or without."""
        return self._performance.seen

    @property
    def log_evidence_(self) -> float:
        """Logarithm of the evidence against the calibrator."""
        shares = self._log_shares()
        parts = [self._bets[name].log_evidence() + share for name, share in shares.items()]
        # What is set aside for segments that have not appeared yet.
        idle = -np.expm1(min(float(log_sum(np.array(list(shares.values())))), 0.0))
        return float(log_sum(np.array([*parts, np.log(idle)] if idle > 0.0 else parts)))

    @property
    def evidence_(self) -> dict[str, Any]:
        """Logarithm of the evidence for each kind of change, class and segment."""
        classes, slope = self._bets[None].log_means()
        columns = classes_bet_on(len(self.classes_))
        return {
            "frequencies": float(log_mean(classes)),
            "slope": slope,
            "classes": dict(zip(self.classes_[columns].tolist(), classes.tolist())),
            "segments": {name: bets.log_evidence() for name, bets in self._bets.items() if name is not None},
        }

    @property
    def change_(self) -> Change | None:
        """What the alarm is about; None without one."""
        if self._blame is None:
            return None
        kind, column, segment, since = self._blame
        data = self._recent.take(self.rows_ - since, segment)
        kind, column, predicted, found = measure(kind, column, data)
        label = None if kind == "slope" else self.classes_.tolist()[column]
        began = self.history_.name_at(since)
        return Change(kind, label, segment, since, data.n_rows, str(data), predicted, found, began)

    def repair(self) -> Repair | None:
        """The smallest repair that removes the change, fitted to the labelled rows since it began; None if none is.

        `Repair.calibrator` is the repaired calibrator. Watch it with a monitor of its own.
        """
        if self._blame is None:
            return None
        _, _, segment, since = self._blame
        with limit():
            return fit_repair(self.calibrator, self._recent.take(self.rows_ - since, segment), segment)

    @property
    def performance_(self) -> dict[str, Estimate]:
        """Accuracy, log loss and Brier score that the calibrated probabilities imply, without labels."""
        return self._performance.estimates()

    @property
    def confusion_(self) -> FloatArray:
        """Expected number of observations of each predicted class (rows) and true class (columns), without labels."""
        return self._performance.confusion

    def summary(self) -> str:
        """The findings in words."""
        unit = "rows" if self.labelled_.groups == self.labelled_.rows else "groups"
        lines = []
        if self.alarm_:
            when = self.history_.name_at((self.alarm_row_ or 1) - 1)
            when = f" ({when})" if when else ""
            stays = "It stays on: watch a repaired calibrator with a new monitor, or a new --state."
            lines += [f"Alarm, raised after {self.alarm_row_:,} labelled rows{when}. {stays}", str(self.change_)]
        elif self.rows_:
            lines.append(f"No alarm: not enough evidence for one. {self._sign()}")
        lines += [
            f"Evidence against the calibrator: {factor(self.log_evidence_)} ({strength(self.log_evidence_)}); it "
            f"starts at 1. The alarm is raised at {1.0 / self.alpha:,.0f}: if the calibrator is right and {unit} are "
            f"independent, that happens with probability {percent(self.alpha)} at most, however often you look.",
            f"With labels: {self.labelled_}; in total: {self._performance.seen}.",
        ]
        if self._performance.seen.rows:
            parts = (f"{METRICS[name]} {value.value:.4f}" for name, value in self.performance_.items())
            lines.append(f"Expected without labels, if the calibrator is right: {', '.join(parts)}.")
        if self.drift_ is not None and self.drift_.batches:
            found = f"drifted, since about row {self.drift_.since:,}" if self.drift_.found else "show no drift"
            lines.append(f"Predictions {found} (p-value of the latest batch: {self.drift_.p_value:.2g}).")
        if missing := self.history_.missing():
            lines.append(missing_words(missing))
        return "\n".join(lines)

    def batch_table(self, latest: int = 6) -> list[list[str]]:
        """The latest batches with expected and observed counts, as rows of text under a header.

        Counted are labelled rows of the second class, or of more than two classes those that were predicted right.
        """
        counted = class_text(self.classes_[1]) if len(self.classes_) == 2 else "predicted right"
        head = ["batch", "rows", "with labels", f"{counted}: expected", "observed", "evidence"]
        table = [head]
        for record in self.history_.records[-latest:]:
            counts = ("" if value is None else count(value) for value in (record.expected_count, record.observed_count))
            sizes = f"{max(record.rows, record.labelled):,}", f"{record.labelled:,}"
            table.append([record.name or "no name", *sizes, *counts, factor(record.log_evidence)])
        return table

    def _sign(self) -> str:
        """The strongest sign of a change that there is, in words."""
        segment, bet = self._leading_bet()
        parts = self.evidence_
        value = parts["slope"] if bet.kind == "slope" else parts["frequencies"]
        value = value if segment is None else parts["segments"][segment]
        if value <= 0.0:
            return "There is no sign of a change, which does not prove that there is none."
        where = "" if segment is None else f" in the segment {segment}"
        if bet.kind == "slope":
            what = f"the probabilities are too {'close to the average' if bet.more else 'extreme'}"
        else:
            what = f"{self.classes_.tolist()[bet.column]} occurs {'more' if bet.more else 'less'} often than predicted"
        return f"The strongest sign: {what}{where} ({factor(value)})."

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
            "blame": as_json(self._blame),
            "segment_columns": self._columns,
            "bets": as_json(list(self._bets.items())),
            "performance": as_json(self._performance),
            "drift": as_json(self.drift_),
        }

    def _restore(self, found: dict[str, Any]) -> None:
        """Take over what `_core` gave."""
        self.labelled_, self.alarm_, self.alarm_row_ = found["labelled"], found["alarm"], found["alarm_row"]
        self._blame = None if found["blame"] is None else tuple(found["blame"])
        self._columns, self._bets = found["segment_columns"], dict(found["bets"])
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


def factor(log_capital: float) -> str:
    """Capital as text."""
    if log_capital > np.log(1e7):
        exponent = np.floor(log_capital / np.log(10.0))
        return f"{np.exp(log_capital - exponent * np.log(10.0)):.1f} × {power_of_ten(int(exponent))}"
    capital = float(np.exp(log_capital))
    return f"{capital:,.0f}" if capital >= 10.0 else f"{capital:.2f}"


def strength(log_evidence: float) -> str:
    """Evidence in a word, on Jeffreys' scale."""
    powers = log_evidence / np.log(10.0)
    return next((word for bound, word in _SCALE if powers <= bound), _TOP_OF_SCALE)


def map_checksum(calibrator: BaseEstimator) -> str:
    """What tells one fitted calibrator from another: the checksum of its map, whatever its columns are called."""
    content: dict[str, object] = calibrator.to_map().to_json()
    content.pop("names", None)
    return checksum(canonical(content))
