"""A table of a run to read in the terminal: what each method gained against `none`, how steadily, at what cost."""

from __future__ import annotations

from math import isinf, nan
from typing import Any

import pandas as pd

from calibrant.bench.study.draws import curve_table, draw_notes, has_draws, rows_needed
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
DRAW_LEGEND = (
    "Calibration rows are drawn, and methods are tested on the others. n=...: mean change of log loss with so many\n"
    "rows against no calibration (none), in thousandths; lower is better. rank ...: by log loss, mean over datasets.\n"
    "needs: rows from which a method is better than nothing in 95 of 100 draws, where there is 1 % to gain at all.\n"
    "fit ms: median time of a fit.\n"
)
HARM_LEGEND = (
    "Labels are drawn from the predictions, which are calibrated then: any change is harm. n=...: mean increase of\n"
    "the expected log loss with so many calibration rows, in thousandths. rank ...: by it, mean over datasets.\n"
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
    text, told = "", set()
    for _, rows in split_results(results):
        names = sorted(set(rows["dataset"]))
        listed = ", ".join(names) if len(names) <= 12 else f"{len(names)} datasets"
        title = "Two classes" if (rows["n_classes"] == 2).all() else "Three and more classes"
        where = f"{rows['benchmark'].iloc[0]}, {title.lower()}" if several else title
        legend, table, notes = _described(rows)
        text += f"\n{legend}" if legend not in told else ""
        told.add(legend)
        text += f"\n{where}: {listed}\n\n{table}\n" + "".join(f"Note: {note}.\n" for note in notes)
    return text or "No method finished any experiment.\n"


def _described(rows: pd.DataFrame) -> tuple[str, str, tuple[str, ...]]:
    """Legend, table and notes of results of one kind."""
    if has_draws(rows):
        return (HARM_LEGEND if (rows["labels"] == "drawn").all() else DRAW_LEGEND), _draws(rows), draw_notes(rows)
    table, notes = summarise(rows)
    return LEGEND, render(table), notes


def _draws(results: pd.DataFrame) -> str:
    """Changes and ranks by log loss with each number of rows, the best mean rank first."""
    methods = sorted(set(results["method"]))
    curves = curve_table(results, methods, methods)
    curves = curves[curves["metric"] == "logloss"].set_index(["method", "draw"]).sort_index()
    sizes = sorted(set(curves.index.get_level_values("draw")))
    harm = (results["labels"] == "drawn").all()
    seconds = results[results["status"] == "ok"].groupby("method")["fit_seconds"].median()
    ranks = curves["rank"].unstack().mean(axis=1).sort_values(kind="stable")
    head = ["method", *(f"n={size}" for size in sizes), *(f"rank {size}" for size in sizes)]
    lines = [[*head, *([] if harm else ["needs"]), "fit ms"]]
    for method in ranks.index:
        own = curves.loc[method]
        change = [_shown(1000 * own["change"].get(size, nan), "+.1f") for size in sizes]
        rank = [_shown(own["rank"].get(size, nan), ".1f") for size in sizes]
        needs = rows_needed(own["better"].to_dict())
        most = (
            f"> {sizes[-1]}"
            if isinf(needs)
            else f"≤ {sizes[0]}"
            if needs <= sizes[0]
            else f"{float(f'{needs:.2g}'):.0f}"
        )
        last = [] if harm else ["" if method == BASELINE else most]
        change = ["0"] * len(sizes) if method == BASELINE else change
        lines.append([method, *change, *rank, *last, _shown(1000 * seconds.get(method, nan), ".1f")])
    best = "; ".join(f"{size} rows, {_best(curves['change'].xs(size, level='draw'))}" for size in sizes)
    return aligned(lines, gap=2) + ("" if harm else f"\nLowest mean log loss: {best}.")


def _best(change: pd.Series) -> str:
    """The methods of the lowest loss; those that differ by less than the table shows share the place.

    Examples
    --------
    >>> import pandas as pd
    >>> _best(pd.Series({"ts": -0.01, "sms": -0.05004, "auto": -0.05}))
    'sms and auto'
    """
    shown = (1000 * change).round(1)
    return " and ".join(change[shown == shown.min()].sort_values(kind="stable").index)


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
