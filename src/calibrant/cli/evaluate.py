"""`calibrant evaluate`: the metrics of a file of predictions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import options
from calibrant.cli.files import columns_of_text, make_layout, opened, print_json, progress_over, tell_skipped
from calibrant.cli.mistakes import explained

if TYPE_CHECKING:
    from calibrant.report.evaluation import Evaluation

app = typer.Typer(rich_markup_mode=None)


@app.command()
def evaluate(
    file: options.Input,
    label: options.Label,
    probs: options.Probs = None,
    classes: options.Classes = None,
    weight: options.Weight = None,
    group: options.Group = None,
    logits: options.Logits = False,
    renormalize: options.Renormalize = False,
    ci: Annotated[bool, typer.Option("--ci", help="Add confidence intervals.")] = False,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.", min=0.5, max=0.999)] = 0.95,
    on_error: options.OnErrorOption = options.OnError.stop,
    as_json: options.Json = False,
) -> None:
    """Metrics of a file of predictions with labels.

    Log loss, Brier score, accuracy, AUROC, mean over-confidence, expected and smooth calibration error, and a test
    of whether the probabilities are calibrated. Files of any size are read in chunks; what needs all rows at once
    (AUROC, the test) is left out for very large ones.
    """
    with explained():
        from calibrant.files.tables.rows import RowReader
        from calibrant.report.evaluation import evaluate_table

        with opened(file, [label, weight, group]) as (table, (label_, weight_, group_)):
            layout = make_layout(label_, weight_, group_, probs, classes, logits, renormalize)
            reader = RowReader(table, layout, skip_errors=on_error is options.OnError.skip)
            found = evaluate_table(reader, level=level if ci else None, progress=progress_over(table, "evaluate"))
            tell_skipped(reader)
        if as_json:
            print_json({"file": file, **_as_dict(found), "rows_skipped": reader.skipped.count})
        else:
            typer.echo(f"{file}: {found.rows:,} rows, {len(found.classes)} classes")
            typer.echo(_table(found, ci))


def _as_dict(found: Evaluation) -> dict[str, Any]:
    metrics = {
        name: {"value": estimate.value}
        if math.isnan(estimate.level)
        else {"value": estimate.value, "low": estimate.low, "high": estimate.high, "level": estimate.level}
        for name, estimate in found.metrics.items()
    }
    result: dict[str, Any] = {"rows": found.rows, "metrics": metrics, "in_chunks": found.in_chunks}
    if found.test is not None:
        result["calibration_test"] = {"p_value": found.test.p_value, "statistic": found.test.statistic}
    if found.groups:
        result["groups"] = {name: _as_dict(part) for name, part in found.groups.items()}
    else:
        result.update(classes=list(found.classes), columns=list(found.columns))
    return result


def _table(found: Evaluation, ci: bool) -> str:
    rows = [["", "value", *(["interval", ""] if ci else [])]]
    for name, estimate in found.metrics.items():
        cells = (estimate.value, estimate.low, estimate.high) if ci else (estimate.value,)
        rows.append([name, *("-" if math.isnan(number) else f"{number:.4f}" for number in cells)])
    lines = [columns_of_text(rows)]
    if found.test is not None:
        p = found.test.p_value
        verdict = "not calibrated" if p < 0.05 else "nothing speaks against calibration"
        lines.append(f"test of calibration: p = {p:.3g}, {verdict}")
    if found.groups:
        shown = ("log_loss", "brier", "accuracy", "confidence_gap", "ece")
        head = ["group", "rows", *shown]
        body = [
            [name, f"{part.rows:,}", *(f"{part.metrics[metric].value:.4f}" for metric in shown)]
            for name, part in found.groups.items()
        ]
        lines += ["", columns_of_text([head, *body])]
    return "\n".join(lines)
