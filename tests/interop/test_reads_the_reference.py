"""What the reference writes, with every table feature that it can switch on, tahoe reads equal; and what it may write to such tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe.errors import DeltaProtocolError
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
def test_rows_without_spark(name: str, made: Callable[[str], Made]) -> None:
    """The small reader reads other rows than the reference."""
    table = made(name)
    assert_same(tahoe.Table(str(table.path)).to_arrow(), table.expected)


@pytest.mark.parametrize("name", TABLES)
def test_rows_through_spark(name: str, made: Callable[[str], Made], spark: SparkSession) -> None:
    """format("delta") under tahoe reads other rows than under the reference."""
    table = made(name)
    assert_same(spark_rows(spark.read.format("delta").load(str(table.path))), table.expected)


@pytest.mark.parametrize("name", ["overwritten", "deletion_vectors_in_partitions", "column_mapping_name", "type_widening", "restored"])
def test_every_version(name: str, made: Callable[[str], Made], spark: SparkSession, reference: Reference) -> None:
    """An older version is read with rows of another one."""
    table = made(name)
    ours = tahoe.Table(str(table.path))
    for version in range(ours.version + 1):
        expected = reference.read(table.path, versionAsOf=str(version))
        assert_same(ours.to_arrow(version=version), expected)
        assert_same(spark_rows(spark.read.format("delta").option("versionAsOf", version).load(str(table.path))), expected)


CONDITIONS = {
    "plain": ("id = 42", "name > 'name 9'", "part IS NULL", "score BETWEEN 10 AND 20 OR id IN (1, 1000)", "NOT (id < 95)"),
    "partitioned": ("part = 1", "part IS NULL", "part <> 2 AND id < 10"),
    "all_types": ("day > DATE'2000-01-01'", "ts < TIMESTAMP'2024-02-29 23:59:59.123456'", "d > 0", "dec38 < 0", "text = ''", "flag"),
    "deletion_vectors_in_partitions": ("part = 1 AND id < 50", "name = 'changed'"),
    "column_mapping_name": ("bucket = 9", "`full name, (odd)` = 'name 5'"),
    "long_texts": ("text >= repeat('B', 100)", "text = repeat('C', 100)"),
    "timestamps_of_several_zones": ("ts > TIMESTAMP'2024-03-10 02:30:00Z'", "at = TIMESTAMP'2024-11-03 01:30:00.000001Z'"),
    "type_widening": ("b > 200", "s = 40000", "day >= TIMESTAMP_NTZ'2024-01-02 00:00:00'", "n < 2"),
    "checkpoint_with_parsed_statistics_alone": ("id > 50", "name = 'more'"),
}


@pytest.mark.parametrize(("name", "condition"), [(name, condition) for name, several in CONDITIONS.items() for condition in several])
def test_conditions(name: str, condition: str, made: Callable[[str], Made], spark: SparkSession, reference: Reference) -> None:
    """Skipping by the reference's statistics loses a row, or a filter keeps one too many."""
    table = made(name)
    expected = reference.sql(f"SELECT * FROM delta.`{table.path}` WHERE {condition}")
    assert_same(tahoe.Table(str(table.path)).to_arrow(filter=condition), expected)
    assert_same(spark_rows(spark.read.format("delta").load(str(table.path)).where(condition)), expected)


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.refused is not None])
def test_a_write_is_refused(name: str, made: Callable[[str], Made], spark: SparkSession) -> None:
    """A table whose rules tahoe does not enforce is written anyway, or the error does not name the feature."""
    table = made(name)
    feature = TABLES[name].refused
    ours = tahoe.Table(str(table.path))
    before = ours.version
    with pytest.raises(DeltaProtocolError) as without_spark:
        ours.append(ours.to_arrow())
    assert without_spark.value.parameters.get("feature", without_spark.value.parameters.get("features")) == feature
    frame = spark.read.format("delta").load(str(table.path))
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match=f"feature {feature}"):
            frame.write.format("delta").mode(mode).save(str(table.path))
    assert ours.version == before


# The small writer takes Arrow tables, whose types do not tell these apart.
NOT_FROM_ARROW = {"variant", "variant_shredded", "void_column"}


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.refused is None])
def test_an_append_is_read_by_the_reference(
    name: str, made: Callable[[str], Made], spark: SparkSession, reference: Reference, tmp_path: Path
) -> None:
    """tahoe adds rows to a table of the reference in a way that the reference reads differently."""
    table = made(name)
    path = str(shutil.copytree(table.path, tmp_path / name))
    rows = spark_rows(spark.read.format("delta").load(path))
    expected = [table.expected, table.expected]
    spark.read.format("delta").load(path).write.format("delta").mode("append").save(path)
    if name not in NOT_FROM_ARROW:
        tahoe.Table(path).append(rows)
        expected.append(table.expected)
    assert_same(reference.read(path), pa.concat_tables(expected))
    assert_same(spark_rows(spark.read.format("delta").load(path)), pa.concat_tables(expected))
