"""The Delta tables API: a table is loaded with its commits, and changed under assertions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.catalog.grants import SELECT, USE_CATALOG, USE_SCHEMA
from tahoe.storage.background import finish_background
from tests.catalog.serving import Client, Served, appended, first_version, served, staged

SCHEMA = "/delta/v1/catalogs/lake/schemas/shop"
ORDERS = f"{SCHEMA}/tables/orders"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Served]:
    found = served(tmp_path, credentials={"s3://bucket": {"access_key_id": "1", "secret_access_key": "2"}})
    found.catalog.create_schema("shop")
    yield found
    finish_background()


@pytest.fixture
def admin(lake: Served) -> Client:
    return lake.client("ada", "ADMIN")


@pytest.fixture
def orders(lake: Served) -> tahoe.Table:
    return lake.catalog.create_table(
        "shop.orders", pa.schema([("id", pa.int64()), ("day", pa.date32())]), partition_by=["day"]
    )


def added(commit: dict[str, Any], **requirements: str) -> dict[str, Any]:
    """An update that adds a commit."""
    kinds = {"uuid": "assert-table-uuid", "etag": "assert-etag"}
    asserted = [{"type": kinds[name], name: value} for name, value in requirements.items()]
    told = {name.replace("_", "-"): value for name, value in commit.items()}
    return {"requirements": asserted, "updates": [{"action": "add-commit", "commit": told}]}


def appending(table: tahoe.Table, version: int) -> dict[str, Any]:
    stamp = max(table.snapshot().timestamp_ms + 1, time.time_ns() // 1_000_000)
    return staged(table.url, version, appended(stamp, f"{version}.parquet"), stamp)


def refused(found: tuple[int, Any]) -> tuple[int, str]:
    status, told = found
    assert set(told["error"]) == {"message", "type", "code"}
    assert told["error"]["code"] == status
    return status, told["error"]["type"]


def test_a_table_is_loaded_with_its_commits(
    orders: tahoe.Table, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tahoe.catalog.server.commits.in_background", lambda work: None)
    told = admin.get(ORDERS)
    metadata = told["metadata"]
    assert (told["commits"], told["latest-table-version"], metadata["location"]) == ([], 0, orders.url)
    assert (metadata["table-type"], metadata["partition-columns"]) == ("MANAGED", ["day"])
    assert [field["type"] for field in metadata["columns"]["fields"]] == ["long", "date"]
    assert metadata["properties"]["delta.feature.catalogManaged"] == "supported"
    commit = appending(orders, 1)
    told = admin.post(ORDERS, **added(commit, uuid=metadata["table-uuid"], etag=metadata["etag"]))
    assert told == admin.get(ORDERS)
    assert told["commits"] == [{name.replace("_", "-"): value for name, value in commit.items()}]
    assert told["latest-table-version"] == told["metadata"]["last-commit-version"] == 1
    assert told["metadata"]["last-commit-timestamp-ms"] == commit["timestamp"]
    (Path(orders.url.removeprefix("file://")) / "_delta_log" / f"{1:020}.json").write_bytes(
        orders.env.store.get(f"_delta_log/_staged_commits/{commit['file_name']}")
    )
    published = {"action": "set-latest-backfilled-version", "latest-published-version": 1}
    assert admin.post(ORDERS, updates=[published])["commits"] == []


def test_an_update_that_asserts_what_is_not_so_is_refused(orders: tahoe.Table, admin: Client) -> None:
    etag = admin.get(ORDERS)["metadata"]["etag"]
    admin.post(ORDERS, **added(appending(orders, 1)))
    for name, value in (("etag", etag), ("uuid", "other")):
        found = refused(admin.call("POST", ORDERS, added(appending(orders, 2), **{name: value})))
        assert found == (409, "UpdateRequirementConflictException"), name
    found = refused(admin.call("POST", ORDERS, added(appending(orders, 1))))
    assert found == (409, "CommitVersionConflictException")
    for updates in ([{"action": "set-properties", "updates": {}}], [{"action": "fly"}], [{}], "x"):
        assert refused(admin.call("POST", ORDERS, {"updates": updates}))[0] in (400, 501)
    assert orders.version == 1


def test_a_managed_table_is_made(lake: Served, admin: Client) -> None:
    staging = admin.post(f"{SCHEMA}/staging-tables", name="stock")
    first_version(staging["location"])
    made = admin.post(f"{SCHEMA}/tables", **{"name": "stock", "location": staging["location"], "table-type": "MANAGED"})
    assert made["metadata"]["table-uuid"] == staging["table-id"]
    lake.catalog.table("shop.stock").append(pa.table({"id": [1]}))
    assert admin.get(f"{SCHEMA}/tables/stock")["latest-table-version"] == 1
    admin.delete(f"{SCHEMA}/tables/stock")
    assert refused(admin.call("GET", f"{SCHEMA}/tables/stock")) == (404, "NoSuchTableException")


@pytest.mark.usefixtures("lake")
def test_an_external_table_has_no_commits(admin: Client) -> None:
    fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    given = {"name": "other", "location": "s3://bucket/other", "table-type": "EXTERNAL"}
    made = admin.post(f"{SCHEMA}/tables", **given, columns={"type": "struct", "fields": fields})
    assert (made["commits"], made["metadata"]["columns"]["fields"]) == ([], fields)
    (told,) = admin.get(f"{SCHEMA}/tables/other/credentials", operation="READ")["storage-credentials"]
    assert told["config"] == {"s3.access-key-id": "1", "s3.secret-access-key": "2"}
    assert refused(admin.call("POST", f"{SCHEMA}/tables/other", added({"version": 1}, uuid="x")))[0] == 400


def test_grants_hold_here_too(lake: Served, orders: tahoe.Table) -> None:
    nobody, reader = lake.client("nobody"), lake.client("reader", USE_CATALOG, USE_SCHEMA, SELECT)
    assert refused(nobody.call("GET", ORDERS)) == (404, "NoSuchCatalogException")
    reader.get(ORDERS)
    assert refused(reader.call("POST", ORDERS, added(appending(orders, 1)))) == (403, "PermissionDeniedException")
    assert refused(reader.call("GET", f"{ORDERS}/credentials", operation="READ_WRITE"))[0] == 403
    assert refused(reader.call("DELETE", ORDERS))[0] == 403
    assert refused(reader.call("POST", f"{SCHEMA}/staging-tables", {"name": "stock"}))[0] == 403


def test_what_the_server_has_of_the_api_is_told(admin: Client) -> None:
    assert (
        f"GET {SCHEMA.replace('lake', '{catalog}').replace('shop', '{schema}')}/tables/{{table}}"
        in admin.get("/delta/v1/config")["endpoints"]
    )
