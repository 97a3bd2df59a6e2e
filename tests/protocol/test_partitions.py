"""Partition values and paths: wrong ones read the wrong rows, or the wrong file."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal as PyDecimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tahoe.errors import DeltaError, InvalidPartitionValueError, PathOutsideTableError, UnsupportedOperationError
from tahoe.protocol.log.file_paths import canonical_key, decode_path, encode_path, encode_url, resolve_path
from tahoe.protocol.types.partitions import (
    ascii_folder,
    format_partition_value,
    parse_partition_value,
    partition_folder,
)
from tahoe.protocol.types.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
)

BERLIN = ZoneInfo("Europe/Berlin")

# Each was found in a table of another writer, or is an example of the protocol.
VALUES = [
    ("0", INTEGER, 0),
    ("-12", LONG, -12),
    ("1.0", DOUBLE, 1.0),
    ("0.1", FLOAT, 0.10000000149011612),
    ("-Infinity", DOUBLE, float("-inf")),
    ("true", BOOLEAN, True),
    ("false", BOOLEAN, False),
    ("null", STRING, "null"),
    ("1", Decimal(10, 2), PyDecimal("1.00")),
    ("-2342222.23454", Decimal(12, 5), PyDecimal("-2342222.23454")),
    ("0", Decimal(38, 38), PyDecimal("0")),
    ("2021-09-08", DATE, date(2021, 9, 8)),
    ("2021-9-8", DATE, date(2021, 9, 8)),
    ("1970-01-01 00:00:00", TIMESTAMP, datetime(1969, 12, 31, 23, tzinfo=UTC)),
    ("2020-01-01 08:09:10.001", TIMESTAMP, datetime(2020, 1, 1, 7, 9, 10, 1000, UTC)),
    ("2024-01-01T10:00:00.000000Z", TIMESTAMP, datetime(2024, 1, 1, 10, tzinfo=UTC)),
    ("2024-01-01T10:00:00+02:00", TIMESTAMP, datetime(2024, 1, 1, 8, tzinfo=UTC)),
    ("2024-01-01 10:00:00 America/New_York", TIMESTAMP, datetime(2024, 1, 1, 15, tzinfo=UTC)),
    ("2013-07-05 17:01:00.123456", TIMESTAMP_NTZ, datetime(2013, 7, 5, 17, 1, 0, 123456)),
    ("\u0001\u0002\u0003", BINARY, b"\x01\x02\x03"),
    ("\\u0001\\u00FF", BINARY, b"\x01\xff"),
]


@pytest.mark.parametrize(("text", "data_type", "value"), VALUES)
def test_a_text_is_read_as_its_type(text, data_type, value):
    found = parse_partition_value(text, data_type, zone=BERLIN)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("data_type", [STRING, INTEGER, DATE, TIMESTAMP, BINARY, Decimal(5, 2), BOOLEAN])
@pytest.mark.parametrize("text", [None, ""])
def test_null_and_the_empty_text_are_null_for_every_type(text, data_type):
    assert parse_partition_value(text, data_type) is None


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("x", INTEGER),
        ("200", BYTE),
        ("1.5", LONG),
        ("1000", Decimal(3, 0)),
        ("2021-13-01", DATE),
        ("25:00", TIMESTAMP),
        ("yes", BOOLEAN),
    ]
    + [(text, kind) for text in ("1_0", "\u0661") for kind in (INTEGER, LONG, FLOAT, DOUBLE, Decimal(5, 2))],
)
def test_a_text_that_is_no_value_is_refused_and_not_read_as_null(text, data_type):
    with pytest.raises(InvalidPartitionValueError, match=text):
        parse_partition_value(text, data_type, table="t")


def test_local_times_in_a_gap_and_in_an_overlap_are_read_as_java_reads_them():
    gap = parse_partition_value("2024-03-31 02:30:00", TIMESTAMP, zone=BERLIN)
    overlap = parse_partition_value("2024-10-27 02:30:00", TIMESTAMP, zone=BERLIN)
    assert gap == datetime(2024, 3, 31, 1, 30, tzinfo=UTC)
    assert overlap == datetime(2024, 10, 27, 0, 30, tzinfo=UTC)


def test_years_that_python_does_not_have_are_kept_as_numbers():
    # The numbers are what numpy, whose calendar is unbounded, says.
    assert parse_partition_value("+10000-01-01", DATE) == 2932897
    assert parse_partition_value("-0001-12-31", DATE) == -719529
    assert parse_partition_value("0000-03-01", DATE) == -719468
    assert parse_partition_value("+12345-06-07 08:09:10.5", TIMESTAMP_NTZ) == 327416976550500000
    assert parse_partition_value("+12345-06-07T08:09:10.5Z", TIMESTAMP) == 327416976550500000
    edge = parse_partition_value("9999-12-31 23:30:00", TIMESTAMP, zone=timezone(timedelta(hours=-1)))
    assert edge == 2932897 * 86_400_000_000 + 30 * 60_000_000
    for text, data_type in (("+10000-01-01", DATE), ("-0001-12-31", DATE), ("0000-03-01", DATE)):
        assert format_partition_value(parse_partition_value(text, data_type), data_type) == text


@pytest.mark.parametrize(
    ("value", "data_type", "text"),
    [
        (None, INTEGER, None),
        ("", STRING, None),
        (b"", BINARY, None),
        (7, LONG, "7"),
        (True, BOOLEAN, "true"),
        (1.0, DOUBLE, "1.0"),
        (float("nan"), DOUBLE, "NaN"),
        (float("inf"), FLOAT, "Infinity"),
        (PyDecimal("1E+2"), Decimal(10, 2), "100.00"),
        (PyDecimal("-0.001"), Decimal(10, 2), "0.00"),
        (PyDecimal("-0"), Decimal(38, 38), "0." + "0" * 38),
        (date(987, 1, 2), DATE, "0987-01-02"),
        (datetime(2024, 1, 1, 10, tzinfo=timezone(timedelta(hours=2))), TIMESTAMP, "2024-01-01T08:00:00.000000Z"),
        (datetime(2024, 1, 1, 10, 0, 0, 1200), TIMESTAMP_NTZ, "2024-01-01 10:00:00.0012"),
        (datetime(2024, 1, 1, 10), TIMESTAMP_NTZ, "2024-01-01 10:00:00"),
        (b"abc", BINARY, "abc"),
    ],
)
def test_values_are_written_as_the_protocol_has_them(value, data_type, text):
    assert format_partition_value(value, data_type) == text


@pytest.mark.parametrize("value", [b"\xff\xfe", b"\\u0001"])
def test_bytes_that_readers_would_read_differently_are_refused(value):
    with pytest.raises(UnsupportedOperationError):
        format_partition_value(value, BINARY, table="t")


def test_folders_are_named_as_hive_names_them():
    values = {"ts": "2021-09-08 11:11:11", "a/b": "x=1", "n": None, "e": "ä b%"}
    assert partition_folder(["ts", "a/b"], values) == "ts=2021-09-08 11%3A11%3A11/a%2Fb=x%3D1"
    assert partition_folder(["n", "e"], values) == "n=__HIVE_DEFAULT_PARTITION__/e=ä b%25"
    assert partition_folder([], {}) == ""
    assert ascii_folder(["n", "e"], values) == "n=__HIVE_DEFAULT_PARTITION__/e=%C3%A4 b%25"


# The unescaped path and how the reference's log has it.
PATHS = [
    ("special p@#h", "special%20p@%23h"),
    (
        "ts=2021-09-08 11%3A11%3A11/part-0.c000.snappy.parquet",
        "ts=2021-09-08%2011%253A11%253A11/part-0.c000.snappy.parquet",
    ),
    ("a=ä[1]/f", "a=ä%5B1%5D/f"),
    ("a?b\\c^`{|}", "a%3Fb%5Cc%5E%60%7B%7C%7D"),
    ("it's (1)+~,;$&=!*", "it's%20(1)+~,;$&=!*"),
    ("a:b/c:d", "a%3Ab/c:d"),
]


def test_an_absolute_url_is_spelled_as_hadoop_prints_it():
    """The reference compares such texts when it writes deletion vectors."""
    assert encode_url("file:///a b/c%20/p=1:2/f") == "file:/a%20b/c%2520/p=1:2/f"
    assert encode_url("s3a://bucket/a b/f") == "s3a://bucket/a%20b/f"
    for url in ("file:///a b/c%20/x#y", "s3://bucket/t/f"):
        assert resolve_path(encode_url(url), "file:///elsewhere") == url


@pytest.mark.parametrize(("path", "uri"), PATHS)
def test_paths_are_escaped_as_hadoop_does_it(path, uri):
    assert encode_path(path) == uri
    assert decode_path(uri) == path


def test_a_percent_sign_that_is_no_escape_stays():
    assert decode_path("100%/x%zz") == "100%/x%zz"


TABLE = "s3://bucket/warehouse/t"


@pytest.mark.parametrize(
    ("path", "table", "url"),
    [
        ("part-0.parquet", TABLE, TABLE + "/part-0.parquet"),
        ("a=1//./x%20y", TABLE, TABLE + "/a=1/x y"),
        ("a/../b", TABLE, TABLE + "/b"),
        ("/some/where/f", TABLE, "s3://bucket/some/where/f"),
        ("s3a://other/k%23", TABLE, "s3a://other/k#"),
        ("/f", "file:///data/t", "file:///f"),
        ("file:/x/f", "file:///data/t", "file:///x/f"),
        ("file:///x/f", "file:///data/t", "file:///x/f"),
        ("FILE://localhost/x/f", "file:///data/t", "file:///x/f"),
        ("f", "s3://bucket", "s3://bucket/f"),
        ("abfss://c@a.dfs.core.windows.net/t/f", TABLE, "abfss://c@a.dfs.core.windows.net/t/f"),
    ],
)
def test_paths_are_resolved_to_urls(path, table, url):
    assert resolve_path(path, table) == url


@pytest.mark.parametrize("path", ["../x", "..//Users/me/foo.parquet", "a/../../x", "%2E%2E/x", "a/%2e%2e/..%2Fx", ".."])
def test_a_relative_path_cannot_leave_the_table(path):
    with pytest.raises(PathOutsideTableError):
        resolve_path(path, TABLE)


@pytest.mark.parametrize(
    ("one", "other", "table"),
    [
        ("/some/unqualified/absolute/path", "file:/some/unqualified/absolute/path", "file:///t"),
        ("file:///a/b", "file:/a//b", "file:///t"),
        ("special%20p@%23h", "special%20p%40%23h", TABLE),
        ("bar%2Dbar.parquet", "bar-bar.parquet", TABLE),
        ("x/y", "s3a://bucket/warehouse/t/x/y", TABLE),
        ("x/y", "/warehouse/t/./x/y", TABLE),
    ],
)
def test_two_spellings_of_one_file_have_one_key(one, other, table):
    assert canonical_key(one, table) == canonical_key(other, table)


def test_different_files_have_different_keys():
    paths = ["a", "/a", "s3://other/warehouse/t/a", "/warehouse/t2/a", "../a", "a%2520", "a%20"]
    assert len({canonical_key(path, TABLE) for path in paths}) == len(paths)


def test_a_plain_relative_path_is_its_own_key():
    # The columnar replay relies on it.
    assert canonical_key("a=1/part-0.parquet", TABLE) == "a=1/part-0.parquet"


PIECES = [
    "ab",
    "..",
    ".",
    "%",
    "%2",
    "%2e",
    "%2F",
    "%FF",
    "file:",
    "s3:",
    "s3a:",
    "bucket",
    "t",
    "x:y",
    "ü",
    "_",
    "b c",
    "",
    "\0",
]


@given(st.lists(st.sampled_from(PIECES), max_size=6), st.sampled_from([TABLE, "file:///warehouse/t", "/a/t"]))
@example(["s3:", "", "bucket", "warehouse", "t"], TABLE)
@example(["..", "a"], TABLE)
def test_the_spelling_of_a_name_does_not_change_its_folder(pieces, table):
    # A name without escapes is appended to what is known of its folder.
    assume(pieces not in (["s3:", ""], ["s3a:", ""]))  # there the name is a bucket
    plain, escaped = ("/".join([*pieces, name]) for name in ("x", "%78"))
    assert canonical_key(plain, table) == canonical_key(escaped, table)
    assert _resolved(plain, table) == _resolved(escaped, table)


def _resolved(path, table):
    try:
        return resolve_path(path, table)
    except DeltaError as error:
        return type(error), str(error).replace("%78", "x")
