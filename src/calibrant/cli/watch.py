"""`calibrant watch`: is a calibrator in use still right?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from calibrant.cli import options
from calibrant.cli.mistakes import CommandError, asked, explained
from calibrant.cli.printing import print_json
from calibrant.cli.reading import read_for

app = typer.Typer(rich_markup_mode=None)

#: The exit code that tells an alarm from an error.
ALARM = 3


@app.command()
def watch(
    calibrator: options.Calibrator,
    file: options.Input,
    state: Annotated[str, typer.Option("--state", help="JSON file of the monitor: read if it exists, and written.")],
    label: Annotated[
        str | None, typer.Option("--label", "-y", help="Column of the true labels; leave out if they are unknown.")
    ] = None,
    weight: options.Weight = None,
    segments: options.Segments = None,
    group_by: options.GroupBy = None,
    blocks: options.Blocks = None,
    observed: Annotated[
        bool, typer.Option("--observed", help="The rows were watched before without labels, which came late.")
    ] = False,
    alpha: Annotated[
        float | None, typer.Option("--alpha", help="Probability of ever raising a false alarm; default 0.01.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option("--tolerance", help="Errors of log-odds that are forgiven; default 0.")
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
    probs: options.Probs = None,
    decimal: options.Decimal = None,
    on_error: options.OnErrorOption = options.OnError.stop,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Add a batch to the monitor of a calibrator; exit code 3 is an alarm, 0 is none.

    With labels it looks for evidence that the calibrated probabilities are wrong. Without, it says which accuracy and
    losses they imply, and, with --reference at the first batch, whether predictions drifted.
    """
    with explained():
        from calibrant.deployment import CalibrationMonitor
        from calibrant.files.locking import locked
        from calibrant.files.stored.application import load_calibrator
        from calibrant.files.stored.monitoring import load_monitor, save_monitor
        from calibrant.files.tables.writers import atomic_output, check_output
        from calibrant.report.fitting import store
        from calibrant.report.watching import render

        for flag, output in (("--state", state), ("--page", page), ("--repair", repair)):
            if output == "-":
                raise CommandError(f"{flag} needs a file: standard output is for the findings")
            if output is not None:
                # State and page of a batch replace those of the batch before.
                check_output(output, force=force or flag != "--repair")
        fitted = load_calibrator(calibrator)
        own = ", ".join(getattr(fitted, "segment_columns_", ()))
        if own and segments is not None:
            raise CommandError(f"the calibrator has segments by {own}, which are watched: leave out --segments")
        read = partial(read_for, fitted, probs=probs, decimal=decimal, on_error=on_error)
        batch = read(file, label, weight, segments, group_by=group_by, blocks=blocks)
        # Another process with this state waits until this batch is in it.
        with locked(state, on_wait=lambda message: typer.echo(f"Note: {message}", err=True)):
            if Path(state).exists():
                if any(given is not None for given in (alpha, tolerance, reference)):
                    began = "the --alpha, --tolerance and --reference it began with"
                    raise CommandError(f"{state} goes on with {began}: leave these options out")
                monitor = load_monitor(state, fitted)
            else:
                then = None if reference is None else read(reference)
                with asked():
                    monitor = CalibrationMonitor(
                        fitted,
                        0.01 if alpha is None else alpha,
                        0.0 if tolerance is None else tolerance,
                        None if then is None else (then.values, then.segments),
                    )
            if batch.labels is None:
                monitor.observe(batch.values, batch.segments)
            else:
                more = {"sample_weight": batch.weight, "groups": batch.groups}
                given = {name: value for name, value in more.items() if value is not None}
                monitor.update(batch.values, batch.labels, batch.segments, observed=observed, **given)
            repaired = monitor.repair() if page is not None or repair is not None else None
            if page is not None:
                with atomic_output(page, force=True) as stream:
                    stream.write(render(monitor, Path(calibrator).name, repaired).encode())
            if repair is not None and repaired is not None:
                store(repaired.calibrator, repair, force=force)
            save_monitor(monitor, state)
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
    return {
        "alarm": monitor.alarm_,
        "labelled_rows": monitor.rows_,
        "log_evidence": monitor.log_evidence_,
        "evidence": monitor.evidence_,
        "change": None
        if change is None
        else {
            "kind": change.kind,
            "label": change.label,
            "segment": change.segment,
            "since": change.since,
            "rows": change.rows,
            "predicted": change.predicted,
            "observed": [change.observed.value, change.observed.low, change.observed.high],
            "text": str(change),
        },
        "repair": None if repaired is None else {"kind": repaired.kind, "gain": repaired.gain, "text": str(repaired)},
        "expected": {name: [e.value, e.low, e.high] for name, e in monitor.performance_.items()},
        "drift": None if monitor.drift_ is None else {"found": monitor.drift_.found, "p_value": monitor.drift_.p_value},
    }
