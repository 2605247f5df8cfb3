"""A table of a run to read in the terminal: what each method gained against `none`, how steadily, at what cost."""

from __future__ import annotations

from typing import Any

import pandas as pd

from calibrant.bench.study.ranking import rank_methods
from calibrant.bench.study.results import change_table, loss_table, split_results, with_baseline
from calibrant.calibrators.registry import BASELINE
from calibrant.text_table import aligned

HEADER = ("method", "log loss", "Brier", "median log loss", "rank", "better on", "fit ms", "unfinished")

LEGEND = (
    "Changes of test log loss and Brier score against no calibration (none), in thousandths; lower is better.\n"
    "rank: by log loss among the methods, mean over datasets. better on: share of experiments with less log loss.\n"
    "fit ms: median time of a fit.\n"
)


def describe(results: pd.DataFrame | list[dict[str, Any]]) -> str:
    """Tables of a run below their legend, one for two classes and one for more, and one set for each benchmark.

    Examples
    --------
    >>> row = {"benchmark": "b", "dataset": "d", "model": "m", "fold": 0, "method": "none", "n_classes": 2}
    >>> print(describe([{**row, "status": "ok", "logloss": 0.5, "brier": 0.3, "fit_seconds": 0.001}]))
    <BLANKLINE>
    Changes of test log loss ...
    <BLANKLINE>
    Two classes: d
    <BLANKLINE>
    method   log loss   Brier   median log loss   rank   better on   fit ms
    none            0       0                 0    1.0                  1.0
    <BLANKLINE>
    """
    results, _ = with_baseline(pd.DataFrame(results))
    several = results["benchmark"].nunique() > 1
    text = ""
    for _, rows in split_results(results):
        names = sorted(set(rows["dataset"]))
        listed = ", ".join(names) if len(names) <= 12 else f"{len(names)} datasets"
        title = "Two classes" if (rows["n_classes"] == 2).all() else "Three and more classes"
        where = f"{rows['benchmark'].iloc[0]}, {title.lower()}" if several else title
        table, notes = summarise(rows)
        text += f"\n{where}: {listed}\n\n{render(table)}\n" + "".join(f"Note: {note}.\n" for note in notes)
    return f"\n{LEGEND}{text}" if text else "No method finished any experiment.\n"


def summarise(results: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """One row per method, best average rank first, and notes on the ranks.

    Parameters
    ----------
    results : pandas.DataFrame
        Tidy results of experiments whose `none` finished.

    Returns
    -------
    table : pandas.DataFrame
        Columns `method`, `logloss` and `brier` (mean change against `none`), `median_logloss`, `rank` (by log loss, see
        `calibrant.bench.study.ranking`), `better` (share of experiments with a lower log loss), `fit_seconds` (median)
        and `unfinished`.
    notes : tuple of str
        Methods and datasets that the ranks leave out.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [("b", "d", "m", 0, method, "ok", loss, loss, 0.1) for method, loss in (("none", 0.5), ("ts", 0.4))]
    >>> columns = ["benchmark", "dataset", "model", "fold", "method", "status", "logloss", "brier", "fit_seconds"]
    >>> summarise(pd.DataFrame(rows, columns=columns))[0][["method", "logloss", "rank"]].round(3).values.tolist()
    [['ts', -0.1, 1.0], ['none', 0.0, 2.0]]
    """
    methods = sorted(set(results["method"]))
    losses = {name: loss_table(results, name, methods) for name in ("logloss", "brier")}
    change = {name: change_table(table) for name, table in losses.items()}
    ranking = rank_methods(losses["logloss"])
    ranks = ranking.mean_ranks
    rows = []
    for method in methods:
        moved = change["logloss"][method].dropna()
        own = results[results["method"] == method]
        finished = own["status"] == "ok"
        rows.append(
            {
                "method": method,
                "logloss": moved.mean(),
                "brier": change["brier"][method].mean(),
                "median_logloss": moved.median(),
                "rank": ranks.get(method, float("nan")),
                "better": float((moved < 0).mean()),
                "fit_seconds": own.loc[finished, "fit_seconds"].median(),
                "unfinished": int((~finished).sum()),
            }
        )
    return pd.DataFrame(rows).sort_values(["rank", "logloss"], ignore_index=True), ranking.notes


def render(summary: pd.DataFrame) -> str:
    """Text of a summary, aligned for a terminal.

    Examples
    --------
    >>> import pandas as pd
    >>> numbers = {"logloss": -0.0123, "brier": -0.004, "median_logloss": -0.01, "rank": 1.5, "better": 0.8}
    >>> print(render(pd.DataFrame([{"method": "ts", **numbers, "fit_seconds": 0.002, "unfinished": 0}])))
    method   log loss   Brier   median log loss   rank   better on   fit ms
    ts          -12.3    -4.0             -10.0    1.5         80%      2.0
    """
    rows = [list(HEADER), *(_cells(row) for _, row in summary.iterrows())]
    return aligned(rows if summary["unfinished"].any() else [row[:-1] for row in rows], gap=3)


def _cells(row: Any) -> list[str]:
    if row["method"] == BASELINE:
        changes, better = ["0", "0", "0"], ""
    else:
        changes = [_shown(1000 * row[name], "+.1f") for name in ("logloss", "brier", "median_logloss")]
        better = _shown(row["better"], ".0%")
    times = _shown(1000 * row["fit_seconds"], ".1f")
    return [row["method"], *changes, _shown(row["rank"], ".1f"), better, times, str(row["unfinished"] or "")]


def _shown(value: float, style: str) -> str:
    return "" if value != value else format(value, style)
