"""Which changes of its table's schema a stream passes, and what lets it go on after the others."""

from __future__ import annotations

import pytest

from tahoe.protocol.log.actions import Metadata
from tahoe.protocol.streams.stream_schema import Remedy, SchemaRules, obstacle, shape
from tahoe.protocol.types.schema import DOUBLE, INTEGER, LONG, STRING, Array, DataType, Field, Struct

Columns = dict[str, DataType]


def plain(columns: Columns, *, not_null: str = "", partitions: tuple[str, ...] = ()) -> Metadata:
    fields = tuple(Field(name=name, type=kind, nullable=name not in not_null) for name, kind in columns.items())
    return Metadata(id="t", schema_string=Struct(fields).to_json(), partition_columns=partitions)


def mapped(names: dict[str, str], *, partitions: tuple[str, ...] = ()) -> Metadata:
    """Columns of integers: logical names to physical names."""
    fields = tuple(
        Field(name=name, type=INTEGER, metadata={"delta.columnMapping.physicalName": stored})
        for name, stored in names.items()
    )
    properties = {"delta.columnMapping.mode": "name"}
    return Metadata(
        id="t", schema_string=Struct(fields).to_json(), partition_columns=partitions, configuration=properties
    )


A, AB = plain({"a": INTEGER}), plain({"a": INTEGER, "b": STRING})
WIDE = plain({"a": LONG})
NEW, TRACK, BLOCKED = Remedy.NEW_DATAFRAME, Remedy.TRACKING, Remedy.NEW_CHECKPOINT

# what was before, what came later; then what a stream with the earlier schema needs, and what one with the later schema
# needs
CASES = {
    "no change": (A, A, None, None),
    "added column": (A, AB, NEW, None),
    "dropped column without mapping": (AB, A, None, BLOCKED),
    "relaxed": (plain({"a": INTEGER}, not_null="a"), A, NEW, None),
    "tightened": (A, plain({"a": INTEGER}, not_null="a"), None, BLOCKED),
    "wider": (A, WIDE, NEW, None),
    "narrower": (WIDE, A, None, BLOCKED),  # a RESTORE undoes a widening
    "wider inside": (plain({"a": Array(element=INTEGER)}), plain({"a": Array(element=DOUBLE)}), NEW, None),
    "other type": (A, plain({"a": STRING}), BLOCKED, BLOCKED),
    "other case": (A, plain({"A": INTEGER}), BLOCKED, BLOCKED),
    "repartitioned": (AB, plain({"a": INTEGER, "b": STRING}, partitions=("b",)), NEW, BLOCKED),
    "renamed": (mapped({"a": "x"}), mapped({"b": "x"}), TRACK, TRACK),
    "dropped": (mapped({"a": "x", "b": "y"}), mapped({"a": "x"}), TRACK, TRACK),
    "dropped and added": (mapped({"a": "x"}), mapped({"a": "y"}), TRACK, TRACK),
    "swapped": (mapped({"a": "x", "b": "y"}), mapped({"a": "y", "b": "x"}), TRACK, TRACK),
    "added under mapping": (mapped({"a": "x"}), mapped({"a": "x", "b": "y"}), NEW, None),
    "mapping enabled": (plain({"a": INTEGER}), mapped({"a": "a"}), None, None),
    "mapping enabled and renamed": (plain({"a": INTEGER}), mapped({"b": "a"}), TRACK, TRACK),
    "mapping disabled": (mapped({"a": "a"}), plain({"a": INTEGER}), TRACK, TRACK),
    "repartitioned under mapping": (
        mapped({"a": "x", "b": "y"}),
        mapped({"a": "x", "b": "y"}, partitions=("b",)),
        TRACK,
        TRACK,
    ),
}


def remedies(
    before: Metadata, after: Metadata, rules: SchemaRules | None = None, **others: bool
) -> tuple[Remedy | None, Remedy | None]:
    met = obstacle(before, after, rules or SchemaRules(), is_older=False, **others)
    started = obstacle(after, before, rules or SchemaRules(), is_older=True, **others)
    return met and met.remedy, started and started.remedy


@pytest.mark.parametrize(("before", "after", "met", "started"), CASES.values(), ids=CASES)
def test_what_a_change_needs(before: Metadata, after: Metadata, met: Remedy | None, started: Remedy | None) -> None:
    assert remedies(before, after) == (met, started)


ALLOWED = [
    ("renamed", SchemaRules(reads_moved_columns=True), (BLOCKED, None)),  # a new name is never overlooked
    ("dropped", SchemaRules(reads_moved_columns=True), (None, None)),
    ("repartitioned", SchemaRules(reads_other_partitions=True), (None, None)),
    ("repartitioned under mapping", SchemaRules(reads_other_partitions=True), (None, None)),
    ("relaxed", SchemaRules(reads_nulls=True), (None, None)),
    ("tightened", SchemaRules(reads_nulls=True), (None, None)),
    ("wider", SchemaRules(widens=False), (BLOCKED, BLOCKED)),
    ("wider", SchemaRules(asks_before_widening=True), (TRACK, TRACK)),
    ("other type", SchemaRules(skips_start=True), (BLOCKED, BLOCKED)),
]


@pytest.mark.parametrize(
    ("case", "rules", "found"), ALLOWED, ids=[f"{case}-{number}" for number, (case, _, _) in enumerate(ALLOWED)]
)
def test_what_the_session_allows(case: str, rules: SchemaRules, found: tuple[Remedy | None, Remedy | None]) -> None:
    before, after, _, _ = CASES[case]
    assert remedies(before, after, rules) == found


def test_the_check_of_the_start_can_be_skipped_but_not_for_renamed_columns() -> None:
    skips = SchemaRules(skips_start=True)
    before, after, _, _ = CASES["other type"]
    assert obstacle(after, before, skips, is_older=True, is_start=True) is None
    before, after, _, _ = CASES["renamed"]
    assert obstacle(after, before, skips, is_older=True, is_start=True) is not None


def test_wider_types_are_read_only_if_the_table_supports_them() -> None:
    assert remedies(A, WIDE, widens=False) == (NEW, BLOCKED)
    assert remedies(WIDE, A, widens=False) == (BLOCKED, BLOCKED)


TEXTS = [
    (A, AB, "it has the column b string, which the stream's schema lacks"),
    (A, WIDE, "column a is long, and the stream reads it as integer"),
    (plain({"a": INTEGER}, not_null="a"), A, "column a may be null, and the stream reads it as NOT NULL"),
    (mapped({"a": "x"}), mapped({"b": "x"}), "column a was renamed or dropped"),
    (AB, plain({"a": INTEGER, "b": STRING}, partitions=("b",)), "the partition columns were changed from none to b"),
]


@pytest.mark.parametrize(("read", "written", "text"), TEXTS)
def test_what_changed_is_named(read: Metadata, written: Metadata, text: str) -> None:
    found = obstacle(read, written, SchemaRules(), is_older=False)
    assert found is not None
    assert found.changed == text


def test_comments_do_not_change_the_shape_of_a_schema() -> None:
    inner = Struct((Field(name="x", type=LONG, metadata={"comment": "new"}),))
    known = Struct((Field(name="x", type=LONG),))
    assert shape(Struct((Field(name="s", type=inner),))) == shape(Struct((Field(name="s", type=known),)))
    assert shape(inner) != shape(Struct((Field(name="x", type=LONG, nullable=False),)))
