"""Version checksum files: what a version adds up to, written beside its commit.

Protocol: "Version Checksum File". Values in, bytes out; nothing is compared here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tahoe.protocol.actions import Action, Add, DomainMetadata, Metadata, Protocol, Txn, action_to_json, decode_action

A = TypeVar("A", bound=Action)


@dataclass(frozen=True, kw_only=True)
class VersionChecksum:
    """Protocol: "Version Checksum File Schema".

    Attributes:
        num_files, table_size_bytes: of the live files.
        in_commit_timestamp_ms: present where in-commit timestamps are enabled.
        txns, domains, files: all that are live; None where the writer left them out.
        num_deleted_records, num_deletion_vectors: None where the writer did not count.
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


def encode_version_checksum(checksum: VersionChecksum) -> bytes:
    """The file's content; what is None is left out."""
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
    return json.dumps(present, separators=(",", ":"), ensure_ascii=False).encode()


def _bodies(actions: Iterable[Action] | None) -> list[Any] | None:
    return None if actions is None else [_body(action) for action in actions]


def _body(action: Action) -> Any:
    (body,) = action_to_json(action).values()
    return body


def parse_version_checksum(data: bytes) -> VersionChecksum | None:
    """What a file says; None where it is no such JSON, or lacks something that the protocol requires: then it proves nothing."""
    try:
        body = json.loads(data)
        return VersionChecksum(
            num_files=int(body["numFiles"]),
            table_size_bytes=int(body["tableSizeBytes"]),
            protocol=_action(Protocol, "protocol", body["protocol"]),
            metadata=_action(Metadata, "metaData", body["metadata"]),
            txn_id=body.get("txnId"),
            in_commit_timestamp_ms=body.get("inCommitTimestampOpt"),
            txns=_actions(Txn, "txn", body.get("setTransactions")),
            domains=_actions(DomainMetadata, "domainMetadata", body.get("domainMetadata")),
            files=_actions(Add, "add", body.get("allFiles")),
            num_deleted_records=body.get("numDeletedRecordsOpt"),
            num_deletion_vectors=body.get("numDeletionVectorsOpt"),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _action(kind: Callable[..., A], name: str, body: Mapping[str, Any]) -> A:
    action = decode_action({name: body})
    if type(action) is not kind:
        raise ValueError(name)
    return action  # type: ignore[return-value]


def _actions(kind: Callable[..., A], name: str, bodies: Iterable[Mapping[str, Any]] | None) -> tuple[A, ...] | None:
    return None if bodies is None else tuple(_action(kind, name, body) for body in bodies)
