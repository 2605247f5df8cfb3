"""From the options of a command to a reader of rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from calibrant.cli.mistakes import CommandError, with_hints
from calibrant.cli.options import LabelledOptions, OnError, split_names

if TYPE_CHECKING:
    from calibrant.files.tables.row_checks import TableRows
    from calibrant.files.tables.table_rows import RowReader


def check_truth(table: LabelledOptions) -> None:
    """Exactly one of labels and votes is given."""
    if (table.label is None) == (not table.votes):
        raise CommandError("give either --label, the column of the true labels, or --votes, a column for each class")


@contextlib.contextmanager
def reading(
    file: str,
    *,
    label: str | None = None,
    weight: str | None = None,
    segments: str | None = None,
    probs: Sequence[str] | None = None,
    classes: str | None = None,
    logits: bool = False,
    scores: bool = False,
    percentages: bool = False,
    renormalize: bool = False,
    decimal: str | None = None,
    on_error: OnError = OnError.stop,
    votes: Sequence[str] | None = None,
    group_by: str | None = None,
    blocks: int | None = None,
    date: str | None = None,
    partly_labelled: bool = False,
) -> Iterator[RowReader]:
    """A reader of the rows in a file; at the end it says what was assumed about them and how many were left out."""
    from calibrant.files.tables.opening import opened_table
    from calibrant.files.tables.row_checks import Layout
    from calibrant.files.tables.table_rows import RowReader

    if group_by is not None and blocks is not None:
        raise CommandError("--group-by and --blocks say the same thing in two ways: give one of them")
    names = split_names(segments) or []
    asked_for = [label, weight, group_by, date, *names]
    with opened_table(file, asked_for) as (table, (label, weight, group_by, date, *columns)):
        labels = split_names(classes)
        layout = Layout(
            label=label,
            probs=tuple(probs or ()),
            weight=weight,
            classes=None if labels is None else tuple(labels),
            logits=logits,
            scores=scores,
            percentages=percentages,
            renormalize=renormalize,
            decimal=decimal,
            segments=tuple(name for name in columns if name is not None),
            votes=tuple(votes or ()),
            groups=group_by,
            blocks=blocks,
            date=date,
            partly_labelled=partly_labelled,
        )
        reader = RowReader(table, layout, skip_errors=on_error is OnError.skip)
        yield reader
    for message, *hints in reader.notes:
        typer.echo(f"Note: {with_hints(message, hints)}", err=True)
    if reader.skipped.count:
        rows = "1 row" if reader.skipped.count == 1 else f"{reader.skipped.count:,} rows"
        typer.echo(f"Skipped {rows}; the first is {reader.skipped.first}", err=True)


def reading_rules(calibrator: Any, *, renormalize: bool = False) -> dict[str, Any]:
    """How the predictions that a fitted calibrator takes are read."""
    return {
        "logits": calibrator.takes_logits and not calibrator.takes_scores,
        "scores": calibrator.takes_scores,
        "percentages": getattr(calibrator, "percentages_", False),
        "renormalize": renormalize or calibrator.renormalize,
    }


def read_for(calibrator: Any, file: str, **given: Any) -> TableRows:
    """All rows of a file as predictions that a fitted calibrator takes, with what `reading` is told of its columns.

    A calibrator that takes segments gets the columns that it was fitted with.
    """
    return read_batches(calibrator, file, None, **given)[0][1]


def read_batches(calibrator: Any, file: str, period: str | None, **given: Any) -> list[tuple[str | None, TableRows]]:
    """The same, parted by the period of their dates."""
    from calibrant.workflows.applying import read_predictions

    with reading(file, **reading_rules(calibrator), **given) as reader:
        return read_predictions(calibrator, reader, period)
