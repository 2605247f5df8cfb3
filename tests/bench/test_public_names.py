"""What `calibrant.bench` offers, and that the examples need nothing else."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import calibrant
from tests.needs import needs

needs("pandas")
pytestmark = pytest.mark.bench

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("name", calibrant.bench.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(calibrant.bench, name).__doc__


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_import_public_names_only(path: Path) -> None:
    public = {"calibrant": calibrant.__all__}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "calibrant":
            module = node.module or ""
            if module.count(".") == 1:
                public[module] = import_module(module).__all__
            assert module in public, f"{module} is not a public module"
            assert {alias.name for alias in node.names} <= set(public[module])
