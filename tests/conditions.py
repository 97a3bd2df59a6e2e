"""Faults of rows and assignments, and the condition of the error for each: the same by every way to write, with Spark
and without.

`tests/table/test_conditions.py` asks the writer without Spark, `tests/spark/test_conditions.py` the one of Spark.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal as Number
from typing import Any, NamedTuple

import pyarrow as pa

from tahoe import Table
from tahoe.protocol.changes.column_type_changes import TEXT_TYPE
from tahoe.protocol.types.schema import BYTE, DATE, INTEGER, LONG, STRING, Array, Decimal, Field, Struct
from tahoe.table.arrow.types import arrow_schema

SCHEMA = Struct(
    (
        Field(name="id", type=LONG, nullable=False),
        Field(name="n", type=INTEGER),
        Field(name="tiny", type=BYTE),
        Field(name="d", type=Decimal(4, 2)),
        Field(name="day", type=DATE),
        Field(name="t", type=STRING),
        Field(name="v", type=STRING, metadata={TEXT_TYPE: "varchar(3)"}),
        Field(name="c", type=STRING, metadata={TEXT_TYPE: "char(3)"}),
        Field(name="s", type=Struct((Field(name="a", type=INTEGER), Field(name="b", type=INTEGER, nullable=False)))),
        Field(name="l", type=Array(element=INTEGER)),
    )
)
ROW: Mapping[str, Any] = {
    "id": 1,
    "n": 1,
    "tiny": 1,
    "d": Number("1.50"),
    "day": dt.date(2024, 1, 31),
    "t": "x",
    "v": "abc",
    "c": "abc",
    "s": {"a": 1, "b": 2},
    "l": [1],
}
_LOOSE = {"s": pa.struct([("a", pa.int32()), ("b", pa.int32())])}


def rows(*, without: str | None = None, types: Mapping[str, pa.DataType] | None = None, **values: Any) -> pa.Table:
    """A row of the table, without a column, or with other types and values of some."""
    kinds = {f.name: f.type for f in arrow_schema(SCHEMA) if f.name != without} | _LOOSE | (types or {})
    row = {**ROW, **values}
    return pa.table({name: pa.array([row.get(name)], kind) for name, kind in kinds.items()})


def table(place: str) -> Table:
    made = Table(place)
    made.create(SCHEMA)
    made.append(rows())
    return made


class Written(NamedTuple):
    """Rows with a fault, and the conditions by which writes and a MERGE refuse them. A MERGE with schema evolution
    refuses as `evolved`.
    """

    name: str
    data: pa.Table
    saved: str
    merged: str
    evolved: str


_MISSING, _NULL = "DELTA_MISSING_NOT_NULL_COLUMN_VALUE", "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
_LONG, _OVERFLOW, _INVALID = (
    "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
    "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE",
    "CAST_INVALID_INPUT",
)
_UNLIKE, _NO_CAST = "DELTA_FAILED_TO_MERGE_FIELDS", "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION"
_FIELDS = "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"

WRITTEN = [
    Written("no NOT NULL column", rows(without="id"), _MISSING, "DELTA_MERGE_UNRESOLVED_EXPRESSION", _MISSING),
    Written(
        "no NOT NULL field", rows(types={"s": pa.struct([("a", pa.int32())])}, s={"a": 1}), _MISSING, _FIELDS, _MISSING
    ),
    Written("null", rows(id=None), _NULL, _NULL, _NULL),
    Written("null in a field", rows(s={"a": 1, "b": None}), _NULL, _NULL, _NULL),
    Written("varchar", rows(v="abcd"), _LONG, _LONG, _LONG),
    Written("char", rows(c="abcd"), _LONG, _LONG, _LONG),
    Written("overflow", rows(types={"n": pa.int64()}, n=1 << 40), _UNLIKE, _OVERFLOW, _OVERFLOW),
    Written(
        "overflow of a decimal",
        rows(types={"d": pa.decimal128(10, 2)}, d=Number("12345.00")),
        _UNLIKE,
        _OVERFLOW,
        _OVERFLOW,
    ),
    Written("text for an int", rows(types={"n": pa.string()}, n="x"), _UNLIKE, _INVALID, _INVALID),
    Written(
        "struct for an int", rows(types={"n": pa.struct([("a", pa.int32())])}, n={"a": 1}), _UNLIKE, _NO_CAST, _UNLIKE
    ),
    Written("int for a struct", rows(types={"s": pa.int32()}, s=1), _UNLIKE, _NO_CAST, _UNLIKE),
    Written("int for an array", rows(types={"l": pa.int32()}, l=1), _UNLIKE, _NO_CAST, _UNLIKE),
]

# Assignments with a fault, and the condition by which UPDATE and MERGE refuse them; two, if they refuse them by
# different ones.
ASSIGNED: list[tuple[Mapping[str, str], str]] = [
    ({"id": "NULL"}, _NULL),
    ({"s.b": "NULL"}, _NULL),
    ({"v": "'abcd'"}, _LONG),
    ({"c": "'abcd'"}, _LONG),
    ({"n": "id * 10000000000"}, _OVERFLOW),
    ({"n": "10000000000"}, _OVERFLOW),
    ({"tiny": "n + 300"}, _OVERFLOW),
    ({"d": "CAST(12345 AS DECIMAL(10, 2))"}, _OVERFLOW),
    ({"d": "'12345'"}, _OVERFLOW),
    ({"d": "'x'"}, _INVALID),
    ({"n": "t"}, _INVALID),
    ({"n": "'x'"}, _INVALID),
    ({"day": "t"}, _INVALID),
    ({"day": "'x'"}, _INVALID),
    ({"n": "s"}, _NO_CAST),
    ({"s": "n"}, _NO_CAST),
    ({"l": "n"}, _NO_CAST),
    ({"day": "TRUE"}, _NO_CAST),
    ({"n": "day"}, "DATATYPE_MISMATCH.CAST_WITH_FUNC_SUGGESTION"),
    ({"day": "n"}, "DATATYPE_MISMATCH.CAST_WITH_FUNC_SUGGESTION"),
    ({"other": "1"}, "DELTA_COLUMN_NOT_FOUND, DELTA_MERGE_UNRESOLVED_EXPRESSION"),
    ({"s.other": "1"}, "DELTA_COLUMN_NOT_FOUND, DELTA_MERGE_UNRESOLVED_EXPRESSION"),
    ({"n.a": "1"}, "DELTA_UNSUPPORTED_OPERATION"),
    ({"s": "s", "s.a": "1"}, "DELTA_CONFLICT_SET_COLUMN"),
    ({"n": "1", "N": "2"}, "DELTA_CONFLICT_SET_COLUMN"),
    ({"s": "named_struct('a', 1, 'other', 2)"}, _FIELDS),
]
