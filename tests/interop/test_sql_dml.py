"""DELETE, UPDATE, MERGE and INSERT in SQL: the reference and tahoe run the same statements, each on its own copy of a
table.

After each statement both have answered the same rows, and after each script both tables hold the same rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tahoe import Table
from tahoe.errors import DeltaError
from tahoe.storage.background import finish_background
from tests.interop.reference import Reference, ReferenceFailure
from tests.interop.rows import assert_same

ROWS = """SELECT id, IF(id % 7 = 6, null, string(id * id)) AS v, int(id * 10) AS n, named_struct('x', id, 'y', string(id)) AS s,
    date_add(date'2024-01-10', int(id)) AS d, id % 3 AS p FROM range(0, 20, 1, 2)"""

NESTED = """(SELECT explode(array(4L, 5L, 400L)) AS id, named_struct('x', 7, 'z', 8, 'in', named_struct('a', 1L, 'b', 'b')) AS s,
    9 AS w, array(named_struct('q', 1)) AS l, map('k', named_struct('r', 2)) AS m, 0 AS unused) s"""

SCRIPTS: Mapping[str, Sequence[str]] = {
    "delete": (
        "DELETE FROM {t} WHERE id = 3",
        "DELETE FROM {t} WHERE id = 999",
        "DELETE FROM {t} AS a WHERE a.id BETWEEN 4 AND 5",
        "DELETE FROM {t} a WHERE a.s.x = 8 OR a.v IS NULL",
        "DELETE FROM {t} WHERE ID IN (7, 9) AND N > 0",
        "DELETE FROM {t} WHERE v LIKE '1%' AND id > 10",
        "DELETE FROM {t} WHERE id = cast('14' AS int) OR v = 'it''s; DELETE FROM {t}'",
        "/* first */ DELETE -- second\n FROM {t} WHERE d = date'2024-01-25' -- third",
        "DELETE FROM {t} WHERE p = 1",
        "DELETE FROM {t} WHERE NOT (id > 0) AND n <=> 0",
        "DELETE FROM {t} WHERE cast(null AS boolean)",
        "DELETE FROM {t}",
        "DELETE FROM {t} WHERE id = 1",
    ),
    "update": (
        "UPDATE {t} SET v = 'one' WHERE id = 1",
        "UPDATE {t} SET V = concat(v, '!'), N = n + 1 WHERE ID < 4",
        "UPDATE {t} AS a SET a.n = a.n * 2, v = a.s.y WHERE a.id >= 15",
        "UPDATE {t} SET s.x = s.x + 100 WHERE id = 5",
        "UPDATE {t} SET s.x = id, s.y = 'both' WHERE p = 2",
        "UPDATE {t} SET s = named_struct('y', 'turned', 'x', 1) WHERE id = 6",
        "UPDATE {t} SET s = null WHERE id = 7",
        "UPDATE {t} SET v = null, d = '2030-01-01' WHERE id = 8",
        "UPDATE {t} SET n = 7L WHERE id = 9",
        "UPDATE {t} SET n = '17' WHERE id = 9",
        "UPDATE {t} SET v = 12.50, d = timestamp'2031-05-06 07:08:09' WHERE id = 10",
        "UPDATE {t} SET p = 5 WHERE id = 11",
        "UPDATE {t} SET p = p + 1, id = -id WHERE id IN (12, 13)",
        "UPDATE {t} SET n = CASE WHEN id > 2 THEN 1 ELSE null END WHERE id = 999",
        "UPDATE {t} SET v = DEFAULT WHERE id = 14",
        "UPDATE {t} SET n = id + id, id = n",
    ),
    "merge": (
        "MERGE INTO {t} AS t USING (SELECT 1L AS id, 'm' AS v) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v "
        "= s.v",
        "MERGE INTO {t} t USING (SELECT * FROM VALUES (2, 'two'), (102, 'new') AS x(id, v)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET t.v = s.v WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.id, s.v, 0)",
        "WITH src AS (SELECT 3 AS k) MERGE INTO {t} t USING src ON t.id = src.k WHEN MATCHED THEN DELETE",
        "MERGE INTO {t} t USING {t} s ON t.id = s.id AND t.id < 6 WHEN MATCHED THEN UPDATE SET *",
        "MERGE INTO {t} t USING (SELECT * FROM {t} WHERE id > 17) s ON t.id = s.id + 1000 WHEN NOT MATCHED THEN "
        "INSERT *",
        "MERGE INTO {t} t USING (SELECT 4 AS ID, 'x' AS V) s ON t.id = s.id WHEN MATCHED AND t.n > 1000 THEN DELETE "
        "WHEN MATCHED AND s.v = 'x' THEN UPDATE SET n = t.n + s.id, s.x = 5 WHEN MATCHED THEN DELETE",
        "MERGE INTO {t} t USING (SELECT 5 AS id) s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND t.id > 18 THEN DELETE",
        "MERGE INTO {t} t USING (SELECT 5 AS id) s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND t.id > 16 THEN "
        "UPDATE SET v = t.p || 'left'",
        "MERGE INTO {t} t USING (SELECT explode(array(6, 6)) AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "MERGE INTO {t} t USING (SELECT 9 AS id, null AS v) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED BY TARGET THEN INSERT (id) VALUES (id)",
        "MERGE INTO {t} t USING (SELECT 300 AS id) s ON false WHEN NOT MATCHED AND s.id = 300 THEN INSERT (id, p, "
        "n) VALUES (s.id, 2, '33')",
        "MERGE INTO {t} t USING (SELECT * FROM range(3)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = "
        "named_struct('y', 'by name', 'x', s.id)",
        "MERGE INTO {t} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'a' WHEN NOT "
        "MATCHED BY SOURCE THEN DELETE",
    ),
    "merge that evolves": (
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 1L AS id, 'm' AS v, 1 AS extra) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 201L AS id, 2L AS p, 2 AS extra, 'w' AS more) s ON "
        "t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 2L AS id, 5 AS other, 6 AS unused) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET other = s.other + 1 WHEN NOT MATCHED THEN INSERT (id, other) VALUES (s.id, 7)",
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 3L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        f"MERGE WITH SCHEMA EVOLUTION INTO {{t}} t USING {NESTED} ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, w, p) VALUES (s.id, s.w, 1)",
        f"MERGE WITH SCHEMA EVOLUTION INTO {{t}} t USING {NESTED} ON t.id = s.id AND t.id < 6 "
        "WHEN MATCHED THEN UPDATE SET s.in.a = t.id, l = s.l WHEN NOT MATCHED THEN INSERT (id, s, m) VALUES "
        "(s.id, s.s, s.m)",
        f"MERGE WITH SCHEMA EVOLUTION INTO {{t}} t USING {NESTED} ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = "
        f"s.s, m = s.m, l = s.l",
    ),
    "insert": (
        "INSERT INTO {t} VALUES (100, 'a', 1, named_struct('x', 1L, 'y', 'b'), date'2024-01-01', 1)",
        "INSERT INTO {t} SELECT id + 50, v, n, s, d, p FROM {t} WHERE id < 2",
        "INSERT INTO {t} (v, id, p) VALUES ('x', 102, 2)",
        "INSERT INTO {t} (id, p) VALUES (103, DEFAULT)",
        "INSERT INTO {t} BY NAME SELECT 1L AS p, 'q' AS v, 104L AS id",
        "INSERT INTO {t} PARTITION (p = 7) (id, v) VALUES (105, 'seven')",
        "INSERT INTO {t} PARTITION (p = 7) SELECT 106, 'all', 2, null, null",
        "INSERT INTO {t} PARTITION (p) SELECT 107, 'dynamic', 2, null, null, 8",
        "INSERT INTO {t} TABLE {t}",
        "WITH x AS (SELECT 108L AS id) INSERT INTO {t} (id) SELECT id FROM x",
        "INSERT INTO {t} VALUES ('109', 5, '7', null, '2024-02-03', 1L)",
    ),
    "overwrite": (
        "INSERT INTO {t} REPLACE WHERE p = 1 SELECT * FROM {t} WHERE p = 1 AND id > 4",
        "INSERT INTO {t} REPLACE WHERE id > 15 VALUES (16, 'again', 1, null, null, 0)",
        "INSERT INTO {t} REPLACE WHERE v = '4' OR n IN (50, 60) (SELECT id, v, 50, s, d, p FROM {t} WHERE n = 50)",
        "INSERT OVERWRITE {t} PARTITION (p = 1) SELECT 7, 'part', 1, null, null",
        "INSERT OVERWRITE {t} PARTITION (p = 12) (id, v) SELECT 8, 'new'",
        "INSERT OVERWRITE {t} (id, v) SELECT 9, 'every row'",
        "INSERT OVERWRITE {t} BY NAME SELECT 3L AS p, 10L AS id",
        "INSERT OVERWRITE {t} SELECT 11, 'all', 1, null, null, 3",
    ),
}

LAYOUTS: Mapping[str, str] = {
    "vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "copies": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
    "partitions": "PARTITIONED BY (p) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true')",
}

# How a table is laid out matters less to what adds rows.
CASES = [
    (layout, script)
    for layout in LAYOUTS
    for script in SCRIPTS
    if layout != "copies" or script in ("delete", "update", "merge")
]


def named(path: Path) -> str:
    return f"delta.`{path}`"


@pytest.fixture
def copies(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """The reference's copy of a table, and ours."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    spark.sql(f"CREATE TABLE {named(ours)} USING delta {LAYOUTS[request.param]} AS {ROWS}")
    finish_background()
    shutil.copytree(ours, theirs)
    return theirs, ours


def in_short(statement: str) -> str:
    text = " ".join(statement.split())
    return text if len(text) <= 240 else f"{text[:100]} ... {text[-140:]}"


def difference(statement: str, theirs: Path, ours: Path, spark: SparkSession, reference: Reference) -> str | None:
    """What the two answer differently, after both have run a statement on their copies."""
    try:
        expected = reference.sql(statement.replace("{t}", named(theirs)))
    except ReferenceFailure as error:
        return f"{in_short(statement)}: the reference refuses it: {in_short(str(error))}"
    try:
        found = spark.sql(statement.replace("{t}", named(ours)))
    except (PySparkException, DeltaError) as error:
        return f"{in_short(statement)}: we refuse it: {in_short(str(error))}"
    answers = [
        (found.columns, [row.asDict() for row in found.collect()]),
        (expected.column_names, expected.to_pylist()),
    ]
    return None if answers[0] == answers[1] else f"{in_short(statement)}: ours and theirs: {answers}"


@pytest.mark.parametrize(("copies", "script"), CASES, indirect=["copies"])
def test_scripts(
    script: str, copies: tuple[Path, Path], spark: SparkSession, reference: Reference, request: pytest.FixtureRequest
) -> None:
    """A statement of a user's script changes other rows here than it did with the reference, or tells another number of
    them.
    """
    theirs, ours = copies
    is_partitioned, differences = "partitions" in request.node.callspec.id, []
    for statement in SCRIPTS[script]:
        if "PARTITION (" in statement and not is_partitioned:
            continue
        if (found := difference(statement, theirs, ours, spark, reference)) is not None:
            differences.append(found)
    assert differences == []
    assert_same(Table(str(ours)).to_arrow(), reference.read(theirs))


REFUSED = (
    "DELETE FROM {t} WHERE nosuch = 1",
    "DELETE FROM {t} WHERE max(id) = 1",
    "DELETE FROM {t} WHERE rand() < 2",
    "DELETE FROM {t} WHERE id",
    "DELETE FROM delta.`/nowhere/at/all` WHERE id = 1",
    "DELETE FROM no_such_table",
    "UPDATE {t} SET nosuch = 1",
    "UPDATE {t} SET s.nosuch = 1",
    "UPDATE {t} SET v = nosuch",
    "UPDATE {t} SET v = 'a', V = 'b'",
    "UPDATE {t} SET s = null, s.x = 1",
    "UPDATE {t} SET v = max(v)",
    "UPDATE {t} SET n = array(1)",
    "UPDATE {t} SET n = 'abc' WHERE id = 1",
    "UPDATE {t} SET n = 1 WHERE rand() < 2",
    "MERGE INTO {t} t USING {t} s ON t.id = s.id AND rand() < 2 WHEN MATCHED THEN DELETE",
    "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING {t} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s.nosuch = 1",
    "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING {t} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = "
    "named_struct('x', 1L, 'y', '', 'z', 1)",
    "MERGE INTO {t} t USING {t} s ON t.id = s.id",
    "MERGE INTO {t} t USING {t} s ON id = 1 WHEN MATCHED THEN DELETE",
    "MERGE INTO {t} t USING {t} s ON t.nosuch = s.id WHEN MATCHED THEN DELETE",
    "MERGE INTO {t} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
    "MERGE INTO {t} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
    "MERGE INTO {t} t USING (SELECT 1 AS id, 2 AS nosuch) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET nosuch = 1",
    "MERGE INTO {t} t USING (SELECT explode(array(1, 1)) AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = "
    "'twice'",
    "MERGE INTO {t} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE "
    "SET v = 'a'",
    "INSERT INTO {t} VALUES (1)",
    "INSERT INTO {t} (nosuch) VALUES (1)",
    "INSERT INTO {t} BY NAME SELECT 1 AS nosuch",
    "INSERT INTO {t} REPLACE WHERE p = 1 VALUES (1, 'a', 1, null, null, 2)",
)


@pytest.mark.parametrize("copies", ["vectors"], indirect=True)
def test_what_is_refused(copies: tuple[Path, Path], spark: SparkSession, reference: Reference) -> None:
    """A statement that the reference refuses is run here, or changes something before it is refused."""
    theirs, ours = copies
    accepted = []
    for statement in REFUSED:
        try:
            reference.sql(statement.replace("{t}", named(theirs)))
            accepted.append(f"the reference: {in_short(statement)}")
        except ReferenceFailure:
            pass
        try:
            spark.sql(statement.replace("{t}", named(ours)))
            accepted.append(f"we: {in_short(statement)}")
        except (PySparkException, DeltaError):
            pass
    assert accepted == []
    assert Table(str(ours)).snapshot().version == 0
