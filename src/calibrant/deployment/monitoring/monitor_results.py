"""What a monitor has found so far, in numbers and in words; `monitor.py` is the side to which batches are added."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.calibrators.base import Calibrator
from calibrant.deployment.monitoring.findings import Change, Repair, fit_repair, measure, row_text
from calibrant.deployment.monitoring.history import History, Recent, Seen
from calibrant.deployment.monitoring.label_free import METRICS, Drift, Performance
from calibrant.deployment.monitoring.periods import missing_words
from calibrant.deployment.monitoring.segment_bets import SegmentBets
from calibrant.metrics.result_types import Estimate
from calibrant.numerals import class_text, count, percent, power_of_ten
from calibrant.threads import limit
from calibrant.typing import AnyArray, FloatArray

#: Jeffreys' scale of evidence, which Vovk and Wang (2021) use for evidence of this kind: powers of ten, and words.
_SCALE = ((0.0, "none"), (0.5, "hardly any"), (1.0, "substantial"), (1.5, "strong"), (2.0, "very strong"))
_TOP_OF_SCALE = "decisive"


class MonitorResults:
    """The findings of a `CalibrationMonitor`, which has these parts."""

    calibrator: Calibrator
    classes_: AnyArray
    alpha: float
    history_: History
    drift_: Drift | None
    _bets: SegmentBets
    _recent: Recent
    _performance: Performance

    @property
    def alarm_(self) -> bool:
        """Whether an alarm was raised."""
        return self._bets.alarm_row is not None

    @property
    def alarm_row_(self) -> int | None:
        """Number of labelled rows when it was raised."""
        return self._bets.alarm_row

    @property
    def labelled_(self) -> Seen:
        """Labelled rows."""
        return self._bets.labelled

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
        return self._bets.log_evidence()

    @property
    def evidence_(self) -> dict[str, Any]:
        """Logarithm of the evidence for each kind of change, class and segment."""
        return self._bets.by_kind(self.classes_)

    @property
    def change_(self) -> Change | None:
        """What the alarm is about; None without one."""
        if self._bets.blame is None:
            return None
        kind, column, segment, since = self._bets.blame
        data = self._recent.take(self.rows_ - since, segment)
        kind, column, predicted, found = measure(kind, column, data)
        label = None if kind == "slope" else self.classes_.tolist()[column]
        began = self.history_.name_at(since)
        return Change(kind, label, segment, since, data.n_rows, str(data), predicted, found, began)

    def repair(self) -> Repair | None:
        """The smallest repair that removes the change, fitted to the labelled rows since it began; None if none is.

        `Repair.calibrator` is the repaired calibrator. Watch it with a monitor of its own.
        """
        if self._bets.blame is None:
            return None
        _, _, segment, since = self._bets.blame
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
            found = f"drifted, since {row_text(self.drift_.since or 0)}" if self.drift_.found else "show no drift"
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
        segment, bet = self._bets.leading()
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
