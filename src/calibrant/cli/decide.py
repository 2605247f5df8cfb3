"""`calibrant decide`: the cheapest action for new predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant.cli import options
from calibrant.cli.apply import write_rows
from calibrant.cli.mistakes import CommandError
from calibrant.cli.printing import Output
from calibrant.cli.reading import refuse_options
from calibrant.numerals import amount

if TYPE_CHECKING:
    from calibrant.workflows.applying import Applied


@options.command()
def decide(
    *,
    calibrator: options.Calibrator,
    file: options.Input,
    out: Output,
    table: options.RowOptions,
    cost: options.Cost = None,
    positive: options.Positive = None,
    suffix: str = options.option("Add calibrated probabilities, too, with this suffix, as in _cal.", default=""),
    renormalize: options.Renormalize = False,
) -> None:
    """Add to each row the action with the lowest expected cost, and that cost.

    All columns of the file pass through unchanged; `action` and `expected_cost` are added. --cost fp=1,fn=20 is for two
    classes. Costs by names are a list such as home:ill=100,admit:healthy=30,doctor=8, where doctor costs 8 whatever
    happens; ask=0.2 alone means that a wrong class costs 1 and asking 0.2. A cost that is not a number is read as the
    name of a column, as in fp=5,fn=amount. A CSV file has a line for each action and a column for each class, a JSON
    file holds {action: {class: cost}}. Without --cost, the rule stored by `calibrant fit --cost` is used.
    """
    from calibrant.workflows.loading import load_calibrator
    from calibrant.workflows.rules_given import rule_of

    out.check("decisions")
    refuse_options(file, table.probs)
    fitted = load_calibrator(calibrator)
    if cost is None and not hasattr(fitted, "rule_"):
        raise CommandError(f"{calibrator} holds no decision rule: give the costs of actions, as in --cost fp=1,fn=20")
    rule = fitted.rule_ if cost is None else rule_of(fitted, cost, positive)
    assumed = cost is not None and cost.startswith(("fp=", "fn=")) and positive is None
    done, values = write_rows(fitted, file, out, table, renormalize, suffix=suffix, rule=rule)
    actions = {str(name): count for name, count in done.actions.items()}
    found = {"actions": actions, "expected_cost": done.cost, "rule": rule.describe()}
    lines = _words(out.output, done, rule, fitted)
    if assumed:
        lines.insert(1, f"Positive class: {fitted.classes_.tolist()[1]!r} (--positive names the other one)")
    out.tell(values | found, lines)


def score_text(score: float, whole: float) -> str:
    """A score in four digits, or as many as tell it from the largest one."""
    return next(text for digits in range(4, 18) if float(text := f"{score:.{digits}g}") < whole or score >= whole)


def _words(output: str, done: Applied, rule: Any, fitted: Any) -> list[str]:
    # Of many classes the actions that are none are what people look for, then the most frequent ones.
    ranked = sorted(done.actions.items(), key=lambda item: (item[0] in rule.classes, -item[1]))
    # A number needs quotes beside the number of rows.
    named = {name: name if any(map(str.isalpha, str(name))) else repr(str(name)) for name in done.actions}
    shares = [f"{named[name]} {count:,} ({count / done.rows:.1%})" for name, count in ranked if count]
    shown = shares if len(shares) <= 8 else [*shares[:6], f"{len(shares) - 6} further actions"]
    lines = [
        f"{output}: {amount(done.rows, 'row')} decided: {', '.join(shown)}",
        rule.describe(),
        f"Expected cost if the probabilities are right: {done.cost / done.rows:.4g} per row, {done.cost:.6g} in all",
    ]
    try:
        ranges = rule.ranges
        scores = [fitted.inverse(one.high).high for one in ranges[:-1]]
    except ValueError:  # many classes, amounts, or a map without an inverse
        return lines
    unit = 100.0 if getattr(fitted, "percentages_", False) else 1.0
    said = [
        f"{100 * one.high:.4g}% corresponds to {score_text(unit * score, unit)}" for one, score in zip(ranges, scores)
    ]
    second = fitted.classes_.tolist()[1]
    if not said or done.classes[-1] != second:
        return lines
    return [*lines, f"Before calibration, in the column of {second!r}: {', '.join(said)}"]
