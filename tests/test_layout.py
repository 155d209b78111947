"""Test the layout of the package: the order and size of its subpackages, and what only one of them may do."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

PACKAGE = Path(__file__).parents[1] / "src/alphamepol"
ORDER = (
    *("errors", "files", "notebooks", "settings", "compute", "environments", "policies", "sampling", "estimation"),
    *("measuring", "figures", "runs", "algorithms", "classes", "evaluation", "pages", "watching", "checking"),
    *("launching", "reproduction", "sweeping", "cli"),
)
"""The order of the subpackages. Data flows from left to right, and imports point to the left only
(docs/architecture.md)."""
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.name == "errors.py")


def imports(path: Path, text: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield the line and the module of every import, including imports inside functions."""
    for node in ast.walk(ast.parse(text or path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}, line {node.lineno}: a relative import; name the package instead"
            module = node.module or ""
            yield from ((node.lineno, f"{module}.{one.name}") for one in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, one.name) for one in node.names)


def room_of(module: str) -> str:
    return module.split(".")[1]


def wrong_ways(path: Path, text: str | None = None) -> list[str]:
    """Return a sentence for every import from a later subpackage."""
    here = path.relative_to(PACKAGE).with_suffix("").parts[0]
    return [
        f"{path.relative_to(PACKAGE)}, line {line}: {here} must not import {module}, {room_of(module)} comes later"
        for line, module in imports(path, text)
        if module.startswith("alphamepol.") and room_of(module) in ORDER[ORDER.index(here) + 1 :]
    ]


def test_every_room_has_its_place() -> None:
    assert {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in MODULES} == set(ORDER)
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py", "errors.py"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_left(path: Path) -> None:
    assert wrong_ways(path) == []


def test_an_import_that_points_right_is_named_with_its_line() -> None:
    text = "import math\n\n\ndef f():\n    from alphamepol.runs.loop import run_loop\n    return run_loop\n"
    (sentence,) = wrong_ways(PACKAGE / "policies/memory.py", text)
    assert sentence.startswith("policies/memory.py, line 5: policies must not import alphamepol.runs.loop.run_loop")


def test_rooms_are_small() -> None:
    for folder in (path for path in PACKAGE.rglob("*") if (path / "__init__.py").is_file()):
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(modules) <= 12, f"{folder.relative_to(PACKAGE)} has {len(modules)} modules, more than 12"


@pytest.mark.parametrize(
    ("library", "room"), [("matplotlib", "figures"), ("html", "pages"), ("rich.table", "figures"), ("shlex", "files")]
)
def test_drawings_tables_and_pages_have_a_room_each(library: str, room: str) -> None:
    """Only one subpackage uses each library. Others may pass on a table of `rich`, but must not make one."""
    for path in MODULES:
        made = [module for _, module in imports(path) if f"{module}.".startswith(f"{library}.")]
        if made and path.relative_to(PACKAGE).parts[0] != room:
            assert library == "rich.table", f"{path} imports {made[0]}"
            assert "Table(" not in path.read_text(), f"{path} makes a table"


def test_no_function_takes_more_than_seven_parameters() -> None:
    """Public functions may take more, because their callers pass arguments by name."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("_") and not node.name.startswith("__"):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = sum(one.arg not in ("self", "cls") for one in given)
                assert count <= 7, (
                    f"{path.relative_to(PACKAGE)}, line {node.lineno}: {node.name} takes {count} parameters"
                )


def test_salts_have_one_owner() -> None:
    """Numbers that are folded into random keys, other than counts, are defined only in compute/keys.py."""
    for path in MODULES:
        if path != PACKAGE / "compute/keys.py":
            shifts = [node for node in ast.walk(ast.parse(path.read_text())) if _is_salt(node)]
            assert not shifts, f"{path.relative_to(PACKAGE)}, line {shifts[0].lineno}: move the salt to compute/keys.py"


def _is_salt(node: ast.AST) -> bool:
    """Return True if the node is a left shift by 20 or more, such as 1 << 20."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.LShift)
        and isinstance(node.right, ast.Constant)
        and isinstance(node.right.value, int)
        and node.right.value >= 20
    )


def test_only_one_table_of_names_and_the_classes_know_a_fine_tuner() -> None:
    """Fine-tuning depends only on an interface. A second algorithm needs its own folder and a line in the table."""
    for path in MODULES:
        relative = path.relative_to(PACKAGE)
        if relative.parts[0] != "classes" and relative.parts[:2] != ("algorithms", "trpo"):
            known = [module for _, module in imports(path) if module.startswith("alphamepol.algorithms.trpo")]
            assert not known, f"{relative} imports {known[0]}"
