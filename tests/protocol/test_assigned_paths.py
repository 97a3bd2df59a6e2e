"""Names in SET and in MERGE's clauses mean columns and fields of structs, whoever runs the statement."""

from __future__ import annotations

import pytest

from tahoe.errors import ColumnNotFoundError, ConflictingAssignmentsError, UnsupportedOperationError
from tahoe.protocol.types.assigned_paths import assigned_paths, without_qualifier
from tahoe.protocol.types.schema import INTEGER, STRING, VOID, Array, Field, Struct

PLACE = Struct((Field(name="City", type=STRING), Field(name="n", type=INTEGER)))
SCHEMA = Struct(
    (
        Field(name="id", type=INTEGER),
        Field(name="place", type=PLACE),
        Field(name="tags", type=Array(element=STRING, contains_null=True)),
        Field(name="nothing", type=VOID),
        Field(name="t", type=Struct((Field(name="id", type=INTEGER),))),
    )
)


def paths(*names: str, qualifier: tuple[str, ...] = ("s", "t")) -> list[tuple[str, ...]]:
    written = ((name, without_qualifier(tuple(name.split(".")), qualifier)) for name in names)
    return assigned_paths(written, SCHEMA, table="/t")


def test_paths_are_spelled_as_in_the_schema_and_a_qualifier_is_no_part_of_them() -> None:
    assert paths("ID", "Place.city", "s.t.tags") == [("id",), ("place", "City"), ("tags",)]


def test_a_column_goes_before_a_qualifier_of_the_same_name() -> None:
    assert paths("t.id") == [("t", "id")]


@pytest.mark.parametrize(
    ("names", "first", "second"),
    [(("id", "t.tags", "ID"), "id", "ID"), (("place.n", "place"), "place.n", "place"), (("t", "t.id"), "t", "t.id")],
)
def test_no_value_is_assigned_twice(names: tuple[str, ...], first: str, second: str) -> None:
    """The first one would be lost without a word. The error has both names as the user wrote them."""
    with pytest.raises(ConflictingAssignmentsError) as caught:
        paths(*names)
    assert (caught.value.parameters["first"], caught.value.parameters["second"]) == (first, second)


@pytest.mark.parametrize("name", ["ids", "place.town", "x.id", "id.x.y"])
def test_what_is_no_column_is_named(name: str) -> None:
    with pytest.raises((ColumnNotFoundError, UnsupportedOperationError), match=name):
        paths(name)


def test_the_names_that_are_like_a_wrong_one_come_first() -> None:
    with pytest.raises(ColumnNotFoundError, match=r"place, id, tags"):
        paths("plaec")


@pytest.mark.parametrize(("name", "detail"), [("tags.x", "only fields of structs"), ("nothing", "type void")])
def test_what_has_no_value_of_its_own_cannot_be_assigned(name: str, detail: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=detail):
        paths(name)
