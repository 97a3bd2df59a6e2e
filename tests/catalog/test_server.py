"""The endpoints of a catalog's server: what each answers, and to whom."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.catalog.grants import CREATE_SCHEMA, CREATE_TABLE, MODIFY, SELECT, USE_CATALOG, USE_SCHEMA
from tahoe.protocol.log.actions import Action, CommitInfo, Remove
from tahoe.storage.background import finish_background
from tahoe.storage.locations import local_path
from tests.catalog.serving import Client, Served, appended, first_version, served, staged

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("price", pa.decimal128(10, 2))])
COMMITS = "/delta/preview/commits"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Served]:
    found = served(tmp_path)
    found.catalog.create_schema("shop")
    yield found
    finish_background()


@pytest.fixture
def admin(lake: Served) -> Client:
    return lake.client("ada", "ADMIN")


@pytest.fixture
def orders(lake: Served) -> tahoe.Table:
    return lake.catalog.create_table("shop.orders", SCHEMA, comment="what was bought")


def later(table: tahoe.Table) -> int:
    return max(table.snapshot().timestamp_ms + 1, time.time_ns() // 1_000_000)


# --- names


def test_the_catalog_of_a_server_is_one(admin: Client) -> None:
    (told,) = admin.get("/catalogs")["catalogs"]
    assert told == admin.get("/catalogs/lake")
    assert (told["name"], told["id"]) == ("lake", admin.get("/metastore_summary")["metastore_id"])
    assert admin.refused("POST", "/catalogs", {"name": "lake"}) == (409, "CATALOG_ALREADY_EXISTS")
    assert admin.refused("POST", "/catalogs", {"name": "other"}) == (501, "UNIMPLEMENTED")
    assert admin.refused("DELETE", "/catalogs/lake") == (501, "UNIMPLEMENTED")
    assert admin.refused("GET", "/catalogs/other") == (404, "CATALOG_NOT_FOUND")


def test_schemas_are_made_changed_and_dropped(lake: Served, admin: Client) -> None:
    made = admin.post("/schemas", catalog_name="lake", name="Bank", comment="money", properties={"a": "1"})
    assert made["full_name"] == "lake.bank"
    assert made["owner"] == "ada"
    changed = admin.patch("/schemas/lake.bank", comment="more money", properties={"b": "2"})
    assert changed == {**made, "comment": "more money", "properties": {"b": "2"}} == admin.get("/schemas/lake.bank")
    assert admin.refused("POST", "/schemas", {"catalog_name": "lake", "name": "bank"}) == (409, "SCHEMA_ALREADY_EXISTS")
    assert admin.refused("POST", "/schemas", {"catalog_name": "lake", "name": "a b"}) == (400, "INVALID_ARGUMENT")
    admin.delete("/schemas/lake.bank")
    assert lake.catalog.schemas() == ["shop"]
    assert admin.refused("GET", "/schemas/lake.bank") == (404, "SCHEMA_NOT_FOUND")


@pytest.mark.usefixtures("orders")
def test_a_schema_with_tables_stays(admin: Client) -> None:
    assert admin.refused("DELETE", "/schemas/lake.shop") == (409, "SCHEMA_NOT_EMPTY")
    admin.delete("/tables/lake.shop.orders")
    admin.delete("/schemas/lake.shop")


def test_a_table_is_told_as_its_log_has_it(orders: tahoe.Table, admin: Client) -> None:
    told = admin.get("/tables/lake.shop.orders")
    assert (told["table_type"], told["data_source_format"], told["storage_location"]) == (
        "MANAGED",
        "DELTA",
        orders.url,
    )
    assert told["comment"] == "what was bought"
    assert told["properties"]["io.unitycatalog.tableId"] == told["table_id"]
    columns = [(each["name"], each["type_text"], each["type_name"], each["position"]) for each in told["columns"]]
    assert columns == [("id", "bigint", "LONG", 0), ("price", "decimal(10,2)", "DECIMAL", 1)]
    assert json.loads(told["columns"][0]["type_json"])["type"] == "long"
    with orders.transaction() as changes:
        changes.add_columns([pa.field("note", pa.string())])
    assert [each["name"] for each in admin.get("/tables/lake.shop.orders")["columns"]] == ["id", "price", "note"]


def test_lists_come_in_pages(lake: Served, admin: Client) -> None:
    for number in range(5):
        lake.catalog.create_table(f"shop.t{number}", SCHEMA)
        lake.catalog.create_schema(f"s{number}")
    for path, key, asked, names in (
        ("/tables", "tables", {"schema_name": "shop"}, [f"t{number}" for number in range(5)]),
        ("/schemas", "schemas", {}, [*(f"s{number}" for number in range(5)), "shop"]),
    ):
        found: list[str] = []
        token: str | None = ""
        while token is not None:
            page = admin.get(path, catalog_name="lake", max_results=2, page_token=token, **asked)
            assert len(page[key]) <= 2
            found += [each["name"] for each in page[key]]
            token = page.get("next_page_token")
        assert found == names
    for wrong in ("-1", "x", "9" * 30):
        assert admin.refused("GET", "/schemas", None, catalog_name="lake", max_results=wrong)[0] == 400


def test_an_external_table_is_read_where_it_is(lake: Served, admin: Client, tmp_path: Path) -> None:
    elsewhere = tahoe.Table(tmp_path / "elsewhere")
    elsewhere.append(pa.table({"id": [1]}))
    names = {"catalog_name": "lake", "schema_name": "shop", "name": "other"}
    column = {"name": "id", "type_name": "LONG", "type_text": "bigint", "position": 0}
    made = admin.post(
        "/tables",
        **names,
        table_type="EXTERNAL",
        data_source_format="DELTA",
        storage_location=elsewhere.url,
        columns=[column],
    )
    assert made == admin.get("/tables/lake.shop.other")
    assert made["columns"] == [{**column, "nullable": True}]
    assert lake.catalog.table("shop.other").count() == 1
    body = {"table_id": made["table_id"], "table_uri": made["storage_location"], "start_version": 0}
    assert admin.refused("GET", COMMITS, body) == (400, "TABLE_NOT_MANAGED")
    with pytest.raises(tahoe.errors.ExternalTableError), lake.catalog.transaction() as changes:
        changes.table("shop.other")
    admin.delete("/tables/lake.shop.other")
    assert elsewhere.count() == 1


def test_an_external_table_is_not_in_the_folder_of_managed_ones(
    lake: Served, orders: tahoe.Table, admin: Client
) -> None:
    names = {"catalog_name": "lake", "schema_name": "shop", "name": "other", "table_type": "EXTERNAL"}
    for url in (orders.url, f"{orders.url}/part", lake.service.root):
        assert admin.refused("POST", "/tables", {**names, "storage_location": url}) == (400, "INVALID_ARGUMENT")


def test_only_an_admin_enters_an_external_table(lake: Served) -> None:
    """Its owner would get the server's credentials for any folder."""
    maker = lake.client("maker", USE_CATALOG, USE_SCHEMA, CREATE_TABLE)
    names = {"catalog_name": "lake", "schema_name": "shop", "name": "other", "table_type": "EXTERNAL"}
    for url in ("s3://bucket/other", "file:///other"):
        assert maker.refused("POST", "/tables", {**names, "storage_location": url}) == (403, "PERMISSION_DENIED")


# --- making a managed table


def test_a_managed_table_is_made_of_a_staging_table(lake: Served, admin: Client) -> None:
    names = {"catalog_name": "lake", "schema_name": "shop", "name": "stock"}
    staging = admin.post("/staging-tables", **names)
    given = {**names, "table_type": "MANAGED", "storage_location": staging["staging_location"]}
    assert admin.refused("POST", "/tables", given) == (400, "FAILED_PRECONDITION")
    first_version(staging["staging_location"])
    made = admin.post("/tables", **given)
    assert (made["table_id"], made["columns"][0]["name"]) == (staging["id"], "id")
    assert lake.catalog.table("shop.stock").version == 0
    lake.catalog.table("shop.stock").append(pa.table({"id": [1]}))
    assert lake.catalog.table("shop.stock").count() == 1
    assert admin.refused("POST", "/tables", given) == (409, "TABLE_ALREADY_EXISTS")


def test_a_managed_table_without_the_feature_is_refused(admin: Client) -> None:
    names = {"catalog_name": "lake", "schema_name": "shop", "name": "stock"}
    staging = admin.post("/staging-tables", **names)
    first_version(staging["staging_location"], features=frozenset({"inCommitTimestamp"}))
    given = {**names, "table_type": "MANAGED", "storage_location": staging["staging_location"]}
    assert admin.refused("POST", "/tables", given) == (400, "INVALID_ARGUMENT")


def test_only_its_maker_uses_a_staging_table(lake: Served, admin: Client) -> None:
    names = {"catalog_name": "lake", "schema_name": "shop", "name": "stock"}
    staging = admin.post("/staging-tables", **names)
    first_version(staging["staging_location"])
    other = lake.client("bob", USE_CATALOG, USE_SCHEMA, CREATE_TABLE)
    given = {**names, "table_type": "MANAGED", "storage_location": staging["staging_location"]}
    assert other.refused("POST", "/tables", given)[0] == 400
    asked = {"table_id": staging["id"], "operation": "READ_WRITE"}
    assert other.refused("POST", "/temporary-table-credentials", asked)[0] == 404
    assert admin.post("/temporary-table-credentials", **asked)["url"] == staging["staging_location"]


# --- commits


def body_of(lake: Served, table: tahoe.Table, **more: Any) -> dict[str, Any]:
    return {"table_id": lake.catalog.located("shop.orders")[0], "table_uri": table.url, **more}


def test_a_commit_is_ratified_and_published(lake: Served, orders: tahoe.Table, admin: Client) -> None:
    stamp = later(orders)
    info = staged(orders.url, 1, appended(stamp), stamp)
    admin.post(COMMITS, **body_of(lake, orders, commit_info=info))
    assert orders.version == 1
    assert orders.snapshot().timestamp_ms == stamp
    finish_background()
    assert admin.get_body(COMMITS, **body_of(lake, orders, start_version=0)) == {
        "commits": [],
        "latest_table_version": 1,
    }
    for _ in range(2):
        admin.post(COMMITS, **body_of(lake, orders, commit_info=info))  # its answer was lost
    other = staged(orders.url, 1, appended(stamp + 1), stamp + 1)
    assert admin.refused("POST", COMMITS, body_of(lake, orders, commit_info=other)) == (409, "COMMIT_VERSION_CONFLICT")


def test_commits_that_are_not_published_are_told(
    lake: Served, orders: tahoe.Table, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tahoe.catalog.server.commits.in_background", lambda work: None)
    infos = []
    for version in (1, 2, 3):
        stamp = later(orders)
        infos.append(staged(orders.url, version, appended(stamp, f"{version}.parquet"), stamp))
        admin.post(COMMITS, **body_of(lake, orders, commit_info=infos[-1]))
    told = admin.get_body(COMMITS, **body_of(lake, orders, start_version=0))
    assert told == {"commits": infos, "latest_table_version": 3}
    assert admin.get_body(COMMITS, **body_of(lake, orders, start_version=2, end_version=2))["commits"] == [infos[1]]
    assert admin.refused("POST", COMMITS, body_of(lake, orders, latest_backfilled_version=2))[0] == 400
    log = Path(local_path(orders.url)) / "_delta_log"
    for info in infos[:2]:
        data = (log / "_staged_commits" / info["file_name"]).read_bytes()
        (log / f"{info['version']:020}.json").write_bytes(data)
    admin.post(COMMITS, **body_of(lake, orders, latest_backfilled_version=2))
    assert admin.get_body(COMMITS, **body_of(lake, orders, start_version=0))["commits"] == infos[2:]


def _illegal(orders: tahoe.Table) -> dict[str, Sequence[Action] | bytes]:
    stamp = later(orders)
    snapshot = orders.snapshot()
    info, add = appended(stamp)
    features = snapshot.protocol.writer_features or frozenset()
    return {
        "not JSON": b"{",
        "no time": [CommitInfo({"operation": "WRITE"}), add],
        "no commitInfo": [add],
        "commitInfo behind": [add, info],
        "outside": appended(stamp, "../elsewhere/part.parquet"),
        "absolute": appended(stamp, "file:///etc/passwd"),
        "in the log": appended(stamp, "_delta_log/x.parquet"),
        "twice": [info, add, add],
        "add and remove": [info, add, Remove(path="part-0.parquet", deletion_timestamp_ms=1)],
        "no longer managed": [
            info,
            snapshot.protocol.replace(
                reader_features=(snapshot.protocol.reader_features or frozenset()) - {"catalogManaged"},
                writer_features=features - {"catalogManaged"},
            ),
        ],
        "unknown feature": [info, snapshot.protocol.replace(writer_features=features | {"flying"})],
        "no times": [info, snapshot.metadata.replace(configuration={})],
        "no schema": [info, snapshot.metadata.replace(schema_string="{")],
        "partition": [info, snapshot.metadata.replace(partition_columns=("nothing",))],
    }


def test_an_illegal_commit_is_refused_with_its_reason(lake: Served, orders: tahoe.Table, admin: Client) -> None:
    stamp = later(orders)
    for why, actions in _illegal(orders).items():
        info = staged(orders.url, 1, actions, stamp)
        status, told = admin.call("POST", COMMITS, body_of(lake, orders, commit_info=info))
        assert (status, told.get("error_code")) == (400, "INVALID_ARGUMENT"), (why, told)
        assert orders.version == 0, why
    legal = staged(orders.url, 1, appended(stamp), stamp)
    early = orders.snapshot().timestamp_ms
    for why, changed in {
        "not staged": {"file_name": f"{1:020}.{uuid.uuid4()}.json"},
        "other name": {"file_name": "../" + legal["file_name"]},
        "other size": {"file_size": 3},
        "other time": {"timestamp": stamp + 1},
        "time before": staged(orders.url, 1, appended(early), early),
        "gap": {"version": 2},
    }.items():
        asked = body_of(lake, orders, commit_info={**legal, **changed})
        assert admin.refused("POST", COMMITS, asked) == (400, "INVALID_ARGUMENT"), why
    elsewhere = {**body_of(lake, orders, commit_info=legal), "table_uri": f"{orders.url}/x"}
    assert admin.refused("POST", COMMITS, elsewhere) == (400, "INVALID_ARGUMENT")
    admin.post(COMMITS, **body_of(lake, orders, commit_info=legal))


def test_an_append_only_table_keeps_its_rows(lake: Served, admin: Client) -> None:
    table = lake.catalog.create_table("shop.orders", SCHEMA, properties={"delta.appendOnly": "true"})
    stamp = later(table)
    info, _ = appended(stamp)
    staged_info = staged(table.url, 1, [info, Remove(path="a", deletion_timestamp_ms=1)], stamp)
    assert admin.refused("POST", COMMITS, body_of(lake, table, commit_info=staged_info))[0] == 400


# --- permissions


def test_what_may_not_be_seen_is_not_found(lake: Served, orders: tahoe.Table) -> None:
    nobody, guest = lake.client("nobody"), lake.client("guest", USE_CATALOG, USE_SCHEMA)
    for client, path in (
        (nobody, "/catalogs/lake"),
        (nobody, "/schemas/lake.shop"),
        (guest, "/tables/lake.shop.orders"),
    ):
        assert client.refused("GET", path)[0] == 404
    assert nobody.get("/catalogs") == {"catalogs": []}
    assert guest.get("/tables", catalog_name="lake", schema_name="shop") == {"tables": []}
    asked = body_of(lake, orders, start_version=0)
    assert guest.refused("GET", COMMITS, asked) == (404, "TABLE_NOT_FOUND")
    wanted = {"table_id": asked["table_id"], "operation": "READ"}
    assert guest.refused("POST", "/temporary-table-credentials", wanted) == (404, "TABLE_NOT_FOUND")


def test_what_was_granted_decides(lake: Served, orders: tahoe.Table, admin: Client) -> None:
    reader = lake.client("reader", USE_CATALOG)
    for kind, name, privilege in (("schema", "lake.shop", USE_SCHEMA), ("table", "lake.shop.orders", SELECT)):
        changes = [{"principal": "reader", "add": [privilege], "remove": []}]
        admin.patch(f"/permissions/{kind}/{name}", changes=changes)
    assert [each["name"] for each in reader.get("/tables", catalog_name="lake", schema_name="shop")["tables"]] == [
        "orders"
    ]
    assert reader.get("/permissions/table/lake.shop.orders") == {
        "privilege_assignments": [{"principal": "reader", "privileges": [SELECT]}]
    }
    stamp = later(orders)
    commit = body_of(lake, orders, commit_info=staged(orders.url, 1, appended(stamp), stamp))
    assert reader.refused("POST", COMMITS, commit) == (403, "PERMISSION_DENIED")
    wanted = {"table_id": commit["table_id"], "operation": "READ_WRITE"}
    assert reader.refused("POST", "/temporary-table-credentials", wanted) == (403, "PERMISSION_DENIED")
    assert reader.refused("DELETE", "/tables/lake.shop.orders") == (403, "PERMISSION_DENIED")
    assert reader.refused("POST", "/schemas", {"catalog_name": "lake", "name": "mine"}) == (403, "PERMISSION_DENIED")
    grab = {"changes": [{"principal": "reader", "add": [MODIFY], "remove": []}]}
    assert reader.refused("PATCH", "/permissions/table/lake.shop.orders", grab) == (403, "PERMISSION_DENIED")
    admin.patch("/permissions/table/lake.shop.orders", **grab)
    reader.post(COMMITS, **commit)
    admin.patch(
        "/permissions/table/lake.shop.orders",
        changes=[{"principal": "reader", "add": [], "remove": [SELECT, MODIFY]}],
    )
    assert reader.refused("GET", "/tables/lake.shop.orders") == (404, "TABLE_NOT_FOUND")


def test_owners_may_do_everything_with_what_is_theirs(lake: Served) -> None:
    owner = lake.client("owner", USE_CATALOG, CREATE_SCHEMA)
    owner.post("/schemas", catalog_name="lake", name="mine")
    names = {"catalog_name": "lake", "schema_name": "mine", "name": "stock"}
    staging = owner.post("/staging-tables", **names)
    first_version(staging["staging_location"])
    owner.post("/tables", **names, table_type="MANAGED", storage_location=staging["staging_location"])
    assert owner.refused("POST", "/staging-tables", {**names, "schema_name": "shop"})[0] == 404
    owner.delete("/tables/lake.mine.stock")
    owner.delete("/schemas/lake.mine")


@pytest.mark.usefixtures("orders")
def test_wrong_grants_are_refused(lake: Served, admin: Client) -> None:
    path = "/permissions/table/lake.shop.orders"
    lake.client("reader")
    for principal, privilege, status in (
        ("nobody", SELECT, 404),
        ("reader", "USE CATALOG", 400),
        ("reader", "FLY", 400),
    ):
        changes = [{"principal": principal, "add": [privilege], "remove": []}]
        assert admin.refused("PATCH", path, {"changes": changes})[0] == status
    assert admin.get(path) == {"privilege_assignments": []}


def test_a_token_is_needed(lake: Served, admin: Client) -> None:
    for token in (None, "", "tahoe_wrong", admin.token + "x"):
        assert Client(lake.http, token).refused("GET", "/catalogs") == (401, "UNAUTHENTICATED")
    assert lake.http.get("/metrics").status_code == 401
    assert lake.http.get("/health").json() == {"status": "ok"}
    with lake.service.begin() as connection:
        connection.exec_driver_sql("UPDATE tokens SET expires_ms = 1")
        kept = connection.exec_driver_sql("SELECT sha256 FROM tokens").scalar_one()
    assert admin.token not in kept
    assert admin.refused("GET", "/catalogs") == (401, "UNAUTHENTICATED")


def test_without_tokens_everyone_may_do_everything(tmp_path: Path) -> None:
    client = Client(served(tmp_path, needs_token=False).http)
    client.post("/schemas", catalog_name="lake", name="shop")
    assert "owner" not in client.get("/schemas/lake.shop")


# --- credentials


def test_credentials_are_those_of_the_longest_prefix(tmp_path: Path) -> None:
    given = {
        "s3://bucket": {"access_key_id": "1", "secret_access_key": "2"},
        "s3://bucket/shop": {"access_key_id": "3", "secret_access_key": "4", "session_token": "5"},
        "abfss://c@a.dfs.core.windows.net": {"sas_token": "6"},
    }
    admin = served(tmp_path, credentials=given).client("ada", "ADMIN")
    asked = {"operation": "PATH_READ"}
    told = admin.post("/temporary-path-credentials", url="s3://bucket/shop/orders", **asked)
    assert told["aws_temp_credentials"] == given["s3://bucket/shop"]
    assert told["expiration_time"] > time.time() * 1000
    assert (
        admin.post("/temporary-path-credentials", url="s3://bucket/shopping", **asked)["aws_temp_credentials"]
        == given["s3://bucket"]
    )
    told = admin.post("/temporary-path-credentials", url="abfss://c@a.dfs.core.windows.net/x", **asked)
    assert told["azure_user_delegation_sas"] == {"sas_token": "6"}
    assert admin.refused("POST", "/temporary-path-credentials", {"url": "s3://other/x", **asked})[0] == 400
    assert admin.refused("POST", "/temporary-path-credentials", {"url": "nothing://other/x", **asked})[0] == 400


def test_only_admins_get_credentials_for_any_path(lake: Served, orders: tahoe.Table) -> None:
    reader = lake.client("reader", USE_CATALOG, USE_SCHEMA, SELECT)
    assert reader.post("/temporary-path-credentials", url=orders.url, operation="PATH_READ")["url"] == orders.url
    for url, operation in (
        (orders.url, "PATH_READ_WRITE"),
        ("file:///", "PATH_READ"),
        (f"{orders.url}/..", "PATH_READ"),
    ):
        asked = {"url": url, "operation": operation}
        assert reader.refused("POST", "/temporary-path-credentials", asked) == (403, "PERMISSION_DENIED")


# --- the server itself


def test_calls_are_counted_and_recorded(lake: Served, admin: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="tahoe.catalog.audit"):
        admin.get("/catalogs")
        admin.refused("GET", "/schemas/lake.none")
    entries = [json.loads(record.getMessage()) for record in caplog.records if record.name == "tahoe.catalog.audit"]
    assert [(entry["principal"], entry["endpoint"], entry["status"]) for entry in entries] == [
        ("ada", "list_catalogs", 200),
        ("ada", "get_schema", 404),
    ]
    told = lake.http.get("/metrics", headers={"Authorization": f"Bearer {admin.token}"}).text
    assert 'tahoe_catalog_requests_total{endpoint="get_schema",status="404"} 1\n' in told


def test_a_fault_of_the_server_is_not_told(
    admin: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tahoe.catalog.server.catalogs.schema_of", lambda *_: 1 / 0)
    status, told = admin.call("GET", "/schemas", catalog_name="lake")
    assert (status, told["error_code"]) == (500, "INTERNAL")
    assert "division" not in json.dumps(told)
    assert "ZeroDivisionError" in caplog.text


def test_requests_that_are_none_are_refused(lake: Served, admin: Client) -> None:
    headers = {"Authorization": f"Bearer {admin.token}", "Content-Type": "application/json"}
    path = "/api/2.1/unity-catalog/schemas"
    plain = {**headers, "Content-Type": "text/plain"}
    assert lake.http.post(path, content=b'{"name": "x", "catalog_name": "lake"}', headers=plain).status_code == 415
    assert lake.catalog.schemas() == ["shop"]
    for content in (b"{", b"[]", b'"x"', b"[" * 100_000, b"\xff\xfe", b'{"name": "\\ud800", "catalog_name": "lake"}'):
        assert lake.http.post(path, content=content, headers=headers).status_code == 400
    assert lake.http.post(path, content=b" " * (9 << 20), headers=headers).status_code == 413
    assert lake.http.put(path, headers=headers).json()["error_code"] == "UNIMPLEMENTED"
    assert lake.http.get("/api/2.1/unity-catalog/volumes", headers=headers).json()["error_code"] == "NOT_FOUND"
