"""Results on disk: an append-only log while running, a parquet and a CSV table of it afterwards.

Every finished fit is one line of `log.jsonl`, written at once, so that a run that is killed loses only the
fits that were under way: an incomplete last line is ignored. The tables hold the last line of each experiment and
method, and are replaced as a whole.
"""

from __future__ import annotations

import contextlib
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from calibrant import __version__
from calibrant.bench.csv_files import write_csv
from calibrant.bench.schema import COLUMNS, KEY, LABELS
from calibrant.files.atomic import atomic_path, write_text
from calibrant.files.locking import locked
from calibrant.optional import require
from calibrant.text_table import encodable

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "h5py", "pyarrow", "distributed")

Row = dict[str, Any]
Key = tuple[str, str, str, str, str]


def row_key(row: Mapping[str, object]) -> Key:
    """Experiment and method of a row, as text."""
    return tuple(str(row[name]) for name in KEY)  # type: ignore[return-value]


class ResultFolder:
    """A folder of results, created when it does not exist."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._log = self.path / "log.jsonl"

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Keep a second run out of the folder; the lock ends with the process that holds it."""
        return locked(self._log, patience=0)

    def rows(self) -> dict[Key, Row]:
        """Last row of every experiment and method.

        Lines that cannot be read are left out with a warning, and their fits are made again; an incomplete last line,
        as a killed run leaves it, is ignored silently.
        """
        latest: dict[Key, Row] = {}
        if not self._log.exists():
            return latest
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        bad = []
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                key = row_key(row)
            except (ValueError, TypeError, KeyError):
                bad += [number] if line.strip() and number < len(lines) else []
                continue
            # Removed first, so that rows are in the order of their last lines.
            latest.pop(key, None)
            # A lone surrogate, as in the name of an undecodable file, cannot be written to any table.
            latest[key] = {name: encodable(value) if isinstance(value, str) else value for name, value in row.items()}
        if bad and not latest:
            raise ValueError(f"{self._log} is damaged: none of its lines is a result; move it away to start again")
        if bad:
            which = f"line {bad[0]}" if len(bad) == 1 else f"{len(bad)} lines, first line {bad[0]},"
            warnings.warn(f"{self._log}: {which} cannot be read; the lost fits count as not done", stacklevel=2)
        return latest

    @contextlib.contextmanager
    def appending(self) -> Iterator[Callable[[Mapping[str, object]], None]]:
        """A function that appends a row to the log at once; an incomplete last line is cut off first."""
        if self._log.exists():
            with open(self._log, "rb+") as old:
                old.truncate(old.read().rfind(b"\n") + 1)
        with open(self._log, "a", encoding="utf-8") as file:

            def write(row: Mapping[str, object]) -> None:
                file.write(json.dumps(row) + "\n")
                file.flush()

            yield write

    def write_tables(self) -> int:
        """Write `results.parquet` and `results.csv` from the log; returns the number of rows."""
        pandas = require("pandas", extra="bench")
        rows = self.rows()
        table = pandas.DataFrame([rows[key] for key in sorted(rows)], columns=COLUMNS)
        if table["fold"].dtype.kind not in "iu":
            table["fold"] = table["fold"].astype(str)
        # Empty unless rows were drawn, and results of earlier versions know neither column.
        table["draw"] = pandas.to_numeric(table["draw"])
        table["labels"] = table["labels"].astype(object).fillna(LABELS[0])
        check_table_packages()
        with atomic_path(self.path / "results.parquet") as part:
            table.to_parquet(part, index=False)
        write_csv(table, self.path / "results.csv")
        return len(table)

    def describe_run(self, settings: Mapping[str, object]) -> None:
        """Add versions, command and settings of a run to `run.json`."""
        runs = read_runs(self.path)
        runs.append(
            {
                "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
                "command": sys.argv,
                "platform": platform.platform(),
                "versions": installed_versions(),
                **settings,
            }
        )
        write_text(self.path / "run.json", json.dumps({"runs": runs}, indent=1, default=str) + "\n")


def read_runs(folder: Path) -> list[Row]:
    """What a result folder says of its runs: command, versions and settings of each."""
    file = folder / "run.json"
    runs = read_json(file).get("runs") if file.is_file() else []
    if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
        raise ValueError(f"{file} is damaged: it holds no list of runs; move it away to continue without it")
    return runs


def read_json(file: Path) -> dict[str, Any]:
    """The object in a JSON file of ours, or an error that names the file."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({error}); move it away to continue without it") from error
    if not isinstance(content, dict):
        raise ValueError(f"{file} is damaged: it holds no JSON object; move it away to continue without it")
    return content


def check_table_packages() -> None:
    """Import the packages that writing tables needs; an error names the extra to install."""
    require("pandas", extra="bench")
    require("pyarrow.parquet", extra="bench")


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
    sources = [Path(folder) for folder in folders]
    for folder in sources:
        if not (folder / "log.jsonl").exists():
            raise FileNotFoundError(f"{folder} holds no results: there is no log.jsonl")
    target = ResultFolder(out)
    # The folder that is written may be one of those that are read.
    with target.locked():
        merged: dict[Key, Row] = {}
        runs = []
        for folder in sources:
            for key, row in ResultFolder(folder).rows().items():
                if key not in merged or row["status"] == "ok" or merged[key]["status"] != "ok":
                    merged[key] = row
            runs += [{"folder": str(folder), **run} for run in read_runs(folder)]
        write_text(target.path / "log.jsonl", "".join(json.dumps(row) + "\n" for row in merged.values()))
        write_text(target.path / "run.json", json.dumps({"runs": runs}, indent=1, default=str) + "\n")
        target.write_tables()
    return target.path


def installed_versions(more: Sequence[str] = ()) -> dict[str, str]:
    """Versions of Python and of the packages that results depend on; `more` names further ones."""
    versions = {"python": platform.python_version(), "calibrant": __version__}
    for package in (*PACKAGES, *more):
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
