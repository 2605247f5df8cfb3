"""A table of the study and its printed forms: Markdown, LaTeX and text for a terminal.

CSV keeps every digit; the printed forms round (four decimals, ranks two), set the best value of a column or row in bold
and the best of a family in italics, and carry the notes that a reader needs beside the numbers. Every text that comes
from data is escaped.

Pandas' Styler cannot replace this: it marks the smallest number, not all numbers that print like it, knows neither
Markdown nor rules between groups of rows, and leaves α, χ² and ∞ to LaTeX as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import pandas as pd

from calibrant.bench.csv_files import write_csv
from calibrant.files.atomic import write_text
from calibrant.text_table import aligned

Best = Literal["min", "max"]
Cell = tuple[int, str]
"""Row and column."""
_LONG = 45
"""Rows that fit on a page; a longer LaTeX table may break across pages."""


@dataclass(frozen=True)
class StudyTable:
    """A data frame with what is needed to print it."""

    name: str
    """File name without ending."""
    frame: pd.DataFrame
    caption: str = ""
    decimals: dict[str, int] = field(default_factory=dict)
    """Decimals by column; floats without an entry get four."""
    best: dict[str, Best] = field(default_factory=dict)
    """Columns whose smallest ("min") or largest ("max") value is set in bold."""
    best_in_row: tuple[str, ...] = ()
    """Columns of which the smallest value of each row is set in bold."""
    group: str | None = None
    """Column whose runs are separated by rules, the best of each run in italics."""
    bold_in_group: bool = False
    """Whether bold goes to the best of each run, where runs are not comparable, and italics to none."""
    p_values: tuple[str, ...] = ()
    """Columns of p-values, printed as <0.0001 where they round to zero."""
    unmarked: frozenset[int] = frozenset()
    """Rows that are never marked as best, because they are not comparable with the others."""
    notes: tuple[str, ...] = ()
    printed: bool = True
    """False for tables that only feed a figure: CSV alone."""

    def save(self, directory: Path) -> list[Path]:
        """Write `name.csv` and, for printed tables, `name.md` and `name.tex`."""
        directory.mkdir(parents=True, exist_ok=True)
        paths = [directory / f"{self.name}.csv"]
        write_csv(self.frame, paths[0])
        if self.printed:
            for ending, text in ((".md", to_markdown(self)), (".tex", to_latex(self))):
                paths.append(directory / f"{self.name}{ending}")
                write_text(paths[-1], text)
        return paths


def to_markdown(table: StudyTable) -> str:
    header, cells, numeric = _cells(table, _MARKDOWN)
    lines = [f"{_MARKDOWN.escape(table.caption)}\n"] if table.caption else []
    lines.append(f"| {' | '.join(header)} |")
    lines.append("|" + "|".join("---:" if is_number else ":---" for is_number in numeric) + "|")
    lines += [f"| {' | '.join(row)} |" for row in cells] or ["\n(no rows)"]
    lines += [f"\n{_MARKDOWN.escape(note)}" for note in table.notes]
    return "\n".join(lines) + "\n"


def to_latex(table: StudyTable) -> str:
    """LaTeX text of a table, for the package booktabs (and longtable, when it is long)."""
    header, cells, numeric = _cells(table, _LATEX)
    runs = list(table.frame[table.group]) if table.group else []
    body = []
    for i, row in enumerate(cells):
        if i and runs and runs[i] != runs[i - 1]:
            body.append(r"\midrule")
        body.append(" & ".join(row) + r" \\")
    long = len(cells) > _LONG
    title = rf"\caption{{{_LATEX.escape(table.caption)}}}" * bool(table.caption) + rf"\label{{tab:{table.name}}}"
    inner = "longtable" if long else "tabular"
    lines = [
        *([] if long else [r"\begin{table}[htbp]", r"\centering", title]),
        rf"\begin{{{inner}}}{{{''.join('r' if is_number else 'l' for is_number in numeric)}}}",
        *([title + r" \\"] if long else []),
        *(r"\toprule", " & ".join(header) + r" \\", r"\midrule"),
        *([r"\endhead"] if long else []),
        *body,
        *(r"\bottomrule", rf"\end{{{inner}}}"),
        *(rf"\par\smallskip\footnotesize {_LATEX.escape(note)}" for note in table.notes),
        *([] if long else [r"\end{table}"]),
    ]
    return "\n".join(lines) + "\n"


def to_text(table: StudyTable) -> str:
    """Plain aligned text of a table, for a terminal; the best values carry a star."""
    header, cells, numeric = _cells(table, _TEXT)
    return aligned([header, *cells], left=[not number for number in numeric])


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _escape_markdown(text: str) -> str:
    """Escape what Markdown or HTML would read as markup."""
    text = _one_line(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
    return "".join("\\" + c if c in "\\`*_[]|#$~" else c for c in text)


_IN_LATEX = str.maketrans(
    {
        **{c: "\\" + c for c in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "∞": r"$\infty$",
        "α": r"$\alpha$",
        "χ": r"$\chi$",
        "²": r"$^2$",
        "±": r"$\pm$",
        "×": r"$\times$",
        "–": "--",
        "\n": " ",
    }
)


class _Format(NamedTuple):
    """How text is escaped, what stands before and after a marked number, and what for infinity and for nan."""

    escape: Callable[[str], str]
    bold: tuple[str, str]
    italic: tuple[str, str]
    infinity: str
    missing: str


_MARKDOWN = _Format(_escape_markdown, ("**", "**"), ("*", "*"), "∞", "–")
_LATEX = _Format(lambda text: text.translate(_IN_LATEX), (r"\textbf{", "}"), (r"\textit{", "}"), r"$\infty$", "--")
_TEXT = _Format(_one_line, ("*", ""), ("", ""), "inf", "–")


def _cells(table: StudyTable, style: _Format) -> tuple[list[str], list[list[str]], list[bool]]:
    """Printed names of the columns, printed cells by row, and which columns are numbers."""
    frame = table.frame
    kinds = [frame[name].dtype.kind for name in frame.columns]
    numeric = [kind in "fiu" for kind in kinds]
    values = {name: frame[name].tolist() for name in frame.columns}
    shown = {}
    for name, kind, is_number in zip(values, kinds, numeric):
        decimals = table.decimals.get(name, 4) if kind == "f" else 0
        shown[name] = [
            _number(value, decimals, p_value=name in table.p_values) if is_number else style.escape(str(value))
            for value in values[name]
        ]
    marks = _marks(table, values, shown)
    for name, is_number in zip(values, numeric):
        if is_number:
            shown[name] = [text.replace("inf", style.infinity).replace("nan", style.missing) for text in shown[name]]
    for (row, name), best in marks.items():
        before, after = style.bold if best else style.italic
        shown[name][row] = f"{before}{shown[name][row]}{after}"
    rows = [list(row) for row in zip(*shown.values())]
    return [style.escape(str(name)) for name in values], rows, numeric


def _marks(table: StudyTable, values: dict[str, list[float]], shown: dict[str, list[str]]) -> dict[Cell, bool]:
    """Cells to set in bold (true) or italics."""

    def best_of(cells: list[Cell], best: Best) -> list[Cell]:
        """The best of at least two numbers, and those that print the same."""
        known = {(row, name): values[name][row] for row, name in cells if not math.isnan(values[name][row])}
        if len(known) < 2:
            return []
        row, name = (min if best == "min" else max)(known, key=known.__getitem__)
        return [cell for cell in known if shown[cell[1]][cell[0]] == shown[name][row]]

    marks: dict[Cell, bool] = {}
    rows = [row for row in range(len(table.frame)) if row not in table.unmarked]
    runs: dict[Hashable, list[int]] = {}
    for row in rows if table.group else ():
        runs.setdefault(values[str(table.group)][row], []).append(row)
    for name, best in table.best.items():
        for part in runs.values() if table.bold_in_group else [*runs.values(), rows]:
            bold = part is rows or table.bold_in_group
            marks |= dict.fromkeys(best_of([(row, name) for row in part], best), bold)
    for row in range(len(table.frame)) if table.best_in_row else ():
        marks |= dict.fromkeys(best_of([(row, name) for name in table.best_in_row], "min"), True)
    return marks


def _number(value: float, decimals: int, *, p_value: bool) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if p_value and 0.0 <= value < 0.5 * 10.0**-decimals:
        return f"<{10.0**-decimals:.{decimals}f}"
    text = f"{value:.{decimals}f}"
    return text[1:] if text.startswith("-") and float(text) == 0.0 else text
