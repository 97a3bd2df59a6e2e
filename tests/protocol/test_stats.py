"""Statistics of one file: wrong ones make queries lose rows."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal as PyDecimal

import pytest

from tahoe.protocol.statistics.stats import (
    Statistics,
    encode_statistics,
    parse_statistics,
    statistics_columns,
    truncate_max,
    truncate_min,
)
from tahoe.protocol.types.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Array,
    Decimal,
    Field,
    Struct,
)

SCHEMA = Struct(
    (
        Field(name="i", type=INTEGER),
        Field(name="f", type=FLOAT),
        Field(name="x", type=DOUBLE),
        Field(name="dec", type=Decimal(38, 10)),
        Field(name="s", type=STRING),
        Field(name="day", type=DATE),
        Field(name="ts", type=TIMESTAMP),
        Field(name="ntz", type=TIMESTAMP_NTZ),
        Field(name="flag", type=BOOLEAN),
        Field(name="in", type=Struct((Field(name="a.b", type=INTEGER), Field(name="l", type=Array(element=INTEGER))))),
    )
)


def test_what_the_reference_wrote_is_read_as_typed_values():
    text = '{"numRecords":3,"minValues":{"i":0,"f":3.4,"x":0.0,"dec":1234567890123456789012345678.0123456789,"s":"0","day":"2000-01-01","ts":"2000-01-01T00:00:00.000-08:00","ntz":"2021-11-18T02:30:00.123","in":{"a.b":7}},"maxValues":{"i":2},"nullCount":{"i":0,"flag":1,"in":{"a.b":2}}}'
    assert parse_statistics(text, SCHEMA) == Statistics(
        num_records=3,
        min_values={
            ("i",): 0,
            ("f",): 3.4000000953674316,
            ("x",): 0.0,
            ("dec",): PyDecimal("1234567890123456789012345678.0123456789"),
            ("s",): "0",
            ("day",): date(2000, 1, 1),
            ("ts",): datetime(2000, 1, 1, 8, tzinfo=UTC),
            ("ntz",): datetime(2021, 11, 18, 2, 30, 0, 123000),
            ("in", "a.b"): 7,
        },
        max_values={("i",): 2},
        null_count={("i",): 0, ("flag",): 1, ("in", "a.b"): 2},
    )


@pytest.mark.parametrize("text", [None, "", "not json", "[]", "3", "null"])
def test_text_that_holds_no_statistics_says_nothing(text):
    assert parse_statistics(text, SCHEMA) is None


@pytest.mark.parametrize(
    "value",
    [
        {"i": "5"},
        {"i": 1.5},
        {"i": True},
        {"i": 1e300},
        {"x": "NaN"},
        {"x": [1]},
        {"dec": 0.12345678901},
        {"s": 5},
        {"day": "yesterday"},
        {"ts": "2000-01-01T00:00:00.000"},  # without a zone it is no point in time
        {"in": 5},
        {"in": {"a.b": {"c": 1}}},
        {"flag": True},
    ],
)
def test_a_value_that_does_not_fit_its_column_says_nothing(value):
    found = parse_statistics(
        json.dumps({"minValues": value, "maxValues": value, "nullCount": {"i": -1, "x": 1.5, "s": True}}), SCHEMA
    )
    assert found == Statistics()


def test_a_bare_nan_says_nothing_about_the_other_values():
    assert parse_statistics('{"minValues":{"x":NaN,"i":1},"tightBounds":false}', SCHEMA) == Statistics(
        tight_bounds=False, min_values={("i",): 1}
    )


def test_statistics_are_written_as_the_reference_writes_them():
    values = {
        ("i",): 1,
        ("f",): 0.5,
        ("x",): -0.0,
        ("dec",): PyDecimal("1E+3"),
        ("s",): 'ä"\n' + "b" * 40,
        ("day",): date(987, 1, 2),
        ("ts",): datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        ("ntz",): datetime(2024, 1, 1),
        ("in", "a.b"): 2,
    }
    statistics = Statistics(
        num_records=9, min_values=values, max_values=values, null_count={("flag",): 4, ("in", "a.b"): 0, ("in", "l"): 1}
    )
    low = (
        f'"i":1,"f":0.5,"x":-0.0,"dec":1000,"s":"ä\\"\\n{"b" * 29}","day":"0987-01-02","ts":"1969-12-31T23:59:59.999Z"'
    )
    high = low.replace("b" * 29, "b" * 29 + "\x7f")
    rest = ',"ntz":"2024-01-01T00:00:00.000","in":{"a.b":2}'
    assert encode_statistics(statistics, SCHEMA) == (
        '{"numRecords":9,"minValues":{'
        + low
        + rest
        + '},"maxValues":{'
        + high
        + rest
        + '},"nullCount":{"flag":4,"in":{"a.b":0,"l":1}}}'
    )


def test_what_json_cannot_hold_is_left_out():
    values = {("x",): float("inf"), ("f",): float("nan"), ("i",): None}
    assert (
        encode_statistics(Statistics(num_records=1, min_values=values, tight_bounds=False), SCHEMA)
        == '{"numRecords":1,"tightBounds":false}'
    )


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("a" * 32, "a" * 32),
        ("a" * 33, "a" * 32 + "\x7f"),
        ("a" * 32 + "\x7f", "a" * 32 + "\U0010ffff"),
        ("a" * 32 + "ä", "a" * 32 + "\U0010ffff"),
        ("a" * 32 + "\U0010ffff" + "b", "a" * 32 + "\U0010ffff\x7f"),
        ("\U0001f600" * 33, "\U0001f600" * 32 + "\U0010ffff"),
        ("a" * 32 + "\U0010ffff" * 40, None),
    ],
)
def test_a_cut_maximum_is_not_smaller(text, cut):
    assert truncate_max(text) == cut
    assert cut is None or cut.encode() >= text.encode()
    assert truncate_min(text).encode() <= text.encode()


COLUMNS = Struct(
    (
        Field(name="p", type=STRING),
        Field(name="a", type=INTEGER),
        Field(name="s", type=Struct((Field(name="b", type=INTEGER), Field(name="c", type=STRING)))),
        Field(name="nothing", type=VOID),
        Field(name="d.e", type=BINARY),
    )
)


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({}, [("a",), ("s", "b"), ("s", "c"), ("d.e",)]),
        ({"delta.dataSkippingNumIndexedCols": "2"}, [("a",), ("s", "b")]),
        ({"delta.dataSkippingNumIndexedCols": "0"}, []),
        ({"delta.dataSkippingNumIndexedCols": "-1"}, [("a",), ("s", "b"), ("s", "c"), ("d.e",)]),
        (
            {"delta.dataSkippingStatsColumns": "S, `d.e`", "delta.dataSkippingNumIndexedCols": "0"},
            [("s", "b"), ("s", "c"), ("d.e",)],
        ),
        ({"delta.dataSkippingStatsColumns": "s.c,gone"}, [("s", "c")]),
    ],
)
def test_the_columns_that_get_statistics_follow_the_properties(configuration, expected):
    assert [path for path, _ in statistics_columns(COLUMNS, ["p"], configuration)] == expected


def test_clustering_columns_always_get_statistics():
    # Protocol: "Writers must write out per-column statistics for clustering columns".
    found = statistics_columns(COLUMNS, [], {"delta.dataSkippingNumIndexedCols": "1"}, clustering=[("s", "c")])
    assert [path for path, _ in found] == [("p",), ("s", "c")]


def test_thirty_two_leaves_are_the_default():
    wide = Struct(tuple(Field(name=f"c{n}", type=INTEGER) for n in range(40)))
    assert len(statistics_columns(wide, ["c0"], {})) == 32
