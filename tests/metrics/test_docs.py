"""The code of the pages on metrics and plots runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.needs import needs

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "pages", [("metrics.md", "metrics-tests.md"), ("plots.md", "plots-maps.md"), ("validation.md", "grades.md")]
)
def test_code_of_the_pages_runs(pages: tuple[str, str]) -> None:
    """The second page goes on with the names of the first."""
    if "plots.md" in pages:
        matplotlib = needs("matplotlib")
        matplotlib.use("agg")
    text = "".join((DOCS / page).read_text(encoding="utf-8") for page in pages)
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert blocks
    exec(compile("\n".join(blocks), pages[0], "exec"), {})
    if "plots.md" in pages:
        import matplotlib.pyplot as plt

        plt.close("all")


def test_pictures_of_the_pages_exist() -> None:
    pages = "".join((DOCS / page).read_text(encoding="utf-8") for page in ("plots.md", "plots-maps.md"))
    for name in re.findall(r"\]\((images/[^)]+)\)", pages):
        assert (DOCS / name).stat().st_size > 1000
