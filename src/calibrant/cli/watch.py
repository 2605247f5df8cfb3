"""`calibrant watch`: is a calibrator in use still right?"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from calibrant.cli import options
from calibrant.cli.mistakes import CommandError
from calibrant.cli.printing import print_json
from calibrant.cli.reading import find_questions, read_batches, read_for
from calibrant.text_table import aligned

#: The exit code that tells an alarm from an error.
ALARM = 3


class Period(StrEnum):
    """How long the period of a batch is."""

    day = "day"
    week = "week"
    month = "month"
    quarter = "quarter"
    year = "year"


@dataclass(frozen=True)
class WatchOptions(options.WeighedOptions):
    """Options of a batch, whose labels may be unknown."""

    label: str | None = options.option("Column of the true labels, empty where one is unknown.", "--label", "-y")
    date: str | None = options.option("Column of dates, for --period.")


@options.command()
def watch(
    *,
    calibrator: options.Calibrator,
    file: options.Input,
    state: str = options.option("JSON file of the monitor: read if it exists, and written.", default=...),
    table: WatchOptions,
    batch_id: str | None = options.option(
        "Name or date of the batch, such as 2026-03-14 or 2026-03. Default: a checksum of its rows."
    ),
    period: Period | None = options.option("Make one batch per period, by the dates in the column --date."),
    replace: bool = options.flag("Replace a batch of the same name, and remove the batches after it."),
    observed: bool = options.flag("Add labels that came late to rows that were already watched without them."),
    alpha: float | None = options.option("Probability of ever raising a false alarm; default 0.01."),
    tolerance: float | None = options.option("Error of the log-odds that is tolerated; default 0."),
    reference: str | None = options.option("File of predictions from the time of calibration, for drift."),
    grades: str | None = options.option("Table of grades (column upper) to test in each batch."),
    page: str | None = options.option("HTML page to write, with plots of the history."),
    metrics: str | None = options.option("File of the findings to write, in the text format of Prometheus."),
    on_alarm: str | None = options.option("Command to run, without a shell, when the alarm is raised: see the manual."),
    repair: str | None = options.option("Where to write a repaired calibrator if there is an alarm."),
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Add a batch to the monitor of a calibrator; exit code 3 is an alarm, 0 is none.

    With labels it looks for evidence that the calibrated probabilities are wrong. Without labels it shows the accuracy
    and losses they imply and, if --reference was given with the first batch, whether predictions drifted. A batch that
    was added before is not counted again.
    """
    from calibrant.files.tables.writers import check_output
    from calibrant.workflows.deploying import watch as add_batches
    from calibrant.workflows.loading import load_calibrator
    from calibrant.workflows.rules_given import backtest_batches, given_scale, periods_by_grade

    _check_names(batch_id, period, table.date, replace)
    command = [] if on_alarm is None else _command(on_alarm)
    for flag, output in (("--state", state), ("--page", page), ("--metrics", metrics), ("--repair", repair)):
        if output == "-":
            raise CommandError(f"{flag} needs a file: standard output is for the findings")
        if output is not None:
            # Those of a batch replace those of the batch before; the state knows whether it wrote the calibrator.
            check_output(output, force=True)
    fitted = load_calibrator(calibrator)
    own = ", ".join(getattr(fitted, "segment_columns_", ()))
    if own and table.segments is not None:
        raise CommandError(f"the calibrator already has segments by {own}, which are watched; leave out --segments")
    scale = None if grades is None else given_scale(grades, fitted)
    table = find_questions(file, table, table.probs or list(getattr(fitted, "feature_names_in_", ())))
    rows = {field.name: getattr(table, field.name) for field in fields(options.RowOptions)}
    batches = read_batches(fitted, file, None if period is None else period.value, partly_labelled=True, **vars(table))
    batches = batches if period is not None else [(batch_id, batches[0][1])]
    done = add_batches(
        fitted,
        batches,
        state,
        alpha=alpha,
        tolerance=tolerance,
        reference=None if reference is None else read_for(fitted, reference, **rows),
        observed=observed,
        replace=replace,
        pages=_pages(page, metrics, Path(calibrator).name),
        propose=page is not None,
        repair=repair,
        force=force,
        on_wait=lambda message: typer.echo(f"Note: {message}", err=True),
    )
    graded = {} if scale is None else backtest_batches(fitted, scale, batches)
    for note in done.notes:
        typer.echo(f"Note: {note}", err=True)
    if as_json:
        by_grade = {name: {key: part.tolist() for key, part in one.to_dict().items()} for name, one in graded.items()}
        print_json({**_as_dict(done.monitor, done.repair), "grades": by_grade})
    else:
        typer.echo(f"{done.monitor.summary()}\n\n{aligned(done.monitor.batch_table())}")
        if graded:
            typer.echo(f"\n{aligned(periods_by_grade(graded))}")
        if done.repair is not None:
            typer.echo(f"{done.repair}{'' if repair is None else f' Calibrator: {repair}'}")
    if done.raised and command:
        _run(command, done.monitor, calibrator, state)
    if done.monitor.alarm_:
        raise typer.Exit(ALARM)


def _check_names(batch_id: str | None, period: Period | None, date: str | None, replace: bool) -> None:
    if (period is None) != (date is None):
        raise CommandError("--period and --date belong together, as in --period month --date day")
    if batch_id is not None and (period is not None or not batch_id.strip()):
        raise CommandError("--batch-id is a name such as 2026-03; with --period, batches are named after their period")
    if replace and batch_id is None and period is None:
        raise CommandError("--replace needs the name of the batch: give --batch-id, or --period with --date")


def _command(text: str) -> list[str]:
    """The words of a command that can be run."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CommandError(f"--on-alarm {text!r} is not a command: {error}") from error
    if not words or shutil.which(words[0]) is None:
        raise CommandError(f"--on-alarm: there is no program {words[0] if words else ''!r}")
    return words


def _pages(page: str | None, metrics: str | None, name: str) -> dict[str, Callable[[Any, Any], str]]:
    """Files to write about the monitor, each with what makes its text."""
    pages: dict[str, Callable[[Any, Any], str]] = {}
    if page is not None:
        from calibrant.report.watching import render

        pages[page] = lambda monitor, repair: render(monitor, name, repair)
    if metrics is not None:
        from calibrant.deployment.monitoring.exposition import prometheus_text

        pages[metrics] = lambda monitor, repair: prometheus_text(monitor, name)
    return pages


def _run(command: list[str], monitor: Any, calibrator: str, state: str) -> None:
    """Run the command of an alarm, which finds the facts in its environment; the alarm stands if it fails."""
    change = monitor.change_
    facts = {
        "CALIBRATOR": calibrator,
        "STATE": state,
        "TEXT": str(change),
        "KIND": change.kind,
        "CLASS": "" if change.label is None else change.label,
        "SEGMENT": change.segment or "",
        "SINCE": change.began,
        "SINCE_ROW": change.since,
        "ROWS": monitor.rows_,
        "LOG_EVIDENCE": monitor.log_evidence_,
    }
    # The name of a file or a class may hold what an environment cannot: a zero character.
    known = {f"CALIBRANT_ALARM_{name}": str(fact).replace("\0", "") for name, fact in facts.items()}
    try:
        code: object = subprocess.run(command, env={**os.environ, **known}, check=False).returncode
    except OSError as error:
        code = error
    if code:
        typer.echo(f"Warning: the command of --on-alarm failed: {code}", err=True)


def _as_dict(monitor: Any, repaired: Any) -> dict[str, object]:
    change = monitor.change_
    described = ("kind", "label", "segment", "since", "began", "rows", "predicted")
    return {
        "alarm": monitor.alarm_,
        "labelled_rows": monitor.rows_,
        "missing_periods": monitor.history_.missing(),
        "batches": [vars(record) for record in monitor.history_.records],
        "log_evidence": monitor.log_evidence_,
        "evidence": monitor.evidence_,
        "change": None
        if change is None
        else {
            **{name: getattr(change, name) for name in described},
            "observed": [change.observed.value, change.observed.low, change.observed.high],
            "text": str(change),
        },
        "repair": None if repaired is None else {"kind": repaired.kind, "gain": repaired.gain, "text": str(repaired)},
        "expected": {name: [e.value, e.low, e.high] for name, e in monitor.performance_.items()},
        "drift": None if monitor.drift_ is None else {"found": monitor.drift_.found, "p_value": monitor.drift_.p_value},
    }
