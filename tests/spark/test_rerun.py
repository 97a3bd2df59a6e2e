"""A command that loses against a concurrent commit is run again on the newest version, and only then."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe import DeltaTable, Table
from tahoe.errors import DeltaConcurrentModificationException, InvalidOptionError, MetadataChangedException
from tahoe.spark.configuration import setting_names
from tahoe.table.commit.draft import Draft

NAME = setting_names.CONFLICT_RETRIES.name


@pytest.fixture
def retries(spark: SparkSession) -> Iterator[Callable[[str | None], None]]:
    """Sets the session's number of retries; None for the default."""
    before = spark.conf.get(NAME)

    def set_to(value: str | None) -> None:
        spark.conf.unset(NAME) if value is None else spark.conf.set(NAME, value)

    set_to(None)
    yield set_to
    set_to(before)


@pytest.fixture
def rivals(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Callable[[], object]]], None]:
    """Lets rivals commit, one before each of the next commits."""
    commit = Draft.commit

    def meet(waiting: list[Callable[[], object]]) -> None:
        def behind_a_rival(self: Draft, *arguments: object) -> object:
            if waiting:
                rival = waiting.pop(0)
                with monkeypatch.context() as quiet:
                    quiet.setattr(Draft, "commit", commit)
                    rival()
            return commit(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Draft, "commit", behind_a_rival)

    return meet


@pytest.fixture
def counters(spark: SparkSession, path: str) -> str:
    """A table of ids with a number each; without deletion vectors, so that two changes of one file are in conflict."""
    spark.range(4).selectExpr("id", "id * 10 as n").coalesce(1).write.format("delta").save(path)
    return path


def found(path: str) -> dict[int, int]:
    return {row["id"]: row["n"] for row in Table(path).to_arrow().to_pylist()}


def add_to(path: str, key: int) -> Callable[[], object]:
    """A rival that changes one row."""

    def change() -> None:
        with Table(path).transaction() as changes:
            rows = Table(path).to_arrow(filter=f"id = {key}")
            changes.delete(f"id = {key}")
            changes.append(rows.set_column(1, "n", [[rows["n"][0].as_py() + 1]]))

    return change


@pytest.mark.usefixtures("retries")
def test_an_update_counts_on_from_what_the_rival_left(
    spark: SparkSession, counters: str, rivals: Callable[..., None]
) -> None:
    rivals([add_to(counters, 2), add_to(counters, 2)])
    DeltaTable.forPath(spark, counters).update("id = 2", {"n": "n + 100"})
    assert found(counters) == {0: 0, 1: 10, 2: 122, 3: 30}
    assert Table(counters).history(1)[0]["operationMetrics"]["numConflictRetries"] == "2"


@pytest.mark.usefixtures("retries")
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("delete from {t} where n > 20", {0: 0, 1: 10}),
        ("update {t} set n = n + 100 where id = 2", {0: 0, 1: 10, 2: 121, 3: 30}),
        (
            "merge into {t} t using (select 2L id) s on t.id = s.id when matched then update set n = t.n + 100",
            {0: 0, 1: 10, 2: 121, 3: 30},
        ),
        ("insert into {t} replace where n > 20 select 9L, 21L", {0: 0, 1: 10, 9: 21}),
    ],
    ids=["delete", "update", "merge", "replace where"],
)
def test_statements_see_the_rivals_row(
    spark: SparkSession, counters: str, rivals: Callable[..., None], statement: str, expected: dict[int, int]
) -> None:
    """The row 2 has n = 20 when the statement is planned, and 21 when it is committed."""
    rivals([add_to(counters, 2)])
    spark.sql(statement.format(t=f"delta.`{counters}`"))
    assert found(counters) == expected


def test_it_is_run_again_as_often_as_allowed(
    spark: SparkSession, counters: str, retries: Callable[[str | None], None], rivals: Callable[..., None]
) -> None:
    table = DeltaTable.forPath(spark, counters)
    for setting, runs in [(None, 4), ("1", 2), ("0", 1)]:
        retries(setting)
        waiting = [add_to(counters, 2)] * 9
        rivals(waiting)
        with pytest.raises(DeltaConcurrentModificationException):
            table.update("id = 2", {"n": "0"})
        assert 9 - len(waiting) == runs
    retries(None)
    spark.sql(f"alter table delta.`{counters}` set tblproperties ('tahoe.conflictRetries' = '0')")
    waiting = [add_to(counters, 2)] * 9
    rivals(waiting)
    with pytest.raises(DeltaConcurrentModificationException):
        table.update("id = 2", {"n": "0"})
    assert len(waiting) == 8
    retries("often")
    rivals([add_to(counters, 2)])
    with pytest.raises(InvalidOptionError, match="often"):
        table.update("id = 2", {"n": "0"})


def sets(path: str, **properties: str) -> Callable[[], object]:
    def switch() -> None:
        with Table(path).transaction() as changes:
            changes.set_properties({name.replace("__", "."): value for name, value in properties.items()})

    return switch


SWITCHES = {
    "mapping": ({"delta__columnMapping__mode": "name"}, None),
    "vectors": ({"delta__enableDeletionVectors": "true"}, None),
    "stamps": ({"delta__enableInCommitTimestamps": "true"}, None),
    "feed": ({"delta__enableChangeDataFeed": "true"}, "1"),
    "row ids": ({"delta__enableRowTracking": "true"}, "1"),
}


@pytest.mark.usefixtures("retries")
@pytest.mark.parametrize("switch", SWITCHES)
def test_an_update_goes_on_or_is_run_again_behind_a_feature(
    spark: SparkSession, counters: str, rivals: Callable[..., None], switch: str
) -> None:
    properties, retried = SWITCHES[switch]
    rivals([sets(counters, **properties)])
    DeltaTable.forPath(spark, counters).update("id = 2", {"n": "0"})
    assert found(counters) == {0: 0, 1: 10, 2: 0, 3: 30}
    assert Table(counters).history(1)[0]["operationMetrics"].get("numConflictRetries") == retried
    if switch == "feed":
        assert Table(counters).changes(start_version=2).num_rows == 2


@pytest.mark.usefixtures("retries")
def test_what_the_table_refuses_is_raised_at_once(
    spark: SparkSession, counters: str, rivals: Callable[..., None]
) -> None:
    rivals([sets(counters, delta__appendOnly="true")])
    with pytest.raises(MetadataChangedException, match="rows of the table can no longer be removed"):
        DeltaTable.forPath(spark, counters).update("id = 2", {"n": "0"})
    assert found(counters)[2] == 20
    assert not [file for file in tahoe.Table(counters).env.store.walk() if file.key.endswith(".tmp")]


@pytest.mark.usefixtures("retries")
def test_a_statement_is_not_run_again_for_other_columns(
    spark: SparkSession, counters: str, rivals: Callable[..., None]
) -> None:
    """An INSERT by position would put its values into others."""

    def grow() -> None:
        with Table(counters).transaction() as changes:
            changes.add_columns([pa.field("more", pa.int64())])

    rivals([grow])
    with pytest.raises(MetadataChangedException, match="changed the columns"):
        spark.sql(f"INSERT INTO delta.`{counters}` VALUES (9, 90)")
    assert 9 not in found(counters)


@pytest.mark.usefixtures("retries")
def test_a_command_whose_source_reads_the_table_is_not_run_again(
    spark: SparkSession, counters: str, rivals: Callable[..., None]
) -> None:
    """The source may be cached: its rows would be those of the old version, and the rival's change would be lost."""
    table, frame = DeltaTable.forPath(spark, counters), spark.read.format("delta").load(counters).cache()
    try:
        frame.count()
        rivals([add_to(counters, 2), add_to(counters, 2)])
        with pytest.raises(DeltaConcurrentModificationException):
            table.alias("t").merge(frame.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"n": "s.n + 100"}).execute()
        with pytest.raises(DeltaConcurrentModificationException):
            frame.selectExpr("id", "n + 100 as n").write.format("delta").mode("overwrite").save(counters)
        assert found(counters) == {0: 0, 1: 10, 2: 22, 3: 30}
    finally:
        frame.unpersist()


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("DELETE FROM t WHERE id = 1", {0: 0, 2: 20, 3: 30}),
        ("UPDATE t SET n = n + 1 WHERE id = 1", {0: 0, 1: 11, 2: 20, 3: 30}),
        (
            "MERGE INTO t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = t.n + 1",
            {0: 0, 1: 11, 2: 20, 3: 30},
        ),
    ],
)
def test_with_vectors_nothing_is_run_again_behind_a_compaction(spark, path, rivals, statement, left):
    """The rows are deleted where the compaction has put them."""
    rows = spark.range(4).selectExpr("id", "id * 10 as n").repartition(2)
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").option(
        "delta.enableRowTracking", "true"
    ).save(path)
    ids = {
        row["id"]: row["_metadata.row_id"]
        for row in Table(path).to_arrow(columns=["id", "_metadata.row_id"]).to_pylist()
    }
    rivals([lambda: Table(path).optimize()])
    spark.sql(statement.replace(" t ", f" delta.`{path}` t ", 1))
    assert found(path) == left
    operations = [
        (entry["operation"], entry["operationMetrics"].get("numConflictRetries")) for entry in Table(path).history()
    ]
    assert operations[:2] == [(statement.split(" ")[0], None), ("OPTIMIZE", None)]
    after = {
        row["id"]: row["_metadata.row_id"]
        for row in Table(path).to_arrow(columns=["id", "_metadata.row_id"]).to_pylist()
    }
    assert after == {key: ids[key] for key in left}


WRITES: dict[str, Callable[[SparkSession, str], object]] = {
    "append": lambda spark, path: spark.sql("SELECT 9L AS id, 7L AS n").write.format("delta").mode("append").save(path),
    "update": lambda spark, path: DeltaTable.forPath(spark, path).update("id = 1", {"n": "7L"}),
    "delete": lambda spark, path: DeltaTable.forPath(spark, path).delete("id = 1"),
}


@pytest.mark.usefixtures("retries")
@pytest.mark.parametrize("write", WRITES)
def test_a_write_whose_files_a_vacuum_has_deleted_writes_them_again(
    write: str, spark: SparkSession, counters: str, rivals: Callable[..., None]
) -> None:
    """No commit named the files that Spark had written when the VACUUM came."""
    rivals([lambda: Table(counters).vacuum(retention_hours=0, retention_check=False)])
    WRITES[write](spark, counters)
    expected = {
        "append": {0: 0, 1: 10, 2: 20, 3: 30, 9: 7},
        "update": {0: 0, 1: 7, 2: 20, 3: 30},
        "delete": {0: 0, 2: 20, 3: 30},
    }
    assert found(counters) == expected[write]
