"""What the local cache needs of an S3 server: one ETag for a file in every answer, another one for other content, and
an answer without content where nothing changed. `TAHOE_S3_SERVER` says which server.
"""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tahoe.storage import open_store
from tahoe.storage.cache.block_cache import BlockCache
from tahoe.storage.cache.cached_store import CachedStore
from tahoe.storage.cloud import CloudStore
from tests.storage.servers import BUCKET, Server, s3_client

pytestmark = pytest.mark.server

# A file that is put by one request, and one that is put in parts.
SIZES = pytest.mark.parametrize("size", [1000, (10 << 20) + 1], ids=["one request", "parts"])


@pytest.fixture
def store(s3: Server, request: pytest.FixtureRequest, tmp_path: Path) -> CachedStore:
    inner = open_store(f"{s3.url}/cached/{request.node.name}", s3.options)
    assert isinstance(inner, CloudStore)
    return CachedStore(inner=inner, realm="", blocks=BlockCache(str(tmp_path / "cache"), 100 << 20))


def content(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


@SIZES
def test_a_file_has_one_etag_in_every_answer(store: CachedStore, size: int) -> None:
    store.put("a", io.BytesIO(content(size, 0)))
    head = store.head("a")
    whole, part = store.inner.fetch("a"), store.inner.fetch("a", 5, 10)
    assert head is not None
    assert whole is not None
    assert part is not None
    assert head.etag
    assert {info.identity for info in (whole.info, part.info, *store.list_from(""), *store.walk())} == {head.identity}


@SIZES
def test_what_did_not_change_is_not_sent(s3: Server, store: CachedStore, size: int) -> None:
    store.put("a", io.BytesIO(content(size, 0)))
    assert store.get("a") == content(size, 0)
    fetched = store.blocks.metrics().fetched_bytes
    assert store.get("a") == content(size, 0)
    with store.open("a") as file:
        assert file.read() == content(size, 0)
    assert store.blocks.metrics().fetched_bytes == fetched == size
    info = store.head("a")
    assert info is not None
    assert store.inner.fetch("a", unless=info) is None
    with pytest.raises(ClientError) as caught:
        key = f"{store.url.removeprefix(f's3://{BUCKET}/')}/a"
        s3_client(s3).get_object(Bucket=BUCKET, Key=key, IfNoneMatch=f'"{info.etag}"')
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 304


@SIZES
def test_a_file_of_the_same_size_is_another_file(store: CachedStore, size: int) -> None:
    """Put in the same second, so only the ETag tells."""
    for seed in range(3):
        store.put("a", io.BytesIO(content(size, seed)))
        info = store.head("a")
        for _ in range(2):
            assert store.get("a") == content(size, seed)
            assert store.get_range("a", 7, 100) == content(size, seed)[7:107]
            with store.open("a", info) as file:
                assert file.read() == content(size, seed)
