"""The results page of the site: runs the embedded suite, and writes its tables, figures and leaderboard into docs/.

python benchmarks/results.py [--out results/site]

The run is that of `make benchmark`, all native methods with 100, 300 and 1000 drawn rows; one that was stopped goes on.
What
docs/results.md says of it stands between two marks and is written anew, with the date and the version.
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

from PIL import Image

from calibrant import __version__
from calibrant.bench.building.embedded import embedded_predictions
from calibrant.bench.runs.drawn_rows import Draw
from calibrant.bench.runs.method_spec import native_methods
from calibrant.bench.runs.one_fit import Options
from calibrant.bench.runs.runner import run_benchmark
from calibrant.bench.study.results import read_results
from calibrant.bench.study.run_summary import findings
from calibrant.bench.study.study_report import make_report

#: What leads from the leaderboard, a page of its own, to the site.
BACK = '<p><a href="index.html">calibrant</a> › <a href="results.html">Results</a></p>'
SIZES = (100, 300, 1000)
DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- benchmarks/results.py writes from here -->", "<!-- to here -->"
TITLES = ("All methods", "By number of rows", "Rows needed")
#: Figures of the report that the page shows, and what they say.
FIGURES = {
    "relative_logloss": "Relative change of test log loss of all methods, one dot per dataset, the best median first",
    "draw_curves_logloss": "Relative change of test log loss by number of calibration rows, one panel per family",
    "rows_needed": "Share of draws in which each method beats no calibration, and the rows it needs for 95 of 100",
}


def main(out: Path) -> None:
    run_benchmark(embedded_predictions(), native_methods(), out, options=Options(draw=Draw(SIZES, repeats=1)))
    report = make_report(out, out / "report", title="Calibration leaderboard: the embedded suite", pictures=False)
    leaderboard = report.page.read_text(encoding="utf-8")
    (DOCS / "leaderboard.html").write_text(leaderboard.replace("<header>", f"<header>\n{BACK}", 1), encoding="utf-8")
    for name in FIGURES:
        # A palette makes a third of the size; this method keeps the colours of thin lines, too.
        with Image.open(out / "report" / "figures" / f"{name}.png") as drawn:
            few = drawn.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=1)
            few.save(DOCS / "images" / f"results-{name}.png", optimize=True)
    page = DOCS / "results.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{section(out)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def section(out: Path) -> str:
    """What the page says of the run in `out`."""
    results = read_results(out)
    count = {name: results[name].nunique() for name in ("method", "dataset", "model")}
    lines = [
        f"{datetime.date.today():%d %B %Y}, version {__version__}: {count['method'] - 1} methods, "
        f"{count['dataset']} datasets, {count['model']} models, {len(results.drop_duplicates(['dataset', 'model']))} "
        f"experiments, {', '.join(map(str, SIZES[:-1]))} and {SIZES[-1]} calibration rows from each.",
        '<a href="leaderboard.html">The leaderboard</a> has every number: sort, filter, search, download.',
        "",
        findings(results),
    ]
    # Tabs keep the page short.
    lines.append("::::{tab-set}")
    for kind, title in (("binary", "Two classes"), ("multiclass", "Three and more classes")):
        (table,) = out.glob(f"report/*-{kind}/tables/change_by_draw_logloss.md")
        lines += [f":::{{tab-item}} {title}", table.read_text(encoding="utf-8").strip(), ":::", ""]
    for title, (name, words) in zip(TITLES, FIGURES.items()):
        lines += [f":::{{tab-item}} {title}", f"![{words}](images/results-{name}.png)", ":::", ""]
    lines.append("::::")
    return "\n".join(lines).rstrip()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results", "site"), help="folder of the run")
    main(parser.parse_args().out)
