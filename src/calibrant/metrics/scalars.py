"""The metrics of the package: how each is prepared for many sets of counts, its public function and its name.

Preparing a metric does the work that does not depend on the counts (sorting, gathering, assigning to bins) and returns
a *statistic*: a function of the counts, one for each row. A bootstrap replicate is then one cheap call.

Some statistics are functions of sums over rows (`Summed`), so rows may be added part by part and in any order: a
*form* turns sums into the value, whether they come from one table or from a thousand parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, update_wrapper, wraps
from inspect import signature
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from calibrant.docs import describe_parameters
from calibrant.inputs.samples import check_sample
from calibrant.sample import Sample
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray, FloatArray, Label

Statistic = Callable[[AnyFloatArray], float]
Result = TypeVar("Result")
Returned = TypeVar("Returned", covariant=True)

#: Times that a distance is moved for its interval.
REPLICATES = 200


class Form(NamedTuple):
    """What turns sums over rows into a result; it holds options and no rows, and can be pickled.

    `moving` is where the sums of a distance move with the outcomes, by as many numbers as `spread` has.
    """

    value: Callable[[FloatArray], object]
    kind: Literal["mean", "frequency", "distance", "table"] = "table"
    moving: tuple[int | slice, ...] = ()

    def over_classes(self, combine: Callable[[list[Any]], Any]) -> Form:
        """The same for every class against the rest, combined to one."""
        return Form(partial(_combined, self.value, combine), self.kind, (slice(None), *self.moving))


def _combined(value: Callable[[FloatArray], Any], combine: Callable[[list[Any]], Any], sums: FloatArray) -> Any:
    return combine([value(part) for part in sums])


class Summed:
    """A statistic of counts that is a function of sums over rows.

    `spread` gives further sums, from which intervals come without resampling rows; tables bring their own intervals.
    """

    def __init__(
        self,
        form: Form,
        sums: Callable[[AnyFloatArray], FloatArray],
        spread: Callable[[Sample], FloatArray] = lambda data: np.empty(0),
    ) -> None:
        self.form = form
        self.sums = sums
        self.spread = spread

    def __call__(self, counts: AnyFloatArray) -> Any:
        return self.form.value(self.sums(counts))

    def named_spread(self, data: Sample) -> dict[str, FloatArray]:
        """What the sums vary by, by what it is: variances, or moves of groups (see `cell_spread`)."""
        moves = data.groups is not None and self.form.kind == "distance"
        return {"moves" if moves else "variance": self.spread(data)}


def moved_values(
    form: Form,
    sums: FloatArray,
    spread: Mapping[str, FloatArray],
    rng: np.random.Generator,
    n: int = REPLICATES,
    unseen: Callable[[], FloatArray | float] = lambda: 0.0,
) -> FloatArray:
    """Values of a distance after its sums have moved at random, from variances of cells and moves of groups.

    `unseen` draws the sums over outcomes that a small sample may lack, and that add no variance to it.
    """
    n = min(n, REPLICATES)
    moves = spread.get("moves", np.zeros(1))[:n]
    if "variance" in spread:
        deviation = np.sqrt(spread["variance"])
        moves = moves + rng.standard_normal((n, *deviation.shape)) * deviation
    values = []
    for by in moves:
        moved = sums + unseen()
        moved[form.moving] += by
        values.append(form.value(moved))
    return np.array(values)


def _mean(sums: FloatArray) -> float:
    return float(sums[1] / sums[0])


def summed_mean(rows: AnyFloatArray, kind: Literal["mean", "frequency"] = "mean") -> Summed:
    """Mean of one number per row, a frequency if they are zeros and ones: from `N = Σ c` and `Σ c x`.

    Its standard error is made of `Σ W²`, `Σ W S` and `Σ S²` over independent units, with `W` the number of
    observations of a unit and `S` the sum of their `x`. A unit is a group, or a single observation where there are no
    groups.
    """

    def sums(counts: AnyFloatArray) -> FloatArray:
        return np.array([counts.sum(), counts @ rows], dtype=np.float64)

    def spread(data: Sample) -> FloatArray:
        counts = data.each
        if data.groups is None:
            return np.array([*sums(counts), counts @ rows**2], dtype=np.float64)
        size, total = data.group_sums(counts), data.group_sums(counts * rows)
        return np.array([size @ size, size @ total, total @ total])

    return Summed(Form(_mean, kind), sums, spread)


def cell_spread(data: Sample, values: AnyFloatArray, cells: Callable[[AnyFloatArray], FloatArray]) -> FloatArray:
    """How far sums of `c · values` over cells move when the sample is drawn anew.

    Without groups the cells move independently of each other, with the variances `Σ c values²`. A group moves all cells
    that it has rows in at once: its rows are multiplied by a common standard normal variable, `REPLICATES` times, and
    these moves are kept as rows of a matrix. They add up over parts as variances do.
    """
    if data.groups is None:
        return cells(data.each * values**2)
    weighed = data.each * values
    # The seed depends on the rows, so that parts move independently of each other.
    rng = np.random.default_rng(np.frombuffer(weighed[:64].tobytes(), dtype=np.uint32))
    return np.stack(
        [cells(weighed * rng.standard_normal(data.n_groups)[data.group_numbers]) for _ in range(REPLICATES)]
    )


class Metric(Protocol[Returned]):
    """A metric as it is called; `of` is the same metric of validated predictions."""

    def __call__(
        self,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *arguments: object,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        blocks: int | None = None,
        classes: Sequence[Label] | None = None,
        **options: object,
    ) -> Returned: ...

    def of(self, data: Sample, *arguments: object, **options: object) -> Returned: ...


@dataclass(frozen=True)
class Scalar:
    """A metric that returns one number.

    `plug_in_bias` marks metrics whose sample value lies above the population's on average (calibration errors are
    distances), which their intervals must correct for; `of_sums` those that are functions of sums over rows, at least
    with their default options; `by_class` those that are means over classes; `refits` those of fitted calibrators, of
    which nothing is known beyond the rows that were seen.
    """

    name: str
    function: Callable[..., float]
    prepare: Callable[..., Statistic]
    description: str
    lower: float = 0.0
    upper: float = np.inf
    plug_in_bias: bool = False
    of_sums: bool = False
    by_class: bool = False
    refits: bool = False

    def units(self, data: Sample) -> float:
        """How many independent observations the value rests on.

        For a mean over classes with `m_j` each it is `(Σ 1/m_j)² / Σ 1/m_j³` (Satterthwaite, variances being about
        `1/m_j`): few observations of one class count for little if other classes have many.
        """
        if not self.by_class:
            return data.units
        seen = data.class_counts[data.class_counts > 0] * data.units / data.total
        return float(np.sum(1 / seen) ** 2 / np.sum(1 / seen**3))


SCALARS: dict[str, Scalar] = {}
#: Metrics whose result is a table, by name: what prepares them, as for scalars.
TABLES: dict[str, Callable[..., Callable[[AnyFloatArray], object]]] = {}


def public(compute: Callable[..., Result], *, grouped: bool = True) -> Metric[Result]:
    """Make a function of labels and probabilities of one that takes validated predictions.

    It has the parameters `groups` and `blocks` if the result depends on them: by its intervals or by folds. Its
    docstring gets the parameters that metrics share, what it returns, and the imports of its example.
    """

    def metric(
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *arguments: object,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        blocks: int | None = None,
        classes: Sequence[Label] | None = None,
        **options: object,
    ) -> Result:
        if not grouped and not (groups is None and blocks is None):
            raise TypeError(f"{compute.__name__} does not depend on groups; only intervals do")
        if classes is None:  # a rule of decisions names the columns
            classes = getattr(options.get("rule", next(iter(arguments), None)), "classes", None)
        data = check_sample(y_true, y_prob, sample_weight, classes, groups=groups, blocks=blocks)
        return compute(data, *arguments, **options)

    shared = signature(metric)
    y_true, y_prob, _, *common = list(shared.parameters.values())[:-1]
    common = [one for one in common if grouped or one.name not in ("groups", "blocks")]
    options = list(signature(compute).parameters.values())[1:]
    function: Any = update_wrapper(metric, compute)
    function.of = compute
    function.__signature__ = shared.replace(parameters=[y_true, y_prob, *options, *common])
    describe_parameters(function)
    text, heading, example = (function.__doc__ or "").partition("Examples\n--------\n")
    if example:
        imports = ">>> import numpy as np\n" if "np." in example else ""
        imports += f">>> from {compute.__module__.rpartition('.')[0]} import {compute.__name__}\n"
        if not hasattr(compute, "__wrapped__") and "Returns\n-------\n" not in text:
            text += f"Returns\n-------\n{compute.__annotations__['return']}\n\n"
        function.__doc__ = text + heading + imports + example
    return cast("Metric[Result]", limited(function))


def _of_all_rows(prepare: Callable[..., Callable[[AnyFloatArray], Result]]) -> Callable[..., Result]:
    """The value for the counts of the sample itself."""

    @wraps(prepare)
    def compute(data: Sample, **options: object) -> Result:
        return prepare(data, **options)(data.each)

    return compute


def scalar(*, grouped: bool = False, **facts: Any) -> Callable[[Callable[..., Statistic]], Metric[float]]:
    """Turn `prepare(predictions, **options)` into a public metric with the facts of a `Scalar`, under its name."""

    def register(prepare: Callable[..., Statistic]) -> Metric[float]:
        function = public(_of_all_rows(prepare), grouped=grouped)
        name, description = prepare.__name__, (prepare.__doc__ or "").strip().splitlines()[0]
        SCALARS[name] = Scalar(name, function, prepare, description, **facts)
        return function

    return register


def table(prepare: Callable[..., Callable[[AnyFloatArray], Result]]) -> Metric[Result]:
    """Turn `prepare(predictions, **options)` into a public function that returns a table, registered by its name."""
    TABLES[prepare.__name__] = prepare
    return public(_of_all_rows(prepare))


def find_scalar(metric: str | Callable[..., float]) -> Scalar | None:
    """Registered metric of that name or function; None for a function of the user's."""
    if callable(metric):
        return next((entry for entry in SCALARS.values() if entry.function is metric), None)
    if metric not in SCALARS:
        raise ValueError(f"unknown metric {metric!r}; there are {', '.join(sorted(SCALARS))}")
    return SCALARS[metric]


def mean_statistic(rows: AnyFloatArray) -> Statistic:
    """Mean of one number per row that depends on other rows, so that its sums cannot be added part by part."""
    return summed_mean(rows).__call__
