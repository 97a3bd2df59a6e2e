"""Streams that track their schema: the barriers at which they stop, and what comes into their logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tahoe.errors import (
    OtherTableInStreamError,
    SchemaLocationConflictError,
    SchemaLogOtherTableError,
    SchemaLogSchemaError,
    SchemaLogStartError,
    SchemaLogUnreadableError,
    StreamSchemaEvolvedError,
)
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.streams.stream_offset import AFTER_SCHEMA_CHANGE, SCHEMA_CHANGE, StreamOffset
from tahoe.protocol.streams.stream_schema import (
    SchemaRules,
    changes_between,
    checkpoint_suffix,
    first_retyped,
    is_acknowledged,
    parse_entry,
)
from tahoe.protocol.types.schema import INTEGER, LONG, STRING, DataType, Field, Struct
from tahoe.storage.env import Env, Store
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import load_snapshot
from tahoe.table.streams.feed_stream import FeedStream
from tahoe.table.streams.stream import AdmissionLimit, StreamStart, TableStream
from tahoe.table.streams.stream_schema import SchemaLog, SchemaTracker, merge_next, schema_log_folder, with_tracked
from tests.table.builders import add, memory_env, put_commit

SOURCE = "file:/tmp/checkpoint/sources/0"
PROTOCOL = Protocol(reader_version=2, writer_version=5)


def named(**columns: str) -> Metadata:
    """Columns of integers: logical names with physical names."""
    fields = tuple(
        Field(name=name, type=INTEGER, metadata={"delta.columnMapping.physicalName": stored})
        for name, stored in columns.items()
    )
    properties = {"delta.columnMapping.mode": "name"}
    return Metadata(id="test", schema_string=Struct(fields).to_json(), configuration=properties)


def a_table() -> Env:
    """Version 0 has a file, 1 another one, 2 renames a column, 3 has a file again."""
    env = memory_env()
    put_commit(env, 0, [PROTOCOL, named(a="x"), add("f0")])
    put_commit(env, 1, [add("f1")])
    put_commit(env, 2, [named(b="x")])
    put_commit(env, 3, [add("f3")])
    return env


def folder(env: Env) -> Store:
    return env.store_at(schema_log_folder(f"{env.store.url}/checkpoint", "test", None))


def schema_log(env: Env) -> SchemaLog:
    return SchemaLog(folder(env), "test", env.store.url)


def started(env: Env, first: int | None = None) -> TableStream:
    """A query that starts, or starts again, with a new DataFrame."""
    log = schema_log(env)
    merge_next(log, Log(env))
    newest = load_snapshot(Log(env))
    tracker = SchemaTracker(log, newest, newest, SOURCE)
    read = newest if log.current is None else with_tracked(newest, log.current)
    return TableStream(read, StreamStart(find_version=lambda: first, tracker=tracker), newest)


def at(version: int, index: int) -> StreamOffset:
    return StreamOffset(table_id="test", version=version, index=index)


def paths(stream: TableStream, start: StreamOffset | None, end: StreamOffset) -> list[str]:
    return [
        path for portion in stream.portions(start, end) for path in portion.snapshot.live.column("path").to_pylist()
    ]


def versions(env: Env) -> list[int]:
    log = schema_log(env)
    found = []
    while (entry := log._read(len(found))) is not None:
        found.append(entry.version)
    return found


def test_a_stream_stops_before_a_change_and_goes_on_behind_it() -> None:
    env = a_table()
    with pytest.raises(StreamSchemaEvolvedError):
        started(env, 0).first_end(
            AdmissionLimit()
        )  # the DataFrame has the new column, the rows of version 0 the old one
    assert versions(env) == [0]
    stream = started(env, 0)
    assert stream.snapshot.schema.names == ("a",)
    end = stream.first_end(AdmissionLimit())
    assert end == at(2, SCHEMA_CHANGE)
    assert paths(stream, None, end) == ["f0", "f1"]
    waiting = stream.next_end(end, AdmissionLimit())
    assert waiting == at(2, AFTER_SCHEMA_CHANGE)
    assert stream.next_end(waiting, AdmissionLimit()) == waiting
    assert paths(stream, end, waiting) == []
    with pytest.raises(StreamSchemaEvolvedError, match=r"version 2.*b:integer.*columnMapping.*minReaderVersion"):
        stream.schema.committed(end)
    assert versions(env) == [0, 2]
    stream = started(env, 0)
    assert stream.snapshot.schema.names == ("b",)
    assert paths(stream, end, waiting) == []
    last = stream.next_end(waiting, AdmissionLimit())
    assert last == StreamOffset(table_id="test", version=4)
    assert paths(stream, waiting, last) == ["f3"]
    stream.schema.committed(waiting)  # nothing is new
    assert versions(env) == [0, 2]


def test_what_is_there_ends_at_the_change_and_the_query_fails_there() -> None:
    """Otherwise a query with the trigger AvailableNow would never get beyond it."""
    env = a_table()
    with pytest.raises(StreamSchemaEvolvedError):
        started(env, 0).first_end(AdmissionLimit())
    stream = started(env, 0)
    last = stream.first_end(AdmissionLimit())
    assert last == at(2, SCHEMA_CHANGE)
    assert stream.first_end(AdmissionLimit(files=1), last) == at(1, -100)
    assert stream.next_end(at(1, -100), AdmissionLimit(files=1), last) == last
    assert stream.next_end(last, AdmissionLimit(), last) == at(2, AFTER_SCHEMA_CHANGE)


def test_a_change_data_feed_stops_at_the_same_places() -> None:
    env = memory_env()
    recorded = {"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true"}
    put_commit(env, 0, [PROTOCOL, named(a="x").replace(configuration=recorded), add("f0")])
    put_commit(env, 1, [add("f1")])
    put_commit(env, 2, [named(b="x").replace(configuration=recorded), add("f2")])
    newest = load_snapshot(Log(env))
    before = load_snapshot(Log(env), 1)
    stream = FeedStream(
        before,
        StreamStart(find_version=lambda: 0, tracker=SchemaTracker(schema_log(env), before, newest, SOURCE)),
        newest,
    )
    end = stream.first_end(AdmissionLimit())
    assert end == at(2, SCHEMA_CHANGE)
    assert (
        stream.next_end(end, AdmissionLimit())
        == stream.next_end(at(2, AFTER_SCHEMA_CHANGE), AdmissionLimit())
        == at(2, AFTER_SCHEMA_CHANGE)
    )
    with pytest.raises(StreamSchemaEvolvedError):
        stream.schema.committed(end)
    tracker = SchemaTracker(schema_log(env), newest, newest, SOURCE)
    again = FeedStream(tracker.snapshot, StreamStart(find_version=lambda: 0, tracker=tracker), newest)
    assert again.next_end(at(2, AFTER_SCHEMA_CHANGE), AdmissionLimit()) == StreamOffset(table_id="test", version=3)


def test_another_table_in_the_place_is_no_change_of_the_schema() -> None:
    env = a_table()
    stream = started(env, 3)
    end = stream.first_end(AdmissionLimit())
    assert end is not None
    put_commit(env, 4, [named(b="x").replace(id="other")])
    with pytest.raises(OtherTableInStreamError):
        stream.next_end(end, AdmissionLimit())


def test_changes_in_a_row_are_one() -> None:
    env = memory_env()
    put_commit(env, 0, [PROTOCOL, named(a="x"), add("f0")])
    stream = started(env)
    end = stream.first_end(AdmissionLimit())
    put_commit(env, 1, [named(b="x")])
    put_commit(env, 2, [named(b="x", c="y")])
    put_commit(env, 3, [PROTOCOL.replace(writer_version=6)])
    put_commit(env, 4, [named(b="x", c="y", d="z"), add("f4")])
    assert end is not None
    assert stream.next_end(end, AdmissionLimit()) == at(1, SCHEMA_CHANGE)
    with pytest.raises(StreamSchemaEvolvedError):
        stream.schema.committed(at(1, SCHEMA_CHANGE))
    stream = started(env)
    assert versions(env) == [0, 1, 3]
    found, previous = schema_log(env).current, schema_log(env).previous()
    assert found is not None
    assert previous is not None
    assert (found.schema.names, found.protocol, found.previous) == (("b", "c"), PROTOCOL.replace(writer_version=6), 0)
    assert previous.schema.names == ("a",)
    assert stream.next_end(at(1, AFTER_SCHEMA_CHANGE), AdmissionLimit()) == at(4, SCHEMA_CHANGE)


def test_new_files_and_properties_of_writers_are_no_change() -> None:
    env = memory_env()
    metadata = named(a="x")
    put_commit(env, 0, [PROTOCOL, metadata, add("f0")])
    stream = started(env)
    assert stream.first_end(AdmissionLimit()) == StreamOffset(table_id="test", version=1)
    column = metadata.schema.fields[0]
    marked = Struct((replace(column, metadata={**column.metadata, "delta.identity.highWaterMark": 7}),))
    put_commit(
        env,
        1,
        [metadata.replace(schema_string=marked.to_json(), configuration={**metadata.configuration, "mine": "1"})],
    )
    put_commit(env, 2, [metadata.replace(configuration={**metadata.configuration, "delta.appendOnly": "true"})])
    assert stream.next_end(at(1, -100), AdmissionLimit()) == at(2, SCHEMA_CHANGE)


def test_the_initial_snapshot_is_read_with_its_own_schema() -> None:
    """The log was begun, but the query found nothing to read before the table changed."""
    env = memory_env()
    put_commit(env, 0, [PROTOCOL, named(a="x"), add("f0")])
    started(env).first_end(AdmissionLimit())
    put_commit(env, 1, [named(b="x"), add("f1")])
    with pytest.raises(StreamSchemaEvolvedError, match="version 1"):
        started(env).first_end(AdmissionLimit())
    found = schema_log(env).current
    assert found is not None
    assert (found.version, found.schema.names, found.previous) == (1, ("b",), -1)
    assert schema_log(env).previous() is None  # nothing to acknowledge
    assert started(env).first_end(AdmissionLimit()) == StreamOffset(table_id="test", version=2)


def test_tracking_begins_at_the_batch_that_is_planned() -> None:
    env = a_table()
    put_commit(env, 4, [named(b="x", c="y"), add("f4")])
    start, end = StreamOffset(table_id="test", version=3), StreamOffset(table_id="test", version=5)
    stream = started(env)
    assert paths(stream, start, end) == ["f3", "f4"]
    assert versions(env) == [4]


def test_tracking_cannot_begin_in_a_batch_without_a_common_schema() -> None:
    with pytest.raises(SchemaLogStartError, match=r"from version 1 to 3.*column a was renamed"):
        started(a_table()).portions(at(1, -100), StreamOffset(table_id="test", version=4))


def test_another_stream_with_the_same_log_is_noticed() -> None:
    env = a_table()
    one, other = started(env, 3), started(env, 3)
    one.first_end(AdmissionLimit())
    assert other.first_end(AdmissionLimit()) is not None  # the same entry
    third = schema_log(env)
    third.check_source(SOURCE)
    with pytest.raises(SchemaLocationConflictError, match="sources/1"):
        third.check_source("file:/tmp/checkpoint/sources/1")
    current = third.current
    assert current is not None
    fourth = schema_log(env)
    fourth.add(replace(current, version=7))
    with pytest.raises(SchemaLocationConflictError, match="the file 1 exists"):
        third.add(replace(current, version=8))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", SchemaLogUnreadableError),
        (b"v2\n{}", SchemaLogUnreadableError),
        (b"v1\n{", SchemaLogUnreadableError),
        (b"v1\n[]", SchemaLogUnreadableError),
        (b'v1\n{"tableId":"test"}', SchemaLogUnreadableError),
        (
            b'v1\n{"tableId":"x","deltaCommitVersion":0,"dataSchemaJson":"{}","partitionSchemaJson":"{}","sourceMetadataPath":"s"}',
            SchemaLogOtherTableError,
        ),
    ],
)
def test_a_damaged_log_is_refused(content: bytes, error: type[Exception]) -> None:
    env = memory_env()
    folder(env).put("0", content)
    with pytest.raises(error, match="_schema_log_test"):
        schema_log(env)


def test_a_schema_that_cannot_be_parsed_is_refused() -> None:
    text = b'v1\n{"tableId":"test","deltaCommitVersion":0,"dataSchemaJson":"{}","partitionSchemaJson":"{}","sourceMetadataPath":"s"}'
    with pytest.raises(SchemaLogSchemaError):
        assert parse_entry(text, "0").schema


def test_an_entry_is_written_as_the_reference_writes_it() -> None:
    env = memory_env()
    schema = Struct(
        (Field(name="id", type=INTEGER, nullable=False), Field(name="p", type=INTEGER, metadata={"comment": "ü"}))
    )
    metadata = Metadata(
        id="test", schema_string=schema.to_json(), partition_columns=("p",), configuration={"delta.appendOnly": "true"}
    )
    protocol = Protocol(reader_version=1, writer_version=7, writer_features=frozenset({"appendOnly"}))
    put_commit(env, 0, [protocol, metadata, add("f0", partition_values={"p": "1"})])
    started(env).first_end(AdmissionLimit())
    text = folder(env).get("0")
    data = r"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"integer\",\"nullable\":false,\"metadata\":{}},%s]}"
    partition = r"{\"name\":\"p\",\"type\":\"integer\",\"nullable\":true,\"metadata\":{\"comment\":\"ü\"}}"
    assert text.decode() == (
        'v1\n{"tableId":"test","deltaCommitVersion":0,"dataSchemaJson":"' + data % partition + '",'
        r'"partitionSchemaJson":"{\"type\":\"struct\",\"fields\":[' + partition + r']}",'
        '"sourceMetadataPath":"file:/tmp/checkpoint/sources/0","tableConfigurations":{"delta.appendOnly":"true"},'
        r'"protocolJson":"{\"protocol\":{\"minReaderVersion\":1,\"minWriterVersion\":7,\"writerFeatures\":[\"appendOnly\"]}}"}'
    )
    entry = parse_entry(text, "0")
    newest = load_snapshot(Log(env))
    assert (with_tracked(newest, entry).metadata, with_tracked(newest, entry).protocol) == (
        newest.metadata,
        newest.protocol,
    )
    assert entry.to_bytes() == text


# --- acknowledgement

BEFORE = named(a="x", b="y", c="z").schema


@pytest.mark.parametrize(
    ("after", "name", "told", "options", "settings"),
    [
        (named(a="x", b="y", c="z", d="w"), None, "", [], []),
        (named(a="x", b="y", e="z"), "RENAME COLUMN", "column c was renamed to e", ["Rename"], ["Rename"]),
        (named(a="x", b="y"), "DROP COLUMN", "column c was dropped", ["Drop"], ["Drop"]),
        (
            named(a="x", e="z"),
            "RENAME AND DROP COLUMN",
            "column c was renamed to e; column b was dropped",
            ["Rename", "Drop"],
            ["RenameAndDrop"],
        ),
    ],
)
def test_what_is_to_be_acknowledged(
    after: Metadata, name: str | None, told: str, options: Sequence[str], settings: Sequence[str]
) -> None:
    found = changes_between(BEFORE, after.schema, SchemaRules())
    if name is None:
        assert found is None
        return
    assert found is not None
    assert (found.name, found.details()) == (name, told)
    assert found.options == [f"allowSourceColumn{option}" for option in options]
    assert found.settings == [f"allowSourceColumn{setting}" for setting in settings]


@pytest.mark.parametrize(
    ("kind", "rules", "is_asked", "is_refused"),
    [
        (LONG, SchemaRules(), True, False),
        (LONG, SchemaRules(widens=False), False, True),
        (LONG, SchemaRules(ignores_types=True), False, False),
        (STRING, SchemaRules(), False, True),
        (STRING, SchemaRules(ignores_types=True), False, False),
    ],
)
def test_other_types(kind: DataType, rules: SchemaRules, is_asked: bool, is_refused: bool) -> None:
    """Columns are the same if their physical names are, whatever they are called."""
    renamed = named(n="x", b="y", c="z").schema
    after = Struct((replace(renamed.fields[0], type=kind), *renamed.fields[1:]))
    found = changes_between(BEFORE, after, rules)
    assert found is not None
    assert found.name == ("RENAME AND TYPE WIDENING" if is_asked else "RENAME COLUMN")
    assert ("column n was widened from integer to long" in found.details()) == is_asked
    assert (first_retyped(BEFORE, after, rules) is not None) == is_refused


def test_each_way_to_acknowledge() -> None:
    found = changes_between(BEFORE, named(a="x", e="z").schema, SchemaRules())
    assert found is not None
    suffix = checkpoint_suffix(SOURCE)

    def allows(options: dict[str, str] | None = None, **settings: str) -> bool:
        return is_acknowledged(found, 5, suffix, options or {}, settings.get)

    rename, drop, both = "allowSourceColumnRename", "allowSourceColumnDrop", "allowSourceColumnRenameAndDrop"
    assert not allows()
    assert not allows({rename: "always"})
    assert not allows({rename: "4", drop: "4"})
    assert allows({rename: "5", drop: "always"})
    assert allows(**{both: "always"})
    assert not allows(**{both: "5"})  # a version belongs to one stream
    assert allows(**{both + suffix: "5"})
    assert allows({drop: "5"}, **{rename + suffix: "always"})
    assert not allows(**{both + ".ckpt_1": "always"})


def test_the_hash_of_a_checkpoint_is_that_of_java() -> None:
    assert checkpoint_suffix("") == ".ckpt_0"
    assert checkpoint_suffix("abc") == ".ckpt_96354"
    assert checkpoint_suffix("polygenelubricants") == ".ckpt_-2147483648"
    assert checkpoint_suffix("ü😀") == f".ckpt_{(ord('ü') * 31 + 0xD83D) * 31 + 0xDE00}"
