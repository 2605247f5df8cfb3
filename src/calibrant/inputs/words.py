"""What the arguments of a caller are called, so that the one input contract can name `X`, `y_prob` or a file.

Errors name settings that may help; the caller that shows an error adds how to set them in Python or on the command
line.
"""

from __future__ import annotations

from typing import NamedTuple


class CalibrationWarning(UserWarning):
    """Something about the calibration data limits what can be learned from it.

    Examples
    --------
    >>> import warnings
    >>> import calibrant
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     ts = calibrant.get_calibrator("ts", classes=[0, 1]).fit([[0.9, 0.1], [0.8, 0.2]], [0, 0])
    >>> caught[0].category.__name__
    'CalibrationWarning'
    """


class ClassOrderWarning(CalibrationWarning):
    """The columns of predictions stand for the classes in another order than the sorted one."""


class HintedError(ValueError):
    """An error with `hints`: names of settings that may help, such as `classes` or `force`."""

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message)
        self.hints = hints


class RequestError(HintedError):
    """What was asked for is not there, or several things could be meant: a file, a column, a label."""


class UnknownLabelError(RequestError):
    """A label that no column of predictions stands for, as text in `label`."""

    def __init__(self, label: str, message: str, *hints: str) -> None:
        super().__init__(message, *hints)
        self.label = label


class Words(NamedTuple):
    """Names of a caller's arguments, and what its errors advise."""

    predictions: str = "X"
    labels: str = "y"
    #: For rows that do not sum to one.
    rescale: str = "Probabilities of all classes are expected, one column per class."
    #: For numbers outside of [0, 1].
    logits: str = "Convert logits to probabilities first."
    #: For numbers that are far outside of it.
    scores: str = "Calibrate scores first."
    #: For labels that are none.
    order: str = ""
    weights: str = "sample_weight"
    #: For labels, any number of which may be true.
    many: str = "use MultilabelCalibrator"


CALIBRATOR = Words(
    rescale="Probabilities of all classes are expected, one column per class; pass renormalize=True to rescale such "
    "rows, or input='logits' if these are logits.",
    logits="Negative values in data passed to a calibrator, or values above 1, may be logits: pass input='logits'.",
    scores="Numbers of another scale, such as credit scores, margins or distances, are scores: pass input='scores'.",
)
METRIC = Words(
    "y_prob",
    "y_true",
    rescale="Normalise the rows first.",
    logits="Apply a softmax to logits first.",
    scores="Scores are not probabilities: a calibrator with input='scores' converts them.",
    order=" Labels come first and probabilities second.",
    many="use multilabel_metrics",
)
