"""Odd results: every report is made, says what is odd, and its figures can be drawn."""

from __future__ import annotations

import warnings
from functools import lru_cache

import numpy as np
import pytest

from tests.needs import needs

pytestmark = pytest.mark.bench
needs("pandas")
needs("matplotlib")
needs("jinja2")

from calibrant.bench.study import study_report  # noqa: E402
from calibrant.bench.study.figures import FIGURES, make_figures, read_tables  # noqa: E402
from calibrant.bench.study.results import check_results  # noqa: E402
from calibrant.bench.study.study_tables import build_tables  # noqa: E402

# How results are spoiled, and what the notes then say.
ODD = {
    "baseline alone": (lambda r: r[r["method"] == "none"], "no method other than 'none'"),
    "one method": (lambda r: r[r["method"].isin(["none", "sms"])], ""),
    "one dataset": (lambda r: r[r["dataset"] == "d0"], "at least two datasets"),
    "one experiment": (lambda r: r[(r["dataset"] == "d0") & (r["model"] == "m1") & (r["fold"] == 0)], "two datasets"),
    "all ties": (lambda r: r.assign(logloss=0.5, brier=0.2, n_cal=500, n_classes=2), "all methods tie"),
    "same rows": (
        lambda r: r.assign(n_cal=500),
        "by number of calibration rows, because all datasets have equally many",
    ),
    "same classes": (lambda r: r.assign(n_classes=7), "by number of classes, because all datasets have equally many"),
    "binary": (lambda r: r.assign(n_classes=2), ""),
    "zero losses": (lambda r: r.assign(logloss=0.0, brier=0.0), "all methods tie"),
    "no times": (lambda r: r.drop(columns=["fit_seconds", "predict_seconds", "accuracy", "ece"]), ""),
    "no rows counted": (lambda r: r.assign(n_cal=np.nan), ""),
    "sizes unknown": (lambda r: r.assign(n_classes=np.nan, n_cal=np.nan), "equally many"),
    "all failed": (
        lambda r: r.assign(status=np.where(r["method"] == "none", "ok", "failed")),
        "finished no dataset and are not ranked",
    ),
    "infinite": (
        lambda r: r.assign(logloss=np.where(r["method"] == "sms", np.inf, r["logloss"])),
        "sms has an infinite log loss",
    ),
    "all infinite": (lambda r: r.assign(logloss=np.inf), "none has an infinite log loss"),
    "strange names": (
        lambda r: r.assign(
            method=r["method"].replace("sms", "<b>$x_1^ 校准"),
            model=r["model"] + "$\\frac",
            dataset=r["dataset"] + '%,"',
        ),
        "",
    ),
}


@pytest.fixture(scope="module")
def report_of(make_results, tmp_path_factory):
    @lru_cache
    def make(name):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(study_report, "draw_figures", lambda tables, directory: [])
            return study_report.make_report(ODD[name][0](make_results()), tmp_path_factory.mktemp("odd"))

    return make


DRAWN = ("all ties", "baseline alone", "one dataset", "no times", "infinite", "all failed", "strange names")
SHOWN = (*DRAWN, "sizes unknown")
"""What is odd in each way that tables and pages can meet: nothing to compare, to count or to write down."""


@pytest.mark.parametrize("name", [name for name, (_, message) in ODD.items() if message and name not in SHOWN])
def test_what_is_odd_is_noted(make_results, name):
    spoil, message = ODD[name]
    _, notes = build_tables(check_results(spoil(make_results())))
    assert any(message in note for note in notes), notes


@pytest.mark.parametrize("name", [*SHOWN, *(pytest.param(n, marks=pytest.mark.slow) for n in ODD if n not in SHOWN)])
def test_odd_results_end_in_tables_and_a_page(report_of, name):
    report = report_of(name)
    assert report.page.stat().st_size > 10_000
    message = ODD[name][1]
    assert any(message in note for note in report.notes) if message else True, report.notes


@pytest.mark.parametrize(
    ("name", "layout"),
    [("strange names", True)]
    + [(name, False) for name in DRAWN[1:-1]]
    + [pytest.param(name, True, marks=pytest.mark.slow) for name in DRAWN[:-1]],
)
def test_odd_tables_are_drawn(report_of, name, layout):
    drawn = dict(make_figures(read_tables(report_of(name).directory / "tables")))
    assert list(drawn) == [name for name, spec in FIGURES.items() if not spec.optional]
    for figure in drawn.values() if layout else ():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            figure.draw_without_rendering()
