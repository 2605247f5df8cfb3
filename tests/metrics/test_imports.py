"""Importing the metrics must stay light (pandas, if installed, is imported by scikit-learn itself)."""

from __future__ import annotations

import subprocess
import sys


def test_no_heavy_package_is_imported() -> None:
    code = (
        "import sys, calibrant.metrics\n"
        "heavy = {'torch', 'matplotlib', 'numba'} & set(sys.modules)\n"
        "sys.exit(' '.join(sorted(heavy)) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
