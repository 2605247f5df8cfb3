"""Files of answers in commands that take a labelled file: what is in them is found without naming a label."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from calibrant.cli.mistakes import CommandError
from calibrant.cli.options import LabelledOptions, OnError
from calibrant.cli.reading import check_truth

if TYPE_CHECKING:
    from calibrant.inputs.answers import Answers

Labelled = TypeVar("Labelled", bound=LabelledOptions)
#: Options that also make sense for questions with options.
_KNOWN = ("weight", "group_by", "on_error", "label", "votes")


def find_answers(file: str, table: Labelled) -> tuple[Labelled, Answers | None]:
    """The answers in a file of questions with options; else the options with usual columns where no label is named."""
    from calibrant.files.tables.answer_files import holds_options, read_answers, stated_columns
    from calibrant.files.tables.opening import opened_table

    if table.label is not None or table.votes or file == "-":
        check_truth(table)
        return table, None
    if holds_options(file):
        other = [field.name for field in fields(table) if getattr(table, field.name) != field.default]
        for name in other:
            if name not in _KNOWN:
                flag = name.replace("_", "-")
                raise CommandError(f"{file} holds questions with options, of which --{flag} says nothing: leave it out")
        skip = table.on_error is OnError.skip
        answers = read_answers(file, skip_errors=skip, weight=table.weight, group_by=table.group_by)
        for note in answers.notes:
            typer.echo(f"Note: {note}", err=True)
        return table, answers
    with opened_table(file) as (opened, _):
        found = stated_columns(opened)
        if found is None:
            check_truth(table)
            return table, None
        said, truth, together = found
        if not table.probs and not getattr(table, "scores", False):
            _check_scale(opened, said)
    grouped = table.group_by is None and table.blocks is None and together is not None
    typer.echo(
        f"Note: {said!r} is read as the probability that {truth!r} is true"
        + (f", and rows with the same {together!r} belong together" if grouped else ""),
        err=True,
    )
    found_names: dict[str, Any] = {"label": truth, "probs": table.probs or [said]}
    if grouped:
        found_names["group_by"] = together
    return replace(table, **found_names), None


def _check_scale(table: Any, name: str) -> None:
    """Refuse scores such as 1 to 10, which are neither probabilities nor percentages."""
    from calibrant.files.tables.cells import measured

    batch = next(table.batches([name], skip_errors=True), None)
    values = None if batch is None else measured([batch.data.column(0)], None, logits=False)[1]
    if values is not None and 1.0 < values.max() <= 10.0:
        raise CommandError(
            f"{name!r} reaches {values.max():g}: these are neither probabilities nor percentages. `calibrant fit "
            "--scores` makes probabilities of them; or divide them by the top of their scale"
        )
