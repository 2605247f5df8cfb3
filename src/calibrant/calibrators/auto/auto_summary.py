"""The findings of `AutoCalibrator` in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import rel_entr

from calibrant.calibrators.auto.means import classes_off
from calibrant.calibrators.summary import (
    narrow_range,
    sampled,
    score_sentences,
    temperature_sentence,
    unseen_classes,
)
from calibrant.numerals import class_text, count, excess, percent

if TYPE_CHECKING:
    from calibrant.calibrators.auto.calibrator import AutoCalibrator

#: Classes named one by one.
_MOST_CLASSES = 5
#: A factor on a class's odds that is closer to one is not worth a line.
_NOTED = 0.01
_MEANING = {
    "none": "the unchanged predictions",
    "temperature": "temperature scaling",
    "vector": "vector scaling with curves",
    "additive": "matrix scaling with curves",
    "gaussian": "a Gaussian model of the log-probabilities",
    "weak gaussian": "a Gaussian model with less shrinkage",
    "weakest gaussian": "a Gaussian model with the least shrinkage",
    "discriminant": "discriminant analysis",
    "strong discriminant": "discriminant analysis with more shrinkage",
    "ridge": "matrix scaling with curves",
    "kernel": "kernel features",
    "trees": "boosted trees on matrix scaling with curves",
}


def summarise(auto: AutoCalibrator) -> str:
    """Sentences on the means, the temperature, the blend, the gain and the ranking; the costlier fault comes first."""
    n = getattr(auto, "n_independent_", auto.n_calibration_rows_)  # not in files of version 0.2, like the next one
    size = getattr(auto, "calibrated_on_", f"{auto.n_calibration_rows_:,} rows")
    if auto.identity_weight_ == 1.0 and np.count_nonzero(auto.class_frequencies_) == 1:
        only = class_text(auto.classes_[int(np.argmax(auto.class_frequencies_))])
        kept = "scores are only scaled" if hasattr(auto, "scores_seen_") else "predictions stay as they are"
        return f"All labels ({size}) are {only}: nothing can be learned from one class, so the {kept}."
    off = classes_off(auto.class_means_before_, auto.class_frequencies_, n)
    faults = [temperature_sentence(auto), _classes(auto, off)]
    # What temperature scaling gains includes the correction of the means that comes before it.
    if off and 2.0 * _cost_of_means(auto) > auto.scores_["none"] - auto.scores_.get(
        "temperature", auto.scores_["none"]
    ):
        faults = faults[::-1]
    if hasattr(auto, "scores_seen_"):  # of scores, the temperature and the means are those of their scaling
        faults = score_sentences(auto)
    narrow = [] if hasattr(auto, "scores_seen_") else narrow_range(auto)
    lines = [*faults, *unseen_classes(auto), _blend(auto), *_means(auto), *narrow, _gain(auto, size)]
    if drawn := sampled(auto) or _drawn(auto):
        lines.append(f"It was fitted to {size}{drawn}.")
    if auto.monotone:
        what = "The map is increasing" if len(auto.classes_) == 2 else "The most probable class never changes"
        lines.append(f"{what}, which costs {auto.monotone_cost_:+.4f} log loss on the calibration data.")
    return "\n".join(lines)


def _drawn(auto: AutoCalibrator) -> str:
    """How many rows there were, if those that the fit has memory and use for were drawn from more."""
    if hasattr(auto, "fitted_to_") and hasattr(auto, "calibrated_on_"):
        return f", drawn at random from {auto.fitted_to_}" if auto.fitted_to_ != auto.calibrated_on_ else ""
    counts = getattr(auto, "class_counts_", None)  # none in files of version 0.1
    total = 0.0 if counts is None else float(counts.sum())
    return f", drawn at random from {count(total)}" if round(total) > auto.n_calibration_rows_ else ""


def _cost_of_means(auto: AutoCalibrator) -> float:
    """The divergence of the mean prediction from the observed frequencies, which wrong means cost at least."""
    return float(rel_entr(auto.class_frequencies_, auto.class_means_before_).sum())


def _classes(auto: AutoCalibrator, off: list[int]) -> str:
    seen, said = auto.class_frequencies_, auto.class_means_before_
    if not off:
        return "No class was predicted clearly too often or too rarely."
    with np.errstate(divide="ignore"):
        ratio = said / seen
    if len(auto.classes_) == 2:
        return (
            f"The model predicted {percent(said[1])} for {class_text(auto.classes_[1])}, and {percent(seen[1])} "
            f"occurred: {excess(ratio[1])}."
        )
    parts = [
        f"{class_text(auto.classes_[j])} ({percent(said[j])} predicted, {percent(seen[j])} occurred: "
        f"{excess(ratio[j])})"
        for j in off[:_MOST_CLASSES]
    ]
    return f"Predicted too often or too rarely: {_and_more(parts, len(off))}."


def _and_more(parts: list[str], count: int) -> str:
    """The named ones of `count` in one list."""
    return ", ".join(parts) + (f" and {count - len(parts)} more" if count > len(parts) else "")


def _blend(auto: AutoCalibrator) -> str:
    weights = sorted(auto.member_weights_.items(), key=lambda item: -item[1])
    corrected = " but for these class means" if np.any(auto.input_factors_ != 1.0) else ""
    as_they_are = "the scaled scores alone" if hasattr(auto, "scores_seen_") else _MEANING["none"]
    meaning = _MEANING | {"none": as_they_are + corrected}
    if len(auto.classes_) == 2:  # a matrix of two classes has one slope
        meaning = {name: text.replace("matrix scaling", "logistic scaling") for name, text in meaning.items()}
    parts = [f"{w:.0%} {meaning.get(name, name)}" for name, w in weights if w >= 0.01]
    first = weights[0][1]
    sure = "a clear" if first > 0.8 else "a mixed" if first > 0.5 else "an open"
    return f"The blend is {', '.join(parts)}: {sure} choice."


def _means(auto: AutoCalibrator) -> list[str]:
    """The factors on the odds that match class means, if they change anything worth a line."""
    factors = auto.input_factors_ * auto.class_factors_
    if len(factors) == 2:
        ratio = factors[1] / factors[0]
        line = (
            f"The odds of {class_text(auto.classes_[1])} were multiplied by {ratio:.3g} so that mean predictions match."
        )
        return [line] if abs(ratio - 1.0) >= _NOTED else []
    changed = [int(j) for j in np.argsort(-np.abs(np.log(factors))) if abs(factors[j] - 1.0) >= _NOTED]
    if not changed:
        return []
    parts = [f"{class_text(auto.classes_[j])} times {factors[j]:.3g}" for j in changed[:_MOST_CLASSES]]
    return [f"Odds were multiplied so that mean predictions match: {_and_more(parts, len(changed))}."]


def _gain(auto: AutoCalibrator, size: str) -> str:
    scores = auto.scores_
    gain = scores["none"] - scores["blend"]
    members = [loss for name, loss in scores.items() if name not in {"none", "blend"}]
    spread = max(members) - min(members)
    before = "by scaling the scores" if hasattr(auto, "scores_seen_") else "before"
    return (
        f"Cross-validated log loss: {scores['none']:.4f} {before}, {scores['blend']:.4f} after "
        f"({gain:+.4f} gained on {size}); the members differ by up to {spread:.4f}. "
        "The blend was chosen on the same rows, so this is a little optimistic; a report leaves rows out of the choice."
    )
