"""`calibrant evaluate`: the metrics of a file of predictions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import typer

from calibrant.cli import options
from calibrant.cli.labels import evaluate_labels
from calibrant.cli.printing import class_columns, print_json
from calibrant.cli.reading import find_answers, progress_over, reading
from calibrant.numerals import p_text, span
from calibrant.text_table import aligned

if TYPE_CHECKING:
    from calibrant.inputs.answers import Answers
    from calibrant.metrics.result_types import Estimate
    from calibrant.workflows.evaluating import Evaluation


@options.command(kept="There is no result")
def evaluate(
    *,
    file: options.Input,
    table: options.LabelledOptions,
    ci: bool = options.flag("Add confidence intervals."),
    named: bool = options.flag("Show the tests and measures that validators ask for instead, with their meaning."),
    level: options.Level = 0.95,
    positive: str | None = options.option("The class that a single probability column of any name stands for."),
    multilabel: options.Multilabel = False,
    as_json: options.Json = False,
) -> None:
    """Metrics of a file of predictions with labels.

    Log loss, Brier score, accuracy, AUROC, mean over-confidence (for two classes how much too often the second one is
    predicted), expected and smooth calibration error, and a test of whether the probabilities are calibrated. Files of
    any size are read in chunks; for very large ones, metrics that need all rows at once (AUROC, the test) use a uniform
    sample. For answers of a language model, it reports whether their confidence can be trusted and when to abstain:
    files with log-probabilities of options, or with `confidence` and `correct`, need no --label. With --multilabel each
    column is a label, any number of labels may be true, and metrics are shown per label, worst first.
    """
    from calibrant.workflows.answering import judge
    from calibrant.workflows.evaluating import evaluate as evaluate_table
    from calibrant.workflows.evaluating import read_for_report, validate

    if multilabel:
        return evaluate_labels(file, table, {"--positive": positive}, level if ci else None, as_json=as_json)
    label = table.label
    table, answers = find_answers(file, table)
    if answers is not None:
        _print_answers(file, answers, level, ci=ci, as_json=as_json)
        return
    with reading(file, positive=positive, **vars(table)) as reader:
        progress = progress_over(reader.table, "evaluate")
        if named:
            table_of = validate(reader, level=level, progress=progress)
            if as_json:
                print_json({"file": file, "named": [row._asdict() for row in table_of.rows]})
            else:
                rows = [row[:5] for row in table_of.table()]
                typer.echo(aligned(rows, left=[True, False, False, False, True]))
            return
        found = evaluate_table(reader, level=level if ci else None, progress=progress)
        trust = None
        if table.label != label:  # stated confidence in answers, and whether they were correct
            p_value = None if found.test is None else found.test.p_value
            trust = judge(read_for_report(reader, level, progress).data, level, p_value)
    if as_json:
        more = {} if trust is None else trust.to_dict()
        print_json({"file": file, **_as_dict(found), "rows_skipped": reader.skipped.count, **more})
    else:
        typer.echo(f"{file}: {found.size}, {len(found.classes)} classes")
        typer.echo(class_columns(found.columns, found.classes))
        typer.echo(_table(found, level if ci else None))
        if trust is not None:
            typer.echo("\n".join(["", f"{trust.headline}.", *trust.sentences]))


def _print_answers(file: str, answers: Answers, level: float, *, ci: bool, as_json: bool) -> None:
    """Metrics of questions with options, before and after, and whether the confidence can be trusted."""
    from calibrant.workflows.answering import evaluate_answers

    found = evaluate_answers(answers, level)
    if as_json:
        both = {"metrics": found.before, "calibrated": found.after}
        values = {key: _intervals(part, ci=ci) for key, part in both.items()}
        test = {"p_value": found.test.p_value, "statistic": found.test.statistic}
        print_json({"file": file, **found.size.to_dict(), **values, "calibration_test": test, **found.trust.to_dict()})
        return
    few, most = found.options
    typer.echo(f"{file}: {found.size}, questions with {few if few == most else f'{few} to {most}'} options")
    rows = [["", "value", *(["after OptionCalibrator, cross-validated"] if found.after else [])]]
    for name in found.before:
        cells = [part[name] for part in (found.before, found.after) if part]
        rows.append([name, *(f"{_number(e.value)}{f' ({span(e)})' if ci else ''}" for e in cells)])
    typer.echo("\n".join(["", aligned(rows), "", f"{found.trust.headline}.", *found.trust.sentences]))


def _intervals(metrics: dict[str, Estimate], *, ci: bool = True) -> dict[str, dict[str, float]]:
    """Values, with the ends of their intervals if these were asked for."""
    known = ("value", "low", "high", "level")
    return {
        name: {key: getattr(e, key) for key in known[: 4 if ci and not math.isnan(e.level) else 1]}
        for name, e in metrics.items()
    }


def _as_dict(found: Evaluation) -> dict[str, object]:
    names: dict[str, object] = {"classes": list(found.classes), "columns": list(found.columns)}
    result = {**found.size.to_dict(), "metrics": _intervals(found.metrics), "in_chunks": found.in_chunks}
    if found.sampled[1] is not None:
        result["sampled"] = {**found.sampled[1].to_dict(), "metrics": [*found.sampled[0], "calibration_test"]}
    if found.test is not None:
        result["calibration_test"] = {"p_value": found.test.p_value, "statistic": found.test.statistic}
    if not found.segments:
        return result | names
    segments = {
        name: {**size.to_dict(), "metrics": _intervals(metrics), "in_chunks": True, **names}
        for name, (size, metrics) in found.segments.items()
    }
    return result | {"segments": segments}


def _table(found: Evaluation, level: float | None) -> str:
    from calibrant.report.data import condition

    rows = [["", "value", *([] if level is None else [f"{100 * level:g}% interval"])]]
    for name, estimate in found.metrics.items():
        interval = [] if level is None else [f"{_number(estimate.low)} to {_number(estimate.high)}"]
        rows.append([name, _number(estimate.value), *("" if math.isnan(estimate.low) else cell for cell in interval)])
    lines = ["", aligned(rows)]
    if found.test is not None:
        p = found.test.p_value
        verdict = "not calibrated" if p < 0.05 else "no evidence of miscalibration" + " overall" * bool(found.segments)
        lines += ["", f"Test of calibration: {p_text(p, found.test.n_resamples)}: {verdict}"]
        lines.append(
            f"{'The test holds' if level is None else 'The test and the intervals hold'} {condition(found.size)}"
        )
    names, sampled = found.sampled
    if sampled is not None:
        lines.append(
            f"{' and '.join([*names, 'the test'])} use a uniform sample of {sampled}; everything else uses all rows"
            + (", with intervals as wide as those of the sample" if sampled.groups and level is not None else "")
        )
    if found.segments:
        gap = "positive_gap" if "positive_gap" in found.metrics else "confidence_gap"
        shown = ("log_loss", "brier", "accuracy", gap, "ece")
        head = ["segment", "rows", *shown]
        body = [
            [name, f"{part.size.rows:,}", *(_number(part.metrics[metric].value) for metric in shown)]
            for name, part in found.segments.items()
        ]
        lines += ["", aligned([head, *body])]
    return "\n".join(lines)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"
