"""Tables that the reference makes, one for each thing that it can switch on.

`TABLES` is the list: what makes the table, and whether tahoe writes to it. `refused` names the table feature for which
a write is refused; without it, an append must succeed and be read by the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tests.interop.reference import Reference

Make = Callable[[Reference, Path], None]


@dataclass(frozen=True, kw_only=True)
class ReferenceTable:
    """How the reference makes one table, and what tahoe answers to a write."""

    make: Make
    refused: str | None = None


TABLES: dict[str, ReferenceTable] = {}


def table(*, refused: str | None = None) -> Callable[[Make], Make]:
    """Register a table under its function's name."""

    def register(make: Make) -> Make:
        TABLES[make.__name__] = ReferenceTable(make=make, refused=refused)
        return make

    return register


def run(reference: Reference, path: Path, *script: str) -> None:
    """Run statements in which `{t}` stands for the table at a path."""
    reference.run(*(line.replace("{t}", f"delta.`{path}`") for line in script))


def statements(refused: str | None, **scripts: tuple[str, ...]) -> None:
    """Register tables that SQL alone makes; `{t}` stands for the table."""
    for name, script in scripts.items():

        def make(reference: Reference, path: Path, script: tuple[str, ...] = script) -> None:
            run(reference, path, *script)

        TABLES[name] = ReferenceTable(make=make, refused=refused)


NUMBERED = "SELECT id, concat('name ', id) AS name, id % 3 AS part, id * 1.5D AS score FROM range(0, 100, 1, 2)"


def properties(**pairs: str) -> str:
    """Table properties; two underscores stand for a dot."""
    return (
        "TBLPROPERTIES ("
        + ", ".join(f"'delta.{key.replace('__', '.')}' = '{value}'" for key, value in pairs.items())
        + ")"
    )


def create(rows: str = NUMBERED, *, by: str = "", **pairs: str) -> str:
    """A statement that creates a table from a query, partitioned by columns, with properties."""
    partitioning = f"PARTITIONED BY ({by})" if by else ""
    return f"CREATE TABLE {{t}} USING delta {partitioning} {properties(**pairs) if pairs else ''} AS {rows}"


# --- rows and values

ALL_TYPES = """
    SELECT * FROM VALUES
      (1Y, 2S, 3, 4L, 1.5F, 2.5D, 12345.6789BD, 12345678901234567890.123456789012345678BD, true, 'text', X'00ff', DATE'2024-02-29',
       TIMESTAMP'2024-02-29 23:59:59.123456', TIMESTAMP_NTZ'2024-02-29 23:59:59.123456'),
      (-128Y, -32768S, -2147483648, -9223372036854775808L, float('-infinity'), double('-infinity'), -99999.9999BD,
       -12345678901234567890.123456789012345678BD, false, '', X'', DATE'0001-01-01', TIMESTAMP'0001-01-01 00:00:00',
       TIMESTAMP_NTZ'0001-01-01 00:00:00'),
      (127Y, 32767S, 2147483647, 9223372036854775807L, float('nan'), double('nan'), 0.0001BD, 0.000000000000000001BD, true,
       '\\u00fc\\u2603\\ud83d\\ude00 \\t\\n"', X'ffffffff', DATE'9999-12-31', TIMESTAMP'9999-12-31 23:59:59.999999',
       TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'),
      (null, null, null, null, null, null, null, null, null, null, null, null, null, null)
    AS t (b, s, i, l, f, d, dec9, dec38, flag, text, bin, day, ts, ntz)
"""
NESTED = """
    SELECT id, named_struct('x', id, 'inner', named_struct('y', string(id), 'z', if(id % 2 = 0, null, id))) AS s,
      if(id = 3, null, array(id, null, id + 1)) AS a, array(named_struct('k', id, 'v', array(string(id)))) AS structs,
      map('a', id, 'b', null) AS m, map(id, named_struct('q', array(map('deep', id)))) AS deep,
      cast(array() AS array<int>) AS empty
    FROM range(6)
"""
MORE = "INSERT INTO {t} SELECT id, 'more', id % 3, null FROM range(1000, 1005)"
SPECIAL_TEXTS = [
    "a/b",
    "a b",
    "a=b",
    "a%20b",
    "ü☃😀",
    "it''s",
    '"',
    "a:b",
    "#?&",
    ".hidden",
    "_under",
    r"\\",
    "+",
    "{x}",
    "[1]",
    "*",
    " x",
    "y ",
]


statements(
    None,
    plain=(create(), "INSERT INTO {t} " + NUMBERED, "INSERT INTO {t} VALUES (1000, null, 7, null)"),
    all_types=(create(ALL_TYPES),),
    nested=(create(NESTED),),
    void_column=(create("SELECT id, null AS nothing FROM range(3)"),),
    no_files=("CREATE TABLE {t} (id LONG, name STRING) USING delta",),
    empty_after_delete=(create(), "DELETE FROM {t}"),
    comments_and_metadata=(
        "CREATE TABLE {t} (id LONG COMMENT 'the key', `Name` STRING) USING delta COMMENT 'a table'",
        "INSERT INTO {t} VALUES (1, 'x')",
    ),
    long_texts=(
        create("SELECT id, repeat(char(65 + id), 100) AS text, repeat('\\ud83d\\ude00', 40) AS wide FROM range(26)"),
    ),
    no_statistics=(create(dataSkippingNumIndexedCols="0"),),
    chosen_statistics=(create(dataSkippingStatsColumns="name,score"),),
    random_prefixes=(create(by="part", randomizeFilePrefixes="true"),),
    char_and_varchar=(
        "CREATE TABLE {t} (c CHAR(5), v VARCHAR(5)) USING delta",
        "INSERT INTO {t} VALUES ('ab', 'cd'), (null, null)",
    ),
)

# --- partitions

statements(
    None,
    partitioned=(create(by="part"), "INSERT INTO {t} VALUES (1000, 'no part', null, 1.0)"),
    partitioned_by_every_type=(
        create(
            f"SELECT * EXCEPT (bin, text), if(i > 0, 'plain', text) AS text, monotonically_increasing_id() AS id "
            f"FROM ({ALL_TYPES})",
            by="b, s, i, l, f, d, dec9, dec38, flag, text, day, ts, ntz",
        ),
    ),
    partitioned_by_binary=(
        create("SELECT * FROM VALUES (X'010203', 1), (X'616263', 2), (null, 3) AS v (bin, id)", by="bin"),
    ),
    partitioned_by_special_texts=(
        "CREATE TABLE {t} (id INT, text STRING) USING delta PARTITIONED BY (text)",
        "INSERT INTO {t} VALUES "
        + ", ".join(f"({i}, '{text}')" for i, text in enumerate(SPECIAL_TEXTS))
        + ", (100, ''), (101, null)",
    ),
    partition_columns_with_odd_names=(
        "CREATE TABLE {t} (id INT, `a-b` STRING, `Größe` INT, `per%cent` INT) USING delta PARTITIONED BY (`a-b`, "
        "`Größe`, `per%cent`)",
        "INSERT INTO {t} VALUES (1, 'x', 2, 3), (2, null, null, null)",
    ),
)


@table()
def partitioned_by_local_timestamps(reference: Reference, path: Path) -> None:
    """Partition values in the zone of the session that wrote them, as older writers have them: they are read in the
    reader's zone.
    """
    with reference.settings({"spark.databricks.delta.write.utcTimestampPartitionValues": "false"}):
        rows = (
            "SELECT * FROM VALUES (TIMESTAMP'2024-07-01 12:34:56.789', 1), (TIMESTAMP'2024-07-01 00:00:00', 2), "
            "(null, 3) AS v (ts, id)"
        )
        run(reference, path, create(rows, by="ts"))


@table()
def timestamps_of_several_zones(reference: Reference, path: Path) -> None:
    """Instants stay the same whatever zone wrote them, in columns and as partition values."""
    run(reference, path, "CREATE TABLE {t} (zone STRING, ts TIMESTAMP, at TIMESTAMP) USING delta PARTITIONED BY (at)")
    for zone in ("UTC", "America/Los_Angeles", "Asia/Kolkata", "Pacific/Apia"):
        with reference.settings({"spark.sql.session.timeZone": zone}):
            row = f"('{zone}', TIMESTAMP'2024-03-10 02:30:00', TIMESTAMP'2024-11-03 01:30:00.000001')"
            run(reference, path, f"INSERT INTO {{t}} VALUES {row}")


@table()
def timestamps_as_int96(reference: Reference, path: Path) -> None:
    with reference.settings({"spark.sql.parquet.outputTimestampType": "INT96"}):
        instants = "(1, TIMESTAMP'1500-01-01 00:00:00'), (2, null), (3, TIMESTAMP'2024-02-29 23:59:59.123456')"
        run(reference, path, create(f"SELECT * FROM VALUES {instants} AS v (id, ts)"))


@table()
def timestamps_in_milliseconds(reference: Reference, path: Path) -> None:
    with reference.settings({"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"}):
        run(reference, path, create("SELECT TIMESTAMP'2024-02-29 23:59:59.123' AS ts, 1 AS id"))


@table()
def dates_of_the_julian_calendar(reference: Reference, path: Path) -> None:
    with reference.settings({"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"}):
        run(reference, path, create("SELECT DATE'1500-03-01' AS day, TIMESTAMP'1400-01-01 10:00:00' AS ts, 1 AS id"))


# --- what the log looks like

statements(
    None,
    overwritten=(
        create(by="part"),
        f"INSERT OVERWRITE {{t}} {NUMBERED} WHERE id < 10",
        "INSERT INTO {t} REPLACE WHERE part = 1 SELECT id, 'replaced', 1L, 0.0D FROM range(200, 205)",
    ),
    replaced_with_another_schema=(
        create(),
        "CREATE OR REPLACE TABLE {t} USING delta PARTITIONED BY (day) AS SELECT DATE'2024-01-01' AS day, 'only' "
        "AS text",
    ),
    columns_added=(
        "CREATE TABLE {t} USING delta AS SELECT id, named_struct('x', id) AS s FROM range(3)",
        "ALTER TABLE {t} ADD COLUMNS (name STRING AFTER id, s.y STRING)",
        "INSERT INTO {t} SELECT id, 'new', named_struct('x', id, 'y', 'new') FROM range(10, 12)",
    ),
    updated_and_merged_by_copying=(
        create(),
        "UPDATE {t} SET name = 'changed' WHERE id % 7 = 0",
        "DELETE FROM {t} WHERE id BETWEEN 20 AND 30",
        "MERGE INTO {t} t USING (SELECT id FROM range(95, 110)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name "
        "= 'merged' WHEN NOT MATCHED THEN INSERT (id, name, part, score) VALUES (s.id, 'inserted', 1, 0)",
    ),
    optimized_and_z_ordered=(
        create(),
        "INSERT INTO {t} " + NUMBERED,
        "OPTIMIZE {t} ZORDER BY (id, score)",
    ),
    restored=(create(), "DELETE FROM {t} WHERE id < 50", "RESTORE TABLE {t} TO VERSION AS OF 0"),
    checkpoint_classic=(
        create(by="part", checkpointInterval="2"),
        *[MORE] * 5,
    ),
    checkpoint_with_parsed_statistics_alone=(
        create(checkpointInterval="2", checkpoint__writeStatsAsJson="false", checkpoint__writeStatsAsStruct="true"),
        *[MORE] * 2,
    ),
    checkpoint_with_json_statistics_alone=(
        create(checkpointInterval="2", checkpoint__writeStatsAsStruct="false"),
        *[MORE] * 2,
    ),
)


@table()
def checkpoint_in_parts(reference: Reference, path: Path) -> None:
    with reference.settings({"spark.databricks.delta.checkpoint.partSize": "2"}):
        run(reference, path, create(by="part", checkpointInterval="3"), *[MORE] * 4)


@table()
def cloned_from_another_folder(reference: Reference, path: Path) -> None:
    """A shallow clone: every file is named by an absolute path outside the table's folder."""
    source = path.with_name(path.name + " source%20")
    run(reference, source, create(by="part"))
    run(
        reference,
        path,
        f"CREATE TABLE {{t}} SHALLOW CLONE delta.`{source}`",
        "INSERT INTO {t} VALUES (5000, 'own', 1, 0)",
    )


@table()
def converted_from_parquet(reference: Reference, path: Path) -> None:
    reference.run(
        f"CREATE TABLE plain USING parquet PARTITIONED BY (part) LOCATION '{path}' AS {NUMBERED}",
        f"CONVERT TO DELTA parquet.`{path}` PARTITIONED BY (part LONG)",
        "DROP TABLE plain",
    )


# --- table features

DELETED = (
    "DELETE FROM {t} WHERE id % 10 = 3",
    "DELETE FROM {t} WHERE id BETWEEN 40 AND 60",
    "UPDATE {t} SET name = 'changed' WHERE id = 7",
    "MERGE INTO {t} t USING (SELECT id FROM range(95, 110)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = "
    "'merged' WHEN NOT MATCHED THEN INSERT (id, name, part, score) VALUES (s.id, 'inserted', 1, 0)",
)
statements(
    None,
    deletion_vectors=(create(enableDeletionVectors="true"), *DELETED),
    deletion_vectors_in_partitions=(
        create(by="part", enableDeletionVectors="true", checkpointInterval="2"),
        *DELETED,
    ),
    deletion_vectors_purged=(
        create(enableDeletionVectors="true"),
        *DELETED,
        "REORG TABLE {t} APPLY (PURGE)",
    ),
    deletion_vectors_on_nested_columns=(
        create(NESTED, enableDeletionVectors="true"),
        "DELETE FROM {t} WHERE s.x = 2",
    ),
    column_mapping_name=(
        create(by="part", columnMapping__mode="name"),
        "ALTER TABLE {t} RENAME COLUMN name TO `full name, (odd)`",
        "ALTER TABLE {t} RENAME COLUMN part TO bucket",
        "ALTER TABLE {t} DROP COLUMN score",
        "ALTER TABLE {t} ADD COLUMN score STRING",
        "INSERT INTO {t} VALUES (1000, 'x', 9, 'new score')",
    ),
    column_mapping_id=(
        create(by="part", columnMapping__mode="id"),
        "ALTER TABLE {t} RENAME COLUMN name TO score2",
        "ALTER TABLE {t} DROP COLUMN score",
        "ALTER TABLE {t} RENAME COLUMN score2 TO score",
        "INSERT INTO {t} (id, part, score) VALUES (1000, 9, 'x')",
    ),
    column_mapping_nested=(
        create(NESTED, columnMapping__mode="name"),
        "ALTER TABLE {t} RENAME COLUMN s.inner.y TO `why not`",
        "ALTER TABLE {t} DROP COLUMN s.inner.z",
        "ALTER TABLE {t} RENAME COLUMN structs.element.k TO key",
    ),
    column_mapping_switched_on_later=(
        create(),
        "ALTER TABLE {t} SET " + properties(columnMapping__mode="name", minReaderVersion="2", minWriterVersion="5"),
        "ALTER TABLE {t} RENAME COLUMN name TO title",
        "INSERT INTO {t} VALUES (1000, 'x', 9, 1.0)",
    ),
    column_mapping_with_deletion_vectors=(
        create(columnMapping__mode="name", enableDeletionVectors="true"),
        "ALTER TABLE {t} RENAME COLUMN name TO `a b`",
        "DELETE FROM {t} WHERE `a b` = 'name 5' OR id > 90",
    ),
    timestamp_ntz=(
        create(
            "SELECT TIMESTAMP_NTZ'2024-03-10 02:30:00.000001' AS n, TIMESTAMP_NTZ'1600-01-01 00:00:00' AS part",
            by="part",
        ),
    ),
    variant=(
        create(
            'SELECT id, if(id = 3, null, parse_json(concat(\'{"a": \', id, \', "b": [1, null, "x"]}\'))) AS v, '
            "named_struct('inner', parse_json('1.5')) AS s FROM range(5)"
        ),
    ),
    append_only=(create(appendOnly="true"),),
    vacuum_protocol_check=(create(feature__vacuumProtocolCheck="supported"),),
    change_data_feed_supported=(
        create(enableChangeDataFeed="true"),
        "UPDATE {t} SET name = 'changed' WHERE id < 5",
        "DELETE FROM {t} WHERE id > 90",
    ),
    type_widening=(
        "CREATE TABLE {t} (b BYTE, s SHORT, i INT, f FLOAT, day DATE, n DECIMAL(5, 2), k INT, part SHORT) USING delta "
        f"PARTITIONED BY (part) {properties(enableTypeWidening='true', feature__timestampNtz='supported')}",
        "INSERT INTO {t} VALUES (1, 2, 3, 1.5, DATE'2024-01-01', 1.25, 7, 5), (null, null, null, null, null, "
        "null, null, null)",
        "ALTER TABLE {t} ALTER COLUMN b TYPE SHORT",
        "ALTER TABLE {t} ALTER COLUMN s TYPE LONG",
        "INSERT INTO {t} VALUES (300, 40000, 3, 2.5, DATE'2024-01-02', 2.5, 8, 6)",
        "ALTER TABLE {t} ALTER COLUMN b TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN i TYPE DOUBLE",
        "ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE",
        "ALTER TABLE {t} ALTER COLUMN day TYPE TIMESTAMP_NTZ",
        "ALTER TABLE {t} ALTER COLUMN n TYPE DECIMAL(12, 4)",
        "ALTER TABLE {t} ALTER COLUMN k TYPE DECIMAL(20, 2)",
        "ALTER TABLE {t} ALTER COLUMN part TYPE INT",
        "INSERT INTO {t} VALUES (100000, 1, 1.25, 3.5, TIMESTAMP_NTZ'2024-01-03 10:00:00', 12345678.1234, 1.25, "
        "100000)",
    ),
    type_widening_nested=(
        "CREATE TABLE {t} (id INT, s STRUCT<x: INT>, a ARRAY<SHORT>, m MAP<BYTE, INT>) USING delta "
        + properties(enableTypeWidening="true"),
        "INSERT INTO {t} VALUES (1, named_struct('x', 1), array(1S, null), map(1Y, 2))",
        "ALTER TABLE {t} ALTER COLUMN s.x TYPE LONG",
        "ALTER TABLE {t} ALTER COLUMN a.element TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN m.key TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN m.value TYPE LONG",
        "INSERT INTO {t} VALUES (2, named_struct('x', 10000000000), array(100000), map(1000, 10000000000))",
    ),
)
statements(None, in_commit_timestamps=(create(enableInCommitTimestamps="true"), "DELETE FROM {t} WHERE id = 1"))
statements(
    None,
    in_commit_timestamps_switched_on_later=(
        create(),
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
        "DELETE FROM {t} WHERE id = 2",
    ),
)
statements(
    None,
    row_tracking=(create(enableRowTracking="true", enableDeletionVectors="true"), *DELETED, "OPTIMIZE {t}"),
    row_tracking_by_copying=(create(enableRowTracking="true"), *DELETED),
    row_tracking_kept=(
        create(by="part", enableRowTracking="true", columnMapping__mode="name"),
        "UPDATE {t} SET name = 'changed' WHERE id % 10 = 3",
        "ALTER TABLE {t} RENAME COLUMN name TO renamed",
        MORE,
        "UPDATE {t} SET part = 0 WHERE id IN (1, 1001)",
    ),
    row_tracking_by_id=(
        create(enableRowTracking="true", enableDeletionVectors="true", columnMapping__mode="id"),
        "UPDATE {t} SET name = 'changed' WHERE id % 10 = 3",
        "OPTIMIZE {t}",
        "DELETE FROM {t} WHERE id % 10 = 4",
        MORE,
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')",
        "UPDATE {t} SET name = 'changed again' WHERE id = 3 OR id = 1002",
    ),
    row_tracking_switched_on_later=(
        create(),
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
        "UPDATE {t} SET name = 'changed' WHERE id = 5",
        "MERGE INTO {t} AS t USING (SELECT id FROM range(90, 110)) AS s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET name = 'merged' WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
    ),
)
statements(
    None,
    clustered=(
        f"CREATE TABLE {{t}} USING delta CLUSTER BY (id, name) AS {NUMBERED}",
        "INSERT INTO {t} " + NUMBERED,
        "OPTIMIZE {t}",
    ),
)
statements(
    None,
    check_constraint=(create(), "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id >= 0 AND name LIKE 'name%')"),
)
statements(
    None,
    column_defaults=(
        f"CREATE TABLE {{t}} (id LONG, name STRING DEFAULT 'nobody') USING delta "
        f"{properties(feature__allowColumnDefaults='supported')}",
        "INSERT INTO {t} (id) VALUES (1), (2)",
    ),
)
statements(None, iceberg_compat_v1=(create(enableIcebergCompatV1="true", columnMapping__mode="name"),))
statements(
    None,
    iceberg_compat_v2=(create(NESTED, by="id", enableIcebergCompatV2="true", columnMapping__mode="name"),),
)
statements(
    None,
    materialized_partition_columns=(create(by="part", enableMaterializePartitionColumnsFeature="true"),),
)
statements(
    None,
    feature_dropped=(
        create(enableDeletionVectors="true"),
        "DELETE FROM {t} WHERE id = 5",
        "ALTER TABLE {t} DROP FEATURE deletionVectors",
    ),
)
statements(
    None,
    not_null=(
        "CREATE TABLE {t} (id LONG NOT NULL, s STRUCT<x: INT NOT NULL> NOT NULL) USING delta",
        "INSERT INTO {t} VALUES (1, named_struct('x', 1))",
    ),
)
statements(
    None,
    variant_shredded=(
        f"CREATE TABLE {{t}} (id LONG, v VARIANT) USING delta {properties(enableVariantShredding='true')}",
        'INSERT INTO {t} SELECT id, parse_json(concat(\'{"a": \', id, \', "b": "x"}\')) FROM range(50)',
    ),
)


@table()
def generated_columns(reference: Reference, path: Path) -> None:
    reference.create(
        path,
        [
            {"name": "id", "type": "LONG"},
            {"name": "at", "type": "TIMESTAMP"},
            {"name": "day", "type": "DATE", "generated": "CAST(at AS DATE)"},
            {"name": "twice", "type": "LONG", "generated": "id * 2"},
        ],
        partition_by=["day"],
    )
    run(
        reference,
        path,
        "INSERT INTO {t} (id, at) VALUES (1, TIMESTAMP'2024-01-01 10:00:00'), (2, TIMESTAMP'2024-01-02 10:00:00')",
    )


@table()
def identity_columns(reference: Reference, path: Path) -> None:
    reference.create(
        path,
        [{"name": "id", "type": "LONG", "identity": {"start": 100, "step": 10}}, {"name": "name", "type": "STRING"}],
    )
    run(reference, path, "INSERT INTO {t} (name) VALUES ('a'), ('b'), ('c')")


def _v2_checkpoint(reference: Reference, path: Path, top_level: str) -> None:
    with reference.settings(
        {
            "spark.databricks.delta.checkpointV2.topLevelFileFormat": top_level,
            "spark.databricks.delta.checkpoint.partSize": "2",
        }
    ):
        run(
            reference,
            path,
            create(by="part", checkpointPolicy="v2", checkpointInterval="3", enableDeletionVectors="true"),
            *[MORE] * 3,
            "DELETE FROM {t} WHERE id % 4 = 0",
            "INSERT INTO {t} SELECT id, 'last', id % 3, null FROM range(2000, 2005)",
        )


@table()
def v2_checkpoint_json(reference: Reference, path: Path) -> None:
    _v2_checkpoint(reference, path, "json")


@table()
def v2_checkpoint_parquet(reference: Reference, path: Path) -> None:
    _v2_checkpoint(reference, path, "parquet")


@table()
def written_by_its_dataframe_writer(reference: Reference, path: Path) -> None:
    """From Arrow through the reference's own writer, with a schema that grows and dynamic partition overwrite."""
    first = pa.table({"id": pa.array([1, 2, 3]), "part": pa.array(["a", "b", None])})
    reference.write(path, first, partition_by=["part"])
    reference.write(
        path,
        first.append_column("more", pa.array([1.5, None, 2.5])),
        partition_by=["part"],
        options={"mergeSchema": "true"},
    )
    reference.write(
        path,
        pa.table({"id": pa.array([9]), "part": pa.array(["b"]), "more": pa.array([0.0])}),
        mode="overwrite",
        partition_by=["part"],
        options={"partitionOverwriteMode": "dynamic"},
    )
