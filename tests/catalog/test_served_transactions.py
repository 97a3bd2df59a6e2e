"""The endpoints of transactions over several tables: what is ratified of them, for whom, and after answers that were
lost.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.catalog.commits import CatalogCommits
from tahoe.catalog.grants import MODIFY, SELECT, USE_CATALOG, USE_SCHEMA
from tahoe.catalog.ratification import DatabaseRatifier
from tahoe.catalog.server.app import OWN
from tahoe.catalog.server.transactions import COMMITS_MAX
from tahoe.errors import (
    CatalogRefusedError,
    CatalogUnavailableError,
    DeltaConcurrentModificationException,
    TransactionConflictError,
)
from tahoe.storage.background import finish_background
from tahoe.storage.locations import local_path
from tests.catalog.serving import Client, Served, appended, listening, served, staged

SCHEMA = pa.schema([("id", pa.int64())])
NAMES = ("shop.orders", "shop.stock")
LATER_MS = time.time_ns() // 1_000_000 + 3_600_000

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Served]:
    found = served(tmp_path)
    found.catalog.create_schema("shop")
    for name in NAMES:
        found.catalog.create_table(name, SCHEMA)
    yield found
    finish_background()


@pytest.fixture
def admin(lake: Served) -> Client:
    return lake.client("ada", "ADMIN")


def tables(lake: Served) -> list[tahoe.Table]:
    return [lake.catalog.table(name) for name in NAMES]


def versions(lake: Served) -> list[int]:
    return [table.version for table in tables(lake)]


def asked(lake: Served, name: str, *, commits: int = 1, base: int = 0) -> dict[str, Any]:
    """A table of a transaction, whose commits are staged."""
    table_id, url = lake.catalog.located(name)
    infos = [
        staged(url, base + n, appended(LATER_MS + base + n, f"{n}.parquet"), LATER_MS + base + n)
        for n in range(1, commits + 1)
    ]
    return {"table_id": table_id, "table_uri": url, "version": base, "commits": infos}


def post(client: Client, *given: dict[str, Any]) -> tuple[int, Any]:
    return client.call("POST", "/transactions", {"tables": list(given)}, under=OWN)


# --- what is ratified


def test_the_commits_of_several_tables_are_ratified_together(lake: Served, admin: Client) -> None:
    given = [asked(lake, name, commits=2) for name in NAMES]
    assert post(admin, *given) == (200, {})
    assert versions(lake) == [2, 2]
    assert [table.snapshot().timestamp_ms for table in tables(lake)] == [LATER_MS + 2] * 2
    finish_background()
    assert [entry.unpublished for entry in lake.catalog.tables()] == [0, 0]


def test_a_call_is_repeated_and_has_the_same_answer(lake: Served, admin: Client) -> None:
    """Also when others have committed since, and a table that it has read has changed."""
    given = [asked(lake, "shop.orders"), {**asked(lake, "shop.stock"), "commits": []}]
    assert post(admin, *given) == (200, {})
    for table in tables(lake):
        table.append(pa.table({"id": [1]}))
    finish_background()
    assert post(admin, *given) == (200, {})
    assert versions(lake) == [2, 1]


def test_a_table_that_is_behind_is_told_and_nothing_is_ratified(lake: Served, admin: Client) -> None:
    given = [asked(lake, name) for name in NAMES]
    lake.catalog.table("shop.stock").append(pa.table({"id": [1]}))
    for _ in range(2):
        status, told = post(admin, *given)
        assert (status, told["error_code"]) == (409, "COMMIT_VERSION_CONFLICT")
        assert told["details"] == [{"table_id": given[1]["table_id"]}]
    assert versions(lake) == [0, 1]


def test_a_table_that_was_read_must_be_as_it_was(lake: Served, admin: Client) -> None:
    given = [asked(lake, "shop.orders"), {**asked(lake, "shop.stock"), "commits": []}]
    lake.catalog.table("shop.stock").append(pa.table({"id": [1]}))
    status, told = post(admin, *given)
    assert (status, told["details"]) == (409, [{"table_id": given[1]["table_id"]}])
    assert versions(lake) == [0, 1]
    assert post(admin, {**given[1], "version": 1}) == (200, {})
    assert post(admin, given[0], {**given[1], "version": 1}) == (200, {})


def test_one_illegal_commit_refuses_all(lake: Served, admin: Client) -> None:
    good, other = (asked(lake, name) for name in NAMES)
    url, now = other["table_uri"], LATER_MS
    info = {**other["commits"][0]}
    for why, wrong in {
        "outside": {"commits": [staged(url, 1, appended(now, "../x.parquet"), now)]},
        "time before": {"commits": [staged(url, 1, appended(1), 1)]},
        "second time before": {"commits": [info, staged(url, 2, appended(now - 9), now - 9)]},
        "the same file twice": {"commits": [info, {**info, "version": 2}]},
        "a gap": {"commits": [{**info, "version": 2}]},
        "not staged": {"commits": [{**info, "file_name": f"{1:020}.{uuid.uuid4()}.json"}]},
        "ahead": {"version": 5},
        "another folder": {"table_uri": good["table_uri"]},
        "no version": {"version": None},
        "one table twice": {"table_id": good["table_id"], "table_uri": good["table_uri"]},
        "too many": {"commits": [info] * COMMITS_MAX},
        "no table": {"table_id": None},
    }.items():
        status, told = post(admin, good, {**other, **wrong})
        assert (status, told.get("error_code")) == (400, "INVALID_ARGUMENT"), (why, told)
        assert versions(lake) == [0, 0], why
    assert post(admin)[0] == 400
    assert post(admin, good, other) == (200, {})


# --- for whom


def test_who_lacks_a_grant_on_one_table_changes_none(lake: Served, admin: Client) -> None:
    guest = lake.client("guest", USE_CATALOG, USE_SCHEMA)
    given = [asked(lake, name) for name in NAMES]
    grants = [{"principal": "guest", "add": [SELECT, MODIFY]}]
    admin.patch("/permissions/table/lake.shop.orders", changes=grants)
    nowhere = {**given[1], "table_id": str(uuid.uuid4())}
    status, told = post(guest, *given)
    other_status, other = post(guest, given[0], nowhere)
    assert (status, other_status, told["error_code"]) == (404, 404, "TABLE_NOT_FOUND")
    assert told["message"].replace(given[1]["table_id"], "") == other["message"].replace(nowhere["table_id"], "")
    admin.patch("/permissions/table/lake.shop.stock", changes=[{"principal": "guest", "add": [SELECT]}])
    status, told = post(guest, *given)
    assert (status, told["error_code"]) == (403, "PERMISSION_DENIED")
    assert versions(lake) == [0, 0]
    assert post(guest, given[0], {**given[1], "commits": []}) == (200, {})


def test_a_moment_has_the_tables_that_one_sees(lake: Served, admin: Client) -> None:
    lake.catalog.table("shop.stock").append(pa.table({"id": [1]}))
    told = admin.get("/tables", under=OWN)["tables"]
    assert [(table["name"], table["latest_version"], table["kind"]) for table in told] == [
        ("shop.orders", 0, "managed"),
        ("shop.stock", 1, "managed"),
    ]
    assert [table["url"] for table in told] == [table.url for table in tables(lake)]
    guest = lake.client("guest", USE_CATALOG, USE_SCHEMA)
    assert guest.get("/tables", under=OWN) == {"tables": []}
    admin.patch("/permissions/table/lake.shop.stock", changes=[{"principal": "guest", "add": [SELECT]}])
    assert [table["name"] for table in guest.get("/tables", under=OWN)["tables"]] == ["shop.stock"]


def test_a_client_without_a_grant_is_refused(lake: Served, admin: Client) -> None:
    guest = lake.client("guest", USE_CATALOG, USE_SCHEMA)
    admin.patch("/permissions/table/lake.shop.orders", changes=[{"principal": "guest", "add": [SELECT, MODIFY]}])
    admin.patch("/permissions/table/lake.shop.stock", changes=[{"principal": "guest", "add": [SELECT]}])
    with listening(lake.service) as at:
        with pytest.raises(CatalogRefusedError, match=r"MODIFY on lake\.shop\.stock"):
            append_to_both(tahoe.Catalog(at, token=guest.token))
        finish_background()
    assert versions(lake) == [0, 0]


def test_nothing_is_left_of_a_block_that_the_server_refuses(lake: Served, admin: Client) -> None:
    with listening(lake.service) as at:
        client = tahoe.Catalog(at, token=admin.token)
        with pytest.raises(TransactionConflictError, match=r"shop\.stock.*given back"), client.transaction() as changes:
            for name in NAMES:
                changes.table(name).append(pa.table({"id": [1]}))
            lake.catalog.release_table("shop.stock")
        finish_background()
    for table in tables(lake):
        assert list(Path(local_path(table.url)).glob(f"_delta_log/_staged_commits/{1:020}.*")) == []
    assert lake.catalog.table("shop.orders").version == 0


# --- answers that are lost


def append_to_both(catalog: tahoe.Catalog) -> None:
    with catalog.transaction() as changes:
        for name in NAMES:
            changes.table(name).append(pa.table({"id": [1]}))


def losing(path: str, *answers: int) -> Callable[[Asgi], Asgi]:
    """The first calls of a path are done, and then have these answers instead of their own."""
    left = list(answers)

    def wrapped(application: Asgi) -> Asgi:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or scope["path"] != path or not left:
                await application(scope, receive, send)
                return
            status = left.pop(0)

            async def other(message: Any) -> None:
                if message["type"] == "http.response.start":
                    await send({"type": "http.response.start", "status": status, "headers": []})
                    await send(
                        {"type": "http.response.body", "body": json.dumps({"error_code": "X", "message": "x"}).encode()}
                    )

            await application(scope, receive, other)

        return answer

    return wrapped


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tahoe.catalog.server_calls._PAUSE_SECONDS", 0)


def test_a_client_that_loses_an_answer_asks_again(lake: Served, admin: Client) -> None:
    with listening(lake.service, losing(f"{OWN}/transactions", 503, 503)) as at:
        append_to_both(tahoe.Catalog(at, token=admin.token))
        finish_background()
    assert versions(lake) == [1, 1]
    assert [table.count() for table in tables(lake)] == [1, 1]


def test_an_answer_that_never_comes_is_told(lake: Served, admin: Client) -> None:
    """The transaction is there: what was staged for it may not be deleted."""
    with listening(lake.service, losing(f"{OWN}/transactions", *[503] * 5)) as at:
        with pytest.raises(CatalogUnavailableError):
            append_to_both(tahoe.Catalog(at, token=admin.token))
        finish_background()
    assert [table.count() for table in tables(lake)] == [1, 1]


def test_a_refusal_behind_a_lost_answer_does_not_tell(lake: Served, admin: Client) -> None:
    """As when the token expires between the two calls: the first one was done, and what it staged stays."""
    with listening(lake.service, losing(f"{OWN}/transactions", 503, 401)) as at:
        with pytest.raises(CatalogUnavailableError, match="answer was lost"):
            append_to_both(tahoe.Catalog(at, token=admin.token))
        finish_background()
    assert [table.count() for table in tables(lake)] == [1, 1]


def test_a_call_that_is_repeated_while_it_still_runs_is_no_conflict(
    lake: Served, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would have its client delete what is ratified."""
    given, ratify = [asked(lake, name) for name in NAMES], DatabaseRatifier.ratify

    def beside_the_first(self: DatabaseRatifier, changes: Any) -> str | None:
        assert ratify(self, changes) is None
        return ratify(self, changes)

    monkeypatch.setattr(DatabaseRatifier, "ratify", beside_the_first)
    assert post(admin, *given) == (200, {})
    assert versions(lake) == [1, 1]


def test_so_is_one_of_a_single_table(lake: Served, admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    given = asked(lake, NAMES[0])
    body = {"table_id": given["table_id"], "table_uri": given["table_uri"], "commit_info": given["commits"][0]}
    ratify = CatalogCommits.ratify

    def beside_the_first(self: Any, commit: Any) -> bool:
        assert ratify(self, commit)
        return ratify(self, commit)

    monkeypatch.setattr(CatalogCommits, "ratify", beside_the_first)
    assert admin.call("POST", "/delta/preview/commits", body) == (200, {})
    assert versions(lake) == [1, 0]


def test_a_server_that_dies_before_it_ratifies_leaves_nothing(
    lake: Served, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise OSError

    with listening(lake.service) as at:
        catalog = tahoe.Catalog(at, token=admin.token)
        with monkeypatch.context() as patched, pytest.raises(CatalogUnavailableError):
            patched.setattr(DatabaseRatifier, "ratify", dies)
            append_to_both(catalog)
        assert versions(lake) == [0, 0]
        append_to_both(catalog)
        finish_background()
    assert [table.count() for table in tables(lake)] == [1, 1]


# --- clients beside each other


def test_clients_that_race_take_turns(lake: Served, admin: Client) -> None:
    done, failures = list[int](), list[BaseException]()

    def work(at: str, number: int) -> None:
        catalog = tahoe.Catalog(at, token=admin.token)
        while done.count(number) < 5:
            try:
                append_to_both(catalog)
                done.append(number)
            except DeltaConcurrentModificationException:
                continue
            except BaseException as error:
                failures.append(error)
                raise

    with listening(lake.service) as at:
        threads = [threading.Thread(target=work, args=(at, number)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        finish_background()
    assert not failures
    assert [table.count() for table in tables(lake)] == [10, 10]
    assert versions(lake) == [10, 10]


def test_nothing_is_left_of_what_was_refused(lake: Served, admin: Client) -> None:
    """A conflict that the client finds takes its staged commits along."""
    with listening(lake.service) as at:
        catalog = tahoe.Catalog(at, token=admin.token)
        catalog.table(NAMES[1]).append(pa.table({"id": [1]}))
        with pytest.raises(DeltaConcurrentModificationException), catalog.transaction() as changes:
            changes.table(NAMES[0]).append(pa.table({"id": [1]}))
            changes.table(NAMES[1]).delete("id = 1")
            catalog.table(NAMES[1]).delete("id = 1")
        finish_background()
    staged_files = Path(local_path(tables(lake)[0].url)) / "_delta_log" / "_staged_commits"
    assert not list(staged_files.glob(f"{1:020}.*"))
