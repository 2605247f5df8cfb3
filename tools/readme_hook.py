"""README.md as the package index shows it: links into the repository and pictures have whole addresses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "https://github.com/calibrant/calibrant/blob/main/"
PICTURES = "https://raw.githubusercontent.com/calibrant/calibrant/main/"


def absolute(text: str) -> str:
    """The text with whole addresses in place of paths inside the repository."""
    text = re.sub(r'(<img src=")(?!https?:)', rf"\g<1>{PICTURES}", text)
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)", rf"\g<1>{PICTURES}", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!https?:|#)", rf"\g<1>{REPOSITORY}", text)


class ReadmeHook(MetadataHookInterface):
    """Called by hatchling when it builds a distribution."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text)}
