"""Monitors in files: their state as JSON, written atomically, and the batches of a table fed to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from calibrant.deployment import CalibrationMonitor
from calibrant.files.atomic import write_text
from calibrant.files.stored.encoding import CalibratorFileError
from calibrant.runtime import canonical


def save_monitor(monitor: CalibrationMonitor, path: str | Path) -> None:
    """Store the state of a monitor; a crash while writing leaves the old file as it was."""
    write_text(path, canonical(monitor.state_) + "\n")


def load_monitor(path: str | Path, calibrator: Any) -> CalibrationMonitor:
    """The monitor of this calibrator that `save_monitor` stored."""
    try:
        state = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not text, not JSON, or more than a parser takes
        raise CalibratorFileError(f"{path}: This is not the state of a monitor: it is not JSON ({error}).") from None
    try:
        return CalibrationMonitor.resume(calibrator, state)
    except ValueError as error:
        raise CalibratorFileError(f"{path}: {error}") from None
