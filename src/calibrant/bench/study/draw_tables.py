"""Tables of results whose calibration rows were drawn: gain, ranks and reliability against the number of rows.

A curve over sizes compares sizes only if all of it rests on the same datasets. Curves and the rows that a method needs
are therefore over the datasets that have every size which at least a third of the datasets have; ranks at one size are
over all datasets that have it.

No method can be better than no calibration in 95 of 100 draws where predictions are calibrated already. Shares of draws
that got better therefore count experiments with something to gain: those whose loss some method lowers by 1 % or more
with the largest number of rows.

From the curves follows how many rows another method needs to gain what the leader gains with n rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from calibrant.bench.schema import DATASET, METRICS
from calibrant.bench.study.render import StudyTable
from calibrant.bench.study.results import change_table, loss_table, relative_table
from calibrant.bench.study.statistics import mean_interval, quantiles, rank_methods
from calibrant.calibrators.registry import BASELINE

ENOUGH = 0.95
"""Share of draws in which a method must be better than no calibration to count as reliable."""
GAINFUL = 0.01
"""Relative gain, by the best method with most rows, from which an experiment counts as miscalibrated."""
_SHARE_OF_DATASETS = 1 / 3
"""Share of the datasets that must have a size for the curves to show it: `draw_notes` names the others."""


def has_draws(results: pd.DataFrame) -> bool:
    """Whether rows of results come from draws of given sizes."""
    return "draw" in results and bool((results["draw"] > 0).any())


def draw_tables(results: pd.DataFrame, order: Sequence[str], ranked: Sequence[str]) -> list[StudyTable]:
    """Tables of the draws among results of experiments whose `none` finished, of one kind of labels.

    `draws` and `draw_curves` have one row per loss, size and method (in the given order), `change_by_draw_*` and
    `rank_by_draw_*` one column per size; `rows_needed` and `rows_to_match*` are made unless labels were drawn.
    """
    results = results[results["draw"] > 0]
    harm = bool((results["labels"] == "drawn").all())
    sizes = sorted(int(size) for size in results["draw"].unique())
    long, curves = _by_size(results, sizes, order, ranked), curve_table(results, order, ranked)
    tables = [StudyTable("draws", long, printed=False), StudyTable("draw_curves", curves, printed=False)]
    of_datasets = f"{curves['n_datasets'].max():.0f} datasets"
    what = "Increase of the expected {} where predictions are calibrated" if harm else "Change of test {}"
    for metric, words in METRICS.items():
        caption = f"{what.format(words)} by number of calibration rows, mean over {of_datasets} (lower is better)."
        tables.append(_wide(curves, metric, "change", f"change_by_draw_{metric}", caption))
        count = ", ".join(
            f"{n} with {size} rows"
            for size, n in long[long["metric"] == metric].groupby("draw")["n_datasets"].max().items()
        )
        caption = f"Average rank by test {words} by number of calibration rows (1 is best). Datasets: {count}."
        tables.append(_wide(long, metric, "rank", f"rank_by_draw_{metric}", caption, decimals=2))
    if not harm:
        tables.append(_needed_table(curves, order, of_datasets))
        tables += _matching_tables(curves, of_datasets)
    return tables


def curve_table(results: pd.DataFrame, order: Sequence[str], ranked: Sequence[str]) -> pd.DataFrame:
    """What the curves show: one row per loss, size and method, all on the same datasets."""
    common = common_sizes(results)
    inside = results[results["draw"].isin(common)]
    reach = inside.groupby(DATASET)["draw"].nunique() == len(common)
    inside = inside[inside.set_index(DATASET).index.isin(reach[reach].index)]
    return _by_size(inside, common, order, ranked).assign(labels=results["labels"].iloc[0])


def common_sizes(results: pd.DataFrame) -> list[int]:
    """Sizes that at least a third of the datasets have."""
    counts = results.drop_duplicates([*DATASET, "draw"])["draw"].value_counts()
    total = len(results[DATASET].drop_duplicates())
    return sorted(int(size) for size, count in counts.items() if count >= _SHARE_OF_DATASETS * total)


def draw_notes(results: pd.DataFrame) -> tuple[str, ...]:
    """Sizes and datasets that the curves leave out, in words."""
    common = common_sizes(results)
    found = results.drop_duplicates([*DATASET, "draw"])
    reach = found[found["draw"].isin(common)].groupby(DATASET)["draw"].nunique()
    n_all, n_used = len(found[DATASET].drop_duplicates()), int((reach == len(common)).sum())
    notes = []
    if n_used < n_all:
        notes.append(f"over {n_used} of {n_all} datasets, those that have all of these numbers of rows")
    if rare := sorted({int(size) for size in found["draw"] if size > 0} - set(common)):
        sizes = ", ".join(map(str, rare))
        notes.append(
            f"draws of {sizes} rows are not shown, since few datasets have that many; the tables of a report show them"
        )
    return tuple(notes)


def rows_needed(shares: Mapping[int, float], enough: float = ENOUGH) -> float:
    """Number of calibration rows from which the share of draws that got better is `enough`, also with more rows.

    Interpolated on a logarithmic scale of rows; the smallest size if it is enough already, infinity if no size is.
    """
    sizes = sorted(shares)
    held = len(sizes)
    while held > 0 and shares[sizes[held - 1]] >= enough:
        held -= 1
    if held == len(sizes):
        return math.inf
    if held == 0:
        return float(sizes[0])
    below, above = sizes[held - 1], sizes[held]
    way = (enough - shares[below]) / (shares[above] - shares[below])
    return round(math.exp(math.log(below) + way * math.log(above / below)), 6)


def _by_size(results: pd.DataFrame, sizes: Sequence[int], order: Sequence[str], ranked: Sequence[str]) -> pd.DataFrame:
    """One row per loss, size and method.

    `change` is the mean over datasets with its 95 % interval; `q25` to `q75` are quartiles over datasets of the
    relative change; `better` is the share of draws with a lower loss than `none` among experiments with something to
    gain, which `n_gainful` datasets have.
    """
    rows = []
    for metric in METRICS:
        gainful = _gainful(results, metric, order)
        for size in sizes:
            losses = loss_table(results[results["draw"] == size], metric, order)
            change = change_table(losses)
            ranks = rank_methods(losses[list(ranked)]).mean_ranks
            by_dataset = change.groupby(level=DATASET).mean()
            relative = relative_table(losses).groupby(level=DATASET).mean()
            can = change[_bases(change.index).isin(gainful)]
            better = (can < 0).where(can.notna()).astype(float).groupby(level=DATASET).mean()
            for method in order:
                values = by_dataset[method].dropna().to_numpy(float)
                if values.size:
                    share, rank = float(better[method].mean()), float(ranks.get(method, math.nan))
                    quartiles = quantiles(relative[method].dropna().to_numpy(float), [0.25, 0.5, 0.75])
                    counts = (len(better), rank, values.size)
                    rows.append((metric, size, method, *mean_interval(values), *quartiles, share, *counts))
    columns = ["metric", "draw", "method", "change", "low", "high", "q25", "q50", "q75"]
    return pd.DataFrame(rows, columns=[*columns, "better", "n_gainful", "rank", "n_datasets"])


def _gainful(results: pd.DataFrame, metric: str, order: Sequence[str]) -> pd.Index:
    """Experiments whose loss some method lowers by at least 1 %, averaged over their largest draws."""
    fold = results["fold"].astype(str).str.rsplit("-n", n=1).str[0]
    most = results.groupby([*(results[name] for name in (*DATASET, "model")), fold])["draw"].transform("max")
    change = relative_table(loss_table(results[results["draw"] == most], metric, order))
    best = change.groupby(_bases(change.index)).mean().min(axis=1)
    return best.index[best <= -GAINFUL]


def _bases(experiments: pd.MultiIndex) -> pd.Index:
    """The experiments that draws are made from: their fold without the name of the draw."""
    return pd.Index([(*key[:-1], str(key[-1]).rsplit("-n", 1)[0]) for key in experiments], tupleize_cols=False)


def _wide(long: pd.DataFrame, metric: str, value: str, name: str, caption: str, decimals: int = 4) -> StudyTable:
    """One row per method, one column per size, the best mean over sizes first."""
    part = long[(long["metric"] == metric) & ((long["method"] != BASELINE) | (value == "rank"))].dropna(subset=[value])
    frame = part.pivot(index="method", columns="draw", values=value)
    frame = frame.loc[frame.mean(axis=1).sort_values(kind="stable").index]
    frame.columns = [str(size) for size in frame.columns]
    columns = list(frame.columns)
    return StudyTable(
        name,
        frame.reset_index(),
        caption,
        decimals=dict.fromkeys(columns, decimals),
        best=dict.fromkeys(columns, "min"),
    )


def _needed_table(curves: pd.DataFrame, order: Sequence[str], of_datasets: str) -> StudyTable:
    rows = []
    for method in (name for name in order if name != BASELINE):
        own = curves[curves["method"] == method]
        shares = {metric: own[own["metric"] == metric].set_index("draw")["better"].to_dict() for metric in METRICS}
        rows.append((method, *(rows_needed(shares[metric]) for metric in METRICS), -own["better"].mean()))
    frame = pd.DataFrame(rows, columns=["method", *METRICS, "order"])
    # Methods that need equally many rows are ordered by how often they help.
    frame = frame.sort_values(["logloss", "order"], kind="stable", ignore_index=True).drop(columns="order")
    smallest = int(curves["draw"].min()) if len(curves) else 0
    count = int(curves["n_gainful"].max()) if len(curves) else 0
    return StudyTable(
        "rows_needed",
        frame,
        f"Calibration rows from which a method beats no calibration in {ENOUGH:.0%} of draws from experiments with "
        f"something to gain ({count} of {of_datasets}). {smallest} stands for {smallest} or fewer, ∞ for more than "
        "were drawn.",
        decimals=dict.fromkeys(METRICS, 0),
        best=dict.fromkeys(METRICS, "min"),
    )


def rows_to_match(curves: pd.DataFrame) -> pd.DataFrame:
    """Rows that each method needs to gain what the leader gains with `draw` rows; who needs the fewest comes first.

    The leader has the lowest mean log loss over the sizes of `curve_table`; infinity stands for more than were drawn.
    """
    columns = ["metric", "draw", "method", "rows", "leader"]
    gains = -curves[curves["method"] != BASELINE].set_index(["metric", "method", "draw"])["change"].sort_index()
    if gains.empty:
        return pd.DataFrame(columns=columns)
    leader = str(gains.loc[next(iter(METRICS))].groupby("method", sort=False).mean().idxmax())
    rows = []
    for (metric, method), own in gains.groupby(level=["metric", "method"], sort=False):
        if method == leader or (metric, leader) not in gains.index.droplevel("draw"):
            continue
        for size, target in gains.loc[metric, leader].items():
            # The same interpolation, with the gain in place of the share of draws.
            rows.append((metric, size, method, rows_needed(own.droplevel([0, 1]).to_dict(), float(target)), leader))
    found = pd.DataFrame(rows, columns=columns)
    # Methods that need the fewest rows first, by the mean of 1/rows, which is zero for infinity.
    speed = (1.0 / found["rows"]).groupby(found["method"]).transform("mean")
    return found.iloc[(-speed).argsort(kind="stable")].reset_index(drop=True)


def _matching_tables(curves: pd.DataFrame, of_datasets: str) -> list[StudyTable]:
    long = rows_to_match(curves)
    if long.empty:
        return []
    leader, smallest = long["leader"].iloc[0], int(curves["draw"].min())
    tables = [StudyTable("rows_to_match", long, printed=False)]
    for metric, words in METRICS.items():
        caption = (
            f"Calibration rows that a method needs to lower the mean {words} over {of_datasets} as much as {leader} "
            f"does with the number of rows that heads the column. {smallest} stands for {smallest} or fewer, ∞ for "
            "more than were drawn."
        )
        table = _wide(long, metric, "rows", f"rows_to_match_{metric}", caption, decimals=0)
        ordered = table.frame.set_index("method").loc[long["method"].unique()].reset_index()
        tables.append(replace(table, frame=ordered))
    return tables
