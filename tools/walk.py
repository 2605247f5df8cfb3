"""Which files of the package a user's call walks through: the fewer, the easier it is to follow.

    python tools/walk.py fit auto report export

prints for each walk how many files under src/calibrant run code, and `--files` their names. A first call, which is not
counted, imports what is needed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import calibrant

PACKAGE = str(Path(calibrant.__file__).parent)


def entered(call: Callable[[], Any]) -> list[str]:
    """The files of the package whose functions run in a second call, in this thread."""
    call()
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            found.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return sorted(name[len(PACKAGE) + 1 :] for name in found)


def walks() -> dict[str, Callable[[], Any]]:
    """What users call most."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 300)
    y = np.array([rng.choice(3, p=row) for row in p])
    fitted = calibrant.SMSCalibrator().fit(p, y)

    def export() -> None:
        with tempfile.TemporaryDirectory() as folder:
            calibrant.export(fitted, Path(folder) / "calibrator.py")

    return {
        "fit": lambda: calibrant.SMSCalibrator().fit(p, y),
        "auto": lambda: calibrant.AutoCalibrator().fit(p, y),
        "report": lambda: calibrant.CalibrationReport(y, p, methods=["ts"]),
        "export": export,
    }


def main() -> None:
    """Print the walks that are named, or all."""
    calls = walks()
    for name in [name for name in sys.argv[1:] if not name.startswith("-")] or calls:
        files = entered(calls[name])
        print(f"{name}: {len(files)} files")
        if "--files" in sys.argv:
            print("".join(f"  {file}\n" for file in files), end="")


if __name__ == "__main__":
    main()
