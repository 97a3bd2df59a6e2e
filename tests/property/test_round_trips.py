"""Law 4: decode after encode is identity. What we write is what we, and others, read."""

import json
from datetime import UTC, date, datetime
from decimal import Context
from decimal import Decimal as PyDecimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import (
    Add,
    Cdc,
    CheckpointMetadata,
    CommitInfo,
    DeletionVectorDescriptor,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Remove,
    Sidecar,
    Txn,
    decode_action,
    decode_commit,
    encode_action,
    encode_commit,
)
from tahoe.protocol.log.deletion_vector import decode_inline, inline_descriptor, z85_decode, z85_encode
from tahoe.protocol.log.file_paths import canonical_key, decode_path, encode_path, resolve_path
from tahoe.protocol.statistics.stats import (
    Statistics,
    claimed_statistics,
    encode_statistics,
    has_bounds,
    parse_statistics,
)
from tahoe.protocol.types.partitions import format_partition_value, parse_partition_value, single_precision
from tahoe.protocol.types.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    PRIMITIVE_NAMES,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    parse_schema,
)

# Surrogates are no characters and cannot be in UTF-8.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = TEXTS.filter(bool)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
COUNTS = st.integers(0, (1 << 63) - 1)
SMALL_COUNTS = st.integers(0, (1 << 31) - 1)
JSON = st.recursive(
    st.none() | st.booleans() | LONGS | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
)


# --- actions

TEXT_MAPS = st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3)
VECTORS = st.builds(
    DeletionVectorDescriptor,
    storage_type=st.sampled_from("uip"),
    path_or_inline=TEXTS,
    size_bytes=SMALL_COUNTS,
    cardinality=COUNTS,
    offset=st.none() | SMALL_COUNTS,
)
FEATURES = st.none() | st.frozensets(NAMES, max_size=3)
FILE_FIELDS = {
    "path": TEXTS,
    "size_bytes": COUNTS,
    "data_change": st.booleans(),
    "tags": st.none() | TEXT_MAPS,
    "stats": st.none() | TEXTS,
    "deletion_vector": st.none() | VECTORS,
    "base_row_id": st.none() | COUNTS,
    "default_row_commit_version": st.none() | COUNTS,
}
ACTIONS = st.one_of(
    st.builds(
        Add,
        **FILE_FIELDS,
        partition_values=TEXT_MAPS,
        modification_time_ms=LONGS,
        clustering_provider=st.none() | TEXTS,
    ),
    st.builds(
        Remove,
        **FILE_FIELDS,
        partition_values=st.none() | TEXT_MAPS,
        deletion_timestamp_ms=st.none() | LONGS,
        extended_file_metadata=st.none() | st.booleans(),
    ),
    st.builds(Cdc, path=TEXTS, partition_values=TEXT_MAPS, size_bytes=COUNTS, tags=st.none() | TEXT_MAPS),
    st.builds(Txn, app_id=TEXTS, version=LONGS, last_updated_ms=st.none() | LONGS),
    st.builds(DomainMetadata, domain=TEXTS, configuration=TEXTS, removed=st.booleans()),
    st.builds(Sidecar, path=TEXTS, size_bytes=COUNTS, modification_time_ms=LONGS, tags=st.none() | TEXT_MAPS),
    st.builds(CheckpointMetadata, version=COUNTS, tags=st.none() | TEXT_MAPS),
    st.builds(
        Protocol,
        reader_version=st.integers(1, 9),
        writer_version=st.integers(1, 9),
        reader_features=FEATURES,
        writer_features=FEATURES,
    ),
    st.builds(
        Metadata,
        id=TEXTS,
        schema_string=TEXTS,
        partition_columns=st.lists(TEXTS, max_size=2).map(tuple),
        configuration=st.dictionaries(TEXTS, TEXTS, max_size=2),
        name=st.none() | TEXTS,
        description=st.none() | TEXTS,
        created_time_ms=st.none() | LONGS,
        format=st.builds(Format, options=st.dictionaries(TEXTS, TEXTS, max_size=2)),
    ),
    st.dictionaries(TEXTS, JSON, max_size=4).map(CommitInfo),
)


@given(action=ACTIONS)
def test_actions(action):
    assert decode_action(json.loads(encode_action(action))) == action


@given(actions=st.lists(ACTIONS, max_size=4))
def test_commits(actions):
    assert list(decode_commit(encode_commit(actions), table="t", file="f")) == actions


# --- schemas


def fields(types):
    return st.builds(
        Field, name=TEXTS, type=types, nullable=st.booleans(), metadata=st.dictionaries(TEXTS, JSON, max_size=2)
    )


TYPES = st.recursive(
    st.sampled_from(sorted(PRIMITIVE_NAMES)).map(Primitive)
    | st.integers(1, 38).flatmap(
        lambda precision: st.integers(0, precision).map(lambda scale: Decimal(precision, scale))
    ),
    lambda inner: st.one_of(
        st.builds(Array, element=inner, contains_null=st.booleans()),
        st.builds(Map, key=inner, value=inner, value_contains_null=st.booleans()),
        st.lists(fields(inner), max_size=3).map(lambda found: Struct(tuple(found))),
    ),
    max_leaves=6,
)


@given(schema=st.lists(fields(TYPES), max_size=4).map(lambda found: Struct(tuple(found))))
def test_schemas(schema):
    assert parse_schema(schema.to_json()) == schema


# --- values

FLOATS = st.floats(allow_nan=False)
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))


def quantized(data_type):
    limit = 10**data_type.precision - 1
    return st.integers(-limit, limit).map(lambda digits: PyDecimal(digits).scaleb(-data_type.scale, Context(prec=40)))


VALUES = {
    STRING: NAMES,
    LONG: LONGS,
    INTEGER: st.integers(-(1 << 31), (1 << 31) - 1),
    SHORT: st.integers(-(1 << 15), (1 << 15) - 1),
    BYTE: st.integers(-128, 127),
    FLOAT: FLOATS.map(single_precision),
    DOUBLE: FLOATS,
    BOOLEAN: st.booleans(),
    BINARY: NAMES.map(str.encode),
    # Beyond Python's calendar, days and microseconds stand for themselves.
    DATE: st.dates() | st.integers(2_932_897, (1 << 31) - 1) | st.integers(-(1 << 31), -719_163),
    TIMESTAMP: MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))
    | st.integers(253_402_300_800_000_000, (1 << 63) - 1),
    TIMESTAMP_NTZ: MOMENTS | st.integers(-(1 << 63), -62_135_596_800_000_001),
    Decimal(38, 0): quantized(Decimal(38, 0)),
    Decimal(38, 38): quantized(Decimal(38, 38)),
    Decimal(9, 2): quantized(Decimal(9, 2)),
}


@pytest.mark.parametrize("data_type", VALUES, ids=str)
@given(data=st.data())
def test_partition_values(data_type, data):
    value = data.draw(VALUES[data_type])
    found = parse_partition_value(format_partition_value(value, data_type), data_type)
    assert (found, type(found)) == (value, type(value))


SEGMENTS = NAMES.filter(lambda segment: not {"/", "\0"} & set(segment) and segment not in (".", ".."))


@given(segments=st.lists(SEGMENTS, min_size=1, max_size=3))
def test_paths(segments):
    path = "/".join(segments)
    uri = encode_path(path)
    assert decode_path(uri) == path
    assert resolve_path(uri, "s3://b/t") == f"s3://b/t/{path}"
    assert canonical_key(uri, "s3://b/t") == canonical_key(f"s3://b/t/{uri}", "s3://b/t") == path
    assert all(character not in uri for character in ' "#<>?[]\\^`{|}\n')


# --- statistics

COLUMNS = Struct(
    (
        *(Field(name=f"{number} {data_type}", type=data_type) for number, data_type in enumerate(VALUES)),
        Field(name='n"', type=Struct((Field(name="in.side", type=LONG), Field(name="", type=STRING)))),
    )
)


def in_milliseconds(value):
    return (
        value.replace(microsecond=value.microsecond // 1000 * 1000)
        if isinstance(value, datetime)
        else value // 1000 * 1000
    )


def bounds_of(data_type):
    """What survives as a bound: finite numbers, short texts, whole milliseconds."""
    values = VALUES[data_type]
    if data_type in (FLOAT, DOUBLE):
        return st.floats(-1024, 1024, width=32)
    return values.map(in_milliseconds) if data_type in (TIMESTAMP, TIMESTAMP_NTZ) else values


BOUNDS = st.fixed_dictionaries(
    {}, optional={path: bounds_of(column.type) for path, column in COLUMNS.leaves() if has_bounds(column.type)}
)


@given(
    statistics=st.builds(
        Statistics,
        num_records=st.none() | COUNTS,
        tight_bounds=st.booleans(),
        min_values=BOUNDS,
        max_values=BOUNDS,
        null_count=st.fixed_dictionaries({}, optional={path: COUNTS for path, _ in COLUMNS.leaves()}),
    )
)
def test_statistics(statistics):
    """As they are claimed: readers leave out what cannot be true."""
    assert claimed_statistics(encode_statistics(statistics, COLUMNS), COLUMNS) == statistics


@pytest.mark.parametrize("data_type", [FLOAT, DOUBLE], ids=str)
@given(data=st.data())
def test_statistics_of_every_finite_float(data_type, data):
    schema = Struct((Field(name="x", type=data_type),))
    value = data.draw(VALUES[data_type].filter(lambda number: abs(number) != float("inf")))
    statistics = Statistics(min_values={("x",): value})
    assert parse_statistics(encode_statistics(statistics, schema), schema) == statistics


@given(day=st.dates())
def test_dates_of_statistics(day):
    schema = Struct((Field(name="d", type=DATE),))
    statistics = Statistics(max_values={("d",): day})
    assert isinstance(day, date)
    assert parse_statistics(encode_statistics(statistics, schema), schema) == statistics


# --- vectors and names


@given(rows=st.frozensets(st.integers(0, 1 << 40), max_size=40))
def test_inline_vectors(rows):
    assert set(decode_inline(inline_descriptor(rows), table="t", file="f")) == rows


@given(data=st.binary(max_size=40).filter(lambda data: len(data) % 4 == 0))
def test_z85(data):
    assert z85_decode(z85_encode(data)) == data


VERSIONS = st.integers(0, log_files.VERSION_MAX)


@given(
    version=VERSIONS,
    end=VERSIONS,
    part=st.integers(1, 10**10 - 1),
    parts=st.integers(1, 10**10 - 1),
    uuid=st.uuids(),
    json_form=st.booleans(),
)
def test_log_file_names(version, end, part, parts, uuid, json_form):
    kinds = log_files.Kind
    names = {
        log_files.commit_name(version): (kinds.COMMIT, version, 1, 1),
        log_files.checksum_name(version): (kinds.CHECKSUM, version, 1, 1),
        log_files.classic_checkpoint_name(version): (kinds.CLASSIC_CHECKPOINT, version, 1, 1),
        log_files.multi_part_checkpoint_name(version, part, parts): (kinds.MULTI_PART_CHECKPOINT, version, part, parts),
        log_files.uuid_checkpoint_name(version, str(uuid), "json" if json_form else "parquet"): (
            kinds.UUID_CHECKPOINT,
            version,
            1,
            1,
        ),
        log_files.compacted_name(version, end): (kinds.COMPACTED, end, 1, 1),
    }
    for name, (kind, last, number, count) in names.items():
        found = log_files.parse_name(name)
        assert found is not None
        assert (found.kind, found.version, found.end_version, found.part, found.parts) == (
            kind,
            version,
            last,
            number,
            count,
        )


class _Text(str):
    pass


class _Number(int):
    pass


def test_values_of_subclasses_are_encoded_as_what_they_are():
    """NumPy's strings and enums of strings are such classes."""
    add = Add(path=_Text("p"), partition_values={_Text("a"): _Text("")}, size_bytes=_Number(1), modification_time_ms=2)
    assert list(decode_commit(encode_commit([add]), table="t", file="f")) == [add]
    assert '"a":""' in encode_action(add).decode()
    with pytest.raises(TypeError, match="no place in an action"):
        encode_action(Add(path="p", size_bytes=object(), modification_time_ms=2))
