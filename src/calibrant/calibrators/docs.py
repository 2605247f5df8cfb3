"""Descriptions of the parameters that many calibrators share: written once, added to each class's docstring."""

from __future__ import annotations

import inspect
import re

SHARED = """
multiclass : {"ovr", "ovo"}, default="ovr"
    How more than two classes are handled: one-vs-rest or one-vs-one.
mcp_gamma : float, default=3.0
    Where the minimax concave penalty becomes constant.
opt : {"auto", "newton", "lbfgs", "bfgs", "saga", "proximal-newton", "fista"}, default="auto"
    Solver.
max_iter : int, default=None
    Largest number of iterations; `None` takes the solver's own.
tol : float, default=None
    Bound of the duality gap relative to ``max(1, objective)``, or of the residual where there is no gap; `None`
    means 1e-8, for SAGA 1e-5.
input : {"probabilities", "logits"}, default="probabilities"
    What the predictions are; a single column of logits is the log-odds of the second class.
classes : array-like of shape (k,), default=None
    The label of each column, for labels that do not say it themselves.
renormalize : bool, default=False
    Rescale rows that do not sum to one.
"""
_ENTRIES = {entry.split(" : ")[0]: entry for entry in re.split(r"\n(?=\w)", SHARED.strip())}


def describe_shared_parameters(cls: type) -> None:
    """Add to the docstring of a class the shared parameters of its constructor that it does not describe itself."""
    if not cls.__doc__:  # `python -OO` leaves none
        return
    sections = re.split(r"\n\n(?=\w+\n-{3,}\n)", inspect.cleandoc(cls.__doc__))
    if not any(section.startswith("Parameters\n") for section in sections):
        sections.insert(1, "Parameters\n----------")
    number = next(i for i, section in enumerate(sections) if section.startswith("Parameters\n"))
    described = ", ".join(re.findall(r"^(\w[\w, ]*) :", sections[number], flags=re.MULTILINE)).split(", ")
    missing = [name for name in inspect.signature(cls).parameters if name in _ENTRIES and name not in described]
    sections[number] = "\n".join([sections[number], *(_ENTRIES[name] for name in missing)])
    cls.__doc__ = "\n\n".join(sections) + "\n"
