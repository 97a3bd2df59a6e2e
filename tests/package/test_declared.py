"""What the package imports, it declares: else an installation of it alone does not run."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# Which module an extra is for, and what its package brings with it: py4j of exactly one version, botocore likewise.
EXTRAS = {
    "spark": (("tahoe.spark", "tahoe.delta"), {"pyspark": {"pyspark", "py4j"}}),
    "connect": (("tahoe.spark.api.connect.",), {"pyspark": {"pyspark", "py4j"}, "protobuf": {"google"}}),
    "dynamodb": ("tahoe.storage.dynamodb", {"boto3": {"boto3", "botocore"}}),
    "iceberg": (("tahoe.table.adoption.iceberg_source", "tahoe.iceberg."), {"pyiceberg": {"pyiceberg"}}),
    "catalog": ("tahoe.catalog", {"sqlalchemy": {"sqlalchemy"}, "alembic": {"alembic"}}),
    "catalog-server": (
        "tahoe.catalog.server",
        {name: {name} for name in ("sqlalchemy", "alembic", "starlette", "uvicorn")},
    ),
    "catalog-roles": ("tahoe.catalog.server.roles", {"boto3": {"boto3", "botocore"}}),
    "otel": ("tahoe.events.", {"opentelemetry-api": {"opentelemetry"}}),
    "pandas": ("tahoe.table", {"pandas": {"pandas"}}),
    "polars": ("tahoe.table", {"polars": {"polars"}}),
    "sql": ("tahoe.cli.duckdb_queries", {"duckdb": {"duckdb"}}),
    "testing": ("tahoe.testing", {"pytest": {"pytest"}}),
}


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", text, maxsplit=1)[0] for text in requirements}


def imported(module: str) -> Iterator[str]:
    """The packages that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(Path(ROOT / "src" / module).read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            continue  # a module of the same package
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            yield node.module.split(".")[0]


MODULES = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "tahoe").rglob("*.py")}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_every_package_that_is_imported_is_declared(module: str) -> None:
    dotted = module.removesuffix(".py").replace("/", ".")
    allowed = {"tahoe", *names(PROJECT["dependencies"])}
    for place, brought in EXTRAS.values():
        if dotted.startswith(place):
            allowed |= set().union(*brought.values())
    assert {name for name in imported(module) if name not in sys.stdlib_module_names} <= allowed


def test_every_package_that_is_declared_is_imported() -> None:
    """tzdata is none that is imported: the standard library finds it."""
    found = {name for module in MODULES for name in imported(module)}
    assert names(PROJECT["dependencies"]) - {"tzdata"} <= found
    assert {extra: names(needed) for extra, needed in PROJECT["optional-dependencies"].items()} == {
        extra: set(brought) for extra, (_, brought) in EXTRAS.items()
    }
