"""Python without imports except `math`."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.inputs.segments import LARGEST, MISSING, MISSING_TEXTS, places_of
from calibrant.runtime import Map
from calibrant.steps.actions import CostTable
from calibrant.typing import FloatArray
from calibrant.writers.common import Segments, row_by_row, title
from calibrant.writers.source import MOST_TEXT, SourceWriter, wrapped


class PythonWriter(SourceWriter):
    """A module with `calibrate(row)`, `CLASSES` and `COLUMNS`."""

    opening, closing, remark = "def {}(x):", "    return {}", "#"
    vector, scalar = "{name} = [{text} for j in range({n})]", "{name} = {text}"
    constant, joined, spread = "{name} = [\n{numbers}\n]", "{name} = [{items}]", "*"
    call = "{name} = {function}({arguments})"
    choice, refuse = "({1} if {0} else {2})", "if not all({text} for j in range({n})): return None"
    spelled = {  # noqa: RUF012
        **{name: f"{name}({{}})" for name in ("exp", "log", "abs", "floor", "int", "total")},
        "max": "max({}, {})",
        "min": "min({}, {})",
        "largest": "max({})",
        "least": "min({})",
        "top": "{0}.index(max({0}))",
    }
    helpers = {  # noqa: RUF012
        "total": """
def total(x):
    value = 0.0
    for v in x:
        value += v
    return value""",
        "product": """
def product(x, matrix, rows, columns):
    y = [0.0] * columns
    for i in range(rows):
        for j in range(columns):
            y[j] += x[i] * matrix[i * columns + j]
    return y""",
        "piece": """
def piece(x, edges, n):  # the number of edges below x
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if edges[middle] < x else (low, middle)
    return low""",
        "trees": """
def trees(x, features, subtracted, thresholds, values, count, depth, columns):
    y = [0.0] * columns
    for t in range(count):
        leaf = t << depth
        for b in range(depth):
            q = t * depth + b
            value = x[features[q]] - (x[subtracted[q]] if subtracted[q] >= 0 else 0.0)
            leaf += 1 << b if value > thresholds[q] else 0
        for j in range(columns):
            y[j] += values[leaf * columns + j]
    return y""",
    }

    def head(self) -> str:
        notes = "".join(f"\n{note}" for note in self.notes)
        call, what = ("row, segments", _SEGMENTS) if self.map.segments else ("row", "")
        what += "" if self.map.rule is None else _DECIDE
        actions = "" if self.map.rule is None else _actions(self.map.rule)
        return f'''"""{title(self.map)}

`calibrate({call})` takes one number per class in the order of `COLUMNS`, or a dict with these names, and returns
calibrated probabilities in the order of `CLASSES`. For two classes the number of the second is enough.{what}{notes}
"""

from math import exp, floor, inf, log

CLASSES = [{", ".join(ascii(label) for label in self.map.classes)}]
COLUMNS = [{", ".join(ascii(name) for name in self.map.column_names)}]
{actions}'''

    def tail(self) -> str:
        kind, single = "probabilities", f"0.0 <= row[0] <= {MOST_TEXT}"
        second, first = "min(row[0], 1.0)", "1.0 - min(row[0], 1.0)"
        if self.map.logits:
            kind, single, second, first = self.map.input, "True", "row[0]", "0.0"
        # A single number, of two classes, has no order.
        both = [second, first] if self.swapped else [first, second]
        before, parameters, beside = "", "row", ""
        if self.map.segments:
            before, parameters = f"{self._segments()}\n\n\n", "row, segments"
            beside = " + [number(segments[name], levels) for name, levels in SEGMENTS]"
        return f"""{before}def calibrate({parameters}):
    row = given = [float(v) for v in ([row[name] for name in COLUMNS] if hasattr(row, "keys") else row)]
    if len(row) == 1 and len(CLASSES) == 2 and {single}:
        row = [{", ".join(both)}]
    y = calibrated(row{beside}) if len(row) == len(CLASSES) else None
    if y is None:
        raise ValueError(f"not {kind} of {{len(CLASSES)}} classes: {{given}}")
    return y{self._decide(parameters)}"""

    def _decide(self, parameters: str) -> str:
        if self.map.rule is None:
            return ""
        extra = ", amounts" if self.map.rule.amounts else ""
        return f"""


def decide({parameters}{extra}):
    amounts = [{"float(amounts[name]) for name in AMOUNTS" if extra else ""}]
    if not all(0.0 <= amount < inf for amount in amounts):
        raise ValueError(f"not amounts: {{amounts}}")
    return ACTIONS[cheapest(calibrate({parameters}) + amounts)[0]]"""

    def _segments(self) -> str:
        columns = []
        for name, levels in self.map.segments.items():
            places = "None"
            if levels is not None:
                entries = [f"{text!a}: {place}" for text, place in places_of(levels).items()]
                places = f"{{\n{wrapped(entries)}\n}}"
            columns.append(f"({name!a}, {places}),\n")
        return f"SEGMENTS = [\n{''.join(columns)}]\n{_NUMBER}"


_SEGMENTS = """
`segments` is a dict of the columns in `SEGMENTS`: texts, or numbers."""

_DECIDE = """
`decide` takes the same, and a dict of the `AMOUNTS` if there are any, and returns one of `ACTIONS`, the cheapest."""


def _actions(rule: CostTable) -> str:
    amounts = f"AMOUNTS = [{', '.join(map(ascii, rule.amounts))}]\n" if rule.amounts else ""
    return f"ACTIONS = [{', '.join(map(ascii, rule.to_json()['actions']))}]\n{amounts}"


_NUMBER = f"""
def plain_number(text):  # without leading and trailing zeros
    whole, _, part = (text[1:] if text[:1] == "-" else text).partition(".")
    if not (text.isascii() and (whole + part).isdigit()):
        return text
    whole, part = whole.lstrip("0"), part.rstrip("0")
    sign = "-" if text[:1] == "-" and whole + part else ""
    return sign + (whole or "0") + ("." if part else "") + part


def number(value, levels):
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    text = text.rstrip("\\0")
    text = "" if text in {MISSING_TEXTS} else text
    if levels is not None:
        return float(levels.get(text, levels.get(plain_number(text), -1)))
    value = float(text) if text else inf
    return min(max(value, -{LARGEST}), {LARGEST}) if abs(value) < inf else {MISSING}"""


write = PythonWriter.write


def run(
    written: str, fitted: Map, rows: FloatArray, segments: Segments | None = None, amounts: Segments | None = None
) -> FloatArray:
    """Predictions of the source code, in a namespace of its own, and the numbers of its actions."""
    scope: dict[str, Any] = {}
    exec(compile(written, "<calibrant export>", "exec"), scope)
    given: list[tuple[Any, ...]] = list(zip(rows.tolist(), *([] if segments is None else [row_by_row(segments)])))
    p = np.array([scope["calibrate"](*item) for item in given])
    if fitted.rule is None:
        return p
    costs: list[Any] = [()] * len(given) if amounts is None else [(item,) for item in row_by_row(amounts)]
    return np.column_stack([p, [scope["ACTIONS"].index(scope["decide"](*item, *of)) for item, of in zip(given, costs)]])
