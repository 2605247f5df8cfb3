"""Small wrong changes to the code, and whether the tests notice them: the power of `make test`, measured.

    python tools/mutants.py lines --out lines [--tests tests/softmax tests/steps]
    python tools/mutants.py run --lines lines --out mutants.csv --count 204 --seed 0 --jobs 2 [--rooms softmax metrics]

`lines` runs the tests once and stores which lines of the package each test runs, and how long it takes (by coverage,
which has to be installed). `run` changes one operator, comparison, constant or condition of one line per mutant, drawn
at random with the given seed and the same number in every room, and runs the tests that run the changed line, the most
specific first (those that run the fewest lines), up to `--seconds` of tests. A mutant that no test notices is printed
as a survivor: it needs a test, or shows code that can go. Compiled functions are not traced: for them, and for lines
that no test runs by itself, as on import or while numba compiles, all tests that run any line of the file are
candidates, then those of the room. A process that a mutant crashes has noticed it. Files that need torch or Dask are
left out: `make test` runs without them.

Nothing on disk changes: each mutant lives in a process forked from one that has imported all other packages, where
the changed text is imported in place of the file. A test that starts another Python does not see the change there.
"""

from __future__ import annotations

import argparse
import ast
import csv
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage, CoverageData

ROOT = Path.cwd()
SOURCE = ROOT / "src" / "calibrant"
ROOMS = ("softmax", "steps", "calibrators", "metrics", "report", "files")
MARKED = "not (peer or torch or export or browser or program or sklearn_suite or slow or fuzz)"
#: Files whose code needs torch or Dask, by their names.
_OPTIONAL = re.compile("torch|tensor|dask|partition")
#: Functions compiled by numba, which coverage cannot trace.
_COMPILED = re.compile(r"compiled\b|jit\b")
#: Packages that take long to import and start no threads when imported: a forked process may use them.
_PRELOADED = frozenset(["jinja2", "matplotlib", "numba", "numpy", "pandas", "pyarrow", "scipy", "sklearn"])
#: A mutant may make a loop endless: tests get ten times the seconds that they took, and this for imports.
_START_SECONDS = 120

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


class LineRecorder:
    """A pytest plugin that has coverage note which lines every test runs, and keeps how long the test takes."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()
        worker = os.environ["PYTEST_XDIST_WORKER"]
        self.coverage = Coverage(data_file=str(out / f"{worker}.coverage"), source=[str(SOURCE)], config_file=False)
        self.worker = worker
        self.coverage.start()

    def _in(self, item: pytest.Item, phase: str) -> None:
        self.coverage.switch_context(f"{phase} {item.nodeid}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._in(item, "setup")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self._in(item, "call")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        others = sorted({name for name in sys.modules if not name.startswith(("calibrant", "tests", "mutants", "_"))})
        passed = {test: seconds for test, seconds in self.seconds.items() if test not in self.failed}
        found = {"seconds": passed, "modules": others}
        (self.out / f"{self.worker}.json").write_text(json.dumps(found), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Called when pytest loads this file with `-p mutants`."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        config.pluginmanager.register(LineRecorder(Path(os.environ["CALIBRANT_LINES"])))


def record_lines(out: Path, tests: list[str]) -> None:
    """Run the tests in two processes, and store which lines each of them runs."""
    out.mkdir(exist_ok=True)
    environment = {**os.environ, "CALIBRANT_LINES": str(out.resolve())}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(Path(__file__).parent)])
    command = [sys.executable, "-m", "pytest", "-n", "2", "-q", "-p", "mutants", "-p", "no:cacheprovider", "-m", MARKED]
    subprocess.run([*command, *tests], cwd=ROOT, env=environment)


class Lines:
    """Which tests run a line or a file, from what `record_lines` stored."""

    def __init__(self, folder: Path) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.modules: set[str] = set()
        self._size: dict[str, int] = defaultdict(int)
        self._tests: dict[str, dict[int, set[str]]] = {}
        for part in sorted(folder.glob("*.json")):
            found = json.loads(part.read_text(encoding="utf-8"))
            self.modules |= set(found["modules"])
            for test, seconds in found["seconds"].items():
                self.seconds[test] += seconds
        self._of_file: dict[str, set[str]] = defaultdict(set)
        for test in self.seconds:
            self._of_file[test.partition("::")[0]].add(test)
        for part in sorted(folder.glob("*.coverage")):
            data = CoverageData(str(part))
            data.read()
            for file in data.measured_files():
                by_line = self._tests.setdefault(str(Path(file)), defaultdict(set))
                for line, contexts in data.contexts_by_lineno(file).items():
                    for context in contexts:
                        by_line[line] |= self._tests_of(context)
                        self._size[context.partition(" ")[2]] += 1

    def _tests_of(self, context: str) -> set[str]:
        """The test of a context; all tests of its file for what a set-up runs: they may share the fixture."""
        phase, _, test = context.partition(" ")
        return set() if not test else {test} if phase == "call" else self._of_file[test.partition("::")[0]]

    def noticing(self, mutant: Mutant, most_seconds: float) -> list[str]:
        """Tests that may notice a mutant, the most specific first, those of its own room before others."""
        by_line = self._tests.get(str(mutant.path), {})
        folder = f"tests/{mutant.room}/"
        found: set[str] = set()
        if _traced(mutant):
            for line in _lines_of_statement(mutant):
                found |= by_line.get(line, set())
        if not found:
            found = set().union(*by_line.values()) | {test for test in self.seconds if test.startswith(folder)}
        # A test that fails without any change, for instance because it measures what is traced, cannot notice one.
        found &= self.seconds.keys()
        order = sorted(found, key=lambda test: (not test.startswith(folder), self._size[test], test))
        chosen, total = [], 0.0
        for test in order:
            total += self.seconds[test]
            if chosen and total > most_seconds:
                break
            chosen.append(test)
        return chosen


def _traced(mutant: Mutant) -> bool:
    """Whether coverage sees the line run: inside a function that is not compiled."""
    for node in ast.walk(ast.parse(mutant.path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= mutant.line <= (node.end_lineno or 0):
            return not any(_COMPILED.search(ast.unparse(decorator)) for decorator in node.decorator_list)
    return False


def _lines_of_statement(mutant: Mutant) -> range:
    """The lines of the innermost statement around a mutant; of one with a body, those of its head."""
    best = range(mutant.line, mutant.line + 1)
    for node in ast.walk(ast.parse(mutant.path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            if node.lineno <= mutant.line <= end:
                best = range(node.lineno, end + 1)  # statements inside others come later
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


class FirstFailure:
    """A pytest plugin that keeps the name of the first test that failed."""

    name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.name = self.name or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.name = self.name or f"{report.nodeid} (not collected)"


class MutantFinder(MetaPathFinder):
    """Finds the module of a mutant, with its changed text in place of the file's."""

    def __init__(self, mutant: Mutant) -> None:
        parts = mutant.path.relative_to(SOURCE.parent).with_suffix("").parts
        self._name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self._path, self._text = str(mutant.path), mutant.apply(mutant.path.read_text(encoding="utf-8"))

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != self._name:
            return None
        text = self._text

        class Loader(SourceFileLoader):
            def get_data(self, path: str) -> bytes:
                return text.encode()

            def path_stats(self, path: str) -> Any:
                raise OSError  # the bytecode on disk is that of the unchanged text

        return spec_from_file_location(name, self._path, loader=Loader(name, self._path))


def use_fresh_machine_code(mutant: Mutant, folder: Path) -> None:
    """Keep numba from loading machine code of a mutated file, or of one that compiles its functions into its own."""
    import numba

    stale, waiting = set[Path](), [mutant.path]
    sources = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    compiled = {path: source for path, source in sources.items() if _COMPILED.search(source)}
    while waiting:
        path = waiting.pop()
        stale.add(path)
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        waiting += [other for other, source in compiled.items() if module in source and other not in stale]
    names = tuple(f"{path.stem}." for path in stale)

    def left_out(_: str, files: list[str]) -> list[str]:
        return [file for file in files if file.startswith(names)]

    shutil.copytree(numba.config.CACHE_DIR, folder, ignore=left_out, dirs_exist_ok=True)
    numba.config.CACHE_DIR = str(folder)


def try_in_child(mutant: Mutant, tests: list[str], folder: Path) -> None:
    """Run the tests on a mutant in this process, leave the name of the one that failed behind, and end."""
    sys.meta_path.insert(0, MutantFinder(mutant))
    if _COMPILED.search(mutant.path.read_text(encoding="utf-8")):
        use_fresh_machine_code(mutant, folder / "compiled")
    os.dup2(os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT), 1)
    os.dup2(1, 2)
    # pytest would rewrite the asserts of files that it is given, and read the mutated one, given for its doctests, from
    # disk.
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--assert=plain", "-m", MARKED]
    for arguments in (tests, list(dict.fromkeys(test.partition("::")[0] for test in tests))):
        failure = FirstFailure()
        code = pytest.main([*options, *arguments], plugins=[failure])
        if code != pytest.ExitCode.USAGE_ERROR:  # a test of that name is not found: all tests of its file are run
            break
    killed = code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    (folder / "killed.txt").write_text((failure.name or str(code)) if killed else "", encoding="utf-8")
    os._exit(0)


@dataclass
class Trial:
    """A mutant whose tests are running in a process of their own."""

    mutant: Mutant
    tests: list[str]
    folder: Path
    pid: int
    ends: float

    @classmethod
    def start(cls, mutant: Mutant, tests: list[str], seconds: float) -> Trial:
        folder = Path(tempfile.mkdtemp())
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            with suppress(BaseException):
                try_in_child(mutant, tests, folder)
            os._exit(1)
        return cls(mutant, tests, folder, pid, time.monotonic() + _START_SECONDS + 10 * seconds)

    def outcome(self) -> str | None:
        """What noticed the mutant, an empty text if nothing did, or None while the tests are running."""
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        if not ended and time.monotonic() < self.ends:
            return None
        if not ended:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        found = self.folder / "killed.txt"
        crashed = ended and os.WIFSIGNALED(status)  # compiled code that leaves its arrays
        if ended and not crashed and not found.exists():
            raise RuntimeError(f"no result of {self.mutant}: see {self.folder / 'output.txt'}")
        by = "crash" if crashed else found.read_text(encoding="utf-8") if ended else "endless"
        shutil.rmtree(self.folder)
        return by


def try_all(mutants: list[Mutant], lines: Lines, most_seconds: float, jobs: int) -> Iterator[tuple[Mutant, int, str]]:
    """Each mutant with the number of its tests and what noticed it, as they end."""
    waiting, running = list(reversed(mutants)), list[Trial]()
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            tests = lines.noticing(mutant, most_seconds)
            if tests:
                running.append(Trial.start(mutant, tests, sum(lines.seconds[test] for test in tests)))
            else:
                yield mutant, 0, ""
        for trial in list(running):
            by = trial.outcome()
            if by is not None:
                running.remove(trial)
                yield trial.mutant, len(trial.tests), by
        time.sleep(0.05)


def import_other_packages(lines: Lines) -> None:
    """What tests import besides the package, so that forked processes need not; each by itself, some need a screen."""
    os.environ["NUMBA_CACHE_DIR"] = os.environ.get("NUMBA_CACHE_DIR") or tempfile.mkdtemp()
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    sys.dont_write_bytecode = True
    for name in sorted(lines.modules):
        if name.partition(".")[0] in _PRELOADED:
            with suppress(Exception):
                importlib.import_module(name)


def run(arguments: argparse.Namespace) -> None:
    """Try a sample of mutants and print the share that was noticed in each room."""
    lines = Lines(arguments.lines)
    import_other_packages(lines)
    kills: dict[str, list[bool]] = {room: [] for room in arguments.rooms}
    chosen = sampled(arguments.rooms, arguments.count, arguments.seed)
    with arguments.out.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["room", "file", "line", "change", "tests", "killed by"])
        for mutant, n_tests, by in try_all(chosen, lines, arguments.seconds, arguments.jobs):
            change = mutant.describe(mutant.path.read_text(encoding="utf-8"))
            kills[mutant.room].append(bool(by))
            table.writerow([mutant.room, mutant.path.relative_to(ROOT), mutant.line, change, n_tests, by])
            stream.flush()
            if not by:
                place = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
                print(f"survived: {place} {change} ({n_tests} tests)", flush=True)
    for room, outcomes in kills.items():
        if outcomes:
            print(f"{room}: {sum(outcomes)} of {len(outcomes)} killed ({sum(outcomes) / len(outcomes):.0%})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("lines")
    recording.add_argument("--out", type=Path, required=True)
    recording.add_argument("--tests", nargs="+", default=[], help="folders of tests; all unless given")
    trying = commands.add_parser("run")
    trying.add_argument("--lines", type=Path, required=True)
    trying.add_argument("--count", type=int, default=204)
    trying.add_argument("--seed", type=int, default=0)
    trying.add_argument("--seconds", type=float, default=60.0, help="at most so many seconds of tests per mutant")
    trying.add_argument("--rooms", nargs="+", default=list(ROOMS), metavar="ROOM")
    trying.add_argument("--jobs", type=int, default=2)
    trying.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.command == "lines":
        record_lines(arguments.out, arguments.tests)
    else:
        run(arguments)


if __name__ == "__main__":
    main()
