"""Iceberg's REST catalog: what PyIceberg's client sees of a catalog's tables, and what is not shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError, NoSuchNamespaceError, NoSuchTableError, UnauthorizedError

import tahoe
from tahoe.catalog.grants import SELECT, USE_CATALOG, USE_SCHEMA, Securable
from tahoe.catalog.server.app import PREFIX
from tahoe.storage.background import finish_background
from tests.catalog.serving import Client, Served, listening, served

FORMATS = {"delta.universalFormat.enabledFormats": "iceberg"}
UNIFORM = {"delta.enableIcebergCompatV2": "true", **FORMATS}
UNIFORM_V3 = {"delta.enableIcebergCompatV3": "true", "delta.enableDeletionVectors": "true", **FORMATS}
SCHEMA = pa.schema([("id", pa.int64()), ("item", pa.string())])
TABLE = "/iceberg/v1/catalogs/lake/namespaces/shop/tables/orders"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Served]:
    found = served(tmp_path)
    found.catalog.create_schema("shop", comment="what is sold")
    yield found
    finish_background()


@pytest.fixture
def orders(lake: Served) -> tahoe.Table:
    made = lake.catalog.create_table("shop.orders", SCHEMA, properties=UNIFORM)
    made.append(rows(1, 2))
    return made


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "item": [f"item {id}" for id in ids]}, SCHEMA)


@pytest.fixture
def at(lake: Served) -> Iterator[str]:
    with listening(lake.service) as address:
        yield f"{address}{PREFIX}/iceberg"


def reader(at: str, client: Client, **properties: str) -> RestCatalog:
    return RestCatalog("lake", uri=at, token=client.token, warehouse="lake", **properties)


def ids(catalog: RestCatalog, **scan: Any) -> list[int]:
    return sorted(catalog.load_table("shop.orders").scan(**scan).to_arrow()["id"].to_pylist())


def test_tables_are_read_as_of_the_ratified_version(lake: Served, orders: tahoe.Table, at: str) -> None:
    found = reader(at, lake.client("ada", "ADMIN"))
    assert ids(found) == [1, 2]
    orders.append(rows(3))
    orders.delete("id = 1")
    assert ids(found) == [2, 3]
    assert ids(found, row_filter="item = 'item 3'") == [3]
    snapshots = found.load_table("shop.orders").snapshots()
    (before,) = (s.snapshot_id for s in snapshots if s.summary["delta-version"] == "1")
    assert ids(found, snapshot_id=before) == [1, 2]
    with lake.catalog.transaction() as changes:
        changes.table("shop.orders").append(rows(4))
        assert ids(found) == [2, 3], "what is not ratified is not shown"
    assert ids(found) == [2, 3, 4]


def test_deletion_vectors_of_version_3_are_read(lake: Served, at: str) -> None:
    orders = lake.catalog.create_table("shop.orders", SCHEMA, properties=UNIFORM_V3)
    orders.append(rows(*range(200)))
    orders.delete("id < 198")
    found = reader(at, lake.client("ada", "ADMIN"))
    assert found.load_table("shop.orders").metadata.format_version == 3
    assert orders.snapshot().has_deletion_vectors
    assert ids(found) == [198, 199]


@pytest.mark.usefixtures("orders")
def test_an_external_table_is_read(lake: Served, at: str) -> None:
    lake.catalog.release_table("shop.orders").append(rows(3))
    assert ids(reader(at, lake.client("ada", "ADMIN"))) == [1, 2, 3]


@pytest.mark.usefixtures("orders")
def test_names_are_listed_in_pages(lake: Served, at: str) -> None:
    lake.catalog.create_table("shop.plain", SCHEMA)
    for number in range(3):
        lake.catalog.create_schema(f"s{number}")
        lake.catalog.create_table(f"shop.t{number}", SCHEMA, properties=UNIFORM)
    admin = lake.client("ada", "ADMIN")
    found = reader(at, admin)
    assert found.list_namespaces() == [("s0",), ("s1",), ("s2",), ("shop",)]
    assert found.list_namespaces("shop") == []
    assert found.list_tables("shop") == [("shop", name) for name in ("orders", "t0", "t1", "t2")]
    assert found.load_namespace_properties("shop") == {"comment": "what is sold"}
    assert (found.table_exists("shop.orders"), found.table_exists("shop.no")) == (True, False)
    page = admin.get("/iceberg/v1/catalogs/lake/namespaces", pageSize=3, pageToken="")
    assert page == {"namespaces": [["s0"], ["s1"], ["s2"]], "next-page-token": "s2"}
    assert admin.get("/iceberg/v1/catalogs/lake/namespaces", pageSize=3, pageToken="s2") == {"namespaces": [["shop"]]}


@pytest.mark.usefixtures("orders")
def test_what_may_not_be_seen_is_not_there(lake: Served, at: str) -> None:
    with pytest.raises(UnauthorizedError):
        RestCatalog("lake", uri=at, token="tahoe_wrong")
    guest = reader(at, lake.client("guest", USE_CATALOG))
    assert guest.list_namespaces() == []
    with pytest.raises(NoSuchNamespaceError):
        guest.list_tables("shop")
    visitor = reader(at, lake.client("visitor", USE_CATALOG, USE_SCHEMA))
    with pytest.raises(NoSuchTableError):
        visitor.load_table("shop.orders")
    table_id = lake.catalog.located("shop.orders")[0]
    on = Securable(kind="table", id=table_id, name="lake.shop.orders")
    lake.client("clerk", "MODIFY", on=on)
    clerk = reader(at, lake.client("clerk", USE_CATALOG, USE_SCHEMA))
    with pytest.raises(ForbiddenError, match="SELECT"):
        clerk.load_table("shop.orders")
    lake.client("clerk", SELECT, on=on)
    assert ids(clerk) == [1, 2]


def test_a_table_without_icebergs_metadata_says_how_to_get_it(lake: Served, at: str) -> None:
    lake.catalog.create_table("shop.orders", SCHEMA)
    with pytest.raises(NoSuchTableError, match="enableIcebergCompatV2"):
        reader(at, lake.client("ada", "ADMIN")).load_table("shop.orders")


def test_a_table_that_has_not_changed_is_not_sent_again(lake: Served, orders: tahoe.Table) -> None:
    admin = lake.client("ada", "ADMIN")
    headers = {"Authorization": f"Bearer {admin.token}"}
    first = lake.http.get(PREFIX + TABLE, headers=headers)
    assert first.status_code == 200
    again = lake.http.get(PREFIX + TABLE, headers={**headers, "If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    orders.append(rows(3))
    changed = lake.http.get(PREFIX + TABLE, headers={**headers, "If-None-Match": first.headers["etag"]})
    assert changed.status_code == 200
    assert changed.json()["metadata-location"] != first.json()["metadata-location"]


def test_credentials_are_handed_out_under_icebergs_names(tmp_path: Path) -> None:
    lake = served(tmp_path, credentials={"s3://bucket": {"access_key_id": "1", "secret_access_key": "2"}})
    lake.catalog.create_schema("shop")
    admin = lake.client("ada", "ADMIN")
    column = {"name": "id", "type_name": "LONG", "type_text": "bigint", "type_json": "{}", "position": 0}
    names = {"name": "orders", "catalog_name": "lake", "schema_name": "shop", "columns": [column]}
    location = {"table_type": "EXTERNAL", "data_source_format": "DELTA", "storage_location": "s3://bucket/orders"}
    admin.post("/tables", **names, **location)
    (told,) = admin.get(f"{TABLE}/credentials")["storage-credentials"]
    config = {"s3.access-key-id": "1", "s3.secret-access-key": "2"}
    assert told == {"prefix": "s3://bucket/orders", "config": config}


@pytest.mark.usefixtures("orders")
def test_what_is_not_served_is_refused_in_icebergs_form(lake: Served, at: str) -> None:
    admin = lake.client("ada", "ADMIN")
    status, told = admin.call("DELETE", TABLE)
    assert (status, told["error"]["type"], told["error"]["code"]) == (405, "UnsupportedOperationException", 405)
    status, told = admin.call("GET", "/iceberg/v1/config", warehouse="other")
    assert (status, told["error"]["type"]) == (404, "NoSuchWarehouseException")
    for path, kind in (("shop.o", "NoSuchNamespaceException"), ("shop/tables/o.rders", "NoSuchTableException")):
        status, told = admin.call("GET", f"/iceberg/v1/catalogs/lake/namespaces/{path}")
        assert (status, told["error"]["type"]) == (404, kind)
    with pytest.raises(NoSuchTableError):
        reader(at, admin).load_table("shop.none")
