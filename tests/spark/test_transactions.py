"""Transactions of a session over several tables of an attached catalog."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import tahoe
from tahoe.errors import (
    CatalogNotChosenError,
    CheckConstraintViolatedError,
    ConcurrentAppendException,
    ConcurrentTransactionException,
    MetadataChangedException,
    OperationNotAllowedError,
    TransactionConflictError,
    TransactionStateError,
)
from tahoe.storage.background import finish_background
from tests.catalog.commands import serving
from tests.spark.attached import rows

pytestmark = pytest.mark.every_spark


def pieces(spark: SparkSession, lake: str) -> tuple[int, int]:
    """Those ordered, and those in stock."""
    query = "SELECT (SELECT coalesce(sum(pieces), 0) FROM {0}.shop.orders), (SELECT sum(pieces) FROM {0}.shop.stock)"
    ordered, left = spark.sql(query.format(lake)).head()
    return ordered, left


def order(spark: SparkSession, lake: str, count: int = 3) -> None:
    spark.sql(f"INSERT INTO {lake}.shop.orders VALUES ('tea', {count})")
    spark.sql(f"UPDATE {lake}.shop.stock SET pieces = pieces - {count} WHERE item = 'tea'")


def test_statements_of_a_block_become_visible_at_once(spark: SparkSession, lake: str) -> None:
    other = spark.newSession()
    with tahoe.transaction(spark, catalog=lake):
        order(spark, lake)
        spark.sql(f"ALTER TABLE {lake}.shop.orders ADD COLUMN note STRING")
        spark.sql(f"INSERT INTO {lake}.shop.orders VALUES ('cup', 1, 'n')")
        assert pieces(spark, lake) == (4, 7)
        assert pieces(other, lake) == (0, 10)
    assert pieces(spark, lake) == pieces(other, lake) == (4, 7)


def test_a_block_that_fails_has_loaded_no_file(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"item": "tea", "pieces": 2}\n')

    def load() -> int:
        return tahoe.copy_into(spark, f"{lake}.shop.orders", str(file), format="json").first().num_inserted_rows

    with pytest.raises(InterruptedError), tahoe.transaction(spark, catalog=lake):
        assert (load(), load()) == (1, 0)
        raise InterruptedError
    with tahoe.transaction(spark, catalog=lake):
        assert load() == 1
    assert load() == 0
    assert pieces(spark, lake) == (2, 10)


@pytest.mark.parametrize("fails", [True, False])
def test_a_block_that_fails_leaves_nothing(spark: SparkSession, lake: str, fails: bool) -> None:
    def block() -> None:
        spark.sql(f"USE {lake}.shop")
        spark.sql("BEGIN TRANSACTION")
        order(spark, lake)
        assert pieces(spark, lake) == (3, 7)
        spark.sql("ROLLBACK")

    if fails:
        with pytest.raises(AnalysisException), tahoe.transaction(spark, catalog=lake):
            order(spark, lake)
            spark.sql(f"INSERT INTO {lake}.shop.orders SELECT no_column FROM {lake}.shop.stock")
    else:
        block()
    assert pieces(spark, lake) == (0, 10)
    order(spark, lake)
    assert pieces(spark, lake) == (3, 7)


def test_rows_of_a_block_do_not_get_into_caches(spark: SparkSession, lake: str) -> None:
    """Neither into DataFrames that are cached, nor for another version of the same number."""
    stock, other = f"{lake}.shop.stock", spark.newSession()
    cached = spark.table(stock).cache()
    cached.count()
    try:
        spark.sql(f"USE {lake}.shop")
        spark.sql("BEGIN TRANSACTION")
        spark.sql(f"UPDATE {stock} SET pieces = 0")
        within = spark.table(stock).cache()
        assert within.collect()[0].pieces == 0
        within.createOrReplaceTempView("within")
        assert other.table(stock).collect()[0].pieces == 10
        spark.sql("ROLLBACK")
        assert spark.table("within").collect()[0].pieces == 10
        other.sql(f"UPDATE {stock} SET pieces = 11")
        assert spark.table(stock).collect()[0].pieces == other.table(stock).collect()[0].pieces == 11
        with tahoe.transaction(spark, catalog=lake):
            spark.sql(f"UPDATE {stock} SET pieces = pieces + 1")
        assert cached.collect()[0].pieces == other.table(stock).collect()[0].pieces == 12
    finally:
        spark.catalog.clearCache()


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_what_is_cached_in_a_block_is_of_its_moment_only_there(spark: SparkSession, lake: str, end: str) -> None:
    """Also rows of a table that the block does not change."""
    stock, other = f"{lake}.shop.stock", spark.newSession()
    spark.sql(f"USE {lake}.shop")
    spark.sql("BEGIN TRANSACTION")
    cached = spark.table(stock).cache()
    try:
        assert cached.count() == 1
        other.sql(f"UPDATE {stock} SET pieces = 11")
        assert cached.select("pieces").collect()[0].pieces == spark.table(stock).collect()[0].pieces == 10
        spark.sql(end)
        assert cached.select("pieces").collect()[0].pieces == spark.table(stock).collect()[0].pieces == 11
    finally:
        spark.catalog.clearCache()


def test_a_block_goes_behind_what_does_not_conflict(spark: SparkSession, lake: str) -> None:
    other = spark.newSession()
    with tahoe.transaction(spark, catalog=lake):
        order(spark, lake)
        other.sql(f"INSERT INTO {lake}.shop.orders VALUES ('cup', 5)")
    assert pieces(spark, lake) == (8, 7)


_MERGE = (
    "MERGE INTO {lake}.shop.stock t USING {lake}.shop.orders s ON lower(t.item) = s.item "
    "WHEN MATCHED THEN UPDATE SET pieces = t.pieces - s.pieces WHEN NOT MATCHED THEN INSERT *"
)
_UPDATE = (
    "UPDATE {lake}.shop.stock SET pieces = 7 WHERE reverse(item) IN "
    "(SELECT reverse(item) FROM {lake}.shop.orders o WHERE o.pieces < stock.pieces)"
)


@pytest.mark.parametrize("statement", [_MERGE, _UPDATE])
@pytest.mark.parametrize("item", ["lid", "cup"])
def test_rows_of_others_are_compared_with_what_a_block_has_read(
    spark: SparkSession, lake: str, statement: str, item: str
) -> None:
    """The source of a MERGE, and a table of a subquery, have at the end the rows that the block has written."""
    other = spark.newSession()

    def block() -> None:
        with tahoe.transaction(spark, catalog=lake):
            spark.sql(f"INSERT INTO {lake}.shop.orders VALUES ('tea', 3), ('cup', 4)")
            spark.sql(statement.format(lake=lake))
            other.sql(f"INSERT INTO {lake}.shop.orders VALUES ('pot', 1)")
            other.sql(f"INSERT INTO {lake}.shop.stock VALUES ('{item}', 5)")

    if item == "lid":
        block()
        assert {("lid", 5), ("tea", 7)} <= {*rows(spark, f"SELECT * FROM {lake}.shop.stock")}
    else:
        with pytest.raises(ConcurrentAppendException, match=rf"{lake}\.shop\.stock: .*run the block again"):
            block()
        assert rows(spark, f"SELECT * FROM {lake}.shop.stock") == [("cup", 5), ("tea", 10)]
    assert spark.sparkContext._jsc is not None
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0


def test_writes_of_an_application_are_made_once(spark: SparkSession, lake: str) -> None:
    """Also if another writer has the same one meanwhile; the block is run again without it."""
    other = spark.newSession()

    def write(session: SparkSession, version: int) -> None:
        data = session.range(1).selectExpr("'tea' AS item", "1 AS pieces").write.format("delta").mode("append")
        data.option("txnAppId", "app").option("txnVersion", version).saveAsTable(f"{lake}.shop.orders")

    def block(version: int, rival: bool) -> None:
        with tahoe.transaction(spark, catalog=lake):
            write(spark, version)
            spark.sql(f"UPDATE {lake}.shop.stock SET pieces = pieces - 1")
            if rival:
                write(other, version)

    block(1, rival=False)
    block(1, rival=False)
    with pytest.raises(ConcurrentTransactionException, match="run the block again\\."):
        block(2, rival=True)
    assert pieces(spark, lake) == (2, 8)
    block(2, rival=False)
    assert pieces(spark, lake) == (2, 7)


def test_a_conflict_that_will_come_again_is_told(spark: SparkSession, lake: str) -> None:
    other = spark.newSession()

    def block() -> None:
        with tahoe.transaction(spark, catalog=lake):
            order(spark, lake)
            other.sql(f"ALTER TABLE {lake}.shop.stock SET TBLPROPERTIES (delta.appendOnly = true)")

    with pytest.raises(MetadataChangedException, match=rf"{lake}\.shop\.stock: .*only if it fits the table"):
        block()


def test_a_conflict_leaves_all_tables_as_they_were(spark: SparkSession, lake: str) -> None:
    other = spark.newSession()

    def block() -> None:
        with tahoe.transaction(spark, catalog=lake):
            order(spark, lake)
            other.sql(f"UPDATE {lake}.shop.stock SET pieces = 100")

    with pytest.raises(tahoe.errors.DeltaConcurrentModificationException):
        block()
    assert pieces(spark, lake) == (0, 100)


_INSERTS = "FROM {lake}.shop.stock INSERT INTO {lake}.shop.orders SELECT * INSERT INTO {lake}.shop.limited SELECT *"


@pytest.fixture
def limited(spark: SparkSession, lake: str) -> str:
    """A table of the catalog that takes less than 10 pieces."""
    spark.sql(f"CREATE TABLE {lake}.shop.limited (item STRING, pieces INT)")
    spark.sql(f"ALTER TABLE {lake}.shop.limited ADD CONSTRAINT few CHECK (pieces < 10)")
    return f"{lake}.shop.limited"


def test_a_statement_with_several_inserts_is_a_transaction(spark: SparkSession, lake: str, limited: str) -> None:
    with pytest.raises(CheckConstraintViolatedError):
        spark.sql(_INSERTS.format(lake=lake))
    assert pieces(spark, lake) == (0, 10)
    spark.sql(f"UPDATE {lake}.shop.stock SET pieces = 9")
    spark.sql(_INSERTS.format(lake=lake))
    assert rows(spark, f"SELECT * FROM {limited}") == rows(spark, f"SELECT * FROM {lake}.shop.orders") == [("tea", 9)]
    times = {spark.sql(f"DESCRIBE HISTORY {lake}.shop.{name}").head().timestamp for name in ("orders", "limited")}
    assert len(times) == 1


def test_several_inserts_are_part_of_a_transaction(spark: SparkSession, lake: str, limited: str) -> None:
    spark.sql(f"UPDATE {lake}.shop.stock SET pieces = 9")

    def block() -> None:
        with tahoe.transaction(spark, catalog=lake):
            spark.sql(_INSERTS.format(lake=lake))
            assert spark.table(limited).count() == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    assert pieces(spark, lake) == (0, 9)


def test_several_inserts_go_behind_others(
    spark: SparkSession, lake: str, limited: str, behind_a_rival: Callable[[Callable[[], object]], None]
) -> None:
    """Also if one table has two of them, which are then run again. What another thread of the session does meanwhile is
    no part of it.
    """
    spark.conf.set("spark.tahoe.conflictRetries", "1")
    try:
        behind_a_rival(lambda: spark.sql(f"INSERT INTO {limited} VALUES ('cup', 1)"))
        spark.sql(f"FROM {lake}.shop.stock INSERT INTO {limited} SELECT item, 3 INSERT INTO {limited} SELECT item, 4")
    finally:
        spark.conf.set("spark.tahoe.conflictRetries", "0")
    assert rows(spark, f"SELECT * FROM {limited}") == [("cup", 1), ("tea", 3), ("tea", 4)]


def test_what_was_only_read_counts_on_request(spark: SparkSession, lake: str) -> None:
    other = spark.newSession()

    def block(serializable: bool) -> None:
        with tahoe.transaction(spark, catalog=lake, serializable=serializable):
            left = spark.table(f"{lake}.shop.stock").head().pieces
            spark.sql(f"INSERT INTO {lake}.shop.orders VALUES ('tea', {left})")
            other.sql(f"UPDATE {lake}.shop.stock SET pieces = pieces - 1")

    block(False)
    with pytest.raises(TransactionConflictError):
        block(True)
    assert pieces(spark, lake) == (10, 8)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE {lake}.shop.new (a INT)",
        "CREATE TABLE spark_catalog.default.new_in_block (a INT) USING delta",
        "CREATE TABLE spark_catalog.default.new_in_block USING parquet AS SELECT 1 AS a",
        "DROP TABLE {lake}.shop.stock",
        "DROP SCHEMA {lake}.shop",
        "ALTER TABLE {lake}.shop.stock RENAME TO shop.other",
        "VACUUM {lake}.shop.stock",
        "INSERT INTO delta.`{path}` VALUES (1)",
        "DELETE FROM delta.`{path}`",
        "ALTER TABLE delta.`{path}` SET TBLPROPERTIES (a = 'b')",
        "OPTIMIZE delta.`{path}`",
        "VACUUM delta.`{path}`",
        "RESTORE delta.`{path}` TO VERSION AS OF 0",
        "CREATE TABLE delta.`{path}2` DEEP CLONE delta.`{path}`",
        "GENERATE symlink_format_manifest FOR TABLE delta.`{path}`",
        "GENERATE symlink_format_manifest FOR TABLE {lake}.shop.stock",
        "CREATE TABLE default.liked_in_block LIKE default.plain_of_blocks",
        "CREATE TABLE spark_catalog.default.named_in_block USING delta LOCATION '{path}'",
        "CREATE GLOBAL TEMPORARY VIEW view_in_block USING parquet OPTIONS (path '{path}-of-view')",
        "DROP VIEW global_temp.view_of_blocks",
        "INSERT OVERWRITE DIRECTORY '{path}2' USING json SELECT 1 AS a",
        "LOAD DATA LOCAL INPATH '{path}-of-view' INTO TABLE default.plain_of_blocks",
        "EXECUTE IMMEDIATE 'DROP TABLE default.plain_of_blocks'",
        "CREATE VIEW default.view_in_block AS SELECT 1 AS a",
        "CREATE GLOBAL TEMPORARY VIEW view_in_block AS SELECT 1 AS a",
        "CREATE DATABASE spark_catalog.made_in_block",
        "ALTER DATABASE spark_catalog.default SET DBPROPERTIES (a = 'b')",
        "COMMENT ON DATABASE spark_catalog.default IS 'a'",
        "CREATE FUNCTION default.made_in_block(a INT) RETURNS INT RETURN a",
    ],
)
def test_what_a_block_cannot_undo_is_refused(spark: SparkSession, lake: str, tmp_path: Path, statement: str) -> None:
    path = tmp_path / "plain"
    for _ in range(2):
        spark.range(2).write.format("delta").mode("append").save(str(path))
    spark.range(1).write.parquet(f"{path}-of-view")
    spark.sql("CREATE TABLE IF NOT EXISTS default.plain_of_blocks (a INT) USING parquet")
    spark.sql("CREATE OR REPLACE GLOBAL TEMPORARY VIEW view_of_blocks AS SELECT 1 AS a")
    finish_background()
    before = sorted(file for file in tmp_path.glob("plain*/**/*"))
    tables = spark.sql("SHOW TABLES IN default").collect()
    with tahoe.transaction(spark, catalog=lake):
        order(spark, lake)
        with pytest.raises(OperationNotAllowedError, match="transaction"):
            spark.sql(statement.format(lake=lake, path=path))
    assert pieces(spark, lake) == (3, 7)
    assert sorted(file for file in tmp_path.glob("plain*/**/*")) == before
    assert spark.sql("SHOW TABLES IN default").collect() == tables
    assert spark.table("global_temp.view_of_blocks").count() == 1
    assert spark.read.format("delta").load(str(path)).count() == 4


def test_tables_of_other_formats_do_not_change_in_a_block(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    data = spark.range(1).selectExpr("1 AS a", "2 AS p")
    plain = "default.plain_of_block"
    data.write.format("parquet").partitionBy("p").mode("overwrite").saveAsTable(plain)
    files = sorted(file for file in tmp_path.glob("**/*"))
    with tahoe.transaction(spark, catalog=lake):
        for statement in (
            "ALTER TABLE {t} ADD COLUMNS (b INT)",
            "ALTER TABLE {t} SET TBLPROPERTIES (a = 'b')",
            "ALTER TABLE {t} DROP PARTITION (p = 2)",
            "ALTER TABLE {t} RENAME TO default.renamed_in_block",
            "ANALYZE TABLE {t} COMPUTE STATISTICS",
            "COMMENT ON TABLE {t} IS 'a'",
            "MSCK REPAIR TABLE {t}",
            "TRUNCATE TABLE {t}",
            "INSERT INTO {t} VALUES (1, 3)",
            "DROP TABLE {t}",
        ):
            with pytest.raises(OperationNotAllowedError, match="transaction"):
                spark.sql(statement.format(t=plain))
        with pytest.raises(OperationNotAllowedError, match="transaction"):
            data.write.jdbc(f"jdbc:derby:{tmp_path}/derby;create=true", "data")
        with pytest.raises(OperationNotAllowedError, match="transaction"):
            data.createOrReplaceGlobalTempView("view_in_block")
        data.write.format("noop").mode("overwrite").save()
    assert sorted(file for file in tmp_path.glob("**/*")) == files
    assert rows(spark, f"SELECT * FROM {plain}") == [(1, 2)]
    spark.sql(f"DROP TABLE {plain}")


@pytest.fixture
def foreign(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A catalog of another class, with a table `app.t`: a database beside Spark."""
    settings = {
        "": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        ".url": f"jdbc:derby:{tmp_path}/foreign;create=true",
        ".driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    }
    for of, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.foreign{of}", value)
    spark.sql("CREATE TABLE foreign.APP.t (a INT)")
    spark.sql("INSERT INTO foreign.APP.t VALUES (1)")
    yield "foreign.APP"
    spark.conf.unset("spark.sql.catalog.foreign")


def test_other_catalogs_do_not_change_in_a_block(spark: SparkSession, lake: str, foreign: str) -> None:
    with tahoe.transaction(spark, catalog=lake):
        for statement in (
            "CREATE TABLE {c}.u (a INT)",
            "CREATE TABLE {c}.u AS SELECT 1 AS a",
            "CREATE OR REPLACE TABLE {c}.t AS SELECT 1 AS a",
            "ALTER TABLE {c}.t ADD COLUMN b INT",
            "ALTER TABLE {c}.t RENAME TO APP.w",
            "CREATE INDEX i ON TABLE {c}.t (a)",
            "CREATE SCHEMA foreign.s",
            "INSERT INTO {c}.t VALUES (2)",
            "INSERT OVERWRITE {c}.t VALUES (2)",
            "DELETE FROM {c}.t",
            "TRUNCATE TABLE {c}.t",
            "DROP TABLE {c}.t",
        ):
            with pytest.raises(OperationNotAllowedError, match=r"foreign\..*transaction"):
                spark.sql(statement.format(c=foreign))
    assert rows(spark, f"SELECT * FROM {foreign}.t") == [(1,)]
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {foreign}").collect()] == ["t"]


def test_what_ends_with_the_session_is_made_in_a_block(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    spark.range(1).write.mode("overwrite").parquet(str(tmp_path / "files"))
    with tahoe.transaction(spark, catalog=lake):
        for statement in (
            "CREATE TEMPORARY VIEW of_session AS SELECT 1 AS a",
            "ALTER VIEW of_session AS SELECT 2 AS a",
            "ALTER VIEW of_session RENAME TO renamed",
            "CREATE TEMPORARY FUNCTION next_of(a INT) RETURNS INT RETURN a + 1",
            f"CREATE TEMPORARY VIEW of_files USING parquet OPTIONS (path '{tmp_path}/files')",
            "DROP VIEW of_files",
            "CREATE TABLE IF NOT EXISTS {lake}.shop.stock (other INT)",
            "CACHE TABLE renamed",
            "UNCACHE TABLE renamed",
        ):
            spark.sql(statement.format(lake=lake))
        assert rows(spark, "SELECT next_of(a) FROM renamed") == [(3,)]
        spark.sql("DROP VIEW renamed")
        spark.sql("DROP TEMPORARY FUNCTION next_of")


def test_a_stream_is_no_part_of_a_block(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    stream = spark.readStream.table(f"{lake}.shop.stock").writeStream.format("delta")
    stream.option("checkpointLocation", str(tmp_path / "c"))
    with tahoe.transaction(spark, catalog=lake), pytest.raises(OperationNotAllowedError, match="A stream"):
        stream.toTable(f"{lake}.shop.orders")


def test_blocks_begin_and_end_in_turn(spark: SparkSession, lake: str) -> None:
    with pytest.raises(TransactionStateError, match="in no transaction"):
        spark.sql("COMMIT")
    with tahoe.transaction(spark, catalog=lake), pytest.raises(TransactionStateError, match="already"):
        spark.sql("BEGIN TRANSACTION")
    with pytest.raises(CatalogNotChosenError, match="nowhere"), tahoe.transaction(spark, catalog="nowhere"):
        pass
    spark.sql(f"USE {lake}.shop")
    spark.sql("START TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    order(spark, lake)
    spark.sql("COMMIT WORK")
    assert pieces(spark, lake) == (3, 7)


def test_sessions_have_blocks_of_their_own(spark: SparkSession, lake: str) -> None:
    """At the same time, in threads; each thread's session sees its own writes, and all orders are there at the end."""
    failures = list[BaseException]()

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    def orders(number: int) -> Callable[[], None]:
        def work() -> None:
            session = spark.newSession()
            for _ in range(3):
                with tahoe.transaction(session, catalog=lake):
                    session.sql(f"INSERT INTO {lake}.shop.orders VALUES ('{number}', 1)")
                    session.sql(f"INSERT INTO {lake}.shop.stock VALUES ('{number}', -1)")
                    ordered, left = pieces(session, lake)
                    assert ordered + left == 10

        return work

    threads = [threading.Thread(target=run, args=(orders(number),)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert pieces(spark, lake) == (9, 1)


def test_a_block_has_the_changes_of_its_own_versions(spark: SparkSession, lake: str) -> None:
    spark.sql(f"ALTER TABLE {lake}.shop.stock SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    changes = f"SELECT _change_type, pieces FROM table_changes('{lake}.shop.stock', 2)"
    with tahoe.transaction(spark, catalog=lake):
        spark.sql(f"UPDATE {lake}.shop.stock SET pieces = 9")
        assert rows(spark, changes) == [("update_postimage", 9), ("update_preimage", 10)]
    assert rows(spark, changes) == [("update_postimage", 9), ("update_preimage", 10)]


def test_a_block_of_a_server_is_one_of_its_database(spark: SparkSession, lake_url: str, tmp_path: Path) -> None:
    """It changes both tables or none, goes behind what does not conflict, and is refused if something does."""
    database = tahoe.Catalog(lake_url, root=str(tmp_path / "lake"))
    with serving(lake_url, "--root", str(tmp_path / "lake"), "--no-auth") as (_, at):
        tahoe.enable(spark, catalogs={"far": at})
        spark.sql("CREATE SCHEMA far.shop")
        spark.sql("CREATE TABLE far.shop.orders (item STRING, pieces INT)")
        spark.sql("CREATE TABLE far.shop.stock AS SELECT 'tea' AS item, 10 AS pieces")
        with tahoe.transaction(spark, catalog="far"):
            spark.sql("INSERT INTO far.shop.orders VALUES ('tea', 3)")
            spark.sql("UPDATE far.shop.stock SET pieces = pieces - 3 WHERE item = 'tea'")
            assert pieces(spark, "far") == (3, 7)
            assert [database.table(f"shop.{name}").version for name in ("orders", "stock")] == [0, 0]
            database.table("shop.orders").append(pa.table({"item": ["cup"], "pieces": pa.array([1], pa.int32())}))
        assert pieces(spark, "far") == (4, 7)
        with pytest.raises(KeyError), tahoe.transaction(spark, catalog="far"):
            spark.sql("DELETE FROM far.shop.orders")
            raise KeyError
        with pytest.raises(TransactionConflictError), tahoe.transaction(spark, catalog="far", serializable=True):
            spark.sql("INSERT INTO far.shop.orders SELECT * FROM far.shop.stock")
            database.table("shop.stock").update({"pieces": "pieces - 1"})
        assert pieces(spark, "far") == (4, 6)
        finish_background()
    spark.conf.unset("spark.sql.catalog.far")


def test_the_catalog_without_spark_sees_the_same(spark: SparkSession, lake: str, lake_url: str) -> None:
    catalog = tahoe.Catalog(lake_url)
    with catalog.transaction() as changes:
        changes.table("shop.orders").append(pa.table({"item": ["tea"], "pieces": pa.array([4], pa.int32())}))
        changes.table("shop.stock").update({"pieces": "pieces - 4"})
        assert pieces(spark, lake) == (0, 10)
    assert pieces(spark, lake) == (4, 6)
