"""What a table is can be changed by every form of ALTER TABLE, on names and paths, and statements tell it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import DataFrame, Row, SparkSession

import tahoe
from tahoe.errors import (
    CheckConstraintViolatedError,
    ClusteredAndPartitionedError,
    ColumnDefaultsNotEnabledError,
    ColumnTypeChangeError,
    ConstraintDependsError,
    ConstraintExistsError,
    ConstraintNotBooleanError,
    ConstraintNotFoundError,
    DropColumnUnsupportedError,
    DropPartitionColumnError,
    DuplicateColumnsError,
    GeneratedColumnDependsError,
    IdentityColumnChangeError,
    IdentityReplaceColumnsError,
    NewColumnNotNullError,
    NotNullViolationError,
    NotPartitionedError,
    RenameColumnUnsupportedError,
    TooManyClusteringColumnsError,
    UnsupportedOperationError,
)
from tahoe.protocol.configuration.column_mapping import physical_name

COLUMNS = "id BIGINT, name STRING, s STRUCT<x: INT, y: ARRAY<STRUCT<z: INT>>>, m MAP<STRING, STRUCT<v: INT>>, p INT"
ROW = (
    "1 AS id, 'a' AS name, named_struct('x', 1, 'y', array(named_struct('z', 1))) AS s, map('k', named_struct('v', "
    "1)) AS m, 7 AS p"
)
MAPPING = "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


@pytest.fixture(params=["name", "path"])
def t(request: pytest.FixtureRequest, spark: SparkSession, path: str, table_name: str) -> str:
    """What a statement calls a table of one row."""
    spark.sql(f"CREATE TABLE delta.`{path}` ({COLUMNS}) USING delta PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT {ROW}")
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")
    return table_name if request.param == "name" else f"delta.`{path}`"


@pytest.fixture
def named(spark: SparkSession, table_name: str) -> Iterator[str]:
    """A managed table of four rows."""
    name = f"{table_name}_managed"
    spark.sql(f"CREATE TABLE {name} USING delta AS SELECT id, cast(id AS STRING) AS name FROM range(4)")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def head(frame: DataFrame) -> Row:
    row = frame.head()
    assert row is not None
    return row


def clustering(spark: SparkSession, table: str) -> list[str]:
    columns: list[str] = head(tahoe.DeltaTable.forName(spark, table).detail()).clusteringColumns
    return columns


def schema(path: str) -> str:
    return str(tahoe.Table(path).schema)


def alter(spark: SparkSession, table: str, *changes: str) -> None:
    for change in changes:
        spark.sql(f"ALTER TABLE {table} {change}")


def test_columns_are_added_anywhere(spark: SparkSession, t: str, path: str) -> None:
    alter(spark, t, "ADD COLUMNS (a INT COMMENT 'first', b STRING AFTER id, c DATE FIRST)")
    alter(spark, t, "ADD COLUMN s.w INT FIRST", "ADD COLUMN s.y.element.q INT AFTER z", "ADD COLUMN m.value.u INT")
    assert schema(path) == (
        "struct<c:date,id:long,b:string,name:string,s:struct<w:integer,x:integer,y:array<struct<z:integer,q:integer>>>,"
        "m:map<string,struct<v:integer,u:integer>>,p:integer,a:integer>"
    )
    assert head(spark.table(t)).asDict(recursive=True) == {
        "c": None,
        "id": 1,
        "b": None,
        "name": "a",
        "s": {"w": None, "x": 1, "y": [{"z": 1, "q": None}]},
        "m": {"k": {"v": 1, "u": None}},
        "p": 7,
        "a": None,
    }
    assert tahoe.Table(path).schema.find("a").metadata["comment"] == "first"  # type: ignore[union-attr]
    assert tahoe.Table(path).history()[0]["operation"] == "ADD COLUMNS"
    with pytest.raises(NewColumnNotNullError):
        alter(spark, t, "ADD COLUMN d INT NOT NULL")
    with pytest.raises((AnalysisException, DuplicateColumnsError)):
        alter(spark, t, "ADD COLUMN ID INT")
    with pytest.raises(AnalysisException):
        alter(spark, t, "ADD COLUMN nothing.x INT")


def test_columns_are_renamed_and_dropped_once_they_are_mapped(spark: SparkSession, t: str, path: str) -> None:
    with pytest.raises(RenameColumnUnsupportedError, match=r"delta\.columnMapping\.mode"):
        alter(spark, t, "RENAME COLUMN name TO title")
    with pytest.raises(DropColumnUnsupportedError, match=r"delta\.columnMapping\.mode"):
        alter(spark, t, "DROP COLUMN name")
    version = tahoe.Table(path).version
    alter(
        spark,
        t,
        MAPPING,
        "RENAME COLUMN name TO title",
        "RENAME COLUMN s.x TO `x y`",
        "RENAME COLUMN p TO part",
        "DROP COLUMN m",
    )
    alter(
        spark,
        t,
        "RENAME COLUMN s.y.element.z TO zz",
        "DROP COLUMN s.y",
        "ADD COLUMN m INT",
        "DROP COLUMN IF EXISTS nothing",
    )
    assert schema(path) == "struct<id:long,title:string,s:struct<x y:integer>,part:integer,m:integer>"
    table = tahoe.Table(path)
    assert table.snapshot().partition_columns == ("part",)
    assert physical_name(table.schema.find("title")) == "name"  # type: ignore[arg-type]
    assert [tuple(row) for row in spark.sql(f"SELECT id, title, s.`x y`, part, m FROM {t}").collect()] == [
        (1, "a", 1, 7, None)
    ]
    assert [row.name for row in spark.read.format("delta").option("versionAsOf", version).load(path).collect()] == ["a"]
    with pytest.raises(DropPartitionColumnError):
        alter(spark, t, "DROP COLUMN part")
    with pytest.raises(AnalysisException):
        alter(spark, t, "RENAME COLUMN name TO again")
    with pytest.raises((AnalysisException, DuplicateColumnsError)):
        alter(spark, t, "RENAME COLUMN title TO ID")


def test_types_comments_places_and_nulls(spark: SparkSession, t: str, path: str) -> None:
    with pytest.raises(ColumnTypeChangeError, match=r"delta\.enableTypeWidening"):
        alter(spark, t, "ALTER COLUMN s.x TYPE BIGINT")
    alter(spark, t, "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    alter(
        spark,
        t,
        "ALTER COLUMN s.x TYPE BIGINT",
        "ALTER COLUMN s.y.element.z TYPE BIGINT",
        "ALTER COLUMN name COMMENT 'it''s'",
    )
    alter(
        spark,
        t,
        "ALTER COLUMN name FIRST",
        "ALTER COLUMN id AFTER s",
        "ALTER COLUMN id SET NOT NULL",
        "ALTER COLUMN s.x SET NOT NULL",
    )
    assert schema(path) == (
        "struct<name:string,s:struct<x:long,y:array<struct<z:long>>>,id:long,m:map<string,struct<v:integer>>,p:integer>"
    )
    found = tahoe.Table(path).schema.resolve(("s", "x"))
    assert found is not None
    assert not found[-1].nullable
    assert found[-1].metadata["delta.typeChanges"] == [{"fromType": "integer", "toType": "long"}]
    with pytest.raises(NotNullViolationError):
        spark.sql(f"INSERT INTO {t} (name, id) VALUES ('b', null)")
    alter(spark, t, "ALTER COLUMN id DROP NOT NULL")
    spark.sql(f"INSERT INTO {t} (name, s, id) VALUES ('b', null, null)")
    with pytest.raises(NotNullViolationError, match="id"):
        alter(spark, t, "ALTER COLUMN id SET NOT NULL")
    with pytest.raises((AnalysisException, ColumnTypeChangeError)):
        alter(spark, t, "ALTER COLUMN name TYPE INT")
    assert sorted(row.name for row in spark.table(t).collect()) == ["a", "b"]


def test_several_columns_at_once(spark: SparkSession, t: str, path: str) -> None:
    alter(spark, t, "ALTER COLUMN id COMMENT 'one', name COMMENT 'two'")
    assert [f.metadata.get("comment") for f in tahoe.Table(path).schema][:2] == ["one", "two"]
    assert tahoe.Table(path).history()[0]["operation"] == "CHANGE COLUMNS"


def test_text_lengths(spark: SparkSession, table_name: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} (v VARCHAR(3), c CHAR(2), s STRING) USING delta")
    alter(spark, table_name, "ALTER COLUMN v TYPE VARCHAR(5)", "ALTER COLUMN c TYPE VARCHAR(4)")
    spark.sql(f"INSERT INTO {table_name} VALUES ('12345', '1234', 's')")
    with pytest.raises((AnalysisException, ColumnTypeChangeError)):
        alter(spark, table_name, "ALTER COLUMN v TYPE VARCHAR(4)")
    with pytest.raises((AnalysisException, ColumnTypeChangeError)):
        alter(spark, table_name, "ALTER COLUMN s TYPE VARCHAR(4)")
    alter(spark, table_name, "ALTER COLUMN v TYPE STRING")
    spark.sql(f"INSERT INTO {table_name} VALUES ('a long text', '1', 's')")
    assert spark.table(table_name).count() == 2


def test_defaults(spark: SparkSession, named: str) -> None:
    with pytest.raises(ColumnDefaultsNotEnabledError):
        alter(spark, named, "ALTER COLUMN name SET DEFAULT 'none'")
    alter(
        spark,
        named,
        "SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        "ALTER COLUMN name SET DEFAULT 'none'",
    )
    spark.sql(f"INSERT INTO {named} (id) VALUES (10)")
    alter(spark, named, "ALTER COLUMN name DROP DEFAULT")
    spark.sql(f"INSERT INTO {named} (id) VALUES (11)")
    assert [row.name for row in spark.table(named).where("id > 9").orderBy("id").collect()] == ["none", None]
    with pytest.raises((AnalysisException, tahoe.errors.DefaultOfNewColumnError)):
        alter(spark, named, "ADD COLUMN d INT DEFAULT 3")


def test_columns_that_rules_name(spark: SparkSession, table_name: str) -> None:
    columns = "i BIGINT GENERATED ALWAYS AS IDENTITY, n INT, g INT GENERATED ALWAYS AS (n + 1)"
    spark.sql(f"CREATE TABLE {table_name} ({columns}) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    for change in ("RENAME COLUMN n TO m", "DROP COLUMN n"):
        with pytest.raises(GeneratedColumnDependsError):
            alter(spark, table_name, change)
    with pytest.raises(IdentityColumnChangeError):
        alter(spark, table_name, "ALTER COLUMN i SET NOT NULL")
    with pytest.raises(IdentityReplaceColumnsError):
        alter(spark, table_name, "REPLACE COLUMNS (i BIGINT, n INT, g INT)")
    alter(spark, table_name, "ALTER COLUMN i COMMENT 'number'", "RENAME COLUMN i TO number", "RENAME COLUMN g TO next")
    spark.sql(f"INSERT INTO {table_name} (n) VALUES (5)")
    assert [tuple(row) for row in spark.table(table_name).collect()] == [(1, 5, 6)]
    alter(spark, table_name, "DROP COLUMN next", "RENAME COLUMN n TO m")
    assert spark.table(table_name).columns == ["number", "m"]


def test_replace_columns(spark: SparkSession, t: str, path: str) -> None:
    kept = COLUMNS.replace("id BIGINT", "id BIGINT COMMENT 'key'")
    alter(spark, t, f"REPLACE COLUMNS ({kept}, extra INT)")
    assert tahoe.Table(path).schema.names == ("id", "name", "s", "m", "p", "extra")
    assert tahoe.Table(path).history()[0]["operation"] == "REPLACE COLUMNS"
    assert tahoe.Table(path).schema.find("id").metadata["comment"] == "key"  # type: ignore[union-attr]
    with pytest.raises(tahoe.errors.SchemaMismatchError, match="would be dropped"):
        alter(spark, t, "REPLACE COLUMNS (id BIGINT, p INT)")


def test_constraints_are_about_one_row(spark: SparkSession, t: str) -> None:
    for condition in ("id IN (SELECT 1)", "EXISTS (SELECT 1)", "id = (SELECT max(id) FROM range(9))"):
        with pytest.raises(tahoe.errors.UnsupportedOperationError, match="contains a subquery"):
            alter(spark, t, f"ADD CONSTRAINT c CHECK ({condition})")


def test_constraints(spark: SparkSession, t: str, path: str) -> None:
    alter(spark, t, "ADD CONSTRAINT positive CHECK (id > 0 AND name LIKE 'a%')")
    assert tahoe.Table(path).properties["delta.constraints.positive"] == "id > 0 AND name LIKE 'a%'"
    with pytest.raises(CheckConstraintViolatedError):
        spark.sql(f"INSERT INTO {t} (id, name) VALUES (-1, 'a')")
    with pytest.raises(ConstraintExistsError):
        alter(spark, t, "ADD CONSTRAINT Positive CHECK (id > 1)")
    with pytest.raises(CheckConstraintViolatedError, match='"id":1'):
        alter(spark, t, "ADD CONSTRAINT large CHECK (id > 100)")
    with pytest.raises((AnalysisException, ConstraintNotBooleanError)):
        alter(spark, t, "ADD CONSTRAINT number CHECK (id + 1)")
    with pytest.raises(AnalysisException):
        alter(spark, t, "ADD CONSTRAINT unknown CHECK (nothing > 1)")
    alter(spark, t, MAPPING)
    with pytest.raises(ConstraintDependsError):
        alter(spark, t, "RENAME COLUMN name TO title")
    with pytest.raises(ConstraintDependsError):
        alter(spark, t, "DROP COLUMN id")
    alter(spark, t, "DROP CONSTRAINT positive", "DROP CONSTRAINT IF EXISTS positive", "RENAME COLUMN name TO title")
    with pytest.raises(ConstraintNotFoundError):
        alter(spark, t, "DROP CONSTRAINT positive")
    assert "delta.constraints.positive" not in tahoe.Table(path).properties


def test_constraints_of_a_new_table(spark: SparkSession, table_name: str) -> None:
    spark.sql(
        f"CREATE TABLE {table_name} (id BIGINT CONSTRAINT positive CHECK (id > 0), n INT, CONSTRAINT both CHECK "
        f"(n < id)) USING delta"
    )
    spark.sql(f"INSERT INTO {table_name} VALUES (2, 1)")
    for row in ("(0, -1)", "(2, 3)"):
        with pytest.raises(CheckConstraintViolatedError):
            spark.sql(f"INSERT INTO {table_name} VALUES {row}")
    with pytest.raises((AnalysisException, UnsupportedOperationException)):
        spark.sql(f"CREATE TABLE {table_name}_of_parquet (id BIGINT CHECK (id > 0)) USING parquet")


def test_clustering(spark: SparkSession, named: str, t: str) -> None:
    with pytest.raises(ClusteredAndPartitionedError):
        alter(spark, t, "CLUSTER BY (id)")
    alter(spark, named, "CLUSTER BY (id, name)")
    assert clustering(spark, named) == ["id", "name"]
    assert "clustering" in head(tahoe.DeltaTable.forName(spark, named).detail()).tableFeatures
    alter(spark, named, MAPPING, "RENAME COLUMN name TO title")
    with pytest.raises(tahoe.errors.DropClusteringColumnError):
        alter(spark, named, "DROP COLUMN title")
    assert clustering(spark, named) == ["id", "title"]
    alter(spark, named, "CLUSTER BY NONE", "DROP COLUMN title")
    spark.sql(f"INSERT INTO {named} VALUES (9)")
    assert spark.table(named).count() == 5


def test_clustered_tables_are_made(spark: SparkSession, table_name: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} (a INT, s STRUCT<b: INT>) USING delta CLUSTER BY (a, s.b)")
    assert clustering(spark, table_name) == ["a", "s.b"]
    spark.sql(f"CREATE OR REPLACE TABLE {table_name} USING delta CLUSTER BY (id) AS SELECT id FROM range(3)")
    assert clustering(spark, table_name) == ["id"]
    spark.sql(f"CREATE OR REPLACE TABLE {table_name} USING delta AS SELECT id FROM range(3)")
    assert clustering(spark, table_name) == []
    spark.range(2).writeTo(table_name).using("delta").clusterBy("id").createOrReplace()
    assert clustering(spark, table_name) == ["id"]
    with pytest.raises((AnalysisException, TooManyClusteringColumnsError)):
        spark.sql(
            f"CREATE OR REPLACE TABLE {table_name} (a INT, b INT, c INT, d INT, e INT) USING delta CLUSTER BY (a, "
            f"b, c, d, e)"
        )


# --- what statements tell


def test_describe(spark: SparkSession, t: str) -> None:
    alter(spark, t, "ALTER COLUMN id COMMENT 'key'")
    described = {row.col_name: (row.data_type, row.comment) for row in spark.sql(f"DESCRIBE TABLE {t}").collect()}
    assert described["id"] == ("bigint", "key")
    assert described["m"][0] == "map<string,struct<v:int>>"
    extended = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE TABLE EXTENDED {t}").collect()}
    assert extended["Provider"] == "delta"
    assert extended["Location"].endswith("/t")
    column = {row.info_name: row.info_value for row in spark.sql(f"DESCRIBE TABLE {t} id").collect()}
    assert (column["data_type"], column["comment"]) == ("bigint", "key")
    assert [row[0] for row in spark.sql(f"SHOW COLUMNS IN {t}").collect()] == ["id", "name", "s", "m", "p"]


def test_properties_are_shown(spark: SparkSession, t: str) -> None:
    alter(spark, t, "SET TBLPROPERTIES ('mine' = 'it''s', 'delta.appendOnly' = 'true')")
    found = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {t}").collect()}
    assert found == {
        "mine": "it's",
        "delta.appendOnly": "true",
        "delta.minReaderVersion": "1",
        "delta.minWriterVersion": "2",
    }
    assert [row.value for row in spark.sql(f"SHOW TBLPROPERTIES {t} ('mine')").collect()] == ["it's"]


@pytest.mark.parametrize("columns", ["p INT, q STRING, id INT", "id INT, p INT, q STRING", "q STRING, id INT, p INT"])
def test_partitions_wherever_their_columns_are(spark: SparkSession, table_name: str, columns: str) -> None:
    vectors = "TBLPROPERTIES (delta.enableDeletionVectors = true)"
    spark.sql(f"CREATE TABLE {table_name} ({columns}) USING delta PARTITIONED BY (q, p) {vectors}")
    spark.sql(
        f"INSERT INTO {table_name} (id, p, q) SELECT id, 7 + id DIV 5, if(id < 5, 'x', 'y') FROM range(0, 10, 1, 1)"
    )
    spark.sql(f"DELETE FROM {table_name} WHERE id = 3")  # by a vector, which does not matter to the partitions
    assert sorted(spark.sql(f"SHOW PARTITIONS {table_name}").collect()) == [("x", 7), ("y", 8)]
    assert spark.sql(f"SHOW PARTITIONS {table_name} PARTITION (p = 8)").collect() == [("y", 8)]
    assert spark.sql(f"SHOW TABLE EXTENDED LIKE '{table_name}' PARTITION (q = 'x', p = 7)").count() == 1
    with pytest.raises(UnsupportedOperationError, match="their partition is added with them"):
        spark.sql(f"ALTER TABLE {table_name} ADD PARTITION (q = 'z', p = 9)")
    spark.sql(f"TRUNCATE TABLE {table_name} PARTITION (q = 'x')")
    assert sorted(row.id for row in spark.table(table_name).collect()) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("column", ["naïve", "日本", "true", "null", "case", "current_date"])
def test_not_null_columns_of_any_name(spark: SparkSession, table_name: str, column: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} (id INT, `{column}` BOOLEAN) USING delta")
    spark.sql(f"INSERT INTO {table_name} VALUES (1, true)")
    alter(spark, table_name, f"ALTER COLUMN `{column}` SET NOT NULL", f"ALTER COLUMN `{column}` DROP NOT NULL")
    spark.sql(f"INSERT INTO {table_name} VALUES (2, null)")
    with pytest.raises(NotNullViolationError):
        alter(spark, table_name, f"ALTER COLUMN `{column}` SET NOT NULL")


def test_partitions_are_shown(spark: SparkSession, t: str, named: str) -> None:
    spark.sql(f"INSERT INTO {t} (id, p) VALUES (2, 8), (3, null)")
    shown = spark.sql(f"SHOW PARTITIONS {t}")
    assert shown.schema.simpleString() == "struct<p:int>"
    assert {row.p for row in shown.collect()} == {7, 8, None}
    assert [row.p for row in spark.sql(f"SHOW PARTITIONS {t} PARTITION (p = 8)").collect()] == [8]
    with pytest.raises(NotPartitionedError):
        spark.sql(f"SHOW PARTITIONS {named}").collect()
    if not spark.version.startswith("4.1"):  # which does not have the method
        listed = {found.partition for found in spark.catalog.listPartitions(t)}
        assert listed == {"p=7", "p=8", "p=null"}
    spark.sql(f"TRUNCATE TABLE {t} PARTITION (p = 8)")
    assert sorted(row.id for row in spark.table(t).collect()) == [1, 3]


def test_partitions_are_shown_in_one_message_however_many_they_are(
    spark: SparkSession, path: str, messages: list[str]
) -> None:
    """Each row took calls of its own from the JVM to Python, and back: a million rows took minutes."""
    calls = []
    for partitions in (5, 5, 200):  # the first time, more is asked
        spark.range(partitions).selectExpr("id", "id p").coalesce(1).write.format("delta").partitionBy("p").mode(
            "overwrite"
        ).save(path)
        messages.clear()
        assert len(spark.sql(f"SHOW PARTITIONS delta.`{path}`").collect()) == partitions
        calls.append(len(messages))
    assert abs(calls[2] - calls[1]) < 20


MAKING = [
    "(id BIGINT NOT NULL COMMENT 'it''s', `a b` STRUCT<x: INT NOT NULL COMMENT 'in', `y z`: ARRAY<INT>>, v "
    "VARCHAR(3), p DATE) USING delta PARTITIONED BY (p) COMMENT 'a \\\\ table' TBLPROPERTIES "
    "('delta.columnMapping.mode' = 'name', 'my.own' = 'a''b')",
    "(id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY 2), n INT, g INT GENERATED ALWAYS AS (n + "
    "1)) USING delta",
    "(id BIGINT, d INT DEFAULT 3) USING delta CLUSTER BY (id) TBLPROPERTIES ('delta.feature.allowColumnDefaults' = "
    "'supported', 'delta.enableDeletionVectors' = 'true', 'delta.constraints.c' = 'id > 0')",
    "(id BIGINT CONSTRAINT pk PRIMARY KEY RELY, ab INT CONSTRAINT uq UNIQUE, d INT, CONSTRAINT `the fk` FOREIGN KEY (d) REFERENCES other (x)) USING delta",
]


@pytest.mark.parametrize("making", MAKING)
def test_the_statement_that_is_shown_makes_the_same_table(
    spark: SparkSession, table_name: str, path: str, making: str
) -> None:
    for target in (table_name, f"delta.`{path}`"):
        spark.sql(f"CREATE TABLE {target} {making}")
        before, first = facts(spark, target), spark.sql(f"SHOW CREATE TABLE {target}").head()
        assert first is not None
        again = f"{path}_again"
        if target == table_name:
            spark.sql(f"DROP TABLE {table_name}")
            spark.sql(first[0])
            assert facts(spark, target) == before
        else:
            spark.sql(first[0].replace(path, again))
            assert facts(spark, f"delta.`{again}`") == before


def facts(spark: SparkSession, target: str) -> dict[str, object]:
    location = tahoe.DeltaTable.forName(spark, target).detail().head().location  # type: ignore[union-attr]
    snapshot = tahoe.Table(location).snapshot()
    kept = [
        (f.name, str(f.type), f.nullable, {k: v for k, v in f.metadata.items() if "columnMapping" not in k})
        for f in snapshot.schema
    ]
    return {
        "schema": kept,
        "partitions": snapshot.partition_columns,
        "clustering": snapshot.clustering_columns,
        "properties": snapshot.properties,
        "comment": snapshot.metadata.description,
        "protocol": snapshot.protocol,
    }


@pytest.mark.usefixtures("generated_code")
def test_the_catalog_tells_columns(spark: SparkSession, t: str, named: str) -> None:
    columns = {c.name: (c.dataType, c.nullable, c.isPartition) for c in spark.catalog.listColumns(t)}
    assert columns["id"] == ("bigint", True, False)
    assert columns["p"] == ("int", True, True)
    assert spark.catalog.tableExists(named)
    found = spark.catalog.getTable(named)
    assert (found.name, found.tableType, found.isTemporary) == (named, "MANAGED", False)
    spark.catalog.refreshTable(named)
    assert named in [table.name for table in spark.catalog.listTables()]
    assert named in [row.tableName for row in spark.sql("SHOW TABLES").collect()]
    information = head(spark.sql(f"SHOW TABLE EXTENDED LIKE '{named}'")).information
    assert "|-- name: string" in information


# --- how statements are run


def test_scripts_parameters_and_names_given_as_texts(spark: SparkSession, named: str) -> None:
    spark.sql("ALTER TABLE IDENTIFIER(:t) ADD COLUMN a INT", args={"t": named})
    spark.sql(f"EXECUTE IMMEDIATE 'ALTER TABLE {named} ADD COLUMN b INT'")
    spark.sql(f"BEGIN ALTER TABLE {named} ADD COLUMN c INT; ALTER TABLE {named} ALTER COLUMN c COMMENT 'third'; END")
    spark.sql(f"/* x */ ALTER TABLE `spark_catalog`.`default`.`{named}` -- y\n ADD COLUMN d INT")
    assert spark.table(named).columns == ["id", "name", "a", "b", "c", "d"]


def test_explain_changes_nothing(spark: SparkSession, t: str, path: str) -> None:
    version = tahoe.Table(path).version
    for change in (
        "ADD COLUMN a INT",
        "ADD CONSTRAINT c CHECK (id > 0)",
        "ALTER COLUMN id COMMENT 'x'",
        "CLUSTER BY NONE",
        MAPPING,
    ):
        spark.sql(f"EXPLAIN ALTER TABLE {t} {change}").collect()
    spark.sql(f"EXPLAIN SHOW CREATE TABLE {t}").collect()
    assert tahoe.Table(path).version == version


def test_a_table_that_is_read_later_has_the_new_columns(spark: SparkSession, named: str) -> None:
    spark.sql(f"CACHE TABLE {named}")
    alter(spark, named, "ADD COLUMN extra INT")
    assert spark.table(named).columns == ["id", "name", "extra"]
    assert spark.sql(f"SELECT count(extra) FROM {named}").head()[0] == 0  # type: ignore[index]
    spark.sql(f"UNCACHE TABLE IF EXISTS {named}")


def test_refresh_reads_what_others_have_written(spark: SparkSession, t: str, path: str) -> None:
    cached = spark.table(t).cache()
    assert cached.count() == 1
    tahoe.Table(path).append(tahoe.Table(path).to_arrow())
    spark.sql(f"REFRESH TABLE {t}")
    assert spark.table(t).count() == 2
    cached.unpersist()


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE {t} RENAME COLUMN id TO x",
        "ALTER TABLE {t} DROP COLUMN id",
        "ALTER TABLE {t} REPLACE COLUMNS (id INT)",
    ],
)
def test_tables_of_other_formats_keep_what_spark_does(spark: SparkSession, table_name: str, statement: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} (id BIGINT) USING parquet")
    with pytest.raises(AnalysisException, match=r"TABLE_OPERATION|not supported"):
        spark.sql(statement.format(t=table_name))
    spark.sql(f"ALTER TABLE {table_name} ADD COLUMNS (x INT)")
    assert spark.table(table_name).columns == ["id", "x"]


@pytest.mark.parametrize(
    ("clauses", "match"),
    [
        ("(id BIGINT) USING delta", "the statement declares"),
        ("(id BIGINT, p INT) USING delta", "the table by nothing, but it is partitioned by p"),
        ("USING delta PARTITIONED BY (id)", "partition"),
        ("USING delta TBLPROPERTIES ('mine' = '2')", "the existing table has 1, which ALTER TABLE can change"),
        ("USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')", "has none"),
    ],
)
def test_a_name_for_a_table_that_is_otherwise(
    spark: SparkSession, path: str, table_name: str, clauses: str, match: str
) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ('mine' = '1')"
    )
    with pytest.raises(AnalysisException, match=match):
        spark.sql(f"CREATE TABLE {table_name} {clauses} LOCATION '{path}'")
    assert not spark.catalog.tableExists(table_name)
    spark.sql(
        f"CREATE TABLE {table_name} (id BIGINT, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ('mine' = "
        f"'1') LOCATION '{path}'"
    )
    assert spark.table(table_name).count() == 0


def test_like(spark: SparkSession, named: str, path: str, table_name: str) -> None:
    alter(
        spark,
        named,
        "SET TBLPROPERTIES ('mine' = '1')",
        "ADD CONSTRAINT c CHECK (id >= 0)",
        "ALTER COLUMN id COMMENT 'key'",
    )
    other = f"{table_name}_like"
    try:
        spark.sql(f"CREATE TABLE {other} LIKE {named}")
        assert facts(spark, other) == facts(spark, named)
        assert spark.table(other).count() == 0
        spark.sql(f"CREATE TABLE IF NOT EXISTS {other} LIKE {named}")
        with pytest.raises(UnsupportedOperationError):
            spark.sql(f"CREATE TABLE {other}_2 LIKE {named} USING parquet")
        with pytest.raises((AnalysisException, tahoe.errors.TableExistsError)):
            spark.sql(f"CREATE TABLE {other} LIKE {named}")
        spark.sql(f"DROP TABLE {other}")
        spark.sql(f"CREATE TABLE {other} LIKE {named} LOCATION '{path}' TBLPROPERTIES ('mine' = '2')")
        assert tahoe.Table(path).properties["mine"] == "2"
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {other}")
