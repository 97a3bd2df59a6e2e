"""Which data of another type than its column's a write takes: by the kind of write, and without Spark by each value."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from tahoe import Table
from tahoe.errors import FieldsNotMergedError, SchemaMismatchError
from tahoe.protocol.types.schema import BINARY, BOOLEAN, DATE, DOUBLE, INTEGER, LONG, STRING, TIMESTAMP, VARIANT, Array
from tahoe.protocol.types.schema import Decimal as DecimalType
from tahoe.table.writing.casts import Casts

NOON, MIDNIGHT = dt.datetime(2024, 1, 31, 12), dt.datetime(2024, 1, 31)
DAY = dt.date(2024, 1, 31)

# A column's type, values that it keeps, and values that it would change.
KEPT = [
    (pa.int32(), [pa.array([7], pa.int64()), pa.array([7.0]), pa.array([Decimal("7.00")]), pa.array([None])], [7]),
    (pa.float32(), [pa.array([7.5]), pa.array([float("inf")]), pa.array([7])], None),
    (pa.float64(), [pa.array([1.25], pa.float32()), pa.array([7], pa.int8())], None),
    (pa.decimal128(5, 2), [pa.array([Decimal("7.2500")]), pa.array([7], pa.int8())], None),
    (pa.date32(), [pa.array([MIDNIGHT]), pa.array([MIDNIGHT], pa.timestamp("us", "UTC")), pa.array([DAY])], [DAY]),
    (pa.timestamp("us"), [pa.array([DAY]), pa.array([NOON], pa.timestamp("ms"))], None),
]
CHANGED = [
    (pa.int64(), [pa.array([7.9]), pa.array([float("nan")]), pa.array([Decimal("7.9")])]),
    (pa.int32(), [pa.array([2**40])]),
    (pa.float32(), [pa.array([7.9]), pa.array([1e300]), pa.array([2**53 + 1])]),
    (pa.decimal128(5, 2), [pa.array([Decimal("7.255")]), pa.array([Decimal("12345.00")])]),
    (pa.date32(), [pa.array([NOON]), pa.array([NOON], pa.timestamp("us", "UTC"))]),
    (pa.list_(pa.int64()), [pa.array([[1.5]])]),
]
OTHER = [
    (pa.int64(), [pa.array(["7"]), pa.array([True]), pa.array([b"7"]), pa.array([NOON]), pa.array([DAY])]),
    (pa.string(), [pa.array([7]), pa.array([True]), pa.array([b"7"]), pa.array([DAY])]),
    (pa.bool_(), [pa.array([1]), pa.array([7.9]), pa.array(["true"])]),
    (pa.timestamp("us", "UTC"), [pa.array([7]), pa.array(["2024-01-31"])]),
    (pa.decimal128(5, 2), [pa.array([7.25])]),
    (pa.list_(pa.int64()), [pa.array([["1"]]), pa.array([7])]),
    (pa.struct([("x", pa.int64())]), [pa.array([{"x": "1"}]), pa.array(["x"])]),
]


def made(name: str, kind: pa.DataType) -> Table:
    table = Table(f"memory://casts-{name}")
    table.create(pa.schema([("c", kind)]))
    return table


def each(cases: list) -> list:
    return [
        pytest.param(case[0], value, id=f"{value.type} in {case[0]}: {value[0]}") for case in cases for value in case[1]
    ]


@pytest.mark.parametrize(("kind", "value"), each(KEPT))
def test_a_column_takes_what_it_keeps(request: pytest.FixtureRequest, kind: pa.DataType, value: pa.Array) -> None:
    """Frames have integers of 64 bits, and columns of integers with nulls are doubles: they could not be appended."""
    table = made(request.node.name, kind)
    table.append(pa.table({"c": value}))
    with table.transaction() as changes:
        changes.append(pa.table({"c": value}))
    (first, second) = table.to_arrow()["c"].to_pylist()
    (given,) = (
        value.cast(pa.timestamp("us")).to_pylist() if kind == pa.date32() and value.type != kind else value.to_pylist()
    )
    assert first == second
    assert first == given or {first, given} == {DAY, MIDNIGHT}


@pytest.mark.parametrize(("kind", "value"), [*each(CHANGED), *each(OTHER)])
def test_a_column_refuses_what_it_would_change(
    request: pytest.FixtureRequest, kind: pa.DataType, value: pa.Array
) -> None:
    """A value is stored that is not the data's, or a program does not find the condition that the reference has for
    it.
    """
    table = made(request.node.name, kind)
    data = pa.table({"c": value})
    with pytest.raises(FieldsNotMergedError, match="column c"):
        table.append(data)
    with pytest.raises(FieldsNotMergedError, match="column c"):
        table.append(data, merge_schema=True)
    with pytest.raises(FieldsNotMergedError, match="column c"):
        table.overwrite(data)
    with pytest.raises(FieldsNotMergedError, match="column c"):
        table.overwrite(data, "c IS NOT NULL")
    with pytest.raises(FieldsNotMergedError, match="column c"), table.transaction() as changes:
        changes.append(data)
    assert table.version == 0


def test_an_instant_outside_of_pythons_calendar_is_refused_with_its_number() -> None:
    """The message about it ended in an OverflowError."""
    with pytest.raises(FieldsNotMergedError, match="4611686018427387904"):
        made("far", pa.date32()).append(pa.table({"c": pa.array([1 << 62], pa.timestamp("s"))}))


def test_an_overwrite_is_told_how_to_replace_the_schema() -> None:
    table = made("told", pa.int64())
    with pytest.raises(FieldsNotMergedError, match=r"replace the table's schema: overwrite_schema=True"):
        table.overwrite(pa.table({"c": ["x"]}))
    with pytest.raises(SchemaMismatchError, match=r"replace the table's schema: overwrite_schema=True"):
        table.overwrite(pa.table({"c": [1], "d": [2]}))


@pytest.mark.parametrize(
    ("given", "wanted", "kinds"),
    [
        (INTEGER, LONG, {Casts.IMPLICIT, Casts.KEPT}),
        (DOUBLE, LONG, {Casts.IMPLICIT, Casts.KEPT}),
        (DOUBLE, DecimalType(5, 2), {Casts.IMPLICIT}),
        (DATE, TIMESTAMP, {Casts.IMPLICIT, Casts.KEPT}),
        (STRING, LONG, {Casts.IMPLICIT}),
        (STRING, BINARY, {Casts.IMPLICIT}),
        (LONG, STRING, {Casts.IMPLICIT}),
        (STRING, BOOLEAN, set()),
        (BOOLEAN, LONG, set()),
        (LONG, BOOLEAN, set()),
        (TIMESTAMP, LONG, set()),
        (Array(element=LONG), STRING, set()),
        (LONG, VARIANT, set()),
    ],
)
def test_each_kind_of_write_has_its_casts(given: object, wanted: object, kinds: set[Casts]) -> None:
    assert {kind for kind in Casts if kind.allows(given, wanted)} == {Casts.ANY, *kinds}  # type: ignore[arg-type]
