"""The schema of files that were written independently of each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.protocol.types.merged_schema import Unmergeable, merged, with_partition_columns
from tahoe.protocol.types.schema import (
    BYTE,
    DOUBLE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    VOID,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Struct,
)

PRIMITIVES = st.sampled_from([BYTE, SHORT, INTEGER, LONG, STRING, VOID, Decimal(5, 2)])


def structs(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[Struct]:
    fields = st.dictionaries(st.sampled_from("abAB"), types, max_size=3)
    unique = fields.filter(lambda found: len({name.lower() for name in found}) == len(found))
    return unique.map(lambda found: struct(**found))


def struct(**types: DataType) -> Struct:
    return Struct(tuple(Field(name=name, type=kind) for name, kind in types.items()))


TYPES = st.recursive(
    PRIMITIVES,
    lambda inner: (
        st.builds(lambda e: Array(element=e), inner)
        | st.builds(lambda v: Map(key=STRING, value=v), inner)
        | structs(inner)
    ),
    max_leaves=4,
)


def lowered(schema: DataType) -> object:
    """A schema without order and case."""
    match schema:
        case Struct(fields):
            return frozenset((field.name.lower(), lowered(field.type)) for field in fields)
        case Array():
            return ("array", lowered(schema.element))
        case Map():
            return ("map", lowered(schema.key), lowered(schema.value))
        case _:
            return schema


@given(structs(TYPES), structs(TYPES))
def test_the_order_of_files_changes_only_order_and_spelling(left: Struct, right: Struct) -> None:
    try:
        one = merged(left, right)
    except Unmergeable:
        with pytest.raises(Unmergeable):
            merged(right, left)
        return
    assert lowered(one) == lowered(merged(right, left))
    assert merged(one, left) == merged(one, right) == merged(Struct(()), one) == one


@pytest.mark.parametrize(
    ("known", "given_type", "expected"),
    [
        (BYTE, SHORT, SHORT),
        (INTEGER, BYTE, INTEGER),
        (SHORT, INTEGER, INTEGER),
        (VOID, STRING, STRING),
        (STRING, VOID, STRING),
    ],
)
def test_types_that_parquet_stores_alike_become_the_wider_one(
    known: DataType, given_type: DataType, expected: DataType
) -> None:
    assert merged(struct(a=known), struct(A=given_type)) == struct(a=expected)


@pytest.mark.parametrize(
    ("known", "other"),
    [
        (INTEGER, LONG),
        (INTEGER, STRING),
        (DOUBLE, INTEGER),
        (Decimal(5, 2), Decimal(6, 2)),
        (Array(element=LONG), LONG),
    ],
)
def test_other_types_do_not_merge(known: DataType, other: DataType) -> None:
    with pytest.raises(Unmergeable, match=r"s\.a is"):
        merged(struct(s=struct(a=known)), struct(s=struct(a=other)))


def test_a_partition_column_takes_the_place_of_a_data_column_of_its_name() -> None:
    found = with_partition_columns(struct(DAY=INTEGER, x=LONG), struct(day=STRING, hour=INTEGER))
    assert found == struct(day=STRING, x=LONG, hour=INTEGER)
