"""A stored calibrator in use: watched batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from calibrant.deployment import CalibrationMonitor
from calibrant.deployment.monitoring.findings import Repair
from calibrant.deployment.monitoring.history import BatchSeenError
from calibrant.deployment.monitoring.periods import in_words
from calibrant.files.locking import locked
from calibrant.files.stored.persistence import load_monitor, save_monitor
from calibrant.files.tables.row_checks import TableRows
from calibrant.files.tables.writers import atomic_output, check_output
from calibrant.inputs.words import RequestError
from calibrant.steps.map_documents import checksum
from calibrant.text_table import list_names
from calibrant.workflows.fitting import store


@dataclass(frozen=True)
class Watched:
    """A monitor after batches were added, the repair if one was asked for, whether the alarm is new, and notes."""

    monitor: CalibrationMonitor
    repair: Repair | None
    raised: bool
    notes: tuple[str, ...]


def watch(
    calibrator: object,
    batches: Sequence[tuple[str | None, TableRows]],
    state: str | Path,
    *,
    alpha: float | None = None,
    tolerance: float | None = None,
    reference: TableRows | None = None,
    observed: bool = False,
    replace: bool = False,
    pages: Mapping[str, Callable[[CalibrationMonitor, Repair | None], str]] = MappingProxyType({}),
    propose: bool = False,
    repair: str | Path | None = None,
    force: bool = False,
    on_wait: Callable[[str], None] = lambda message: None,
) -> Watched:
    """Add batches to the monitor in the file `state`; another process with this state waits until they are in it.

    A batch that was added before with the same rows is left out. The state is written last: if a page or the repaired
    calibrator cannot be written, the batches can be given again.

    A batch without a name is named by a checksum of its rows. `alpha`, `tolerance` and `reference` are those of a new
    monitor. With `observed` the rows were watched before without labels; with `replace` a batch of the same name is
    replaced, and later ones are taken out with it. `pages` are files to write about the monitor, each with what makes
    its text; to `propose` is to look for a repair for them, which takes a fit. A file at `repair` is replaced if it was
    written with this state before, others with `force` only.
    """
    with locked(state, on_wait=on_wait):
        if not Path(state).exists():
            monitor = _started(calibrator, alpha, tolerance, reference)
        elif any(given is not None for given in (alpha, tolerance, reference)):
            raise RequestError(f"{state} keeps the alpha, tolerance and reference it began with", "began")
        else:
            monitor = load_monitor(state, calibrator)
        if repair is not None:
            force = force or _is_own(monitor, Path(repair))
            check_output(repair, force=force)
        before = monitor.alarm_
        notes = _add(monitor, batches, observed=observed, replace=replace)
        repaired = monitor.repair() if propose or repair is not None else None
        for page, render in pages.items():
            with atomic_output(page, force=True) as stream:
                stream.write(render(monitor, repaired).encode())
        if repair is not None and repaired is not None:
            store(repaired.calibrator, repair, force=force)
            monitor.repaired_ = checksum(Path(repair).read_text(encoding="utf-8"))
        save_monitor(monitor, state)
    return Watched(monitor, repaired, monitor.alarm_ and not before, tuple(notes))


def _is_own(monitor: CalibrationMonitor, path: Path) -> bool:
    """Whether a file is the repaired calibrator that was written with this monitor, and nobody has changed it since."""
    try:
        return monitor.repaired_ is not None and checksum(path.read_text(encoding="utf-8")) == monitor.repaired_
    except (OSError, UnicodeDecodeError):
        return False


def _add(
    monitor: CalibrationMonitor, batches: Sequence[tuple[str | None, TableRows]], *, observed: bool, replace: bool
) -> list[str]:
    """Add batches, each once; what there is to say of those that were added before."""
    again: list[str] = []
    replaced: list[str] = []
    taken_out: list[str] = []
    for name, rows in batches:
        try:
            _give(monitor, name, rows, observed=observed)
        except BatchSeenError as error:
            if error.same_rows:
                again.append(error.name)
                continue
            if not error.known:
                raise RequestError(str(error)) from error
            if not replace:
                raise RequestError(str(error), "replace") from error
            try:
                taken_out += monitor.rewind(error.name)
            except ValueError as too_late:
                raise RequestError(str(too_late)) from too_late
            _give(monitor, name, rows, observed=False)
            replaced.append(error.name)
        if name in taken_out:
            taken_out.remove(name)
    words = {
        "already added with the same rows, not counted again": again,
        "replaced": replaced,
        "removed, because evidence depends on the order of batches; add again": taken_out,
    }
    return [f"{what}: {list_names(dict.fromkeys(names), 6, in_words)}" for what, names in words.items() if names]


def _give(monitor: CalibrationMonitor, name: str | None, rows: TableRows, *, observed: bool) -> None:
    given: dict[str, object] = {"sample_weight": rows.weight, "groups": rows.groups, "batch": name or True}
    if rows.labels is None:
        monitor.observe(rows.values, rows.segments, **given)
    else:
        monitor.update(rows.values, rows.labels, rows.segments, observed=observed, **given)


def _started(
    calibrator: object, alpha: float | None, tolerance: float | None, reference: TableRows | None
) -> CalibrationMonitor:
    then = None if reference is None else (reference.values, reference.segments)
    given = {"alpha": alpha, "tolerance": tolerance, "reference": then}
    try:
        return CalibrationMonitor(calibrator, **{name: value for name, value in given.items() if value is not None})
    except (ValueError, TypeError) as error:
        raise RequestError(str(error)) from error
