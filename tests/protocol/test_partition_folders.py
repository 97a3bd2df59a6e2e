"""Partition values in the names of folders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.errors import PartitionCastFailedError, UnexpectedPartitionColumnError, UnexpectedPartitionCountError
from tahoe.protocol.types.partition_folders import PartitionReader, is_hidden, partition_of
from tahoe.protocol.types.partitions import partition_folder
from tahoe.protocol.types.schema import BOOLEAN, DATE, INTEGER, STRING, TIMESTAMP, TIMESTAMP_NTZ, DataType, Field
from tahoe.protocol.types.time_zones import zone_of

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


def reader(*types: DataType, **more: object) -> PartitionReader:
    return PartitionReader([Field(name=name, type=kind) for name, kind in zip("abc", types, strict=False)], **more)  # type: ignore[arg-type]


@given(
    st.dictionaries(
        NAMES, st.none() | NAMES.filter(lambda text: text != "__HIVE_DEFAULT_PARTITION__"), min_size=1, max_size=3
    )
)
def test_folders_that_writers_name_have_the_values_that_they_wrote(values: dict[str, str | None]) -> None:
    assert partition_of(partition_folder(values, values)) == tuple(values.items())


@pytest.mark.parametrize(
    ("folder", "partition"),
    [
        ("", ()),
        ("x/y", ()),
        ("a=1/b=x=y", (("a", "1"), ("b", "x=y"))),
        ("a=1/inside", (("a", "1"),)),  # what is in a partition belongs to it
        ("a=1/between/b=2", (("b", "2"),)),  # as in Spark
        ("a=__HIVE_DEFAULT_PARTITION__", (("a", None),)),
        ("a=", (("a", None),)),
        ("a%3Db=%25", (("a=b", "%"),)),
        ("a=%zz", (("a", "%zz"),)),
        ("_a=1", (("_a", "1"),)),
    ],
)
def test_partition_columns_in_a_path(folder: str, partition: tuple[tuple[str, str | None], ...]) -> None:
    assert partition_of(folder) == partition


@pytest.mark.parametrize(
    ("key", "hidden"),
    [
        ("part-0.parquet", False),
        ("a=1/file", False),
        ("_a=1/file", False),
        (".a=1/file", False),
        ("a=1/_SUCCESS", True),
        ("a=1/.file.crc", True),
        ("_a=1/_x=2", True),  # a file, not a partition
        ("_delta_log/0.json", True),
        ("a=1/_temporary/0/file", True),
    ],
)
def test_hidden_files(key: str, hidden: bool) -> None:
    assert is_hidden(key) is hidden


def test_values_are_stored_in_the_spelling_that_all_readers_understand() -> None:
    found = reader(INTEGER, DATE, TIMESTAMP, zone=zone_of("Europe/Paris")).values(
        (("A", "01"), ("b", "2026-1-2"), ("c", "2026-07-01 12:00:00")), "f"
    )
    assert found == {"a": "1", "b": "2026-01-02", "c": "2026-07-01T10:00:00.000000Z"}


@pytest.mark.parametrize(
    ("data_type", "text", "stored"),
    [
        (BOOLEAN, "1", "true"),
        (BOOLEAN, "Yes", "true"),
        (BOOLEAN, "f", "false"),
        (DATE, "2020", "2020-01-01"),
        (DATE, "2020-7", "2020-07-01"),
        (TIMESTAMP, "2020", "2020-01-01T00:00:00.000000Z"),
        (TIMESTAMP_NTZ, "2020-02", "2020-02-01 00:00:00"),
        (STRING, "1", "1"),
        (INTEGER, "2020", "2020"),
    ],
)
def test_values_that_sparks_cast_understands_are_spelled_out(data_type: DataType, text: str, stored: str) -> None:
    assert reader(data_type).values((("a", text),), "f") == {"a": stored}


@pytest.mark.parametrize(("data_type", "text"), [(BOOLEAN, "2"), (DATE, "202"), (DATE, "2020-13")])
def test_values_that_sparks_cast_does_not_understand_are_refused(data_type: DataType, text: str) -> None:
    with pytest.raises(PartitionCastFailedError):
        reader(data_type).values((("a", text),), "f")


def test_an_empty_value_and_hives_null_are_null() -> None:
    assert reader(STRING, INTEGER).values(partition_of("a=/b=__HIVE_DEFAULT_PARTITION__"), "f") == {
        "a": None,
        "b": None,
    }


@pytest.mark.parametrize(
    ("folder", "error", "text"),
    [
        (
            "a=1",
            UnexpectedPartitionCountError,
            "2 partition columns were given (a, b), but the folders of f have 1 (a)",
        ),
        ("", UnexpectedPartitionCountError, "but the folders of f have 0 (none)"),
        ("a=1/c=2", UnexpectedPartitionColumnError, "expected the partition column b, but found c in f"),
        (
            "a=x/b=2",
            PartitionCastFailedError,
            "x in the path f is not a value of type integer, the type of the partition column a",
        ),
    ],
)
def test_folders_that_do_not_fit_are_errors_that_name_them(folder: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        reader(INTEGER, STRING).values(partition_of(folder), "f")
    assert text in str(caught.value)


def test_a_value_that_does_not_fit_may_be_null_if_that_is_asked_for() -> None:
    assert reader(INTEGER, unfit_becomes_null=True).values((("a", "x"),), "f") == {"a": None}
    with pytest.raises(PartitionCastFailedError, match="NOT NULL"):
        PartitionReader([Field(name="a", type=INTEGER, nullable=False)]).values((("a", None),), "f")
