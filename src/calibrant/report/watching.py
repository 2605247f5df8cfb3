"""The findings of a monitor as one HTML page that loads nothing."""

from __future__ import annotations

from datetime import datetime

from calibrant import __version__
from calibrant.deployment import CalibrationMonitor
from calibrant.deployment.monitoring.findings import Repair
from calibrant.deployment.monitoring.monitor_results import factor
from calibrant.plots import report_figures as figures
from calibrant.report.layout import drawn, fill

#: Classes and segments listed one by one, those with the most evidence first.
LISTED = 12


def render(monitor: CalibrationMonitor, title: str, repair: Repair | None = None) -> str:
    """The page as text, with the repair to mention, if there is one."""
    records, evidence = monitor.history_.records, monitor.evidence_
    counted = [record for record in records if record.expected_count and record.observed_count is not None]
    pictures = {
        "stability": drawn(figures.stability(records)) if len(counted) > 1 else "",
        "accuracy": drawn(figures.accuracies(records)) if records else "",
        "evidence": drawn(figures.evidence(records, monitor.alpha)) if monitor.rows_ else "",
    }
    parts = [("class frequencies", evidence["frequencies"]), ("slope (over- or under-confidence)", evidence["slope"])]
    for word, by_name in (("class", evidence["classes"]), ("segment", evidence["segments"])):
        most = sorted(by_name.items(), key=lambda item: -item[1])[:LISTED]
        parts += [(f"{word} {name}", value) for name, value in most]
    return fill(
        "watching.html.j2",
        figures=pictures,
        title=title,
        version=__version__,
        created=datetime.now().strftime("%Y-%m-%d %H:%M"),
        monitor=monitor,
        repair=repair,
        evidence=[(name, factor(value)) for name, value in parts],
        batches=monitor.batch_table(LISTED * 2),
        shown=len(monitor.classes_) <= LISTED,
    )
