"""`tahoe.Catalog` of a server: the same calls as of a database."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import tahoe
from tahoe.catalog.server_calls import _ATTEMPTS, ServerCalls
from tahoe.errors import (
    CatalogNameTakenError,
    CatalogRefusedError,
    CatalogTableNotFoundError,
    CatalogUnavailableError,
    DeltaConcurrentModificationException,
    SchemaNotEmptyError,
    SchemaNotFoundError,
    StorageRefusedError,
)
from tahoe.storage.background import finish_background
from tests.catalog.commands import fine, serving

SCHEMA = pa.schema([("id", pa.int64())])


@dataclass(frozen=True)
class Lake:
    database: str
    at: str
    token: str

    def catalog(self, token: str | None = None) -> tahoe.Catalog:
        return tahoe.Catalog(self.at, token=token or self.token)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = Path(tmp_path_factory.mktemp("lake"))
    database = f"sqlite:///{folder}/lake.db"
    token = fine("token", database, "ada").strip()
    fine("grant", database, "ada", "ADMIN")
    with serving(database, "--root", str(folder / "lake")) as (_, at):
        yield Lake(database, at, token)
        finish_background()


@pytest.fixture
def catalog(lake: Lake) -> tahoe.Catalog:
    found = lake.catalog()
    found.create_schema("shop", if_not_exists=True)
    for entry in found.tables("shop"):
        found.drop_table(entry.name)
    return found


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(table: tahoe.Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def test_a_table_is_made_written_and_read(lake: Lake, catalog: tahoe.Catalog) -> None:
    made = catalog.create_table("shop.orders", SCHEMA, comment="what was bought")
    made.append(rows(1, 2, 3))
    made.delete("id = 2")
    assert ids(made) == ids(catalog.table("shop.orders")) == [1, 3]
    database = tahoe.Catalog(lake.database)
    assert ids(database.table("shop.orders")) == [1, 3]
    database.table("shop.orders").append(rows(4))
    assert ids(made) == [1, 3, 4]
    (entry,) = catalog.tables()
    assert (entry.name, entry.kind, entry.latest_version) == ("shop.orders", "managed", 3)
    assert entry.url == made.url
    assert made.properties["io.unitycatalog.tableId"] == entry.id == catalog.located("shop.orders")[0]
    catalog.publish("shop.orders")
    assert database.tables()[0].unpublished == 0


def test_writers_take_turns(lake: Lake, catalog: tahoe.Catalog) -> None:
    catalog.create_table("shop.orders", SCHEMA).append(rows(1))
    one, other = catalog.table("shop.orders"), lake.catalog().table("shop.orders")
    with one.transaction() as changes:
        changes.append(rows(2))
        other.append(rows(3))
    assert ids(one) == [1, 2, 3]
    with pytest.raises(DeltaConcurrentModificationException), one.transaction() as changes:
        changes.delete("id = 1")
        other.delete("id <= 3")


def test_names_are_as_in_a_database(catalog: tahoe.Catalog) -> None:
    catalog.create_table("shop.orders", SCHEMA)
    with pytest.raises(CatalogNameTakenError):
        catalog.create_table("shop.orders", SCHEMA)
    with pytest.raises(CatalogNameTakenError):
        catalog.create_schema("shop")
    with pytest.raises(SchemaNotFoundError):
        catalog.create_table("bank.orders", SCHEMA)
    with pytest.raises(CatalogTableNotFoundError):
        catalog.table("shop.order")
    with pytest.raises(SchemaNotEmptyError):
        catalog.drop_schema("shop")
    catalog.drop_schema("shop", cascade=True)
    assert catalog.schemas() == []


def test_a_table_that_could_not_be_made_has_no_name(catalog: tahoe.Catalog) -> None:
    with pytest.raises(tahoe.errors.DeltaError):
        catalog.create_table("shop.orders", SCHEMA, partition_by=["missing"])
    assert catalog.tables() == []
    catalog.create_table("shop.orders", SCHEMA)


def test_what_a_server_does_not_do_is_refused(catalog: tahoe.Catalog, tmp_path: Path) -> None:
    with pytest.raises(CatalogRefusedError, match="rename"):
        catalog.rename_table("shop.orders", "shop.order")
    with pytest.raises(CatalogRefusedError, match="folder"):
        catalog.create_table("shop.orders", SCHEMA, location=str(tmp_path / "orders"))


def test_a_server_that_has_no_transactions_is_told(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unity Catalog's own, or an older one."""
    monkeypatch.setattr("tahoe.catalog.remote._OWN", "/api/nothing")
    catalog = lake.catalog()
    with pytest.raises(CatalogRefusedError, match="several tables at once: it is no server of tahoe"):
        catalog.snapshot()
    with pytest.raises(CatalogRefusedError, match="several tables at once"), catalog.transaction():
        pass


def test_grants_decide(lake: Lake, catalog: tahoe.Catalog) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    made.append(rows(1))
    with pytest.raises(CatalogRefusedError, match="token"):
        lake.catalog("tahoe_wrong")
    token = fine("token", lake.database, "reader").strip()
    with pytest.raises(CatalogRefusedError, match="granted"):
        lake.catalog(token)
    for privilege, name in (("USE", ()), ("USE", ("shop",)), ("SELECT", ("shop.orders",))):
        fine("grant", lake.database, "reader", privilege, *name)
    reader = lake.catalog(token)
    assert ids(reader.table("shop.orders")) == [1]
    with pytest.raises(StorageRefusedError, match="MODIFY"):
        reader.table("shop.orders").append(rows(2))
    assert ids(made) == [1]


def test_a_server_that_is_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tahoe.catalog.server_calls._PAUSE_SECONDS", 0)
    with pytest.raises(CatalogUnavailableError, match=r"127\.0\.0\.1:9"):
        tahoe.Catalog("http://127.0.0.1:9")


def test_a_token_is_not_shown(lake: Lake, catalog: tahoe.Catalog) -> None:
    assert lake.token not in repr(catalog) + repr(ServerCalls(lake.at, lake.token))


@pytest.mark.parametrize("status", ["200 OK", "409 Conflict"])
def test_an_answer_that_is_cut_off_is_none(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that dies while it answers has neither done the call nor refused it, as far as anyone knows."""
    monkeypatch.setattr("tahoe.catalog.server_calls._PAUSE_SECONDS", 0)
    with socket.create_server(("127.0.0.1", 0)) as listens:

        def dies() -> None:
            for _ in range(_ATTEMPTS):
                connection, _ = listens.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 100\r\n\r\n{{".encode())

        server = threading.Thread(target=dies, daemon=True)
        server.start()
        with pytest.raises(CatalogUnavailableError):
            ServerCalls(f"http://127.0.0.1:{listens.getsockname()[1]}").call("POST", "/transactions", {})
        server.join()
