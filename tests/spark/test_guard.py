"""Statements that would damage a table's folder, or pretend to change the table, are refused and change nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

import tahoe
from tahoe.errors import DeltaAnalysisError, IncompatibleFormatError, UnsupportedOperationError
from tahoe.spark.configuration.setting_names import CHECK_FORMAT
from tahoe.spark.jvm.gateway import Gateway
from tahoe.storage.background import finish_background
from tests.spark import hadoop_file_systems

pytestmark = pytest.mark.every_spark


@pytest.fixture
def table(spark, table_name) -> str:
    """A managed table with two partitions."""
    spark.sql(f"CREATE TABLE {table_name} USING delta PARTITIONED BY (p) AS SELECT id, id % 2 AS p FROM range(4)")
    return table_name


def folder(spark, table) -> str:
    return str(Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"), table))


def everything(place: str) -> dict[str, bytes]:
    finish_background()  # what follows the last commit is not what a statement did
    return {str(p.relative_to(place)): p.read_bytes() for p in Path(place).rglob("*") if p.is_file()}


STATEMENTS = [
    "INSERT OVERWRITE DIRECTORY '{folder}' USING parquet SELECT 1 AS id",
    "INSERT OVERWRITE DIRECTORY '{folder}/p=0' USING parquet SELECT 1 AS id",
    "INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT 1 AS id",
    "ALTER TABLE {table} ADD PARTITION (p = 9)",
    "ALTER TABLE {table} DROP PARTITION (p = 0)",
    "ALTER TABLE {table} PARTITION (p = 0) RENAME TO PARTITION (p = 7)",
    "ALTER TABLE {table} REPLACE COLUMNS (x int)",
    "ALTER TABLE {table} DROP COLUMN id",
    "ALTER TABLE {table} RENAME COLUMN id TO ide",
    "ALTER TABLE {table} SET SERDEPROPERTIES ('a' = 'b')",
    "ALTER TABLE {table} RECOVER PARTITIONS",
    "MSCK REPAIR TABLE {table}",
    "LOAD DATA INPATH '{folder}' INTO TABLE {table}",
    "CREATE TABLE {table}_2 (x int) USING parquet LOCATION '{folder}'",
    "CREATE TABLE {table}_2 USING parquet LOCATION '{folder}'",
    "CREATE TABLE {table}_2 USING parquet LOCATION '{folder}' AS SELECT 1 AS id",
    "CREATE TABLE {table}_2 (wrong string) USING delta LOCATION '{folder}'",
    "ALTER TABLE {table} SET LOCATION '{folder}/p=0'",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_damaging_statement_is_refused_and_changes_nothing(spark, table, statement):
    place = folder(spark, table)
    before = everything(place)
    with pytest.raises((DeltaAnalysisError, AnalysisException)):
        spark.sql(statement.format(table=table, folder=place))
    assert everything(place) == before
    assert spark.table(table).count() == 4
    assert not spark.catalog.tableExists(table + "_2")


def test_other_formats_cannot_be_written_into_a_table(spark, table):
    place = folder(spark, table)
    before = everything(place)
    for mode in ("append", "overwrite"):
        for form in ("parquet", "csv", "json", "orc", "text"):
            rows = spark.range(1).selectExpr("cast(id as string) as id")
            with pytest.raises(UnsupportedOperationError):
                rows.write.mode(mode).format(form).save(place)
    with pytest.raises(UnsupportedOperationError):
        spark.range(1).write.mode("overwrite").parquet(place + "/below/it")
    merged = spark.sql(f"SELECT (SELECT max(id) FROM {table}) AS id, (SELECT min(id) FROM {table}) AS p")
    with pytest.raises(
        UnsupportedOperationError
    ):  # Spark computes these subqueries once, and puts them above the command
        merged.write.mode("overwrite").parquet(place)
    assert everything(place) == before


READS = {
    "parquet": lambda spark, place: spark.read.parquet(place),
    "with a schema": lambda spark, place: spark.read.schema("id LONG").parquet(place),
    "load": lambda spark, place: spark.read.format("parquet").load(place),
    "option": lambda spark, place: spark.read.format("PARQUET").option("path", place).load(),
    "one of several": lambda spark, place: spark.read.parquet(f"{place}_beside", place),
    "partition": lambda spark, place: spark.read.parquet(f"{place}/p=0"),
    "files of a partition": lambda spark, place: spark.read.parquet(f"{place}/p=0/*.parquet"),
    "all partitions": lambda spark, place: spark.read.parquet(f"{place}/*"),
    "some partitions": lambda spark, place: spark.read.parquet(f"{place}/p={{0,1}}"),
    "SQL": lambda spark, place: spark.sql(f"SELECT * FROM parquet.`{place}`"),
    "subquery": lambda spark, place: spark.sql(f"SELECT (SELECT count(*) FROM parquet.`{place}`)"),
    "WITH": lambda spark, place: spark.sql(f"WITH w AS (SELECT * FROM parquet.`{place}`) SELECT * FROM w"),
    "table": lambda spark, place: spark.read.table(f"parquet.`{place}`"),
    "view": lambda spark, place: spark.sql(f"CREATE TEMPORARY VIEW of_files USING parquet OPTIONS (path '{place}')"),
    "stream": lambda spark, place: spark.readStream.schema("id LONG").parquet(place),
}


@pytest.mark.parametrize("read", READS)
def test_a_tables_folder_is_not_read_as_parquet_unless_the_session_says_so(spark, table, read):
    """Its files have rows that were deleted or replaced. The reference returns them without a word."""
    place = folder(spark, table)
    spark.range(3).write.mode("overwrite").parquet(f"{place}_beside")
    spark.sql(f"DELETE FROM {table} WHERE id = 0")
    with pytest.raises(IncompatibleFormatError, match=r'format\("delta"\)'):
        READS[read](spark, place)
    spark.conf.set(CHECK_FORMAT.name, "false")
    refused = None
    try:
        READS[read](spark, place)
    except Exception as error:  # Spark has reasons of its own to refuse some of them
        refused = error
    finally:
        spark.conf.unset(CHECK_FORMAT.name)
        spark.catalog.dropTempView("of_files")
    assert not isinstance(refused, IncompatibleFormatError)


def test_single_files_of_a_table_and_other_folders_are_read_as_parquet(spark, table):
    place = folder(spark, table)
    files = spark.table(table).inputFiles()
    assert spark.read.parquet(files[0]).count() > 0
    assert spark.read.parquet(*files).count() == 4
    assert spark.sql(f"SELECT * FROM parquet.`{files[0]}`").count() > 0
    tahoe.Table(place).create_checkpoint()
    assert spark.read.parquet(f"{place}/_delta_log/*.checkpoint.parquet").count() > 2
    assert spark.read.text(place).count() > 0
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        spark.read.parquet(f"{place}/nowhere")


def test_a_table_in_a_schema_named_parquet_is_no_path(spark, table):
    """The name's last part may be that of a table's folder, relative to where the program runs."""
    spark.range(2).write.format("delta").save(str(Path.cwd() / table))
    spark.sql("CREATE SCHEMA parquet")
    try:
        spark.sql(f"CREATE TABLE parquet.{table} USING parquet AS SELECT 7 AS id")
        assert spark.table(f"parquet.{table}").collect() == [(7,)]
    finally:
        spark.sql("DROP SCHEMA parquet CASCADE")
        shutil.rmtree(Path.cwd() / table)


def test_a_read_of_many_folders_asks_for_few_logs(spark, tmp_path):
    """A request for each folder of a pattern, and for each folder around it, would take minutes on S3."""
    hadoop_file_systems.install(spark)
    for year in range(10):
        for day in range(10):
            (tmp_path / f"year={year}/day={day}").mkdir(parents=True)
    gateway = Gateway(spark)
    gateway.set_static(hadoop_file_systems.SYSTEM, "looks", 0)
    with pytest.raises(AnalysisException):  # there is no file
        spark.read.parquet(f"strict://{tmp_path}/*/*")
    assert 0 < gateway.load_class(hadoop_file_systems.SYSTEM).getField("looks").get(None) <= 20


def test_another_format_cannot_take_a_tables_name(spark, table):
    place = folder(spark, table)
    before = everything(place)
    with pytest.raises((DeltaAnalysisError, AnalysisException)):
        spark.range(1).write.format("parquet").mode("overwrite").saveAsTable(table)
    assert everything(place) == before
    assert spark.table(table).count() == 4


def test_beside_a_table_everything_may_be_written(spark, table):
    place = Path(folder(spark, table)).parent / f"{table}_beside"
    spark.range(3).write.mode("overwrite").parquet(str(place))
    assert spark.read.parquet(str(place)).count() == 3


def test_a_name_can_be_given_to_another_delta_table(spark, table, path):
    spark.range(7).selectExpr("id", "id as p").write.format("delta").save(path)
    spark.sql(f"CREATE TABLE {table}_other USING delta LOCATION '{folder(spark, table)}'")
    try:
        spark.sql(f"ALTER TABLE {table}_other SET LOCATION '{path}'")
        assert spark.table(f"{table}_other").count() == 7
    finally:
        spark.sql(f"DROP TABLE {table}_other")
    assert spark.table(table).count() == 4


def test_explain_runs_nothing(spark, table):
    version = tahoe.Table(folder(spark, table)).version
    spark.sql(f"EXPLAIN INSERT INTO {table} VALUES (9, 1)").collect()
    assert tahoe.Table(folder(spark, table)).version == version


def test_a_table_can_be_dropped(spark, table):
    place = folder(spark, table)
    spark.sql(f"DROP TABLE {table}")
    assert not Path(place).exists()
