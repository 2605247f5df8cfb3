"""A table of a run to read in the terminal: what each method gained against `none`, how steadily, at what cost.

Changes are averaged over experiments; ranks are taken among the datasets, after averaging each over its models
and folds, because experiments on the same data are not independent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant.bench.study.results import BASELINE, EXPERIMENT
from calibrant.optional import require

if TYPE_CHECKING:
    import pandas as pd

HEADER = ("method", "log loss", "Brier", "median log loss", "rank", "better on", "fit ms", "unfinished")


LEGEND = (
    "Changes of test log loss and Brier score against no calibration (none), in thousandths: less is better.\n"
    "rank: by log loss among the methods, mean over datasets. better on: share of experiments with less log loss.\n"
    "fit ms: median time of a fit.\n"
)


def describe(results: pd.DataFrame | list[dict[str, Any]]) -> str:
    """Tables of a run, one for many classes and one for two, below their legend.

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
    results = require("pandas", extra="bench").DataFrame(results)
    several = results["n_classes"] > 2
    text = ""
    for title, rows in (("Three and more classes", results[several]), ("Two classes", results[~several])):
        if (rows["status"] == "ok").any() and len(rows):
            names = sorted(set(rows["dataset"]))
            listed = ", ".join(names) if len(names) <= 12 else f"{len(names)} datasets"
            text += f"\n{title}: {listed}\n\n{render(summarise(rows))}\n"
    return f"\n{LEGEND}{text}" if text else "no method finished anywhere\n"


def summarise(results: pd.DataFrame) -> pd.DataFrame:
    """One row a method, best average rank first.

    Parameters
    ----------
    results : pandas.DataFrame
        Tidy results.

    Returns
    -------
    pandas.DataFrame
        Columns `method`, `logloss` and `brier` (mean change against `none`), `median_logloss`, `rank` (mean over
        datasets by log loss, 1 is best), `better` (share of experiments with a lower log loss), `fit_seconds`
        (median) and `unfinished`. Ranks use the methods that finished everywhere.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [("b", "d", "m", 0, method, "ok", loss, loss, 0.1) for method, loss in (("none", 0.5), ("ts", 0.4))]
    >>> columns = ["benchmark", "dataset", "model", "fold", "method", "status", "logloss", "brier", "fit_seconds"]
    >>> summarise(pd.DataFrame(rows, columns=columns))[["method", "logloss", "rank"]].round(3).values.tolist()
    [['ts', -0.1, 1.0], ['none', 0.0, 2.0]]
    """
    pandas = require("pandas", extra="bench")
    finished = results[results["status"] == "ok"].set_index([*EXPERIMENT, "method"])
    losses = {name: finished[name].unstack("method") for name in ("logloss", "brier")}
    change = {name: table.sub(table[BASELINE], axis=0) for name, table in losses.items()}
    datasets = change["logloss"].groupby(level=["benchmark", "dataset"]).mean()
    complete = [m for m in datasets.columns if change["logloss"][m].notna().all()]
    ranks = datasets[complete].rank(axis=1).mean()
    counts = results.groupby("method")["status"].agg(lambda status: int((status != "ok").sum()))
    rows = []
    for method in change["logloss"].columns:
        moved = change["logloss"][method].dropna()
        rows.append(
            {
                "method": method,
                "logloss": moved.mean(),
                "brier": change["brier"][method].mean(),
                "median_logloss": moved.median(),
                "rank": ranks.get(method, float("nan")),
                "better": float((moved < 0).mean()),
                "fit_seconds": finished["fit_seconds"].xs(method, level="method").median(),
                "unfinished": counts[method],
            }
        )
    return pandas.DataFrame(rows).sort_values(["rank", "logloss"], ignore_index=True)


def render(summary: pd.DataFrame) -> str:
    """The table as text, changes in thousandths.

    Examples
    --------
    >>> import pandas as pd
    >>> numbers = {"logloss": -0.0123, "brier": -0.004, "median_logloss": -0.01, "rank": 1.5, "better": 0.8}
    >>> print(render(pd.DataFrame([{"method": "ts", **numbers, "fit_seconds": 0.002, "unfinished": 0}])))
    method   log loss    Brier   median log loss   rank   better on   fit ms
    ts          -12.3     -4.0             -10.0    1.5         80%      2.0
    """
    body = [_cells(row) for _, row in summary.iterrows()]
    header = list(HEADER)
    if not summary["unfinished"].any():
        header, body = header[:-1], [cells[:-1] for cells in body]
    widths = [max(len(cells[i]) for cells in [header, *body]) for i in range(len(header))]
    lines = []
    for cells in [header, *body]:
        padded = [cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:]))]
        lines.append("   ".join(padded).rstrip())
    return "\n".join(lines)


def _cells(row: Any) -> list[str]:
    if row["method"] == BASELINE:
        changes, better = ["0", "0", "0"], ""
    else:
        changes = [f"{1000 * row[name]:+.1f}" for name in ("logloss", "brier", "median_logloss")]
        better = f"{row['better']:.0%}"
    rank = "" if row["rank"] != row["rank"] else f"{row['rank']:.1f}"
    return [row["method"], *changes, rank, better, f"{1000 * row['fit_seconds']:.1f}", str(row["unfinished"] or "")]
