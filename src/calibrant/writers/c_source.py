"""C99 without dependencies but the mathematical library."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.inputs.rows import ROUNDING
from calibrant.inputs.segments import LARGEST, MISSING, places_of
from calibrant.runtime import Map
from calibrant.typing import FloatArray
from calibrant.writers.calls import Call, NotSupportedError
from calibrant.writers.source import FLOOR_TEXT, LOG_FLOOR_TEXT, MOST_TEXT, Segments, SourceWriter, title, wrapped
from calibrant.writers.tools import run_program, workshop

#: Largest difference of a probability.
TOLERANCE = 1e-12

#: Fused multiplications round differently; everything else is what any compiler does.
_COMPILE = ("cc", "-std=c99", "-O2", "-ffp-contract=off", "-DCALIBRATE_MAIN", "map.c", "-o", "map", "-lm")


def _each(name: str, arguments: str, value: str) -> str:
    """A function that treats every number alike."""
    return f"""
static void {name}(const double *x, double *y, int k{arguments}) {{
    for (int j = 0; j < k; j++) y[j] = {value};
}}"""


class CWriter(SourceWriter):
    """A file with `calibrate(row, out)` and `calibrate_classes`; with CALIBRATE_MAIN defined, a program."""

    functions = {  # noqa: RUF012  constant
        "exp_all": _each("exp_all", "", "exp(x[j])"),
        "log_all": _each("log_all", "", "x[j] > 0.0 ? fmax(log(x[j]), LOG_FLOOR) : LOG_FLOOR"),
        "clip": _each("clip", ", double low, double high", "fmin(fmax(x[j], low), high)"),
        "mix": _each("mix", ", double weight", "(1.0 - weight) * x[j] + weight / k"),
        "scale": _each("scale", ", const double *factor, const double *shift", "x[j] * factor[j] + shift[j]"),
        "polynomial": """
static void polynomial(const double *x, double *y, int k, const double *c, int n) {
    for (int j = 0; j < k; j++) {
        double value = c[n - 1];
        for (int d = n - 2; d >= 0; d--) value = value * x[j] + c[d];
        y[j] = value;
    }
}""",
        "softmax": """
static void softmax(const double *x, double *y, int k) {
    double top = x[0], total = 0.0;
    for (int j = 1; j < k; j++) top = fmax(top, x[j]);
    for (int j = 0; j < k; j++) total += y[j] = exp(x[j] - top);
    for (int j = 0; j < k; j++) y[j] /= total;
}""",
        "normalize": """
static void normalize(const double *x, double *y, int k) {
    double total = 0.0;
    for (int j = 0; j < k; j++) total += x[j];
    for (int j = 0; j < k; j++) y[j] = total > 0.0 ? x[j] / total : 1.0 / k;
}""",
        "columns": """
static void columns(const double *x, double *y, int k, const int *index, int n) {
    (void)k;
    for (int j = 0; j < n; j++) y[j] = x[index[j]];
}""",
        "log_odds": """
static void log_odds(const double *x, double *y, int k) {
    (void)k;
    y[0] = x[1] - x[0];
}""",
        "lead": """
static void lead(const double *x, double *y, int k) {
    double largest = fmax(x[0], x[1]), second = fmin(x[0], x[1]);
    for (int j = 2; j < k; j++) {
        second = fmax(second, fmin(largest, x[j]));
        largest = fmax(largest, x[j]);
    }
    y[0] = largest;
    y[1] = largest - second;
}""",
        "sigmoid": """
static void sigmoid(const double *x, double *y, int k) {
    double small = exp(-fabs(x[0])), lesser = small / (1.0 + small);
    (void)k;
    y[0] = x[0] >= 0.0 ? lesser : 1.0 - lesser;
    y[1] = x[0] >= 0.0 ? 1.0 - lesser : lesser;
}""",
        "complement": """
static void complement(const double *x, double *y, int k) {
    (void)k;
    y[0] = 1.0 - x[0];
    y[1] = x[0];
}""",
        "linear": """
static void linear(const double *x, double *y, int k, const double *matrix, const double *shift, int columns) {
    for (int j = 0; j < columns; j++) y[j] = shift[j];
    for (int i = 0; i < k; i++)
        for (int j = 0; j < columns; j++) y[j] += x[i] * matrix[i * columns + j];
}""",
        "curves": """
static void curves(const double *x, double *y, int k, const double *u) {
    for (int j = 0; j < k; j++) {
        double q = exp(x[j]), rest = fmax(log1p(-fmin(q, 1.0 - 1e-12)), -20.0);
        y[j] = u[j] * (x[j] * (x[j] / 5.0)) + u[k + j] * rest + u[2 * k + j] * q;
    }
}""",
        "kernel": """
static void kernel(const double *x, double *y, int k, const double *landmarks, int n, double spread, double weight,
                   double bandwidth) {
    double mean = 0.0;
    for (int j = 0; j < k; j++) mean += x[j];
    mean /= k;
    for (int i = 0; i < n; i++) {
        const double *landmark = landmarks + 2 * k * i;
        double distance = 0.0;
        for (int j = 0; j < k; j++) {
            double a = (x[j] - mean) / spread - landmark[j], b = weight * exp(x[j]) - landmark[k + j];
            distance += a * a + b * b;
        }
        y[i] = exp(-distance / bandwidth);
    }
}""",
        "trees": """
static void trees(const double *x, double *y, int k, const int *features, const int *subtracted,
                  const double *thresholds, const double *values, int count, int depth, int columns) {
    (void)k;
    for (int j = 0; j < columns; j++) y[j] = 0.0;
    for (int t = 0; t < count; t++) {
        size_t leaf = 0;
        for (int b = 0; b < depth; b++) {
            int q = t * depth + b;
            double v = x[features[q]] - (subtracted[q] >= 0 ? x[subtracted[q]] : 0.0);
            if (v > thresholds[q]) leaf += (size_t)1 << b;
        }
        const double *step = values + (((size_t)t << depth) + leaf) * columns;
        for (int j = 0; j < columns; j++) y[j] += step[j];
    }
}""",
        "levels": """
static void levels(const double *x, double *y, int k, const double *intercept, const double *slope, int count) {
    double level = x[k - 1];
    int known = level >= 0.0 && level < count;
    size_t first = known ? (size_t)level * (k - 1) : 0;
    for (int j = 0; j < k - 1; j++) y[j] = known ? slope[first + j] * x[j] + intercept[first + j] : 0.0;
}""",
        "piecewise": """
static void piecewise(const double *x, double *y, int k, const double *edges, int n, const double *origins,
                      const double *coefficients, int terms) {
    int low = 0, high = n; /* the number of edges below x */
    (void)k;
    while (low < high) {
        int middle = (low + high) / 2;
        if (edges[middle] < x[0]) low = middle + 1;
        else high = middle;
    }
    double t = x[0] - origins[low], value = 0.0;
    for (int d = terms - 1; d >= 0; d--) value = value * t + coefficients[low * terms + d];
    y[0] = value;
}""",
        "add": """
static void add(const double *x, double *y, int k, const map_t *maps, int n, int columns) {
    double part[WIDEST];
    (void)k;
    maps[0](x, y);
    for (int m = 1; m < n; m++) {
        maps[m](x, part);
        for (int j = 0; j < columns; j++) y[j] += part[j];
    }
}""",
        "join": """
static void join(const double *x, double *y, int k, const int *widths, const map_t *maps, int n, int columns) {
    (void)k, (void)columns;
    for (int m = 0; m < n; m++) {
        maps[m](x, y);
        y += widths[m];
    }
}""",
        "keep_top": """
static void keep_top(const double *x, double *y, int k, const map_t *maps, int n, int columns) {
    double z[WIDEST], share = HUGE_VAL, largest = x[0];
    int top = 0;
    (void)n, (void)columns;
    maps[0](x, z);
    for (int j = 0; j < k; j++) largest = fmax(largest, x[j]);
    while (x[top] < largest - 1e-12) top++;
    for (int j = 0; j < k; j++) {
        double lead = x[top] - x[j] >= 1e-12 ? x[top] - x[j] : 0.0, change = (z[top] - z[j]) - lead;
        if (j != top && change < 0.0) share = fmin(share, -lead / change);
    }
    share = fmin(share * (1.0 - 1e-9), 1.0);
    for (int j = 0; j < k; j++) y[j] = x[j] + share * (z[j] - x[j]);
}""",
        "one_vs_rest": """
static void one_vs_rest(const double *x, double *y, int k, const map_t *maps, int n, int columns) {
    int top = 0;
    double others = 0.0;
    (void)n, (void)columns;
    for (int j = 1; j < k; j++)
        if (x[j] > x[top]) top = j;
    for (int j = 0; j < k; j++)
        if (j != top) others += x[j];
    for (int j = 0; j < k; j++) {
        double two[2] = {fmax(j == top ? others : (others + x[top]) - x[j], FLOOR), x[j]}, out[2];
        maps[j](two, out);
        y[j] = out[1];
    }
}""",
        "one_vs_one": """
static void one_vs_one(const double *x, double *y, int k, const map_t *maps, int n, int columns) {
    int m = 0;
    (void)n, (void)columns;
    for (int j = 0; j < k; j++) y[j] = 0.0;
    for (int i = 0; i < k; i++)
        for (int j = i + 1; j < k; j++) {
            double both = x[i] + x[j], two[2] = {fmax(x[i] / both, FLOOR), fmax(x[j] / both, FLOOR)}, r[2];
            maps[m++](two, r);
            y[i] += 1.0 / r[0];
            y[j] += 1.0 / r[1];
        }
    for (int j = 0; j < k; j++) y[j] = 1.0 / fmax(y[j] - (k - 2), 1.0);
}""",
    }

    def head(self) -> str:
        notes = "".join(f"\n   {note}" for note in self.notes)
        classes = ", ".join(f'"{_escaped(label)}"' for label in self.map.classes)
        call, what, include = "row", "", ""
        if self.map.segments:
            call, what, include = "row, segments", _SEGMENTS_IN_WORDS, "\n#include <string.h>"
        return f"""/* {title(self.map)}
   calibrate({call}, out) takes one number per class and writes calibrated probabilities in the order of
   calibrate_classes; it returns 0, or 1 if the row cannot be calibrated. Compile as C99 and link with -lm.
   With CALIBRATE_MAIN defined it is a program that reads rows from standard input.{what}{notes} */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>{include}

#define CLASSES {self.map.k}
#define WIDEST {self.widest}
#define LOG_FLOOR ({LOG_FLOOR_TEXT})
#define FLOOR {FLOOR_TEXT}

const char *const calibrate_classes[CLASSES] = {{{classes}}};

typedef void (*map_t)(const double *, double *);"""

    def constant(self, name: str, numbers: list[str], *, integer: bool) -> str:
        return f"static const {'int' if integer else 'double'} {name}[] = {{\n{wrapped(numbers or ['0'])}\n}};"

    def function_list(self, names: list[str]) -> str:
        name = f"MAPS_{len(self.maps)}"
        self.maps.append(f"static const map_t {name}[] = {{\n{wrapped(names)}\n}};")
        return name

    def body(self, name: str, width: int, lines: list[tuple[Call, list[str]]]) -> str:
        out = [f"static void {name}(const double *x, double *y) {{"]
        if not lines:
            out.append(f"    for (int j = 0; j < {width}; j++) y[j] = x[j];")
        value = "x"
        for number, (call, arguments) in enumerate(lines):
            last = number == len(lines) - 1
            if not last:
                out.append(f"    double v{number}[{call.after}];")
            target = "y" if last else f"v{number}"
            after = [str(call.after)] if call.parts else []
            out.append(f"    {call.name}({', '.join([value, target, str(call.before), *arguments, *after])});")
            value = target
        return "\n".join([*out, "}"])

    def tail(self) -> str:
        order = "x[j]"
        if self.map.columns is not None:
            index = ", ".join(map(str, self.map.columns.tolist()))
            order = f"x[(const int[]){{{index}}}[j]]"
        prepare = _PREPARE_LOGITS if self.map.logits else self._prepare()
        before, parameter, argument, width, beside = "", "", "", "CLASSES", ""
        if self.map.segments:
            before, parameter, argument = f"{self._segments()}\n\n", " const double *segments,", " row + CLASSES,"
            width, beside = "CLASSES + SEGMENTS", _BESIDE
        return f"""{before}int calibrate(const double *row,{parameter} double *out) {{
    double x[CLASSES], ordered[{width}];
{prepare}
    for (int j = 0; j < CLASSES; j++) ordered[j] = {order};{beside}
    {self.main}(ordered, out);
    return 0;
}}

#ifdef CALIBRATE_MAIN
int main(void) {{
    double row[{width}], out[CLASSES];
    int j = 0;
    while (scanf("%lf", row + j) == 1)
        if (++j == {width}) {{
            if (calibrate(row,{argument} out)) return 1;
            for (j = 0; j < CLASSES; j++) printf("%.17g%c", out[j], j == CLASSES - 1 ? '\\n' : ' ');
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

    def _prepare(self) -> str:
        most = "DBL_MAX" if self.map.renormalize else MOST_TEXT
        check = "total > 0.0" if self.map.renormalize else f"fabs(total - 1.0) <= {ROUNDING}"
        return f"""    double top = 0.0, total = 0.0;
    for (int j = 0; j < CLASSES; j++) {{
        if (!(row[j] >= 0.0 && row[j] <= {most})) return 1;
        top = fmax(top, row[j]);
    }}
    for (int j = 0; j < CLASSES; j++) total += x[j] = row[j] / (top > 2.0 ? top : 1.0);
    if (!({check})) return 1;
    for (int j = 0; j < CLASSES; j++) x[j] = fmax(x[j] / total, FLOOR);"""


_SEGMENTS_IN_WORDS = """
   segments holds a number for each of calibrate_segments: of a column of numbers the number, NAN if it is missing, of
   other columns calibrate_level(column, text), where the empty text is a missing one."""

_LEVEL = """
static double find_level(int segment, const char *text) {
    for (int level = 0; level < COUNTS[segment]; level++)
        if (!strcmp(LEVELS[segment][level].text, text)) return LEVELS[segment][level].place;
    return -1.0;
}

double calibrate_level(int segment, const char *text) {
    double found = find_level(segment, text);
    char number[LONGEST + 1]; /* the text without zeros that say nothing, if it is a number */
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

_BESIDE = f"""
    for (int j = 0; j < SEGMENTS; j++) {{
        double number = fmin(fmax(segments[j], -{LARGEST}), {LARGEST});
        ordered[CLASSES + j] = fabs(segments[j]) <= DBL_MAX ? number : {MISSING};
    }}"""

_PREPARE_LOGITS = """    double top = row[0], total = 0.0;
    for (int j = 0; j < CLASSES; j++) {
        if (row[j] != row[j]) return 1;
        top = fmax(top, row[j]);
    }
    if (!(fabs(top) <= DBL_MAX)) return 1;
    for (int j = 0; j < CLASSES; j++) total += exp(x[j] = row[j] - top);
    for (int j = 0; j < CLASSES; j++) x[j] = exp(fmax(x[j] - log(total), LOG_FLOOR));"""


def _escaped(label: Any) -> str:
    """A label as the inside of a C string: letters and digits as they are, every other byte as an octal escape."""
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
    data = str(label).encode("utf-8", "surrogatepass")
    return "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in data)


def write(fitted: Map, notes: list[str]) -> str:
    """The source code of a map."""
    return CWriter(fitted, notes).text()


def run(written: str, fitted: Map, rows: FloatArray, segments: Segments | None = None) -> FloatArray:
    """Predictions of the source code, compiled."""
    shape, numbers = rows.shape, fitted.numbers(segments, len(rows))
    if numbers is not None:
        rows = np.hstack([rows, np.where(numbers == MISSING, np.nan, numbers)])
    with workshop({"map.c": written}) as folder:
        run_program(list(_COMPILE), folder)
        text = "\n".join(" ".join(map(repr, row)) for row in rows.tolist())
        return np.array(run_program([str(folder / "map")], folder, text).split(), dtype=np.float64).reshape(shape)
