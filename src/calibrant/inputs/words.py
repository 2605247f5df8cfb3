"""What the arguments of a caller are called, so that the one input contract speaks of `X`, `y_prob` or a file."""

from __future__ import annotations

from typing import NamedTuple


class Words(NamedTuple):
    """Names of a caller's arguments, and what its errors advise.

    Examples
    --------
    >>> Words("probas_cal of iris.h5").predictions
    'probas_cal of iris.h5'
    """

    predictions: str = "X"
    labels: str = "y"
    #: For rows that do not sum to one.
    rescale: str = "Probabilities of all classes are expected, one column per class."
    #: For numbers outside of [0, 1].
    logits: str = "Convert logits to probabilities first."
    #: For labels that are none.
    order: str = ""
    weights: str = "sample_weight"


CALIBRATOR = Words(
    rescale="Probabilities of all classes are expected, one column per class; pass renormalize=True to rescale such "
    "rows, or input='logits' if these are logits.",
    logits="Negative values in data passed to a calibrator, or values above 1, may be logits: pass input='logits'.",
)
METRIC = Words(
    "y_prob",
    "y_true",
    rescale="Normalise the rows first.",
    logits="Logits go through a softmax first.",
    order=" Labels come first and probabilities second.",
)
