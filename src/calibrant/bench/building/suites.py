"""Suites of the builder: which datasets and models, how many rows, which test folds, and what stays unseen.

A suite made for choosing between methods keeps a third of its datasets apart, to be looked at once, when the choice is
made. The rule is fixed here: of the datasets with two classes, and of those with more, each sorted by the SHA-1 of
`suite/dataset`, the first third is unseen.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from calibrant.bench.building.catalogue import BINARY, MULTICLASS, TABLES
from calibrant.bench.building.models import DISTORTED, MODELS

SuitePart = Literal["open", "unseen", "all"]


@dataclass(frozen=True)
class Suite:
    """A suite of the builder; `keeps_third` says whether a third of its datasets stays unseen."""

    name: str
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    max_rows: int
    folds: tuple[int, ...] = (0,)
    keeps_third: bool = False

    def part(self, which: SuitePart = "open") -> list[str]:
        """Datasets to choose on (`open`), those kept apart (`unseen`), or all."""
        unseen: set[str] = set()
        for kind in (BINARY, MULTICLASS) if self.keeps_third else ():
            own = [name for name in self.datasets if name in kind]
            own.sort(key=lambda name: hashlib.sha1(f"{self.name}/{name}".encode()).hexdigest())
            unseen.update(own[: len(own) // 3])
        return [name for name in self.datasets if which == "all" or (name in unseen) == (which == "unseen")]


_QUICK = "chile_vote digits fastfood hpc mlb_position storms"
_QUICK += " credit email_spam heart_deaths loan_approval orange_juice spam7"
# Tables with enough rows to draw 1000 for calibration and to test on at least 2000.
_EMBEDDED = "diamonds gss_occupation happiness hpc kershaw males_occupation stackoverflow storms"
_EMBEDDED += " arrests credit crash_deaths email_spam health_insurance heart_deaths pension spam7"
# The same, with rare classes among them.
_DISTORTED = "bird_strikes diamonds gss_occupation happiness hpc kershaw males_occupation stackoverflow storms"
_DISTORTED += " arrests callback caravan crash_deaths email_spam health_insurance heart_deaths lending_club pension"
_DISTORTED += " smoker spam7 taxi_tip wilms_relapse"

# Name, datasets, models, largest number of rows (a larger table is subsampled), test folds.
_SUITES = (
    Suite("quick", tuple(_QUICK.split()), tuple(MODELS), 2000),
    Suite("embedded", tuple(_EMBEDDED.split()), ("LR", "RF", "LGBM", "MLP"), 4000),
    Suite("standard", tuple(TABLES), tuple(MODELS), 5000, (0, 1, 2)),
    Suite("distorted", tuple(_DISTORTED.split()), tuple(DISTORTED), 5000, keeps_third=True),
)
SUITES = {suite.name: suite for suite in _SUITES}


def find_suite(name: str) -> Suite:
    """The suite of this name, or an error that lists them."""
    if name not in SUITES:
        raise ValueError(f"no suite named {name!r}; there are {', '.join(SUITES)}")
    return SUITES[name]


def list_datasets(suite: str = "standard", part: SuitePart = "open") -> list[str]:
    """Names of the tables of a suite."""
    return find_suite(suite).part(part)
