"""Answers of language models: whether their confidence can be trusted, where to abstain, and a map that repairs it.

A question counts by the confidence of the answer that was chosen and by whether it was right; see `calibrant.Answers`.
"""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.calibrators.scaling.option_calibrator import OptionCalibrator
from calibrant.decisions import ChosenThreshold, choose_threshold
from calibrant.files.tables.answer_files import RAW_FIELDS, read_answers, right_options
from calibrant.files.tables.formats import JsonLinesTable
from calibrant.files.tables.writers import atomic_output
from calibrant.inputs.answers import Answers
from calibrant.inputs.words import ClassOrderWarning, RequestError
from calibrant.metrics.result_types import CalibrationTest, Estimate
from calibrant.numerals import amount, percent
from calibrant.sample import Sample, Size
from calibrant.threads import limited
from calibrant.typing import FloatArray
from calibrant.workflows.evaluating import given, metrics_in_memory, omnibus_test

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Shares of right answers for which a threshold is looked for: the first few that are above the accuracy.
TARGETS, _TRIED = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99), 4
#: Metrics of questions with options.
METRICS = ("log_loss", "brier", "accuracy", "confidence_gap", "ece", "smooth_ece")
#: The usual number of folds, and the usual level of a test.
_FOLDS, _ALPHA = 5, 0.05
#: With fewer labels nothing is said: an accuracy would be known to 15 points at best.
_FEWEST = 50


@dataclass(frozen=True)
class Trust:
    """Whether the confidence in answers can be trusted."""

    #: How many labels this took.
    size: Size
    #: Share of right answers; mean confidence minus that; probability that a right answer has the higher confidence of
    #: a right and a wrong one.
    accuracy: Estimate
    gap: Estimate
    ranking: Estimate
    #: Of a test of whether the confidence is right everywhere.
    p_value: float
    #: Shares of right answers that are asked for, and the confidence below which to abstain, proven on new questions.
    thresholds: tuple[tuple[float, ChosenThreshold], ...]

    @property
    def enough(self) -> bool:
        """Whether there are labels enough to say something."""
        return (self.size.rows if self.size.groups is None else self.size.groups) >= _FEWEST

    @property
    def headline(self) -> str:
        if not self.enough:
            return "Too few labels to tell whether the confidence can be trusted"
        if self.p_value >= _ALPHA:
            return "No evidence against taking the confidence at face value"
        return "Do not take the confidence at face value"

    @property
    def sentences(self) -> list[str]:
        together = "" if self.size.groups is None else f" on {amount(self.size.groups, 'group')} of questions"
        labels = f"This is based on {amount(self.size.rows, 'label')}{together}"
        if not self.enough:
            return [f"{labels}: label at least {_FEWEST} independent questions, preferably 200."]
        claimed = percent(self.accuracy.value + self.gap.value)
        right = f"{percent(self.accuracy.value)} ({_span(self.accuracy)}) of its answers are right"
        off = "" if self.p_value >= _ALPHA else "over-confident" if self.gap.low > 0 else "under-confident"
        if off and self.gap.low <= 0 <= self.gap.high:
            off = "right on average, but not everywhere"
        found = [f"The model claims {claimed} on average, and {right}{f': it is {off}' if off else ''}."]
        found.append(self._told)
        unproven = [percent(target, 0) for target, chosen in self.thresholds if math.isinf(chosen.threshold)]
        proven = [pair for pair in self.thresholds if math.isfinite(pair[1].threshold)]
        found += [self.advice(target, chosen) for target, chosen in proven]
        if unproven:
            found.append(f"No threshold is proven to give {unproven[0]} right answers: ask for less, or label more.")
        return [*found, f"{labels}."]

    @property
    def _told(self) -> str:
        if not self.accuracy.value:
            return "No answer is right, so no threshold helps."
        if math.isnan(self.ranking.value):
            return "All answers are right: whether the confidence would reveal a wrong one is not known."
        pairs = f"{percent(self.ranking.value)} ({_span(self.ranking)}) of pairs of a right and a wrong answer"
        if self.ranking.low <= 0.5:
            return (
                "It is not proven that the confidence tells right from wrong: the right one has the higher confidence "
                f"in {pairs}."
            )
        return f"The confidence tells right from wrong: the right one has the higher confidence in {pairs}."

    def advice(self, target: float, chosen: ChosenThreshold) -> str:
        """Where to abstain for this share of right answers."""
        asked = f"For {percent(target, 0)} right answers"
        if chosen.alarms.value > 1 - 1e-12:
            return f"{asked} there is no need to abstain."
        return (
            f"{asked} abstain below a confidence of {percent(chosen.threshold)}: "
            f"{percent(chosen.alarms.value)} of questions are then answered."
        )

    def to_dict(self) -> dict[str, Any]:
        estimates = {name: getattr(self, name) for name in ("accuracy", "gap", "ranking")}
        return {
            **{name: {"value": e.value, "low": e.low, "high": e.high} for name, e in estimates.items()},
            "p_value": self.p_value,
            "thresholds": [
                {
                    "right": target,
                    "abstain_below": None if math.isinf(chosen.threshold) else chosen.threshold,
                    "answered": 0.0 if math.isinf(chosen.threshold) else chosen.alarms.value,
                }
                for target, chosen in self.thresholds
            ],
        }


def _span(estimate: Estimate) -> str:
    return f"{percent(estimate.low)} to {percent(estimate.high)}"


@limited
def judge(correct: Sample, level: float = 0.95, p_value: float | None = None) -> Trust:
    """Whether confidence can be trusted, from a sample of the classes wrong (0) and right (1)."""
    found = metrics_in_memory(correct, level, ["positive_gap", "auroc"])
    gap, right = found["positive_gap"], correct.class_counts[1] / correct.total
    # Of predictions that call all answers wrong, the gap is minus the share of right ones.
    none = correct.with_values(np.tile([1.0, 0.0], (correct.n_rows, 1)), logs=False)
    share = metrics_in_memory(none, level, ["positive_gap"])["positive_gap"]
    accuracy = Estimate(right, -share.high, -share.low, level)
    options = {"proven": True, "level": level, "n_resamples": 200, **given(correct)}
    asked = [target for target in TARGETS if target > right or target == TARGETS[-1]][: _TRIED if right else 0]
    thresholds = [(target, choose_threshold(correct.y, correct.proba, precision=target, **options)) for target in asked]
    p_value = omnibus_test(correct).p_value if p_value is None else p_value
    return Trust(correct.size, accuracy, gap, found["auroc"], p_value, tuple(thresholds))


def chosen_answers(answers: Answers) -> Sample:
    """The confidence in the chosen answers, and whether these are right (1) or wrong (0)."""
    return replace(answers.correct, classes=np.arange(2))


def fit_answers(answers: Answers, calibrator: BaseEstimator | None = None) -> Any:
    """A calibrator of all options, `OptionCalibrator`, or the given one of the confidence in the chosen answer."""
    if calibrator is None:
        return OptionCalibrator().fit(answers)
    chosen = answers.correct
    beside = {} if chosen.groups is None else {"groups": chosen.groups}
    labels = np.asarray(chosen.classes)[chosen.y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClassOrderWarning)  # `apply` writes the confidence alone
        return calibrator.set_params(classes=chosen.classes).fit(chosen.proba, labels, chosen.counts, **beside)


@dataclass(frozen=True)
class AnswersEvaluation:
    """Metrics of questions with options, as they are and out of fold after `OptionCalibrator`."""

    size: Size
    options: tuple[int, int]
    before: dict[str, Estimate]
    after: dict[str, Estimate]
    test: CalibrationTest
    trust: Trust


@limited
def evaluate_answers(answers: Answers, level: float = 0.95) -> AnswersEvaluation:
    """Metrics of answers before and after cross-validated calibration, and whether their confidence can be trusted."""
    sample = answers.sample.with_values(answers.sample.proba, logs=False)
    before = metrics_in_memory(sample, level, METRICS)
    after = {}
    if answers.sample.units >= _FEWEST:
        after = metrics_in_memory(sample.with_values(held_out(answers)), level, METRICS)
    chosen = chosen_answers(answers)
    test = omnibus_test(chosen)
    ends = (int(answers.n_options.min()), int(answers.n_options.max()))
    return AnswersEvaluation(sample.size, ends, before, after, test, judge(chosen, level, test.p_value))


def held_out(answers: Answers) -> FloatArray:
    """Probabilities of the options of each question, calibrated with the other folds; groups stay together."""
    folds = answers.sample.folds(_FOLDS, 0, stratified=False)
    p = np.zeros(answers.present.shape)
    for fold in np.unique(folds):
        calibrator = OptionCalibrator().fit(answers.take(folds != fold))
        p[folds == fold] = calibrator.predict_proba(answers.take(folds == fold))
    return p


def apply_answers(
    calibrator: BaseEstimator,
    path: str | Path,
    output: str | Path,
    *,
    suffix: str = "",
    force: bool = False,
    skip: bool = False,
) -> int:
    """Write lines of answers with calibrated `probs`, `choice` and `confidence`; returns how many.

    Log-probabilities are left out, unless a `suffix` tells the new fields from them. A calibrator of the confidence in
    an answer writes `choice` and `confidence` alone, and `correct` where the right answers are known.
    """
    answers = read_answers(path, labelled=False, skip_errors=skip)
    if isinstance(calibrator, OptionCalibrator):
        p = calibrator.predict_proba(answers)
        choice, confidence = p.argmax(axis=1), p.max(axis=1)
    elif len(calibrator.classes_) == 2:
        p, choice = None, answers.sample.top
        confidence = calibrator.predict_proba(answers.correct.proba)[:, 1]
    else:
        raise RequestError("this calibrator was not fitted to answers: fit one to such a file with `calibrant fit`")
    known = None if p is not None else right_options(path, skip_errors=skip)
    number_of = {int(number): row for row, number in enumerate(np.asarray(answers.sample.rows))}
    with atomic_output(output, force=force) as stream:
        for number, record in JsonLinesTable(Path(path)).objects(skip):
            row = number_of.get(number)
            if row is None:
                continue
            kept = record if suffix else {name: record[name] for name in record if name not in RAW_FIELDS}
            new: dict[str, object] = {"choice": int(choice[row]), "confidence": float(confidence[row])}
            if p is not None:
                new = {"probs": p[row, answers.present[row]].tolist(), **new}
            elif known is not None:
                new["correct"] = bool(known[number] == choice[row])
            kept |= {name + suffix: value for name, value in new.items()}
            stream.write((json.dumps(kept, ensure_ascii=False) + "\n").encode())
    return len(number_of)
