"""Every promise of a level, simulated: writes the table of docs/promises.md, and all cells as docs/promises.csv.

`python benchmarks/levels.py --runs 200` takes hours on two cores. `--only tests` (or intervals, decisions, grades ...),
`--promise TEXT` and `--case TEXT` make a part of it, `--doubtful` the cells that chance alone explains badly, with
`--first 10000` on data that were not seen before; cells that were not run keep their last figures. What was found by
looking at many cells is judged on new data only, and by a limit that allows for the number of cells.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

import levels_decisions
import levels_grades
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
    def chance(self) -> float:
        """Probability of so many failures if the promise is just kept: the exact binomial tail."""
        level = min(self.nominal, 1 - self.nominal)
        share = self.measured if self.nominal < 0.5 else 1 - self.measured
        failures = round(share * self.runs) if self.runs else 0
        return float(binom.sf(failures - 1, self.runs, level))


#: Failures less probable than this are worth a second look, on other data.
DOUBTFUL = 0.01
#: Probability that one or more of all cells are called broken where every promise is kept.
FALSE_ALARMS = 0.05
PARTS = {
    "tests": levels_tests.levels,
    "intervals": levels_intervals.rows,
    "decisions": levels_decisions.rows,
    "grades": levels_grades.levels,
    "monitoring": levels_monitoring.levels,
}


def stored() -> dict[tuple[str, str], Cell]:
    if not CELLS.exists():
        return {}
    with CELLS.open(encoding="utf-8") as stream:
        rows = list(csv.reader(stream))[1:]
    cells = [
        Cell(part, promise, case, float(q), float(found), int(runs)) for part, promise, case, q, found, runs in rows
    ]
    return {(cell.promise, cell.case): cell for cell in cells}


def table(cells: Collection[Cell]) -> str:
    """A row for each promise, with the cells in which it fails by more than chance allows among so many cells."""
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
        broken = [f"{cell.case} ({cell.measured:.3g})" for cell in found if cell.chance < FALSE_ALARMS / len(cells)]
        runs = str(low) if low == high else f"{low} to {high}"
        numbers = " | ".join(f"{value:.3f}" for value in (shares.min(), np.median(shares), shares.max()))
        lines.append(f"| {promise} | {nominal:g} | {len(found)} | {runs} | {numbers} | {'; '.join(broken) or 'none'} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--only", nargs="*", default=[], choices=list(PARTS))
    parser.add_argument("--promise", default="", help="only promises with this text")
    parser.add_argument("--case", default="", help="only cases with this text")
    parser.add_argument(
        "--doubtful", action="store_true", help="only cells that failed more often than chance explains"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    cells = stored()
    doubted = [cell for cell in cells.values() if cell.chance < DOUBTFUL or not options.doubtful]
    chosen = {
        (cell.promise, cell.case) for cell in doubted if options.promise in cell.promise and options.case in cell.case
    }
    everything = not (options.promise or options.case or options.doubtful)

    def wanted(of_promise: str, of_case: str) -> bool:
        """Whether a simulation is run that makes cells of promises and cases with these words."""
        return everything or any(of_promise in promise and case.startswith(of_case) for promise, case in chosen)

    for part in options.only or PARTS:
        for row in PARTS[part](range(options.first, options.first + options.runs), wanted):
            cell = Cell(part, *row)
            cells[cell.promise, cell.case] = cell
            print(f"{cell.promise:45} {cell.case:50} {cell.nominal:5g} {cell.measured:.4f} {cell.runs}", flush=True)
            with CELLS.open("w", encoding="utf-8", newline="") as stream:
                csv.writer(stream).writerows([Cell._fields, *cells.values()])
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(START)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{START}\n\n{table(cells.values())}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
