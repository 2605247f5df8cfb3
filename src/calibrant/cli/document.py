"""`calibrant document`: from a stored calibrator and rows with labels to the document that a validator asks for."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from calibrant.cli import options
from calibrant.cli.mistakes import CommandError, asked
from calibrant.cli.printing import Output
from calibrant.cli.reading import read_for


@dataclass(frozen=True)
class DocumentOutput(Output):
    """A file whose name tells the format."""

    output: str = options.option("File to write: .html, .md or .docx.", "--output", "-o", default=...)


@options.command()
def document(
    *,
    calibrator: options.Calibrator,
    out: DocumentOutput,
    table: options.WeighedOptions,
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="Predictions with labels to validate on, other than those of the fit."),
    ] = None,
    grades: options.Grades = None,
    title: str | None = options.option("Title. Default: the calibrator's file name."),
    level: options.Level = 0.95,
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

    out.check("document")
    if (file is None) != (table.label is None):
        raise CommandError("FILE and --label belong together: the predictions to validate on, and their labels")
    with asked():
        document_format(out.output)
    if grades is not None and file is None:
        raise CommandError("--grades needs FILE, the rows to grade")
    fitted = load_calibrator(calibrator)
    if grades is not None and len(fitted.classes_) > 2:
        raise CommandError(f"--grades needs two classes; this calibrator has {len(fitted.classes_)}")
    names = [Path(word).name for word in (calibrator, *([file] if file else []))]
    asked_for = {name: getattr(table, name) for name in ("label", "probs", "segments", "weight")}
    asked_for |= {"grades": grades and Path(grades).name, "group_by": table.group_by, "blocks": table.blocks}
    words = options.as_words({**asked_for, "title": title, "level": level})
    command = shlex.join(["calibrant", "document", *names, *words, "-o", Path(out.output).name])
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
    found.save(out.output, force=out.force)
    out.tell({"short": found.short}, [*found.short, f"Document: {out.output}"])
