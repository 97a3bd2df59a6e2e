"""Which commit a checkpoint was made of.

A writer may put a checkpoint after the table was dropped and another table was created in its folder, and die before it
can delete the file again. Names and versions do not show this, so a checkpoint of tahoe contains a fingerprint of its
version's commit, which metadata cleanup preserves (Protocol: "Metadata Cleanup"). Checkpoints of other writers have
none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256

from tahoe.protocol.log.log_files import Kind, LogFile
from tahoe.table.log.delta_log import Log

# The key of the fingerprint in the tags of a V2 checkpoint, and in the footer of any other.
TAG = "tahoe.commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFingerprint:
    """A commit file by its identity in the storage, which a listing tells, and by its content, which copies have
    too.
    """

    size_bytes: int
    etag: str
    digest: str


def fingerprint_of(log: Log, commit: LogFile) -> CommitFingerprint:
    """
    Raises:
        FileNotFoundError: the commit is gone.
    """
    size_bytes, etag = commit.identity
    return CommitFingerprint(size_bytes=size_bytes, etag=etag, digest=_digest(log, commit))


def _digest(log: Log, commit: LogFile) -> str:
    return sha256(log.env.store.get(commit.key)).hexdigest()


def encode_fingerprint(fingerprint: CommitFingerprint) -> str:
    return json.dumps({"sizeInBytes": fingerprint.size_bytes, "etag": fingerprint.etag, "sha256": fingerprint.digest})


def parse_fingerprint(text: str | bytes | None) -> CommitFingerprint | None:
    """The fingerprint in a checkpoint; None if there is none, or none of this form."""
    try:
        found = json.loads(text or "")
        size_bytes, etag, digest = found["sizeInBytes"], found["etag"], found["sha256"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if type(size_bytes) is not int or type(etag) is not str or type(digest) is not str:
        return None
    return CommitFingerprint(size_bytes=size_bytes, etag=etag, digest=digest)


def has_commit(
    log: Log, version: int, fingerprint: CommitFingerprint, listed: LogFile | None, path: str | None
) -> bool:
    """Whether the log has the commit of a checkpoint. Only the commit of a copied table is read; a listing tells the
    others apart.

    Args:
        version: of the checkpoint.
        listed: the commit file of that version, if the listing that shows the checkpoint has it.
        path: of one of the checkpoint's files.
    """
    commit = listed or log.commit_file(version)
    if commit is None:
        return _may_have_lost_it(log, version, path)
    if commit.size_bytes != fingerprint.size_bytes:
        return False
    try:
        return commit.identity[1] == fingerprint.etag or _digest(log, commit) == fingerprint.digest
    except FileNotFoundError:  # deleted since the listing: there is a newer checkpoint
        return True


def _may_have_lost_it(log: Log, version: int, path: str | None) -> bool:
    """Whether a log without the commit of a checkpoint may be that of its table: somebody deleted the commit with those
    before it.
    """
    commits = [file.version for file in log.list_files() if file.kind is Kind.COMMIT]
    return max(commits) > version if commits else path is None or log.has_file(path)
