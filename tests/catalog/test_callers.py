"""Who a server answers, how often, and how long it keeps a folder for the maker of a table."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

import tahoe
from tahoe.catalog.registration import intend
from tahoe.catalog.server.app import PREFIX, application
from tahoe.catalog.server.callers import Rate
from tahoe.catalog.server.refusals import Refusal
from tahoe.catalog.server.securables import STAGING_MS
from tahoe.catalog.tables_of_database import SCHEMAS, STAGING_TABLES
from tahoe.errors import CatalogUnavailableError
from tahoe.storage.background import finish_background
from tests.catalog.serving import Served, first_version, listening, served

SCHEMA = pa.schema([("id", pa.int64())])


# --- a page in a browser of this machine


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8080", 200),
        ("127.0.0.1:8080", 200),
        ("127.8.8.8", 200),
        ("[::1]:8080", 200),
        ("LOCALHOST", 200),
        ("evil.com", 403),
        ("localhost.evil.com:8080", 403),
        ("127.0.0.1.evil.com", 403),
        ("evil.com@localhost.x", 403),
        ("[::1", 403),
        ("10.0.0.1", 403),
        ("", 403),
    ],
)
def test_without_tokens_only_a_loopback_name_is_answered(tmp_path: Path, host: str, status: int) -> None:
    """A page whose own name stands for 127.0.0.1 could do everything."""
    open_to_all = served(tmp_path, needs_token=False)
    with TestClient(application(open_to_all.service)) as http:
        for path in (f"{PREFIX}/catalogs", "/metrics"):
            assert http.get(path, headers={"Host": host}).status_code == status


def test_with_tokens_any_name_is_answered(tmp_path: Path) -> None:
    token = (lake := served(tmp_path)).client("ada", "ADMIN").token
    headers = {"Host": "catalog.example.com", "Authorization": f"Bearer {token}"}
    assert lake.http.get(f"{PREFIX}/catalogs", headers=headers).status_code == 200


# --- how often


def test_a_caller_has_so_many_calls_a_second() -> None:
    now = [0.0]
    rate = Rate(2, lambda: now[0])

    def taken(caller: str) -> int | None:
        try:
            rate.take(caller)
        except Refusal as refusal:
            return refusal.retry_seconds
        return None

    assert [taken("a") for _ in range(3)] == [None, None, 1]
    assert taken("b") is None
    now[0] = 0.5
    assert [taken("a") for _ in range(2)] == [None, 1]
    now[0] = 100
    assert [taken("a") for _ in range(3)] == [None, None, 1]
    slow = Rate(0.1, lambda: 0)
    slow.take("a")
    with pytest.raises(Refusal) as caught:
        slow.take("a")
    assert caught.value.retry_seconds == 10


def test_each_token_has_a_limit_and_probes_have_none(tmp_path: Path) -> None:
    lake = served(tmp_path, calls_per_second=1)
    one, other = lake.client("ada", "ADMIN"), lake.client("bob", "ADMIN")
    for client in (one, other):
        assert client.call("GET", "/catalogs")[0] == 200
        status, told = client.call("GET", "/catalogs")
        assert (status, told["error_code"]) == (429, "RESOURCE_EXHAUSTED")
    headers = {"Authorization": f"Bearer {one.token}"}
    answer = lake.http.get(f"{PREFIX}/delta/v1/config", headers=headers)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    assert answer.json()["error"]["type"] == "TooManyRequestsException"
    for _ in range(3):
        assert lake.http.get("/metrics", headers=headers).status_code == 200
        assert lake.http.get("/health").status_code == 200


def test_a_client_waits_for_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = served(tmp_path, calls_per_second=4)
    token = lake.client("ada", "ADMIN").token
    with listening(lake.service) as at:
        catalog, started = tahoe.Catalog(at, token=token), time.monotonic()
        catalog.create_schema("shop")
        for name in ("shop.orders", "shop.stock"):
            catalog.create_table(name, SCHEMA).append(pa.table({"id": [1]}))
        with catalog.transaction() as changes:
            for name in ("shop.orders", "shop.stock"):
                changes.table(name).append(pa.table({"id": [2]}))
        finish_background()
        assert time.monotonic() - started > 1
        assert lake.catalog.table("shop.orders").count() == 2
        monkeypatch.setattr("tahoe.catalog.server_calls._WAIT_SECONDS_MAX", 0)
        with pytest.raises(CatalogUnavailableError, match="More than 4 calls a second"):
            for _ in range(20):
                catalog.schemas()


def test_a_client_gives_up_on_a_server_that_tells_it_to_come_back_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = served(tmp_path)
    pauses: list[float] = []
    with listening(lake.service, lambda _: always_busy) as at:
        monkeypatch.setattr("tahoe.catalog.server_calls.time.sleep", pauses.append)
        with pytest.raises(CatalogUnavailableError, match="Too Many Requests"):
            tahoe.Catalog(at)
    assert pauses == [1.0] * 120


async def always_busy(_: Any, __: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 429, "headers": [(b"retry-after", b"0")]})
    await send({"type": "http.response.body"})


# --- folders for new tables


@pytest.fixture
def lake(tmp_path: Path) -> Served:
    found = served(tmp_path)
    found.catalog.create_schema("shop")
    return found


def later(monkeypatch: pytest.MonkeyPatch, ms: int) -> None:
    """So much time passes."""
    now = time.time_ns
    monkeypatch.setattr("time.time_ns", lambda: now() + ms * 1_000_000)


def staging(lake: Served) -> set[str]:
    with lake.service.begin() as connection:
        return set(connection.execute(sa.select(STAGING_TABLES.c.name)).scalars())


def test_a_folder_that_is_not_used_is_taken_back(lake: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of a maker who still asks for credentials, nor the id of a table that can be registered again."""
    ada = lake.client("ada", "ADMIN")
    names = {"catalog_name": "lake", "schema_name": "shop"}
    made = {name: ada.post("/staging-tables", **names, name=name) for name in ("dead", "alive")}
    dropped = lake.catalog.create_table("shop.dropped", SCHEMA)
    lake.catalog.drop_table("shop.dropped")
    with lake.service.begin() as connection:
        schema_id = connection.execute(sa.select(SCHEMAS.c.id)).scalar_one()
        intend(connection, "1", schema_id, "registered", "file:///elsewhere")
    with monkeypatch.context() as patched:
        later(patched, STAGING_MS - 1000)
        ada.post("/temporary-table-credentials", table_id=made["alive"]["id"], operation="READ_WRITE")
    with monkeypatch.context() as patched:
        later(patched, STAGING_MS + 10_000)
        ada.post("/staging-tables", **names, name="new")
        assert staging(lake) == {"alive", "dropped", "registered", "new"}
        for name, status in (("alive", 200), ("dead", 400)):
            url = made[name]["staging_location"]
            first_version(url)
            given = {**names, "name": name, "table_type": "MANAGED", "storage_location": url}
            found, told = ada.call("POST", "/tables", given)
            assert found == status, told
    assert "has expired: ask for another one" in told["message"]
    assert lake.catalog.register_table("shop.dropped", dropped.url).version == 0


def test_a_folder_is_its_maker_s_until_another_one_is_given_out(lake: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = lake.client("ada", "ADMIN")
    names = {"catalog_name": "lake", "schema_name": "shop", "name": "late"}
    url = ada.post("/staging-tables", **names)["staging_location"]
    first_version(url)
    later(monkeypatch, 10 * STAGING_MS)
    ada.post("/tables", **names, table_type="MANAGED", storage_location=url)
    assert staging(lake) == set()
