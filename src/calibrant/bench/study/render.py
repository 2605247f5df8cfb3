"""A table of the study and its two printed forms, Markdown and LaTeX.

CSV keeps every digit; the printed forms round (four decimals, ranks two), set the best value of a column or
row in bold and the best of a family in italics, and carry the notes that a reader needs beside the numbers.
Every text that comes from data is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from calibrant.bench.csv_files import write_csv
from calibrant.files.atomic import write_text
from calibrant.text_table import aligned

Best = Literal["min", "max"]
_LONG = 45
"""Rows that fit on a page; a longer LaTeX table may break across pages."""


@dataclass(frozen=True)
class StudyTable:
    """A data frame with what is needed to print it.

    Parameters
    ----------
    name : str
        File name without ending.
    frame : pandas.DataFrame
        The values, all digits.
    caption : str
        One sentence above the printed table.
    decimals : dict
        Decimals by column; floats without an entry get four.
    best : dict
        Columns whose smallest ("min") or largest ("max") value is set in bold.
    best_in_row : tuple of str
        Columns of which the smallest value of each row is set in bold.
    group : str or None
        Column whose runs are separated by rules, the best of each run in italics.
    bold_in_group : bool
        Whether bold goes to the best of each run, where runs are not comparable, and italics to none.
    p_values : tuple of str
        Columns of p-values, printed as <0.0001 where they round to zero.
    unmarked : frozenset of int
        Rows that are never marked as best, because they are not comparable with the others.
    notes : tuple of str
        Lines printed below the table.
    printed : bool
        False for tables that only feed a figure: CSV alone.
    """

    name: str
    frame: pd.DataFrame
    caption: str = ""
    decimals: dict[str, int] = field(default_factory=dict)
    best: dict[str, Best] = field(default_factory=dict)
    best_in_row: tuple[str, ...] = ()
    group: str | None = None
    bold_in_group: bool = False
    p_values: tuple[str, ...] = ()
    unmarked: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()
    printed: bool = True

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
    r"""Markdown text of a table.

    Examples
    --------
    >>> import pandas as pd
    >>> print(to_markdown(StudyTable("t", pd.DataFrame({"method": ["a|b", "c"], "rank": [1.5, 1.25]}),
    ...                         decimals={"rank": 2}, best={"rank": "min"})))
    | method | rank |
    |:---|---:|
    | a\|b | 1.50 |
    | c | **1.25** |
    <BLANKLINE>
    """
    cells, numeric = _cells(table, escape_markdown, ("**", "**"), ("*", "*"), infinity="∞")
    names = [escape_markdown(str(name)) for name in table.frame.columns]
    lines = [f"{escape_markdown(table.caption)}\n"] if table.caption else []
    lines.append(f"| {' | '.join(names)} |")
    lines.append("|" + "|".join("---:" if is_number else ":---" for is_number in numeric) + "|")
    lines += [f"| {' | '.join(row)} |" for row in cells]
    if not cells:
        lines.append("\n(no rows)")
    lines += [f"\n{escape_markdown(note)}" for note in table.notes]
    return "\n".join(lines) + "\n"


def to_latex(table: StudyTable) -> str:
    r"""LaTeX text of a table, for the package booktabs (and longtable, when it is long).

    Examples
    --------
    >>> import pandas as pd
    >>> table = StudyTable("t", pd.DataFrame({"m": ["a_b", "c"], "x": [1.0, 2.0]}), best={"x": "min"})
    >>> "a\\_b & \\textbf{1.0000}" in to_latex(table)
    True
    """
    cells, numeric = _cells(
        table, escape_latex, (r"\textbf{", "}"), (r"\textit{", "}"), infinity=r"$\infty$", missing="--"
    )
    header = " & ".join(escape_latex(str(name)) for name in table.frame.columns) + r" \\"
    columns = "".join("r" if is_number else "l" for is_number in numeric)
    runs = list(table.frame[table.group]) if table.group else []
    body = []
    for i, row in enumerate(cells):
        if i and runs and runs[i] != runs[i - 1]:
            body.append(r"\midrule")
        body.append(" & ".join(row) + r" \\")
    below = [rf"\par\smallskip\footnotesize {escape_latex(note)}" for note in table.notes]
    caption = rf"\caption{{{escape_latex(table.caption)}}}" if table.caption else ""
    label = rf"\label{{tab:{table.name}}}"
    if len(cells) > _LONG:
        opening = [rf"\begin{{longtable}}{{{columns}}}", f"{caption}{label}" + r" \\"]
        lines = [
            *opening,
            r"\toprule",
            header,
            r"\midrule",
            r"\endhead",
            *body,
            r"\bottomrule",
            r"\end{longtable}",
            *below,
        ]
    else:
        opening = [r"\begin{table}[htbp]", r"\centering", caption + label, rf"\begin{{tabular}}{{{columns}}}"]
        closing = [r"\bottomrule", r"\end{tabular}", *below, r"\end{table}"]
        lines = [*opening, r"\toprule", header, r"\midrule", *body, *closing]
    return "\n".join(line for line in lines if line) + "\n"


def to_text(table: StudyTable) -> str:
    """Plain aligned text of a table, for a terminal; the best values carry a star.

    Examples
    --------
    >>> import pandas as pd
    >>> table = StudyTable("t", pd.DataFrame({"method": ["ts", "sms"], "rank": [2.0, 1.0]}), best={"rank": "min"})
    >>> print(to_text(table))
    method     rank
    ts       2.0000
    sms     *1.0000
    """
    cells, numeric = _cells(table, lambda text: " ".join(text.split()), ("*", ""), ("", ""), infinity="inf")
    rows = [[str(name) for name in table.frame.columns], *cells]
    return aligned(rows, left=[not number for number in numeric])


def escape_markdown(text: str) -> str:
    r"""Escape what Markdown or HTML would read as markup.

    Examples
    --------
    >>> print(escape_markdown("a_b <i> *c*"))
    a\_b &lt;i&gt; \*c\*
    """
    text = " ".join(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").split())
    return "".join("\\" + c if c in "\\`*_[]|#$~" else c for c in text)


_LATEX = {
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


def escape_latex(text: str) -> str:
    r"""Escape LaTeX's special characters.

    Examples
    --------
    >>> print(escape_latex("50% of a_b"))
    50\% of a\_b
    """
    return "".join(_LATEX.get(c, c) for c in text)


def _cells(
    table: StudyTable,
    escape: Callable[[str], str],
    bold: tuple[str, str],
    italic: tuple[str, str],
    *,
    infinity: str,
    missing: str = "–",
) -> tuple[list[list[str]], list[bool]]:
    """Printed cells by row, and which columns are numbers."""
    frame = table.frame
    numeric = [frame[name].dtype.kind in "fiu" for name in frame.columns]
    columns = []
    for name, is_number in zip(frame.columns, numeric):
        if is_number:
            decimals = table.decimals.get(name, 4) if frame[name].dtype.kind == "f" else 0
            show = [_number(v, decimals, p_value=name in table.p_values) for v in frame[name]]
        else:
            show = [escape(str(value)) for value in frame[name]]
        columns.append(show)
    marks = _marks(table, columns)
    for place, (name, is_number) in enumerate(zip(frame.columns, numeric)):
        if is_number:
            columns[place] = [text.replace("inf", infinity).replace("nan", missing) for text in columns[place]]
        wrap = {"best": bold, "best of group": italic}
        for row, mark in marks.get(name, {}).items():
            before, after = wrap[mark]
            columns[place][row] = f"{before}{columns[place][row]}{after}"
    return [list(row) for row in zip(*columns)], numeric


def _marks(table: StudyTable, shown: list[list[str]]) -> dict[Any, dict[int, str]]:
    """Which cells to set in bold or italics; cells that print the same as the best are marked with it."""
    frame = table.frame
    place = {name: i for i, name in enumerate(frame.columns)}
    marks: dict[Any, dict[int, str]] = {}
    rows = [row for row in range(len(frame)) if row not in table.unmarked]
    runs = [[row for row in run if row not in table.unmarked] for run in _runs(table)]
    for name, best in table.best.items():
        found = marks.setdefault(name, {})
        for run in runs:
            mark = "best" if table.bold_in_group else "best of group"
            found.update(dict.fromkeys(_best_rows(frame[name], run, best, shown[place[name]]), mark))
        if not table.bold_in_group:
            found.update(dict.fromkeys(_best_rows(frame[name], rows, best, shown[place[name]]), "best"))
    for row in range(len(frame)) if table.best_in_row else ():
        values = {name: float(frame[name].iloc[row]) for name in table.best_in_row}
        known = [value for value in values.values() if not math.isnan(value)]
        if len(known) > 1:
            text = next(shown[place[name]][row] for name, value in values.items() if value == min(known))
            for name in table.best_in_row:
                if shown[place[name]][row] == text:
                    marks.setdefault(name, {})[row] = "best"
    return marks


def _runs(table: StudyTable) -> list[list[int]]:
    """Row numbers of every group."""
    runs: dict[Any, list[int]] = {}
    for row, name in enumerate(table.frame[table.group] if table.group else ()):
        runs.setdefault(name, []).append(row)
    return list(runs.values())


def _best_rows(values: Any, rows: list[int], best: Best, shown: list[str]) -> list[int]:
    known = [row for row in rows if not math.isnan(float(values.iloc[row]))]
    if len(known) < 2:
        return []
    choose = min if best == "min" else max
    winner = choose(known, key=lambda row: float(values.iloc[row]))
    return [row for row in known if shown[row] == shown[winner]]


def _number(value: float, decimals: int, *, p_value: bool) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if p_value and 0.0 <= value < 0.5 * 10.0**-decimals:
        return f"<{10.0**-decimals:.{decimals}f}"
    text = f"{value:.{decimals}f}"
    return text[1:] if text.startswith("-") and float(text) == 0.0 else text
