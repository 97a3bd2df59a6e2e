"""Generated, default and identity columns without Spark: what the small writer can do, and what it refuses."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from decimal import Decimal as PyDecimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tahoe
from tahoe.errors import (
    ConcurrentAppendException,
    GeneratedValueMismatchError,
    IdentityOverflowError,
    IdentityValueGivenError,
    MetadataChangedException,
    NotAnIdentityColumnError,
    SchemaMismatchError,
    UnsupportedOperationError,
)
from tahoe.protocol.changes.column_values import LONG_MAX, identity_columns
from tahoe.protocol.types.schema import BOOLEAN, DATE, DOUBLE, INTEGER, LONG, STRING, TIMESTAMP, Decimal, Field, Struct
from tahoe.table.verify.check import check_version
from tahoe.table.writing.planning import create_table
from tahoe.table.writing.write_request import WriteRequest
from tests.table.builders import memory_env

WITH_DEFAULTS = {"delta.feature.allowColumnDefaults": "supported"}


def numbers(start=1, step=1, explicit=False):
    return {"delta.identity.start": start, "delta.identity.step": step, "delta.identity.allowExplicitInsert": explicit}


def make(*columns: Field, properties=None, partition_by=None) -> tahoe.Table:
    table = tahoe.Table("memory://given", env=memory_env())
    schema = Struct((*columns, Field(name="x", type=STRING)))
    request = WriteRequest(
        mode="error", schema=schema, properties=properties or {}, keep_nullability=True, partition_by=partition_by
    )
    create_table(table, request)
    return table


def again(table: tahoe.Table) -> tahoe.Table:
    """The same table as another writer has it."""
    return tahoe.Table(table.url, env=table.env)


def rows(*values: str, **columns) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.string()), **columns})


def column(table: tahoe.Table, name: str) -> list:
    assert list(check_version(table.snapshot())) == []
    return table.to_arrow().sort_by("x").column(name).to_pylist()


def counted(table: tahoe.Table):
    return dict(identity_columns(table.schema))["i"]


# --- identity columns


@pytest.mark.parametrize(
    ("start", "step", "value", "following"),
    [(10, 5, 20, 25), (10, 5, 21, 30), (10, 5, 9, 10), (10, 5, None, 10), (0, -3, -7, -12), (0, -3, 4, 0)],
)
def test_numbers_go_on_behind_a_value_that_they_are_told(start, step, value, following):
    table = make(Field(name="i", type=LONG, metadata=numbers(start, step, explicit=True)))
    with again(table).transaction() as changes:
        changes.sync_identity("I", value)
    table.append(rows("a"))
    assert column(table, "i") == [following]


def test_numbers_never_go_back_to_a_value_that_they_are_told():
    table = make(Field(name="i", type=LONG, metadata=numbers(1, 1, explicit=True)))
    table.append(rows("a", "b", "c"))
    with table.transaction() as changes:
        changes.sync_identity("i", 2)
    assert changes.version is None, "there was nothing to commit"
    table.append(rows("d"))
    assert column(table, "i") == [1, 2, 3, 4]


@pytest.mark.parametrize("sizes", ["with statistics", "without"])
@pytest.mark.parametrize(
    ("step", "known", "given", "is_conflict"),
    [(1, 10, 20, True), (1, 10, 5, False), (-2, -10, -11, True), (-2, -10, 4, False)],
)
def test_values_that_a_faster_writer_gives_are_not_given_out_again(step, known, given, is_conflict, sizes):
    properties = {"delta.dataSkippingNumIndexedCols": "0"} if sizes == "without" else {}
    table = make(Field(name="i", type=LONG, metadata=numbers(0, step, explicit=True)), properties=properties)
    table.append(rows("a", i=pa.array([known])))
    changes = table.transaction()
    changes.sync_identity("i", known)
    again(table).append(rows("b", i=pa.array([given])))
    if is_conflict:
        with pytest.raises(ConcurrentAppendException, match="version 2"):
            changes.commit()
        return
    changes.commit()
    table.append(rows("c"))
    assert len(set(column(table, "i"))) == 3


def test_only_identity_columns_are_told_where_to_go_on():
    with pytest.raises(NotAnIdentityColumnError), make().transaction() as changes:
        changes.sync_identity("x", 1)


def test_numbers_go_on_from_commit_to_commit():
    table = make(Field(name="i", type=LONG, nullable=False, metadata=numbers(10, 5)))
    table.append(rows("a", "b"))
    again(table).append(rows("c"))
    assert column(table, "i") == [10, 15, 20]
    assert counted(table).high_water_mark == 20
    version = table.append(rows())
    assert counted(table).high_water_mark == 20
    assert version == table.version


def test_numbers_in_a_transaction_and_over_partitions():
    table = make(Field(name="i", type=LONG, metadata=numbers(0, -1)), Field(name="p", type=LONG), partition_by=("p",))
    with table.transaction() as changes:
        changes.append(rows("a", "b", "c", p=pa.array([1, 2, 1])))
        changes.append(rows("d", p=pa.array([2])))
    assert sorted(column(table, "i")) == [-3, -2, -1, 0]
    assert counted(table).high_water_mark == -3


def test_given_numbers_are_refused_or_do_not_move_the_mark():
    table = make(Field(name="i", type=LONG, metadata=numbers()))
    with pytest.raises(IdentityValueGivenError):
        table.append(rows("a", I=pa.array([7])))
    table = make(Field(name="i", type=LONG, metadata=numbers(explicit=True)))
    table.append(rows("a", i=pa.array([7])))
    assert counted(table).high_water_mark is None
    table.append(rows("b"))
    assert column(table, "i") == [7, 1]


def test_no_numbers_are_left():
    table = make(Field(name="i", type=LONG, metadata=numbers(LONG_MAX - 1)))
    with pytest.raises(IdentityOverflowError):
        table.append(rows("a", "b", "c"))
    table.append(rows("a", "b"))
    with pytest.raises(IdentityOverflowError):
        table.append(rows("c"))
    assert column(table, "i") == [LONG_MAX - 1, LONG_MAX]


def test_of_two_that_give_the_same_numbers_one_fails():
    table = make(Field(name="i", type=LONG, metadata=numbers()))
    first, second = table.transaction(), again(table).transaction()
    first.append(rows("a", "b"))
    second.append(rows("c"))
    first.commit()
    with pytest.raises(MetadataChangedException, match="identity column i"):
        second.commit()
    assert column(table, "i") == [1, 2]


def test_who_gives_no_numbers_goes_behind_who_does():
    # numbers would stop all other writers of a table otherwise
    table = make(Field(name="i", type=LONG, metadata=numbers(explicit=True)))
    table.append(rows("a", "b"))
    adds, deletes = table.transaction(), table.transaction()
    adds.append(rows("c", i=pa.array([100])))
    deletes.delete("x = 'a'")
    again(table).append(rows("d"))
    adds.commit()
    deletes.commit()
    assert column(table, "i") == [2, 100, 3]
    assert counted(table).high_water_mark == 3


def test_who_reads_rows_still_conflicts_with_who_adds_them():
    table = make(Field(name="i", type=LONG, metadata=numbers(explicit=True)))
    table.append(rows("a"))
    reads = table.transaction()
    reads.to_arrow()
    reads.append(rows("c", i=pa.array([100])))
    again(table).append(rows("d"))
    with pytest.raises(ConcurrentAppendException):
        reads.commit()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=12), st.integers(-3, 3).filter(bool))
def test_no_number_is_given_twice_whatever_the_order_of_commits(steps, step):
    table = make(Field(name="i", type=LONG, metadata=numbers(5, step)))
    open_ = {}
    committed = 0
    for writer, count in steps:
        if writer not in open_:
            open_[writer] = (again(table).transaction(), count)
            open_[writer][0].append(rows(*"x" * count))
        else:
            changes, written = open_.pop(writer)
            with suppress(MetadataChangedException):
                changes.commit()
                committed += written
    found = table.to_arrow().column("i").to_pylist()
    assert len(set(found)) == len(found) == committed
    assert all((value - 5) % step == 0 for value in found)
    assert not found or counted(table).high_water_mark == (max(found) if step > 0 else min(found))


def test_a_file_that_is_written_again_keeps_its_numbers():
    table = make(Field(name="i", type=LONG, metadata=numbers()))
    table.append(rows("a", "b", "c"))
    with table.transaction() as changes:
        changes.delete("x = 'b'")
    assert column(table, "i") == [1, 3]
    assert counted(table).high_water_mark == 3


def test_a_table_that_is_made_anew_counts_anew():
    table = make(Field(name="i", type=LONG, metadata=numbers()))
    table.append(rows("a"))
    create_table(
        table, WriteRequest(mode="overwrite", schema=table.schema, keep_nullability=True), replace_existing=True
    )
    table.append(rows("b"))
    assert column(table, "i") == [1]


# --- defaults

DEFAULTS = {
    "text": (STRING, "'it''s'", "it's"),
    "whole": (INTEGER, "-7", -7),
    "fraction": (DOUBLE, "1.5", 1.5),
    "exact": (Decimal(5, 2), "1.25", PyDecimal("1.25")),
    "flag": (BOOLEAN, "true", True),
    "day": (DATE, "DATE'2024-02-29'", dt.date(2024, 2, 29)),
    "moment": (TIMESTAMP, "TIMESTAMP'2024-02-29 10:00:00Z'", dt.datetime(2024, 2, 29, 10, tzinfo=dt.UTC)),
    "sum": (INTEGER, "1 + 1", 2),
    "nothing": (INTEGER, "NULL", None),
}


@pytest.mark.parametrize("case", DEFAULTS)
def test_constants_fill_what_is_missing(case):
    kind, text, value = DEFAULTS[case]
    table = make(Field(name="d", type=kind, metadata={"CURRENT_DEFAULT": text}), properties=WITH_DEFAULTS)
    table.append(rows("a"))
    assert column(table, "d") == [value]


def test_nulls_that_are_given_stay():
    table = make(Field(name="d", type=STRING, metadata={"CURRENT_DEFAULT": "'x'"}), properties=WITH_DEFAULTS)
    table.append(rows("a", d=pa.array([None], pa.string())))
    assert column(table, "d") == [None]


@pytest.mark.parametrize(("kind", "text"), [(TIMESTAMP, "current_timestamp()"), (INTEGER, "1.5"), (INTEGER, "'x'")])
def test_other_defaults_need_spark(kind, text):
    table = make(Field(name="d", type=kind, metadata={"CURRENT_DEFAULT": text}), properties=WITH_DEFAULTS)
    with pytest.raises(UnsupportedOperationError, match="only Spark can compute"):
        table.append(rows("a"))
    table.append(rows("a", d=pa.nulls(1)))


# --- generated columns


def test_generated_columns_are_computed_and_checked():
    table = make(Field(name="g", type=STRING, metadata={"delta.generationExpression": "upper(x)"}))
    table.append(rows("a", "b"))
    table.append(rows("c", g=pa.array(["C"])))
    assert column(table, "g") == ["A", "B", "C"]
    with pytest.raises(GeneratedValueMismatchError, match='"g":"d"'):
        table.append(rows("d", g=pa.array(["d"])))


def test_a_generated_partition_column_is_computed_of_what_is_stored():
    """Files land in the partition of another value than their rows have."""
    year = Field(name="year", type=INTEGER, metadata={"delta.generationExpression": "year(day)"})
    table = make(year, Field(name="day", type=DATE), partition_by=("year",))
    table.append(pa.table({"x": ["a", "b"], "day": pa.array([dt.date(2024, 5, 1), None])}))
    assert column(table, "year") == [2024, None]
    assert table.files(filter="year = 2024").num_rows == 1


def test_some_expressions_need_spark():
    table = make(Field(name="g", type=STRING, metadata={"delta.generationExpression": "reverse(x)"}))
    for data in (rows("a"), rows("a", g=pa.array(["A"]))):
        with pytest.raises(UnsupportedOperationError, match=r"g is generated as reverse\(x\)"):
            table.append(data)
    assert table.to_arrow().num_rows == 0


def test_a_constant_can_be_checked():
    table = make(Field(name="g", type=INTEGER, metadata={"delta.generationExpression": "5"}))
    table.append(rows("a", g=pa.array([5])))
    with pytest.raises(GeneratedValueMismatchError, match='"g":6'):
        table.append(rows("a", g=pa.array([6])))


def test_rows_that_stay_are_not_computed_again():
    # deleting needs no expression
    table = make(Field(name="g", type=INTEGER, metadata={"delta.generationExpression": "5"}))
    table.append(rows("a", "b", g=pa.array([5, 5])))
    with table.transaction() as changes:
        changes.delete("x = 'a'")
    assert column(table, "g") == [5]


def test_a_column_that_another_is_made_of_cannot_go():
    named = {"delta.columnMapping.mode": "name"}
    table = make(Field(name="g", type=STRING, metadata={"delta.generationExpression": "upper(x)"}), properties=named)
    with table.transaction() as changes, pytest.raises(SchemaMismatchError, match=r"upper\(x\) depends on it"):
        changes.set_schema(Struct((table.schema.find("g"),)))


@pytest.mark.parametrize("metadata", [{"delta.generationExpression": "x"}, {"CURRENT_DEFAULT": "'a'"}, numbers()])
def test_a_column_that_is_added_later_has_no_rule(metadata):
    # the rows that are there would break it; a default may be set afterwards
    table = make(Field(name="i", type=LONG))
    with table.transaction() as changes, pytest.raises(SchemaMismatchError, match="new column n"):
        changes.set_schema(Struct((*table.schema, Field(name="n", type=LONG, metadata=metadata))))
