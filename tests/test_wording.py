"""Phrases that readers stumbled over stay out of code, documentation, examples and the changelog."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: What to write instead stands behind each.
PHRASES = {
    "minus sign that is one": "a true minus sign (U+2212)",
    "nobody answers": "a split that is never true",
    "needs patience": "until CG slows",
    "can be had": "can be computed",
    "to be had": "available",
    "a z of 40 says": "a large z",
    "what is whose": "what is the paper's, what is new",
    "quick start of your role": "a quick start for you",
    "speaks against": "not enough evidence for an alarm",
    "too little confident": "underconfident",
    "too timid": "too close to the average",
    "mended": "fixed",
    "not for here": "hide third-party warnings",
    "every which row": "row stride",
    "bring little": "add little",
    "unless one of these questions stops you": "Use auto unless",
    "bets against the probabilities": "evidence against the calibrator",
    "predictions as they are": "the unchanged predictions",
    "speak for": "make more likely, favour",
    "speaks for": "makes more likely, favours",
    "of which any number may": "labels, any number of which may be true",
    "rows can tell": "as far as the data support it",
    "side of a number": "compares values with thresholds",
    "cannot be known": "cannot tell, is unclear",
    "say the same thing in two ways": "are two ways to say the same thing",
    "has taken in": "the rows added so far",
    "way back": "the inverse, back to scores",
}


@cache
def texts() -> dict[str, str]:
    """Every file by its name, with single spaces and small letters."""
    pages = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]
    code = [path for folder in ("src", "examples", "benchmarks", "tools") for path in (ROOT / folder).rglob("*.py")]
    files = [*pages, *code, *(ROOT / "src").rglob("*.j2")]
    return {str(path.relative_to(ROOT)): " ".join(path.read_text(encoding="utf-8").lower().split()) for path in files}


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrase_is_not_used(phrase: str) -> None:
    pattern = re.compile(rf"\b{re.escape(phrase)}\b")
    found = [name for name, text in texts().items() if phrase in text and pattern.search(text)]
    assert not found, f"write {PHRASES[phrase]!r} or the like in {found}"
