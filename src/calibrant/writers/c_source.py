"""C99 without dependencies except the mathematical library."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant.inputs.segments import LARGEST, MISSING, places_of
from calibrant.runtime import Map
from calibrant.steps.step import NotSupportedError
from calibrant.typing import FloatArray, Label
from calibrant.writers.common import Segments, arrays_beside, names_of_all, run_program, title, workshop
from calibrant.writers.source import SourceRow, SourceWriter, entries, wrapped

#: Fused multiplications round differently; everything else is what any compiler does.
_COMPILE = ("cc", "-std=c99", "-O2", "-ffp-contract=off", "-DCALIBRATE_MAIN", "map.c", "-o", "map", "-lm")


class CWriter(SourceWriter):
    """A file with `calibrate(row, out)` and `calibrate_classes`; with CALIBRATE_MAIN defined, a program."""

    opening = "static int {}(const double *x, double *y) {{"
    closing = "    for (int j = 0; j < {n}; j++) y[j] = {0}[j];\n    return 0;\n}}"
    vector = "double {name}[{n}]; for (int j = 0; j < {n}; j++) {name}[j] = {text};"
    constant = "static const {kind} {name}[] = {{\n{numbers}\n}};"
    call = "double {name}[{n}]; {function}({arguments}, {name});"
    scalar, choice = "{kind} {name} = {text};", "({} ? {} : {})"
    refuse = "for (int j = 0; j < {n}; j++) if (!{text}) return 1;"
    spelled = {  # noqa: RUF012
        **{name: f"{name}({{}})" for name in ("exp", "log", "floor")},
        "abs": "fabs({})",
        "max": "fmax({}, {})",
        "min": "fmin({}, {})",
        "int": "(int){}",
        **{name: f"{name}({{}}, {{}})" for name in ("total", "largest", "least", "top")},
    }
    helpers = {  # noqa: RUF012
        "total": """
static double total(const double *x, int n) {
    double value = 0.0;
    for (int j = 0; j < n; j++) value += x[j];
    return value;
}""",
        "largest": """
static double largest(const double *x, int n) {
    double value = x[0];
    for (int j = 1; j < n; j++) value = fmax(value, x[j]);
    return value;
}""",
        "least": """
static double least(const double *x, int n) {
    double value = x[0];
    for (int j = 1; j < n; j++) value = fmin(value, x[j]);
    return value;
}""",
        "top": """
static int top(const double *x, int n) {
    int place = 0;
    for (int j = 1; j < n; j++) place = x[j] > x[place] ? j : place;
    return place;
}""",
        "product": """
static void product(const double *x, const double *matrix, int rows, int columns, double *y) {
    for (int j = 0; j < columns; j++) y[j] = 0.0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) y[j] += x[i] * matrix[i * columns + j];
}""",
        "piece": """
static int piece(double x, const double *edges, int n) { /* the number of edges below x */
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (edges[middle] < x) low = middle + 1;
        else high = middle;
    }
    return low;
}""",
        "trees": """
static void trees(const double *x, const int *features, const int *subtracted, const double *thresholds,
                  const double *values, int count, int depth, int columns, double *y) {
    for (int j = 0; j < columns; j++) y[j] = 0.0;
    for (int t = 0; t < count; t++) {
        int leaf = t << depth;
        for (int b = 0; b < depth; b++) {
            int q = t * depth + b;
            double value = x[features[q]] - (subtracted[q] >= 0 ? x[subtracted[q]] : 0.0);
            if (value > thresholds[q]) leaf += 1 << b;
        }
        for (int j = 0; j < columns; j++) y[j] += values[leaf * columns + j];
    }
}""",
    }

    def head(self) -> str:
        notes = "".join(f"\n   {note}" for note in self.notes)
        classes, columns = (
            ", ".join(f'"{_escaped(name)}"' for name in names) for names in (self.map.classes, names_of_all(self.map))
        )
        call, what, include = "row", "", ""
        if self.map.segments:
            call, what, include = "row, segments", _SEGMENTS_IN_WORDS, "\n#include <string.h>"
        lists: dict[str, list[object]] = {}
        if self.map.rule is not None:
            what += _DECIDE_IN_WORDS
            lists = {"actions": self.map.rule.to_json()["actions"], "amounts": list(self.map.rule.amounts)}
        texts = {name: ", ".join(f'"{_escaped(item)}"' for item in items) for name, items in lists.items() if items}
        actions = "".join(f"\nconst char *const calibrate_{name}[] = {{{text}}};" for name, text in texts.items())
        return f"""/* {title(self.map)}
   calibrate({call}, out) takes one number per class, in the order of calibrate_columns, and writes calibrated
   probabilities in that of calibrate_classes; it returns 0, or 1 if the row is not a prediction.
   Compile as C99 and link with -lm.
   With CALIBRATE_MAIN defined it is a program that reads rows from standard input.{what}{notes} */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>{include}

#define CLASSES {self.map.k}

const char *const calibrate_classes[CLASSES] = {{{classes}}};
const char *const calibrate_columns[CLASSES] = {{{columns}}};{actions}"""

    def join(self, rows: Sequence[SourceRow], *, single: bool = False) -> SourceRow:
        name, width, first = self._new_name(), sum(row.width for row in rows), 0
        self._lines.append(f"double {name}[{width}];")
        for row in rows:
            loop = f"for (int j = 0; j < {row.width}; j++) {name}[{first} + j] = {row.at('j')};"
            self._lines.append(loop if row.width > 1 else f"{name}[{first}] = {row.at('0')};")
            first += row.width
        return entries(name, width)

    def tail(self) -> str:
        before, parameter, argument, width, body = "", "", "", "CLASSES", "    return calibrated(row, out);"
        if self.map.segments:
            before, parameter, argument = f"{self._segments()}\n\n", " const double *segments,", " row + CLASSES,"
            width, body = "CLASSES + SEGMENTS", _BESIDE
        decide, show, held = "", """printf("%.17g%c", out[j], j == CLASSES - 1 ? '\\n' : ' ');""", width
        if self.map.rule is not None:
            m, segments = len(self.map.rule.amounts), ["segments"] if self.map.segments else []
            given = ["row", *segments, *(["amounts"] if m else [])]
            guard = _AMOUNTS.format(m) if m else ""
            decide = f"""

int calibrate_decide({", ".join(f"const double *{name}" for name in given)}) {{
    double p[CLASSES + {m}], action[1];
    {guard}
    if (calibrate({", ".join(["row", *segments, "p"])})) return -1;
    cheapest(p, action);
    return (int)action[0];
}}"""
            held = f"{width} + {m}"
            where = ["row", *(["row + CLASSES"] if segments else []), *([f"row + {width}"] if m else [])]
            show = f"""printf("%.17g ", out[j]);
            printf("%d\\n", calibrate_decide({", ".join(where)}));"""
        return f"""{before}int calibrate(const double *row,{parameter} double *out) {{
{body}
}}{decide}

#ifdef CALIBRATE_MAIN
int main(void) {{
    double row[{held}], out[CLASSES];
    int j = 0;
    while (scanf("%lf", row + j) == 1)
        if (++j == {held}) {{
            if (calibrate(row,{argument} out)) return 1;
            for (j = 0; j < CLASSES; j++) {show}
            j = 0;
        }}
    return j != 0;
}}
#endif"""

    def _segments(self) -> str:
        names = ", ".join(f'"{_escaped(name)}"' for name in self.map.segments)
        tables, lists, counts = "", [], []
        for number, levels in enumerate(self.map.segments.values()):
            spelled = places_of(levels or ())
            counts.append(str(len(spelled)))
            lists.append("NULL" if levels is None else f"LEVELS_{number}")
            if levels is None:
                continue
            if any("\0" in text for text in levels):
                raise NotSupportedError("A level of the segments holds the character 0, which ends a text in C.")
            entries = wrapped([f'{{"{_escaped(text)}", {place}}}' for text, place in spelled.items()])
            tables += f"static const level_t LEVELS_{number}[] = {{\n{entries}\n}};\n"
        # A number of three characters more, a sign, a zero and a point, may be as long as a level.
        longest = 3 + max(len(text) for levels in self.map.segments.values() for text in ["", *places_of(levels or ())])
        return f"""#define SEGMENTS {len(counts)}
#define LONGEST {longest}
const char *const calibrate_segments[SEGMENTS] = {{{names}}};
typedef struct {{ const char *text; int place; }} level_t;
{tables}static const level_t *const LEVELS[SEGMENTS] = {{{", ".join(lists)}}};
static const int COUNTS[SEGMENTS] = {{{", ".join(counts)}}};
{_LEVEL}"""


_SEGMENTS_IN_WORDS = """
   segments holds a number for each of calibrate_segments: for a column of numbers, the number (NAN if missing);
   for other columns, calibrate_level(column, text), where the empty text means missing."""

_DECIDE_IN_WORDS = """
   calibrate_decide takes the same row, and the calibrate_amounts of the row if there are any, and returns the number of
   the cheapest of calibrate_actions, or -1 if these are not a prediction and amounts."""

_AMOUNTS = """for (int i = 0; i < {}; i++) {{
        if (!(amounts[i] >= 0.0 && amounts[i] <= DBL_MAX)) return -1;
        p[CLASSES + i] = amounts[i];
    }}"""

_LEVEL = """
static double find_level(int segment, const char *text) {
    for (int level = 0; level < COUNTS[segment]; level++)
        if (!strcmp(LEVELS[segment][level].text, text)) return LEVELS[segment][level].place;
    return -1.0;
}

double calibrate_level(int segment, const char *text) {
    double found = find_level(segment, text);
    char number[LONGEST + 1]; /* the text without leading and trailing zeros, if it is a number */
    const char *digits = text + (*text == '-');
    size_t whole = strspn(digits, "0123456789"), part = 0;
    const char *fraction = digits + whole;
    if (*fraction == '.') part = strspn(++fraction, "0123456789");
    if (found >= 0.0 || fraction[part] || whole + part == 0) return found;
    for (; whole && *digits == '0'; whole--) digits++;
    while (part && fraction[part - 1] == '0') part--;
    if (whole + part + 3 > LONGEST) return -1.0;
    sprintf(number, "%s%.*s%s%.*s", *text == '-' && whole + part ? "-" : "", whole ? (int)whole : 1,
            whole ? digits : "0", part ? "." : "", (int)part, fraction);
    return find_level(segment, number);
}"""

_BESIDE = f"""    double x[CLASSES + SEGMENTS];
    for (int j = 0; j < CLASSES; j++) x[j] = row[j];
    for (int j = 0; j < SEGMENTS; j++) {{
        double number = fmin(fmax(segments[j], -{LARGEST}), {LARGEST});
        x[CLASSES + j] = fabs(segments[j]) <= DBL_MAX ? number : {MISSING};
    }}
    return calibrated(x, out);"""


def _escaped(label: Label) -> str:
    """A label as the inside of a C string: letters and digits as they are, every other byte as an octal escape."""
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
    data = str(label).encode("utf-8", "surrogatepass")
    return "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in data)


write = CWriter.write


def run(
    written: str, fitted: Map, rows: FloatArray, segments: Segments | None = None, amounts: Segments | None = None
) -> FloatArray:
    """Predictions of the source code, compiled, and the numbers of its actions."""
    numbers = np.hstack([rows, *arrays_beside(fitted, len(rows), segments, amounts).values()]).tolist()
    with workshop({"map.c": written}) as folder:
        run_program(list(_COMPILE), folder)
        text = "\n".join(" ".join(map(repr, row)) for row in numbers)
        found = run_program([str(folder / "map")], folder, text).split()
    return np.array(found, dtype=np.float64).reshape(len(rows), -1)
