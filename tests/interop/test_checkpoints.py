"""What tahoe leaves beside commits: others read a table whose past only our checkpoints, compacted files and checksums
tell.
"""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import tahoe
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Sidecar
from tahoe.storage.background import finish_background
from tahoe.table.commit import checkpoint_writer, file_order
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.log.checkpoint import read_other_actions
from tahoe.table.verify.check import check_table
from tests.interop.builders import save
from tests.interop.reference import Reference
from tests.interop.rows import assert_same, spark_rows
from tests.interop.tables import ALL_TYPES, NESTED, NUMBERED

V2 = {"delta.checkpointPolicy": "v2"}
STRUCTS = {"delta.checkpoint.writeStatsAsStruct": "true"}
ONLY_STRUCTS = {**STRUCTS, "delta.checkpoint.writeStatsAsJson": "false"}
MAPPED = {"delta.columnMapping.mode": "name"}
STAMPED = {"delta.enableInCommitTimestamps": "true"}

TABLES: dict[str, tuple[str, str | None, dict[str, str]]] = {
    "plain": (NUMBERED, None, {}),
    "partitioned": (NUMBERED, "part", STRUCTS),
    "every type": (ALL_TYPES, None, STRUCTS),
    "every type, no texts": (ALL_TYPES, None, ONLY_STRUCTS),
    "nested": (NESTED, None, {**STRUCTS, **MAPPED}),
    "mapped": (NUMBERED, "part", {**ONLY_STRUCTS, **MAPPED}),
    "V2": (NUMBERED, "part", {**V2, **STRUCTS}),
    "V2 in Parquet": (NUMBERED, "part", V2),
    "stamped": (NUMBERED, None, STAMPED),
    "compressed": (NUMBERED, None, {"delta.parquet.compression.codec": "gzip"}),
}


def only_the_checkpoint(table: tahoe.Table) -> None:
    """The log without the commits before its newest version, and without checksums."""
    newest = table.version
    for info in list(table.env.store.list_from(log_files.LOG_FOLDER)):
        file = log_files.parse_name(info.key.rpartition("/")[2])
        older = file is not None and file.kind is log_files.Kind.COMMIT and file.version < newest
        if older or (file is not None and file.kind is log_files.Kind.CHECKSUM):
            table.env.store.delete(info.key)


def written(spark: SparkSession, path: str, name: str) -> DataFrame:
    query, by, options = TABLES[name]
    rows = spark.sql(query)
    save(rows, path, by=by, **options)
    save(rows, path)
    return rows.union(rows)


@pytest.mark.parametrize("name", TABLES)
def test_the_reference_reads_our_checkpoints(
    name: str, spark: SparkSession, reference: Reference, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    expected = spark_rows(written(spark, path, name))
    finish_background()
    table = tahoe.Table(path)
    write_checkpoint(table.snapshot(), top_level="parquet" if name == "V2 in Parquet" else "json")
    only_the_checkpoint(table)
    assert_same(reference.read(path), expected)
    assert_same(tahoe.Table(path).to_arrow(), expected)
    reference.run(
        f"OPTIMIZE delta.`{path}`", f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')"
    )
    reference.run(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('mine' = '1')")
    assert_same(tahoe.Table(path).to_arrow(), expected)


def test_the_reference_reads_sidecars_that_a_checkpoint_has_kept(
    reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two sidecars of six files one is written anew, and the reference's own checkpoint goes on from there."""
    monkeypatch.setattr(checkpoint_writer, "SIDECAR_FILES_MAX", 2)
    monkeypatch.setattr(file_order, "ROW_GROUP_FILES", 2)
    path = str(tmp_path / "t")
    table = tahoe.Table(path)
    table.create(pa.schema([("id", pa.int64())]), properties=V2)
    for start in range(6):
        table.append(pa.table({"id": [start, start + 100]}))
    table.create_checkpoint()
    before = sidecars(path)
    table.delete("id IN (3, 103)")
    table.append(pa.table({"id": [7]}))
    table.create_checkpoint()
    assert len(sidecars(path) & before) == len(before) - 1
    only_the_checkpoint(table)
    expected = table.to_arrow()
    assert expected.num_rows == 11
    assert_same(reference.read(path), expected)
    reference.run(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')",
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('mine' = '1')",
    )
    assert_same(tahoe.Table(path).to_arrow(), expected)


def sidecars(path: str) -> set[str]:
    """The sidecars of the newest checkpoint."""
    log = tahoe.Table(path).snapshot().log
    checkpoint = log.segment().checkpoint
    assert checkpoint is not None
    actions = [a for file in checkpoint.files for a in read_other_actions(log.env.store, file.key)]
    return {a.path for a in actions if isinstance(a, Sidecar)}


IN_ORDER = {
    "plain": {},
    "texts only": {"delta.checkpoint.writeStatsAsStruct": "false"},
    "columns only": {"delta.checkpoint.writeStatsAsJson": "false"},
    "mapped": MAPPED,
    "V2": V2,
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_the_reference_reads_row_groups_in_our_order(
    name: str, spark: SparkSession, reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a column of a wider type, and with deletion vectors. The second checkpoint is made of the first one."""
    path = str(tmp_path / "t")
    monkeypatch.setattr(file_order, "ROW_GROUP_FILES", 2)
    options = {"delta.enableTypeWidening": "true", "delta.enableDeletionVectors": "true", **IN_ORDER[name]}
    for start in (40, 0, 30, 10, 20):
        save(
            spark.range(start, start + 10).selectExpr("cast(id AS int) AS id", "concat('n', id) AS name"),
            path,
            **options,
        )
        options = {}
    table = tahoe.Table(path)
    table.create_checkpoint()
    spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN id TYPE bigint")
    save(spark.range(1 << 40, (1 << 40) + 10).selectExpr("id", "concat('n', id) AS name"), path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 3")
    finish_background()
    table.create_checkpoint()
    only_the_checkpoint(table)
    expected = spark_rows(spark.read.format("delta").load(path))
    assert expected.num_rows == 54
    assert_same(reference.read(path), expected)
    for value in (12, 13, (1 << 40) + 2):
        found = reference.sql(f"SELECT count(*) AS n FROM delta.`{path}` WHERE id = {value}").to_pylist()
        assert found == [{"n": 0 if value == 13 else 1}]


@pytest.mark.parametrize("name", ["plain", "partitioned", "every type", "compressed"])
def test_delta_rs_reads_our_checkpoints(name: str, spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    expected = written(spark, path, name).count()
    finish_background()
    table = tahoe.Table(path)
    table.create_checkpoint()
    only_the_checkpoint(table)
    found = deltalake.DeltaTable(path)
    assert found.version() == 1
    assert found.to_pyarrow_dataset().count_rows() == expected


@pytest.mark.parametrize("name", ["partitioned", "every type, no texts", "mapped"])
def test_the_reference_skips_by_our_typed_statistics(
    name: str, spark: SparkSession, reference: Reference, tmp_path: Path
) -> None:
    """A statistic in a checkpoint is wrong: the reference leaves out a file that has the row."""
    path = str(tmp_path / "t")
    rows = written(spark, path, name)
    finish_background()
    table = tahoe.Table(path)
    table.create_checkpoint()
    only_the_checkpoint(table)
    for field in rows.schema.fields:
        kind = field.dataType.simpleString()
        if kind in ("boolean", "binary"):
            continue
        column = f"`{field.name}`"
        bounds = rows.selectExpr(
            f"CAST(min({column}) AS STRING) AS least", f"CAST(max({column}) AS STRING) AS most"
        ).collect()[0]
        for bound in bounds:
            text = bound.replace("\\", "\\\\").replace("'", "\\'")
            condition = f"{column} = CAST('{text}' AS {kind})"
            found = reference.sql(f"SELECT count(*) AS n FROM delta.`{path}` WHERE {condition}").to_pylist()
            assert found == [{"n": rows.where(condition).count()}], condition


def test_the_reference_reads_our_compacted_files(spark: SparkSession, reference: Reference, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = spark.sql(NUMBERED)
    for _ in range(6):
        save(rows, path, "overwrite")
    save(rows, path)
    finish_background()
    tahoe.Table(path).compact_logs(1, 5)
    for version in (2, 3, 4):
        Path(path, log_files.commit_key(version)).write_text("{broken")
    assert_same(tahoe.Table(path).to_arrow(), spark_rows(rows.union(rows)))
    assert reference.read(path).num_rows == rows.count() * 2


def test_the_reference_keeps_the_checksums_that_tahoe_began(
    spark: SparkSession, reference: Reference, tmp_path: Path
) -> None:
    """Its checksum of the next version is counted from ours; a full count by `tahoe check` finds no difference."""
    path = str(tmp_path / "t")
    rows = spark.sql(NUMBERED)
    save(rows, path, by="part", **{"delta.enableDeletionVectors": "true"})
    save(rows, path)
    finish_background()
    reference.run(f"DELETE FROM delta.`{path}` WHERE id % 7 = 3")
    save(rows, path)
    finish_background()
    names = sorted(file.name for file in Path(path, "_delta_log").glob("0*.crc"))
    assert names == [log_files.checksum_name(version) for version in range(4)]
    table = tahoe.Table(path)
    assert [finding.detail for version in range(4) for finding in check_table(table.log, version)] == []
    assert reference.read(path).num_rows == spark.read.format("delta").load(path).count() == table.to_arrow().num_rows


def test_both_agree_on_the_times_of_stamped_commits(spark: SparkSession, reference: Reference, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = spark.sql(NUMBERED)
    save(rows, path)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    save(rows, path)
    reference.run(f"DELETE FROM delta.`{path}` WHERE id = 3")
    save(rows, path)
    theirs = {
        commit["version"]: commit["timestamp"]
        for commit in reference.sql(f"DESCRIBE HISTORY delta.`{path}`").to_pylist()
    }
    ours = {commit["version"]: commit["timestamp"] for commit in tahoe.Table(path).history()}
    assert {version: moment.timestamp() for version, moment in theirs.items()} == {
        v: m.timestamp() for v, m in ours.items()
    }
    for version, moment in ours.items():
        text = moment.strftime("%Y-%m-%d %H:%M:%S.%f")
        assert (
            reference.read(path, timestampAsOf=text).num_rows == reference.read(path, versionAsOf=str(version)).num_rows
        )
        assert tahoe.Table(path).snapshot(timestamp=moment).version == version
