"""The figures of a monitor's page, drawn from its history."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from calibrant.confidence import wilson_interval
from calibrant.deployment.monitoring.history import Record
from calibrant.numerals import power_of_ten
from calibrant.plots.style import shorten
from calibrant.plots.svg import AFTER, BEFORE, FAINT, LEFT, WIDTH, axes, line, marker, path, plane, round_ticks, text


def evidence(records: Sequence[Record], alpha: float) -> str:
    """Evidence against the calibrator after each batch, on a logarithmic scale, with the level of the alarm."""
    places = np.cumsum([record.labelled for record in records])
    values = [record.log_evidence / math.log(10.0) for record in records]
    limit = -math.log10(alpha)
    low, high = min(-1.0, *values), max(limit, *values) + 0.5
    ticks = [float(tick) for tick in range(math.ceil(low), math.floor(high) + 1)]
    ticks = ticks[:: max(1, math.ceil(len(ticks) / 6))]
    labels = [(tick, power_of_ten(int(tick))) for tick in ticks]
    parts, at = axes(
        _counted(float(places[-1])), labels, (0.0, float(places[-1])), (low, high), "labelled rows", "evidence"
    )
    y = at(0.0, limit)[1]
    parts.append(line(LEFT, y, LEFT + WIDTH, y, stroke=BEFORE, stroke_width=1.5, stroke_dasharray="5 4"))
    parts.append(text(LEFT + 6, y - 5, f"alarm at {1.0 / alpha:,.3g}", class_="tick"))
    points = [at(0.0, 0.0), *(at(float(place), value) for place, value in zip(places, values))]
    parts.append(path(points, fill="none", stroke=AFTER, stroke_width=2, stroke_linejoin="round"))
    return plane(parts, "Evidence against the calibrator")


def accuracies(records: Sequence[Record]) -> str:
    """Accuracy expected from the probabilities, and that observed, batch by batch."""
    expected = [record.expected_accuracy for record in records]
    observed = [record.accuracy for record in records if record.accuracy is not None]
    low, high = min([*expected, *observed]), max([*expected, *observed])
    margin = max(0.1 * (high - low), 0.01)
    low, high = max(0.0, low - margin), min(1.0, high + margin)
    ticks = [(float(tick), f"{tick:.2f}") for tick in round_ticks(low, high)]
    ends = np.cumsum([max(record.rows, record.labelled) for record in records])
    parts, at = axes(_counted(float(ends[-1])), ticks, (0.0, float(ends[-1])), (low, high), "rows", "accuracy")
    lines = [at(float(end), value) for end, value in zip(ends, expected)]
    parts.append(path([lines[0], *lines], fill="none", stroke=AFTER, stroke_width=2, stroke_linejoin="round"))
    for end, record in zip(ends, records):
        if record.accuracy is not None:
            parts.append(marker(*at(float(end), record.accuracy), BEFORE, square=True, size=3.0))
    return plane(parts, "Expected and observed accuracy")


def stability(records: Sequence[Record], level: float = 0.95) -> str:
    """Observed over expected counts of each batch with labels, with intervals; calibrated ones lie around 1."""
    known = [record for record in records if record.expected_count and record.observed_count is not None]
    expected, observed, total = (
        np.array([float(getattr(record, name)) for record in known])
        for name in ("expected_count", "observed_count", "labelled_observations")
    )
    share = np.clip(observed / total, 0.0, 1.0)
    found = [(part * total / expected).tolist() for part in (share, *wilson_interval(share, total, level))]
    top = min(1.1 * max([*found[2], 1.2]), 4.0)
    ticks = [(tick, f"{tick:.2g}") for tick in round_ticks(0.0, top)]
    step = max(1, -(-len(known) // 5))
    names = [(place + 0.5, shorten(record.name or str(place + 1), 12)) for place, record in enumerate(known)][::step]
    parts, at = axes(names, ticks, (0.0, float(len(known))), (0.0, top), "batch", "observed / expected")
    y = at(0.0, 1.0)[1]
    parts.append(line(LEFT, y, LEFT + WIDTH, y, stroke=FAINT, stroke_width=1.5, stroke_dasharray="5 4"))
    for place, (ratio, low, high) in enumerate(zip(*found)):
        off = low > 1 or high < 1
        colour = BEFORE if off else AFTER
        (x, bottom), (_, above) = at(place + 0.5, low), at(place + 0.5, high)
        parts.append(line(x, bottom, x, above, stroke=colour, stroke_width=2, stroke_opacity=0.5))
        parts.append(marker(*at(place + 0.5, ratio), colour, square=off, size=3.5))
    return plane(parts, "Observed over expected counts, batch by batch")


def _counted(rows: float) -> list[tuple[float, str]]:
    """Ticks of an axis of rows."""
    return [(rows * share, f"{rows * share:,.0f}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
