"""Columns by name: those of frames of any package, and which class each column of predictions stands for.

Names are those of the classes, with or without a common beginning or end (`p_cat`, `p_dog`), or numbers that are those
of the classes (`p_2` for `class_2`). A single column is that of the class it is named after, else of the second of two.
This needs NumPy alone, so that a map without its calibrator can match names as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.words import CALIBRATOR, RequestError, UnknownLabelError, Words
from calibrant.text_table import list_names
from calibrant.typing import AnyArray, Label


@dataclass(frozen=True)
class NamedColumns:
    """A matrix with column names, as much of a data frame as calibrators look at."""

    columns: Sequence[Label]
    values: AnyArray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def to_numpy(self) -> AnyArray:
        return self.values

    def __len__(self) -> int:
        return len(self.values)


def column_names(frame: object) -> list[Label] | None:
    """The names of the columns of a data frame or an Arrow table; `None` of anything else."""
    names = getattr(frame, "column_names", None)  # of Arrow, whose `columns` are the data
    if names is None and hasattr(frame, "__getitem__") and not isinstance(frame, dict):
        names = getattr(frame, "columns", None)
    return None if names is None else list(names)


def select(frame: Any, names: Sequence[Label]) -> Any:
    if hasattr(frame, "column_names"):
        return NamedColumns(list(names), np.column_stack([column(frame, name) for name in names]))
    return frame[list(names)]


def column(frame: Any, name: Label) -> Any:
    if hasattr(frame, "column_names"):
        return frame.column(name).to_numpy(zero_copy_only=False)
    return frame[name]


def fitted_columns(X: object, fitted: Sequence[Label] | None) -> Any:
    """The columns that `fit` saw, of a data frame that may have others, such as an id."""
    if fitted is None or type(X) is np.ndarray or (names := column_names(X)) is None:
        return X
    more = len(names) > len(fitted) or hasattr(X, "column_names")
    return select(X, fitted) if more and set(names) >= set(fitted) else X


#: Names by which a single column is known as the probability of the second of two classes.
SINGLE_NAMES = ("p", "prob", "proba", "probability", "score", "y_prob", "y_proba", "y_score", "prediction")
#: Pairs of labels whose second is the event that a column such as `p_fraud` refers to.
EVENTS = ({"0", "1"}, {"-1", "1"}, {"False", "True"})


def label_text(label: Label) -> str:
    """A label as it would stand in a column's name."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def classes_of_names(names: Sequence[str], labels: Sequence[Label]) -> list[Label] | None:
    """Labels of columns by their names, those not seen in the type of those seen; `None` if the names say nothing."""
    texts = {label_text(label): label for label in labels}
    matched = _match(names, list(texts))
    if matched is not None:
        return _as_labels(matched, labels, texts)
    numbers = [_last_number(name) for name in names]
    by_number = {_last_number(text): label for text, label in texts.items()}
    if None in numbers or set(by_number) != set(numbers) or len(labels) != len(names):
        return None
    return [by_number[number] for number in numbers]  # p_2 is class_2, whatever the order of the labels


def are_numbered(names: Sequence[str], labels: Sequence[Any]) -> bool | None:
    """Whether names number the columns in their order, and no label says otherwise; `None` if they have no numbers.

    Labels such as class_1 to class_3 beside p_0 to p_2 count in another way: nobody knows which is which.
    """
    numbers = [_last_number(name) for name in names]
    if None in numbers:
        return None
    in_turn = numbers in (list(range(len(names))), list(range(1, len(names) + 1)))
    return in_turn and not (isinstance(labels[0], str) and None not in map(_last_number, labels))


def number_positions(names: Sequence[str]) -> bool:
    """Whether the names of columns number them from 0 in their order: positions, not labels."""
    return [_last_number(name) for name in names] == list(range(len(names)))


def columns_of_classes(classes: AnyArray, names: Sequence[Label]) -> NDArray[np.intp] | None:
    """The column that each class's name stands in, or `None` if names are positions or say nothing."""
    texts, known = [str(name) for name in names], classes.tolist()
    if len(texts) != len(known) or number_positions(texts):
        return None
    try:
        found = classes_of_names(texts, known)
    except RequestError:
        return None
    return None if found is None else np.array([found.index(label) for label in known], dtype=np.intp)


def order_of_columns(
    names: Sequence[Label], fitted: Sequence[Label], order: NDArray[np.intp] | None
) -> NDArray[np.intp] | None:
    """The column of each class in a data frame with the columns of `fit`, called `fitted`, in any order.

    `order` is the column of each class in `fit`; `None` means that columns are in the order of the classes.
    """
    if names == fitted:
        return order
    absent = [name for name in fitted if name not in names]
    if absent:
        raise ValueError(
            f"The feature names should match those that were passed during fit: X lacks "
            f"{list_names(absent)}, has {list_names(names)}."
        )
    position = np.array([names.index(name) for name in fitted], dtype=np.intp)
    return position if order is None else position[order]


def class_of_single(name: str, labels: Sequence[Label]) -> Label:
    """The label that a single column is named after; `None` if none or several fit."""
    ends = [label for label in labels if re.fullmatch(rf"(.*[_.:\- ])?{re.escape(label_text(label))}", name)]
    return ends[0] if len(ends) == 1 else None


def check_second_class(name: object, classes: Sequence[Label], words: Words = CALIBRATOR) -> None:
    """A single column of this name is that of the second class: an error if it is named after the first."""
    first, second = classes
    # A number at the end of a name may be that of the column itself.
    if not str(name)[-1:].isdigit() and class_of_single(str(name), [first, second]) == first:
        raise ValueError(
            f"{words.predictions} is the column {name!r}; the probability of {second!r} is expected, not that of "
            f"{first!r}. Pass one minus the column (logits with the other sign), or rename it."
        )


def speaks_of_an_event(name: str) -> bool:
    """Whether a name such as `p_fraud` or `churn_score` is that of the probability of something."""
    return len(parts := re.split(r"[_.:\- ]", name.lower())) > 1 and (
        parts[0] in SINGLE_NAMES or parts[-1] in SINGLE_NAMES
    )


def _last_number(text: str) -> int | None:
    digits = re.search(r"\d+$", text)
    return int(digits[0]) if digits else None


def _match(names: Sequence[str], texts: Sequence[str]) -> list[str] | None:
    """The names without a common beginning or end, if all labels are among the rests."""
    before = os.path.commonprefix(list(names))
    after = os.path.commonprefix([name[::-1] for name in names])
    cuts = [(start, end) for end in range(len(after) + 1) for start in range(len(before), -1, -1)]
    best: list[str] = []
    for start, end in cuts:
        rest = [name[start : len(name) - end] for name in names]
        if set(texts) <= set(rest):
            return rest
        best = max(best, sorted(set(texts) & set(rest)), key=len)
    if best:
        missing = next(text for text in texts if text not in best)
        raise UnknownLabelError(
            missing, f"no probability column stands for the label {missing!r}; they are {list_names(names)}", "classes"
        )
    return None


def _as_labels(matched: Sequence[str], labels: Sequence[Any], texts: Mapping[str, Label]) -> list[Label]:
    """Labels of the columns in the type of the labels seen; those without a row are read from the column's name."""
    kind = type(labels[0])
    if kind is bool:
        return [text == "True" for text in matched]
    try:
        return [texts[text] if text in texts else kind(text) for text in matched]
    except ValueError as error:
        raise RequestError(
            f"the column names give the labels {list_names(matched)}, some of which do not have the type of "
            f"{labels[0]!r}",
            "classes",
        ) from error


def vote_labels(names: Sequence[str], others: Sequence[str]) -> list[str]:
    """The label of each column of votes: its name without what all have in common.

    Names can be cut in several ways: the one is taken that leaves most and is found in the names of `others`.
    """
    if len(names) < 2:
        raise RequestError(f"votes take one column per class, as in n_cat,n_dog; there is only {list_names(names)}")
    cuts = _cuts(names)
    return next((rest for rest in cuts if frames_of(rest, others)), cuts[-1])


def _cuts(names: Sequence[str]) -> list[list[str]]:
    """Names without a common beginning or end that stops at a separator, in every way; the longest rest first."""
    before = os.path.commonprefix(list(names))
    after = os.path.commonprefix([name[::-1] for name in names])
    starts = [0, *(match.end() for match in re.finditer(r"[_.:\- ]", before))]
    ends = [0, *(match.end() for match in re.finditer(r"[_.:\- ]", after))]
    cuts = [[name[start : len(name) - end] for name in names] for start in starts for end in ends]
    numbered = [re.fullmatch(r"(.*?)(\d+)", name) for name in names]
    if len({match and match[1] for match in numbered}) == 1 and numbered[0]:
        cuts.append([match[2] for match in numbered if match])
    return sorted((cut for cut in cuts if all(cut)), key=lambda cut: -len(cut[0]))


def frames_of(texts: Sequence[str], names: Sequence[str]) -> list[tuple[str, str]]:
    """What stands before or after all `texts` in some of the names: ``("p_", "")`` if these have p_cat and p_dog."""
    first, known = texts[0], set(names)
    before = sorted({name.removesuffix(first) for name in names if name.endswith(first)})
    after = sorted({name.removeprefix(first) for name in names if name.startswith(first)})
    frames = [*((start, "") for start in before), *(("", end) for end in after)]
    return [(start, end) for start, end in frames if all(start + text + end in known for text in texts)]


def columns_of_votes(names: Sequence[str], labels: Sequence[str], classes: Sequence[Label]) -> tuple[str, ...]:
    """The column of votes of each class; `labels` are those that the columns are named by."""
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


def pairs(names: Sequence[Label], classes: Sequence[Label]) -> str:
    """Which column stands for which class, in words; a single column stands for the last class."""
    shown = classes[-1:] if len(names) == 1 else classes
    return list_names((f"{name} = {label}" for name, label in zip(names, shown)), 10, str)
