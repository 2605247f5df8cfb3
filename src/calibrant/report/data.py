"""The contents of a calibration report as plain tables: everything is computed before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.decisions.curves import DecisionCurve
from calibrant.decisions.rule import DecisionRule
from calibrant.decisions.value import DecisionComparison
from calibrant.grades import GradeBacktest
from calibrant.metrics.murphy import MurphyDiagram
from calibrant.metrics.result_types import CalibrationTest, Estimate, ReliabilityCurve, ScoreAxis, round_axis
from calibrant.metrics.slope import Miscalibration
from calibrant.numerals import count, range_names
from calibrant.sample import Size
from calibrant.typing import AnyFloatArray
from calibrant.workflows.answering import Trust

#: Bands of which none has more than so many times the rows of another are called about equal.
ABOUT_EQUAL = 1.25
#: What metrics are called.
TITLES = {
    "log_loss": "Log loss",
    "brier": "Brier score",
    "accuracy": "Accuracy",
    "auroc": "AUROC",
    "positive_gap": "Predicted minus observed share of {}",
    "confidence_gap": "Confidence minus accuracy",
    "ece": "Expected calibration error",
    "smooth_ece": "Smooth calibration error",
}


def condition(size: Size) -> str:
    """What p-values and intervals of so many rows rest on."""
    return f"if {'rows' if size.groups is None else 'groups'} are independent"


@dataclass(frozen=True)
class Verdict:
    """The answer: `tone` is "good", "fair" or "bad"; `headline` a few words; `sentences` the evidence."""

    tone: str
    headline: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """Where the predictions came from: a name for the title, the command's words after it, skipped rows.

    `arguments` are the words that `calibrant fit` needs, `check` those of `calibrant evaluate` for calibrated rows. If
    the predictions are arrays and no file (`in_python`), they are names of the arguments that were given.
    """

    name: str
    arguments: tuple[str, ...] = ()
    command: str = ""
    rows_skipped: int = 0
    in_python: bool = False
    check: tuple[str, ...] | None = None


class Lack(NamedTuple):
    """What keeps the gain of calibration from being told: few "rows", "groups" or rows of "classes", or "one class"."""

    of: str
    text: str

    @property
    def why(self) -> str:
        return "only one class is present" if self.of == "one class" else "too little data to tell"


class MetricRow(NamedTuple):
    """One metric before and after calibration; `better` says which way is better: lower, higher, near 0 or near 1."""

    name: str
    title: str
    better: str
    before: Estimate
    after: Estimate


@dataclass(frozen=True)
class MethodRow:
    """What a method reaches on rows it was not fitted to.

    Gains are losses before minus after, positive is better; `behind` is the log loss above that of the recommended
    method, from the same rows. A method that failed has only a `message`.
    """

    name: str
    description: str
    log_loss: float = float("nan")
    gain_log_loss: Estimate | None = None
    gain_brier: Estimate | None = None
    behind: Estimate | None = None
    #: Share of the rows that the calibrators were fitted to.
    fitted: float = float("nan")
    seconds: float = float("nan")
    message: str = ""


class Learning(NamedTuple):
    """Gain of log loss by calibration with half of the rows, with all and with twice as many.

    They are estimated from fits to `fitted` of the rows and to half as many; `added` is by how much these differ.
    """

    size: Size
    fitted: float
    half: Estimate
    full: Estimate
    double: Estimate
    added: Estimate


class Parts(NamedTuple):
    """A loss and its two parts: what calibration removes and what is left."""

    title: str
    total: Estimate
    calibration: Estimate
    refinement: Estimate


class Views(NamedTuple):
    """The reliability of the same predictions without bins, in three ways."""

    corp: ReliabilityCurve
    kernel: ReliabilityCurve
    belt: ReliabilityCurve


@dataclass(frozen=True)
class Bands:
    """Expected against observed in bands of as equal numbers of observations as ties allow, each with an interval.

    Of the second of two classes, or of the predicted class being right. `p_values` are those of the expected number in
    each band before calibration, `test` that of all bands together (Hosmer-Lemeshow); `after` is None without a method.
    """

    before: ReliabilityCurve
    after: ReliabilityCurve | None
    p_values: AnyFloatArray
    test: CalibrationTest

    @property
    def names(self) -> list[str]:
        """The range of each band before calibration, in words; no two are alike."""
        return range_names(self.before.upper[:-1].tolist())

    @property
    def rows(self) -> str:
        """How many rows a band has; equal predictions share a band, which makes some larger."""
        least, most = float(self.before.weight.min()), float(self.before.weight.max())
        if most <= ABOUT_EQUAL * least:
            return "with about equally many rows each"
        return f"of {count(least)} to {count(most)} rows"

    @property
    def axis(self) -> ScoreAxis:
        """From the smallest to the largest end of an interval or mean of a band."""
        curves = [curve for curve in (self.before, self.after) if curve is not None]
        ends = np.concatenate([part for curve in curves for part in (curve.score, curve.low, curve.high)])
        return round_axis(float(ends.min()), float(ends.max()))


class Count(NamedTuple):
    """Expected number of rows of a class, its ratio to the observed one, and the p-value of their difference."""

    expected: float
    ratio: float
    p_value: float


class ClassRow(NamedTuple):
    """One class: how many rows have it of how many, how many were expected, and its reliability against the rest."""

    name: str
    observed: float
    total: float
    before: Count
    after: Count
    curve_before: ReliabilityCurve
    curve_after: ReliabilityCurve
    #: Whether the class is one of the worst, and off beyond chance in how often or how surely it is predicted.
    differs: bool = False


class SegmentRow(NamedTuple):
    """One segment: how right, how far predicted from observed (see `positive_gap`, `confidence_gap`), what it loses.

    `off_before` and `off_after` tell whether that gap is beyond chance, given how many segments there are.
    """

    name: str
    size: Size
    accuracy: Estimate
    gap_before: Estimate
    gap_after: Estimate
    off_before: bool
    off_after: bool
    log_loss_before: Estimate
    log_loss_after: Estimate


class Correction(NamedTuple):
    """What structured matrix scaling changes: `matrix` (coefficients minus identity) and temperature.

    Row i, column j: how much the log-odds of class i move with the model's log-probability of class j. `proven` marks
    entries that two halves of the rows agree on.
    """

    temperature: float
    matrix: AnyFloatArray
    proven: NDArray[np.bool_]


@dataclass(frozen=True)
class BinaryMap:
    """Where the recommended method sends the probability of the second class."""

    before: AnyFloatArray
    after: AnyFloatArray
    #: Ends of the intervals of `after` at the level of the report, and how they were found, if they were.
    low: AnyFloatArray | None = None
    high: AnyFloatArray | None = None
    by: str = ""


class Thresholds(NamedTuple):
    """Decision curves before and after calibration, and the scores of after against before (else: of before)."""

    before: DecisionCurve
    after: DecisionCurve | None
    murphy: MurphyDiagram


@dataclass(frozen=True)
class RatioRow:
    """What decisions cost where a missed case costs as much as `ratio` false alarms, which cost 1 each."""

    ratio: float
    threshold: float
    found: DecisionComparison


@dataclass(frozen=True)
class Decisions:
    """Decisions at given costs, before against after calibration.

    `ratios` are for two classes and two actions, `chosen` is the place of the given costs among them.
    """

    found: DecisionComparison
    ratios: tuple[RatioRow, ...]
    chosen: int


class NextStep(NamedTuple):
    """Something to do next, with the command that does it."""

    text: str
    command: str = ""


@dataclass(frozen=True)
class Report:
    """Everything a report shows."""

    source: str
    version: str
    created: str
    size: Size
    rows_skipped: int
    sampled_from: Size | None
    classes: tuple[str, ...]
    level: float
    folds: int
    #: The method to use, "none" for the unchanged predictions, and the one that all "after" is of, "none" if no
    #: method was fitted; what keeps its gain from being told, if anything does.
    recommended: str
    shown: str
    lack: Lack | None
    choice: str
    test_before: CalibrationTest
    test_after: CalibrationTest
    verdict: Verdict
    metrics: tuple[MetricRow, ...]
    faults: Miscalibration
    parts: tuple[Parts, ...]
    #: Share of the log loss that calibration saves; None if that cannot be told.
    saved: Estimate | None
    methods: tuple[MethodRow, ...]
    learning: Learning | None
    reliability_before: Views
    reliability_after: Views
    bands: Bands
    class_rows: tuple[ClassRow, ...]
    segment_name: str
    segment_rows: tuple[SegmentRow, ...]
    segments_left_out: int
    correction: Correction | None
    binary_map: BinaryMap | None
    #: Of the second of two classes; the rule that was given, and what it costs.
    thresholds: Thresholds | None
    rule: DecisionRule | None
    decisions: Decisions | None
    steps: tuple[NextStep, ...]
    command: str
    grades: GradeBacktest | None = None
    #: Of answers: whether the confidence in them can be trusted.
    trust: Trust | None = None

    @property
    def condition(self) -> str:
        """What p-values and intervals rest on."""
        return condition(self.size)

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the report without its figures, for machines."""

        def chosen(row: object, *names: str) -> dict[str, object]:
            return {
                name: {"value": found.value, "low": found.low, "high": found.high}
                if isinstance(found := getattr(row, name), Estimate)
                else found
                for name in names
            }

        return {
            **chosen(self, "source", "rows_skipped"),
            **self.size.to_dict(),
            "sampled_from": None if self.sampled_from is None else self.sampled_from.to_dict(),
            "classes": list(self.classes),
            "verdict": {"tone": self.verdict.tone, "headline": self.verdict.headline},
            "sentences": list(self.verdict.sentences),
            "p_value": {"before": self.test_before.p_value, "after": self.test_after.p_value},
            "draws": self.test_before.n_resamples,
            "recommended": self.recommended,
            "shown": self.shown,
            "condition": self.condition,
            "folds": self.folds,
            "metrics": {row.name: chosen(row, "before", "after") for row in self.metrics},
            "decomposition": {row.title: chosen(row, "calibration", "refinement") for row in self.parts},
            "reliability": {
                when: {
                    **{name: parts._asdict() for name, parts in views.corp.parts.items()},
                    "smooth_ece": views.kernel.error,
                }
                for when, views in (("before", self.reliability_before), ("after", self.reliability_after))
            },
            "bands": {
                **{name: values.tolist() for name, values in self.bands.before.to_dict().items()},
                "p_value": self.bands.p_values.tolist(),
                "hosmer_lemeshow": self.bands.test._asdict(),
            },
            "faults": {
                name: {"log_loss": part.gain, "p_value": part.p_value} for name, part in self.faults.parts.items()
            },
            "classes_counted": {
                row.name: {
                    "observed": row.observed,
                    "expected_before": row.before.expected,
                    "expected_after": row.after.expected,
                    "p_value_before": row.before.p_value,
                    "miscalibration_before": row.curve_before.error,
                    "miscalibration_after": row.curve_after.error,
                }
                for row in self.class_rows
            },
            "methods": {
                row.name: chosen(row, "log_loss", "gain_log_loss", "gain_brier", "behind", "seconds", "message")
                for row in self.methods
            },
            "learning": chosen(self.learning, *Learning._fields[1:]) if self.learning else None,
            "segments": {
                row.name: {**row.size.to_dict(), **chosen(row, *SegmentRow._fields[2:])} for row in self.segment_rows
            },
            "grades": None
            if self.grades is None
            else {name: column.tolist() for name, column in self.grades.to_dict().items()},
            "decisions": None
            if self.decisions is None
            else {
                **chosen(self.decisions.found, "before", "after", "saved", "changed", "total"),
                "ratios": [
                    {"ratio": row.ratio, **chosen(row.found, "before", "after", "saved", "changed")}
                    for row in self.decisions.ratios
                ],
            },
            "next": [step.command for step in self.steps if step.command],
            **({} if self.trust is None else {"trust": self.trust.to_dict()}),
        }
