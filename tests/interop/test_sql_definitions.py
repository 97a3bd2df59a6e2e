"""Statements that say what a table is: the reference and tahoe run the same ones, each on a table of its own. After
each one both tables have the same schema, properties, partitioning, constraints, clustering and features; or both have
refused it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tahoe
from tahoe.errors import DeltaError
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.types.schema import Struct
from tests.interop.reference import Reference, ReferenceFailure

NESTED = "id BIGINT, name STRING, s STRUCT<x: INT, y: ARRAY<STRUCT<z: INT>>>, m MAP<STRING, STRUCT<v: INT>>, p INT"
NEW = f"CREATE TABLE {{t}} ({NESTED}) USING delta PARTITIONED BY (p)"
FILL = (
    "INSERT INTO {t} VALUES (1, 'a', named_struct('x', 1, 'y', array(named_struct('z', 1))), map('k', "
    "named_struct('v', 1)), 7)"
)
MAPPED = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
WIDENING = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
DEFAULTS = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"

# Statements behind a "!" are refused by both.
CHAINS: dict[str, list[str]] = {
    "adding": [
        NEW,
        FILL,
        "ALTER TABLE {t} ADD COLUMNS (a INT COMMENT 'first', b STRING AFTER id, c DATE FIRST)",
        "ALTER TABLE {t} ADD COLUMN s.w INT FIRST",
        "ALTER TABLE {t} ADD COLUMN s.y.element.q INT AFTER z",
        "ALTER TABLE {t} ADD COLUMN m.value.u INT COMMENT 'inside'",
        "ALTER TABLE {t} ADD COLUMN d DECIMAL(10, 2)",
        "ALTER TABLE {t} ADD COLUMN e STRUCT<f: INT, g: STRING COMMENT 'g'>",
        "ALTER TABLE {t} ADD COLUMN v VARCHAR(5)",
        "ALTER TABLE {t} ADD COLUMN ch CHAR(5)",
        "!ALTER TABLE {t} ADD COLUMN n INT NOT NULL",
        "!ALTER TABLE {t} ADD COLUMN A INT",
        "!ALTER TABLE {t} ADD COLUMN nothing.x INT",
        "!ALTER TABLE {t} ADD COLUMN `a b` INT",
        "!ALTER TABLE {t} ADD COLUMN n INT AFTER nothing",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')",
        "ALTER TABLE {t} ADD COLUMN n TIMESTAMP_NTZ",
    ],
    "mapped": [
        NEW,
        FILL,
        "!ALTER TABLE {t} RENAME COLUMN name TO title",
        "!ALTER TABLE {t} DROP COLUMN name",
        MAPPED,
        "ALTER TABLE {t} RENAME COLUMN name TO title",
        "ALTER TABLE {t} RENAME COLUMN s.x TO `x y`",
        "ALTER TABLE {t} RENAME COLUMN s.y.element.z TO zz",
        "ALTER TABLE {t} RENAME COLUMN p TO part",
        "ALTER TABLE {t} ADD COLUMN `a b` INT AFTER id",
        "ALTER TABLE {t} ADD COLUMNS (c STRUCT<d: INT, e: ARRAY<STRUCT<f: INT>>>, g INT)",
        "ALTER TABLE {t} DROP COLUMN m",
        "ALTER TABLE {t} DROP COLUMNS (s.y, g)",
        "ALTER TABLE {t} DROP COLUMN IF EXISTS nothing",
        "ALTER TABLE {t} ADD COLUMN m INT",
        "!ALTER TABLE {t} DROP COLUMN part",
        "!ALTER TABLE {t} DROP COLUMN nothing",
        "!ALTER TABLE {t} RENAME COLUMN title TO ID",
        "!ALTER TABLE {t} RENAME COLUMN nothing TO x",
        "!ALTER TABLE {t} RENAME COLUMN title TO TITLE",
        "!ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'id')",
    ],
    "changing": [
        NEW,
        FILL,
        "ALTER TABLE {t} ALTER COLUMN name COMMENT 'it''s'",
        "ALTER TABLE {t} ALTER COLUMN s.x COMMENT 'inside'",
        "ALTER TABLE {t} CHANGE COLUMN name name STRING COMMENT 'again'",
        "ALTER TABLE {t} ALTER COLUMN name FIRST",
        "ALTER TABLE {t} ALTER COLUMN id AFTER s",
        "ALTER TABLE {t} ALTER COLUMN s.y FIRST",
        "ALTER TABLE {t} ALTER COLUMN id COMMENT 'one', name COMMENT 'two'",
        "!ALTER TABLE {t} ALTER COLUMN name TYPE INT",
        "!ALTER TABLE {t} ALTER COLUMN p TYPE BIGINT",
        "!ALTER TABLE {t} ALTER COLUMN nothing COMMENT 'x'",
        "!ALTER TABLE {t} ALTER COLUMN s.nothing COMMENT 'x'",
        "!ALTER TABLE {t} ALTER COLUMN id AFTER nothing",
        "!ALTER TABLE {t} ALTER COLUMN name SET DEFAULT 'x'",
    ],
    "nulls": [
        "CREATE TABLE {t} (id BIGINT NOT NULL, s STRUCT<x: INT NOT NULL> NOT NULL) USING delta",
        "INSERT INTO {t} VALUES (1, named_struct('x', 1))",
        "ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL",
        "ALTER TABLE {t} ALTER COLUMN s.x DROP NOT NULL",
        "ALTER TABLE {t} ALTER COLUMN s DROP NOT NULL",
    ],
    "nulls and features": [
        "CREATE TABLE {t} (id BIGINT NOT NULL, n INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = "
        "'true')",
        "ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL",
    ],
    "declared constraints": [
        "CREATE TABLE {t} (id BIGINT, name STRING) USING delta TBLPROPERTIES ('delta.constraints.c' = 'id > 0')",
        "ALTER TABLE {t} DROP CONSTRAINT c",
    ],
    "types": [
        "CREATE TABLE {t} (a TINYINT, b INT, c FLOAT, d DECIMAL(5, 2), e DATE, l ARRAY<INT>, m MAP<SMALLINT, INT>, "
        "s STRUCT<x: INT>) USING delta",
        "INSERT INTO {t} VALUES (1, 1, 1, 1, DATE'2024-01-01', array(1), map(1S, 1), named_struct('x', 1))",
        "!ALTER TABLE {t} ALTER COLUMN b TYPE BIGINT",
        WIDENING,
        "ALTER TABLE {t} ALTER COLUMN a TYPE SMALLINT",
        "ALTER TABLE {t} ALTER COLUMN a TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN b TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN c TYPE DOUBLE",
        "ALTER TABLE {t} ALTER COLUMN d TYPE DECIMAL(10, 4)",
        "ALTER TABLE {t} ALTER COLUMN l.element TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN m.key TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN m.value TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN s.x TYPE BIGINT",
        "!ALTER TABLE {t} ALTER COLUMN b TYPE INT",
        "!ALTER TABLE {t} ALTER COLUMN b TYPE STRING",
        "!ALTER TABLE {t} ALTER COLUMN s TYPE STRUCT<x: BIGINT, y: INT>",
        "!ALTER TABLE {t} ALTER COLUMN l TYPE ARRAY<DOUBLE>",
    ],
    "a widened partition column": [NEW, FILL, WIDENING, "ALTER TABLE {t} ALTER COLUMN p TYPE BIGINT"],
    "texts": [
        "CREATE TABLE {t} (v VARCHAR(3), c CHAR(2), s STRING) USING delta",
        "ALTER TABLE {t} ALTER COLUMN v TYPE VARCHAR(5)",
        "ALTER TABLE {t} ALTER COLUMN c TYPE VARCHAR(4)",
        "!ALTER TABLE {t} ALTER COLUMN v TYPE VARCHAR(4)",
        "!ALTER TABLE {t} ALTER COLUMN s TYPE VARCHAR(4)",
        "ALTER TABLE {t} ALTER COLUMN v TYPE STRING",
        "ALTER TABLE {t} ALTER COLUMN c COMMENT 'kept'",
    ],
    "defaults": [
        f"CREATE TABLE {{t}} (a INT DEFAULT 3, b STRING) USING delta {DEFAULTS}",
        "ALTER TABLE {t} ALTER COLUMN b SET DEFAULT 'x'",
        "ALTER TABLE {t} ALTER COLUMN a DROP DEFAULT",
        "ALTER TABLE {t} ALTER COLUMN b SET DEFAULT concat('a', 'b')",
        "!ALTER TABLE {t} ADD COLUMN c INT DEFAULT 1",
    ],
    "replacing columns": [
        "CREATE TABLE {t} (a INT COMMENT 'old', b STRING, s STRUCT<x: INT>) USING delta",
        "ALTER TABLE {t} REPLACE COLUMNS (b STRING, a INT COMMENT 'new', s STRUCT<x: INT, y: INT>)",
        "ALTER TABLE {t} REPLACE COLUMNS (a INT, b STRING, s STRUCT<x: INT, y: INT>, c INT)",
        "!ALTER TABLE {t} REPLACE COLUMNS (a INT)",
        "!ALTER TABLE {t} REPLACE COLUMNS (a BIGINT, b STRING, s STRUCT<x: INT, y: INT>, c INT)",
        "!ALTER TABLE {t} REPLACE COLUMNS (a INT NOT NULL, b STRING, s STRUCT<x: INT, y: INT>, c INT)",
        MAPPED,
        "ALTER TABLE {t} REPLACE COLUMNS (a INT, s STRUCT<y: INT>)",
        "!ALTER TABLE {t} REPLACE COLUMNS (other INT)",
    ],
    "constraints": [
        NEW,
        FILL,
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0)",
        "ALTER TABLE {t} ADD CONSTRAINT `a b` CHECK (name LIKE 'a%' AND s.x IS NOT NULL)",
        "!ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 1)",
        "!ALTER TABLE {t} ADD CONSTRAINT large CHECK (id > 100)",
        "!ALTER TABLE {t} ADD CONSTRAINT number CHECK (id + 1)",
        "!ALTER TABLE {t} ADD CONSTRAINT unknown CHECK (nothing > 1)",
        MAPPED,
        "!ALTER TABLE {t} RENAME COLUMN id TO ide",
        "!ALTER TABLE {t} DROP COLUMN name",
        "!ALTER TABLE {t} RENAME COLUMN s.x TO xx",
        "ALTER TABLE {t} RENAME COLUMN s.y TO yy",
        "ALTER TABLE {t} DROP CONSTRAINT positive",
        "ALTER TABLE {t} DROP CONSTRAINT IF EXISTS positive",
        "!ALTER TABLE {t} DROP CONSTRAINT positive",
        "ALTER TABLE {t} RENAME COLUMN id TO ide",
    ],
    "clustering": [
        "CREATE TABLE {t} (a INT, b STRING, s STRUCT<x: INT>, l ARRAY<INT>) USING delta CLUSTER BY (a, s.x)",
        "ALTER TABLE {t} CLUSTER BY (b)",
        "!ALTER TABLE {t} CLUSTER BY (l)",
        "!ALTER TABLE {t} CLUSTER BY (nothing)",
        "ALTER TABLE {t} CLUSTER BY NONE",
        "ALTER TABLE {t} CLUSTER BY (a, b)",
        MAPPED,
        "ALTER TABLE {t} RENAME COLUMN a TO aa",
        "!ALTER TABLE {t} DROP COLUMN b",
    ],
    "clustering an unclustered table": [
        "CREATE TABLE {t} (a INT, b STRING) USING delta",
        "ALTER TABLE {t} CLUSTER BY NONE",
        "ALTER TABLE {t} CLUSTER BY (a)",
    ],
    "no clustering of partitions": [NEW, "!ALTER TABLE {t} CLUSTER BY (id)"],
    "properties": [
        "CREATE TABLE {t} (id BIGINT, name STRING) USING delta COMMENT 'first' TBLPROPERTIES ('mine' = '1', "
        "'delta.appendOnly' = 'true')",
        "ALTER TABLE {t} SET TBLPROPERTIES ('mine' = '2', 'Delta.checkpointInterval' = '20')",
        "ALTER TABLE {t} UNSET TBLPROPERTIES ('mine')",
        "ALTER TABLE {t} UNSET TBLPROPERTIES IF EXISTS ('mine', 'delta.appendOnly')",
        "COMMENT ON TABLE {t} IS 'second'",
        "ALTER TABLE {t} SET TBLPROPERTIES ('comment' = 'third')",
        "!ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval' = 'often')",
        "!ALTER TABLE {t} SET TBLPROPERTIES ('delta.noSuchProperty' = '1')",
        "!ALTER TABLE {t} SET TBLPROPERTIES ('delta.constraints.c' = 'id > 0')",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.v2Checkpoint' = 'supported')",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'id,name')",
        MAPPED,
        "ALTER TABLE {t} RENAME COLUMN name TO title",
        "ALTER TABLE {t} ADD COLUMN extra INT",
        "ALTER TABLE {t} DROP COLUMN title",
    ],
    "features that only writers know": [
        "CREATE TABLE {t} (id BIGINT, name STRING) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true', "
        "'delta.enableInCommitTimestamps' = 'true')",
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')",
        "!ALTER TABLE {t} DROP FEATURE domainMetadata",
        "!ALTER TABLE {t} DROP FEATURE nothing",
        "!ALTER TABLE {t} DROP FEATURE delta.appendOnly",
        "!ALTER TABLE {t} DROP FEATURE inCommitTimestamp TRUNCATE HISTORY",
        "ALTER TABLE {t} DROP FEATURE inCommitTimestamp",
        "ALTER TABLE {t} DROP FEATURE rowTracking",
        "!ALTER TABLE {t} DROP FEATURE rowTracking",
        "ALTER TABLE {t} DROP FEATURE domainMetadata",
        "ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 0)",
        "!ALTER TABLE {t} DROP FEATURE checkConstraints",
        "ALTER TABLE {t} DROP CONSTRAINT c",
        "ALTER TABLE {t} DROP FEATURE checkConstraints",
        "INSERT INTO {t} VALUES (3, 'c')",
    ],
    "features of checkpoints": [
        "CREATE TABLE {t} (id BIGINT) USING delta TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', "
        "'delta.feature.vacuumProtocolCheck' = 'supported')",
        "INSERT INTO {t} VALUES (1)",
        "ALTER TABLE {t} DROP FEATURE vacuumProtocolCheck",
        "ALTER TABLE {t} DROP FEATURE v2Checkpoint",
        "!ALTER TABLE {t} DROP FEATURE checkpointProtection",
        "!ALTER TABLE {t} DROP FEATURE checkpointProtection TRUNCATE HISTORY",
        "INSERT INTO {t} VALUES (2)",
    ],
    "deletion vectors": [
        "CREATE TABLE {t} (id BIGINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "INSERT INTO {t} SELECT id FROM range(10)",
        "DELETE FROM {t} WHERE id = 3",
        "!ALTER TABLE {t} DROP FEATURE deletionVectors TRUNCATE HISTORY",
        "!ALTER TABLE {t} DROP FEATURE deletionVectors TRUNCATE HISTORY",
        "ALTER TABLE {t} DROP FEATURE deletionVectors",
        "DELETE FROM {t} WHERE id = 4",
    ],
    "column mapping that ends": [
        NEW,
        FILL,
        MAPPED,
        "ALTER TABLE {t} RENAME COLUMN name TO title",
        "ALTER TABLE {t} DROP COLUMN m",
        "INSERT INTO {t} (id, title, p) VALUES (2, 'b', 8)",
        "ALTER TABLE {t} ADD COLUMN `a b` INT",
        "!ALTER TABLE {t} DROP FEATURE columnMapping",
        "ALTER TABLE {t} DROP COLUMN `a b`",
        "ALTER TABLE {t} DROP FEATURE columnMapping",
        "INSERT INTO {t} (id, title, p) VALUES (3, 'c', 9)",
    ],
    "widened types that stay": [
        "CREATE TABLE {t} (a INT, b INT, s STRUCT<x: INT>) USING delta TBLPROPERTIES ('delta.enableTypeWidening' "
        "= 'true')",
        "INSERT INTO {t} VALUES (1, 1, named_struct('x', 1))",
        "ALTER TABLE {t} ALTER COLUMN a TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN s.x TYPE BIGINT",
        "INSERT INTO {t} VALUES (5000000000, 1, named_struct('x', 5000000000))",
        "ALTER TABLE {t} DROP FEATURE typeWidening",
        "!ALTER TABLE {t} ALTER COLUMN b TYPE BIGINT",
        "INSERT INTO {t} VALUES (2, 2, NULL)",
    ],
    "older protocols": [
        "CREATE TABLE {t} (id BIGINT) USING delta TBLPROPERTIES ('delta.minReaderVersion' = '1', "
        "'delta.minWriterVersion' = '4')",
        "ALTER TABLE {t} ADD CONSTRAINT c CHECK (id IS NOT NULL)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')",
        "ALTER TABLE {t} ADD COLUMN at TIMESTAMP",
    ],
    "creating": [
        "CREATE TABLE {n} (id BIGINT NOT NULL COMMENT 'key', s STRUCT<x: INT NOT NULL COMMENT 'in'>, p DATE) USING "
        "delta PARTITIONED BY (p) LOCATION '{p}' COMMENT 'described' TBLPROPERTIES ('delta.columnMapping.mode' = "
        "'id')",
        "CREATE TABLE IF NOT EXISTS {n} (other INT) USING delta",
        "!CREATE TABLE {n} (other INT) USING delta",
        "CREATE OR REPLACE TABLE {n} (id INT, v VARCHAR(7)) USING delta LOCATION '{p}'",
        "CREATE OR REPLACE TABLE {n} USING delta PARTITIONED BY (b) LOCATION '{p}' COMMENT 'as select' AS SELECT "
        "1 AS a, 'x' AS b",
        "REPLACE TABLE {n} (a INT, t DATE) USING delta LOCATION '{p}' TBLPROPERTIES ('delta.checkpointInterval' = '7')",
        "!CREATE OR REPLACE TABLE {n} (a INT, A INT) USING delta LOCATION '{p}'",
        "!CREATE OR REPLACE TABLE {n} (a INT) USING delta PARTITIONED BY (nothing) LOCATION '{p}'",
        "!CREATE OR REPLACE TABLE {n} (a INT) USING delta PARTITIONED BY (a) LOCATION '{p}'",
        "!CREATE OR REPLACE TABLE {n} (`a b` INT) USING delta LOCATION '{p}'",
        "!CREATE OR REPLACE TABLE {n} (a INT DEFAULT 1) USING delta LOCATION '{p}'",
        f"CREATE OR REPLACE TABLE {{n}} (a INT DEFAULT 1) USING delta LOCATION '{{p}}' {DEFAULTS}",
        "CREATE OR REPLACE TABLE {n} (a INT, b INT) USING delta CLUSTER BY (a) LOCATION '{p}'",
        "CREATE OR REPLACE TABLE {n} USING delta LOCATION '{p}' AS SELECT 1 AS one",
        "ALTER TABLE {n} ADD COLUMN two STRING COMMENT '2'",
        "CREATE TABLE {n}_2 USING delta LOCATION '{p}'",
        "!CREATE TABLE {n}_3 (wrong INT) USING delta LOCATION '{p}'",
        "DROP TABLE {n}_2",
        "COMMENT ON TABLE {n} IS 'kept'",
        "DROP TABLE {n}",
    ],
    "like": [
        "CREATE TABLE {n}_of (id BIGINT NOT NULL COMMENT 'key', p INT) USING delta PARTITIONED BY (p) COMMENT 'of' "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'mine' = '1', 'delta.enableChangeDataFeed' = 'true')",
        "CREATE TABLE {n} LIKE {n}_of LOCATION '{p}' TBLPROPERTIES ('mine' = '2')",
        "CREATE TABLE IF NOT EXISTS {n} LIKE {n}_of",
        "!CREATE TABLE {n} LIKE {n}_of",
        "DROP TABLE {n}_of",
        "DROP TABLE {n}",
    ],
}

COUNT = sum(len(chain) for chain in CHAINS.values())


def test_there_are_many() -> None:
    assert COUNT >= 90


@pytest.mark.parametrize("chain", CHAINS)
def test_both_make_the_same_table(chain: str, spark: SparkSession, reference: Reference, tmp_path: Path) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    wrong = []
    for given in CHAINS[chain]:
        is_refused, statement = given.startswith("!"), given.removeprefix("!")
        found = refusal(spark.sql, statement, ours), refusal(reference.run, statement, theirs)
        if any((error is not None) != is_refused for error in found):
            wrong.append(f"{given}\n  ours: {found[0]}\n  theirs: {found[1]}")
            continue
        if not Path(ours).exists():
            assert not Path(theirs).exists()
            continue
        here, there = facts(ours), facts(theirs)
        if is_refused or "IF EXISTS" in statement:  # of nothing the reference makes a commit
            del here["history"]
        wrong += [
            f"{given}\n  {name}, ours: {here[name]}\n  theirs: {there[name]}"
            for name in here
            if here[name] != there[name]
        ]
    assert not wrong, "\n".join(wrong)


TOLD = [
    "DESCRIBE TABLE {t}",
    "DESCRIBE TABLE {t} id",
    "DESCRIBE TABLE {t} s.x",
    "SHOW COLUMNS IN {t}",
    "SHOW PARTITIONS {t}",
    "SHOW PARTITIONS {t} PARTITION (p = 7)",
    "SHOW TBLPROPERTIES {t}",
    "SHOW TBLPROPERTIES {t} ('mine')",
]


def test_statements_tell_the_same(spark: SparkSession, reference: Reference, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for statement in (
        NEW,
        FILL,
        MAPPED,
        "ALTER TABLE {t} SET TBLPROPERTIES ('mine' = '1', 'delta.enableDeletionVectors' = 'true')",
        "ALTER TABLE {t} ALTER COLUMN id COMMENT 'key'",
        "INSERT INTO {t} (id, p) VALUES (2, 8), (3, NULL)",
    ):
        spark.sql(statement.replace("{t}", f"delta.`{path}`"))
    wrong = []
    for statement in TOLD:
        text = statement.replace("{t}", f"delta.`{path}`")
        found = []
        for run in (
            lambda query: [r.asDict() for r in spark.sql(query).collect()],
            lambda query: reference.sql(query).to_pylist(),
        ):
            try:
                found.append(sorted(map(str, run(text))))
            except (ReferenceFailure, DeltaError, PySparkException) as error:
                found.append([str(error).rpartition("Exception: ")[2]])
        if found[0] != found[1]:
            wrong.append(f"{statement}\n  ours: {found[0]}\n  theirs: {found[1]}")
    assert not wrong, "\n".join(wrong)


def refusal(run: Callable[[str], Any], statement: str, path: str) -> str | None:
    """What an engine says where it refuses a statement."""
    try:
        name = "t" + re.sub(r"\W", "_", path)[-60:]
        run(statement.replace("{t}", f"delta.`{path}`").replace("{n}", name).replace("{p}", path))
    except (ReferenceFailure, DeltaError, PySparkException) as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return None


SAID_ANYWAY = {("delta.enableInCommitTimestamps", "false"), ("delta.checkpointPolicy", "classic")}


def facts(path: str) -> dict[str, Any]:
    """What a table is, but for names that are made by chance."""
    snapshot = tahoe.Table(path).snapshot()
    # The reference puts conditions together anew, and sets some properties to what holds without them.
    told_apart = {
        name: re.sub(r"-col-[0-9a-f-]{36}", "-col-", value.replace(" ", ""))
        for name, value in snapshot.properties.items()
    }
    properties = {name: value for name, value in told_apart.items() if (name, value) not in SAID_ANYWAY}
    properties.pop(
        "delta.requireCheckpointProtectionBeforeVersion", None
    )  # another version: the reference makes empty commits before
    properties.pop("tahoe.keptMarks", None)  # so that no row id or identity value is assigned again
    if snapshot.column_mapping_mode == "none":
        properties.pop(
            "delta.columnMapping.maxColumnId", None
        )  # tahoe keeps it, so that no id is used again if columns are mapped again
    return {
        "schema": without_chance(snapshot.schema),
        "partitions": snapshot.partition_columns,
        "clustering": snapshot.clustering_columns,
        "properties": properties,
        "comment": snapshot.metadata.description,
        "features": supported_features(snapshot.protocol),
        "rows": snapshot.to_arrow().num_rows,
        "history": told(tahoe.Table(path).history(1)[0]),
    }


def told(commit: dict[str, Any]) -> tuple[str, list[str]] | None:
    """What the history calls a commit and what it tells of it; nothing of those that writers have always told in their
    own ways.
    """
    operation = str(commit["operation"])
    if operation == "WRITE" or operation.startswith(("CREATE", "REPLACE TABLE")):
        return None
    return operation, sorted(name for name, value in (commit["operationParameters"] or {}).items() if value is not None)


def without_chance(schema: Struct) -> Any:
    return json.loads(re.sub(r"col-[0-9a-f-]{36}", "col-", schema.to_json()))
