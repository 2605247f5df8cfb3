"""One document as Markdown, HTML and Word, byte for byte the same for the same values.

A template writes Markdown without marks inside of lines: headings, paragraphs, lists, tables, and fenced lines. The
same blocks make the page and the Word file, a zip archive whose entries all have one date.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from calibrant.files.tables.writers import atomic_output
from calibrant.report.layout import TEMPLATES, drawn, environment, fill

_WORD_PARTS = {
    "[Content_Types].xml": "types.xml",
    "_rels/.rels": "package.rels",
    "word/_rels/document.xml.rels": "document.rels",
    "word/styles.xml": "styles.xml",
}
#: The first date that a zip archive can hold.
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class ValidationDocument:
    """What `calibrant.document` returns: values for its template, and figures of the page as SVG.

    Examples
    --------
    >>> from calibrant import document, get_calibrator
    >>> found = document(get_calibrator("ts").fit([0.1, 0.2, 0.7, 0.9], [0, 0, 1, 0]), title="Scores")
    >>> print(found.to_markdown()[:21])
    # Scores
    <BLANKLINE>
    ## In short
    """

    values: dict[str, Any]
    figures: tuple[str, ...] = ()

    def _text(self) -> str:
        text = environment(autoescape=False).get_template("document.md.j2").render(**self.values)
        return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"

    def to_markdown(self) -> str:
        """Markdown, without the figures."""
        return re.sub(r"%%figure \d+\n\n", "", self._text())

    def blocks(self) -> list[tuple[str, Any]]:
        """The document as kinds of block, each with a text, lines, or rows of cells."""
        return list(_blocks(self._text().splitlines()))

    @property
    def short(self) -> list[str]:
        """The sentences of the first section."""
        _, _, (_, found), *_ = self.blocks()
        return [found] if isinstance(found, str) else list(found)

    def to_html(self) -> str:
        """One page that loads nothing and prints on A4."""
        figures = [drawn(svg) for svg in self.figures]
        return fill("document.html.j2", blocks=self.blocks(), figures=figures, version=self.values["versions"][1][1])

    def to_docx(self) -> bytes:
        """A Word file, without the figures."""
        stream, folder = io.BytesIO(), TEMPLATES / "docx"
        parts = {name: (folder / file).read_text(encoding="utf-8") for name, file in _WORD_PARTS.items()}
        text = fill("docx/document.xml.j2", blocks=self.blocks())
        # Characters that XML lacks may stand in the name of a class.
        parts["word/document.xml"] = re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", text)
        with zipfile.ZipFile(stream, "w") as archive:
            for name, part in parts.items():
                archive.writestr(zipfile.ZipInfo(name, _FIRST_DATE), part.encode(), zipfile.ZIP_DEFLATED)
        return stream.getvalue()

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the document in the format that the name of the file tells: .html, .md or .docx.

        Parameters
        ----------
        path : str or Path
            The file to write; - is standard output, as HTML.
        force : bool, default=False
            Replace a file that exists.
        """
        make = FORMATS[document_format(path)]
        with atomic_output(path, force=force) as stream:
            stream.write(make(self))


FORMATS: dict[str, Callable[[ValidationDocument], bytes]] = {
    ".html": lambda document: document.to_html().encode(),
    ".md": lambda document: document.to_markdown().encode(),
    ".docx": ValidationDocument.to_docx,
}


def document_format(path: str | Path) -> str:
    """The format that the name of a file tells."""
    ending = ".html" if str(path) == "-" else Path(path).suffix.lower()
    if ending not in FORMATS:
        raise ValueError(f"a document is an .html, .md or .docx file, not one that ends in {ending!r}")
    return ending


_STARTS = {"# ": "title", "## ": "heading", "- ": "list", "| ": "table", "%%": "figure"}


def _blocks(lines: list[str]) -> Iterator[tuple[str, Any]]:
    fences = 0

    def kind(line: str) -> str:
        nonlocal fences
        fences += line == "```"
        if line == "```" or not (line or fences % 2):
            return "nothing"
        return (
            "lines" if fences % 2 else next((name for start, name in _STARTS.items() if line.startswith(start)), "text")
        )

    for name, found in groupby(lines, kind):
        group = list(found)
        if name == "lines":
            yield name, group
        elif name == "table":
            cells = [[_plain(cell) for cell in re.split(r"(?<!\\) \| ", row[2:-2])] for row in group]
            yield name, [cells[0], *cells[2:]]
        elif name == "list":
            yield name, [_plain(line[2:]) for line in group]
        elif name != "nothing":
            yield from ((name, _plain(line.lstrip("#% "))) for line in group)


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text).replace("`", "").strip()
