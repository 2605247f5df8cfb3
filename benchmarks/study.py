"""What a report costs: processor seconds of tables, figures and page, and their ratio to reading the results.

python benchmarks/study.py results.csv.gz
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from pathlib import Path

from calibrant.bench.study.figures import draw_figures
from calibrant.bench.study.results import read_results
from calibrant.bench.study.study_report import make_report
from calibrant.bench.study.study_tables import build_tables


def main(path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        marks = [time.process_time()]
        results = read_results(path)
        marks.append(time.process_time())
        tables, _ = build_tables(results)
        marks.append(time.process_time())
        draw_figures({name: table.frame for name, table in tables.items()}, folder)
        marks.append(time.process_time())
        report = make_report(results, Path(folder) / "report")
        marks.append(time.process_time())
        size = report.page.stat().st_size / 1e6
    read, made, drawn, whole = (after - before for before, after in itertools.pairwise(marks))
    print(f"{len(results)} rows, {results['method'].nunique()} methods")
    for name, seconds in (("reading", read), ("tables", made), ("figures", drawn), ("whole report", whole)):
        print(f"{name:>14} {seconds:6.2f} s {seconds / read:7.1f} × reading")
    print(f"{'page':>14} {size:6.2f} MB")


if __name__ == "__main__":
    main(sys.argv[1])
