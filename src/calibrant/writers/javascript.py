"""JavaScript without dependencies: an ES module, a CommonJS module or a script of a page."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from calibrant.inputs.rows import ROUNDING
from calibrant.inputs.segments import LARGEST, MISSING, MISSING_TEXTS, places_of
from calibrant.runtime import Map
from calibrant.typing import FloatArray
from calibrant.writers.calls import Call
from calibrant.writers.source import (
    FLOOR_TEXT,
    LOG_FLOOR_TEXT,
    MOST_TEXT,
    Segments,
    SourceWriter,
    row_by_row,
    title,
    wrapped,
)
from calibrant.writers.tools import run_program, workshop

#: Largest difference of a probability.
TOLERANCE = 1e-12

#: The largest whole number that JavaScript tells from its neighbours.
_LARGEST_WHOLE = 2**53 - 1

_RUN = """
const { calibrate } = require("./map.cjs");
const rows = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(rows.map((given) => calibrate(...given))));
"""


class JavaScriptWriter(SourceWriter):
    """A file with `calibrate(row)` and `CLASSES`."""

    functions = {  # noqa: RUF012  constant
        "exp_all": "function exp_all(x) {\n  return x.map((v) => Math.exp(v));\n}",
        "log_all": "function log_all(x) {\n  return x.map((v) => Math.max(Math.log(v), LOG_FLOOR));\n}",
        "clip": "function clip(x, low, high) {\n  return x.map((v) => Math.min(Math.max(v, low), high));\n}",
        "mix": "function mix(x, weight) {\n  return x.map((v) => (1 - weight) * v + weight / x.length);\n}",
        "scale": "function scale(x, factor, shift) {\n  return x.map((v, j) => v * factor[j] + shift[j]);\n}",
        "polynomial": """
function polynomial(x, c, n) {
  return x.map((v) => {
    let out = c[n - 1];
    for (let d = n - 2; d >= 0; d--) out = out * v + c[d];
    return out;
  });
}""",
        "softmax": """
function softmax(x) {
  const top = Math.max(...x);
  const out = x.map((v) => Math.exp(v - top));
  const total = out.reduce((a, b) => a + b, 0);
  return out.map((v) => v / total);
}""",
        "normalize": """
function normalize(x) {
  const total = x.reduce((a, b) => a + b, 0);
  return x.map((v) => (total > 0 ? v / total : 1 / x.length));
}""",
        "columns": "function columns(x, index, n) {\n  return index.map((j) => x[j]);\n}",
        "log_odds": "function log_odds(x) {\n  return [x[1] - x[0]];\n}",
        "lead": """
function lead(x) {
  const ordered = x.slice().sort((a, b) => b - a);
  return [ordered[0], ordered[0] - ordered[1]];
}""",
        "sigmoid": """
function sigmoid(x) {
  const small = Math.exp(-Math.abs(x[0]));
  const lesser = small / (1 + small);
  return x[0] >= 0 ? [lesser, 1 - lesser] : [1 - lesser, lesser];
}""",
        "complement": "function complement(x) {\n  return [1 - x[0], x[0]];\n}",
        "linear": """
function linear(x, matrix, shift, columns) {
  const out = shift.slice();
  x.forEach((v, i) => {
    for (let j = 0; j < columns; j++) out[j] += v * matrix[i * columns + j];
  });
  return out;
}""",
        "curves": """
function curves(x, u) {
  const k = x.length;
  return x.map((v, j) => {
    const q = Math.exp(v);
    const rest = Math.max(Math.log1p(-Math.min(q, 1 - 1e-12)), -20);
    return u[j] * (v * (v / 5)) + u[k + j] * rest + u[2 * k + j] * q;
  });
}""",
        "kernel": """
function kernel(x, landmarks, n, spread, weight, bandwidth) {
  const mean = x.reduce((a, b) => a + b, 0) / x.length;
  const z = x.map((v) => (v - mean) / spread).concat(x.map((v) => weight * Math.exp(v)));
  const out = [];
  for (let i = 0; i < n; i++) {
    let distance = 0;
    z.forEach((v, j) => {
      distance += (v - landmarks[i * z.length + j]) ** 2;
    });
    out.push(Math.exp(-distance / bandwidth));
  }
  return out;
}""",
        "trees": """
function trees(x, features, subtracted, thresholds, values, count, depth, k) {
  const out = new Array(k).fill(0);
  for (let t = 0; t < count; t++) {
    let leaf = 0;
    for (let b = 0; b < depth; b++) {
      const q = t * depth + b;
      const v = x[features[q]] - (subtracted[q] >= 0 ? x[subtracted[q]] : 0);
      if (v > thresholds[q]) leaf += 1 << b;
    }
    const first = (t * (1 << depth) + leaf) * k;
    for (let j = 0; j < k; j++) out[j] += values[first + j];
  }
  return out;
}""",
        "levels": """
function levels(x, intercept, slope, count) {
  const k = x.length - 1;
  const level = x[k];
  if (!(level >= 0 && level < count)) return new Array(k).fill(0);
  const first = Math.floor(level) * k;
  return x.slice(0, k).map((v, j) => slope[first + j] * v + intercept[first + j]);
}""",
        "piecewise": """
function piecewise(x, edges, n, origins, coefficients, terms) {
  let low = 0; // the number of edges below x
  let high = n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (edges[middle] < x[0]) low = middle + 1;
    else high = middle;
  }
  const t = x[0] - origins[low];
  let out = 0;
  for (let d = terms - 1; d >= 0; d--) out = out * t + coefficients[low * terms + d];
  return [out];
}""",
        "add": """
function add(x, maps, n) {
  return maps.slice(1).reduce((out, m) => m(x).map((v, j) => out[j] + v), maps[0](x));
}""",
        "join": """
function join(x, widths, maps, n) {
  return [].concat(...maps.map((m) => m(x)));
}""",
        "keep_top": """
function keep_top(x, maps, n) {
  const z = maps[0](x);
  const largest = Math.max(...x);
  const top = x.findIndex((v) => v >= largest - 1e-12);
  let share = Infinity;
  x.forEach((v, j) => {
    const lead = x[top] - v >= 1e-12 ? x[top] - v : 0;
    const change = z[top] - z[j] - lead;
    if (j !== top && change < 0) share = Math.min(share, -lead / change);
  });
  share = Math.min(share * (1 - 1e-9), 1);
  return x.map((v, j) => v + share * (z[j] - v));
}""",
        "one_vs_rest": """
function one_vs_rest(x, maps, n) {
  const top = x.indexOf(Math.max(...x));
  let others = 0;
  x.forEach((v, j) => {
    if (j !== top) others += v;
  });
  return x.map((v, j) => maps[j]([Math.max(j === top ? others : others + x[top] - v, FLOOR), v])[1]);
}""",
        "one_vs_one": """
function one_vs_one(x, maps, n) {
  const k = x.length;
  const inverse = new Array(k).fill(0);
  let m = 0;
  for (let i = 0; i < k; i++) {
    for (let j = i + 1; j < k; j++) {
      const both = x[i] + x[j];
      const r = maps[m++]([Math.max(x[i] / both, FLOOR), Math.max(x[j] / both, FLOOR)]);
      inverse[i] += 1 / r[0];
      inverse[j] += 1 / r[1];
    }
  }
  return inverse.map((v) => 1 / Math.max(v - (k - 2), 1));
}""",
    }

    def head(self) -> str:
        notes = "".join(f"\n// {note}" for note in self.notes)
        classes = ", ".join(map(_literal, _labels(self.map.classes)))
        call, what = "row", ""
        if self.map.segments:
            call, what = (
                "row, segments",
                "\n// segments is an object of the columns named in SEGMENTS: texts, or numbers.",
            )
        return f"""// {title(self.map)}
// calibrate({call}) takes one number per class (one alone is that of the second of two classes) and returns
// calibrated probabilities in the order of CLASSES.{what}{notes}
"use strict";

const CLASSES = [{classes}];
const LOG_FLOOR = {LOG_FLOOR_TEXT};
const FLOOR = {FLOOR_TEXT};"""

    def constant(self, name: str, numbers: list[str], *, integer: bool) -> str:
        return f"const {name} = [\n{wrapped(numbers, '  ')}\n];"

    def function_list(self, names: list[str]) -> str:
        return f"[{', '.join(names)}]"

    def body(self, name: str, width: int, lines: list[tuple[Call, list[str]]]) -> str:
        calls = "".join(f"  x = {call.name}({', '.join(['x', *arguments])});\n" for call, arguments in lines)
        return f"function {name}(x) {{\n{calls}  return x;\n}}"

    def tail(self) -> str:
        order = ""
        if self.map.columns is not None:  # of the single number that may be given for two classes there is no order
            order = f"  if (row.length > 1) x = {self.map.columns.tolist()}.map((j) => x[j]);\n"
        prepare = _PREPARE_LOGITS if self.map.logits else self._prepare()
        arguments, names = "row", "CLASSES, calibrate"
        if self.map.segments:
            prepare = f"{self._segments()}\n\n{prepare}"
            arguments, names = "row, segments", "CLASSES, SEGMENTS, calibrate"
            order += "  x = x.concat(SEGMENTS.map(([name, levels]) => number(name, segments, levels)));\n"
        return f"""{prepare}

function calibrate({arguments}) {{
  row = Array.from(row, (v) => (v === null || String(v).trim() === "" ? NaN : Number(v)));
  let x = prepare(row);
{order}  return {self.main}(x);
}}

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

    def _prepare(self) -> str:
        inside, check = f"v >= 0 && v <= {MOST_TEXT}", f"Math.abs(total - 1) <= {ROUNDING}"
        scaled = ""
        if self.map.renormalize:
            inside, check = "v >= 0 && v < Infinity", "total > 0"
            scaled = "\n  const top = Math.max(...x);\n  x = x.map((v) => v / (top > 2 ? top : 1));"
        return f"""
function prepare(row) {{
  let x = row;
  if (x.length === 1 && CLASSES.length === 2 && x[0] >= 0 && x[0] <= {MOST_TEXT}) {{
    x = [1 - Math.min(x[0], 1), Math.min(x[0], 1)];
  }}
  const inside = x.length === CLASSES.length && x.every((v) => {inside});{scaled}
  const total = x.reduce((a, b) => a + b, 0);
  if (!inside || !({check})) {{
    throw new RangeError("not probabilities of " + CLASSES.length + " classes: " + row);
  }}
  return x.map((v) => Math.max(v / total, FLOOR));
}}""".strip()


def _labels(classes: list[Any]) -> list[Any]:
    """The labels; all whole numbers as texts if one of them is so large that JavaScript would round it."""
    whole = [isinstance(label, int) and not isinstance(label, bool) for label in classes]
    if not any(number and abs(label) > _LARGEST_WHOLE for number, label in zip(whole, classes)):
        return classes
    return [str(label) if number else label for number, label in zip(whole, classes)]


def _literal(label: Any) -> str:
    """A label as JavaScript that may stand in a page, too."""
    text = json.dumps(label)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


_PREPARE_LOGITS = """
function prepare(x) {
  if (x.length === 1 && CLASSES.length === 2) x = [0, x[0]];
  const top = Math.max(...x);
  if (x.length !== CLASSES.length || !Number.isFinite(top)) {
    throw new RangeError("not logits of " + CLASSES.length + " classes: " + x);
  }
  const shifted = x.map((v) => v - top);
  const total = Math.log(shifted.map((v) => Math.exp(v)).reduce((a, b) => a + b, 0));
  return shifted.map((v) => Math.exp(Math.max(v - total, LOG_FLOOR)));
}""".strip()


_NUMBER = f"""
function spelled(value) {{ // as Python spells it, whose texts the levels are
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "number") return value === null ? "" : String(value).replace(/\\0+$/, "");
  if (Number.isInteger(value)) return String(BigInt(value));
  if (Math.abs(value) === Infinity) return value > 0 ? "inf" : "-inf";
  const small = Math.abs(value) < 1e-4;
  return small ? value.toExponential().replace(/e-(\\d)$/, "e-0$1") : String(value);
}}

function plain_number(text) {{ // without zeros that say nothing
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


def write(fitted: Map, notes: list[str]) -> str:
    """The source code of a map."""
    return JavaScriptWriter(fitted, notes).text()


def run(written: str, fitted: Map, rows: FloatArray, segments: Segments | None = None) -> FloatArray:
    """Predictions of the source code, by Node."""
    given: list[list[Any]] = [[row] for row in rows.tolist()]
    if segments is not None:
        for item, values in zip(given, row_by_row(segments)):
            # JSON knows no NaN.
            item.append({name: None if value != value else value for name, value in values.items()})
    with workshop({"map.cjs": written, "run.cjs": _RUN}) as folder:
        return np.array(json.loads(run_program(["node", "run.cjs"], folder, json.dumps(given))))
