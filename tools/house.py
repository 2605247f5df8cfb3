"""The house as the code draws it: rooms, their order, and every import between modules.

The test of the house (`tests/test_house.py`) and the picture in the documentation (`tools/draw_house.py`) read the same
walk of the source, so that neither can tell another story than the code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = "calibrant"

#: The floors of the house, from the ground up. A room may import from floors below and from its own floor, but rooms
#: that share a floor do not import each other.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("typing", "optional", "lazy", "threads", "compiling", "docs", "progress", "sklearn_private"),
    ("rowwise", "bins", "numerals", "text_table", "folds", "random_numbers", "confidence"),
    ("simplex",),
    ("sample",),
    ("inputs", "gaussian", "steps"),
    ("softmax", "runtime"),
    ("calibrators",),
    ("classifier",),
    ("metrics",),
    ("decisions", "grades"),
    ("deployment",),
    ("plots",),
    ("files",),
    ("workflows",),
    ("report", "writers"),
    ("bench",),
    ("cli", "demo"),
)
#: The doors: they name what is inside and are imported by nobody inside.
DOORS = ("__init__", "__main__")


@dataclass(frozen=True)
class Import:
    """One name that a module imports from another module of the package."""

    importer: str
    module: str
    name: str
    line: int
    in_function: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.name or 'all'} from {self.module}"


def modules() -> dict[str, Path]:
    """Every module of the package with its file."""
    found = {}
    for path in sorted((SOURCE / PACKAGE).rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room(module: str) -> str:
    """The room a module is in: the first part of its name below the package, a door for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def floor(name: str) -> int:
    """The floor of a room, counted from the ground."""
    for number, rooms in enumerate(FLOORS):
        if name in rooms:
            return number
    raise LookupError(f"The room {name!r} has no floor: add it to FLOORS in tools/house.py.")


def package_of(module: str, known: dict[str, Path]) -> str:
    """The folder a module lives in."""
    return module if known[module].name == "__init__.py" else module.rpartition(".")[0]


@cache
def trees() -> dict[str, ast.Module]:
    """The syntax tree of every module."""
    return {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in modules().items()}


@cache
def walk() -> list[Import]:
    """Every import of the package's own modules, at the top of a file or inside a function."""
    known = modules()
    return [found for module, tree in trees().items() for found in _imports(module, tree.body, known, False)]


def statements(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """All statements of a body, those inside others included; expressions are passed over."""
    for node in body:
        yield node
        yield from statements(inner_statements(node))


def inner_statements(node: ast.AST) -> list[ast.AST]:
    """The statements, handlers and cases right below a statement."""
    parts = ("body", "orelse", "finalbody", "handlers", "cases")
    return [inner for part in parts for inner in getattr(node, part, ())]


def _imports(module: str, body: Sequence[ast.AST], known: dict[str, Path], in_function: bool) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == PACKAGE:
                    yield Import(module, alias.name, "", node.lineno, in_function)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{module}:{node.lineno}: imports inside the package are absolute")
            if (node.module or "").split(".")[0] != PACKAGE:
                continue
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                target, name = (whole, "") if whole in known else (str(node.module), alias.name)
                yield Import(module, target, name, node.lineno, in_function)
        else:
            inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _imports(module, inner_statements(node), known, inside)


def cycles(found: list[Import]) -> list[list[str]]:
    """Groups of modules that import each other, whether at the top or inside functions (Tarjan's algorithm)."""
    edges: dict[str, set[str]] = {}
    for item in found:
        if item.module != item.importer and room(item.importer) not in DOORS and room(item.module) not in DOORS:
            edges.setdefault(item.importer, set()).add(item.module)
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            place = stack.index(node)
            group = stack[place:]
            del stack[place:]
            if len(group) > 1:
                groups.append(sorted(group))

    for node in sorted(edges):
        if node not in order:
            visit(node)
    return groups
