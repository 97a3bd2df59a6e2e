"""Tables by name: in the session's catalog, as delta.`path`, in views and queries, at a version."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row

import tahoe
from tahoe.errors import InvalidTimeTravelError, TableNotFoundError, VersionNotFoundError
from tahoe.protocol.types.schema import LONG, STRING, Field, Struct
from tahoe.spark.ddl import catalog
from tahoe.spark.jvm.gateway import Gateway
from tahoe.storage.background import finish_background
from tests.spark.foreign import change_schema


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("provider", "is_delta"),
    [
        ("delta", True),
        ("DELTA", True),
        ("Delta", True),
        ("parquet", False),
        ("delta2", False),
        (" delta", False),
        ("", False),
        (None, False),
    ],
)
def test_the_provider_is_deltas_for_java_and_for_python(spark, provider, is_delta):
    assert catalog.is_delta_provider(provider) is is_delta
    assert Gateway(spark).java_class("delta.Names").isDelta(provider) is is_delta


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("parts", "is_path"),
    [
        (["delta", "/data/t"], True),
        (["Delta", "s3://bucket/t"], True),
        (["delta", "t"], False),
        (["delta", "database", "a/b"], False),
        (["other", "/data/t"], False),
        (["/data/t"], False),
    ],
)
def test_a_name_is_a_path_for_java_and_for_python(spark, parts, is_path):
    gateway, (first, *namespace, last) = Gateway(spark), ["", *parts] if len(parts) == 1 else parts
    assert (catalog.path_of(parts) is not None) is is_path
    names = gateway.java_class("delta.Names")
    assert (
        names.isDelta(first) and names.isPath(gateway.array(gateway.jvm.java.lang.String, namespace), last)
    ) is is_path


def test_names_of_delta_tables(spark, table, path):
    """ADD CONSTRAINT asks before Spark has resolved the name."""
    spark.sql(f"CREATE TABLE {table}_other (id BIGINT) USING parquet")
    gateway = Gateway(spark)
    database = spark.catalog.currentDatabase()
    for parts in ([table], [database, table], ["Spark_Catalog", database, table], ["delta", path]):
        assert catalog.names_delta_table(gateway, parts)
    for parts in (
        [f"{table}_other"],
        ["nothing"],
        ["nothing", table],
        ["other", database, table],
        ["a", "b", "c", "d"],
    ):
        assert not catalog.names_delta_table(gateway, parts)
    spark.range(1).createOrReplaceTempView(table)
    try:
        assert not catalog.names_delta_table(gateway, [table])
    finally:
        spark.catalog.dropTempView(table)


def append(path, *ids):
    tahoe.Table(path).append(pa.table({"id": pa.array(ids, pa.int64())}))


@pytest.fixture
def table(spark, path, table_name) -> str:
    """A name for a table of two versions, with one and three rows."""
    append(path, 1)
    append(path, 2, 3)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")
    return table_name


def value(spark, query):
    return spark.sql(query).collect()[0][0]


# --- paths as names


@pytest.mark.parametrize("catalog", ["delta", "DELTA", "Delta"])
def test_a_path_is_a_name(spark, path, catalog):
    append(path, 1)
    assert value(spark, f"SELECT count(*) FROM {catalog}.`{path}`") == 1


def test_other_spellings_of_a_path_are_names_too(spark, path):
    append(path, 1)
    for spelling in (path + "/", "file:" + path, "file://" + path):
        assert value(spark, f"SELECT count(*) FROM delta.`{spelling}`") == 1


def test_a_path_can_be_qualified_and_aliased(spark, path):
    append(path, 1)
    assert value(spark, f"SELECT t.id FROM delta.`{path}` t WHERE t.id = 1") == 1
    assert value(spark, f"SELECT delta.`{path}`.id FROM delta.`{path}`") == 1


def test_a_path_at_a_version(spark, path):
    append(path, 1)
    append(path, 2)
    for at in ("VERSION AS OF 0", "FOR VERSION AS OF '0'", "FOR SYSTEM_VERSION AS OF 0"):
        assert value(spark, f"SELECT count(*) FROM delta.`{path}` {at}") == 1
    assert value(spark, f"SELECT count(*) FROM delta.`{path}@v0`") == 1
    assert value(spark, f"SELECT count(*) FROM delta.`{path}`") == 2
    with pytest.raises(InvalidTimeTravelError):
        spark.sql(f"SELECT * FROM delta.`{path}@v0` VERSION AS OF 1")


def test_a_path_that_is_no_table_has_our_error(spark, tmp_path):
    # after "no such table" Spark would look for files there, and complain about those
    with pytest.raises(TableNotFoundError) as caught:
        spark.sql(f"SELECT * FROM delta.`{tmp_path}/nothing`")
    assert isinstance(caught.value, AnalysisException)
    with pytest.raises(TableNotFoundError):
        spark.table(f"delta.`{tmp_path}/nothing`")


def test_whether_a_path_is_a_table_can_be_asked(spark, path, tmp_path):
    append(path, 1)
    assert spark.catalog.tableExists(f"delta.`{path}`")
    assert not spark.catalog.tableExists(f"delta.`{tmp_path}/nothing`")


def test_a_path_is_described_as_its_log_has_it(spark, path):
    append(path, 1)
    assert spark.sql(f"DESCRIBE delta.`{path}`").collect()[0].asDict()["col_name"] == "id"
    assert [c.name for c in spark.catalog.listColumns(f"delta.`{path}`")] == ["id"]


def test_a_database_called_delta_still_works(spark, path):
    # the catalog of that name would hide it
    append(path, 1)
    spark.sql("CREATE DATABASE delta")
    try:
        spark.sql(f"CREATE TABLE delta.inside USING delta LOCATION '{path}'")
        spark.range(5).write.format("parquet").saveAsTable("spark_catalog.delta.parquet_inside")
        assert value(spark, "SELECT count(*) FROM delta.inside") == 1
        assert value(spark, "SELECT count(*) FROM delta.inside VERSION AS OF 0") == 1
        assert value(spark, "SELECT count(*) FROM delta.parquet_inside") == 5
        listed = {
            row.tableName for row in spark.sql("SHOW TABLES IN delta").collect()
        }  # temporary views are among them
        assert listed >= {"inside", "parquet_inside"}
        assert spark.catalog.databaseExists("delta")
        spark.sql("DROP TABLE delta.inside")
        spark.sql("DROP TABLE delta.parquet_inside")
    finally:
        spark.sql("DROP DATABASE delta CASCADE")


# --- names


@pytest.mark.parametrize("column", ["path", "size", "modified", "version", "stats", "partition", "0"])
def test_partition_columns_of_any_name(spark, table_name, column):
    spark.sql(f"CREATE TABLE {table_name} (id BIGINT, `{column}` INT) USING delta PARTITIONED BY (`{column}`)")
    spark.sql(f"INSERT INTO {table_name} VALUES (1, 10), (2, 20), (3, null)")
    assert spark.sql(f"SELECT id, `{column}` FROM {table_name} WHERE `{column}` > 10").collect() == [(2, 20)]
    spark.sql(f"UPDATE {table_name} SET id = 5 WHERE `{column}` = 10")
    assert sorted(spark.table(table_name).collect(), key=str) == [(2, 20), (3, None), (5, 10)]
    assert {row[0] for row in spark.sql(f"SHOW PARTITIONS {table_name}").collect()} == {10, 20, None}


@pytest.mark.parametrize("provider", ["delta", "DELTA", "Delta", "dElTa"])
def test_the_format_in_any_letters(spark, path, table_name, provider):
    spark.sql(f"CREATE TABLE {table_name} (id BIGINT) USING {provider}")
    spark.range(2).write.format(provider).mode("append").saveAsTable(table_name)
    spark.range(1).writeTo(table_name).using(provider).append()
    assert value(spark, f"SELECT count(*) FROM {table_name}") == 3
    assert value(spark, f"DESCRIBE DETAIL {table_name}") == "delta"
    spark.table(table_name).write.format(provider).save(path)
    assert spark.read.format(provider).load(path).count() == 3


def test_a_table_by_name(spark, table):
    assert value(spark, f"SELECT count(*) FROM {table}") == 3
    assert spark.table(table).count() == 3
    assert spark.read.table(table).count() == 3
    for name in (table, f"default.{table}", f"spark_catalog.default.{table}"):
        assert value(spark, f"SELECT max({name}.id) FROM {name}") == 3


def test_a_name_at_a_version(spark, table):
    assert value(spark, f"SELECT count(*) FROM {table} VERSION AS OF 0") == 1
    assert value(spark, f"SELECT max({table}.id) FROM {table} VERSION AS OF 0") == 1
    assert spark.read.option("versionAsOf", 0).table(table).count() == 1
    assert value(spark, f"SELECT (SELECT count(*) FROM {table}) - (SELECT count(*) FROM {table} VERSION AS OF 0)") == 2
    with pytest.raises(VersionNotFoundError):
        spark.sql(f"SELECT * FROM {table} VERSION AS OF 9")


def test_a_name_at_a_moment(spark, table, path):
    moment = tahoe.Table(path).history()[0]["timestamp"].isoformat()
    assert value(spark, f"SELECT count(*) FROM {table} TIMESTAMP AS OF '{moment}'") == 3
    assert value(spark, f"SELECT count(*) FROM delta.`{path}` TIMESTAMP AS OF '{moment}'") == 3


def test_a_commit_of_another_writer_is_seen(spark, table, path):
    assert spark.table(table).count() == 3
    append(path, 4)
    assert spark.table(table).count() == 4


def test_a_schema_that_another_writer_changed_is_seen(spark, table, path):
    # Spark keeps the relation of a name
    assert spark.table(table).columns == ["id"]
    change_schema(path, Struct((Field(name="id", type=LONG), Field(name="name", type=STRING))))
    assert spark.table(table).columns == ["id", "name"]
    assert value(spark, f"SELECT count(*) FROM {table} WHERE name IS NULL") == 3
    assert [r.col_name for r in spark.sql(f"DESCRIBE {table}").collect()] == ["id", "name"]
    assert [c.name for c in spark.catalog.listColumns(table)] == ["id", "name"]


def test_the_catalog_holds_no_copy_of_the_schema(spark, table):
    # such a copy would go out of date
    entry = (
        spark._jsparkSession.sessionState()
        .catalog()
        .getTableMetadata(spark._jvm.org.apache.spark.sql.catalyst.TableIdentifier(table))
    )
    assert entry.schema().isEmpty()


def test_a_name_whose_table_is_gone_has_our_error(spark, table, path):
    finish_background()
    shutil.rmtree(path)
    with pytest.raises(TableNotFoundError):
        spark.table(table).count()


def test_dropping_a_name_leaves_an_external_table(spark, table, path):
    spark.sql(f"DROP TABLE {table}")
    assert not spark.catalog.tableExists(table)
    assert tahoe.Table(path).version == 1


def test_a_renamed_table_keeps_its_rows_and_history(spark, table_name):
    # the folder of a managed table moves with its log
    spark.range(3).write.format("delta").saveAsTable(table_name)
    spark.range(2).write.format("delta").mode("append").saveAsTable(table_name)
    spark.sql(f"ALTER TABLE {table_name} RENAME TO {table_name}_new")
    try:
        assert spark.table(table_name + "_new").count() == 5
        assert value(spark, f"SELECT count(*) FROM {table_name}_new VERSION AS OF 0") == 3
    finally:
        spark.sql(f"DROP TABLE {table_name}_new")


# --- views and queries


def test_a_persistent_view(spark, table, path):
    spark.sql(f"CREATE VIEW {table}_v AS SELECT id * 2 AS double FROM {table}")
    try:
        assert value(spark, f"SELECT sum(double) FROM {table}_v") == 12
        append(path, 4)
        assert value(spark, f"SELECT sum(double) FROM {table}_v") == 20
        assert value(spark, f"SELECT count(*) FROM {table}_v a JOIN {table}_v b ON a.double = b.double") == 4
    finally:
        spark.sql(f"DROP VIEW {table}_v")


def test_a_view_over_a_path_and_over_a_version(spark, path):
    append(path, 1)
    append(path, 2)
    spark.sql(f"CREATE VIEW over_path AS SELECT * FROM delta.`{path}`")
    spark.sql(f"CREATE VIEW over_version AS SELECT * FROM delta.`{path}` VERSION AS OF 0")
    try:
        assert (spark.table("over_path").count(), spark.table("over_version").count()) == (2, 1)
    finally:
        spark.sql("DROP VIEW over_path")
        spark.sql("DROP VIEW over_version")


def test_a_temporary_view_sees_the_newest_version(spark, path):
    append(path, 1)
    spark.read.format("delta").load(path).createOrReplaceTempView("temporary")
    append(path, 2)
    assert spark.table("temporary").count() == 2
    spark.catalog.dropTempView("temporary")


def test_a_cte_shadows_a_table(spark, table):
    assert value(spark, f"WITH {table} AS (SELECT 7 AS id) SELECT id FROM {table}") == 7
    assert value(spark, f"WITH x AS (SELECT * FROM {table}) SELECT count(*) FROM x JOIN {table} USING (id)") == 3


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT max(id) FROM {t} WHERE id < (SELECT max(id) FROM {t})", 2),
        ("SELECT count(*) FROM {t} a WHERE EXISTS (SELECT 1 FROM {t} b WHERE b.id = a.id + 1)", 2),
        ("SELECT count(*) FROM {t} WHERE id NOT IN (SELECT id FROM {t} VERSION AS OF 0)", 2),
        ("SELECT count(*) FROM (SELECT * FROM {t} UNION ALL SELECT * FROM {t})", 6),
        ("SELECT count(*) FROM {t} a, LATERAL (SELECT a.id AS other) WHERE other > 1", 2),
        ("SELECT sum(n) FROM (SELECT id, count(*) OVER () AS n FROM {t})", 9),
        ("SELECT count(*) FROM {t} TABLESAMPLE (100 PERCENT)", 3),
        ("EXECUTE IMMEDIATE 'SELECT count(*) FROM {t} WHERE id > ?' USING 1", 2),
        ("SELECT count(*) FROM IDENTIFIER('{t}')", 3),
    ],
)
def test_queries_name_tables_wherever_sql_allows_it(spark, table, query, expected):
    assert value(spark, query.format(t=table)) == expected


def test_parameters_are_bound(spark, table):
    assert spark.sql(f"SELECT count(*) AS n FROM {table} WHERE id > :least", args={"least": 1}).collect() == [Row(n=2)]


def test_a_cached_table_is_renewed_by_an_insert(spark, table):
    spark.sql(f"CACHE TABLE {table}")
    try:
        assert spark.table(table).count() == 3
        spark.sql(f"INSERT INTO {table} VALUES (10)")
        assert spark.table(table).count() == 4
        assert "In-memory" in spark.table(table)._jdf.queryExecution().executedPlan().toString()
    finally:
        spark.sql(f"UNCACHE TABLE {table}")


def test_other_sources_are_as_before(spark, table_name, tmp_path):
    spark.range(3).write.format("parquet").saveAsTable(table_name)
    spark.range(2).write.mode("append").insertInto(table_name)
    assert spark.table(table_name).count() == 5
    spark.range(4).write.mode("overwrite").format("parquet").saveAsTable(table_name)
    assert spark.table(table_name).count() == 4
    spark.range(2).write.csv(str(tmp_path / "csv"))
    assert spark.read.csv(str(tmp_path / "csv")).count() == 2
    assert value(spark, f"SELECT count(*) FROM csv.`{tmp_path}/csv`") == 2
    spark.sql(f"CREATE TABLE {table_name}_2 USING parquet AS SELECT * FROM {table_name}")
    assert spark.table(f"{table_name}_2").count() == 4
    spark.sql(f"DROP TABLE {table_name}_2")


def test_a_name_and_a_path_can_be_used_again(spark, path):
    # what was known of the old table would say that it is still there
    spark.sql("CREATE TABLE again (id BIGINT) USING delta")
    spark.sql("INSERT INTO again VALUES (1)")
    spark.sql("DROP TABLE again")
    spark.sql("CREATE TABLE again (other STRING) USING delta")
    try:
        assert spark.table("again").columns == ["other"]
        assert spark.sql("SELECT * FROM again VERSION AS OF 0").columns == ["other"]
    finally:
        spark.sql("DROP TABLE again")
    append(path, 1)
    finish_background()
    shutil.rmtree(path)
    assert not tahoe.DeltaTable.isDeltaTable(spark, path)
    spark.sql(f"CREATE TABLE delta.`{path}` (other STRING) USING delta")
    assert spark.read.format("delta").load(path).columns == ["other"]


def test_a_path_with_capitals_shows_new_columns(spark, tmp_path):
    """Spark's cache of relations, which is emptied of them, keeps the case of letters in paths."""
    table = f"delta.`{tmp_path}/Capitals`"
    spark.sql(f"CREATE TABLE {table} (id INT) USING delta")
    assert spark.table(table).columns == ["id"]
    tahoe.Table(f"{tmp_path}/Capitals").append(
        pa.table({"id": pa.array([1], pa.int32()), "more": ["x"]}), merge_schema=True
    )
    assert spark.table(table).collect() == [(1, "x")]
