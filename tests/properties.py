"""Hypothesis strategies for the input contract, and the profile under which properties are tested."""

from __future__ import annotations

import os

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

_COMMON = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
}
settings.register_profile("quick", max_examples=12, derandomize=True, **_COMMON)
settings.register_profile("full", max_examples=200, derandomize=True, **_COMMON)
settings.register_profile("fresh", max_examples=400, print_blob=True, **_COMMON)
#: `make test` tries a few examples, `make test-optional` many, `make test-nightly` others every time.
profile = settings.get_profile(os.environ.get("CALIBRANT_PROPERTIES", "quick"))


CLASSES = st.integers(2, 4)
ROWS = st.integers(1, 12)


@st.composite
def logits(draw, k=CLASSES, n=ROWS, extreme=True):
    """Logits of any sensible and, with `extreme`, of some senseless size."""
    rows, columns = draw(n), draw(k)
    bound = draw(st.sampled_from([1.0, 8.0, 40.0, 1e6] if extreme else [1.0, 6.0]))
    values = hnp.arrays(np.float64, (rows, columns), elements=st.floats(-1.0, 1.0, width=32))
    return bound * draw(values)


@st.composite
def probabilities(draw, k=CLASSES, n=ROWS, extreme=True):
    """Rows of probabilities: ordinary, saturated, with exact zeros and ones, or all alike."""
    z = draw(logits(k, n, extreme))
    p = np.exp(z - z.max(axis=1, keepdims=True))
    if extreme and draw(st.booleans()):
        p[p < p.max(axis=1, keepdims=True) * draw(st.sampled_from([0.1, 1.0]))] = 0.0
    return p / p.sum(axis=1, keepdims=True)


@st.composite
def labelled(draw, k=CLASSES, n=ROWS, extreme=True):
    """Probabilities with column numbers as labels, whatever classes these miss; column 0 is never missed."""
    p = draw(probabilities(k, n, extreme))
    y = draw(hnp.arrays(np.int64, len(p), elements=st.integers(0, p.shape[1] - 1)))
    y[0] = 0
    return p, y


def weights(n, largest=3):
    """Counts, not all of them zero."""
    return hnp.arrays(np.int64, n, elements=st.integers(0, largest)).filter(lambda w: w.sum() > 0)


#: What fits in a file: nested lists, tuples and dictionaries of numbers, texts and arrays.
storable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.int64, np.uint8, np.bool_]),
        hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3),
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
