"""Bets on all rows and on the rows of each segment, and the alarm that they raise together.

A third of the capital is bet on segments, if there are any, and divided among them in the order in which they appear,
so that segments may appear at any time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.deployment.monitoring.bets import Bets, LeadingBet, classes_bet_on, log_mean, log_sum
from calibrant.deployment.monitoring.history import Seen
from calibrant.deployment.segments.columns import Columns, is_numeric, level_codes, level_name
from calibrant.inputs.segments import read_segments, texts_of
from calibrant.sample import Sample
from calibrant.typing import AnyArray

#: Observations after which evidence is added up and an alarm may be raised; a larger batch is handled in such blocks.
#: The delays of docs/monitoring.md were measured with it.
_BLOCK = 500
#: Segments with bets of their own; later ones share the bets on `OTHER`. The last of 50 still has a hundredth of a
#: percent of the capital (`log_shares`).
MOST_SEGMENTS, OTHER = 50, "(other)"
#: Share of the capital that is bet on segments, if there are any: an alarm of all rows takes 1.5 times the evidence.
_ON_SEGMENTS = 1.0 / 3.0


@dataclass
class SegmentBets:
    """The bets on labelled rows: of all rows, under the name None, and of each segment."""

    k: int
    alpha: float
    tolerance: float
    by_segment: dict[str | None, Bets] = field(default_factory=dict)
    #: None before the first batch, empty if there are no segments.
    columns: list[str] | None = None
    #: Rows bet on.
    labelled: Seen = field(default_factory=Seen)
    #: How many were labelled when the alarm was raised.
    alarm_row: int | None = None
    #: What the alarm is about: kind, column and segment of the leading bet, and the row with which its luck began.
    blame: tuple[str, int, str | None, int] | None = None

    def __post_init__(self) -> None:
        self.by_segment.setdefault(None, Bets.start(self.k))

    @property
    def segments(self) -> list[str]:
        """The segments that have bets, in the order in which they appeared."""
        return [name for name in self.by_segment if name is not None]

    @property
    def size(self) -> int:
        """How many numbers these bets are."""
        return 3 * self.by_segment[None].active.size * len(self.by_segment)

    def names(self, segments: object, n: int, known: Columns) -> AnyArray:
        """The name of each row's segment in each column, (n, c), of a batch; `known` are columns of the calibrator."""
        columns: list[str] = []
        names = np.empty((n, 0), dtype=object)
        if segments is not None:
            columns, names = segment_names(segments, n, known)
        if self.columns not in (None, columns):
            which = f"has segments by {', '.join(columns)}" if columns else "lacks segments"
            before = f"by {', '.join(self.columns or ())}" if self.columns else "had none"
            raise ValueError(
                f"This batch {which}, unlike those before ({before}): the starting evidence is divided among segments "
                "once."
            )
        self.columns = columns
        return limited_names(names, self.segments)

    def update(self, data: Sample, names: AnyArray) -> None:
        """Bet on labelled rows, whose segments have these names; after every block look whether the alarm is due."""
        for part in data.parts(_BLOCK):
            block, segments = data.take(part), names[part]
            for name in dict.fromkeys([None, *segments.ravel().tolist()]):
                rows = block if name is None else block.take((segments == name).any(axis=1))
                self.by_segment.setdefault(name, Bets.start(self.k)).update(rows, self.tolerance, self.labelled.rows)
            self.labelled = self.labelled.plus(block)
            if self.alarm_row is None and self.log_evidence() >= -np.log(self.alpha):
                self.alarm_row = self.labelled.rows
                segment, bet = self.leading()
                self.blame = bet.kind, bet.column, segment, bet.since

    def leading(self) -> tuple[str | None, LeadingBet]:
        """The segment and the bet with the largest capital."""
        shares = self._log_shares()
        leading = {name: bets.leading(self.k) for name, bets in self.by_segment.items()}
        best = max(leading, key=lambda name: leading[name].log_capital + shares[name])
        return best, leading[best]

    def _log_shares(self) -> dict[str | None, float]:
        """Logarithms of the shares of the capital."""
        return log_shares(self.segments) if self.columns else {None: 0.0}

    def log_evidence(self) -> float:
        """Logarithm of the evidence against the calibrator."""
        shares = self._log_shares()
        parts = [self.by_segment[name].log_evidence() + share for name, share in shares.items()]
        # What is set aside for segments that have not appeared yet.
        idle = -np.expm1(min(float(log_sum(np.array(list(shares.values())))), 0.0))
        return float(log_sum(np.array([*parts, np.log(idle)] if idle > 0.0 else parts)))

    def by_kind(self, classes: AnyArray) -> dict[str, Any]:
        """Logarithm of the evidence for each kind of change, class and segment."""
        of_classes, slope = self.by_segment[None].log_means()
        labels = classes[classes_bet_on(self.k)].tolist()
        return {
            "frequencies": float(log_mean(of_classes)),
            "slope": slope,
            "classes": dict(zip(labels, of_classes.tolist())),
            "segments": {name: self.by_segment[name].log_evidence() for name in self.segments},
        }


def segment_names(segments: object, n: int, columns: Columns) -> tuple[list[str], AnyArray]:
    """The columns of segments, and the name of each row's segment in each, (n, c).

    `columns` are those that the calibrator takes, if it takes any: others are left out, and numbers are named by bins.
    """
    frame = read_segments(segments, n)
    chosen = list(columns) or list(frame)
    names = np.empty((n, len(chosen)), dtype=object)
    for place, name in enumerate(chosen):
        texts = texts_of(frame[name])
        if name in columns:
            codes = level_codes(frame, {name: columns[name]})[:, 0].tolist()
            if is_numeric(columns[name]):
                names[:, place] = [level_name(name, columns[name], code) for code in codes]
                continue
            texts = [str(columns[name][code]) if code >= 0 else text for code, text in zip(codes, texts)]
        before = "" if len(chosen) == 1 else f"{name} = "
        names[:, place] = [f"{before}{text}" if text else f"{name} missing" for text in texts]
    return chosen, names


def limited_names(names: AnyArray, known: Iterable[str]) -> AnyArray:
    """The names of segments, with those beyond the first `MOST_SEGMENTS` as one."""
    seen = set(known)
    for name in dict.fromkeys(names.ravel().tolist()):
        if name not in seen and len(seen) < MOST_SEGMENTS:
            seen.add(name)
        elif name not in seen:
            names[names == name] = OTHER
    return names


def log_shares(names: Iterable[str]) -> dict[str | None, float]:
    """Logarithms of the shares of the capital: the m-th segment to appear has 1 / (m (m + 1)) of the segments' part."""
    shares: dict[str | None, float] = {None: float(np.log(1.0 - _ON_SEGMENTS))}
    for m, name in enumerate(names, 1):
        shares[name] = float(np.log(_ON_SEGMENTS / (m * (m + 1))))
    return shares
