"""Where the batches of a streamed change data feed end, and what they read, against the reference's algorithm in its
simplest form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tahoe
from tahoe.errors import (
    ChangesNotRecordedError,
    StreamSchemaChangedError,
    StreamTrailingCommitError,
    UnsupportedOperationError,
)
from tahoe.protocol.changes.column_changes import ColumnChange
from tahoe.protocol.configuration.change_feed import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Action, Add, Cdc, CommitInfo, Metadata, Remove, remove_of
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.streams.stream_offset import BASE, StreamOffset
from tahoe.protocol.types.schema import LONG, STRING, Field, Struct
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.rows import read_rows
from tahoe.table.reading.snapshot import load_snapshot
from tahoe.table.streams.feed_stream import FeedStream
from tahoe.table.streams.stream import AdmissionLimit, Portion, StreamStart
from tahoe.table.versions.change_feed import feed_schema
from tests.table.builders import SCHEMA, add, memory_env, put_commit
from tests.table.feeds import PROTOCOL, Fed, gone, metadata
from tests.table.streams import ends_of

END = 1 << 60
MERGE = CommitInfo(
    {"operation": "MERGE", "operationMetrics": {f"numTargetRows{n}": "0" for n in ("Inserted", "Updated", "Deleted")}}
)

# --- histories: each commit is its kind, and the sizes of its files; those with odd sizes are excluded in some tests

COMMITS = st.tuples(
    st.sampled_from(["adds", "removes", "both", "vectors", "cdc", "merge", "moved"]),
    st.lists(st.integers(1, 9), max_size=4),
)
HISTORIES = st.lists(COMMITS, min_size=1, max_size=6)
LIMITS = st.builds(AdmissionLimit, st.none() | st.integers(1, 5), st.none() | st.integers(1, 14))


def committed(kind: str, sizes: Sequence[int], names: Iterator[int]) -> list[Action]:
    files = [
        add(f"{'odd' if size % 2 else 'f'}{next(names):03}", size_bytes=size, modification_time_ms=-size)
        for size in sizes
    ]
    gone_too = [remove_of(file, 1, data_change=True) for file in files]
    marked = [file.replace(deletion_vector=inline_descriptor([0])) for file in files]
    match kind:
        case "removes":
            return [*gone_too]
        case "both":
            return [*files[::2], *gone_too[1::2]]
        case "vectors":
            more = [file.replace(deletion_vector=inline_descriptor([0, 1])) for file in marked]
            pairs = zip(gone_too, marked, strict=True)
            return [
                a
                for number, pair in enumerate(pairs)
                for a in (pair if number % 2 else (gone(marked[number]), more[number]))
            ]
        case "cdc":
            return [*files, *(Cdc(path=f"_change_data/{file.path}", size_bytes=file.size_bytes) for file in files)]
        case "merge":
            return [MERGE, *files, *(() if len(files) % 2 else (gone(marked[0]),) if marked else ())][: len(files) + 1]
        case "moved":
            return [file.replace(data_change=False) for file in files]
    return [*files]


def history_of(commits: Sequence[tuple[str, Sequence[int]]]) -> Log:
    env, names = memory_env(), count()
    for version, (kind, sizes) in enumerate(commits):
        head = [PROTOCOL, metadata(SCHEMA)] if version == 0 else []
        put_commit(env, version, [*head, *committed(kind, sizes, names)])
    return Log(env)


# --- the reference's algorithm


@dataclass(frozen=True)
class Indexed:
    """A file of a version, or without a file its begin or end."""

    version: int
    index: int
    file: Add | Remove | Cdc | None = None
    skipped: bool = False

    @property
    def place(self) -> tuple[int, int]:
        return self.version, self.index

    @property
    def size(self) -> int:
        return 0 if self.file is None else self.file.size_bytes or 0


def between_marks(version: int, files: Sequence[Add | Remove | Cdc], *, skipped: bool = False) -> list[Indexed]:
    inside = [Indexed(version, index, file, skipped) for index, file in enumerate(files)]
    return [Indexed(version, BASE), *inside, Indexed(version, END)]


def versions_from(log: Log, begin: StreamOffset) -> Iterator[tuple[bool, list[Indexed]]]:
    """Everything of the versions from an offset on, and whether it is the initial snapshot."""
    first = begin.version
    if begin.is_initial:
        yield (
            True,
            between_marks(
                first, sorted(load_snapshot(log, first).live.adds(), key=lambda f: (f.modification_time_ms, f.path))
            ),
        )
        first += 1
    for version in range(first, load_snapshot(log).version + 1):
        actions = log.read_version(version)
        recorded = [a for a in actions if isinstance(a, Cdc)]
        changed = [a for a in actions if isinstance(a, Add | Remove) and a.data_change]
        yield False, between_marks(version, recorded or changed, skipped=MERGE in actions and not recorded)


@dataclass
class Admission:
    files: float
    bytes: float
    begun: bool = False

    @property
    def has_capacity(self) -> bool:
        return self.files > 0 and self.bytes > 0

    def one(self, entry: Indexed) -> bool:
        self.begun = True
        if entry.file is None:
            return True
        admitted = self.has_capacity
        self.files, self.bytes = self.files - 1, self.bytes - entry.size
        return admitted

    def all(self, entries: Sequence[Indexed]) -> bool:
        if not entries:
            return True
        size = sum(entry.size for entry in entries)
        admitted = not self.begun or (self.files - len(entries) >= 0 and self.bytes - size >= 0)
        self.begun, self.files, self.bytes = True, self.files - len(entries), self.bytes - size
        return admitted

    def leading(self, entries: Sequence[Indexed]) -> list[Indexed]:
        found = []
        for entry in entries:
            if not self.one(entry):
                break
            found.append(entry)
        return found


def valid(
    entries: Sequence[Indexed], begin: StreamOffset, exclude: str | None, last: StreamOffset | None
) -> list[Indexed]:
    """The entries after one offset, up to and including another, that are read."""
    return [
        e
        for e in entries
        if not e.skipped
        and e.place > begin.place
        and (last is None or e.place <= last.place)
        and (e.file is None or exclude is None or not re.search(exclude, e.file.path))
    ]


def ended(
    log: Log, begin: StreamOffset, limit: AdmissionLimit, exclude: str | None = None, last: StreamOffset | None = None
) -> StreamOffset:
    unlimited = limit.files is None and limit.bytes is None
    admission = Admission(*(float("inf") if most is None else most for most in (limit.files, limit.bytes)))
    taken: list[Indexed] = []
    for is_initial, entries in versions_from(log, begin):
        if not admission.has_capacity or (last is not None and entries[0].version > last.version):
            break
        kept = valid(entries, begin, exclude, last)
        files = [e.file for e in entries if e.file is not None]
        recorded = [e for e in kept if isinstance(e.file, Cdc)]
        if unlimited:
            taken += kept
        elif is_initial:
            taken += admission.leading(kept)
        elif any(isinstance(file, Cdc) for file in files):
            taken += recorded if admission.all(recorded) else []
        elif any(not isinstance(file, Cdc) and file.deletion_vector is not None for file in files):
            taken += kept if admission.all(kept) else []
        else:
            taken += admission.leading(kept)
    if not taken:
        return begin
    newest = taken[-1]
    if newest.index == END:
        return StreamOffset(table_id="fed", version=newest.version + 1)
    return StreamOffset(
        table_id="fed",
        version=newest.version,
        index=newest.index,
        is_initial=begin.is_initial and newest.version == begin.version,
    )


Read = tuple[int, str | None, str]


def changes_between(log: Log, begin: StreamOffset, end: StreamOffset, exclude: str | None) -> list[Read]:
    """Version, kind and path of each file with changes between two offsets; the kind is None for a change data file."""
    found: list[Read] = []
    for is_initial, entries in versions_from(log, begin):
        files = [e.file for e in valid(entries, begin, exclude, end) if e.file is not None]
        twice = {a.path for a in files if isinstance(a, Add)} & {a.path for a in files if isinstance(a, Remove)}
        for file in files:
            kind = "insert" if isinstance(file, Add) else None if isinstance(file, Cdc) else "delete"
            if not (isinstance(file, Add) and file.path in twice):  # in these histories vectors only grow
                found.append((entries[0].version, kind, file.path))
        assert not (is_initial and twice)
    return sorted(found, key=str)


# --- the stream


def stream_of(log: Log, version: int | None = None, start: int | None = None, **options: object) -> FeedStream:
    return FeedStream(load_snapshot(log, version), StreamStart(find_version=lambda: start, **options))  # type: ignore[arg-type]


def read(portions: Sequence[Portion]) -> list[Read]:
    found = []
    for portion in portions:
        for file in portion.snapshot.live.adds():
            kind = file.partition_values.get(CHANGE_TYPE)
            found.append((int(file.partition_values[COMMIT_VERSION] or ""), kind, file.path))
            assert (kind is None) == file.path.startswith("_change_data")
    return sorted(found, key=str)


@given(
    HISTORIES,
    st.none() | st.integers(0, 5),
    st.lists(LIMITS, min_size=1, max_size=4),
    st.integers(0, 5),
    st.sampled_from([None, "odd"]),
)
@example([("adds", []), ("adds", [2, 2]), ("cdc", [2, 2]), ("vectors", [2])], 0, [AdmissionLimit(files=2)], 0, None)
@example(
    [("vectors", [1, 1]), ("vectors", [1, 1])], 0, [AdmissionLimit(files=5)], 0, None
)  # the marks of a version count
@example(
    [("cdc", [1]), ("cdc", [2])], 0, [AdmissionLimit()], 0, "odd"
)  # a commit is not read from its data files instead
def test_batches_end_as_in_the_reference_and_read_each_change_once(
    commits: list[tuple[str, list[int]]],
    start: int | None,
    limits: list[AdmissionLimit],
    known: int,
    exclude: str | None,
) -> None:
    log, newest = history_of(commits), len(commits) - 1
    known = min(known, newest)
    begin = StreamOffset(table_id="fed", version=known if start is None else start, is_initial=start is None)
    options = {"exclude": exclude and re.compile(exclude)}
    stream = stream_of(log, known, start, **options)
    offsets = ends_of(stream, begin, limits, lambda after, limit: ended(log, after, limit, exclude))
    for number, (first, last) in enumerate(pairwise(offsets)):
        expected = changes_between(log, first, last, exclude)
        assert read(stream.portions(first, last)) == expected
        again = None if number == 0 and start is not None else first
        assert read(stream_of(log, newest, start, **options).portions(again, last)) == expected
    whole = changes_between(log, begin, StreamOffset(table_id="fed", version=newest + 1), exclude)
    assert read(stream.portions(begin, offsets[-1])) == whole


@given(HISTORIES, LIMITS, st.integers(0, 5))
def test_a_stream_of_what_is_there_ends_where_it_was_planned_to_end(
    commits: list[tuple[str, list[int]]], limit: AdmissionLimit, until: int
) -> None:
    log = history_of(commits)
    stream, begin = stream_of(log, 0, 0), StreamOffset(table_id="fed", version=0)
    last = StreamOffset(table_id="fed", version=min(until, len(commits) - 1) + 1)
    offsets = [begin]
    for _ in range(100):
        found = stream.next_end(offsets[-1], replace(limit), last)
        assert found == ended(log, offsets[-1], limit, last=last)
        if found == offsets[-1]:
            break
        offsets.append(found)
    got = [change for first, end in pairwise(offsets) for change in read(stream.portions(first, end))]
    assert sorted(got, key=str) == changes_between(log, begin, last, None)


# --- rows


def test_the_rows_are_those_of_the_feed() -> None:
    fed = Fed(
        memory_env(), metadata(Struct((Field(name="id", type=LONG), Field(name="part", type=STRING))), by=["part"])
    )
    one, two = fed.add("one", {"id": [1, 2, 3]}, part="a"), fed.add("two", {"id": [4]}, part="b")
    fed.commit(one, two)
    marked = one.replace(deletion_vector=inline_descriptor([0]))
    fed.commit(gone(one), marked)
    fed.commit(
        fed.cdc("_change_data/c", {"id": [4, 5], "_change_type": ["update_preimage", "update_postimage"]}, part="b")
    )
    fed.commit(gone(marked), gone(two))
    log = fed.table.log
    assert rows(stream_of(log, start=0), StreamOffset(table_id="fed", version=0)).equals(
        fed.table.changes(start_version=0)
    )
    first = rows(stream_of(log, 2), StreamOffset(table_id="fed", version=2, is_initial=True)).to_pylist()
    times = {row[COMMIT_VERSION]: row[COMMIT_TIMESTAMP] for row in fed.table.changes(start_version=0).to_pylist()}
    inserted = [(row["id"], row["part"], row[COMMIT_TIMESTAMP]) for row in first if row[CHANGE_TYPE] == "insert"]
    assert sorted(inserted[:3]) == [(2, "a", times[2]), (3, "a", times[2]), (4, "b", times[2])]
    assert [row[CHANGE_TYPE] for row in first if row[COMMIT_VERSION] > 2] == [
        "update_preimage",
        "update_postimage",
        *["delete"] * 3,
    ]


def rows(stream: FeedStream, begin: StreamOffset) -> pa.Table:
    names, end = feed_schema(stream.snapshot).names, stream.next_end(begin, AdmissionLimit())
    found = [
        read_rows(portion.snapshot.scan(), names, marked=portion.marked) for portion in stream.portions(begin, end)
    ]
    return pa.concat_tables(found).sort_by(COMMIT_VERSION)


def test_in_commit_timestamps_are_taken_before_the_time_of_the_file() -> None:
    env = memory_env()
    put_commit(
        env,
        0,
        [
            CommitInfo({"inCommitTimestamp": 5000}),
            PROTOCOL,
            metadata(SCHEMA, enableInCommitTimestamps="true"),
            add("a"),
        ],
    )
    put_commit(env, 1, [CommitInfo({"inCommitTimestamp": 6000}), add("b")])
    begin = StreamOffset(table_id="fed", version=0, is_initial=True)
    found = stream_of(Log(env), 0).portions(begin, StreamOffset(table_id="fed", version=2))
    times = [file.partition_values[COMMIT_TIMESTAMP] for portion in found for file in portion.snapshot.live.adds()]
    assert times == ["1970-01-01T00:00:05.000000Z", "1970-01-01T00:00:06.000000Z"]


# --- what is refused


def disabled(given: Metadata) -> Metadata:
    return given.replace(configuration={**given.configuration, "delta.enableChangeDataFeed": "false"})


def test_versions_without_a_feed_are_refused() -> None:
    enabled, env = metadata(SCHEMA), memory_env()
    put_commit(env, 0, [PROTOCOL, disabled(enabled), add("a")])
    put_commit(env, 1, [enabled, add("b")])
    put_commit(env, 2, [add("c")])
    log = Log(env)
    with pytest.raises(ChangesNotRecordedError, match="not enabled at version 0"):
        stream_of(log, start=0).first_end(AdmissionLimit())
    end = StreamOffset(table_id="fed", version=3)
    assert (stream_of(log, start=1).first_end(AdmissionLimit()), stream_of(log).first_end(AdmissionLimit())) == (
        end,
        end,
    )
    put_commit(env, 3, [disabled(enabled)])
    stream = stream_of(log, 2, 1)
    assert stream.first_end(AdmissionLimit()) == end  # what was recorded is read first
    with pytest.raises(ChangesNotRecordedError, match="not enabled at version 3"):
        stream.next_end(end, AdmissionLimit())


def test_an_added_column_needs_the_query_to_be_started_again() -> None:
    log = history_of([("adds", [2]), ("adds", [2])])
    wider = Struct((*SCHEMA.fields, Field(name="name", type=STRING)))
    put_commit(log.env, 2, [metadata(wider)])
    after = StreamOffset(table_id="fed", version=2)
    with pytest.raises(StreamSchemaChangedError, match=r"version 2 .*name.*same checkpoint"):
        stream_of(log, 1).next_end(after, AdmissionLimit())
    assert stream_of(log).next_end(after, AdmissionLimit()).version == 3


def test_a_restore_that_undoes_a_widening_is_read_with_the_wider_type_until_the_query_starts_again() -> None:
    """The rows on both sides are LONG for a query that was started before. One that begins at the RESTORE reads INT,
    and cannot read the rows that it removes.
    """
    table = tahoe.Table("memory://narrowed", env=memory_env())
    table.create(
        pa.schema([("n", pa.int32())]),
        properties={"delta.enableChangeDataFeed": "true", "delta.enableTypeWidening": "true"},
    )
    with table.transaction() as changes:
        changes.alter_columns([ColumnChange(path=("n",), type=LONG)])
    table.append(pa.table({"n": [1 << 40]}))
    wide = table.snapshot()
    table.restore(0)
    table.append(pa.table({"n": pa.array([7], pa.int32())}))
    begin = StreamOffset(table_id=wide.metadata.id, version=2)
    found = rows(FeedStream(wide, StreamStart()), begin)
    assert found.schema.field("n").type == pa.int64()
    assert list(zip(found["n"].to_pylist(), found[CHANGE_TYPE].to_pylist(), strict=True)) == [
        (1 << 40, "insert"),
        (1 << 40, "delete"),
        (7, "insert"),
    ]
    narrow = table.snapshot()
    for version in (2, 3):
        with pytest.raises(
            StreamSchemaChangedError, match=r"version 2 .*column n is long, and .* as integer.*new checkpoint"
        ):
            rows(FeedStream(narrow, StreamStart()), replace(begin, version=version))
    assert rows(FeedStream(narrow, StreamStart()), replace(begin, version=4))["n"].to_pylist() == [7]


def test_a_batch_is_not_read_if_the_log_ends_before_it() -> None:
    log = history_of([("adds", [2]), ("cdc", [2])])
    log.env.store.delete(log_files.commit_key(1))
    with pytest.raises(StreamTrailingCommitError, match=r"up to version 1 .*version 0"):
        stream_of(log, start=0).portions(None, StreamOffset(table_id="fed", version=1, index=0))


def test_columns_of_the_feed_cannot_be_columns_of_the_table() -> None:
    env = memory_env()
    put_commit(env, 0, [PROTOCOL, metadata(Struct((Field(name=CHANGE_TYPE, type=STRING),)))])
    with pytest.raises(UnsupportedOperationError, match="Rename the column"):
        feed_schema(load_snapshot(Log(env)))
