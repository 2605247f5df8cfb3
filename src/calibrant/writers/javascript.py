"""JavaScript without dependencies: an ES module, a CommonJS module or a script of a page."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from calibrant.inputs.segments import LARGEST, MISSING, MISSING_TEXTS, places_of
from calibrant.runtime import Map
from calibrant.typing import FloatArray, Label
from calibrant.writers.common import Segments, row_by_row, run_program, title, workshop
from calibrant.writers.source import MOST_TEXT, SourceWriter, wrapped

#: The largest whole number that JavaScript tells from its neighbours.
_LARGEST_WHOLE = 2**53 - 1

_RUN = """
const map = require("./map.cjs");
const [rows, amounts] = JSON.parse(require("fs").readFileSync(0, "utf8"));
const found = (given, row) => {
  const p = map.calibrate(...given);
  return map.decide ? [...p, map.ACTIONS.indexOf(map.decide(...given, ...(amounts ? [amounts[row]] : [])))] : p;
};
process.stdout.write(JSON.stringify(rows.map(found)));
"""


class JavaScriptWriter(SourceWriter):
    """A file with `calibrate(row)`, `CLASSES` and `COLUMNS`."""

    opening, closing, indent = "function {}(x) {{", "  return {};\n}}", "  "
    vector, scalar = "const {name} = each({n}, (j) => {text});", "const {name} = {text};"
    constant, joined, spread = "const {name} = [\n{numbers}\n];", "const {name} = [{items}];", "..."
    call = "const {name} = {function}({arguments});"
    choice, refuse = "({} ? {} : {})", "if (!each({n}, (j) => {text}).every(Boolean)) return null;"
    spelled = {  # noqa: RUF012
        **{name: f"Math.{name}({{}})" for name in ("exp", "log", "abs", "floor")},
        "max": "Math.max({}, {})",
        "min": "Math.min({}, {})",
        "int": "{}",
        "total": "{}.reduce((a, b) => a + b, 0)",
        "largest": "Math.max(...{})",
        "least": "Math.min(...{})",
        "top": "{0}.indexOf(Math.max(...{0}))",
    }
    helpers = {  # noqa: RUF012
        "product": """
function product(x, matrix, rows, columns) {
  const y = each(columns, () => 0);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) y[j] += x[i] * matrix[i * columns + j];
  }
  return y;
}""",
        "piece": """
function piece(x, edges, n) { // the number of edges below x
  let low = 0;
  for (let high = n; low < high; ) {
    const middle = (low + high) >> 1;
    if (edges[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}""",
        "trees": """
function trees(x, features, subtracted, thresholds, values, count, depth, columns) {
  const y = each(columns, () => 0);
  for (let t = 0; t < count; t++) {
    let leaf = t << depth;
    for (let b = 0; b < depth; b++) {
      const q = t * depth + b;
      const value = x[features[q]] - (subtracted[q] >= 0 ? x[subtracted[q]] : 0);
      if (value > thresholds[q]) leaf += 1 << b;
    }
    for (let j = 0; j < columns; j++) y[j] += values[leaf * columns + j];
  }
  return y;
}""",
    }

    def head(self) -> str:
        notes = "".join(f"\n// {note}" for note in self.notes)
        classes = ", ".join(map(_literal, _labels(self.map.classes)))
        call, what = ("row, segments", _SEGMENTS) if self.map.segments else ("row", "")
        actions = ""
        if self.map.rule is not None:
            what += _DECIDE
            lists = {"ACTIONS": _labels(self.map.rule.to_json()["actions"]), "AMOUNTS": list(self.map.rule.amounts)}
            actions = "".join(f"const {name} = [{', '.join(map(_literal, items))}];\n" for name, items in lists.items())
        return f"""// {title(self.map)}
// calibrate({call}) takes one number per class in the order of COLUMNS, or an object with these names, and returns
// calibrated probabilities in the order of CLASSES. For two classes the number of the second is enough.{what}{notes}
"use strict";

const CLASSES = [{classes}];
const COLUMNS = [{", ".join(map(_literal, self.map.column_names))}];
{actions}
function each(n, entry) {{
  const y = new Array(n);
  for (let j = 0; j < n; j++) y[j] = entry(j);
  return y;
}}"""

    def tail(self) -> str:
        kind, single = "probabilities", f"row[0] >= 0 && row[0] <= {MOST_TEXT}"
        second, first = "Math.min(row[0], 1)", "1 - Math.min(row[0], 1)"
        if self.map.logits:
            kind, single, second, first = self.map.input, "true", "row[0]", "0"
        # A single number, of two classes, has no order.
        both = [second, first] if self.swapped else [first, second]
        before, parameters, names, beside = "", "row", "CLASSES, COLUMNS, calibrate", ""
        if self.map.segments:
            before, parameters = f"{self._segments()}\n\n", "row, segments"
            names = "CLASSES, COLUMNS, SEGMENTS, calibrate"
            beside = ".concat(SEGMENTS.map(([name, levels]) => number(name, segments, levels)))"
        decide = ""
        if self.map.rule is not None:
            names += ", ACTIONS, AMOUNTS, decide"
            decide = f"""

function decide({parameters}{", given" if self.map.rule.amounts else ""}) {{
  const amounts = AMOUNTS.map((name) => (given[name] === null ? NaN : Number(given[name])));
  if (!amounts.every((v) => v >= 0 && v < Infinity)) throw new RangeError("not amounts: " + amounts);
  return ACTIONS[cheapest(calibrate({parameters}).concat(amounts))[0]];
}}"""
        return f"""{before}function calibrate({parameters}) {{
  if (row[Symbol.iterator] === undefined) row = COLUMNS.map((name) => row[name]);
  const given = Array.from(row, (v) => (v === null || String(v).trim() === "" ? NaN : Number(v)));
  row = given;
  if (row.length === 1 && CLASSES.length === 2 && {single}) row = [{", ".join(both)}];
  const y = row.length === CLASSES.length ? calibrated(row{beside}) : null;
  if (y === null) throw new RangeError("not {kind} of " + CLASSES.length + " classes: " + given);
  return y;
}}{decide}

if (typeof module !== "undefined") module.exports = {{ {names} }};"""

    def _segments(self) -> str:
        columns = []
        for name, levels in self.map.segments.items():
            places = "null"
            if levels is not None:
                entries = [f"[{_literal(text)}, {place}]" for text, place in places_of(levels).items()]
                places = f"new Map([\n{wrapped(entries, '  ')}\n])"
            columns.append(f"[{_literal(name)}, {places}],\n")
        return f"const SEGMENTS = [\n{''.join(columns)}];\n\n{_NUMBER}"


_SEGMENTS = """
// segments is an object of the columns named in SEGMENTS: texts, or numbers."""

_DECIDE = """
// decide takes the same, and an object with the AMOUNTS if there are any, and returns one of ACTIONS, the cheapest."""


def _labels(classes: list[Any]) -> list[Any]:
    """The labels; all whole numbers as texts if one of them is so large that JavaScript would round it."""
    whole = [isinstance(label, int) and not isinstance(label, bool) for label in classes]
    if not any(number and abs(label) > _LARGEST_WHOLE for number, label in zip(whole, classes)):
        return classes
    return [str(label) if number else label for number, label in zip(whole, classes)]


def _literal(label: Label) -> str:
    """A label as JavaScript that may stand in a page, too."""
    text = json.dumps(label)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


_NUMBER = f"""
function spelled(value) {{ // as Python spells it: levels are Python texts
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "number") return value === null ? "" : String(value).replace(/\\0+$/, "");
  if (Number.isInteger(value)) return String(BigInt(value));
  if (Math.abs(value) === Infinity) return value > 0 ? "inf" : "-inf";
  const small = Math.abs(value) < 1e-4;
  return small ? value.toExponential().replace(/e-(\\d)$/, "e-0$1") : String(value);
}}

function plain_number(text) {{ // without leading and trailing zeros
  const parts = /^(-?)0*([0-9]*?)(?:\\.([0-9]*?)0*)?$/.exec(text);
  if (parts === null || !/[0-9]/.test(text)) return text;
  const found = (parts[2] || "0") + (parts[3] ? "." + parts[3] : "");
  return (found === "0" ? "" : parts[1]) + found;
}}

function number(name, segments, levels) {{
  const value = segments[name];
  if (value === undefined) throw new RangeError("segments lacks " + name);
  let text = spelled(value);
  const missing = {json.dumps(MISSING_TEXTS)}.includes(text);
  text = missing ? "" : text;
  if (levels !== null) return levels.get(text) ?? levels.get(plain_number(text)) ?? -1;
  const found = missing ? Infinity : typeof value === "number" ? value : text.trim() === "" ? NaN : Number(text);
  if (Number.isNaN(found)) throw new RangeError("not a number: " + text);
  return Number.isFinite(found) ? Math.min(Math.max(found, -{LARGEST}), {LARGEST}) : {MISSING};
}}""".strip()


write = JavaScriptWriter.write


def run(
    written: str, fitted: Map, rows: FloatArray, segments: Segments | None = None, amounts: Segments | None = None
) -> FloatArray:
    """Predictions of the source code, by Node, and the numbers of its actions."""
    given: list[list[object]] = [[row] for row in rows.tolist()]
    if segments is not None:
        for item, values in zip(given, row_by_row(segments)):
            # JSON knows no NaN.
            item.append({name: None if value != value else value for name, value in values.items()})
    costs = None if amounts is None else row_by_row(amounts)
    with workshop({"map.cjs": written, "run.cjs": _RUN}) as folder:
        return np.array(json.loads(run_program(["node", "run.cjs"], folder, json.dumps([given, costs]))))
