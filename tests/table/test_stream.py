"""Where the batches of a stream end, and what they read, against the reference's algorithm in its simplest form."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.errors import (
    OtherTableInStreamError,
    StreamCommitsMissingError,
    StreamSchemaChangedError,
    StreamSchemaEvolvedError,
    StreamSourceChangeError,
    StreamSourceDeleteError,
    StreamStartUncheckedError,
    StreamTrailingCommitError,
    TableNotFoundError,
)
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Add, CommitInfo, Protocol, remove_of
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.streams.stream_offset import BASE, StreamOffset
from tahoe.protocol.streams.stream_schema import SchemaRules
from tahoe.protocol.types.schema import LONG, STRING, Field, Struct
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.streams import stream_commits
from tahoe.table.streams.feed_stream import FeedStream
from tahoe.table.streams.stream import AdmissionLimit, StreamStart, TableStream
from tahoe.table.streams.stream_commits import ChangeTolerance
from tahoe.table.streams.stream_schema import SchemaLog, SchemaTracker
from tests.table.builders import METADATA, PROTOCOL, add, make_log, memory_env, put_commit
from tests.table.streams import ends_of

END = 1 << 60


@dataclass(frozen=True)
class File:
    """A file of a stream, or with the path None a mark at the begin or end of a version."""

    version: int
    index: int
    path: str | None = None
    size: int = 0


def history_of(sizes: Sequence[Sequence[int]]) -> Log:
    """A log whose commits add files of these sizes; negative sizes are of files that were rewritten without a data
    change.
    """
    names = count()
    commits = [
        [
            add(f"f{next(names):03}", size_bytes=abs(size), modification_time_ms=-abs(size), data_change=size > 0)
            for size in commit
        ]
        for commit in sizes
    ]
    return make_log(commits)


def marked(version: int, files: Sequence[Add]) -> Iterator[File]:
    yield File(version, BASE)
    yield from (File(version, index, file.path, file.size_bytes) for index, file in enumerate(files))
    yield File(version, END)


def followed(log: Log, begin: StreamOffset) -> Iterator[File]:
    """All files after an offset, with marks."""
    newest = load_snapshot(log).version
    found: list[File] = []
    first = begin.version
    if begin.is_initial:
        live = sorted(load_snapshot(log, first).live.adds(), key=lambda file: (file.modification_time_ms, file.path))
        found += marked(first, live)
        first += 1
    for version in range(first, newest + 1):
        found += marked(version, [a for a in log.read_version(version) if isinstance(a, Add) and a.data_change])
    return (file for file in found if (file.version, file.index) > begin.place)


def ended(log: Log, begin: StreamOffset, limit: AdmissionLimit, last: StreamOffset | None = None) -> StreamOffset:
    """The end of a batch after an offset, file by file."""
    end = begin
    for file in followed(log, begin):
        if last is not None and (file.version, file.index) > last.place:
            break
        if file.path is not None:
            if (limit.files is not None and limit.files <= 0) or (limit.bytes is not None and limit.bytes <= 0):
                break
            limit = AdmissionLimit(
                None if limit.files is None else limit.files - 1,
                None if limit.bytes is None else limit.bytes - file.size,
            )
        inside = begin.is_initial and file.version == begin.version
        if file.index == END:
            end = StreamOffset(table_id="test", version=file.version + 1)
        else:
            end = StreamOffset(table_id="test", version=file.version, index=file.index, is_initial=inside)
    return end


def paths_between(log: Log, begin: StreamOffset, end: StreamOffset) -> list[str]:
    return [
        file.path for file in followed(log, begin) if file.path is not None and (file.version, file.index) <= end.place
    ]


def stream_of(log: Log, version: int | None = None, start: int | None = None, **options: object) -> TableStream:
    return TableStream(load_snapshot(log, version), StreamStart(find_version=lambda: start, **options))  # type: ignore[arg-type]


def read(stream: TableStream, start: StreamOffset | None, end: StreamOffset) -> list[str]:
    found = []
    for portion in stream.portions(start, end):
        paths = portion.snapshot.live.column("path").to_pylist()
        found += paths if portion.numbers is None else [paths[number] for number in portion.numbers]
    return found


SIZES = st.lists(st.lists(st.integers(-5, 9).filter(bool), max_size=5), min_size=1, max_size=6)
LIMITS = st.builds(AdmissionLimit, st.none() | st.integers(1, 4), st.none() | st.integers(1, 12))


@given(SIZES, st.none() | st.integers(0, 5), st.lists(LIMITS, min_size=1, max_size=4), st.integers(0, 5))
def test_batches_end_as_in_the_reference_and_read_each_file_once(
    sizes: list[list[int]], start: int | None, limits: list[AdmissionLimit], known: int
) -> None:
    log = history_of(sizes)
    newest = len(sizes) - 1
    known = min(known, newest)
    begin = StreamOffset(table_id="test", version=known if start is None else start, is_initial=start is None)
    stream = stream_of(log, known, start)
    offsets = ends_of(stream, begin, limits, partial(ended, log))
    for number, (first, last) in enumerate(pairwise(offsets)):
        expected = sorted(paths_between(log, first, last))
        assert sorted(read(stream, first, last)) == expected
        assert (
            sorted(read(stream_of(log, newest, start), None if number == 0 and start is not None else first, last))
            == expected
        )
    assert sorted(read(stream, begin, offsets[-1])) == sorted(paths_between(log, begin, offsets[-1]))


@given(SIZES, LIMITS, st.integers(0, 5))
def test_a_stream_of_what_is_there_ends_where_it_was_planned_to_end(
    sizes: list[list[int]], limit: AdmissionLimit, until: int
) -> None:
    log = history_of(sizes)
    stream = stream_of(log, 0)
    last = StreamOffset(table_id="test", version=min(until, len(sizes) - 1) + 1)
    found = stream.first_end(replace(limit), last)
    for _ in range(100):
        assert found is not None
        assert found.place <= last.place
        following = stream.next_end(found, replace(limit), last)
        assert following == ended(log, found, replace(limit), last)
        if following == found:
            break
        found = following
    assert found == last


def test_the_first_batch_is_found_again_without_its_start() -> None:
    log = history_of([[1, 2], [3]])
    stream = stream_of(log, 0)
    end = stream.first_end(AdmissionLimit())
    assert end == StreamOffset(table_id="test", version=2)
    assert sorted(read(stream_of(log), None, end)) == ["f000", "f001", "f002"]


def test_files_that_match_a_pattern_are_counted_but_not_read() -> None:
    log = history_of([[1, 1], [1, 1]])
    stream = stream_of(log, 0, exclude=re.compile("f00[02]"))
    end = stream.first_end(AdmissionLimit(files=3))
    assert end == StreamOffset(table_id="test", version=1, index=0)
    assert read(stream, None, end) == ["f001"]


# --- what a stream cannot follow


def changed(adds: Sequence[str] = ()) -> Log:
    log = make_log([[add("a"), add("b")]])
    info = CommitInfo({"operation": "UPDATE", "operationParameters": {"predicate": "true"}})
    put_commit(log.env, 1, [info, remove_of(add("a"), 1, data_change=True), *map(add, adds)])
    put_commit(log.env, 2, [add("d")])
    return log


AFTER = StreamOffset(table_id="test", version=1)


@pytest.mark.parametrize(
    ("tolerance", "paths"),
    [
        (ChangeTolerance(), None),
        (ChangeTolerance(ignores_deletes=True), None),
        (ChangeTolerance(ignores_changes=True), ["c", "d"]),
        (ChangeTolerance(skips_changes=True), ["d"]),
        (ChangeTolerance(skips_changes=True, ignores_changes=True), ["d"]),
    ],
)
def test_a_change_stops_the_stream_unless_it_is_told_how_to_pass(
    tolerance: ChangeTolerance, paths: list[str] | None
) -> None:
    stream = stream_of(changed(["c"]), 0, tolerance=tolerance)
    if paths is None:
        with pytest.raises(StreamSourceChangeError, match=r"Version 1 .*UPDATE .*predicate"):
            stream.next_end(AFTER, AdmissionLimit())
    else:
        assert read(stream, AFTER, stream.next_end(AFTER, AdmissionLimit())) == paths


@pytest.mark.parametrize(
    "tolerance",
    [ChangeTolerance(ignores_deletes=True), ChangeTolerance(ignores_changes=True), ChangeTolerance(skips_changes=True)],
)
def test_a_delete_stops_the_stream_unless_it_is_told_how_to_pass(tolerance: ChangeTolerance) -> None:
    with pytest.raises(StreamSourceDeleteError, match="for example a"):
        stream_of(changed(), 0).next_end(AFTER, AdmissionLimit())
    stream = stream_of(changed(), 0, tolerance=tolerance)
    assert read(stream, AFTER, stream.next_end(AFTER, AdmissionLimit())) == ["d"]


def test_files_that_were_rewritten_without_a_change_are_no_change() -> None:
    log = make_log([[add("a")]])
    put_commit(log.env, 1, [remove_of(add("a"), 1, data_change=False), add("b", data_change=False)])
    assert stream_of(log, 0).next_end(AFTER, AdmissionLimit()) == StreamOffset(table_id="test", version=2)


def test_commits_that_are_gone_stop_the_stream_unless_data_may_be_lost() -> None:
    log = history_of([[1], [1], [1], [1]])
    log.env.store.delete(log_files.commit_key(2))
    with pytest.raises(StreamCommitsMissingError, match=r"version 2 .*is version 3"):
        stream_of(log, 0).next_end(AFTER, AdmissionLimit())
    stream = stream_of(log, 0, tolerance=ChangeTolerance(loses_data=True))
    end = stream.next_end(AFTER, AdmissionLimit())
    assert (end.version, read(stream, AFTER, end)) == (4, ["f001", "f003"])


def test_a_commit_that_a_listing_has_passed_by_is_not_missing() -> None:
    """Other writers are at work while a folder is listed. The stream would else stop, as if data were lost."""
    log = history_of([[1], [1], [1], [1]])
    stream, store = stream_of(log, 0), log.env.store
    whole = store.list_from
    store.list_from = lambda *given: (info for info in whole(*given) if info.key != log_files.commit_key(2))  # type: ignore[method-assign]
    end = stream.next_end(AFTER, AdmissionLimit())
    assert (end.version, read(stream, AFTER, end)) == (4, ["f001", "f002", "f003"])


def test_a_batch_is_not_read_if_the_log_ends_before_it() -> None:
    log = history_of([[1], [1], [1]])
    log.env.store.delete(log_files.commit_key(2))
    with pytest.raises(StreamTrailingCommitError, match=r"up to version 2 .*version 1"):
        read(stream_of(log, 0), AFTER, StreamOffset(table_id="test", version=3))


def renamed(schema: Struct) -> Log:
    log = make_log([[add("a")]])
    put_commit(log.env, 1, [METADATA.replace(schema_string=schema.to_json()), add("b")])
    return log


WIDER = Struct((Field(name="id", type=LONG), Field(name="name", type=STRING)))


def test_an_added_column_needs_the_query_to_be_started_again() -> None:
    log = renamed(WIDER)
    with pytest.raises(StreamSchemaChangedError, match=r"version 1 .*name.*same checkpoint"):
        stream_of(log, 0).next_end(AFTER, AdmissionLimit())
    assert stream_of(log).next_end(AFTER, AdmissionLimit()) == StreamOffset(table_id="test", version=2)


def test_another_type_needs_a_new_checkpoint() -> None:
    with pytest.raises(StreamSchemaChangedError, match=r"version 1 .*id.*new checkpoint"):
        stream_of(renamed(Struct((Field(name="id", type=STRING),))), 0).next_end(AFTER, AdmissionLimit())


@pytest.mark.parametrize("has_seen_a_commit", [True, False])
def test_a_table_that_was_dropped_and_made_again_is_not_read_on(has_seen_a_commit: bool) -> None:
    log = history_of([[1], [1]])
    stream = stream_of(log)
    end = stream.next_end(AFTER, AdmissionLimit()) if has_seen_a_commit else StreamOffset(table_id="test", version=2)
    if not has_seen_a_commit:
        assert stream.next_end(end, AdmissionLimit()) == end
    for info in list(log.env.store.list_from(log_files.LOG_FOLDER)):
        log.env.store.delete(info.key)
    with pytest.raises(TableNotFoundError):
        stream.next_end(end, AdmissionLimit())
    put_commit(log.env, 0, [PROTOCOL, METADATA.replace(id="new"), add("z")])
    with pytest.raises(OtherTableInStreamError, match="new"):
        stream.next_end(end, AdmissionLimit())


def test_nothing_new_costs_one_listing() -> None:
    log = history_of([[1], [1]])
    stream = stream_of(log)
    end = stream.first_end(AdmissionLimit())
    assert end is not None
    store, asked = log.env.store, []
    for name in ("get", "head", "list_from"):
        real = getattr(store, name)
        setattr(store, name, lambda *a, real=real, name=name: asked.append(name) or real(*a))
    stream.next_end(end, AdmissionLimit())
    asked.clear()
    assert stream.next_end(end, AdmissionLimit()) == end
    assert asked == ["list_from"]


def test_commits_that_were_read_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch reads the commits again of which its end was found: from memory, as long as they fit there."""
    log, begin = history_of([[1]] * 10), StreamOffset(table_id=METADATA.id, version=0)
    stream = stream_of(log, start=0)
    end = stream.next_end(begin, AdmissionLimit())
    assert stream.next_end(begin, AdmissionLimit()) == end
    assert len(stream.commits.sizes_after(begin)) == 10
    monkeypatch.setattr(stream_commits, "_KEPT_FILES_MAX", 6)
    few = stream_of(log, start=0)
    assert few.next_end(begin, AdmissionLimit()) == end
    assert len(few.commits.sizes_after(begin)) == 3, "a commit counts as one more than its files"
    assert read(few, begin, end) == read(stream, begin, end) == [f"f{number:03}" for number in range(10)]
    stream.commits.forget(8)
    assert len(stream.commits.sizes_after(begin)) == 2, "what is processed is not kept, however long the query runs"
    assert read(stream, begin, end) == read(few, begin, end)


@pytest.mark.parametrize("kind", [TableStream, FeedStream])
@pytest.mark.parametrize("is_tracked", [False, True], ids=["untracked", "tracked"])
def test_the_files_of_the_start_are_released_when_they_are_read(
    kind: type[TableStream | FeedStream], is_tracked: bool
) -> None:
    """A query runs for months. It would else hold the files of the version at which it was started, whatever becomes of
    them.
    """
    recorded, env = METADATA.replace(configuration={"delta.enableChangeDataFeed": "true"}), memory_env()
    put_commit(env, 0, [Protocol(reader_version=1, writer_version=4), recorded, add("a"), add("b")])
    snapshot = load_snapshot(Log(env))
    tracker = SchemaTracker(
        SchemaLog(env.store_at(f"{env.store.url}/tracked"), "test", env.store.url), snapshot, snapshot, "source"
    )
    stream = kind(snapshot, StreamStart(tracker=tracker if is_tracked else None), snapshot)
    held = weakref.ref(snapshot.live)
    del snapshot
    with suppress(StreamSchemaEvolvedError):
        stream.first_end(AdmissionLimit())
    end = stream.first_end(AdmissionLimit(files=1))
    assert end == StreamOffset(table_id="test", version=0, index=0, is_initial=True)
    assert stream.outstanding(None)[0] == 2
    assert [len(portion.snapshot.live) for portion in stream.portions(None, end)] == [2 if kind is TableStream else 1]
    gc.collect()
    assert held() is not None, "the next batch reads on"
    put_commit(env, 1, [add("c")])
    stream.forget_initial()
    gc.collect()
    assert held() is None
    last = stream.next_end(StreamOffset(table_id="test", version=1), AdmissionLimit())
    assert [
        len(portion.snapshot.live) for portion in stream.portions(StreamOffset(table_id="test", version=1), last)
    ] == [1]
    assert [len(portion.snapshot.live) for portion in stream.portions(None, end)] == [
        2 if kind is TableStream else 1
    ], "read again"


# --- streams with the schema of an older version, because their DataFrame is older than the change


def widened(*, added: int) -> tuple[Log, Snapshot]:
    """Commits of one file each; one of them also adds a column. Returns the log and the version before."""
    log = make_log([[add("f0")], [add("f1")], [add("f2")], [add("f3")]][: added + 1])
    before = load_snapshot(log)
    put_commit(log.env, added + 1, [METADATA.replace(schema_string=WIDER.to_json()), add("wide")])
    return log, before


def test_a_stream_with_an_older_schema_reads_up_to_the_change() -> None:
    log, before = widened(added=2)
    stream = TableStream(before, StreamStart(), load_snapshot(log))
    end = stream.next_end(AFTER, AdmissionLimit(files=2))
    assert read(stream, AFTER, end) == ["f1", "f2"]
    with pytest.raises(StreamSchemaChangedError, match=r"version 3 .*the column name.*new DataFrame"):
        stream.next_end(end, AdmissionLimit())


@pytest.mark.parametrize(
    "after", [StreamOffset(table_id="test", version=3, index=0), StreamOffset(table_id="test", version=4)]
)
def test_a_stream_with_an_older_schema_does_not_start_after_the_change(after: StreamOffset) -> None:
    log, before = widened(added=2)
    put_commit(log.env, 4, [add("later")])
    with pytest.raises(StreamSchemaChangedError, match=r"version \d .*the column name.*new DataFrame"):
        TableStream(before, StreamStart(), load_snapshot(log)).next_end(after, AdmissionLimit())


def test_a_new_stream_with_an_older_schema_is_refused() -> None:
    log, before = widened(added=0)
    with pytest.raises(StreamSchemaChangedError, match=r"version 1 .*the column name.*new DataFrame"):
        TableStream(before, StreamStart(), load_snapshot(log)).first_end(AdmissionLimit())


def test_a_stream_may_start_in_the_commit_that_changed_the_schema() -> None:
    log = renamed(Struct((Field(name="id", type=STRING),)))
    assert read(stream_of(log, start=1), None, StreamOffset(table_id="test", version=2)) == ["b"]


def test_the_start_of_a_stream_with_mapped_columns_must_be_known() -> None:
    metadata = METADATA.replace(configuration={"delta.columnMapping.mode": "name"})
    env = memory_env()
    put_commit(env, 0, [PROTOCOL.replace(reader_version=2, writer_version=5), metadata, add("a")])
    for version in (1, 2, 3):
        put_commit(env, version, [add(f"f{version}")])
    stream = stream_of(log := make_log([], env), tolerance=ChangeTolerance(loses_data=True))
    log.env.store.delete(log_files.commit_key(0))
    with pytest.raises(StreamStartUncheckedError, match=r"version 1.*reads_moved_columns"):
        stream.next_end(AFTER, AdmissionLimit())
    passing = TableStream(stream.snapshot, StreamStart(rules=SchemaRules(reads_moved_columns=True)))
    assert passing.next_end(AFTER, AdmissionLimit()) == StreamOffset(table_id="test", version=4)


def test_the_version_of_a_file_is_known_while_a_batch_may_read_it() -> None:
    """By its path in the log or by its url. The commit that has added it last counts."""
    log = make_log([[add("p=a%20b/old")], [add("p=a%20b/new")], [add("p=a%20b/new", stats="{}")]])
    stream = stream_of(log, 0)
    begin = stream.first_end(AdmissionLimit(files=1))
    assert begin is not None
    stream.portions(None, begin)
    stream.next_end(begin, AdmissionLimit())
    assert [stream.version_of(f"{log.url}/p=a%20b/{name}") for name in ("old", "new", "other")] == [0, 2, None]
    assert stream.version_of("p=a%20b/old") == 0
    stream.forget_initial()
    assert stream.version_of("p=a%20b/old") is None


@pytest.mark.parametrize("has_vectors", [False, True])
def test_an_initial_snapshot_has_the_features_of_the_stream_and_those_of_its_files(has_vectors: bool) -> None:
    """A query is started again inside the initial snapshot of version 0, after row tracking was enabled and vectors
    were given up.
    """
    vector = inline_descriptor([0]) if has_vectors else None
    env = memory_env()
    old = Protocol(
        reader_version=3,
        writer_version=7,
        reader_features=frozenset({"deletionVectors"}),
        writer_features=frozenset({"deletionVectors"}),
    )
    new = Protocol(reader_version=1, writer_version=7, writer_features=frozenset({"rowTracking", "domainMetadata"}))
    put_commit(env, 0, [old, METADATA, add("a", stats='{"numRecords":2}', deletion_vector=vector), add("b")])
    put_commit(env, 1, [new, METADATA.replace(configuration={"delta.enableRowTracking": "true"})])
    stream = stream_of(Log(env))
    end = StreamOffset(table_id="test", version=0, index=0, is_initial=True)
    (portion,) = stream.portions(StreamOffset(table_id="test", version=0, is_initial=True), end)
    assert portion.snapshot.row_tracking is not None
    assert ("deletionVectors" in (portion.snapshot.protocol.reader_features or ())) == has_vectors
