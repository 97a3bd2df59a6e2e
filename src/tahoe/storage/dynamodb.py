"""A commit service in DynamoDB, compatible with the reference's S3DynamoDBLogStore and earlier versions of delta-rs.

boto3 is an optional dependency and imported on the first request. Only the settings are pickled.

The DynamoDB table has the keys `tablePath` and `fileName`. An item has `tempPath`, `complete` ("true" or "false") and,
once complete, `expireTime` in seconds since 1970, which can be DynamoDB's TTL attribute. `tablePath` is the unescaped
url without a trailing slash, as Hadoop prints it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tahoe.errors import (
    CommitEntryError,
    CommitTableMissingError,
    PackageMissingError,
    StorageRefusedError,
    StorageUnavailableError,
)
from tahoe.storage.commit_service import CommitEntry

DEFAULT_TABLE_NAME = "delta_log"
DEFAULT_REGION = "us-east-1"

# How long an entry is kept after completion, as in the reference: longer than any writer could still believe that the
# version is free.
EXPIRE_SECONDS = 24 * 60 * 60

# DynamoDB creates a table in a few seconds.
CREATE_SECONDS_MAX = 60

# The number of cached clients, one per service.
_CLIENTS_MAX = 64

# These limits end requests after about a minute, as for the storage itself.
_ATTEMPTS_MAX = 5
_TIMEOUT_SECONDS = 10

_DETAIL_CHARACTERS_MAX = 400

# Errors after which the request has no effect, now or later.
_REFUSALS = frozenset(
    {
        "AccessDeniedException",
        "ExpiredTokenException",
        "IncompleteSignatureException",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
        "ValidationException",
    }
)


class _NoTableError(Exception):
    """The DynamoDB table does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoDBCommitService:
    """A `CommitService` in DynamoDB. boto3 looks up settings that are None in the environment, in profiles, or in the
    machine's role.

    Args:
        table_name: the name of the DynamoDB table, which can serve any number of Delta tables.
    """

    table_name: str = DEFAULT_TABLE_NAME
    region: str = DEFAULT_REGION
    endpoint: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)

    def claim(self, entry: CommitEntry) -> bool:
        condition = {"ConditionExpression": "attribute_not_exists(fileName)"}
        try:
            entered = self._send("put_item", entry.table, Item=_item(entry), **condition)
        except _NoTableError:
            self._create_table(entry.table)
            entered = self._send("put_item", entry.table, Item=_item(entry), **condition)
        if entered is not None:
            return True
        # boto3 retries a request whose response was lost, and the retry may have lost to the first attempt.
        found = self.find(entry.table, entry.file)
        return found is not None and found.temporary == entry.temporary

    def find(self, table: str, file: str) -> CommitEntry | None:
        key = {"tablePath": {"S": table}, "fileName": {"S": file}}
        try:
            found = self._send("get_item", table, Key=key, ConsistentRead=True)
        except _NoTableError:
            return None
        return _entry(found["Item"]) if found and "Item" in found else None

    def newest(self, table: str) -> CommitEntry | None:
        request = {
            "KeyConditionExpression": "tablePath = :table",
            "ExpressionAttributeValues": {":table": {"S": table}},
        }
        try:
            found = self._send("query", table, **request, ScanIndexForward=False, Limit=1, ConsistentRead=True)
        except _NoTableError:
            return None
        return _entry(found["Items"][0]) if found and found["Items"] else None

    def complete(self, entry: CommitEntry) -> None:
        """Puts the whole item, which needs no other permission than `claim`."""
        item = {**_item(entry), "complete": {"S": "true"}, "expireTime": {"N": str(int(time.time()) + EXPIRE_SECONDS)}}
        values = {":false": {"S": "false"}, ":temporary": {"S": entry.temporary}}
        condition = "complete = :false AND tempPath = :temporary"
        self._send("put_item", entry.table, Item=item, ConditionExpression=condition, ExpressionAttributeValues=values)

    # --- the steps

    def _send(self, operation: str, table: str, **request: Any) -> Mapping[str, Any] | None:
        """The response; None if the condition failed."""
        client = _client(self, table)
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - it is there when the client is

        try:
            answer: Mapping[str, Any] = getattr(client, operation)(TableName=self.table_name, **request)
        except client.exceptions.ConditionalCheckFailedException:
            return None
        except client.exceptions.ResourceNotFoundException as error:
            raise _NoTableError from error
        except (BotoCoreError, ClientError) as error:
            code = error.response.get("Error", {}).get("Code") if isinstance(error, ClientError) else None
            kind = StorageRefusedError if code in _REFUSALS else StorageUnavailableError
            raise kind(
                table=table, operation=f"{operation} in DynamoDB's {self.table_name}", detail=_detail(error)
            ) from error
        return answer

    def _create_table(self, table: str) -> None:
        """Create the table as the reference does, but with on-demand billing, as its documentation recommends."""
        client = _client(self, table)
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - it is there when the client is

        names = {"tablePath": "HASH", "fileName": "RANGE"}
        try:
            with suppress(client.exceptions.ResourceInUseException):  # another writer is creating it
                client.create_table(
                    TableName=self.table_name,
                    AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
                    KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in names.items()],
                    BillingMode="PAY_PER_REQUEST",
                )
            waiting = {"Delay": 1, "MaxAttempts": CREATE_SECONDS_MAX}
            client.get_waiter("table_exists").wait(TableName=self.table_name, WaiterConfig=waiting)
        except (BotoCoreError, ClientError) as error:
            parameters = {"name": self.table_name, "region": self.region, "detail": _detail(error)}
            raise CommitTableMissingError(table=table, **parameters) from error


@lru_cache(_CLIENTS_MAX)
def _client_of_process(service: DynamoDBCommitService, _process: int) -> Any:
    """One client per process: a forked process would read its parent's responses from the shared connections."""
    import boto3  # noqa: PLC0415 - an extra of the package
    from botocore.config import Config  # noqa: PLC0415

    session = boto3.session.Session(
        aws_access_key_id=service.access_key_id,
        aws_secret_access_key=service.secret_access_key,
        aws_session_token=service.session_token,
        region_name=service.region,
    )
    retries = {"mode": "standard", "total_max_attempts": _ATTEMPTS_MAX}
    config = Config(connect_timeout=_TIMEOUT_SECONDS, read_timeout=_TIMEOUT_SECONDS, retries=retries)
    return session.client("dynamodb", endpoint_url=service.endpoint, config=config)


def _client(service: DynamoDBCommitService, table: str) -> Any:
    try:
        return _client_of_process(service, os.getpid())
    except ImportError as error:
        raise PackageMissingError(table=table, what="a commit service in DynamoDB", package="boto3") from error


def _item(entry: CommitEntry) -> dict[str, dict[str, str]]:
    return {
        "tablePath": {"S": entry.table},
        "fileName": {"S": entry.file},
        "tempPath": {"S": entry.temporary},
        "complete": {"S": "true" if entry.is_complete else "false"},
    }


def _entry(item: Mapping[str, Mapping[str, str]]) -> CommitEntry:
    """The entry in an item, which any writer may have written.

    Raises:
        CommitEntryError: a required attribute is missing.
    """
    texts = {name: item.get(name, {}).get("S") for name in ("tablePath", "fileName", "tempPath", "complete")}
    table, file, temporary, complete = texts.values()
    if table is None or file is None or temporary is None or complete is None:
        missing = ", ".join(name for name, text in texts.items() if text is None)
        raise CommitEntryError(
            table=table or "the table", file=file or "a commit", detail=f"the entry has no {missing}"
        )
    return CommitEntry(table=table, file=file, temporary=temporary, is_complete=complete == "true")


def _detail(error: Exception) -> str:
    return str(error)[:_DETAIL_CHARACTERS_MAX]
