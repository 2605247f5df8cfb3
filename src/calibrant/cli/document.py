"""`calibrant document`: from a stored calibrator and rows with labels to the document that a validator asks for."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from calibrant.cli import options
from calibrant.cli.mistakes import CommandError, asked
from calibrant.cli.printing import check_result, print_result
from calibrant.cli.reading import read_for

app = typer.Typer(rich_markup_mode=None)


@options.command(app)
def document(
    *,
    calibrator: options.Calibrator,
    output: str = options.output("File to write: .html, .md or .docx."),
    table: options.WeighedOptions,
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="Predictions with labels to validate on, other than those of the fit."),
    ] = None,
    grades: options.Grades = None,
    title: str | None = options.option("Title. Default: the calibrator's file name."),
    level: options.Level = 0.95,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write what a validator asks for about a calibrator: one HTML page, Markdown or Word file.

    The formula of the map with its numbers, certificate, fingerprints and the data of the fit; with FILE also metrics
    before and after with intervals, named tests, bands, segments and grades; limits of use, and how to repeat it. The
    same files give the same document, byte for byte.
    """
    from calibrant.report.document_formats import document_format
    from calibrant.report.validation_document import document as make_document
    from calibrant.workflows.loading import load_calibrator
    from calibrant.workflows.rules_given import scale_of

    check_result(output, "document", force=force, as_json=as_json)
    if (file is None) != (table.label is None):
        raise CommandError("FILE and --label belong together: the predictions to validate on, and their labels")
    with asked():
        document_format(output)
    if grades is not None and file is None:
        raise CommandError("--grades needs FILE, the rows to grade")
    fitted = load_calibrator(calibrator)
    if grades is not None and len(fitted.classes_) > 2:
        raise CommandError(f"--grades needs two classes; this calibrator has {len(fitted.classes_)}")
    words = [Path(word).name for word in (calibrator, *([file] if file else []))]
    asked_for: dict[str, Any] = {
        "label": table.label,
        "probs": ",".join(table.probs) if table.probs else None,
        "segments": table.segments,
        "weight": table.weight,
        "grades": grades and Path(grades).name,
        "group-by": table.group_by,
        "blocks": table.blocks,
        "title": title,
        "level": level,
    }
    words += [word for name, value in asked_for.items() if value is not None for word in (f"--{name}", str(value))]
    command = shlex.join(["calibrant", "document", *words, "-o", Path(output).name])
    given: dict[str, Any] = {"title": title or Path(calibrator).name, "level": level, "command": [command]}
    if file is not None:
        rows = read_for(fitted, file, **vars(table))
        own = table.segments is None or isinstance(rows.segments, dict)
        given |= {
            "y_true": rows.labels,
            "y_prob": rows.values,
            "sample_weight": rows.weight,
            "groups": rows.groups,
            "segments": rows.segments if own else {table.segments: rows.segments},
            "grades": None if grades is None else scale_of(grades),
        }
    found = make_document(fitted, **given)
    found.save(output, force=force)
    print_result({"output": output, "short": found.short}, [*found.short, f"Document: {output}"], as_json=as_json)
