"""A stored calibrator in use: adapted to new class frequencies, and watched batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from calibrant.deployment import CalibrationMonitor
from calibrant.deployment import adapt as adapt_calibrator
from calibrant.deployment.monitoring.findings import Repair
from calibrant.files.locking import locked
from calibrant.files.stored.stored_monitors import load_monitor, save_monitor
from calibrant.files.tables.table_rows import HeldRows
from calibrant.files.tables.writers import atomic_output
from calibrant.inputs.words import RequestError
from calibrant.workflows.fitting import store


def adapt(
    calibrator: Any,
    *,
    prior: Any = None,
    unlabelled: HeldRows | None = None,
    method: str = "em",
    labelled: HeldRows | None = None,
    source: Any = None,
) -> Any:
    """A calibrator for new class frequencies, given or estimated from files: see `calibrant.deployment.adapt`."""
    try:
        return adapt_calibrator(
            calibrator,
            prior=prior,
            unlabelled=None if unlabelled is None else unlabelled.values,
            method=method,
            labelled=None if labelled is None else (labelled.values, labelled.labels, labelled.segments),
            segments=None if unlabelled is None else unlabelled.segments,
            source=source,
        )
    except (ValueError, TypeError) as error:
        raise RequestError(str(error)) from error


def watch(
    calibrator: Any,
    batch: HeldRows,
    state: str | Path,
    *,
    alpha: float | None = None,
    tolerance: float | None = None,
    reference: HeldRows | None = None,
    observed: bool = False,
    page: str | Path | None = None,
    render: Callable[[CalibrationMonitor, Repair | None], str] | None = None,
    repair: str | Path | None = None,
    force: bool = False,
    on_wait: Callable[[str], None] = lambda message: None,
) -> tuple[CalibrationMonitor, Repair | None]:
    """Add a batch to the monitor in the file `state`; another process with this state waits until it is in it.

    The state is written last: if the page or the repaired calibrator cannot be written, the batch can be given again.

    Parameters
    ----------
    calibrator : fitted calibrator
    batch : HeldRows
        With labels, if they are known.
    state : path
        JSON file of the monitor, made if there is none.
    alpha, tolerance, reference : optional
        Of a new monitor (see `calibrant.CalibrationMonitor`); refused if there is a state, which goes on with its own.
    observed : bool, default=False
        The rows were watched before without labels.
    page, render : path and callable, optional
        HTML page to write, and what makes its text.
    repair : path, optional
        Where to store a repaired calibrator if there is an alarm.
    force : bool, default=False
        Replace a repaired calibrator that is there already.
    on_wait : callable, optional
        Is told why there is a wait.
    """
    with locked(state, on_wait=on_wait):
        if not Path(state).exists():
            monitor = _started(calibrator, alpha, tolerance, reference)
        elif any(given is not None for given in (alpha, tolerance, reference)):
            raise RequestError(f"{state} goes on with the alpha, tolerance and reference it began with", "began")
        else:
            monitor = load_monitor(state, calibrator)
        if batch.labels is None:
            monitor.observe(batch.values, batch.segments)
        else:
            more: dict[str, Any] = {"sample_weight": batch.weight, "groups": batch.groups}
            more = {name: value for name, value in more.items() if value is not None}
            monitor.update(batch.values, batch.labels, batch.segments, observed=observed, **more)
        repaired = None if page is None and repair is None else monitor.repair()
        if page is not None and render is not None:
            with atomic_output(page, force=True) as stream:
                stream.write(render(monitor, repaired).encode())
        if repair is not None and repaired is not None:
            store(repaired.calibrator, repair, force=force)
        save_monitor(monitor, state)
    return monitor, repaired


def _started(
    calibrator: Any, alpha: float | None, tolerance: float | None, reference: HeldRows | None
) -> CalibrationMonitor:
    then = None if reference is None else (reference.values, reference.segments)
    given = {"alpha": alpha, "tolerance": tolerance, "reference": then}
    try:
        return CalibrationMonitor(calibrator, **{name: value for name, value in given.items() if value is not None})
    except (ValueError, TypeError) as error:
        raise RequestError(str(error)) from error
