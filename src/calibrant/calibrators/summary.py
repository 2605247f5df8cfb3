"""What a fitted calibrator found, in words: on how many rows, how confident the model was, and what the map does.

The sentences come from what every calibrator has, its map and the counts of the classes, and from a temperature where
there is one. Some calibrators add more (`AutoCalibrator.summary`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant.inputs.class_columns import NamedColumns
from calibrant.numerals import class_text, count, percent
from calibrant.simplex import LOSS_FLOOR
from calibrant.text_table import list_names
from calibrant.typing import AnyArray, FloatArray

#: The predictions whose calibrated values the summary shows.
SHOWN = (0.01, 0.1, 0.5, 0.9)
#: A map that comes this close to 0 and to 1 keeps no probabilities away worth a line.
WIDE = 0.01
#: The confidence whose calibrated value the summary shows for each class.
CONFIDENT = 0.9


class Summary:
    """`summary()` of a fitted calibrator."""

    classes_: AnyArray
    class_counts_: FloatArray

    def summary(self) -> str:
        """What was found and what the map does, in sentences.

        Examples
        --------
        >>> from calibrant import get_calibrator
        >>> calibrator = get_calibrator("isotonic").fit([0.01, 0.2, 0.7, 0.6, 0.9, 0.99], [0, 1, 0, 1, 1, 0])
        >>> print(calibrator.summary())
        IsotonicCalibrator, fitted to 6 rows: 3 of class 0, 3 of class 1.
        A probability of 1% for class 1 becomes 0.0%, 10% becomes 28.4%, 50% becomes 60.0%, 90% becomes 60.0%.
        The map keeps probabilities of class 1 between 0.0% and 60.0%.
        """
        check_is_fitted(self, "classes_")
        lines = [_rows(self), *unseen_classes(self)]
        if hasattr(self, "scores_seen_"):
            return "\n".join([*lines, *score_sentences(self)])
        if hasattr(self, "inverse_temperature_"):
            lines.append(temperature_sentence(self))
        return "\n".join([*lines, _effect(self), *narrow_range(self)])


def unseen_classes(calibrator: Any) -> list[str]:
    """What it means that classes have no rows, where several others have some."""
    counts = np.asarray(getattr(calibrator, "class_counts_", ()))
    unseen = [class_text(label) for label, n in zip(calibrator.classes_.tolist(), counts) if n == 0]
    if not unseen or np.count_nonzero(counts) < 2:
        return []
    return [
        f"No row is of {list_names(unseen, 5, str)}: most methods give such a class almost no probability. Calibrate "
        "with rows of every class."
    ]


def score_sentences(calibrator: Any) -> list[str]:
    """Which way scores point, whether that was found or given, and what scores become."""
    high = "The higher" if calibrator.score_factor_ > 0.0 else "The lower"
    how = "found from the labels" if calibrator.input == "scores" else "as given"
    if calibrator.n_features_in_ > 1:
        return [f"{high} the score of a class, the more likely it is ({how})."]
    label = class_text(calibrator.classes_[1])
    shown = np.unique([float(f"{score:.3g}") for score in calibrator.scores_seen_.tolist()])
    names = getattr(calibrator, "_column_names", None)
    rows = shown[:, None]
    p = np.asarray(calibrator.predict_proba(NamedColumns(names, rows) if names else rows), dtype=np.float64)[:, 1]
    first, *others = (f"{score:g} becomes {percent(float(q))}" for score, q in zip(shown, p))
    return [f"{high} the score, the more likely is {label} ({how}).", f"{', '.join([f'A score of {first}', *others])}."]


def temperature_sentence(calibrator: Any) -> str:
    """Too extreme or too close to the average."""
    alpha, binary = float(calibrator.inverse_temperature_), len(calibrator.classes_) == 2
    mixed = float(getattr(calibrator, "input_smoothing_", 0.0))
    shared = f"{percent(mixed)} of the uniform distribution"
    if mixed > 0.0 and -0.05 < np.log(alpha) < 0.4:
        # A mixture draws extremes in; a temperature that undoes some of that elsewhere is no fault of the predictions.
        return (
            f"{shared} was mixed into the probabilities, which pulls in extreme ones; the inverse temperature of the "
            f"result is {alpha:.3g} (1 changes nothing)."
        )
    if abs(np.log(alpha)) < 0.05:
        found = "neither too extreme nor too close to the average" if binary else "neither over- nor under-confident"
    elif alpha < 1.0:
        found = "too extreme" if binary else "over-confident"
    else:
        found = "too close to the average" if binary else "under-confident"
    who = f"The probabilities of {class_text(calibrator.classes_[1])} were" if binary else "The model was"
    moved = bool(np.any(getattr(calibrator, "input_factors_", 1.0) != 1.0))
    fitted = "fitted after the class means were corrected" if moved else "fitted without intercepts"
    text = f"{who} {found} overall (inverse temperature {alpha:.3g}, {fitted}; ideal: 1)"
    return f"{text}; {shared} was also mixed in." if mixed > 0.0 else f"{text}."


def sampled(calibrator: object) -> str:
    """What the rows of a fit to batches are a sample of; nothing if they are all."""
    batches = getattr(calibrator, "batches_", {"rows": 0, "rows_used": 0})
    return f" (a uniform sample of {count(batches['rows'])})" if batches["rows_used"] < batches["rows"] else ""


def _rows(calibrator: Any) -> str:
    name, labels = type(calibrator).__name__, [class_text(label) for label in calibrator.classes_.tolist()]
    counts = getattr(calibrator, "class_counts_", None)
    if counts is None:
        # A calibrator of version 0.1.0 did not count.
        return f"{name} of {len(labels)} classes."
    # What version 0.2 stored does not tell rows from observations.
    size = getattr(calibrator, "fitted_to_", f"{count(float(counts.sum()))} rows")
    start = f"{name}, fitted to {size}{sampled(calibrator)}"
    if len(labels) <= 5:
        return f"{start}: {', '.join(f'{count(float(n))} of {label}' for n, label in zip(counts, labels))}."
    few, many = int(np.argmin(counts)), int(np.argmax(counts))
    return (
        f"{start} of {len(labels)} classes, from {count(float(counts[few]))} of {labels[few]} "
        f"to {count(float(counts[many]))} of {labels[many]}."
    )


def mapped(calibrator: Any, proba: FloatArray) -> FloatArray:
    """Calibrated probabilities of rows with one column per class, in the form that the calibrator was fitted to."""
    rows = proba
    if calibrator.takes_logits:
        rows = np.log(proba)
        if calibrator.n_features_in_ == 1:
            rows = rows[:, 1:] - rows[:, :1]
        if calibrator.takes_scores:
            rows = (rows - calibrator.score_shift_) / calibrator.score_factor_
    elif calibrator.n_features_in_ == 1:
        rows = rows[:, 1:]
    order = getattr(calibrator, "_column_order", None)
    if order is not None and calibrator.n_features_in_ > 1:
        placed = np.empty_like(rows)
        placed[:, order] = rows
        rows = placed
    names = getattr(calibrator, "_column_names", None)
    return np.asarray(calibrator.predict_proba(NamedColumns(names, rows) if names else rows), dtype=np.float64)


def narrow_range(calibrator: Any) -> list[str]:
    """Which probabilities a map of two classes can reach, if these are not nearly all; smoothing keeps some away."""
    if len(calibrator.classes_) > 2:
        return []
    said = np.linspace(0.0, 1.0, 101).clip(LOSS_FLOOR, 1.0 - LOSS_FLOOR)
    now = mapped(calibrator, np.column_stack([1.0 - said, said]))[:, 1]
    low, high = float(now.min()), float(now.max())
    if low < WIDE and high > 1.0 - WIDE:
        return []
    label = class_text(calibrator.classes_[1])
    return [f"The map keeps probabilities of {label} between {percent(low)} and {percent(high)}."]


def _effect(calibrator: Any) -> str:
    labels = [class_text(label) for label in calibrator.classes_.tolist()]
    k = len(labels)
    if k == 2:
        said = np.array(SHOWN)
        now = mapped(calibrator, np.column_stack([1 - said, said]))[:, 1]
        pairs = [f"{percent(float(p), 0)} becomes {percent(float(q))}" for p, q in zip(said[1:], now[1:])]
        first = f"A probability of {percent(SHOWN[0], 0)} for {labels[1]} becomes {percent(float(now[0]))}"
        return f"{', '.join([first, *pairs])}."
    rows = np.full((k, k), (1 - CONFIDENT) / (k - 1))
    np.fill_diagonal(rows, CONFIDENT)
    now = np.diag(mapped(calibrator, rows))
    low, high = int(np.argmin(now)), int(np.argmax(now))
    text = f"A class predicted with {percent(CONFIDENT, 0)}, the others equally likely, gets"
    if now[high] - now[low] < 0.0005:
        return f"{text} {percent(float(now[low]))}, whatever the class."
    return (
        f"{text} {percent(float(now.mean()))} on average: from {percent(float(now[low]))} for {labels[low]} "
        f"to {percent(float(now[high]))} for {labels[high]}."
    )
