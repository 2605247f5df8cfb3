"""How large fresh environments are, one for the package and each extra, and how long the first import takes.

    python tools/environment_sizes.py                  # all of them, into the table of docs/installation.md
    python tools/environment_sizes.py cli export       # some of them, printed only

Needs pip and an index of packages. The size is that of all files that pip installs, compiled ones included, without pip
itself.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "installation.md"
BEGIN, END = "<!-- tools/environment_sizes.py writes from here -->", "<!-- to here -->"
#: What each extra is for. torch is not measured: its size depends on the processor and on the index.
WORDS = {
    "": "every calibrator, metrics, decisions, monitoring, files as JSON",
    "plots": "matplotlib: reliability diagrams and all other figures",
    "cli": "the program `calibrant`, reading and writing of tables, HTML reports",
    "excel": "`cli` and Excel files",
    "bench": "`cli` and the benchmark: pandas, HDF5, optuna",
    "all": "all of the above",
    "trees": "LightGBM, XGBoost and CatBoost as calibrators",
    "dask": "`bench` and Dask",
    "export": "ONNX, SQL and whole scikit-learn models",
}


def main(wanted: list[str]) -> None:
    lines = ["| | what for | size | `import calibrant` | first calibrator |", "|---|---|---|---|---|"]
    for extra in wanted or WORDS:
        with tempfile.TemporaryDirectory(prefix="calibrant-size-") as folder:
            size, importing, first = measure(Path(folder), f"{ROOT}[{extra}]" if extra else str(ROOT))
        name = f"`calibrant[{extra}]`" if extra else "`calibrant`"
        lines.append(f"| {name} | {WORDS[extra]} | {size:.0f} MB | {importing:.2f} s | {first:.1f} s |")
        print(lines[-1], flush=True)
    if not wanted:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        table = "\n".join(lines)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def measure(folder: Path, package: str) -> tuple[float, float, float]:
    """Megabytes of an environment with the package, and CPU seconds of two imports beyond those of Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", package], check=True)
    size = sum(path.stat().st_size for path in (folder / "lib").rglob("*") if path.is_file()) / 1e6
    empty = cpu_seconds(python, "pass")
    importing = cpu_seconds(python, "import calibrant") - empty
    return size, importing, cpu_seconds(python, "import calibrant; calibrant.AutoCalibrator()") - empty


def cpu_seconds(python: Path, code: str) -> float:
    """Median CPU time of a program over five runs, after one that fills the caches."""
    timed = f"import time, sys\n{code}\nsys.stdout.write(str(time.process_time()))"
    run = [python, "-I", "-c", timed]
    return median([float(subprocess.run(run, capture_output=True, text=True, check=True).stdout) for _ in range(6)][1:])


if __name__ == "__main__":
    main(sys.argv[1:])
