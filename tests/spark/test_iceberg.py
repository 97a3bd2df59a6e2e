"""Tables of Iceberg's compatibility in Spark: field ids in files, and the statements about Iceberg's metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe.errors import InvalidOptionError, UnsupportedOperationError
from tahoe.iceberg.conversion import converted
from tahoe.iceberg.verification import verify
from tahoe.protocol.configuration.column_mapping import mapped_ids
from tahoe.storage.background import finish_background
from tests.iceberg.tables import iceberg, same

NESTED = """
    select id, array(array(id)) l, map(concat('k', id), array(named_struct('a', id, 'b', map(id, 1.5D)))) m,
        named_struct('x', array(id), 'y', id) s, array(named_struct('z', 1)) p from range(4)
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def file_ids(fields: Iterable[pa.Field]) -> Iterator[int]:
    """The field ids in a file, of columns and of what is inside them; -1 is none."""
    for field in fields:
        yield int((field.metadata or {}).get(b"PARQUET:field_id", -1))
        kind = field.type
        inner = [kind.key_field, kind.item_field] if pa.types.is_map(kind) else map(kind.field, range(kind.num_fields))
        yield from file_ids(inner)


def ids_of_files(table: tahoe.Table) -> list[list[int]]:
    folder = table.url.removeprefix("file://")
    files = (f"{folder}/{unquote(add.path)}" for add in table.snapshot().live.adds())
    return [sorted(file_ids(pq.ParquetFile(file).schema_arrow)) for file in files]


@pytest.mark.every_spark
@pytest.mark.parametrize("mode", ["name", "id"])
def test_elements_keys_and_values_have_field_ids(spark: SparkSession, path: str, mode: str) -> None:
    options = {"delta.enableIcebergCompatV2": "true", "delta.columnMapping.mode": mode}
    spark.sql(NESTED).coalesce(1).write.format("delta").options(**options).save(path)
    spark.sql(f"update delta.`{path}` set l = array(array(7L)) where id = 1")
    spark.sql(NESTED).write.format("delta").mode("append").save(path)
    table = tahoe.Table(path)
    wanted = sorted(mapped_ids(table.schema))
    assert len(wanted) == len(set(wanted)) == 19
    assert ids_of_files(table) == [wanted] * len(table.snapshot().live)
    spark.sql(f"optimize delta.`{path}`")
    assert ids_of_files(table) == [wanted]
    rows = spark.read.format("delta").load(path)
    assert rows.count() == 8
    assert rows.selectExpr("m[concat('k', id)][0].b[id]", "s.x[0]", "p[0].z").distinct().count() == 4


def test_row_ids_have_the_ids_of_icebergs_row_lineage(spark: SparkSession, path: str) -> None:
    rows = spark.range(3).coalesce(1)
    rows.write.format("delta").options(**{"delta.enableIcebergCompatV3": "true"}).save(path)
    spark.sql(f"delete from delta.`{path}` where id = 1")
    assert ids_of_files(tahoe.Table(path)) == [[1, 2_147_483_539, 2_147_483_540]]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_upgrade_uniform_rewrites_what_iceberg_cannot_read(spark: SparkSession, path: str, mode: str) -> None:
    options = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": mode}
    spark.sql(NESTED).coalesce(1).write.format("delta").options(**options).save(path)
    spark.sql(f"delete from delta.`{path}` where id = 1")
    assert spark.sql(f"reorg table delta.`{path}` apply (upgrade uniform (iceberg_compat_version = 2))").collect() == []
    table = tahoe.Table(path)
    finish_background()
    assert verify(table.snapshot()).differences == ()
    columns = ("id", "l", "s")
    assert same(iceberg(table).scan(selected_fields=columns).to_arrow(), table.to_arrow(columns=list(columns)))
    assert table.to_arrow().num_rows == 3
    if mode == "name":
        assert ids_of_files(table) == [sorted(mapped_ids(table.schema))]
    version = table.version
    spark.sql(f"reorg table delta.`{path}` apply (upgrade uniform (iceberg_compat_version = 2))")
    assert table.version == version  # nothing was left to do
    with pytest.raises(InvalidOptionError, match="must be 2 or 3"):
        spark.sql(f"reorg table delta.`{path}` apply (upgrade uniform (iceberg_compat_version = 1))")


def test_version_3_has_what_statements_do_with_deletion_vectors(spark: SparkSession, path: str) -> None:
    """The table has row tracking before, whose row ids are in columns without Iceberg's number."""
    options = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
    spark.range(1000).selectExpr("id", "id % 7 n").coalesce(1).write.format("delta").options(**options).save(path)
    spark.sql(f"update delta.`{path}` set n = 9 where id = 5")
    spark.sql(f"optimize delta.`{path}`")
    spark.sql(f"reorg table delta.`{path}` apply (upgrade uniform (iceberg_compat_version = 3))")
    table, first = tahoe.Table(path), tahoe.Table(path).version
    spark.sql(f"delete from delta.`{path}` where id % 100 = 3")
    spark.sql(f"update delta.`{path}` set n = -1 where id in (8, 9)")
    spark.sql(
        f"merge into delta.`{path}` t using (select explode(array(10L, 2000L)) id) s on t.id = s.id "
        "when matched then delete when not matched then insert (id, n) values (s.id, 0)"
    )
    assert table.snapshot().has_deletion_vectors
    spark.sql(f"optimize delta.`{path}`")
    spark.sql(f"restore table delta.`{path}` to version as of {first + 1}")
    finish_background()
    assert verify(table.snapshot()).differences == ()
    found = iceberg(table)
    assert found.metadata.format_version == 3
    for snapshot in found.metadata.snapshots:
        version = int(snapshot.summary["delta-version"])
        assert same(found.scan(snapshot_id=snapshot.snapshot_id).to_arrow(), table.snapshot(version).to_arrow())
    assert len(found.metadata.snapshots) >= 6
    assert all(1 <= add.base_row_id + 1 <= found.metadata.next_row_id for add in table.snapshot().live.adds())


def test_metadata_is_synchronised_by_a_statement(spark: SparkSession, path: str) -> None:
    options = {"delta.enableIcebergCompatV2": "true", "delta.universalFormat.enabledFormats": "iceberg"}
    spark.range(3).write.format("delta").options(**options).save(path)
    finish_background()
    for file in Path(path, "metadata").iterdir():
        file.unlink()
    table = tahoe.Table(path)
    assert converted(table.snapshot()) is None
    spark.sql(f"msck repair table delta.`{path}` sync metadata")
    assert converted(table.snapshot()) == (0, table.snapshot().timestamp_ms)
    shown = {row.key: row.value for row in spark.sql(f"show tblproperties delta.`{path}`").collect()}
    assert shown["converted_delta_version"] == "0"
    (detail,) = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()
    assert detail.properties["converted_delta_version"] == "0"
    assert shown["converted_delta_timestamp"] == str(table.snapshot().timestamp_ms)
    spark.range(3).write.format("delta").save(f"{path}-2")
    with pytest.raises(UnsupportedOperationError, match="enabledFormats"):
        spark.sql(f"msck repair table delta.`{path}-2` sync metadata")
