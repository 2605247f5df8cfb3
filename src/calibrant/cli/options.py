"""Options that several commands share, so that they mean the same everywhere.

An option of one command is the default of a parameter, made by `option` or `flag`; an option of several is a type, or a
field of a class of options that stands for all of its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import OptionInfo

from calibrant.cli.mistakes import explained


class OnError(StrEnum):
    """What to do with a row that cannot be used."""

    stop = "stop"
    skip = "skip"


def option(help: str, *names: str, default: object = None, **more: Any) -> Any:
    """The default of a parameter that is an option; without `names` it is called like the parameter."""
    return typer.Option(default, *names, help=help, **more)


def flag(help: str, *names: str) -> Any:
    """An option that is given or not."""
    return option(help, *names, default=False)


def complete_method(incomplete: str) -> list[tuple[str, str]]:
    """Names of calibration methods that begin so, for the shell."""
    from calibrant.calibrators.registry import list_calibrators

    return [(info.name, info.description) for info in list_calibrators() if info.name.startswith(incomplete)]


def method(help: str) -> Any:
    return option(help, "--method", "-m", autocompletion=complete_method)


def split_names(text: str | None) -> list[str] | None:
    """Names separated by commas; None stays None."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _check_decimal(mark: str | None) -> str | None:
    if mark not in (None, ",", "."):
        raise typer.BadParameter("the decimal mark is a comma or a point")
    return mark


Calibrator = Annotated[
    str, typer.Argument(metavar="CALIBRATOR", help="JSON file that `calibrant fit` or `calibrant adapt` wrote.")
]
Input = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="CSV, JSON Lines, xlsx, parquet, feather, npz or npy file, a folder of such files, or a pattern in "
        "quotes; - is standard input.",
    ),
]
Renormalize = Annotated[bool, typer.Option("--renormalize", help="Rescale rows of rounded probabilities to sum to 1.")]
Multilabel = Annotated[
    bool,
    typer.Option(
        "--multilabel",
        help="Any number of labels may be true: each has a 0/1 column, such as art, and a probability column, p_art.",
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite the output if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Cost = Annotated[
    str | None,
    typer.Option(
        help="Costs of actions: fp=1,fn=20 for two classes, action:class=cost,action=cost, or a JSON or CSV file."
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        help="The positive class that fp and fn in --cost refer to, and a single probability column of any name."
    ),
]
Grades = Annotated[
    str | None, typer.Option(help="Grades to test, for two classes: how many, or a table of them (column upper).")
]
Level = Annotated[float, typer.Option(help="Confidence level of the intervals.", min=0.5, max=0.999)]


@dataclass(frozen=True)
class RowOptions:
    """How rows of predictions are read from a file."""

    probs: list[str] | None = option(
        "Probability columns: a pattern such as 'p_*' or a list such as a,b,c. Default: auto-detected.", "--probs", "-p"
    )
    decimal: str | None = option("Decimal mark of numbers in text: , or . (auto-detected).", callback=_check_decimal)
    on_error: OnError = option("Stop at a row that cannot be used, or skip it.", default=OnError.stop)


@dataclass(frozen=True)
class WeighedOptions(RowOptions):
    """Columns that say what a row counts for and where it belongs, and that of its label."""

    label: str | None = option("Column of the true labels (or an .npy file, if FILE is one).", "--label", "-y")
    weight: str | None = option("Column of weights: how many observations a row counts for.")
    segments: str | None = option("Column of segments, such as regions, to evaluate one by one.")
    group_by: str | None = option("Column that groups dependent rows, such as a patient: groups are independent.")
    blocks: int | None = option("Instead of --group-by, for rows in order of time: rows per block.", min=1)


@dataclass(frozen=True)
class LabelledOptions(WeighedOptions):
    """What else there is to say of a file of predictions with labels, for a command that has no calibrator yet."""

    votes: list[str] | None = option(
        "Instead of --label, columns of votes or shares, one per class: 'n_*', or a list such as n_cat,n_dog."
    )
    classes: str | None = option("Label of each probability column, as in a,b,c, if the names do not show it.")
    logits: bool = flag("The columns hold logits, not probabilities.")
    renormalize: Renormalize = False

    @property
    def given(self) -> list[str]:
        """Names of the options that differ from their defaults."""
        defaults = {field.name: getattr(field.default, "default", field.default) for field in fields(self)}
        return [name for name, default in defaults.items() if getattr(self, name) != default]


def as_words(given: Mapping[str, Any]) -> list[str]:
    """Options by name as words of a command; those that are None or false are left out."""
    words: list[str] = []
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value not in (None, False):
            words += [word for part in (value if isinstance(value, list) else [value]) for word in (flag, str(part))]
    return words


#: What does the work of a command.
Worker = Callable[..., None]
#: Options that stand at the end of every help.
_LAST = ("force", "as_json")


def command(kept: str = "Nothing was written") -> Callable[[Worker], Worker]:
    """Turn a function into a command, which explains mistakes to the user.

    A parameter that is a class of options, such as `RowOptions`, stands for all options of the class. `kept` is what an
    interrupted command leaves behind, with names of options in braces.
    """

    def register(function: Worker) -> Worker:
        kinds = get_type_hints(function, include_extras=True)
        groups: dict[str, Any] = {name: kind for name, kind in kinds.items() if is_dataclass(kind)}
        parameters = []
        for parameter in signature(function).parameters.values():
            kind = kinds[parameter.name]
            if parameter.name in groups:
                own = get_type_hints(kind, include_extras=True)
                parameters += [_option(field.name, own[field.name], field.default) for field in fields(kind)]
            else:
                parameters.append(_option(parameter.name, kind, parameter.default))

        parameters.sort(key=lambda parameter: parameter.name in _LAST)

        @wraps(function)
        def run(**given: object) -> None:
            left = kept.format(**given)
            for name, kind in groups.items():
                given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            with explained(left, [parameter.name for parameter in parameters]):
                function(**given)

        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return register


def _option(name: str, kind: object, default: object) -> Parameter:
    if isinstance(default, OptionInfo) and not default.param_decls:
        default.param_decls = (f"--{name.replace('_', '-')}",)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
