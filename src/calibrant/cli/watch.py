"""`calibrant watch`: is a calibrator in use still right?"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from calibrant.cli import options
from calibrant.cli.mistakes import CommandError
from calibrant.cli.printing import print_json
from calibrant.cli.reading import read_for

app = typer.Typer(rich_markup_mode=None)

#: The exit code that tells an alarm from an error.
ALARM = 3


@dataclass(frozen=True)
class WatchOptions(options.WeighedOptions):
    """Options of a batch, whose labels may be unknown."""

    label: Annotated[
        str | None, typer.Option("--label", "-y", help="Column of the true labels; leave out if they are unknown.")
    ] = None


@options.command(app)
def watch(
    calibrator: options.Calibrator,
    file: options.Input,
    state: Annotated[str, typer.Option("--state", help="JSON file of the monitor: read if it exists, and written.")],
    table: WatchOptions,
    observed: Annotated[
        bool, typer.Option("--observed", help="The rows were watched before without labels, which came late.")
    ] = False,
    alpha: Annotated[
        float | None, typer.Option("--alpha", help="Probability of ever raising a false alarm; default 0.01.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option("--tolerance", help="Errors of log-odds that are tolerated; default 0.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option("--reference", help="File of predictions from the time of calibration, for drift.")
    ] = None,
    page: Annotated[
        str | None, typer.Option("--page", help="HTML page to write, with the history as pictures.")
    ] = None,
    repair: Annotated[
        str | None, typer.Option("--repair", help="Where to write a repaired calibrator if there is an alarm.")
    ] = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Add a batch to the monitor of a calibrator; exit code 3 is an alarm, 0 is none.

    With labels it looks for evidence that the calibrated probabilities are wrong. Without, it says which accuracy and
    losses they imply, and, with --reference at the first batch, whether predictions drifted.
    """
    from calibrant.files.tables.writers import check_output
    from calibrant.report.watching import render
    from calibrant.workflows.applying import load_calibrator
    from calibrant.workflows.deploying import watch as add_batch

    for flag, output in (("--state", state), ("--page", page), ("--repair", repair)):
        if output == "-":
            raise CommandError(f"{flag} needs a file: standard output is for the findings")
        if output is not None:
            # State and page of a batch replace those of the batch before.
            check_output(output, force=force or flag != "--repair")
    fitted = load_calibrator(calibrator)
    own = ", ".join(getattr(fitted, "segment_columns_", ()))
    if own and table.segments is not None:
        raise CommandError(f"the calibrator has segments by {own}, which are watched already; leave out --segments")
    rows = {field.name: getattr(table, field.name) for field in fields(options.RowOptions)}
    monitor, repaired = add_batch(
        fitted,
        read_for(fitted, file, **vars(table)),
        state,
        alpha=alpha,
        tolerance=tolerance,
        reference=None if reference is None else read_for(fitted, reference, **rows),
        observed=observed,
        page=page,
        render=lambda found, repair: render(found, Path(calibrator).name, repair),
        repair=repair,
        force=force,
        on_wait=lambda message: typer.echo(f"Note: {message}", err=True),
    )
    if as_json:
        print_json(_as_dict(monitor, repaired))
    else:
        typer.echo(monitor.summary())
        if repaired is not None:
            typer.echo(f"{repaired}{'' if repair is None else f' Calibrator: {repair}'}")
    if monitor.alarm_:
        raise typer.Exit(ALARM)


def _as_dict(monitor: Any, repaired: Any) -> dict[str, Any]:
    change = monitor.change_
    described = ("kind", "label", "segment", "since", "rows", "predicted")
    return {
        "alarm": monitor.alarm_,
        "labelled_rows": monitor.rows_,
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
