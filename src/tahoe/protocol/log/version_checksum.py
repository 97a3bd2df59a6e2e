"""Version checksum files: a summary of a version's state, written next to its commit.

Protocol: "Version Checksum File". Only encodes and decodes; comparing is up to the caller.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tahoe.protocol.log.actions import (
    Action,
    Add,
    DomainMetadata,
    Metadata,
    Protocol,
    Txn,
    action_to_json,
    decode_action,
)
from tahoe.protocol.types.json_text import load_json

A = TypeVar("A", bound=Action)


@dataclass(frozen=True, kw_only=True)
class VersionChecksum:
    """Protocol: "Version Checksum File Schema".

    Attributes:
        num_files, table_size_bytes: of the live files.
        in_commit_timestamp_ms: present if in-commit timestamps are enabled.
        txns, domains, files: all live ones; None if the writer left them out.
        num_deleted_records, num_deletion_vectors: None if the writer did not count them.
        is_whole: whether the file is unchanged since tahoe wrote it. Only then may it replace reading the log, not just
            verify it.
    """

    num_files: int
    table_size_bytes: int
    protocol: Protocol
    metadata: Metadata
    txn_id: str | None = None
    in_commit_timestamp_ms: int | None = None
    txns: tuple[Txn, ...] | None = None
    domains: tuple[DomainMetadata, ...] | None = None
    files: tuple[Add, ...] | None = None
    num_deleted_records: int | None = None
    num_deletion_vectors: int | None = None
    is_whole: bool = field(default=False, compare=False)


def encode_version_checksum(checksum: VersionChecksum) -> bytes:
    """The file's content, without fields that are None."""
    fields = {
        "txnId": checksum.txn_id,
        "tableSizeBytes": checksum.table_size_bytes,
        "numFiles": checksum.num_files,
        "numDeletedRecordsOpt": checksum.num_deleted_records,
        "numDeletionVectorsOpt": checksum.num_deletion_vectors,
        "numMetadata": 1,
        "numProtocol": 1,
        "inCommitTimestampOpt": checksum.in_commit_timestamp_ms,
        "setTransactions": _bodies(checksum.txns),
        "domainMetadata": _bodies(checksum.domains),
        "metadata": _body(checksum.metadata),
        "protocol": _body(checksum.protocol),
        "allFiles": _bodies(checksum.files),
    }
    present = {name: value for name, value in fields.items() if value is not None}
    text = json.dumps(present, separators=(",", ":"), ensure_ascii=False).encode()
    return text.removesuffix(b"}") + _ending(text)


# The last field, which only tahoe writes: the digest of the file without this field.
_DIGEST = "tahoeDigest"


def _ending(text: bytes) -> bytes:
    """The end of the file for a JSON text without the digest."""
    digest = hashlib.sha256(text).hexdigest()
    return f',"{_DIGEST}":"{digest}"}}'.encode()


def _is_whole(data: bytes) -> bool:
    text, separator, _ = data.rpartition(f',"{_DIGEST}":'.encode())
    return bool(separator) and data.endswith(_ending(text + b"}"))


def _bodies(actions: Iterable[Action] | None) -> list[Any] | None:
    return None if actions is None else [_body(action) for action in actions]


def _body(action: Action) -> Any:
    (body,) = action_to_json(action).values()
    return body


def parse_version_checksum(data: bytes) -> VersionChecksum | None:
    """The checksum in a file; None if the JSON is invalid or lacks a required field: such a file is ignored."""
    try:
        body = load_json(data)
        return VersionChecksum(
            num_files=_integer(body["numFiles"]),
            table_size_bytes=_integer(body["tableSizeBytes"]),
            protocol=_action(Protocol, "protocol", body["protocol"]),
            metadata=_action(Metadata, "metaData", body["metadata"]),
            txn_id=None if body.get("txnId") is None else str(body["txnId"]),
            in_commit_timestamp_ms=_optional_integer(body.get("inCommitTimestampOpt")),
            txns=_actions(Txn, "txn", body.get("setTransactions")),
            domains=_actions(DomainMetadata, "domainMetadata", body.get("domainMetadata")),
            files=_actions(Add, "add", body.get("allFiles")),
            num_deleted_records=_optional_integer(body.get("numDeletedRecordsOpt")),
            num_deletion_vectors=_optional_integer(body.get("numDeletionVectorsOpt")),
            is_whole=_is_whole(data),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _integer(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is not an integer")  # noqa: TRY004 - the file is invalid, not a call
    return value


def _optional_integer(value: Any) -> int | None:
    return None if value is None else _integer(value)


def _action(kind: Callable[..., A], name: str, body: Mapping[str, Any]) -> A:
    action = decode_action({name: body})
    if type(action) is not kind:
        raise ValueError(name)
    return action  # type: ignore[return-value]


def _actions(kind: Callable[..., A], name: str, bodies: Iterable[Mapping[str, Any]] | None) -> tuple[A, ...] | None:
    return None if bodies is None else tuple(_action(kind, name, body) for body in bodies)
