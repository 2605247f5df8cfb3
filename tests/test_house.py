"""The rules of the house, read off the imports: nothing upward, nothing private across packages, no cycle."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import house

KNOWN = house.modules()


def test_the_walk_sees_the_package() -> None:
    assert len(KNOWN) > 150
    assert any(i.importer == "calibrant.simplex" and i.module == "calibrant.typing" for i in house.walk())


def test_every_room_has_a_floor() -> None:
    rooms = {house.room(module) for module in KNOWN} - set(house.DOORS)
    assert rooms == {room for rooms in house.FLOORS for room in rooms}


def test_no_import_leads_upward() -> None:
    wrong = []
    for item in house.walk():
        above, below = house.room(item.importer), house.room(item.module)
        if above in house.DOORS or above == below:
            continue
        if below in house.DOORS:
            # The version is a plain string at the door, and the registry's public functions are not reached through it.
            allowed = item.name == "__version__" and house.floor(above) >= house.floor("files")
        else:
            allowed = house.floor(below) < house.floor(above)
        if not allowed:
            wrong.append(str(item))
    assert not wrong, "\n".join(wrong)


def test_no_private_name_crosses_a_package() -> None:
    wrong = []
    for item in house.walk():
        home = house.package_of(item.module, KNOWN) if item.module in KNOWN else item.module.rpartition(".")[0]
        parts = [*item.module.split(".")[1:], item.name]
        private = any(part.startswith("_") and not part.startswith("__") for part in parts)
        if private and house.package_of(item.importer, KNOWN) != home:
            wrong.append(str(item))
    assert not wrong, "\n".join(wrong)


def test_private_names_of_scikit_learn_are_imported_in_one_file() -> None:
    wrong = []
    for module, tree in house.trees().items():
        if module == "calibrant.sklearn_private":
            continue
        for node in house.statements(tree.body):
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            wrong += [
                f"{module}:{node.lineno} imports {name}"
                for name in names
                if name.startswith("sklearn.") and "._" in name and "__" not in name
            ]
    assert not wrong, "\n".join(wrong)


def test_numbers_of_modules_give_their_reasons() -> None:
    """In a comment above the number or its group, beside it, or in a string below it."""
    wrong = []
    for module, path in KNOWN.items():
        lines, body = path.read_text(encoding="utf-8").splitlines(), house.trees()[module].body
        for node, following in zip(body, [*body[1:], None]):
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            parts = [] if value is None else list(ast.walk(value))
            if any(isinstance(part, ast.Call | ast.Dict) for part in parts) or not any(
                isinstance(part, ast.Constant) and type(part.value) in (int, float) for part in parts
            ):
                continue
            row = node.lineno - 1
            while row and lines[row - 1] and not lines[row - 1].startswith("#"):
                row -= 1
            below = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            if not (lines[row - 1].startswith("#") or "  # " in lines[node.lineno - 1] or below):
                wrong.append(f"{module}:{node.lineno} {lines[node.lineno - 1]}")
    assert not wrong, "\n".join(wrong)


def test_no_two_modules_and_no_two_classes_share_a_name() -> None:
    # Files of commands are called like the commands.
    modules = [
        name.rpartition(".")[2]
        for name, path in KNOWN.items()
        if path.name != "__init__.py" and path.parent.name != "cli"
    ]
    classes = [
        node.name
        for tree in house.trees().values()
        for node in house.statements(tree.body)
        if isinstance(node, ast.ClassDef)
    ]
    for kind, names in (("modules", modules), ("classes", classes)):
        again = sorted(name for name, number in Counter(names).items() if number > 1)
        assert not again, f"{kind} of the same name: {again}"


def test_no_modules_import_each_other() -> None:
    assert house.cycles(house.walk()) == []


def test_the_picture_in_the_documentation_is_drawn_from_this_code() -> None:
    import draw_house

    assert draw_house.OUT.read_text(encoding="utf-8") == draw_house.draw()


def test_scripts_import_names_that_exist() -> None:
    root, wrong = Path(__file__).parents[1], []
    for path in sorted(
        file for folder in ("benchmarks", "examples", "tools") for file in (root / folder).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("calibrant"):
                continue
            module = str(node.module)
            names = _defined(KNOWN[module]) if module in KNOWN else set()
            wrong += [
                f"{path.relative_to(root)}:{node.lineno} imports {alias.name} of {module}"
                for alias in node.names
                if alias.name not in names
                and f"{module}.{alias.name}" not in KNOWN
                # Packages that load their names on first use are asked.
                and not (KNOWN.get(module, path).name == "__init__.py" and hasattr(import_module(module), alias.name))
            ]
    assert not wrong, "\n".join(wrong)


def _defined(path: Path) -> set[str]:
    """Names that a module has at its top."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return found


def test_every_module_is_imported_or_named_by_another() -> None:
    imported = {item.module for item in house.walk()}
    named = {
        part
        for tree in house.trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for part in node.value.replace(":", ".").split(".")
    }
    doors = (*house.DOORS, "demo", "cli")
    alone = [
        module
        for module, path in KNOWN.items()
        if path.name != "__init__.py" and house.room(module) not in doors and module not in imported
    ]
    assert [module for module in alone if module.rpartition(".")[2] not in named] == []
