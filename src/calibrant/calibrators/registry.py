"""Calibrators by name: all facts about a method, in one entry.

An entry says where the class lives (it is imported only when asked for), which parameters make the method, and the
facts that tables, figures, reports, benchmarks and the command line need. Nothing else lists methods by name.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

#: What every other method is measured against: the unchanged predictions.
BASELINE = "none"

#: The method recommended without looking at data.
DEFAULT = "auto"


@dataclass(frozen=True)
class CalibratorInfo:
    """What the registry knows of one method.

    Attributes
    ----------
    name : str
        What `get_calibrator` and the command line call it.
    factory : class, function or str
        What makes an unfitted estimator; a string ``"package.module:Class"`` is imported on first use.
    description : str
        One line.
    reference : str
        Authors and year of the paper.
    label : str
        Name in the captions and axes of tables and figures, by default `name`.
    family : str
        Methods of one family share a hue and stand next to each other.
    binary, multiclass : bool
        Whether it can be fitted to two classes and to more.
    extra : str or None
        The extra of this package that has to be installed.
    parameters : mapping
        The parameters that make the method.
    aliases : tuple of str
        Other names it goes by.
    compared : range
        The numbers of classes for which a report compares it by default.
    stores : bool
        Whether `calibrant.save` can store it once it is fitted; by default whether its class is one of this package.
    exports : bool
        Whether a fitted map can be written in other languages; by default whether it can be stored.
    streams : bool
        Whether `fit_batches` fits it to all rows, by sums over batches; others are fitted to a sample in memory.

    Examples
    --------
    >>> import calibrant
    >>> info = calibrant.calibrator_info("beta")
    >>> info.reference, info.stores, info.extra is None
    ('Kull et al., 2017', True, True)
    """

    name: str
    factory: str | Callable[..., object]
    description: str
    reference: str = ""
    label: str = ""
    family: str = "other"
    binary: bool = True
    multiclass: bool = True
    extra: str | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    compared: range = range(0)
    stores: bool | None = None
    exports: bool | None = None
    streams: bool = False

    def __post_init__(self) -> None:
        if self.stores is None:
            home = self.factory if isinstance(self.factory, str) else str(getattr(self.factory, "__module__", ""))
            object.__setattr__(self, "stores", home.startswith((".", "calibrant.")))
        object.__setattr__(self, "exports", self.stores if self.exports is None else self.exports)
        object.__setattr__(self, "label", self.label or self.name)

    def make(self, **parameters: object) -> Any:
        """An unfitted estimator; `parameters` override those of the entry."""
        factory = self.factory
        if isinstance(factory, str):
            module, _, attribute = factory.partition(":")
            package = __package__ if module.startswith(".") else None
            factory = getattr(import_module(module, package), attribute)
        return factory(**{**self.parameters, **parameters})

    def get_params(self) -> dict[str, object]:
        """All parameters of the method with their default values."""
        return dict(self.make().get_params(deep=False))

    def supports(self, n_classes: int) -> bool:
        """Whether the method can be fitted to this many classes."""
        return self.binary if n_classes == 2 else self.multiclass


_REGISTRY: dict[str, CalibratorInfo] = {}


def register_calibrator(name: str, factory: str | Callable[..., object], description: str, **facts: Any) -> None:
    """Add a method to the registry, or replace one.

    Parameters
    ----------
    name, factory, description, **facts
        The attributes of `CalibratorInfo`.

    Examples
    --------
    >>> from calibrant import TemperatureScalingCalibrator, get_calibrator, register_calibrator
    >>> register_calibrator("my-ts", TemperatureScalingCalibrator, "TS", parameters={"smoothing": False})
    >>> get_calibrator("my-ts")
    TemperatureScalingCalibrator(smoothing=False)
    """
    _REGISTRY[name] = CalibratorInfo(name, factory, description, **facts)


def calibrator_info(name: str) -> CalibratorInfo:
    """The registry's entry of a method, by its name or an alias.

    Upper case, underscores and spaces make no difference. An unknown name raises a ValueError that suggests others.

    Examples
    --------
    >>> from calibrant import calibrator_info
    >>> calibrator_info("temperature_scaling").name
    'ts'
    """
    if name in _REGISTRY:
        return _REGISTRY[name]
    known = {alias: info for info in reversed(_REGISTRY.values()) for alias in (*info.aliases, info.name)}
    plain = str(name).strip().lower().replace("_", "-").replace(" ", "-")
    if plain in known:
        return known[plain]
    matches = difflib.get_close_matches(plain, known, n=3)  # of several names of one method the closest
    close = list({known[match].name: match for match in reversed(matches)}.values())[::-1]
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"the methods are {', '.join(_REGISTRY)}."
    raise ValueError(f"No calibrator is called {name!r}: {hint}")


def get_calibrator(name: str, **parameters: object) -> Any:
    """An unfitted calibrator by name or alias.

    Examples
    --------
    >>> from calibrant import get_calibrator
    >>> get_calibrator("sms", penalty="lasso")
    SMSCalibrator(penalty='lasso')
    """
    return calibrator_info(name).make(**parameters)


def list_calibrators() -> list[CalibratorInfo]:
    """All methods, family by family, the recommended one last.

    Examples
    --------
    >>> from calibrant import list_calibrators
    >>> [info.name for info in list_calibrators() if info.family == "VS"]
    ['vs', 'svs', 'svs-laplace']
    """
    return list(_REGISTRY.values())


_GUO = "Guo et al., ICML 2017"
_PAPER = "Berta et al., AISTATS 2026"
_TWO, _ANY = range(2, 3), range(2, sys.maxsize)
_LAPLACE = {"input_smoothing": "laplace"}
_UNPENALISED = {"penalty": None, "preprocess": None}
_BINARY_LOGISTIC = ".scaling.binary_logistic:BinaryLogisticCalibrator"
_HISTOGRAM, _ZADROZNY = ".binary.binning:HistogramCalibrator", "Zadrozny & Elkan, 2001"
_GAUSSIAN = ".scaling.discriminant:GaussianCalibrator"
_SVS, _SMS = ".scaling.structured:SVSCalibrator", ".scaling.structured:SMSCalibrator"
_PLATT = ".binary.logistic_methods:PlattCalibrator"
_TS = ".scaling.temperature:TemperatureScalingCalibrator"

_M = CalibratorInfo
#: Families in the order of tables and figures, with their methods: name, home, description, reference, label, facts.
#: Reports leave out methods with a parameter for each pair of classes where there are many classes: they take too long.
_FAMILIES: dict[str, list[CalibratorInfo]] = {
    "uncalibrated": [
        _M("none", ".identity:NoCalibrator", "the unchanged predictions", aliases=("identity", "uncalibrated")),
    ],
    "non-parametric": [
        _M("isotonic", ".binary.isotonic:IsotonicCalibrator", "isotonic regression", "Zadrozny & Elkan, 2002",
           "Isotonic", aliases=("isotonic-regression", "pava"), compared=_ANY),
        _M("cir", ".binary.isotonic:CenteredIsotonicCalibrator", "centred isotonic regression",
           "Oron & Flournoy, 2017", "Centred isotonic", aliases=("centred-isotonic", "centered-isotonic")),
        _M("venn-abers", ".binary.isotonic:VennAbersCalibrator", "inductive Venn-Abers predictor",
           "Vovk et al., 2015", "Venn-Abers", aliases=("vennabers", "ivap"), compared=_TWO),
        _M("hist-uniform", _HISTOGRAM, "histogram binning, bins of equal width", _ZADROZNY, "Histogram (width)",
           parameters={"strategy": "uniform"}, aliases=("histogram", "histogram-binning")),
        _M("hist-quantile", _HISTOGRAM, "histogram binning, bins of equal mass", _ZADROZNY, "Histogram (mass)",
           parameters={"strategy": "quantile"}),
        _M("scaling-binning", ".binary.binning:ScalingBinningCalibrator",
           "logistic fit, then equal-mass bins of its output", "Kumar et al., 2019", "Scaling-binning"),
        _M("bbq", ".binary.binning:BBQCalibrator", "Bayesian average of histogram binnings", "Naeini et al., 2015",
           "BBQ", aliases=("bayesian-binning",)),
        _M("kernel", ".kernel:KernelCalibrator", "beta and Dirichlet kernel average", "Popordanoska et al., 2022",
           "Kernel", aliases=("kernel-calibration",)),
    ],
    "spline": [
        _M("spline", ".binary.splines:SplineCalibrator", "cubic spline of the log-odds, ridge by CV", "Lucena, 2018",
           "Spline", aliases=("splinecalib", "spline-calibration")),
        _M("cdf-spline", ".binary.splines:CDFSplineCalibrator", "spline of cumulative error", "Gupta et al., 2021",
           "CDF spline"),
    ],
    "sigmoid": [
        _M("platt", _PLATT, "sigmoid of the probability", "Platt, 1999", "Platt",
           parameters={"scale": "probability"}, aliases=("platt-scaling",), streams=True),
        _M("platt-logits", _PLATT, "sigmoid of the log-odds", "Platt, 1999", "Platt (logits)",
           parameters={"scale": "log-odds"}, aliases=("sigmoid",), streams=True),
        _M("linear", _BINARY_LOGISTIC, "linear function of the log-odds", _PAPER, "Linear", multiclass=False,
           parameters={"function": "linear"}, streams=True),
        _M("affine", _BINARY_LOGISTIC, "affine function of the log-odds", _PAPER, "Affine", multiclass=False,
           parameters={"function": "affine"}, compared=_TWO, streams=True),
        _M("beta", ".binary.logistic_methods:BetaCalibrator", "beta calibration, three parameters", "Kull et al., 2017",
           "Beta", aliases=("beta-calibration",), compared=_TWO, streams=True),
        _M("quadratic", _BINARY_LOGISTIC, "quadratic function of the log-odds", _PAPER, "Quadratic", multiclass=False,
           parameters={"function": "quadratic"}, aliases=("quadratic-scaling",), compared=_TWO, streams=True),
    ],
    "TS": [
        _M("guo", ".scaling.temperature_variants:GuoTemperatureScalingCalibrator",
           "temperature scaling as first published", _GUO, "TS (Guo)"),
        _M("ts-unsmoothed", _TS, "temperature scaling", _GUO, "TS (unsmoothed)", parameters={"smoothing": False},
           streams=True),
        _M("ts", _TS, "temperature scaling, smoothed", _GUO, "TS",
           aliases=("temperature", "temp-scaling", "temperature-scaling"), compared=_ANY, streams=True),
        _M("ts-laplace", _TS, "temperature scaling, input smoothed, too", _GUO, "TS (Laplace)", parameters=_LAPLACE,
           streams=True),
        _M("ets", ".scaling.temperature_variants:ETSCalibrator", "ensemble temperature scaling", "Zhang et al., 2020",
           "ETS", aliases=("ensemble-temperature-scaling",)),
    ],
    "VS": [
        _M("vs", _SVS, "vector scaling, unregularised", _GUO, "VS", parameters=_UNPENALISED,
           aliases=("vector", "vector-scaling"), streams=True),
        _M("svs", _SVS, "structured vector scaling", _PAPER, "SVS", aliases=("structured-vector-scaling",),
           compared=_ANY[1:], streams=True),
        _M("svs-laplace", _SVS, "structured vector scaling, input smoothed", _PAPER, "SVS (Laplace)",
           parameters=_LAPLACE, streams=True),
    ],
    "MS": [
        _M("ms", _SMS, "matrix scaling, unregularised", _GUO, "MS", parameters=_UNPENALISED,
           aliases=("matrix", "matrix-scaling"), streams=True),
        _M("dirichlet", ".scaling.dirichlet:DirichletCalibrator", "Dirichlet calibration with ODIR",
           "Kull et al., 2019", "Dirichlet", aliases=("dirichlet-calibration",), compared=range(3, 31), streams=True),
        _M("dirichlet-cv", ".scaling.dirichlet:DirichletCVCalibrator", "Dirichlet, penalty by CV",
           "Kull et al., 2019", "Dirichlet (CV)"),
        _M("logistic", ".scaling.logistic:LogisticCalibrator", "quadratic with weak priors, or SMS", _PAPER,
           "Logistic", streams=True),
        _M("lda", _GAUSSIAN, "linear discriminant analysis of log-probabilities", "Fisher, 1936", "LDA",
           parameters={"relative": False, "prior_rows": 2.0}, aliases=("linear-discriminant-analysis",), streams=True),
        _M("gaussian", _GAUSSIAN, "Gaussian model of log-probabilities, in closed form", "", "Gaussian",
           aliases=("gaussian-calibration",), streams=True),
        _M("sms", _SMS, "structured matrix scaling", _PAPER, "SMS", aliases=("structured-matrix-scaling",),
           compared=range(3, 121), streams=True),
        _M("sms-laplace", _SMS, "structured matrix scaling, input smoothed", _PAPER, "SMS (Laplace)",
           parameters=_LAPLACE, streams=True),
        _M("sqs", ".auto.sqs:SQSCalibrator", "structured quadratic scaling: SMS with curves", "", "SQS",
           aliases=("structured-quadratic-scaling",)),
    ],
    "trees": [
        _M("lightgbm", ".boosting:LightGBMCalibrator", "LightGBM trees added to the logits", "Ke et al., 2017",
           "LightGBM", extra="trees", stores=False, aliases=("lgbm",)),
        _M("xgboost", ".boosting:XGBoostCalibrator", "XGBoost trees added to the logits", "Chen & Guestrin, 2016",
           "XGBoost", extra="trees", stores=False, aliases=("xgb",)),
        _M("catboost", ".boosting:CatBoostCalibrator", "CatBoost trees added to the logits",
           "Prokhorenkova et al., 2018", "CatBoost", extra="trees", stores=False),
    ],
    "automatic": [
        _M("auto-fast", ".auto:AutoCalibrator", "the default method without trees", "", "Auto (fast)",
           parameters={"effort": "fast"}),
        _M("auto", ".auto:AutoCalibrator", "the default method: a blend chosen by cross-validation", "", "Auto",
           aliases=("automatic",), compared=_ANY),
    ],
}  # fmt: skip

for _family, _methods in _FAMILIES.items():
    _REGISTRY.update((_method.name, replace(_method, family=_family)) for _method in _methods)
