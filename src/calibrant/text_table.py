"""Tables and lists as text: aligned columns, cells that a spreadsheet reads as text, lists in messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # NumPy, which the help of commands does not need
    from calibrant.typing import Label

#: First characters that make a spreadsheet program read a cell as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def aligned(rows: Sequence[Sequence[str]], left: int | Sequence[bool] = 1, gap: int = 2) -> str:
    """Rows of text, all of one length, in columns with `gap` spaces between them.

    `left` is how many columns, or which, are aligned to the left; the others are aligned to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    to_left = [place < left for place in range(len(widths))] if isinstance(left, int) else left
    sides = [str.ljust if side else str.rjust for side in to_left]
    lines = ((side(cell, width) for side, cell, width in zip(sides, row, widths)) for row in rows)
    return "\n".join((" " * gap).join(line).rstrip() for line in lines)


def encodable(text: str) -> str:
    """Text that can be written: lone surrogates, as in the names of undecodable files, are spelled out."""
    return text.encode(errors="backslashreplace").decode()


def as_cell(text: str) -> str:
    """Text as a cell of a CSV file that no spreadsheet program takes for a formula; `from_cell` gives it back."""
    return f"'{text}" if text.startswith(_FORMULA) or from_cell(text) != text else text


def from_cell(cell: str) -> str:
    """The text that `as_cell` made a cell of."""
    rest = cell[1:]
    return rest if cell.startswith("'") and (rest.startswith(_FORMULA) or from_cell(rest) != rest) else cell


def list_names(names: Iterable[Label], limit: int = 20, write: Callable[[Any], str] = repr) -> str:
    """At most `limit` names, each as `write` gives it, so that a message with many or long names stays short."""
    names = list(names)
    texts = [write(name) for name in names[:limit]]
    shown = ", ".join(text if len(text) <= 80 else f"{text[:70]} ... {text[-5:]}" for text in texts)
    return shown + (f" and {len(names) - limit:,} more" if len(names) > limit else "")
