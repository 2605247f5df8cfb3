"""`calibrant report`: from a file of predictions to one HTML page that tells whether they are calibrated."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli import options
from calibrant.cli.mistakes import CommandError, asked, explained
from calibrant.cli.printing import class_columns, print_json
from calibrant.cli.reading import reading
from calibrant.progress import ProgressBar

app = typer.Typer(rich_markup_mode=None)


@app.command()
def report(
    file: options.Input,
    label: options.Label,
    output: Annotated[str, typer.Option("--output", "-o", help="HTML file to write; - is standard output.")],
    probs: options.Probs = None,
    classes: options.Classes = None,
    weight: options.Weight = None,
    group: options.Group = None,
    logits: options.Logits = False,
    renormalize: options.Renormalize = False,
    decimal: options.Decimal = None,
    methods: Annotated[str | None, typer.Option("--methods", help="Methods to compare, as in ts,sms,isotonic.")] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method", "-m", help="Method to recommend; default: the best.", autocompletion=options.complete_method
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Title of the page. Default: the file's name.")] = None,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.", min=0.5, max=0.999)] = 0.95,
    on_error: options.OnErrorOption = options.OnError.stop,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Is it calibrated? What would each method gain? One HTML page answers.

    Metrics with intervals before and after cross-validated calibration, reliability diagrams, what calibration can
    improve, methods compared, classes and segments one by one, and the command to run next.
    """
    with explained():
        from calibrant.calibrators.registry import get_calibrator
        from calibrant.files.tables.rows import as_probabilities, read_all
        from calibrant.files.tables.writers import atomic_output, check_output
        from calibrant.report.analysis import Source, analyse
        from calibrant.report.comparison import default_methods
        from calibrant.report.evaluation import REPORT_CELLS, as_predictions
        from calibrant.report.page import render

        if as_json and output == "-":
            raise CommandError("--json and the page cannot share standard output; name an --output file")
        check_output(output, force=force)
        wanted = options.split_names(methods)
        with asked():
            for known in [*(wanted or []), *([method] if method else [])]:
                get_calibrator(known)
        with reading(file, label, weight, group, probs, classes, logits, renormalize, decimal, on_error) as reader:
            rows = read_all(reader, REPORT_CELLS)
        sampled_from = rows.n_usable if rows.n_usable > len(rows.codes) else 0
        if sampled_from:
            typer.echo(f"Note: the report is about a sample of {len(rows.codes):,} of {sampled_from:,} rows", err=True)
        data, segments = as_predictions(as_probabilities(rows.values, reader.layout), rows)
        words = [file, "--label", label, *_given("--classes", classes), *_given("--weight", weight)]
        words += [word for pattern in probs or () for word in ("--probs", pattern)]
        words += ["--logits"] * logits + ["--renormalize"] * renormalize + _given("--decimal", decimal)
        words += ["--on-error", "skip"] * (reader.skipped.count > 0)
        command = shlex.join(["calibrant", "report", *words, *_given("--group", group), "-o", output])
        name = title or ("standard input" if file == "-" else Path(file).name)
        source = Source(name, tuple(words), command, reader.skipped.count, sampled_from)
        total = len(wanted or default_methods(data.n_classes)) + 2
        with ProgressBar(total, "report") as bar:
            done = iter(range(total + 1))
            contents = analyse(
                data,
                rows.classes,
                source,
                group=segments,
                group_name=group or "",
                methods=wanted,
                method=method,
                level=level,
                progress=lambda name: bar.move(next(done, total), name),
            )
        with atomic_output(output, force=force) as stream:
            stream.write(render(contents).encode())
        if as_json:
            print_json({"output": output, **contents.to_dict()})
        elif output != "-":
            typer.echo(f"{contents.verdict.headline}.")
            typer.echo("\n".join(contents.verdict.sentences))
            typer.echo(class_columns(rows.columns, rows.classes))
            typer.echo(f"Report: {output}")


def _given(option: str, value: str | None) -> list[str]:
    return [] if value is None else [option, value]
