"""The findings of `AutoCalibrator` in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import rel_entr

from calibrant.numerals import excess, percent

if TYPE_CHECKING:
    from calibrant.calibrators.auto.calibrator import AutoCalibrator

#: Classes named one by one.
_MOST_CLASSES = 5
_MEANING = {
    "none": "the predictions as they are",
    "temperature": "temperature scaling",
    "vector": "vector scaling with curves",
    "additive": "matrix scaling with curves",
    "kernel": "kernel features",
    "trees": "boosted trees on matrix scaling with curves",
}


def summarise(auto: AutoCalibrator) -> str:
    """Sentences on the means, the temperature, the blend, the gain and the ranking; the costlier fault comes first."""
    off = _classes_off(auto)
    faults = [_temperature(auto), _classes(auto, off)]
    if off and _cost_of_means(auto) > auto.scores_["none"] - auto.scores_.get("temperature", auto.scores_["none"]):
        # For two classes a temperature without a shift stands for wrong means as much as for extreme predictions.
        faults = faults[1:] if len(auto.classes_) == 2 else faults[::-1]
    lines = [*faults, _blend(auto), _gain(auto)]
    if auto.monotone:
        what = "The map is increasing" if len(auto.classes_) == 2 else "The most probable class never changes"
        lines.append(f"{what}, which costs {auto.monotone_cost_:+.4f} log loss on the calibration data.")
    return "\n".join(lines)


def _temperature(auto: AutoCalibrator) -> str:
    """Too extreme or too timid."""
    alpha, binary = auto.inverse_temperature_, len(auto.classes_) == 2
    if abs(np.log(alpha)) < 0.05:
        found = "neither too extreme nor too timid" if binary else "neither over- nor under-confident"
    elif alpha < 1.0:
        found = "too extreme" if binary else "over-confident"
    else:
        found = "too timid" if binary else "under-confident"
    who = f"The probabilities of {auto.classes_[1]} were" if binary else "The model was"
    text = f"{who} {found} overall (inverse temperature {alpha:.3g}, 1 is right)"
    if auto.input_smoothing_ > 0.0:
        text += f"; its extreme probabilities were drawn in by mixing with {auto.input_smoothing_:g} of the uniform"
    return text + "."


def _classes_off(auto: AutoCalibrator) -> list[int]:
    """Classes whose mean prediction was off by more than chance explains, the most certain first."""
    seen, said = auto.class_frequencies_, auto.class_means_before_
    error = np.sqrt(np.maximum(seen * (1.0 - seen), 1.0 / auto.n_calibration_rows_) / auto.n_calibration_rows_)
    z = (said - seen) / error
    return [int(j) for j in np.argsort(-np.abs(z)) if abs(z[j]) > 3.0]


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
            f"The model predicted {percent(said[1])} for {auto.classes_[1]}, and {percent(seen[1])} occurred: "
            f"{excess(ratio[1])}."
        )
    parts = [
        f"{auto.classes_[j]} ({percent(said[j])} predicted, {percent(seen[j])} occurred: {excess(ratio[j])})"
        for j in off[:_MOST_CLASSES]
    ]
    more = f" and {len(off) - _MOST_CLASSES} more" if len(off) > _MOST_CLASSES else ""
    return f"Predicted too often or too rarely: {', '.join(parts)}{more}."


def _blend(auto: AutoCalibrator) -> str:
    weights = sorted(auto.chosen_.items(), key=lambda item: -item[1])
    parts = [f"{w:.0%} {_MEANING[name]}" for name, w in weights if w >= 0.01]
    first = weights[0][1]
    sure = "a clear" if first > 0.8 else "a mixed" if first > 0.5 else "an open"
    return f"The blend is {', '.join(parts)}: {sure} choice."


def _gain(auto: AutoCalibrator) -> str:
    scores = auto.scores_
    gain = scores["none"] - scores["blend"]
    members = [loss for name, loss in scores.items() if name not in {"none", "blend"}]
    spread = max(members) - min(members)
    return (
        f"Cross-validated log loss: {scores['none']:.4f} before, {scores['blend']:.4f} after "
        f"({gain:+.4f} gained on {auto.n_calibration_rows_} rows); the members differ by up to {spread:.4f}."
    )
