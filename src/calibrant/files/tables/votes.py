"""Votes in tables: one column per class instead of one of labels, for rows whose label is not certain.

A row is there once for each class that has votes, with their number as its weight, as `inputs.soft_labels` counts them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.tables.columns import label_text
from calibrant.files.tables.numeric import to_numbers
from calibrant.files.tables.table import RequestError
from calibrant.text_table import list_names


def vote_labels(names: Sequence[str], others: Sequence[str]) -> list[str]:
    """The label of each column of votes: its name without what all have in common.

    Of several ways to cut the names the one counts that leaves most and is found in the names of `others`.

    Examples
    --------
    >>> vote_labels(["n_new york", "n_new delhi"], ["p_new york", "p_new delhi"])
    ['new york', 'new delhi']
    >>> vote_labels(["votes1", "votes2"], ["score"])
    ['1', '2']
    """
    if len(names) < 2:
        raise RequestError(f"votes take one column per class, as in n_cat,n_dog; there is only {list_names(names)}")
    cuts = _cuts(names)
    return next((rest for rest in cuts if _is_found(rest, others)), cuts[-1])


def _cuts(names: Sequence[str]) -> list[list[str]]:
    """What is left of names without a common beginning or end that stops at a separator, most first."""
    before = os.path.commonprefix(list(names))
    after = os.path.commonprefix([name[::-1] for name in names])
    starts = [0, *(match.end() for match in re.finditer(r"[_.:\- ]", before))]
    ends = [0, *(match.end() for match in re.finditer(r"[_.:\- ]", after))]
    cuts = [[name[start : len(name) - end] for name in names] for start in starts for end in ends]
    numbered = [re.fullmatch(r"(.*?)(\d+)", name) for name in names]
    if len({match and match[1] for match in numbered}) == 1 and numbered[0]:
        cuts.append([match[2] for match in numbered if match])
    return sorted((cut for cut in cuts if all(cut)), key=lambda cut: -len(cut[0]))


def _is_found(texts: Sequence[str], others: Sequence[str]) -> bool:
    """Whether other columns are called like all of these, with a common beginning or end."""
    first, known = texts[0], set(others)
    befores = [name.removesuffix(first) for name in others if name.endswith(first)]
    afters = [name.removeprefix(first) for name in others if name.startswith(first)]
    return any(all(before + text in known for text in texts) for before in befores) or any(
        all(text + after in known for text in texts) for after in afters
    )


def columns_of_votes(names: Sequence[str], labels: Sequence[str], classes: Sequence[Any]) -> tuple[str, ...]:
    """The column of votes of each class; `labels` are those that the columns are named by.

    Examples
    --------
    >>> columns_of_votes(["n_cat", "n_dog"], ["cat", "dog"], ["dog", "cat"])
    ('n_dog', 'n_cat')
    """
    texts = [label_text(label) for label in classes]
    if len(names) != len(texts):
        raise RequestError(
            f"there are {len(names)} columns of votes ({list_names(names, 10)}) and {len(texts)} classes "
            f"({list_names(texts, 10)}); votes take one column per class"
        )
    by_label = dict(zip(labels, names))
    missing = [text for text in texts if text not in by_label]
    if len(missing) == len(texts):
        return tuple(names)  # classes were named by the user, in the order of the columns
    if missing:
        raise RequestError(f"no column of votes stands for the class {missing[0]!r}; they are {list_names(names, 10)}")
    return tuple(by_label[text] for text in texts)


@dataclass(frozen=True)
class Votes:
    """The votes (n, k) of some rows, columns in the order of the classes, and the text of cells that are no number."""

    names: tuple[str, ...]
    values: NDArray[np.float64]
    unreadable: dict[tuple[int, int], str]

    @classmethod
    def read(cls, data: Any, names: tuple[str, ...], decimal: str) -> Votes:
        """The votes in an Arrow record batch."""
        cells = [to_numbers(data.column(name), decimal) for name in names]
        unreadable = {(row, j): text for j, cell in enumerate(cells) for row, text in cell.unreadable.items()}
        return cls(names, np.column_stack([cell.values for cell in cells]).astype(np.float64), unreadable)

    @cached_property
    def bad(self) -> NDArray[np.bool_]:
        """Rows that cannot be used."""
        usable = np.isfinite(self.values) & (self.values >= 0.0)
        return np.asarray(~usable.all(axis=1) | ~self.values.any(axis=1))

    def reason(self, row: int) -> str:
        """What is wrong with a row."""
        votes = self.values[row]
        wrong = np.flatnonzero(~(np.isfinite(votes) & (votes >= 0.0)))
        if not len(wrong):
            return f"there are no votes: {list_names(self.names, 5)} are all 0"
        name, text = self.names[wrong[0]], self.unreadable.get((row, int(wrong[0])), "")
        if text:
            return f"{name!r} is {text!r}, not a number"
        value = votes[wrong[0]]
        return (
            f"{name!r} is missing" if np.isnan(value) else f"{name!r} is {value:g}; votes are finite and not negative"
        )
