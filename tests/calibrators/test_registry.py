"""The registry: every method of the field by name, what it says of each, and users' own."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import calibrant.calibrators
from calibrant import calibrator_info, get_calibrator, list_calibrators, register_calibrator
from calibrant.calibrators import registry
from calibrant.calibrators.base import Calibrator
from tests.samples import sharpened

INFOS = list_calibrators()


@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.name)
def test_every_method_of_the_field_has_a_name(info):
    estimator = get_calibrator(info.name, renormalize=True)
    assert estimator.renormalize is True
    assert {"input", "classes", "renormalize"} <= set(info.get_params())
    for key, value in info.parameters.items():
        assert getattr(estimator, key) == value
    assert info.description
    assert "\n" not in info.description
    assert info.family != "other"
    assert (info.extra is None) == info.stores  # models of other packages are not stored


def test_names_labels_and_aliases_are_unique():
    for names in ([info.label for info in INFOS], [n for info in INFOS for n in (info.name, *info.aliases)]):
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("info", [info for info in INFOS if not info.multiclass], ids=lambda info: info.name)
def test_binary_methods_say_so_at_fit(info):
    p, y = sharpened(50, 3)
    assert not info.supports(3)
    with pytest.raises(ValueError, match=r"two classes|binary"):
        info.make().fit(p, y)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("temperature", "ts"),
        ("temp-scaling", "ts"),
        ("Temperature_Scaling", "ts"),
        ("sigmoid", "platt-logits"),
        ("platt-scaling", "platt"),
        ("isotonic regression", "isotonic"),
        ("vector-scaling", "vs"),
        ("matrix-scaling", "ms"),
        ("histogram", "hist-uniform"),
        ("beta-calibration", "beta"),
        ("identity", "none"),
        ("SMS", "sms"),
    ],
)
def test_names_people_try_are_understood(name, meant):
    assert calibrator_info(name) is calibrator_info(meant)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("isotonci", "'isotonic'"),
        ("temprature", "'temperature'"),
        ("zzz", "the methods are none, "),
        (7, "the methods are"),
    ],
)
def test_a_misspelt_name_is_corrected(name, hint):
    with pytest.raises(ValueError, match=hint):
        get_calibrator(name)


def test_users_register_their_own(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    register_calibrator("regression", LogisticRegression, "on probabilities", parameters={"C": 2.0})
    estimator = get_calibrator("regression", max_iter=50)
    assert (estimator.C, estimator.max_iter) == (2.0, 50)
    info = calibrator_info("regression")
    assert (info.label, info.family, info.stores) == ("regression", "other", False)
    register_calibrator("by path", "calibrant.calibrators.binary.isotonic:IsotonicCalibrator", "imported when used")
    assert calibrator_info("by path").stores
    p, y = sharpened(50, 3)
    np.testing.assert_array_equal(
        get_calibrator("by path").fit(p, y).predict_proba(p), get_calibrator("isotonic").fit(p, y).predict_proba(p)
    )


def test_every_calibrator_class_can_be_imported_from_the_package():
    package = calibrant.calibrators
    modules = []
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        try:
            modules.append(importlib.import_module(found.name))
        except ModuleNotFoundError as error:  # a home of rows that needs what is not installed
            if error.name not in ("torch", "dask"):
                raise
    classes = {
        cls
        for module in modules
        for cls in vars(module).values()
        if inspect.isclass(cls) and issubclass(cls, Calibrator) and not inspect.isabstract(cls)
    }
    for cls in classes:
        if not cls.__name__.startswith("_"):
            assert getattr(package, cls.__name__) is cls
            assert cls.__name__ in package.__all__
