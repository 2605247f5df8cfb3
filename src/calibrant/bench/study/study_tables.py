"""The tables of the study from tidy results: changes of loss, quantiles, fit times, what did not finish.

The tables of ranks, tests, win rates and Elo come from `calibrant.bench.study.rank_tables`, those of drawn calibration
rows from `calibrant.bench.study.draw_tables`. `build_tables` makes them all and collects notes for the reader:
failed fits, infinite losses, datasets left out of the ranks, tests that cannot be made. Nothing is fitted or drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from calibrant.bench.schema import DATASET, EXPERIMENT, KEY, METRICS
from calibrant.bench.study.draw_tables import draw_tables, has_draws
from calibrant.bench.study.method_order import method_table
from calibrant.bench.study.method_ranking import rank_methods
from calibrant.bench.study.rank_tables import (
    elo_table,
    friedman_table,
    rank_groups,
    rank_tables,
    test_notes,
    winrate_table,
)
from calibrant.bench.study.ratings import elo, win_rates
from calibrant.bench.study.render import StudyTable
from calibrant.bench.study.results import (
    change_table,
    loss_table,
    relative_table,
    with_baseline,
)
from calibrant.bench.study.statistics import mean_interval, quantiles
from calibrant.calibrators.registry import BASELINE

QUANTILES = {"q10": 0.10, "q25": 0.25, "q50": 0.50, "q75": 0.75, "q90": 0.90}


def build_tables(
    results: pd.DataFrame, *, alpha: float = 0.05, unranked: Sequence[str] = (), seed: int = 0
) -> tuple[dict[str, StudyTable], list[str]]:
    """All tables of the study by name, and notes on what is missing or odd in the results.

    Parameters
    ----------
    results : pandas.DataFrame
        Checked results, see `calibrant.bench.study.results.read_results`.
    alpha : float
        Level of the tests.
    unranked : sequence of str
        Methods left out of ranks, tests, win rates and Elo (but not out of the other tables).
    seed : int
        Seed of the bootstrap.
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    unknown = sorted(set(unranked) - set(results["method"]))
    if unknown:
        raise ValueError(f"cannot leave {', '.join(unknown)} out of the ranks: no such method in the results")
    if BASELINE in unranked:
        raise ValueError(f"{BASELINE!r} is always ranked: it is what a method must beat")
    results, notes = with_baseline(results)
    families = _given_families(results)
    methods = method_table(list(dict.fromkeys(results["method"])), families=families, unranked=unranked)
    order = methods["method"].tolist()
    ranked = methods.loc[methods["ranked"], "method"].tolist()
    losses = {metric: loss_table(results, metric, order) for metric in METRICS}
    notes += _gaps(results, losses["logloss"]) + _infinities(losses)
    if len(order) == 1:
        notes.append(f"the results hold no method beside {BASELINE!r}: there is nothing to compare")
    tables = [
        StudyTable("methods", methods, printed=False),
        absolute(losses, methods),
        by_dataset_model(losses["logloss"]),
        relative_quantiles(losses),
        fit_time(results, order),
        relative_by(losses, [*DATASET], "relative_by_dataset"),
        relative_by(losses, [*DATASET, "model"], "relative_by_model"),
        incomplete(results),
    ]
    tests, win, rating = [], [], []
    for metric in METRICS:
        ranking = rank_methods(losses[metric][ranked])
        notes += [note for note in ranking.notes if note not in notes]
        made, test = rank_tables(ranking, metric, alpha)
        tables += made
        tests.append(test)
        win.append(win_rates(losses[metric][ranked], seed=seed).assign(metric=metric))
        rating.append(elo(losses[metric][ranked], seed=seed).assign(metric=metric))
        if metric == "brier":
            groups, told = rank_groups(results, ranking)
            tables += groups
            notes += told
    tables += [friedman_table(tests, alpha), winrate_table(win), elo_table(rating)]
    if has_draws(results):
        tables += draw_tables(results, order, ranked)
    notes += test_notes(tests)
    return {table.name: table for table in tables}, notes


def absolute(losses: dict[str, pd.DataFrame], methods: pd.DataFrame) -> StudyTable:
    """Change of Brier score and log loss against `none`, averaged over the experiments a method finished."""
    changes = {metric: change_table(table) for metric, table in losses.items()}
    names = [name for name in methods["method"] if name != BASELINE]
    frame = pd.DataFrame({"method": names})
    frame["family"] = frame["method"].map(dict(zip(methods["method"], methods["family"]))).astype(object)
    for metric in ("brier", "logloss"):
        frame[metric] = [float(changes[metric][name].mean()) for name in names]
    frame["n_experiments"] = [int(losses["logloss"][name].notna().sum()) for name in names]
    notes = _infinities(losses)
    total = len(losses["logloss"])
    fewer = frame["n_experiments"] < total
    if fewer.any():
        which = ", ".join(frame.loc[fewer, "method"])
        notes.append(f"The means of {which} leave out what these methods did not finish and are not compared.")
    return StudyTable(
        "absolute",
        frame,
        caption=f"Change of test loss after calibration, mean over {total} experiments (lower is better).",
        best={"brier": "min", "logloss": "min"},
        group="family",
        unmarked=frozenset(np.flatnonzero(fewer).tolist()),
        notes=tuple(notes),
    )


def by_dataset_model(losses: pd.DataFrame) -> StudyTable:
    """Change of log loss for every dataset × model (mean over folds), one column per method."""
    change = change_table(losses).drop(columns=BASELINE)
    frame = change.groupby(level=[*DATASET, "model"]).mean().reset_index()
    frame.columns.name = None
    return StudyTable(
        "by_dataset_model",
        frame,
        caption="Change of test log loss by dataset and model, mean over folds (lower is better).",
        best_in_row=tuple(change.columns),
        group="dataset",
    )


def relative_quantiles(losses: dict[str, pd.DataFrame]) -> StudyTable:
    """Quantiles over datasets of the relative change of loss: per experiment, then mean per dataset."""
    rows = []
    for metric, table in losses.items():
        means = relative_table(table).drop(columns=BASELINE).groupby(level=DATASET).mean()
        for method in means.columns:
            values = means[method].dropna().to_numpy(float)
            rows.append((metric, method, *quantiles(values, list(QUANTILES.values())), values.size))
    frame = pd.DataFrame(rows, columns=["metric", "method", *QUANTILES, "n_datasets"])
    return StudyTable(
        "relative_quantiles",
        frame,
        caption="Relative change of test loss, quantiles over datasets (-0.1 is 10 % less loss).",
        best=dict.fromkeys(QUANTILES, "min"),
        group="metric",
        bold_in_group=True,
    )


def fit_time(results: pd.DataFrame, order: Sequence[str]) -> StudyTable:
    """Seconds of fitting per 1000 calibration rows, mean and 95 % interval over dataset-model pairs."""
    finished = results[(results["status"] == "ok") & (results["n_cal"] > 0) & (results["method"] != BASELINE)]
    seconds = 1000.0 * finished["fit_seconds"] / finished["n_cal"]
    pairs = seconds.groupby([finished[name] for name in [*DATASET, "model", "method"]]).mean().dropna()
    rows = []
    for method in order:
        if method in pairs.index.get_level_values("method"):
            values = pairs.xs(method, level="method").to_numpy(float)
            rows.append((method, *mean_interval(values), float(np.median(values)), values.size))
    frame = pd.DataFrame(rows, columns=["method", "seconds_per_1000", "low", "high", "median", "n_pairs"])
    return StudyTable(
        "fit_time",
        frame,
        caption="Seconds of fitting per 1000 calibration rows, 95 % intervals over dataset-model pairs.",
        best={"seconds_per_1000": "min", "median": "min"},
    )


def relative_by(losses: dict[str, pd.DataFrame], levels: Sequence[str], name: str) -> StudyTable:
    """Relative change of both losses averaged to `levels`, one row per method: what figures draw."""
    columns = {}
    for metric, table in losses.items():
        means = relative_table(table).drop(columns=BASELINE).groupby(level=list(levels)).mean()
        long = means.melt(var_name="method", value_name=metric, ignore_index=False)
        columns[metric] = long.set_index("method", append=True)[metric].dropna()
    frame = pd.DataFrame(columns).rename_axis([*levels, "method"]).sort_index().reset_index()
    return StudyTable(name, frame, printed=False)


def incomplete(results: pd.DataFrame) -> StudyTable:
    """Every row that is missing or did not finish, with its status and message."""
    experiments = results[EXPERIMENT].drop_duplicates().itertuples(index=False, name=None)
    methods = list(dict.fromkeys(results["method"]))
    every = pd.MultiIndex.from_tuples([(*key, method) for key in experiments for method in methods], names=KEY)
    rows = results.set_index(KEY)[["status", "message"]].reindex(every)
    rows["status"] = rows["status"].fillna("absent")
    rows["message"] = rows["message"].fillna("")
    frame = rows[rows["status"] != "ok"].reset_index()
    return StudyTable("incomplete", frame, caption="Experiments a method did not finish.")


def _given_families(results: pd.DataFrame) -> dict[str, str]:
    if "family" not in results:
        return {}
    named = results.dropna(subset=["family"]).drop_duplicates("method")
    return dict(zip(named["method"], named["family"].astype(str)))


def _gaps(results: pd.DataFrame, losses: pd.DataFrame) -> list[str]:
    missing = losses.isna().sum()
    told: dict[str, list[str]] = {}
    for method, count in missing[missing > 0].items():
        rows = results[(results["method"] == method) & (results["status"] != "ok")]
        counts = rows["status"].value_counts().to_dict()
        absent = int(count) - len(rows)
        parts = [f"{number} {status}" for status, number in counts.items()] + ([f"{absent} not run"] if absent else [])
        told.setdefault(", ".join(parts), []).append(str(method))
    gaps = "; ".join(f"{', '.join(names)} ({what})" for what, names in told.items())
    return [f"methods without a result on some of the {len(losses)} experiments: {gaps}"] if told else []


def _infinities(losses: dict[str, pd.DataFrame]) -> list[str]:
    told = []
    for metric, table in losses.items():
        change = change_table(table)
        for method, count in np.isinf(table).sum().items():
            if count:
                finite = change[method][np.isfinite(change[method])]
                rest = f"; over the others the mean change is {finite.mean():.4f}" if len(finite) else ""
                words = METRICS[metric]
                told.append(f"{method} has an infinite {words} in {int(count)} of {len(table)} experiments{rest}")
    return told
