"""The summary of a run in the terminal: what each method gained against `none`, how often, and how fast it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isinf, nan
from textwrap import fill

import pandas as pd

from calibrant.bench.study.draw_tables import curve_table, draw_notes, has_draws, rows_needed
from calibrant.bench.study.results import change_table, loss_table, split_results, with_baseline
from calibrant.bench.study.statistics import rank_methods
from calibrant.calibrators.registry import BASELINE, DEFAULT
from calibrant.text_table import aligned

HEADER = ("method", "log loss", "Brier", "median log loss", "rank", "better on", "fit ms", "unfinished")

WIDTH = 79
"""Width of all text in characters, that of a usual terminal."""
LEGEND = (
    "Changes of test log loss and Brier score against no calibration (none), in thousandths; lower is better. rank: by "
    "log loss among the methods, mean over datasets. better on: share of experiments with less log loss. fit ms: "
    "median time of a fit."
)
DRAW_LEGEND = (
    "Calibration rows are drawn, and methods are tested on the others. n=...: mean change of log loss with this many "
    "rows against no calibration (none), in thousandths; lower is better. rank: by log loss, mean over datasets and "
    "numbers of rows. needs: rows from which a method is better than none in 95 of 100 draws of experiments where "
    "some method gains 1 %. fit ms: median time of a fit."
)
HARM_LEGEND = (
    "Labels are drawn from the predictions, which makes these calibrated: any change is harm. n=...: mean increase of "
    "the expected log loss with this many calibration rows, in thousandths. rank: by it, mean over datasets and "
    "numbers of rows."
)


def describe(results: pd.DataFrame | Sequence[Mapping[str, object]]) -> str:
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
        if has_draws(rows):
            legend = HARM_LEGEND if (rows["labels"] == "drawn").all() else DRAW_LEGEND
            table, notes = _draws(rows), draw_notes(rows)
        else:
            summary, notes = summarise(rows)
            legend, table = LEGEND, render(summary)
        text += f"\n{_wrapped(legend)}" if legend not in told else ""
        told.add(legend)
        text += f"\n{_wrapped(f'{where}: {listed}')}\n{table}\n"
        text += "".join(_wrapped(f"Note: {note}.") for note in notes)
    return text or "No method finished any experiment.\n"


def findings(results: pd.DataFrame | Sequence[Mapping[str, object]]) -> str:
    """What a run with drawn calibration rows found, in sentences: the default method, or the best one, and the harm."""
    results, _ = with_baseline(pd.DataFrame(results))
    parts = (rows for _, rows in split_results(results))
    told = [_found(rows) for rows in parts if has_draws(rows) and not (rows["labels"] == "drawn").all()]
    return "\n".join(map(_wrapped, told))


def failed_everywhere(results: Sequence[Mapping[str, object]], methods: Sequence[str]) -> str:
    """A sentence on those of the methods that finished none of their fits; empty if there are none."""
    lost = []
    for method in methods:
        own = [row for row in results if row["method"] == method]
        if own and all(row["status"] != "ok" for row in own):
            lost.append(f"{method} finished none of its {len(own)} fits ({own[0]['message']})")
    return f"FAILED: {'; '.join(lost)}; the column `message` of the results has every reason" if lost else ""


def _found(rows: pd.DataFrame) -> str:
    curves = _curves(rows)
    change = curves["change"].unstack().drop(BASELINE)
    method = DEFAULT if DEFAULT in change.index else curves["rank"].unstack().mean(axis=1)[change.index].idxmin()
    sizes = sorted(change.columns)
    few, many = sizes[0], sizes[-1]
    classes = "two classes" if (rows["n_classes"] == 2).all() else "three and more classes"
    ends = f" and by {-change[many][method]:.3f} with {many} rows" if len(sizes) > 1 else ""
    text = f"With {classes} {method} lowers the mean log loss by {-change[few][method]:.3f} with {few} rows{ends}."
    ahead = {size: _best(change[size]) for size in sizes if method not in _best(change[size])}
    first = _listed([str(size) for size in sizes if size not in ahead])
    others = "; ".join(f"{_listed(names)} {'do' if len(names) > 1 else 'does'} with {n}" for n, names in ahead.items())
    if not ahead:
        text += " No other method lowers it more with any number of rows."
    elif first:
        text += f" No other method lowers it more with {first} rows; {others}."
    else:
        text += f" Others lower it more: {others}."
    harmful = int((change[few] > 0).sum())
    if harmful:
        text += f" With {few} rows {harmful} of {len(change)} methods {'make' if harmful > 1 else 'makes'} it worse."
    return text


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _wrapped(text: str) -> str:
    return fill(text, WIDTH) + "\n"


def _curves(results: pd.DataFrame) -> pd.DataFrame:
    """The curves of log loss by method and number of rows."""
    methods = sorted(set(results["method"]))
    curves = curve_table(results, methods, methods)
    return curves[curves["metric"] == "logloss"].set_index(["method", "draw"]).sort_index()


def _draws(results: pd.DataFrame) -> str:
    """Changes by log loss with each number of rows and mean ranks, the best first."""
    curves = _curves(results)
    sizes = sorted(set(curves.index.get_level_values("draw")))
    harm = (results["labels"] == "drawn").all()
    seconds = results[results["status"] == "ok"].groupby("method")["fit_seconds"].median()
    ranks = curves["rank"].unstack().mean(axis=1).sort_values(kind="stable")
    lines = [["method", *(f"n={size}" for size in sizes), "rank", *([] if harm else ["needs"]), "fit ms"]]
    for method in ranks.index:
        own = curves.loc[method]
        if method == BASELINE:
            change, needs = ["0"] * len(sizes), ""
        else:
            change = [_shown(1000 * own["change"].get(size, nan), "+.1f") for size in sizes]
            needs = _needs(rows_needed(own["better"].to_dict()), sizes)
        milliseconds = _shown(1000 * seconds.get(method, nan), ".1f")
        lines.append([method, *change, _shown(ranks[method], ".1f"), *([] if harm else [needs]), milliseconds])
    return aligned(lines, gap=2)


def _needs(rows: float, sizes: list[int]) -> str:
    """A number of rows to two digits, within what was drawn."""
    if isinf(rows):
        return f"> {sizes[-1]}"
    return f"≤ {sizes[0]}" if rows <= sizes[0] else f"{float(f'{rows:.2g}'):.0f}"


def _best(change: pd.Series) -> list[str]:
    """The methods of the lowest loss; differences too small to show in the table count as equal."""
    shown = (1000 * change).round(1)
    return list(change[shown == shown.min()].sort_values(kind="stable").index)


def summarise(results: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """One row per method, best average rank first, and notes on the ranks.

    `logloss` and `brier` are mean changes against `none`, `better` the share of experiments with a lower log loss, and
    `fit_seconds` is a median.
    """
    methods = sorted(set(results["method"]))
    losses = {name: loss_table(results, name, methods) for name in ("logloss", "brier")}
    change = {name: change_table(table) for name, table in losses.items()}
    ranking = rank_methods(losses["logloss"])
    moved, finished = change["logloss"], results["status"] == "ok"
    table = pd.DataFrame(
        {
            "logloss": moved.mean(),
            "brier": change["brier"].mean(),
            "median_logloss": moved.median(),
            "rank": ranking.mean_ranks,
            "better": (moved < 0).sum() / moved.notna().sum(),
            "fit_seconds": results[finished].groupby("method")["fit_seconds"].median(),
            "unfinished": (~finished).groupby(results["method"]).sum(),
        },
        index=pd.Index(methods, name="method"),
    )
    return table.reset_index().sort_values(["rank", "logloss"], ignore_index=True), ranking.notes


def render(summary: pd.DataFrame) -> str:
    """Text of a summary, aligned for a terminal."""
    lines = [list(HEADER)]
    for row in summary.to_dict("records"):
        if row["method"] == BASELINE:
            changes, better = ["0", "0", "0"], ""
        else:
            changes = [_shown(1000 * row[name], "+.1f") for name in ("logloss", "brier", "median_logloss")]
            better = _shown(row["better"], ".0%")
        rank, time = _shown(row["rank"], ".1f"), _shown(1000 * row["fit_seconds"], ".1f")
        lines.append([row["method"], *changes, rank, better, time, str(row["unfinished"] or "")])
    return aligned(lines if summary["unfinished"].any() else [line[:-1] for line in lines], gap=3)


def _shown(value: float, style: str) -> str:
    return "" if value != value else format(value, style)
