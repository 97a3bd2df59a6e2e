"""Whether a winner matters to a transaction."""

import pytest

from tahoe.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from tahoe.protocol.actions import Add, CommitInfo, DomainMetadata, Metadata, Protocol, Remove, Txn
from tahoe.protocol.conflict import Intent, Winner, find_conflict

ADD = Add(path="new", size_bytes=1, modification_time_ms=1, partition_values={"p": "1"})
MOVED = Add(path="new", size_bytes=1, modification_time_ms=1, data_change=False)
REMOVE = Remove(path="old")
BLIND = Intent()
EVERYTHING = Intent(reads=lambda file: True)
ELSEWHERE = Intent(reads=lambda file: (file.partition_values or {}).get("p") == "2")


def conflict(intent, *actions):
    info = CommitInfo({"operation": "MERGE", "timestamp": 0})
    return find_conflict(intent, Winner(version=7, actions=(info, *actions)), str, table="t")


@pytest.mark.parametrize(
    ("intent", "action"),
    [
        (BLIND, ADD),
        (BLIND, REMOVE),
        (BLIND, Txn(app_id="other", version=1)),
        (BLIND, DomainMetadata(domain="d", configuration="")),
        (EVERYTHING, MOVED),
        (ELSEWHERE, ADD),
        (Intent(removed_paths={"mine"}), REMOVE),
    ],
)
def test_a_winner_that_cannot_matter_is_no_conflict(intent, action):
    assert conflict(intent, action) is None


@pytest.mark.parametrize(
    ("intent", "action", "kind"),
    [
        (BLIND, Metadata(id="m", schema_string="{}"), MetadataChangedException),
        (BLIND, Protocol(reader_version=1, writer_version=2), ProtocolChangedException),
        (EVERYTHING, ADD, ConcurrentAppendException),
        (EVERYTHING, REMOVE, ConcurrentDeleteReadException),
        (Intent(read_paths={"old"}), REMOVE, ConcurrentDeleteReadException),
        (Intent(removed_paths={"old"}), REMOVE, ConcurrentDeleteDeleteException),
        (Intent(app_ids={"app"}), Txn(app_id="app", version=1), ConcurrentTransactionException),
    ],
)
def test_a_winner_that_matters_is_named(intent, action, kind):
    found = conflict(intent, action)
    assert type(found) is kind
    assert isinstance(found, DeltaConcurrentModificationException)
    assert "version 7: MERGE at 1970-01-01T00:00:00+00:00" in str(found)
