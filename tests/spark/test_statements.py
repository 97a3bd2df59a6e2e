"""Delta's own statements in `spark.sql`: run once, where and as they are written, and no other SQL is touched."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException

import tahoe
from tahoe.errors import (
    InvalidOptionError,
    NameOfAnotherKindError,
    NotAnIdentityColumnError,
    StatementSyntaxError,
)
from tahoe.spark.layout.optimize_metrics import LAYOUT
from tahoe.spark.maintenance.history_detail import DETAIL, HISTORY
from tahoe.sql.grammar import parse
from tahoe.tables import IdentityGenerator
from tests.sql import test_statements as corpus


@pytest.fixture
def table(spark, path):
    """Three versions: created, three rows, one deleted by a vector."""
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, p STRING) USING delta PARTITIONED BY (p) {PROPERTIES}")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'a'), (3, 'b')")
    tahoe.DeltaTable.forPath(spark, path).delete("id = 1")
    return path


PROPERTIES = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')"


def versions(frame):
    return [row.version for row in frame.collect()]


def version(path):
    return tahoe.Table(path).snapshot().version


# --- what statements do


def test_history_and_detail_are_those_of_the_table(spark, table):
    history = spark.sql(f"DESCRIBE HISTORY delta.`{table}`")
    assert history.schema == HISTORY
    assert history.collect() == tahoe.DeltaTable.forPath(spark, table).history().collect()
    detail = spark.sql(f"DESCRIBE DETAIL '{table}'")
    assert detail.schema == DETAIL
    assert detail.collect() == tahoe.DeltaTable.forPath(spark, table).detail().collect()


def test_a_result_is_a_dataframe_like_any_other(spark, table):
    found = spark.sql(f"DESCRIBE HISTORY delta.`{table}`").where("version > 0").select("operation").orderBy("version")
    assert [row.operation for row in found.collect()] == ["WRITE", "DELETE"]


@pytest.mark.parametrize("name", ["{t}", "default.{t}", "spark_catalog.default.{t}", "`{t}`", "IDENTIFIER('{t}')"])
def test_tables_go_by_their_names(spark, table_name, name):
    spark.sql(f"CREATE TABLE {table_name} (id INT) USING delta")
    assert versions(spark.sql("DESCRIBE HISTORY " + name.format(t=table_name))) == [0]


def test_purge_writes_marked_files_again_and_counts_as_the_reference_does(spark, table):
    done = spark.sql(f"REORG TABLE delta.`{table}` WHERE p = :p APPLY (PURGE)", args={"p": "a"})
    assert done.schema == LAYOUT
    [row] = done.collect()
    assert (row.metrics.numFilesRemoved, row.metrics.numFilesAdded, row.metrics.totalConsideredFiles) == (
        1,
        1,
        row.metrics.partitionsOptimized,
    )
    assert row.metrics.deletionVectorStats.numDeletionVectorRowsRemoved == 1
    assert sorted(spark.read.format("delta").load(table).toPandas()["id"]) == [2, 3]
    [again] = spark.sql(f"REORG TABLE delta.`{table}` APPLY (PURGE)").collect()
    assert (again.metrics.numFilesRemoved, again.metrics.filesAdded["min"], again.metrics.deletionVectorStats) == (
        0,
        None,
        None,
    )


def test_features_are_added_and_dropped(spark, table):
    spark.sql(f"ALTER TABLE delta.`{table}` ADD FEATURE domainMetadata")
    assert "domainMetadata" in spark.sql(f"DESCRIBE DETAIL delta.`{table}`").head().tableFeatures
    spark.sql(f"ALTER TABLE delta.`{table}` DROP FEATURE deletionVectors")
    assert "deletionVectors" not in spark.sql(f"DESCRIBE DETAIL delta.`{table}`").head().tableFeatures


@pytest.mark.parametrize(("step", "given", "following"), [(1, [10, 4], 11), (-3, [-7, 5], -12), (1, [-5], 1)])
def test_an_identity_column_counts_on_from_what_rows_brought(spark, path, step, given, following):
    made = tahoe.DeltaTable.create(spark).location(path).addColumn("v", "int")
    made.addColumn("k", "long", generatedByDefaultAs=IdentityGenerator(start=0 if step < 0 else 1, step=step)).execute()
    spark.createDataFrame([(0, k) for k in given], "v int, k long").write.format("delta").mode("append").save(path)
    spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN k SYNC IDENTITY")
    spark.createDataFrame([(1,)], "v int").coalesce(1).write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).where("v = 1").head().k == following


def test_only_identity_columns_are_synchronised(spark, table):
    with pytest.raises(NotAnIdentityColumnError, match="id"):
        spark.sql(f"ALTER TABLE delta.`{table}` CHANGE id SYNC IDENTITY")


# --- values


def test_values_may_be_parameters(spark, table):
    text = "DESCRIBE HISTORY IDENTIFIER({t}) LIMIT {n}"
    named = spark.sql(text.format(t=":t", n=":n + 1"), args={"t": f"delta.`{table}`", "n": 1})
    assert versions(named) == [2, 1]
    assert versions(spark.sql(text.format(t="?", n="?"), args=[f"delta.`{table}`", 1])) == [2]


def test_values_may_be_session_variables(spark, table):
    spark.sql("DECLARE OR REPLACE VARIABLE n INT DEFAULT 2")
    try:
        assert versions(spark.sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT n")) == [2, 1]
        spark.sql("SET VARIABLE n = 1")
        assert versions(spark.sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT n")) == [2]
    finally:
        spark.sql("DROP TEMPORARY VARIABLE n")


def test_settings_are_substituted_as_in_other_statements(spark, table):
    spark.conf.set("my.table", table)
    assert versions(spark.sql("DESCRIBE HISTORY delta.`${my.table}`")) == [2, 1, 0]


WRONG_VALUES = {
    **dict.fromkeys(["'1'", "-1", "1.5", "CAST(NULL AS INT)", "true"], (InvalidOptionError, "LIMIT")),
    **dict.fromkeys(["nosuch", ":missing", "rand()"], (AnalysisException, None)),  # Spark cannot resolve them
}


@pytest.mark.every_case
@pytest.mark.parametrize("value", WRONG_VALUES)
def test_a_value_of_the_wrong_kind_is_refused(spark, table, value):
    error, told = WRONG_VALUES[value]
    with pytest.raises(error, match=told):
        spark.sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT {value}").collect()


def test_execute_immediate_runs_statements(spark, table):
    assert versions(spark.sql(f"EXECUTE IMMEDIATE 'DESCRIBE HISTORY delta.`{table}` LIMIT ?' USING 1")) == [2]
    spark.sql(f"BEGIN EXECUTE IMMEDIATE 'ALTER TABLE delta.`{table}` ADD FEATURE domainMetadata'; END")
    assert version(table) == 3


# --- how they are run


def test_comments_may_stand_anywhere(spark, table):
    assert versions(spark.sql(f"/* a /* b */ */ DESCRIBE -- c\n HISTORY /*+ d */ delta.`{table}` LIMIT 1 -- e\n;")) == [
        2
    ]


def test_explain_explains_and_does_nothing(spark, table):
    [row] = spark.sql(f"EXPLAIN EXTENDED ALTER TABLE delta.`{table}` ADD FEATURE domainMetadata").collect()
    assert "ADD FEATURE" in row.plan
    [row] = spark.sql(f"EXPLAIN DESCRIBE HISTORY delta.`{table}` LIMIT :n", args={"n": 1}).collect()
    assert "DESCRIBE HISTORY" in row.plan
    assert version(table) == 2


def test_a_statement_runs_once_and_at_once(spark, table):
    done = spark.sql(f"ALTER TABLE delta.`{table}` ADD FEATURE domainMetadata")
    assert version(table) == 3
    assert done.collect() == done.collect() == []
    assert version(table) == 3


def test_sessions_made_from_this_one_know_them(spark, table):
    assert versions(spark.newSession().sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT 1")) == [2]


def test_names_that_do_not_exist_are_told(spark):
    with pytest.raises(AnalysisException, match="no_such_table"):
        spark.sql("DESCRIBE HISTORY no_such_table")


# --- mistakes


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("DESCRIBE HISTORY t LIMT 3", 19),
        ("DESCRIBE HISTORY t LIMIT 1 +", 28),
        ("VACUUM t RETAIN 3", 17),
        ("OPTIMIZE t WHERE a = ZORDER BY b", 20),
        ("RESTORE t TO VERSION AS OF 1 FOO", 29),
        ("OPTIMIZE t WHERE a = 1 AS b", 26),
    ],
)
def test_a_mistake_points_at_its_place(spark, text, place):
    with pytest.raises(ParseException, match=f"pos {place}") as raised:
        spark.sql(text)
    assert isinstance(raised.value, StatementSyntaxError)
    assert raised.value.getCondition() == "PARSE_SYNTAX_ERROR"
    assert "-" * place + "^^^" in str(raised.value)


def test_a_script_says_how_a_statement_can_stand_in_it(spark):
    with pytest.raises(ParseException, match="EXECUTE IMMEDIATE"):
        spark.sql("BEGIN SELECT 1; DESCRIBE HISTORY t LIMIT 1; END")
    with pytest.raises(ParseException) as raised:
        spark.sql("BEGIN SELEC 1; END")
    assert not isinstance(raised.value, StatementSyntaxError)


# --- SQL that is not ours

NOT_OURS = (
    "SELECT 'DESCRIBE HISTORY t' AS x, 1 AS vacuum",
    "WITH optimize AS (SELECT 1 AS a) SELECT * FROM optimize",
    "DESCRIBE history",
    "DESCRIBE TABLE EXTENDED history",
    "DESC EXTENDED history AS JSON",
    "EXPLAIN FORMATTED SELECT 1",
    "ALTER TABLE t DROP COLUMN feature",
    "ALTER TABLE t ADD COLUMNS (sync INT)",
    "CREATE TABLE shallow USING parquet AS SELECT 1 AS clone",
    "BEGIN SELECT 1; END",
    "SET x.y = 'VACUUM t'",
)


def test_python_is_asked_for_every_statement_of_ours(spark):
    asks = spark._jvm.delta.Parser.mayBeOurs
    for text in corpus.STATEMENTS:
        for written in (text, f"/* a /* b */ */ EXPLAIN -- c\\\n d\n formatted {text}", f"\n\t--\n{text.upper()}"):
            assert asks(written), written
            assert parse(written) is not None
    for other in (
        "select 1",
        "describe table history",
        "describe history2 t",
        "explain select 1",
        "alter table t add columns (a int)",
    ):
        assert not asks(other), f"{other} costs a call into Python"


@given(corpus.soups)
@settings(max_examples=200, deadline=None)
def test_whatever_is_a_statement_of_ours_python_is_asked(spark, text):
    with suppress(StatementSyntaxError):
        if parse(text) is not None:
            assert spark._jvm.delta.Parser.mayBeOurs(text)


@pytest.mark.parametrize("text", NOT_OURS)
def test_other_sql_has_the_plan_that_spark_gives_it(spark, text):
    jvm = spark._jvm
    ours = spark._jsparkSession.sessionState().sqlParser()
    theirs = jvm.org.apache.spark.sql.execution.SparkSqlParser()
    plans = [parser.parsePlan(text) for parser in (ours, theirs)]
    assert plans[0].getClass() == plans[1].getClass()
    texts = [re.sub(r"#\d+L?|[0-9a-f]{8}-[0-9a-f-]{27}", "#", plan.toString()) for plan in plans]
    assert texts[0] == texts[1]


def test_the_errors_of_other_sql_are_sparks(spark):
    with pytest.raises(ParseException) as raised:
        spark.sql("SELEC 1")
    assert not isinstance(raised.value, StatementSyntaxError)


# --- without the parser


def test_a_parameter_without_a_value_is_told(spark):
    """By its name, and not as a stack trace of the parser's proxy."""
    with pytest.raises(AnalysisException, match=r"UNBOUND_SQL_PARAMETER.*\bx\b"):
        spark.sql("SELECT :x AS x")


@pytest.mark.parametrize("name", ["seen", "passing", "csv_table"])
def test_only_delta_tables_have_changes(spark, name):
    """Of a view or another table, Spark would return all rows and no changes."""
    spark.sql("CREATE OR REPLACE VIEW seen AS SELECT 1 AS a")
    spark.sql("CREATE OR REPLACE TEMP VIEW passing AS SELECT 1 AS a")
    spark.sql("CREATE TABLE IF NOT EXISTS csv_table (a INT) USING csv")
    with pytest.raises(NameOfAnotherKindError, match=name):
        spark.sql(f"SELECT * FROM table_changes('{name}', 0)")


def test_tahoe_sql_runs_the_same(spark, table):
    assert versions(tahoe.sql(spark, "DESCRIBE HISTORY IDENTIFIER(:t)", args={"t": f"delta.`{table}`"})) == [2, 1, 0]
    assert tahoe.sql(spark, "SELECT ? AS x", args=[1]).head().x == 1


def test_tahoe_sql_needs_no_parser_in_the_session(spark, table, monkeypatch):
    monkeypatch.setattr("tahoe.spark.api.sql.has_parser", lambda gateway: False)
    assert versions(
        tahoe.sql(spark, "DESCRIBE HISTORY IDENTIFIER(:t) LIMIT :n", args={"t": f"delta.`{table}`", "n": 1})
    ) == [2]
    assert versions(tahoe.sql(spark, "DESCRIBE HISTORY IDENTIFIER(?) LIMIT ?", args=[f"delta.`{table}`", 2])) == [2, 1]
    assert tahoe.sql(spark, "SELECT :x AS x", args={"x": 1}).head().x == 1


def test_a_parser_that_does_not_know_a_statement_says_where_it_runs(spark):
    theirs = spark._jvm.org.apache.spark.sql.execution.SparkSqlParser()
    with pytest.raises(ParseException) as raised:
        theirs.parsePlan("VACUUM t DRY RUN")
    assert "tahoe.sql" in raised.value.__notes__[0]
    with pytest.raises(ParseException) as raised:
        theirs.parsePlan("VACUM t")
    assert not hasattr(raised.value, "__notes__")


# --- functions


def test_table_changes_are_the_change_feed(spark, table):
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(table)
    expected = sorted(feed.collect())
    for call in (
        f"table_changes('delta.`{table}`', 1)",
        f"table_changes_by_path('{table}', 1, 2)",
        f"table_changes_by_path('{table}', DATE'2020-01-01', 2)",
        f"table_changes_by_path('{table}', '2020-01-01')",
        f"table_changes_by_path('{table}', current_timestamp() - INTERVAL 1 DAY)",
    ):
        found = spark.sql(f"SELECT * FROM {call}")
        assert found.schema == feed.schema
        assert sorted(found.collect()) == expected, call
    assert spark.newSession().sql(f"SELECT * FROM table_changes_by_path('{table}', 2)").count() == 1


def test_table_changes_take_names_and_parameters(spark, table_name):
    spark.sql(f"CREATE TABLE {table_name} (id INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql(f"INSERT INTO {table_name} VALUES (7)")
    assert spark.sql("SELECT id FROM table_changes(?, ?)", args=[table_name, 0]).head().id == 7
    named = spark.sql("SELECT id FROM table_changes(:t, :a, :b)", args={"t": f"default.{table_name}", "a": 1, "b": 1})
    assert [row.id for row in named.collect()] == [7]


@pytest.mark.parametrize(
    "arguments", ["'{t}'", "'{t}', 1, 2, 3", "'{t}', NULL", "'{t}', 1.5", "NULL, 1", "1, 1", "'{t}', true"]
)
def test_table_changes_refuse_other_arguments(spark, table, arguments):
    with pytest.raises(IllegalArgumentException, match=r"DELTA_"):
        spark.sql(f"SELECT * FROM table_changes_by_path({arguments.format(t=table)})")


# Spark computes these parts once, and puts them above the command.
MERGED = {
    "subqueries": "SELECT (SELECT max(id) FROM {t}), (SELECT min(id) FROM {t})",
    "aggregations": "SELECT a.id, b.id FROM (SELECT max(id) AS id FROM {t}) a, (SELECT min(id) AS id FROM {t}) b",
    "table expression": "WITH w AS (SELECT max(id) AS m, min(id) AS l FROM {t}) SELECT a.m, a.l FROM w a JOIN w b ON a.l < b.m",
}


@pytest.mark.parametrize("query", MERGED)
def test_a_query_with_parts_that_spark_merges_is_written(spark, table_name, query):
    spark.sql(f"CREATE TABLE {table_name} (id BIGINT, other BIGINT) USING delta")
    spark.sql(f"INSERT INTO {table_name} VALUES (0, 0), (4, 4)")
    spark.sql(f"INSERT INTO {table_name} {MERGED[query].format(t=table_name)}")
    assert sorted(tuple(row) for row in spark.table(table_name).collect()) == [(0, 0), (4, 0), (4, 4)]


INSERTED = {  # the values of the first INSERT, and the rows of the table after both
    "columns": ("id, id", [(1, 1), (2, 7)]),
    "merged": ("(SELECT max(id) FROM range(9)), (SELECT min(id) FROM range(9))", [(2, 7), (8, 0)]),
}


@pytest.mark.parametrize("values", INSERTED)
def test_a_statement_with_several_inserts_runs_each_of_them(spark, table_name, path, values):
    """Spark makes one plan of them; it failed with 'Batch write is not supported', later only with tables of another
    source among them.
    """
    first, expected = INSERTED[values]
    spark.sql(f"CREATE TABLE {table_name} (id BIGINT, other BIGINT) USING delta")
    spark.sql(f"CREATE TABLE {table_name}_files (id BIGINT, other BIGINT) USING parquet LOCATION '{path}'")
    inserts = (
        f"INSERT INTO {table_name} SELECT {first} WHERE id = 1",
        f"INSERT INTO {table_name} SELECT id, 7 WHERE id > 1",
    )
    spark.sql(f"FROM range(3) {' '.join(inserts)}")
    assert sorted(tuple(row) for row in spark.table(table_name).collect()) == expected
    spark.sql(f"TRUNCATE TABLE {table_name}")
    spark.sql(f"FROM range(3) {inserts[0]} INSERT INTO {table_name}_files SELECT {first} WHERE id = 1 {inserts[1]}")
    assert sorted(tuple(row) for row in spark.table(table_name).collect()) == expected
    assert [tuple(row) for row in spark.table(f"{table_name}_files").collect()] == [
        row for row in expected if row[1] != 7
    ]
    spark.sql(f"DROP TABLE {table_name}_files")


def test_several_inserts_read_what_their_tables_were_before_the_statement(spark, table_name, path):
    """The second one read the rows that the first one had written. One into another source or a folder could not read
    the table.
    """
    spark.sql(f"CREATE TABLE {table_name} (id BIGINT) USING delta")
    spark.sql(f"INSERT INTO {table_name} VALUES (1), (2)")
    most = f"(SELECT max(id) FROM {table_name})"
    inserts = f"INSERT OVERWRITE {table_name} SELECT id + 10 INSERT INTO {table_name} SELECT id + {most}"
    spark.sql(f"FROM {table_name} {inserts} INSERT OVERWRITE DIRECTORY '{path}' USING parquet SELECT id + {most} AS id")
    assert sorted(row.id for row in spark.table(table_name).collect()) == [3, 4, 11, 12]
    assert sorted(row.id for row in spark.read.parquet(path).collect()) == [3, 4]
