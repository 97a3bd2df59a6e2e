"""Views of a catalog: a database keeps them, and a server serves them. What runs them is in `tests/spark`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from tahoe.catalog import Catalog, View
from tahoe.catalog.grants import CREATE_TABLE, MODIFY, SELECT, USE_CATALOG, USE_SCHEMA
from tahoe.catalog.server.app import OWN
from tahoe.catalog.server.service import Service
from tahoe.catalog.tables_of_database import SCHEMAS, TABLES
from tahoe.catalog.views import SIZE_MAX_BYTES
from tahoe.errors import (
    CatalogNameTakenError,
    CatalogRefusedError,
    CatalogTableNotFoundError,
    CatalogViewNotFoundError,
    InvalidArgumentError,
    SchemaNotEmptyError,
    SchemaNotFoundError,
)
from tests.catalog.serving import Served, listening, served

SCHEMA = pa.schema([("id", pa.int64())])
LARGE = View(
    text="SELECT id FROM orders WHERE id > 9",
    schema='{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}',
    catalog="lake",
    namespace=("shop",),
    configurations={"spark.sql.ansi.enabled": "true"},
    query_columns=("id",),
    schema_mode="COMPENSATION",
    properties={"comment": "large ones", "a": "b"},
)


@pytest.fixture(params=["sqlite", "postgresql", "server of sqlite"])
def catalog(request: pytest.FixtureRequest, new_database: Callable[[str], str], tmp_path: Path) -> Iterator[Catalog]:
    server, _, kind = request.param.rpartition(" of ")
    url, root = new_database(kind), str(tmp_path / "lake")
    direct = Catalog(url, root=root)
    direct.create_schema("shop")
    direct.create_table("shop.orders", SCHEMA)
    if server:
        with listening(Service(url, name="lake", root=root, needs_token=False)) as at:
            yield Catalog(at)
    else:
        yield direct


def test_a_view_is_kept_as_it_was_made(catalog: Catalog) -> None:
    catalog.create_view("shop.Large", LARGE)
    assert catalog.view("SHOP.large") == LARGE
    small = View.of("SELECT * FROM orders", SCHEMA, comment="small")
    with pytest.raises(CatalogNameTakenError):
        catalog.create_view("shop.large", small)
    catalog.create_view("shop.large", small, replace=True)
    catalog.create_view("shop.another", LARGE, replace=True)
    assert catalog.view("shop.large") == small
    assert catalog.views() == catalog.views("shop") == ["shop.another", "shop.large"]
    catalog.drop_view("shop.large")
    with pytest.raises(CatalogViewNotFoundError, match=r"shop\.large"):
        catalog.view("shop.large")
    with pytest.raises(CatalogViewNotFoundError):
        catalog.drop_view("shop.large")
    with pytest.raises(SchemaNotFoundError):
        catalog.create_view("nowhere.large", LARGE)


def test_tables_and_views_share_their_names(catalog: Catalog) -> None:
    catalog.create_view("shop.large", LARGE)
    for replaces in (False, True):
        with pytest.raises(CatalogNameTakenError):
            catalog.create_view("shop.orders", LARGE, replace=replaces)
    with pytest.raises(CatalogNameTakenError):
        catalog.create_table("shop.large", SCHEMA)
    with pytest.raises(CatalogViewNotFoundError):
        catalog.drop_view("shop.orders")
    for call in (catalog.table, catalog.drop_table, catalog.snapshot().table):
        with pytest.raises(CatalogTableNotFoundError):
            call("shop.large")
    with catalog.transaction() as changes, pytest.raises(CatalogTableNotFoundError):
        changes.table("shop.large")
    assert [entry.name for entry in catalog.tables()] == ["shop.orders"]
    with pytest.raises(SchemaNotEmptyError):
        catalog.drop_schema("shop")
    catalog.drop_table("shop.orders")
    with pytest.raises(SchemaNotEmptyError):
        catalog.drop_schema("shop")
    catalog.drop_schema("shop", cascade=True)
    assert (catalog.schemas(), catalog.views()) == ([], [])


def test_a_view_gets_another_name(catalog: Catalog) -> None:
    catalog.create_view("shop.large", LARGE)
    if catalog.url.startswith("http"):
        with pytest.raises(CatalogRefusedError, match="renames"):
            catalog.rename_table("shop.large", "shop.big")
        return
    with pytest.raises(CatalogNameTakenError):
        catalog.rename_table("shop.large", "shop.orders")
    catalog.rename_table("shop.large", "shop.big")
    assert (catalog.views(), catalog.view("shop.big")) == (["shop.big"], LARGE)


def test_of_several_who_replace_a_view_the_last_one_wins(catalog: Catalog) -> None:
    """None of them is refused, whether it makes the view or replaces it."""
    failed = list[Exception]()

    def work(number: int) -> None:
        try:
            for each in range(5):
                catalog.create_view("shop.large", View.of(f"SELECT {number} AS n, {each} AS e", SCHEMA), replace=True)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert catalog.view("shop.large").text.endswith("4 AS e")


@pytest.mark.parametrize(
    "view",
    [
        "SELECT 1 AS id",
        replace(LARGE, text=""),
        replace(LARGE, text="SELECT '\ud800'"),
        replace(LARGE, schema="garbage"),
        replace(LARGE, schema='{"type":"struct","fields":[5]}'),
        replace(LARGE, query_columns=("id", "other")),
        replace(LARGE, schema_mode="EVOLUTION"),
        replace(LARGE, properties={"a": 5}),  # type: ignore[dict-item]
    ],
)
def test_what_no_session_could_read_is_no_view(catalog: Catalog, view: View) -> None:
    """A view with SCHEMA EVOLUTION could be read until its tables change."""
    with pytest.raises(InvalidArgumentError):
        catalog.create_view("shop.large", view)
    assert catalog.views() == []


def test_a_view_has_a_size_at_most_and_keeps_what_is_smaller(catalog: Catalog) -> None:
    rest = SIZE_MAX_BYTES - len(LARGE.to_json())
    longest = replace(LARGE, text=LARGE.text + "-" * rest)
    catalog.create_view("shop.large", longest)
    assert catalog.view("shop.large") == longest
    with pytest.raises(InvalidArgumentError, match="at most 1,048,576 bytes"):
        catalog.create_view("shop.larger", replace(longest, text=f"{longest.text}-"))
    assert catalog.views() == ["shop.large"]


def test_a_table_that_is_made_meanwhile_keeps_its_name(new_database: Callable[[str], str], tmp_path: Path) -> None:
    """The database is not called unavailable then."""
    catalog = Catalog(new_database("postgresql"), root=str(tmp_path / "lake"))
    catalog.create_schema("shop")
    row = {"id": "t", "name": "large", "kind": "external", "url": "/data/large", "created_ms": 1, "latest_version": -1}
    failed = list[Exception]()

    def work() -> None:
        try:
            catalog.create_view("shop.large", LARGE)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    with catalog.engine.begin() as connection:
        schema_id = connection.execute(sa.select(SCHEMAS.c.id)).scalar()
        connection.execute(sa.insert(TABLES).values(schema_id=schema_id, **row))
        thread.start()
        thread.join(timeout=1)  # it waits for this transaction
    thread.join()
    assert [type(error) for error in failed] == [CatalogNameTakenError]


# --- what a server tells, and to whom


@pytest.fixture
def lake(tmp_path: Path) -> Served:
    found = served(tmp_path)
    found.catalog.create_schema("shop")
    found.catalog.create_table("shop.orders", SCHEMA)
    found.catalog.create_view("shop.large", LARGE)
    return found


def body(name: str, **given: object) -> dict[str, object]:
    view = json.loads(LARGE.to_json())
    return {"catalog_name": "lake", "schema_name": "shop", "name": name, "view": view, **given}


def test_clients_of_unity_see_views_among_the_tables(lake: Served) -> None:
    admin = lake.client("ada", "ADMIN")
    told = admin.get("/tables/lake.shop.large")
    assert (told["table_type"], told["view_definition"], told["comment"]) == ("VIEW", LARGE.text, "large ones")
    assert [column["type_text"] for column in told["columns"]] == ["bigint"]
    listed = admin.get("/tables", catalog_name="lake", schema_name="shop")["tables"]
    assert [(table["name"], "view_definition" in table) for table in listed] == [("large", False), ("orders", False)]
    asked = {"table_id": told["table_id"], "operation": "READ"}
    assert admin.refused("POST", "/temporary-table-credentials", asked) == (404, "TABLE_NOT_FOUND")
    assert admin.refused("DELETE", "/tables/lake.shop.large") == (404, "TABLE_NOT_FOUND")
    assert admin.refused("GET", "/views/lake.shop.orders", under=OWN) == (404, "TABLE_NOT_FOUND")


def test_a_view_is_for_those_to_whom_it_was_granted(lake: Served) -> None:
    admin, guest = lake.client("ada", "ADMIN"), lake.client("guest", USE_CATALOG, USE_SCHEMA)
    at = "/views/lake.shop.large"
    assert guest.refused("GET", at, under=OWN) == (404, "TABLE_NOT_FOUND")
    admin.patch("/permissions/table/lake.shop.large", changes=[{"principal": "guest", "add": [MODIFY]}])
    assert guest.refused("GET", at, under=OWN) == (403, "PERMISSION_DENIED")
    listed = guest.get("/tables", catalog_name="lake", schema_name="shop")["tables"]
    assert ["view_definition" in told for told in (guest.get("/tables/lake.shop.large"), *listed)] == [False, False]
    admin.patch("/permissions/table/lake.shop.large", changes=[{"principal": "guest", "add": [SELECT]}])
    assert View.from_json(json.dumps(guest.get(at, under=OWN)["view"])) == LARGE
    assert guest.refused("DELETE", at, under=OWN) == (403, "PERMISSION_DENIED")
    assert guest.refused("POST", "/views", body("large", replace=True), under=OWN) == (403, "PERMISSION_DENIED")
    assert guest.refused("POST", "/views", body("other"), under=OWN) == (403, "PERMISSION_DENIED")
    assert guest.refused("GET", "/tables/lake.shop.orders") == (404, "TABLE_NOT_FOUND")


def test_who_makes_a_view_owns_it(lake: Served) -> None:
    maker = lake.client("maker", USE_CATALOG, USE_SCHEMA, CREATE_TABLE)
    assert maker.call("POST", "/views", body("own"), under=OWN) == (200, {})
    assert maker.refused("POST", "/views", body("own"), under=OWN) == (409, "TABLE_ALREADY_EXISTS")
    assert maker.call("POST", "/views", body("own", replace=True), under=OWN) == (200, {})
    assert maker.get("/tables/lake.shop.own")["owner"] == "maker"
    assert maker.call("DELETE", "/views/lake.shop.own", under=OWN) == (200, {})


@pytest.mark.parametrize(
    "change",
    [
        {"text": ""},
        {"text": 5},
        {"schema": "no"},
        {"schema": "[]"},
        {"namespace": "shop"},
        {"configurations": {"a": 1}},
    ],
)
def test_a_view_that_is_none_is_refused(lake: Served, change: dict[str, object]) -> None:
    given = body("other")
    given["view"] = {**json.loads(LARGE.to_json()), **change}
    admin = lake.client("ada", "ADMIN")
    assert admin.refused("POST", "/views", given, under=OWN) == (400, "INVALID_ARGUMENT")
    assert lake.catalog.views() == ["shop.large"]
