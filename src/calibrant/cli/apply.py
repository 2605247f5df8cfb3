"""`calibrant apply`: new predictions through a stored calibrator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant.cli import options
from calibrant.cli.labels import apply_to_labels
from calibrant.cli.mistakes import asked
from calibrant.cli.printing import Output, class_columns
from calibrant.cli.reading import progress_over, reading, reading_rules
from calibrant.numerals import amount

if TYPE_CHECKING:
    from calibrant.workflows.applying import Applied


@options.command()
def apply(
    *,
    calibrator: options.Calibrator,
    file: options.Input,
    out: Output,
    table: options.RowOptions,
    suffix: str = options.option("Keep the columns and add calibrated ones with this suffix, as in _cal.", default=""),
    interval: float | None = options.option(
        "Add intervals of the probabilities with this level, as in 0.9 (_low, _high)."
    ),
    renormalize: options.Renormalize = False,
) -> None:
    """Replace the probabilities in a file by calibrated ones.

    All other columns pass through unchanged, in their order. Files of any size are handled in chunks; the output
    appears when it is complete. Rows skipped by --on-error skip are not in it. --interval adds an interval of
    each probability, if the calibrator was fitted with `calibrant fit --intervals`.
    """
    from calibrant.files.tables.answer_files import holds_options
    from calibrant.workflows.stored_map import load_map

    out.check("calibrated rows")
    if not table.probs and ".jsonl" in file and holds_options(file):
        from calibrant.workflows.answering import apply_answers
        from calibrant.workflows.loading import load_calibrator

        skip = table.on_error is options.OnError.skip
        rows = apply_answers(load_calibrator(calibrator), file, out.output, suffix=suffix, force=out.force, skip=skip)
        return out.tell({"rows": rows}, [f"{out.output}: {amount(rows, 'answer')} calibrated"])
    fitted: Any = load_map(calibrator) if interval is None else None
    if fitted is None:  # intervals need more than the map
        from calibrant.confidence import check_level
        from calibrant.workflows.loading import check_intervals, load_calibrator

        with asked():
            interval = None if interval is None else check_level(interval)
        fitted = load_calibrator(calibrator, labels=True)
        if interval is not None:
            check_intervals(fitted)
    if getattr(fitted, "independent", False):
        return apply_to_labels(calibrator, file, out, table, suffix)
    done, values = write_rows(fitted, file, out, table, renormalize, suffix=suffix, level=interval)
    lines = [f"{out.output}: {amount(done.rows, 'row')} calibrated", class_columns(done.columns, done.classes)]
    out.tell({**values, "columns": dict(zip(done.columns, done.classes))}, lines)


def write_rows(
    fitted: Any, file: str, out: Output, table: options.RowOptions, renormalize: bool, **how: Any
) -> tuple[Applied, dict[str, Any]]:
    """Write a file with what a calibrator makes of its rows; what was done, and how many rows that were."""
    from calibrant.workflows import applying

    with reading(file, **vars(table), **reading_rules(fitted, renormalize=renormalize)) as reader:
        progress = progress_over(reader.table, "apply")
        done = applying.apply(fitted, reader, out.output, force=out.force, progress=progress, **how)
    return done, {"rows": done.rows, "rows_skipped": reader.skipped.count}
