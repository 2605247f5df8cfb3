"""The findings of `AutoCalibrator` in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
    """Sentences on confidence, classes, the blend, the gain and the ranking."""
    lines = [_confidence(auto), _classes(auto), _blend(auto), _gain(auto)]
    if auto.monotone:
        what = "The map is increasing" if len(auto.classes_) == 2 else "The most probable class never changes"
        lines.append(f"{what}, which costs {auto.monotone_cost_:+.4f} log loss on the calibration data.")
    return "\n".join(lines)


def _confidence(auto: AutoCalibrator) -> str:
    alpha = auto.inverse_temperature_
    if abs(np.log(alpha)) < 0.05:
        found = "neither over- nor under-confident"
    elif alpha < 1.0:
        found = "over-confident"
    else:
        found = "under-confident"
    text = f"The model was {found} overall (inverse temperature {alpha:.3g}, 1 is right)"
    if auto.input_smoothing_ > 0.0:
        text += f"; its extreme probabilities were drawn in by mixing with {auto.input_smoothing_:g} of the uniform"
    return text + "."


def _classes(auto: AutoCalibrator) -> str:
    """Classes whose mean prediction was off by more than chance explains."""
    seen, said = auto.class_frequencies_, auto.class_means_before_
    error = np.sqrt(np.maximum(seen * (1.0 - seen), 1.0 / auto.n_calibration_rows_) / auto.n_calibration_rows_)
    z = (said - seen) / error
    order = [j for j in np.argsort(-np.abs(z)) if abs(z[j]) > 3.0]
    if not order:
        return "No class was predicted clearly too often or too rarely."
    parts = [f"{auto.classes_[j]} ({said[j]:.3g} predicted, {seen[j]:.3g} observed)" for j in order[:_MOST_CLASSES]]
    more = f" and {len(order) - _MOST_CLASSES} more" if len(order) > _MOST_CLASSES else ""
    return f"Corrected most in the mean: {', '.join(parts)}{more}."


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
