"""One ranking: brute force, the summary of a run, the tables and the page's script all say the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.needs import needs, needs_program

pytestmark = pytest.mark.bench
pd = needs("pandas")

from calibrant.bench.schema import METRICS  # noqa: E402
from calibrant.bench.study import leaderboard  # noqa: E402
from calibrant.bench.study.results import check_results, loss_table, select, with_baseline  # noqa: E402
from calibrant.bench.study.run_summary import describe, summarise  # noqa: E402
from calibrant.bench.study.statistics import rank_methods  # noqa: E402
from calibrant.bench.study.study_tables import build_tables  # noqa: E402
from tests.bench.conftest import synthetic_results  # noqa: E402

METHODS = ("ts", "svs", "sms", "isotonic", "ms")


def spoiled(seed: int) -> pd.DataFrame:
    """Results with ties, copies that differ in their last digits, gaps, infinite losses and a hopeless method."""
    rng = np.random.default_rng(seed)
    results = synthetic_results(n_datasets=7, methods=METHODS, seed=seed)
    losses = list(METRICS)
    of = {name: results["method"] == name for name in METHODS}
    same = results["dataset"].isin(rng.choice([f"d{i}" for i in range(7)], 3)).to_numpy()
    twin = results.loc[of["ts"], losses].to_numpy() * (1 + 1e-13)
    results.loc[of["svs"] & same, losses] = twin[same[of["ts"].to_numpy()]]
    # The same losses on other models: the mean over the dataset is a tie, too.
    results.loc[of["isotonic"], losses] = results.loc[of["sms"], losses].to_numpy()[::-1]
    lost = (of["ts"] & (results["dataset"] == "d2") & (results["fold"] == 0)) | (of["ms"] & (results["fold"] == 1))
    results.loc[lost, [*losses, "status"]] = [np.nan, np.nan, "timeout"]
    results.loc[of["sms"] & (results["dataset"] == "d4"), "logloss"] = np.inf
    return check_results(results)


def by_hand(results: pd.DataFrame, metric: str) -> dict[str, float]:
    """Mean ranks in plain loops."""
    cells: dict[tuple[str, str], list[float]] = {}
    for row in results.itertuples():
        loss = getattr(row, metric) if row.status == "ok" else float("nan")
        cells.setdefault((row.dataset, row.method), []).append(loss)
    datasets, methods = sorted({d for d, _ in cells}), sorted({m for _, m in cells})

    def finished(dataset: str, method: str) -> bool:
        return not np.isnan(cells[dataset, method]).any()

    ranked = [m for m in methods if any(finished(d, m) for d in datasets)]
    ranks: dict[str, list[float]] = {m: [] for m in ranked}
    for d in (d for d in datasets if all(finished(d, m) for m in ranked)):
        means = {m: float(f"{np.mean(cells[d, m]):.8g}") for m in ranked}
        for m in ranked:
            below = sum(value < means[m] for value in means.values())
            equal = sum(value == means[m] for value in means.values())
            ranks[m].append(below + (equal + 1) / 2)
    return {m: float(np.mean(ranks[m])) for m in ranked}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_summary_tables_and_brute_force_agree(seed: int) -> None:
    results = spoiled(seed)
    tables, notes = build_tables(results)
    for metric in METRICS:
        expected = by_hand(results, metric)
        assert "ms" not in expected
        assert rank_methods(loss_table(results, metric)).mean_ranks.to_dict() == pytest.approx(expected)
        frame = tables[f"ranks_{metric}"].frame
        assert dict(zip(frame["method"], frame["rank"])) == pytest.approx(expected)
    summary, told = summarise(results)
    shown = summary.dropna(subset=["rank"])
    assert dict(zip(shown["method"], shown["rank"])) == pytest.approx(by_hand(results, "logloss"))
    assert set(told) <= set(notes)
    assert any("ms finished no dataset" in note for note in told)
    assert "ranks use 6 of 7 datasets" in describe(results)


def page_rows(results: pd.DataFrame, filters: dict[str, str], methods: list[str]) -> dict[str, list[str]]:
    frame = with_baseline(results)[0]
    table = build_tables(results)[0]["methods"].frame
    names = table["method"].tolist()
    script = (Path(leaderboard.__file__).parent / "templates" / "leaderboard.js").read_text()
    order = {
        "script": script,
        "data": json.loads(leaderboard.script_json(leaderboard.page_data(frame, table))),
        "filters": filters,
        "methods": [names.index(method) for method in methods],
    }
    program = Path(__file__).parents[1] / "page_numbers.js"
    command = [needs_program("node"), str(program)]
    done = subprocess.run(command, input=json.dumps(order), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {row[0]: row[1:] for row in json.loads(done.stdout)["rows"]}


@pytest.mark.program
@pytest.mark.parametrize("seed", range(2))
def test_the_page_ranks_like_the_tables(seed: int) -> None:
    results = spoiled(seed)
    everything = ["none", *METHODS]
    cases = [
        ({}, everything, results),
        ({"model": "0"}, everything, results[results["model"] == "m1"]),
        ({"classes-from": "4", "classes-to": "5"}, everything, results[results["n_classes"].between(4, 5)]),
        ({}, ["none", "svs", "isotonic"], select(results, methods=["svs", "isotonic"])),
    ]
    for filters, methods, part in cases:
        shown = page_rows(results, filters, methods)
        tables = {name: table.frame for name, table in build_tables(check_results(part))[0].items()}
        assert set(shown) == set(methods)
        for place, metric in enumerate(METRICS):
            ranks = tables[f"ranks_{metric}"].set_index("method")["rank"].to_dict()
            expected = {name: f"{ranks[name]:.2f}" if name in ranks else "–" for name in methods}
            assert {name: cells[1 + place] for name, cells in shown.items()} == expected
            changes = tables["absolute"].set_index("method")[metric]
            wins = tables["winrates"].set_index(["metric", "method"])["winrate"]
            for name, cells in shown.items():
                assert float(cells[7 + place].rstrip(" %")) == pytest.approx(100 * wins[metric, name], abs=0.0501)
                if name != "none" and np.isfinite(changes[name]):
                    assert float(cells[3 + place]) == pytest.approx(changes[name], abs=5.01e-5)
