"""From tidy results to a folder with the whole study: tables, figures, notes and the leaderboard page.

`DIR/tables` and `DIR/figures` cover all results together; when there are several benchmarks, or one with binary and
multiclass experiments, a folder for each holds the same, since methods for two classes and for many are seldom
comparable. Harm, measured with drawn labels, is no part of what is shown together. Nothing is refitted.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from calibrant.bench.runs.store import installed_versions, read_runs
from calibrant.bench.schema import METRICS
from calibrant.bench.study.figures import draw_figures
from calibrant.bench.study.leaderboard import leaderboard_page
from calibrant.bench.study.render import StudyTable
from calibrant.bench.study.results import check_results, observed, read_results, select, split_results, with_baseline
from calibrant.bench.study.study_tables import build_tables
from calibrant.calibrators.registry import BASELINE
from calibrant.files.atomic import write_text


@dataclass(frozen=True)
class StudyReport:
    """A finished report: where it is, its tables by name, and notes for its readers."""

    directory: Path
    page: Path
    tables: dict[str, StudyTable]
    notes: list[str]


def make_report(
    results: str | Path | Iterable[str | Path] | pd.DataFrame,
    out: str | Path,
    *,
    alpha: float = 0.05,
    methods: Sequence[str] | None = None,
    benchmarks: Sequence[str] | None = None,
    unranked: Sequence[str] = (),
    seed: int = 0,
    title: str = "Calibration leaderboard",
    pictures: bool = True,
) -> StudyReport:
    """Write tables, figures and the leaderboard page of benchmark results.

    Parameters
    ----------
    results : path, iterable of paths or pandas.DataFrame
        Tidy results: files (parquet, CSV, CSV.gz), result folders, or a table with the same columns.
    out : path
        Folder to write; files of an earlier report in it are replaced.
    alpha : float
        Level of the tests.
    methods, benchmarks : sequence of str, optional
        Only these (`none` always stays).
    unranked : sequence of str
        Methods left out of ranks, tests, win rates and Elo.
    seed : int
        Seed of the bootstrap.
    title : str
        Heading of the page.
    pictures : bool
        Whether the page holds the figures, too, which are most of its size.

    Returns
    -------
    StudyReport
    """
    runs: list[Mapping[str, object]] = []
    if isinstance(results, str | Path):
        results = [results]
    if hasattr(results, "columns"):
        frame = check_results(results)
    else:
        paths = [Path(path) for path in results]
        frame = read_results(paths)
        runs = [run for path in paths for run in _runs_beside(path)]
    frame = select(frame, methods=methods, benchmarks=benchmarks)
    directory = Path(out)
    parts = split_results(frame)
    together = observed(frame)
    missing = _not_everywhere(frame, parts)
    # A method that was never run on a part (one for two classes, say) would leave no dataset of it to rank on.
    apart = [name for name in missing if name not in unranked]
    elsewhere = set(frame["method"]) - set(together["method"])
    left_out = [name for name in (*unranked, *apart) if name not in elsewhere]
    tables, notes = _write(together, directory, alpha=alpha, unranked=left_out, seed=seed)
    for place in dict.fromkeys(" and ".join(missing[name]) for name in apart):
        names = [name for name in apart if " and ".join(missing[name]) == place]
        notes.append(f"{', '.join(names)}: no results on {place}, so ranked on the others only")
    # Of several parts the page shows each; figures of everything together, in the folder, would add half to its size.
    shown = {"Figures": directory / "figures"} if len(parts) == 1 else {}
    tests = _test_sentences(tables)
    folders = _folder_names([name.replace(", ", "-") for name, _ in parts])
    for folder, (title_of, rows) in zip(folders, parts if len(parts) > 1 else ()):
        here = [method for method in unranked if (rows["method"] == method).any()]
        own, told = _write(rows, directory / folder, alpha=alpha, unranked=here, seed=seed)
        notes += [f"{title_of}: {note}" for note in told if note not in notes]
        tests += [f"{title_of}: {sentence}" for sentence in _test_sentences(own)]
        shown[f"Figures, {title_of}"] = directory / folder / "figures"
    page = directory / "leaderboard.html"
    text = leaderboard_page(
        with_baseline(frame)[0],
        tables["methods"].frame,
        tests=tests,
        notes=notes,
        parts=shown if pictures else {},
        command=shlex.join(sys.argv),
        versions=installed_versions(("matplotlib", "jinja2")),
        runs=runs,
        title=title,
    )
    write_text(page, text)
    write_text(directory / "notes.md", "".join(f"- {note}\n" for note in notes) or "Nothing to note.\n")
    return StudyReport(directory, page, tables, notes)


def _not_everywhere(frame: pd.DataFrame, parts: list[tuple[str, pd.DataFrame]]) -> dict[str, list[str]]:
    """Methods without any row in some part, and the titles of these parts."""
    missing = {
        method: [title for title, rows in parts if not (rows["method"] == method).any()]
        for method in dict.fromkeys(frame["method"])
    }
    return {method: titles for method, titles in missing.items() if titles and method != BASELINE}


def _write(
    frame: pd.DataFrame, directory: Path, *, alpha: float, unranked: Sequence[str], seed: int
) -> tuple[dict[str, StudyTable], list[str]]:
    tables, notes = build_tables(frame, alpha=alpha, unranked=unranked, seed=seed)
    for table in tables.values():
        table.save(directory / "tables")
    draw_figures({name: table.frame for name, table in tables.items()}, directory / "figures")
    return tables, notes


def _test_sentences(tables: Mapping[str, StudyTable]) -> list[str]:
    """What the tests found, one sentence for each metric."""
    sentences = []
    for metric, words in METRICS.items():
        ranks = tables[f"ranks_{metric}"]
        if not ranks.notes:
            sentences.append(f"By {words}: too few datasets or methods for a test.")
            continue
        best = ranks.frame["method"].iloc[0]
        alpha = float(tables["friedman"].frame["alpha"].iloc[0])
        found = []
        for name, test in (("nemenyi", "Nemenyi's test"), ("wilcoxon", "Wilcoxon-Holm")):
            matrix = tables[f"{name}_{metric}"].frame.set_index("method")
            others = [other for other in matrix.columns if other != best]
            tied = [other for other in others if matrix.loc[best, other] >= alpha]
            rivals = f" (not from {', '.join(tied)})" if 0 < len(tied) <= 6 else ""
            found.append(f"{test} from {len(others) - len(tied)} of {len(others)} others{rivals}")
        sentences.append(f"By {words}: {ranks.notes[0]} Best is {best}, told apart by {' and by '.join(found)}.")
    return sentences


def _runs_beside(path: Path) -> list[dict[str, object]]:
    """Commands and versions that a result folder keeps."""
    return [
        {
            "command": shlex.join(map(str, run.get("command", []))),
            "when": str(run.get("started", "")),
            "versions": run.get("versions", {}),
        }
        for run in read_runs(path if path.is_dir() else path.parent)
    ]


def _folder_names(names: Sequence[str]) -> list[str]:
    """Folder names for benchmarks, safe on every file system and all different."""
    made: list[str] = []
    for name in names:
        safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._") or "benchmark"
        while safe in {*made, "tables", "figures"}:
            safe += "_"
        made.append(safe)
    return made
