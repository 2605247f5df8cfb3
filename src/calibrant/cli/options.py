"""Options that several commands share, so that they mean the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer

from calibrant.cli.mistakes import explained


class OnError(StrEnum):
    """What to do with a row that cannot be used."""

    stop = "stop"
    skip = "skip"


def complete_method(incomplete: str) -> list[tuple[str, str]]:
    """Names of calibration methods that begin so, for the shell."""
    from calibrant.calibrators.registry import list_calibrators

    return [(info.name, info.description) for info in list_calibrators() if info.name.startswith(incomplete)]


def split_names(text: str | None) -> list[str] | None:
    """Names separated by commas; None stays None.

    Examples
    --------
    >>> split_names("a, b,")
    ['a', 'b']
    """
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _check_decimal(mark: str | None) -> str | None:
    if mark not in (None, ",", "."):
        raise typer.BadParameter("the decimal mark is a comma or a point")
    return mark


Calibrator = Annotated[
    str, typer.Argument(metavar="CALIBRATOR", help="JSON file that `calibrant fit` or `calibrant adapt` wrote.")
]
CalibratorOutput = Annotated[str, typer.Option("--output", "-o", help="JSON file to write; - is standard output.")]
Input = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="CSV, JSON Lines, xlsx, parquet, feather, npz or npy file, a folder of such files, or a pattern in "
        "quotes; - is standard input.",
    ),
]
Inputs = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="One file of predictions, or several to show side by side."),
]
Renormalize = Annotated[bool, typer.Option("--renormalize", help="Rescale rows of rounded probabilities to sum to 1.")]
Multilabel = Annotated[
    bool,
    typer.Option(
        "--multilabel",
        help="Any number of labels may be true: a 0/1 column for each, such as art, beside p_art, its probability.",
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite the output if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Method = Annotated[str, typer.Option("--method", "-m", help="Calibration method.", autocompletion=complete_method)]
Cost = Annotated[
    str | None,
    typer.Option(
        "--cost",
        help="Costs of actions: fp=1,fn=20 for two classes, action:class=cost,action=cost, or a JSON or CSV file.",
    ),
]
Positive = Annotated[str | None, typer.Option("--positive", help="The class that fp and fn of --cost speak of.")]
Level = Annotated[float, typer.Option(help="Confidence level of the intervals.", min=0.5, max=0.999)]


@dataclass(frozen=True)
class RowOptions:
    """How rows of predictions are read from a file."""

    probs: Annotated[
        list[str] | None,
        typer.Option(
            "--probs",
            "-p",
            help="Probability columns: a pattern such as 'p_*' or a list such as a,b,c. Default: auto-detected.",
        ),
    ] = None
    decimal: Annotated[
        str | None,
        typer.Option(
            "--decimal", callback=_check_decimal, help="Decimal mark of numbers in text: , or . (auto-detected)."
        ),
    ] = None
    on_error: Annotated[OnError, typer.Option("--on-error", help="Stop at a row that cannot be used, or skip it.")] = (
        OnError.stop
    )


@dataclass(frozen=True)
class WeighedOptions(RowOptions):
    """Columns that say what a row counts for and where it belongs, and that of its label."""

    label: Annotated[
        str | None, typer.Option("--label", "-y", help="Column of the true labels (or an .npy file, if FILE is one).")
    ] = None
    weight: Annotated[
        str | None, typer.Option("--weight", help="Column of weights: how many observations a row counts for.")
    ] = None
    segments: Annotated[
        str | None, typer.Option("--segments", help="Column of segments, such as a region, to be judged one by one.")
    ] = None
    group_by: Annotated[
        str | None,
        typer.Option(
            "--group-by",
            help="Column that tells which rows belong together, such as a patient: groups are independent.",
        ),
    ] = None
    blocks: Annotated[
        int | None,
        typer.Option("--blocks", help="Instead of --group-by, for rows in time: so many consecutive ones.", min=1),
    ] = None


@dataclass(frozen=True)
class LabelledOptions(WeighedOptions):
    """What else there is to say of a file of predictions with labels, for a command that has no calibrator yet."""

    votes: Annotated[
        list[str] | None,
        typer.Option(
            "--votes",
            help="Instead of --label, columns of votes or shares, one per class: 'n_*', or a list such as n_cat,n_dog.",
        ),
    ] = None
    classes: Annotated[
        str | None,
        typer.Option("--classes", help="Label of each probability column, as in a,b,c, if the names do not tell."),
    ] = None
    logits: Annotated[bool, typer.Option("--logits", help="The columns hold logits, not probabilities.")] = False
    renormalize: Renormalize = False


#: What does the work of a command.
Worker = Callable[..., None]


def command(app: typer.Typer, kept: str = "Nothing was written") -> Callable[[Worker], Worker]:
    """Register a function as the command of `app`; mistakes in it are explained to the user.

    A parameter that is a class of options, such as `RowOptions`, stands for all options of the class. `kept` is what an
    interrupted command leaves behind.
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

        @wraps(function)
        def run(**given: Any) -> None:
            for name, kind in groups.items():
                given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            with explained(kept):
                function(**given)

        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return app.command()(run)

    return register


def _option(name: str, kind: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
