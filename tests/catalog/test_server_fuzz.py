"""A server that gets anything answers with its own errors: no stack trace, no fault, and nothing that is not the
caller's to see.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.catalog.entries import TableEntry
from tahoe.catalog.server.app import OWN, PREFIX, ROUTES
from tahoe.storage.background import finish_background
from tests.catalog.serving import Client, Served, appended, served, staged

# What a server may answer.
ANSWERS = {200, 400, 401, 403, 404, 405, 409, 413, 501}

NAMES = st.sampled_from(
    ["lake", "shop", "orders", "lake.shop", "lake.shop.orders", "new", "..", "a/b", "catalog", "table"]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**300, max_value=10**301),
    st.floats(),
    st.text(max_size=20),
    NAMES,
    st.sampled_from(["\0", "\ud800", "%00", "-1", "0", "1e9", "READ", "MANAGED", "EXTERNAL", "DELTA", "PATH_READ"]),
    st.sampled_from(["file:///", "file:///etc", "s3://", "s3://b/../..", "nothing://x", "/etc/../tmp", "~", "C:\\x"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        "name",
        "catalog_name",
        "schema_name",
        "full_name",
        "table_type",
        "data_source_format",
        "storage_location",
        "columns",
        "comment",
        "properties",
        "table_id",
        "table_uri",
        "start_version",
        "end_version",
        "commit_info",
        "latest_backfilled_version",
        "metadata",
        "uniform",
        "url",
        "operation",
        "changes",
        "principal",
        "add",
        "remove",
        "updates",
        "requirements",
        "location",
        "table-type",
        "tables",
    ]
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = served(Path(tmp_path_factory.mktemp("lake")))
    yield found
    finish_background()


def orders(lake: Served) -> TableEntry:
    return table(lake, "shop.orders")


def table(lake: Served, name: str) -> TableEntry:
    """A table, made anew if a call has dropped it."""
    lake.catalog.create_schema("shop", if_not_exists=True)
    found = [entry for entry in lake.catalog.tables() if entry.name == name]
    if not found:
        lake.catalog.create_table(name, pa.schema([("id", pa.int64())]))
    return found[0] if found else table(lake, name)


@pytest.fixture(scope="module")
def admin(lake: Served) -> Client:
    return lake.client("ada", "ADMIN")


@pytest.fixture(scope="module")
def nobody(lake: Served) -> Client:
    return lake.client("nobody")


def asked(data: st.DataObject, client: Client, body: Any) -> str:
    """What the server answers to a call of any endpoint."""
    method, path, _ = data.draw(st.sampled_from(ROUTES))
    while "{" in path:
        name = path[path.index("{") : path.index("}") + 1]
        path = path.replace(name, quote(data.draw(NAMES | st.text(max_size=10)).encode("utf-8", "replace")), 1)
    query = data.draw(
        st.dictionaries(FIELDS | st.sampled_from(["max_results", "page_token"]), st.text(max_size=10), max_size=3)
    )
    headers = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"}
    content = json.dumps(body).encode()
    answer = client.http.request(method, path, content=content, params=query, headers=headers, follow_redirects=False)
    assert answer.status_code in ANSWERS | {307}, (method, path, query, body, answer.text)
    if answer.status_code not in (200, 307):
        told = answer.json()
        assert set(told) in ({"error_code", "message", "details"}, {"error"}), told
    assert "Traceback" not in answer.text
    assert ".py" not in answer.text
    return answer.text


@given(data=st.data(), body=st.dictionaries(FIELDS, VALUES, max_size=6) | VALUES)
def test_anything_is_answered(lake: Served, admin: Client, data: st.DataObject, body: Any) -> None:
    before = orders(lake)
    asked(data, admin, body)
    assert before.latest_version == orders(lake).latest_version == 0


@given(data=st.data(), body=st.dictionaries(FIELDS, VALUES, max_size=6))
def test_nothing_is_shown_to_who_has_no_grant(lake: Served, nobody: Client, data: st.DataObject, body: Any) -> None:
    entry = orders(lake)
    told = asked(data, nobody, body)
    assert entry.id not in told
    assert entry.url not in told


@given(token=st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
def test_no_token_is_taken_for_another(lake: Served, token: str) -> None:
    header = f"Bearer {token}".encode("utf-8", "replace").replace(b"\n", b"").replace(b"\r", b"").replace(b"\0", b"")
    assert lake.http.get(f"{PREFIX}/catalogs", headers=[(b"Authorization", header)]).status_code == 401


@given(
    changes=st.dictionaries(
        st.sampled_from(["version", "timestamp", "file_name", "file_size", "file_modification_timestamp"]),
        VALUES,
        min_size=1,
    ),
    content=st.binary(max_size=200)
    | st.lists(VALUES, max_size=3).map(lambda lines: b"\n".join(json.dumps(line).encode() for line in lines)),
)
def test_what_is_ratified_can_be_read(lake: Served, admin: Client, changes: Any, content: bytes) -> None:
    """Most commits of any content are refused; some changes leave a legal one."""
    stamp = 2**42
    for changed in (True, False):
        entry = orders(lake)
        info = staged(entry.url, 1, appended(stamp) if changed else content, stamp) | (changes if changed else {})
        body = {"table_id": entry.id, "table_uri": entry.url, "commit_info": info}
        status, told = admin.call("POST", "/delta/preview/commits", body)
        if status == 200:
            assert lake.catalog.table("shop.orders").snapshot().version == 1
            lake.catalog.drop_table("shop.orders")
        else:
            assert status in (400, 409), told
            assert told["error_code"] in ("INVALID_ARGUMENT", "COMMIT_VERSION_CONFLICT")
            assert orders(lake).latest_version == 0


@given(
    changes=st.dictionaries(st.sampled_from(["table_id", "table_uri", "version", "commits"]), VALUES, max_size=2),
    commit=st.dictionaries(
        st.sampled_from(["version", "timestamp", "file_name", "file_size", "file_modification_timestamp"]),
        VALUES,
        max_size=2,
    ),
    more=st.lists(VALUES, max_size=2),
)
def test_a_transaction_of_anything_is_whole(
    lake: Served, admin: Client, changes: Any, commit: Any, more: list[Any]
) -> None:
    """A table of it is legal. What is beside it may not be; then nothing is ratified, and otherwise all."""
    names, stamp = ("shop.orders", "shop.stock"), 2**42
    tables = []
    for name in names:
        entry = table(lake, name)
        info = staged(entry.url, 1, appended(stamp), stamp)
        tables.append({"table_id": entry.id, "table_uri": entry.url, "version": 0, "commits": [info]})
    tables[1]["commits"][0] |= commit
    tables[1] |= changes
    status, told = admin.call("POST", "/transactions", {"tables": [*tables, *more]}, under=OWN)
    if status == 200:
        assert lake.catalog.table(names[0]).snapshot().version == 1
        assert (table(lake, names[1]).latest_version == 1) == ("commits" not in changes)
        for name in names:
            lake.catalog.drop_table(name)
    else:
        assert status in (400, 404, 409), told
        assert "Traceback" not in json.dumps(told)
        assert [table(lake, name).latest_version for name in names] == [0, 0]
