"""The package as a whole: its version, its public names, and what importing it costs."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import calibrant
from calibrant.lazy import attach

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import distributions  # noqa: E402


def test_there_is_one_version_number() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/calibrant/__init__.py"
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert cited[1] == re.sub(r"\.dev\d+$", "", calibrant.__version__)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.split(r"^## ", changes, flags=re.MULTILINE)[1]
    assert newest.split()[0] == cited[1]
    assert len(newest.splitlines()) <= 120, "a changelog is what a user wants to read"


def test_the_runtime_asks_for_what_the_package_asks_for() -> None:
    whole, runtime = (
        tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]
        for path in ("pyproject.toml", "tools/runtime/pyproject.toml")
    )
    (numpy,) = runtime["dependencies"]
    assert numpy in whole["dependencies"]
    assert runtime["requires-python"] == whole["requires-python"]
    assert runtime["urls"].items() <= whole["urls"].items()


def test_the_runtime_is_what_its_module_imports_and_needs_numpy_alone() -> None:
    """NumPy and the standard library: no other package is imported, not even inside a function."""
    needed, known = distributions.runtime_modules(), distributions.house.modules()
    assert {"calibrant", "calibrant.runtime", "calibrant.steps.step"} <= needed
    assert not [module for module in needed if "calibrators" in module or "softmax" in module]
    others = set()
    for module in needed:
        for node in ast.walk(distributions.house.trees()[module]):
            if isinstance(node, ast.Import):
                others.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                others.add(node.module.split(".")[0])
    assert others - set(sys.stdlib_module_names) == {"calibrant", "numpy"}
    assert sum(known[module].stat().st_size for module in needed) < distributions.LARGEST_RUNTIME


def test_what_the_runtime_lacks_is_named_with_the_package_to_install() -> None:
    code = "import sys; sys.modules['calibrant.calibrators'] = None\nfrom calibrant import AutoCalibrator"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        "ImportError: AutoCalibrator is not part of calibrant-runtime; install the whole package with: "
        "pip install calibrant"
    )


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


def test_names_of_a_package_are_sorted_wherever_they_live() -> None:
    modules = [(".", "softmax"), (".simplex", "softmax_inplace log_odds")]
    assert attach("calibrant", modules)[2] == ["log_odds", "softmax", "softmax_inplace"]


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
