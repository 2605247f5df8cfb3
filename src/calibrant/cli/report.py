"""`calibrant report`: from a file of predictions to one HTML page that tells whether they are calibrated."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant.cli import options
from calibrant.cli.labels import report_labels
from calibrant.cli.mistakes import CommandError, asked
from calibrant.cli.printing import Output, class_columns
from calibrant.cli.reading import find_answers, progress_over, reading
from calibrant.numerals import signed
from calibrant.progress import ProgressBar
from calibrant.text_table import list_names
from calibrant.typing import Label

if TYPE_CHECKING:
    from calibrant.report.data import Report


@options.command()
def report(
    *,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="One file of predictions, or several to show side by side.")
    ],
    out: Output,
    given: options.LabelledOptions,
    methods: str | None = options.option("Methods to compare, as in ts,sms,isotonic."),
    method: str | None = options.method("Method to recommend; default: the best."),
    cost: options.Cost = None,
    positive: options.Positive = None,
    log_odds: bool = options.flag("Show diagrams without bins on log-odds axes."),
    title: str | None = options.option("Title of the page. Default: the file's name."),
    grades: options.Grades = None,
    level: options.Level = 0.95,
    multilabel: options.Multilabel = False,
) -> None:
    """Is it calibrated? What would each method gain? One HTML page answers.

    Metrics with intervals before and after cross-validated calibration, reliability diagrams, what calibration can
    improve, methods compared, classes and segments one by one, and the command to run next. Two or more files (models,
    periods) of the same classes are shown side by side. Answers of a language model need no --label; the page then
    shows whether their confidence can be trusted, below which confidence to abstain, and how many labels that took.
    With --cost fp=1,fn=20 it also says how many decisions calibration changes, and what it saves. With --multilabel
    each column is a label, any number of labels may be true, and labels are shown one by one, worst first.
    """
    from calibrant.calibrators.registry import get_calibrator
    from calibrant.report.analysis import analyse
    from calibrant.report.comparison import default_methods
    from calibrant.report.data import Source
    from calibrant.report.page import render
    from calibrant.report.report_tables import check_rule
    from calibrant.workflows.answering import chosen_answers, judge
    from calibrant.workflows.evaluating import ReportRows, read_for_report
    from calibrant.workflows.rules_given import rule_of, scale_of

    out.check("page")
    if multilabel:
        others = {"--methods": methods, "--method": method, "--grades": grades, "--cost": cost, "--positive": positive}
        others["a second file"] = files[1] if len(files) > 1 else None
        return report_labels(files[0], out, given, others, title, level)
    wanted = options.split_names(methods)
    with asked():
        for known in [*(wanted or []), *([method] if method else [])]:
            get_calibrator(known)
    if title is not None and len(files) > 1:
        raise CommandError("--title is for a page of one file; several files are shown under their own names")
    scale = None if grades is None else scale_of(grades)
    found: list[Report] = []
    classes: tuple[Label, ...] = ()
    for file in files:
        table, answers = find_answers(file, given)
        skipped = 0
        if answers is not None:
            rows = ReportRows(chosen_answers(answers), None, None, (), ("wrong", "right"))
        else:
            with reading(file, positive=positive, **vars(table)) as reader:
                reader.beside = classes
                rows = read_for_report(reader, level, progress_over(reader.table, "read"))
            skipped = reader.skipped.count
        classes = tuple(rows.classes)
        if scale is not None and len(classes) != 2:
            raise CommandError(f"--grades needs two classes, and {file} has {len(classes)}; leave it out")
        if rows.whole is not None:
            typer.echo(
                f"Note: fits, tests and curves use a uniform sample, {rows.data.size} of {rows.whole.size}; metrics "
                "before calibration, classes and segments use all rows",
                err=True,
            )
        if found and tuple(map(str, rows.classes)) != found[0].classes:
            raise CommandError(
                f"{files[0]} has the classes {list_names(found[0].classes, write=str)}, {file} has "
                f"{list_names(rows.classes, write=str)}: files shown side by side need the same classes, and a single "
                "column must be of the same class. Make a separate report of each file"
            )
        known_classes = SimpleNamespace(classes_=rows.classes, n_features_in_=len(rows.columns))
        with asked():
            rule = None if cost is None else rule_of(known_classes, cost, positive)
            if rule is not None:
                check_rule(rule, rows.classes)
        check = _words(table, "label", "votes", "classes", "weight", "probs", "group_by", "blocks")
        check += options.as_words({"positive": positive})
        words = [file, *check, *_words(table, "logits", "renormalize", "decimal")]
        words += ["--on-error", "skip"] * (skipped > 0)
        more = {"segments": table.segments, "cost": cost, "grades": grades, "log_odds": log_odds}
        command = shlex.join(["calibrant", "report", *words, *options.as_words(more), "-o", out.output])
        name = title or ("standard input" if file == "-" else Path(file).name)
        total = len(wanted or default_methods(rows.data.n_classes)) + 2
        with ProgressBar(total, "report") as bar:
            found.append(
                analyse(
                    rows.data,
                    rows.classes,
                    Source(name, tuple(words), command, skipped, check=tuple(check)),
                    segments=rows.segments,
                    segment_name=table.segments or "",
                    methods=wanted,
                    method=method,
                    level=level,
                    progress=partial(_advance, bar, iter(range(total + 1)), total),
                    whole=rows.whole,
                    grades=scale,
                    rule=rule,
                    log_odds=log_odds,
                )
            )
        if answers is not None or table.label != given.label:
            found[-1] = replace(found[-1], trust=judge(rows.data, level, found[-1].test_before.p_value))
    out.write(render(*found).encode())
    several = [contents.to_dict() for contents in found]
    lines = [*_lines(found), *([class_columns(rows.columns, rows.classes)] if rows.columns else [])]
    out.tell(several[0] if len(found) == 1 else {"reports": several}, [*lines, f"Report: {out.output}"])


def _lines(found: list[Report]) -> Iterator[str]:
    """The verdicts, and what differs between several files."""
    from calibrant.report.page import compared

    for contents in found:
        yield f"{f'{contents.source}: ' if len(found) > 1 else ''}{contents.verdict.headline}."
        yield from contents.verdict.sentences
        if contents.trust is not None:
            yield from contents.trust.sentences
        if len(found) > 1:
            yield ""  # what is said of one file must not be read as said of the next
    if len(found) > 1:
        apart = [f"{row.title} ({signed(row.difference.value)})" for row in compared(found) if row.apart]
        yield f"They differ, more than by chance, in: {', '.join(apart) or 'nothing'}."


def _advance(bar: ProgressBar, done: Iterator[int], total: int, name: str) -> None:
    bar.move(next(done, total), name)


def _words(table: options.LabelledOptions, *names: str) -> list[str]:
    """The options of these names as they were given, as words of a command."""
    return options.as_words({name: getattr(table, name) for name in names})
