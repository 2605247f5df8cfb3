"""Python without imports but `math`."""

from __future__ import annotations

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

#: Largest difference of a probability.
TOLERANCE = 1e-12


class PythonWriter(SourceWriter):
    """A module with `calibrate(row)` and `CLASSES`."""

    functions = {  # noqa: RUF012  constant
        "exp_all": "def exp_all(x):\n    return [math.exp(v) for v in x]",
        "log_all": "def log_all(x):\n    return [max(math.log(v), LOG_FLOOR) if v > 0.0 else LOG_FLOOR for v in x]",
        "clip": "def clip(x, low, high):\n    return [min(max(v, low), high) for v in x]",
        "mix": "def mix(x, weight):\n    return [(1.0 - weight) * v + weight / len(x) for v in x]",
        "scale": "def scale(x, factor, shift):\n    return [v * f + s for v, f, s in zip(x, factor, shift)]",
        "polynomial": """
def polynomial(x, c, n):
    out = [c[n - 1]] * len(x)
    for d in range(n - 2, -1, -1):
        out = [o * v + c[d] for o, v in zip(out, x)]
    return out""",
        "softmax": """
def softmax(x):
    top = max(x)
    out = [math.exp(v - top) for v in x]
    total = sum(out)
    return [v / total for v in out]""",
        "normalize": """
def normalize(x):
    total = sum(x)
    return [v / total for v in x] if total > 0.0 else [1.0 / len(x)] * len(x)""",
        "columns": "def columns(x, index, n):\n    return [x[j] for j in index]",
        "log_odds": "def log_odds(x):\n    return [x[1] - x[0]]",
        "lead": """
def lead(x):
    second, largest = sorted(x)[-2:]
    return [largest, largest - second]""",
        "sigmoid": """
def sigmoid(x):
    small = math.exp(-abs(x[0]))
    lesser = small / (1.0 + small)
    return [lesser, 1.0 - lesser] if x[0] >= 0.0 else [1.0 - lesser, lesser]""",
        "complement": "def complement(x):\n    return [1.0 - x[0], x[0]]",
        "linear": """
def linear(x, matrix, shift, columns):
    out = list(shift)
    for i, v in enumerate(x):
        for j in range(columns):
            out[j] += v * matrix[i * columns + j]
    return out""",
        "curves": """
def curves(x, u):
    k, out = len(x), []
    for j, v in enumerate(x):
        q = math.exp(v)
        rest = max(math.log1p(-min(q, 1.0 - 1e-12)), -20.0)
        out.append(u[j] * (v * (v / 5.0)) + u[k + j] * rest + u[2 * k + j] * q)
    return out""",
        "kernel": """
def kernel(x, landmarks, n, spread, weight, bandwidth):
    mean = sum(x) / len(x)
    z = [(v - mean) / spread for v in x] + [weight * math.exp(v) for v in x]
    d = len(z)
    return [
        math.exp(-sum((v - landmarks[i * d + j]) ** 2 for j, v in enumerate(z)) / bandwidth) for i in range(n)
    ]""",
        "trees": """
def trees(x, features, subtracted, thresholds, values, count, depth, k):
    out = [0.0] * k
    for t in range(count):
        leaf = 0
        for b in range(depth):
            q = t * depth + b
            v = x[features[q]] - (x[subtracted[q]] if subtracted[q] >= 0 else 0.0)
            leaf += (v > thresholds[q]) << b
        first = ((t << depth) + leaf) * k
        for j in range(k):
            out[j] += values[first + j]
    return out""",
        "levels": """
def levels(x, intercept, slope, count):
    k, level = len(x) - 1, x[-1]
    if not 0.0 <= level < count:
        return [0.0] * k
    first = int(level) * k
    return [slope[first + j] * x[j] + intercept[first + j] for j in range(k)]""",
        "piecewise": """
def piecewise(x, edges, n, origins, coefficients, terms):
    low, high = 0, n  # the number of edges below x
    while low < high:
        middle = (low + high) // 2
        if edges[middle] < x[0]:
            low = middle + 1
        else:
            high = middle
    t, out = x[0] - origins[low], 0.0
    for d in range(terms - 1, -1, -1):
        out = out * t + coefficients[low * terms + d]
    return [out]""",
        "add": """
def add(x, maps, n):
    out = maps[0](x)
    for m in maps[1:]:
        out = [a + b for a, b in zip(out, m(x))]
    return out""",
        "join": """
def join(x, widths, maps, n):
    return [v for m in maps for v in m(x)]""",
        "keep_top": """
def keep_top(x, maps, n):
    z, share, largest = maps[0](x), float("inf"), max(x)
    top = next(j for j, v in enumerate(x) if v >= largest - 1e-12)
    for j in range(len(x)):
        lead = x[top] - x[j] if x[top] - x[j] >= 1e-12 else 0.0
        change = (z[top] - z[j]) - lead
        if j != top and change < 0.0:
            share = min(share, -lead / change)
    share = min(share * (1.0 - 1e-9), 1.0)
    return [a + share * (b - a) for a, b in zip(x, z)]""",
        "one_vs_rest": """
def one_vs_rest(x, maps, n):
    top, out = x.index(max(x)), []
    others = sum(v for j, v in enumerate(x) if j != top)
    for j, v in enumerate(x):
        rest = others if j == top else (others + x[top]) - v
        out.append(maps[j]([max(rest, FLOOR), v])[1])
    return out""",
        "one_vs_one": """
def one_vs_one(x, maps, n):
    k, m = len(x), 0
    inverse = [0.0] * k
    for i in range(k):
        for j in range(i + 1, k):
            both = x[i] + x[j]
            r = maps[m]([max(x[i] / both, FLOOR), max(x[j] / both, FLOOR)])
            m += 1
            inverse[i] += 1.0 / r[0] if r[0] else float("inf")
            inverse[j] += 1.0 / r[1] if r[1] else float("inf")
    return [1.0 / max(v - (k - 2), 1.0) for v in inverse]""",
    }

    def head(self) -> str:
        notes = "".join(f"\n{note}" for note in self.notes)
        call, what = "row", ""
        if self.map.segments:
            call, what = (
                "row, segments",
                "\n`segments` is a dict of the columns named in `SEGMENTS`: texts, or numbers.",
            )
        return f'''"""{title(self.map)}

`calibrate({call})` takes one number per class (one alone is that of the second of two classes) and returns calibrated
probabilities in the order of `CLASSES`.{what}{notes}
"""

import math

CLASSES = [{", ".join(ascii(label) for label in self.map.classes)}]
LOG_FLOOR = {LOG_FLOOR_TEXT}
FLOOR = {FLOOR_TEXT}'''

    def constant(self, name: str, numbers: list[str], *, integer: bool) -> str:
        return f"{name} = [\n{wrapped(numbers)}\n]"

    def function_list(self, names: list[str]) -> str:
        return f"[{', '.join(names)}]"

    def body(self, name: str, width: int, lines: list[tuple[Call, list[str]]]) -> str:
        calls = "".join(f"    x = {call.name}({', '.join(['x', *arguments])})\n" for call, arguments in lines)
        return f"def {name}(x):\n{calls}    return x"

    def tail(self) -> str:
        order = ""
        if self.map.columns is not None:  # of the single number that may be given for two classes there is no order
            order = f"    x = [x[j] for j in {self.map.columns.tolist()}] if len(row) > 1 else x\n"
        prepare = _PREPARE_LOGITS if self.map.logits else self._prepare()
        if not self.map.segments:
            return f"{prepare}\n\n{_CALIBRATE}{order}    return {self.main}(x)"
        beside = "    x += [number(segments[name], levels) for name, levels in SEGMENTS]\n"
        calibrate = _CALIBRATE.replace("(row)", "(row, segments)", 1)
        return f"{self._segments()}\n\n{prepare}\n\n{calibrate}{order}{beside}    return {self.main}(x)"

    def _segments(self) -> str:
        columns = []
        for name, levels in self.map.segments.items():
            places = "None"
            if levels is not None:
                entries = [f"{text!a}: {place}" for text, place in places_of(levels).items()]
                places = f"{{\n{wrapped(entries)}\n}}"
            columns.append(f"({name!a}, {places}),\n")
        return f"SEGMENTS = [\n{''.join(columns)}]\n{_NUMBER}"

    def _prepare(self) -> str:
        inside, check = f"0.0 <= v <= {MOST_TEXT}", f"abs(total - 1.0) <= {ROUNDING}"
        scaled = ""
        if self.map.renormalize:
            inside, check = "0.0 <= v < math.inf", "total > 0.0"
            scaled = "\n    x = [v / (max(x) if max(x) > 2.0 else 1.0) for v in x]"
        return f"""
def prepare(row):
    x = row
    if len(x) == 1 and len(CLASSES) == 2 and 0.0 <= x[0] <= {MOST_TEXT}:
        x = [1.0 - min(x[0], 1.0), min(x[0], 1.0)]
    if len(x) != len(CLASSES) or not all({inside} for v in x):
        raise ValueError(f"not probabilities of {{len(CLASSES)}} classes: {{row}}"){scaled}
    total = 0.0
    for v in x:  # sum() rounds in another way in newer versions of Python
        total += v
    if not {check}:
        raise ValueError(f"not probabilities of {{len(CLASSES)}} classes: {{row}}")
    return [max(v / total, FLOOR) for v in x]"""


_PREPARE_LOGITS = """
def prepare(x):
    x = [0.0, x[0]] if len(x) == 1 and len(CLASSES) == 2 else x
    top = max(x, default=math.nan)
    if len(x) != len(CLASSES) or any(v != v for v in x) or not abs(top) < math.inf:
        raise ValueError(f"not logits of {len(CLASSES)} classes: {x}")
    shifted = [v - top for v in x]
    total = math.log(sum(math.exp(v) for v in shifted))
    return [math.exp(max(v - total, LOG_FLOOR)) for v in shifted]"""

_NUMBER = f"""
def plain_number(text):  # without zeros that say nothing
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
    value = float(text) if text else math.inf
    return min(max(value, -{LARGEST}), {LARGEST}) if abs(value) < math.inf else {MISSING}"""

_CALIBRATE = """
def calibrate(row):
    row = [float(v) for v in row]
    x = prepare(row)
"""


def write(fitted: Map, notes: list[str]) -> str:
    """The source code of a map."""
    return PythonWriter(fitted, notes).text()


def run(written: str, fitted: Map, rows: FloatArray, segments: Segments | None = None) -> FloatArray:
    """Predictions of the source code, in a namespace of its own."""
    scope: dict[str, Any] = {}
    exec(compile(written, "<calibrant export>", "exec"), scope)
    if segments is None:
        return np.array([scope["calibrate"](row) for row in rows.tolist()])
    return np.array([scope["calibrate"](*item) for item in zip(rows.tolist(), row_by_row(segments))])
