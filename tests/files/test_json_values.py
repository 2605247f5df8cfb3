"""Values as JSON can hold them."""

from __future__ import annotations

import json
import math

import numpy as np

from calibrant.files.json_values import plain


def test_arrays_become_lists_and_numbers_that_are_not_finite_null() -> None:
    value = {1: (np.float64(0.5), np.arange(2)), "x": [math.nan, -math.inf, 7, "nan", None, True]}
    expected = {"1": [0.5, [0, 1]], "x": [None, None, 7, "nan", None, True]}
    assert plain(value) == expected
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == expected
