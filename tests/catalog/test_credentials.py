"""Credentials for a folder and a limited time: from a role, and in a client that renews them. moto has the roles; it does
not look at their policies, as AWS does.
"""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest

import tahoe
from tahoe.catalog.grants import CREATE_TABLE, MODIFY, SELECT, USE_CATALOG, USE_SCHEMA, drop_tokens
from tahoe.catalog.remote_credentials import _EARLY_MS, RenewedStore, ServerCredentials
from tahoe.catalog.server.roles import policy, session_credentials
from tahoe.errors import CatalogRefusedError, CatalogUnavailableError, PackageMissingError
from tahoe.storage.background import finish_background
from tests.catalog.serving import Client, Served, listening, served
from tests.storage.servers import S3_KEY, S3_REGION, S3_SECRET, Server, s3_server

ROLE = "arn:aws:iam::123456789012:role/lake"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    with s3_server("moto") as server:
        yield server


@pytest.fixture
def lake(s3: Server, tmp_path: Path) -> Iterator[Served]:
    """Its tables are in S3."""
    keys = {"access_key_id": S3_KEY, "secret_access_key": S3_SECRET, "region": S3_REGION}
    given = {s3.url: {"role": ROLE, "sts_endpoint": s3.endpoint, **keys}}
    found = served(tmp_path, root=f"{s3.url}/{tmp_path.name}", storage_options=s3.options, credentials=given)
    found.catalog.create_schema("shop")
    found.catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    yield found
    finish_background()


def told(client: Client, table: tahoe.Table, operation: str) -> Any:
    return client.post("/temporary-path-credentials", url=table.url, operation=operation)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """The sessions that the server has handed out: for which folder, and whether to write."""
    found = list[tuple[str, bool]]()

    def counted(*given: Any, writes: bool) -> Any:
        found.append((given[1], writes))
        return session_credentials(*given, writes=writes)

    monkeypatch.setattr("tahoe.catalog.server.credentials.session_credentials", counted)
    return found


# --- the server


def test_a_role_gives_keys_of_an_hour(lake: Served, s3: Server) -> None:
    orders = lake.catalog.table("shop.orders")
    admin = lake.client("ada@example.com / a b", "ADMIN")
    now_ms = time.time() * 1000
    one, other = (told(admin, orders, operation) for operation in ("PATH_READ", "PATH_READ_WRITE"))
    for found in (one, other):
        assert now_ms + HOUR_MS - 60_000 < found["expiration_time"] < now_ms + HOUR_MS + 60_000
        keys = found["aws_temp_credentials"]
        assert set(keys) == {"access_key_id", "secret_access_key", "session_token"}
        assert S3_SECRET not in json.dumps(found)
        client = boto3.client(
            "sts",
            endpoint_url=s3.endpoint,
            region_name=S3_REGION,
            aws_access_key_id=keys["access_key_id"],
            aws_secret_access_key=keys["secret_access_key"],
            aws_session_token=keys["session_token"],
        )
        assert client.get_caller_identity()["Arn"].endswith("assumed-role/lake/ada@example.com---a-b")
    assert one["aws_temp_credentials"] != other["aws_temp_credentials"]


def test_a_service_that_gives_none_is_told(tmp_path: Path) -> None:
    given = {"s3://bucket": {"role": ROLE, "sts_endpoint": "http://127.0.0.1:9", "region": "x", "access_key_id": "1"}}
    lake = served(tmp_path, credentials={"s3://bucket": {**given["s3://bucket"], "secret_access_key": "2"}})
    asked = {"url": "s3://bucket/x", "operation": "PATH_READ"}
    assert lake.client("ada", "ADMIN").refused("POST", "/temporary-path-credentials", asked) == (503, "UNAVAILABLE")


def test_a_role_needs_boto3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(PackageMissingError, match="boto3"):
        served(tmp_path, credentials={"s3://bucket": {"role": ROLE}})


@pytest.mark.parametrize("writes", [True, False])
def test_a_policy_is_of_one_folder(writes: bool) -> None:
    found = policy("s3://bucket/lake/a*b?$c", ROLE, writes=writes)
    objects, listing = found["Statement"]
    assert objects["Resource"] == "arn:aws:s3:::bucket/lake/a${*}b${?}${$}c/*"
    assert ("s3:PutObject" in objects["Action"], "s3:DeleteObject" in objects["Action"]) == (writes, writes)
    assert listing["Resource"] == "arn:aws:s3:::bucket"
    assert listing["Condition"]["StringLike"]["s3:prefix"][1] == "lake/a${*}b${?}${$}c/*"
    china = policy("s3://bucket", "arn:aws-cn:iam::1:role/x", writes=writes)["Statement"][0]
    assert china["Resource"] == "arn:aws-cn:s3:::bucket/*"


# --- the client


def options(s3: Server) -> dict[str, str]:
    return {name: value for name, value in s3.options.items() if "key" not in name}


def test_a_client_without_keys_has_those_of_the_server(
    lake: Served, s3: Server, sessions: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And new ones before they expire."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    maker = lake.client("maker", USE_CATALOG, USE_SCHEMA, CREATE_TABLE, SELECT, MODIFY)
    with listening(lake.service) as at:
        catalog = tahoe.Catalog(at, token=maker.token, storage_options=options(s3))
        made = catalog.create_table("shop.stock", pa.schema([("id", pa.int64())]))
        made.append(pa.table({"id": [1]}))
        finish_background()
        assert sessions == [(made.url, True)]
        assert (made.count(), lake.catalog.table("shop.stock").count()) == (1, 1)
        assert sessions == [(made.url, True)]
        now = time.time_ns
        with monkeypatch.context() as patched:
            patched.setattr(
                "tahoe.catalog.remote_credentials.time.time_ns", lambda: now() + (HOUR_MS - _EARLY_MS + 60_000) * 10**6
            )
            made.append(pa.table({"id": [2]}))
            finish_background()
        assert sessions == [(made.url, True)] * 2
        with catalog.transaction() as changes:
            for name in ("shop.orders", "shop.stock"):
                changes.table(name).append(pa.table({"id": [3]}))
        finish_background()
    assert [lake.catalog.table(f"shop.{name}").count() for name in ("orders", "stock")] == [1, 3]


def test_who_may_only_read_has_keys_to_read(lake: Served, s3: Server, sessions: list[tuple[str, bool]]) -> None:
    reader = lake.client("reader", USE_CATALOG, USE_SCHEMA, SELECT)
    with listening(lake.service) as at:
        catalog = tahoe.Catalog(at, token=reader.token, storage_options=options(s3))
        assert catalog.table("shop.orders").count() == 0
    assert sessions == [(lake.catalog.table("shop.orders").url, False)]


def test_keys_that_have_not_expired_are_used_while_the_server_is_away(
    lake: Served, s3: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tahoe.catalog.server_calls._PAUSE_SECONDS", 0)
    admin, now = lake.client("ada", "ADMIN"), time.time_ns
    with listening(lake.service) as at:
        catalog = tahoe.Catalog(at, token=admin.token, storage_options=options(s3))
        store = catalog._env_at(lake.catalog.table("shop.orders").url).store
        assert list(store.list_from("_delta_log"))
    for late_ms, is_valid in ((HOUR_MS - _EARLY_MS + 60_000, True), (HOUR_MS + 60_000, False)):
        monkeypatch.setattr(
            "tahoe.catalog.remote_credentials.time.time_ns", lambda late_ms=late_ms: now() + late_ms * 10**6
        )
        if is_valid:
            assert list(store.list_from("_delta_log"))
        else:
            with pytest.raises(CatalogUnavailableError):
                list(store.list_from("_delta_log"))


def test_keys_of_the_user_s_own_are_used(lake: Served, s3: Server, sessions: list[tuple[str, bool]]) -> None:
    admin = lake.client("ada", "ADMIN")
    with listening(lake.service) as at:
        catalog = tahoe.Catalog(at, token=admin.token, storage_options=s3.options)
        assert catalog.table("shop.orders").count() == 0
    assert sessions == []


def test_keys_of_the_environment_are_used_if_the_server_gives_none(
    lake: Served, s3: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has none for the folder, or may not give them: as for the source of a shallow clone."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", S3_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", S3_SECRET)
    reader = lake.client("reader", USE_CATALOG, USE_SCHEMA, SELECT)
    with listening(lake.service) as at:
        others = {**options(s3), "timeout": "31s"}  # whose client has not looked into the environment yet
        catalog = tahoe.Catalog(at, token=reader.token, storage_options=others)
        orders = lake.catalog.table("shop.orders").url
        for folder in (f"{orders}/_delta_log", s3.url):
            assert list(catalog._env_at(folder).store.walk())
        monkeypatch.setattr(lake.service, "credentials", {})
        assert catalog.table("shop.orders").count() == 0
        with lake.service.begin() as connection:
            drop_tokens(connection, "reader")
        with pytest.raises(CatalogRefusedError, match="UNAUTHENTICATED"):
            list(catalog._env_at(f"{orders}/part").store.walk())


def test_a_folder_does_not_wait_for_the_keys_of_another_one() -> None:
    asked, told = threading.Event(), threading.Event()

    class Calls:
        def call(self, _method: str, _path: str, body: dict[str, str]) -> dict[str, object]:
            if body["url"].endswith("slow"):
                asked.set()
                assert told.wait(60)
            return {"expiration_time": time.time() * 1000 + HOUR_MS, "aws_temp_credentials": {}}

    credentials = ServerCredentials(Calls(), {})  # type: ignore[arg-type]
    slow = threading.Thread(target=lambda: credentials.handed("s3://bucket/slow"))
    slow.start()
    assert asked.wait(60)
    assert credentials.handed("s3://bucket/fast").options == {}
    told.set()
    slow.join()


def test_a_store_can_be_pickled_without_its_keys(lake: Served, s3: Server) -> None:
    admin = lake.client("ada", "ADMIN")
    with listening(lake.service) as at:
        catalog = tahoe.Catalog(at, token=admin.token, storage_options=options(s3))
        store = catalog._env_at(lake.catalog.table("shop.orders").url).store
        assert isinstance(store, RenewedStore)
        assert [info.key for info in store.list_from("_delta_log")]
        assert [info.key for info in pickle.loads(pickle.dumps(store)).list_from("_delta_log")]
