"""Options that several commands share, so that they mean the same everywhere."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer


class OnError(str, Enum):
    """What to do with a row that cannot be used."""

    stop = "stop"
    skip = "skip"


def complete_method(incomplete: str) -> list[tuple[str, str]]:
    """Names of calibration methods that begin so, for the shell."""
    from calibrant.calibrators.registry import list_calibrators

    return [(info.name, info.description) for info in list_calibrators() if info.name.startswith(incomplete)]


Input = Annotated[
    str, typer.Argument(metavar="FILE", help="CSV (also .gz), parquet, feather, npz or npy; - is standard input.")
]
Label = Annotated[str, typer.Option("--label", "-y", help="Column of the true labels (an .npy file beside .npy).")]
Probs = Annotated[
    list[str] | None,
    typer.Option("--probs", "-p", help="Probability columns: a pattern as 'p_*' or a list as a,b,c. Default: found."),
]
Classes = Annotated[
    str | None,
    typer.Option("--classes", help="Label of each probability column, as a,b,c, where names do not tell."),
]
Weight = Annotated[
    str | None,
    typer.Option("--weight", help="Column of weights: how many observations a row counts for."),
]
Group = Annotated[
    str | None,
    typer.Option("--group", help="Column of segments to look at one by one."),
]
Logits = Annotated[bool, typer.Option("--logits", help="The columns hold logits, not probabilities.")]
Renormalize = Annotated[bool, typer.Option("--renormalize", help="Rescale rows of rounded probabilities to sum to 1.")]
OnErrorOption = Annotated[OnError, typer.Option("--on-error", help="Stop at a row that cannot be used, or skip it.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite the output if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Method = Annotated[str, typer.Option("--method", "-m", help="Calibration method.", autocompletion=complete_method)]
