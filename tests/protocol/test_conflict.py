"""Whether a winner matters to a transaction."""

import json
import re

import pytest
from pyroaring import BitMap64

from tahoe.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    DeltaConcurrentModificationException,
    InvalidActionError,
    MetadataChangedException,
    ProtocolChangedException,
)
from tahoe.protocol.changes.conflict import EVERYTHING, FilesRead, Intent, Isolation, Winner, find_conflict
from tahoe.protocol.log.actions import (
    Add,
    CommitInfo,
    DeletionVectorDescriptor,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
)

ADD = Add(path="new", size_bytes=1, modification_time_ms=1, partition_values={"p": "1"})
MOVED = Add(path="new", size_bytes=1, modification_time_ms=1, data_change=False)
REMOVE = Remove(path="old")
BLIND = Intent()
READER = Intent(reads=EVERYTHING)
ELSEWHERE = Intent(reads=FilesRead(lambda file: (file.partition_values or {}).get("p") == "2"))


VECTORS: dict[str, BitMap64] = {}  # the rows that a vector marks, by its name


def _deleted(file):
    return BitMap64() if file.deletion_vector is None else VECTORS[file.deletion_vector.path_or_inline]


def conflict(intent, *actions):
    info = CommitInfo({"operation": "MERGE", "timestamp": 0})
    return find_conflict(intent, Winner(version=7, actions=(info, *actions)), str, _deleted, table="t")


@pytest.mark.parametrize(
    ("intent", "action"),
    [
        (BLIND, ADD),
        (BLIND, REMOVE),
        (BLIND, Txn(app_id="other", version=1)),
        (BLIND, DomainMetadata(domain="d", configuration="")),
        (READER, MOVED),
        (ELSEWHERE, ADD),
        (Intent(removed_paths={"mine"}), REMOVE),
    ],
)
def test_a_winner_that_cannot_matter_is_no_conflict(intent, action):
    assert conflict(intent, action) is None


@pytest.mark.parametrize(
    ("intent", "action", "kind"),
    [
        (
            BLIND,
            Metadata(id="m", schema_string="{}"),
            MetadataChangedException,
        ),  # both are of writes that change the table themselves
        (BLIND, Protocol(reader_version=1, writer_version=2), ProtocolChangedException),
        (READER, ADD, ConcurrentAppendException),
        (READER, REMOVE, ConcurrentDeleteReadException),
        (Intent(removed_paths={"old"}), REMOVE, ConcurrentDeleteDeleteException),
        (Intent(app_ids={"app"}), Txn(app_id="app", version=1), ConcurrentTransactionException),
    ],
)
def test_a_winner_that_matters_is_named(intent, action, kind):
    found = conflict(intent, action)
    assert type(found) is kind
    assert isinstance(found, DeltaConcurrentModificationException)
    assert "version 7: MERGE at 1970-01-01T00:00:00+00:00" in str(found)


def clustered_by(*columns, removed=False):
    return DomainMetadata(
        domain="delta.clustering", configuration=json.dumps({"clusteringColumns": columns}), removed=removed
    )


def adding(**counts):
    stats = json.dumps({"numRecords": 2, "nullCount": counts})
    return Intent(added=(ADD, ADD.replace(stats=stats))) if not counts else Intent(added=(ADD.replace(stats=stats),))


@pytest.mark.parametrize(
    ("intent", "domain", "lacking"),
    [
        (adding(a=0), clustered_by(["a"]), None),
        (adding(a=0, s={"b": 2}), clustered_by(["a"], ["s", "b"]), None),
        (
            adding(a=0, s={"b": 2}),
            clustered_by(["a"], ["s", "c"]),
            r"by s\.c, and files of this write have no statistics",
        ),
        (adding(), clustered_by(["a"]), "by a, and files of this write have no statistics"),
        (adding(), clustered_by(), None),
        (adding(), clustered_by(["a"], removed=True), None),
        (BLIND, clustered_by(["a"]), None),
    ],
)
def test_files_behind_a_new_clustering_have_statistics_of_its_columns(intent, domain, lacking):
    """Protocol: "Clustered Table": every file that is added from then on."""
    found = conflict(intent, domain)
    assert (found is None) == (lacking is None)
    if lacking is not None:
        assert type(found) is MetadataChangedException
        assert re.search(lacking, str(found))


@pytest.mark.parametrize("text", ["null", "[]", "{", '{"clusteringColumns":[1]}'])
def test_a_clustering_that_makes_no_sense_is_an_error_of_the_log(text):
    with pytest.raises(InvalidActionError):
        conflict(adding(a=0), DomainMetadata(domain="delta.clustering", configuration=text))


# --- deletion vectors


class Looked:
    """Reads of the rows with some positions, wherever they are."""

    def __init__(self, *rows):
        self.wanted = BitMap64(rows)

    def may_be_in(self, file):
        return True

    def are_in(self, file, rows):
        return rows is None or bool(self.wanted & rows)


def vector(name, *rows):
    found = DeletionVectorDescriptor(
        storage_type="u", path_or_inline=name, size_bytes=1, cardinality=len(rows), offset=1
    )
    VECTORS[name] = BitMap64(rows)
    return found


def marked_by(intent, before=(), after=()):
    """The conflict with a winner that gives the file `f` another vector."""
    old, new = (
        vector("old", *before) if before else None,
        vector("new" if after != before else "old", *after) if after else None,
    )
    removed = Remove(path="f", deletion_vector=old)
    added = Add(path="f", size_bytes=1, modification_time_ms=1, deletion_vector=new)
    return conflict(intent, removed, added)


@pytest.mark.parametrize(
    ("intent", "before", "after", "kind"),
    [
        (Intent(row_deletions={"f": BitMap64([1])}, is_exact=True), (), (2,), None),
        (Intent(row_deletions={"f": BitMap64([1])}, is_exact=True), (), (1, 2), ConcurrentDeleteDeleteException),
        (Intent(row_deletions={"f": BitMap64([3])}, is_exact=True), (1,), (1, 2), None),
        (Intent(row_deletions={"f": BitMap64([1])}, reads=Looked(1), is_exact=True), (), (2,), None),
        (Intent(row_deletions={"f": BitMap64([1])}, reads=Looked(1, 2)), (), (2,), ConcurrentDeleteReadException),
        (Intent(reads=Looked(5)), (), (2,), None),
        (Intent(reads=Looked(2)), (), (2,), ConcurrentDeleteReadException),
        (Intent(reads=Looked(2), is_exact=True), (2, 3), (3,), ConcurrentAppendException),
        (Intent(reads=Looked(4), is_exact=True), (2, 3), (3,), None),
        (Intent(reads=Looked(4)), (2,), (), None),
        (Intent(removed_paths={"f"}), (), (2,), ConcurrentDeleteDeleteException),
        (Intent(removed_paths={"f"}), (2,), (2,), None),
        (BLIND, (), (2,), None),
    ],
)
def test_vectors_of_one_file_conflict_row_by_row(intent, before, after, kind):
    # the reference refuses every second vector of a file
    found = marked_by(intent, before, after)
    assert (None if found is None else type(found)) is kind


def test_a_commit_that_moves_rows_knows_nothing_of_others_but_its_own_files():
    mover = Intent(isolation=Isolation.SNAPSHOT, reads=EVERYTHING, removed_paths={"f"})
    assert conflict(mover, ADD, REMOVE) is None
    assert type(marked_by(mover, (), (2,))) is ConcurrentDeleteDeleteException


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (False, None),
        (True, "it added new, from which this write would have read some"),
        (None, "could not be determined"),
    ],
)
def test_a_conflict_says_only_what_was_looked_at(told, text):
    """Whether rows were read may be unknown: the error then claims nothing about them."""

    class Told(Looked):
        def are_in(self, file, rows):
            return told

    found = conflict(Intent(reads=Told()), ADD)
    assert (found is None) if text is None else (text in str(found))
