"""Clients of Unity Catalog against `tahoe catalog serve`: they find tables by their names, read them and commit to them,
in turn with tahoe.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tests.catalog.commands import fine, serving
from tests.catalog.serving import appended, staged

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-unity" / "bin" / "python"


@pytest.fixture(autouse=True)
def installed() -> None:
    if not (ROOT / ".venv-unity" / "installed").exists():
        tell = pytest.fail if os.environ.get("TAHOE_REFERENCE") == "required" else pytest.skip
        tell("NOT RUN: the clients of Unity Catalog are not installed: make interop")


def program(name: str, *arguments: str) -> list[Any]:
    command = [str(PYTHON), str(Path(__file__).with_name(name)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={"HOME": os.environ["HOME"]})
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lake.db"


@pytest.fixture
def orders(url: str, tmp_path: Path) -> tahoe.Table:
    catalog = tahoe.Catalog(url, root=str(tmp_path / "lake"))
    catalog.create_schema("shop")
    made = catalog.create_table("shop.orders", pa.schema([("id", pa.int64()), ("item", pa.string())]))
    made.append(pa.table({"id": [1, 2], "item": ["tea", "rice"]}))
    return made


def admin(url: str) -> str:
    token = fine("token", url, "ada").strip()
    fine("grant", url, "ada", "ADMIN")
    fine("token", url, "bob")
    return token


def test_the_python_sdk(url: str, orders: tahoe.Table, tmp_path: Path) -> None:
    """Its `get_commits` is left out: it sends the request without its body."""
    elsewhere = tahoe.Table(tmp_path / "elsewhere")
    elsewhere.append(pa.table({"id": [7]}))
    stamp = orders.snapshot().timestamp_ms + 1
    commit = tmp_path / "commit.json"
    commit.write_text(json.dumps(staged(orders.url, 2, appended(stamp), stamp)))
    token = admin(url)
    with serving(url, "--root", str(tmp_path / "lake")) as (_, at):
        (found,) = program("unity_sdk.py", at, token, elsewhere.url, str(commit))
    assert found["catalogs"] == ["lake"]
    assert (found["schemas"], found["tables"], found["refused"]) == (["sdk", "shop"], ["other"], [404, 404, 400])
    assert found["orders"]["storage_location"] == found["credentials"] == orders.url
    assert found["orders"]["table_type"] == "MANAGED"
    assert [(each["name"], each["type_name"]) for each in found["orders"]["columns"]] == [
        ("id", "LONG"),
        ("item", "STRING"),
    ]
    assert found["grants"] == {"privilege_assignments": [{"principal": "bob", "privileges": ["SELECT"]}]}
    catalog = tahoe.Catalog(url)
    assert catalog.table("sdk.other").count() == 1
    assert catalog.table("shop.orders").version == 2


def test_duckdb_reads_and_writes(url: str, orders: tahoe.Table, tmp_path: Path) -> None:
    catalog, token = tahoe.Catalog(url), admin(url)
    select = "SELECT id, item FROM lake.shop.orders ORDER BY id"
    with serving(url, "--root", str(tmp_path / "lake")) as (_, at):
        read, _, again = program(
            "unity_duckdb.py", at, token, select, "INSERT INTO lake.shop.orders VALUES (3, 'salt')", select
        )
        assert (read, again) == ([[1, "tea"], [2, "rice"]], [[1, "tea"], [2, "rice"], [3, "salt"]])
        assert sorted(catalog.table("shop.orders").to_arrow()["id"].to_pylist()) == [1, 2, 3]
        with catalog.transaction() as changes:
            changes.table("shop.orders").delete("id = 1")
            changes.table("shop.orders").append(pa.table({"id": [4], "item": ["oil"]}))
        (read,) = program("unity_duckdb.py", at, token, select)
        assert [row[0] for row in read] == [2, 3, 4]
        guest = fine("token", url, "guest").strip()
        fine("grant", url, "guest", "USE")
        fine("grant", url, "guest", "USE", "shop")
        fine("grant", url, "guest", "SELECT", "shop.orders")
        read, refused = program("unity_duckdb.py", at, guest, select, "INSERT INTO lake.shop.orders VALUES (9, 'x')")
        assert len(read) == 3
        assert isinstance(refused, str), refused
    assert orders.count() == 3
