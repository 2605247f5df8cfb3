"""`calibrant fit`: learn a calibrator from predictions with labels and store it as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from calibrant.cli import options
from calibrant.cli.labels import fit_labels
from calibrant.cli.mistakes import CommandError, asked
from calibrant.cli.printing import Output, class_columns
from calibrant.cli.reading import find_answers, reading


@dataclass(frozen=True)
class FitOptions(options.LabelledOptions):
    """Options of a labelled file, where segments are corrected instead of judged."""

    segments: str | None = options.option("Columns of segments to correct the calibrator for, as in region,device.")
    date: str | None = options.option("Column of dates: the first and the last go into the audit record.")
    scores: bool = options.flag("The columns hold scores of any scale, such as credit scores or distances.")


class Direction(StrEnum):
    """Which way scores point."""

    found = "found"
    rising = "rising"
    falling = "falling"


def _input(table: FitOptions, direction: Direction) -> str:
    """What the predictions are, as a calibrator is told."""
    if table.scores and table.logits:
        raise CommandError("--scores and --logits contradict each other: give one of them")
    if direction is not Direction.found:
        if not table.scores:
            raise CommandError("--direction applies to scores only: give --scores, too")
        return f"{direction.value}-scores"
    return "scores" if table.scores else "logits" if table.logits else "probabilities"


@options.command()
def fit(
    *,
    file: options.Input,
    out: Output,
    table: FitOptions,
    method: str | None = options.method("Calibration method. Default: auto."),
    parameter: list[str] | None = options.option(
        "Parameter of the method, as in name=value; may be repeated.", "--set"
    ),
    memory: float = options.option("Memory in MiB for rows of a large file.", default=512, min=1),
    direction: Direction = options.option(
        "Whether high scores make a class more likely (rising) or less likely (falling).", default=Direction.found
    ),
    intervals: bool = options.flag("Learn how uncertain the probabilities are, for `apply --interval`."),
    cost: options.Cost = None,
    positive: options.Positive = None,
    multilabel: options.Multilabel = False,
) -> None:
    """Learn a calibrator from predictions with labels, and store it as JSON.

    Files of any size are read in batches. Methods that need only sums over rows take all of them in a few passes; the
    others take a uniform sample, as many rows as the memory allows. With --segments the calibrator is corrected in each
    segment as far as the data support it, and `calibrant apply` reads the same columns. With --group-by rows of one
    group stay together in cross-validation. With --votes a row counts once for each class, with its votes as weights.
    With --scores the direction and the scale of the numbers are found from the labels. With --cost a decision rule is
    stored with the calibrator, for `calibrant decide` and `calibrant export`. With --multilabel each column is a label,
    any number of labels may be true, and each is calibrated with the help of the others.

    Answers of a language model need no --label: log-probabilities of options are calibrated by temperature,
    position and length; with --method, only the confidence in the chosen answer is calibrated.

    The rows must not be those the model was trained on. `calibrant methods` lists the methods.
    """
    from calibrant.workflows import fitting
    from calibrant.workflows.answering import fit_answers
    from calibrant.workflows.rules_given import rule_of

    out.check("calibrator")
    if multilabel:
        others = {"--method": method, "--set": parameter, "--intervals": intervals, "--cost": cost}
        others["--positive"] = positive
        return fit_labels(file, out, table, others)
    table, answers = find_answers(file, table)
    if answers is not None:
        if cost is not None or intervals:
            raise CommandError("--cost and --intervals do not work for questions with options: leave them out")
        with asked():
            made = None if method is None else fitting.make_calibrator(method, parameter or ())[0]
        fitted = fit_answers(answers, made)
        out.store(fitted)
        lines = fitted.summary().splitlines()
        values = {"rows": answers.sample.n_rows, "summary": lines}
        return out.tell(values, [f"{out.output}: fitted to {answers.sample.size}", *lines])
    columns = options.split_names(table.segments)
    if columns is not None and (not columns or table.label in columns):
        raise CommandError("--segments names columns other than the label, as in --segments region,device")
    with asked():
        calibrator, name = fitting.make_calibrator(
            method or "auto", parameter or (), input=_input(table, direction), renormalize=table.renormalize
        )
    with reading(file, positive=positive, **vars(table)) as reader:
        done = fitting.fit(calibrator, reader, memory, intervals=intervals)
    if cost is not None:
        done.calibrator.set_rule(rule_of(done.calibrator, cost, positive))
    out.store(done.calibrator)
    values = {
        "method": name,
        **done.counts,
        "rows_skipped": reader.skipped.count,
        "classes": done.classes,
        "columns": done.columns,
        "seconds": done.seconds,
        "summary": done.calibrator.summary().splitlines(),
    }
    out.tell(values, _lines(out.output, name, done))


def _lines(output: str, name: str, done: Any) -> Iterator[str]:
    """What was fitted to how much, and what to know before the calibrator is used."""
    from calibrant.report.advice import FEWEST_OF_CLASS, FEWEST_ROWS
    from calibrant.workflows.stored_map import serving_cost

    used = f"{done.calibrator.fitted_to_} and {len(done.classes)} classes"
    yield f"{output}: {name} fitted to {used} in {done.seconds:.2g} s"
    if done.counts["rows_used"] < done.counts["rows"]:
        yield (
            f"These are a uniform sample of {done.counts['rows']:,} rows, because {name} needs its rows in memory. "
            "Raise --memory for a larger sample; `calibrant methods` shows which methods use all rows."
        )
    yield class_columns(done.columns, done.classes)
    yield done.calibrator.summary()
    if cost_of_row := serving_cost(output):
        yield f"Size: {cost_of_row}"
    if hasattr(done.calibrator, "rule_"):
        yield done.calibrator.rule_.describe()
    if "refits" in getattr(done.calibrator, "uncertainty_", {}):
        yield (
            f"Note: intervals of {name} come from fits to resamples and are too narrow with few rows; those "
            "of logistic methods, such as sms and affine, keep their level better."
        )
    counts = done.calibrator.class_counts_
    if counts.sum() < FEWEST_ROWS or counts.sum() - counts.max() < FEWEST_OF_CLASS:
        few = "too little data" if (counts > 0).sum() > 1 else "only one class is present, which is too little"
        yield f"Note: {few} to tell whether this helps; `calibrant report` estimates how much is enough."
