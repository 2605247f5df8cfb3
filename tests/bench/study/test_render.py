"""Printed tables: rounding, marks and escapes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.needs import needs

pytestmark = pytest.mark.bench
pd = needs("pandas")

from calibrant.bench.study.render import StudyTable, to_latex, to_markdown, to_text  # noqa: E402


def lines(text):
    return [line for line in text.splitlines() if line.startswith("|")][2:]


def test_best_in_bold_best_of_group_in_italics():
    frame = pd.DataFrame({"m": list("abcd"), "f": list("xxyy"), "v": [0.3, 0.2, 0.1, 0.4]})
    table = StudyTable("t", frame, best={"v": "min"}, group="f")
    assert [row.split("|")[3].strip() for row in lines(to_markdown(table))] == [
        "0.3000",
        "*0.2000*",
        "**0.1000**",
        "0.4000",
    ]
    latex = to_latex(table)
    assert r"\textbf{0.1000}" in latex
    assert r"\textit{0.2000}" in latex
    assert latex.count(r"\midrule") == 2


def test_bold_in_group_and_unmarked_rows():
    frame = pd.DataFrame({"g": [1, 1, 2, 2], "v": [0.3, 0.2, 0.1, 0.4]})
    text = to_markdown(StudyTable("t", frame, best={"v": "max"}, group="g", bold_in_group=True))
    assert [("**" in row) for row in lines(text)] == [True, False, False, True]
    text = to_markdown(StudyTable("t", frame, best={"v": "min"}, unmarked=frozenset({2})))
    assert [("**" in row) for row in lines(text)] == [False, True, False, False]


def test_best_in_row_and_what_prints_alike():
    frame = pd.DataFrame({"a": [0.10001, 0.5], "b": [0.10002, np.nan], "c": [0.2, np.inf]})
    rows = lines(to_markdown(StudyTable("t", frame, best_in_row=("a", "b", "c"))))
    assert rows[0] == "| **0.1000** | **0.1000** | 0.2000 |"
    assert rows[1] == "| **0.5000** | – | ∞ |"
    assert r"$\infty$" in to_latex(StudyTable("t", frame))


def test_numbers():
    frame = pd.DataFrame({"x": [-0.00001], "n": [1365], "p": [1e-9], "r": [1.255]})
    row = lines(to_markdown(StudyTable("t", frame, decimals={"r": 2}, p_values=("p",))))[0]
    assert row.split(" | ")[:3] == ["| 0.0000", "1365", "&lt;0.0001".replace("&lt;", "<")]


def test_text_from_data_is_escaped():
    nasty = "<script>|a_b*50%&{x}\\\n"
    frame = pd.DataFrame({"m": [nasty], nasty: [1.0]})
    table = StudyTable("t", frame, caption=nasty, notes=(nasty,))
    markdown, latex = to_markdown(table), to_latex(table)
    assert "<script>" not in markdown
    assert markdown.count("\n|") == 3 - markdown.startswith("|")
    assert "\\|a\\_b" in markdown
    assert r"a\_b*50\%\&\{x\}\textbackslash{}" in latex


def test_empty_and_long_tables(tmp_path):
    empty = StudyTable("e", pd.DataFrame({"m": [], "v": []}), best={"v": "min"})
    assert "(no rows)" in to_markdown(empty)
    assert r"\bottomrule" in to_latex(empty)
    long = StudyTable("l", pd.DataFrame({"v": np.arange(100.0)}), caption="c")
    assert r"\begin{longtable}" in to_latex(long)
    assert [path.name for path in long.save(tmp_path)] == ["l.csv", "l.md", "l.tex"]
    assert [path.name for path in StudyTable("d", long.frame, printed=False).save(tmp_path)] == ["d.csv"]


def test_csv_keeps_every_digit(tmp_path):
    values = np.random.default_rng(0).normal(size=50)
    StudyTable("t", pd.DataFrame({"v": values}), printed=False).save(tmp_path)
    assert [float(line) for line in (tmp_path / "t.csv").read_text().split()[1:]] == values.tolist()


def test_text_for_a_terminal_and_bars_in_markdown():
    frame = pd.DataFrame({"method": ["a|b", "c"], "rank": [1.5, 1.25]})
    table = StudyTable("t", frame, decimals={"rank": 2}, best={"rank": "min"})
    assert to_markdown(table) == "| method | rank |\n|:---|---:|\n| a\\|b | 1.50 |\n| c | **1.25** |\n"
    assert to_text(table).splitlines() == ["method   rank", "a|b      1.50", "c       *1.25"]
