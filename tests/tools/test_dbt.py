"""A dbt project, as it is for delta-spark, is built on two days: what dbt does to tables is what it says that it
does.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tahoe
from tests.tools.conftest import Run

PROJECT = Path(__file__).with_name("shop")
SECOND_DAY = {
    "raw_orders.csv": "id,customer_id,day,amount\n1,1,2026-01-01,10.50\n2,1,2026-01-01,6.25\n3,2,2026-01-02,7.00\n4,2,2026-01-02,1.75\n"
    "5,2,2026-01-02,9.00\n",
    "raw_customers.csv": "id,name,country,changed_at\n1,Ada,US,2026-02-01 00:00:00\n2,Blaise,FR,2026-01-01 00:00:00\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PROJECT, tmp_path / "shop"))


def table(project: Path, name: str) -> tahoe.Table:
    return tahoe.Table(str(project / "warehouse" / "shop.db" / name))


def rows(project: Path, name: str, *columns: str) -> list[tuple[Any, ...]]:
    found = table(project, name).to_arrow(columns=list(columns))
    return sorted(
        tuple(map(str, row)) for row in zip(*(found.column(column).to_pylist() for column in columns), strict=True)
    )


def test_two_days_of_a_shop(run: Run, project: Path) -> None:
    """Seeds, models of every kind, snapshots, contracts, comments, tests and docs, with a Hive metastore."""
    variables = {"SHOP_FOLDER": str(project), "SHOP_CATALOG": "hive", "DBT_PROFILES_DIR": str(project)}
    run("dbt", "build", cwd=project, **variables)
    first_day(project)
    for name, text in SECOND_DAY.items():
        (project / "seeds" / name).write_text(text)
    run("dbt", "build", "--vars", "{second_day: true}", cwd=project, **variables)
    second_day(project)
    run("dbt", "docs", "generate", cwd=project, **variables)
    documented(json.loads((project / "target" / "catalog.json").read_text()))


def first_day(project: Path) -> None:
    assert rows(project, "customers", "id", "total") == [("1", "14.75"), ("2", "8.75"), ("3", "0.00")]
    customers = table(project, "customers").snapshot()
    assert customers.metadata.description == "One row for each customer, with the orders' total."
    assert customers.properties["delta.constraints.positive"] == "total >= 0"
    by_name = {field.name: field for field in customers.schema.fields}
    assert by_name["name"].metadata["comment"] == "The name, it's 'quoted'"
    assert not by_name["id"].nullable
    assert rows(project, "orders_by_day", "day", "orders") == [("2026-01-01", "2"), ("2026-01-02", "2")]


def second_day(project: Path) -> None:
    assert rows(project, "orders_merged", "id", "amount", "is_large") == [
        ("1", "10.50", "True"),
        ("2", "6.25", "True"),
        ("3", "7.00", "True"),
        ("4", "1.75", "False"),
        ("5", "9.00", "True"),
    ]
    assert rows(project, "orders_appended", "id") == [("1",), ("2",), ("3",), ("4",), ("5",)]
    assert rows(project, "orders_by_day", "day", "orders") == [("2026-01-01", "2"), ("2026-01-02", "3")]
    ended = [(key, until != "None") for key, until in rows(project, "customers_snapshot", "id", "dbt_valid_to")]
    assert sorted(ended) == [("1", False), ("1", True), ("2", False), ("3", False)]
    ended = [(key, until != "None") for key, until in rows(project, "countries_snapshot", "id", "dbt_valid_to")]
    assert sorted(ended) == [("1", False), ("1", True), ("2", False), ("3", True)]
    operations = {commit["operation"] for commit in table(project, "orders_merged").history()}
    assert "MERGE" in operations


def documented(catalog: dict[str, Any]) -> None:
    customers = catalog["nodes"]["model.shop.customers"]
    assert [(name, column["type"]) for name, column in customers["columns"].items()] == [
        ("id", "integer"),
        ("name", "string"),
        ("total", "decimal(20,2)"),
    ]
    assert customers["metadata"]["type"] == "table"
    assert "model.shop.big_orders" in catalog["nodes"]
    assert "snapshot.shop.customers_snapshot" in catalog["nodes"]


def test_a_shop_without_a_metastore(run: Run, project: Path) -> None:
    """Tables are known in one process only, and are at their paths."""
    run("dbt", "build", cwd=project, SHOP_FOLDER=str(project), SHOP_CATALOG="in-memory", DBT_PROFILES_DIR=str(project))
    first_day(project)
