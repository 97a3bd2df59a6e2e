"""A storage that ignores `If-None-Match` is found out before a commit is given to it, and no other storage is
bothered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from urllib.parse import unquote

import pytest

from tahoe.errors import ConditionalCreateIgnoredError
from tahoe.protocol.log.log_files import commit_key
from tahoe.storage import cloud, open_store
from tahoe.storage.cloud_options import foreign_endpoint
from tahoe.storage.memory import MemoryStore
from tahoe.storage.probe import check_creates_once
from tahoe.table.log.committer import Committed, put_commit
from tests.storage.proxies import proxied
from tests.storage.servers import BUCKET, Server, s3_client
from tests.table.builders import memory_env


@pytest.fixture(autouse=True)
def _nothing_was_tried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud, "_probed", set())


@pytest.fixture
def puts() -> list[str]:
    """The paths that were put."""
    return []


@pytest.fixture
def honest(s3: Server, puts: list[str]) -> Iterator[Server]:
    def pass_on(request: BaseHTTPRequestHandler, _: Callable[[], None]) -> None:
        puts.append(request.path)
        request.forward()  # type: ignore[attr-defined]

    with proxied(s3, pass_on) as server:
        yield server


@pytest.fixture
def lying(s3: Server, puts: list[str]) -> Iterator[Server]:
    """Every put overwrites, and is told that it created the file."""

    def ignore_the_condition(request: BaseHTTPRequestHandler, _: Callable[[], None]) -> None:
        puts.append(request.path)
        s3_client(s3).delete_object(Bucket=BUCKET, Key=unquote(request.path.removeprefix(f"/{BUCKET}/")))
        request.forward()  # type: ignore[attr-defined]

    with proxied(s3, ignore_the_condition) as server:
        yield server


@pytest.mark.server
def test_a_storage_that_ignores_the_condition_gets_no_commit(lying: Server, puts: list[str]) -> None:
    store = open_store(f"{lying.url}/lying", lying.options)
    with pytest.raises(ConditionalCreateIgnoredError) as caught:
        put_commit(replace(memory_env(), store=store), 0, b"mine")
    told = str(caught.value)
    assert "created twice" in told
    assert "'second'" in told
    assert "AWS_S3_LOCKING_PROVIDER=dynamodb" in caught.value.next_step
    assert list(store.walk()) == []
    assert all(path.endswith(".tmp") for path in puts)
    with pytest.raises(ConditionalCreateIgnoredError):
        store.put_if_absent(commit_key(0), b"again")


@pytest.mark.server
def test_reading_such_a_storage_works(lying: Server, puts: list[str]) -> None:
    store = open_store(f"{lying.url}/reading", lying.options)
    store.put(commit_key(0), b"0")
    assert [store.get(file.key) for file in store.list_from("_delta_log")] == [b"0"]
    assert len(puts) == 1


@pytest.mark.server
def test_with_a_commit_service_such_a_storage_is_written(lying: Server, aws: Server) -> None:
    options = {**lying.options, "AWS_S3_LOCKING_PROVIDER": "dynamodb", "AWS_ENDPOINT_URL_DYNAMODB": aws.endpoint}
    store = open_store(f"{lying.url}/served", options)
    assert put_commit(replace(memory_env(), store=store), 0, b"mine") == Committed()
    assert store.put_if_absent(commit_key(0), b"theirs") is False
    assert store.get(commit_key(0)) == b"mine"


@pytest.mark.server
def test_an_honest_storage_is_tried_out_once_for_bucket_and_options(honest: Server, puts: list[str]) -> None:
    """Four more requests with each commit would make it several times as slow."""

    def create(folder: int) -> bool:
        return open_store(f"{honest.url}/honest/{folder}", honest.options).put_if_absent(commit_key(0), b"0")

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(create, range(4)))
    assert len([path for path in puts if path.endswith(".tmp")]) == 2
    open_store(f"{honest.url}/honest/4", {**honest.options, "timeout": "29s"}).put_if_absent(commit_key(0), b"0")
    assert len([path for path in puts if path.endswith(".tmp")]) == 4
    assert len(list(open_store(f"{honest.url}/honest", honest.options).walk())) == 5


@pytest.mark.parametrize(
    ("url", "options", "environment", "expected"),
    [
        ("s3://b", {"endpoint": "http://minio:9000"}, {}, "http://minio:9000"),
        ("s3://b", {"aws_endpoint_url": "https://s3.example.org"}, {}, "https://s3.example.org"),
        ("s3a://b", {"fs.s3a.endpoint": "minio:9000"}, {}, "https://minio:9000"),
        ("s3://b", {}, {"AWS_ENDPOINT_URL": "http://minio:9000"}, "http://minio:9000"),
        ("s3://b", {"endpoint": "https://s3.eu-west-1.amazonaws.com"}, {"AWS_ENDPOINT_URL": "http://minio:9000"}, None),
        ("s3a://b", {"fs.s3a.endpoint": "s3.cn-north-1.amazonaws.com.cn"}, {}, None),
        ("s3://b", {"endpoint": "https://amazonaws.com.example.org"}, {}, "https://amazonaws.com.example.org"),
        ("s3://b", {"region": "us-east-1"}, {}, None),
        ("az://b", {"endpoint": "http://127.0.0.1:10000"}, {"AWS_ENDPOINT_URL": "http://minio:9000"}, None),
        ("gs://b", {}, {"AWS_ENDPOINT_URL": "http://minio:9000"}, None),
    ],
)
def test_who_is_tried_out(url: str, options: dict[str, str], environment: dict[str, str], expected: str | None) -> None:
    scheme, _, bucket = url.partition("://")
    assert foreign_endpoint(options, environment, scheme, bucket) == expected


class SaysExists(MemoryStore):
    """Overwrites, and says that the file was there."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self.put(key, data)
        return False


def test_the_content_counts_as_well_as_the_answer() -> None:
    store = SaysExists("memory://probe-says-exists")
    with pytest.raises(
        ConditionalCreateIgnoredError,
        match="reported that the file exists for the second request, and then returned the content 'second'",
    ):
        check_creates_once(store, "_delta_log")
    assert list(store.walk()) == []


@pytest.mark.parametrize("folder", ["", "_delta_log"])
def test_a_store_that_keeps_its_promise_passes(folder: str) -> None:
    store = MemoryStore("memory://probe-keeps")
    check_creates_once(store, folder)
    assert list(store.walk()) == []
