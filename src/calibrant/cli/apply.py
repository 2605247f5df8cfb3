"""`calibrant apply`: new predictions through a stored calibrator."""

from __future__ import annotations

from typing import Any

import typer

from calibrant.cli import options
from calibrant.cli.labels import apply_to_labels
from calibrant.cli.mistakes import asked
from calibrant.cli.printing import check_result, class_columns, print_result
from calibrant.cli.reading import progress_over, reading, reading_rules

app = typer.Typer(rich_markup_mode=None)


@options.command(app)
def apply(
    *,
    calibrator: options.Calibrator,
    file: options.Input,
    output: str = options.output(),
    table: options.RowOptions,
    suffix: str = options.option("Keep the columns and add calibrated ones with this suffix, as in _cal.", default=""),
    interval: float | None = options.option(
        "Add intervals of the probabilities with this level, as in 0.9 (_low, _high)."
    ),
    renormalize: options.Renormalize = False,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Replace the probabilities in a file by calibrated ones.

    All other columns pass through unchanged, in their order. Files of any size are handled in chunks; the output
    appears when it is complete. Rows skipped by --on-error skip are not in it. --interval adds an interval of
    each probability, if the calibrator was fitted with `calibrant fit --intervals`.
    """
    from calibrant.files.tables.answer_files import holds_options
    from calibrant.workflows import applying
    from calibrant.workflows.stored_map import load_map

    check_result(output, "calibrated rows", force=force, as_json=as_json)
    if not table.probs and ".jsonl" in file and holds_options(file):
        from calibrant.workflows.answering import apply_answers
        from calibrant.workflows.loading import load_calibrator

        skip = table.on_error is options.OnError.skip
        rows = apply_answers(load_calibrator(calibrator), file, output, suffix=suffix, force=force, skip=skip)
        print_result({"output": output, "rows": rows}, [f"{output}: {rows:,} answers calibrated"], as_json=as_json)
        return
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
        return apply_to_labels(calibrator, file, output, table, suffix=suffix, force=force, as_json=as_json)
    with reading(file, **vars(table), **reading_rules(fitted, renormalize=renormalize)) as reader:
        done = applying.apply(
            fitted,
            reader,
            output,
            suffix=suffix,
            level=interval,
            force=force,
            progress=progress_over(reader.table, "apply"),
        )
    values = {
        "output": output,
        "rows": done.rows,
        "rows_skipped": reader.skipped.count,
        "columns": dict(zip(done.columns, done.classes)),
    }
    lines = [f"{output}: {done.rows:,} rows calibrated", class_columns(done.columns, done.classes)]
    print_result(values, lines, as_json=as_json)
