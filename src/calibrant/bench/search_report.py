"""The files of a search: JSON with everything, tables of trials, groups and comparison, and a figure.

The control group decides whether a tuned configuration is better than the defaults: its datasets took no part in
the search. The test is paired, Wilcoxon's signed-rank test on the datasets' mean Brier improvements.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from calibrant.bench.runs.store import installed_versions
from calibrant.bench.study.render import StudyTable
from calibrant.bench.study.statistics import signed_rank_p
from calibrant.files.atomic import write_text
from calibrant.files.json_values import plain
from calibrant.optional import require
from calibrant.plots.benchmark import save, search_figure

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Comparison:
    """Mean Brier improvement of defaults and best configuration on the control datasets, and their paired test.

    `difference` is best minus defaults with its 95 % bootstrap interval over datasets: above zero, tuning helped.
    """

    datasets: list[str]
    default: list[float]
    best: list[float]
    difference: float
    low: float
    high: float
    p_value: float
    n_better: int
    n_worse: int

    def sentence(self) -> str:
        n = len(self.datasets)
        if n < 2:
            return f"{n} control dataset: too few for a paired test."
        if self.n_better == self.n_worse == 0:
            return f"The best configuration and the defaults do the same on all {n} control datasets."
        verdict = "no significant difference" if self.p_value >= 0.05 else ("better", "worse")[self.difference < 0]
        return (
            f"On {n} control datasets the best configuration improves the Brier score by {self.difference:+.5f} over "
            f"the defaults (95 % interval {self.low:+.5f} to {self.high:+.5f}), better on {self.n_better} and worse on "
            f"{self.n_worse}; Wilcoxon p = {self.p_value:.3g}: {verdict}."
        )


@dataclass(frozen=True)
class SearchResult:
    calibrator: str
    penalty: str
    seed: int
    predictions: str
    defaults: dict[str, float]
    best: dict[str, float]
    trials: list[dict[str, object]]
    ts_improvement: dict[str, float]
    searched: list[str]
    control: list[str]
    n_search_experiments: int
    n_control_experiments: int
    comparison: Comparison


def compare_on_control(
    default: Mapping[Key, float], best: Mapping[Key, float], datasets: Sequence[str], *, n_bootstrap: int = 4000
) -> Comparison:
    """Paired comparison of two configurations by the mean over each dataset's experiments that both finished."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for key in default.keys() & best.keys():
        pairs.setdefault(key[0], []).append((default[key], best[key]))
    names = [name for name in datasets if name in pairs]
    means = np.array([np.mean(sorted(pairs[name]), axis=0) for name in names]).reshape(-1, 2)
    gap = means[:, 1] - means[:, 0]
    low = high = p_value = float("nan")
    if len(gap) > 1:
        draws = np.random.default_rng(0).integers(len(gap), size=(n_bootstrap, len(gap)))
        low, high = (float(q) for q in np.quantile(gap[draws].mean(axis=1), [0.025, 0.975]))
        p_value = signed_rank_p(means[:, 1], means[:, 0])
    return Comparison(
        datasets=names,
        default=means[:, 0].tolist(),
        best=means[:, 1].tolist(),
        difference=float(gap.mean()) if len(gap) else float("nan"),
        low=low,
        high=high,
        p_value=p_value,
        n_better=int((gap > 0).sum()),
        n_worse=int((gap < 0).sum()),
    )


def write_search(result: SearchResult, directory: Path) -> None:
    """Write `search.json`, `tables` and `figures`."""
    tables = search_tables(result)
    for table in tables.values():
        table.save(directory / "tables")
    figure = search_figure(tables["search_trials"].frame, tables["search_control"].frame)
    save(figure, directory / "figures", "search")
    about = {"command": shlex.join(sys.argv), "versions": installed_versions(("optuna",))}
    content = {**plain(asdict(result)), "conclusion": result.comparison.sentence(), **about}
    write_text(directory / "search.json", json.dumps(content, indent=1, allow_nan=False) + "\n")


def redraw_search(directory: str | Path) -> list[Path]:
    """Draw the figure of a search again from the CSV files in `directory/tables`."""
    pd = require("pandas", extra="bench")
    folder = Path(directory)
    trials, control = (pd.read_csv(folder / "tables" / f"search_{name}.csv") for name in ("trials", "control"))
    return save(search_figure(trials, control), folder / "figures", "search")


def search_tables(result: SearchResult) -> dict[str, StudyTable]:
    """Trials, configurations, groups and control datasets as tables."""
    pd = require("pandas", extra="bench")
    trials = pd.DataFrame(result.trials, columns=["trial", "state", *result.defaults, "brier_improvement"])
    done, comparison = trials[trials["state"] == "complete"], result.comparison
    rows = []
    for name, parameters, control in (
        ("defaults", result.defaults, comparison.default),
        ("best", result.best, comparison.best),
    ):
        same = (done[list(parameters)] == list(parameters.values())).all(axis=1)
        means = {"search_group": done.loc[same, "brier_improvement"].max(), "control_group": pd.Series(control).mean()}
        rows.append({"configuration": name, **parameters, **means})
    groups = pd.DataFrame({"dataset": list(result.ts_improvement), "ts_improvement": result.ts_improvement.values()})
    groups["group"] = ["search" if name in set(result.searched) else "control" for name in groups["dataset"]]
    groups = groups.sort_values(["ts_improvement", "dataset"], ascending=[False, True], ignore_index=True)
    groups.insert(0, "rank", range(1, len(groups) + 1))
    numbers = {"default": np.array(comparison.default, float), "best": np.array(comparison.best, float)}
    control = pd.DataFrame({"dataset": pd.Series(comparison.datasets, dtype=object), **numbers})
    what = f"{result.calibrator} with {result.penalty} penalty"
    made = [
        StudyTable("search_trials", trials, f"Mean Brier improvement on the search group, {what}.",
              best={"brier_improvement": "max"}, decimals={"brier_improvement": 6}),
        StudyTable("search_best", pd.DataFrame(rows),
              f"Mean Brier improvement of defaults and best configuration, {what}.",
              best={"search_group": "max", "control_group": "max"}, notes=(comparison.sentence(),),
              decimals={"search_group": 6, "control_group": 6}),
        StudyTable("search_groups", groups, "Datasets by the test Brier improvement of temperature scaling."),
        StudyTable("search_control", control, f"Mean Brier improvement on the control datasets, {what}."),
    ]  # fmt: skip
    return {table.name: table for table in made}
