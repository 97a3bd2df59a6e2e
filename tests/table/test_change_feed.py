"""The change feed of a table: its rows, its range, its schema."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal as PyDecimal
from itertools import combinations_with_replacement

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import (
    ChangeBoundaryTwiceError,
    ChangesNotRecordedError,
    ChangeStartMissingError,
    ChangeStartTooLateError,
    ColumnNotFoundError,
    DataFileMissingError,
    IncompatibleChangeDataError,
    IncompatibleChangesError,
    InvalidChangeRangeError,
    InvalidCommitError,
    InvalidPropertyError,
    TimestampOutOfRangeError,
    UnsupportedOperationError,
    VersionNotFoundError,
)
from tahoe.protocol.changes.column_changes import ColumnChange
from tahoe.protocol.log.actions import CommitInfo, Remove
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.types.schema import (
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP_NTZ,
    Decimal,
    Field,
    Struct,
    walk_fields,
)
from tahoe.storage.memory import MemoryStore, Operation
from tahoe.table.arrow.types import arrow_type
from tahoe.table.versions.change_feed import AskedRange, load_feed, plan_feed
from tests.table.builders import memory_env
from tests.table.feeds import Fed, gone, metadata

ID, NAME, PART = Field(name="id", type=LONG), Field(name="name", type=STRING), Field(name="part", type=INTEGER)
SCHEMA = Struct((ID, NAME))


def fed(schema=SCHEMA, **given) -> Fed:
    return Fed(memory_env(), metadata(schema, **given))


def rows(table: tahoe.Table, columns=("id", "_change_type", "_commit_version"), **asked):
    asked = {"start_version": 0, **asked}
    return sorted(tuple(row.values()) for row in table.changes(columns=list(columns), **asked).to_pylist())


def people(*ids):
    return {"id": list(ids), "name": [f"n{i}" for i in ids]}


# --- rows


_IMAGES = {**people(1, 1), "_change_type": ["update_preimage", "update_postimage"]}
_TIGHT = '{"numRecords":2,"tightBounds":true,"minValues":{"id":2},"maxValues":{"id":2},"nullCount":{"id":0}}'
# A file's ids, those that its vector marks, the commit behind the one that adds it, and what the feed tells of it.
COMMITS = {
    "files come and go": (
        [1, 2],
        [],
        lambda f, file: (gone(file), f.add("two", people(3))),
        [(1, "delete", 2), (2, "delete", 2), (3, "insert", 2)],
    ),
    "a file with a vector has the rows that it leaves": (
        [0, 1, 2],
        [1],
        lambda f, file: (gone(file),),
        [(0, "delete", 2), (2, "delete", 2)],
    ),
    "a vector that marks nothing new": (
        [0, 1],
        [1],
        lambda f, file: (gone(file), file.replace(deletion_vector=file.deletion_vector.replace(offset=0))),
        [],
    ),
    "change data files tell all of their version": (
        [1, 2],
        [],
        lambda f, file: (gone(file), f.add("new", people(1, 2)), f.cdc("_change_data/c", _IMAGES)),
        [(1, "update_postimage", 2), (1, "update_preimage", 2)],
    ),
    "a commit that only rearranges": (
        [0],
        [],
        lambda f, file: (gone(file, data_change=False), f.add("g", people(0)).replace(data_change=False)),
        [],
    ),
    "statistics of the rows that are left say nothing of those that went": (
        [1, 2],
        [],
        lambda f, file: (gone(file), file.replace(deletion_vector=inline_descriptor([0]), stats=_TIGHT)),
        [(1, "delete", 2)],
    ),
}


@pytest.mark.parametrize(("ids", "marked", "then", "told"), COMMITS.values(), ids=COMMITS)
def test_what_a_commit_has_changed(ids, marked, then, told):
    f = fed()
    file = f.add("f", people(*ids), vector=marked or None)
    f.commit(file)
    f.commit(*then(f, file))
    assert rows(f.table, end_version=1) == [(i, "insert", 1) for i in ids if i not in marked]
    assert rows(f.table, start_version=2) == told
    for i in range(4):
        assert rows(f.table, start_version=2, filter=f"id = {i}") == [row for row in told if row[0] == i]


def test_the_columns_of_a_feed_come_behind_the_tables_in_the_order_of_versions():
    f = fed()
    for i in range(3):
        f.commit(f.add(f"f{i}", people(i)))
    found = f.table.changes(start_version=1)
    assert found.schema.names == ["id", "name", "_change_type", "_commit_version", "_commit_timestamp"]
    assert [str(kind) for kind in found.schema.types[2:]] == ["string", "int64", "timestamp[us, tz=UTC]"]
    assert found["_commit_version"].to_pylist() == [1, 2, 3]


def test_vectors_are_compared():
    f = fed()
    file = f.add("f", people(0, 1, 2, 3, 4))
    f.commit(file)
    one, two = (
        file.replace(deletion_vector=inline_descriptor([1])),
        file.replace(deletion_vector=inline_descriptor([1, 3])),
    )
    f.commit(gone(file), one)
    f.commit(gone(one), two)
    f.commit(gone(two), one)  # RESTORE
    f.commit(gone(one), file)
    changed = [(1, "delete", 2), (1, "insert", 5), (3, "delete", 3), (3, "insert", 4)]
    assert rows(f.table, start_version=2) == changed
    assert rows(f.table, start_version=3, end_version=4) == changed[2:]


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_partitions_and_column_mapping(mode):
    f = fed(Struct((ID, NAME, PART)), by=["part"], mode=mode)
    file = f.add("part=1/f", people(0, 1, 2), part="1")
    f.commit(file)
    f.commit(gone(file), file.replace(deletion_vector=inline_descriptor([0])))
    f.commit(f.cdc("_change_data/part=2/c", {**people(7), "_change_type": ["update_postimage"]}, part="2"))
    f.commit(f.add("part=__HIVE_DEFAULT_PARTITION__/a b", people(9), part=None))
    columns = ("id", "name", "part", "_change_type", "_commit_version")
    assert rows(f.table, columns, start_version=2) == [
        (0, "n0", 1, "delete", 2),
        (7, "n7", 2, "update_postimage", 3),
        (9, "n9", None, "insert", 4),
    ]
    assert rows(f.table, filter="part = 2") == [(7, "update_postimage", 3)]


def test_a_bare_tombstone_is_completed_from_the_version_before():
    f = fed(Struct((ID, PART)), by=["part"])
    f.commit(f.add("part=3/f", {"id": [1]}, part="3"), f.add("part=4/g", {"id": [2]}, part="4"))
    f.commit(Remove(path="part=3/f"))
    assert rows(f.table, ("id", "part", "_change_type"), start_version=2) == [(1, 3, "delete")]
    f.commit(Remove(path="nowhere"))
    with pytest.raises(InvalidCommitError, match=r"00000000000000000003\.json.*removes nowhere"):
        rows(f.table, start_version=3)


def test_a_data_file_may_hold_the_change_type_itself():
    """The protocol lets a file be data and change data at once; readers of data disregard the column."""
    f = fed()
    file = f.add("f", {**people(1), "_change_type": ["update_postimage"]})
    f.commit(file)
    assert rows(f.table) == [(1, "insert", 1)]
    assert f.table.to_arrow().column_names == ["id", "name"]


def test_a_file_that_was_cleaned_up_is_named():
    f = fed()
    file = f.add("f", people(1))
    f.commit(file)
    f.commit(gone(file))
    f.env.store.delete("f")
    with pytest.raises(DataFileMissingError, match="the data file f "):
        rows(f.table)


# --- filters


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("_commit_version = 2", [(1, "delete", 2), (5, "insert", 2)]),
        ("_change_type = 'delete'", [(1, "delete", 2)]),
        ("_change_type like 'update%'", [(9, "update_preimage", 3)]),
        ("_change_type != 'insert' and _commit_version > 2", [(9, "update_preimage", 3)]),
        ("id >= 5 and _commit_version < 3", [(5, "insert", 2)]),
        ("id = 9 or _change_type = 'delete'", [(1, "delete", 2), (9, "update_preimage", 3)]),
    ],
)
def test_filters_on_every_column(condition, kept):
    f = fed()
    file = f.add("f", people(0, 1))
    f.commit(file)
    f.commit(gone(file), file.replace(deletion_vector=inline_descriptor([1])), f.add("g", people(5)))
    f.commit(f.cdc("_change_data/c", {**people(9), "_change_type": ["update_preimage"]}))
    assert rows(f.table, start_version=2, filter=condition) == kept


def test_statistics_leave_files_out():
    f = fed()
    stats = '{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":1},"nullCount":{"id":0}}'
    f.commit(f.add("f", people(1)).replace(stats=stats), f.add("g", people(7)))
    store = f.env.store
    assert isinstance(store, MemoryStore)
    before = store.calls[Operation.OPEN] + store.calls[Operation.GET_RANGE]
    store.delete("f")
    assert rows(f.table, filter="id = 7") == [(7, "insert", 1)]
    assert store.calls[Operation.OPEN] + store.calls[Operation.GET_RANGE] > before


def test_unknown_columns_are_named():
    f = fed()
    with pytest.raises(ColumnNotFoundError, match=r"nosuch .*_commit_timestamp"):
        f.table.changes(start_version=0, columns=["nosuch"])


# --- ranges


@pytest.fixture
def five() -> Fed:
    """Versions 1 to 4 insert their number."""
    f = fed()
    for i in range(1, 5):
        f.commit(f.add(f"f{i}", people(i)))
    return f


def times(f: Fed) -> list[datetime]:
    return [row["timestamp"] for row in reversed(f.table.history())]


def versions(f: Fed, **asked) -> list[int]:
    return f.table.changes(**asked)["_commit_version"].to_pylist()


def test_a_range_includes_both_ends_and_ends_at_the_newest(five):
    assert versions(five, start_version=2, end_version=3) == [2, 3]
    assert versions(five, start_version=3) == [3, 4]
    assert versions(five, start_version=3, end_version=99) == [3, 4]


def test_times(five):
    at = times(five)
    assert versions(five, start_timestamp=at[2], end_timestamp=at[3]) == [2, 3]
    between = datetime.fromtimestamp(at[2].timestamp() + 0.001, UTC)
    assert versions(five, start_timestamp=between, end_timestamp=at[4].isoformat()) == [3, 4]
    assert versions(five, start_timestamp="1999-01-01", end_version=1) == [1]
    assert versions(five, start_version=2, end_timestamp=between) == [2]
    assert five.table.changes(start_version=3)["_commit_timestamp"].to_pylist() == at[3:]


def test_times_between_the_same_commits_are_an_empty_range(five):
    at = times(five)[2].timestamp()
    early, late = (datetime.fromtimestamp(at + seconds, UTC) for seconds in (0.001, 0.002))
    assert versions(five, start_timestamp=early, end_timestamp=late) == []
    with pytest.raises(InvalidChangeRangeError, match="the end is before the start"):
        versions(five, start_timestamp=late, end_timestamp=early)


def test_ranges_that_make_no_sense(five):
    with pytest.raises(ChangeStartMissingError):
        versions(five)
    with pytest.raises(ChangeStartMissingError):
        versions(five, end_version=3)
    with pytest.raises(ChangeBoundaryTwiceError, match="starting"):
        versions(five, start_version=1, start_timestamp="2020-01-01")
    with pytest.raises(ChangeBoundaryTwiceError, match="ending"):
        versions(five, start_version=1, end_version=1, end_timestamp="2020-01-01")
    with pytest.raises(InvalidChangeRangeError, match="from version 3 to version 2"):
        versions(five, start_version=3, end_version=2)
    with pytest.raises(ChangeStartTooLateError, match="from version 5, but the latest version is 4"):
        versions(five, start_version=5)
    with pytest.raises(VersionNotFoundError):
        versions(five, start_version=-1)
    with pytest.raises(TimestampOutOfRangeError):
        versions(five, start_timestamp="2999-01-01")
    with pytest.raises(TimestampOutOfRangeError):
        versions(five, start_version=0, end_timestamp="2999-01-01")
    with pytest.raises(TimestampOutOfRangeError):
        versions(five, start_version=0, end_timestamp="1999-01-01")


def test_what_is_out_of_range_may_be_clipped(five):
    def clipped(**asked):
        return (
            plan_feed(five.table.snapshot(), AskedRange(**asked), clip=True).to_arrow()["_commit_version"].to_pylist()
        )

    assert clipped(start_version=5) == []
    assert clipped(start_timestamp="2999-01-01") == []
    assert clipped(start_version=3, end_timestamp="2999-01-01") == [3, 4]


def test_in_commit_timestamps_are_the_commits_times():
    f = fed(enableInCommitTimestamps="true")
    f.commit(CommitInfo({"inCommitTimestamp": 1_600_000_000_123}), f.add("f", people(1)))
    (found,) = f.table.changes(start_version=1)["_commit_timestamp"].to_pylist()
    assert found == datetime.fromtimestamp(1_600_000_000.123, UTC)


def test_versions_that_were_cleaned_up(five):
    five.table.create_checkpoint()
    for version in range(3):
        five.env.store.delete(f"_delta_log/{version:020d}.json")
    with pytest.raises(VersionNotFoundError, match="only version 4 is available"):
        versions(five, start_version=1)
    with pytest.raises(VersionNotFoundError):
        versions(five, start_version=3)
    assert versions(five, start_version=4) == [4]


def test_a_checkpoint_whose_own_commit_is_gone_tells_no_changes(five):
    five.table.create_checkpoint()
    five.commit(five.add("f5", people(5)))
    for version in range(5):
        five.env.store.delete(f"_delta_log/{version:020d}.json")
    with pytest.raises(VersionNotFoundError, match=r"Version 4 .* only version 5"):
        versions(five, start_version=4)


def test_a_feed_is_the_same_when_it_is_loaded_again(five):
    newest = five.table.snapshot()
    planned = plan_feed(newest, AskedRange(start_version=2, end_version=3))
    assert load_feed(newest, planned.range).to_arrow().equals(planned.to_arrow())
    empty = plan_feed(newest, AskedRange(start_version=9), clip=True)
    assert load_feed(newest, empty.range).to_arrow().num_rows == 0


# --- whether the feed was on


def test_changes_from_before_the_feed_was_enabled_are_refused():
    f = fed(enableChangeDataFeed="false")
    f.commit(f.add("f", people(1)))
    f.commit(metadata(SCHEMA))
    f.commit(f.add("g", people(2)))
    with pytest.raises(
        ChangesNotRecordedError, match=r"at version 1.*ALTER TABLE delta\.`memory:.*enableChangeDataFeed = true"
    ):
        rows(f.table, start_version=1)
    assert rows(f.table, start_version=2) == [(2, "insert", 3)]


def test_a_time_without_the_feed_in_the_range_is_refused():
    f = fed()
    f.commit(f.add("f", people(1)))
    f.commit(metadata(SCHEMA, enableChangeDataFeed="false"))
    f.commit(metadata(SCHEMA))
    with pytest.raises(ChangesNotRecordedError, match=r"from version 0 to 3 .* at version 2"):
        rows(f.table)
    assert rows(f.table, end_version=1) == [(1, "insert", 1)]


def test_reserved_columns_are_refused():
    f = fed(Struct((ID, Field(name="_commit_version", type=LONG))))
    with pytest.raises(UnsupportedOperationError, match="the table itself has a column _commit_version"):
        rows(f.table)


def test_a_column_that_files_have_under_a_reserved_name_stops_the_feed():
    env = memory_env()
    table = tahoe.Table(env.store.url, env=env)
    table.append(pa.table({"id": [1], "_change_type": ["a"]}))
    with table.transaction() as changes:
        changes.set_properties({"delta.columnMapping.mode": "name"})
        changes.rename_column("_change_type", "kind")
    with pytest.raises(InvalidPropertyError, match="of its own named kind"), table.transaction() as changes:
        changes.set_properties({"delta.enableChangeDataFeed": "true"})


# --- schemas


def test_a_feed_without_column_mapping_has_the_newest_schema():
    f = fed(Struct((ID,)))
    f.commit(f.add("f", {"id": [1]}))
    f.commit(metadata(SCHEMA), f.add("g", people(2)))
    assert rows(f.table, ("id", "name"), end_version=1) == [(1, None)]
    assert rows(f.table, ("id", "name"), start_version=2) == [(2, "n2")]


def test_a_schema_that_does_not_fit_is_told_with_its_version():
    f = fed()
    file = f.add("f", people(1))
    f.commit(file)
    f.commit(metadata(Struct((NAME,))), gone(file), f.add("g", {"name": ["x"]}))
    with pytest.raises(
        IncompatibleChangeDataError, match=r"schema of version 2: version 1 is incompatible because of its column id"
    ):
        rows(f.table, ("name",), start_version=1)
    assert rows(f.table, ("name", "_change_type"), start_version=2) == [("n1", "delete"), ("x", "insert")]


def renamed(f: Fed) -> None:
    fields = [replace(field, name="first") if field.name == "name" else field for field in f.metadata.schema]
    f.commit(f.metadata.replace(schema_string=Struct(tuple(fields)).to_json()))


def test_a_feed_with_column_mapping_has_the_schema_of_its_end():
    f = fed(mode="name")
    f.commit(f.add("f", people(1)))
    renamed(f)
    f.commit(f.add("g", {"id": [2], "first": ["n2"]}))
    assert rows(f.table, ("id", "name"), end_version=1) == [(1, "n1")]
    assert rows(f.table, ("id", "first"), start_version=2) == [(2, "n2")]
    with pytest.raises(IncompatibleChangeDataError, match="its column name"):
        rows(f.table)
    with pytest.raises(IncompatibleChangeDataError):
        plan_feed(f.table.snapshot(), AskedRange(start_version=0, end_version=1), mode="latest")


def test_a_schema_that_only_the_middle_of_the_range_has_is_seen():
    f = fed(mode="name")
    before = f.metadata
    renamed(f)
    f.commit(before)
    with pytest.raises(IncompatibleChangesError, match="version 1 is incompatible because of its column first"):
        rows(f.table)


def test_to_arrow_of_an_empty_feed_has_the_columns():
    f = fed()
    assert f.table.changes(start_version=0).schema.field("_commit_timestamp").type == pa.timestamp("us", "UTC")


WIDER = [  # a type, a value of it, a wider type, and a value that only that has
    (INTEGER, 1, LONG, 1 << 40),
    (FLOAT, 0.5, DOUBLE, 0.1),
    (DATE, date(2024, 1, 31), TIMESTAMP_NTZ, datetime(2024, 1, 31, 12)),
    (Decimal(3, 1), PyDecimal("1.5"), Decimal(5, 2), PyDecimal("123.45")),
]


def moved_to(value, kind):
    """A value as the wider type has it."""
    return datetime.combine(value, datetime.min.time()) if kind == TIMESTAMP_NTZ and type(value) is date else value


@pytest.mark.parametrize(("narrow", "small", "wide", "large"), WIDER, ids=[str(case[2]) for case in WIDER])
@pytest.mark.parametrize("by", [[], ["p"]], ids=["plain", "partitioned"])
def test_a_feed_has_the_widest_type_of_its_rows(by, narrow, small, wide, large) -> None:
    """A change of the type, or a RESTORE that undoes it, ends the feed, although the wider type holds the rows on both
    sides.
    """
    schema = Struct((Field(name="p", type=narrow), Field(name="s", type=Struct((Field(name="x", type=narrow),)))))
    table = tahoe.Table("memory://narrowed", env=memory_env())
    table.create(
        schema, partition_by=by, properties={"delta.enableChangeDataFeed": "true", "delta.enableTypeWidening": "true"}
    )

    def append(value, kind):
        table.append(
            pa.table(
                {
                    "p": pa.array([value], arrow_type(kind)),
                    "s": pa.array([{"x": value}], arrow_type(schema.fields[1].type)),
                }
            )
        )

    append(small, narrow)
    with table.transaction() as changes:
        changes.alter_columns([ColumnChange(path=("p",), type=wide), ColumnChange(path=("s", "x"), type=wide)])
    schema = table.snapshot().schema
    append(large, wide)
    table.restore(1)
    schema = table.snapshot().schema
    append(small, narrow)
    happened = {1: (small, "insert"), 3: (large, "insert"), 4: (large, "delete"), 5: (small, "insert")}
    for start, end in combinations_with_replacement(range(6), 2):
        kind = wide if start <= 4 and end >= 2 else narrow
        feed = table.changes(start_version=start, end_version=end)
        expected = [
            (moved_to(value, kind), {"x": moved_to(value, kind)}, change)
            for v, (value, change) in happened.items()
            if start <= v <= end
        ]
        assert feed.schema.field("p").type == arrow_type(kind), (start, end)
        assert list(zip(*(feed[name].to_pylist() for name in ("p", "s", "_change_type")), strict=True)) == expected, (
            start,
            end,
        )
    assert table.to_arrow()["p"].to_pylist() == [small, small]


def test_types_of_which_none_is_wider_end_a_feed() -> None:
    """A RESTORE, and then another wider type: neither holds the rows of the other."""
    table = tahoe.Table("memory://narrowed", env=memory_env())
    table.create(
        pa.schema([("n", pa.int32())]),
        properties={"delta.enableChangeDataFeed": "true", "delta.enableTypeWidening": "true"},
    )
    with table.transaction() as changes:
        changes.alter_columns([ColumnChange(path=("n",), type=LONG)])
    table.append(pa.table({"n": [1 << 60]}))
    table.restore(0)
    with table.transaction() as changes:
        changes.alter_columns([ColumnChange(path=("n",), type=DOUBLE)])
    table.append(pa.table({"n": [0.5]}))
    for start in (1, 2, 3):
        with pytest.raises(IncompatibleChangesError, match="column n"):
            table.changes(start_version=start)
    assert table.changes(start_version=4)["n"].to_pylist() == [0.5]


@pytest.mark.parametrize(
    ("mode", "id_type", "before", "after", "because"),
    [
        ("none", pa.int64(), ["p"], [], "its partition columns (p)"),
        ("none", pa.int64(), [], ["p"], "its partition columns (none)"),
        ("name", pa.string(), [], [], "its column id"),  # it is another column since
    ],
)
def test_rows_that_the_first_version_removes_must_be_readable_too(tmp_path, mode, id_type, before, after, because):
    """Their files do not have the values of columns by which they were partitioned, and have others under their
    physical names.
    """
    table = tahoe.Table(tmp_path)
    properties = {"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": mode}
    table.append(pa.table({"id": [1, 2], "p": ["a", "b"]}), partition_by=before, properties=properties)
    table.overwrite(
        pa.table({"id": pa.array([3]).cast(id_type), "p": ["c"]}), overwrite_schema=True, partition_by=after
    )
    table.append(pa.table({"id": pa.array([4]).cast(id_type), "p": ["d"]}))
    for start in (0, 1):
        with pytest.raises(IncompatibleChangeDataError) as raised:
            table.changes(start_version=start)
        assert f"version 0 is incompatible because of {because}" in str(raised.value)
    assert table.changes(start_version=2).column("id").cast(pa.int64()).to_pylist() == [4]


@pytest.mark.parametrize("is_added_again", [False, True])
def test_rows_that_a_restore_removes_which_disables_column_mapping(tmp_path, is_added_again):
    """Files written before columns were renamed, dropped or added again have them under their own names."""
    table = tahoe.Table(tmp_path)
    table.append(pa.table({"id": [1], "n": [1]}), properties={"delta.enableChangeDataFeed": "true"})
    with table.transaction() as changes:
        changes.set_properties({"delta.columnMapping.mode": "name"})
    if is_added_again:
        with table.transaction() as changes:
            changes.drop_columns(["n"])
        with table.transaction() as changes:
            changes.add_columns([pa.field("n", pa.int64())])
    table.append(pa.table({"id": [2], "n": [2]}))
    table.restore(0)
    if is_added_again:
        with pytest.raises(IncompatibleChangeDataError, match="because of its column n"):
            table.changes(start_version=table.version)
    else:
        removed = table.changes(start_version=table.version).select(["id", "n", "_change_type"])
        assert removed.to_pylist() == [{"id": 2, "n": 2, "_change_type": "delete"}]


def test_columns_that_an_overwrite_of_the_schema_leaves_are_the_same_columns(tmp_path):
    """They keep ids and physical names, so the feed has the rows that it removes, and a range across it is readable."""
    table = tahoe.Table(tmp_path)
    row = pa.table({"id": [1], "s": [{"a": 1, "b": "x"}], "l": [[{"c": 1}]]})
    table.append(row, properties={"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": "name"})
    before = {field.name: dict(field.metadata) for _, field in walk_fields(table.schema)}
    changed = pa.table({"L": [[{"c": 1}]], "id": [2], "s": [{"a": 1, "b": 2}], "new": [1]})
    table.overwrite(changed, overwrite_schema=True)
    after = {field.name: dict(field.metadata) for _, field in walk_fields(table.schema)}
    assert {name for name in before if before[name] in after.values()} == {"id", "l", "c", "a"}
    used = {values["delta.columnMapping.id"] for values in before.values()}
    assert not used & {after[name]["delta.columnMapping.id"] for name in ("s", "b", "new")}
    table.overwrite(changed, overwrite_schema=True)
    assert table.changes(start_version=2).select(["id", "_change_type"]).to_pylist() == [
        {"id": 2, "_change_type": "delete"},
        {"id": 2, "_change_type": "insert"},
    ]
