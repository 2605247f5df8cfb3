"""The code of the pages on metrics and plots runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.needs import needs

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["metrics.md", "plots.md", "validation.md"])
def test_code_of_the_page_runs(page: str) -> None:
    if page == "plots.md":
        matplotlib = needs("matplotlib")
        matplotlib.use("agg")
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.S)
    assert blocks
    exec(compile("\n".join(blocks), page, "exec"), {})
    if page == "plots.md":
        import matplotlib.pyplot as plt

        plt.close("all")


def test_pictures_of_the_page_exist() -> None:
    for name in re.findall(r"\]\((images/[^)]+)\)", (DOCS / "plots.md").read_text(encoding="utf-8")):
        assert (DOCS / name).stat().st_size > 1000
