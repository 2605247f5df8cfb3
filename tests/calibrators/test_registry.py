"""The registry: every method of the field by name, and users' own."""

from __future__ import annotations

import numpy as np
import pytest
from calibration_samples import multiclass_sample
from sklearn.linear_model import LogisticRegression

from calibrant import get_calibrator, list_calibrators, register_calibrator
from calibrant.calibrators import registry

NAMES = [
    "none",
    "ts",
    "ts-unsmoothed",
    "guo",
    "ets",
    "vs",
    "ms",
    "svs",
    "sms",
    "dirichlet",
    "dirichlet-cv",
    "isotonic",
    "cir",
    "venn-abers",
    "spline",
    "cdf-spline",
    "kernel",
    "bbq",
    "hist-uniform",
    "hist-quantile",
    "scaling-binning",
    "linear",
    "affine",
    "quadratic",
    "beta",
    "platt",
    "platt-logits",
    "lightgbm",
    "xgboost",
    "catboost",
    "logistic",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_method_of_the_field_has_a_name(name):
    info = next(info for info in list_calibrators() if info.name == name)
    estimator = get_calibrator(name, renormalize=True)
    assert estimator.renormalize is True
    assert {"input", "classes", "renormalize"} <= set(info.get_params())
    for key, value in info.parameters.items():
        assert getattr(estimator, key) == value
    assert info.description
    assert "\n" not in info.description
    assert info.reference or name == "none"
    assert info.extra == ("trees" if name in {"lightgbm", "xgboost", "catboost"} else None)


@pytest.mark.parametrize("name", [info.name for info in list_calibrators() if not info.multiclass])
def test_binary_methods_say_so_at_fit(name):
    p, y = multiclass_sample(50, 3)
    with pytest.raises(ValueError, match=r"two classes|binary"):
        get_calibrator(name).fit(p, y)


def test_a_misspelt_name_is_corrected():
    with pytest.raises(ValueError, match="'isotonic'"):
        get_calibrator("isotonci")


def test_users_register_their_own(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    register_calibrator("regression", LogisticRegression, "on probabilities", parameters={"C": 2.0})
    estimator = get_calibrator("regression", max_iter=50)
    assert (estimator.C, estimator.max_iter) == (2.0, 50)
    register_calibrator("by path", "calibrant.calibrators.binary.isotonic:IsotonicCalibrator", "imported when used")
    p, y = multiclass_sample(50, 3)
    np.testing.assert_array_equal(
        get_calibrator("by path").fit(p, y).predict_proba(p), get_calibrator("isotonic").fit(p, y).predict_proba(p)
    )
