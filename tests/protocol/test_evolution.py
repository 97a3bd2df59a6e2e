"""How schemas grow."""

import pytest

from tahoe.protocol.changes.evolution import (
    is_stored_alike,
    merge_schemas,
    mismatches,
    new_columns,
    unlike_fields,
    widening_of,
)
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP_NTZ,
    VOID,
    Array,
    Decimal,
    Field,
    Map,
    Struct,
)
from tahoe.protocol.types.type_widening import TYPE_CHANGES, is_widening, is_widening_for_iceberg


def schema(**columns):
    return Struct(tuple(Field(name=name, type=kind) for name, kind in columns.items()))


def test_new_columns_come_last_and_may_be_null():
    table = schema(a=LONG, b=STRING)
    data = Struct((Field(name="c", type=LONG, nullable=False), Field(name="A", type=LONG)))
    merged = merge_schemas(table, data)
    assert merged.names == ("a", "b", "c")
    assert merged.find("c").nullable


def test_types_of_known_columns_stay_and_void_takes_one():
    merged = merge_schemas(schema(a=LONG, v=VOID), schema(a=INTEGER, v=STRING))
    assert [f.type for f in merged] == [LONG, STRING]


def test_fields_are_added_inside_structs_arrays_and_maps():
    inner, wider = schema(x=LONG), schema(x=LONG, y=LONG)
    table = schema(s=inner, a=Array(element=inner), m=Map(key=STRING, value=inner))
    data = schema(s=wider, a=Array(element=wider), m=Map(key=STRING, value=wider))
    assert [".".join(path) for path, _ in new_columns(table, data)] == ["s.y", "a.element.y", "m.value.y"]
    assert merge_schemas(table, data) == data
    assert list(new_columns(data, table)) == []


def test_merging_what_is_there_changes_nothing():
    table = Struct((Field(name="a", type=LONG, nullable=False, metadata={"comment": "key"}),))
    assert merge_schemas(table, schema(A=LONG)) == table


# --- wider types


def test_types_are_widened_at_every_depth_and_each_change_is_recorded_at_the_column_above():
    table = schema(
        n=INTEGER,
        s=schema(x=SHORT),
        l=Array(element=Array(element=INTEGER)),
        m=Map(key=BYTE, value=schema(y=FLOAT)),
        narrow=LONG,
    )
    data = schema(
        n=LONG,
        s=schema(x=INTEGER),
        l=Array(element=Array(element=DOUBLE)),
        m=Map(key=SHORT, value=schema(y=DOUBLE)),
        narrow=INTEGER,
    )
    merged = merge_schemas(table, data, is_widening)
    assert [f.type for f in merged.find("s").type] == [INTEGER]
    assert merged.find("narrow") == table.find("narrow")
    changes = {
        f.name: f.metadata.get(TYPE_CHANGES) for f in [*merged, *merged.find("s").type, *merged.find("m").type.value]
    }
    assert changes == {
        "n": [{"fromType": "integer", "toType": "long"}],
        "s": None,
        "x": [{"fromType": "short", "toType": "integer"}],
        "l": [{"fromType": "integer", "toType": "double", "fieldPath": "element.element"}],
        "m": [{"fromType": "byte", "toType": "short", "fieldPath": "key"}],
        "y": [{"fromType": "float", "toType": "double"}],
        "narrow": None,
    }
    again = merge_schemas(merged, schema(n=Decimal(20, 0)), is_widening)
    assert [change["toType"] for change in again.find("n").metadata[TYPE_CHANGES]] == ["long", "decimal(20,0)"]


def test_fixed_columns_keep_their_types_and_still_grow():
    table = schema(a=INTEGER, s=schema(x=INTEGER))
    merged = merge_schemas(table, schema(A=LONG, s=schema(x=LONG, y=LONG)), is_widening, frozenset({"a", "s"}))
    assert merged == schema(a=INTEGER, s=schema(x=INTEGER, y=LONG))


def test_void_takes_a_type_without_a_record():
    assert merge_schemas(schema(v=VOID), schema(v=LONG), is_widening) == schema(v=LONG)


@pytest.mark.parametrize(
    ("known", "given", "is_unlike"),
    [
        (LONG, LONG, False),
        (LONG, INTEGER, True),
        (LONG, DOUBLE, True),
        (STRING, LONG, True),
        (Decimal(9, 2), Decimal(5, 2), True),
        (LONG, schema(x=LONG), True),
        (INTEGER, BYTE, False),  # Parquet stores them alike
        (INTEGER, SHORT, False),
        (SHORT, INTEGER, True),
        (LONG, VOID, False),  # no value but null
        (VOID, LONG, False),
    ],
)
def test_data_of_another_type_is_told_wherever_it_is(known, given, is_unlike):
    """A write that does not cast stores a value that is not the data's."""
    for wrap in (
        lambda kind: kind,
        lambda kind: Array(element=kind),
        lambda kind: Map(key=STRING, value=schema(x=kind)),
    ):
        assert bool(list(mismatches(schema(a=wrap(known)), schema(a=wrap(given))))) is is_unlike


def test_a_type_that_is_stored_alike_is_widened_without_a_record():
    """The table's metadata has type changes, which only the feature allows."""
    assert merge_schemas(
        schema(a=BYTE, s=schema(x=BYTE)), schema(a=SHORT, s=schema(x=INTEGER)), is_stored_alike, records=False
    ) == schema(a=SHORT, s=schema(x=INTEGER))


def test_who_widens():
    feature = frozenset({"typeWidening"})
    plain = Protocol(reader_version=3, writer_version=7, reader_features=feature, writer_features=feature)
    iceberg = Protocol(
        reader_version=3, writer_version=7, reader_features=feature, writer_features=feature | {"icebergCompatV1"}
    )
    on = Metadata(id="m", schema_string=schema(a=LONG).to_json(), configuration={"delta.enableTypeWidening": "true"})
    off = Metadata(id="m", schema_string=schema(a=LONG).to_json())
    assert widening_of(plain, on, table="t") is is_widening
    assert widening_of(iceberg, on, table="t") is is_widening_for_iceberg
    assert widening_of(plain, off, table="t") is None
    assert widening_of(Protocol(reader_version=1, writer_version=2), on, table="t") is None


def test_iceberg_widens_less():
    pairs = [(INTEGER, LONG), (FLOAT, DOUBLE), (Decimal(5, 2), Decimal(9, 2)), (VOID, DOUBLE)]
    others = [(INTEGER, DOUBLE), (DATE, TIMESTAMP_NTZ), (Decimal(5, 2), Decimal(9, 3)), (INTEGER, Decimal(12, 0))]
    assert all(is_widening(*pair) for pair in [*pairs, *others])
    assert [pair for pair in [*pairs, *others] if is_widening_for_iceberg(*pair)] == pairs


def test_a_void_field_may_be_missing_and_takes_no_value():
    wanted = Struct((Field(name="x", type=VOID), Field(name="y", type=LONG)))
    assert not list(unlike_fields(Struct((Field(name="y", type=LONG),)), wanted))
    assert not list(unlike_fields(wanted, wanted))
    (lost,) = unlike_fields(Struct((Field(name="x", type=LONG), Field(name="y", type=LONG))), wanted, ("s",))
    assert lost == "s.x has type void, whose values are not stored"
