"""DELETE, UPDATE and MERGE in SQL: that they reach the commands as they were meant, in every way that Spark has to say
them.

What the commands do with rows is tested in test_rewrite.py and test_merge.py, and beside the reference in
tests/interop/test_sql_dml.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

import tahoe
from tahoe import Table
from tahoe.errors import (
    ConflictingAssignmentsError,
    IdentityUpdateError,
    MetadataChangedException,
    MultipleSourceRowsError,
    NotNullViolationError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from tahoe.spark.dml import resolved_plans
from tahoe.spark.jvm.statements import dml_commands

pytestmark = pytest.mark.every_spark

MERGED = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")


@pytest.fixture
def t(spark: SparkSession, table_name: str) -> str:
    """The ids 0 to 5, each with its number as text, and a struct."""
    spark.sql(
        f"CREATE TABLE {table_name} USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') "
        "AS SELECT id, string(id) AS v, named_struct('x', id, 'y', 'q') AS s FROM range(6)"
    )
    return table_name


def location(spark: SparkSession, name: str) -> str:
    return str(Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"), name))  # type: ignore[union-attr]


def ids(spark: SparkSession, name: str) -> list[int]:
    return sorted(row.id for row in spark.table(name).collect())


def values(spark: SparkSession, name: str) -> dict[int, Any]:
    return {row.id: row.v for row in spark.table(name).collect()}


def versions(spark: SparkSession, name: str) -> int:
    return Table(location(spark, name)).snapshot().version


# --- variables in values, where Spark itself does not look for them


@pytest.mark.parametrize("name", ["answer", "ANSWER", "session.answer", "system.session.answer"])
def test_variables_are_assigned(spark: SparkSession, t: str, name: str) -> None:
    spark.sql("DECLARE OR REPLACE answer STRING DEFAULT 'a'")
    spark.sql(f"UPDATE {t} SET v = {name} WHERE id = 0")
    spark.sql("SET VAR answer = 'b'")
    spark.sql(f"UPDATE {t} SET v = upper({name} || v) WHERE id = 1")
    source = "(SELECT explode(array(2L, 9L)) AS id)"
    clauses = (
        f"WHEN MATCHED THEN UPDATE SET v = {name} WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, concat({name}, "
        f"'c'))"
    )
    spark.sql(f"MERGE INTO {t} t USING {source} s ON t.id = s.id {clauses}")
    spark.sql(f"BEGIN DECLARE x STRING DEFAULT 'local'; UPDATE {t} SET v = x WHERE id = 3; END")
    assert values(spark, t) == {0: "a", 1: "B1", 2: "b", 3: "local", 4: "4", 5: "5", 9: "bc"}


def test_a_column_comes_before_a_variable(spark: SparkSession, t: str) -> None:
    spark.sql("DECLARE OR REPLACE v STRING DEFAULT 'variable'")
    spark.sql(f"UPDATE {t} SET v = v || '!' WHERE id = 1")
    assert values(spark, t)[1] == "1!"
    spark.sql("DROP TEMPORARY VARIABLE v")
    with pytest.raises(AnalysisException, match="nosuch"):
        spark.sql(f"UPDATE {t} SET v = nosuch")


# --- what a table may be


def test_columns_that_a_session_takes_for_strings(spark: SparkSession, table_name: str) -> None:
    """Spark pads no literal then, so padded values would be found by no condition."""
    session = spark.newSession()
    session.conf.set("spark.sql.legacy.charVarcharAsString", "true")
    session.sql(f"CREATE TABLE {table_name} (id INT, c CHAR(4), v VARCHAR(2), s STRUCT<c: CHAR(4)>) USING delta")
    session.sql(f"INSERT INTO {table_name} VALUES (1, 'a', 'long', named_struct('c', 'abcdefg'))")
    session.sql(f"UPDATE {table_name} SET id = 2, c = 'b' WHERE c = 'a'")
    merge = (
        f"MERGE INTO {table_name} t USING (SELECT 3 AS id, 'b' AS c) s ON t.c = s.c WHEN MATCHED THEN UPDATE SET id = "
        f"s.id"
    )
    session.sql(merge + " WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)")
    assert session.sql(f"SELECT id, c, v, s.c FROM {table_name} WHERE c = 'b'").collect() == [
        (3, "b", "long", "abcdefg")
    ]
    assert session.table(table_name).count() == 1


@pytest.mark.parametrize("pads", ["true", "false"])
def test_columns_of_a_fixed_length(spark: SparkSession, table_name: str, pads: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} (id INT, c CHAR(3), s STRUCT<x CHAR(2), y INT>) USING delta")
    spark.sql(
        f"INSERT INTO {table_name} VALUES (1, 'a', named_struct('x', 'q', 'y', 1)), (2, 'b', null), (3, 'c', null)"
    )
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {table_name}_view AS SELECT c AS code, id FROM {table_name}")
    before = spark.conf.get("spark.sql.readSideCharPadding")
    spark.conf.set("spark.sql.readSideCharPadding", pads)
    try:
        spark.sql(f"DELETE FROM {table_name} WHERE c = 'b'")
        spark.sql(f"UPDATE {table_name} SET s.x = 'z', c = 'd' WHERE id = 1")
        source = "(SELECT 3 AS id, cast('e' AS STRING) AS c)"
        spark.sql(f"MERGE INTO {table_name} t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.c = s.c")
        assert sorted(spark.sql(f"SELECT id, c, s.x, s.y FROM {table_name}").collect()) == [
            (1, "d  ", "z ", 1),
            (3, "e  ", None, None),
        ]
        spark.sql(f"DELETE FROM {table_name}_view WHERE code = 'd'")
        assert ids(spark, table_name) == [3]
    finally:
        spark.conf.set("spark.sql.readSideCharPadding", before or "true")


# --- answers


def test_delete_and_update_answer_how_many_rows_they_changed(spark: SparkSession, t: str) -> None:
    deleted, updated, none = (
        spark.sql(text.format(t=t))
        for text in ("DELETE FROM {t} WHERE id > 3", "UPDATE {t} SET v = 'u'", "DELETE FROM {t} WHERE id = 9")
    )
    assert [deleted.collect(), updated.collect(), none.collect()] == [[Row(num_affected_rows=n)] for n in (2, 4, 0)]
    assert deleted.schema.simpleString() == "struct<num_affected_rows:bigint>"
    assert ids(spark, t) == [0, 1, 2, 3], "collecting the answer again runs the statement again"


def test_merge_answers_its_four_counts(spark: SparkSession, t: str) -> None:
    found = spark.sql(
        f"MERGE INTO {t} t USING (SELECT * FROM VALUES (0, 'a'), (1, 'b'), (7, 'c'), (8, 'd'), (9, 'e') AS x(id, v)) "
        "s ON t.id = s.id WHEN MATCHED AND s.v = 'a' THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT "
        "MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )
    assert found.columns == list(MERGED)
    assert found.collect() == [Row(**dict(zip(MERGED, (5, 1, 1, 3), strict=True)))]
    assert values(spark, t) == {1: "b", 2: "2", 3: "3", 4: "4", 5: "5", 7: "c", 8: "d", 9: "e"}


def test_the_answer_is_a_table_like_any_other(spark: SparkSession, t: str) -> None:
    spark.sql(f"DELETE FROM {t} WHERE id < 2").createOrReplaceTempView("answer_of_delete")
    assert spark.sql("SELECT num_affected_rows + 1 AS n FROM answer_of_delete").collect() == [Row(n=3)]


# --- the ways to say a statement

WAYS: Mapping[str, tuple[tuple[str, ...], Any]] = {
    "by name": (("DELETE FROM {t} WHERE id = 3",), None),
    "in full": (("DELETE FROM spark_catalog.default.{t} WHERE id = 3",), None),
    "quoted": (("delete from `default`.`{t}` where `id` = 3",), None),
    "path": (("DELETE FROM delta.`{path}` WHERE id = 3",), None),
    "alias": (("DELETE FROM {t} AS a WHERE a.id = 3",), None),
    "another case": (("DELETE FROM {t} WHERE ID = 3",), None),
    "comments": (("/* DELETE FROM nothing */ DELETE -- all\n FROM {t} /* but */ WHERE id = 3 -- one",), None),
    "a text that looks like SQL": (("DELETE FROM {t} WHERE id = 3 AND v <> '; DROP TABLE {t} --'",), None),
    "named parameters": (("DELETE FROM {t} WHERE id = :x",), {"x": 3}),
    "parameters by position": (("DELETE FROM {t} WHERE id = ? AND v = ?",), [3, "3"]),
    "a parameter with quotes": (("DELETE FROM {t} WHERE v = :v OR id = 3",), {"v": "' OR '1' = '1"}),
    "identifier": (("DELETE FROM IDENTIFIER(:t) WHERE id = 3",), {"t": "{t}"}),
    "a variable": (("DECLARE OR REPLACE which INT DEFAULT 3", "DELETE FROM {t} WHERE id = which"), None),
    "execute immediate": (("EXECUTE IMMEDIATE 'DELETE FROM {t} WHERE id = ?' USING 3",), None),
    "a script": (("BEGIN DECLARE x INT DEFAULT 2; SET x = x + 1; DELETE FROM {t} WHERE id = x; END",), None),
    "a common table": (("WITH x AS (SELECT 3 AS k) DELETE FROM {t} WHERE id IN (SELECT k FROM x)",), None),
    "in": (("DELETE FROM {t} WHERE id IN (SELECT 3)",), None),
    "exists, of each row": (
        ("DELETE FROM {t} a WHERE EXISTS (SELECT 1 FROM {t} b WHERE b.id = a.id + 2 AND b.v = '5')",),
        None,
    ),
    "not in its own rows": (("DELETE FROM {t} WHERE id NOT IN (SELECT id FROM {t} WHERE id <> 3)",), None),
    "scalar": (("DELETE FROM {t} WHERE id = (SELECT max(id) - 2 FROM {t})",), None),
    "scalar, of each row, where names are the same": (
        (
            "DELETE FROM {t} WHERE id + 2 = (SELECT max(id) FROM {t} AS {t}b WHERE {t}b.id <= {t}.id + 2 AND "
            "{t}.v = '3')",
        ),
        None,
    ),
    "update": (("UPDATE {t} SET id = -1 WHERE id = 3", "DELETE FROM {t} WHERE id < 0"), None),
    "update by parameters": (
        ("UPDATE {t} SET id = :new WHERE id = :old", "DELETE FROM {t} WHERE id = :new"),
        {"new": -1, "old": 3},
    ),
    "update in a script": (("BEGIN UPDATE {t} SET id = -1 WHERE id = 3; DELETE FROM {t} WHERE id = -1; END",), None),
    "update immediately": (
        ("EXECUTE IMMEDIATE 'UPDATE {t} SET id = :n WHERE id = 3' USING -1 AS n", "DELETE FROM {t} WHERE id = -1"),
        None,
    ),
    "merge": (("MERGE INTO {t} t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",), None),
    "merge by parameters": (
        ("MERGE INTO IDENTIFIER(:t) t USING (SELECT :x AS id) s ON t.id = s.id AND t.v = :v WHEN MATCHED THEN DELETE",),
        {"t": "{t}", "x": 3, "v": "3"},
    ),
    "merge of a common table": (
        ("WITH s AS (SELECT 3 AS id) MERGE INTO {t} t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",),
        None,
    ),
    "merge in a script": (
        (
            "BEGIN DECLARE x INT DEFAULT 3; MERGE INTO {t} t USING (SELECT x AS id) s ON t.id = s.id WHEN MATCHED "
            "THEN DELETE; END",
        ),
        None,
    ),
    "merge immediately": (
        (
            "EXECUTE IMMEDIATE 'MERGE INTO {t} t USING (SELECT * FROM VALUES (3) AS x(id)) s ON t.id = s.id WHEN "
            "MATCHED THEN DELETE'",
        ),
        None,
    ),
    "merge with itself": (
        ("MERGE INTO {t} USING {t} AS s ON {t}.id = s.id AND s.v = '3' WHEN MATCHED THEN DELETE",),
        None,
    ),
    "merge with subqueries": (
        (
            "MERGE INTO {t} t USING (SELECT 3 AS id) n ON t.id = n.id WHEN MATCHED AND t.v IN (SELECT v FROM {t} u "
            "WHERE u.id = n.id) THEN DELETE",
        ),
        None,
    ),
    "overwrite by parameters": (("INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id <> :x",), {"x": 3}),
    "overwrite in a script": (
        ("BEGIN DECLARE x INT DEFAULT 3; INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id <> x; END",),
        None,
    ),
    "overwrite immediately": (
        ("EXECUTE IMMEDIATE 'INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id <> ?' USING 3",),
        None,
    ),
    "replace where, by parameters": (
        ("INSERT INTO {t} REPLACE WHERE id = :x SELECT * FROM {t} WHERE id = :x AND v = '; --'",),
        {"x": 3},
    ),
    "insert by parameters": (
        (
            "DELETE FROM {t} WHERE id > 2",
            "INSERT INTO IDENTIFIER(:t) (id, v) /* two */ VALUES (:x, 'INSERT -- no comment'), (5, :v)",
        ),
        {"t": "{t}", "x": 4, "v": "'"},
    ),
    "a view": (
        ("CREATE OR REPLACE TEMP VIEW {t}_v AS SELECT v AS w, id AS k FROM {t}", "DELETE FROM {t}_v WHERE k = 3"),
        None,
    ),
    "update of a view": (
        (
            "CREATE OR REPLACE TEMP VIEW {t}_v AS SELECT v AS w, id AS k FROM {t}",
            "UPDATE {t}_v SET k = -1 WHERE w = '3'",
            "DELETE FROM {t} WHERE id = -1",
        ),
        None,
    ),
    "merge into a view": (
        (
            "CREATE OR REPLACE TEMP VIEW {t}_v AS SELECT v AS w, id AS k FROM {t}",
            "MERGE INTO {t}_v v USING (SELECT 3 AS id) s ON v.k = s.id WHEN MATCHED THEN DELETE",
        ),
        None,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_ways(way: str, spark: SparkSession, t: str) -> None:
    """A statement that is said so changes nothing, all, or other rows."""
    statements, given = WAYS[way]
    names = {"t": t, "path": location(spark, t)}
    args = {n: v.format(**names) if v == "{t}" else v for n, v in given.items()} if isinstance(given, dict) else given
    for statement in statements:
        text = statement.format(**names)
        used = {n: v for n, v in args.items() if f":{n}" in text} if isinstance(args, dict) else args
        spark.sql(text, args=used or None)
    assert ids(spark, t) == [0, 1, 2, 4, 5]


def test_merge_into(spark: SparkSession, t: str) -> None:
    source = spark.createDataFrame([(3, "new"), (8, "more")], "id long, v string").alias("s")
    (
        source.mergeInto(t, F.expr(f"{t}.id = s.id"))
        .whenMatched()
        .update({"v": F.col("s.v")})
        .whenNotMatched()
        .insert({"id": F.col("s.id"), "v": F.col("s.v")})
        .whenNotMatchedBySource(F.expr(f"{t}.id < 2"))
        .delete()
        .merge()
    )
    assert values(spark, t) == {2: "2", 3: "new", 4: "4", 5: "5", 8: "more"}


@pytest.fixture
def other_session(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark.newSession()
    spark._jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)  # type: ignore[union-attr]


def test_new_sessions_have_the_statements(other_session: SparkSession, spark: SparkSession, t: str) -> None:
    assert other_session.sql(f"UPDATE {t} SET v = 'new' WHERE id = 1").collect() == [Row(num_affected_rows=1)]
    merge = f"MERGE INTO {t} t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE"
    assert other_session.sql(merge).collect()[0].num_deleted_rows == 1
    assert values(spark, t) == {0: "0", 1: "new", 3: "3", 4: "4", 5: "5"}


def test_the_session_of_a_stream_has_the_statements(spark: SparkSession, t: str, tmp_path: Path) -> None:
    """A stream that merges each batch, as in the reference's documentation, fails."""

    def merge(batch: Any, _: int) -> None:
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql(f"MERGE INTO {t} t USING batch s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v")

    folder = tmp_path / "in"
    spark.createDataFrame([(4, "streamed")], "id long, v string").write.parquet(str(folder))
    stream = spark.readStream.schema("id long, v string").parquet(str(folder))
    query = (
        stream.writeStream.foreachBatch(merge)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert values(spark, t)[4] == "streamed"


def test_to_enable_again_adds_no_rule(spark: SparkSession) -> None:
    analyzer = spark._jsparkSession.sessionState().analyzer()  # type: ignore[union-attr]
    before = analyzer.postHocResolutionRules().size(), analyzer.extendedResolutionRules().size()
    tahoe.enable(spark)
    assert (analyzer.postHocResolutionRules().size(), analyzer.extendedResolutionRules().size()) == before


# --- what is written


def test_history_tells_the_condition_as_it_was_meant(spark: SparkSession, t: str) -> None:
    spark.sql(f"DELETE FROM {t} a WHERE a.id = 3 AND v LIKE '3%'")
    commit = json.loads(max(Path(location(spark, t), "_delta_log").glob("*.json")).read_text().splitlines()[0])[
        "commitInfo"
    ]
    assert commit["operation"] == "DELETE"
    assert json.loads(commit["operationParameters"]["predicate"]) == ["((id = CAST(3 AS BIGINT)) AND v LIKE '3%')"]


def test_update_of_fields(spark: SparkSession, t: str) -> None:
    spark.sql(f"UPDATE {t} SET s.x = s.x + 10, v = s.y WHERE id = 1")
    spark.sql(f"UPDATE {t} SET s = named_struct('y', 'by name', 'x', 7) WHERE id = 2")
    rows = {row.id: row for row in spark.table(t).collect()}
    assert (rows[1].v, rows[1].s, rows[2].s, rows[3].s) == (
        "q",
        Row(x=11, y="q"),
        Row(x=7, y="by name"),
        Row(x=3, y="q"),
    )


def test_merge_assigns_structs_by_the_names_of_their_fields(spark: SparkSession, t: str) -> None:
    """Spark's own cast takes fields by their positions, and exchanges two of one type without a word."""
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')")
    source = "(SELECT 1L AS id, named_struct('y', '5', 'x', 6L) AS s) n"
    spark.sql(f"MERGE INTO {t} t USING {source} ON t.id = n.id WHEN MATCHED THEN UPDATE SET t.s = n.s")
    assert {row.id: row.s for row in spark.table(t).collect()}[1] == Row(x=6, y="5")


def test_merge_takes_stars_by_name_and_leaves_out_what_the_table_does_not_have(spark: SparkSession, t: str) -> None:
    source = "(SELECT 'new' AS V, named_struct('x', 1L, 'y', 'n') AS s, 1 AS unknown, explode(array(1L, 9L)) AS ID) n"
    spark.sql(
        f"MERGE INTO {t} t USING {source} ON t.id = n.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert values(spark, t) == {0: "0", 1: "new", 2: "2", 3: "3", 4: "4", 5: "5", 9: "new"}
    assert spark.table(t).columns == ["id", "v", "s"]


def test_merge_lets_columns_in_where_it_may(spark: SparkSession, t: str) -> None:
    source = "(SELECT 1L AS id, 'one' AS v, 5 AS extra, 6 AS unused) n"
    merge = f"INTO {t} t USING {source} ON t.id = n.id WHEN MATCHED THEN UPDATE SET extra = n.extra, v = n.v"
    with pytest.raises(AnalysisException, match="extra"):
        spark.sql(f"MERGE {merge}")
    spark.sql(f"MERGE WITH SCHEMA EVOLUTION {merge}")
    assert spark.table(t).columns == ["id", "v", "s", "extra"]
    assert {row.id: row.extra for row in spark.table(t).collect() if row.extra} == {1: 5}
    spark.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 20L AS id, 'm' AS more) n ON t.id = n.id WHEN NOT "
        f"MATCHED THEN INSERT *"
    )
    assert spark.table(t).where("id = 20").collect()[0].more == "m"


def test_defaults_generated_and_identity_columns(spark: SparkSession, table_name: str) -> None:
    spark.sql(
        f"CREATE TABLE {table_name} (id BIGINT, v STRING DEFAULT 'none', g BIGINT GENERATED ALWAYS AS (id * 2), "
        "n BIGINT GENERATED ALWAYS AS IDENTITY) USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = "
        "'supported')"
    )
    spark.sql(f"INSERT INTO {table_name} (id, v) VALUES (1, 'a'), (2, DEFAULT)")
    spark.sql(f"UPDATE {table_name} SET v = DEFAULT, id = 10 WHERE id = 1")
    spark.sql(
        f"MERGE INTO {table_name} t USING (SELECT 3L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) "
        f"VALUES (s.id, DEFAULT)"
    )
    rows = {row.id: row for row in spark.table(table_name).collect()}
    assert {row.id: (row.v, row.g) for row in rows.values()} == {10: ("none", 20), 2: ("none", 4), 3: ("none", 6)}
    assert len({row.n for row in rows.values()}) == 3
    with pytest.raises(IdentityUpdateError):
        spark.sql(f"UPDATE {table_name} SET n = 5")


def test_not_null_and_lengths_are_checked(spark: SparkSession, table_name: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} (id BIGINT NOT NULL, c VARCHAR(3)) USING delta")
    spark.sql(f"INSERT INTO {table_name} VALUES (1, 'abc')")
    merge = (
        f"MERGE INTO {table_name} t USING (SELECT 1 AS k, string(null) AS empty) s ON t.id = s.k WHEN MATCHED THEN "
        f"UPDATE SET"
    )
    for statement in (f"UPDATE {table_name} SET id = null", f"{merge} id = s.empty"):
        with pytest.raises(NotNullViolationError):
            spark.sql(statement)
    for statement in (f"UPDATE {table_name} SET c = 'abcd'", f"{merge} c = 'abcd'"):
        with pytest.raises(Exception, match=r"varchar\(3\)"):
            spark.sql(statement)
    assert spark.table(table_name).collect() == [Row(id=1, c="abc")]


@pytest.mark.every_case
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {view} SET n = id, c = v, v = id",
        "MERGE INTO {table} t USING (SELECT 1L AS id, 'a' AS v) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = "
        "s.id, c = s.v, v = s.id",
    ],
)
def test_values_are_assigned_as_they_were_written(
    spark: SparkSession, table_name: str, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's own casts and checks would apply other rules than those for written rows, and would hide the type that
    the user gave.
    """
    spark.sql(f"CREATE TABLE {table_name} (id BIGINT, n INT NOT NULL, c VARCHAR(3), v STRING) USING delta")
    spark.table(table_name).createOrReplaceTempView(f"{table_name}_view")
    seen: list[str] = []
    assigned = dml_commands._assignments

    def recorded(gateway: Any, assignments: Any, paths: Any) -> Any:
        seen.append(str(assignments))
        found = assigned(gateway, assignments, paths)
        seen.extend(str(assignment.value) for assignment in found)
        return found

    monkeypatch.setattr(dml_commands, "_assignments", recorded)
    spark.sql(statement.format(table=table_name, view=f"{table_name}_view"))
    before, *after = seen
    assert "cast(" in before
    assert [
        value for value in after if any(added in value.lower() for added in ("cast", "assertnotnull", "check"))
    ] == []


def test_fields_that_cannot_be_null(spark: SparkSession, table_name: str) -> None:
    """Spark reads every field as one that may be null, and a statement knows it as the table has it."""
    spark.sql(
        f"CREATE TABLE {table_name} (id BIGINT NOT NULL, s STRUCT<x: INT NOT NULL, y: ARRAY<STRUCT<z: INT NOT "
        f"NULL>>>) USING delta"
    )
    spark.sql(
        f"INSERT INTO {table_name} VALUES (1, named_struct('x', 1, 'y', null)), (2, named_struct('x', 2, 'y', null))"
    )
    spark.sql(f"UPDATE {table_name} SET s.x = s.x + 10 WHERE s.x = 1")
    source = "(SELECT 2L AS id, named_struct('x', 5, 'y', array(named_struct('z', 6))) AS s) n"
    spark.sql(f"MERGE INTO {table_name} t USING {source} ON t.id = n.id AND t.s.x = 2 WHEN MATCHED THEN UPDATE SET *")
    assert {row.id: row.s.x for row in spark.table(table_name).collect()} == {1: 11, 2: 5}
    assert spark.sql(f"DELETE FROM {table_name} WHERE s.x IS NOT NULL").collect()[0].num_affected_rows == 2


# --- nothing runs that should not


def test_explain_runs_nothing(spark: SparkSession, t: str) -> None:
    for statement in (
        f"DELETE FROM {t}",
        f"UPDATE {t} SET v = 'x'",
        f"MERGE INTO {t} t USING {t} s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ):
        (row,) = spark.sql(f"EXPLAIN EXTENDED {statement}").collect()
        assert f"Delta {statement.split()[0]}" in row.plan
    assert versions(spark, t) == 0


def test_a_statement_is_one_command_in_the_ui(spark: SparkSession, t: str) -> None:
    """The jobs of a statement stand beside it as queries of their own, and nobody knows what they are for."""
    listeners = spark.sparkContext._jsc.sc().listenerBus()  # type: ignore[union-attr]
    store = spark._jsparkSession.sharedState().statusStore()  # type: ignore[union-attr]
    spark.sql("SELECT 1").collect()
    listeners.waitUntilEmpty()
    before = store.executionsList().last().executionId()  # by numbers and not by how many: the oldest are let go
    spark.sql(f"DELETE FROM {t} WHERE id % 2 = 1")
    listeners.waitUntilEmpty()
    newest = store.executionsList().takeRight(100)
    found = [e for e in (newest.apply(n) for n in range(newest.size())) if e.executionId() > before]
    assert len({execution.rootExecutionId() for execution in found}) == 1
    assert "Delta DELETE" in min(found, key=lambda execution: execution.executionId()).physicalPlanDescription()


REFUSED = {
    "DELETE FROM {t} WHERE nosuch = 1": (AnalysisException, "nosuch"),
    "DELETE FROM {t} WHERE max(id) = 1": (AnalysisException, "max"),
    "DELETE FROM {t} WHERE rand() < 2": (AnalysisException, "rand"),
    "UPDATE {t} SET nosuch = 1": (AnalysisException, "nosuch"),
    "UPDATE {t} SET s.nosuch = 1": (AnalysisException, "nosuch"),
    "UPDATE {t} SET v = 'a', V = 'b'": (ConflictingAssignmentsError, "v and v"),
    "UPDATE {t} SET s = null, s.x = 1": (ConflictingAssignmentsError, "s and s.x"),
    "UPDATE {t} SET v = max(v)": (AnalysisException, "max"),
    "UPDATE {t} SET v = explode(array(1, 2))": (AnalysisException, "explode"),
    "MERGE INTO {t} t USING {t} s ON t.id = s.id": (ParseException, "WHEN"),
    "MERGE INTO {t} t USING {t} s ON id = 1 WHEN MATCHED THEN DELETE": (AnalysisException, "(?i)ambiguous"),
    "MERGE INTO {t} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *": (AnalysisException, "v"),
    "MERGE INTO {t} t USING {t} s ON t.id = s.id AND rand() < 2 WHEN MATCHED THEN DELETE": (AnalysisException, "rand"),
    "MERGE INTO {t} t USING (SELECT 9 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, ID) VALUES (1, 2)": (
        ConflictingAssignmentsError,
        "id and id",
    ),
    "MERGE INTO {t} t USING (SELECT explode(array(1, 1)) AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = "
    "'x'": (
        MultipleSourceRowsError,
        "id",
    ),
    "MERGE INTO {t} t USING {t} s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'x'": (
        AnalysisException,
        "MATCHED",
    ),
}


@pytest.mark.parametrize("statement", REFUSED)
def test_refused(statement: str, spark: SparkSession, t: str) -> None:
    kind, words = REFUSED[statement]
    with pytest.raises(kind, match=words):
        spark.sql(statement.format(t=t))
    assert versions(spark, t) == 0


def test_other_tables_get_sparks_own_error(spark: SparkSession, t: str, table_name: str) -> None:
    spark.sql(f"CREATE TABLE {table_name}_p (id INT) USING parquet")
    statements = (
        f"DELETE FROM {table_name}_p",
        f"UPDATE {table_name}_p SET id = 1",
        f"MERGE INTO {table_name}_p p USING {t} s ON p.id = s.id WHEN MATCHED THEN DELETE",
    )
    for statement in statements:
        with pytest.raises(Exception, match=r"UNSUPPORTED_FEATURE.TABLE_OPERATION"):
            spark.sql(statement)
    spark.sql(f"DROP TABLE {table_name}_p")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("DELETE FROM no_such_table")
    with pytest.raises(TableNotFoundError):
        spark.sql("DELETE FROM delta.`/no/such/table`")


def test_a_view_that_is_more_than_its_table_is_refused(spark: SparkSession, t: str) -> None:
    """DELETE FROM a view of some rows would delete all."""
    for number, query in enumerate(
        (f"SELECT * FROM {t} WHERE id > 2", f"SELECT id + 1 AS id FROM {t}", f"SELECT * FROM {t} VERSION AS OF 0")
    ):
        spark.sql(f"CREATE OR REPLACE TEMP VIEW {t}_{number} AS {query}")
        with pytest.raises(UnsupportedOperationError, match="view"):
            spark.sql(f"DELETE FROM {t}_{number}")
    assert versions(spark, t) == 0


def test_a_member_of_an_array_cannot_be_assigned(spark: SparkSession, table_name: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} USING delta AS SELECT array(named_struct('x', 1)) AS a")
    with pytest.raises((UnsupportedOperationError, AnalysisException)):
        spark.sql(f"UPDATE {table_name} SET a.x = array(2)")


def test_a_table_that_has_changed_since_the_analysis_is_not_misread(
    spark: SparkSession, t: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer replaces the table while Spark plans: the statement must not take one column for another."""
    run = resolved_plans.run_row_change

    def after_another(*arguments: Any) -> Any:
        monkeypatch.undo()
        spark.range(3).selectExpr("string(id) AS id", "id AS w").write.format("delta").mode("overwrite").option(
            "overwriteSchema", "true"
        ).save(location(spark, t))
        return run(*arguments)

    monkeypatch.setattr(resolved_plans, "run_row_change", after_another)
    with pytest.raises(MetadataChangedException):
        spark.sql(f"DELETE FROM {t} WHERE id > 1")
    assert spark.table(t).count() == 3


def test_an_update_of_nothing_is_no_star(spark: SparkSession, t: str) -> None:
    source = spark.createDataFrame([(3, "new")], "id long, v string").alias("s")
    merge = source.mergeInto(t, F.expr(f"{t}.id = s.id")).whenMatched().update({})
    merge.merge()
    assert values(spark, t) == {n: str(n) for n in range(6)}


# --- INSERT that replaces some rows


def parses_replace(spark: SparkSession) -> bool:
    return not spark.version.startswith("4.1")


def test_insert_replace_using(spark: SparkSession, t: str) -> None:
    if not parses_replace(spark):
        pytest.skip("this Spark has no INSERT REPLACE USING")
    spark.sql(f"INSERT INTO {t} REPLACE USING (id) VALUES (1, 'new', null), (9, 'more', null)")
    assert values(spark, t) == {0: "0", 1: "new", 2: "2", 3: "3", 4: "4", 5: "5", 9: "more"}
    spark.sql(f"INSERT INTO {t} REPLACE USING (v, id) SELECT 0L, '0', null UNION ALL SELECT 2L, 'another', null")
    assert sorted(spark.table(t).where("id IN (0, 2)").select("id", "v").collect()) == [
        (0, "0"),
        (2, "2"),
        (2, "another"),
    ]
    with pytest.raises(AnalysisException, match="nosuch"):
        spark.sql(f"INSERT INTO {t} REPLACE USING (nosuch) SELECT * FROM {t}")


def test_several_inserts_replace_rows(spark: SparkSession, t: str) -> None:
    if not parses_replace(spark):
        pytest.skip("this Spark has no INSERT REPLACE USING")
    replaced = (
        "REPLACE USING (id) SELECT id, 'new', null WHERE id < 2",
        "REPLACE WHERE id = 3 SELECT id, 'three', null WHERE id = 3",
    )
    spark.sql(f"FROM range(4) INSERT INTO {t} {replaced[0]} INSERT INTO {t} {replaced[1]}")
    assert values(spark, t) == {0: "new", 1: "new", 2: "2", 3: "three", 4: "4", 5: "5"}


def test_insert_replace_on(spark: SparkSession, t: str) -> None:
    if not parses_replace(spark):
        pytest.skip("this Spark has no INSERT REPLACE ON")
    spark.sql(
        f"INSERT INTO {t} AS a REPLACE ON a.id = b.id + 1 AND b.v = 'x' (SELECT 4L AS id, 'x' AS v, null AS s) AS b"
    )
    assert sorted(spark.table(t).select("id", "v").collect()) == [
        (0, "0"),
        (1, "1"),
        (2, "2"),
        (3, "3"),
        (4, "4"),
        (4, "x"),
    ]


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_the_writers_options_replace_using_and_on(vectors: str, spark: SparkSession, path: str) -> None:
    spark.range(4).selectExpr("id", "string(id) AS v").write.format("delta").option(
        "delta.enableDeletionVectors", vectors
    ).save(path)
    rows = spark.createDataFrame([(1, "a"), (7, "b"), (None, "c")], "id long, v string")

    def write(**options: str) -> list[tuple[Any, ...]]:
        rows.alias("s").write.format("delta").mode("overwrite").options(**options).save(path)
        return sorted((tuple(row) for row in spark.read.format("delta").load(path).collect()), key=str)

    assert write(replaceUsing="ID") == [(0, "0"), (1, "a"), (2, "2"), (3, "3"), (7, "b"), (None, "c")]
    found = write(replaceOn="t.id = s.id + 2 or t.v = 'c'", targetAlias="t")
    assert found == [(0, "0"), (1, "a"), (1, "a"), (2, "2"), (7, "b"), (7, "b"), (None, "c")]
    with pytest.raises(AnalysisException, match="nosuch"):
        write(replaceUsing="nosuch")
    with pytest.raises(IllegalArgumentException, match="overwriteSchema"):
        write(replaceUsing="id", overwriteSchema="true")
    with pytest.raises(IllegalArgumentException, match="overwrite"):
        rows.write.format("delta").mode("append").option("replaceUsing", "id").save(path)


def test_options_that_replace_rows_are_no_licence_to_make_a_table_anew(spark: SparkSession, t: str) -> None:
    with pytest.raises(IllegalArgumentException, match="replaceUsing"):
        spark.table(t).writeTo(t).using("delta").option("replaceUsing", "id").createOrReplace()
    assert ids(spark, t) == [0, 1, 2, 3, 4, 5]


def test_insert_with_schema_evolution(spark: SparkSession, t: str) -> None:
    if spark.version.startswith("4.1"):
        pytest.skip("this Spark has no INSERT WITH SCHEMA EVOLUTION")
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME SELECT 7L AS id, 5 AS extra")
    assert spark.table(t).where("id = 7").collect() == [Row(id=7, v=None, s=None, extra=5)]


def test_a_time_zone_in_a_partition_counts(spark: SparkSession, table_name: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} (id INT, p TIMESTAMP) USING delta PARTITIONED BY (p)")
    spark.sql(f"INSERT OVERWRITE {table_name} PARTITION (p = timestamp'2020-01-01 00:00:00-05:00') SELECT 2")
    assert spark.sql(f"SELECT id FROM {table_name} WHERE p = timestamp'2020-01-01 05:00:00Z'").collect() == [Row(id=2)]


# --- values of chance


CHANCE = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}')"


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("layout", ["", "PARTITIONED BY (p)"])
def test_each_row_gets_its_own_value_of_chance_once(
    spark: SparkSession, table_name: str, layout: str, vectors: str
) -> None:
    """The rows, a column that is generated of the value, and the change feed all show the same."""
    columns = "id BIGINT, p INT, v STRING, r DOUBLE, g STRING GENERATED ALWAYS AS (upper(v))"
    spark.sql(f"CREATE TABLE {table_name} ({columns}) USING delta {layout} {CHANCE.format(vectors=vectors)}")
    spark.sql(f"INSERT INTO {table_name} (id, p, v) SELECT id, id % 2, string(id) FROM range(8)")
    clauses = (
        "WHEN MATCHED THEN UPDATE SET v = concat('m', uuid()) WHEN NOT MATCHED THEN INSERT (id, p, v, r) VALUES "
        "(s.id, 0, uuid(), rand()) WHEN NOT MATCHED BY SOURCE AND t.id < 2 THEN UPDATE SET v = uuid(), r = rand(7)"
    )
    spark.sql(f"MERGE INTO {table_name} t USING (SELECT id FROM range(5, 12)) s ON t.id = s.id {clauses}")
    spark.sql(f"UPDATE {table_name} SET v = concat('u', uuid()), r = rand() WHERE id IN (2, 3)")
    found = {row.id: row for row in spark.table(table_name).collect()}
    changed = [row for id, row in found.items() if id != 4]
    assert [len(row.v) - 36 for _, row in sorted(found.items()) if row.id != 4] == [0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0]
    assert len({row.v for row in changed}) == 11
    assert len({row.r for row in changed if row.r is not None}) == 8
    assert all(row.g == row.v.upper() for row in found.values())
    after = spark.sql(
        f"SELECT * FROM table_changes('{table_name}', 2) WHERE _change_type IN ('insert', 'update_postimage')"
    )
    assert {row.id: (row.v, row.r, row.g) for row in after.collect()} == {
        row.id: (row.v, row.r, row.g) for row in changed
    }


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {t} SET v = uuid() WHERE rand() < 2",
        "MERGE INTO {t} t USING {t} s ON t.id = s.id AND rand() < 2 WHEN MATCHED THEN DELETE",
        "MERGE INTO {t} t USING {t} s ON t.id = s.id WHEN MATCHED AND rand() < 2 THEN UPDATE SET v = uuid()",
    ],
)
def test_conditions_of_chance_stay_refused(spark: SparkSession, t: str, statement: str) -> None:
    with pytest.raises(AnalysisException, match=r"deterministic"):
        spark.sql(statement.format(t=t))


# --- MERGE WITH SCHEMA EVOLUTION whose clauses name columns

EVOLVING: Mapping[str, tuple[str, str, dict[int, Any]]] = {
    "a field": (
        "MATCHED THEN UPDATE SET s.z = s.s.z",
        "s:struct<x:bigint,y:string,z:int>",
        {1: (1, "q", 8), 2: (2, "q", None)},
    ),
    "a field by the table's name": (
        "MATCHED THEN UPDATE SET t.s.z = 1",
        "s:struct<x:bigint,y:string,z:int>",
        {1: (1, "q", 1)},
    ),
    "a struct": (
        "MATCHED THEN UPDATE SET s = s.s",
        "s:struct<x:bigint,y:string,z:int,in:struct<a:int,b:int>>",
        {1: (7, None, 8, (1, 2)), 2: (2, "q", None, None)},
    ),
    "a field of a field": (
        "MATCHED THEN UPDATE SET s.in.b = 5",
        "s:struct<x:bigint,y:string,in:struct<b:int>>",
        {1: (1, "q", (5,))},
    ),
    "clauses for different fields": (
        "MATCHED AND t.id = 1 THEN UPDATE SET s.z = 3 WHEN MATCHED THEN UPDATE SET s.in.a = 4",
        "s:struct<x:bigint,y:string,z:int,in:struct<a:int>>",
        {1: (1, "q", 3, None)},
    ),
    "an inserted struct": (
        "NOT MATCHED THEN INSERT (id, s, w) VALUES (s.id, s.s, s.w)",
        "s:struct<x:bigint,y:string,z:int,in:struct<a:int,b:int>>,w:int",
        {1: (1, "q", None, None), 9: (7, None, 8, (1, 2))},
    ),
    "what the source has and nobody names": (
        "MATCHED THEN UPDATE SET s.x = s.w",
        "s:struct<x:bigint,y:string>",
        {1: (5, "q")},
    ),
}
INTO_STRUCTS = "(SELECT {id} AS id, named_struct('x', 7, 'z', 8, 'in', named_struct('a', 1, 'b', 2)) AS s, 5 AS w) s"


def plain(value: Any) -> Any:
    return tuple(map(plain, value)) if isinstance(value, Row) else value


@pytest.mark.parametrize("allowed_by", ["statement", "session"])
@pytest.mark.parametrize("case", EVOLVING)
def test_what_clauses_name_is_taken_in(spark: SparkSession, t: str, case: str, allowed_by: str) -> None:
    clauses, schema, expected = EVOLVING[case]
    source = INTO_STRUCTS.format(id="9L" if clauses.startswith("NOT") else "1L")
    statement = f"INTO {t} t USING {source} ON t.id = s.id WHEN {clauses}"
    if allowed_by == "statement":
        spark.sql(f"MERGE WITH SCHEMA EVOLUTION {statement}")
    else:
        with_settings(
            spark, {"spark.databricks.delta.schema.autoMerge.enabled": "true"}, lambda: spark.sql(f"MERGE {statement}")
        )
    assert spark.table(t).drop("v").schema.simpleString() == f"struct<id:bigint,{schema}>"
    found = {row.id: plain(row.s) for row in spark.table(t).collect()}
    assert {id: found[id] for id in expected} == expected


def with_settings(spark: SparkSession, settings: Mapping[str, str], run: Callable[[], Any]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        run()
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_structs_in_arrays_and_maps_are_taken_in(spark: SparkSession, table_name: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} (id INT, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<x: INT>>) USING delta")
    spark.sql(f"INSERT INTO {table_name} VALUES (1, array(named_struct('x', 1)), null)")
    item = "named_struct('z', 2, 'x', 3L)"
    source = f"(SELECT explode(array(1, 2)) AS id, array({item}) AS l, map('k', {item}) AS m) s"
    clauses = "WHEN MATCHED THEN UPDATE SET l = s.l WHEN NOT MATCHED THEN INSERT (id, m) VALUES (id, s.m)"
    spark.sql(f"MERGE WITH SCHEMA EVOLUTION INTO {table_name} t USING {source} ON t.id = s.id {clauses}")
    both = Row(x=3, z=2)
    assert spark.table(table_name).orderBy("id").collect() == [
        Row(id=1, l=[both], m=None),
        Row(id=2, l=None, m={"k": both}),
    ]


def test_what_neither_side_has_is_refused(spark: SparkSession, t: str) -> None:
    start = (
        f"MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 1L AS id, 2 AS w) s ON t.id = s.id WHEN MATCHED THEN "
        f"UPDATE SET"
    )
    for assignment in ("nosuch = 1", "s.nosuch = 1", "s = named_struct('x', 1, 'y', '', 'nosuch', 1)", "id.nosuch = 1"):
        with pytest.raises(AnalysisException, match="nosuch"):
            spark.sql(f"{start} {assignment}")
    assert versions(spark, t) == 0


def test_a_view_that_renames_is_merged_into(spark: SparkSession, t: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW renaming AS SELECT id AS k, v AS id, s AS v FROM {t}")
    spark.sql(
        "MERGE INTO renaming r USING (SELECT 1L AS k) n ON r.k = n.k WHEN MATCHED THEN UPDATE SET id = 'new', r.v.x = 9"
    )
    assert spark.table(t).where("id = 1").collect() == [Row(id=1, v="new", s=Row(x=9, y="q"))]


# --- where rows are stored


PLAIN = "'delta.enableDeletionVectors' = 'false'"
FED = "'delta.enableChangeDataFeed' = 'true', 'delta.enableRowTracking' = 'true'"


@pytest.mark.parametrize("properties", ["'delta.columnMapping.mode' = 'name'", PLAIN, FED, f"{PLAIN}, {FED}"])
def test_rows_are_found_by_where_they_are_stored(spark: SparkSession, t: str, properties: str) -> None:
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ({properties})")
    stored = spark.table(t).where("id = 3").select("_metadata.file_name", "_metadata.row_index").head()
    assert stored is not None
    here = f"_metadata.file_name = '{stored.file_name}'"
    assert spark.sql(f"DELETE FROM {t} WHERE {here} AND _metadata.row_index = {stored.row_index}").head() == Row(
        num_affected_rows=1
    )
    assert 3 not in ids(spark, t)
    left = spark.table(t).where(here).count()
    names = {row.id: row.file_name for row in spark.table(t).select("id", "_metadata.file_name").collect()}
    assert spark.sql(f"UPDATE {t} AS u SET v = u._metadata.file_name WHERE u._metadata.file_size > 0").head() == Row(
        num_affected_rows=5
    )
    assert values(spark, t) == names
    spark.sql(f"UPDATE {t} SET v = 'none' WHERE _metadata.file_name LIKE 'no such%'")
    assert values(spark, t) == names
    merge = f"MERGE INTO {t} AS t USING (SELECT 4L AS id) AS s ON t.id = s.id AND t._metadata.row_index >= 0"
    spark.sql(f"{merge} WHEN MATCHED AND t._metadata.file_block_start = 0 THEN UPDATE SET v = t._metadata.file_path")
    assert values(spark, t)[4].endswith(".parquet")
    assert left <= 5
    with pytest.raises(AnalysisException, match="nothing"):
        spark.sql(f"DELETE FROM {t} WHERE _metadata.nothing = 1")


def test_the_python_api_finds_them_so_too(spark: SparkSession, t: str) -> None:
    stored = spark.table(t).where("id = 3").select("_metadata.file_name", "_metadata.row_index").head()
    assert stored is not None
    table = tahoe.DeltaTable.forPath(spark, location(spark, t))
    table.delete(f"_metadata.file_name = '{stored.file_name}' AND _metadata.row_index = {stored.row_index}")
    assert ids(spark, t) == [0, 1, 2, 4, 5]
    table.update("_metadata.file_size > 0", {"v": "_metadata.file_name"})
    assert all(v.endswith(".parquet") for v in values(spark, t).values())


def test_a_column_of_that_name_is_the_tables_own(spark: SparkSession, table_name: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} USING delta AS SELECT id, named_struct('x', id) AS _metadata FROM range(4)")
    spark.sql(f"DELETE FROM {table_name} WHERE _metadata.x = 2")
    spark.sql(f"UPDATE {table_name} SET _metadata.x = 9 WHERE _metadata.x = 3")
    assert sorted((row.id, row._metadata.x) for row in spark.table(table_name).collect()) == [(0, 0), (1, 1), (3, 9)]


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize(
    "statement",
    [
        "delete from {t} where v < 10",
        "update {t} set v = 100 where v < 10",
        "merge into {t} t using {s} s on t.v = s.v {then}",
    ],
)
def test_rows_that_statistics_do_not_count_stay(
    spark: SparkSession, table_name: str, statement: str, vectors: str
) -> None:
    """Another writer counted two of the file's three rows: a statement that changes two must not remove the third with
    the file.
    """
    spark.sql(
        f"create table {table_name} (v long) using delta tblproperties ('delta.enableDeletionVectors' = '{vectors}')"
    )
    spark.sql(f"insert into {table_name} select /*+ coalesce(1) */ * from values (1L), (2L), (30L)")
    path = location(spark, table_name).removeprefix("file:")
    commit = max(Path(path, "_delta_log").glob("*.json"))
    commit.write_text(commit.read_text().replace('\\"numRecords\\":3', '\\"numRecords\\":2'))
    commit.with_suffix(".crc").unlink(missing_ok=True)
    spark.catalog.refreshTable(table_name)
    then = "when matched then delete"
    spark.sql(statement.format(t=table_name, s="(select * from values (1L), (2L) as s(v))", then=then)).collect()
    changed = [100, 100] if statement.startswith("update") else []
    assert sorted(Table(path).to_arrow(["v"])["v"].to_pylist()) == [30, *changed]
