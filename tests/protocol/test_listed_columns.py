"""`delta.dataSkippingStatsColumns` lists only columns that can have statistics: the reference refuses any change of a
table with another list, and without a column that exists new files would have no statistics.
"""

from __future__ import annotations

import pytest

from tahoe.errors import (
    DuplicateStatisticsColumnsError,
    InvalidPropertyError,
    PartitionStatisticsColumnError,
    StatisticsColumnError,
    StatisticsColumnNotFoundError,
    StatisticsColumnTypeError,
)
from tahoe.protocol.statistics.listed_columns import check_listed, unusable_columns, without_unusable
from tahoe.protocol.statistics.stats import statistics_columns
from tahoe.protocol.types.schema import BINARY, BOOLEAN, INTEGER, LONG, STRING, Array, Field, Struct

NAME = "delta.dataSkippingStatsColumns"

_INNER = Struct(
    (Field(name="x", type=INTEGER), Field(name="l", type=Array(element=LONG)), Field(name="b.c", type=STRING))
)
SCHEMA = Struct(
    (
        Field(name="id", type=LONG),
        Field(name="a.b", type=STRING),
        Field(name="s", type=_INNER),
        Field(name="m", type=Array(element=LONG)),
        Field(name="f", type=BOOLEAN),
        Field(name="bytes", type=BINARY),
        Field(name="p", type=INTEGER),
    )
)

LEGAL = ["", "id", "ID", "`a.b`", "s", "s.x", "s.l", "S.X", "s.`b.c`", "id,s", "id, `a.b` ,s.x,s.l"]
# a list, the error, and what is left of the list
ILLEGAL = [
    ("nope", StatisticsColumnNotFoundError, None),
    ("id,nope", StatisticsColumnNotFoundError, "id"),
    ("a.b", StatisticsColumnNotFoundError, None),
    ("s.nope,id", StatisticsColumnNotFoundError, "id"),
    ("m.element", StatisticsColumnNotFoundError, None),
    ("p", PartitionStatisticsColumnError, None),
    ("id,P", PartitionStatisticsColumnError, "id"),
    ("m", StatisticsColumnTypeError, None),
    ("f,id", StatisticsColumnTypeError, "id"),
    ("bytes", StatisticsColumnTypeError, None),
    ("id,id", DuplicateStatisticsColumnsError, "id"),
    ("id,ID", DuplicateStatisticsColumnsError, "id"),
    ("s,s.x", DuplicateStatisticsColumnsError, "s"),
    ("s.x,s", DuplicateStatisticsColumnsError, "s.x"),
]


@pytest.mark.parametrize("text", LEGAL)
def test_legal_lists(text: str) -> None:
    configuration = {NAME: text, "a": "b"}
    check_listed(configuration, SCHEMA, ["p"], table="t")
    assert unusable_columns(configuration, SCHEMA, ["p"], table="t") == []
    assert without_unusable(configuration, SCHEMA, ["p"], table="t") == configuration


@pytest.mark.parametrize(("text", "error", "left"), ILLEGAL)
def test_illegal_lists(text: str, error: type[StatisticsColumnError], left: str | None) -> None:
    configuration = {NAME: text, "a": "b"}
    with pytest.raises(error) as raised:
        check_listed(configuration, SCHEMA, ["p"], table="t")
    assert isinstance(raised.value, InvalidPropertyError)
    assert len(unusable_columns(configuration, SCHEMA, ["p"], table="t")) == 1
    rest = without_unusable(configuration, SCHEMA, ["p"], table="t")
    assert rest == ({"a": "b"} if left is None else {NAME: left, "a": "b"})
    check_listed(rest, SCHEMA, ["p"], table="t")


@pytest.mark.parametrize("text", ["nope", "p", "nope,s.nope"])
def test_a_list_without_a_column_that_exists_counts_as_none(text: str) -> None:
    """Else no new file would have statistics of any column."""
    without = statistics_columns(SCHEMA, ["p"], {})
    assert statistics_columns(SCHEMA, ["p"], {NAME: text}) == without
    assert statistics_columns(SCHEMA, ["p"], {NAME: ""}) == ()
    assert [path for path, _ in statistics_columns(SCHEMA, ["p"], {NAME: f"{text},id"})] == [("id",)]
