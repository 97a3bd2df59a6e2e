"""Bounds of values inside variants: their paths and their binary form, and where a damaged one is no bound."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal as PyDecimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.protocol.log.deletion_vector import z85_decode, z85_encode
from tahoe.protocol.statistics.stats import Statistics, encode_statistics, parse_statistics, wide_bounds
from tahoe.protocol.statistics.variant_casts import cast_bounds
from tahoe.protocol.statistics.variants import (
    PATHS_MAX,
    bound_of,
    bounds_in,
    encode_bounds,
    normalized_path,
    parts_of,
    variant_bounds_of,
)
from tahoe.protocol.types.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    Decimal,
    Field,
    Struct,
)

SCHEMA = Struct((Field(name="v", type=VARIANT),))

# The keys and their paths that the reference has.
PATHS = [
    ([], "$"),
    (["a", "b"], "$['a']['b']"),
    ([""], "$['']"),
    (["a.b", "[0]"], "$['a.b']['[0]']"),
    (["it's"], r"$['it\'s']"),
    (["back\\slash"], r"$['back\\slash']"),
    (['"quoted"'], "$['\"quoted\"']"),
    (["\b\f\n\r\t"], r"$['\b\f\n\r\t']"),
    (["\0\x0b\x1f \x7f"], "$['\\u0000\\u000b\\u001f \x7f']"),
    (["ñ名字🌍"], "$['ñ名字🌍']"),
]


@pytest.mark.parametrize(("keys", "path"), PATHS)
def test_paths_are_normalized(keys, path):
    assert normalized_path(keys) == path


@given(st.lists(st.text(max_size=5), max_size=3), st.lists(st.text(max_size=5), max_size=3))
def test_no_two_values_have_one_path(one, other):
    assert (normalized_path(one) == normalized_path(other)) == (one == other)


def integers(bits):
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def decimals(precision, scale):
    return st.integers(1 - 10**precision, 10**precision - 1).map(lambda number: PyDecimal(f"{number}e-{scale}"))


VALUES = st.one_of(
    *(st.tuples(st.just(kind), integers(bits)) for kind, bits in ((BYTE, 8), (SHORT, 16), (INTEGER, 32), (LONG, 64))),
    st.tuples(st.just(FLOAT), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just(DOUBLE), st.floats(allow_nan=False)),
    st.tuples(st.just(STRING), st.text(st.characters(exclude_categories=["Cs"]), max_size=300)),
    st.tuples(st.just(DATE), st.dates()),
    st.tuples(st.just(DATE), st.just((1 << 31) - 1)),
    st.tuples(st.just(TIMESTAMP), st.datetimes(timezones=st.just(UTC))),
    st.tuples(st.just(TIMESTAMP_NTZ), st.one_of(st.datetimes(), st.just(-(1 << 63)))),
    *(
        st.tuples(st.just(Decimal(precision, scale)), decimals(precision, scale))
        for precision, scale in ((9, 2), (18, 0), (18, 18), (38, 37))
    ),
)
BOUNDS = st.dictionaries(st.lists(st.text(max_size=9), max_size=3).map(normalized_path), VALUES, max_size=40)


@given(BOUNDS)
def test_bounds_are_read_as_they_were_written(bounds):
    data = z85_decode(encode_bounds(bounds))
    assert bounds_in(data) == bounds
    metadata, value = parts_of(data)
    assert data.startswith(metadata + value)
    assert len(data) < len(metadata + value) + 4
    assert all(bound_of(data, path) == value for path, value in bounds.items())


def test_many_keys_and_long_values_have_wider_numbers():
    bounds = {normalized_path([f"{'k' * 300}{number}"]): (STRING, "x" * number * 7) for number in range(300)}
    assert bounds_in(z85_decode(encode_bounds(bounds))) == bounds


@given(BOUNDS, st.data())
def test_a_damaged_variant_is_no_bound_or_another_one(bounds, data):
    whole = z85_decode(encode_bounds(bounds))
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for place in data.draw(st.lists(st.integers(0, max(0, len(damaged) - 1)), max_size=3)) if damaged else ():
        damaged[place] = data.draw(st.integers(0, 255))
    for path in [*bounds, "$"]:
        bound_of(bytes(damaged), path)  # raises nothing
    variant_bounds_of(z85_encode(bytes(damaged)))


@pytest.mark.parametrize("text", ["", "a", "abcde", "\u1234bcde", "%%%%%", "00000"])
def test_a_text_that_is_no_variant_has_no_bounds(text):
    assert not variant_bounds_of(text)


@given(st.binary(max_size=40))
def test_z85_is_read_as_it_was_written(data):
    assert z85_decode(z85_encode(data)).rstrip(b"\0") == data.rstrip(b"\0")


# --- in the statistics of a file


def texts_of(low, high):
    """The texts in a log, of bounds as a footer has them."""
    statistics = Statistics(num_records=3, min_values={("v",): low}, max_values={("v",): high}, null_count={("v",): 1})
    return encode_statistics(statistics, SCHEMA)


def test_long_texts_are_cut_as_those_of_columns():
    low = {"$['s']": (STRING, "a" * 40), "$['t']": (STRING, "b")}
    high = {"$['s']": (STRING, "x" * 40), "$['t']": (STRING, "\U0010ffff" * 70)}
    body = json.loads(texts_of(low, high))
    assert variant_bounds_of(body["minValues"]["v"]) == {"$['s']": (STRING, "a" * 32), "$['t']": (STRING, "b")}
    assert variant_bounds_of(body["maxValues"]["v"]) == {"$['s']": (STRING, "x" * 32 + "\U0010ffff")}


def test_the_first_paths_of_a_variant_have_bounds():
    bounds = {normalized_path([f"{number:03}"]): (LONG, number) for number in range(PATHS_MAX + 10)}
    found = variant_bounds_of(json.loads(texts_of(bounds, bounds))["minValues"]["v"])
    assert found == dict(list(bounds.items())[:PATHS_MAX])


def test_a_variant_without_paths_has_no_bounds():
    assert json.loads(texts_of({}, {})) == {"numRecords": 3, "nullCount": {"v": 1}}


def test_texts_are_kept_as_they_are():
    bounds = {"$['s']": (STRING, "a" * 20)}
    text = texts_of(bounds, bounds)
    statistics = parse_statistics(text, SCHEMA)
    assert statistics is not None
    assert encode_statistics(statistics, SCHEMA, prefix_length=4) == text
    assert json.loads(wide_bounds(text, 3)) == json.loads(text) | {"tightBounds": False}


# --- casts


@pytest.mark.parametrize(
    ("low", "high", "target", "expected"),
    [
        ((LONG, -128), (LONG, 127), BYTE, (-128, 127)),
        ((LONG, -129), (LONG, 127), BYTE, None),
        ((LONG, 0), (LONG, 128), BYTE, None),
        ((LONG, 0), (LONG, 5), STRING, None),
        ((LONG, 0), (LONG, 5), TIMESTAMP, None),
        ((LONG, 0), (LONG, 99), Decimal(4, 2), (0, 99)),
        ((LONG, 0), (LONG, 100), Decimal(4, 2), None),
        (
            (Decimal(18, 2), PyDecimal("1.10")),
            (Decimal(18, 2), PyDecimal("9.99")),
            Decimal(3, 2),
            (PyDecimal("1.10"), PyDecimal("9.99")),
        ),
        ((Decimal(18, 2), PyDecimal("1.10")), (Decimal(18, 2), PyDecimal("9.99")), Decimal(10, 1), None),
        ((Decimal(18, 2), PyDecimal(1)), (Decimal(18, 2), PyDecimal(9)), LONG, None),
        ((DOUBLE, 1.0), (DOUBLE, 2.0), FLOAT, None),
        ((DOUBLE, 1.0), (DOUBLE, 2.0), LONG, None),
        ((FLOAT, 1.0), (FLOAT, 2.0), DOUBLE, (1.0, 2.0)),
        ((STRING, "1"), (STRING, "2"), LONG, None),
        ((STRING, "1"), (STRING, "2"), STRING, ("1", "2")),
        ((STRING, "2"), (STRING, "1"), STRING, None),
        ((STRING, "1"), (LONG, 2), STRING, None),
        ((STRING, "1"), None, STRING, None),
        ((STRING, "a"), (STRING, "b" * 31 + "?\U0010ffff"), STRING, None),
        ((DATE, date(2020, 1, 1)), (DATE, date(2020, 1, 2)), DATE, (date(2020, 1, 1), date(2020, 1, 2))),
        ((DATE, date(2020, 1, 1)), (DATE, date(2020, 1, 2)), TIMESTAMP, None),
        ((TIMESTAMP_NTZ, datetime(2020, 1, 1)), (TIMESTAMP_NTZ, datetime(2020, 1, 2)), TIMESTAMP, None),
    ],
)
def test_bounds_tell_of_casts_that_keep_the_order(low, high, target, expected):
    assert cast_bounds(low, high, target) == expected


def test_numbers_are_cast_to_the_doubles_around_them():
    low, high = cast_bounds((LONG, (1 << 53) + 1), (LONG, (1 << 60) + 1), DOUBLE)
    assert low <= float((1 << 53) + 1)
    assert high >= float((1 << 60) + 1)
    assert (low, high) == pytest.approx((1 << 53, 1 << 60))
