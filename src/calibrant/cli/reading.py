"""From the options of a command to a reader of rows, or to answers of a language model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from calibrant.cli.mistakes import CommandError, with_hints
from calibrant.cli.options import LabelledOptions, OnError, WeighedOptions, split_names
from calibrant.numerals import amount
from calibrant.progress import ProgressBar

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from calibrant.files.tables.row_checks import TableRows
    from calibrant.files.tables.table import Table
    from calibrant.files.tables.table_rows import RowReader
    from calibrant.inputs.answers import Answers

Labelled = TypeVar("Labelled", bound=LabelledOptions)
Weighed = TypeVar("Weighed", bound=WeighedOptions)
#: Options that also make sense for questions with options.
_OF_ANSWERS = ("weight", "group_by", "on_error", "label", "votes")


@contextlib.contextmanager
def reading(file: str, *, on_error: OnError = OnError.stop, **given: Any) -> Iterator[RowReader]:
    """A reader of the rows in a file; at the end it says what was assumed about them and how many were left out.

    Given are options, as in `LabelledOptions`, and other fields of a `Layout`.
    """
    from calibrant.files.tables.opening import opened_table
    from calibrant.files.tables.row_checks import Layout
    from calibrant.files.tables.table_rows import RowReader

    if given.get("group_by") is not None and given.get("blocks") is not None:
        raise CommandError("--group-by and --blocks are two ways to say the same thing: give one of them")
    columns = [given.pop(name, None) for name in ("label", "weight", "group_by", "date")]
    columns += split_names(given.pop("segments", None)) or []
    with opened_table(file, columns) as (table, (label, weight, groups, date, *segments)):
        classes = split_names(given.pop("classes", None))
        layout = Layout(
            label=label,
            weight=weight,
            groups=groups,
            date=date,
            segments=tuple(name for name in segments if name is not None),
            probs=tuple(given.pop("probs", None) or ()),
            votes=tuple(given.pop("votes", None) or ()),
            classes=None if classes is None else tuple(classes),
            **given,
        )
        reader = RowReader(table, layout, skip_errors=on_error is OnError.skip)
        yield reader
    for message, *hints in reader.notes:
        typer.echo(f"Note: {with_hints(message, hints)}", err=True)
    if reader.skipped.count:
        typer.echo(f"Skipped {amount(reader.skipped.count, 'row')}; the first is {reader.skipped.first}", err=True)


def reading_rules(calibrator: BaseEstimator, *, renormalize: bool = False) -> dict[str, Any]:
    """How the predictions that a fitted calibrator takes are read."""
    return {
        "logits": calibrator.takes_logits and not calibrator.takes_scores,
        "scores": calibrator.takes_scores,
        "percentages": getattr(calibrator, "percentages_", False),
        "renormalize": renormalize or calibrator.renormalize,
    }


def read_batches(
    calibrator: object, file: str, period: str | None = None, **given: Any
) -> list[tuple[str | None, TableRows]]:
    """All rows of a file as a fitted calibrator takes them, with its segments, parted by the period of their dates."""
    from calibrant.workflows.applying import read_predictions

    refuse_options(file, given.get("probs"))
    with reading(file, **reading_rules(calibrator), **given) as reader:
        return read_predictions(calibrator, reader, period)


def refuse_options(file: str, probs: list[str] | None) -> None:
    """Refuse a file of questions with options where rows of predictions are needed, unless its columns are named."""
    from calibrant.files.tables.answer_files import holds_options

    if not probs and file != "-" and holds_options(file):
        raise CommandError(
            f"{file} holds questions with options, which only `fit`, `apply`, `evaluate` and `report` take. This "
            "command takes the confidence in the chosen answers: give a file with columns `confidence` and `correct`, "
            "and a calibrator that was fitted to such a file"
        )


def read_for(calibrator: object, file: str, **given: Any) -> TableRows:
    """All rows of a file in one batch."""
    return read_batches(calibrator, file, **given)[0][1]


def progress_over(table: Table, what: str) -> Callable[[Iterator[TableRows]], Iterator[TableRows]]:
    """Wraps the reading of chunks in a progress bar."""

    def wrapped(chunks: Iterator[TableRows]) -> Iterator[TableRows]:
        with ProgressBar(1.0, what) as bar:
            rows = 0
            for chunk in chunks:
                rows += len(chunk.batch or ())
                bar.move(rows / table.n_rows if table.n_rows else table.fraction_read() or 0.0, f"{rows:,} rows")
                yield chunk

    return wrapped


def find_answers(file: str, table: Labelled) -> tuple[Labelled, Answers | None]:
    """The answers in a file of questions with options; else the options with usual columns where no label is named."""
    from calibrant.files.tables.answer_files import holds_options, read_answers, stated_columns
    from calibrant.files.tables.opening import opened_table

    named = table.label is not None or table.votes or file == "-"
    if not named and holds_options(file):
        for name in table.given:
            if name not in _OF_ANSWERS:
                flag = name.replace("_", "-")
                raise CommandError(f"{file} holds questions with options, where --{flag} has no meaning: leave it out")
        skip = table.on_error is OnError.skip
        answers = read_answers(file, skip_errors=skip, weight=table.weight, group_by=table.group_by)
        for note in answers.notes:
            typer.echo(f"Note: {note}", err=True)
        return table, answers
    found = None
    if not named:
        with opened_table(file) as (opened, _):
            found = stated_columns(opened)
            if found is not None and not table.probs and not getattr(table, "scores", False):
                _check_scale(opened, found[0])
    if found is None:
        if (table.label is None) == (not table.votes):
            raise CommandError(
                "give either --label, the column of the true labels, or --votes, a column for each class"
            )
        return table, None
    return replace(_as_stated(table, found), label=found[1], probs=table.probs or [found[0]]), None


def find_questions(file: str, table: Weighed, columns: Sequence[str]) -> Weighed:
    """The options with the column of questions, where the `columns` of a calibrator are a stated confidence."""
    from calibrant.files.tables.answer_files import stated_columns
    from calibrant.files.tables.opening import opened_table

    if file == "-":
        return table
    with opened_table(file) as (opened, _):
        found = stated_columns(opened)
    if found is None or list(columns) != [found[0]] or table.label not in (None, found[1]):
        return table
    return _as_stated(table, found)


def _as_stated(table: Weighed, found: tuple[str, str, str | None]) -> Weighed:
    """Say how stated confidences are read, and take the rows of a question together unless other groups are named."""
    said, truth, together = found
    grouped = table.group_by is None and table.blocks is None and together is not None
    typer.echo(
        f"Note: {said!r} is read as the probability that {truth!r} is true"
        + (f", and rows with the same {together!r} belong together" if grouped else ""),
        err=True,
    )
    return replace(table, group_by=together) if grouped else table


def _check_scale(table: Table, name: str) -> None:
    """Refuse scores such as 1 to 10, which are neither probabilities nor percentages."""
    from calibrant.files.tables.cells import measured

    batch = next(table.batches([name], skip_errors=True), None)
    values = None if batch is None else measured([batch.data.column(0)], None, logits=False)[1]
    if values is not None and 1.0 < values.max() <= 10.0:
        raise CommandError(
            f"{name!r} reaches {values.max():g}: these are neither probabilities nor percentages. Turn them into "
            "probabilities with `calibrant fit --scores`, or divide them by the maximum of their scale"
        )
