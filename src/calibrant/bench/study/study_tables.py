"""The tables of the study from tidy results: changes of loss, quantiles, fit times, ranks, tests, what did not finish.

Tables of drawn calibration rows come from `calibrant.bench.study.draw_tables`. `build_tables` makes them all and
collects notes for the reader: failed fits, infinite losses, datasets left out of the ranks, tests that cannot be made.
Nothing is fitted or drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from calibrant.bench.schema import DATASET, KEY, METRICS
from calibrant.bench.study.draw_tables import draw_tables, has_draws
from calibrant.bench.study.method_order import method_table
from calibrant.bench.study.render import Best, StudyTable
from calibrant.bench.study.results import change_table, loss_table, relative_table, with_baseline
from calibrant.bench.study.statistics import (
    Ranking,
    critical_difference,
    elo,
    equal_mass_groups,
    friedman,
    mean_interval,
    nemenyi,
    quantiles,
    rank_methods,
    wilcoxon_holm,
    win_rates,
)
from calibrant.calibrators.registry import BASELINE

QUANTILES = {"q10": 0.10, "q25": 0.25, "q50": 0.50, "q75": 0.75, "q90": 0.90}
"""The quantiles that the boxes of figures show."""

Losses = dict[str, pd.DataFrame]
"""For each metric, losses with one row per experiment and one column per method."""


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
    methods = method_table(list(dict.fromkeys(results["method"])), families=_families(results), unranked=unranked)
    order = methods["method"].tolist()
    ranked = methods.loc[methods["ranked"], "method"].tolist()
    losses = {metric: loss_table(results, metric, order) for metric in METRICS}
    relative = {metric: relative_table(table).drop(columns=BASELINE) for metric, table in losses.items()}
    infinite = _infinities(losses)
    notes += _gaps(results, losses["logloss"]) + infinite
    if len(order) == 1:
        notes.append(f"the results hold no method other than {BASELINE!r}: there is nothing to compare")
    compared, told = _rank_tables(results, {metric: table[ranked] for metric, table in losses.items()}, alpha, seed)
    tables = [
        StudyTable("methods", methods, printed=False),
        _absolute(losses, methods, infinite),
        _by_dataset_model(losses["logloss"]),
        _relative_quantiles(relative),
        _fit_time(results, order),
        _relative_by(relative, [*DATASET], "relative_by_dataset"),
        _relative_by(relative, [*DATASET, "model"], "relative_by_model"),
        _incomplete(results, losses["logloss"]),
        *compared,
        *(draw_tables(results, order, ranked) if has_draws(results) else ()),
    ]
    notes += [note for note in told if note not in notes]
    return {table.name: table for table in tables}, notes


def _absolute(losses: Losses, methods: pd.DataFrame, notes: list[str]) -> StudyTable:
    """Change of Brier score and log loss against `none`, averaged over the experiments a method finished."""
    frame = methods.loc[methods["method"] != BASELINE, ["method", "family"]].reset_index(drop=True)
    for metric in ("brier", "logloss"):
        frame[metric] = frame["method"].map(change_table(losses[metric]).mean())
    frame["n_experiments"] = frame["method"].map(losses["logloss"].notna().sum())
    total = len(losses["logloss"])
    fewer = frame["n_experiments"] < total
    if fewer.any():
        which = ", ".join(frame.loc[fewer, "method"])
        notes = [*notes, f"The means of {which} leave out what these methods did not finish and are not compared."]
    return StudyTable(
        "absolute",
        frame,
        f"Change of test loss after calibration, mean over {total} experiments (lower is better).",
        best={"brier": "min", "logloss": "min"},
        group="family",
        unmarked=frozenset(np.flatnonzero(fewer).tolist()),
        notes=tuple(notes),
    )


def _by_dataset_model(losses: pd.DataFrame) -> StudyTable:
    """Change of log loss for every dataset × model (mean over folds), one column per method."""
    change = change_table(losses).drop(columns=BASELINE)
    frame = change.groupby(level=[*DATASET, "model"]).mean().reset_index()
    frame.columns.name = None
    caption = "Change of test log loss by dataset and model, mean over folds (lower is better)."
    return StudyTable("by_dataset_model", frame, caption, best_in_row=tuple(change.columns), group="dataset")


def _relative_quantiles(relative: Losses) -> StudyTable:
    """Quantiles over datasets of the relative change of loss: per experiment, then mean per dataset."""
    rows = []
    for metric, table in relative.items():
        for method, means in table.groupby(level=DATASET).mean().items():
            values = means.dropna().to_numpy(float)
            rows.append((metric, method, *quantiles(values, list(QUANTILES.values())), values.size))
    return StudyTable(
        "relative_quantiles",
        pd.DataFrame(rows, columns=["metric", "method", *QUANTILES, "n_datasets"]),
        "Relative change of test loss, quantiles over datasets (-0.1 is 10 % less loss).",
        best=dict.fromkeys(QUANTILES, "min"),
        group="metric",
        bold_in_group=True,
    )


def _fit_time(results: pd.DataFrame, order: Sequence[str]) -> StudyTable:
    """Seconds of fitting per 1000 calibration rows, mean and 95 % interval over dataset-model pairs."""
    finished = results[(results["status"] == "ok") & (results["n_cal"] > 0) & (results["method"] != BASELINE)]
    seconds = 1000.0 * finished["fit_seconds"] / finished["n_cal"]
    pairs = seconds.groupby([finished[name] for name in ["method", *DATASET, "model"]]).mean().dropna()
    known = pairs.index.unique("method")
    values = {method: pairs[method].to_numpy(float) for method in order if method in known}
    rows = [(method, *mean_interval(of), float(np.median(of)), of.size) for method, of in values.items()]
    return StudyTable(
        "fit_time",
        pd.DataFrame(rows, columns=["method", "seconds_per_1000", "low", "high", "median", "n_pairs"]),
        "Seconds of fitting per 1000 calibration rows, 95 % intervals over dataset-model pairs.",
        best={"seconds_per_1000": "min", "median": "min"},
    )


def _relative_by(relative: Losses, levels: list[str], name: str) -> StudyTable:
    """Relative change of both losses averaged to `levels`, one row per method: what figures draw."""
    columns = {metric: table.groupby(level=levels).mean().stack().dropna() for metric, table in relative.items()}
    return StudyTable(name, pd.DataFrame(columns).sort_index().reset_index(), printed=False)


def _incomplete(results: pd.DataFrame, losses: pd.DataFrame) -> StudyTable:
    """Every row that is missing or did not finish, with its status and message."""
    gaps = losses.isna().stack()
    rows = results.set_index(KEY)[["status", "message"]].reindex(gaps.index[gaps])
    rows = rows.fillna({"status": "absent", "message": ""}).reset_index()
    return StudyTable("incomplete", rows, "Experiments a method did not finish.")


def _rank_tables(results: pd.DataFrame, losses: Losses, alpha: float, seed: int) -> tuple[list[StudyTable], list[str]]:
    """Ranks with Friedman, Nemenyi and Wilcoxon-Holm tests, ranks in groups of datasets, win rates and Elo."""
    tables: list[StudyTable] = []
    notes: list[str] = []
    tests = []
    for metric, words in METRICS.items():
        ranking = rank_methods(losses[metric])
        notes += [note for note in ranking.notes if note not in notes]
        ranks, means = ranking.ranks, ranking.means
        test = friedman(ranks)
        difference = critical_difference(test.n_methods, test.n_datasets, alpha)
        tests.append({"metric": metric, **asdict(test), "alpha": alpha, "critical_difference": difference})
        found = f"Friedman χ² = {test.statistic:.2f}, p = {test.p_value:.2g}"
        note = f"{found}; critical difference {difference:.2f} at α = {alpha:g}."
        shown = (note,) if math.isfinite(test.statistic) else ()
        frame = ranking.mean_ranks.rename_axis("method").rename("rank").reset_index()
        caption = f"Average rank by test {words} over {test.n_datasets} datasets (1 is best)."
        tables.append(
            StudyTable(f"ranks_{metric}", frame, caption, decimals={"rank": 2}, best={"rank": "min"}, notes=shown)
        )
        order = frame["method"].tolist()
        for name, matrix, text in (
            ("nemenyi", nemenyi(ranks), "Nemenyi p-values"),
            ("wilcoxon", wilcoxon_holm(means), "Wilcoxon signed-rank p-values, Holm's correction over all pairs"),
        ):
            square, caption = matrix.loc[order, order].reset_index(), f"{text}, {words}, {test.n_datasets} datasets."
            tables.append(StudyTable(f"{name}_{metric}", square, caption, p_values=tuple(order)))
        if metric == "brier":
            tables += _rank_groups(results, ranking, notes)
    caption = f"Friedman test of equal ranks, and the critical difference of Nemenyi's test at α = {alpha:g}."
    tables.append(StudyTable("friedman", pd.DataFrame(tests), caption, decimals={"alpha": 2}, p_values=("p_value",)))
    caption = "Share of wins against the other methods and against none, with 95 % intervals over datasets."
    best: dict[str, Best] = {"winrate": "max", "beats_none": "max"}
    frame = _by_metric({metric: win_rates(table, seed=seed) for metric, table in losses.items()})
    tables.append(StudyTable("winrates", frame, caption, best=best, group="metric", bold_in_group=True))
    caption, best = f"Elo ratings ({BASELINE} = 1000) with 95 % intervals over datasets.", {"elo": "max"}
    frame = _by_metric({metric: elo(table, seed=seed) for metric, table in losses.items()})
    whole = {"elo": 0, "low": 0, "high": 0}
    tables.append(StudyTable("elo", frame, caption, whole, best, group="metric", bold_in_group=True))
    return tables, notes + _test_notes(tests)


def _by_metric(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(frames, names=["metric"]).reset_index("metric").reset_index(drop=True)


def _rank_groups(results: pd.DataFrame, ranking: Ranking, notes: list[str]) -> list[StudyTable]:
    """Average Brier ranks in groups of datasets of equal mass, by calibration rows and by classes."""
    ranks = ranking.ranks
    traits = results.groupby(DATASET)[["n_cal", "n_classes"]].mean().loc[ranks.index]
    binary = bool((traits["n_classes"] == 2).all())
    tables = []
    for name, trait, count, words in (
        ("rank_by_rows", "n_cal", 5 if binary else 4, "calibration rows"),
        ("rank_by_classes", "n_classes", 4, "classes"),
    ):
        rows: list[tuple[object, ...]] = []
        values = traits[trait].to_numpy(float)
        if traits[trait].nunique() >= 2:
            group = equal_mass_groups(values, count)
            # Fewer groups until each has two datasets: with one there is nothing to average.
            while count > 2 and np.bincount(group).min() < 2:
                count -= 1
                group = equal_mass_groups(values, count)
            for number in range(int(group.max()) + 1):
                inside = group == number
                about = (number + 1, values[inside].min(), values[inside].max(), int(inside.sum()))
                for method in ranks.columns:
                    rows.append((*about, method, *mean_interval(ranks[method].to_numpy(float)[inside])))
        elif len(ranks) and not (binary and trait == "n_classes"):
            notes.append(f"no table of ranks by number of {words}, because all datasets have equally many")
        columns = ["group", "smallest", "largest", "n_datasets", "method", "rank", "low", "high"]
        tables.append(
            StudyTable(
                name,
                pd.DataFrame(rows, columns=columns),
                f"Average rank by test Brier score in groups of datasets by number of {words}.",
                decimals={"rank": 2, "low": 2, "high": 2, "smallest": 0, "largest": 0},
                group="group",
                best={"rank": "min"},
                bold_in_group=True,
            )
        )
    return tables


def _test_notes(tests: list[dict[str, object]]) -> list[str]:
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


def _families(results: pd.DataFrame) -> dict[str, str]:
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


def _infinities(losses: Losses) -> list[str]:
    told = []
    for metric, table in losses.items():
        for method, count in np.isinf(table).sum().items():
            if count:
                change = change_table(table)[method]
                finite = change[np.isfinite(change)]
                rest = f"; over the others the mean change is {finite.mean():.4f}" if len(finite) else ""
                words = METRICS[metric]
                told.append(f"{method} has an infinite {words} in {int(count)} of {len(table)} experiments{rest}")
    return told
