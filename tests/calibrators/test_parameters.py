"""Constructor parameters: every one is checked, and NaN is not a number."""

from __future__ import annotations

import ast
import inspect
import re
from numbers import Real

import numpy as np
import pytest

import calibrant.calibrators
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.identity import NoCalibrator

CLASSES = [
    cls
    for cls in (getattr(calibrant.calibrators, name) for name in calibrant.calibrators.__all__)
    if issubclass(cls, Calibrator) and not inspect.isabstract(cls)
]
P, Y = np.array([[0.2, 0.8], [0.7, 0.3], [0.4, 0.6], [0.6, 0.4]]), [0, 1, 1, 0]


def make(cls, **parameters):
    return cls(NoCalibrator(), **parameters) if "method" in cls._parameter_constraints else cls(**parameters)


def accepts(cls, name, value):
    """Whether the constraints of the parameter let `value` through."""
    calibrator = make(cls).set_params(**{name: value})
    try:
        calibrator._check_parameters()
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_constraints_and_constructor_parameters_are_the_same(cls):
    assert set(cls._parameter_constraints) == set(inspect.signature(cls).parameters)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_unknown_parameter_is_one_of_the_class_that_was_called(cls):
    with pytest.raises(TypeError, match=rf"^{cls.__name__}\.__init__\(\) got an unexpected keyword argument 'foo'"):
        make(cls, foo=1)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_nan_is_refused(cls):
    for name in cls._parameter_constraints:
        for nan in (float("nan"), np.float32("nan")):
            if name != "classes":
                assert not accepts(cls, name, nan), name


@pytest.mark.parametrize(("cls", "name"), [("SplineCalibrator", "lambdas"), ("DirichletCVCalibrator", "lambdas_coef")])
@pytest.mark.parametrize("value", [[], [np.nan], [0.1, -1.0], [np.inf]])
def test_lists_of_strengths_are_checked(cls, name, value):
    with pytest.raises(ValueError, match=name):
        getattr(calibrant.calibrators, cls)(**{name: value}).fit(P, Y)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_numbers_of_numpy_are_those_of_python(cls):
    for name, value in make(cls).get_params(deep=False).items():
        if isinstance(value, Real) and not isinstance(value, bool):
            kind = np.int32 if isinstance(value, int) else np.float32
            assert accepts(cls, name, kind(value)), name


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_parameter_is_described_once(cls):
    section = inspect.getdoc(cls).split("Parameters\n----------\n")[1].split("\n\n")[0]
    described = ", ".join(re.findall(r"^(\w[\w, ]*) : ", section, flags=re.MULTILINE)).split(", ")
    assert sorted(described) == sorted(inspect.signature(cls).parameters)


@pytest.mark.parametrize("exponents", [{"rho": 1e308}, {"tau": 1e308}])
def test_penalty_exponents_that_overflow_are_named(exponents):
    (name,) = exponents
    predictions = np.random.default_rng(0).dirichlet(np.ones(3), size=30)
    with pytest.raises(ValueError, match=f"{name}=1e\\+308"):
        calibrant.calibrators.SMSCalibrator(**exponents).fit(predictions, predictions.argmax(axis=1))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_defaults_are_those_of_the_description(cls):
    """Each parameter is described as ``name : type, default=value``, some of them together."""
    described = {
        name: value
        for names, value in re.findall(r"^(\w+(?:, \w+)*) : .*default=(.+)$", inspect.getdoc(cls), re.MULTILINE)
        for name in names.split(", ")
    }
    parameters = inspect.signature(cls).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}
    assert {name: ast.literal_eval(described[name]) for name in defaults} == defaults
