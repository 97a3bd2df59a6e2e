"""Law: every decoder of the log takes any bytes, and answers with a value, with None, or with a DeltaError; nothing
else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tahoe.errors import DeletionVectorError, DeltaError, DuplicateColumnsError, InvalidActionError, InvalidLogFileError
from tahoe.protocol.changes.constraints import constraints_of
from tahoe.protocol.configuration.column_mapping import column_id, physical_schema
from tahoe.protocol.configuration.properties import PROPERTIES
from tahoe.protocol.configuration.row_tracking import high_water_mark
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import (
    DeletionVectorDescriptor,
    DomainMetadata,
    Metadata,
    action_to_json,
    decode_action,
    decode_commit,
    encode_commit,
)
from tahoe.protocol.log.deletion_vector import (
    MAGIC_NATIVE,
    MAGIC_PORTABLE,
    decode_bitmap,
    decode_inline,
    vector_location,
    z85_encode,
)
from tahoe.protocol.log.file_paths import canonical_key, resolve_path
from tahoe.protocol.log.last_checkpoint import parse_last_checkpoint
from tahoe.protocol.log.version_checksum import parse_version_checksum
from tahoe.protocol.statistics.clustering import DOMAIN, clustering_columns
from tahoe.protocol.statistics.stats import num_records_of
from tahoe.protocol.statistics.stats import parse_statistics as parse_text
from tahoe.protocol.types.json_text import DEPTH_MAX, load_json
from tahoe.protocol.types.partitions import parse_partition_value
from tahoe.protocol.types.schema import (
    DATE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    Field,
    Primitive,
    Struct,
    parse_schema,
)
from tahoe.protocol.types.type_widening import check_type_changes
from tahoe.table.arrow.statistics import StatisticsRequest, parse_statistics
from tahoe.table.reading.snapshot import load_snapshot
from tests.table.builders import METADATA, PROTOCOL, make_log, put_commit

TEXT = st.text(max_size=20) | st.sampled_from(
    ["..", "../x", "a/../../x", "%00", "%FF", "\0", "\ud800", "file:///x", "1e99999", "x" * 300]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.integers(-(2**70), 2**70) | st.floats() | TEXT
KEYS = TEXT | st.sampled_from(
    ["type", "fields", "name", "metadata", "elementType", "path", "size", "version", "deletionVector", "add"]
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
NAMES = st.sampled_from(
    [
        "add",
        "remove",
        "metaData",
        "protocol",
        "txn",
        "domainMetadata",
        "cdc",
        "sidecar",
        "checkpointMetadata",
        "commitInfo",
    ]
)

SCHEMA = Struct(
    (
        Field(name="n", type=LONG),
        Field(name="t", type=STRING),
        Field(name="d", type=DATE),
        Field(name="e", type=Decimal(9, 2)),
    )
)
TYPES = [
    LONG,
    STRING,
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal(9, 2),
    *map(Primitive, ("double", "float", "byte", "boolean", "binary")),
]


def raises_only_ours(decode: Callable[[], object]) -> None:
    with suppress(DeltaError):
        decode()


@settings(deadline=None)
@given(st.binary(max_size=80) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_files_of_the_log(data):
    parse_last_checkpoint(data)
    parse_version_checksum(data)
    raises_only_ours(lambda: list(decode_commit(data, table="t", file="f")))
    raises_only_ours(lambda: parse_schema(data.decode("utf-8", "replace")))
    text = data.decode("utf-8", "replace")
    parse_text(text, SCHEMA)
    num_records_of(text)
    parse_statistics(pa.chunked_array([[text, None]]), StatisticsRequest({("n",): LONG, ("d",): DATE, ("t",): STRING}))


@settings(deadline=None)
@given(NAMES, st.dictionaries(KEYS, VALUES, max_size=3), st.data())
def test_actions_are_decoded_to_what_can_be_written_again_or_refused(name, extra, data):
    body = {
        "path": "a",
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
        "id": "x",
        "appId": "a",
        "version": 1,
        "domain": "d",
    }
    body |= {
        "configuration": {} if name == "metaData" else "{}",
        "minReaderVersion": 1,
        "minWriterVersion": 2,
        "sizeInBytes": 1,
    }
    body[
        data.draw(
            st.sampled_from(
                [*body, "partitionValues", "tags", "stats", "deletionVector", "schemaString", "readerFeatures"]
            )
        )
    ] = data.draw(VALUES)
    try:
        actions = list(decode_commit(json.dumps({name: {**body, **extra}}).encode(), table="t", file="f"))
    except InvalidLogFileError:
        return
    for action in actions:
        action_to_json(action)
        if name != "commitInfo":
            assert list(decode_commit(encode_commit([action]), table="t", file="f")) == [action]


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":123456789012345678901234567890,"b":-0,"c":1.0,"d":12345678901234567890,"e":0.1e-400}',
        b'{"a":1e400}',
        b'{"a":NaN,"b":-Infinity}',
        b'{"a":1,"a":2}',
        b'{"a":"\\ud800"}',
        b'{"a":"\xff"}',
        b'{"a":"\x01"}',
        b"5",
        b"{}",
        b'{"a":1}} {"b":2',
        b'{"a":1},"commitInfo":{"b":1}',
        b'{"a":1},"txn":null',
        b'{"a":1},"txn":{"appId":"a","version":1}',
        b'{"a":' * DEPTH_MAX + b"1" + b"}" * DEPTH_MAX,
    ],
)
def test_who_committed_is_what_a_general_reader_of_json_finds(body):
    """Lines of this kind are decoded by a faster reader, which must not know fewer or other values."""
    line = b'{"commitInfo":' + body + b"}"
    try:
        expected = [decode_action(load_json(line))]
    except ValueError:
        with pytest.raises(InvalidLogFileError):
            list(decode_commit(line, table="t", file="f"))
    else:
        assert repr(list(decode_commit(line, table="t", file="f"))) == repr(expected)


@settings(deadline=None)
@given(VALUES)
def test_what_actions_hold_as_json(value):
    text = json.dumps(value)
    column = {
        "name": "c",
        "type": "long",
        "nullable": True,
        "metadata": {"delta.typeChanges": value, "delta.invariants": value},
    }
    column["metadata"] |= {"delta.columnMapping.id": value, "delta.columnMapping.physicalName": value}
    raises_only_ours(lambda: clustering_columns(DomainMetadata(domain=DOMAIN, configuration=text), SCHEMA, "none"))
    raises_only_ours(
        lambda: high_water_mark(DomainMetadata(domain="d", configuration=json.dumps({"rowIdHighWaterMark": value})))
    )
    metadata = Metadata(id="x", schema_string=json.dumps({"type": "struct", "fields": [column]}))
    for ask in (
        lambda: check_type_changes(metadata.schema, table="t"),
        lambda: constraints_of(metadata, table="t"),
        lambda: physical_schema(metadata.schema, "name"),
        lambda: [column_id(field) for field in metadata.schema],
    ):
        raises_only_ours(ask)


@settings(deadline=None)
@given(TEXT | st.from_regex(r"[-+0-9eE:. TZa-z/]{0,30}", fullmatch=True))
def test_texts_of_the_log(text):
    for kind in TYPES:
        raises_only_ours(lambda kind=kind: parse_partition_value(text, kind, zone=UTC))
    for known in PROPERTIES:
        raises_only_ours(lambda known=known: known.read(text))
    log_files.parse_name(text)
    canonical_key(text, "file:///t")


@given(TEXT | st.lists(st.sampled_from(["..", ".", "a", "", "%2e%2e", "%2F..", "b c"]), max_size=6).map("/".join))
def test_a_relative_path_stays_in_the_table_and_is_a_text(path):
    try:
        url = resolve_path(path, "s3://bucket/t")
    except DeltaError:
        return
    url.encode()
    assert ".." not in url.split("/")
    assert path.startswith("/") or ":" in path or url.startswith("s3://bucket/t/")


@given(TEXT, st.binary(min_size=16, max_size=16), st.sampled_from("upiX"))
def test_a_vector_is_in_the_table_or_where_an_absolute_path_says(prefix, uuid, kind):
    vector = DeletionVectorDescriptor(
        storage_type=kind, path_or_inline=prefix + z85_encode(uuid), size_bytes=10, cardinality=1
    )
    try:
        location = vector_location(vector, "s3://bucket/t")
    except DeletionVectorError:
        return
    if kind == "u":
        assert location is not None
        assert location[0].startswith("s3://bucket/t/")
        assert ".." not in location[0].split("/")


@pytest.mark.parametrize("prefix", ["..", "../..", "a/../..", "/", "a//b", "."])
def test_a_vector_with_a_prefix_that_leads_out_is_refused(prefix):
    vector = DeletionVectorDescriptor(
        storage_type="u", path_or_inline=prefix + z85_encode(bytes(16)), size_bytes=1, cardinality=1
    )
    with pytest.raises(DeletionVectorError, match="prefix"):
        vector_location(vector, "file:///t")


@settings(deadline=None)
@given(
    st.binary(max_size=60),
    st.sampled_from([MAGIC_NATIVE, MAGIC_PORTABLE]),
    st.sampled_from(["little", "big"]),
    st.integers(0, 2**63 - 1),
)
def test_bitmaps_say_what_they_like_of_their_size(data, magic, order, cardinality):
    content = magic.to_bytes(4, order) + data
    with suppress(ValueError):
        decode_bitmap(content)
    vector = DeletionVectorDescriptor(
        storage_type="i", path_or_inline=z85_encode(content), size_bytes=len(content), cardinality=cardinality
    )
    raises_only_ours(lambda: decode_inline(vector, table="t", file="f"))


# --- depth


@pytest.mark.parametrize("depth", [DEPTH_MAX - 5, DEPTH_MAX + 5, 990, 100_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_json_of_any_depth(opening, depth):
    closing = "]" if opening == "[" else "}"
    text = opening * depth + "1" + closing * depth
    assert parse_last_checkpoint(b'{"version":1,"x":' + text.encode() + b"}") is None or depth < DEPTH_MAX
    assert parse_version_checksum(text.encode()) is None
    assert parse_text('{"numRecords":1,"x":' + text + "}", SCHEMA) is None or depth < DEPTH_MAX
    raises_only_ours(lambda: list(decode_commit(b'{"add":' + text.encode() + b"}", table="t", file="f")))
    statistics = parse_statistics(pa.chunked_array([['{"numRecords":1,"x":' + text + "}"]]), StatisticsRequest({}))
    assert statistics.num_rows == 1


def _nested(levels: int, wrap: Callable[[object], object]) -> str:
    value: object = "long"
    for _ in range(levels):
        value = wrap(value)
    return json.dumps({"type": "struct", "fields": [{"name": "c", "type": value, "nullable": True, "metadata": {}}]})


WRAPS: list[Callable[[object], object]] = [
    lambda inner: {"type": "array", "elementType": inner, "containsNull": True},
    lambda inner: {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": True},
    lambda inner: {"type": "struct", "fields": [{"name": "f", "type": inner, "nullable": True, "metadata": {}}]},
]


@pytest.mark.parametrize(("wrap", "too_many"), zip(WRAPS, (310, 310, 105), strict=True))
def test_a_schema_is_as_deep_as_it_can_be_walked_or_refused(wrap, too_many):
    deepest = parse_schema(_nested(95, wrap))
    assert parse_schema(deepest.to_json()) == deepest
    assert str(physical_schema(deepest, "name"))
    check_type_changes(deepest, table="t")
    with pytest.raises(InvalidActionError, match="levels"):
        parse_schema(_nested(too_many, wrap))


@pytest.mark.parametrize(
    "schema",
    [
        "{}",
        "[]",
        "5",
        "null",
        '{"type":"struct"}',
        '{"type":"struct","fields":{}}',
        '{"type":"struct","fields":[5]}',
        "{",
        "",
    ],
)
def test_a_schema_that_is_none_is_an_error_of_the_log(schema):
    with pytest.raises(InvalidActionError, match="schema is invalid"):
        _ = Metadata(id=METADATA.id, schema_string=schema).schema


def test_a_field_that_is_there_twice_is_an_error_of_the_log():
    field = {"name": "c", "type": "long", "nullable": True, "metadata": {}}
    log = make_log([])
    put_commit(
        log.env, 0, [PROTOCOL, METADATA.replace(schema_string=json.dumps({"type": "struct", "fields": [field, field]}))]
    )
    with pytest.raises(DuplicateColumnsError, match="duplicate columns: c;"):
        load_snapshot(log)
