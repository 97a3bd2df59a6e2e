"""`tahoe catalog`: the commands, and a server in a process of its own, from its start to its end."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.catalog import View
from tests.catalog.commands import fine, run, serving
from tests.catalog.serving import appended, staged


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lake.db"


@pytest.fixture
def orders(url: str, tmp_path: Path) -> tahoe.Table:
    catalog = tahoe.Catalog(url, root=str(tmp_path / "lake"))
    catalog.create_schema("shop")
    return catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))


def ask(at: str, path: str, token: str | None, body: Any = None) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{at}/api/2.1/unity-catalog{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_server_serves_until_it_is_told_to_end(url: str, orders: tahoe.Table) -> None:
    token = fine("token", url, "ana").strip()
    for privilege, name in (
        ("USE", ()),
        ("use", ("shop",)),
        ("SELECT", ("shop.orders",)),
        ("MODIFY", ("shop.orders",)),
    ):
        fine("grant", url, "ana", privilege, *name)
    with serving(url, "--name", "Lake") as (process, at):
        assert ask(at, "/catalogs", None)[0] == 401
        status, told = ask(at, "/tables/lake.shop.orders", token)
        assert (status, told["storage_location"]) == (200, orders.url)
        stamp = orders.snapshot().timestamp_ms + 1
        commit = staged(orders.url, 1, appended(stamp), stamp)
        body = {"table_id": told["table_id"], "table_uri": orders.url, "commit_info": commit}
        assert ask(at, "/delta/preview/commits", token, body) == (200, {})
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    entries = [json.loads(line[line.index("{") :]) for line in said.splitlines() if "tahoe.catalog.audit" in line]
    assert [(entry["principal"], entry["status"]) for entry in entries] == [(None, 401), ("ana", 200), ("ana", 200)]
    assert token not in said
    assert orders.version == 1
    (entry,) = tahoe.Catalog(url).tables()
    assert entry.unpublished == 0, "what was ratified is published before the end"


def test_only_this_machine_is_served_without_tokens(url: str) -> None:
    done = run("serve", url, "--no-auth", "--host", "0.0.0.0")
    assert done.exit_code == 2
    assert "DELTA_CATALOG_SERVER_CONFIGURATION" in done.stderr


def test_a_server_is_not_the_database_of_another_one(url: str) -> None:
    with serving(url, "--no-auth") as (_, at):
        for command in (("serve", at), ("token", at, "ana")):
            done = run(*command)
            assert (done.exit_code, "needs its database" in done.stderr) == (2, True), done.output


def test_what_cannot_be_served_is_told(url: str, tmp_path: Path) -> None:
    for text in ("{", "[]", '{"s3://bucket": 1}'):
        (tmp_path / "credentials.json").write_text(text)
        done = run("serve", url, "--credentials", str(tmp_path / "credentials.json"))
        assert (done.exit_code, "has no credentials" in done.stderr) == (2, True)
    done = run("serve", url, "--host", "192.0.2.1")
    assert (done.exit_code, "cannot listen" in done.stderr) == (2, True)


def test_the_tables_of_a_catalog_are_listed_and_published(url: str, orders: tahoe.Table) -> None:
    orders.append(pa.table({"id": [1]}))
    assert "shop.orders" in fine("tables", url)
    (listed,) = json.loads(fine("tables", url, "--json"))
    assert (listed["name"], listed["latest_version"], listed["kind"]) == ("shop.orders", 1, "managed")
    assert "published" in fine("publish", url, "shop.orders")
    assert run("publish", url, "shop.order").exit_code == 2
    assert orders.url in fine("release", url, "shop.orders")
    assert "external" in fine("tables", url)
    assert run("release", url, "shop.orders").exit_code == 2


def test_views_are_listed_among_the_tables_with_their_kind(url: str, orders: tahoe.Table) -> None:
    tahoe.Catalog(url).create_view("shop.large", View.of("SELECT * FROM orders", pa.schema([("id", pa.int64())])))
    lines = [line.split() for line in fine("tables", url).splitlines()]
    assert [line[:2] for line in lines if line and line[0].startswith("shop.")] == [
        ["shop.large", "view"],
        ["shop.orders", "managed"],
    ]
    view, table = json.loads(fine("tables", url, "--schema", "shop", "--json"))
    assert view == {"name": "shop.large", "kind": "view"}
    assert (table["name"], table["kind"], table["url"]) == ("shop.orders", "managed", orders.url)


def test_grants_and_tokens_are_given_and_taken(url: str, orders: tahoe.Table) -> None:  # noqa: ARG001
    assert run("grant", url, "ana", "SELECT").exit_code == 2  # nobody knows her
    fine("token", url, "ana", "--days", "1")
    assert "SELECT" in fine("grant", url, "ana", "select", "shop.orders")
    assert "SELECT" not in fine("grant", url, "ana", "SELECT", "shop.orders", "--revoke")
    fine("grant", url, "ana", "OWNER", "shop")
    for wrong in (("FLY",), ("OWNER",), ("USE", "shop.orders"), ("SELECT", "bank"), ("SELECT", "shop.order")):
        assert run("grant", url, "ana", *wrong).exit_code == 2
    assert "1" in fine("token", url, "ana", "--drop")


def test_a_new_database_is_made(url: str) -> None:
    assert url in fine("init", url)
    assert "no tables" in fine("tables", url)
