"""Column mapping: a wrong physical name reads nulls where there are values."""

from itertools import count

import pytest

from tahoe.errors import InvalidPropertyError
from tahoe.protocol.changes.table_configuration import TableConfiguration
from tahoe.protocol.configuration.column_mapping import (
    ID,
    NESTED_IDS,
    PHYSICAL_NAME,
    assign_mapping,
    column_id,
    mapping_mode,
    physical_name,
    physical_path,
    physical_schema,
    without_mapping,
)
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.schema import INTEGER, STRING, Array, Field, Map, Struct, walk_fields

NAME = {"delta.columnMapping.mode": "name"}

SCHEMA = Struct(
    (
        Field(name="a", type=INTEGER),
        Field(name="s", type=Struct((Field(name="b", type=STRING), Field(name="c", type=Array(element=INTEGER))))),
        Field(name="list", type=Array(element=Struct((Field(name="d", type=INTEGER),)))),
        Field(name="map", type=Map(key=STRING, value=Array(element=Struct((Field(name="e", type=INTEGER),))))),
    )
)


def names():
    numbers = count(1)
    return lambda _: f"col-{next(numbers)}"


@pytest.mark.parametrize(
    ("protocol", "mode"),
    [
        (Protocol(reader_version=1, writer_version=2), "none"),
        (Protocol(reader_version=2, writer_version=5), "name"),
        (Protocol(reader_version=2, writer_version=7, writer_features=frozenset({"columnMapping"})), "name"),
        (
            Protocol(
                reader_version=3,
                writer_version=7,
                reader_features=frozenset(),
                writer_features=frozenset({"columnMapping"}),
            ),
            "none",
        ),
        (Protocol(reader_version=3, writer_version=7, reader_features=frozenset({"columnMapping"})), "name"),
    ],
)
def test_the_mode_counts_only_where_the_protocol_supports_it(protocol, mode):
    assert mapping_mode(protocol, NAME) == mode
    assert mapping_mode(protocol, {}) == "none"


def test_every_field_at_every_depth_gets_an_id_and_a_name_parents_first():
    assigned, highest = assign_mapping(SCHEMA, "name", names(), 0)
    found = {path: (column_id(f), physical_name(f)) for path, f in walk_fields(assigned)}
    assert highest == 8
    assert sorted(i for i, _ in found.values()) == list(range(1, 9))
    assert {name for _, name in found.values()} == {f"col-{i}" for i in range(1, 9)}
    assert [f.name for f in assigned] == ["a", "s", "list", "map"]


def test_assigned_fields_keep_theirs_and_ids_only_rise():
    # A reused id would make a reader by id show a dropped column's values.
    old, _ = assign_mapping(Struct((Field(name="x", type=INTEGER),)), "id", names(), 0)
    grown, highest = assign_mapping(Struct((*old.fields, Field(name="y", type=INTEGER))), "id", lambda _: "new", 41)
    assert (column_id(grown.fields[0]), physical_name(grown.fields[0])) == (1, "col-1")
    assert (column_id(grown.fields[1]), physical_name(grown.fields[1]), highest) == (42, "new", 42)


def test_ids_of_list_elements_are_not_given_again():
    field = Field(
        name="l", type=Array(element=INTEGER), metadata={ID: 1, PHYSICAL_NAME: "p", NESTED_IDS: {"p.element": 9}}
    )
    _, highest = assign_mapping(Struct((field, Field(name="n", type=INTEGER))), "name", names(), 1)
    assert highest == 10


def test_the_physical_schema_has_physical_names_at_every_depth():
    assigned, _ = assign_mapping(SCHEMA, "name", names(), 0)
    physical = physical_schema(assigned, "name")
    assert all(f.name == f.metadata[PHYSICAL_NAME] for _, f in walk_fields(physical))
    assert physical_schema(assigned, "none") == assigned


def test_physical_paths_follow_the_schema_without_regard_to_case():
    assigned, _ = assign_mapping(SCHEMA, "name", names(), 0)
    s = assigned.fields[1]
    assert isinstance(s.type, Struct)
    assert physical_path(assigned, ("S", "B"), "name") == (physical_name(s), physical_name(s.type.fields[0]))
    assert physical_path(assigned, ("s", "b"), "none") == ("s", "b")
    assert physical_path(assigned, ("s", "nothing"), "name") is None


def test_mode_none_and_stripping_leave_no_trace():
    assert assign_mapping(SCHEMA, "none", names(), 3) == (SCHEMA, 3)
    assigned, _ = assign_mapping(SCHEMA, "id", names(), 0)
    assert without_mapping(assigned) == SCHEMA


@pytest.mark.parametrize("text", ["x", "", "1.5", "-1"])
def test_a_highest_id_of_another_writer_must_be_a_number(text):
    schema, _ = assign_mapping(SCHEMA, "name", names(), 0)
    metadata = Metadata(
        id="m", schema_string=schema.to_json(), configuration={**NAME, "delta.columnMapping.maxColumnId": text}
    )
    table = TableConfiguration(table="t", protocol=Protocol(reader_version=2, writer_version=5), metadata=metadata)
    with pytest.raises(InvalidPropertyError, match=r"delta\.columnMapping\.maxColumnId"):
        table.with_schema(Struct((*schema, Field(name="new", type=INTEGER))), lambda: "n")
