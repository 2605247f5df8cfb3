"""Makes the helper module of these tests importable, whichever way pytest imports tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
