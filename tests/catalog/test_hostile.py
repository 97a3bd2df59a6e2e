"""Clients of a server that want what is not theirs, or harm to a table; makers and users of tables that die half-way."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.catalog.catalog import Catalog, _Publishing, managed_properties
from tahoe.catalog.grants import MODIFY, SELECT, USE_CATALOG, USE_SCHEMA
from tahoe.catalog.server.app import _body
from tahoe.catalog.server.refusals import Refusal
from tahoe.errors import CatalogNameError, CatalogUnavailableError, CatalogUrlError, StorageRefusedError
from tahoe.protocol.log.actions import Action, DeletionVectorDescriptor, DomainMetadata
from tahoe.storage.background import finish_background
from tahoe.storage.locations import local_path
from tests.catalog.serving import Client, Served, appended, first_version, served, staged

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32())])
COMMITS = "/delta/preview/commits"
LAST_MS = 253_402_300_799_999  # the end of year 9999


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Served]:
    found = served(tmp_path)
    found.catalog.create_schema("shop")
    yield found
    finish_background()


@pytest.fixture
def admin(lake: Served) -> Client:
    return lake.client("ada", "ADMIN")


def made(lake: Served) -> tahoe.Table:
    properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    tracked = {**properties, "delta.enableRowTracking": "true"}
    return lake.catalog.create_table("shop.orders", SCHEMA, partition_by=["day"], properties=tracked)


def proposed(lake: Served, client: Client, table: tahoe.Table, actions: list[Action]) -> tuple[int, Any]:
    info = staged(table.url, table.version + 1, actions, 1)
    asked = {name: value for name, value in info.items() if name != "timestamp"}
    table_id = lake.catalog.located("shop.orders")[0]
    return client.call("POST", COMMITS, {"table_id": table_id, "table_uri": table.url, "commit_info": asked})


# --- commits that can be read, and harm


def _vector(kind: str, path: str) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor(storage_type=kind, path_or_inline=path, size_bytes=40, cardinality=1, offset=1)


def _harmful(table: tahoe.Table, now: int) -> dict[str, list[Action]]:
    metadata, ours = table.snapshot().metadata, table.snapshot().metadata.configuration
    info, add = appended(now)
    add = add.replace(base_row_id=0, default_row_commit_version=1)
    fields = json.loads(metadata.schema_string)
    unmapped = [{**field, "metadata": {}} for field in fields["fields"]]
    mark = DomainMetadata(domain="delta.rowTracking", configuration='{"rowIdHighWaterMark": -7}', removed=False)
    twice = [*fields["fields"], {**fields["fields"][0], "name": "ID"}]
    return {
        "the end of all times": [appended(LAST_MS)[0], add],
        "two days ahead": [appended(now + 2 * 86_400_000)[0], add],
        "a vector elsewhere": [info, add.replace(deletion_vector=_vector("u", "../../x/vBn[lx{q8@P<9BNH/isA"))],
        "a vector of no kind": [info, add.replace(deletion_vector=_vector("q", "x"))],
        "the folder": [info, add.replace(path=".")],
        "no name": [info, add.replace(path="")],
        "the log": [info, add.replace(path="_delta_log")],
        "absolute for Java": [info, add.replace(path="%2Fetc%2Fpasswd")],
        "no day": [info, add.replace(partition_values={_stored(fields, "day"): "banana"})],
        "no row ids": [info, add.replace(base_row_id=None)],
        "ids again": [info, mark],
        "columns without ids": [info, metadata.replace(schema_string=json.dumps({**fields, "fields": unmapped}))],
        "columns in other case": [info, metadata.replace(schema_string=json.dumps({**fields, "fields": twice}))],
        "ids that come back": [info, metadata.replace(configuration={**ours, "delta.columnMapping.maxColumnId": "0"})],
        "no interval": [info, metadata.replace(configuration={**ours, "delta.logRetentionDuration": "garbage"})],
        "no isolation": [info, metadata.replace(configuration={**ours, "delta.isolationLevel": "none"})],
        "partitioned twice": [info, metadata.replace(partition_columns=("day", "day"))],
    }


def _stored(fields: Any, name: str) -> str:
    (found,) = (field for field in fields["fields"] if field["name"] == name)
    return str(found["metadata"]["delta.columnMapping.physicalName"])


def test_a_commit_that_harms_readers_or_writers_is_refused(lake: Served, admin: Client) -> None:
    table = made(lake)
    now = time.time_ns() // 1_000_000 + 1
    for why, actions in _harmful(table, now).items():
        status, told = proposed(lake, admin, table, actions)
        assert (status, told.get("error_code")) == (400, "INVALID_ARGUMENT"), (why, told)
    info, add = appended(now)
    fields = json.loads(table.snapshot().metadata.schema_string)
    day = {_stored(fields, "day"): "2026-01-31"}
    legal = [info, add.replace(base_row_id=0, default_row_commit_version=1, partition_values=day)]
    assert proposed(lake, admin, table, legal)[0] == 200


def test_a_first_version_has_a_time_of_today(admin: Client) -> None:
    names = {"catalog_name": "lake", "schema_name": "shop", "name": "stock"}
    url = admin.post("/staging-tables", **names)["staging_location"]
    first_version(url)
    file = Path(local_path(url)) / "_delta_log" / f"{0:020}.json"
    file.write_text(file.read_text().replace('"inCommitTimestamp":1', f'"inCommitTimestamp":{LAST_MS}'))
    given = {**names, "table_type": "MANAGED", "storage_location": url}
    assert admin.refused("POST", "/tables", given) == (400, "INVALID_ARGUMENT")


# --- who may see what


def test_a_folder_does_not_tell_of_the_table_in_it(lake: Served) -> None:
    table = made(lake)
    guest = lake.client("guest", USE_CATALOG, USE_SCHEMA)
    asked = {"operation": "PATH_READ"}
    there = guest.call("POST", "/temporary-path-credentials", {"url": table.url, **asked})
    nothing = guest.call("POST", "/temporary-path-credentials", {"url": f"{table.url}x", **asked})
    assert there[0] == nothing[0] == 403
    assert there[1]["message"].replace(table.url, "") == nothing[1]["message"].replace(f"{table.url}x", "")


def test_a_folder_with_two_names_is_read_by_either(lake: Served, admin: Client, tmp_path: Path) -> None:
    names = {"catalog_name": "lake", "schema_name": "shop", "table_type": "EXTERNAL"}
    for name in ("one", "other"):
        admin.post("/tables", **names, name=name, storage_location=str(tmp_path / "elsewhere"))
    lake.client("guest", USE_CATALOG, USE_SCHEMA)
    asked = {"url": str(tmp_path / "elsewhere"), "operation": "PATH_READ"}
    for name in ("one", "other"):
        change = [{"principal": "guest", "add": [SELECT]}]
        admin.patch(f"/permissions/table/lake.shop.{name}", changes=change)
        guest = lake.client("guest")
        assert guest.post("/temporary-path-credentials", **asked)["url"].endswith("elsewhere")
        assert guest.refused("POST", "/temporary-path-credentials", {**asked, "operation": "PATH_READ_WRITE"})[0] == 403
        admin.patch(f"/permissions/table/lake.shop.{name}", changes=[{"principal": "guest", "remove": [SELECT]}])


def test_a_location_is_not_one_of_the_server(lake: Served, admin: Client) -> None:
    guest = lake.client("guest", USE_CATALOG)
    for url in ("x", "~/x", "./x", "file:x"):
        for client in (guest, admin):
            status, told = client.call("POST", "/temporary-path-credentials", {"url": url, "operation": "PATH_READ"})
            assert (status, str(Path.cwd()) in json.dumps(told)) == (400, False), told


def test_an_update_needs_what_its_answer_needs(lake: Served) -> None:
    table = lake.catalog.create_table("shop.orders", SCHEMA)
    writer = lake.client("writer", USE_CATALOG, USE_SCHEMA, MODIFY)
    stamp = time.time_ns() // 1_000_000 + 1
    commit = {name.replace("_", "-"): value for name, value in staged(table.url, 1, appended(stamp), stamp).items()}
    body = {"updates": [{"action": "add-commit", "commit": commit}]}
    assert writer.call("POST", "/delta/v1/catalogs/lake/schemas/shop/tables/orders", body)[0] == 403
    assert table.version == 0


def test_who_is_not_known_sends_no_body(lake: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(_: object) -> bytes:
        raise AssertionError

    monkeypatch.setattr("tahoe.catalog.server.app._body", read)
    assert Client(lake.http, "tahoe_wrong").refused("POST", "/schemas", {"name": "x"}) == (401, "UNAUTHENTICATED")


def test_a_body_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        async def stream(self) -> AsyncIterator[bytes]:
            yield b"{"
            await asyncio.sleep(60)

    monkeypatch.setattr("tahoe.catalog.server.app._BODY_SECONDS", 0.01)
    # On a thread of its own: the browser of other tests leaves a running event loop on the main one.
    with ThreadPoolExecutor(1) as thread, pytest.raises(Refusal) as caught:
        thread.submit(asyncio.run, _body(Slow())).result()  # type: ignore[arg-type]  # no more of a request is used
    assert caught.value.status == 408


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg//u:hidden@h/x",
        "postgresql+psycopg://u:hidden@h:port/x",
        "postgresql+psycopg:///x?host=127.0.0.1&port=9&user=u&password=hidden",
        "sqlite:////nothing/x.db?sslpassword=hidden",
    ],
)
@pytest.mark.filterwarnings("ignore:Query string")
def test_passwords_of_a_database_are_not_shown(url: str) -> None:
    with pytest.raises((CatalogUrlError, CatalogUnavailableError)) as caught:
        Catalog(url)
    assert "hidden" not in str(caught.value)


# --- makers and users that die


@pytest.fixture
def unpublished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Publishing, "committed", lambda *_: None)


@pytest.fixture
def catalog(url: str, tmp_path: Path) -> Catalog:
    found = Catalog(url, root=str(tmp_path / "lake"))
    found.create_schema("shop")
    return found


@pytest.mark.usefixtures("unpublished")
def test_a_table_whose_folder_is_gone_can_be_dropped(catalog: Catalog) -> None:
    table = catalog.create_table("shop.orders", SCHEMA)
    table.append(pa.table({"id": [1]}))
    finish_background()
    shutil.rmtree(local_path(table.url))
    catalog.drop_table("shop.orders")
    assert catalog.tables() == []


@pytest.mark.usefixtures("unpublished")
def test_what_is_committed_while_a_table_is_dropped_is_published(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table("shop.orders", SCHEMA)
    publish, left = type(table.env.store).publish, [1]

    def beside_a_writer(store: Any) -> int:
        published: int = publish(store)
        if left:
            left.pop()
            table.append(pa.table({"id": [1]}))
        return published

    monkeypatch.setattr("tahoe.storage.managed.ManagedStore.publish", beside_a_writer)
    catalog.drop_table("shop.orders")
    assert catalog.tables() == []
    log = Path(local_path(table.url)) / "_delta_log"
    assert sorted(path.name for path in log.glob("*.json")) == [f"{0:020}.json", f"{1:020}.json"]


def test_a_table_that_never_goes_still_is_dropped(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever commits without end does not keep the name."""
    catalog.create_table("shop.orders", SCHEMA)
    with catalog._begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO commits (table_id, version, file, size_bytes, modified_ms) SELECT id, 9, 'x', 1, 1 FROM tables"
        )
    monkeypatch.setattr("tahoe.storage.managed.ManagedStore.publish", lambda _: 0)
    catalog.drop_table("shop.orders")
    assert catalog.tables() == []


def test_a_folder_is_one_table_s(catalog: Catalog, tmp_path: Path) -> None:
    """Two makers at once: each would take the other's files for left-overs."""
    place = str(tmp_path / "orders")
    with catalog.new_table("shop.one", location=place) as (table_id, url):
        with pytest.raises(CatalogNameError, match="has a table in"):
            catalog.create_table("shop.other", SCHEMA, location=place)
        catalog.open(table_id, url).create(SCHEMA, properties=managed_properties(table_id))
    assert [entry.name for entry in catalog.tables()] == ["shop.one"]


def test_a_table_that_cannot_be_published_when_it_is_made_has_no_name(catalog: Catalog, tmp_path: Path) -> None:
    place = tmp_path / "orders"
    with pytest.raises(tahoe.errors.DeltaError), catalog.new_table("shop.one", location=str(place)) as (table_id, url):
        (place / "_delta_log").mkdir(parents=True)
        (place / "_delta_log" / f"{0:020}.json").write_text("{}")
        catalog.open(table_id, url).create(SCHEMA, properties=managed_properties(table_id))
    assert catalog.tables() == []


@pytest.mark.parametrize(
    "write", [lambda table: table.append(pa.table({"id": [1]})), lambda table: table.create(SCHEMA)]
)
def test_a_name_whose_maker_has_died_is_not_made_by_others(
    catalog: Catalog, tmp_path: Path, write: Callable[[tahoe.Table], object]
) -> None:
    """They would make a table that who opens it by its path takes for an ordinary one."""
    entry = {"id": "1", "name": "orders", "url": f"file://{tmp_path}/orders", "latest_version": -1}
    catalog._enter("shop", "shop.orders", entry)
    with pytest.raises(StorageRefusedError, match="has not finished"):
        write(catalog.table("shop.orders"))
    catalog.drop_table("shop.orders")
    catalog.create_table("shop.orders", SCHEMA)
