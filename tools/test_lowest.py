"""Install the lowest versions that pyproject.toml allows, and run the command line with them.

    python tools/test_lowest.py                                # a fresh environment in a temporary folder
    python tools/test_lowest.py --venv /tmp/low --set pyarrow==15   # keep it, and try another version

Needs Python 3.11 or newer and pip. Every direct dependency of the extras gets exactly its lower bound; what these
depend on is as new as they allow, as for a user who has an old package and installs calibrant today.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Extras whose packages the commands below reach.
EXTRAS = ("plots", "cli", "excel", "bench", "export", "dask")

EMBEDDED = str(ROOT / "src/calibrant/bench/building/embedded.h5")
PREDICTIONS = "id,p_no,p_yes,truth,site\n" + "".join(
    f"{i},{1 - p:.3f},{p:.3f},{'yes' if (i * 7919) % 1000 < 1000 * p**2 else 'no'},{'ab'[i % 2]}\n"
    for i in range(400)
    for p in [((i * 37) % 97 + 1) / 99]
)
TRUTH = ("--label", "truth")
CAL = ("fit", "p.csv", *TRUTH, "--force", "-o", "cal.json", "-m")
#: Words of a command, the exit code, and a text that its output or its errors must have.
COMMANDS: list[tuple[tuple[str, ...], int, str]] = [
    (("--version",), 0, "calibrant "),
    (("--help",), 0, "Is a calibrator in use still right?"),
    (("apply", "--help"), 0, "JSON file that `calibrant fit`"),
    (("methods",), 0, "temperature scaling"),
    (("no-such-command",), 2, "no-such-command"),
    (("fit", "missing.csv", *TRUTH, "-o", "x.json"), 2, "there is no file missing.csv"),
    (("fit", "p.csv", "--no-such-option"), 2, "--no-such-option"),
    ((*CAL, "auto"), 0, "cal.json"),
    (("fit", "p.csv", *TRUTH, "-o", "ts.json", "-m", "ts"), 0, "ts.json"),
    *(
        (("apply", "cal.json", "p.csv", "-o", f"out.{kind}"), 0, "400 rows calibrated")
        for kind in ("csv", "csv.gz", "parquet", "feather", "jsonl", "xlsx", "npz")
    ),
    *(
        (("evaluate", f"out.{kind}", *TRUTH), 0, "log_loss")
        for kind in ("csv", "csv.gz", "parquet", "feather", "jsonl", "xlsx", "npz")
    ),
    (("report", "p.csv", *TRUTH, "--group", "site", "-o", "report.html"), 0, "report.html"),
    (("adapt", "cal.json", "--prior", "no=0.5,yes=0.5", "-o", "adapted.json"), 0, "adapted.json"),
    (("watch", "cal.json", "p.csv", "--state", "state.json", "--page", "watch.html", *TRUTH), 0, "No alarm"),
    (("export", "ts.json", "-o", "map.py"), 0, "map.py"),
    (("export", "ts.json", "-o", "map.onnx"), 0, "map.onnx"),
    (("export", "ts.json", "-o", "map.sql"), 0, "map.sql"),
    (("bench", "run", "--embedded", "--methods", "ts", "--models", "LR", "--out", "results"), 0, "results"),
    (("bench", "report", "results", "-o", "study"), 0, "study"),
    (("bench", "search", "--predictions", EMBEDDED, "--models", "LR", "--trials", "2", "-o", "search"), 0, "search"),
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, help="environment to make or to use again; a temporary one by default")
    parser.add_argument("--set", nargs="*", default=[], metavar="PACKAGE==VERSION", help="versions to take instead")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="calibrant-lowest-") as folder:
        venv = arguments.venv or Path(folder) / "venv"
        install(venv, lowest(arguments.set))
        work = Path(folder) / "work"
        work.mkdir()
        return run_all(venv / ("Scripts" if os.name == "nt" else "bin"), work)


def lowest(others: list[str]) -> list[str]:
    """Every dependency of the package and of `EXTRAS` with its lower bound as the only version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(r for extra in EXTRAS for r in project["optional-dependencies"][extra])]
    pins = {name_of(text): text.replace(">=", "==").split(",")[0] for text in wanted if ">=" in text}
    return list({**pins, **{name_of(text): text for text in others}}.values())


def name_of(requirement: str) -> str:
    return re.split(r"[=<>!\[]", requirement)[0].strip().lower()


def install(venv: Path, pins: list[str]) -> None:
    if not venv.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    # Requirements, not constraints: pip then says which two contradict each other.
    package = f"{ROOT}[{','.join(EXTRAS)}]"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-e", package, *pins], check=True)
    print("lowest versions:", ", ".join(pins), flush=True)


def run_all(programs: Path, work: Path) -> int:
    (work / "p.csv").write_text(PREDICTIONS)
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    failed = 0
    for words, code, text in COMMANDS:
        command = [programs / "calibrant", *words]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        if done.returncode != code or text not in said or "Traceback" in said:
            failed += 1
            print(f"FAILED: calibrant {' '.join(words)}: exit code {done.returncode}, {code} is right\n{said[-1500:]}")
    print(f"{len(COMMANDS) - failed} of {len(COMMANDS)} commands work with the lowest versions")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
