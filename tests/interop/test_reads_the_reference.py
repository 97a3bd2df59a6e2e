"""What the reference writes, with every table feature that it can switch on, tahoe reads equal; and what it may write
to such tables.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe.errors import DeltaError, DeltaProtocolError
from tahoe.table.verify.check import check_table
from tests.interop.readers import Reader
from tests.interop.reference import Reference
from tests.interop.rows import assert_same, spark_rows
from tests.interop.tables import TABLES


@dataclass(frozen=True)
class Made:
    """A table that the reference has made, with the rows that it reads from it."""

    path: Path
    expected: pa.Table


@pytest.fixture(scope="module")
def made(reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """Makes each table once."""
    folder = tmp_path_factory.mktemp("made by the reference")
    known: dict[str, Made] = {}

    def get(name: str) -> Made:
        if name not in known:
            path = folder / name
            TABLES[name].make(reference, path)
            known[name] = Made(path, reference.read(path))
        return known[name]

    return get


@pytest.mark.parametrize("name", TABLES)
def test_rows(name: str, made: Callable[[str], Made], reader: Reader) -> None:
    """tahoe reads other rows, or other types, than the reference."""
    table = made(name)
    expected = table.expected
    if name in reader.cannot_read:
        with pytest.raises(DeltaError, match=reader.cannot_read[name]):
            reader.read(table.path)
        return
    if name == "char_and_varchar" and reader.name == "without Spark":
        # The padding of CHAR is Spark's, not the protocol's: for it, and in the file, the column is a string.
        expected = expected.set_column(0, "c", pc.utf8_rtrim_whitespace(expected["c"]))
    assert_same(reader.read(table.path), expected)


@pytest.mark.parametrize("name", TABLES)
def test_check_finds_nothing(name: str, made: Callable[[str], Made]) -> None:
    """The reference's logs are legal: a false alarm would teach users not to look."""
    assert [(found.kind, found.file, found.detail) for found in check_table(tahoe.Table(made(name).path).log)] == []


@pytest.mark.parametrize("name", ["overwritten", "deletion_vectors_in_partitions", "type_widening"])
def test_every_version(name: str, made: Callable[[str], Made], reader: Reader, reference: Reference) -> None:
    """An older version is read with rows of another one."""
    table = made(name)
    for version in range(tahoe.Table(str(table.path)).version + 1):
        assert_same(reader.read(table.path, version=version), reference.read(table.path, versionAsOf=str(version)))


ROW_IDS = (
    "_metadata.row_id",
    "_metadata.row_commit_version",
    "_metadata.base_row_id",
    "_metadata.default_row_commit_version",
)


@pytest.mark.parametrize("name", [name for name in TABLES if name.startswith("row_tracking")])
def test_row_ids(name: str, made: Callable[[str], Made], reference: Reference, spark: SparkSession) -> None:
    """A row has another id or commit version than the reference gives it, at some version, or a filter on them finds
    other rows.
    """
    path = made(name).path
    query = f"SELECT id, {', '.join(f'{field} AS `{field}`' for field in ROW_IDS)} FROM delta.`{path}`"
    kept = 0
    for version in range(tahoe.Table(str(path)).version + 1):
        snapshot = tahoe.Table(str(path)).snapshot(version)
        if snapshot.row_tracking is None:
            continue
        expected = reference.sql(f"{query} VERSION AS OF {version}")
        assert_same(spark_rows(spark.sql(f"{query} VERSION AS OF {version}")), expected)
        assert_same(snapshot.to_arrow(columns=["id", *ROW_IDS]), expected)
        kept += pc.sum(
            pc.less(expected["_metadata.row_commit_version"], expected["_metadata.default_row_commit_version"])
        ).as_py()
    assert kept, "no row has kept what it brought with it"
    for condition in (
        "_metadata.row_id BETWEEN 3 AND 9",
        "_metadata.row_commit_version > 1 AND id % 2 = 1",
        "_metadata.base_row_id > 50",
    ):
        assert_same(spark_rows(spark.sql(f"{query} WHERE {condition}")), reference.sql(f"{query} WHERE {condition}"))


CONDITIONS = {
    "plain": (
        "id = 42",
        "name > 'name 9'",
        "part IS NULL",
        "score BETWEEN 10 AND 20 OR id IN (1, 1000)",
        "NOT (id < 95)",
    ),
    "partitioned": ("part = 1", "part IS NULL", "part <> 2 AND id < 10"),
    "all_types": (
        "day > DATE'2000-01-01'",
        "ts < TIMESTAMP'2024-02-29 23:59:59.123456'",
        "d > 0",
        "dec38 < 0",
        "text = ''",
        "flag",
    ),
    "deletion_vectors_in_partitions": ("part = 1 AND id < 50", "name = 'changed'"),
    "column_mapping_name": ("bucket = 9", "`full name, (odd)` = 'name 5'"),
    "timestamps_of_several_zones": (
        "ts > TIMESTAMP'2024-03-10 02:30:00Z'",
        "at = TIMESTAMP'2024-11-03 01:30:00.000001Z'",
    ),
    "type_widening": ("b > 200", "s = 40000", "day >= TIMESTAMP_NTZ'2024-01-02 00:00:00'", "n < 2"),
    "checkpoint_with_parsed_statistics_alone": ("id > 50", "name = 'more'"),
}


@pytest.mark.parametrize(
    ("name", "condition"), [(name, condition) for name, several in CONDITIONS.items() for condition in several]
)
def test_conditions(
    name: str, condition: str, made: Callable[[str], Made], reader: Reader, reference: Reference
) -> None:
    """Skipping by the reference's statistics loses a row, or a filter keeps one too many."""
    table = made(name)
    expected = reference.sql(f"SELECT * FROM delta.`{table.path}` WHERE {condition}")
    assert_same(reader.read(table.path, condition=condition), expected)


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.refused is not None])
def test_a_write_is_refused(name: str, made: Callable[[str], Made], reader: Reader) -> None:
    """A table whose rules tahoe does not enforce is written anyway, or the error does not name the feature."""
    table = made(name)
    before = tahoe.Table(str(table.path)).version
    with pytest.raises(DeltaProtocolError) as refusal:
        reader.append_again(table.path)
    assert refusal.value.parameters.get("feature") == TABLES[name].refused
    assert tahoe.Table(str(table.path)).version == before


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.refused is None])
def test_an_append_is_read_by_the_reference(
    name: str, made: Callable[[str], Made], reader: Reader, reference: Reference, tmp_path: Path
) -> None:
    """tahoe adds rows to a table of the reference in a way that the reference reads differently."""
    table = made(name)
    if name in reader.cannot_append:
        pytest.skip(reader.cannot_append[name])
    copy = shutil.copytree(table.path, tmp_path / name)
    reader.append_again(copy)
    expected = pa.concat_tables([table.expected, table.expected])
    assert_same(reference.read(copy), expected)


def test_the_session_reads_what_it_appended(made: Callable[[str], Made], spark: SparkSession, tmp_path: Path) -> None:
    """Spark does not see the rows that it has just appended to a table of the reference."""
    table = made("column_mapping_name")
    copy = str(shutil.copytree(table.path, tmp_path / "copy"))
    frame = spark.read.format("delta").load(copy)
    frame.write.format("delta").mode("append").save(copy)
    assert_same(spark_rows(spark.read.format("delta").load(copy)), pa.concat_tables([table.expected, table.expected]))
