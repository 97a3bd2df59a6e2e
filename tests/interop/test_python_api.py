"""The reference's Python API, name by name: code written for it must find the same methods, arguments and defaults
here.
"""

from __future__ import annotations

import ast
import inspect
import zipfile
from pathlib import Path

import pytest

import tahoe.exceptions
import tahoe.tables
from tahoe.errors import UnknownNameError
from tahoe.protocol.configuration.clients import CLIENTS_BY_NAME
from tahoe.protocol.configuration.features import FEATURES
from tahoe.table.writing.merge_builder import MergeBuilder
from tests.interop.reference import ROOT

PACKAGE = ROOT / ".venv-reference" / "lib"
CLASSES = ("DeltaTable", "DeltaMergeBuilder", "DeltaTableBuilder", "DeltaOptimizeBuilder")


def source_of(module: str) -> ast.Module:
    found = sorted(PACKAGE.glob(f"python*/site-packages/delta/{module}.py"))
    if not found:
        pytest.skip("NOT RUN: the reference implementation is not installed: make interop")
    return ast.parse(Path(found[0]).read_text())


def public_methods(name: str) -> dict[str, ast.FunctionDef]:
    """The last definition of each, which comes after its overloads."""
    [found] = [node for node in source_of("tables").body if isinstance(node, ast.ClassDef) and node.name == name]
    return {
        node.name: node for node in found.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


def arguments(node: ast.FunctionDef) -> list[tuple[str, object]]:
    """Names and defaults of the arguments after self or cls."""
    named = node.args.args[1:]
    defaults = [inspect.Parameter.empty] * (len(named) - len(node.args.defaults)) + [
        _value(default) for default in node.args.defaults
    ]
    found: list[tuple[str, object]] = [
        (argument.arg, default) for argument, default in zip(named, defaults, strict=True)
    ]
    return found + ([("*" + node.args.vararg.arg, inspect.Parameter.empty)] if node.args.vararg else [])


def _value(node: ast.expr) -> object:
    is_empty_dict = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict"
    return {} if is_empty_dict else ast.literal_eval(node)


def our_arguments(method: object) -> list[tuple[str, object]]:
    parameters = [p for p in inspect.signature(method).parameters.values() if p.name not in ("self", "cls")]  # type: ignore[arg-type]
    return [("*" * (p.kind is p.VAR_POSITIONAL) + p.name, p.default) for p in parameters]


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_is_there_with_its_arguments(name: str) -> None:
    ours = getattr(tahoe.tables, name)
    theirs = public_methods(name)
    assert theirs
    assert {m for m in theirs if not hasattr(ours, m)} == set()
    differing = {
        method: (arguments(node), our_arguments(getattr(ours, method)))
        for method, node in theirs.items()
        if our_arguments(getattr(ours, method))[: len(arguments(node))] != arguments(node)
    }
    assert differing == {}


@pytest.mark.parametrize("name", CLASSES)
def test_what_is_a_class_method_there_is_one_here(name: str) -> None:
    for method, node in public_methods(name).items():
        is_theirs = any(isinstance(d, ast.Name) and d.id == "classmethod" for d in node.decorator_list)
        assert inspect.ismethod(getattr(getattr(tahoe.tables, name), method)) == is_theirs, method


def test_the_module_has_every_class() -> None:
    theirs = {node.name for node in source_of("tables").body if isinstance(node, ast.ClassDef)}
    assert theirs == set(tahoe.tables.__all__)


@pytest.mark.parametrize("name", CLASSES)
def test_a_table_without_spark_has_each_of_these_names_or_tells_ours(name: str) -> None:
    """`tahoe.Table` has other names for many of them; a new one of the reference would end in Python's bare
    AttributeError.
    """
    ours = {"DeltaTable": tahoe.Table, "DeltaMergeBuilder": MergeBuilder}.get(name)
    if ours is None:  # there is no such object without Spark
        return
    for method in public_methods(name):
        try:
            getattr(ours, method)
        except AttributeError as error:
            missing = error
        else:
            continue
        with pytest.raises(UnknownNameError, match="In tahoe: "):
            getattr(object.__new__(ours), method)
        assert name != "DeltaTable" or isinstance(missing, UnknownNameError)


def test_the_package_gives_what_the_reference_does_or_is_told() -> None:
    """`from delta import ...`, which becomes `from tahoe import ...`."""
    imported = [node for node in source_of("__init__").body if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imported for alias in node.names}
    assert {"DeltaTable", "configure_spark_with_delta_pip"} <= names
    for name in names:
        if hasattr(tahoe, name):
            continue
        with pytest.raises(UnknownNameError, match="In tahoe: "):
            getattr(tahoe, name)


def test_the_reference_supports_the_features_that_the_table_of_clients_says() -> None:
    """By its classes, each of which has the name of its feature."""
    jars = sorted((ROOT / ".cache/reference-jars").rglob("delta-spark_*.jar"))
    if not jars:
        pytest.skip("NOT RUN: the reference implementation is not installed: make interop")
    with zipfile.ZipFile(jars[-1]) as jar:
        classes = [
            jar.read(name)
            for name in jar.namelist()
            if name.startswith("org/apache/spark/sql/delta/") and "Feature" in name
        ]
    client = CLIENTS_BY_NAME["delta-spark"]
    assert f"-{client.label.split()[1].strip(',')}." in jars[-1].name
    for feature in FEATURES:
        constant = b"\x01" + len(feature.name).to_bytes(2, "big") + feature.name.encode()
        is_there = any(constant in each for each in classes)
        assert is_there == (feature.name not in client.reads_not | client.writes_not), feature.name


def test_every_exception_is_there_and_their_base_catches_them() -> None:
    theirs = {node.name for node in source_of("exceptions/base").body if isinstance(node, ast.ClassDef)}
    assert theirs == set(tahoe.exceptions.__all__)
    for name in theirs:
        assert issubclass(getattr(tahoe.exceptions, name), tahoe.exceptions.DeltaConcurrentModificationException)


def test_configure_takes_what_theirs_takes() -> None:
    [node] = [n for n in source_of("pip_utils").body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]
    theirs = [argument.arg for argument in node.args.args]
    ours = inspect.signature(tahoe.configure).parameters
    assert [name for name, argument in ours.items() if argument.kind is not argument.KEYWORD_ONLY] == theirs


def test_an_identity_generator_has_the_same_fields() -> None:
    assert our_arguments(tahoe.tables.IdentityGenerator) == [("start", 1), ("step", 1)]
