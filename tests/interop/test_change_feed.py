"""Change feeds that the reference and delta-rs write, tahoe reads as they do: rows, ranges, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe.errors import DeltaError
from tests.interop.reference import Reference, ReferenceFailure
from tests.interop.rows import assert_same, spark_rows
from tests.interop.tables import NUMBERED, properties, run

Changes = Callable[..., pa.Table]

SOURCE = "(SELECT id, concat('merged ', id) AS name, id % 3 AS part, -id * 1D AS score FROM range(90, 120))"


def created(*, by: str = "", **pairs: str) -> tuple[str, str]:
    """A table with rows, in two commits: the reference makes none with column mapping and a feed from a query."""
    partitioning = f"PARTITIONED BY ({by})" if by else ""
    columns = "(id LONG, name STRING, part LONG, score DOUBLE)"
    return (
        f"CREATE TABLE {{t}} {columns} USING delta {partitioning} {properties(enableChangeDataFeed='true', **pairs)}",
        f"INSERT INTO {{t}} {NUMBERED}",
    )


STATEMENTS = (
    "UPDATE {t} SET name = 'changed', score = null WHERE id < 5",
    "DELETE FROM {t} WHERE id % 10 = 7",
    "INSERT INTO {t} SELECT id, 'inserted', id % 3, 0.5 FROM range(200, 210)",
    f"""MERGE INTO {{t}} t USING {SOURCE} s ON t.id = s.id
        WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.id = 8 THEN UPDATE SET name = 'alone'""",
    f"MERGE INTO {{t}} t USING {SOURCE} s ON t.id = s.id AND t.id < 0 WHEN MATCHED THEN UPDATE SET *",
    "UPDATE {t} SET part = 1 - part WHERE id = 11",
    "DELETE FROM {t} WHERE id = 12 OR id = 13",
    "DELETE FROM {t} WHERE part = 2",
    "RESTORE TABLE {t} TO VERSION AS OF 3",
    "OPTIMIZE {t}",
    "DELETE FROM {t}",
    "INSERT OVERWRITE {t} SELECT id, null, 0, 1.5 FROM range(3)",
)

LAYOUTS: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "partitioned": {"by": "part"},
    "vectors": {"enableDeletionVectors": "true"},
    "mapped by name, with vectors": {"by": "part", "enableDeletionVectors": "true", "columnMapping__mode": "name"},
    "mapped by id, in partitions": {"by": "part", "columnMapping__mode": "id"},
    "in-commit timestamps": {"enableInCommitTimestamps": "true", "enableDeletionVectors": "true"},
    "tracked rows": {"enableRowTracking": "true", "enableDeletionVectors": "true"},
}


@pytest.fixture(params=["without Spark", "through Spark"])
def changes(request: pytest.FixtureRequest) -> Changes:
    """Reads a feed; the options are those of Spark's reader."""
    if request.param == "without Spark":
        return _without_spark
    spark: SparkSession = request.getfixturevalue("spark")
    return lambda path, **options: spark_rows(
        spark.read.format("delta")
        .options(readChangeFeed="true", **{k: str(v) for k, v in options.items()})
        .load(str(path))
    )


_ARGUMENTS = {
    "startingVersion": "start_version",
    "endingVersion": "end_version",
    "startingTimestamp": "start_timestamp",
    "endingTimestamp": "end_timestamp",
}


def _without_spark(path: Path, **options: Any) -> pa.Table:
    return tahoe.Table(str(path)).changes(**{_ARGUMENTS[name]: value for name, value in options.items()})


@dataclass(frozen=True)
class Made:
    path: Path
    expected: pa.Table
    version: int


@pytest.fixture(scope="module")
def made(reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """Makes each table once."""
    folder = tmp_path_factory.mktemp("feeds")
    known: dict[str, Made] = {}

    def get(name: str) -> Made:
        if name not in known:
            path = folder / name.replace(" ", "_").replace(",", "")
            run(reference, path, *created(**LAYOUTS[name]), *STATEMENTS)
            known[name] = Made(path, of_reference(reference, path, startingVersion=0), tahoe.Table(str(path)).version)
        return known[name]

    return get


def of_reference(reference: Reference, path: Path, **options: Any) -> pa.Table:
    return reference.read(path, readChangeFeed="true", **{name: str(value) for name, value in options.items()})


# What the reference calls in several ways is here a time out of the range of commits.
CONDITIONS = {
    "DELTA_TIMESTAMP_GREATER_THAN_COMMIT": "DELTA_TIMESTAMP_OUT_OF_RANGE",
    "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION": "DELTA_TIMESTAMP_OUT_OF_RANGE",
}


Answer = pa.Table | str
"""Rows, or the name of an error."""


def answer_of_reference(reference: Reference, path: Path, **options: Any) -> Answer:
    try:
        return of_reference(reference, path, **options)
    except ReferenceFailure as failure:
        return CONDITIONS.get(str(failure.condition), str(failure.condition))


def assert_answers(changes: Changes, path: Path, expected: Answer, **options: Any) -> None:
    if not isinstance(expected, str):
        assert_same(changes(path, **options), expected)
        return
    with pytest.raises(DeltaError) as caught:
        changes(path, **options)
    assert caught.value.condition == expected


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_whole_feed(name: str, made: Callable[[str], Made], changes: Changes) -> None:
    """A change is missing, is another one, or has the time or the version of another commit."""
    table = made(name)
    assert_same(changes(table.path, startingVersion=0), table.expected)
    assert {"insert", "delete", "update_preimage", "update_postimage"} <= set(
        table.expected["_change_type"].to_pylist()
    )


@pytest.mark.parametrize("name", ["partitioned", "mapped by name, with vectors"])
def test_each_version(name: str, made: Callable[[str], Made], changes: Changes) -> None:
    """The changes of a commit depend on what else is read."""
    table = made(name)
    for version in range(table.version + 1):
        expected = table.expected.filter(pc.equal(table.expected["_commit_version"], version))
        assert_same(changes(table.path, startingVersion=version, endingVersion=version), expected)


def test_filters_through_spark(made: Callable[[str], Made], reference: Reference, spark: SparkSession) -> None:
    """A filter that leaves files out leaves out changes as well."""
    path = made("mapped by name, with vectors").path
    query = "SELECT id, _change_type, _commit_version FROM {feed} WHERE {condition}"
    spark.read.format("delta").options(readChangeFeed="true", startingVersion="0").load(
        str(path)
    ).createOrReplaceTempView("feed")
    for condition in (
        "_change_type = 'delete' AND _commit_version > 1",
        "part = 2 AND _commit_version IN (2, 5, 8)",
        "id BETWEEN 85 AND 95 AND _change_type LIKE 'update%'",
        "_commit_timestamp > (SELECT min(_commit_timestamp) FROM {feed}) AND score < 0",
        "name IS NULL",
    ):
        ours = spark_rows(spark.sql(query.replace("{condition}", condition).format(feed="feed")))
        theirs = query.replace("{condition}", condition).format(feed=f"table_changes_by_path('{path}', 0)")
        assert_same(ours, reference.sql(theirs))


def test_times(made: Callable[[str], Made], changes: Changes, reference: Reference) -> None:
    """A time stands for another version than with the reference."""
    table = made("in-commit timestamps")
    times = sorted({row["_commit_timestamp"] for row in table.expected.select(["_commit_timestamp"]).to_pylist()})
    first, last = times[2].strftime("%Y-%m-%d %H:%M:%S.%f"), times[5].strftime("%Y-%m-%d %H:%M:%S.%f")
    options = {"startingTimestamp": first, "endingTimestamp": last}
    expected = of_reference(reference, table.path, **options)
    assert expected.num_rows > 0
    assert_same(changes(table.path, **options), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"startingVersion": 99},
        {"startingVersion": 3, "endingVersion": 2},
        {"startingVersion": 3, "endingVersion": 99},
        {"startingVersion": 0, "endingVersion": 0},
        {},
        {"startingTimestamp": "1999-01-01", "endingVersion": 1},
        {"startingTimestamp": "2999-01-01"},
        {"startingVersion": 0, "endingTimestamp": "2999-01-01"},
        {"startingVersion": 0, "endingTimestamp": "1999-01-01"},
    ],
    ids=str,
)
def test_ranges_that_are_refused(
    options: Mapping[str, Any], made: Callable[[str], Made], reference: Reference, changes: Changes
) -> None:
    """A range means something here that it does not mean to the reference."""
    path = made("plain").path
    assert_answers(changes, path, answer_of_reference(reference, path, **options), **options)


EVOLVED = {
    "an added column": (
        *created(),
        "ALTER TABLE {t} ADD COLUMN more STRING",
        "UPDATE {t} SET more = 'more' WHERE id < 3",
    ),
    "a column added to a mapped table": (
        *created(columnMapping__mode="name"),
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} ADD COLUMN more STRING FIRST",
        "UPDATE {t} SET more = 'more' WHERE id < 3",
    ),
    "a renamed column": (
        *created(columnMapping__mode="name"),
        "ALTER TABLE {t} RENAME COLUMN name TO first",
        "UPDATE {t} SET first = 'x' WHERE id < 3",
    ),
    "a dropped column": (
        *created(columnMapping__mode="name"),
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} DROP COLUMN name",
        "DELETE FROM {t} WHERE id < 3",
    ),
    "column mapping switched on": (
        *created(),
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', "
        "'delta.minWriterVersion' = '5')",
        "UPDATE {t} SET name = 'x' WHERE id < 3",
    ),
    "a feed that was switched off and on": (
        *created(),
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')",
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "DELETE FROM {t} WHERE id = 2",
    ),
    "another schema": (
        *created(),
        "CREATE OR REPLACE TABLE {t} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS SELECT "
        "'x' AS name, 1 AS n",
    ),
    "a null that is allowed now": (
        "CREATE TABLE {t} (id LONG NOT NULL, name STRING) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' "
        "= 'true')",
        "INSERT INTO {t} VALUES (1, 'a')",
        "ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL",
        "INSERT INTO {t} VALUES (null, 'b')",
    ),
}


@pytest.fixture(scope="module")
def evolved(
    reference: Reference, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Path, dict[tuple[int, int], Answer]]]:
    """Makes each table once, and what the reference answers for each range of its versions."""
    folder = tmp_path_factory.mktemp("evolved")
    known: dict[str, tuple[Path, dict[tuple[int, int], Answer]]] = {}

    def get(name: str) -> tuple[Path, dict[tuple[int, int], Answer]]:
        if name not in known:
            path = folder / name.replace(" ", "_")
            run(reference, path, *EVOLVED[name])
            last = tahoe.Table(str(path)).version
            ranges = [(start, end) for start in range(last + 1) for end in range(start, last + 1)]
            known[name] = (
                path,
                {(s, e): answer_of_reference(reference, path, startingVersion=s, endingVersion=e) for s, e in ranges},
            )
        return known[name]

    return get


@pytest.mark.parametrize("name", EVOLVED)
def test_every_range_of_a_table_that_changed(
    name: str, evolved: Callable[[str], tuple[Path, dict[tuple[int, int], Answer]]], changes: Changes
) -> None:
    """A range that the reference refuses is read, or the other way round, or another schema is used."""
    path, answers = evolved(name)
    for (start, end), expected in answers.items():
        assert_answers(changes, path, expected, startingVersion=start, endingVersion=end)


# --- delta-rs


def assert_same_as_delta_rs(found: pa.Table, path: Path) -> None:
    """But for the time: delta-rs takes the one that the writer gives in commitInfo, the protocol that of the commit's
    file.
    """
    found = found.drop_columns(["_commit_timestamp"])
    theirs = pa.table(deltalake.DeltaTable(str(path)).load_cdf(starting_version=0).read_all())
    assert_same(found, theirs.select(found.column_names).cast(found.schema))


@pytest.mark.parametrize("by", [None, ["part"]])
def test_feeds_that_delta_rs_writes(
    by: list[str] | None, reference: Reference, changes: Changes, tmp_path: Path
) -> None:
    """What delta-rs records as changes comes out as others."""
    path = tmp_path / "t"
    rows = pa.table(
        {"id": list(range(100)), "part": [i % 3 for i in range(100)], "name": [f"n{i}" for i in range(100)]}
    )
    deltalake.write_deltalake(str(path), rows, partition_by=by, configuration={"delta.enableChangeDataFeed": "true"})
    table = deltalake.DeltaTable(str(path))
    table.update(predicate="id < 5", new_values={"name": "changed"})
    table.delete("id % 10 = 7")
    source = pa.table({"id": [1, 8, 300], "part": [1, 2, 0], "name": ["a", "b", "c"]})
    merge = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    deltalake.write_deltalake(str(path), rows.slice(0, 3), mode="overwrite")
    found = changes(path, startingVersion=0)
    assert_same(found, of_reference(reference, path, startingVersion=0))
    assert_same_as_delta_rs(found, path)


@pytest.mark.parametrize("name", ["plain", "partitioned"])
def test_delta_rs_sees_the_same(name: str, made: Callable[[str], Made], changes: Changes) -> None:
    """A third reader has other changes of the reference's table."""
    path = made(name).path
    assert_same_as_delta_rs(changes(path, startingVersion=0), path)
