"""The shape of the code: short functions, no import cycle, and Spark's classes named behind one door."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}

FUNCTION_LINES_MAX = 55
FUNCTION_LINES_P90 = 20
FILE_LINES_MAX = 580
CLASS_LINES_MAX = 350


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text())


def without_docstrings(module: ast.Module) -> ast.Module:
    """The code of a module."""
    copied = copy.deepcopy(module)
    for node in ast.walk(copied):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return copied


def functions() -> list[tuple[int, str]]:
    """All functions, with their lines, docstrings included."""
    nodes = ((module, node) for module in MODULES for node in ast.walk(tree(module)))
    return [
        ((node.end_lineno or 0) - node.lineno + 1, f"{module}.{node.name}")
        for module, node in nodes
        if isinstance(node, ast.FunctionDef)
    ]


def imported(module: str) -> Iterator[str]:
    """The modules that one imports while it is loaded, or for its types."""
    inside = {
        id(node)
        for function in ast.walk(tree(module))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module in MODULES and id(node) not in inside:
            yield from (
                name if (name := f"{node.module}.{alias.name}") in MODULES else node.module for alias in node.names
            )


def test_functions_are_short() -> None:
    found = sorted(functions(), reverse=True)
    assert [function for function in found if function[0] > FUNCTION_LINES_MAX] == []
    assert found[len(found) // 10][0] <= FUNCTION_LINES_P90


def test_classes_are_short() -> None:
    nodes = ((module, node) for module in MODULES for node in tree(module).body if isinstance(node, ast.ClassDef))
    assert [
        f"{module}.{node.name}" for module, node in nodes if (node.end_lineno or 0) - node.lineno >= CLASS_LINES_MAX
    ] == []


@pytest.mark.parametrize("module", sorted(MODULES))
def test_files_are_short(module: str) -> None:
    assert len(MODULES[module].read_text().splitlines()) <= FILE_LINES_MAX


# What names a class of Spark's, or reaches behind what PySpark gives.
BEHIND_SPARK = re.compile(
    r"org\.apache\.|\bscala\.|\._jdf\b|\._jc\b|\._jvm\b|\._jsc\b|_jsparkSession|getSimpleName|getClass\("
)


@pytest.mark.parametrize(
    "module",
    sorted(
        module for module in MODULES if module.startswith("tahoe.spark.") and not module.startswith("tahoe.spark.jvm")
    ),
)
def test_only_one_room_reaches_behind_spark(module: str) -> None:
    code = "\n".join(ast.unparse(node) for node in without_docstrings(tree(module)).body)
    assert BEHIND_SPARK.findall(code) == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path[path.index(module) :], module))
        if module not in done:
            for name in imported(module):
                visit(name, (*path, module))
            done.add(module)

    for module in MODULES:
        if module != "tahoe":  # whose names are loaded when they are asked for
            visit(module, ())


def test_java_names_no_property_of_the_protocol() -> None:
    """Java hands over what Spark has parsed; which keys of the log that becomes is known in `tahoe.protocol` alone."""
    sources = sorted((SOURCE / "tahoe/spark").glob("java*/**/*.java"))
    assert sources
    assert [path.name for path in sources if re.search(r'"delta\.\w', path.read_text())] == []


def test_a_test_takes_its_helpers_from_builders() -> None:
    """Test files share helpers through other modules. Only a suite that several storages run is imported from a test
    file, as a whole.
    """
    tests = sorted((SOURCE.parent / "tests").rglob("*.py"))
    assert tests
    pattern = re.compile(r"^ *(?:from tests\.[\w.]*\.test_\w+ import (?!\*)|import tests\.[\w.]*\.test_)", re.MULTILINE)
    assert [path.name for path in tests if pattern.search(path.read_text(encoding="utf-8"))] == []
