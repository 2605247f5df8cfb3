"""Small wrong changes to the code, and whether the tests notice them: the power of `make test`, measured.

    python tools/mutants.py calls --out calls.json
    python tools/mutants.py run --calls calls.json --count 204 --seed 0 --out mutants.csv [--rooms softmax metrics]

`calls` runs the tests once and stores which functions of the package each test enters. `run` changes one operator,
comparison, constant or condition of one line per mutant, drawn at random with the given seed and the same number in
every room, and runs the tests that enter the changed function, the most specific first (those that enter the fewest
functions), up to `--seconds` of tests. A mutant that no test notices is printed as a survivor: it needs a test, or
shows code that can go. Compiled functions are not seen by the profiler: for them, and for code outside of functions,
all tests that enter the file are candidates, then those of the room. Files that need torch or Dask are left out: `make
test` runs without them. Run it in a checkout of its own: the mutated file is changed in place and restored afterwards.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

ROOT = Path.cwd()
SOURCE = ROOT / "src" / "calibrant"
ROOMS = ("softmax", "steps", "calibrators", "metrics", "report", "files")
MARKED = "not (peer or torch or export or browser or program or sklearn_suite or slow or fuzz)"
#: Files whose code needs torch or Dask, by their names.
_OPTIONAL = re.compile("torch|tensor|dask|partition")
#: A mutant may make a loop endless: tests get ten times the seconds that they took, and this for imports.
_START_SECONDS = 120
#: pytest's exit codes when tests fail or cannot be collected, and when a test of that name is not found.
_FAILED, _NOT_FOUND = (1, 2), 4

_SWAPPED: dict[type[ast.AST], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.And: "or", ast.Or: "and",
}  # fmt: skip
_WRITTEN: dict[type[ast.AST], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.And: "and", ast.Or: "or",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: the text between two places of a file becomes another one."""

    path: Path
    start: int
    end: int
    text: str
    line: int

    @property
    def room(self) -> str:
        return self.path.relative_to(SOURCE).parts[0]

    def apply(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]

    def describe(self, source: str) -> str:
        return f"{source[self.start : self.end]!r} -> {self.text!r}"


def mutants(path: Path) -> Iterator[Mutant]:
    """Every change that can be made to a file."""
    source = path.read_text(encoding="utf-8")
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(line: int, column: int) -> int:
        # Columns of the tree count bytes.
        text = source[starts[line - 1] : starts[line]]
        return starts[line - 1] + len(text.encode()[:column].decode())

    def between(left: ast.expr, right: ast.expr, operator: ast.AST) -> Iterator[Mutant]:
        start, end = at(left.end_lineno or 0, left.end_col_offset or 0), at(right.lineno, right.col_offset)
        place = source.find(_WRITTEN[type(operator)], start, end)
        if place >= 0:
            written = _WRITTEN[type(operator)]
            yield Mutant(path, place, place + len(written), _SWAPPED[type(operator)], left.lineno)

    for node in _meaningful(ast.parse(source)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _SWAPPED:
            yield from between(node.left, node.comparators[0], node.ops[0])
        elif isinstance(node, ast.BinOp) and type(node.op) in _SWAPPED:
            yield from between(node.left, node.right, node.op)
        elif isinstance(node, ast.BoolOp):
            yield from between(node.values[0], node.values[1], node.op)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            start, end = at(node.lineno, node.col_offset), at(node.end_lineno or 0, node.end_col_offset or 0)
            changed = node.value + 1 if type(node.value) is int else node.value * 2 if node.value else 0.5
            yield Mutant(path, start, end, repr(changed), node.lineno)
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            start = at(node.test.lineno, node.test.col_offset)
            end = at(node.test.end_lineno or 0, node.test.end_col_offset or 0)
            yield Mutant(path, start, end, f"(not ({source[start:end]}))", node.test.lineno)


def _meaningful(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes whose value matters: no annotations, no texts of messages, no abstract methods."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            abstract = "abstractmethod" in [getattr(name, "id", "") for name in getattr(node, "decorator_list", [])]
            if isinstance(node, ast.AST) and not isinstance(node, ast.Raise | ast.JoinedStr) and not abstract:
                yield node
                yield from _meaningful(node)


class CallRecorder:
    """A pytest plugin that notes which functions of the package every test enters, and how long the test takes."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.entered: set[CodeType] = set()
        self.records: list[dict[str, Any]] = []

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self.entered.add(frame.f_code)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.entered.clear()
        sys.setprofile(self._note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        package = str(SOURCE)
        entered, self.entered = self.entered, set()  # the profiler goes on while the old set is read
        found = [
            f"{code.co_filename[len(package) + 1 :]}:{code.co_firstlineno}"
            for code in entered
            if code.co_filename.startswith(package)
        ]
        record = {"test": report.nodeid, "when": report.when, "seconds": report.duration, "entered": found}
        if report.when != "teardown":
            self.records.append(record)

    def pytest_sessionfinish(self) -> None:
        if self.records:
            worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
            self.out.with_suffix(f".{worker}").write_text(json.dumps(self.records), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Called when pytest loads this file with `-p mutants`."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        config.pluginmanager.register(CallRecorder(Path(os.environ["CALIBRANT_CALLS"])))


def record_calls(out: Path) -> None:
    """Run the tests in two processes, and store what each of them enters."""
    environment = _environment() | {"CALIBRANT_CALLS": str(out.resolve())}
    environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
    command = [sys.executable, "-m", "pytest", "-n", "2", "-q", "-p", "mutants", "-p", "no:cacheprovider", "-m", MARKED]
    subprocess.run(command, cwd=ROOT, env=environment)
    parts = sorted(out.parent.glob(f"{out.stem}.gw*"))
    out.write_text(json.dumps([row for part in parts for row in json.loads(part.read_text())]), encoding="utf-8")
    for part in parts:
        part.unlink()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


class Calls:
    """Which tests enter a function or a file, from what `record_calls` stored."""

    def __init__(self, path: Path) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._entered: dict[str, int] = defaultdict(int)
        self._functions: dict[str, set[str]] = defaultdict(set)
        self._files: dict[str, set[str]] = defaultdict(set)
        tests_of: dict[str, set[str]] = defaultdict(set)
        records = json.loads(path.read_text(encoding="utf-8"))
        for record in records:
            tests_of[record["test"].partition("::")[0]].add(record["test"])
        for record in records:
            test = record["test"]
            self.seconds[test] += record["seconds"]
            self._entered[test] += len(record["entered"])
            # A fixture may be shared: what one test's set-up enters may be noticed by all tests of its file.
            shared = record["when"] == "setup"
            tests = tests_of[test.partition("::")[0]] if shared else {test}
            for place in record["entered"]:
                self._functions[place] |= tests
                self._files[place.rpartition(":")[0]] |= tests

    def noticing(self, mutant: Mutant, most_seconds: float) -> list[str]:
        """Tests that may notice a mutant, the most specific first, those of its own room before others."""
        file = mutant.path.relative_to(SOURCE).as_posix()
        place = _function_at(mutant)
        found = self._functions.get(f"{file}:{place}", set()) if place else set()
        folder = f"tests/{mutant.room}/"
        if not found:
            found = self._files[file] | {test for test in self.seconds if test.startswith(folder)}
        order = sorted(found, key=lambda test: (not test.startswith(folder), self._entered[test], test))
        chosen, total = [], 0.0
        for test in order:
            total += self.seconds[test]
            if chosen and total > most_seconds:
                break
            chosen.append(test)
        return chosen


def _function_at(mutant: Mutant) -> int:
    """First line of the innermost function around a mutant, decorators included; 0 outside of functions."""
    best = 0
    for node in ast.walk(ast.parse(mutant.path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.Lambda) and node.lineno <= mutant.line <= (node.end_lineno or 0):
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            if isinstance(node, ast.FunctionDef) and mutant.line >= node.body[0].lineno:
                best = max(best, first)
    return best


def sampled(rooms: list[str], count: int, seed: int) -> list[Mutant]:
    """Equally many mutants of every room, in turn: a run that is stopped has about as many of each."""
    drawn: list[tuple[int, Mutant]] = []
    for room in rooms:
        # One generator for each room: a change to one room leaves the mutants of the others as they are.
        rng = random.Random(f"{seed} {room}")
        files = [path for path in sorted((SOURCE / room).rglob("*.py")) if not _OPTIONAL.search(path.name)]
        every = [mutant for path in files for mutant in mutants(path)]
        drawn += enumerate(rng.sample(every, min(len(every), count // len(rooms))))
    return [mutant for _, mutant in sorted(drawn, key=lambda item: item[0])]


def killed(mutant: Mutant, tests: list[str], seconds: float) -> str:
    """What happened when the tests ran on the mutant, or an empty string if they all passed."""
    if not tests:
        return ""
    source, times = mutant.path.read_text(encoding="utf-8"), mutant.path.stat()
    with tempfile.TemporaryDirectory() as folder:
        environment = _environment()
        if "@compiled" in source or "@njit" in source:  # stored machine code of callers would hide the change
            environment["NUMBA_CACHE_DIR"] = folder
        try:
            mutant.path.write_text(mutant.apply(source), encoding="utf-8")
            for arguments in (tests, list(dict.fromkeys(test.partition("::")[0] for test in tests))):
                listed = Path(folder) / "tests.txt"
                listed.write_text("\n".join(arguments), encoding="utf-8")
                command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", MARKED]
                try:
                    result = subprocess.run(
                        [*command, f"@{listed}"],
                        cwd=ROOT, env=environment, capture_output=True, text=True,
                        timeout=_START_SECONDS + 10 * seconds,
                    )  # fmt: skip
                except subprocess.TimeoutExpired:
                    return "endless"
                if result.returncode in _FAILED:
                    failed = [line for line in result.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                    return failed[0][:150] if failed else "not collected"
                if result.returncode != _NOT_FOUND:
                    return ""
        finally:
            mutant.path.write_text(source, encoding="utf-8")
            os.utime(mutant.path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return ""


def run(arguments: argparse.Namespace) -> None:
    """Try a sample of mutants and print the share that was noticed in each room."""
    calls = Calls(arguments.calls)
    kills: dict[str, list[bool]] = {room: [] for room in arguments.rooms}
    with arguments.out.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["room", "file", "line", "change", "tests", "killed by"])
        for mutant in sampled(arguments.rooms, arguments.count, arguments.seed):
            change = mutant.describe(mutant.path.read_text(encoding="utf-8"))
            tests = calls.noticing(mutant, arguments.seconds)
            by = killed(mutant, tests, sum(calls.seconds[test] for test in tests))
            kills[mutant.room].append(bool(by))
            table.writerow([mutant.room, mutant.path.relative_to(ROOT), mutant.line, change, len(tests), by])
            stream.flush()
            if not by:
                place = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
                print(f"survived: {place} {change} ({len(tests)} tests)", flush=True)
    for room, outcomes in kills.items():
        if outcomes:
            print(f"{room}: {sum(outcomes)} of {len(outcomes)} killed ({sum(outcomes) / len(outcomes):.0%})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("calls")
    recording.add_argument("--out", type=Path, required=True)
    trying = commands.add_parser("run")
    trying.add_argument("--calls", type=Path, required=True)
    trying.add_argument("--count", type=int, default=204)
    trying.add_argument("--seed", type=int, default=0)
    trying.add_argument("--seconds", type=float, default=60.0, help="at most so many seconds of tests per mutant")
    trying.add_argument("--rooms", nargs="+", default=list(ROOMS), choices=list(ROOMS))
    trying.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.command == "calls":
        record_calls(arguments.out)
    else:
        run(arguments)


if __name__ == "__main__":
    main()
