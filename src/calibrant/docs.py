"""Descriptions of parameters that calibrators, metrics and displays share: written once, added to each docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TypeVar

Documented = TypeVar("Documented", bound=Callable[..., object])

#: Defaults are read from each signature.
SHARED = """
y_true : array-like of shape (n,)
    Observed labels: column numbers, or any labels (see `classes`). A matrix (n, k) of probabilities or votes counts
    each row once for each class, with these numbers as weights.
y_prob : array-like of shape (n, k), (n, 1) or (n,)
    Predicted probabilities; a single column is the probability of the second of two classes.
rule : DecisionRule
    Which action is taken at which probabilities.
amounts : mapping of str to array-like of shape (n,)
    The amounts of each row that the costs name.
kind : {"auto", "binary", "top-label", "class-wise"}
    Which scores are evaluated: the second class's of two, the predicted class's, or every class's against the rest
    (the mean over classes; curves of every class have functions of their own). "auto" is binary for two classes and
    top-label for more.
pos_label : label
    The class to judge against the rest; by default what `kind` says, or all classes at once.
n_bins : int
    Number of bins; empty ones are left out.
strategy : {"uniform", "quantile"}
    Bins of equal width, or of equal mass.
average : {"macro", "weighted"}
    All classes equally, or weighted by frequency.
loss : {"log_loss", "brier"}
    Which loss; Brier as `brier` computes it by default.
method : str or calibrator
    Method that recalibrates: an unfitted calibrator, or its name in the registry; `None` is the package's logistic
    calibrator.
cv : int, splitter or iterable of splits
    Folds; a whole number is a number of stratified folds.
level : float
    Confidence level of the intervals.
n_resamples : int
    Number of bootstrap resamples.
random_state : int, Generator or None
    Seed or source of everything random.
sample_weight : array-like of shape (n,)
    How many observations each row counts for: weight 3 equals the row written three times, weight zero leaves the row
    out. `calibrant.effective_counts` scales importance weights.
groups : array-like of shape (n,)
    The group of each row, such as the patient. Rows of one group may depend on each other; groups are independent.
    Without groups rows are independent.
blocks : int
    Instead of `groups`, for rows in order of time: how many consecutive rows belong together.
ax : matplotlib Axes
    Where to draw; by default a new figure.
multiclass : {"ovr", "ovo"}
    How more than two classes are handled: one-vs-rest or one-vs-one.
mcp_gamma : float
    Where the minimax concave penalty becomes constant.
solver : {"auto", "newton", "lbfgs", "bfgs", "saga", "proximal-newton", "fista"}
    Solver.
max_iter : int
    Largest number of iterations; `None` uses the solver's default.
tol : float
    Bound of the duality gap relative to ``max(1, objective)``, or of the residual where there is no gap; `None`
    means 1e-8, for SAGA 1e-5.
input : {"probabilities", "logits", "scores", "rising-scores", "falling-scores"}
    What the predictions are; a single column of logits is the log-odds of the second class. Scores may be any numbers,
    one column or one per class: their direction, unless it is given, and their scale are found in `fit`.
classes : array-like of shape (k,)
    The label of each column. Needed when labels are neither column numbers nor all present.
renormalize : bool
    Rescale rows that do not sum to one.
"""


def _by_name(entries: list[str]) -> dict[str, str]:
    """Entries of a parameter section by the names before the colon, of which there may be several."""
    return {name: entry for entry in entries for name in re.split(r" :|\n", entry)[0].lstrip("*").split(", ")}


def _split_entries(text: str) -> list[str]:
    return re.split(r"\n(?=[\w*])", text)


#: Where a docstring is cut into sections.
_SECTIONS = r"\n\n(?=\w+\n-{3,}\n)"

_SHARED = _by_name(_split_entries(SHARED.strip()))


def describe_parameters(documented: Documented) -> Documented:
    """Add to a docstring the parameters that it does not describe itself, in the order of the signature.

    Their descriptions are those of the bases of a class, or the shared ones. Attributes of the bases are added, too.
    """
    if not documented.__doc__:  # `python -OO` leaves none
        return documented
    sections = re.split(_SECTIONS, inspect.cleandoc(documented.__doc__))
    inherited = [base.__doc__ or "" for base in inspect.getmro(documented)[1:]] if inspect.isclass(documented) else []
    if not any(section.startswith("Parameters\n") for section in sections):
        sections.insert(1, "Parameters\n----------")
    number = next(i for i, section in enumerate(sections) if section.startswith("Parameters\n"))
    heading, *written = _split_entries(sections[number])
    own, known = _by_name(written), {**_SHARED, **_inherited(inherited, "Parameters")}
    entries = []
    for name, parameter in inspect.signature(documented).parameters.items():
        if name in own:
            entries.append(own[name])
        elif name in known:
            entries.append(_with_default(known[name], parameter.default))
    sections[number] = "\n".join(dict.fromkeys([heading, *entries]))
    attributes = _inherited(inherited, "Attributes")
    if attributes and not any(section.startswith("Attributes\n") for section in sections):
        sections.insert(number + 1, "Attributes\n----------")
    for i, section in enumerate(sections):
        if section.startswith("Attributes\n"):
            written = _split_entries(section)
            own = _by_name(written[1:])
            sections[i] = "\n".join(dict.fromkeys([*written, *(attributes[n] for n in attributes if n not in own)]))
    documented.__doc__ = "\n\n".join(sections) + "\n"
    return documented


def _inherited(docstrings: list[str], title: str) -> dict[str, str]:
    """The entries of this section in the docstrings of bases, those of the nearest base first."""
    found: dict[str, str] = {}
    for text in docstrings:
        for section in re.split(_SECTIONS, inspect.cleandoc(text)):
            if section.startswith(f"{title}\n"):
                found = {**found, **{k: v for k, v in _by_name(_split_entries(section)[1:]).items() if k not in found}}
    return found


def _with_default(entry: str, default: object) -> str:
    if default is inspect.Parameter.empty:
        return entry
    first, rest = entry.split("\n", 1)
    first = first.split(", default=")[0]
    shown = f'"{default}"' if isinstance(default, str) else repr(default)
    return f"{first}, default={shown}\n{rest}"
