"""The commit service in DynamoDB: the layout of the reference, by which its writers and ours share tables, and what
users set.
"""

from __future__ import annotations

import itertools
import pickle
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import deltalake
import pyarrow as pa
import pytest
from botocore.stub import Stubber

import tahoe
from tahoe.errors import (
    CommitEntryError,
    CommitTableMissingError,
    InvalidOptionError,
    PackageMissingError,
    StorageRefusedError,
    StorageUnavailableError,
)
from tahoe.protocol.log.log_files import commit_key, commit_name
from tahoe.storage import dynamodb, open_store
from tahoe.storage.cloud import CloudStore
from tahoe.storage.commit_service import CommitEntry
from tahoe.storage.coordinated import CoordinatedStore
from tahoe.storage.dynamodb import DynamoDBCommitService, _entry
from tahoe.storage.service_options import commit_service, without_service
from tests.storage.servers import Server

_folders = itertools.count()
KEYS = {"access_key_id": "somebody", "secret_access_key": "secret"}


@pytest.fixture
def url(coordinated_s3: Server) -> str:
    return f"s3a{coordinated_s3.url.removeprefix('s3')}/dynamo db/{next(_folders)}"


@pytest.fixture
def service(aws: Server) -> DynamoDBCommitService:
    return DynamoDBCommitService(endpoint=aws.endpoint, **KEYS)


@pytest.fixture
def store(coordinated_s3: Server, url: str) -> CoordinatedStore:
    found = open_store(url, coordinated_s3.options)
    assert isinstance(found, CoordinatedStore)
    return found


@pytest.fixture
def client(aws: Server) -> Any:
    """DynamoDB itself, with the table that the reference's documentation has users make."""
    found = boto3.client(
        "dynamodb",
        endpoint_url=aws.endpoint,
        region_name="us-east-1",
        aws_access_key_id="somebody",
        aws_secret_access_key="secret",
    )
    if "delta_log" not in found.list_tables()["TableNames"]:
        found.create_table(
            TableName="delta_log",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("tablePath", "fileName")],
            KeySchema=[
                {"AttributeName": "tablePath", "KeyType": "HASH"},
                {"AttributeName": "fileName", "KeyType": "RANGE"},
            ],
            ProvisionedThroughput={"ReadCapacityUnits": 5, "WriteCapacityUnits": 5},
        )
    return found


def item(client: Any, url: str, version: int) -> Mapping[str, Any]:
    key = {"tablePath": {"S": url}, "fileName": {"S": commit_name(version)}}
    found: Mapping[str, Any] = client.get_item(TableName="delta_log", Key=key, ConsistentRead=True)["Item"]
    return found


# --- the layout


@pytest.mark.server
def test_an_entry_is_that_of_the_reference(
    client: Any, store: CoordinatedStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ExternalCommitEntry and S3DynamoDBLogStore.createPutItemRequest: one attribute of another type, and its readers
    fail.
    """

    def refuse(_: DynamoDBCommitService, entry: CommitEntry) -> None:
        raise StorageRefusedError(table=entry.table, operation="write", detail="for the test")

    monkeypatch.setattr(DynamoDBCommitService, "complete", refuse)
    store.put_if_absent(commit_key(0), b"0")
    made = item(client, url, 0)
    assert set(made) == {"tablePath", "fileName", "tempPath", "complete"}
    assert made["complete"] == {"S": "false"}
    assert made["tempPath"]["S"].startswith(".tmp/00000000000000000000.json.")
    assert store.inner.get(f"_delta_log/{made['tempPath']['S']}") == b"0"
    monkeypatch.undo()
    assert [file.key for file in store.list_from("_delta_log")] == [commit_key(0)]
    completed = item(client, url, 0)
    assert {**completed, "expireTime": None} == {**made, "complete": {"S": "true"}, "expireTime": None}
    assert abs(int(completed["expireTime"]["N"]) - time.time() - 86_400) < 60


def put_as_the_reference(client: Any, url: str, version: int, temporary: str) -> None:
    client.put_item(
        TableName="delta_log",
        Item={
            "tablePath": {"S": url},
            "fileName": {"S": f"{version:020d}.json"},
            "tempPath": {"S": temporary},
            "complete": {"S": "false"},
        },
        Expected={"fileName": {"Exists": False}},
    )


@pytest.mark.server
@pytest.mark.parametrize(
    "temporary", [".tmp/{name}.c9a2a5e5-7d0a-4a6d-8f35-a3c2b3f5d1aa", "_commit_c9a2a5e5-7d0a-4a6d-8f35.json.tmp"]
)
def test_what_another_writer_has_left_unfinished_is_finished(
    client: Any, store: CoordinatedStore, url: str, temporary: str
) -> None:
    """The first name is the reference's, the second one is that of delta-rs."""
    store.put_if_absent(commit_key(0), b"0")
    temporary = temporary.format(name=commit_name(1))
    store.inner.put(f"_delta_log/{temporary}", b"theirs")
    put_as_the_reference(client, url, 1, temporary)
    assert store.inner.head(commit_key(1)) is None
    assert [file.key for file in store.list_from("_delta_log")] == [commit_key(0), commit_key(1)]
    assert store.get(commit_key(1)) == b"theirs"
    assert item(client, url, 1)["complete"] == {"S": "true"}
    assert "expireTime" in item(client, url, 1)


@pytest.mark.server
def test_an_entry_that_was_marked_before_stays_what_it_is(
    client: Any, service: DynamoDBCommitService, url: str
) -> None:
    """A reader that comes late must not bring back what has expired, nor mark another writer's entry."""
    entry = CommitEntry(table=url, file=commit_name(0), temporary=".tmp/a")
    service.complete(entry)
    assert service.find(url, entry.file) is None
    put_as_the_reference(client, url, 0, ".tmp/b")
    service.complete(entry)
    assert item(client, url, 0)["complete"] == {"S": "false"}


@pytest.mark.server
def test_a_request_that_was_sent_twice_has_not_lost_to_itself(
    client: Any, service: DynamoDBCommitService, url: str
) -> None:
    """boto3 repeats a request whose answer was lost: the condition fails then, because the entry is ours."""
    ours = CommitEntry(table=url, file=commit_name(0), temporary=".tmp/a")
    put_as_the_reference(client, url, 0, ".tmp/a")
    assert service.claim(ours) is True
    assert service.claim(CommitEntry(table=url, file=commit_name(0), temporary=".tmp/b")) is False


@pytest.mark.server
def test_the_newest_entry_is_that_of_this_table(service: DynamoDBCommitService, url: str) -> None:
    for version in (9, 10):
        service.claim(CommitEntry(table=url, file=commit_name(version), temporary=f".tmp/{version}"))
    service.claim(CommitEntry(table=f"{url}0", file=commit_name(11), temporary=".tmp/11"))
    assert service.newest(url) == CommitEntry(table=url, file=commit_name(10), temporary=".tmp/10")
    assert service.newest(f"{url}/none") is None
    assert pickle.loads(pickle.dumps(service)).newest(url) == service.newest(url)


# --- its table


@pytest.mark.server
def test_a_missing_table_is_made_with_the_first_commit(aws: Server, client: Any, url: str) -> None:
    """As the reference does. Who only reads needs no right to do so."""
    name = f"made-{next(_folders)}"
    service = DynamoDBCommitService(table_name=name, endpoint=aws.endpoint, **KEYS)
    assert service.newest(url) is None
    assert service.find(url, commit_name(0)) is None
    assert name not in client.list_tables()["TableNames"]
    with ThreadPoolExecutor(4) as pool:
        claims = [
            pool.submit(service.claim, CommitEntry(table=url, file=commit_name(0), temporary=f".tmp/{n}"))
            for n in range(4)
        ]
        assert sum(claim.result() for claim in claims) == 1
    made = client.describe_table(TableName=name)["Table"]
    assert made["KeySchema"] == [
        {"AttributeName": "tablePath", "KeyType": "HASH"},
        {"AttributeName": "fileName", "KeyType": "RANGE"},
    ]


def test_a_table_that_cannot_be_made_is_an_error_that_says_how() -> None:
    service = DynamoDBCommitService(table_name="mine", region="eu-west-1", **KEYS)
    entry = CommitEntry(table="s3://b/t", file=commit_name(0), temporary=".tmp/a")
    with Stubber(dynamodb._client(service, "s3://b/t")) as answers:
        answers.add_client_error("put_item", "ResourceNotFoundException")
        answers.add_client_error("create_table", "AccessDeniedException", "not yours")
        with pytest.raises(CommitTableMissingError, match="not yours") as caught:
            service.claim(entry)
    assert "aws dynamodb create-table --region eu-west-1 --table-name mine" in caught.value.next_step


def test_without_boto3_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    dynamodb._client_of_process.cache_clear()
    monkeypatch.setitem(sys.modules, "boto3", None)
    store = open_store("s3://b/t", {"AWS_S3_LOCKING_PROVIDER": "dynamodb", "region": "us-east-1"})
    with pytest.raises(PackageMissingError, match=r"pip install boto3"):
        store.list_from("_delta_log")


def test_a_service_that_cannot_be_reached_is_an_error_without_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamodb, "_ATTEMPTS_MAX", 1)
    service = DynamoDBCommitService(endpoint="http://127.0.0.1:9", access_key_id="somebody", secret_access_key="s3cr3t")
    with pytest.raises(StorageUnavailableError, match="delta_log") as caught:
        service.claim(CommitEntry(table="s3://b/t", file=commit_name(0), temporary=".tmp/a"))
    assert "s3cr3t" not in str(caught.value) + repr(service)


# --- whole tables


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.mark.server
def test_eight_writers_that_race_all_commit(coordinated_s3: Server, client: Any, url: str) -> None:
    """On a storage without conditional puts. A version with two winners would lose one writer's row."""
    writers, each = 8, 3
    tahoe.Table(url, coordinated_s3.options).append(rows(-1))
    barrier = threading.Barrier(writers)

    def write(writer: int) -> None:
        table = tahoe.Table(url, coordinated_s3.options)
        for n in range(each):
            barrier.wait(120)
            table.append(rows(writer * each + n))

    with ThreadPoolExecutor(writers) as pool:
        for future in [pool.submit(write, n) for n in range(writers)]:
            future.result()
    table = tahoe.Table(url, coordinated_s3.options)
    assert table.version == writers * each
    assert Counter(table.to_arrow()["id"].to_pylist()) == Counter(range(-1, writers * each))
    assert all(item(client, url, version)["complete"] == {"S": "true"} for version in range(writers * each + 1))


@pytest.mark.server
def test_delta_rs_and_tahoe_take_turns(aws: Server, url: str) -> None:
    """delta-rs from 1.6 knows the service no more and puts its commits conditionally: where the storage obeys that, no
    row is lost.
    """
    options = {**aws.options, "AWS_S3_LOCKING_PROVIDER": "dynamodb"}
    theirs = {**aws.options, "AWS_S3_LOCKING_PROVIDER": "dynamodb", "aws_allow_http": "true"}
    theirs["aws_endpoint"] = theirs.pop("endpoint")
    theirs["aws_region"] = theirs.pop("region")
    for n in range(3):
        tahoe.Table(url, options).append(rows(2 * n))
        deltalake.write_deltalake(url, rows(2 * n + 1), mode="append", storage_options=theirs)
    assert sorted(tahoe.Table(url, options).to_arrow()["id"].to_pylist()) == list(range(6))
    assert sorted(deltalake.DeltaTable(url, storage_options=theirs).to_pyarrow_table()["id"].to_pylist()) == list(
        range(6)
    )


# --- what users set

DELTA_RS = {"AWS_S3_LOCKING_PROVIDER": "dynamodb"}
REFERENCE = {"spark.delta.logStore.s3a.impl": "io.delta.storage.S3DynamoDBLogStore"}


@pytest.mark.parametrize(
    ("options", "environment", "expected"),
    [
        (DELTA_RS, {}, {}),
        ({"aws_s3_locking_provider": "DynamoDB", "delta_dynamo_table_name": "t"}, {}, {"table_name": "t"}),
        ({}, {**DELTA_RS, "DELTA_DYNAMO_TABLE_NAME": "t", "AWS_REGION": "r"}, {"table_name": "t", "region": "r"}),
        ({**DELTA_RS, "DELTA_DYNAMO_TABLE_NAME": "t"}, {"DELTA_DYNAMO_TABLE_NAME": "other"}, {"table_name": "t"}),
        (
            {
                **DELTA_RS,
                "AWS_REGION": "r",
                "endpoint": "http://h",
                "aws_access_key_id": "a",
                "secret_access_key": "s",
                "AWS_SESSION_TOKEN": "t",
            },
            {},
            {
                "region": "r",
                "endpoint": "http://h",
                "access_key_id": "a",
                "secret_access_key": "s",
                "session_token": "t",
            },
        ),
        (
            {
                **DELTA_RS,
                "endpoint": "http://h",
                "AWS_ENDPOINT_URL_DYNAMODB": "http://d",
                "AWS_REGION_DYNAMODB": "dr",
                "region": "r",
            },
            {},
            {"region": "dr", "endpoint": "http://d"},
        ),
        (
            {
                **DELTA_RS,
                "aws_access_key_id": "a",
                "aws_secret_access_key": "s",
                "aws_session_token": "t",
                "AWS_ACCESS_KEY_ID_DYNAMODB": "da",
                "AWS_SECRET_ACCESS_KEY_DYNAMODB": "ds",
            },
            {},
            {"access_key_id": "da", "secret_access_key": "ds"},
        ),
        (REFERENCE, {}, {}),
        ({"delta.logStore.class": "io.delta.storage.S3DynamoDBLogStore"}, {}, {}),
        (
            {
                **REFERENCE,
                "spark.io.delta.storage.S3DynamoDBLogStore.ddb.tableName": "t",
                "io.delta.storage.S3DynamoDBLogStore.ddb.region": "r",
                "fs.s3a.access.key": "a",
                "fs.s3a.endpoint": "http://h",
            },
            {},
            {"table_name": "t", "region": "r"},
        ),
        ({"spark.delta.logStore.s3.impl": "io.delta.storage.S3DynamoDBLogStore"}, {}, {}),
        ({"spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore"}, {}, None),
        ({"AWS_S3_LOCKING_PROVIDER": ""}, {}, None),
        ({}, {}, None),
    ],
)
def test_options_choose_the_service(
    options: dict[str, str], environment: dict[str, str], expected: dict[str, str] | None
) -> None:
    found = commit_service("s3a://b/t", options, environment)
    assert found == (None if expected is None else DynamoDBCommitService(**expected))
    assert commit_service("abfss://c@a/t", options, environment) is None


def test_another_provider_is_an_error() -> None:
    """Its writers would believe themselves kept apart."""
    with pytest.raises(InvalidOptionError, match="zookeeper"):
        open_store("s3://b/t", {"AWS_S3_LOCKING_PROVIDER": "zookeeper"})


def test_the_storage_is_opened_without_the_settings_of_the_service() -> None:
    """obstore refuses options that it does not know."""
    own = {
        **DELTA_RS,
        **REFERENCE,
        "io.delta.storage.S3DynamoDBLogStore.ddb.ttl": "1",
        "DELTA_DYNAMO_BILLING_MODE": "PAY_PER_REQUEST",
    }
    assert without_service({**own, "region": "r"}) == {"region": "r"}
    store = open_store("s3://b/t", {**own, "region": "r"})
    assert isinstance(store, CoordinatedStore)
    assert store.inner == CloudStore("s3://b/t", {"region": "r"}, skips_probe=True)


def test_an_entry_that_lacks_something_is_named() -> None:
    with pytest.raises(CommitEntryError, match="tempPath"):
        _entry({"tablePath": {"S": "s3a://b/t"}, "fileName": {"S": "f"}, "complete": {"S": "false"}})
