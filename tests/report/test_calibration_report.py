"""The report in Python: its tables are those of the page, it shows itself in notebooks and saves itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrant import CalibrationReport
from calibrant.metrics import log_loss
from tests.needs import needs
from tests.samples import sharpened


@pytest.fixture(scope="module")
def report() -> CalibrationReport:
    p, y = sharpened(500, 3, 2.0)
    months = np.array(["May", "June"])[np.arange(500) % 2]
    names = np.array(["ant", "bee", "cat"])
    return CalibrationReport(names[y], p, name="bugs", segments=months, segment_name="month", methods=["ts"])


def test_tables_hold_the_numbers(report: CalibrationReport) -> None:
    needs("pandas")
    p, y = sharpened(500, 3, 2.0)
    tables = report.tables
    assert set(tables) == {"metrics", "methods", "classes", "parts", "segments", "reliability", "bands"}
    assert tables["metrics"].loc["log_loss", "before"] == pytest.approx(log_loss(y, p))
    assert tables["classes"].index.tolist() == ["ant", "bee", "cat"]
    assert tables["classes"]["observed"].tolist() == np.bincount(y).tolist()
    assert tables["segments"]["rows"].tolist() == [250, 250]
    parts = tables["parts"]
    total = parts["miscalibration"] - parts["discrimination"] + parts["uncertainty"]
    np.testing.assert_allclose(total, parts["score"])
    assert report.recommended == "ts"
    assert str(report).startswith(report.verdict)


def test_it_shows_and_saves_itself(report: CalibrationReport, tmp_path: Path) -> None:
    shown = report._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<h1>" not in shown
    report.save(tmp_path / "one.html")
    page = (tmp_path / "one.html").read_text()
    assert "<h1>bugs</h1>" in page
    assert "calibrant.SegmentedCalibrator(" in page  # June stays off with one calibrator for both months
    with pytest.raises(ValueError, match="exists"):
        report.save(tmp_path / "one.html")
    report.save(tmp_path / "one.html", report, force=True)
    assert "Side by side" in (tmp_path / "one.html").read_text()


def test_rows_without_weight_and_segments_that_do_not_fit() -> None:
    p, y = sharpened(200, 2, 2.0)
    weight = (np.arange(200) < 150).astype(float)
    kept = CalibrationReport(y, p, sample_weight=weight, segments=np.arange(200) % 2, methods=["ts"])
    assert kept.contents.size.rows == 150
    assert sum(row.size.rows for row in kept.contents.segment_rows) == 150
    with pytest.raises(ValueError, match="segments has 3 rows, y_prob has 200"):
        CalibrationReport(y, p, segments=["a", "b", "c"])
