"""Results on disk: an append-only log while running, a parquet and a CSV table of it afterwards.

Every finished fit is one line of `log.jsonl`, written at once, so that a run killed at any moment has lost what
was under way and nothing else: a torn last line is ignored. The tables hold the last line of each experiment and
method, and are replaced as a whole.
"""

from __future__ import annotations

import contextlib
import json
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from calibrant import __version__
from calibrant.files.atomic import atomic_path, write_text
from calibrant.optional import require

COLUMNS = (
    "benchmark",
    "dataset",
    "model",
    "fold",
    "method",
    "n_cal",
    "n_test",
    "n_classes",
    "status",
    "logloss",
    "brier",
    "accuracy",
    "ece",
    "fit_seconds",
    "predict_seconds",
    "message",
)
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "h5py", "pyarrow", "distributed")

Row = dict[str, Any]
Key = tuple[str, str, str, str, str]


def row_key(row: Mapping[str, Any]) -> Key:
    """Experiment and method of a row, as text.

    Examples
    --------
    >>> row_key({"benchmark": "b", "dataset": "iris", "model": "LR", "fold": 0, "method": "ts"})
    ('b', 'iris', 'LR', '0', 'ts')
    """
    return tuple(str(row[name]) for name in ("benchmark", "dataset", "model", "fold", "method"))  # type: ignore[return-value]


class ResultFolder:
    """A folder of results.

    Parameters
    ----------
    path : str or Path
        Created when it does not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._log = self.path / "log.jsonl"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second run out of the folder; the lock goes with the process that holds it."""
        with open(self.path / ".lock", "w") as file:
            try:
                import fcntl
            except ImportError:
                yield
                return
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RuntimeError(f"another run is writing to {self.path}") from error
            yield

    def rows(self) -> dict[Key, Row]:
        """Last row of every experiment and method."""
        latest: dict[Key, Row] = {}
        if self._log.exists():
            with open(self._log, encoding="utf-8") as file:
                for line in file:
                    with contextlib.suppress(json.JSONDecodeError):
                        row = json.loads(line)
                        # Taken out first, so that the order is that of the last lines.
                        latest.pop(row_key(row), None)
                        latest[row_key(row)] = row
        return latest

    @contextlib.contextmanager
    def appending(self) -> Iterator[LogWriter]:
        """Open the log for more rows."""
        torn = self._log.exists() and self._log.stat().st_size > 0 and self._log.read_bytes()[-1:] != b"\n"
        with open(self._log, "a", encoding="utf-8") as file:
            if torn:
                file.write("\n")
            yield LogWriter(file)

    def write_tables(self) -> int:
        """Write `results.parquet` and `results.csv` from the log; returns the number of rows."""
        pandas = require("pandas", extra="bench")
        rows = self.rows()
        table = pandas.DataFrame([rows[key] for key in sorted(rows)], columns=list(COLUMNS))
        if not all(isinstance(fold, int) for fold in table["fold"]):
            table["fold"] = table["fold"].astype(str)
        check_table_packages()
        with atomic_path(self.path / "results.parquet") as part:
            table.to_parquet(part, index=False)
        with atomic_path(self.path / "results.csv") as part:
            table.to_csv(part, index=False, lineterminator="\n")
        return len(table)

    def describe_run(self, settings: Mapping[str, Any]) -> None:
        """Add versions, command and settings of a run to `run.json`."""
        file = self.path / "run.json"
        runs = json.loads(file.read_text())["runs"] if file.exists() else []
        runs.append(
            {
                "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
                "command": sys.argv,
                "platform": platform.platform(),
                "versions": installed_versions(),
                **settings,
            }
        )
        write_text(file, json.dumps({"runs": runs}, indent=1, default=str) + "\n")


def check_table_packages() -> None:
    """Import what writing tables needs, or name the extra that brings it."""
    require("pandas", extra="bench")
    require("pyarrow.parquet", extra="bench")


class LogWriter:
    """Appends rows to an open log, each at once."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row."""
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()


def merge_results(folders: Sequence[str | Path], out: str | Path) -> Path:
    """Join result folders into one, which can be continued like any other.

    Of rows for the same experiment and method, one that finished is kept over one that did not, and otherwise
    the one of the later folder.

    Parameters
    ----------
    folders : sequence of paths
        Folders that `run_benchmark` wrote.
    out : str or Path
        Folder to write; may be one of them.

    Returns
    -------
    Path of the folder.
    """
    merged: dict[Key, Row] = {}
    runs = []
    for folder in map(Path, folders):
        if not (folder / "log.jsonl").exists():
            raise FileNotFoundError(f"{folder} holds no results: there is no log.jsonl")
        for key, row in ResultFolder(folder).rows().items():
            if key not in merged or row["status"] == "ok" or merged[key]["status"] != "ok":
                merged[key] = row
        if (folder / "run.json").exists():
            runs += [{"folder": str(folder), **run} for run in json.loads((folder / "run.json").read_text())["runs"]]
    target = ResultFolder(out)
    with target.locked():
        write_text(target.path / "log.jsonl", "".join(json.dumps(row) + "\n" for row in merged.values()))
        write_text(target.path / "run.json", json.dumps({"runs": runs}, indent=1, default=str) + "\n")
        target.write_tables()
    return target.path


def installed_versions(more: Sequence[str] = ()) -> dict[str, str]:
    """Versions of Python and of the packages that results depend on; `more` names further ones.

    Examples
    --------
    >>> "numpy" in installed_versions()
    True
    """
    versions = {"python": platform.python_version(), "calibrant": __version__}
    for package in (*PACKAGES, *more):
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
