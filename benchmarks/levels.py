"""Every promise of a level, simulated: writes the table of docs/promises.md, and all cells as docs/promises.csv.

`python benchmarks/levels.py --runs 200` takes hours on two cores; `--only tests` (or intervals, monitoring) and fewer
runs make a part of it, and cells that were not run keep their last figures. Measured shares have a standard error of
`sqrt(q (1 - q) / runs)`: 0.022 for 5 % and 100 runs.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import levels_intervals
import levels_monitoring
import levels_tests

DOCS = Path(__file__).parents[1] / "docs"
CELLS, PAGE = DOCS / "promises.csv", DOCS / "promises.md"
START, END = "<!-- made by benchmarks/levels.py -->", "<!-- end -->"


class Cell(NamedTuple):
    """A promise in one case: what was promised, what was measured, in how many runs."""

    part: str
    promise: str
    case: str
    nominal: float
    measured: float
    runs: int

    @property
    def error(self) -> float:
        """Standard error of the measured share if the promise holds."""
        return float(np.sqrt(self.nominal * (1 - self.nominal) / max(self.runs, 1)))

    @property
    def broken(self) -> bool:
        """Whether the promise fails by more than chance: a level exceeded, a coverage not reached."""
        over = self.measured - self.nominal if self.nominal < 0.5 else self.nominal - self.measured
        return over > 3 * self.error


def simulated(runs: int, only: list[str]) -> Iterator[Cell]:
    parts = {
        "tests": lambda: levels_tests.levels(runs),
        "intervals": lambda: levels_intervals.rows(runs),
        "monitoring": lambda: levels_monitoring.levels(runs, "alarms,drift,performance,priors"),
    }
    for part in only or parts:
        for row in parts[part]():
            yield Cell(part, *row)


def stored() -> dict[tuple[str, str], Cell]:
    if not CELLS.exists():
        return {}
    with CELLS.open(encoding="utf-8") as stream:
        rows = list(csv.reader(stream))[1:]
    cells = [
        Cell(part, promise, case, float(q), float(found), int(runs)) for part, promise, case, q, found, runs in rows
    ]
    return {(cell.promise, cell.case): cell for cell in cells}


def table(cells: Iterable[Cell]) -> str:
    """A row for each promise, and below it the cells in which it fails."""
    by_promise: dict[tuple[str, str, float], list[Cell]] = {}
    for cell in cells:
        by_promise.setdefault((cell.part, cell.promise, cell.nominal), []).append(cell)
    lines = [
        "| promise | nominal | cases | runs of each | lowest | median | highest | broken in |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (_, promise, nominal), found in sorted(by_promise.items()):
        shares = np.array([cell.measured for cell in found])
        low, high = min(cell.runs for cell in found), max(cell.runs for cell in found)
        broken = [f"{cell.case} ({cell.measured:.3g})" for cell in found if cell.broken]
        runs = str(low) if low == high else f"{low} to {high}"
        numbers = " | ".join(f"{value:.3f}" for value in (shares.min(), np.median(shares), shares.max()))
        lines.append(f"| {promise} | {nominal:g} | {len(found)} | {runs} | {numbers} | {'; '.join(broken) or 'none'} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--only", nargs="*", default=[], choices=["tests", "intervals", "monitoring"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    cells = stored()
    for cell in simulated(options.runs, options.only):
        cells[cell.promise, cell.case] = cell
        print(f"{cell.promise:45} {cell.case:50} {cell.nominal:5g} {cell.measured:.4f} {cell.runs}", flush=True)
        with CELLS.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([Cell._fields, *cells.values()])
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(START)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{START}\n\n{table(cells.values())}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
