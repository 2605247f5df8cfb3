"""Descriptions of shared parameters are written once; every metric must still describe all of its own."""

import inspect
import re

import pytest

import calibrant.metrics
from calibrant.docs import describe_parameters
from calibrant.metrics.part_metrics import measure
from calibrant.metrics.slope import separate

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


#: What a parameter is in every function of the metrics unless it is given, and those that differ.
DEFAULTS = {
    "average": "macro", "band": "consistency", "cv": 5, "degree": 2, "interval_kind": "auto", "kind": "auto",
    "level": 0.95, "loss": "log_loss", "n_bins": 15, "n_resamples": 1000, "n_splits": 5, "norm": 1.0,
    "random_state": 0, "scale_by_half": "auto", "span": 0.75, "statistic": "kuiper", "strategy": "uniform",
    "floor": 1e-15, **dict.fromkeys(["debias", "e_test", "normalise", "ordered", "relative"], False),
}  # fmt: skip
DIFFERENT = {
    "calibration_curve": {"n_bins": 5},  # as in scikit-learn
    "calibration_test": {"n_resamples": 999, "strategy": "quantile"},
    "classwise_corp_curves": {"n_resamples": 200},
    "corp_curve": {"n_resamples": 200},
    "hosmer_lemeshow": {"n_bins": 10, "strategy": "quantile"},  # deciles
    "murphy_diagram": {"n_resamples": 500},
    "validation_table": {"n_resamples": 500},
}


@pytest.mark.parametrize("function", [*FUNCTIONS, measure, separate], ids=lambda function: function.__name__)
def test_a_parameter_has_one_default(function):
    expected = DEFAULTS | DIFFERENT.get(function.__name__, {})
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is not None and parameter.default is not inspect.Parameter.empty:
            assert parameter.default == expected[name], name


def test_examples_import_what_they_use_and_no_more():
    for function in FUNCTIONS:
        example = inspect.getdoc(function).partition("Examples\n--------\n")[2]
        assert (">>> import numpy as np\n" in example) == ("np." in example), function.__name__
        assert re.search(rf">>> from calibrant.metrics import .*\b{function.__name__}\b", example), function.__name__


def test_a_metric_is_described_by_its_first_line():
    for name, description in calibrant.metrics.list_metrics().items():
        assert description == inspect.getdoc(getattr(calibrant.metrics, name)).splitlines()[0]


def test_defaults_come_from_the_signature():
    assert 'strategy : {"uniform", "quantile"}, default="quantile"' in calibrant.metrics.calibration_test.__doc__
    assert "n_bins : int, default=5\n" in calibrant.metrics.calibration_curve.__doc__


#: Usual defaults, and where there are others.
USUAL = {"level": 0.95, "random_state": 0, "n_bins": 15, "n_resamples": 1000, "cv": 5}
OTHERS = {
    ("calibration_curve", "n_bins"): 5,
    ("hosmer_lemeshow", "n_bins"): 10,
    ("calibration_test", "n_resamples"): 999,
    ("corp_curve", "n_resamples"): 200,
    ("classwise_corp_curves", "n_resamples"): 200,
    ("murphy_diagram", "n_resamples"): 500,
    ("validation_table", "n_resamples"): 500,
}


def test_defaults_are_those_that_results_were_published_with():
    for function in FUNCTIONS:
        for name, parameter in inspect.signature(function).parameters.items():
            if name in USUAL and parameter.default is not None:
                assert parameter.default == OTHERS.get((function.__name__, name), USUAL[name]), (function, name)


def test_a_function_without_a_docstring_stays_without():
    def bare(y_true):
        return y_true

    assert describe_parameters(bare) is bare
    assert bare.__doc__ is None


def test_unknown_options_of_a_metric_are_refused_by_its_own_name():
    with pytest.raises(TypeError, match=r"brier\(\) got an unexpected keyword argument 'n_bins'"):
        calibrant.metrics.brier([0, 1], [0.2, 0.7], n_bins=3)
