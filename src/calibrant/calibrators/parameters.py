"""Parameters of calibrators: each is one annotated attribute, from which constructor and checks are made.

``n_bins: PositiveInt = 10`` in the body of a class says name, type, what is allowed and the default. Types are read as
scikit-learn's constraints: `Literal` as its options, `bool` as a boolean, and `Annotated` by what it is annotated with.
"""

from __future__ import annotations

import inspect
from dataclasses import KW_ONLY, MISSING, field, make_dataclass
from functools import cache
from numbers import Integral, Real
from types import FunctionType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike

from calibrant.docs import describe_parameters
from calibrant.sklearn_private import Constraints, HasMethods, Interval, StrOptions, validate_parameter_constraints
from calibrant.typing import Labels

Array = Annotated[ArrayLike, "array-like"]
#: The label of each column.
ColumnLabels = Annotated[Labels, "array-like"]
PositiveInt = Annotated[int, Interval(Integral, 1, None, closed="left")]
AtLeastTwo = Annotated[int, Interval(Integral, 2, None, closed="left")]
NotNegativeInt = Annotated[int, Interval(Integral, 0, None, closed="left")]
#: A seed or a generator, as scikit-learn takes them.
AnySeed = Annotated[int | RandomState | None, "random_state"]
Finite = Annotated[float, Interval(Real, None, None, closed="neither")]
Positive = Annotated[float, Interval(Real, 0, None, closed="neither")]
NotNegative = Annotated[float, Interval(Real, 0, None, closed="left")]
Tolerance = Positive | None
#: An unfitted calibrator, and one that may be given by its name in the registry.
Estimator = Annotated[Any, HasMethods(["fit", "predict_proba"])]
Method = Annotated[Any, str, HasMethods(["fit", "predict_proba"])]
#: Weight of the uniform distribution in the input of a map, or how it is found.
InputSmoothing = None | Literal["auto", "laplace"] | Annotated[float, Interval(Real, 0, 1, closed="left")]


class Declared(NamedTuple):
    """A parameter as a class declares it: its type, also as it is written, its default, and if it is only a keyword."""

    hint: Any
    written: Any
    default: Any
    only_keyword: bool


@dataclass_transform(eq_default=False, kw_only_default=True)
class Parameters:
    """Base of estimators whose parameters are the public annotated attributes of their class and its bases.

    Those of a class come before inherited ones. They are keywords; in a class made with ``kw_only=False`` only those
    after ``_: KW_ONLY``. An inherited one that a class annotates as `ClassVar` is none of its parameters. A class may
    also write its constructor and its constraints by hand, as scikit-learn's estimators do.
    """

    _parameter_constraints: ClassVar[Constraints] = {}
    _declared: ClassVar[dict[str, Declared | None]] = {}

    def __init_subclass__(cls, *, kw_only: bool = True, **options: object) -> None:
        super().__init_subclass__(**options)
        cls._declared = _declared_in(cls)
        if cls._declared and "__init__" not in vars(cls):
            _make_constructor(cls, kw_only)
        elif "__init__" not in vars(cls) and isinstance(cls.__init__, FunctionType):
            _name_constructor(cls, cls.__init__)
        describe_parameters(cls)

    def _check_parameters(self) -> None:
        """scikit-learn's check of the parameters that differ from their defaults."""
        defaults = _defaults(type(self))  # type: ignore[arg-type]
        given = {name: getattr(self, name) for name in self._parameter_constraints}
        changed = {name: value for name, value in given.items() if value is not defaults.get(name, _MISSING)}
        if changed:
            validate_parameter_constraints(self._parameter_constraints, changed, caller_name=type(self).__name__)


_MISSING = object()


@cache
def _defaults(cls: type) -> dict[str, object]:
    """Default values of the constructor's parameters, which need no check."""
    return {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}


def _declared_in(cls: type) -> dict[str, Declared | None]:
    """The parameters that a class itself declares; `None` for one that it takes back."""
    declared: dict[str, Declared | None] = {}
    only_keyword = False
    as_written = inspect.get_annotations(cls)
    for name, hint in inspect.get_annotations(cls, eval_str=True).items():
        if hint is KW_ONLY:
            only_keyword = True
        elif not name.startswith("_") and not name.endswith("_"):  # neither private nor fitted
            origin: Any = get_origin(hint)
            default = vars(cls).get(name, MISSING)
            one = Declared(hint, as_written[name], default, only_keyword)
            declared[name] = None if origin is ClassVar else one
    return declared


def _make_constructor(cls: type[Parameters], kw_only: bool) -> None:
    """Set the constructor that a dataclass with these parameters would have, and scikit-learn's constraints of them."""
    found: dict[str, Declared | None] = {}
    for base in cls.__mro__:
        found |= {name: one for name, one in vars(base).get("_declared", {}).items() if name not in found}
    known = {name: one for name, one in found.items() if one is not None}
    fields = [
        (name, one.written, field(default=one.default, kw_only=kw_only or one.only_keyword))
        for name, one in known.items()
    ]
    like: Any = make_dataclass(cls.__name__, fields)
    cls.__init__ = like.__init__  # type: ignore[method-assign]
    cls._parameter_constraints = {name: constraints_of(one.hint) for name, one in known.items()}


def _name_constructor(cls: type[Parameters], inherited: FunctionType) -> None:
    """Let messages about a wrong argument name the class that was called."""
    own = FunctionType(inherited.__code__, inherited.__globals__, closure=inherited.__closure__)
    own.__defaults__, own.__kwdefaults__ = inherited.__defaults__, inherited.__kwdefaults__
    own.__annotations__, own.__doc__ = inherited.__annotations__, inherited.__doc__
    own.__qualname__ = f"{cls.__name__}.__init__"
    cls.__init__ = own  # type: ignore[method-assign]


def constraints_of(hint: Any) -> list[object]:
    """A type as scikit-learn's constraints."""
    if get_origin(hint) is Annotated:
        return list(hint.__metadata__)
    if get_origin(hint) in (Union, UnionType):
        return [constraint for part in get_args(hint) for constraint in constraints_of(part)]
    if get_origin(hint) is Literal:
        return [StrOptions(set(get_args(hint)))]
    return ["boolean"] if hint is bool else [None]


def strengths_to_try(calibrator: object, name: str, default: ArrayLike) -> list[float]:
    """The numbers of a parameter that holds several strengths, or `default`, strongest first."""
    given = getattr(calibrator, name)
    strengths = np.array(default if given is None else given, dtype=np.float64).ravel()
    if not strengths.size or not bool(np.all((strengths >= 0.0) & np.isfinite(strengths))):
        raise ValueError(f"{name} must be one or more finite numbers of at least 0, got {given!r}.")
    return [float(strength) for strength in np.sort(strengths)[::-1]]
