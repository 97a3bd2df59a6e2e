"""Definitions of Bloom filters: a wrong one leaves queries slow, and one for a type with equal values of unequal bytes
would lose rows.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.errors import BloomFilterColumnError
from tahoe.protocol.configuration.bloom_filter_columns import checked_filters, filtered_columns
from tahoe.protocol.configuration.bloom_filters import (
    BloomFilter,
    bloom_filter,
    encode_bloom_filters,
    moved,
    parse_bloom_filters,
    without,
)
from tahoe.protocol.types.schema import DOUBLE, FLOAT, LONG, STRING, Array, Field, Struct

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6).filter(
    lambda name: name == name.strip()
)
DEFINITIONS = st.builds(
    BloomFilter,
    path=st.lists(NAMES, min_size=1, max_size=3).map(tuple),
    fpp=st.sampled_from([0.01, 0.5, 0.001, 1e-9, 0.1234567]),
    num_items=st.none() | st.integers(1, 1 << 40),
)
SCHEMA = Struct(
    (
        Field(name="id", type=LONG),
        Field(name="S", type=Struct((Field(name="x", type=STRING), Field(name="y.z", type=LONG)))),
        Field(name="f", type=FLOAT),
        Field(name="d", type=DOUBLE),
        Field(name="list", type=Array(element=LONG, contains_null=True)),
        Field(name="part", type=STRING),
    )
)


@given(st.lists(DEFINITIONS, max_size=4, unique_by=lambda found: tuple(name.lower() for name in found.path)))
def test_a_definition_is_read_as_it_was_written(definitions: list[BloomFilter]) -> None:
    assert parse_bloom_filters(encode_bloom_filters(definitions)) == tuple(definitions)


def test_users_write_definitions_as_in_sql() -> None:
    found = parse_bloom_filters(" id ( FPP 0.1, numitems = 5 ) ,`a.b`.c(numItems='7'), d ()")
    assert [str(definition) for definition in found] == ["id (fpp = 0.1, numItems = 5)", "`a.b`.c (numItems = 7)", "d"]


@pytest.mark.parametrize(
    "text",
    [
        "id,",
        ",id",
        "id (fpp = 2)",
        "id (fpp = nan)",
        "id (numItems = 0)",
        "id (max = 1)",
        "a, A",
        "id (",
        "`a",
        "id (fpp)",
        "a b (c) d",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=None):  # the property says what it takes
        parse_bloom_filters(text)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([("fpp", "1")], "between 0 and 1"),
        ([("numItems", "x")], "numItems = x"),
        ([("size", "1")], "fpp and numItems"),
        ([("fpp", ".1"), ("FPP", ".2")], "twice"),
    ],
)
def test_what_is_wrong_with_an_option_is_told(options: list[tuple[str, str]], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        bloom_filter(("id",), options)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (("no",), "no such column"),
        (("part",), "partitioned by it"),
        (("f",), "float"),
        (("d",), "double"),
        (("s",), "one of its fields"),
        (("list",), "array"),
        (("s", "Y.Z"), "a dot"),
    ],
)
def test_a_column_that_cannot_have_filters_is_refused_and_later_passed_over(path: tuple[str, ...], told: str) -> None:
    definitions = [BloomFilter(path=path)]
    with pytest.raises(BloomFilterColumnError, match=told):
        checked_filters(definitions, SCHEMA, ["part"], "none", table="t")
    assert not filtered_columns(definitions, SCHEMA, ["part"], "none")


def test_columns_are_spelled_as_in_the_schema_and_named_as_in_files() -> None:
    found = checked_filters([BloomFilter(path=("ID",)), BloomFilter(path=("s", "X"))], SCHEMA, (), "none", table="t")
    assert [definition.path for definition in found] == [("id",), ("S", "x")]
    assert list(filtered_columns(found, SCHEMA, (), "none")) == ["id", "S.x"]


def test_definitions_follow_their_columns() -> None:
    definitions = parse_bloom_filters("a (fpp = 0.5), s.x, s.y")
    assert encode_bloom_filters(moved(definitions, ("A",), ("b",))) == "b (fpp = 0.5), s.x, s.y"
    assert encode_bloom_filters(moved(definitions, ("s",), ("t",))) == "a (fpp = 0.5), t.x, t.y"
    assert encode_bloom_filters(moved(definitions, ("s",), None)) == "a (fpp = 0.5)"
    assert encode_bloom_filters(without(definitions, [("S", "X")])) == "a (fpp = 0.5), s.y"
