"""Columns in another order give the same predictions in that order, for every method of the registry."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from tests.combinations import one_per_class, with_classes
from tests.fuzz.checks import FOLDED
from tests.samples import sharpened

TOLERANCE = 1e-9
#: Methods whose definition is not symmetric, with the number of classes and the reason.
ASYMMETRIC = {
    ("cdf-spline", 2): "one curve through quantiles of the second column serves both; quantiles from below are not "
    "those from above",
    **{(name, k): "folds are dealt class by class, in the order of the columns" for name in FOLDED for k in (2, 4)},
}
NATIVE = [info for info in calibrant.list_calibrators() if info.extra is None]


@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
@pytest.mark.parametrize(("method", "k"), with_classes(NATIVE, 2, 4, often=one_per_class(NATIVE)))
def test_columns_may_stand_in_any_order(method: str, k: int) -> None:
    order = np.array([1, 0] if k == 2 else [2, 0, 3, 1])
    p, y = sharpened(300, k)
    fresh, _ = sharpened(100, k, seed=1)
    found = calibrant.get_calibrator(method, classes=np.arange(k)).fit(p, y).predict_proba(fresh)
    other = calibrant.get_calibrator(method, classes=order).fit(p[:, order], y).predict_proba(fresh[:, order])
    apart = float(np.abs(found - other[:, np.argsort(order)]).max())
    assert apart < (0.2 if (method, k) in ASYMMETRIC else TOLERANCE)
