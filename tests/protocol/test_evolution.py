"""How schemas grow."""

from tahoe.protocol.evolution import merge_schemas, new_columns
from tahoe.protocol.schema import INTEGER, LONG, STRING, VOID, Array, Field, Map, Struct


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
