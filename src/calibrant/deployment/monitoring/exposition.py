"""The findings of a monitor in the text format that Prometheus reads: a few gauges, one line each.

See https://prometheus.io/docs/instrumenting/exposition_formats. None is a counter: a replaced batch may lower them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, time

from calibrant.deployment.monitoring.monitor import CalibrationMonitor
from calibrant.deployment.monitoring.periods import place_in_time

#: Evidence is given in powers of ten: 0 at the start, 2 at the alarm if alpha is 0.01.
_TEN = math.log(10.0)


def prometheus_text(monitor: CalibrationMonitor, calibrator: str) -> str:
    """All gauges, each labelled with `calibrator`, the name of what is watched."""
    lines = []
    for name, text, values in _gauges(monitor):
        lines += [f"# HELP calibrant_{name} {text}", f"# TYPE calibrant_{name} gauge"]
        for segment, value in values.items():
            labels = {"calibrator": calibrator, **({} if segment is None else {"segment": segment})}
            pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(f"calibrant_{name}{{{pairs}}} {value:.17g}".replace("nan", "NaN"))
    return "\n".join(lines) + "\n"


def _gauges(monitor: CalibrationMonitor) -> Iterator[tuple[str, str, dict[str | None, float]]]:
    """Name, description and values by segment, None for all rows."""
    limit = -math.log(monitor.alpha) / _TEN
    segments = monitor.evidence_["segments"].items()
    yield "alarm", "Whether an alarm was raised.", {None: float(monitor.alarm_)}
    yield "evidence_log10", "Evidence against the calibrator, powers of ten.", {None: monitor.log_evidence_ / _TEN}
    yield "alarm_evidence_log10", "Evidence at which the alarm is raised, powers of ten.", {None: limit}
    yield "rows", "Rows watched.", {None: monitor.seen_.rows}
    yield "labelled_rows", "Rows with labels watched.", {None: monitor.rows_}
    yield "missing_periods", "Periods without a batch.", {None: len(monitor.history_.missing())}
    if segments:
        values: dict[str | None, float] = {str(name): value / _TEN for name, value in segments}
        yield "segment_evidence_log10", "Evidence in a segment, powers of ten.", values
    for name, estimate in monitor.performance_.items() if monitor.seen_.rows else ():
        yield f"expected_{name}", "Expected without labels, if the calibrator is right.", {None: estimate.value}
    if monitor.drift_ is not None:
        yield "drift", "Whether predictions drifted from the reference.", {None: float(monitor.drift_.found)}
    if not monitor.history_.records:
        return
    batch = monitor.history_.records[-1]
    yield "batch_rows", "Rows of the latest batch.", {None: max(batch.rows, batch.labelled)}
    yield "batch_labelled_rows", "Rows of the latest batch with labels.", {None: batch.labelled}
    what = "of the second class" if len(monitor.classes_) == 2 else "predicted right"
    for name, value in (("expected", batch.expected_count), ("observed", batch.observed_count)):
        if value is not None:
            yield f"batch_{name}", f"Labelled rows of the latest batch {what}, {name}.", {None: value}
    if found := place_in_time(batch.last):
        start = datetime.combine(found[1], time(), UTC)
        text = "First day of the period of the latest batch, seconds since 1970."
        yield "batch_timestamp_seconds", text, {None: start.timestamp()}


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
