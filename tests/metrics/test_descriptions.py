"""Descriptions of shared parameters are written once; every metric must still describe all of its own."""

import inspect
import re

import pytest

import calibrant.metrics
from calibrant.docs import describe_parameters

FUNCTIONS = [getattr(calibrant.metrics, name) for name in calibrant.metrics.__all__]
FUNCTIONS = [function for function in FUNCTIONS if not inspect.isclass(function)]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_parameter_is_described_once_and_in_order(function):
    names = list(inspect.signature(function).parameters)
    if not names:
        return
    section = inspect.getdoc(function).split("Parameters\n----------\n")[1].split("\n\n")[0]
    first_lines = re.findall(r"^\*{0,2}(\w[\w, ]*)(?: :.*)?$", section, flags=re.MULTILINE)
    assert ", ".join(first_lines).split(", ") == names


def test_defaults_come_from_the_signature():
    assert 'strategy : {"uniform", "quantile"}, default="quantile"' in calibrant.metrics.calibration_test.__doc__
    assert "n_bins : int, default=5\n" in calibrant.metrics.calibration_curve.__doc__


def test_a_function_without_a_docstring_stays_without():
    def bare(y_true):
        return y_true

    assert describe_parameters(bare) is bare
    assert bare.__doc__ is None


def test_unknown_options_of_a_metric_are_refused_by_its_own_name():
    with pytest.raises(TypeError, match=r"brier\(\) got an unexpected keyword argument 'n_bins'"):
        calibrant.metrics.brier([0, 1], [0.2, 0.7], n_bins=3)
