"""Calibrators by name, with what each needs and supports.

A method is one entry: where its class lives (imported only when asked for), the parameters that make the method,
and the facts a user chooses by.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class CalibratorInfo:
    """What the registry knows of one method."""

    name: str
    factory: str | Callable[..., Any]
    description: str
    reference: str = ""
    binary: bool = True
    multiclass: bool = True
    extra: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def make(self, **parameters: Any) -> Any:
        """An unfitted estimator; `parameters` override those of the entry."""
        factory = self.factory
        if isinstance(factory, str):
            module, _, attribute = factory.partition(":")
            package = __package__ if module.startswith(".") else None
            factory = getattr(import_module(module, package), attribute)
        return factory(**{**self.parameters, **parameters})

    def get_params(self) -> dict[str, Any]:
        """All parameters of the method, with the values they have unless told otherwise.

        Examples
        --------
        >>> from calibrant import list_calibrators
        >>> next(info for info in list_calibrators() if info.name == "hist-quantile").get_params()["n_bins"]
        10
        """
        return dict(self.make().get_params(deep=False))


_REGISTRY: dict[str, CalibratorInfo] = {}


def register_calibrator(name: str, factory: str | Callable[..., Any], description: str, **facts: Any) -> None:
    """Add a method to the registry, or replace one.

    Parameters
    ----------
    name : str
        What `get_calibrator` and the command line call it.
    factory : class, function or str
        What makes an unfitted estimator; a string ``"package.module:Class"`` is imported on first use.
    description : str
        One line.
    **facts
        `reference`, `binary`, `multiclass`, `extra`, `parameters`: see `CalibratorInfo`.

    Examples
    --------
    >>> from calibrant import TemperatureScalingCalibrator, get_calibrator, register_calibrator
    >>> register_calibrator("my-ts", TemperatureScalingCalibrator, "TS", parameters={"smoothing": False})
    >>> get_calibrator("my-ts")
    TemperatureScalingCalibrator(smoothing=False)
    """
    _REGISTRY[name] = CalibratorInfo(name, factory, description, **facts)


def get_calibrator(name: str, **parameters: Any) -> Any:
    """An unfitted calibrator by name.

    Examples
    --------
    >>> from calibrant import get_calibrator
    >>> get_calibrator("sms", penalty="lasso")
    SMSCalibrator(penalty='lasso')
    """
    if name not in _REGISTRY:
        close = difflib.get_close_matches(name, _REGISTRY, n=3)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {', '.join(_REGISTRY)}."
        raise ValueError(f"No calibrator is called {name!r}: {hint}")
    return _REGISTRY[name].make(**parameters)


def list_calibrators() -> list[CalibratorInfo]:
    """All methods, in the order of the registry.

    Examples
    --------
    >>> from calibrant import list_calibrators
    >>> next(info.description for info in list_calibrators() if info.name == "none")
    'the predictions as they are'
    """
    return list(_REGISTRY.values())


_GUO = "Guo et al., ICML 2017"
_PAPER = "Berta et al., AISTATS 2026"

register_calibrator("auto", ".auto:AutoCalibrator", "the recommended one: a blend chosen by cross-validation")
register_calibrator(
    "auto-fast",
    ".auto:AutoCalibrator",
    "the recommended one without trees",
    parameters={"effort": "fast"},
)
register_calibrator("sqs", ".auto.sqs:SQSCalibrator", "structured quadratic scaling: SMS with curves")
register_calibrator("none", ".identity:NoCalibrator", "the predictions as they are")
register_calibrator(
    "ts", ".scaling.temperature:TemperatureScalingCalibrator", "temperature scaling, smoothed", reference=_GUO
)
register_calibrator(
    "ts-unsmoothed",
    ".scaling.temperature:TemperatureScalingCalibrator",
    "temperature scaling",
    reference=_GUO,
    parameters={"smoothing": False},
)
_UNPENALISED = {"penalty": None, "preprocess": None}
register_calibrator(
    "vs", ".scaling.structured:SVSCalibrator", "vector scaling, unregularised", reference=_GUO, parameters=_UNPENALISED
)
register_calibrator(
    "ms", ".scaling.structured:SMSCalibrator", "matrix scaling, unregularised", reference=_GUO, parameters=_UNPENALISED
)
register_calibrator("svs", ".scaling.structured:SVSCalibrator", "structured vector scaling", reference=_PAPER)
register_calibrator("sms", ".scaling.structured:SMSCalibrator", "structured matrix scaling", reference=_PAPER)
for _type in ("linear", "affine", "quadratic"):
    register_calibrator(
        _type,
        ".scaling.binary_logistic:BinaryLogisticCalibrator",
        f"{_type} function of the log-odds",
        reference=_PAPER,
        multiclass=False,
        parameters={"type": _type},
    )
register_calibrator(
    "logistic", ".scaling.logistic:LogisticCalibrator", "quadratic for two classes, SMS for more", reference=_PAPER
)

#: name, factory, description, reference, parameters.
_FIELD: list[tuple[str, str, str, str, dict[str, Any]]] = [
    (
        "isotonic",
        ".binary.isotonic:IsotonicCalibrator",
        "isotonic regression",
        "Zadrozny & Elkan, 2002",
        {},
    ),
    ("cir", ".binary.isotonic:CenteredIsotonicCalibrator", "centred isotonic regression", "Oron & Flournoy, 2017", {}),
    ("venn-abers", ".binary.venn_abers:VennAbersCalibrator", "inductive Venn-Abers predictor", "Vovk et al., 2015", {}),
    ("spline", ".binary.spline:SplineCalibrator", "cubic spline of the log-odds, ridge by CV", "Lucena, 2018", {}),
    (
        "cdf-spline",
        ".binary.cdf_spline:CDFSplineCalibrator",
        "spline of cumulative error",
        "Gupta et al., 2021",
        {},
    ),
    ("kernel", ".kernel:KernelCalibrator", "beta and Dirichlet kernel average", "Popordanoska et al., 2022", {}),
    ("bbq", ".binary.bbq:BBQCalibrator", "Bayesian average of histogram binnings", "Naeini et al., 2015", {}),
    (
        "hist-uniform",
        ".binary.binning:HistogramCalibrator",
        "histogram binning, bins of equal width",
        "Zadrozny & Elkan, 2001",
        {"strategy": "uniform"},
    ),
    (
        "hist-quantile",
        ".binary.binning:HistogramCalibrator",
        "histogram binning, bins of equal mass",
        "Zadrozny & Elkan, 2001",
        {"strategy": "quantile"},
    ),
    (
        "scaling-binning",
        ".binary.scaling_binning:ScalingBinningCalibrator",
        "logistic fit, then equal-mass bins of its output",
        "Kumar et al., 2019",
        {},
    ),
    ("beta", ".binary.beta:BetaCalibrator", "beta calibration, three parameters", "Kull et al., 2017", {}),
    ("platt", ".binary.platt:PlattCalibrator", "sigmoid of the probability", "Platt, 1999", {"scale": "probability"}),
    ("platt-logits", ".binary.platt:PlattCalibrator", "sigmoid of the log-odds", "Platt, 1999", {"scale": "log-odds"}),
    ("guo", ".scaling.guo:GuoTemperatureScalingCalibrator", "temperature scaling as first published", _GUO, {}),
    ("ets", ".scaling.ets:ETSCalibrator", "ensemble temperature scaling", "Zhang et al., 2020", {}),
    ("dirichlet", ".scaling.dirichlet:DirichletCalibrator", "Dirichlet calibration with ODIR", "Kull et al., 2019", {}),
    ("dirichlet-cv", ".scaling.dirichlet:DirichletCVCalibrator", "Dirichlet, penalty by CV", "Kull et al., 2019", {}),
]

for _name, _factory, _description, _reference, _parameters in _FIELD:
    register_calibrator(_name, _factory, _description, reference=_reference, parameters=_parameters)

_TREES = [
    ("lightgbm", ".boosting:LightGBMCalibrator", "LightGBM", "Ke et al., 2017"),
    ("xgboost", ".boosting:XGBoostCalibrator", "XGBoost", "Chen & Guestrin, 2016"),
    ("catboost", ".boosting:CatBoostCalibrator", "CatBoost", "Prokhorenkova et al., 2018"),
]

for _name, _factory, _package, _reference in _TREES:
    register_calibrator(_name, _factory, f"{_package} trees added to the logits", reference=_reference, extra="trees")
