"""Small wrong changes to the code, and whether the tests notice them: the power of `make test`, measured.

    python tools/mutants.py --count 200 --seed 0 --out mutants.csv [--rooms softmax metrics]

Each mutant changes one operator, comparison, constant or condition of one line, drawn at random with the given seed and
the same number in every room. The tests of the room run first, then those of the rooms that use it (`USERS`), and a
mutant that no test notices is printed as a survivor: it asks for a test, or shows code that nobody needs. Run it in a
checkout of its own: the mutated file is changed in place and restored afterwards.
"""

from __future__ import annotations

import argparse
import ast
import csv
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "calibrant"
MARKED = "not (peer or torch or export or browser or program or sklearn_suite or slow or fuzz or dask)"
#: Where else a wrong number of a room shows, in the order in which the tests run.
USERS: dict[str, list[str]] = {
    "softmax": ["tests/softmax", "tests/calibrators/test_paper.py", "tests/calibrators"],
    "steps": ["tests/steps", "tests/calibrators", "tests/files", "tests/writers"],
    "calibrators": ["tests/calibrators", "tests/classifier", "tests/test_properties.py", "tests/test_counts.py"],
    "metrics": ["tests/metrics", "tests/test_counts.py", "tests/report", "tests/plots"],
    "report": ["tests/report", "tests/cli"],
    "files": ["tests/files", "tests/cli"],
}
#: A mutant may make a loop endless; the slowest folder of tests takes less than this on a busy machine.
_SECONDS = 900

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
    """Nodes whose value matters: no annotations, no texts of messages."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST) and not isinstance(node, ast.Raise | ast.JoinedStr):
                yield node
                yield from _meaningful(node)


def sampled(rooms: list[str], count: int, seed: int) -> list[Mutant]:
    """Equally many mutants of every room."""
    drawn = []
    for room in rooms:
        # One generator for each room: a change to one room leaves the mutants of the others as they are.
        rng = random.Random(f"{seed} {room}")
        every = [mutant for path in sorted((SOURCE / room).rglob("*.py")) for mutant in mutants(path)]
        drawn += rng.sample(every, min(len(every), count // len(rooms)))
    return drawn


def killed(mutant: Mutant, room: str) -> str:
    """The tests that notice the mutant, or an empty string."""
    source, times = mutant.path.read_text(encoding="utf-8"), mutant.path.stat()
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        if "@compiled" in source or "@njit" in source:  # stored machine code of callers would hide the change
            environment["NUMBA_CACHE_DIR"] = cache
        try:
            mutant.path.write_text(mutant.apply(source), encoding="utf-8")
            for tests in USERS[room]:
                command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", MARKED, tests]
                try:
                    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=_SECONDS)
                except subprocess.TimeoutExpired:
                    return f"{tests} (endless)"
                if result.returncode not in (0, 5):
                    return tests
        finally:
            mutant.path.write_text(source, encoding="utf-8")
            os.utime(mutant.path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", nargs="+", default=list(USERS), choices=list(USERS))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    kills: dict[str, list[bool]] = {room: [] for room in arguments.rooms}
    with arguments.out.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["room", "file", "line", "change", "killed by"])
        for mutant in sampled(arguments.rooms, arguments.count, arguments.seed):
            room = mutant.path.relative_to(SOURCE).parts[0]
            change = mutant.describe(mutant.path.read_text(encoding="utf-8"))
            by = killed(mutant, room)
            kills[room].append(bool(by))
            table.writerow([room, mutant.path.relative_to(ROOT), mutant.line, change, by])
            stream.flush()
            if not by:
                print(f"survived: {mutant.path.relative_to(ROOT)}:{mutant.line} {change}", flush=True)
    for room, outcomes in kills.items():
        if outcomes:
            print(f"{room}: {sum(outcomes)} of {len(outcomes)} killed ({sum(outcomes) / len(outcomes):.0%})")


if __name__ == "__main__":
    main()
