"""The package as a whole: its version, its public names, and what importing it costs."""

from __future__ import annotations

import builtins
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import calibrant

ROOT = Path(__file__).parents[1]


def test_version_is_that_of_the_project_file() -> None:
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert declared is not None
    assert calibrant.__version__ == declared[1]


@pytest.mark.parametrize("name", [name for name in calibrant.__all__ if name != "__version__"])
def test_public_names_exist_and_explain_themselves(name: str) -> None:
    value = getattr(calibrant, name)
    text = inspect.getdoc(value)
    assert text is not None
    if inspect.isclass(value) and not issubclass(value, Warning) and name != "CalibratorInfo":
        assert ">>> " in text


def test_no_parameter_shadows_a_builtin_but_input() -> None:
    """`input` says what predictions are, as it says in scikit-learn's vectorisers what documents are."""
    wrong = set()
    for package in (calibrant, calibrant.calibrators, calibrant.metrics, calibrant.plots):
        for name in package.__all__:
            value = getattr(package, name)
            methods = inspect.getmembers(value, inspect.isfunction) if inspect.isclass(value) else []
            public = [function for method, function in methods if method == "__init__" or not method.startswith("_")]
            for function in [value] if inspect.isfunction(value) else public:
                shadowing = [p for p in inspect.signature(function).parameters if hasattr(builtins, p) and p != "input"]
                wrong.update(f"{name}: {parameter}" for parameter in shadowing)
    assert not wrong


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        calibrant.nothing  # noqa: B018


def test_importing_the_package_imports_none_of_the_heavy_ones() -> None:
    code = "import sys, calibrant; print([m for m in ('numpy', 'scipy', 'sklearn', 'numba') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_sdist_holds_what_the_tests_read() -> None:
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    included = re.search(r"\[tool.hatch.build.targets.sdist\].*?include = \[(.*?)\]", declared, re.DOTALL)
    assert included is not None
    names = set(re.findall(r'"([^"]+)"', included[1]))
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    read = set(re.findall(r'ROOT / "([\w.-]+)"', tests)) | {"src", "tests"}
    assert read <= names | {"pyproject.toml"}  # which every sdist holds
