"""Tags through Spark: the statements, the places where a tag stands for a version, and what keeps tags."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import tahoe
from tahoe import DeltaTable
from tahoe.errors import (
    InvalidTimeTravelError,
    RestoreVersionError,
    StatementSyntaxError,
    TableNotFoundError,
    TagExistsError,
    TagExpiryError,
    TagNotFoundError,
    TagRetentionError,
    VersionNotFoundError,
)
from tahoe.table.commit import transaction

RETENTION = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"


@pytest.fixture
def table(spark, path):
    """Version 0 has the rows 0 to 3 and version 1 has none of them: it has 9. The first has a name."""
    spark.range(4).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    spark.range(9, 10).write.format("delta").mode("overwrite").save(path)
    spark.sql(f"ALTER TABLE delta.`{path}` CREATE TAG '2026-q3' VERSION AS OF 0")
    return f"delta.`{path}`"


def ids(frame):
    return sorted(row[0] for row in frame.collect())


def test_a_tag_stands_for_a_version_wherever_one_may_be_named(spark, path, table):
    reader = spark.read.format("delta")
    found = [
        spark.sql(f"SELECT id FROM {table} VERSION AS OF '2026-q3'"),
        spark.sql(f"SELECT id FROM {table} FOR SYSTEM_VERSION AS OF '2026-q3'"),
        spark.sql(f"SELECT id FROM delta.`{path}@2026-q3`"),
        reader.load(f"{path}@2026-q3"),
        spark.read.format("delta").option("versionAsOf", "2026-q3").load(path),
        spark.read.option("versionAsOf", "2026-q3").table(table),
    ]
    assert [ids(frame) for frame in found] == [[0, 1, 2, 3]] * len(found)
    spark.sql(f"CREATE TABLE delta.`{path}-clone` SHALLOW CLONE {table} VERSION AS OF '2026-q3'")
    assert ids(spark.sql(f"SELECT id FROM delta.`{path}-clone`")) == [0, 1, 2, 3]
    assert spark.sql(f"SHOW TAGS delta.`{path}-clone`").count() == 0
    spark.sql(f"RESTORE {table} TO VERSION AS OF '2026-q3'")
    assert ids(spark.table(table)) == [0, 1, 2, 3]
    DeltaTable.forPath(spark, path).restoreToVersion(1)
    spark.sql(f"RESTORE {table} TO VERSION AS OF '0'")
    assert ids(spark.table(table)) == [0, 1, 2, 3]
    DeltaTable.forPath(spark, path).restoreToVersion(1)
    DeltaTable.forPath(spark, path).restoreToVersion("2026-q3")
    assert ids(spark.table(table)) == [0, 1, 2, 3]


def test_tags_are_made_shown_moved_and_dropped(spark, path, table):
    spark.sql(f"ALTER TABLE {table} CREATE TAG q4 EXPIRES current_timestamp() + INTERVAL 30 DAYS")
    spark.sql(f"ALTER TABLE '{path}' CREATE TAG `same` VERSION AS OF '2026-q3'")
    shown = spark.sql(f"SHOW TAGS IN {table}")
    assert shown.columns == ["name", "version", "created", "expires"]
    assert [(row.name, row.version) for row in shown.collect()] == [("2026-q3", 0), ("same", 0), ("q4", 2)]
    first, _, last = shown.collect()
    second = tahoe.Table(path).history()[-2]["timestamp"].isoformat()
    assert first.expires is None
    assert timedelta(days=29) < last.expires - datetime.now() < timedelta(days=31)
    spark.sql(f"ALTER TABLE {table} CREATE OR REPLACE TAG q4 TIMESTAMP AS OF '{second}'")
    spark.sql(f"ALTER TABLE {table} DROP TAG same")
    spark.sql(f"ALTER TABLE {table} DROP TAG IF EXISTS same")
    assert [(row.name, row.version) for row in spark.sql(f"SHOW TAGS {table}").collect()] == [("2026-q3", 0), ("q4", 1)]
    history = tahoe.Table(path).history()
    assert [commit["operation"] for commit in history][:2] == ["DROP TAG", "CREATE TAG"]
    assert history[0]["engineInfo"].startswith("Apache-Spark")


WRONG = [
    ("ALTER TABLE {t} CREATE TAG '2026-q3'", TagExistsError),
    ("ALTER TABLE {t} CREATE TAG x VERSION AS OF 99", VersionNotFoundError),
    ("ALTER TABLE {t} CREATE TAG x VERSION AS OF 'nothing'", TagNotFoundError),
    ("ALTER TABLE {t} CREATE TAG x EXPIRES '2001-01-01'", TagExpiryError),
    ("ALTER TABLE {t} CREATE TAG x EXPIRES 'soon'", InvalidTimeTravelError),
    ("ALTER TABLE {t} CREATE TAG x EXPIRES '+10000-01-01'", InvalidTimeTravelError),
    ("ALTER TABLE {t} CREATE TAG x EXPIRES TIMESTAMP'+10000-01-01'", InvalidTimeTravelError),
    ("ALTER TABLE {t} CREATE TAG x EXPIRES DATE'+10000-01-01' + INTERVAL 1 DAY", InvalidTimeTravelError),
    ("ALTER TABLE {t} CREATE TAG x EXPIRES current_timestamp() + INTERVAL 9999 YEARS", InvalidTimeTravelError),
    ("ALTER TABLE {t} DROP TAG nothing", TagNotFoundError),
    ("SELECT * FROM {t} VERSION AS OF 'nothing'", TagNotFoundError),
    ("SELECT * FROM {t} VERSION AS OF 'v0'", InvalidTimeTravelError),
    ("SELECT * FROM delta.`{p}@nothing`", TagNotFoundError),
    ("SELECT * FROM delta.`{p}@2026-q3` VERSION AS OF 1", InvalidTimeTravelError),
    ("SELECT * FROM delta.`{p}x@2026-q3`", TableNotFoundError),
    ("INSERT INTO delta.`{p}@2026-q3` VALUES (5)", InvalidTimeTravelError),
    ("DELETE FROM delta.`{p}@v0`", InvalidTimeTravelError),
    ("TRUNCATE TABLE delta.`{p}@2026-q3`", InvalidTimeTravelError),
    ("ALTER TABLE delta.`{p}@v0` ADD COLUMN x INT", InvalidTimeTravelError),
    ("ALTER TABLE delta.`{p}@2026-q3` SET TBLPROPERTIES ('a' = 'b')", InvalidTimeTravelError),
    ("COMMENT ON TABLE delta.`{p}@v0` IS 'x'", InvalidTimeTravelError),
    ("CREATE TABLE named (id INT) USING delta LOCATION '{p}@v7'", InvalidTimeTravelError),
    ("CREATE TABLE named USING delta LOCATION '{p}@20240102115959999' AS SELECT 1", InvalidTimeTravelError),
    ("CREATE TABLE delta.`{p}@other` SHALLOW CLONE {t}", InvalidTimeTravelError),
    ("RESTORE {t} TO VERSION AS OF 'nothing'", TagNotFoundError),
    ("RESTORE {t} TO VERSION AS OF '99'", RestoreVersionError),
    ("DESCRIBE HISTORY delta.`{p}@2026-q3`", InvalidTimeTravelError),
    ("VACUUM delta.`{p}@v0`", InvalidTimeTravelError),
    ("ALTER TABLE delta.`{p}@v0` ADD FEATURE deletionVectors", InvalidTimeTravelError),
    ("ALTER TABLE {t} CREATE TAG NULL", StatementSyntaxError),
    ("ALTER TABLE {t} CREATE TAG :n", StatementSyntaxError),
]


@pytest.mark.parametrize(("statement", "error"), WRONG)
def test_what_is_wrong_is_told_and_changes_nothing(spark, path, table, statement, error):
    with pytest.raises(error) as raised:
        spark.sql(statement.format(t=table, p=path)).collect()
    assert isinstance(raised.value, AnalysisException)
    assert tahoe.Table(path).version == 2


@pytest.mark.parametrize("name", ["2026-q3", "v0", "V99", "20240102115959999", "other"])
@pytest.mark.usefixtures("table")
def test_a_write_makes_no_table_under_the_name_of_a_version(spark, path, tmp_path, name):
    stream = (
        spark.readStream.format("delta")
        .load(path)
        .writeStream.format("delta")
        .option("checkpointLocation", str(tmp_path / "c"))
    )
    for write in (spark.range(1).write.format("delta").mode("append").save, stream.start):
        with pytest.raises(
            InvalidTimeTravelError,
            match=f"@{name} of the path names a version, where only the table itself can be named",
        ):
            write(f"{path}@{name}")
    assert not list(tmp_path.glob("*@*"))


@pytest.mark.parametrize("name", ["2026-q3", "v0", "20240102115959999"])
def test_a_folder_with_such_a_name_beside_no_table_is_a_table(spark, tmp_path, name):
    path = f"{tmp_path}/alone@{name}"
    spark.range(7).write.format("delta").save(path)
    spark.range(2).write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).count() == spark.table(f"delta.`{path}`").count() == 9
    tahoe.Table(f"{tmp_path}/alone").append(pa.table({"id": [1]}))
    assert (
        spark.read.format("delta").load(path).count()
        == spark.sql(f"SELECT * FROM delta_history('{path}')").count() + 7
        == 9
    )


def test_a_folder_with_such_a_name_is_meant_by_it(spark, path, table):
    tahoe.Table(f"{path}@2026-q3").append(pa.table({"id": range(7)}))
    assert spark.read.format("delta").load(f"{path}@2026-q3").count() == 7
    assert spark.table(f"delta.`{path}@2026-q3`").count() == 7
    spark.sql(f"INSERT INTO delta.`{path}@2026-q3` VALUES (7)")
    assert tahoe.Table(f"{path}@2026-q3").version == 1
    assert spark.sql(f"SELECT * FROM {table} VERSION AS OF '2026-q3'").count() == 4


@pytest.mark.every_case
@pytest.mark.parametrize("replace", ["statement", "query", "frame"])
def test_a_table_that_is_replaced_keeps_its_tags(spark, table_name, replace):
    name = table_name
    spark.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS a")
    spark.sql(f"ALTER TABLE {name} CREATE TAG first")
    if replace == "statement":
        spark.sql(f"CREATE OR REPLACE TABLE {name} (b STRING) USING delta")
    elif replace == "query":
        spark.sql(f"REPLACE TABLE {name} USING delta AS SELECT 'x' AS b")
    else:
        spark.sql("SELECT 'x' AS b").write.format("delta").mode("overwrite").option(
            "overwriteSchema", "true"
        ).saveAsTable(name)
    assert [row.name for row in spark.sql(f"SHOW TAGS {name}").collect()] == ["first"]
    assert spark.sql(f"SELECT * FROM {name} VERSION AS OF 'first'").collect() == [(1,)]


def test_a_version_that_has_expired_is_refused_unless_the_session_says_so(spark, path, table):
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')")
    spark.range(3).write.format("delta").mode("append").save(path)
    with pytest.raises(TagRetentionError):
        spark.sql(f"ALTER TABLE {table} CREATE TAG x VERSION AS OF 1")
    spark.conf.set(RETENTION, "false")
    try:
        spark.sql(f"ALTER TABLE {table} CREATE TAG x VERSION AS OF 1")
    finally:
        spark.conf.unset(RETENTION)
    spark.sql(f"VACUUM {table}")
    assert ids(spark.sql(f"SELECT id FROM {table} VERSION AS OF 'x'")) == [9]


def test_the_first_tag_does_not_make_a_statement_fail_that_runs_meanwhile(spark, path, monkeypatch):
    spark.range(10).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    known, done = transaction.put_commit, []

    def put_commit(env, version, data):
        if not done:
            done.append(True)
            tahoe.Table(path).tag("meanwhile")
        return known(env, version, data)

    monkeypatch.setattr(transaction, "put_commit", put_commit)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id < 3")
    assert [row.name for row in spark.sql(f"SHOW TAGS delta.`{path}`").collect()] == ["meanwhile"]
    assert spark.table(f"delta.`{path}`").count() == 7
    assert spark.sql(f"SELECT * FROM delta.`{path}` VERSION AS OF 'meanwhile'").count() == 10
    assert "numConflictRetries" not in tahoe.Table(path).history(1)[0]["operationMetrics"]


@pytest.mark.parametrize("is_dry", [False, True])
@pytest.mark.parametrize("form", ["SQL", "DeltaTable"])
def test_vacuum_tells_what_tags_hold_although_its_result_has_only_paths(spark, path, table, caplog, form, is_dry):
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')")
    held = tahoe.Table(path).vacuum(dry_run=True)
    assert held.held_files == 1
    statement = f"VACUUM {table}" + " DRY RUN" * is_dry
    frame = spark.sql(statement) if form == "SQL" else DeltaTable.forPath(spark, path).vacuum(dry_run=is_dry)
    assert frame.columns == ["path"]
    left = "would not be deleted" if is_dry else "were not deleted"
    expected = (
        f"1 file of {held.held_bytes:,} bytes that no version within the retention needs {left}, because tags hold "
        f"them: 2026-q3 of"
    )
    assert [record.getMessage() for record in caplog.records if expected in record.getMessage()]
    assert "1 file of" in repr(tahoe.Table(path).vacuum())
    spark.sql(f"ALTER TABLE {table} DROP TAG '2026-q3'")
    caplog.clear()
    spark.sql(f"VACUUM {table}")
    assert not caplog.records
