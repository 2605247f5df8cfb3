"""`fit`, `apply`, `evaluate` and `report` for multi-label files, where any number of labels may be true in a row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from calibrant.cli.mistakes import CommandError
from calibrant.cli.options import LabelledOptions, OnError, RowOptions
from calibrant.cli.printing import Output, class_columns, print_json
from calibrant.numerals import amount

if TYPE_CHECKING:
    from calibrant.workflows.label_files import LabelFile


def _read(file: str, table: LabelledOptions, others: Mapping[str, object]) -> LabelFile:
    """The rows of a file; options about classes are refused."""
    from calibrant.files.tables.opening import opened_table
    from calibrant.workflows.label_files import read_labels

    names = ("label", "votes", "classes", "segments", "renormalize", "blocks", "scores")
    given = {f"--{name}": getattr(table, name, None) for name in names} | dict(others)
    for option, value in given.items():
        if value:
            raise CommandError(
                f"{option} does not work with --multilabel, which finds labels by their columns. Leave it out"
            )
    with opened_table(file, [table.weight, table.group_by]) as (opened, (weight, group_by)):
        found = read_labels(
            opened,
            probs=table.probs,
            weight=weight,
            group_by=group_by,
            decimal=table.decimal,
            logits=table.logits,
            skip_errors=table.on_error is OnError.skip,
        )
    if found.skipped:
        typer.echo(f"Skipped {amount(found.skipped, 'row')}", err=True)
    return found


def fit_labels(file: str, out: Output, table: LabelledOptions, others: Mapping[str, object]) -> None:
    """Learn a `MultilabelCalibrator` and store it."""
    from calibrant.calibrators.multilabel import MultilabelCalibrator
    from calibrant.inputs.class_columns import NamedColumns

    rows = _read(file, table, others)
    calibrator = MultilabelCalibrator(rows.labels, input="logits" if table.logits else "probabilities")
    calibrator.fit(NamedColumns(rows.columns, rows.values), rows.y, rows.weight, groups=rows.groups)
    out.store(calibrator)
    summary, columns = calibrator.summary().splitlines(), dict(zip(rows.labels, rows.columns))
    values = {"rows": len(rows.y), "rows_skipped": rows.skipped, "columns": columns, "summary": summary}
    first = f"{out.output}: fitted to {calibrator.fitted_to_} and {amount(len(rows.labels), 'label')}"
    out.tell(values, [first, _columns(rows), *summary])


def evaluate_labels(
    file: str, table: LabelledOptions, others: Mapping[str, object], level: float | None, *, as_json: bool
) -> None:
    """Metrics of each label, worst first."""
    from calibrant.metrics.part_metrics import NAMES, measure

    if table.logits:
        raise CommandError("--logits: evaluate needs probabilities; give it the output of `calibrant apply`")
    rows = _read(file, table, others)
    found = measure(rows.checked(), level)
    if as_json:
        labels = {name: values.tolist() for name, values in found.to_dict().items()}
        micro = {name: vars(estimate) for name, estimate in found.micro.items()}
        values = {"file": file, **found.size.to_dict(), "rows_skipped": rows.skipped}
        print_json({**values, "micro": micro, "macro": found.macro, "labels": labels})
        return
    typer.echo(f"{file}: {found.size}, {amount(len(found.labels), 'label')}")
    typer.echo(_columns(rows))
    typer.echo(f"\n{found}")
    if level is not None:
        for name in NAMES:
            typer.echo(f"{name} of all cells: {found.micro[name]} ({100 * level:g}% interval)")


def apply_to_labels(calibrator: str, file: str, out: Output, table: RowOptions, suffix: str) -> None:
    """Replace the probabilities of labels in a file."""
    from calibrant.files.tables.opening import opened_table
    from calibrant.runtime import load
    from calibrant.workflows.label_files import apply_labels

    if table.probs or table.on_error is OnError.skip:
        raise CommandError(
            "--probs and --on-error skip do not work with multi-label calibrators: columns have the names used in "
            "fit, and every row is written"
        )
    fitted = load(calibrator)
    with opened_table(file) as (opened, _):
        rows = apply_labels(fitted, opened, out.output, suffix=suffix, decimal=table.decimal, force=out.force)
    columns = dict(zip(fitted.column_names, fitted.classes))
    out.tell({"rows": rows, "rows_skipped": 0, "columns": columns}, [f"{out.output}: {amount(rows, 'row')} calibrated"])


def report_labels(
    file: str, out: Output, table: LabelledOptions, others: Mapping[str, object], title: str | None, level: float
) -> None:
    """One HTML page, worst labels first."""
    from calibrant.report.label_page import render_labels

    if table.logits:
        raise CommandError("--logits: report needs probabilities; give it the output of `calibrant apply`")
    rows = _read(file, table, others)
    out.write(render_labels(rows.checked(), title or Path(file).name, level).encode())
    values = {"rows": len(rows.y), "rows_skipped": rows.skipped, "labels": rows.labels}
    out.tell(values, [f"{out.output}: report on {amount(len(rows.y), 'row')} and {amount(len(rows.labels), 'label')}"])


def _columns(rows: LabelFile) -> str:
    return class_columns(rows.columns, rows.labels if len(rows.labels) > 1 else [f"not {rows.labels[0]}", *rows.labels])
