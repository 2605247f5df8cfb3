"""The one ranking of methods: what the summary of a run, the tables, the tests and the page show.

Losses are averaged over the experiments of a dataset, because experiments on the same data are not independent, and
methods are ranked on every dataset. All methods are ranked on the same datasets, those on which each of them finished
every experiment. A method that finished no dataset would leave none to rank on: it has no rank. The script of the
leaderboard page follows the same rule, and a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from calibrant.bench.schema import DATASET
from calibrant.bench.study.results import ten_digits
from calibrant.bench.study.statistics import dataset_ranks


@dataclass(frozen=True)
class Ranking:
    """Ranks of methods.

    Attributes
    ----------
    means : pandas.DataFrame
        Mean losses, one row per dataset used and one column per ranked method.
    n_datasets : int
        Number of datasets in the results, used or not.
    notes : tuple of str
        Methods without a rank and datasets left out, in words.
    """

    means: pd.DataFrame
    n_datasets: int
    notes: tuple[str, ...] = field(default=())

    @property
    def ranks(self) -> pd.DataFrame:
        """Rank of every method on every dataset, 1 for the smallest loss; ties share their mean rank."""
        return dataset_ranks(self.means)

    @property
    def mean_ranks(self) -> pd.Series:
        """Mean rank of every ranked method, the best first."""
        return self.ranks.mean().sort_values(kind="stable")


def rank_methods(losses: pd.DataFrame) -> Ranking:
    """Rank methods by their losses.

    Parameters
    ----------
    losses : pandas.DataFrame
        One row per experiment and one column per method, nan where a method did not finish; see
        `calibrant.bench.study.results.loss_table`.

    Examples
    --------
    >>> import pandas as pd
    >>> names = ["benchmark", "dataset", "model", "fold"]
    >>> index = pd.MultiIndex.from_tuples([("b", dataset, "m", "0") for dataset in "xy"], names=names)
    >>> nan = float("nan")
    >>> table = pd.DataFrame({"none": [0.5, 0.6], "ts": [0.4, nan], "sms": [0.3, 0.2], "ms": [nan, nan]}, index=index)
    >>> rank_methods(table).mean_ranks.to_dict()
    {'sms': 1.0, 'ts': 2.0, 'none': 3.0}
    >>> rank_methods(table).notes
    ('ms finished no dataset and is not ranked',
     'ranks use 1 of 2 datasets, where all ranked methods finished; datasets with gaps by method: ts (1)')
    """
    groups = losses.groupby(level=DATASET)
    finished = losses.notna().groupby(level=DATASET).all()
    ranked = [name for name in losses.columns if finished[name].any()]
    complete = finished[ranked].all(axis=1)
    # Rounded again, since sums of the same losses in another order differ in their last digits.
    means = ten_digits(groups.mean()[ranked][complete])
    return Ranking(means, len(finished), tuple(_notes(finished, ranked, int(complete.sum()))))


def _notes(finished: pd.DataFrame, ranked: list[str], n_used: int) -> list[str]:
    notes = []
    if lost := [str(name) for name in finished.columns if name not in ranked]:
        verb = "finished no dataset and is" if len(lost) == 1 else "finished no dataset and are"
        notes.append(f"{', '.join(lost)} {verb} not ranked")
    if n_used < len(finished):
        gaps = (~finished[ranked]).sum().sort_values(ascending=False, kind="stable")
        worst = ", ".join(f"{name} ({int(count)})" for name, count in gaps[gaps > 0].items())
        note = f"ranks use {n_used} of {len(finished)} datasets, where all ranked methods finished"
        note += f"; datasets with gaps by method: {worst}"
        notes.append(note if n_used else f"{note}; leave some of these methods out of the ranks to have any")
    return notes
