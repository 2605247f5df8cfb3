"""The tables that compare methods dataset by dataset: ranks with tests, ranks in groups, win rates, Elo.

How methods are ranked, and on which datasets, is the subject of `calibrant.bench.study.method_ranking`.
"""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pandas as pd

from calibrant.bench.schema import DATASET, METRICS
from calibrant.bench.study.method_ranking import Ranking
from calibrant.bench.study.render import Best, StudyTable
from calibrant.bench.study.statistics import (
    critical_difference,
    equal_mass_groups,
    friedman,
    mean_interval,
    nemenyi,
    wilcoxon_holm,
)
from calibrant.calibrators.registry import BASELINE


def rank_tables(ranking: Ranking, metric: str, alpha: float) -> tuple[list[StudyTable], dict[str, object]]:
    """Average ranks with Nemenyi and Wilcoxon-Holm matrices, and the row of the Friedman table."""
    words = METRICS[metric]
    ranks, means = ranking.ranks, ranking.means
    test = friedman(ranks)
    difference = critical_difference(test.n_methods, test.n_datasets, alpha)
    row = {"metric": metric, **asdict(test), "alpha": alpha, "critical_difference": difference}
    frame = ranking.mean_ranks.rename_axis("method").rename("rank").reset_index()
    found = f"Friedman χ² = {test.statistic:.2f}, p = {test.p_value:.2g}"
    note = f"{found}; critical difference {difference:.2f} at α = {alpha:g}."
    notes = (note,) if math.isfinite(test.statistic) else ()
    caption = f"Average rank by test {words} over {test.n_datasets} datasets (1 is best)."
    tables = [StudyTable(f"ranks_{metric}", frame, caption, decimals={"rank": 2}, best={"rank": "min"}, notes=notes)]
    order = frame["method"].tolist()
    for name, matrix, text in (
        ("nemenyi", nemenyi(ranks), "Nemenyi p-values"),
        ("wilcoxon", wilcoxon_holm(means), "Wilcoxon signed-rank p-values, Holm's correction over all pairs"),
    ):
        square = matrix.loc[order, order].reset_index()
        caption = f"{text}, {words}, {test.n_datasets} datasets."
        tables.append(StudyTable(f"{name}_{metric}", square, caption, p_values=tuple(order)))
    return tables, row


def rank_groups(results: pd.DataFrame, ranking: Ranking) -> tuple[list[StudyTable], list[str]]:
    """Average Brier ranks in groups of datasets of equal mass, by calibration rows and by classes."""
    ranks = ranking.ranks
    traits = results.groupby(DATASET)[["n_cal", "n_classes"]].mean().loc[ranks.index]
    binary = bool((traits["n_classes"] == 2).all())
    tables, notes = [], []
    columns = ["group", "smallest", "largest", "n_datasets", "method", "rank", "low", "high"]
    for name, trait, count, words in (
        ("rank_by_rows", "n_cal", 5 if binary else 4, "calibration rows"),
        ("rank_by_classes", "n_classes", 4, "classes"),
    ):
        rows: list[tuple[object, ...]] = []
        if traits[trait].nunique() < 2:
            if len(ranks) and not (binary and trait == "n_classes"):
                notes.append(f"no table of ranks by number of {words}, because all datasets have equally many")
        else:
            group = equal_mass_groups(traits[trait].to_numpy(float), count)
            # Fewer groups until each has two datasets: with one there is nothing to average.
            while count > 2 and np.bincount(group).min() < 2:
                count -= 1
                group = equal_mass_groups(traits[trait].to_numpy(float), count)
            for number in range(int(group.max()) + 1):
                inside = group == number
                values = traits[trait].to_numpy(float)[inside]
                for method in ranks.columns:
                    interval = mean_interval(ranks[method].to_numpy(float)[inside])
                    rows.append((number + 1, values.min(), values.max(), int(inside.sum()), method, *interval))
        frame = pd.DataFrame(rows, columns=columns)
        tables.append(
            StudyTable(
                name,
                frame,
                caption=f"Average rank by test Brier score in groups of datasets by number of {words}.",
                decimals={"rank": 2, "low": 2, "high": 2, "smallest": 0, "largest": 0},
                group="group",
                best={"rank": "min"},
                bold_in_group=True,
            )
        )
    return tables, notes


def friedman_table(rows: list[dict[str, object]], alpha: float) -> StudyTable:
    caption = f"Friedman test of equal ranks, and the critical difference of Nemenyi's test at α = {alpha:g}."
    return StudyTable("friedman", pd.DataFrame(rows), caption, decimals={"alpha": 2}, p_values=("p_value",))


def winrate_table(parts: list[pd.DataFrame]) -> StudyTable:
    frame = pd.concat(parts, ignore_index=True)
    frame = frame[["metric", *[name for name in frame.columns if name != "metric"]]]
    caption = "Share of wins against the other methods and against none, with 95 % intervals over datasets."
    best: dict[str, Best] = {"winrate": "max", "beats_none": "max"}
    return StudyTable("winrates", frame, caption, best=best, group="metric", bold_in_group=True)


def elo_table(parts: list[pd.DataFrame]) -> StudyTable:
    frame = pd.concat(parts, ignore_index=True)[["metric", "method", "elo", "low", "high"]]
    caption = f"Elo ratings ({BASELINE} = 1000) with 95 % intervals over datasets."
    whole = {"elo": 0, "low": 0, "high": 0}
    return StudyTable("elo", frame, caption, decimals=whole, best={"elo": "max"}, group="metric", bold_in_group=True)


def test_notes(tests: list[dict[str, object]]) -> list[str]:
    first = tests[0]
    if first["n_methods"] == 1:
        return ["ranks and tests need at least two methods"]
    if first["n_datasets"] == 0:
        return ["there are no ranks: no dataset has results of all compared methods"]
    if first["n_datasets"] == 1:
        return ["tests and intervals need at least two datasets: with one there are only ranks"]
    return [
        f"all methods tie on every dataset in {METRICS[str(test['metric'])]}: no difference to test"
        for test in tests
        if test["statistic"] == 0.0
    ]
