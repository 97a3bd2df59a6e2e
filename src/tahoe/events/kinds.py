"""The events: one frozen class for each kind. This module knows nobody who is told of them.

Durations are measured with a monotonic clock. Sizes are in bytes.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

# `s3a://KEY:SECRET@bucket`, `https://TOKEN@host`, and the signed part of a url. The secret may contain @.
_USER = re.compile(r"^(https?://)[^/?#]*@|^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*:[^/?#]*@", re.IGNORECASE)
_SIGNED = re.compile(
    r"\?[^?]*(?:\bsig|signature|x-amz-[a-z-]+|token|secret|password|credential)=.*$", re.IGNORECASE | re.DOTALL
)


def without_credentials(url: str) -> str:
    """A url without a password and without a signature."""
    if "@" not in url and "?" not in url:
        return url
    return _SIGNED.sub("", _USER.sub(r"\1\2", url))


def cause_of(error: BaseException) -> str:
    """The condition of an error of tahoe, and the class of any other. Its text may have values of rows."""
    return str(getattr(error, "condition", type(error).__name__))


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that has happened.

    Attributes:
        table: the url of the table, without credentials; empty if it is about no single table.
        duration_seconds: how long it took.
        ended_ns: when it ended, in nanoseconds since 1970.
    """

    name: ClassVar[str] = ""
    level: ClassVar[int] = logging.INFO

    table: str
    duration_seconds: float
    ended_ns: int = field(default_factory=time.time_ns)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", without_credentials(self.table))

    def to_dict(self) -> dict[str, Any]:
        """The event's name as `event`, and its fields, in types of JSON."""
        return {"event": self.name, **{name: getattr(self, name) for name in FIELDS[type(self)]}}

    def __str__(self) -> str:
        told = ((name, value) for name, value in self.to_dict().items() if name not in ("event", "ended_ns"))
        return " ".join([self.name, *(f"{name}={_text(value)}" for name, value in told if value not in (None, {}, ""))])


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"
    text = str(value)
    return repr(text) if " " in text else text


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlanned(Event):
    """The files were chosen that a query reads of one table.

    Attributes:
        version: the version that is read.
        engine: `spark`, or `arrow` for reads without Spark.
        purpose: `rows`; `limit`, if a limit needs some of the files only; `aggregate`, if the log answered an
            aggregation, and the files are those that it did not answer; `changes` for a change data feed.
        files_read, bytes_read: the files that the query reads at most. Joins may leave out more of them as it runs.
        files_skipped, bytes_skipped: those that were left out by partition values and statistics.
    """

    name: ClassVar[str] = "query_planned"
    level: ClassVar[int] = logging.DEBUG

    version: int
    engine: str
    purpose: str = "rows"
    files_read: int
    files_skipped: int
    bytes_read: int
    bytes_skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(Event):
    """A version was committed. The duration is that of the commit, without the writing of data files.

    Attributes:
        version, read_version: the version, and the one on which the work is based; -1 for a new table.
        operation: as in the table's history, such as `WRITE`, `MERGE`, `OPTIMIZE` or `VACUUM END`.
        attempts: 1, and one more for each time that another writer was faster.
        files_added, bytes_added, files_removed, bytes_removed: a file that got a deletion vector is in both. The size
            of a removed file is 0 if the log does not tell it.
        log_bytes: the size of the commit file.
        is_blind_append: whether only files were added, and nothing of the table was read.
        is_pending: whether it is part of a block over several tables, which can still be undone.
        txn_id: `txnId` in the table's history.
        engine: `engineInfo` in the table's history.
        metrics: `operationMetrics` in the table's history.
    """

    name: ClassVar[str] = "commit"

    version: int
    read_version: int
    operation: str
    attempts: int
    files_added: int
    bytes_added: int
    files_removed: int
    bytes_removed: int
    log_bytes: int
    is_blind_append: bool
    is_pending: bool
    txn_id: str
    engine: str
    metrics: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict(Event):
    """A commit was refused because of another writer's. The command may be run again: a `Retry` tells it.

    Attributes:
        read_version: the version on which the work is based; -1 for a new table.
        operation: of the refused commit.
        attempts: how often it was tried.
        cause: the condition of the error, such as `DELTA_CONCURRENT_APPEND`.
        winner: the version that it conflicts with, if there is a single one.
    """

    name: ClassVar[str] = "conflict"

    read_version: int
    operation: str
    attempts: int
    cause: str
    winner: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFailed(Event):
    """A commit failed for another reason than a conflict.

    Attributes:
        read_version, operation, attempts: as of `Conflict`.
        cause: the condition of the error, or its class.
        is_in_doubt: whether the storage did not tell if the version exists.
    """

    name: ClassVar[str] = "commit_failed"

    read_version: int
    operation: str
    attempts: int
    cause: str
    is_in_doubt: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(Event):
    """Something is tried again. The duration is how long it waited before.

    Attributes:
        what: `commit`, behind another writer that was faster; `put`, a commit file about which the storage did not
            answer; `command`, a statement after a conflict; `storage`, a request to an object store; `catalog`, a call
            of a catalog's server.
        attempt: how often it was tried before.
        cause: the condition of the error, or its class; for `commit` the operation of the writer that was faster.
        version: the version that was lost to the other writer, or was not answered.
    """

    name: ClassVar[str] = "retry"

    what: str
    attempt: int
    cause: str
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(Event):
    """A checkpoint was written.

    Attributes:
        version: of the table.
        policy: `v2` or `classic`.
        files: how many files of the table it lists.
        size_bytes: of the checkpoint, sidecars included.
    """

    name: ClassVar[str] = "checkpoint"

    version: int
    policy: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundJob(Event):
    """Work in the background has ended.

    Attributes:
        job: `after_commit` (version checksum, other formats, checkpoint, log cleanup), `after_convert` (a checkpoint),
            `publish` or `after_block` (commits that a catalog has ratified).
        version: the commit that it followed, if there is one.
        waited_seconds: how long it waited for earlier work.
        cause: why it failed: the condition of the error, or its class; None if it did not.
    """

    name: ClassVar[str] = "background_job"
    level: ClassVar[int] = logging.DEBUG

    job: str
    version: int | None
    waited_seconds: float
    cause: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBatch(Event):
    """A batch of a streaming query was planned from a table, or was written into one.

    Attributes:
        side: `source`: the files of a batch were chosen; the duration is that of the choice. `sink`: a batch was
            written; the duration includes the query's own work for the batch.
        version: `source`: the last version that the batch reads. `sink`: the version that was committed; None if the
            table had the batch already, or it was empty.
        query: the id of the query; None if it is not known.
        batch: the number of the batch; None for `source`.
        files_read, bytes_read: the files of the batch, for `source`.
    """

    name: ClassVar[str] = "stream_batch"

    side: str
    version: int | None
    query: str | None = None
    batch: int | None = None
    files_read: int = 0
    bytes_read: int = 0


KINDS: tuple[type[Event], ...] = (
    QueryPlanned,
    Commit,
    Conflict,
    CommitFailed,
    Retry,
    Checkpoint,
    BackgroundJob,
    StreamBatch,
)

# The names of their fields, in order.
FIELDS: Mapping[type[Event], tuple[str, ...]] = {kind: tuple(f.name for f in fields(kind)) for kind in KINDS}
