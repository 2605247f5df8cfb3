"""Which columns of a table or data frame are the probabilities, and which label each stands for.

Columns are named by a pattern or a list, or found: those named like the labels, those named like the labels with a
common prefix or suffix (`p_cat`, `p_dog`), or numbered ones (`prob_0`, `prob_1`). If that is unclear, an error
lists the columns. Numbered columns stand for the labels in sorted order; that is said, and checked where labels are
text. Frames of pandas, polars, pyarrow and Dask are told by what they can do, so that none of them need be installed.
"""

from __future__ import annotations

import fnmatch
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.class_columns import (
    EVENTS,
    SINGLE_NAMES,
    are_numbered,
    class_of_single,
    classes_of_names,
    column,
    column_names,
    frames_of,
    label_text,
    select,
    speaks_of_an_event,
)
from calibrant.inputs.predictions import is_dask
from calibrant.inputs.rows import saturate
from calibrant.inputs.words import RequestError, UnknownLabelError
from calibrant.text_table import list_names
from calibrant.typing import Label, Labels

# Numbers of these columns in the first rows of the table, None where some are not numbers.
Peek = Callable[[Sequence[str]], "NDArray[np.float64] | None"]


@dataclass(frozen=True)
class ProbabilityColumns:
    """Probability columns in the order of the file, and the labels.

    `classes` has one label per column; a single column stands for the second of two labels. `by_order`: the names do
    not tell which label is which, the sorted labels were taken in the order of the columns. Of a file, `style` says how
    its numbers are written; `votes` is the column of votes of each class, if there are any.
    """

    names: tuple[str, ...]
    classes: tuple[Label, ...]
    by_order: bool = False
    style: Any = None
    votes: tuple[str, ...] = ()


def find_columns(
    columns: Sequence[str],
    labels: Sequence[Label],
    *,
    peek: Peek,
    probs: Sequence[str] = (),
    classes: Sequence[Label] | None = None,
    reserved: Sequence[str] = (),
    as_probabilities: bool = True,
) -> ProbabilityColumns:
    """Find the probability columns among those of a table, and what they stand for.

    `labels` are those seen, sorted; `probs` names or patterns such as `p_*`, each alone or several separated by commas;
    `classes` the label of each probability column, in the order of the columns; `reserved` columns are something else.
    `as_probabilities`: columns must hold numbers from 0 to 1 to be found, not just any numbers.
    """
    taken = set(reserved)
    free = [name for name in columns if name not in taken]
    if probs:
        names = named_columns(probs, columns, free)
    else:
        names = _Finder(free, [label_text(label) for label in labels], peek, as_probabilities).find()
    found, by_order = _name_classes(names, labels, classes)
    return ProbabilityColumns(tuple(names), tuple(found), by_order=by_order)


def named_columns(wanted_names: Sequence[str], columns: Sequence[str], free: Sequence[str]) -> list[str]:
    """Columns that names and patterns stand for; patterns never take a column that is not `free`."""
    known, chosen = set(columns), dict[str, None]()
    parts = [part.strip() for text in wanted_names for part in ([text] if text in known else text.split(","))]
    for wanted in [part for part in parts if part]:
        found = [wanted] if wanted in known else [name for name in free if fnmatch.fnmatchcase(name, wanted)]
        if not found:
            raise RequestError(f"no column is called {wanted!r}; the columns are {list_names(columns)}")
        chosen.update(dict.fromkeys(found))
    return list(chosen)


@dataclass
class _Finder:
    """Looks for the probability columns among `free` ones, given the labels as text."""

    free: Sequence[str]
    labels: Sequence[str]
    peek: Peek
    as_probabilities: bool

    def __post_init__(self) -> None:
        self.place = {name: number for number, name in enumerate(self.free)}

    def find(self) -> list[str]:
        if len(self.labels) > 1 and self.place.keys() >= set(self.labels):
            return sorted(set(self.labels), key=self.place.__getitem__)
        groups = self._around_labels() or self._stems(max(2, len(self.labels)))
        if len(groups) > 1:
            groups = [group for group in groups if self._is_distribution(group)] or groups
        if len(groups) > 1:
            found = "; or ".join(list_names(group, 5) for group in groups[:5])
            more = f"; and {len(groups) - 5:,} more groups" if len(groups) > 5 else ""
            raise RequestError(f"several groups of columns may be the probabilities: {found}{more}", "probs")
        if groups:
            return groups[0]
        single = self._single()
        if single:
            return single
        for group in self._stems(fewest=2):
            classes_of_names(group, self.labels)  # columns of some labels: the error is about those that have none
        usual = _usual_pair(self.labels)
        if usual and (single := replace(self, labels=usual)._single()):
            return single  # of a pair of labels, beside which there are others: likewise
        numbers = replace(self, as_probabilities=False)._single() if self.as_probabilities else []
        values = self.peek(numbers) if numbers else None
        raise RequestError(
            f"no columns look like probabilities of the labels {list_names(self.labels, 10)}; the columns are "
            f"{list_names(self.free)}",
            "probs",
            *([] if values is None else ["scores" if saturate(values) else "logits"]),
        )

    def _around_labels(self) -> list[list[str]]:
        """Groups of columns named by the labels with a common beginning or end."""
        if len(self.labels) < 2 or not all(self.labels):
            return []
        # Sorted, names with a common beginning are neighbours; read backwards, those with a common end.
        forwards, backwards = sorted(self.free), sorted(name[::-1] for name in self.free)
        groups = []
        for before, after in frames_of(self.labels, self.free):
            if before:
                wide = _beginning_with(before, forwards)
            else:
                wide = [name[::-1] for name in _beginning_with(after[::-1], backwards)]
            groups.append(self._widest(wide, [before + text + after for text in self.labels]))
        return groups

    def _widest(self, wide: list[str], exact: list[str]) -> list[str]:
        """All columns with the common part, if they are a distribution: classes without a row have columns too."""
        wide, exact = (sorted(names, key=self.place.__getitem__) for names in (wide, exact))
        return wide if len(wide) > len(exact) and self._is_distribution(wide) else exact

    def _stems(self, fewest: int) -> list[list[str]]:
        """Groups of so many columns or more with the same name up to a last number or a last separator."""
        stems: dict[str, list[str]] = {}
        for name in self.free:
            match = re.fullmatch(r"(.*?)\d+", name) or re.fullmatch(r"(.+[_.:\- ]).+", name)
            if match:
                stems.setdefault(match.group(1), []).append(name)
        groups = [group for group in stems.values() if len(group) >= fewest]
        if len(groups) > 1:
            self.peek([name for group in groups for name in group])  # all at once: the table is read a single time
        return [group for group in groups if self._is_distribution(group)]

    def _single(self) -> list[str]:
        """One column for two classes: by a usual name, (`p_fraud`) by a label or the event, or called like a label."""
        if len(self.labels) > 2:
            return []
        usual = [name for name in self.free if name.lower() in SINGLE_NAMES]
        ends = [name for name in self.free if any(re.fullmatch(rf"\w*_{re.escape(t)}", name) for t in self.labels)]
        events = [name for name in self.free if set(self.labels) in EVENTS and speaks_of_an_event(name)]
        found = usual or ends or events or [n for n in self.free if n in self.labels and not self._is_truth(n)]
        candidates = [name for name in found if self._is_distribution([name])]
        return candidates if len(candidates) == 1 else []

    def _is_truth(self, name: str) -> bool:
        """Whether a column has no other numbers than 0 and 1, which tell who is in a class."""
        values = self.peek([name])
        return values is None or bool(np.isin(values[~np.isnan(values)], (0, 1)).all())

    def _is_distribution(self, names: Sequence[str]) -> bool:
        values = self.peek(names)
        if values is None:
            return False
        values = values[~np.isnan(values).any(axis=1)]
        if not self.as_probabilities:
            return True
        inside = (values >= 0) & (values <= 1.001)
        # A few bad rows must not hide the columns: they are reported by number later.
        if len(names) > 1:
            inside = np.column_stack([inside, np.abs(values.sum(axis=1) - 1) <= 0.05])
        return bool(len(values)) and float(inside.all(axis=1).mean()) >= 0.5


def _beginning_with(start: str, names: list[str]) -> list[str]:
    """Of sorted names, those that begin with `start`."""
    return names[bisect_left(names, start) : bisect_left(names, start + chr(sys.maxunicode))]


def _name_classes(
    names: Sequence[str], labels: Sequence[Label], classes: Sequence[Label] | None
) -> tuple[list[Label], bool]:
    """The label of each column (of a single one: both labels, the second being the column's), and if by order alone."""
    texts = {label_text(label): label for label in labels}
    if classes is not None:
        return _given_classes(names, texts, classes), False
    if len(names) == 1:
        return _single_classes(names[0], texts, list(labels))
    found = classes_of_names(names, labels)
    if found is not None:
        return found, False
    if len(labels) != len(names):
        raise RequestError(
            f"there are {len(names)} probability columns ({list_names(names, 10)}) and {len(labels)} labels "
            f"({list_names(list(texts), 10)})",
            "classes",
        )
    if not are_numbered(names, labels):
        raise RequestError(
            f"cannot tell which label each of the columns {list_names(names, 10)} stands for; the labels are "
            f"{list_names(list(texts), 10)}",
            "classes",
        )
    return list(labels), True


def _usual_pair(labels: Sequence[str]) -> list[str]:
    """The usual labels of an event and its absence, if both are among these."""
    return next((sorted(pair) for pair in EVENTS if pair <= set(labels)), [])


def _given_classes(names: Sequence[str], texts: Mapping[str, Label], classes: Sequence[Label]) -> list[Label]:
    others = [label for text, label in texts.items() if text not in {label_text(c) for c in classes}]
    if len(names) == len(classes) == len(others) == 1:  # the class that a single column stands for is enough
        classes = [*others, *classes]
    expected = max(len(names), 2)
    if len(classes) != expected or len({label_text(c) for c in classes}) != expected:
        raise RequestError(
            f"{expected} different labels are needed for the columns, {len(classes)} "
            f"{'is' if len(classes) == 1 else 'are'} given; the labels are {list_names(list(texts), 10)}",
            "classes" if len(names) > 1 else "two_classes",
        )
    known = [texts.get(label_text(label), label) for label in classes]
    missing = sorted(set(texts) - {label_text(label) for label in classes})
    if missing:
        raise UnknownLabelError(
            missing[0], f"the label {missing[0]!r} occurs in the data but not among those given", "classes"
        )
    return known


def _single_classes(name: str, texts: Mapping[str, Label], labels: list[Any]) -> tuple[list[Label], bool]:
    if len(labels) == 1 and set(texts) <= {"0", "1"}:
        return [type(labels[0])(0), type(labels[0])(1)], False
    if len(labels) > 2 and (usual := _usual_pair(list(texts))):
        other = next(text for text in texts if text not in usual)
        raise UnknownLabelError(
            other, f"the label is {other!r}, but a single probability column ({name!r}) is for {list_names(usual)} only"
        )
    if len(labels) != 2:
        raise RequestError(
            f"a single probability column ({name!r}) needs two labels, there are {len(labels)}: "
            f"{list_names(list(texts), 10)}",
            "two_classes",
        )
    named = class_of_single(name, labels)
    if named is not None:
        return [next(label for label in labels if label != named), named], False
    # Numbers and truth values have a second one by convention, words do not; `p_ok` may refer to either.
    return labels, isinstance(labels[0], str) or speaks_of_an_event(name)


#: Rows that are looked at to find the predictions among other columns; more would say the same.
_PEEKED = 1000


def take_columns(
    frame: object,
    y: object,
    sample_weight: object,
    groups: object,
    *,
    label: Label = None,
    probs: str | Sequence[object] | None = None,
    classes: Sequence[Label] | None = None,
    probabilities: bool = True,
) -> tuple[Any, Any, Any, Any]:
    """Predictions, labels, weights and groups, of which some are named as columns of `frame`.

    `probs` are names or patterns of the predictions; by default they are found by the labels, or by `classes` if these
    are known, and must hold numbers from 0 to 1 unless `probabilities` is false.
    """
    if type(frame).__name__ == "LazyFrame":
        raise TypeError("X is a LazyFrame, which has no rows yet: pass X.collect().")
    columns = column_names(frame)
    if columns is None:
        raise TypeError(f"label=, probs= and names of columns need a data frame as X, not {type(frame).__name__}.")
    if label is not None and y is not None:
        raise ValueError("The labels are given twice, as y and with label=: give one of them.")
    named = {"sample_weight": sample_weight, "groups": groups}
    reserved: dict[str, Label] = {what: name for what, name in named.items() if isinstance(name, str)}
    reserved |= {} if label is None else {"label": label}
    for what, name in reserved.items():
        if name not in columns:
            raise ValueError(f"{what}={name!r} is not among the columns {list_names(columns)}.")
        _check_single(columns, [name])
    taken = {what: column(frame, name) for what, name in reserved.items()}
    labels = taken.get("label", y)
    texts = [str(name) for name in columns]  # names may be numbers
    names_of = dict(zip(texts, columns))
    others = [str(name) for name in reserved.values()]

    def chosen(found: Sequence[str]) -> list[Label]:
        _check_single(texts, found)
        return [names_of[text] for text in found]

    try:
        if probs is not None:
            wanted = [probs] if isinstance(probs, str) else [str(name) for name in probs]
            found: Sequence[str] = named_columns(wanted, texts, [text for text in texts if text not in others])
        else:
            found = find_columns(
                texts,
                _seen(labels) if classes is None else list(classes),
                peek=lambda names: _peek(frame, chosen(names)),
                reserved=others,
                as_probabilities=probabilities,
            ).names
    except RequestError as error:
        advice = " Name them with probs=, as in probs='p_*' or probs=['a', 'b']." if "probs" in error.hints else ""
        raise ValueError(f"In X, {error}.{advice}") from error
    beside = (taken.get(what, given) for what, given in named.items())
    return select(frame, chosen(found)), labels, *beside


def _check_single(columns: Sequence[Label], names: Sequence[Label]) -> None:
    """Refuse names that several columns have: it is unclear which one is meant."""
    for name in names:
        if (count := columns.count(name)) > 1:
            raise ValueError(f"X has {count} columns that are called {name!r}: give each a name of its own.")


def _seen(labels: Labels) -> list[Label]:
    """The labels that occur, sorted; of a Dask series they are computed."""
    if labels is None:
        raise ValueError("Name the column of labels with label=, or pass labels as y.")
    if is_dask(labels) and hasattr(labels, "unique"):
        labels = labels.unique().compute()
    values = labels.drop_nulls() if hasattr(labels, "drop_nulls") else labels
    values = values.dropna() if hasattr(values, "dropna") else values
    return list(np.unique(np.asarray(values)).tolist())


def _peek(frame: Any, names: Sequence[Label]) -> NDArray[np.float64] | None:
    """The numbers of some columns in the first rows, `None` if they are no numbers."""
    part = select(frame if is_dask(frame) else frame[:_PEEKED], names)
    if is_dask(part):
        part = part.head(_PEEKED, npartitions=-1)
    try:
        return np.asarray(part.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError):
        return None
