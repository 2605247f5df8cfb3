"""Build the distributions, check them, and use each from a fresh environment: `make dist`.

    python tools/distributions.py [--out dist]

`calibrant` is built from the repository, `calibrant-runtime` from the modules that `calibrant.runtime` imports,
directly or not, so that no list of them has to be kept. Both are checked by twine and check-wheel-contents, installed
as wheels into environments of their own, and tried: fit, save, load, run and the command line.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import house

ROOT = Path(__file__).resolve().parent.parent
#: What the runtime may weigh.
LARGEST_RUNTIME = 1_000_000

FIT = """
import json, warnings
import numpy as np
import calibrant
from calibrant import runtime
warnings.simplefilter("error")
rng = np.random.default_rng(0)
p = rng.dirichlet(np.ones(3), size=500)
y = np.array(["a", "b", "c"])[(p.cumsum(axis=1) > rng.random((500, 1))).argmax(axis=1)]
sharp = p**2 / (p**2).sum(axis=1, keepdims=True)
for method in ("auto", "sms", "isotonic"):
    fitted = calibrant.get_calibrator(method).fit(sharp, y)
    calibrant.save(fitted, f"{method}.json")
    expected = fitted.predict_proba(sharp)
    assert (calibrant.load(f"{method}.json").predict_proba(sharp) == expected).all()
    assert (runtime.load(f"{method}.json").predict_proba(sharp) == expected).all()
    np.savez(f"{method}.npz", given=sharp, expected=expected)
print("calibrant", calibrant.__version__, "fits, stores, loads and runs")
"""
RUN = """
import sys
import numpy as np
from calibrant import runtime
for method in ("auto", "sms", "isotonic"):
    rows = np.load(f"{method}.npz")
    assert (runtime.load(f"{method}.json").predict_proba(rows["given"]) == rows["expected"]).all()
assert not {"scipy", "sklearn", "numba"} & set(sys.modules)
try:
    from calibrant import AutoCalibrator
except ImportError as error:
    assert "pip install calibrant" in str(error), error
else:
    raise AssertionError("the runtime holds more than it should")
print("calibrant-runtime gives the same numbers, bit for bit")
"""
TABLE = "p_no,p_yes,y\n" + "".join(
    f"{1 - i / 99:.3f},{i / 99:.3f},{'yes' if 37 * i % 97 < i else 'no'}\n" for i in range(100)
)


def main(out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", out, ROOT)
    with tempfile.TemporaryDirectory(prefix="calibrant-dist-") as name:
        folder = Path(name)
        stage_runtime(folder / "runtime")
        run(sys.executable, "-m", "build", "--outdir", out, folder / "runtime")
        run(sys.executable, "-m", "twine", "check", "--strict", *out.iterdir())
        run(Path(sys.executable).parent / "check-wheel-contents", *out.glob("*.whl"))
        work = folder / "work"
        work.mkdir()
        try_package(wheel(out, "calibrant-"), folder / "package", work)
        try_runtime(wheel(out, "calibrant_runtime-"), folder / "served", work)
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size / 1e6:7.2f} MB  {path.name}")


def stage_runtime(folder: Path) -> None:
    """Lay out the sources of the runtime with its own project file."""
    shutil.copytree(ROOT / "tools" / "runtime", folder)
    shutil.copy(ROOT / "LICENSE", folder)
    known = house.modules()
    for path in [*(known[module] for module in runtime_modules()), house.SOURCE / house.PACKAGE / "py.typed"]:
        target = folder / "src" / path.relative_to(house.SOURCE)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def runtime_modules() -> set[str]:
    """`calibrant.runtime` and every module that it imports, directly or not, with their packages."""
    imported: dict[str, set[str]] = {}
    for found in house.walk():
        imported.setdefault(found.importer, set()).add(found.module)
    needed: set[str] = set()
    waiting = [f"{house.PACKAGE}.runtime"]
    while waiting:
        module = waiting.pop()
        if module not in needed:
            needed.add(module)
            waiting += imported.get(module, set())
            waiting += [module.rpartition(".")[0]] if "." in module else []
    return needed


def try_package(package: Path, venv: Path, work: Path) -> None:
    """The library without extras, then the command line."""
    programs = make_environment(venv, package)
    run(programs / "python", "-I", "-c", FIT, cwd=work)
    alone = subprocess.run([programs / "calibrant", "--version"], capture_output=True, text=True, check=False)
    assert alone.returncode == 1, alone
    assert "[cli]" in alone.stderr, alone
    run(sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet", f"{package}[cli]")
    for name in ("preds.csv", "new.csv"):
        (work / name).write_text(TABLE)
    for command in readme_commands():
        run(programs / command[0], *command[1:], cwd=work)


def readme_commands() -> list[list[str]]:
    """What README.md tells people to type after it has told them what to install."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "pip install 'calibrant[cli]'" in text
    lines = [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("calibrant ")]
    commands = [line for line in lines if line[1:2] and line[1] in ("report", "fit", "apply")]
    assert len(commands) == 3, lines
    return commands


def try_runtime(package: Path, venv: Path, work: Path) -> None:
    """The runtime runs what the package has stored, with NumPy and nothing else."""
    assert package.stat().st_size < LARGEST_RUNTIME
    programs = make_environment(venv, package)
    list_all = [sys.executable, "-m", "pip", "--python", programs / "python", "list", "--format=freeze"]
    listed = subprocess.run(list_all, capture_output=True, text=True, check=True).stdout
    assert {line.split("==")[0] for line in listed.split()} == {"calibrant-runtime", "numpy"}, listed
    run(programs / "python", "-I", "-c", RUN, cwd=work)


def make_environment(venv: Path, package: Path) -> Path:
    """A fresh environment with the wheel; returns the folder of its programs."""
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    programs = venv / ("Scripts" if os.name == "nt" else "bin")
    run(sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet", package)
    return programs


def wheel(out: Path, name: str) -> Path:
    (found,) = out.glob(f"{name}*.whl")
    return found.resolve()


def run(*command: str | Path, cwd: Path | None = None) -> None:
    """Run a command without the sources of this repository on its path."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run([str(word) for word in command], cwd=cwd, env=environment, check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the distributions, made anew")
    main(parser.parse_args().out)
