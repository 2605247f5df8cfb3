"""`CalibrationMonitor`: is a calibrator in use still right?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.deployment.inputs import calibrated, check_calibrator, column_codes, identity
from calibrant.deployment.monitoring.bets import Bets, classes_bet_on, log_mean, log_sum
from calibrant.deployment.monitoring.findings import Change, Repair, fit_repair, leading_bet, measure
from calibrant.deployment.monitoring.history import History, Record
from calibrant.deployment.monitoring.label_free import Drift, Performance
from calibrant.deployment.monitoring.recent import Recent
from calibrant.deployment.monitoring.segments import limited_names, log_shares, segment_names
from calibrant.deployment.monitoring.stored import check_state
from calibrant.metrics.intervals import Estimate
from calibrant.runtime import canonical, checksum
from calibrant.threads import limit
from calibrant.typing import FloatArray, IntArray

FORMAT, VERSION = "calibrant monitor", 1

#: Rows after which evidence is added up and an alarm may be raised; a larger batch is handled in such blocks.
_BLOCK = 500


class CalibrationMonitor:
    """Watches a calibrator in use, batch by batch, and says when, where and how it went wrong.

    If labels follow the calibrated probabilities, the chance of ever raising an alarm is at most `alpha`, however
    often one looks: the alarm is raised when capital that bets against them has grown by ``1 / alpha`` (see
    `calibrant.deployment.monitoring.bets` for the proof). Memory is constant.

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
        segments a tuple of them and their segments.

    Attributes
    ----------
    alarm_ : bool
        Whether an alarm was raised; it stays.
    alarm_row_ : int or None
        Number of labelled rows when it was raised.
    log_evidence_ : float
        Logarithm of the capital; the alarm is raised at ``-log(alpha)``.
    evidence_ : dict
        Logarithm of the capital on class frequencies, on the slope, on each class and on each segment.
    change_ : Change or None
        What the alarm is about, since when, and how large it is.
    performance_ : dict of str to Estimate
        Accuracy, log loss and Brier score expected from calibrated probabilities alone, with intervals.
    confusion_ : ndarray of shape (k, k)
        Expected number of rows of each predicted class (rows) and true class (columns).
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

    def __init__(self, calibrator: Any, alpha: float = 0.01, tolerance: float = 0.0, reference: Any = None) -> None:
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
        self._recent, self._performance = Recent.start(k), Performance.start(k)
        self.history_ = History()
        self.drift_ = None if reference is None else Drift.start(self._calibrated(*_pair(reference)))
        self.rows_ = 0
        self.alarm_, self.alarm_row_, self._blame = False, None, None

    alarm_row_: int | None
    _blame: tuple[str, int, str | None, int] | None

    def update(self, P: Any, y: Any, segments: Any = None, *, observed: bool = False) -> CalibrationMonitor:
        """Add a batch of predictions with labels; these may come late, if how late does not depend on them.

        Parameters
        ----------
        P : array-like of shape (n, k), (n,) or (n, 1)
            Predictions of the model, as given to the calibrator.
        y : array-like of shape (n,)
            Labels.
        segments : data frame, mapping of columns, or array-like of shape (n,), default=None
            The segments of each row, one in each column: all batches have them or none has. A calibrator that takes
            segments needs its columns.
        observed : bool, default=False
            Whether these rows were given to `observe` before, without labels.
        """
        p = self._calibrated(P, segments)
        codes = column_codes(y, len(p), self.classes_)
        names = self._segment_names(segments, len(p))
        with limit():
            for start in range(0, len(p), _BLOCK):
                block = slice(start, start + _BLOCK)
                self._bet(p[block], codes[block], names[block])
        self._recent.add(p, codes, names)
        if not observed:
            self._see(p)
        self.history_.add(
            Record(
                0 if observed else len(p),
                len(p),
                self.log_evidence_,
                float(p.max(axis=1).mean()),
                float(p.max(axis=1).mean()),
                float((p.argmax(axis=1) == codes).mean()),
            )
        )
        return self

    def observe(self, P: Any, segments: Any = None) -> CalibrationMonitor:
        """Add a batch of predictions whose labels are unknown, or come later through ``update(..., observed=True)``.

        Parameters
        ----------
        P : array-like of shape (n, k), (n,) or (n, 1)
            Predictions of the model, as given to the calibrator.
        segments : data frame or mapping of columns, default=None
            The segments of the rows, for a calibrator that takes segments.
        """
        p = self._calibrated(P, segments)
        self._see(p)
        self.history_.add(Record(len(p), 0, self.log_evidence_, float(p.max(axis=1).mean())))
        return self

    def _calibrated(self, P: Any, segments: Any = None) -> FloatArray:
        return calibrated(self.calibrator, P, segments)

    def _see(self, p: FloatArray) -> None:
        """What needs no labels."""
        if self.drift_ is not None:
            self.drift_.update(p, self.alpha, self._performance.rows)
        self._performance.update(p)

    def _segment_names(self, segments: Any, n: int) -> NDArray[Any]:
        columns: list[str] = []
        names = np.empty((n, 0), dtype=object)
        if segments is not None:
            columns, names = segment_names(segments, n, getattr(self.calibrator, "segment_columns_", {}))
        if self._columns not in (None, columns):
            which = f"has segments by {', '.join(columns)}" if columns else "lacks segments"
            before = f"by {', '.join(self._columns or ())}" if self._columns else "had none"
            raise ValueError(
                f"This batch {which}, unlike those before ({before}): capital was set aside for them at the start."
            )
        self._columns = columns
        return limited_names(names, (name for name in self._bets if name is not None))

    def _bet(self, p: FloatArray, y: IntArray, names: NDArray[Any]) -> None:
        """Bet on a block of rows, and look whether the alarm is due."""
        for name in dict.fromkeys([None, *names.ravel().tolist()]):
            rows = slice(None) if name is None else (names == name).any(axis=1)
            bets = self._bets.setdefault(name, Bets.start(p.shape[1]))
            bets.update(p[rows], y[rows], self.tolerance, self.rows_)
        self.rows_ += len(p)
        if not self.alarm_ and self.log_evidence_ >= -np.log(self.alpha):
            self.alarm_, self.alarm_row_ = True, self.rows_
            shares = self._log_shares()
            best = max(self._bets, key=lambda name: leading_bet(self._bets[name], p.shape[1])[0] + shares[name])
            _, kind, column, since = leading_bet(self._bets[best], p.shape[1])
            self._blame = kind, column, best, since

    def _log_shares(self) -> dict[str | None, float]:
        """Logarithms of the shares of the capital."""
        return log_shares(name for name in self._bets if name is not None) if self._columns else {None: 0.0}

    @property
    def log_evidence_(self) -> float:
        """Logarithm of the capital that bets against the calibrator."""
        shares = self._log_shares()
        parts = [self._bets[name].log_evidence() + share for name, share in shares.items()]
        # What is set aside for segments that have not appeared yet.
        idle = -np.expm1(min(float(log_sum(np.array(list(shares.values())))), 0.0))
        return float(log_sum(np.array([*parts, np.log(idle)] if idle > 0.0 else parts)))

    @property
    def evidence_(self) -> dict[str, Any]:
        """Logarithm of the capital on each kind of change, class and segment."""
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
        p, y = self._recent.take(self.rows_ - since, segment)
        predicted, observed = measure(kind, column, p, y)
        label = None if kind == "slope" else self.classes_.tolist()[column]
        return Change(kind, label, segment, since, len(y), predicted, observed)

    def repair(self) -> Repair | None:
        """The smallest repair that removes the change, fitted to the labelled rows since it began; None if none is.

        `Repair.calibrator` is the repaired calibrator. Watch it with a monitor of its own.
        """
        if self._blame is None:
            return None
        _, _, segment, since = self._blame
        with limit():
            return fit_repair(self.calibrator, *self._recent.take(self.rows_ - since, segment), segment)

    @property
    def performance_(self) -> dict[str, Estimate]:
        """Accuracy, log loss and Brier score that the calibrated probabilities imply, without labels."""
        return self._performance.estimates()

    @property
    def confusion_(self) -> FloatArray:
        """Expected number of rows of each predicted class (rows) and true class (columns), without labels."""
        return self._performance.confusion

    def summary(self) -> str:
        """The findings in words."""
        seen = f"{self.rows_:,} rows with labels, of {self._performance.rows:,}"
        due = f"{factor(self.log_evidence_)} (alarm at {1.0 / self.alpha:,.0f})"
        lines = [f"{seen}; evidence against the calibrator: {due}."]
        if self.alarm_:
            lines += [f"Alarm, raised after {self.alarm_row_:,} labelled rows.", str(self.change_)]
        elif self.rows_:
            lines.append("No alarm: nothing speaks against the calibrator.")
        if self._performance.rows:
            parts = (f"{name.replace('_', ' ')} {value.value:.4f}" for name, value in self.performance_.items())
            lines.append(f"Expected without labels, if the calibrator holds: {', '.join(parts)}.")
        if self.drift_ is not None and self.drift_.batches:
            found = f"drifted, since about row {self.drift_.since:,}" if self.drift_.found else "did not drift"
            lines.append(f"Predictions {found} (p-value of the latest batch: {self.drift_.p_value:.2g}).")
        return "\n".join(lines)

    @property
    def state_(self) -> dict[str, Any]:
        """Everything in terms of JSON, with the checksum of the calibrator's map."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "calibrator": map_checksum(self.calibrator),
            "alpha": self.alpha,
            "tolerance": self.tolerance,
            "rows": self.rows_,
            "alarm": self.alarm_,
            "alarm_row": self.alarm_row_,
            "blame": None if self._blame is None else list(self._blame),
            "segment_columns": self._columns,
            "bets": [[name, bets.to_json()] for name, bets in self._bets.items()],
            "recent": self._recent.to_json(),
            "performance": self._performance.to_json(),
            "drift": None if self.drift_ is None else self.drift_.to_json(),
            "history": self.history_.to_json(),
        }

    @classmethod
    def resume(cls, calibrator: Any, state: dict[str, Any]) -> CalibrationMonitor:
        """Continue from a `state_`.

        Parameters
        ----------
        calibrator : fitted calibrator
            The one the state belongs to.
        state : dict
            A `state_`, from this process or from a JSON file.
        """
        if not isinstance(state, dict) or state.get("format") != FORMAT or state.get("version") != VERSION:
            raise ValueError("This is not a state of a CalibrationMonitor of this version.")
        if state.get("calibrator") != map_checksum(check_calibrator(calibrator)):
            raise ValueError("This state belongs to another calibrator: start a new one for this calibrator.")
        try:
            monitor = cls(calibrator, state["alpha"], state["tolerance"])
            k = len(monitor.classes_)
            check_state(state, k)
            monitor.rows_, monitor.alarm_, monitor.alarm_row_ = state["rows"], state["alarm"], state["alarm_row"]
            monitor._blame = None if state["blame"] is None else tuple(state["blame"])
            monitor._columns = state["segment_columns"]
            monitor._bets = {name: Bets.from_json(bets, k) for name, bets in state["bets"]}
            monitor._recent = Recent.from_json(state["recent"], k)
            monitor._performance = Performance.from_json(state["performance"])
            monitor.drift_ = None if state["drift"] is None else Drift.from_json(state["drift"])
            monitor.history_ = History.from_json(state["history"])
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise ValueError(f"This state is damaged ({type(error).__name__}: {error!s:.100}).") from None
        return monitor


def _pair(reference: Any) -> tuple[Any, ...]:
    return reference if isinstance(reference, tuple) and len(reference) == 2 else (reference,)


def factor(log_capital: float) -> str:
    """Capital as text.

    Examples
    --------
    >>> factor(0.0), factor(8.5), factor(50.0)
    ('1.00', '4,915', '5.2e+21')
    """
    if log_capital > np.log(1e7):
        exponent = np.floor(log_capital / np.log(10.0))
        return f"{np.exp(log_capital - exponent * np.log(10.0)):.1f}e+{exponent:.0f}"
    capital = float(np.exp(log_capital))
    return f"{capital:,.0f}" if capital >= 10.0 else f"{capital:.2f}"


def map_checksum(calibrator: Any) -> str:
    """What tells one fitted calibrator from another: the checksum of its map."""
    return checksum(canonical(identity(calibrator)))
